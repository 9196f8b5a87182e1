//! Actors of other nodes as ordinary `ActorRef`s.
//!
//! An [`ActorAddress`] travels in messages; [`crate::Endpoint::resolve`] makes an `ActorRef` of it. For an actor of
//! another node that is one cached proxy per link and actor, made on demand: an actor that puts what it is sent on
//! the link.
//!
//! **A reference ends** when its actor ends, with what the actor ended with, so that ractor's `monitor`, `link` and `wait` work as
//! they do on one node: an actor that was stopped is an `ActorTerminated` with its reason, one that panicked or returned an
//! error is an `ActorFailed` with its text. Texts are cut to 200 bytes. A reference to an actor that has ended already ends
//! as soon as the actor's node says so; [`Endpoint::resolve_live`] waits for that. The end of an actor is not ordered against
//! what the actor sent itself. If a message comes first to an actor that is just ending, the reference ends without its reason.
//!
//! A reference belongs to one link, too: once that is down it is dead for good, as `ActorTerminated` with the reason
//! `callsign: the link to NODE@INCARNATION is down: ...`. The actor may live then; whoever wants to go on resolves again.
//! Whatever ends a reference here (`stop`, `kill`, the end of a supervisor that it is linked to) ends the reference only.
//!
//! ```text
//!   ActorRef<M> --> Proxy --> link ==> link --> the actor          casts and calls of one sender: FIFO
//!        ^                                        |
//!        +------- waiting call <== link <---------+                an answer, or at once the news that there is none
//! ```
//!
//! Promises: an answer that was given arrives, also when its actor stops at once; a call ends when it is answered,
//! when its reply port was dropped, when the actor does not exist, and when the link goes down, whichever is
//! first. Does not promise that an answer comes (use timeouts), nor that a call that failed was not carried out.
//! Only exported actors are reached, and only with messages of their own kind: those whose address this node has given away
//! ([`Endpoint::address_of`], [`Endpoint::export`]; registering an actor does so). Whatever else a peer addresses is refused
//! and counted ([`Endpoint::refusal_counts`]).
//!
//! **Bounds.** References over a link, and actors of whose end a peer is to be told, are limited in number
//! ([`crate::LinkLimits::references`]). Calls that a peer has open are limited in bytes ([`crate::LinkLimits::open_calls`]). What it *casts* waits in the
//! mailbox of the actor, which ractor does not bound and which nobody can look into: only the rate is limited
//! ([`crate::LinkLimits::received_per_second`]). An actor that takes casts from others and may be slow has to see to it.
//!
//! A message that does not find room in the control lane is lost: a call fails at once, a cast is counted
//! ([`crate::LinkStatus::dropped`]) and logged.
//!
//! **Malformed messages.** ractor decodes a message with code that may panic, and catches that ([`P`] relies on
//! it): the message is dropped, a call fails. In a program built with `panic = "abort"` nothing is caught, and a
//! peer that knows the secret can end it with bad bytes.

use std::{sync::Arc, time::Duration};

use ractor::{ActorCell, ActorId, ActorRef, registry::where_is_pid};
use tokio::time::timeout;

use crate::{
    core::peer::PeerId,
    driver::{endpoint::Endpoint, handle::LinkHandle},
};

mod address;
mod broadcast;
pub(crate) mod deliver;
pub(crate) mod exports;
mod kind;
mod many;
pub mod message;
mod proxy;
mod reference;
mod resolved;
pub(crate) mod side;
mod swept;
mod tags;
mod traced;
pub(crate) mod watcher;

pub use address::{ActorAddress, ResolveError};
pub use broadcast::{BroadcastError, Broadcasted};
pub use kind::{Kind, P, RemoteMessage};
use reference::{Gone, News, Reference};
pub use watcher::Watches;

impl Endpoint {
    /// Lets peers send messages of `kind` to a local actor, whoever tells them its address.
    pub fn export(&self, actor: &ActorCell, kind: Kind) {
        if actor.get_id().is_local() {
            self.inner.exports.add(actor.clone(), kind);
        }
    }

    /// The address of an actor, to be sent to others. Exports it, if it is local.
    ///
    /// Of a reference that `resolve` made it is the address of the actor behind it, while the link is up; afterwards,
    /// and for references that other libraries made, an address that resolves to [`ResolveError::NotLinked`].
    pub fn address_of<M: RemoteMessage>(&self, actor: &ActorRef<M>) -> ActorAddress {
        let (peer, pid) = match actor.get_id() {
            ActorId::Local(pid) => {
                self.inner.exports.add_typed::<M>(actor.get_cell());
                (self.inner.me.clone(), pid)
            }
            ActorId::Remote { node_id, pid } => {
                let link = self.inner.handles.iter().find(|handle| handle.remote.number == node_id);
                (link.map_or_else(|| PeerId::new("", 0), |handle| handle.peer.clone()), pid)
            }
        };
        ActorAddress { node: peer.node, incarnation: peer.incarnation, pid, kind: M::kind() }
    }

