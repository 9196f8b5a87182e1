//! What peers send to this node's actors, and their answers.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use callsign_store::{lock::lock, logged};
use ractor::{RpcReplyPort, message::SerializedMessage};
use tokio::sync::oneshot;
use tracing::Span;

use super::{many, traced};
use crate::{
    core::{
        ends::{End, Input::Asked},
        frame::{Frame, NotDelivered},
    },
    driver::{handle::LinkHandle, inner::Inner},
};

/// Words for counters, beside those of [`crate::Refused`].
const NO_SUCH_ACTOR: &str = "no-such-actor";
const TOO_MANY_CALLS: &str = "too-many-calls";

/// What an open call costs beside its arguments, in bytes: its reply port, and the task that waits for it.
const CALL: usize = 1024;

/// Queues an answer.
fn send_back(link: &LinkHandle, frame: &Frame<'_>) {
    // An answer that finds no room is lost like any other message, but its caller must not wait for it.
    if let (Err(why), Frame::Reply { tag, .. }) = (link.queue(|outbox| outbox.send_frame(frame)), frame) {
        logged!(warn, peer = %link.peer, "answer dropped: {why}");
        let none = Frame::NoReply { tag: *tag, why: NotDelivered::NoAnswer };
        link.queue(|outbox| outbox.send_own(&none));
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

/// Counts a message for an actor that peers cannot reach. One for an actor that was exported and has ended is the
/// ordinary life of references.
fn note_undelivered(inner: &Inner, link: &LinkHandle, pid: u64, why: NotDelivered) {
    if matches!(why, NotDelivered::NotExported | NotDelivered::WrongKind) {
        let count = inner.count_refused(NO_SUCH_ACTOR);
        if count.is_power_of_two() {
            logged!(warn, peer = %link.peer, pid, count, "a message was for an actor that peers cannot reach: {why}");
        }
    }
}

fn note_refused_call(inner: &Inner, link: &LinkHandle) {
    let count = inner.count_refused(TOO_MANY_CALLS);
    if count.is_power_of_two() {
        logged!(warn, peer = %link.peer, count, "call refused: too many of the peer's are open");
    }
}

/// Takes a frame that concerns actors. The link is up. An error is what the peer did wrong.
pub(crate) fn on_frame(inner: &Arc<Inner>, link: &Arc<LinkHandle>, frame: Frame<'_>) -> Result<(), String> {
    match frame {
        // Headers that this version does not know are passed over.
        Frame::Cast { to, kind, headers, variant, args } => {
            let span = traced::callee(inner, link, headers, variant);
            let message = SerializedMessage::Cast {
                variant: variant.to_owned(),
                args: args.to_owned(),
                metadata: None,
            };
            let sent = inner.exports.find(to, kind).and_then(|actor| actor.send(message, &span));
            if let Err(why) = sent {
                note_undelivered(inner, link, to, why);
                // If its end is on the way, that says more.
                if !is_end_on_its_way(inner, link, to) {
                    send_back(link, &Frame::Undelivered { to, kind, why });
                }
            }
        }
        Frame::CastAll { to, kind, headers, variant, args } => {
            let span = traced::callee(inner, link, headers, variant);
            return many::deliver(inner, to, kind, variant, args, &span);
        }
        Frame::Call { to, kind, tag, timeout_ms, headers, variant, args } => {
            let cost = variant.len() + args.len() + CALL;
            let Some(open) = OpenCall::begin(link, cost, inner.config.limits.open_calls) else {
                note_refused_call(inner, link);
                send_back(link, &Frame::NoReply { tag, why: NotDelivered::NoAnswer });
                return Ok(());
            };
            let span = traced::callee(inner, link, headers, variant);
            let (port, answer) = oneshot::channel();
            let reply = match timeout_ms {
                Some(ms) => RpcReplyPort::from((port, Duration::from_millis(ms))),
                None => RpcReplyPort::from(port),
            };
            let (variant, args) = (variant.to_owned(), args.to_owned());
            let message = SerializedMessage::Call { variant, args, reply, metadata: None };
            let sent = inner.exports.find(to, kind).and_then(|actor| actor.send(message, &span));
            match sent {
                Ok(()) => {
                    inner.start_task(
                        "an answer to a call",
                        answer_call(link.clone(), tag, answer, open, span),
                    );
                }
                Err(why) => {
                    note_undelivered(inner, link, to, why);
                    send_back(link, &Frame::NoReply { tag, why });
                }
            }
        }
        Frame::Reply { tag, body } => {
            if let Some(port) = link.remote.answered(tag) {
                let _ = port.send(body.to_owned()); // the caller may have given up
            }
        }
        Frame::NoReply { tag, why } => {
            logged!(debug, peer = %link.peer, tag, %why, "a call will not be answered");
            drop(link.remote.answered(tag));
        }
        Frame::Undelivered { to, kind, why } => {
            logged!(debug, peer = %link.peer, pid = to, %why, "a message was not delivered");
            link.remote.ended(to, kind, &End::Not(why));
        }
        Frame::Watch { to, kind } => return on_watch(inner, link, to, kind),
        Frame::Watching { to, kind } => link.remote.lives(to, kind),
        Frame::Ended { to, kind, how } => {
            logged!(debug, peer = %link.peer, pid = to, %how, "an actor has ended");
            link.remote.ended(to, kind, &End::of(how));
        }
        _ => return Err("a frame that does not concern actors".into()),
    }
    Ok(())
}

/// The peer wants to know when an actor ends.
fn on_watch(inner: &Arc<Inner>, link: &Arc<LinkHandle>, to: u64, kind: u64) -> Result<(), String> {
    let found = inner.exports.find(to, kind);
    if let Err(why) = found {
        note_undelivered(inner, link, to, why);
    }
    let is_there = found.map(drop);
    if inner.told_of_ends(Asked { link: link.id, actor: to, kind, is_there }) {
        return Err("it asks for actors, and does not read what it is answered".into());
    }
    Ok(())
}

fn is_end_on_its_way(inner: &Inner, link: &LinkHandle, pid: u64) -> bool {
    let waits = lock(&inner.ends).waits(link.id, pid);
    waits.is_some_and(|waits| waits || inner.watches.get().is_some_and(|watches| watches.has_ended(pid)))
}

/// Waits for an actor's answer, and sends it, or that there is none. Ends with the link.
async fn answer_call(
    link: Arc<LinkHandle>,
    tag: u64,
    answer: oneshot::Receiver<Vec<u8>>,
    _open: OpenCall, // until then
    span: Span,
) {
    tokio::select! {
        biased;
        answer = answer => {
            span.record("answered", answer.is_ok());
            match answer {
                Ok(body) => send_back(&link, &Frame::Reply { tag, body: &body }),
                Err(_) => send_back(&link, &Frame::NoReply { tag, why: NotDelivered::NoAnswer }),
            }
        },
        () = link.done.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Endpoint, EndpointConfig, MemoryNetwork, Network,
        driver::{
            handle::tests::idle,
            remote::{kind::Kind, side::LinkSupervisor},
        },
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn that_an_actor_has_ended_is_said_once_by_its_end_if_somebody_asked_for_that() {
        let network = MemoryNetwork::new();
        let start = |node: &'static str| {
            let mut config = EndpointConfig::new("prod", node, 1, "127.0.0.1:0".parse().unwrap());
            config.network = Network::Memory(network.clone());
            Endpoint::start(config)
        };
        let (a, b) = (start("a").await.unwrap(), start("b").await.unwrap());
        b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
        a.subscribe("names").recv().await.unwrap();
        let (link, _) = a.link_to("b").unwrap();
        let handle = a.inner.handles.get(&link).unwrap().clone();
        let (actor, running) = ractor::Actor::spawn(None, LinkSupervisor, ()).await.unwrap();
        actor.stop(None);
        running.await.unwrap();
        let (pid, kind) = (actor.get_id().pid(), 7);
        a.inner.exports.add(actor.get_cell(), Kind(kind));
        let cast = || {
            let before = lock(&handle.outbox).queued().0;
            let headers = crate::core::headers::Headers::NONE;
            let frame = Frame::Cast { to: pid, kind, headers, variant: "x", args: b"" };
            on_frame(&a.inner, &handle, frame).unwrap();
            lock(&handle.outbox).queued().0 - before
        };
        // Nothing is written meanwhile: this test does not wait.
        assert!(cast() > 0, "that it was not delivered is all that the peer hears");
        assert!(!a.inner.told_of_ends(Asked { link, actor: pid, kind, is_there: Ok(()) }));
        assert_eq!(a.watched(), 0, "it has ended, whoever found it a moment ago");
        assert_eq!(cast(), 0, "its end is on the way");
        // Nobody has asked for traces here, so what is no trace is nobody's concern.
        let headers = crate::core::headers::tests::TRACED;
        let frame = Frame::Cast { to: pid, kind, headers, variant: "x", args: b"" };
        on_frame(&a.inner, &handle, frame).unwrap();
        assert_eq!(a.refusal_counts().get("bad-trace-context"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_may_have_all_the_room_of_open_calls_and_no_more() {
        let mut config = EndpointConfig::new("prod", "a", 1, "127.0.0.1:0".parse().unwrap());
        config.network = Network::Memory(MemoryNetwork::new());
        config.limits.open_calls = CALL + 3;
        let a = Endpoint::start(config).await.unwrap();
        let link = idle(1, a.inner.now()).await;
        let refused_after = |args: &[u8]| {
            let (to, kind, tag, timeout_ms, variant) = (1_u64 << 40, 7, 1, None, "x");
            let headers = crate::core::headers::Headers::NONE;
            let frame = Frame::Call { to, kind, tag, timeout_ms, headers, variant, args };
            on_frame(&a.inner, &link, frame).unwrap();
            a.refusal_counts().get("too-many-calls").copied()
        };
        // There is no such actor, so each is over at once.
        assert_eq!([refused_after(b"ab"), refused_after(b"ab")], [None, None]);
        assert_eq!([refused_after(b"abc"), refused_after(b"ab")], [Some(1), Some(1)]);
        assert_eq!(link.remote.open.load(Relaxed), 0);
    }
}
