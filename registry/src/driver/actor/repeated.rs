//! What happens again and again is said now and then.

/// What happened last, and how often in a row.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    what: String,
    times: u64,
}

impl Repeated {
    /// It happened, once more. How often in a row, if that is to be said: at the first time, the second, the fourth, and so on.
    pub(super) fn count(&mut self, what: &str) -> Option<u64> {
        if self.what != what {
            *self = Self { what: what.to_owned(), times: 0 };
        }
        self.times += 1;
        self.times.is_power_of_two().then_some(self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_often_it_happened_the_less_often_it_is_said() {
        let mut repeated = Repeated::default();
        let said: Vec<u64> = (0..20).filter_map(|_| repeated.count("one")).collect();
        assert_eq!(said, [1, 2, 4, 8, 16]);
        assert_eq!(
            [repeated.count("other"), repeated.count("other"), repeated.count("other")],
            [Some(1), Some(2), None]
        );
        assert_eq!(repeated.count("one"), Some(1), "it is new again");
    }
}
