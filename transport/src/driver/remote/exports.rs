//! Which of this node's actors peers may reach.

use std::sync::Mutex;

use callsign_store::lock::lock;
use ractor::{ActorCell, ActorId, registry::where_is_pid};

use super::{kind::Kind, swept::Swept};
use crate::core::frame::NotDelivered;

/// The local actors that peers may reach.
#[derive(Default)]
pub(crate) struct Exports {
    kinds: Mutex<Swept<u64, Kind>>,
}

impl Exports {
    pub(super) fn add(&self, pid: u64, kind: Kind) {
        // Numbers are not used twice, so those of the dead are only in the way.
        lock(&self.kinds).insert(pid, kind, |pid, _| where_is_pid(ActorId::Local(*pid)).is_some());
    }

    pub(super) fn find(&self, pid: u64, kind: u64) -> Result<ActorCell, NotDelivered> {
        let exported = lock(&self.kinds).get(&pid).copied().ok_or(NotDelivered::NotExported)?;
        if exported != Kind(kind) {
            return Err(NotDelivered::WrongKind);
        }
        where_is_pid(ActorId::Local(pid)).filter(ActorCell::supports_remoting).ok_or(NotDelivered::Gone)
    }
}

#[cfg(test)]
mod tests {
    use ractor::Actor;

    use super::{super::side::LinkSupervisor, *};

    #[tokio::test]
    async fn an_actor_stays_exported_however_many_have_ended_meanwhile() {
        let exports = Exports::default();
        let (actor, _) = Actor::spawn(None, LinkSupervisor, ()).await.unwrap();
        let pid = actor.get_id().pid();
        exports.add(pid, Kind(7));
        // Nobody has these numbers.
        for dead in 1..5000 {
            exports.add(pid + (1 << 40) + dead, Kind(7));
        }
        assert_eq!(exports.find(pid, 8).map(drop), Err(NotDelivered::WrongKind));
        assert_ne!(exports.find(pid, 7).map(drop), Err(NotDelivered::NotExported));
        assert_eq!(
            exports.find(pid + (1 << 40) + 1, 7).map(drop),
            Err(NotDelivered::NotExported),
            "forgotten"
        );
        assert_eq!(exports.find(pid + (1 << 40) + 4999, 7).map(drop), Err(NotDelivered::Gone));
    }
}
