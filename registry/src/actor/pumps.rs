//! What happens beside a member, as inputs for it: a task each.
#![allow(clippy::disallowed_methods)] // part of the driver

use std::sync::Arc;

use callsign_elector::{
    Clock, Time,
    elector::{ElectorEvent, driver::ElectorHandle},
    ids::{Incarnation, NodeName},
    session::{NodeSession, SessionEvent},
};
use callsign_transport::{LinkEvent, LinkEvents};
use tokio::sync::{mpsc, watch};

use super::Shared;
use crate::{input::Input, message::Message, metrics::OfPump};

/// What comes over links.
pub(super) async fn links(shared: Arc<Shared>, mut events: LinkEvents, metrics: OfPump) {
    let mut received = Vec::new();
    let mut unread = 0_u64;
    loop {
        shared.inbox.room().await;
        if events.recv_many(&mut received, 1024).await == 0 {
            return;
        }
        let bytes = received.iter().map(|event| match event {
            LinkEvent::Message { body, .. } => body.len(),
            LinkEvent::Up { .. } | LinkEvent::Down { .. } => 0,
        });
        let bytes: usize = bytes.sum();
        metrics.received(bytes as u64);
        // Decoded here, beside the member, not in it.
        let inputs = received.drain(..).filter_map(|event| {
            let peer = match &event {
                LinkEvent::Up { peer, .. }
                | LinkEvent::Message { peer, .. }
                | LinkEvent::Down { peer, .. } => peer,
            };
            // The transport has checked the peer's name by the same rules.
            let node = NodeName::new(&peer.node).ok()?;
            let incarnation = Incarnation(peer.incarnation);
            match event {
                LinkEvent::Up { link, .. } => Some(Input::LinkUp { node, incarnation, link: link.0 }),
                LinkEvent::Down { .. } => Some(Input::LinkDown { node, incarnation }),
                LinkEvent::Message { body, .. } => match Message::decode(&body) {
                    Ok(message) => Some(Input::Message { from: node, message }),
                    Err(error) => {
                        metrics.unread(&error);
                        // A newer node may send as many as it likes.
                        unread += 1;
                        if unread.is_power_of_two() {
                            tracing::warn!(peer = %node, %error, unread, "messages are dropped");
                        }
                        None
                    }
                },
            }
        });
        if shared.inbox.extend(inputs.collect(), bytes) {
            shared.kick();
        }
    }
}

/// What becomes of the node's session, for the member and its elector.
pub(super) async fn session(
    shared: Arc<Shared>,
    mut events: mpsc::UnboundedReceiver<SessionEvent>,
    elector: ElectorHandle,
) {
    while let Some(event) = events.recv().await {
        let (notice, input) = Input::of_session(event);
        if let Some(notice) = notice {
            elector.tell(notice);
        }
        if let Some(input) = input {
            let is_trusted = matches!(input, Input::SessionOpened(_) | Input::SessionResumed(_));
            shared.push(input);
            if is_trusted {
                shared.trusted.notify_waiters();
            }
        }
    }
}

/// What the elector says.
pub(super) async fn elector(
    shared: Arc<Shared>,
    mut events: mpsc::UnboundedReceiver<ElectorEvent>,
    session: NodeSession,
    metrics: OfPump,
) {
    while let Some(event) = events.recv().await {
        metrics.elector(&event);
        match event {
            ElectorEvent::Missing { since, facts } => {
                tracing::warn!(?facts, "the store does not show what was committed");
                session.missing(since, facts);
            }
            ElectorEvent::View(view) => shared.push(Input::View(view)),
            ElectorEvent::Assume { leader, epoch } => shared.push(Input::Assume { leader, epoch }),
            ElectorEvent::Left => shared.left.notify_waiters(),
            event @ (ElectorEvent::Corrupt { .. }
            | ElectorEvent::Undecodable { .. }
            | ElectorEvent::LockBroken { .. }
            | ElectorEvent::LockGivenUp { .. }
            | ElectorEvent::Unavailable { .. }
            | ElectorEvent::TooLarge(_)) => tracing::warn!(?event, "elector"),
            event => tracing::info!(?event, "elector"),
        }
    }
}

/// Wakes the member when it said.
pub(super) async fn time(shared: Arc<Shared>, clock: Clock, mut wakes: watch::Receiver<Time>) {
    loop {
        let at = *wakes.borrow_and_update();
        tokio::select! {
            changed = wakes.changed() => if changed.is_err() { return },
            () = clock.sleep_until(at) => {
                shared.push(Input::Wake);
                // The member says when next.
                if wakes.changed().await.is_err() { return }
            }
        }
    }
}
