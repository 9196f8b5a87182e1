//! What a node may do, and may not, that is about to leave.

use std::time::Duration;

use callsign::cores::Drained;
use callsign_store::ids::{Incarnation, NodeName};

use super::{Check, Inner, Oracle, Outcome};
use crate::world::{NodeId, OfferOut, World, name_of_id};

/// After so long a node that was offered a name, and says nothing, is silent.
const SILENT_AFTER: Duration = Duration::from_secs(1);

impl Oracle {
    /// A process begins to drain.
    pub(crate) fn drains(&mut self, incarnation: Incarnation) {
        if let Some(inner) = self.edit() {
            let step = inner.step;
            inner.drains.entry(incarnation).or_insert(step);
        }
    }

    /// Its member has heard so. Calls come to it another way, and may have overtaken that.
    pub(crate) fn turns_away(&mut self, incarnation: Incarnation) {
        if let Some(inner) = self.edit() {
            let step = inner.step;
            inner.turns_away.entry(incarnation).or_insert(step);
        }
    }

    /// It says that it has drained: what was offered has moved, or nobody took it.
    pub(crate) fn drained_names(&mut self, world: &World, node: NodeId, drained: &Drained) {
        if !matches!(drained, Drained::Led { .. } | Drained::Alone) || !world.setup.offers {
            return;
        }
        let Some(parts) = world.process(node).and_then(|process| process.parts.as_ref()) else { return };
        let (member, now) = (parts.core.member(), world.local(node));
        let is_held =
            |name: &callsign::Name, token| member.holds().any(|(held, _, at)| (held, at) == (name, token));
        let view = member.view();
        let may_take = |to: &NodeName| {
            let row = view.members.get(to);
            let stays =
                row.is_some_and(|row| row.synced && !row.draining && view.sessions.is_open(&row.session));
            stays && member.is_linked(to)
        };
        // One that went down has lost what was on it.
        let is_linked_as_then = |offer: &OfferOut| parts.link_of.get(&offer.to).copied() == offer.link;
        self.count(Check::DrainedMoved);
        let is_waited_for = |offer: &&OfferOut| {
            let is_answered = offer.is_declined || !is_held(&offer.name, offer.token);
            let is_late = now >= offer.sent + SILENT_AFTER;
            !is_answered && !is_late && may_take(&offer.to) && is_linked_as_then(offer)
        };
        if let Some(offer) = parts.offers.values().find(is_waited_for) {
            self.fail(Check::DrainedMoved, || {
                format!("node {node} has drained, and this is open: {offer:?}")
            });
        }
    }

    /// It has drained.
    pub(crate) fn drained(&mut self, node: NodeId, incarnation: Incarnation, drained: &Drained) {
        if let Some(inner) = self.edit() {
            inner.drained.insert(incarnation);
        }
        self.note(node, || format!("has drained: {drained:?}"));
        match drained {
            Drained::Led { .. } => self.count(Check::DrainedLed),
            Drained::Alone => self.count(Check::DrainedAlone),
            _ => self.count(Check::DrainedLate),
        }
    }
}

impl Inner {
    /// Names come last: what was granted is held until the member has said that it drained.
    pub(super) fn check_draining(&mut self, world: &World, node: NodeId) {
        let Some(process) = world.process(node) else { return };
        if !process.node.leaving().is_draining() {
            return;
        }
        let Some(parts) = &process.parts else { return };
        let trusted = process.trusted(world.local(node));
        // A member that has lost its base says so, and drops its names for that.
        if !parts.core.member().is_synced()
            || trusted.is_none()
            || parts.core.member().session().map(|session| session.number) != trusted
        {
            return;
        }
        for (name, grant) in world.granted.iter().filter(|(_, grant)| grant.node == node) {
            let is_its = grant.incarnation == process.incarnation && Some(grant.session) == trusted;
            if !is_its || grant.token < self.reset_at || self.has_moved(*name, grant.token) {
                continue;
            }
            self.counts.add(Check::NamesLast, 1);
            let wanted = (&name_of_id(*name), grant.actor, grant.token);
            if !parts.core.member().holds().any(|held| held == wanted) {
                let what = format!("node {node} drains and does not hold n{name}, granted as {grant:?}");
                return self.fail(Check::NamesLast, what);
            }
        }
    }

    /// A registration that was asked for at a node that drains is granted only if it was asked for before, too.
    pub(super) fn check_turned_away(&mut self, at: usize, outcome: &Outcome) {
        let told = &self.told[at];
        let is_register = told.want.registers();
        let Some(since) =
            self.turns_away.get(&told.incarnation).filter(|since| is_register && told.asked > **since)
        else {
            return;
        };
        let (want, name, actor) = (&told.want, told.want.name(), told.actor);
        let is_same = |other: &super::Told| {
            other.want.name() == name && other.want.is_of_groups() == want.is_of_groups()
        };
        let was_asked = |other: &super::Told| other.actor == actor && is_same(other) && other.asked <= *since;
        let is_new = !self.told.iter().any(was_asked);
        self.counts.add(Check::TurnedAway, 1);
        if is_new && matches!(outcome, Outcome::Granted { .. } | Outcome::Moved { .. }) {
            self.fail(
                Check::TurnedAway,
                format!("n{name}: {outcome:?} to actor {actor}, asked of a node that drains"),
            );
        }
    }
}
