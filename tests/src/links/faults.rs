//! What is done to a way at present.

use super::way::Way;

/// Several things may be done at once: a way is what all of them make of it, until the last is over.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Way>);

impl Faults {
    /// One more.
    pub(super) fn impose(&mut self, how: &Way) {
        self.0.push(how.clone());
    }

    /// One that is equal to this is over. None is, if everything was healed meanwhile.
    pub(super) fn lift(&mut self, how: &Way) {
        if let Some(at) = self.0.iter().position(|fault| fault == how) {
            self.0.swap_remove(at);
        }
    }

    /// All are.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What they make of the way.
    pub(super) fn sum(&self) -> Way {
        self.0.iter().fold(Way::default(), |sum, fault| sum.and(fault))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_way_is_what_all_faults_make_of_it_until_the_last_is_over() {
        let (slow, lossy) = (Way::slow(Duration::from_millis(100)), Way::lossy(100));
        let mut faults = Faults::default();
        for fault in [&Way::cut(), &slow, &Way::cut(), &lossy] {
            faults.impose(fault);
        }
        faults.lift(&Way::cut());
        assert!(!faults.sum().is_open, "it was cut twice");
        faults.lift(&Way::cut());
        assert_eq!(faults.sum(), Way { lost_per_mille: 100, ..slow.clone() });
        faults.impose(&lossy);
        assert_eq!(faults.sum().lost_per_mille, 190, "what one lets through the other may lose");
        faults.clear();
        faults.lift(&slow);
        assert_eq!(faults.sum(), Way::default());
    }
}
