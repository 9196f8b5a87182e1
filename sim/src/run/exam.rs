//! The examination of a cluster that is healed and at rest: every name can be had.
//!
//! Each name is asked for at some node. One that is held is given up by its holder first. A name that is stuck shows as a
//! call without an answer. Every node reads consistently, too.

use super::{act, come_to_rest};
use crate::{
    oracle::{Check, Outcome},
    schedule::Scheduler,
    world::{Action, NodeId, Want, World, name_of},
};

/// What is refused was not done, and is asked again: a process that was not scheduled for long can lapse at rest, too.
const EXAM_ATTEMPTS: usize = 6;

/// Names from this one on are in no certificate.
const NOBODYS: u8 = 40;

/// Asks for every name that clients used, and for one that nobody used. False: it came to no good end.
pub(super) fn examine(world: &mut World, scheduler: &mut Scheduler, trace: &mut Vec<Action>) -> bool {
    // A trace that is replayed may have come to this before.
    let fresh = (28..32).find(|name| world.oracle.is_free(u64::from(*name)));
    let mut left: Vec<u8> = (0..scheduler.profile().names).chain(fresh).collect();
    let mut readers: Vec<NodeId> = world.ids().collect();
    for _ in 0..EXAM_ATTEMPTS {
        let before = world.told().len();
        for name in &left {
            let holder = world.oracle.holder(u64::from(*name)).and_then(|node| world.setup.id(node.as_str()));
            let action = if let Some(node) = holder {
                Action::Call { node, want: Want::Unregister { name: *name } }
            } else {
                let node = scheduler.rng().below(world.nodes.len() as u64);
                let want = Want::Register { name: *name, stops: false };
                let node = NodeId::try_from(node).unwrap_or(0);
                // The first one may hold all names.
                let may = world.permits(node).allows(&name_of(*name));
                Action::Call { node: if may { node } else { 0 }, want }
            };
            act(world, trace, action);
        }
        // A node that may not have a name, by the certificate that it has now, is told so.
        let restricted: Vec<_> = world.ids().filter(|id| world.permits(*id).names().is_some()).collect();
        for node in restricted {
            let want = Want::Register { name: NOBODYS + node, stops: false };
            act(world, trace, Action::Call { node, want });
        }
        for node in &readers {
            act(world, trace, Action::Call { node: *node, want: Want::Consistent { name: 0 } });
        }
        if !come_to_rest(world, scheduler, trace, &[]) {
            return false;
        }
        let mut unknown = None;
        // Of a registry that began anew meanwhile, what was told before does not count any more.
        let told = world.told();
        for told in told.get(before..).unwrap_or(told) {
            match &told.answer {
                Some((_, Outcome::Granted { .. }, _)) => left.retain(|name| *name != told.want.name()),
                Some((_, Outcome::Read { .. }, _)) => readers.retain(|node| *node != told.node),
                Some((_, Outcome::Unknown, _)) | None => unknown = Some(format!("{told:?}")),
                // What was given up may be taken by one who asked before, and waits no more.
                Some(_) => {}
            }
        }
        if let Some(what) = unknown {
            world.oracle.fail(Check::EveryName, || what);
            return false;
        }
        if left.is_empty() && readers.is_empty() {
            world.oracle.count(Check::EveryName);
            return true;
        }
    }
    world
        .oracle
        .fail(Check::EveryName, || format!("nobody can register {left:?}, and {readers:?} cannot read"));
    false
}
