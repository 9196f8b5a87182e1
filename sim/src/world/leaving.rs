//! Nodes that leave, and what the core asks for that says how.

use std::time::Duration;

use callsign::cores::{
    Call, CallId, CallerInput, Input, LeavingEffect, LeavingInput, NodeEffect, NodeInput, Queue,
};
use callsign_store::Time;
use callsign_transport::PeerId;

use super::{NodeId, World};
use crate::oracle::Check;

/// Whoever asks a node to leave. Nobody waits for the answer.
const CALLER: u64 = 0;

impl World {
    /// As a node that is asked to end: it drains, and leaves when it has.
    pub(super) fn drain(&mut self, node: NodeId) -> bool {
        let Some(incarnation) = self.may_leave(node) else { return false };
        self.oracle.drains(incarnation);
        self.step_leaving(node, LeavingInput::Leave(CALLER));
        self.settle(node);
        true
    }

    /// As a node that has drained, with nothing to hand over: first the names, then the queue, then the session.
    pub(super) fn leave(&mut self, node: NodeId) -> bool {
        if self.may_leave(node).is_none() {
            return false;
        }
        if let Some(process) = self.process_mut(node) {
            process.node.has_drained_at_once();
        }
        self.step_leaving(node, LeavingInput::Leave(CALLER));
        self.settle(node);
        true
    }

    fn may_leave(&self, node: NodeId) -> Option<callsign_store::ids::Incarnation> {
        let process = self.process(node)?;
        let may = !process.paused && !process.node.leaving().has_begun() && process.parts.is_some();
        may.then_some(process.incarnation)
    }

    /// Tells the core of something that matters to a node that leaves.
    pub(super) fn step_leaving(&mut self, node: NodeId, input: LeavingInput) {
        self.step_node(node, NodeInput::Leaving(input));
    }

    /// Tells the core what has happened, and does what it asks for.
    pub fn step_node(&mut self, node: NodeId, input: NodeInput) {
        let now = Time(self.local(node));
        let Some(process) = self.process_mut(node) else { return };
        let mut effects = Vec::new();
        process.node.step(now, input, &mut effects);
        self.carry_node(node, effects);
    }

    pub(super) fn carry_node(&mut self, node: NodeId, effects: Vec<NodeEffect>) {
        for effect in effects {
            match effect {
                NodeEffect::Session(effect) => self.carry_session(node, effect),
                NodeEffect::SessionIsTold => self.take_for_session(node),
                NodeEffect::ToRegistry(_, told) => self.tell(node, Queue::OfSession, told),
                NodeEffect::Trusted(_) => self.tell_patients(node, &CallerInput::Trusted),
                NodeEffect::Peers(peers) => self.set_peers(node, peers),
                NodeEffect::Confirmed(of, incarnation) => {
                    self.confirm(node, PeerId::new(of.as_str(), incarnation.0));
                }
                NodeEffect::Leaving(effect) => self.carry_leaving(node, &effect),
            }
        }
    }

    fn carry_leaving(&mut self, node: NodeId, effect: &LeavingEffect) {
        match effect {
            LeavingEffect::Drain(_, wait) => self.call_to_leave(node, Call::Drain, *wait),
            // Nothing runs here that runs on exactly one node.
            LeavingEffect::End => self.step_leaving(node, LeavingInput::Ended),
            LeavingEffect::Drop(_, wait) => self.drop_names(node, *wait),
            LeavingEffect::Close => self.close_session(node),
            LeavingEffect::Part => self.part(node),
            LeavingEffect::Drained(..) | LeavingEffect::Left(_) => {}
        }
    }

    fn drop_names(&mut self, node: NodeId, wait: Duration) {
        let Some(incarnation) = self.process(node).map(|process| process.incarnation) else { return };
        self.granted.retain(|_, granted| granted.node != node);
        self.left.remove(&node);
        for asked in self.asked.values_mut().filter(|asked| asked.node == node) {
            asked.is_void = true;
        }
        self.oracle.leaves(incarnation);
        self.call_to_leave(node, Call::Leave, wait);
    }

    fn call_to_leave(&mut self, node: NodeId, call: Call, wait: Duration) {
        let id: CallId = self.call_id();
        self.tell_member(node, Queue::OfMember, Input::Call { id, call, wait });
    }

    /// What waits for the session arrives at once.
    fn take_for_session(&mut self, node: NodeId) {
        while let Some(input) = self.process_mut(node).and_then(|process| process.node.take()) {
            self.step_session(node, input);
        }
    }

    fn close_session(&mut self, node: NodeId) {
        let Some(process) = self.process(node) else { return };
        if !process.node.leaving().has_failed() {
            let mut oracle = std::mem::take(&mut self.oracle);
            oracle.closes_to_leave(self, node);
            self.oracle = oracle;
        }
    }

    fn part(&mut self, node: NodeId) {
        let Some(process) = self.process(node) else { return };
        let (is_ending, session) = (process.session().is_leaving(), process.session().session());
        if let Some(number) = process.failed_with {
            let is_confirmed = process.session().is_over() && process.session().failure().is_none();
            let mut oracle = std::mem::take(&mut self.oracle);
            oracle.has_failed(self, node, number, is_confirmed);
            self.oracle = oracle;
        }
        self.oracle.count(Check::LeavesForGood);
        if !is_ending {
            self.oracle
                .fail(Check::LeavesForGood, || format!("node {node} has left, and has opened {session:?}"));
        }
        self.say_goodbye(node);
        self.crash(node);
    }

    /// What a node that leaves does with time.
    pub(super) fn go_on_leaving(&mut self, node: NodeId) {
        let now = Time(self.local(node));
        let Some(process) = self.process(node).filter(|process| process.node.leaving().has_begun()) else {
            return;
        };
        if process.node.leaving().wakes_at().is_some_and(|at| at <= now) {
            self.step_leaving(node, LeavingInput::Wake);
        }
    }
}
