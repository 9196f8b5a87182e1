//! Who is at the other end: node names, incarnations, links.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The longest node or cluster name, in bytes.
pub const MAX_NAME: usize = 100;

/// One incarnation of a node, as links know it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerId {
    /// The node's name, which survives restarts.
    pub node: Arc<str>,
    /// Drawn afresh at each start of the node. A higher number is not a newer one.
    pub incarnation: u64,
}

impl PeerId {
    /// Names one incarnation of a node. Nothing is checked: [`crate::Endpoint::start`] and the handshake do that.
    pub fn new(node: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { node: node.into(), incarnation }
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.node, self.incarnation)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Numbers the links of an endpoint, in the order in which they began. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// Which of a link's two queues a message takes. Messages of one lane keep their order; those of two do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Always first. Small messages that somebody waits for.
    Control,
    /// Sent in pieces when no control message waits, and never more than a window ahead of what the peer has
    /// read. Snapshots and the like.
    Bulk,
}

/// Whether `name` is 1 to [`MAX_NAME`] ASCII letters, digits, `.`, `_` and `-`: the rule of all of Callsign's names.
pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
