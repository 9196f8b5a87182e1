//! A name goes from one living actor to another, and is free at no moment in between.
//!
//! Who consents, what is flagged when, and what becomes of it is decided in `core/host/takes.rs` and `core/host/gives.rs`.

use std::{
    fmt,
    future::Future,
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use callsign_store::{
    ids::{NodeName, Position},
    in_full,
    lock::lock,
    planted,
    supervision::{Supervisor, caught},
};
use callsign_transport::{ActorAddress, RemoteMessage, trace::SPANS};
use futures::{FutureExt, future::BoxFuture};
use ractor::{ActorProcessingErr, ActorRef};
use tracing::{debug_span, field::Empty};

use crate::{
    core::{
        caller::{Caller, OnOutage},
        host::OnTake,
        input::{Answer, Call, CallId, Input},
        name::{Name, check_name},
    },
    driver::{
        actor::{Keeps, Shared},
        registration::{HeldClaim, Registration},
        registry::{Registry, WhenLapsed},
        traces::in_span,
    },
    error::{RegisterError, TakeError},
};

/// To whom a name is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandedTo {
    /// The name.
    pub name: Name,
    /// The node of the actor that takes it.
    pub node: NodeName,
}

/// What goes with a name to its next holder, or why it does not go.
pub(crate) type Giver =
    Arc<dyn Fn(HandedTo) -> BoxFuture<'static, Result<Vec<u8>, ActorProcessingErr>> + Send + Sync>;

/// What becomes of a registration when another actor [takes](Registry::take) its name.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum WhenTaken {
    /// Whoever asks is refused.
    #[default]
    Refuse,
    /// The name is given. From the moment at which the function is called, no check of the registration passes: so what it returns is
    /// the last word of this holder. An error, a panic, more than [`MAX_HANDED_BYTES`](crate::MAX_HANDED_BYTES) or more than 10 s until
    /// the other node has the data let the actor keep the name, and its checks pass again.
    Give(Giver),
    /// The same; and when the node of the holder [drains](Registry::drain), the name is offered to the nodes that have a
    /// [receiver](Registry::receive) for such actors.
    Offer(Giver),
}

impl WhenTaken {
    /// Gives the name, with what this function returns.
    pub fn give<F>(give: impl Fn(HandedTo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<u8>, ActorProcessingErr>> + Send + 'static,
    {
        Self::Give(Arc::new(move |to| give(to).boxed()))
    }

    /// Gives the name, with what this function returns, and offers it when the node drains.
    pub fn offer<F>(give: impl Fn(HandedTo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<u8>, ActorProcessingErr>> + Send + 'static,
    {
        Self::Offer(Arc::new(move |to| give(to).boxed()))
    }

    pub(super) fn split(self) -> (OnTake, Option<Giver>) {
        match self {
            Self::Refuse => (OnTake::Refuse, None),
            Self::Give(gives) => (OnTake::Give, Some(gives)),
            Self::Offer(gives) => (OnTake::Offer, Some(gives)),
        }
    }
}

impl fmt::Debug for WhenTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "Refuse",
            Self::Give(_) => "Give(..)",
            Self::Offer(_) => "Offer(..)",
        })
    }
}

/// How to take a name, where the default does not fit.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TakeOptions {
    /// What becomes of the new holder when its session lapses.
    pub when_lapsed: WhenLapsed,
    /// Whether the new holder gives the name away in its turn. Default: it does not.
    pub when_taken: WhenTaken,
    /// What to do while the store takes no commits. Default: the node's [`on_outage`](crate::Config::on_outage).
    pub on_outage: Option<OnOutage>,
}

impl TakeOptions {
    /// What becomes of the new holder when its session lapses.
    #[must_use]
    pub fn when_lapsed(self, when_lapsed: WhenLapsed) -> Self {
        Self { when_lapsed, ..self }
    }

    /// Whether the new holder gives the name away in its turn.
    #[must_use]
    pub fn when_taken(self, when_taken: WhenTaken) -> Self {
        Self { when_taken, ..self }
    }

    /// What to do while the store takes no commits.
    #[must_use]
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        Self { on_outage: Some(on_outage), ..self }
    }
}

/// A name that was taken from another actor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Taken {
    /// The name, under a new token.
    pub registration: Registration,
    /// What its former holder handed over. Empty if the actor held the name already.
    pub data: Bytes,
}

