//! How long a node that starts waits: for its store, and then for its session.

use callsign_elector::session::Patience;
use callsign_store::{SharedStore, in_full, logged, open_patiently};

use crate::{
    config::{Config, JOIN_TIMEOUT, StoreSource},
    error::JoinError,
};

/// Opens the store, and says how long its session may take then.
pub(super) async fn store(config: &Config) -> Result<(SharedStore, Patience), JoinError> {
    let (clock, most) = (&config.clock, config.join_timeout.unwrap_or(JOIN_TIMEOUT));
    let began = clock.now();
    let store = match &config.store {
        StoreSource::Open(store) => store.clone(),
        StoreSource::Url(url) => {
            let waits = |error: &callsign_store::OpenError| {
                logged!(warn, "{}; it is tried again for {most:?}", in_full(error));
            };
            open_patiently(url, clock, Some(most), waits).await?
        }
    };
    let left = most.saturating_sub(clock.now().since(began));
    Ok((store, config.join_timeout.map_or(Patience::ForFormer(left), |_| Patience::AtMost(left))))
}
