//! What the events of an elector say in a log: a sentence each.

use std::fmt;

use crate::core::{
    elector::types::ElectorEvent,
    state::{Change, Seat},
};

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined { node, .. } => write!(f, "{node} joined"),
            Self::Removed { node } => write!(f, "{node} is removed, since its session is closed"),
            Self::Left { node } => write!(f, "{node} left"),
            Self::Accused { by } => write!(f, "{by} says that the leader is silent"),
            Self::Withdrawn { by } => write!(f, "{by} hears the leader again"),
            Self::Resigned { node } => write!(f, "{node} gave up the seat"),
            Self::Drains { node } => write!(f, "{node} is about to leave"),
            Self::Synced { node } => write!(f, "{node} has all names"),
            Self::Configured { by } => write!(f, "{by} changed the settings for all"),
            Self::Filled => f.write_str("this node took the vacant seat"),
        }
    }
}

/// What became of the seat, behind a sentence. Nothing, if nothing did.
impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => Ok(()),
            Self::Vacated => f.write_str("; nobody leads"),
            Self::Elected { node, .. } => write!(f, "; {node} is elected"),
        }
    }
}

impl fmt::Display for ElectorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::View(view) => write!(f, "the store shows {} members", view.members.len()),
            Self::RunHandoff { leader, epoch } => {
                write!(f, "{leader} is asked to run its handoff of epoch {epoch}")
            }
            Self::Applied { change, seat, .. } => write!(f, "{change}{seat}"),
            Self::Dropped { entry, reason } => {
                write!(f, "what {} said came to nothing: {reason}", entry.author.node)
            }
            Self::Filled { seat } => write!(f, "{}{seat}", Change::Filled),
            Self::Undecodable { error, .. } => {
                write!(f, "an entry of the queue cannot be understood, and is removed: {error}")
            }
            Self::Corrupt { key, error } => {
                write!(f, "the record {} cannot be understood: {error}", String::from_utf8_lossy(key))
            }
            Self::LockBroken { lock } => {
                write!(f, "the lock of epoch {} did not move, and is taken from {}", lock.epoch, lock.owner)
            }
            Self::LockGivenUp { epoch } => {
                write!(f, "the lock of epoch {epoch} is cleared, although the leader did not answer")
            }
            Self::Missing { facts, .. } => {
                f.write_str("the store does not show what was committed")?;
                let keys: Vec<_> = facts.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect();
                if keys.is_empty() {
                    f.write_str(": it is of another lineage")
                } else {
                    write!(f, ": {}", keys.join(", "))
                }
            }
            Self::Left => f.write_str("the member has left"),
            Self::Unavailable { reason } => write!(f, "the store cannot be reached: {reason}"),
            Self::TooLarge(too_large) => write!(f, "the store does not take a transaction: {too_large}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::{
        Epoch, Incarnation, NodeName, Nonce, Sequence, SessionId, SessionNumber, Token,
    };

    use super::*;
    use crate::core::{
        past::Fact,
        record::{Lock, MembershipEvent, QueueEntry},
        state::Dropped,
    };

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn entry() -> QueueEntry {
        let author = SessionId { node: node("a"), incarnation: Incarnation(7), number: SessionNumber(1) };
        QueueEntry { author, sequence: Sequence(1), event: MembershipEvent::Leave { token: Token(1) } }
    }

    #[test]
    fn an_applied_entry_says_who_did_what_and_who_leads() {
        let b = || node("b");
        for (change, said) in [
            (Change::Joined { node: b(), token: Token(1) }, "b joined"),
            (Change::Removed { node: b() }, "b is removed, since its session is closed"),
            (Change::Left { node: b() }, "b left"),
            (Change::Accused { by: b() }, "b says that the leader is silent"),
            (Change::Withdrawn { by: b() }, "b hears the leader again"),
            (Change::Resigned { node: b() }, "b gave up the seat"),
            (Change::Drains { node: b() }, "b is about to leave"),
            (Change::Synced { node: b() }, "b has all names"),
            (Change::Configured { by: b() }, "b changed the settings for all"),
            (Change::Filled, "this node took the vacant seat"),
        ] {
            for (seat, then) in [
                (Seat::Kept, ""),
                (Seat::Vacated, "; nobody leads"),
                (Seat::Elected { node: node("c"), opening: None }, "; c is elected"),
            ] {
                let event = ElectorEvent::Applied { entry: entry(), change: change.clone(), seat };
                assert_eq!(event.to_string(), format!("{said}{then}"));
            }
        }
    }

    #[test]
    fn whatever_else_happens_is_a_sentence() {
        let (key, epoch) = (b"k".to_vec(), Epoch(3));
        let lock = Lock { epoch, owner: node("b"), nonce: Nonce(1) };
        let missing = |key| (key, Fact::Author(Sequence(1)));
        for (event, said) in [
            (
                ElectorEvent::RunHandoff { leader: node("b"), epoch },
                "b is asked to run its handoff of epoch 3",
            ),
            (
                ElectorEvent::Dropped { entry: entry(), reason: Dropped::NothingNew },
                "what a said came to nothing: it says nothing new",
            ),
            (ElectorEvent::Filled { seat: Seat::Vacated }, "this node took the vacant seat; nobody leads"),
            (
                ElectorEvent::Undecodable { key: key.clone(), error: "e".into() },
                "an entry of the queue cannot be understood, and is removed: e",
            ),
            (
                ElectorEvent::Corrupt { key: key.clone(), error: "e".into() },
                "the record k cannot be understood: e",
            ),
            (ElectorEvent::LockBroken { lock }, "the lock of epoch 3 did not move, and is taken from b"),
            (
                ElectorEvent::LockGivenUp { epoch },
                "the lock of epoch 3 is cleared, although the leader did not answer",
            ),
            (
                ElectorEvent::Missing { since: None, facts: Vec::new() },
                "the store does not show what was committed: it is of another lineage",
            ),
            (
                ElectorEvent::Missing { since: None, facts: vec![missing(key), missing(b"l".to_vec())] },
                "the store does not show what was committed: k, l",
            ),
            (ElectorEvent::Left, "the member has left"),
            (ElectorEvent::Unavailable { reason: "r".into() }, "the store cannot be reached: r"),
        ] {
            assert_eq!(event.to_string(), said);
        }
    }
}
