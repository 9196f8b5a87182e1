//! Names that go from one actor to another: what holders give, and which claims nobody may act on meanwhile.

use bytes::Bytes;
use callsign::cores::{CallId, Input, Queue};
use callsign_store::ids::NodeName;

use super::{NodeId, World, number_of};

impl World {
    /// Has a holder say what goes with a name. Whether it does, and when, depends on the claim and the consent.
    pub(super) fn give(
        &mut self,
        node: NodeId,
        name: callsign::Name,
        (claim, consent): (CallId, u64),
        to: &NodeName,
    ) {
        let data: Result<Bytes, String> = match (claim.0 + consent) % 7 {
            // It hangs.
            3 => return,
            5 => Err("the simulation says so".to_owned()),
            _ => Ok(format!("{node} {} {consent}", claim.0).into_bytes().into()),
        };
        if let (Ok(data), Some(to)) = (&data, self.setup.id(to.as_str())) {
            self.oracle.handed(number_of(&name), to, data);
        }
        self.oracle.note(node, || format!("{name} is given to {to}: {data:?}"));
        self.tell_member(node, Queue::OfMember, Input::Given { name, consent, data });
    }

    /// The name of a claim may be another's soon.
    pub(super) fn suspend(&mut self, node: NodeId, claim: CallId) {
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
            let acting = parts.acting.remove(&claim);
            parts.suspended.insert(claim, acting);
        }
    }

    /// It stays where it is.
    pub(super) fn unflag(&mut self, node: NodeId, claim: CallId) {
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut())
            && let Some(Some(acting)) = parts.suspended.remove(&claim)
        {
            parts.acting.insert(claim, acting);
        }
    }
}