impl Registry {
    /// Takes a name from the actor that holds it under `expected`, wherever that runs, for an actor of this node. The holder has to
    /// consent: see [`WhenTaken`]. The name is free at no moment: whoever looks it up finds the one or the other.
    ///
    /// The holder's checks fail before it is asked for its data, and from then on nothing is held by both. When the name is
    /// the new actor's, the old one is stopped, or told ([`Notice::Transferred`](crate::Notice::Transferred)), as it was registered; the
    /// new one holds the name under a new, greater token. The metadata stays with the name, until the new holder
    /// [updates](crate::Registration::update) it.
    ///
    /// Waits so long. Costs one commit of the store, and two messages each way between the nodes.
    ///
    /// # Errors
    /// See [`TakeError`]. `Unknown` says that the name may still come to the actor; it is the outcome, too, when the holder's node is
    /// silent. Then look the name up ([`lookup_consistent`](Self::lookup_consistent)).
    pub async fn take<M: RemoteMessage>(
        &self,
        name: &str,
        actor: &ActorRef<M>,
        expected: Position,
        wait: Duration,
    ) -> Result<Taken, TakeError> {
        self.take_with(name, actor, expected, wait, TakeOptions::default()).await
    }

    /// As [`take`](Self::take), with options.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub async fn take_with<M: RemoteMessage>(
        &self,
        name: &str,
        actor: &ActorRef<M>,
        expected: Position,
        wait: Duration,
        options: TakeOptions,
    ) -> Result<Taken, TakeError> {
        check_name(name).map_err(RegisterError::from)?;
        let (cell, ActorAddress { pid: actor, kind, .. }) = (actor.get_cell(), self.local(actor)?);
        let (on_lapse, listener) = options.when_lapsed.split();
        let (on_take, gives) = options.when_taken.split();
        let listener = listener.filter(|_| !planted!("taker-is-told-nothing"));
        let keeps = Keeps { listener, gives };
        let name: Name = name.into();
        self.tell_of_ended_holder(&name);
        let call = Call::Take { name: name.clone(), token: expected, actor, kind, on_lapse, on_take };
        let on_outage = options.on_outage.unwrap_or(self.shared.calls.on_outage);
        let caller = Caller::new(name.clone(), on_outage, self.clock().now(), wait);
        let handed = Mutex::new(Bytes::new());
        let ask = |wait| {
            let (_, asked) = self.shared.register(call.clone(), wait, keeps.clone(), cell.clone());
            let handed = &handed;
            async move {
                match asked.await {
                    Some(Answer::Taken(Ok(taken))) => {
                        if !planted!("handed-over-data-lost") {
                            *lock(handed) = taken.data;
                        }
                        ControlFlow::Continue(Ok(taken.granted))
                    }
                    Some(Answer::Taken(Err(TakeError::Register(error)))) => ControlFlow::Continue(Err(error)),
                    Some(Answer::Taken(Err(error))) => ControlFlow::Break(error),
                    _ => ControlFlow::Continue(Err(self.unasked())),
                }
            }
        };
        let asked = self.ask_by_core(caller, ask).map(|done| match done {
            ControlFlow::Continue(granted) => granted.map_err(TakeError::from),
            ControlFlow::Break(error) => Err(error),
        });
        let registry = self.shared.registry.as_str();
        let span = debug_span!(target: SPANS, "take", registry, %name, token = Empty, error = Empty);
        let granted = in_span(span, asked, |granted| Some(granted.token)).await?;
        let registration =
            Registration::new(name, HeldClaim::by(None, granted, &self.shared), self.shared.clone());
        Ok(Taken { registration, data: std::mem::take(&mut *lock(&handed)) })
    }
}

/// Has the holder of a name say what goes with it, in a task of its own.
pub(super) fn give(
    supervisor: &Supervisor,
    shared: &Arc<Shared>,
    name: Name,
    (claim, consent): (CallId, u64),
    to: NodeName,
) {
    let (gives, shared) = (shared.gives_of(claim), shared.clone());
    supervisor.task("the hand-over of a name", async move {
        let given = match gives {
            Some(gives) => {
                let to = HandedTo { name: name.clone(), node: to };
                caught("the hand-over of a name", async move { gives(to).await }).await
            }
            // Its claim has ended meanwhile.
            None => Err("it is not held any more".to_owned()),
        };
        let data =
            given.and_then(|given| given.map(Bytes::from).map_err(|error| in_full(&*error).to_string()));
        shared.push(Input::Given { name, consent, data });
    });
}
