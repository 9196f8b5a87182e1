//! What callers are told who had a name offered to another node.

use callsign::{OfferError, cores::CallId};
use callsign_store::ids::Position;

use super::{Check, Inner, Oracle, Span, Told, certificates::node_number};
use crate::world::{NameId, NodeId, Want, World, name_of_id};

impl Oracle {
    /// A node has offered a name, held under this token, because of a call.
    pub(crate) fn is_offered(&mut self, id: CallId, token: Position) {
        let Some(inner) = self.edit() else { return };
        if let Some(at) = inner.open_calls.get(&id) {
            inner.told[*at].offered = Some(token);
        }
    }

    /// The first call of a node for this offer that has not led to one.
    pub(crate) fn next_to_offer(&self, node: NodeId, (name, to): (NameId, NodeId)) -> Option<CallId> {
        let inner = self.inner()?;
        let is_it = |told: &Told| {
            let is_for = matches!(told.want, Want::Offer { to: of, .. } if of == to);
            is_for && (told.node, told.name) == (node, name) && told.offered.is_none()
        };
        inner.open_calls.iter().find(|(_, at)| is_it(&inner.told[**at])).map(|(id, _)| *id)
    }

    /// A caller is told what became of an offer.
    pub(crate) fn offer_told(&mut self, world: &World, id: CallId, result: &Result<Position, OfferError>) {
        let Some(inner) = self.edit() else { return };
        let Some(at) = inner.open_calls.get(&id).copied().filter(|_| !inner.voided.contains(&id)) else {
            return;
        };
        let told = inner.told[at].clone();
        let Want::Offer { to, .. } = told.want else { return };
        let wrong = match result {
            Ok(token) if to == told.node => inner.offered_here(&told, *token),
            Ok(token) => {
                inner.counts.add(Check::OfferMoved, 1);
                inner.offered_there(&told, to, *token)
            }
            Err(OfferError::NotHeldHere { .. }) => {
                let name = name_of_id(told.name);
                let member = world.process(told.node).and_then(|process| process.parts.as_ref());
                let mut holds = member.into_iter().flat_map(|parts| parts.core.member().holds());
                let is_held = holds.any(|(held, _, token)| *held == name && token == told.target);
                let held = is_held.then(|| format!("it is held there under {:?}", told.target));
                held.or_else(|| inner.has_moved_after_all(&told, to))
            }
            Err(OfferError::Declined { .. } | OfferError::Silent { .. }) => {
                inner.is_not_held(&told).or_else(|| inner.has_moved_after_all(&told, to))
            }
            Err(OfferError::NotGiven { .. } | OfferError::NotReady { .. } | OfferError::Busy { .. }) => {
                inner.is_not_held(&told)
            }
            // They say nothing of the name.
            Err(_) => return,
        };
        inner.counts.add(Check::OfferTold, 1);
        if let Some(wrong) = wrong {
            let end = inner.position;
            let what = format!("{result:?} to {told:?}, at {end:?}: {wrong}");
            inner.fail(Check::OfferTold, what);
        }
    }
}

/// Whether a registration belongs to a node.
fn is_of(span: &Span, node: NodeId) -> bool {
    node_number(&span.holder.session.node) == Some(node)
}

impl Inner {
    fn span_of(&self, name: NameId, token: Position) -> Option<&Span> {
        self.spans.iter().find(|span| span.name == name && span.holder.token == token)
    }

    /// Whether a registration was there at some moment between what the node of a call knew when it was asked, and now.
    fn was_there(&self, told: &Told, span: &Span) -> bool {
        span.holder.token <= self.position && span.to.is_none_or(|to| to > told.seen)
    }

    /// To its own node: it holds the name.
    fn offered_here(&self, told: &Told, token: Position) -> Option<String> {
        let span = self.span_of(told.name, token);
        let is_true = span.is_some_and(|span| is_of(span, told.node) && self.was_there(told, span));
        (!is_true).then(|| format!("the log has {span:?}"))
    }

    /// To another one: the name went there, from an actor of this node, after it was asked.
    fn offered_there(&self, told: &Told, to: NodeId, token: Position) -> Option<String> {
        let span = self.span_of(told.name, token);
        let from = self.moved_from(told.name, token).and_then(|from| self.span_of(told.name, from));
        let is_true = span.is_some_and(|span| is_of(span, to))
            && from.is_some_and(|from| is_of(from, told.node))
            && told.offered.is_none_or(|offered| from.is_some_and(|from| from.holder.token == offered))
            && token > told.began
            && token <= self.position;
        (!is_true).then(|| format!("the log has {span:?} after {from:?}"))
    }

    /// It is said that the name stays: then it was there.
    fn is_not_held(&self, told: &Told) -> Option<String> {
        let is_it = |span: &&Span| {
            span.name == told.name
                && span.holder.session.incarnation == told.incarnation
                && self.was_there(told, span)
        };
        self.spans.iter().find(is_it).is_none().then(|| "the log says that it was not there".to_owned())
    }

    /// It is said that the name did not go to the node: then what was offered has not gone there.
    fn has_moved_after_all(&self, told: &Told, to: NodeId) -> Option<String> {
        let offered = told.offered?;
        let is_it = |span: &&Span| {
            span.name == told.name
                && is_of(span, to)
                && self.moved_from(told.name, span.holder.token) == Some(offered)
        };
        self.spans.iter().find(is_it).map(|span| format!("the log has {span:?}"))
    }
}
