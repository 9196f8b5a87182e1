//! What the events of a singleton say in a log: a sentence each.

use std::fmt;

use super::events::SingletonEvent;
use crate::{core::singleton::ChildKind, driver::oracle::MonitorEvent};

impl fmt::Display for SingletonEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Election(event) => write!(f, "in the election: {}", event.what.name()),
            Self::Monitor(event) => write!(f, "{event}"),
            Self::ChildStarted { kind, restart: 0 } => write!(f, "the {kind} runs"),
            Self::ChildStarted { kind, restart } => {
                write!(f, "the {kind} runs again, after {restart} restarts")
            }
            Self::ChildNotStarted { kind, why } => write!(f, "the {kind} did not start: {why}"),
            Self::ChildExited { kind, why } => write!(f, "the {kind} ended, and was not asked to: {why}"),
            Self::GivenUp { kind, why } => write!(f, "the {kind} is not started again: {why}"),
            Self::Stopping { why } => write!(f, "the {} is asked to end: {why}", ChildKind::Leader),
            Self::ChildStopped { kind, took } => write!(f, "the {kind} has ended, after {took:?}"),
            Self::ChildAborted { kind, took } => {
                write!(f, "the {kind} did not end within {took:?}, and is aborted")
            }
            Self::Registered { token } => {
                write!(f, "the {} holds its name, under token {token}", ChildKind::Leader)
            }
            Self::NameHeld { holder } => {
                write!(f, "the name is still held on {}, under token {}", holder.node(), holder.token())
            }
            Self::NotRegistered { why } => {
                write!(f, "the {} is not registered yet: {why}", ChildKind::Leader)
            }
            Self::NameLost => {
                f.write_str("the name was lost with the node's session, and is registered again")
            }
            Self::HandedOver { bytes } => write!(f, "{bytes} bytes are left for the successor"),
            Self::NotHandedOver { why } => write!(f, "nothing is handed over: {why}"),
            Self::TookOver { bytes, from } => {
                write!(f, "{bytes} bytes were left by the leader of epoch {from}")
            }
        }
    }
}

impl fmt::Display for MonitorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { leader } => write!(f, "the leader's actor on {} is watched", leader.node()),
            Self::Failed { retry, remaining } => {
                write!(
                    f,
                    "the leader's actor is not to be seen, {retry} times now; it is looked for {remaining:?} more"
                )
            }
            Self::Timeout { elapsed } => {
                write!(f, "the leader's actor was not to be seen for {elapsed:?}: the seat is claimed")
            }
            Self::LeaderDown { leader } => {
                write!(f, "the leader's actor on {} is gone: the seat is claimed", leader.node())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callsign_election::role::Lost;
    use callsign_store::ids::{Epoch, Position};

    use super::*;

    #[test]
    fn every_event_is_a_sentence() {
        let (leader, follower) = (ChildKind::Leader, ChildKind::Follower);
        let (took, why) = (Duration::from_millis(20), || "w".to_owned());
        for (event, said) in [
            (SingletonEvent::ChildStarted { kind: leader, restart: 0 }, "the leader child runs"),
            (
                SingletonEvent::ChildStarted { kind: follower, restart: 2 },
                "the follower child runs again, after 2 restarts",
            ),
            (
                SingletonEvent::ChildNotStarted { kind: leader, why: why() },
                "the leader child did not start: w",
            ),
            (
                SingletonEvent::ChildExited { kind: leader, why: why() },
                "the leader child ended, and was not asked to: w",
            ),
            (
                SingletonEvent::GivenUp { kind: leader, why: why() },
                "the leader child is not started again: w",
            ),
            (
                SingletonEvent::Stopping { why: Lost::TrustLapsed },
                "the leader child is asked to end: no refresh came through in time",
            ),
            (SingletonEvent::ChildStopped { kind: leader, took }, "the leader child has ended, after 20ms"),
            (
                SingletonEvent::ChildAborted { kind: leader, took },
                "the leader child did not end within 20ms, and is aborted",
            ),
            (
                SingletonEvent::Registered { token: Position(7) },
                "the leader child holds its name, under token 7",
            ),
            (SingletonEvent::NotRegistered { why: why() }, "the leader child is not registered yet: w"),
            (SingletonEvent::NameLost, "the name was lost with the node's session, and is registered again"),
            (SingletonEvent::HandedOver { bytes: 5 }, "5 bytes are left for the successor"),
            (SingletonEvent::NotHandedOver { why: why() }, "nothing is handed over: w"),
            (
                SingletonEvent::TookOver { bytes: 5, from: Epoch(3) },
                "5 bytes were left by the leader of epoch 3",
            ),
            (
                SingletonEvent::Monitor(MonitorEvent::Failed { retry: 2, remaining: took }),
                "the leader's actor is not to be seen, 2 times now; it is looked for 20ms more",
            ),
            (
                SingletonEvent::Monitor(MonitorEvent::Timeout { elapsed: took }),
                "the leader's actor was not to be seen for 20ms: the seat is claimed",
            ),
        ] {
            assert_eq!(event.to_string(), said);
        }
    }
}
