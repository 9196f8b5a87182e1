//! Names that this node offers to other nodes: when it drains, and when somebody asks for that.
//!
//! ```text
//!  holder                                  target
//!    | --Offer-----------------------------> |  its application makes an actor, which asks for the name: a take as any other
//!    | <---------------------------Declined- |  or it does not, and why
//! ```
//!
//! An offer promises nothing: the name goes by the consent that follows, and is held here until then.
//!
//! Promises: at most so many names are offered at once; a name is offered to one node at a time, and not while it is on its way; a
//! node that declines, or is silent, is passed over for the next one, and not asked for that name again; an answer counts for the
//! offer that it answers. Does not promise that a name has moved: a name that no node takes stays where it is.

use std::collections::{BTreeMap, BTreeSet};

use callsign_store::planted;

use super::{
    Answer, Arc, Claim, Client, Duration, Effect, Host, Kind, Message, Name, NodeName, Now, OnTake, Position,
    Replica, Row, SessionId, Table, Time, starts::clip,
};
use crate::{
    core::{
        permitted::Permitted,
        taking::{Decline, Offered, Taking},
    },
    error::OfferError,
};

/// How many names are offered at once when the node drains. More: the nodes that stay make many actors at a time. Fewer: a drain
/// takes longer.
const OFFERED_AT_ONCE: usize = 64;

/// A node that has neither asked for a name nor declined it for so long is passed over.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// How many names are looked at in a step for which there may be no node.
const LOOKED_AT_ONCE: usize = 1024;

/// An offer that is out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Offer {
    token: Position,
    kind: Kind,
    to: NodeName,
    number: u64,
    /// The node is silent from then on.
    until: Time,
    declined: Option<Decline>,
    /// The nodes that did not take the name, or may not hold it.
    passed: BTreeSet<NodeName>,
    /// The caller that wants this one name to go to this one node. None: the node drains.
    caller: Option<Client>,
    place: Place,
}

/// Where a name is that was offered. The row alone does not say it: a node that has the name now may have registered it when it was
/// free, and one that has had it may have freed it since.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// It has gone nowhere that anybody here knows of.
    Here,
    /// It went from here to an actor of this node, under this token.
    With(NodeName, Position),
    /// The leader was asked to give it away, and this node lost its claim before it heard what became of that.
    Unknown,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Offers {
    /// The names that are to be offered when the node drains.
    due: BTreeSet<Name>,
    out: BTreeMap<Name, Offer>,
    called: Vec<(Client, Name, NodeName)>,
    is_draining: bool,
    /// Nodes that take no name of a kind while this one drains.
    unwilling: BTreeMap<NodeName, BTreeSet<Kind>>,
    /// The turn of the nodes.
    turn: usize,
    last_number: u64,
    /// There is more to be looked at at once.
    has_more: bool,
    /// What this node's own application takes from others.
    receives: BTreeSet<Kind>,
}

impl Offers {
    /// An actor of this node holds a name.
    pub(super) fn holds(&mut self, name: &Name, claim: &Claim) {
        if claim.on_take == OnTake::Offer && claim.actor.is_some() {
            self.due.insert(name.clone());
        }
    }

    /// It does not hold it any more. `is_asked`: the leader was asked to give it away, and the verdict is not known.
    pub(super) fn forget(&mut self, name: &Name, is_asked: bool) {
        self.due.remove(name);
        if is_asked {
            self.is_unknown(name);
        }
    }

    /// A name went from here to another actor.
    pub(super) fn has_moved(&mut self, name: &Name, from: Position, (to, token): (&NodeName, Position)) {
        if let Some(offer) = self.out.get_mut(name).filter(|offer| offer.token == from) {
            offer.place = Place::With(to.clone(), token);
        }
    }

    /// It may have.
    pub(super) fn is_unknown(&mut self, name: &Name) {
        if let Some(offer) = self.out.get_mut(name).filter(|offer| offer.place == Place::Here) {
            offer.place = Place::Unknown;
        }
    }

    fn is_out_to_drain(&self) -> bool {
        self.out.values().any(|offer| offer.caller.is_none())
    }

