//! What sessions tell, and what may be in their way.

use std::fmt;

use callsign_store::{
    Key, TooLarge,
    ids::{Incarnation, NodeName, SessionId},
    in_full,
    record::CorruptRecord,
    time::Time,
};
use serde::{Deserialize, Serialize};

use crate::core::lineage::LineageId;

/// What happened to this node's session, and to those of the others. In order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A session was opened, and is trusted.
    Opened {
        /// The session.
        session: SessionId,
    },
    /// Trust ran out: the node could not beat in time. The session may still be open; nothing may be done on it.
    Lapsed {
        /// The session.
        session: SessionId,
    },
    /// A beat found the session still open. It is trusted again, and what was registered in it and did not end at the lapse is still
    /// held.
    Resumed {
        /// The session.
        session: SessionId,
    },
    /// The session is closed. What was registered in it is gone. The node opens another.
    Lost {
        /// The session.
        session: SessionId,
    },
    /// The store does not have what was committed: it went back behind what it acknowledged. All names of this node are lost.
    /// Once for each loss.
    StoreWentBack {
        /// The keys that showed it to this node. None: it is the lineage that says so.
        shown: Vec<Key>,
    },
    /// The node is in another lineage of the store, or begins anew in the same one: all that it knew of registries is not so
    /// any more.
    Lineage {
        /// Which one.
        lineage: LineageId,
        /// When the node first saw it.
        since: Time,
    },
    /// Another live process holds a session under this node's name. Repeated whenever it was seen beating.
    NameInUse {
        /// The name.
        node: NodeName,
        /// The other process.
        incarnation: Incarnation,
    },
    /// A session of another node, which this one saw open, is closed. Once for each.
    PeerClosed(SessionId),
    /// This node's own record cannot be read. It is left as it is, and read again until it is repaired; meanwhile
    /// the node cannot beat, so trust runs out.
    Unreadable {
        /// What is wrong with it.
        error: CorruptRecord,
    },
    /// The record of another node cannot be read. It counts neither as closed nor as absent.
    PeerUnreadable {
        /// The node.
        node: NodeName,
        /// What is wrong with it.
        error: CorruptRecord,
    },
    /// The node left, and its session is closed. The last event.
    Left,
    /// The session cannot be kept. The last event.
    Failed(SessionFailure),
}

/// What it says in a log: one sentence.
impl fmt::Display for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { session } => write!(f, "session {session} is open"),
            Self::Lapsed { session } => write!(f, "session {session} is not trusted any more"),
            Self::Resumed { session } => {
                write!(
                    f,
                    "session {session} is trusted again, and what did not end at the lapse is still held"
                )
            }
            Self::Lost { session } => {
                write!(f, "session {session} is closed, and what was registered in it is gone")
            }
            Self::StoreWentBack { shown } => {
                write!(
                    f,
                    "the store went back: it does not have what it had acknowledged. All names of the cluster are lost, and \
                     registered anew after the longest lease"
                )?;
                let shown: Vec<_> = shown.iter().map(|key| String::from_utf8_lossy(key)).collect();
                if shown.is_empty() {
                    Ok(())
                } else {
                    write!(f, " (these keys show it: {})", shown.join(", "))
                }
            }
            Self::Lineage { lineage, .. } => {
                write!(f, "the node goes by lineage {} of the store", lineage.number.0)
            }
            Self::NameInUse { node, incarnation } => {
                write!(f, "another process runs under the name {node}, and lives: incarnation {incarnation}")
            }
            Self::PeerClosed(session) => write!(f, "session {session} of another node is closed"),
            Self::Unreadable { error } => write!(f, "this node's session record cannot be read: {error}"),
            Self::PeerUnreadable { node, error } => {
                write!(f, "the session record of {node} cannot be read: {error}")
            }
            Self::Left => f.write_str("the node has left, and its session is closed"),
            Self::Failed(failure) => write!(f, "the session cannot be kept: {}", in_full(failure)),
        }
    }
}

