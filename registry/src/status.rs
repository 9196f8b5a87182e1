//! What a node knows of a registry, for people and programs.

use std::sync::Arc;

use callsign_elector::settings::InForce;
use callsign_store::{
    ids::{Epoch, NodeName, Position},
    supervision::NodeFailure,
};
use serde::{Deserialize, Serialize};

pub(crate) mod of_member;

/// One member of a registry, as this node last read it.
#[allow(clippy::struct_excessive_bools)] // each is a column of a table
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemberInfo {
    /// The node.
    pub node: NodeName,
    /// Where it listens for links.
    pub address: String,
    /// Where it answers whoever administers it, if it says so ([`Config::admin_address`](crate::Config::admin_address)).
    pub admin: Option<String>,
    /// Whether its replica held the end of the log when it said so last.
    pub synced: bool,
    /// Whether its session is open, as far as this node read.
    pub session_open: bool,
    /// Whether it leads.
    pub leads: bool,
    /// Whether it is about to leave.
    pub draining: bool,
    /// Whether it may lead: not by a certificate that says `lead=no`, and not with a priority of 0.
    #[serde(default = "yes")]
    pub may_lead: bool,
    /// Whether this node has a link to it. Itself, always.
    pub linked: bool,
    /// The members that it says it has links to, in their order; of this node, those that it has. `None`: this node does not know. The others are
    /// asked by [`Registry::ask_for_links`](crate::Registry::ask_for_links) only, and what they say is known for 5 s.
    #[serde(default)]
    pub links_to: Option<Arc<[NodeName]>>,
    /// How many positions of the log its replica lacked when it answered, of those that this node knew; of this node, how many it lacks.
    /// `None`: this node does not know, as for `links_to`.
    #[serde(default)]
    pub behind: Option<u64>,
}

/// What is known of a member of a version that does not say so.
fn yes() -> bool {
    true
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeaderInfo {
    /// The node.
    pub node: NodeName,
    /// Its epoch.
    pub epoch: Epoch,
    /// Whether it is known to serve: it has opened the epoch, and it is linked or this node.
    pub serving: bool,
}

/// What a node knows of a registry. A belief: the store may have moved on.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// This node.
    pub node: NodeName,
    /// The epoch that was read last.
    pub epoch: Epoch,
    /// Who leads, or nobody.
    pub leader: Option<LeaderInfo>,
    /// Whether this node leads, and serves.
    pub leads: bool,
    /// Whether its row says that its replica holds the end of the log.
    pub synced: bool,
    /// Whether this node is about to leave: it takes no new names.
    pub draining: bool,
    /// What its replica has applied.
    pub position: Position,
    /// How many names its own actors hold.
    pub claims: usize,
    /// What holds for the elections of the registry, as this node last read.
    pub settings: InForce,
    /// The members. Looks at a registry share them until one of them changes.
    pub members: Arc<[MemberInfo]>,
    /// How the node has failed, if it has: then it serves nothing any more, and the rest is what was known before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<NodeFailure>,
}

impl Status {
    /// Whether nobody leads, and nobody is a member who may.
    pub(crate) fn nobody_may_lead(&self) -> bool {
        let has_members = !self.members.is_empty();
        self.leader.is_none() && has_members && self.members.iter().all(|member| !member.may_lead)
    }

    /// Whether the registry has so many members, the most that there may be, and this node is none of them.
    pub(crate) fn is_full(&self, most: usize) -> bool {
        let is_member = self.members.iter().any(|member| member.node == self.node);
        self.members.len() >= most && !is_member
    }

    /// What is left of it once the node has failed.
    pub(crate) fn of_failed(self, failure: NodeFailure) -> Self {
        let leader = self.leader.map(|leader| LeaderInfo { serving: false, ..leader });
        Self { leader, leads: false, synced: false, claims: 0, failed: Some(failure), ..self }
    }

    /// What is known before anything was read.
    pub(crate) fn joining(node: &NodeName) -> Self {
        Self {
            node: node.clone(),
            epoch: Epoch(0),
            leader: None,
            leads: false,
            synced: false,
            draining: false,
            position: Position(0),
            claims: 0,
            settings: InForce::default(),
            members: Arc::default(),
            failed: None,
        }
    }
}
