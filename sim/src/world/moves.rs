//! Names that go from one actor to another: what holders give, and which claims nobody may act on meanwhile.

use std::time::Duration;

use bytes::Bytes;
use callsign::cores::{
    Answer, Call, CallId, Decline, Input, Message, Offered, OnLapse, OnTake, Queue, Taking,
};
use callsign_store::ids::{NodeName, Position};
use callsign_transport::{Kind, LinkId};

use super::{
    NameId, NodeId, Want, World,
    calls::{Asked, CLIENT_TIMEOUT},
    number_of,
};

/// What the actors take that hold names.
const KIND: Kind = Kind(7);

/// A name that a member has offered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OfferOut {
    /// The name.
    pub name: callsign::Name,
    /// Its token.
    pub token: Position,
    /// To whom.
    pub to: NodeName,
    /// Over which link.
    pub link: Option<LinkId>,
    /// When, by its node's clock.
    pub sent: Duration,
    /// It was heard that the name is not taken.
    pub is_declined: bool,
}

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

    /// Has a node take what is offered. The fourth one takes nothing.
    pub(super) fn receive(&mut self, node: NodeId) {
        if node != 3 {
            self.tell_member(node, Queue::OfMember, Input::Receives { kind: KIND, does: true });
        }
    }

    /// Has the application make an actor that takes a name which is offered. Whether it does depends on the offer.
    pub(super) fn take_offered(&mut self, node: NodeId, offered: &Offered) {
        let Offered { holder, number, name, token, kind } = offered;
        self.oracle.note(node, || format!("{name} is offered by {holder:?} as {number}"));
        let (holder, number, token, kind) = (holder.clone(), *number, *token, *kind);
        match number % 7 {
            // It hangs.
            2 => return,
            4 => {
                let why = Decline::Failed { reason: "the simulation says so".to_owned() };
                let declined = Input::Declined { holder, number, why };
                return self.tell_member(node, Queue::OfMember, declined);
            }
            _ => {}
        }
        let Some(incarnation) = self.process(node).map(|process| process.incarnation) else { return };
        let Ok(of_user) = u8::try_from(number_of(name)) else { return };
        let (actor, id) = (self.next_actor, self.call_id());
        self.next_actor += 1;
        let want = Want::Take { name: of_user, stops: false };
        let is_void = self.is_overtaking(node, &want);
        let asked = Asked { node, want: want.clone(), actor, is_void };
        self.asked.insert(id, asked);
        self.export(node, actor);
        self.oracle.asked(id, node, incarnation, (&want, of_user.into()), (actor, token, None));
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
            parts.offered.insert(id, (holder, number));
        }
        // It offers the name in its turn.
        let (on_lapse, on_take) = (OnLapse::Suspend, OnTake::Offer);
        let call = Call::Take { name: name.clone(), token, actor, kind, on_lapse, on_take };
        self.tell_member(node, Queue::OfMember, Input::Call { id, call, wait: CLIENT_TIMEOUT });
    }

    /// Keeps what a member offers.
    pub(super) fn note_offer(
        &mut self,
        node: NodeId,
        to: &NodeName,
        link: Option<LinkId>,
        message: &Message,
    ) {
        let Message::Take(Taking::Offer(offered)) = message else { return };
        let (name, token, sent) = (offered.name.clone(), offered.token, self.local(node));
        let Some(target) = self.setup.id(to.as_str()) else { return };
        let number = number_of(&name);
        // Of one that drains it cannot be told whether it is for a call.
        let drains = self.process(node).is_some_and(|process| process.node.leaving().is_draining());
        let call = self.oracle.next_to_offer(node, (number, target)).filter(|_| !drains);
        if let Some(call) = call {
            self.oracle.is_offered(call, token);
        }
        let is_for = |want: &Want| matches!(want, Want::Offer { name, to } if (NameId::from(*name), *to) == (number, target));
        // A node that drains does not wait for what a caller wants.
        let is_called = self.asked.values().any(|asked| asked.node == node && is_for(&asked.want));
        let offer = OfferOut { name, token, to: to.clone(), link, sent, is_declined: false };
        if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
            // Of each name the last one counts.
            parts.offers.retain(|_, other| other.name != offer.name);
            if !is_called {
                parts.offers.insert(offered.number, offer);
            }
        }
    }

    /// Keeps what it hears of that.
    pub(super) fn note_declined(&mut self, node: NodeId, input: &Input) {
        let Input::Message { message: Message::Take(Taking::Declined { number, .. }), .. } = input else {
            return;
        };
        let parts = self.process_mut(node).and_then(|process| process.parts.as_mut());
        if let Some(offer) = parts.and_then(|parts| parts.offers.get_mut(number)) {
            offer.is_declined = true;
        }
    }

    /// An actor that was made for a name which was offered hears whether it has that. If not, it ends.
    pub(super) fn answer_offered(
        &mut self,
        node: NodeId,
        call: CallId,
        asked: Option<&Asked>,
        answer: &Answer,
    ) {
        let parts = self.process_mut(node).and_then(|process| process.parts.as_mut());
        let Some((holder, number)) = parts.and_then(|parts| parts.offered.remove(&call)) else { return };
        let Answer::Taken(Err(error)) = answer else { return };
        let why = Decline::Failed { reason: error.to_string() };
        self.tell_member(node, Queue::OfMember, Input::Declined { holder, number, why });
        if let Some(actor) = asked.map(|asked| asked.actor) {
            self.actor_ended(node, actor);
        }
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
