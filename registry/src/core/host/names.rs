//! The names that one actor holds, in their order. Most actors hold one, which takes no memory of its own.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

use crate::core::name::Name;

/// The names of one actor, in one form only: those of two hosts that are equal are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ActorNames {
    One(Name),
    /// None, or at least two.
    Others(BTreeSet<Name>),
}

impl Default for ActorNames {
    fn default() -> Self {
        Self::Others(BTreeSet::new())
    }
}

impl ActorNames {
    pub(super) fn insert(&mut self, name: Name) {
        match self {
            Self::One(one) if *one == name => {}
            Self::One(one) => *self = Self::Others(BTreeSet::from([one.clone(), name])),
            Self::Others(others) if others.is_empty() => *self = Self::One(name),
            Self::Others(others) => _ = others.insert(name),
        }
    }

    pub(super) fn remove(&mut self, name: &Name) {
        match self {
            Self::One(one) if one == name => *self = Self::default(),
            Self::One(_) => {}
            Self::Others(others) => {
                others.remove(name);
                if others.len() == 1
                    && let Some(one) = others.pop_first()
                {
                    *self = Self::One(one);
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Others(others) => others.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.behind(None)
    }

    /// Those behind a name in their order; without one, all.
    pub(super) fn behind<'a>(&'a self, name: Option<&Name>) -> impl Iterator<Item = &'a Name> {
        let (one, others) = match self {
            Self::One(one) => (Some(one), None),
            Self::Others(others) => (None, Some(others)),
        };
        let one = one.filter(|one| name.is_none_or(|name| *one > name));
        let begin = name.map_or(Unbounded, Excluded);
        let others = others.into_iter().flat_map(move |others| others.range::<Name, _>((begin, Unbounded)));
        one.into_iter().chain(others)
    }

    pub(super) fn last(&self) -> Option<&Name> {
        match self {
            Self::One(one) => Some(one),
            Self::Others(others) => others.last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever comes and goes, it says what a set says, and says it the same way.
    #[test]
    fn one_name_and_many_are_a_set() {
        let mut random = callsign_store::random::SplitMix64::new(7);
        let (mut names, mut set) = (ActorNames::default(), BTreeSet::new());
        let all = ["a", "b", "c", "d"].map(Name::from);
        let mut sizes = [0; 5];
        for _ in 0..500 {
            let (name, draw) = (&all[(random.draw() % 4) as usize], random.draw() % 2);
            if draw == 0 {
                names.insert(name.clone());
                set.insert(name.clone());
            } else {
                names.remove(name);
                set.remove(name);
            }
            assert!(names.iter().eq(&set));
            for name in &all {
                assert!(names.behind(Some(name)).eq(set.range::<Name, _>((Excluded(name), Unbounded))));
            }
            assert_eq!((names.len(), names.is_empty()), (set.len(), set.is_empty()));
            assert_eq!(names.last(), set.last());
            let mut anew = ActorNames::default();
            for name in &set {
                anew.insert(name.clone());
            }
            assert_eq!(names, anew);
            sizes[set.len()] += 1;
        }
        assert!(sizes.iter().all(|times| *times > 5), "{sizes:?}");
    }
}
