//! Which of this node's actors peers may reach.

use std::sync::{
    Arc, RwLock,
    atomic::{AtomicUsize, Ordering},
};

use callsign_store::{
    lock::{read, write},
    logged,
    supervision::foreign,
};
use ractor::{ActorCell, ActorStatus, MessagingErr, message::SerializedMessage};
use tracing::Span;

use super::{
    kind::{Kind, RemoteMessage},
    swept::Swept,
};
use crate::core::frame::NotDelivered;

/// Sends an actor a message that it knows how to read.
type SendTo = fn(&ActorCell, SerializedMessage) -> Result<(), NotDelivered>;

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
    kinds: RwLock<Swept<u64, Export>>,
    /// How many actors are known to live.
    living: Arc<AtomicUsize>,
}

/// One that was found.
pub(super) struct Exported {
    actor: ActorCell,
    send_to: Option<SendTo>,
}

impl Exports {
    /// None yet. `living` has how many actors are known to live: those are not looked at.
    pub(crate) fn new(living: Arc<AtomicUsize>) -> Self {
        Self { kinds: RwLock::default(), living }
    }

    /// Messages of this kind, of whatever type they are.
    pub(super) fn add(&self, actor: ActorCell, kind: Kind) {
        self.insert(Export { actor, kind, send_to: None });
    }

    /// Messages of this type.
    pub(super) fn add_typed<M: RemoteMessage>(&self, actor: ActorCell) {
        self.insert(Export { actor, kind: Kind::of_messages::<M>(), send_to: Some(send_to::<M>) });
    }

    fn insert(&self, export: Export) {
        let (pid, living) = (export.actor.get_id().pid(), self.living.load(Ordering::Relaxed));
        // Numbers are not used twice, so those of the dead are only in the way.
        write(&self.kinds).insert(pid, export, living, |_, export| export.lives());
    }

    pub(super) fn find(&self, pid: u64, kind: u64) -> Result<Exported, NotDelivered> {
        let kinds = read(&self.kinds);
        let export = kinds.get(&pid).ok_or(NotDelivered::NotExported)?;
        export.takes(kind)?;
        Ok(export.exported())
    }

    /// Sends a message to those of these actors that take this kind, and live. They read it. Returns how many they are. Nothing of the
    /// application runs here, so the table is read meanwhile, and no reference to an actor is taken: to count that one takes longer than to
    /// find the actor.
    pub(super) fn send_each(
        &self,
        pids: &[u64],
        kind: u64,
        message: impl Fn() -> SerializedMessage,
    ) -> usize {
        let kinds = read(&self.kinds);
        let takers = kinds.get_all(pids).filter(|export| export.takes(kind).is_ok());
        takers.filter(|export| export.actor.send_serialized(message()).is_ok()).count()
    }

    /// As [`send_each`](Self::send_each), to actors that handle it in a span. It is read here, where that is known.
    pub(super) fn send_each_in(
        &self,
        span: &Span,
        pids: &[u64],
        kind: u64,
        message: impl Fn() -> SerializedMessage,
    ) -> usize {
        let mut found = Vec::with_capacity(pids.len());
        {
            let kinds = read(&self.kinds);
            let takers = kinds.get_all(pids).filter(|export| export.takes(kind).is_ok());
            found.extend(takers.map(Export::exported));
        }
        // The table is not locked while messages are read, which is the application's code.
        found.into_iter().filter(|actor| actor.send(message(), span).is_ok()).count()
    }
}

impl Export {
    fn takes(&self, kind: u64) -> Result<(), NotDelivered> {
        if self.kind != Kind(kind) {
            return Err(NotDelivered::WrongKind);
        }
        if !self.lives() || !self.actor.supports_remoting() {
            return Err(NotDelivered::Gone);
        }
        Ok(())
    }

    fn exported(&self) -> Exported {
        Exported { actor: self.actor.clone(), send_to: self.send_to }
    }

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

/// Reads a message, and sends it as one of this node: so ractor has the actor handle it in the span that is current. What arrives as bytes
/// it does not.
fn send_to<M: RemoteMessage>(actor: &ActorCell, message: SerializedMessage) -> Result<(), NotDelivered> {
    // ractor drops what an actor cannot read, and so does this.
    let Some(Ok(message)) = foreign("the reading of a message", || M::deserialize(message)) else {
        logged!(debug, actor = %actor.get_id(), "a message that cannot be read is dropped");
        return Ok(());
    };
    actor.send_message(message).map_err(|error| match error {
        MessagingErr::InvalidActorType => NotDelivered::WrongKind,
        _ => NotDelivered::Gone,
    })
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
        let message = || SerializedMessage::Cast { variant: String::new(), args: Vec::new(), metadata: None };
        let found = |pids: &[u64], kind| {
            let sent = exports.send_each(pids, kind, message);
            assert_eq!(exports.send_each_in(&Span::none(), pids, kind, message), sent);
            sent
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

    /// Is about to end until it is told to go on.
    struct LingeringActor(Arc<tokio::sync::Notify>);

    impl Actor for LingeringActor {
        type Msg = Any;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Any>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn post_stop(&self, _: ActorRef<Any>, (): &mut ()) -> Result<(), ActorProcessingErr> {
            self.0.notified().await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_actor_that_is_about_to_end_is_as_good_as_gone() {
        let exports = Exports::default();
        let go_on = Arc::<tokio::sync::Notify>::default();
        let (actor, running) = Actor::spawn(None, LingeringActor(go_on.clone()), ()).await.unwrap();
        let pid = actor.get_id().pid();
        exports.add(actor.get_cell(), Kind(7));
        assert_eq!(exports.find(pid, 7).map(drop), Ok(()));
        actor.stop(None);
        while actor.get_status() != ActorStatus::Stopping {
            tokio::task::yield_now().await;
        }
        assert_eq!(exports.find(pid, 7).map(drop), Err(NotDelivered::Gone));
        go_on.notify_one();
        running.await.unwrap();
    }
}
