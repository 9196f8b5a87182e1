//! Why a name is not registered, started, given up or changed.

use std::time::Duration;

use callsign_store::{
    ids::{NodeName, Position},
    supervision::NodeFailure,
};
use serde::{Deserialize, Serialize};

use super::shown;
use crate::core::{entry::Entry, meta::MetaError, name::BadName};

/// Why a name was not registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name breaks the rules. Nothing was sent.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// Another actor holds the name. It was so at a moment after the call began.
    #[error("{name:?} is held by an actor on {}", holder.node)]
    Taken {
        /// The name asked for.
        name: String,
        /// The holder.
        holder: Entry,
    },
    /// The actor has ended: before the name was asked for, or before it was granted. It holds nothing; what was granted
    /// meanwhile is given up.
    #[error("the actor has ended")]
    ActorEnded,
    /// The actor runs on another node, and only its own node can register it: nobody else hears when it ends. Nothing was
    /// sent.
    #[error("the actor runs on {}, and only its own node can register it", of(node.as_ref()))]
    NotLocal {
        /// Where it runs. `None`: the reference is not one of this node's links, or that link is down.
        node: Option<NodeName>,
    },
    /// This node's replica is not complete yet. Nothing was sent.
    #[error("this node is not synced yet")]
    NotSynced,
    /// No member leads at present, and none came to in time. Nothing was sent.
    #[error("no leader")]
    NoLeader,
    /// This node's session is not trusted, though the store can be reached again by now. Nothing was sent.
    #[error("this node's session has lapsed")]
    Lapsed,
    /// The store takes no commits from this node. Nothing was sent, so the name is not held by this call.
    #[error("the store has taken no commit for {}", shown(*lasting))]
    StoreUnavailable {
        /// For how long, as this node has seen.
        lasting: Duration,
    },
    /// The semaphore has another limit while anybody is in it. So it was at a moment after the call began.
    #[error("the limit in force is {limit}")]
    OtherLimit {
        /// The limit in force.
        limit: u32,
    },
    /// By its certificate this node may not hold the name. So it was at a moment after the call began.
    #[error(
        "the certificate of this node does not let it hold {name:?}, but names that begin with {}",
        quoted(allowed)
    )]
    NotPermitted {
        /// The name asked for; of a membership, the name of the group.
        name: String,
        /// How the names begin that it may hold, as the leader knows.
        allowed: Vec<String>,
    },
    /// The session that asked was closed. The name is not, and will not be, held by this request's session.
    #[error("the session ended while {name:?} was being registered")]
    SessionLost {
        /// The name asked for.
        name: String,
    },
    /// The request was sent and no verdict came in time: the name may or may not be held by the caller, now or
    /// later. Registering the same actor again is safe, and finds out.
    #[error("the outcome of registering {name:?} is unknown after {}", shown(*waited))]
    Unknown {
        /// The name asked for.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Too many requests of this node are undecided. Nothing was sent.
    #[error("{pending} requests are undecided, try later")]
    Overloaded {
        /// How many.
        pending: usize,
    },
    /// This node is about to leave, and takes no new names. Nothing was sent: ask one of these.
    #[error("the node is about to leave; ask {}", nodes(ask))]
    Draining {
        /// The nodes that serve and are not known to be about to leave, the leader first. Empty: this node knows of none.
        ask: Vec<Elsewhere>,
    },
    /// The node has left the registry. Nothing was sent.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. If anything was granted, it ends with the
    /// node's session.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// A node that can be asked in another's place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Elsewhere {
    /// The node.
    pub node: NodeName,
    /// Where it listens for links, `host:port`. Nothing else is answered there.
    pub address: String,
    /// Where it answers whoever administers it, if it says so ([`Config::admin_address`](crate::Config::admin_address)).
    #[serde(default)]
    pub admin: Option<String>,
}

fn of(node: Option<&NodeName>) -> String {
    node.map_or_else(|| "another node".to_owned(), |node| format!("node {node}"))
}

fn quoted(prefixes: &[String]) -> String {
    let prefixes: Vec<_> = prefixes.iter().map(|prefix| format!("{prefix:?}")).collect();
    prefixes.join(" or ")
}

fn nodes(ask: &[Elsewhere]) -> String {
    let node = |Elsewhere { node, admin, .. }: &Elsewhere| match admin {
        Some(admin) => format!("{node} ({admin})"),
        None => node.to_string(),
    };
    let nodes: Vec<_> = ask.iter().map(node).collect();
    if nodes.is_empty() { "another one".to_owned() } else { nodes.join(", or ") }
}

/// Why a start brought neither an actor of this call's nor one of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum NotStarted {
    /// The name was not asked for, or was asked for and it is not known what became of it: as when it is registered. After
    /// `Unknown` nothing is started any more. An actor that was started before may be bound to the name yet, and is given up or kept as
    /// any other.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Somebody else was starting it, and had not done so in time. Nothing was started by this call.
    #[error("somebody else has been starting {name:?} for {}", shown(*waited))]
    StillStarting {
        /// The name asked for.
        name: String,
        /// The fencing token of that start.
        token: Position,
        /// How long was waited, from the beginning of the call.
        waited: Duration,
    },
    /// The function has failed. The name is given up.
    #[error("the start has failed: {reason}")]
    Failed {
        /// What its error says; 200 bytes of it.
        reason: String,
    },
    /// The function has panicked. The name is given up.
    #[error("the start has panicked: {reason}")]
    Panicked {
        /// What the panic says; 200 bytes of it.
        reason: String,
    },
    /// The actor ended before it held the name. The name is given up.
    #[error("the actor has ended before it held the name")]
    Ended,
    /// The function returned an actor of another node. The name is given up.
    #[error("the actor that was started runs on {}", of(node.as_ref()))]
    NotLocal {
        /// Where it runs, if that can be told.
        node: Option<NodeName>,
    },
    /// The function returned an actor that takes other messages than its reference says. It is stopped, and the name is given up.
    #[error("the actor takes other messages than its reference says")]
    OtherMessages,
    /// The function took too long. It goes on; the actor that it returns is stopped. The name is given up.
    #[error("the start took longer than {limit:?}")]
    TooSlow {
        /// How long it may take.
        limit: Duration,
    },
    /// The session lapsed, or the name was lost, while the actor was being started. It goes on; the actor that it returns is
    /// stopped.
    #[error("the name was lost while its actor was being started")]
    Lost,
    /// Nobody waited for the start when it could begin. Nothing was started, and the name is given up.
    #[error("nobody waited for the start any more")]
    Abandoned,
}

