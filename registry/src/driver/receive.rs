//! Names that other nodes offer, and the actors that take them here; and names of this node that are offered to others.
//!
//! To whom a name is offered, and when, is decided in `core/host/offers.rs`. An actor that takes one does so by a take as any other.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use callsign_store::{
    ids::{NodeName, Position},
    in_full,
    lock::lock,
    logged, planted,
    supervision::{Supervisor, caught},
};
use callsign_transport::{Kind, RemoteMessage, trace::SPANS};
use futures::{FutureExt, future::BoxFuture};
use ractor::{ActorProcessingErr, ActorRef};
use tracing::{debug_span, field::Empty};

use crate::{
    core::{
        input::{Answer, Call, Input},
        name::{Name, check_name},
        taking::{Decline, Offered},
    },
    driver::{
        actor::Shared,
        registry::Registry,
        take::{TakeOptions, Taken},
        traces::in_span,
    },
    error::OfferError,
};

/// How long an actor waits for the name that it was made for. Its holder's node consents or refuses, or is gone, in a small part of it.
const TAKES_FOR: Duration = Duration::from_secs(60);

/// A name that another node offers to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedName {
    /// The name.
    pub name: Name,
    /// Under which token it is held there.
    pub token: Position,
    /// The node that holds it.
    pub from: NodeName,
}

/// What becomes of a name once an actor has it.
type Moved = Box<dyn FnOnce(Taken) -> BoxFuture<'static, Result<(), ActorProcessingErr>> + Send>;

/// The actor that is to hold a name that was offered.
pub struct Received<M: RemoteMessage> {
    actor: ActorRef<M>,
    moved: Moved,
    options: TakeOptions,
    is_shared: bool,
}

impl<M: RemoteMessage> fmt::Debug for Received<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").field("actor", &self.actor).finish_non_exhaustive()
    }
}

impl<M: RemoteMessage> Received<M> {
    /// A running actor of this node, and a function that is called when the name is its own: with its registration, and with the data of
    /// its former holder. If the function returns an error, or panics, the actor is stopped, so that the name is free.
    ///
    /// An actor that does not get the name is stopped.
    pub fn new<F>(actor: ActorRef<M>, moved: impl FnOnce(Taken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), ActorProcessingErr>> + Send + 'static,
    {
        let moved: Moved = Box::new(|taken| moved(taken).boxed());
        Self { actor, moved, options: TakeOptions::default(), is_shared: false }
    }

    /// How the actor holds the name: give it a policy that [offers](crate::WhenTaken::offer) it, so that it moves on when this node
    /// drains in its turn. Default: it gives the name to nobody.
    #[must_use]
    pub fn options(self, options: TakeOptions) -> Self {
        Self { options, ..self }
    }

    /// The actor has other things to do, too: where it would be stopped, the name is given up instead, also if it comes to the actor later.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }
}

/// What the application does with a name that is offered.
type Receive = Arc<dyn Fn(Offered) -> BoxFuture<'static, Result<(), Decline>> + Send + Sync>;

/// What it takes.
#[derive(Default)]
pub(crate) struct Receivers(Mutex<Registered>);

/// The receivers, by the kind of the actors.
#[derive(Default)]
struct Registered {
    /// How many there were.
    count: u64,
    /// Each with its number.
    by_kind: HashMap<Kind, (u64, Receive)>,
}

impl Receivers {
    fn of(&self, kind: Kind) -> Option<Receive> {
        lock(&self.0).by_kind.get(&kind).map(|(_, receive)| receive.clone())
    }
}

/// A receiver that is [registered](Registry::receive), until this is dropped.
#[must_use = "the receiver is registered until this is dropped"]
pub struct Receiving {
    shared: Weak<Shared>,
    kind: Kind,
    number: u64,
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut receivers = lock(&shared.receivers.0);
        // Another one may have taken its place.
        if receivers.by_kind.get(&self.kind).is_some_and(|(number, _)| *number == self.number) {
            let former = receivers.by_kind.remove(&self.kind);
            // Under the lock: the member hears what is there last.
            shared.push(Input::Receives { kind: self.kind, does: false });
            // Not under it: what the function owns may be a `Receiving`, too.
            drop(receivers);
            drop(former);
        }
    }
}

