//! What stays slow, or hangs, when everything else is healed. A cluster has to come to rest all the same.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    rng::Rng,
    scenario::Drag,
    world::{Action, CoreId, NodeId, World},
};

/// What was held back so far.
#[derive(Debug)]
pub(super) struct Dragging {
    drag: Drag,
    takes: Duration,
    /// Who sends nothing in bulk.
    donor: Option<NodeId>,
    /// When something in bulk arrived last on a way.
    arrived: BTreeMap<(NodeId, NodeId), Duration>,
    /// Since when the store has been asked for an operation.
    asked: BTreeMap<(u64, CoreId, u64), Duration>,
}

impl Dragging {
    pub(super) fn new(drag: Drag) -> Self {
        let (arrived, asked) = (BTreeMap::new(), BTreeMap::new());
        Self { drag, takes: Duration::ZERO, donor: None, arrived, asked }
    }

    /// Takes out what has to wait.
    pub(super) fn hold_back(&mut self, world: &World, rng: &mut Rng, actions: &mut Vec<Action>) {
        if self.drag == Drag::Nothing {
            return;
        }
        if self.takes.is_zero() {
            // Less than anybody waits for an answer, who would begin anew.
            self.takes = Duration::from_millis(100 + rng.below(300));
        }
        match self.drag {
            Drag::Nothing => {}
            Drag::Ways => actions.retain(|action| match action {
                Action::Frame { from, to, bulk: true, .. } => {
                    self.arrived.get(&(*from, *to)).is_none_or(|at| world.now >= *at + self.takes)
                }
                _ => true,
            }),
            Drag::Donor => {
                self.donor = self.donor.or_else(|| donor(world, rng));
                let (donor, is_alone) = (self.donor, synced(world).count() < 2);
                actions.retain(|action| match action {
                    // Unless nobody else has what it has.
                    Action::Frame { from, bulk: true, .. } => is_alone || Some(*from) != donor,
                    _ => true,
                });
            }
            Drag::Store => actions.retain(|action| {
                let Action::Store { node, nth, .. } = action else { return true };
                let Some(process) = world.process(*node) else { return true };
                let Some(op) = process.ops.get(usize::from(*nth)) else { return true };
                let asked = self.asked.entry((process.incarnation.0, op.core, op.id)).or_insert(world.now);
                world.now >= *asked + self.takes
            }),
        }
    }

    /// It happens.
    pub(super) fn pass(&mut self, world: &World, action: &Action) {
        if let Action::Frame { from, to, bulk: true, .. } = action
            && self.drag == Drag::Ways
        {
            self.arrived.insert((*from, *to), world.now);
        }
    }
}

/// The members that have the end of the log.
fn synced(world: &World) -> impl Iterator<Item = NodeId> {
    let is_synced = |node: &NodeId| {
        let parts = world.process(*node).and_then(|process| process.parts.as_ref());
        parts.is_some_and(|parts| parts.core.member().is_synced())
    };
    world.ids().filter(is_synced)
}

/// The leader or another member that has a snapshot to give: joiners ask the others first, and fetch from the leader.
fn donor(world: &World, rng: &mut Rng) -> Option<NodeId> {
    let leader = super::leader(world)?;
    let others: Vec<NodeId> = synced(world).filter(|node| *node != leader).collect();
    if others.is_empty() || rng.per_mille(500) { Some(leader) } else { Some(others[rng.index(others.len())]) }
}
