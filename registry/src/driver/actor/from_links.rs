//! What comes over links, as inputs for a member.

use std::sync::{Arc, Mutex};

use callsign_store::{
    ids::{Incarnation, NodeName},
    lock::lock,
    logged,
};
use callsign_transport::{LinkEvent, RoomTaken, trace};

use super::{Shared, repeated::Repeated};
use crate::{
    core::{input::Input, message::Message, registry::Told},
    driver::metrics::OfLinks,
};

/// Takes what comes over links: each in the task of its link, beside the member.
pub(super) struct FromLinks {
    shared: Arc<Shared>,
    metrics: OfLinks,
    /// A newer node may send as many as it likes that cannot be read here.
    unread: Mutex<Repeated>,
}

impl FromLinks {
    pub(super) fn new(shared: Arc<Shared>, metrics: OfLinks) -> Self {
        Self { shared, metrics, unread: Mutex::default() }
    }

    /// Decodes an event, and hands it to the member. A message keeps its room until the member takes it.
    pub(super) fn take(&self, event: LinkEvent, room: RoomTaken) {
        let bytes = match &event {
            LinkEvent::Message { body, .. } => body.len(),
            LinkEvent::Up { .. } | LinkEvent::Down { .. } => 0,
        };
        if let Some(input) = self.input(event) {
            let has_to_wake = self.shared.inbox.push_from_link(Told::Member(input), bytes, room);
            self.shared.pushed(has_to_wake);
        }
    }

    fn input(&self, event: LinkEvent) -> Option<Input> {
        let (LinkEvent::Up { peer, .. } | LinkEvent::Message { peer, .. } | LinkEvent::Down { peer, .. }) =
            &event;
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
                    self.shared.traces.asked(&node, &traced);
                    Some(Input::Message { from: node, message })
                }
                Err(error) => {
                    self.metrics.unread(&error);
                    let times = lock(&self.unread).count("unread");
                    if let Some(times) = times {
                        logged!(warn, peer = %node, %error, times, "messages are dropped");
                    }
                    None
                }
            },
        }
    }
}
