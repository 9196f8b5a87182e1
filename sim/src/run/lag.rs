//! Somebody looks at each node of a cluster that is at rest, and sees where in the log the others are; also once the log has grown, and one
//! member did not hear of it.
//!
//! As for [links](super::links), all of it is done to a copy.

use super::links::{AGAIN, ask, deliver, is_whole, pairs, parts};
use crate::{
    oracle::{Check, Oracle},
    schedule::progress,
    world::{Action, NodeId, Want, World, name_of},
};

/// A name is registered within so many rounds, or somebody else is in the way.
const ROUNDS: usize = 200;

/// Looks, and looks again when the log has grown.
pub(super) fn look(world: &World, oracle: &mut Oracle) {
    let mut world = world.clone();
    let fresh = (28..32).find(|name| oracle.is_free(u64::from(*name)));
    // Whatever else is done here was judged where it belongs.
    world.oracle = Oracle::default();
    deliver(&mut world);
    ask(&mut world);
    compare(&world, oracle);
    let serves = |node: &NodeId| parts(&world, *node).is_some_and(|parts| parts.core.member().is_serving());
    let (Some(leader), Some(name)) = (world.ids().find(serves), fresh) else { return };
    if !world.permits(leader).allows(&name_of(name)) {
        return;
    }
    if let Some(deaf) = world.ids().find(|node| *node != leader && is_whole(&world, leader, *node)) {
        world.apply(&Action::Block { from: leader, to: deaf });
    }
    let before = furthest(&world);
    world.apply(&Action::Call { node: leader, want: Want::Register { name, stops: false } });
    commit(&mut world, before);
    if furthest(&world) == before {
        return;
    }
    deliver(&mut world);
    world.apply(&Action::Tick { by: AGAIN });
    ask(&mut world);
    compare(&world, oracle);
}

/// What is asked for is done, and the store answers, until the log has grown. No time passes.
fn commit(world: &mut World, before: u64) {
    let mut actions = Vec::new();
    for _ in 0..ROUNDS {
        actions.clear();
        progress(world, &mut actions);
        actions.retain(|action| !matches!(action, Action::Wake { .. } | Action::Tick { .. }));
        if actions.is_empty() {
            return;
        }
        for action in &actions {
            world.apply(action);
            if furthest(world) > before {
                return;
            }
        }
    }
}

fn position(world: &World, node: NodeId) -> Option<u64> {
    Some(parts(world, node)?.core.member().replica().position().0)
}

/// Where the replica is that is furthest.
fn furthest(world: &World) -> u64 {
    world.ids().filter_map(|node| position(world, node)).max().unwrap_or_default()
}

/// Each node knows where those are that it is linked to, and that hear it. What such a member lacks is no less than what it lacks of
/// this node's own log, and no more than what it lacks of the whole log.
fn compare(world: &World, oracle: &mut Oracle) {
    let end = furthest(world);
    for (node, other) in pairs(world) {
        let (Some(own), Some(is_at)) = (parts(world, node), position(world, other)) else { continue };
        let Some(other_parts) = parts(world, other) else { continue };
        let (own, who) = (own.core.member(), other_parts.core.member().me());
        let hears = !world.is_blocked(node, other) && !world.is_blocked(other, node);
        if !hears || !own.linked().contains(who) || !is_whole(world, node, other) {
            continue;
        }
        oracle.count(Check::LagTrue);
        let (said, behind) = (own.position_of(who).map(|position| position.0), own.behind_of(who));
        let least = own.replica().position().0.saturating_sub(is_at);
        let is_true = behind.is_some_and(|behind| (least..=end - is_at).contains(&behind));
        if said != Some(is_at) || !is_true {
            oracle.fail(Check::LagTrue, || {
                format!(
                    "node {node} knows that node {other} is at {said:?} and {behind:?} behind; it is at {is_at}, node {node} lets \
                     it lack {least}, and the log ends at {end}"
                )
            });
        }
    }
}
