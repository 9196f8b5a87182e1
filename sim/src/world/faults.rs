//! What is done to nodes, ways and clocks.

use std::{sync::Arc, time::Duration};

use callsign::cores::{LeavingInput, NodeInput, Queue};
use callsign_elector::{elector::Notice, settings::Settings};

use super::{
    CoreId, NodeId, World,
    links::{Frame, Lanes},
};

/// How many messages may wait in a lane where nothing is wrong. Drivers count bytes, and have room for thousands.
const LANE_ROOM: usize = 64;

impl World {
    pub(super) fn crash(&mut self, node: NodeId) -> bool {
        self.end_process(node, true)
    }

    /// As a crash, and nobody tells the other ends of its connections.
    pub(super) fn power_off(&mut self, node: NodeId) -> bool {
        self.end_process(node, false)
    }

    fn end_process(&mut self, node: NodeId, is_told: bool) -> bool {
        if self.process(node).is_none() {
            return false;
        }
        self.orphan(node, |_| true);
        for conn in &mut self.conns {
            if let Some(end) = conn.end_of(node) {
                let conn = conn.edit();
                conn.ends[end].is_closed = true;
                conn.to[end] = Lanes::default();
                if is_told {
                    conn.to[1 - end].control.push_back(Frame::Closed);
                } else {
                    conn.is_broken = true;
                }
            }
        }
        self.nodes[usize::from(node)].process = None;
        self.forget_clients(node);
        self.oracle.crashed(node);
        true
    }

    pub(super) fn pause(&mut self, node: NodeId) -> bool {
        let Some(process) = self.process_mut(node).filter(|process| !process.paused) else { return false };
        process.paused = true;
        true
    }

    pub(super) fn resume(&mut self, node: NodeId) -> bool {
        let Some(process) = self.process_mut(node).filter(|process| process.paused) else { return false };
        process.paused = false;
        self.settle(node);
        true
    }

    /// A part of the node panics. As the drivers do it: trust is dropped and the registry ends at once, then the session is
    /// closed, by a core that knows only its number if the session's own driver is what broke.
    pub(super) fn fail_part(&mut self, node: NodeId, of_session: bool) -> bool {
        let fails =
            |process: &&super::SimulatedProcess| !process.paused && !process.node.leaving().has_begun();
        let Some(process) = self.process(node).filter(fails) else { return false };
        let open = process.session().session();
        self.orphan(node, |core| of_session || core != CoreId::Session);
        self.forget_clients(node);
        self.oracle.crashed(node);
        let Some(process) = self.process_mut(node) else { return false };
        process.ops.retain(|op| op.core == CoreId::Session && !of_session);
        (process.parts, process.trust) = (None, None);
        process.failed_with = open.as_ref().map(|open| open.number);
        if of_session && open.is_none() {
            // The driver that broke had said of no session that it is open.
            return self.crash(node);
        }
        if of_session {
            process.session_wake = None;
            self.step_node(node, NodeInput::SessionBroke);
        }
        self.step_leaving(node, LeavingInput::Failed);
        self.go_on_leaving(node);
        true
    }

    pub(super) fn break_conn(&mut self, a: NodeId, b: NodeId, nth: u8, keep: u8) -> bool {
        let Some(at) = self.conn_at(a, b, nth) else { return false };
        let conn = self.conns[at].edit();
        if conn.is_broken {
            return false;
        }
        conn.is_broken = true;
        for (end, lanes) in conn.to.iter_mut().enumerate() {
            if conn.ends[end].is_closed {
                continue;
            }
            lanes.control.truncate(usize::from(keep));
            lanes.bulk.truncate(usize::from(keep));
            lanes.control.push_back(Frame::Closed);
        }
        true
    }

    pub(super) fn lose_watch(&mut self, node: NodeId) -> bool {
        let parts = self.process_mut(node).and_then(|process| process.parts.as_mut());
        let Some(parts) = parts.filter(|parts| parts.watch.is_some()) else { return false };
        (parts.watch, parts.fired) = (None, false);
        true
    }

    pub(super) fn block(&mut self, from: NodeId, to: NodeId) -> bool {
        let is_new = from != to && !self.is_blocked(from, to);
        if is_new {
            self.blocked |= 1 << (8 * u64::from(from) + u64::from(to));
        }
        is_new
    }

    pub(super) fn unblock(&mut self, from: NodeId, to: NodeId) -> bool {
        let is_there = self.is_blocked(from, to);
        self.blocked &= !(1 << (8 * u64::from(from) + u64::from(to)));
        is_there
    }

    pub(super) fn outage(&mut self, node: NodeId, is_out: bool) -> bool {
        let Some(machine) = self.nodes.get_mut(usize::from(node)) else { return false };
        std::mem::replace(&mut machine.outage, is_out) != is_out
    }

    pub(super) fn refuse(&mut self, is_on: bool) -> bool {
        std::mem::replace(&mut self.refuses, is_on) != is_on
    }

    pub(super) fn widen(&mut self) -> bool {
        let is_new = self.setup.lane < LANE_ROOM;
        if is_new {
            Arc::make_mut(&mut self.setup).lane = LANE_ROOM;
        }
        is_new
    }

    pub(super) fn set_rate(&mut self, node: NodeId, ppm: i32) -> bool {
        let now = self.now;
        let Some(machine) = self.nodes.get_mut(usize::from(node)) else { return false };
        let is_new = machine.clock.ppm() != ppm;
        if is_new {
            machine.clock.set_rate(now, ppm);
        }
        is_new
    }

    pub(super) fn tick(&mut self, by: Duration) -> bool {
        self.now += by;
        !by.is_zero()
    }

    // ---- asked from outside

    pub(super) fn resign(&mut self, node: NodeId) -> bool {
        let Some(parts) = self.awake(node).and_then(|process| process.parts.as_ref()) else { return false };
        let epoch = parts.core.member().view().term.epoch;
        self.tell_elector(node, Queue::OfMember, Notice::Resign { epoch });
        self.settle(node);
        true
    }

    pub(super) fn configure(&mut self, node: NodeId, change: Settings) -> bool {
        if self.awake(node).is_none_or(|process| process.parts.is_none()) {
            return false;
        }
        self.tell_elector(node, Queue::OfMember, Notice::Configure(change));
        self.settle(node);
        true
    }
}
