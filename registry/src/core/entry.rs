//! What a lookup finds.

use callsign_store::ids::{Incarnation, NodeName, Position, SessionNumber};
use callsign_transport::{ActorAddress, Kind};
use serde::{Deserialize, Serialize};

/// Who holds a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The node on which the actor runs.
    pub node: NodeName,
    /// The incarnation of the node.
    pub incarnation: Incarnation,
    /// The session to which the registration belongs.
    pub session: SessionNumber,
    /// The actor, among those of its node.
    pub actor: u64,
    /// What messages it takes.
    pub kind: Kind,
    /// The position of the registration in the registry's log: the name's fencing token. It only grows.
    pub token: Position,
}

impl Entry {
    /// Where the transport finds the actor.
    pub fn address(&self) -> ActorAddress {
        ActorAddress {
            node: self.node.as_str().into(),
            incarnation: self.incarnation.0,
            pid: self.actor,
            kind: self.kind,
        }
    }
}
