//! Which registrations are undecided, of names for actors that are started, too, by the actor that they are for: an actor's end, and whether it is still needed, are
//! found without a look at anybody else's.

use std::{collections::BTreeSet, ops::Bound};

use crate::core::{message::Wish, meta, table::RequestNumber};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    /// Each with its actor.
    by_actor: BTreeSet<(u64, RequestNumber)>,
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
            self.by_actor.insert((actor, number));
        }
        self.unheld += usize::from(wish.starts());
    }

    /// It is not any more.
    pub(super) fn ends(&mut self, wish: &Wish, number: RequestNumber) {
        self.bytes -= meta::weight(wish.meta());
        self.unheld -= usize::from(wish.starts());
        if let Some(actor) = wish.actor() {
            self.by_actor.remove(&(actor, number));
        }
    }

    pub(super) fn is_for(&self, actor: u64) -> bool {
        // Requests count from 1.
        self.numbers_of(actor, RequestNumber(0)).next().is_some()
    }

    /// The registrations for an actor, behind a number.
    pub(super) fn numbers_of(
        &self,
        actor: u64,
        behind: RequestNumber,
    ) -> impl Iterator<Item = RequestNumber> + '_ {
        let (behind, last) = ((actor, behind), (actor, RequestNumber(u64::MAX)));
        let all = self.by_actor.range((Bound::Excluded(behind), Bound::Included(last)));
        all.map(|(_, number)| *number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_actor.is_empty() && self.unheld == 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::Position;
    use callsign_transport::Kind;

    use super::*;
    use crate::core::meta::Meta;

    #[test]
    fn registrations_are_found_by_their_actors_until_they_end() {
        let meta = || Some(Meta::new(&7).unwrap());
        let (kind, position) = (Kind(7), Position(1));
        let wishes = [
            Wish::Register { actor: Some(5), kind, meta: meta() },
            Wish::Register { actor: Some(5), kind, meta: None },
            Wish::Bind { position, actor: 6, meta: meta() },
            Wish::Register { actor: None, kind, meta: None },
            Wish::Update { position, revision: None, meta: meta() },
        ];
        let mut asking = Asking::default();
        let numbered = || (1..).map(RequestNumber).zip(&wishes);
        numbered().for_each(|(number, wish)| asking.begins(wish, number));
        let of = |asking: &Asking, actor, behind| {
            asking.numbers_of(actor, RequestNumber(behind)).map(|number| number.0).collect::<Vec<_>>()
        };
        assert_eq!((of(&asking, 5, 0), of(&asking, 5, 1), of(&asking, 6, 0)), (vec![1, 2], vec![2], vec![3]));
        let is_for = |asking: &Asking| [5, 6, 7].map(|actor| asking.is_for(actor));
        assert_eq!((asking.bytes(), is_for(&asking)), (3, [true, true, false]));
        for (number, wish) in numbered().take(3) {
            asking.ends(wish, number);
            assert_eq!(asking.is_for(5), number.0 < 2);
        }
        assert!(!asking.is_empty() && !asking.is_for(6), "an actor is yet to be started");
        asking.ends(&wishes[3], RequestNumber(4));
        assert!(asking.is_empty(), "nothing is registered");
        asking.ends(&wishes[4], RequestNumber(5));
        assert_eq!(asking, Asking::default());
    }
}
