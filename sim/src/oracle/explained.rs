//! What members say of names is what the log says, or that they do not remember.

use std::collections::BTreeSet;

use callsign::{Entry, NameState, PastChange, WhyFree, cores::Explained};
use callsign_store::ids::Position;

use super::{Check, Inner, Oracle, watches::Logged};
use crate::world::{NameId, NodeId, Parts, is_member, name_of_id};

/// A name that nobody asks for.
const NOBODYS: NameId = 250;

impl Oracle {
    /// What a member says of all names of the log. It may have to sweep.
    pub(crate) fn check_explained(&mut self, node: NodeId, parts: &Parts) {
        let Some(inner) = self.edit() else { return };
        let member = parts.core.member();
        let replica = member.replica();
        let (end, is_complete) = (replica.end(), replica.is_based());
        let names: BTreeSet<_> = inner.watched.changes(end).iter().map(|change| change.name).collect();
        for name in names.into_iter().filter(|name| !is_member(*name)).chain([NOBODYS]) {
            let said = member.explain(&name_of_id(name));
            let changes = inner.watched.changes(end);
            let of_name = || changes.iter().filter(move |change| change.name == name);
            let is_true = said.changes.iter().all(|told| of_name().any(|logged| is_of(told, logged)))
                && is_complete == said.remembers_from.is_some()
                && is_so(&said, of_name().next_back(), is_complete)
                && inner.has_begun_so(&said.state);
            inner.counts.add(Check::ExplainTrue, 1);
            match &said.state {
                NameState::Free(WhyFree::Ended(_)) => inner.counts.add(Check::ExplainEnded, 1),
                NameState::Free(WhyFree::NotRemembered { .. }) => inner.counts.add(Check::ExplainForgot, 1),
                _ => {}
            }
            if !is_true {
                let logged: Vec<_> = of_name().cloned().collect();
                inner
                    .fail(Check::ExplainTrue, format!("node {node} says of n{name} {said:?}, of {logged:?}"));
            }
        }
    }
}

impl Inner {
    /// Whether the registry began where it is said to have.
    fn has_begun_so(&self, state: &NameState) -> bool {
        let NameState::Free(WhyFree::Reset { position, .. }) = state else { return true };
        *position == Position(0) || self.resets.contains(position)
    }
}

/// Whether what is told is this change.
fn is_of(told: &PastChange, logged: &Logged) -> bool {
    let now = logged.now.as_ref().map(|(revision, _)| *revision);
    (told.change.position, &told.change.why) == (logged.position, &logged.why)
        && told.change.now.as_ref().map(Entry::revision) == now
}

/// Whether a name is so whose last change in the log is this one.
fn is_so(said: &Explained, last: Option<&Logged>, is_complete: bool) -> bool {
    let held = last.and_then(|last| last.now.as_ref());
    // Nothing has happened behind this position.
    let is_still = |position: Position| last.is_none_or(|last| last.position <= position);
    match &said.state {
        NameState::Unknown => !is_complete,
        NameState::Held { entry, .. } => held.is_some_and(|(revision, _)| entry.revision() == *revision),
        NameState::Free(WhyFree::Ended(told)) => held.is_none() && last.is_some_and(|last| is_of(told, last)),
        NameState::Free(WhyFree::Reset { position, .. }) => held.is_none() && is_still(*position),
        NameState::Free(WhyFree::NotRemembered { since }) => held.is_none() && is_still(*since),
        _ => false,
    }
}
