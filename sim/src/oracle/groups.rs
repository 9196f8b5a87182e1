//! Groups are those of the log, in one order; of a semaphore, no more hold than its limit says, and the first ones do.

use std::collections::BTreeMap;

use callsign::cores::GroupId;
use callsign_store::ids::{Position, SessionId};

use super::{Check, Inner};
use crate::world::{NameId, NodeId, World, group_of_id, limit_of, name_of_id, number_of};

impl Inner {
    /// A place is in the log from here on: all of a semaphore have one limit, and each has a position of its own.
    pub(super) fn check_place(&mut self, name: NameId, position: Position) {
        let Some(limit) = limit_of(name) else { return };
        self.counts.add(Check::OneLimit, 1);
        let others = self.truth.iter().filter(|(other, _)| {
            **other != name && limit_of(**other).is_some() && group_of_id(**other) == group_of_id(name)
        });
        let wrong = |(other, holder): &(&NameId, &super::Holder)| {
            limit_of(**other) != Some(limit) || holder.token == position
        };
        if let Some((other, holder)) = others.clone().find(wrong) {
            let what = format!(
                "{:?} is in the log at {position:?} beside {:?} at {:?}",
                name_of_id(name),
                name_of_id(*other),
                holder.token
            );
            self.fail(Check::OneLimit, what);
        }
    }

    /// Who was refused for another limit: somebody was there with that one.
    pub(super) fn check_other_limit(&mut self, at: usize, limit: u32) {
        self.counts.add(Check::LimitTold, 1);
        let (want, began) = (self.told[at].want.clone(), self.told[at].began);
        let is_there = |span: &super::Span| {
            let is_of = GroupId::semaphore(&format!("s{}", want.name()), limit);
            limit_of(span.name) == Some(limit)
                && name_of_id(span.name).starts_with(&**is_of.key())
                && span.to.is_none_or(|to| to > began)
        };
        let is_own =
            matches!(want, crate::world::Want::Acquire { limit: own, .. } if u32::from(own) == limit);
        if is_own || !self.spans.iter().any(is_there) {
            self.fail(Check::LimitTold, format!("{want:?} is refused for {limit}, asked at {began:?}"));
        }
    }

    /// Of those whose checks pass, no more hold a semaphore than its limit says.
    pub(super) fn check_places(&mut self, world: &World) {
        let mut holding: BTreeMap<NameId, (u32, u32)> = BTreeMap::new();
        for node in world.ids() {
            let Some(process) = world.process(node) else { continue };
            for acting in process.acting(world.local(node)).filter(|acting| acting.holds) {
                let Some(limit) = limit_of(acting.name) else { continue };
                self.counts.add(Check::AtMostLimit, 1);
                let (holders, least) = holding.entry(group_of_id(acting.name)).or_insert((0, limit));
                (*holders, *least) = (*holders + 1, limit.min(*least));
            }
        }
        if let Some((group, (holders, limit))) = holding.iter().find(|(_, (holders, limit))| holders > limit)
        {
            let what = format!("{holders} hold semaphore {:#x}, which {limit} may", group >> 59 & 7);
            self.fail(Check::AtMostLimit, what);
        }
    }

    /// At rest: members, their order, and who holds.
    pub(super) fn check_groups(&mut self, world: &World) {
        let mut expected: BTreeMap<NameId, Vec<(Position, SessionId, u64, NameId)>> = BTreeMap::new();
        for (name, holder) in self.truth.iter().filter(|(name, _)| crate::world::is_member(**name)) {
            let standing = (holder.token, SessionId::clone(&holder.session), holder.request, *name);
            expected.entry(group_of_id(*name)).or_default().push(standing);
        }
        for members in expected.values_mut() {
            members.sort_unstable();
        }
        for node in world.ids() {
            let Some(parts) = world.process(node).and_then(|process| process.parts.as_ref()) else {
                continue;
            };
            let replica = parts.core.member().replica();
            if !replica.is_based() {
                continue;
            }
            for group in 0..8 {
                for id in [GroupId::group(&format!("g{group}")), GroupId::semaphore(&format!("s{group}"), 1)]
                {
                    let found = replica.members(id.key());
                    let found: Vec<NameId> = found.iter().map(|name| number_of(name)).collect();
                    let kind = found.first().copied().map(group_of_id);
                    let members = kind.and_then(|kind| expected.get(&kind)).map_or(&[][..], Vec::as_slice);
                    self.counts.add(Check::GroupOrder, found.len() as u64);
                    if !members.iter().map(|(.., name)| *name).eq(found.iter().copied()) {
                        let what = format!("on node {node} {:?} has {found:x?}, not {members:x?}", id.key());
                        return self.fail(Check::GroupOrder, what);
                    }
                }
            }
            self.check_served(world, node, &expected);
        }
    }

    /// Who stands first holds, and nobody else does.
    fn check_served(
        &mut self,
        world: &World,
        node: NodeId,
        groups: &BTreeMap<NameId, Vec<(Position, SessionId, u64, NameId)>>,
    ) {
        let Some(process) = world.process(node) else { return };
        for acting in process.acting(world.local(node)) {
            let Some(limit) = limit_of(acting.name) else { continue };
            self.counts.add(Check::PlaceServed, 1);
            let members = groups.get(&group_of_id(acting.name));
            let rank = members.and_then(|members| members.iter().position(|(.., name)| *name == acting.name));
            if rank.is_some_and(|rank| (rank < limit as usize) != acting.holds) {
                let what = format!("node {node} has {acting:?}, which is number {rank:?} of {members:?}");
                return self.fail(Check::PlaceServed, what);
            }
        }
    }
}
