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
