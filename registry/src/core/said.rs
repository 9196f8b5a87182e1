//! What the events of a registry say in a log: a sentence each.

use std::fmt;

use crate::core::input::{Drained, Event};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Term { epoch, leader: Some(leader) } => write!(f, "{leader} leads, epoch {epoch}"),
            Self::Term { epoch, leader: None } => write!(f, "nobody leads, epoch {epoch}"),
            Self::Serving { epoch, position } => {
                write!(f, "this node serves as the leader of epoch {epoch}, from position {position} on")
            }
            Self::Deposed { epoch } => write!(f, "this node leads no more: epoch {epoch} is over"),
            Self::Synced { position } => write!(f, "this node has all names, up to position {position}"),
            Self::Draining => f.write_str("this node is about to leave, and takes no new names"),
            Self::Drained { drained } => write!(f, "this node may leave: {drained}"),
            Self::SnapshotInstalled { position, names } => {
                write!(f, "a snapshot of {names} names is in place, up to position {position}")
            }
            Self::HostGone { session, names } => {
                let (names, are) = if *names == 1 {
                    ("one name".to_owned(), "is")
                } else {
                    (format!("the {names} names"), "are")
                };
                write!(f, "{names} of {} {are} free, since session {session} is closed", session.node)
            }
            Self::ClaimLost { name } => write!(f, "{name:?} is lost: the log does not have it"),
            Self::Orphan { name } => write!(f, "{name:?} is given up, since nobody here claims it"),
            Self::GivenAway { name } => write!(f, "{name:?} went to another actor"),
            Self::Taken { name, token } => write!(f, "{name:?} came to this node, under token {token}"),
            Self::BatchTooLarge { reason, tried_next } => {
                write!(
                    f,
                    "the store did not take a batch ({reason}); the next ones have {tried_next} bytes at most"
                )
            }
            Self::Corrupt { reason } => write!(f, "the log cannot be read: {reason}"),
        }
    }
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Led { by } => write!(f, "{by} leads"),
            Self::Alone => f.write_str("no other member can lead"),
            Self::TimedOut => f.write_str("it was not seen in time that another member serves"),
            Self::Left => f.write_str("it has left already"),
        }
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::{Epoch, Incarnation, NodeName, Position, SessionId, SessionNumber};

    use super::*;

    #[test]
    fn every_event_is_a_sentence_and_names_are_quoted() {
        let node = |name| NodeName::new(name).unwrap();
        let session = SessionId { node: node("b"), incarnation: Incarnation(7), number: SessionNumber(2) };
        let (epoch, position) = (Epoch(3), Position(9));
        let name = || "x\ny".into();
        let drained = |drained| Event::Drained { drained };
        for (event, said) in [
            (Event::Term { epoch, leader: Some(node("a")) }, "a leads, epoch 3"),
            (Event::Term { epoch, leader: None }, "nobody leads, epoch 3"),
            (
                Event::Serving { epoch, position },
                "this node serves as the leader of epoch 3, from position 9 on",
            ),
            (Event::Deposed { epoch }, "this node leads no more: epoch 3 is over"),
            (Event::Synced { position }, "this node has all names, up to position 9"),
            (Event::Draining, "this node is about to leave, and takes no new names"),
            (drained(Drained::Led { by: node("a") }), "this node may leave: a leads"),
            (drained(Drained::Alone), "this node may leave: no other member can lead"),
            (
                drained(Drained::TimedOut),
                "this node may leave: it was not seen in time that another member serves",
            ),
            (drained(Drained::Left), "this node may leave: it has left already"),
            (
                Event::SnapshotInstalled { position, names: 5 },
                "a snapshot of 5 names is in place, up to position 9",
            ),
            (
                Event::HostGone { session: session.clone(), names: 1 },
                "one name of b is free, since session b#2 is closed",
            ),
            (Event::HostGone { session, names: 5 }, "the 5 names of b are free, since session b#2 is closed"),
            (Event::ClaimLost { name: name() }, r#""x\ny" is lost: the log does not have it"#),
            (Event::Orphan { name: name() }, r#""x\ny" is given up, since nobody here claims it"#),
            (Event::GivenAway { name: name() }, r#""x\ny" went to another actor"#),
            (Event::Taken { name: name(), token: position }, r#""x\ny" came to this node, under token 9"#),
            (
                Event::BatchTooLarge { reason: "r".into(), tried_next: 7 },
                "the store did not take a batch (r); the next ones have 7 bytes at most",
            ),
            (Event::Corrupt { reason: "r".into() }, "the log cannot be read: r"),
        ] {
            assert_eq!(event.to_string(), said);
        }
    }
}
