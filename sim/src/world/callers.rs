//! Clients that wait for trust: their side of a registration is a core of its own, and what the member answers is on its way to
//! them for a while.

use callsign::{
    RegisterError,
    cores::{Answer, Call, CallId, Caller, CallerEffect, CallerInput, Granted, Input, Queue},
};

use super::{Asked, NodeId, World, calls::CLIENT_TIMEOUT};
use crate::oracle::Check;

/// A client that waits for trust, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Patient {
    /// Where.
    pub node: NodeId,
    core: Caller,
    call: Call,
    /// The call by which the member was asked last.
    asked_as: Option<CallId>,
    /// What the member has answered, and the client has not heard.
    answer: Option<Result<Granted, RegisterError>>,
    /// The claim that it is to hear of has ended meanwhile.
    is_flagged: bool,
}

impl World {
    /// A client begins to ask for a name.
    pub(super) fn call_patiently(&mut self, id: CallId, node: NodeId, call: Call) {
        let Call::Register { name, .. } = &call else { return };
        let now = self.member_now(node);
        let core = Caller::new(name.clone(), callsign::OnOutage::Wait, now.time, CLIENT_TIMEOUT);
        let patient = Patient { node, core, call, asked_as: None, answer: None, is_flagged: false };
        self.patients.insert(id, patient);
        self.step_caller(id, CallerInput::Begin);
    }

    fn step_caller(&mut self, id: CallId, input: CallerInput) {
        let Some(node) = self.patients.get(&id).map(|patient| patient.node) else { return };
        let now = self.member_now(node);
        let Some(patient) = self.patients.get_mut(&id) else { return };
        match patient.core.step(now, None, input) {
            Some(CallerEffect::Ask(wait)) => {
                let (call, is_again) = (patient.call.clone(), patient.asked_as.is_some());
                let asked_as = if is_again { self.call_id() } else { id };
                if let Some(patient) = self.patients.get_mut(&id) {
                    patient.asked_as = Some(asked_as);
                }
                // Behind what the session said, as in the one inbox of the driver.
                self.tell_member(node, Queue::OfSession, Input::Call { id: asked_as, call, wait });
            }
            Some(CallerEffect::Done(how)) => self.client_is_answered(id, node, how),
            Some(CallerEffect::AwaitTrust(_)) | None => {}
        }
    }

    fn client_is_answered(&mut self, id: CallId, node: NodeId, how: Result<Granted, RegisterError>) {
        let is_flagged = self.patients.remove(&id).is_some_and(|patient| patient.is_flagged);
        let trusted = self.member_now(node).trusted;
        match &how {
            Ok(granted) => {
                self.oracle.grant_told(node, trusted == Some(granted.session));
                if is_flagged && let Some(asked) = self.asked.get_mut(&id) {
                    asked.is_void = true;
                }
            }
            Err(RegisterError::Lapsed) => {
                self.oracle.count(Check::AskedAgain);
                if trusted.is_some() {
                    self.oracle.fail(Check::AskedAgain, || {
                        format!(
                            "call {}: node {node} is trusted, and its client is told that it is not",
                            id.0
                        )
                    });
                }
            }
            Err(_) => {}
        }
        self.answer_client(node, id, Answer::Registered(how), !is_flagged);
    }

    /// Keeps an answer for the client that it is for, if it is one that waits.
    pub(super) fn is_for_a_patient(&mut self, call: CallId, answer: &Answer) -> bool {
        let how = match answer {
            Answer::Registered(how) => how.clone(),
            // As the driver says it.
            Answer::Left => Err(RegisterError::Left),
            _ => return false,
        };
        let patient = self.patients.values_mut().find(|patient| patient.asked_as == Some(call));
        patient.map(|patient| patient.answer = Some(how)).is_some()
    }

    /// A claim has ended, of which a client may not have heard yet.
    pub(super) fn flag_on_the_way(&mut self, node: NodeId, claim: CallId) {
        for patient in self.patients.values_mut().filter(|patient| patient.node == node) {
            patient.is_flagged |= matches!(&patient.answer, Some(Ok(granted)) if granted.claim == claim);
        }
    }

    /// Whether an answer is on its way to a client.
    pub fn has_answer_on_the_way(&self, node: NodeId) -> bool {
        self.patients.values().any(|patient| patient.node == node && patient.answer.is_some())
    }

    /// A client takes the answer that is on its way to it.
    pub(super) fn take_answer(&mut self, node: NodeId) -> bool {
        if self.awake(node).is_none() {
            return false;
        }
        let waiting =
            self.patients.iter_mut().find(|(_, patient)| patient.node == node && patient.answer.is_some());
        let Some((id, answer)) = waiting.and_then(|(id, patient)| Some((*id, patient.answer.take()?))) else {
            return false;
        };
        self.step_caller(id, CallerInput::Answered(answer));
        self.settle(node);
        true
    }

    /// The session of a node is trusted, again or for the first time.
    pub(super) fn tell_patients(&mut self, node: NodeId, input: &CallerInput) {
        let of_node = self.patients.iter().filter(|(_, patient)| patient.node == node);
        let ids: Vec<_> = of_node.map(|(id, _)| *id).collect();
        for id in ids {
            self.step_caller(id, input.clone());
        }
    }

    /// When a client of a node wants to be woken next.
    pub fn callers_wake_at(&self, node: NodeId) -> Option<std::time::Duration> {
        let of_node = self.patients.values().filter(|patient| patient.node == node);
        of_node.filter_map(|patient| patient.core.wakes_at()).min().map(|at| at.0)
    }

    /// What a node's clients ask is forgotten with it.
    pub(super) fn forget_clients(&mut self, node: NodeId) {
        self.asked.retain(|_, asked: &mut Asked| asked.node != node);
        self.patients.retain(|_, patient| patient.node != node);
        self.granted.retain(|_, granted| granted.node != node);
        self.left.remove(&node);
    }
}
