//! The references over a link, for readers that only want the one there is: they do not wait for the lock under which
//! references are made.

use dashmap::DashMap;
use foldhash::fast::FixedState;
use ractor::{ActorCell, ActorStatus};

use super::kind::Kind;

/// Below so many references they are never looked through.
const LEAST_SWEPT: usize = 1024;

/// The proxies of a link, by actor: of each the one that was asked for last. Some may have ended; these are given to nobody.
pub(super) struct Resolved(DashMap<u64, (Kind, ActorCell), FixedState>);

/// Whether a proxy still takes messages. Anybody may stop one, which ends nothing but the proxy.
pub(super) fn is_alive(proxy: &ActorCell) -> bool {
    proxy.get_status() < ActorStatus::Draining
}

impl Resolved {
    /// An empty one. `seed`: what the places of its entries follow from.
    pub(super) fn new(seed: u64) -> Self {
        Self(DashMap::with_hasher(FixedState::with_seed(seed)))
    }

    pub(super) fn get(&self, pid: u64, kind: Kind) -> Option<ActorCell> {
        let entry = self.0.get(&pid)?;
        let (of, proxy) = entry.value();
        (*of == kind && is_alive(proxy)).then(|| proxy.clone())
    }

    /// Somebody asked for a proxy. `held`: how many references the link has; with many more here, those that have ended are dropped.
    pub(super) fn put(&self, pid: u64, kind: Kind, proxy: ActorCell, held: usize) {
        self.0.insert(pid, (kind, proxy));
        if self.0.len() > LEAST_SWEPT + 2 * held {
            self.0.retain(|_, (_, proxy)| is_alive(proxy));
        }
    }

    pub(super) fn remove(&self, pid: u64) {
        self.0.remove(&pid);
    }

    /// The link is down.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use ractor::Actor;

    use super::{super::side::LinkSupervisor, *};

    #[tokio::test]
    async fn those_that_have_ended_do_not_stay_once_there_are_many_of_them() {
        let resolved = Resolved::new(7);
        let (lives, _) = Actor::spawn(None, LinkSupervisor, ()).await.unwrap();
        let (ended, running) = Actor::spawn(None, LinkSupervisor, ()).await.unwrap();
        ended.stop(None);
        running.await.unwrap();
        resolved.put(0, Kind(1), lives.get_cell(), 1);
        for pid in 1..=LEAST_SWEPT as u64 + 1 {
            resolved.put(pid, Kind(1), ended.get_cell(), 1);
        }
        assert_eq!(resolved.0.len(), LEAST_SWEPT + 2, "there may be so many");
        assert!(resolved.get(1, Kind(1)).is_none());
        resolved.put(9999, Kind(1), ended.get_cell(), 1);
        assert_eq!(resolved.0.len(), 1);
        assert_eq!(resolved.get(0, Kind(1)).map(|found| found.get_id()), Some(lives.get_id()));
        assert!(resolved.get(0, Kind(2)).is_none());
        resolved.clear();
        assert!(resolved.get(0, Kind(1)).is_none());
    }
}
