//! What a lookup finds.

use callsign_store::ids::{Incarnation, NodeName, Position, SessionId, SessionNumber};
use callsign_transport::{ActorAddress, Kind};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::core::meta::{Meta, MetaError};

/// Who holds a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    pub(crate) node: NodeName,
    pub(crate) incarnation: Incarnation,
    pub(crate) session: SessionNumber,
    pub(crate) actor: Option<u64>,
    pub(crate) kind: Kind,
    pub(crate) token: Position,
    pub(crate) revision: Position,
    /// Boxed, so that errors with an entry stay small.
    pub(crate) meta: Option<Box<Meta>>,
}

impl Entry {
    /// The node on which the actor runs, or is being started.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// The incarnation of the node.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The session to which the registration belongs.
    pub fn session(&self) -> SessionNumber {
        self.session
    }

    /// The same with its node.
    pub(crate) fn session_id(&self) -> SessionId {
        SessionId { node: self.node.clone(), incarnation: self.incarnation, number: self.session }
    }

    /// The actor, among those of its node. `None`: it [is being started](Self::is_starting).
    pub fn actor(&self) -> Option<u64> {
        self.actor
    }

    /// Whether the actor is being started ([`Registry::start`](crate::Registry::start)). The name is taken, and nobody can be reached
    /// under it yet.
    pub fn is_starting(&self) -> bool {
        self.actor.is_none()
    }

    /// What messages it takes.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The position of the registration in the registry's log: the name's fencing token. It only grows.
    pub fn token(&self) -> Position {
        self.token
    }

    /// The position of the last change: of the registration, or of an update of the metadata after it.
    pub fn revision(&self) -> Position {
        self.revision
    }

    /// The same, as errors carry it.
    pub(crate) fn without_meta(self) -> Self {
        Self { meta: None, ..self }
    }

    /// What the holder says of itself. `None`: nothing. An entry that is part of an error never has it.
    ///
    /// # Errors
    /// `WrongType` if the metadata is a value of another type.
    pub fn meta<T: DeserializeOwned>(&self) -> Result<Option<T>, MetaError> {
        self.meta.as_deref().map(Meta::read).transpose()
    }

    /// The same, as it was written.
    pub fn raw_meta(&self) -> Option<&Meta> {
        self.meta.as_deref()
    }

    /// Where the transport finds the actor. `None`: it [is being started](Self::is_starting).
    pub fn address(&self) -> Option<ActorAddress> {
        let address = |pid| ActorAddress::new(self.node.as_str(), self.incarnation.0, pid, self.kind);
        self.actor.map(address)
    }
}
