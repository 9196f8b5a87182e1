//! What electors see of the members is what the store had, whether they have read it or were told of it.

use std::collections::BTreeMap;

use callsign_elector::{elector::View, record::MemberRow};
use callsign_store::{Key, Value, keys::read_range, record::Record};

use super::{Check, Oracle};
use crate::world::{NodeId, World};

impl Oracle {
    /// An elector shows what it knows.
    pub(crate) fn elector_sees(&mut self, world: &World, node: NodeId, view: &View) {
        let keys = &world.setup.keys;
        // What it read in a lineage that is lost, the store has no more.
        if self.inner().is_none_or(|inner| inner.losses.lineage != view.lineage.number) {
            return;
        }
        // Of an older version than those that the store keeps nobody can tell.
        let members = [read_range(keys.members(), usize::MAX)];
        let Ok(read) = world.store.read(&members, Some(view.version)) else { return };
        let row =
            |(key, row): &(Key, Value)| Some((keys.member_node(key)?, MemberRow::from_value(row).ok()?));
        let theirs: BTreeMap<_, _> = read.entries(0).iter().filter_map(row).collect();
        // That a member lags is in no entry of the queue: a member that rests may hear of it later.
        let mut ours = view.members.clone();
        for (node, row) in &mut ours {
            row.synced &= theirs.get(node).is_none_or(|row| row.synced);
        }
        self.count(Check::ViewTrue);
        if ours != theirs {
            self.fail(Check::ViewTrue, || {
                format!("node {node} sees {ours:?} at {:?}, and the store had {theirs:?}", view.version)
            });
        }
    }
}
