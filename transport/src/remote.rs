//! Actors of other nodes as ordinary `ActorRef`s.
//!
//! An [`ActorAddress`] travels in messages; [`crate::Endpoint::resolve`] makes an `ActorRef` of it. For an actor of
//! another node that is one cached proxy per link and actor, made on demand: an actor that puts what it is sent on
//! the link. A reference belongs to one link: once that is down it is dead for good, and whoever wants to go on
//! resolves again.
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
//! **Bounds.** Calls that a peer has open are limited in bytes ([`crate::LinkLimits::open_calls`]). What it *casts* waits in the
//! mailbox of the actor, which ractor does not bound and which nobody can look into: only the rate is limited
//! ([`crate::LinkLimits::received_per_second`]). An actor that takes casts from others and may be slow has to see to it.
//!
//! A message that does not find room in the control lane is lost: a call fails at once, a cast is counted
//! ([`crate::LinkStatus::dropped`]) and logged.
//!
//! **Malformed messages.** ractor decodes a message with code that may panic, and catches that ([`P`] relies on
//! it): the message is dropped, a call fails. In a program built with `panic = "abort"` nothing is caught, and a
//! peer that knows the secret can end it with bad bytes.
#![allow(clippy::disallowed_methods)] // the driver is where time and tasks come from

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use ractor::{
    Actor, ActorCell, ActorId, ActorRef, RpcReplyPort, SpawnErr, message::SerializedMessage,
    registry::where_is_pid,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    endpoint::{Endpoint, Inner},
    error::SendError,
    frame::{Frame, NotDelivered},
    lock::lock,
    net::connection::LinkHandle,
    peer::PeerId,
    tasks::Tasks,
};

mod kind;
mod proxy;

pub use kind::{Kind, P, RemoteMessage};
use proxy::{LinkSupervisor, is_alive};

/// Words for counters, beside those of [`crate::Refused`].
const NO_SUCH_ACTOR: &str = "no-such-actor";
const TOO_MANY_CALLS: &str = "too-many-calls";

/// The peer's own timer runs this much longer than the caller's, so that the caller's decides.
const TIMEOUT_GRACE: Duration = Duration::from_secs(1);

/// What an open call costs beside its arguments, in bytes: its reply port, and the task that waits for it.
const CALL: usize = 1024;

/// Sweeping begins at so many entries.
const SWEEP: usize = 1024;

/// Where an actor lives: what travels in place of an `ActorRef`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActorAddress {
    /// The node.
    pub node: Arc<str>,
    /// Its incarnation: a restarted node has other actors under the same numbers.
    pub incarnation: u64,
    /// The actor's number there.
    pub pid: u64,
    /// What messages it takes.
    pub kind: Kind,
}

impl std::fmt::Display for ActorAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}/{}", self.node, self.incarnation, self.pid)
    }
}

/// Why an address did not become a reference.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No link to the node is up. The actor may be alive.
    #[error("no link to {node} is up")]
    NotLinked {
        /// The node.
        node: Arc<str>,
    },
    /// The actor does not run any more.
    #[error("the actor has ended")]
    Gone,
    /// The actor takes other messages.
    #[error("the actor takes messages of {found}, not of {expected}")]
    WrongType {
        /// Of the type asked for.
        expected: Kind,
        /// Of the address, or of the actor that was found.
        found: Kind,
    },
    /// The node is there in another incarnation; which of the two is newer is not known here.
    #[error("{linked} is linked, the address is of incarnation {wanted}")]
    OtherIncarnation {
        /// Of the address.
        wanted: u64,
        /// Who is there.
        linked: PeerId,
    },
    /// The proxy could not be started.
    #[error("the proxy did not start: {0}")]
    Proxy(#[from] SpawnErr),
}

/// The local actors that peers may reach.
#[derive(Default)]
pub(crate) struct Exports {
    kinds: Mutex<(BTreeMap<u64, Kind>, usize)>,
}

impl Exports {
    fn add(&self, pid: u64, kind: Kind) {
        let mut kinds = lock(&self.kinds);
        kinds.0.insert(pid, kind);
        // Numbers are not used twice, so those of the dead are only in the way.
        if kinds.0.len() >= kinds.1.max(SWEEP) {
            kinds.0.retain(|pid, _| where_is_pid(ActorId::Local(*pid)).is_some());
            kinds.1 = kinds.0.len() * 2;
        }
    }

    fn find(&self, pid: u64, kind: u64) -> Result<ActorCell, NotDelivered> {
        let exported = lock(&self.kinds).0.get(&pid).copied().ok_or(NotDelivered::NotExported)?;
        if exported != Kind(kind) {
            return Err(NotDelivered::WrongKind);
        }
        where_is_pid(ActorId::Local(pid)).filter(ActorCell::supports_remoting).ok_or(NotDelivered::Gone)
    }
}

