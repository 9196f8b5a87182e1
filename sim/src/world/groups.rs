//! Groups and semaphores, as clients use them: who joins, who leaves, and which places hold.

use std::collections::BTreeMap;

use callsign::{
    Name,
    cores::{Call, CallId, GroupId, MembershipName, OnLapse},
};
use callsign_store::ids::{Incarnation, NodeName, Position, SessionId, SessionNumber};
use callsign_transport::Kind;

use super::{NodeId, Want, World};

/// A name by its number: that of users from 0 to 255, and beyond that a membership.
pub type NameId = u64;

/// It is a membership; of a semaphore.
const MEMBER: NameId = 1 << 63;
const PLACE: NameId = 1 << 62;

const NODES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// What a client has left, and may come back to, or take for its own still.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Former {
    /// Which membership.
    pub name: NameId,
    /// The actor.
    pub actor: u64,
    /// The token that it had.
    pub token: Position,
}

/// The group that a client asks for.
fn group_of(want: &Want) -> Option<GroupId> {
    match want {
        Want::Join { group, .. } => Some(GroupId::group(&format!("g{group}"))),
        Want::Acquire { semaphore, limit } => {
            Some(GroupId::semaphore(&format!("s{semaphore}"), u32::from(*limit)))
        }
        _ => None,
    }
}

/// The number of a membership.
pub(super) fn number_of_member(name: &str) -> Option<NameId> {
    let membership = MembershipName::of(name)?;
    let mut parts = name.rsplit('\0');
    let node = parts.next()?;
    let session: u64 = parts.next()?.parse().ok()?;
    let actor: u64 = parts.next()?.parse().ok()?;
    let node = NODES.iter().position(|known| *known == node)? as u64;
    let group: u64 = membership.group.get(3..)?.parse().ok()?;
    let (kind, limit) = membership.limit.map_or((0, 0), |limit| (PLACE, u64::from(limit)));
    let (lineage, session) = (session >> 40, session & 0xff_ffff);
    Some(MEMBER | kind | group << 59 | limit << 55 | node << 52 | lineage << 48 | session << 24 | actor)
}

/// Its name.
pub(super) fn name_of_member(id: NameId) -> Name {
    let part = |at: u32, bits: u32| id >> at & ((1 << bits) - 1);
    let group = part(59, 3);
    let group = match limit_of(id) {
        Some(limit) => GroupId::semaphore(&format!("s{group}"), limit),
        None => GroupId::group(&format!("g{group}")),
    };
    let number = SessionNumber(part(48, 4) << 40 | part(24, 24));
    // The letter of a node is a name.
    let node = NodeName::new(NODES[usize::try_from(part(52, 3)).unwrap_or(0)]).expect("a letter is a name");
    group.member(&SessionId { node, incarnation: Incarnation(0), number }, actor_of(id))
}

/// Whether it is a membership.
pub(crate) fn is_member(id: NameId) -> bool {
    id & MEMBER != 0
}

/// The limit of the semaphore that it is a place in.
pub(crate) fn limit_of(id: NameId) -> Option<u32> {
    // Four bits.
    (id & PLACE != 0).then_some((id >> 55 & 0xf) as u32)
}

/// Which group it is in, whatever the limit.
pub(crate) fn group_of_id(id: NameId) -> NameId {
    id & (MEMBER | PLACE | 7 << 59)
}

fn actor_of(id: NameId) -> u64 {
    id & 0xff_ffff
}

impl Want {
    /// Whether it is about a group.
    pub(crate) fn is_of_groups(&self) -> bool {
        matches!(self, Self::Join { .. } | Self::Acquire { .. } | Self::Withdraw { .. })
    }

    /// Whether a request of this actor may be about a name. Which session asked for a membership is known when it is granted.
    pub(crate) fn may_be(&self, actor: u64, id: NameId) -> bool {
        match group_of(self) {
            Some(group) => {
                let Some(membership) = is_member(id).then(|| name_of_member(id)) else { return false };
                actor_of(id) == actor && membership.starts_with(&**group.key())
            }
            None => !self.is_of_groups() && NameId::from(self.name()) == id,
        }
    }
}

impl World {
    /// What a client asks of its member, for which actor, and what it is to end.
    pub(super) fn group_call(&mut self, node: NodeId, want: &Want) -> Option<(Call, u64, NameId, Position)> {
        if let Want::Withdraw { stale } = want {
            let stale =
                self.left.get(&node).filter(|_| *stale).map(|left| (left.name, left.token, left.actor));
            let mut held = self.granted.iter().filter(|(id, grant)| is_member(**id) && grant.node == node);
            let held = held.next_back().map(|(id, grant)| (*id, grant.token, grant.actor));
            let (id, token, actor) = stale.or(held)?;
            let name = super::name_of_id(id);
            for asked in self.asked.values_mut() {
                asked.is_void |= asked.node == node && asked.want.may_be(asked.actor, id);
            }
            if self.granted.get(&id).is_some_and(|grant| grant.token == token) {
                self.granted.remove(&id);
                self.left.insert(node, Former { name: id, actor, token });
            }
            return Some((Call::Withdraw { name, token }, 0, id, token));
        }
        let group = group_of(want)?;
        let known = match want {
            Want::Join { again: true, .. } => {
                let left = self.left.get(&node).map(|left| left.actor);
                let held = || self.granted.values().filter(|grant| grant.node == node).map(|g| g.actor).max();
                Some(left.or_else(held)?)
            }
            _ => None,
        };
        let actor = known.unwrap_or(self.next_actor);
        self.next_actor += u64::from(known.is_none());
        let on_lapse = if actor.is_multiple_of(4) { OnLapse::Stop } else { OnLapse::Suspend };
        let call = Call::Join { group, actor, kind: Kind(7), on_lapse, meta: None };
        // Which session asks for it is known when it is granted.
        let name = self.granted_name(node, want, actor, SessionNumber(0));
        Some((call, actor, name, Position(0)))
    }

    /// The name that was granted to a call.
    pub(super) fn granted_name(
        &self,
        node: NodeId,
        want: &Want,
        actor: u64,
        session: SessionNumber,
    ) -> NameId {
        let Some(group) = group_of(want) else { return want.name().into() };
        let (node, incarnation) = (self.setup.names[usize::from(node)].clone(), Incarnation(0));
        super::number_of(&group.member(&SessionId { node, incarnation, number: session }, actor))
    }

    /// A place holds from here on.
    pub(super) fn place_holds(&mut self, node: NodeId, claim: CallId) {
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut())
            && let Some(acting) = parts.acting.get_mut(&claim)
        {
            acting.holds = true;
        }
    }
}

/// What was left last on each node.
pub(super) type Left = BTreeMap<NodeId, Former>;