impl NotStarted {
    /// What is said of it to others.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Failed { reason } => reason.clone(),
            other => other.to_string(),
        }
    }
}

/// Why a name was not unregistered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum UnregisterError {
    /// The name breaks the rules. Nothing was sent.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// This node holds no such name. Only its host can give a name up.
    #[error("{name:?} is not held by this node")]
    NotHeldHere {
        /// The name.
        name: String,
        /// The holder, as this node's replica knows.
        holder: Option<Entry>,
    },
    /// This node has given the name up and will see it freed, but that is not done yet: no verdict came in time.
    #[error("{name:?} is given up, but not freed yet after {}", shown(*waited))]
    Pending {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The store takes no commits from this node, and calls are to fail then
    /// ([`Config::on_outage`](crate::Config::on_outage)). Nothing was changed: the name is held as before.
    #[error("the store has taken no commit for {}", shown(*lasting))]
    StoreUnavailable {
        /// For how long, as this node has seen.
        lasting: Duration,
    },
    /// The node has left the registry. Its session is closed, or will be, and frees all its names.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. The end of its session frees all its
    /// names.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// Why the metadata of a name was not replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The value cannot be metadata. Nothing was sent.
    #[error(transparent)]
    BadMeta(#[from] MetaError),
    /// The registration has ended, so it says nothing of itself any more. Nothing was changed.
    #[error("{name:?} is not held by this registration any more")]
    NotHeld {
        /// The name.
        name: String,
        /// The holder, as the log or this node's replica has it.
        holder: Option<Entry>,
    },
    /// The metadata was changed since the revision that was given. Nothing was changed. It was so at a moment after the call began.
    #[error("{name:?} is at revision {revision} now, and {expected} was given: read it again")]
    Changed {
        /// The name.
        name: String,
        /// The revision that was given.
        expected: Position,
        /// The position of the last change.
        revision: Position,
    },
    /// This node's replica is not complete yet. Nothing was sent.
    #[error("this node is not synced yet")]
    NotSynced,
    /// No member leads at present, and none came to in time. Nothing was sent.
    #[error("no leader")]
    NoLeader,
    /// This node's session is not trusted. Nothing was sent.
    #[error("this node's session has lapsed")]
    Lapsed,
    /// The store takes no commits from this node, and calls are to fail then
    /// ([`Config::on_outage`](crate::Config::on_outage)). Nothing was sent.
    #[error("the store has taken no commit for {}", shown(*lasting))]
    StoreUnavailable {
        /// For how long, as this node has seen.
        lasting: Duration,
    },
    /// The session was closed, and with it the registration has ended. The update may have been seen for a moment.
    #[error("the session ended while {name:?} was being updated")]
    SessionLost {
        /// The name.
        name: String,
    },
    /// The request was sent and no verdict came in time: the metadata may be replaced now or later, or not at all. Reading the
    /// revision from the log ([`Registry::lookup_consistent`](crate::Registry::lookup_consistent)) tells whether it was so far.
    #[error("the outcome of updating {name:?} is unknown after {}", shown(*waited))]
    Unknown {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Too many requests of this node are undecided, or they bring too much metadata. Nothing was sent.
    #[error("{pending} requests are undecided, try later")]
    Overloaded {
        /// How many.
        pending: usize,
    },
    /// The node has left the registry. Its session is closed, or will be, and frees all its names.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. The end of its session frees all its
    /// names.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_hold_a_name_is_told_which_ones_it_may() {
        let allowed = vec!["jobs/".to_owned(), "shop/".to_owned()];
        let text = RegisterError::NotPermitted { name: "x".into(), allowed }.to_string();
        let said = "the certificate of this node does not let it hold \"x\", but names that begin with \"jobs/\" or \"shop/\"";
        assert_eq!(text, said);
    }

    #[test]
    fn who_may_not_register_here_is_told_where() {
        let at = |name: &str| {
            let (node, address) = (NodeName::new(name).unwrap(), "127.0.0.1:1".to_owned());
            Elsewhere { node, address, admin: None }
        };
        let text = |ask| RegisterError::Draining { ask }.to_string();
        assert_eq!(text(vec![at("b"), at("c")]), "the node is about to leave; ask b, or c");
        let asked = Elsewhere { admin: Some("http://127.0.0.1:7077".into()), ..at("b") };
        let said = "the node is about to leave; ask b (http://127.0.0.1:7077), or c";
        assert_eq!(text(vec![asked, at("c")]), said, "where links come in, nobody else is answered");
        assert_eq!(text(Vec::new()), "the node is about to leave; ask another one");
        let elsewhere = |node| RegisterError::NotLocal { node }.to_string();
        assert!(elsewhere(NodeName::new("b").ok()).starts_with("the actor runs on node b, "));
        assert!(elsewhere(None).starts_with("the actor runs on another node, "));
    }
}
