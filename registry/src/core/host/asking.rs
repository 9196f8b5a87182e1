//! Which registrations are undecided, by the actor that they are for: an actor's end, and whether it is still needed, are
//! found without a look at anybody else's.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::{message::Wish, meta, table::RequestNumber};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    by_actor: BTreeMap<u64, BTreeSet<RequestNumber>>,
    /// How many bytes of metadata all undecided requests bring.
    bytes: usize,
}

impl Asking {
    /// A request is undecided from here on. Only registrations are found by their actors.
    pub(super) fn begins(&mut self, wish: &Wish, number: RequestNumber) {
        self.bytes += meta::weight(wish.meta());
        if let Wish::Register { actor, .. } = wish {
            self.by_actor.entry(*actor).or_default().insert(number);
        }
    }

    /// It is not any more.
    pub(super) fn ends(&mut self, wish: &Wish, number: RequestNumber) {
        self.bytes -= meta::weight(wish.meta());
        let Wish::Register { actor, .. } = wish else { return };
        let Some(numbers) = self.by_actor.get_mut(actor) else { return };
        numbers.remove(&number);
        if numbers.is_empty() {
            self.by_actor.remove(actor);
        }
    }

    pub(super) fn is_for(&self, actor: u64) -> bool {
        self.by_actor.contains_key(&actor)
    }

    /// The registrations for an actor.
    pub(super) fn numbers_of(&self, actor: u64) -> impl Iterator<Item = RequestNumber> + '_ {
        self.by_actor.get(&actor).into_iter().flatten().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_actor.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
