//! A table whose entries nobody takes out when they have become useless.

use std::collections::BTreeMap;

/// Below so many entries a table is never looked through.
const SWEEP_FROM: usize = 1024;

/// Loses the useless entries now and then: of those that are not known to be useful it never has more than twice as many as were useful the
/// last time that it was looked through, or 1024.
pub(super) struct Swept<K, V> {
    entries: BTreeMap<K, V>,
    /// It is looked through once it has so many entries that are not known to be useful.
    at: usize,
}

impl<K, V> Default for Swept<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), at: SWEEP_FROM }
    }
}

impl<K: Ord, V> Swept<K, V> {
    /// Adds an entry, where so many are known to be useful. O(log n); over many entries, less than three calls of `is_useful` for each that is
    /// not known to be.
    pub(super) fn insert(
        &mut self,
        key: K,
        value: V,
        known: usize,
        mut is_useful: impl FnMut(&K, &V) -> bool,
    ) {
        if self.entries.len() >= self.at.saturating_add(known) {
            self.entries.retain(|key, value| is_useful(key, value));
            self.at = SWEEP_FROM.max(self.entries.len().saturating_sub(known) * 2);
        }
        self.entries.insert(key, value);
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// What there is of many keys, in their order. Keys that are neighbours in the table are found faster than one by one.
    pub(super) fn get_all<'a>(&'a self, keys: &'a [K]) -> impl Iterator<Item = &'a V> {
        let mut ahead = self.entries.range(..);
        let mut next = ahead.next();
        keys.iter().filter_map(move |key| {
            if next.is_none_or(|(other, _)| other != key) {
                ahead = self.entries.range(key..);
                next = ahead.next();
            }
            let (_, value) = next.filter(|(other, _)| *other == key)?;
            next = ahead.next();
            Some(value)
        })
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key)
    }

    /// All that there is, the useless too.
    pub(super) fn take(&mut self) -> impl Iterator<Item = V> + use<K, V> {
        std::mem::take(&mut self.entries).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_useless_does_not_stay() {
        let mut table = Swept::default();
        for key in 0..SWEEP_FROM * 5 {
            table.insert(key, (), 0, |key, ()| *key == 7);
            assert!(table.entries.len() <= SWEEP_FROM);
        }
        assert_eq!(table.get(&7), Some(&()));
        assert_eq!(table.remove(&7), Some(()));
        assert_eq!(table.get(&7), None);
    }

    #[test]
    fn what_is_known_to_be_useful_has_nobody_look_and_what_is_useless_beside_it_goes() {
        let known = SWEEP_FROM * 3;
        let is_known = |key: usize| key.is_multiple_of(4) && key < 4 * known;
        let (mut table, mut looks) = (Swept::default(), 0);
        for key in 0..known {
            table.insert(key * 4, (), key, |_, ()| {
                looks += 1;
                true
            });
        }
        assert_eq!(looks, 0);
        for key in (0..SWEEP_FROM * 20).filter(|key| !is_known(*key)) {
            table.insert(key, (), known, |key, ()| is_known(*key));
            assert!(table.entries.len() <= known + SWEEP_FROM);
        }
        table.take().for_each(|()| looks += 1);
        assert!((known..=known + SWEEP_FROM).contains(&looks), "{looks}");
    }

    #[test]
    fn many_are_found_in_the_order_in_which_they_are_asked_for() {
        let mut table = Swept::default();
        for key in [1, 2, 3, 5, 8] {
            table.insert(key, key * 10, 0, |_, _| true);
        }
        let found = |keys: &[i32]| table.get_all(keys).copied().collect::<Vec<_>>();
        assert_eq!(found(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), [10, 20, 30, 50, 80]);
        assert_eq!(found(&[8, 0, 5, 5, 9, 1]), [80, 50, 50, 10], "in whatever order, and twice");
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn what_is_useful_is_not_looked_at_again_and_again() {
        let (mut table, mut looks) = (Swept::default(), 0);
        for key in 0..=SWEEP_FROM * 4 {
            table.insert(key, (), 0, |_, ()| {
                looks += 1;
                true
            });
        }
        assert_eq!(looks, SWEEP_FROM + SWEEP_FROM * 2 + SWEEP_FROM * 4);
        assert_eq!(table.take().count(), SWEEP_FROM * 4 + 1);
        assert_eq!(table.take().count(), 0);
    }
}
