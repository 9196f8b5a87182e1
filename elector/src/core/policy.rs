//! Who takes a vacant seat.
//!
//! The incumbent stays while it is a member, whoever joins and whoever commits. By the preset `sticky` a vacant
//! seat goes to a member that holds the log's end and proves that it lives; electing one that may be dead costs a
//! lock timeout, leaving the seat vacant for a moment costs milliseconds. By the preset `ranked` it goes to the one of the
//! greatest priority, at that cost.
//!
//! Pure: the same election gives the same decision, on every node.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use callsign_store::{ids::NodeName, planted};
use serde::{Deserialize, Serialize};

use crate::core::settings::Preset;

/// What an election looks at in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Whether its replica holds the log's end.
    pub synced: bool,
    /// Whether the session that joined is open, as read in the same transaction.
    pub alive: bool,
    /// 0 is ineligible. Only `ranked` ranks by it.
    pub priority: u32,
    /// Whether it is about to leave. It is elected only if nobody else is eligible.
    pub draining: bool,
}

impl Candidate {
    /// Whether it may take a seat that others may claim too.
    pub fn is_eligible(self) -> bool {
        let synced = self.synced || planted!("unsynced-elected");
        let alive = self.alive || planted!("dead-elected");
        synced && alive && self.priority != 0
    }

    /// Whether it may take a seat, and stays.
    pub fn is_willing(self) -> bool {
        self.is_eligible() && (!self.draining || planted!("drainer-takes-seat"))
    }
}

/// Why a leader may be elected although it does not hold the log's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Opening {
    /// The registry was never opened: there is no log.
    First,
    /// Every member's session is closed, or it says that it has no base: nobody has what the log's tail builds on.
    Reset,
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Election<'a> {
    /// How it is decided.
    pub preset: Preset,
    /// All members.
    pub candidates: &'a BTreeMap<NodeName, Candidate>,
    /// Who leads, unless the seat was vacated.
    pub incumbent: Option<&'a NodeName>,
    /// The node whose elector commits this.
    pub proposer: &'a NodeName,
    /// The author of the accusation that vacated the seat.
    pub accuser: Option<&'a NodeName>,
    /// Who was deposed or resigned just now. It is elected only if nobody else is eligible.
    pub deposed: Option<&'a NodeName>,
    /// Whom the proposer has lost its links to. Elected only if nobody else may be, unless it proposes itself.
    pub unlinked: &'a BTreeSet<NodeName>,
    /// Whether an unsynced member may open the seat.
    pub opening: Option<Opening>,
}

/// What becomes of the seat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The incumbent stays.
    Keep,
    /// A member takes it.
    Elect {
        /// The member.
        node: NodeName,
        /// Set if it does not hold the log's end: how it opens the seat then.
        opening: Option<Opening>,
    },
    /// Nobody has it. A live eligible member takes it by itself.
    Vacant,
}

/// Decides.
pub fn decide(election: &Election<'_>) -> Decision {
    let Election { preset, candidates, incumbent, proposer, accuser, deposed, unlinked, opening } = *election;
    if incumbent.is_some_and(|node| candidates.contains_key(node)) {
        return Decision::Keep;
    }
    let is_eligible = |node: &NodeName| candidates.get(node).is_some_and(|c| c.is_eligible());
    let another = candidates.keys().any(|node| Some(node) != deposed && is_eligible(node));
    let another_stays = candidates.iter().any(|(node, c)| Some(node) != deposed && c.is_willing());
    let may_lead = |node: &NodeName| {
        is_eligible(node)
            && !(another && Some(node) == deposed && !planted!("deposed-takes-seat-back"))
            && !(another_stays && candidates.get(node).is_some_and(|c| !c.is_willing()))
    };
    let elect = |node: &NodeName| Decision::Elect { node: node.clone(), opening: None };

    if preset == Preset::Ranked && !planted!("rank-ignored") {
        let ranked = candidates.iter().filter(|(node, _)| may_lead(node));
        if let Some((best, _)) = ranked.min_by_key(|(node, candidate)| (Reverse(candidate.priority), *node)) {
            return elect(best);
        }
    }
    if let Some(accuser) = accuser.filter(|node| may_lead(node)) {
        return elect(accuser);
    }
    if may_lead(proposer) {
        return elect(proposer);
    }
    match candidates.get(proposer) {
        Some(candidate) if !is_eligible(proposer) => match opening {
            Some(_) if candidate.alive && candidate.priority != 0 && !candidates.keys().any(is_eligible) => {
                Decision::Elect { node: proposer.clone(), opening }
            }
            // That others are eligible was read, not heard from them; they take the seat themselves.
            _ => Decision::Vacant,
        },
        // Not a member, or the one that gives up the seat: somebody else, whom it can reach if there is one.
        _ => {
            let mut others: Vec<_> = candidates.keys().filter(|node| may_lead(node)).collect();
            others.sort_by_key(|node| unlinked.contains(*node));
            others.first().map_or(Decision::Vacant, |node| elect(node))
        }
    }
}

#[cfg(test)]
mod tests;