/// A link's side of remote actors: the proxies, and the calls that wait.
pub(crate) struct RemoteSide {
    /// Tells the actors of this link from all others in the process. The top bit keeps clear of the small numbers
    /// of `ractor_cluster`.
    number: u64,
    supervisor: ActorCell,
    /// The supervisor may end: the link is down.
    may_end: Arc<AtomicBool>,
    /// Whom to tell if a reference panics.
    tasks: Tasks,
    /// By pid and kind. `None` once the link is down.
    proxies: Mutex<Option<BTreeMap<(u64, Kind), ActorCell>>>,
    calls: Mutex<Calls>,
    /// Bytes of the peer's calls that are not answered yet.
    open: AtomicUsize,
}

#[derive(Default)]
struct Calls {
    closed: bool,
    last: u64,
    sweep_at: usize,
    waiting: BTreeMap<u64, RpcReplyPort<Vec<u8>>>,
}

impl RemoteSide {
    pub(crate) async fn new(tasks: Tasks) -> Result<Self, SpawnErr> {
        static LINKS: AtomicU64 = AtomicU64::new(0);
        let (supervisor, running) = Actor::spawn(None, LinkSupervisor, ()).await?;
        let may_end = Arc::default();
        tasks.watch("the references over a link", running, Arc::clone(&may_end));
        Ok(Self {
            may_end,
            tasks,
            number: (1 << 63) | LINKS.fetch_add(1, Relaxed),
            supervisor: supervisor.get_cell(),
            proxies: Mutex::new(Some(BTreeMap::new())),
            calls: Mutex::default(),
            open: AtomicUsize::new(0),
        })
    }

    /// Ends all references and all waiting calls. Does not wait: when it returns, sending fails.
    pub(crate) fn close(&self) {
        self.may_end.store(true, SeqCst);
        for proxy in lock(&self.proxies).take().into_iter().flatten().map(|(_, proxy)| proxy) {
            let _ = proxy.drain(); // takes nothing from now on
            proxy.kill();
        }
        self.supervisor.kill();
        let mut calls = lock(&self.calls);
        calls.closed = true;
        calls.waiting.clear();
    }

    fn wait_for(&self, reply: RpcReplyPort<Vec<u8>>) -> Option<u64> {
        let mut calls = lock(&self.calls);
        if calls.closed {
            return None;
        }
        // Callers that gave up leave their entries behind.
        if calls.waiting.len() >= calls.sweep_at.max(SWEEP) {
            calls.waiting.retain(|_, port| !port.is_closed());
            calls.sweep_at = calls.waiting.len() * 2;
        }
        calls.last += 1;
        let tag = calls.last;
        calls.waiting.insert(tag, reply);
        Some(tag)
    }

    fn answered(&self, tag: u64) -> Option<RpcReplyPort<Vec<u8>>> {
        lock(&self.calls).waiting.remove(&tag)
    }

    /// The proxy of an actor: the one there is, or a new one.
    fn proxy(&self, handle: &Arc<LinkHandle>, pid: u64, kind: Kind) -> Result<ActorCell, ResolveError> {
        let mut proxies = lock(&self.proxies);
        let Some(proxies) = proxies.as_mut() else {
            return Err(ResolveError::NotLinked { node: handle.peer.node.clone() });
        };
        // Anybody may stop a proxy. That ends nothing but the proxy.
        if let Some(proxy) = proxies.get(&(pid, kind)).filter(|proxy| is_alive(proxy)) {
            return Ok(proxy.clone());
        }
        if proxies.len() >= SWEEP && proxies.len().is_power_of_two() {
            proxies.retain(|_, proxy| is_alive(proxy));
        }
        // Under the lock, so that all who resolve an address get the same proxy: two would not keep the order.
        let id = ActorId::Remote { node_id: self.number, pid };
        let proxy = proxy::spawn(id, kind, handle.clone(), self.supervisor.clone())?;
        proxies.insert((pid, kind), proxy.clone());
        Ok(proxy)
    }

    /// Ends the proxy of an actor that is not there, so that its senders get errors.
    fn end_proxy(&self, pid: u64, kind: Kind) {
        let proxy = lock(&self.proxies).as_mut().and_then(|proxies| proxies.remove(&(pid, kind)));
        if let Some(proxy) = proxy {
            let _ = proxy.drain();
            proxy.kill();
        }
    }
}