    /// Whether time has to pass.
    pub(super) fn is_waiting(&self) -> bool {
        !self.out.is_empty() || !self.called.is_empty() || self.is_draining && !self.due.is_empty()
    }

    /// The node whose turn it is, of those that may take a name of this kind.
    fn next_target(
        &mut self,
        targets: &[NodeName],
        kind: Kind,
        passed: &BTreeSet<NodeName>,
    ) -> Option<NodeName> {
        let is_willing =
            |node: &NodeName| self.unwilling.get(node).is_none_or(|kinds| !kinds.contains(&kind));
        let may = |node: &NodeName| !passed.contains(node) && is_willing(node);
        let begin = self.turn % targets.len().max(1);
        let mut turns = targets.iter().enumerate().cycle().skip(begin).take(targets.len());
        let (at, node) = turns.find(|(_, node)| may(node))?;
        self.turn = at + 1;
        Some(node.clone())
    }
}

impl Host {
    /// The node drains: what its actors are willing to give away is offered from now on.
    pub(crate) fn begin_offers(&mut self) {
        self.offers.is_draining = true;
    }

    /// The node has drained: nothing more is offered. What is on its way goes on.
    pub(crate) fn end_offers(&mut self) {
        self.offers.is_draining = false;
        self.offers.has_more = false;
        self.offers.out.retain(|_, offer| offer.caller.is_some());
    }

    /// Whether names are offered, or are to be, because the node drains.
    pub(crate) fn is_offering(&self) -> bool {
        self.offers.is_draining && (!self.offers.due.is_empty() || self.offers.is_out_to_drain())
    }

    /// Whether there is something to do about offers.
    pub(crate) fn has_offers(&self) -> bool {
        self.offers.is_waiting()
    }

    /// Whether there is something left to do that waits for nobody.
    pub(crate) fn wants_a_turn(&self) -> bool {
        // Without anything to offer there is nothing more either: perhaps the last look took exactly what was left.
        self.is_busy() || self.is_looking() || self.offers.has_more && self.has_offers()
    }

    /// The application takes names of this kind from other nodes, or does not any more.
    pub(crate) fn receives(&mut self, kind: Kind, does: bool) {
        if does {
            self.offers.receives.insert(kind);
        } else {
            self.offers.receives.remove(&kind);
        }
    }

    /// A caller wants this one name to go to this one node.
    pub(crate) fn offer(&mut self, caller: Client, name: Name, to: NodeName) {
        self.offers.called.push((caller, name, to));
    }

    /// Goes on with what is offered. `targets` are the nodes that could have a name.
    pub(crate) fn proceed_offers<T: Table>(
        &mut self,
        now: Now,
        targets: &[NodeName],
        permitted: &Permitted,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        self.offers.has_more = false;
        // Without anybody to offer to there is nothing to wait for.
        if self.offers.is_draining && targets.is_empty() {
            self.offers.due.clear();
        }
        // While claims may be about to end, and while nothing is trusted, nobody is asked, and nobody is late.
        if self.is_busy() || !self.is_trusted(now) {
            for offer in self.offers.out.values_mut() {
                offer.until = now.time + SILENT_AFTER;
            }
            return self.expire_offers(now, effects);
        }
        for name in self.offers.out.keys().cloned().collect::<Vec<_>>() {
            self.look_at_offer(now.time, &name, targets, replica, effects);
        }
        self.expire_offers(now, effects);
        for (caller, name, to) in std::mem::take(&mut self.offers.called) {
            self.offer_called(now.time, (caller, name, to), targets, replica, effects);
        }
        if self.offers.is_draining {
            self.offer_due(now.time, targets, permitted, effects);
        }
    }

