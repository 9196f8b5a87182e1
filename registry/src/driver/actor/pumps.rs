//! What happens beside a member, as inputs for it: a task each.

use std::sync::Arc;

use callsign_store::{
    Clock,
    ids::{Incarnation, NodeName},
};
use callsign_transport::{LinkEvent, LinkEvents, trace};

use super::{Shared, repeated::Repeated, timer::Timer};
use crate::{
    core::{input::Input, message::Message, registry::Told},
    driver::metrics::OfPump,
};

/// What comes over links.
pub(super) async fn links(shared: Arc<Shared>, mut events: LinkEvents, metrics: OfPump) {
    let mut received = Vec::new();
    // A newer node may send as many as it likes that cannot be read here.
    let mut unread = Repeated::default();
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
                LinkEvent::Up { link, permits, .. } => {
                    Some(Input::LinkUp { node, incarnation, link: link.0, permits })
                }
                LinkEvent::Down { .. } => Some(Input::LinkDown { node, incarnation }),
                LinkEvent::Message { body, .. } => match Message::decode_with(&body, trace::is_installed()) {
                    Ok((message, traced)) => {
                        // Before the member hears of the requests.
                        shared.traces.asked(&node, &traced);
                        Some(Input::Message { from: node, message })
                    }
                    Err(error) => {
                        metrics.unread(&error);
                        if let Some(times) = unread.count("unread") {
                            tracing::warn!(peer = %node, %error, times, "messages are dropped");
                        }
                        None
                    }
                },
            }
        });
        if shared.inbox.extend(inputs.map(Told::Member).collect(), bytes) {
            shared.kick();
        }
    }
}

/// Wakes the member when it said.
pub(super) async fn time(shared: Arc<Shared>, clock: Clock, timer: Arc<Timer>) {
    loop {
        timer.due(&clock).await;
        shared.push(Input::Wake);
    }
}
