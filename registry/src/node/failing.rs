//! How a node ends that has failed: as a crash would end it, except that its process lives on and nothing proves its death. So
//! it closes its session itself.
#![allow(clippy::disallowed_methods)] // a driver

use callsign_elector::{session::NodeSession, store::SharedStore, supervision::Supervisor};
use callsign_transport::Endpoint;
use tokio::sync::watch;

use super::leaving::CLOSE;

/// Closes the node once it has failed, and says when that is done. Trust is dropped before, and the registries ended: that is
/// done at once, where the failure is noticed.
pub(super) fn supervise(
    supervisor: &Supervisor,
    store: &SharedStore,
    session: &NodeSession,
    endpoint: &Endpoint,
) -> watch::Receiver<bool> {
    let (closes, closed) = watch::channel(false);
    let (supervisor, session, endpoint) = (supervisor.clone(), session.clone(), endpoint.clone());
    let (breaks, store) = (supervisor.clone(), store.clone());
    // A store may be the application's own.
    supervisor.task("what the store says of itself", async move {
        tokio::select! {
            biased;
            _ = breaks.outcome() => {}
            how = store.broken() => breaks.fail("the store", how),
        }
    });
    tokio::spawn(async move {
        if supervisor.outcome().await.is_some() {
            match tokio::time::timeout(CLOSE, session.close()).await {
                Ok(Ok(())) => tracing::info!("the session of the failed node is closed"),
                Ok(Err(error)) => tracing::warn!(%error, "the session of the failed node may be open"),
                Err(_) => {
                    tracing::warn!("the session of the failed node may be open: the store does not answer");
                }
            }
            endpoint.leave().await;
        }
        closes.send_replace(true);
    });
    closed
}
