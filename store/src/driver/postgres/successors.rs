//! Looks whether another server was promoted, while connections to the old primary seem to be well.
//!
//! An old primary that lives may answer everything but commits: those wait for a standby that is none any more. Nothing breaks then. So
//! each host is asked by itself, as soon as there is doubt: what was asked is not answered, or is refused. Without doubt it is asked
//! seldom, for an old primary that waits for nobody.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{hosts::reach, line::Place};

/// How often a host is asked without any doubt. Each time is a connection of its own: more often would be felt, with many processes.
const SELDOM: Duration = Duration::from_secs(10);
/// The pause between two questions, however great the doubt is.
const QUESTION_PAUSE: Duration = Duration::from_millis(500);

/// Starts what looks, where several hosts are named. Call it inside the store's runtime.
pub(super) fn look_for_them(place: &Arc<Place>) {
    let count = place.address.hosts.len();
    for nth in (0..count).filter(|_| count > 1) {
        place.supervisor.task("who is the primary of Postgres", look_at(place.clone(), nth));
    }
}

/// Notes what a host is, until the runtime ends. Connections to an old primary end by themselves.
async fn look_at(place: Arc<Place>, nth: usize) {
    let mut doubts = place.doubts();
    loop {
        // Without doubt the time is over, and the host is asked as well.
        let _ = timeout(SELDOM.mul_f64(rand::random_range(0.5..1.5)), doubts.changed()).await;
        let host = &place.address.hosts[nth];
        if let Ok(reached) = reach(host, &place.address.tls).await {
            host.note(&reached.origin, &place.address.known);
        }
        sleep(QUESTION_PAUSE).await;
    }
}
