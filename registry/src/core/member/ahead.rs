//! What peers say of epochs that the store has not shown here yet.
//!
//! A peer is believed as far as the term goes that this node has read itself: one that names a later epoch may be early, or may
//! lie. So what it says waits, and the term is read at once; it counts when the term is there, and never if it does not come.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use callsign_store::{
    Time,
    ids::{Epoch, NodeName},
};

use crate::core::message::Message;

/// How many messages of one peer wait. More are taken for lost: whoever leads says again where the log ends.
const MOST_AHEAD: usize = 64;

/// While a peer goes on to say such things, the term is read so often. Shorter: one that lies keeps the store busy. Longer: one
/// that is early, and whose first reading failed, is ignored for longer.
const READ_EVERY: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SaidAhead {
    messages: VecDeque<Message>,
    read_at: Time,
}

/// All of it, by who said it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ahead {
    by_node: BTreeMap<NodeName, SaidAhead>,
}

impl Ahead {
    /// Keeps what a linked peer said. True: the term is to be read now.
    pub(super) fn keep(&mut self, now: Time, from: &NodeName, message: Message) -> bool {
        let is_first = !self.by_node.contains_key(from);
        let said = self
            .by_node
            .entry(from.clone())
            .or_insert_with(|| SaidAhead { messages: VecDeque::new(), read_at: now });
        if said.messages.len() < MOST_AHEAD {
            said.messages.push_back(message);
        }
        let is_due = is_first || now.since(said.read_at) >= READ_EVERY;
        if is_due {
            said.read_at = now;
        }
        is_due
    }

    /// Takes what the term bears out, or is past: each peer's in its order.
    pub(super) fn take(&mut self, epoch: Epoch) -> Vec<(NodeName, Message)> {
        let mut taken = Vec::new();
        for (node, said) in &mut self.by_node {
            let (now, later): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut said.messages)
                .into_iter()
                .partition(|message| message.says_epoch().is_none_or(|said| said <= epoch));
            said.messages = later;
            taken.extend(now.into_iter().map(|message| (node.clone(), message)));
        }
        self.by_node.retain(|_, said| !said.messages.is_empty());
        taken
    }

    /// The link to a node is down: what it says is said anew.
    pub(super) fn forget(&mut self, node: &NodeName) {
        self.by_node.remove(node);
    }
}