    /// What has become of an offer.
    fn look_at_offer<T: Table>(
        &mut self,
        now: Time,
        name: &Name,
        targets: &[NodeName],
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let is_giving = self.gives.is_giving(name) && !planted!("passed-over-on-its-way");
        let claim = self.claims.get(name);
        let Some(offer) = self.offers.out.get_mut(name) else { return };
        if claim.is_none_or(|claim| claim.position != offer.token) {
            let Some(offer) = self.offers.out.remove(name) else { return };
            let Some(caller) = offer.caller else { return };
            let row = replica.row(name);
            let is_there = |row: &Row| row.session.node == offer.to && row.position > offer.token;
            let found = row.as_ref().filter(|row| planted!("found-there-taken-for-moved") && is_there(row));
            let found = found.map(|row| row.position);
            let is_it = |to: &NodeName| *to == offer.to || planted!("offer-told-of-any-move");
            let name = name.to_string();
            let answer = match (offer.place, found) {
                (_, Some(token)) => Ok(token),
                (Place::With(to, token), _) if is_it(&to) => Ok(token),
                (Place::Unknown, _) if !planted!("unknown-move-taken-for-none") => {
                    Err(OfferError::Unknown { name, waited: now.since(caller.began) })
                }
                _ => Err(OfferError::NotHeldHere { name, holder: row.map(|row| row.holder()) }),
            };
            return answer_offer(Some(caller), answer, effects);
        }
        if is_giving {
            offer.until = now + SILENT_AFTER;
            return;
        }
        let is_silent = now >= offer.until && !planted!("silent-target-waited-for");
        let is_lost = !targets.contains(&offer.to);
        if offer.declined.is_none() && !is_silent && !is_lost {
            return;
        }
        let Some(offer) = self.offers.out.remove(name) else { return };
        let node = offer.to.clone();
        if offer.caller.is_some() {
            let name = name.to_string();
            let error = match offer.declined {
                Some(why) => OfferError::Declined { name, node, why },
                None => OfferError::Silent { name, node, waited: SILENT_AFTER },
            };
            return answer_offer(offer.caller, Err(error), effects);
        }
        // That it could not take this one name says nothing of others.
        let is_of_all = match offer.declined {
            Some(Decline::NoReceiver | Decline::Draining) => true,
            Some(Decline::NotReady | Decline::Failed { .. }) => false,
            None => is_silent,
        };
        if is_of_all {
            self.offers.unwilling.entry(node.clone()).or_default().insert(offer.kind);
        }
        let Offer { token, kind, mut passed, .. } = offer;
        passed.insert(node);
        self.offer_to_next(now, name.clone(), (token, kind), passed, targets, effects);
    }

    /// A caller that waits no more is told that it is not known what becomes of the name.
    fn expire_offers(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_trusted = self.is_trusted(now) || self.is_busy();
        let now = now.time;
        let is_over = |caller: &Client| now >= caller.deadline;
        let unknown = |name: &Name, caller: &Client| {
            Err(OfferError::Unknown { name: name.to_string(), waited: now.since(caller.began) })
        };
        self.offers.out.retain(|name, offer| {
            let Some(caller) = offer.caller.filter(is_over) else { return true };
            answer_offer(Some(caller), unknown(name, &caller), effects);
            false
        });
        self.offers.called.retain(|(caller, _, _)| {
            // Nothing was asked for them.
            let is_refused = !is_trusted || is_over(caller);
            if is_refused {
                answer_offer(Some(*caller), Err(OfferError::Lapsed), effects);
            }
            !is_refused
        });
    }

    /// A caller wants one name to go to one node.
    fn offer_called<T: Table>(
        &mut self,
        now: Time,
        (caller, name, to): (Client, Name, NodeName),
        targets: &[NodeName],
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let is_here = self.session.as_ref().is_some_and(|session| session.node == to);
        let is_out = self.offers.out.contains_key(&name) || self.is_asked(&name);
        let text = name.to_string();
        let answer = match self.claims.get(&name) {
            None => {
                let holder = replica.row(&name).map(|row| row.holder());
                Err(OfferError::NotHeldHere { name: text, holder })
            }
            Some(claim) if claim.actor.is_none() || is_out => Err(OfferError::Busy { name: text }),
            Some(claim) if is_here => Ok(claim.position),
            Some(claim) if claim.on_take == OnTake::Refuse => Err(OfferError::NotGiven { name: text }),
            Some(_) if !targets.contains(&to) => Err(OfferError::NotReady { name: text, node: to }),
            Some(claim) => {
                let of = (claim.position, claim.kind);
                return self.send_offer(now, (name, to), of, (BTreeSet::new(), Some(caller)), effects);
            }
        };
        answer_offer(Some(caller), answer, effects);
    }