    /// Has somebody told when actors of this node end, by the actor's number: see [`Watches::watch`]. The function is called in
    /// an actor of the endpoint, in the order in which the actors ended. It must not block.
    ///
    /// Whoever monitors actors of a node does it by this: ractor tells several monitors of one actor in an order that is
    /// another in each process.
    pub fn on_ends(&self, tell: impl Fn(u64) + Send + Sync + 'static) -> Watches {
        self.inner.watcher.listen(move |pid, _| tell(pid))
    }

    /// As [`resolve`](Self::resolve), but asks the actor's node first whether the actor lives, and waits for that for at
    /// most `wait`. So an actor that has ended is [`ResolveError::Gone`] at once, and one that nobody gave away is
    /// [`ResolveError::NotExported`].
    pub async fn resolve_live<M: RemoteMessage>(
        &self,
        address: &ActorAddress,
        wait: Duration,
    ) -> Result<ActorRef<M>, ResolveError> {
        let (cell, news) = self.find::<M>(address)?;
        let Some(news) = news else { return Ok(cell.into()) };
        match timeout(wait, news.answered()).await {
            Ok(Ok(())) => Ok(cell.into()),
            Ok(Err(Gone::Actor(end))) => Err(ResolveError::said(&end, address.kind)),
            Ok(Err(Gone::Link(_))) => Err(ResolveError::NotLinked { node: address.node.clone() }),
            Err(_) => Err(ResolveError::Unanswered { node: address.node.clone(), waited: wait }),
        }
    }

    /// Makes a reference of an address. Does not wait. An actor of this node, or one that is known to have ended, is
    /// [`ResolveError::Gone`]. Otherwise the actor's node is asked, and the reference ends if the actor has ended.
    pub fn resolve<M: RemoteMessage>(&self, address: &ActorAddress) -> Result<ActorRef<M>, ResolveError> {
        Ok(self.find::<M>(address)?.0.into())
    }

    /// The actor of an incarnation of a node, if it is of this node, or if there is a reference to it already: what `resolve` would
    /// return, without a copy of the address. `None`: `resolve` makes one, or says why there is none. Takes no lock that all
    /// who resolve share.
    pub fn resolved<M: RemoteMessage>(&self, node: &str, incarnation: u64, pid: u64) -> Option<ActorRef<M>> {
        let me = &self.inner.me;
        if incarnation == me.incarnation && *node == *me.node {
            return here::<M>(pid).ok().map(Into::into);
        }
        let find = |handle: &LinkHandle| handle.remote.resolved.get(pid, M::kind());
        self.inner.reach.with(node, incarnation, find).flatten().map(Into::into)
    }

    /// The actor, or a reference with what is known of its actor.
    fn find<M: RemoteMessage>(
        &self,
        address: &ActorAddress,
    ) -> Result<(ActorCell, Option<Arc<News>>), ResolveError> {
        let expected = Kind::of_messages::<M>();
        if address.kind != expected {
            return Err(ResolveError::WrongType { expected, found: Some(address.kind) });
        }
        let same = |peer: &PeerId| {
            if peer.incarnation == address.incarnation {
                return Ok(());
            }
            Err(ResolveError::OtherIncarnation { wanted: address.incarnation, linked: peer.clone() })
        };
        if address.node == self.inner.me.node {
            same(&self.inner.me)?;
            return Ok((here::<M>(address.pid)?, None));
        }
        let not_linked = || ResolveError::NotLinked { node: address.node.clone() };
        let (link, peer) = self.link_to(&address.node).ok_or_else(not_linked)?;
        same(&peer)?;
        let handle = self.inner.handles.get(&link).map(|handle| handle.clone()).ok_or_else(not_linked)?;
        let _runtime = self.inner.runtime.enter(); // callers may be outside of one
        let Reference { proxy, news } = proxy::of(&handle, address.pid, address.kind)?;
        Ok((proxy, Some(news)))
    }
}

/// An actor of this node.
fn here<M: RemoteMessage>(pid: u64) -> Result<ActorCell, ResolveError> {
    let actor = where_is_pid(ActorId::Local(pid)).ok_or(ResolveError::Gone)?;
    if actor.is_message_type_of::<M>() != Some(true) {
        // The kind is the right one, so two types share a tag; what the actor's own is cannot be asked.
        return Err(ResolveError::WrongType { expected: Kind::of_messages::<M>(), found: None });
    }
    Ok(actor)
}
