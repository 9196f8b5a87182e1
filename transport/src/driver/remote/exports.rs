//! Which of this node's actors peers may reach.

use std::{collections::BTreeMap, sync::Mutex};

use callsign_store::lock::lock;
use ractor::{ActorCell, ActorId, registry::where_is_pid};

use super::{kind::Kind, side::SWEEP};
use crate::core::frame::NotDelivered;

/// The local actors that peers may reach.
#[derive(Default)]
pub(crate) struct Exports {
    kinds: Mutex<(BTreeMap<u64, Kind>, usize)>,
}

impl Exports {
    pub(super) fn add(&self, pid: u64, kind: Kind) {
        let mut kinds = lock(&self.kinds);
        kinds.0.insert(pid, kind);
        // Numbers are not used twice, so those of the dead are only in the way.
        if kinds.0.len() >= kinds.1.max(SWEEP) {
            kinds.0.retain(|pid, _| where_is_pid(ActorId::Local(*pid)).is_some());
            kinds.1 = kinds.0.len() * 2;
        }
    }

    pub(super) fn find(&self, pid: u64, kind: u64) -> Result<ActorCell, NotDelivered> {
        let exported = lock(&self.kinds).0.get(&pid).copied().ok_or(NotDelivered::NotExported)?;
        if exported != Kind(kind) {
            return Err(NotDelivered::WrongKind);
        }
        where_is_pid(ActorId::Local(pid)).filter(ActorCell::supports_remoting).ok_or(NotDelivered::Gone)
    }
}