impl LinkHandle {
    /// Puts what a proxy was sent on the link. If that panics, the node has to know.
    fn forward_from(&self, to: u64, kind: Kind, message: SerializedMessage) {
        let tasks = &self.remote.tasks;
        tasks.step("a reference to a remote actor", || self.forward(to, kind, message));
    }

    fn forward(&self, to: u64, kind: Kind, message: SerializedMessage) {
        let (sent, tag) = match message {
            SerializedMessage::Cast { variant, args, .. } => {
                let frame = Frame::Cast { to, kind: kind.0, variant: &variant, args: &args };
                (self.queue(|outbox| outbox.send_frame(&frame)), None)
            }
            SerializedMessage::Call { variant, args, reply, .. } => {
                let timeout = reply.get_timeout().map(|timeout| timeout + TIMEOUT_GRACE);
                let timeout_ms = timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
                let Some(tag) = self.remote.wait_for(reply) else { return };
                let frame = Frame::Call { to, kind: kind.0, tag, timeout_ms, variant: &variant, args: &args };
                (self.queue(|outbox| outbox.send_frame(&frame)), Some(tag))
            }
            SerializedMessage::CallReply(..) => return, // of ractor_cluster only
        };
        let Err(why) = sent else { return };
        if let Some(tag) = tag {
            drop(self.remote.answered(tag)); // the caller learns of it at once
        }
        if !matches!(why, SendError::NotUp { .. }) {
            let dropped = self.dropped.fetch_add(1, Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(peer = %self.peer, dropped, "message to a remote actor dropped: {why}");
            }
        }
    }

    fn answer(&self, frame: &Frame<'_>) {
        // An answer that finds no room is lost like any other message, but its caller must not wait for it.
        if let (Err(why), Frame::Reply { tag, .. }) = (self.queue(|outbox| outbox.send_frame(frame)), frame) {
            tracing::warn!(peer = %self.peer, "answer dropped: {why}");
            let none = Frame::NoReply { tag: *tag, why: NotDelivered::NoAnswer };
            self.queue(|outbox| outbox.send_own(&none));
        }
    }
}

/// A call of the peer that has its place among those that may be open.
struct OpenCall {
    link: Arc<LinkHandle>,
    cost: usize,
}

impl OpenCall {
    fn begin(link: &Arc<LinkHandle>, cost: usize, limit: usize) -> Option<Self> {
        let before = link.remote.open.fetch_add(cost, Relaxed);
        let open = Self { link: link.clone(), cost };
        (before + cost <= limit).then_some(open)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.link.remote.open.fetch_sub(self.cost, Relaxed);
    }
}

impl Inner {
    /// Counts a message for an actor that peers cannot reach. One for an actor that was exported and has ended is the
    /// ordinary life of references.
    fn note_undelivered(&self, link: &LinkHandle, pid: u64, why: NotDelivered) {
        if matches!(why, NotDelivered::NotExported | NotDelivered::WrongKind) {
            let count = self.count_refused(NO_SUCH_ACTOR);
            if count.is_power_of_two() {
                tracing::warn!(peer = %link.peer, pid, count, "message for an actor that peers cannot reach: {why:?}");
            }
        }
    }

    fn note_refused_call(&self, link: &LinkHandle) {
        let count = self.count_refused(TOO_MANY_CALLS);
        if count.is_power_of_two() {
            tracing::warn!(peer = %link.peer, count, "call refused: too many of the peer's are open");
        }
    }
}

/// Takes a frame that concerns actors. The link is up. An error is what the peer did wrong.
pub(crate) fn on_frame(inner: &Arc<Inner>, link: &Arc<LinkHandle>, frame: Frame<'_>) -> Result<(), String> {
    match frame {
        Frame::Cast { to, kind, variant, args } => {
            let message = SerializedMessage::Cast {
                variant: variant.to_owned(),
                args: args.to_owned(),
                metadata: None,
            };
            let sent = inner
                .exports
                .find(to, kind)
                .and_then(|actor| actor.send_serialized(message).map_err(|_| NotDelivered::Gone));
            if let Err(why) = sent {
                inner.note_undelivered(link, to, why);
                link.answer(&Frame::Undelivered { to, kind, why });
            }
        }
        Frame::Call { to, kind, tag, timeout_ms, variant, args } => {
            let cost = variant.len() + args.len() + CALL;
            let Some(open) = OpenCall::begin(link, cost, inner.config.limits.open_calls) else {
                inner.note_refused_call(link);
                link.answer(&Frame::NoReply { tag, why: NotDelivered::NoAnswer });
                return Ok(());
            };
            let (port, answer) = oneshot::channel();
            let reply = match timeout_ms {
                Some(ms) => RpcReplyPort::from((port, Duration::from_millis(ms))),
                None => RpcReplyPort::from(port),
            };
            let (variant, args) = (variant.to_owned(), args.to_owned());
            let message = SerializedMessage::Call { variant, args, reply, metadata: None };
            let sent = inner
                .exports
                .find(to, kind)
                .and_then(|actor| actor.send_serialized(message).map_err(|_| NotDelivered::Gone));
            match sent {
                Ok(()) => {
                    inner.start_task("an answer to a call", answer_call(link.clone(), tag, answer, open));
                }
                Err(why) => {
                    inner.note_undelivered(link, to, why);
                    link.answer(&Frame::NoReply { tag, why });
                }
            }
        }
        Frame::Reply { tag, body } => {
            if let Some(port) = link.remote.answered(tag) {
                let _ = port.send(body.to_owned()); // the caller may have given up
            }
        }
        Frame::NoReply { tag, why } => {
            tracing::debug!(peer = %link.peer, tag, ?why, "a call will not be answered");
            drop(link.remote.answered(tag));
        }
        Frame::Undelivered { to, kind, why } => {
            tracing::debug!(peer = %link.peer, pid = to, ?why, "a message was not delivered");
            link.remote.end_proxy(to, Kind(kind));
        }
        _ => return Err("a frame that does not concern actors".into()),
    }
    Ok(())
}

