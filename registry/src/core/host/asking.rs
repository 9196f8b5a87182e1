//! Which registrations are undecided, of names for actors that are started, too, by the actor that they are for: an actor's end, and whether it is still needed, are
//! found without a look at anybody else's.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Unbounded},
};

use crate::core::{message::Wish, meta, table::RequestNumber};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    by_actor: BTreeMap<u64, BTreeSet<RequestNumber>>,
    /// Those of names whose actors are yet to be started.
    unheld: usize,
    /// How many bytes of metadata all undecided requests bring.
    bytes: usize,
}

impl Asking {
    /// A request is undecided from here on. Only registrations are found by their actors.
    pub(super) fn begins(&mut self, wish: &Wish, number: RequestNumber) {
        self.bytes += meta::weight(wish.meta());
        if let Some(actor) = wish.actor() {
            self.by_actor.entry(actor).or_default().insert(number);
        }
        self.unheld += usize::from(wish.starts());
    }

    /// It is not any more.
    pub(super) fn ends(&mut self, wish: &Wish, number: RequestNumber) {
        self.bytes -= meta::weight(wish.meta());
        self.unheld -= usize::from(wish.starts());
        let Some(actor) = wish.actor() else { return };
        let Some(numbers) = self.by_actor.get_mut(&actor) else { return };
        numbers.remove(&number);
        if numbers.is_empty() {
            self.by_actor.remove(&actor);
        }
    }

    pub(super) fn is_for(&self, actor: u64) -> bool {
        self.by_actor.contains_key(&actor)
    }

    /// The registrations for an actor, behind a number.
    pub(super) fn numbers_of(
        &self,
        actor: u64,
        behind: RequestNumber,
    ) -> impl Iterator<Item = RequestNumber> + '_ {
        let numbers = self.by_actor.get(&actor).into_iter();
        numbers.flat_map(move |numbers| numbers.range((Excluded(behind), Unbounded))).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_actor.is_empty() && self.unheld == 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