impl Registry {
    /// Has this node take names that other nodes offer, of actors that take messages `M`: those of nodes that
    /// [drain](Self::drain), and those that somebody [offers](Self::offer) to it. The function makes an actor for the name, or says why it
    /// does not. It has 1 s for that; later, the name may have been offered to another node.
    ///
    /// The actor then [takes](Self::take) the name, with the consent and the data of its holder. If it gets it, the function that was given
    /// with it is called with both. In any other case, also when the outcome is unknown, the actor is stopped; if the name comes to it all
    /// the same, it is freed.
    ///
    /// There is one receiver for a kind of messages: a later one takes the place of an earlier one. A node without a receiver takes no
    /// name, and neither does one that drains.
    pub fn receive<M: RemoteMessage, F>(
        &self,
        receive: impl Fn(OfferedName) -> F + Send + Sync + 'static,
    ) -> Receiving
    where
        F: Future<Output = Result<Received<M>, ActorProcessingErr>> + Send + 'static,
    {
        let receive = Arc::new(receive);
        // Not strong: the receiver is kept by what it would keep.
        let (node, shared) = (Arc::downgrade(&self.node), Arc::downgrade(&self.shared));
        let receive: Receive = Arc::new(move |offered| {
            let (node, shared, receive) = (node.upgrade(), shared.upgrade(), receive.clone());
            async move {
                let (Some(node), Some(shared)) = (node, shared) else { return Err(Decline::NotReady) };
                let (name, from) = (offered.name.clone(), offered.holder.node.clone());
                let of = OfferedName { name, token: offered.token, from };
                let received = caught("a receiver of names", async move { receive(of).await }).await;
                let received =
                    received.and_then(|received| received.map_err(|error| in_full(&*error).to_string()));
                match received {
                    Ok(received) => take(&Registry { node, shared }, &offered, received).await,
                    Err(reason) => Err(Decline::Failed { reason }),
                }
            }
            .boxed()
        });
        let kind = Kind::of_messages::<M>();
        let mut receivers = lock(&self.shared.receivers.0);
        receivers.count += 1;
        let number = receivers.count;
        let former = receivers.by_kind.insert(kind, (number, receive));
        self.shared.push(Input::Receives { kind, does: true });
        // Not under the lock: what the function owns may be a `Receiving`, too.
        drop(receivers);
        drop(former);
        Receiving { shared: Arc::downgrade(&self.shared), kind, number }
    }

    /// Offers a name that an actor of this node holds to another node, and waits until it has moved. The holder has to give it (see
    /// [`WhenTaken`](crate::WhenTaken)), and the other node needs a [receiver](Self::receive). Returns the token under which it is held
    /// there; or here, if this is the node.
    ///
    /// # Errors
    /// See [`OfferError`]. After `Unknown` and `Silent` the name may move yet: look it up
    /// ([`lookup_consistent`](Self::lookup_consistent)).
    pub async fn offer(&self, name: &str, to: &NodeName, wait: Duration) -> Result<Position, OfferError> {
        check_name(name)?;
        let answered = self.shared.call(Call::Offer { name: name.into(), to: to.clone() }, wait);
        let answered = answered.map(|answer| match answer {
            Some(Answer::Offered(result)) => result,
            _ => Err(self.shared.failure().cloned().map_or(OfferError::Left, OfferError::Failed)),
        });
        let registry = self.shared.registry.as_str();
        let span = debug_span!(target: SPANS, "transfer", registry, name, %to, token = Empty, error = Empty);
        in_span(span, answered, |token| Some(*token)).await
    }
}

/// Has the actor take the name. If that comes to nothing, the actor is not left running in vain.
async fn take<M: RemoteMessage>(
    registry: &Registry,
    offered: &Offered,
    received: Received<M>,
) -> Result<(), Decline> {
    let Received { actor, moved, options, is_shared } = received;
    let Offered { name, token, .. } = offered;
    let stop = |why: &str| {
        if !is_shared {
            actor.stop(Some(format!("callsign: {why}")));
        }
    };
    let taken = match registry.take_with(name, &actor, *token, TAKES_FOR, options).await {
        Ok(taken) => taken,
        Err(error) => {
            stop("it did not get its name");
            if is_shared {
                // It may come to the actor yet, or have come to it while nobody could say so.
                let (name, actor) = (name.clone(), actor.get_id().pid());
                let call = Call::Disown { name, token: *token, actor };
                let _ = registry.shared.call(call, registry.shared.calls.timeout).await;
            }
            return Err(Decline::Failed { reason: in_full(&error).to_string() });
        }
    };
    let token = taken.registration.token();
    let data = if planted!("receiver-is-handed-nothing") { Vec::new().into() } else { taken.data };
    let taken = Taken { data, ..taken };
    let done = caught("what becomes of a name that has moved", async move { moved(taken).await }).await;
    if let Err(error) = done.and_then(|done| done.map_err(|error| in_full(&*error).to_string())) {
        let node = registry.node();
        logged!(warn, %node, ?name, %error, "a name that has moved here is given up");
        if planted!("of-no-use-and-kept") {
            return Ok(());
        }
        stop("it could not go on with what it was handed");
        if is_shared {
            let call = Call::Withdraw { name: name.clone(), token };
            // What becomes of it is not waited for by anybody.
            let _ = registry.shared.call(call, registry.shared.calls.timeout).await;
        }
    }
    Ok(())
}

/// Has the application take a name that is offered, in a task of its own.
pub(super) fn begin(supervisor: &Supervisor, shared: &Arc<Shared>, offered: Offered) {
    let (receive, shared) = (shared.receivers.of(offered.kind), shared.clone());
    supervisor.task("the taking of an offered name", async move {
        let (holder, number) = (offered.holder.clone(), offered.number);
        let received = match receive {
            Some(receive) => receive(offered).await,
            // The member has not heard of it yet.
            None => Err(Decline::Failed { reason: "its receiver has just been taken back".to_owned() }),
        };
        if let Err(why) = received {
            shared.push(Input::Declined { holder, number, why });
        }
    });
}