/// Waits for an actor's answer, and sends it, or that there is none. Ends with the link.
async fn answer_call(
    link: Arc<LinkHandle>,
    tag: u64,
    answer: oneshot::Receiver<Vec<u8>>,
    _open: OpenCall, // until then
) {
    tokio::select! {
        answer = answer => match answer {
            Ok(body) => link.answer(&Frame::Reply { tag, body: &body }),
            Err(_) => link.answer(&Frame::NoReply { tag, why: NotDelivered::NoAnswer }),
        },
        () = link.done.cancelled() => {}
    }
}

impl Endpoint {
    /// Lets peers send messages of `kind` to a local actor, whoever tells them its address.
    pub fn export(&self, actor: &ActorCell, kind: Kind) {
        if let ActorId::Local(pid) = actor.get_id() {
            self.inner.exports.add(pid, kind);
        }
    }

    /// The address of an actor, to be sent to others. Exports it, if it is local.
    ///
    /// Of a reference that `resolve` made it is the address of the actor behind it, while the link is up; afterwards,
    /// and for references that other libraries made, an address that resolves to [`ResolveError::NotLinked`].
    pub fn address_of<M: RemoteMessage>(&self, actor: &ActorRef<M>) -> ActorAddress {
        let (peer, pid) = match actor.get_id() {
            ActorId::Local(pid) => {
                self.inner.exports.add(pid, M::kind());
                (self.inner.me.clone(), pid)
            }
            ActorId::Remote { node_id, pid } => {
                let link = self.inner.handles.iter().find(|handle| handle.remote.number == node_id);
                (link.map_or_else(|| PeerId::new("", 0), |handle| handle.peer.clone()), pid)
            }
        };
        ActorAddress { node: peer.node, incarnation: peer.incarnation, pid, kind: M::kind() }
    }

    /// Makes a reference of an address. Does not wait, and does not ask the node: that an actor of another node has
    /// ended shows when something is sent to it.
    pub fn resolve<M: RemoteMessage>(&self, address: &ActorAddress) -> Result<ActorRef<M>, ResolveError> {
        if address.kind != M::kind() {
            return Err(ResolveError::WrongType { expected: M::kind(), found: address.kind });
        }
        let same = |peer: &PeerId| {
            if peer.incarnation == address.incarnation {
                return Ok(());
            }
            Err(ResolveError::OtherIncarnation { wanted: address.incarnation, linked: peer.clone() })
        };
        if address.node == self.inner.me.node {
            same(&self.inner.me)?;
            let actor = where_is_pid(ActorId::Local(address.pid)).ok_or(ResolveError::Gone)?;
            if actor.is_message_type_of::<M>() != Some(true) {
                // The kind is the right one, so two types share a tag; what the actor's own is cannot be asked.
                return Err(ResolveError::WrongType { expected: M::kind(), found: Kind(0) });
            }
            return Ok(actor.into());
        }
        let not_linked = || ResolveError::NotLinked { node: address.node.clone() };
        let (link, peer) = self.link_to(&address.node).ok_or_else(not_linked)?;
        same(&peer)?;
        let handle = self.inner.handles.get(&link).map(|handle| handle.clone()).ok_or_else(not_linked)?;
        let _runtime = self.inner.runtime.enter(); // callers may be outside of one
        Ok(handle.remote.proxy(&handle, address.pid, address.kind)?.into())
    }
}
