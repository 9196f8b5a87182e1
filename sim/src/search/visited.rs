//! Which states were seen, and from where: 16 bytes of fingerprint, 4 of predecessor, and a table that finds them with
//! 4 bytes per slot, a third to two thirds full. So at most 32 bytes for a state, and 6 more while the table grows.

use super::Fingerprint;

/// The number of a state, in the order in which they were seen.
pub(super) type Number = u32;

/// An initial state has this predecessor.
pub(super) const NOBODY: Number = Number::MAX;
/// Kept in pieces, so that growing copies nothing and wastes less than one.
const TABLE_PIECE: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Visited {
    fingerprints: Vec<Vec<Fingerprint>>,
    parents: Vec<Vec<Number>>,
    length: usize,
    /// The number of a state plus one, or 0. A power of two long.
    table: Vec<Number>,
}

impl Visited {
    pub(super) fn new() -> Self {
        Visited { fingerprints: Vec::new(), parents: Vec::new(), length: 0, table: vec![0; 1024] }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Whether no more states can be numbered.
    pub(super) fn is_full(&self) -> bool {
        self.length >= NOBODY as usize - 1
    }

    /// Adds a state; `None` if it was seen before. Must not be called when full.
    pub(super) fn insert(&mut self, fingerprint: Fingerprint, parent: Number) -> Option<Number> {
        let slot = self.slot(fingerprint);
        if self.table[slot] != 0 {
            return None;
        }
        let number = number(self.length);
        if self.length.is_multiple_of(TABLE_PIECE) {
            self.fingerprints.push(Vec::with_capacity(TABLE_PIECE));
            self.parents.push(Vec::with_capacity(TABLE_PIECE));
        }
        self.fingerprints[self.length / TABLE_PIECE].push(fingerprint);
        self.parents[self.length / TABLE_PIECE].push(parent);
        self.length += 1;
        self.table[slot] = number + 1;
        if self.length * 3 > self.table.len() * 2 {
            self.grow();
        }
        Some(number)
    }

    /// From an initial state to this one.
    pub(super) fn path_to(&self, number: Number) -> Vec<Number> {
        let mut path = vec![number];
        let mut at = number as usize;
        loop {
            let parent = self.parents[at / TABLE_PIECE][at % TABLE_PIECE];
            if parent == NOBODY {
                break;
            }
            path.push(parent);
            at = parent as usize;
        }
        path.reverse();
        path
    }

    pub(super) fn fingerprint(&self, number: Number) -> Fingerprint {
        self.fingerprints[number as usize / TABLE_PIECE][number as usize % TABLE_PIECE]
    }

    /// Bytes in use.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.fingerprints.len() * TABLE_PIECE * (size_of::<Fingerprint>() + size_of::<Number>())
            + self.table.capacity() * size_of::<Number>()
    }

    /// Where a fingerprint is, or would be.
    fn slot(&self, fingerprint: Fingerprint) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = low(fingerprint) & mask;
        while self.table[slot] != 0 && self.fingerprint(self.table[slot] - 1) != fingerprint {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let mask = self.table.len() * 2 - 1;
        let mut table = vec![0; mask + 1];
        for (index, fingerprint) in self.fingerprints.iter().flatten().enumerate() {
            let mut slot = low(*fingerprint) & mask;
            while table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            table[slot] = number(index) + 1;
        }
        self.table = table;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`is_full` comes first")]
fn number(index: usize) -> Number {
    index as Number
}

/// Any part of a fingerprint will do.
fn low(fingerprint: Fingerprint) -> usize {
    fingerprint as usize
}

#[cfg(test)]
mod tests {
    use super::{super::fingerprint, *};

    #[test]
    fn a_state_is_seen_once() {
        let mut visited = Visited::new();
        for round in 0..2 {
            for value in 0..5_000_u64 {
                let number = visited.insert(fingerprint(&value), NOBODY);
                assert_eq!(number, (round == 0).then(|| u32::try_from(value).unwrap()));
            }
        }
        assert_eq!(visited.len(), 5_000);
    }

    #[test]
    fn the_way_back_is_known() {
        let mut visited = Visited::new();
        let mut last = NOBODY;
        for value in 0..100_000_u64 {
            last = visited.insert(fingerprint(&value), last).unwrap();
        }
        assert_eq!(visited.path_to(last), (0..100_000).collect::<Vec<_>>());
        assert_eq!(visited.fingerprint(70_000), fingerprint(&70_000_u64));
    }

    #[test]
    fn a_state_takes_less_than_40_bytes() {
        let mut visited = Visited::new();
        for value in 0..400_000_u64 {
            let before = visited.table.len();
            visited.insert(fingerprint(&value), NOBODY);
            if visited.len() >= TABLE_PIECE * 2 && visited.len().is_multiple_of(TABLE_PIECE)
                || visited.table.len() > before
            {
                let growing = if visited.table.len() > before { before * 4 } else { 0 };
                let spare = TABLE_PIECE * 20;
                assert!(visited.bytes() + growing < visited.len() * 40 + spare, "{}", visited.len());
            }
        }
    }
}
