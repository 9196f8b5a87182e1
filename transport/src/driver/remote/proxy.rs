//! Proxies: the one place that uses what ractor made for its own cluster library.
//!
//! `ActorRuntime::spawn_linked_remote` is public but documented as `ractor_cluster`'s. Its future pends only if
//! `pre_start` does, and ours does not, so one poll is enough: that is what lets `resolve` be synchronous. It would also pend in
//! a task that has used up its turn, so it is polled outside of tokio's budget.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use callsign_store::{lock::lock, logged};
use futures::FutureExt;
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, SpawnErr,
    message::SerializedMessage,
};
use tokio::task::unconstrained;

use super::{
    address::ResolveError,
    kind::Kind,
    reference::{News, Reference},
    side::Never,
};
use crate::{
    core::{frame::Frame, headers::Headers},
    driver::handle::LinkHandle,
    error::SendError,
};

/// The peer's own timer runs this much longer than the caller's, so that the caller's decides.
const TIMEOUT_GRACE: Duration = Duration::from_secs(1);

/// Stands for one actor of another node.
struct Proxy {
    kind: Kind,
    news: Arc<News>,
}

impl Actor for Proxy {
    type Msg = Never;
    type State = Arc<LinkHandle>;
    type Arguments = Arc<LinkHandle>;

    async fn pre_start(
        &self,
        _: ActorRef<Never>,
        link: Arc<LinkHandle>,
    ) -> Result<Arc<LinkHandle>, ActorProcessingErr> {
        Ok(link)
    }

    async fn handle_serialized(
        &self,
        myself: ActorRef<Never>,
        message: SerializedMessage,
        link: &mut Arc<LinkHandle>,
    ) -> Result<(), ActorProcessingErr> {
        forward_from(link, myself.get_id().pid(), self.kind, message);
        Ok(())
    }

    /// Ends as its actor did: for monitors and supervisors an actor that failed is another thing than one that stopped.
    async fn post_stop(&self, _: ActorRef<Never>, _: &mut Arc<LinkHandle>) -> Result<(), ActorProcessingErr> {
        self.news.failure().map_or(Ok(()), |failure| Err(failure.to_owned().into()))
    }
}

/// Starts a proxy. Does not wait; called inside a runtime.
fn spawn(
    id: ActorId,
    kind: Kind,
    link: Arc<LinkHandle>,
    supervisor: ActorCell,
) -> Result<Reference, SpawnErr> {
    let news = Arc::<News>::default();
    let proxy = Proxy { kind, news: news.clone() };
    // Unnamed: ractor removes the *local* name of the same spelling when a named proxy ends.
    unconstrained(ActorRuntime::<Proxy>::spawn_linked_remote(None, proxy, id, link, supervisor))
        .now_or_never()
        .unwrap_or_else(|| Err(SpawnErr::StartupFailed("ractor waited where it never did before".into())))
        .map(|(proxy, _)| Reference { proxy: proxy.get_cell(), news })
}

/// The reference to an actor: the one there is, or a new one.
pub(super) fn of(handle: &Arc<LinkHandle>, pid: u64, kind: Kind) -> Result<Reference, ResolveError> {
    let side = &handle.remote;
    let mut held = lock(&side.held);
    let Some(held) = held.as_mut() else {
        return Err(ResolveError::NotLinked { node: handle.peer.node.clone() });
    };
    // All under the lock, so that those who resolve an address get the same proxy: two would not keep the order.
    let reference = if let Some(reference) = held.find(pid, kind.0, Reference::is_alive)? {
        reference
    } else {
        let id = ActorId::Remote { node_id: side.number, pid };
        let reference = spawn(id, kind, handle.clone(), side.supervisor.clone())?;
        held.add(pid, kind.0, reference.clone());
        handle.has_to_say();
        reference
    };
    side.resolved.put(pid, kind, reference.proxy.clone(), held.count());
    Ok(reference)
}

/// Puts what a proxy was sent on the link. If that panics, the node has to know.
fn forward_from(link: &LinkHandle, to: u64, kind: Kind, message: SerializedMessage) {
    let tasks = &link.remote.tasks;
    tasks.step("a reference to a remote actor", || forward(link, to, kind, message));
}

fn forward(link: &LinkHandle, to: u64, kind: Kind, message: SerializedMessage) {
    let (sent, tag) = match message {
        SerializedMessage::Cast { variant, args, metadata } => {
            let headers = Headers::written(metadata.as_deref());
            let frame = Frame::Cast { to, kind: kind.0, headers, variant: &variant, args: &args };
            (link.queue(|outbox| outbox.send_frame(&frame)), None)
        }
        SerializedMessage::Call { variant, args, reply, metadata } => {
            let timeout = reply.get_timeout().map(|timeout| timeout.saturating_add(TIMEOUT_GRACE));
            let timeout_ms = timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
            let Some(tag) = link.remote.wait_for(reply) else { return };
            let (kind, headers) = (kind.0, Headers::written(metadata.as_deref()));
            let frame = Frame::Call { to, kind, tag, timeout_ms, headers, variant: &variant, args: &args };
            (link.queue(|outbox| outbox.send_frame(&frame)), Some(tag))
        }
        SerializedMessage::CallReply(..) => return, // of ractor_cluster only
    };
    let Err(why) = sent else { return };
    if let Some(tag) = tag {
        drop(link.remote.answered(tag)); // the caller learns of it at once
    }
    if !matches!(why, SendError::NotUp { .. }) {
        let dropped = link.dropped.fetch_add(1, Relaxed) + 1;
        if dropped.is_power_of_two() {
            logged!(warn, peer = %link.peer, dropped, "message to a remote actor dropped: {why}");
        }
    }
}