    /// Offers what is due, as long as there is room.
    fn offer_due(
        &mut self,
        now: Time,
        targets: &[NodeName],
        permitted: &Permitted,
        effects: &mut Vec<Effect>,
    ) {
        let out = self.offers.out.values().filter(|offer| offer.caller.is_none()).count();
        let mut room = OFFERED_AT_ONCE.saturating_sub(out);
        if room == 0 {
            // Nor is it looked at what is due, of which there may be very much.
            return;
        }
        // What is under way is waited for: to ask for the name would be in vain.
        let is_free = |name: &&Name| !self.is_asked(name) && !self.offers.out.contains_key(*name);
        let due: Vec<Name> = self.offers.due.iter().filter(is_free).take(LOOKED_AT_ONCE).cloned().collect();
        let is_rest = due.len() == LOOKED_AT_ONCE;
        for name in due {
            if room == 0 {
                return;
            }
            self.offers.due.remove(&name);
            let Some(claim) = self.claims.get(&name) else { continue };
            let of = (claim.position, claim.kind);
            // A node that may not hold it would make an actor in vain.
            let passed = permitted.refused(&name, targets);
            if self.offer_to_next(now, name, of, passed, targets, effects) {
                room -= 1;
            }
        }
        self.offers.has_more = is_rest;
    }

    /// Offers a name to the node whose turn it is. False: there is none, and the name stays.
    fn offer_to_next(
        &mut self,
        now: Time,
        name: Name,
        of: (Position, Kind),
        passed: BTreeSet<NodeName>,
        targets: &[NodeName],
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(to) = self.offers.next_target(targets, of.1, &passed) else { return false };
        self.send_offer(now, (name, to), of, (passed, None), effects);
        true
    }

    fn send_offer(
        &mut self,
        now: Time,
        (name, to): (Name, NodeName),
        (token, kind): (Position, Kind),
        (passed, caller): (BTreeSet<NodeName>, Option<Client>),
        effects: &mut Vec<Effect>,
    ) {
        let Some(holder) = self.session.clone() else { return };
        self.offers.last_number += 1;
        let (number, until, declined) = (self.offers.last_number, now + SILENT_AFTER, None);
        let offered = Offered { holder, number, name: name.clone(), token, kind };
        effects.push(Effect::send(to.clone(), Message::Take(Taking::Offer(offered))));
        let place = Place::Here;
        let offer = Offer { token, kind, to, number, until, declined, passed, caller, place };
        self.offers.out.insert(name, offer);
    }

    /// A node does not take what it was offered.
    pub(super) fn on_declined(&mut self, from: &NodeName, holder: &SessionId, number: u64, why: Decline) {
        if self.session.as_deref() != Some(holder) {
            return;
        }
        let is_it = |offer: &&mut Offer| {
            offer.number == number && offer.to == *from || planted!("any-decline-passes-over")
        };
        if let Some(offer) = self.offers.out.values_mut().find(is_it) {
            offer.declined = Some(why);
        }
    }

    /// Another node offers a name.
    pub(super) fn on_offered(&mut self, now: Now, offered: Offered, effects: &mut Vec<Effect>) {
        let why = if self.turned_away.is_some() {
            Decline::Draining
        } else if !self.is_trusted(now) || !self.is_synced {
            Decline::NotReady
        } else if self.offers.receives.contains(&offered.kind) {
            return effects.push(Effect::Offered(offered));
        } else {
            Decline::NoReceiver
        };
        decline(&offered.holder, offered.number, why, effects);
    }
}

/// Says that this node does not take what it was offered.
pub(crate) fn decline(holder: &Arc<SessionId>, number: u64, why: Decline, effects: &mut Vec<Effect>) {
    let why = match why {
        Decline::Failed { reason } => Decline::Failed { reason: clip(reason) },
        why => why,
    };
    let declined = Taking::Declined { holder: holder.clone(), number, why };
    effects.push(Effect::send(holder.node.clone(), Message::Take(declined)));
}

fn answer_offer(caller: Option<Client>, answer: Result<Position, OfferError>, effects: &mut Vec<Effect>) {
    if let Some(caller) = caller {
        effects.push(Effect::Answer { call: caller.call, answer: Answer::Offered(answer) });
    }
}

#[cfg(test)]
mod tests;
