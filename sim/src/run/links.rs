//! Somebody looks at each node of a cluster that is at rest, and sees which links the others have; also once a link is gone.
//!
//! Nobody is asked before, so all of it is done here, to a copy: a trace does not depend on it.

use std::time::Duration;

use crate::{
    oracle::{Check, Oracle},
    schedule::progress,
    world::{Action, NodeId, Parts, World},
};

/// So many rounds of messages follow from a question at most.
const ROUNDS: usize = 200;

/// After so long the others may be asked again, whatever the rates of the clocks.
pub(super) const AGAIN: Duration = Duration::from_secs(2);

/// Looks, and looks again when one link has broken.
pub(super) fn look(world: &World, oracle: &mut Oracle) {
    let mut world = world.clone();
    // Whatever else is done here was judged where it belongs.
    world.oracle = Oracle::default();
    deliver(&mut world);
    ask(&mut world);
    compare(&world, oracle, true);
    let Some((a, b)) = pairs(&world).into_iter().find(|(a, b)| a < b && is_whole(&world, *a, *b)) else {
        return;
    };
    let mut nth = 0;
    while world.apply(&Action::Break { a, b, nth, keep: 0 }) {
        nth += 1;
    }
    deliver(&mut world);
    compare(&world, oracle, false);
    world.apply(&Action::Tick { by: AGAIN });
    ask(&mut world);
    compare(&world, oracle, true);
}

/// What is under way arrives. No time passes, and the store answers nobody.
pub(super) fn deliver(world: &mut World) {
    let mut actions = Vec::new();
    for _ in 0..ROUNDS {
        actions.clear();
        progress(world, &mut actions);
        actions.retain(|action| {
            matches!(action, Action::Frame { .. } | Action::Inbox { .. } | Action::Idle { .. })
        });
        if actions.is_empty() {
            return;
        }
        for action in &actions {
            world.apply(action);
        }
    }
}

/// One after the other, so that no lane is full.
pub(super) fn ask(world: &mut World) {
    for node in world.ids() {
        world.ask_for_links(node);
        deliver(world);
    }
}

pub(super) fn pairs(world: &World) -> Vec<(NodeId, NodeId)> {
    let others = |a| world.ids().filter(move |b| *b != a).map(move |b| (a, b));
    world.ids().flat_map(others).collect()
}

pub(super) fn parts(world: &World, node: NodeId) -> Option<&Parts> {
    world.process(node)?.parts.as_ref()
}

/// Whether two nodes have a link that is up at both ends: at one end it may be up for a while when the other end is gone.
pub(super) fn is_whole(world: &World, a: NodeId, b: NodeId) -> bool {
    world.conns.iter().any(|conn| {
        let is_up = |end: &crate::world::End| {
            !end.is_closed && world.process(end.node).is_some_and(|process| process.links.is_up(end.link))
        };
        let is_between = conn.end_of(a).is_some() && conn.end_of(b).is_some();
        is_between && !conn.is_broken && conn.ends.iter().all(is_up)
    })
}

/// Each node knows the links of those that it is linked to, if they have answered it. Of the others it knows nothing.
fn compare(world: &World, oracle: &mut Oracle, have_answered: bool) {
    for (node, other) in pairs(world) {
        let (Some(own), Some(others)) = (parts(world, node), parts(world, other)) else { continue };
        let (own, others) = (own.core.member(), others.core.member());
        let said = own.links_of(others.me());
        let is_linked = own.linked().contains(others.me());
        if is_linked && !(have_answered && is_whole(world, node, other)) {
            continue;
        }
        oracle.count(Check::LinksTrue);
        if said != is_linked.then(|| others.linked()) {
            let has = others.linked();
            oracle.fail(Check::LinksTrue, || {
                format!("node {node} (linked: {is_linked}) knows of the links of node {other} {said:?}; it has {has:?}")
            });
        }
    }
}
