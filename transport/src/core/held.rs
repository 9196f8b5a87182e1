//! The references that this node holds to actors of a peer, over one link.
//!
//! A reference is asked for once, and ends when the peer says that its actor has ended, when a message was not delivered
//! because the actor is not there, and with the link. What it *is* the driver knows (`R`).
//!
//! Takes as given: an ordered link, of which this is one end. Not given: that the peer answers what it was asked, or says
//! nothing else: what nobody asked for ends nothing.
//!
//! Promises: a reference ends at most once; one whose actor is known to have ended is not made again; memory is bounded by
//! `limit` references, and [`REMEMBERED`] ends.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::RangeInclusive,
};

use callsign_store::planted;

use crate::core::ends::End;

/// How many ends are remembered. A reference to an actor that ended before is made, asked for, and ended.
pub const REMEMBERED: usize = 4096;

/// Below so many references they are never looked through.
const LEAST_SWEPT: usize = 1024;

/// Why there is no reference to an actor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NoReference {
    /// It has ended.
    Ended(End),
    /// There are as many as may be.
    TooMany { limit: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ReferencePhase {
    ToAsk,
    Asked,
    /// The peer says that the actor lives, and will say when it ends.
    Watched,
}

/// The references over one link, by actor and kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held<R> {
    limit: usize,
    references: BTreeMap<(u64, u64), (ReferencePhase, R)>,
    /// The references are looked through once there are so many.
    sweeps_at: usize,
    to_ask: VecDeque<(u64, u64)>,
    ended: BTreeMap<u64, End>,
    /// The same actors, in the order in which they ended.
    in_order: VecDeque<u64>,
}

impl<R: Clone> Held<R> {
    /// There may be so many references at once.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            references: BTreeMap::new(),
            sweeps_at: LEAST_SWEPT.min(limit),
            to_ask: VecDeque::new(),
            ended: BTreeMap::new(),
            in_order: VecDeque::new(),
        }
    }

    /// The reference to an actor that there is. `Ok(None)`: one may be made.
    pub fn find(
        &mut self,
        actor: u64,
        kind: u64,
        is_alive: impl Fn(&R) -> bool,
    ) -> Result<Option<R>, NoReference> {
        if let Some(end) = self.ended.get(&actor) {
            return Err(NoReference::Ended(end.clone()));
        }
        let key = (actor, kind);
        // Whoever has a reference may end it, which nobody says here.
        if let Some((_, reference)) = self.references.get(&key)
            && is_alive(reference)
        {
            return Ok(Some(reference.clone()));
        }
        if self.references.len() >= self.sweeps_at {
            self.references.retain(|_, (_, reference)| is_alive(reference));
            self.sweeps_at = (self.references.len() * 2).max(LEAST_SWEPT).min(self.limit);
        }
        if self.references.len() >= self.limit && !planted!("references-without-bound") {
            return Err(NoReference::TooMany { limit: self.limit });
        }
        Ok(None)
    }

    /// A reference was made. The peer is asked, when there is room for that.
    pub fn add(&mut self, actor: u64, kind: u64, reference: R) {
        self.references.insert((actor, kind), (ReferencePhase::ToAsk, reference));
        if !planted!("end-not-asked-for") {
            self.to_ask.push_back((actor, kind));
        }
    }

    /// Whom to ask for next, by actor and kind.
    pub fn take_next(&mut self) -> Option<(u64, u64)> {
        loop {
            let key = self.to_ask.pop_front()?;
            // It may be gone again, or stand here twice.
            if let Some((phase @ ReferencePhase::ToAsk, _)) = self.references.get_mut(&key) {
                *phase = ReferencePhase::Asked;
                return Some(key);
            }
        }
    }

    /// The peer will say when the actor ends: which reference that concerns.
    pub fn watched(&mut self, actor: u64, kind: u64) -> Option<&R> {
        let (phase, reference) = self.references.get_mut(&(actor, kind))?;
        *phase = ReferencePhase::Watched;
        Some(reference)
    }

    /// The peer says that an actor has ended, or that nobody will say when it does: the references that end with that.
    pub fn ended(&mut self, actor: u64, kind: u64, end: &End) -> Vec<R> {
        let is_final = end.is_final() || planted!("refusal-taken-for-an-end");
        // What is said of an actor that nobody here asked for is not remembered: it would push out what was.
        let concerns = self.references.range(all_kinds(actor)).next().is_some();
        if is_final && concerns && !planted!("end-not-remembered") {
            self.remember(actor, end.clone());
        }
        if !is_final {
            return self
                .references
                .remove(&(actor, kind))
                .map(|(_, reference)| reference)
                .into_iter()
                .collect();
        }
        let kinds: Vec<_> = self.references.range(all_kinds(actor)).map(|(key, _)| *key).collect();
        let remove = |key: &(u64, u64)| {
            if planted!("ends-again-with-its-link") {
                return self.references.get(key).cloned();
            }
            self.references.remove(key)
        };
        kinds.iter().filter_map(remove).map(|(_, reference)| reference).collect()
    }

    /// The link is down: all references end.
    pub fn take_all(&mut self) -> impl Iterator<Item = R> + use<R> {
        let all = std::mem::take(&mut self.references);
        all.into_values().map(|(_, reference)| reference).filter(|_| !planted!("references-outlive-link"))
    }

    /// How many references there are, of which some may have been ended here.
    pub fn count(&self) -> usize {
        self.references.len()
    }

    fn remember(&mut self, actor: u64, end: End) {
        if self.ended.insert(actor, end).is_some() {
            return;
        }
        self.in_order.push_back(actor);
        if self.in_order.len() > REMEMBERED
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}

fn all_kinds(actor: u64) -> RangeInclusive<(u64, u64)> {
    (actor, 0)..=(actor, u64::MAX)
}

#[cfg(test)]
mod tests;
