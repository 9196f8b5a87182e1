//! Which of this node's actors peers may reach.

use std::sync::Mutex;

use callsign_store::lock::lock;
use ractor::{ActorCell, ActorId, message::SerializedMessage, registry::where_is_pid};
use tracing::Span;

use super::{
    kind::{Kind, RemoteMessage},
    swept::Swept,
    traced::{SendTo, send_to},
};
use crate::core::frame::NotDelivered;

/// What peers may send an actor.
#[derive(Clone, Copy)]
struct Export {
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
    pub(super) fn add(&self, pid: u64, kind: Kind) {
        self.insert(pid, Export { kind, send_to: None });
    }

    /// Messages of this type.
    pub(super) fn add_typed<M: RemoteMessage>(&self, pid: u64) {
        self.insert(pid, Export { kind: M::kind(), send_to: Some(send_to::<M>) });
    }

    fn insert(&self, pid: u64, export: Export) {
        // Numbers are not used twice, so those of the dead are only in the way.
        lock(&self.kinds).insert(pid, export, |pid, _| where_is_pid(ActorId::Local(*pid)).is_some());
    }

    pub(super) fn find(&self, pid: u64, kind: u64) -> Result<Exported, NotDelivered> {
        let Export { kind: exported, send_to } =
            lock(&self.kinds).get(&pid).copied().ok_or(NotDelivered::NotExported)?;
        if exported != Kind(kind) {
            return Err(NotDelivered::WrongKind);
        }
        let actor = where_is_pid(ActorId::Local(pid)).filter(ActorCell::supports_remoting);
        actor.map(|actor| Exported { actor, send_to }).ok_or(NotDelivered::Gone)
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
    use ractor::Actor;

    use super::{super::side::LinkSupervisor, *};

    #[tokio::test]
    async fn an_actor_stays_exported_however_many_have_ended_meanwhile() {
        let exports = Exports::default();
        let (actor, _) = Actor::spawn(None, LinkSupervisor, ()).await.unwrap();
        let pid = actor.get_id().pid();
        exports.add(pid, Kind(7));
        // Nobody has these numbers.
        for dead in 1..5000 {
            exports.add(pid + (1 << 40) + dead, Kind(7));
        }
        assert_eq!(exports.find(pid, 8).map(drop), Err(NotDelivered::WrongKind));
        assert_ne!(exports.find(pid, 7).map(drop), Err(NotDelivered::NotExported));
        assert_eq!(
            exports.find(pid + (1 << 40) + 1, 7).map(drop),
            Err(NotDelivered::NotExported),
            "forgotten"
        );
        assert_eq!(exports.find(pid + (1 << 40) + 4999, 7).map(drop), Err(NotDelivered::Gone));
    }
}
