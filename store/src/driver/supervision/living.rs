//! What is kept only as long as something else lives.

/// So many entries are kept without a look at whether they are of use.
const UNSWEPT_ENTRIES: usize = 16;

/// Entries, each of which is of use only as long as something lives. Those that are of no use any more are dropped whenever the list has
/// doubled, so that adding one costs little, however many there are.
#[derive(Debug)]
pub struct Living<T> {
    entries: Vec<T>,
    /// How many there are when it is looked next which of them are of use.
    looks_at: usize,
}

impl<T> Default for Living<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), looks_at: UNSWEPT_ENTRIES }
    }
}

impl<T> Living<T> {
    /// Adds an entry. `lives` says whether one is still of use.
    pub fn add(&mut self, entry: T, lives: impl Fn(&T) -> bool) {
        if self.entries.len() >= self.looks_at {
            self.entries.retain(lives);
            self.looks_at = UNSWEPT_ENTRIES.max(2 * self.entries.len());
        }
        self.entries.push(entry);
    }

    /// All entries, in the order in which they were added. Some of them may be of no use any more.
    pub fn all(&self) -> &[T] {
        &self.entries
    }

    /// Takes all entries out.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(self).entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_is_kept_in_its_order_and_of_the_rest_no_more_than_as_much_again() {
        let mut living = Living::default();
        let lives = |entry: &usize| entry.is_multiple_of(10);
        let mut most = 0;
        for entry in 0..1000 {
            living.add(entry, lives);
            most = most.max(living.all().len());
        }
        assert!(most <= 200, "{most}");
        let kept: Vec<_> = living.take().into_iter().filter(lives).collect();
        assert_eq!(kept, (0..1000).step_by(10).collect::<Vec<_>>());
        assert!(living.all().is_empty());
    }

    #[test]
    fn adding_costs_little_however_many_there_are() {
        let (mut living, asked) = (Living::default(), std::cell::Cell::new(0));
        for entry in 0..1000 {
            living.add(entry, |_| {
                asked.set(asked.get() + 1);
                true
            });
        }
        assert_eq!(living.all().len(), 1000);
        assert!(asked.get() <= 2000, "{} questions", asked.get());
    }
}
