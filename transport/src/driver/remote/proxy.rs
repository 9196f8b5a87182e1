//! Proxies: the one place that uses what ractor made for its own cluster library.
//!
//! `ActorRuntime::spawn_linked_remote` is public but documented as `ractor_cluster`'s. Its future pends only if
//! `pre_start` does, and ours does not, so one poll is enough: that is what lets `resolve` be synchronous.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use callsign_store::lock::lock;
use futures::FutureExt;
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, ActorStatus, SpawnErr,
    message::SerializedMessage,
};

use super::{address::ResolveError, kind::Kind, side::Never};
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
}

/// Starts a proxy. Does not wait; called inside a runtime.
fn spawn(
    id: ActorId,
    kind: Kind,
    link: Arc<LinkHandle>,
    supervisor: ActorCell,
) -> Result<ActorCell, SpawnErr> {
    // Unnamed: ractor removes the *local* name of the same spelling when a named proxy ends.
    ActorRuntime::<Proxy>::spawn_linked_remote(None, Proxy { kind }, id, link, supervisor)
        .now_or_never()
        .unwrap_or_else(|| Err(SpawnErr::StartupFailed("ractor waited where it never did before".into())))
        .map(|(proxy, _)| proxy.get_cell())
}

/// Whether a proxy still takes messages.
fn is_alive(proxy: &ActorCell) -> bool {
    proxy.get_status() < ActorStatus::Draining
}

/// The proxy of an actor: the one there is, or a new one.
pub(super) fn of(handle: &Arc<LinkHandle>, pid: u64, kind: Kind) -> Result<ActorCell, ResolveError> {
    let side = &handle.remote;
    let mut proxies = lock(&side.proxies);
    let Some(proxies) = proxies.as_mut() else {
        return Err(ResolveError::NotLinked { node: handle.peer.node.clone() });
    };
    // Anybody may stop a proxy. That ends nothing but the proxy.
    if let Some(proxy) = proxies.get(&(pid, kind)).filter(|proxy| is_alive(proxy)) {
        return Ok(proxy.clone());
    }
    // Under the lock, so that all who resolve an address get the same proxy: two would not keep the order.
    let id = ActorId::Remote { node_id: side.number, pid };
    let proxy = spawn(id, kind, handle.clone(), side.supervisor.clone())?;
    proxies.insert((pid, kind), proxy.clone(), |_, proxy| is_alive(proxy));
    Ok(proxy)
}

/// Puts what a proxy was sent on the link. If that panics, the node has to know.
fn forward_from(link: &LinkHandle, to: u64, kind: Kind, message: SerializedMessage) {
    let tasks = &link.remote.tasks;
    tasks.step("a reference to a remote actor", || forward(link, to, kind, message));
}

fn forward(link: &LinkHandle, to: u64, kind: Kind, message: SerializedMessage) {
    let (sent, tag) = match message {
        SerializedMessage::Cast { variant, args, .. } => {
            let frame =
                Frame::Cast { to, kind: kind.0, headers: Headers::NONE, variant: &variant, args: &args };
            (link.queue(|outbox| outbox.send_frame(&frame)), None)
        }
        SerializedMessage::Call { variant, args, reply, .. } => {
            let timeout = reply.get_timeout().map(|timeout| timeout + TIMEOUT_GRACE);
            let timeout_ms = timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
            let Some(tag) = link.remote.wait_for(reply) else { return };
            let (kind, headers) = (kind.0, Headers::NONE);
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
            tracing::warn!(peer = %link.peer, dropped, "message to a remote actor dropped: {why}");
        }
    }
}
