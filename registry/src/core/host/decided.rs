//! Verdicts whose time has not come: the replica is not there yet, or the session is not trusted.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use super::{Open, Position, RequestNumber, Verdict};

/// A verdict whose time has not come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decided {
    pub(super) open: Box<Open>,
    pub(super) verdict: Verdict,
    pub(super) position: Position,
}

impl Decided {
    fn is_refusal(&self) -> bool {
        !self.verdict.is_grant()
    }
}

/// All of them, in the order in which their time comes: grants before refusals, each by position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AllDecided {
    by_number: BTreeMap<RequestNumber, Decided>,
    /// Whether they are refusals, and their positions. Some numbers of a list may not be there any more.
    in_order: BTreeMap<(bool, Position), Vec<RequestNumber>>,
}

impl AllDecided {
    pub(super) fn insert(&mut self, number: RequestNumber, one: Decided) {
        self.in_order.entry((one.is_refusal(), one.position)).or_default().push(number);
        self.by_number.insert(number, one);
    }

    pub(super) fn get_mut(&mut self, number: RequestNumber) -> Option<&mut Open> {
        self.by_number.get_mut(&number).map(|one| &mut *one.open)
    }

    /// Those behind a number, in the order of their numbers.
    pub(super) fn opens_behind(
        &mut self,
        number: RequestNumber,
    ) -> impl Iterator<Item = (RequestNumber, &mut Open)> {
        let all = self.by_number.range_mut((Excluded(number), Unbounded));
        all.map(|(number, one)| (*number, &mut *one.open))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Takes the one of the least number.
    pub(super) fn pop(&mut self) -> Option<(RequestNumber, Box<Open>)> {
        let (number, one) = self.by_number.pop_first()?;
        if self.by_number.is_empty() {
            self.in_order.clear();
        }
        Some((number, one.open))
    }

    /// Takes those that hold at `reached` or before: the grants, if they may be passed on, and then the rest. What stays
    /// is not looked at.
    pub(super) fn take_due(&mut self, reached: Position, with_grants: bool) -> Vec<(RequestNumber, Decided)> {
        let mut taken = Vec::new();
        for is_refusal in if with_grants { [false, true].as_slice() } else { &[true] } {
            let all = (*is_refusal, Position(0))..=(*is_refusal, reached);
            while let Some((&key, _)) = self.in_order.range(all.clone()).next()
                && let Some(mut numbers) = self.in_order.remove(&key)
            {
                // The order of the requests counts, in whatever order their verdicts came.
                numbers.sort_unstable();
                taken.reserve(numbers.len());
                for number in numbers {
                    taken.extend(self.by_number.remove(&number).map(|one| (number, one)));
                }
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::Wish;

    #[test]
    fn grants_come_first_if_they_may_and_nothing_comes_before_its_position() {
        let mut decided = AllDecided::default();
        let grant = |position| Verdict::Updated { revision: Position(position) };
        for (number, position, verdict) in [
            (1, 0, Verdict::Gone),
            (2, 5, Verdict::Released),
            (3, 6, Verdict::Gone),
            (4, 0, grant(0)),
            (5, 5, grant(5)),
            (6, 6, grant(6)),
        ] {
            let wish = Wish::Update { position: Position(1), revision: None, meta: None };
            let (open, position) = (Box::new(Open::of(wish)), Position(position));
            decided.insert(RequestNumber(number), Decided { open, verdict, position });
        }
        let mut due = |with_grants| {
            let due = decided.take_due(Position(5), with_grants);
            due.into_iter().map(|(number, _)| number.0).collect::<Vec<_>>()
        };
        assert_eq!(due(false), [1, 2]);
        assert_eq!(due(true), [4, 5]);
        assert_eq!(due(true), [0; 0]);
        assert_eq!((decided.len(), decided.is_empty()), (2, false));
        let left = [decided.pop(), decided.pop(), decided.pop()];
        assert_eq!(left.map(|one| one.map(|(number, _)| number.0)), [Some(3), Some(6), None]);
        assert_eq!(decided, AllDecided::default());
    }

    #[test]
    fn those_of_one_position_come_in_the_order_of_their_requests_and_what_was_taken_does_not_come_again() {
        let mut decided = AllDecided::default();
        for number in [3, 1, 2] {
            let wish = Wish::Update { position: Position(1), revision: None, meta: None };
            let verdict = Verdict::Updated { revision: Position(5) };
            let one = Decided { open: Box::new(Open::of(wish)), verdict, position: Position(5) };
            decided.insert(RequestNumber(number), one);
        }
        assert_eq!(decided.pop().map(|(number, _)| number.0), Some(1));
        let due = decided.take_due(Position(5), true);
        assert_eq!(due.into_iter().map(|(number, _)| number.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(decided, AllDecided::default());
    }
}