/// Why a session cannot be kept. It is not trusted any more, and nothing more is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum SessionFailure {
    /// This node's own record could not be read when the node was started. It was left as it is.
    #[error("this node's session record is corrupt")]
    Corrupt(#[source] CorruptRecord),
    /// This node's own record has the greatest number there is.
    #[error("this node's session number or beat cannot grow any more")]
    Exhausted,
    /// The store does not take the record.
    #[error("the store does not take the session record")]
    TooLarge(#[source] TooLarge),
    /// The node left, but the closing of its session was not confirmed in time. It may be closed; if it is not, the
    /// other nodes close it after its lease.
    #[error("the closing of the session was not confirmed in time")]
    LeaveUnconfirmed {
        /// What was in the way last.
        #[source]
        obstacle: Obstacle,
    },
}

/// What keeps a session from being opened, or closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nothing is known to be in the way; there was no time yet.
    #[error("nothing was answered yet")]
    Nothing,
    /// The store said that it is unavailable.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store did not answer in time, or could not say what became of a commit.
    #[error("the store does not answer in time")]
    NoAnswer,
    /// Another process holds a session under this node's name, and was seen beating.
    #[error("incarnation {incarnation} holds a session under this name, and lives")]
    NameInUse {
        /// The other process.
        incarnation: Incarnation,
    },
    /// Another process holds a session under this node's name. It was not seen beating yet: it may be dead.
    #[error("incarnation {incarnation} holds a session under this name, and may be dead")]
    FormerOpen {
        /// The other process.
        incarnation: Incarnation,
    },
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::SessionNumber;

    use super::*;

    #[test]
    fn every_event_is_a_sentence() {
        let node = NodeName::new("a").unwrap();
        let session = SessionId { node: node.clone(), incarnation: Incarnation(7), number: SessionNumber(2) };
        let error = || CorruptRecord::Malformed("m".into());
        let began = LineageId { number: crate::core::lineage::LineageNumber(3), ..LineageId::default() };
        let went_back = "the store went back: it does not have what it had acknowledged. All names of the cluster are lost, and \
                         registered anew after the longest lease";
        for (event, said) in [
            (SessionEvent::Opened { session: session.clone() }, "session a#2 is open".to_owned()),
            (
                SessionEvent::Lapsed { session: session.clone() },
                "session a#2 is not trusted any more".to_owned(),
            ),
            (
                SessionEvent::Resumed { session: session.clone() },
                "session a#2 is trusted again, and what did not end at the lapse is still held".to_owned(),
            ),
            (
                SessionEvent::Lost { session: session.clone() },
                "session a#2 is closed, and what was registered in it is gone".to_owned(),
            ),
            (SessionEvent::StoreWentBack { shown: Vec::new() }, went_back.to_owned()),
            (
                SessionEvent::StoreWentBack { shown: vec![b"k".to_vec(), b"l".to_vec()] },
                format!("{went_back} (these keys show it: k, l)"),
            ),
            (
                SessionEvent::Lineage { lineage: began, since: Time::ZERO },
                "the node goes by lineage 3 of the store".to_owned(),
            ),
            (
                SessionEvent::NameInUse { node: node.clone(), incarnation: Incarnation(7) },
                "another process runs under the name a, and lives: incarnation 7".to_owned(),
            ),
            (SessionEvent::PeerClosed(session), "session a#2 of another node is closed".to_owned()),
            (
                SessionEvent::Unreadable { error: error() },
                format!("this node's session record cannot be read: {}", error()),
            ),
            (
                SessionEvent::PeerUnreadable { node, error: error() },
                format!("the session record of a cannot be read: {}", error()),
            ),
            (SessionEvent::Left, "the node has left, and its session is closed".to_owned()),
            (
                SessionEvent::Failed(SessionFailure::Exhausted),
                "the session cannot be kept: this node's session number or beat cannot grow any more"
                    .to_owned(),
            ),
        ] {
            assert_eq!(event.to_string(), said);
        }
    }
}
