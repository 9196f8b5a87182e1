//! Deaths are found in time, whoever died with whom: the session of a process that is gone is closed by another.

use std::{collections::BTreeMap, time::Duration};

use callsign_store::ids::SessionId;

use super::{Check, Inner, elections::lateness};
use crate::world::{CoreId, NodeId, World};

/// The cores that must not be late for a death to be found in time.
const CORES: [CoreId; 3] = [CoreId::Session, CoreId::Elector, CoreId::Member];
/// Nodes leave closing a session to leaders for so long at most: `AFTER_LEADERS` and `CLOSINGS_APART` of `session/observe.rs`
/// together.
const AFTER_LEADERS: Duration = Duration::from_millis(500);

/// Sessions whose processes are gone, and that nobody has closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Deaths(BTreeMap<SessionId, Unfound>);

/// One of them.
#[derive(Clone, Debug)]
struct Unfound {
    /// For how long, while nothing else goes wrong and nobody is slow.
    waited: Duration,
    /// The node that has led all the while, and therefore observes all sessions.
    led_by: Option<NodeId>,
}

impl Deaths {
    /// Something else goes wrong: whoever observes may do so no more, and another begins anew.
    pub(super) fn begin_anew(&mut self) {
        self.0.clear();
    }
}

/// The one that leads and serves.
fn serving(world: &World) -> Option<NodeId> {
    let serves = |id: &NodeId| {
        let parts = world.awake(*id).and_then(|process| process.parts.as_ref());
        parts.is_some_and(|parts| parts.core.member().is_serving())
    };
    world.ids().find(serves)
}

impl Inner {
    /// The sessions that are open, and whose processes are gone.
    fn left_open(&self, world: &World) -> Vec<SessionId> {
        let is_gone = |session: &SessionId| {
            let id = world.setup.id(session.node.as_str());
            let process = id.and_then(|id| world.process(id));
            process.is_none_or(|process| process.incarnation != session.incarnation)
        };
        let open = self.sessions.iter().filter(|(_, record)| record.open);
        open.map(|(node, record)| SessionId {
            node: node.clone(),
            incarnation: record.incarnation,
            number: record.number,
        })
        .filter(is_gone)
        .collect()
    }

    /// P8, and DESIGN 11: a death is found within a lease and some polls by a leader that has led since. If those that observed all sessions
    /// have died, too, it is found within two: the leader's is, and then nobody rests. As with [the seat](Self::check_seat_of_the_dead), time
    /// in which somebody is slow does not count.
    pub(super) fn check_deaths(&mut self, world: &World, passed: Duration) {
        let (lease, every) = (world.setup.session.lease, world.setup.session.observe_every);
        let open = self.left_open(world);
        self.deaths.0.retain(|session, _| open.contains(session));
        if open.is_empty() {
            return;
        }
        let awake: Vec<_> = world.ids().filter(|id| world.awake(*id).is_some()).collect();
        let is_trusted = |id: &NodeId| {
            world.process(*id).is_some_and(|process| process.trusted(world.local(*id)).is_some())
        };
        let is_hindered = awake.is_empty()
            || world.refuses
            || world.nodes.iter().any(|machine| machine.outage)
            || !awake.iter().all(is_trusted);
        if is_hindered {
            return self.deaths.begin_anew();
        }
        let late = awake.iter().map(|id| lateness(world, *id, &CORES)).max().unwrap_or_default();
        // Reads that are further apart count as none, so whoever was late begins anew.
        if late > (lease / 4).saturating_sub(every) {
            return self.deaths.begin_anew();
        }

        let serving = serving(world);
        for session in open {
            self.counts.add(Check::FoundDead, 1);
            let unfound = self
                .deaths
                .0
                .entry(session.clone())
                .or_insert(Unfound { waited: Duration::ZERO, led_by: serving });
            unfound.led_by = unfound.led_by.filter(|led| Some(*led) == serving);
            unfound.waited += passed.saturating_sub(late);
            let leases = if unfound.led_by.is_some() { 1 } else { 2 };
            if unfound.waited > leases * lease + 2 * every + AFTER_LEADERS {
                let what = format!("nobody has closed {session} of a process that is gone, for {unfound:?}");
                self.fail(Check::FoundDead, what);
                return;
            }
        }
    }
}
