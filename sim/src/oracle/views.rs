//! What electors see of the members is what the store had, whether they have read it or were told of it.

use std::collections::BTreeMap;

use callsign_elector::{elector::View, record::MemberRow};
use callsign_store::{
    Key, Value,
    ids::NodeName,
    keys::{read_key, read_range},
    record::Record,
};

use super::{Check, Oracle};
use crate::world::{NodeId, World};

impl Oracle {
    /// An elector shows what it knows. As long as it was not told what came of a change, these are the rows of before,
    /// and its own as it is. Then it must not say that nothing waits.
    pub(crate) fn elector_sees(&mut self, world: &World, node: NodeId, view: &View) {
        let keys = &world.setup.keys;
        let is_own = |name: &NodeName| world.setup.id(name.as_str()) == Some(node);
        let others = view.members.iter().filter(|(name, _)| !is_own(name));
        let others: BTreeMap<_, _> = others.map(|(name, row)| (name.clone(), row.clone())).collect();
        let former = self.edit().and_then(|inner| inner.viewed.insert(node, others.clone()));
        let is_of_before = view.queued.is_none() && former.as_ref() == Some(&others);
        // What it read in a lineage that is lost, the store has no more.
        if self.inner().is_none_or(|inner| inner.losses.lineage != view.lineage.number) {
            return;
        }
        // Of an older version than those that the store keeps nobody can tell.
        let members = [read_range(keys.members(), usize::MAX), read_key(keys.queue())];
        let Ok(read) = world.store.read(&members, Some(view.version)) else { return };
        // Nobody else's row has changed unless the mark has.
        let is_of_before = is_of_before && read.value(1) != view.raw(&keys.queue()).as_ref();
        let row =
            |(key, row): &(Key, Value)| Some((keys.member_node(key)?, MemberRow::from_value(row).ok()?));
        let theirs: BTreeMap<_, _> = read.entries(0).iter().filter_map(row).collect();
        // That a member lags is in no entry of the queue: a member that rests may hear of it later.
        let mut ours = view.members.clone();
        for (node, row) in &mut ours {
            row.synced &= theirs.get(node).is_none_or(|row| row.synced);
        }
        self.count(Check::ViewTrue);
        let own = |rows: &BTreeMap<NodeName, MemberRow>| {
            rows.iter().find(|(name, _)| is_own(name)).map(|(_, row)| row.clone())
        };
        if ours != theirs && !(is_of_before && own(&ours) == own(&theirs)) {
            self.fail(Check::ViewTrue, || {
                format!("node {node} sees {ours:?} at {:?}, and the store had {theirs:?}", view.version)
            });
        }
    }
}
