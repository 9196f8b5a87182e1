//! A node that joins no registry, for whoever only has to outlive the sessions of others.

use std::{sync::Arc, time::Duration};

use callsign_elector::session::{NodeSession, OpenSessionError, Patience, SessionConfig, SessionOpening};
use callsign_store::{Clock, SharedStore, supervision::Supervisor};

use super::{Stepped, leaving};
use crate::core::node::NodeCore;

/// Opens the session of a node that joins no registry. It observes the sessions of others, and closes those that are over, until it is
/// left or dropped. `patience` is how long the opening is waited for.
///
/// # Errors
/// As [`NodeSession::open`].
pub async fn observe(
    store: SharedStore,
    clock: Clock,
    config: SessionConfig,
    patience: Duration,
) -> Result<NodeSession, OpenSessionError> {
    let core = NodeCore::new(config.clone(), leaving::times(patience)).map_err(OpenSessionError::Timing)?;
    let (patience, supervisor) = (Patience::AtMost(patience), Supervisor::new());
    let opening = SessionOpening { store, clock, config, patience, record: None, supervisor };
    NodeSession::open(Arc::new(Stepped::new(core)), opening).await
}
