//! Why a node does not join, serve, or leave.

use std::time::Duration;

use callsign_elector::{
    session::{OpenSessionError, SessionFailure, TimingError},
    settings::{InForce, OutOfBounds},
};
use callsign_store::{
    OpenError,
    ids::{Incarnation, InvalidName, NodeName},
    record::CorruptRecord,
    supervision::NodeFailure,
};
use callsign_transport::StartError;

use super::shown;
use crate::status::Status;

/// Why a node did not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A node, cluster or registry name breaks the rules. Nothing was opened.
    #[error(transparent)]
    BadName(#[from] InvalidName),
    /// The store's URL is wrong, or the store cannot be opened. Nothing was changed.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store did not answer in time. The session may have been opened; joining again continues or replaces it.
    #[error("the store is unavailable")]
    StoreUnavailable(#[source] OpenSessionError),
    /// The node cannot listen, or may not without a secret or certificates, or the certificate is not its own. Nothing was changed.
    #[error(transparent)]
    Transport(#[from] StartError),
    /// Another process runs under this node's name, and lives. Nothing was changed.
    #[error("a node {node} is alive already (incarnation {incarnation})")]
    NameInUse {
        /// The name that both have.
        node: NodeName,
        /// The one that was there first.
        incarnation: Incarnation,
    },
    /// A former process of this node's name left its session open, and may be dead. Nothing was changed. Waiting
    /// longer than its lease lets it be closed.
    #[error("the session of a former node {node} (incarnation {incarnation}) is still open")]
    FormerOpen {
        /// The name that both have.
        node: NodeName,
        /// The one that was there first.
        incarnation: Incarnation,
    },
    /// The timing cannot work; its source says why. Nothing was changed.
    #[error("the timing cannot work")]
    Timing(#[source] TimingError),
    /// A record in the store cannot be read. Nothing was changed.
    #[error("the store holds a record that cannot be read")]
    Corrupt(#[source] CorruptRecord),
    /// This node is a member of that registry already.
    #[error("this node has joined {registry} already")]
    AlreadyJoined {
        /// The registry.
        registry: String,
    },
    /// The node has left, or is leaving.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has. Nothing was changed.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// Why a setting was not seen to be set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// A time cannot work. Nothing was asked.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// It was not seen to be set in time. It may be set yet: this node says so as soon as the store lets it. Or it was set, and
    /// another member has set something else since; or a member of a version that does not know settings has dropped it.
    #[error("after {} it is not known whether it is set", shown(*waited))]
    Unknown {
        /// How long was waited.
        waited: Duration,
        /// What holds, as this node last read.
        in_force: InForce,
    },
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

/// Why the process of a node has to be started anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotLive {
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
    /// The node's member hangs, or is starved.
    #[error("the node's member has answered nothing for {}", shown(*waited))]
    Unanswered {
        /// How long was waited.
        waited: Duration,
    },
}

/// Why a node does not serve: what it lacked when the time was over. If it lacked several things, the first of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// A part of the node has ended that nobody had asked to, so the whole node has.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
    /// The node has left the registry.
    #[error("the node has left")]
    Left,
    /// The node is about to leave, and will not be ready again.
    #[error("the node is about to leave")]
    Draining,
    /// Its session is not trusted: the store does not answer it, or has closed the session.
    #[error("the node's session is not trusted, after {}", shown(*waited))]
    NotTrusted {
        /// How long was waited.
        waited: Duration,
    },
    /// The registry has as many members as it may have, and this node is none of them. It joins when one of them has left or is gone.
    #[error("the registry has {members} members, which is the most, after {}", shown(*waited))]
    Full {
        /// How many members there are.
        members: usize,
        /// How long was waited.
        waited: Duration,
    },
    /// Its replica is not complete.
    #[error("the node is not synced yet, after {}", shown(*waited))]
    NotSynced {
        /// How long was waited.
        waited: Duration,
    },
    /// Nobody leads, and no member may: its certificate says so, or its priority is 0. So it stays until a member comes that may.
    #[error(
        "no member of the registry may lead: by their certificates or priorities they never do (waited for {})",
        shown(*waited)
    )]
    NobodyMayLead {
        /// How long was waited.
        waited: Duration,
    },
    /// No member leads that has opened its epoch and can be reached.
    #[error("no leader serves, after {}", shown(*waited))]
    NoLeader {
        /// The node that is elected, and does not serve this node yet.
        elected: Option<NodeName>,
        /// How long was waited.
        waited: Duration,
    },
    /// The node's member did not say in time that it serves, and nothing is known that it lacks: it hangs, is starved, or became
    /// ready just now.
    #[error("the node's member did not say within {} that it serves", shown(*waited))]
    Unanswered {
        /// How long was waited.
        waited: Duration,
    },
}

impl NotReady {
    /// What a node lacks by its status. `most`: the members that its registry may have.
    pub(crate) fn of(status: &Status, most: usize, is_trusted: bool, waited: Duration) -> Self {
        let serving = status.leader.as_ref().is_some_and(|leader| leader.serving);
        match status.failed.clone() {
            Some(failure) => Self::Failed(failure),
            None if status.draining => Self::Draining,
            None if !is_trusted => Self::NotTrusted { waited },
            None if status.is_full(most) => Self::Full { members: status.members.len(), waited },
            None if status.nobody_may_lead() => Self::NobodyMayLead { waited },
            None if !status.synced => Self::NotSynced { waited },
            None if !serving => {
                let elected = status.leader.as_ref().map(|leader| leader.node.clone());
                Self::NoLeader { elected, waited }
            }
            None => Self::Unanswered { waited },
        }
    }
}

/// Why a node did not leave in good order. It does not serve any more, whatever this says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The store could not be told in time: the session is closed by the others when its lease has run out.
    #[error("the store could not be told; names are free after the lease")]
    StoreUnavailable(#[source] SessionFailure),
    /// The node had failed before, and was closed then, or tried to be.
    #[error("the node has failed")]
    Failed(#[source] NodeFailure),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemberInfo;

    #[test]
    fn a_node_that_does_not_serve_says_what_it_lacks_first() {
        let node = NodeName::new("b").unwrap();
        let waited = Duration::from_secs(1);
        let mut status = Status::joining(&NodeName::new("a").unwrap());
        let says = |status: &Status, is_trusted| NotReady::of(status, 256, is_trusted, waited);
        assert_eq!(says(&status, false), NotReady::NotTrusted { waited });
        assert_eq!(says(&status, true), NotReady::NotSynced { waited });
        let member = |may_lead| MemberInfo {
            node: node.clone(),
            address: String::new(),
            admin: None,
            synced: true,
            session_open: true,
            leads: false,
            draining: false,
            may_lead,
            linked: true,
            links_to: None,
            behind: None,
        };
        status.members = [member(false), member(false)].into();
        assert_eq!(says(&status, true), NotReady::NobodyMayLead { waited });
        status.members = [member(false), member(true)].into();
        assert_eq!(says(&status, true), NotReady::NotSynced { waited });
        let full = vec![member(true); 256];
        status.members = full.clone().into();
        assert_eq!(says(&status, true), NotReady::Full { members: 256, waited });
        let fewer = NotReady::of(&status, 257, true, waited);
        assert_eq!(fewer, NotReady::NotSynced { waited }, "its store takes more");
        assert_eq!(says(&status, false), NotReady::NotTrusted { waited });
        status.members = full[1..].into();
        assert_eq!(says(&status, true), NotReady::NotSynced { waited }, "there is room for one");
        let own = MemberInfo { node: NodeName::new("a").unwrap(), ..member(true) };
        status.members = [&full[1..], &[own]].concat().into();
        assert_eq!(says(&status, true), NotReady::NotSynced { waited }, "it is a member");
        status.members = [member(false), member(true)].into();
        status.synced = true;
        assert_eq!(says(&status, true), NotReady::NoLeader { elected: None, waited });
        let epoch = callsign_store::ids::Epoch(1);
        status.leader = Some(crate::LeaderInfo { node: node.clone(), epoch, serving: false });
        assert_eq!(says(&status, true), NotReady::NoLeader { elected: Some(node.clone()), waited });
        status.leader = Some(crate::LeaderInfo { node, epoch, serving: true });
        assert_eq!(says(&status, true), NotReady::Unanswered { waited });
        status.draining = true;
        assert_eq!(says(&status, false), NotReady::Draining);
        let failure = NodeFailure::new("a part", "panicked");
        status.failed = Some(failure.clone());
        assert_eq!(says(&status, false), NotReady::Failed(failure));
    }
}
