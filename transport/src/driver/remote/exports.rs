//! Which of this node's actors peers may reach.

use std::sync::Mutex;

use callsign_store::lock::lock;
use ractor::{ActorCell, ActorStatus, message::SerializedMessage};
use tracing::Span;

use super::{
    kind::{Kind, RemoteMessage},
    swept::Swept,
    traced::{SendTo, send_to},
};
use crate::core::frame::NotDelivered;

/// What peers may send an actor.
#[derive(Clone)]
struct Export {
    actor: ActorCell,
    kind: Kind,
    /// How it is read, if that is known.
    send_to: Option<SendTo>,
}

/// The local actors that peers may reach.
#[derive(Default)]
pub(crate) struct Exports {
    kinds: Mutex<Swept<u64, Export>>,
}

/// One that was found.
pub(super) struct Exported {
    actor: ActorCell,
    send_to: Option<SendTo>,
}

impl Exports {
    /// Messages of this kind, of whatever type they are.
    pub(super) fn add(&self, actor: ActorCell, kind: Kind) {
        self.insert(Export { actor, kind, send_to: None });
    }

    /// Messages of this type.
    pub(super) fn add_typed<M: RemoteMessage>(&self, actor: ActorCell) {
        self.insert(Export { actor, kind: Kind::of_messages::<M>(), send_to: Some(send_to::<M>) });
    }

    fn insert(&self, export: Export) {
        // Numbers are not used twice, so those of the dead are only in the way.
        lock(&self.kinds).insert(export.actor.get_id().pid(), export, |_, export| export.lives());
    }

    pub(super) fn find(&self, pid: u64, kind: u64) -> Result<Exported, NotDelivered> {
        Self::find_in(&lock(&self.kinds), pid, kind)
    }

    /// Adds those of these actors that take this kind, and live.
    pub(super) fn find_all(&self, pids: &[u64], kind: u64, found: &mut Vec<Exported>) {
        let kinds = lock(&self.kinds);
        found.extend(pids.iter().filter_map(|pid| Self::find_in(&kinds, *pid, kind).ok()));
    }

    fn find_in(kinds: &Swept<u64, Export>, pid: u64, kind: u64) -> Result<Exported, NotDelivered> {
        let export = kinds.get(&pid).ok_or(NotDelivered::NotExported)?;
        if export.kind != Kind(kind) {
            return Err(NotDelivered::WrongKind);
        }
        if !export.lives() || !export.actor.supports_remoting() {
            return Err(NotDelivered::Gone);
        }
        Ok(Exported { actor: export.actor.clone(), send_to: export.send_to })
    }
}

impl Export {
    /// As ractor's own table of actors has it.
    fn lives(&self) -> bool {
        self.actor.get_status() < ActorStatus::Stopping
    }
}

impl Exported {
    /// Sends it a message, which it handles in this span, if somebody listens to that.
    pub(super) fn send(&self, message: SerializedMessage, span: &Span) -> Result<(), NotDelivered> {
        match self.send_to.filter(|_| !span.is_disabled()) {
            Some(send_to) => span.in_scope(|| send_to(&self.actor, message)),
            // The actor reads it.
            None => self.actor.send_serialized(message).map_err(|_| NotDelivered::Gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr, ActorRef, message::BoxedDowncastErr};

    use super::{super::side::LinkSupervisor, *};

    /// Can be read from bytes, whatever they are.
    struct Any;

    impl ractor::Message for Any {
        fn serializable() -> bool {
            true
        }

        fn deserialize(_: SerializedMessage) -> Result<Self, BoxedDowncastErr> {
            Ok(Self)
        }
    }

    struct Taker;

    impl Actor for Taker {
        type Msg = Any;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Any>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_actor_stays_exported_however_many_have_ended_meanwhile() {
        let exports = Exports::default();
        let (actor, _) = Actor::spawn(None, Taker, ()).await.unwrap();
        let pid = actor.get_id().pid();
        exports.add(actor.get_cell(), Kind(7));
        let mut dead = Vec::new();
        for _ in 0..3000 {
            let (actor, running) = Actor::spawn(None, Taker, ()).await.unwrap();
            exports.add(actor.get_cell(), Kind(7));
            actor.stop(None);
            running.await.unwrap();
            dead.push(actor.get_id().pid());
        }
        assert_eq!(exports.find(pid, 8).map(drop), Err(NotDelivered::WrongKind));
        assert_eq!(exports.find(pid, 7).map(drop), Ok(()));
        assert_eq!(exports.find(dead[0], 7).map(drop), Err(NotDelivered::NotExported), "forgotten");
        assert_eq!(exports.find(dead[2999], 7).map(drop), Err(NotDelivered::Gone));
        let found = |pids: &[u64], kind| {
            let mut found = Vec::new();
            exports.find_all(pids, kind, &mut found);
            found.len()
        };
        assert_eq!((found(&[dead[0], pid, dead[2999]], 7), found(&[pid], 8)), (1, 0));
    }

    #[tokio::test]
    async fn an_actor_whose_messages_do_not_travel_is_as_good_as_gone() {
        let exports = Exports::default();
        let (actor, _) = Actor::spawn(None, LinkSupervisor, ()).await.unwrap();
        exports.add(actor.get_cell(), Kind(7));
        assert_eq!(exports.find(actor.get_id().pid(), 7).map(drop), Err(NotDelivered::Gone));
    }
}
