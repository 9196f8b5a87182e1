//! Sweeping away the sequence numbers of authors that are members of nothing.
//!
//! The leader's elector walks over them. Two reads and a transaction: the page; what the store has of the nodes whose
//! records were of no use for long enough; and then the sweep, which checks all of that and the floor, and raises the
//! floor to the greatest number that it takes away. A page of more than one transaction takes is gone back to.

use callsign_store::{
    Read, ReadResult, Time, Transaction,
    ids::{NodeName, Sequence},
    keys::{read_key, read_range},
    planted,
    record::Record,
};

use super::{Doing, Effect, Elector};
use crate::core::{
    lineage::{self, LineageId},
    record::{AuthorFloor, AuthorRecord, SessionRecord},
    sweep::SWEEP_PAGE,
};

/// The first walk begins this part of the age after the leader's elector first leads.
const SETTLED: u32 = 8;

const FLOOR: usize = 0;
const LINEAGE: usize = 1;
/// The author, the member and the session of the first node; those of the others follow.
const FIRST_AUTHOR: usize = 2;
const EACH: usize = 3;

/// How many are swept by one transaction at most: each takes three checks, and all of them two more. etcd takes 126.
const AT_ONCE: usize = 40;

impl Elector {
    /// When the next page is to be read, if this elector is to.
    pub(super) fn sweep_due(&self) -> Option<Time> {
        self.walk.due().filter(|_| self.leads())
    }

    /// Begins the next page, if it is due; says whether an operation of the store began.
    pub(super) fn sweep(&mut self, now: Time, effects: &mut Vec<Effect>) -> bool {
        let age = self.config.timing.sweep_after;
        if self.leads() && !age.is_zero() {
            self.walk.begin(now, age / SETTLED);
        }
        if self.sweep_due().is_none_or(|due| due > now) {
            return false;
        }
        let id = self.begin(Doing::SweepPage);
        let page = self.walk.next(self.keys.authors());
        effects.push(Effect::Read { id, reads: vec![read_range(page, SWEEP_PAGE)] });
        true
    }

    /// Takes a page, and reads what decides about the nodes that may be swept.
    pub(super) fn on_sweep_page(&mut self, now: Time, read: &ReadResult, effects: &mut Vec<Effect>) {
        let members = self.readable().map(|(_, state)| state.members.clone());
        let Some(members) = members.filter(|_| self.leads()) else {
            return self.walk.put_off(now, self.config.timing.sweep_after);
        };
        let is_useless = |node: &NodeName| !members.contains_key(node) && *node != self.config.node;
        let keys = self.keys.clone();
        let is_useless = |key: &Vec<u8>, _: &Vec<u8>| {
            planted!("sweeps-authors-that-are-members")
                || keys.author_node(key).is_some_and(|node| is_useless(&node))
        };
        let old =
            self.walk.take(now, self.config.timing.sweep_after, (read.entries(0), SWEEP_PAGE), is_useless);
        let nodes: Vec<_> = old.iter().filter_map(|(key, _)| keys.author_node(key)).collect();
        if nodes.is_empty() {
            return;
        }
        let of = |node: &NodeName| -> [Read; EACH] {
            [keys.author(node), keys.member(node), keys.cluster().session(node)].map(read_key)
        };
        let mut reads = vec![read_key(keys.author_floor()), read_key(keys.cluster().lineage())];
        reads.extend(nodes.iter().flat_map(of));
        let id = self.begin(Doing::SweepLook(nodes));
        effects.push(Effect::Read { id, reads });
    }

    /// Sweeps the authors of which nothing is left.
    pub(super) fn on_sweep_look(&mut self, nodes: &[NodeName], read: &ReadResult, effects: &mut Vec<Effect>) {
        let floor =
            read.value(FLOOR).map_or(Ok(AuthorFloor::default()), |value| AuthorFloor::from_value(value));
        // A floor that cannot be read is not raised.
        let Ok(AuthorFloor(floor)) = floor else { return };
        // Nor is anything swept of a store that is not the known one.
        if !LineageId::of(read.value(LINEAGE)).is_ok_and(|id| id.number == self.known.number()) {
            return;
        }
        let checked = lineage::check(Transaction::new(), self.keys.cluster(), read.value(LINEAGE));
        let mut transaction = checked.check(self.keys.author_floor(), read.value(FLOOR).cloned());
        let mut greatest = None::<Sequence>;
        let (mut count, mut is_part) = (0, false);
        for (nth, node) in nodes.iter().enumerate() {
            let [author, member, session] =
                [0, 1, 2].map(|which| read.value(FIRST_AUTHOR + nth * EACH + which));
            let record = author.and_then(|value| AuthorRecord::from_value(value).ok());
            // What cannot be read may be open.
            let may_be_open = session
                .is_some_and(|value| SessionRecord::from_value(value).map_or(true, |record| record.open));
            let is_member = (member.is_some() || may_be_open) && !planted!("sweeps-authors-that-are-members");
            let Some(record) = record.filter(|_| !is_member) else { continue };
            if count == AT_ONCE {
                is_part = true;
                break;
            }
            count += 1;
            greatest = greatest.max(Some(record.sequence));
            transaction = transaction
                .check(self.keys.author(node), author.cloned())
                .check(self.keys.member(node), member.cloned())
                .check(self.keys.cluster().session(node), session.cloned())
                .clear(self.keys.author(node));
        }
        let Some(greatest) = greatest else { return };
        if greatest > floor && !planted!("author-floor-not-raised") {
            transaction = transaction.put(self.keys.author_floor(), AuthorFloor(greatest).to_value());
        }
        let id = self.begin(Doing::Sweep { is_part });
        effects.push(Effect::Commit { id, transaction });
    }
}
