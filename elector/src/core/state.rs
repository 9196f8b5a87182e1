//! What membership events do to a registry's members and to the leader's seat.
//!
//! Takes as given that entries are applied one at a time, in the order in which they can pass the lock, and that
//! the facts were read at the same version as the state and are checked again by the commit.
//!
//! Promises: at most one leader per epoch; epoch and ballot only grow, to the next one of the lineage when the leader
//! changes and not at all otherwise (P2, P8). Does not promise that an elected member lives: its session was open, no more.
//!
//! Pure: the same state, entry and facts give the same result.

mod outcome;
mod room;

use std::collections::{BTreeMap, BTreeSet};

use callsign_store::{
    Version,
    ids::{Ballot, Epoch, NodeName, Nonce, Position, SessionId, Token},
    planted,
};
use serde::{Deserialize, Serialize};

pub use self::{
    outcome::{Change, Dropped},
    room::{MAX_MEMBERS, most_members},
};
use crate::core::{
    lineage::LineageNumber,
    policy::{self, Candidate, Decision, Election, Opening},
    record::{Accusation, Evidence, Leader, Lock, MemberRow, MembershipEvent, QueueEntry, Term},
    sessions::Sessions,
    settings::Settings,
};

/// The durable state of a registry's election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElectionState {
    /// Who leads.
    pub term: Term,
    /// The handoff in progress.
    pub lock: Option<Lock>,
    /// The members.
    pub members: BTreeMap<NodeName, MemberRow>,
    /// What is set for all of them.
    pub settings: Settings,
}

impl Default for ElectionState {
    fn default() -> Self {
        let (term, settings) = (Term::vacant(), Settings::default());
        Self { term, lock: None, members: BTreeMap::new(), settings }
    }
}

/// What was read beside the state, at the same version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The sessions of the members, and of the authors of entries.
    pub sessions: Sessions,
    /// The log's end. `None`: the registry was never opened.
    pub commit: Option<Position>,
    /// The first position that the log still has.
    pub floor: Position,
    /// The version of the read.
    pub version: Version,
    /// The lineage of the store: epochs and ballots are counted in it.
    pub lineage: LineageNumber,
    /// The session whose elector commits.
    pub proposer: SessionId,
    /// What a new lock is recognised by.
    pub nonce: Nonce,
    /// The nodes that the proposer has lost its links to. Of several that may be elected it prefers the others: who hangs keeps
    /// its session open for a while, and not its links.
    pub unlinked: BTreeSet<NodeName>,
    /// The nodes that must not lead, by certificates that the proposer knows.
    pub barred: BTreeSet<NodeName>,
    /// The most checks that a transaction of the store may have. `None`: any number.
    pub most_checks: Option<usize>,
}

impl Facts {
    /// Whether the session is open.
    pub fn is_open(&self, session: &SessionId) -> bool {
        self.sessions.is_open(session)
    }

    /// Whether the session is proven to be over.
    pub fn is_closed(&self, session: &SessionId) -> bool {
        self.sessions.is_closed(session)
    }
}

/// What became of the seat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Seat {
    /// As before.
    Kept,
    /// Nobody leads now, a new epoch began.
    Vacated,
    /// A member was elected, a new epoch began.
    Elected {
        /// The member.
        node: NodeName,
        /// How it opens the seat, if it does not hold the log's end.
        opening: Option<Opening>,
    },
}

/// A fact that the result depends on, and that the commit has to check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relied {
    /// The session record of a node.
    Session(NodeName),
    /// The log's end, or that there is none.
    Commit,
    /// Where the log begins.
    Floor,
    /// That no further member can have come: nothing was appended to the queue.
    Members,
}

/// What an entry comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Applied {
    /// What it did, or why it did nothing.
    pub outcome: Result<Change, Dropped>,
    /// What became of the seat.
    pub seat: Seat,
    /// The state afterwards. A dropped entry leaves it as it was.
    pub after: ElectionState,
    /// What has to be as it was read.
    pub relied: BTreeSet<Relied>,
    /// Whether somebody led before and does not lead on.
    pub vacates: bool,
}

impl Applied {
    /// Whether the entry may be applied while a lock is held.
    ///
    /// One that vacates the seat may: a leader that is gone cannot finish its handoff. Votes may: they touch no row
    /// but the voter's, and the vote that completes a majority vacates. Settings may: they touch no row, and a lock that
    /// stands for too long is a reason to change them. Nothing else may, and nothing is
    /// dropped: what is stale in front of the entries that wait may be right behind them.
    pub fn passes_lock(&self) -> bool {
        (self.vacates && !planted!("vacating-stuck-behind-lock"))
            || matches!(
                self.outcome,
                Ok(Change::Accused { .. } | Change::Withdrawn { .. } | Change::Configured { .. })
            )
    }
}

impl ElectionState {
    /// Whether a node may join: it is a member, or there are fewer than [`most_members`].
    pub fn has_room_for(&self, node: &NodeName, most_checks: Option<usize>) -> bool {
        self.members.len() < most_members(most_checks) || self.members.contains_key(node)
    }

    /// Says what an entry of the queue comes to. Cost: the number of members.
    pub fn apply(&self, entry: &QueueEntry, facts: &Facts) -> Applied {
        let mut transition = Transition::new(self, facts);
        match transition.apply(entry) {
            Ok(change) => {
                if planted!("term-rewritten-on-join") && matches!(change, Change::Joined { .. }) {
                    transition.after.term.ballot = transition.after.term.ballot.next();
                }
                let down = matches!(entry.event, MembershipEvent::Down { .. });
                if transition.is_time_to_hand_over(&change) {
                    transition.hand_over();
                }
                transition.settle(down.then_some(&entry.author.node));
                transition.finish(change)
            }
            Err(dropped) => Applied {
                outcome: Err(dropped),
                seat: Seat::Kept,
                after: self.clone(),
                relied: transition.relied,
                vacates: false,
            },
        }
    }

    /// Says how the proposer takes the vacant seat, if it may. No entry of the queue is needed for it.
    pub fn fill(&self, facts: &Facts) -> Option<Applied> {
        if self.term.leader.is_some() || self.lock.is_some() {
            return None;
        }
        let mut transition = Transition::new(self, facts);
        transition.settle(None);
        // A node that is no member could only fill it with another one, which may be dead.
        let elected = transition.after.term.leader.as_ref().map(|leader| &leader.node);
        (elected == Some(&facts.proposer.node)).then(|| transition.finish(Change::Filled))
    }

    /// The row of a member by the join that an entry quotes.
    pub fn member(&self, session: &SessionId, token: Token) -> Option<&MemberRow> {
        self.members.get(&session.node).filter(|row| row.token == token && row.session == *session)
    }
}

/// Says whether a member without a base may open the seat now.
///
/// The batch that does it, the `Reset`, has to check it again: the commit's absence, or all rows and the closed
/// sessions.
pub fn opening(
    members: &BTreeMap<NodeName, MemberRow>,
    sessions: &Sessions,
    commit: Option<Position>,
) -> Option<Opening> {
    match commit {
        None => Some(Opening::First),
        Some(_) => closed_holders(members, sessions).map(|_| Opening::Reset),
    }
}

/// Who may have held names that a `Reset` loses: the members with a base. It may be written only where all their sessions are
/// closed; otherwise `None`.
pub fn closed_holders<'a>(
    members: &'a BTreeMap<NodeName, MemberRow>,
    sessions: &Sessions,
) -> Option<BTreeSet<&'a NodeName>> {
    let holders = members.iter().filter(|(_, row)| !row.empty);
    let is_closed =
        |row: &MemberRow| sessions.is_closed(&row.session) || planted!("opens-empty-while-session-lives");
    holders.map(|(node, row)| is_closed(row).then_some(node)).collect()
}

/// A state on its way to the next one.
struct Transition<'a> {
    before: &'a ElectionState,
    facts: &'a Facts,
    after: ElectionState,
    relied: BTreeSet<Relied>,
    /// Whether the leader lost the seat, and who it was if it may get it back.
    vacated: bool,
    deposed: Option<NodeName>,
    opening: Option<Opening>,
}

impl<'a> Transition<'a> {
    fn new(before: &'a ElectionState, facts: &'a Facts) -> Self {
        let after = before.clone();
        let relied = BTreeSet::new();
        Self { before, facts, after, relied, vacated: false, deposed: None, opening: None }
    }

    fn apply(&mut self, entry: &QueueEntry) -> Result<Change, Dropped> {
        let author = &entry.author;
        match &entry.event {
            MembershipEvent::Join { address, admin, priority, empty } => {
                let row = MemberRow {
                    token: Token(entry.sequence.0),
                    session: author.clone(),
                    address: address.clone(),
                    admin: admin.clone(),
                    priority: *priority,
                    synced: false,
                    empty: *empty,
                    accuses: None,
                    draining: false,
                };
                self.join(row)
            }
            MembershipEvent::Down { member, token, accuser_token, epoch, evidence } => {
                let accused = self.after.members.get(member).ok_or(Dropped::UnknownMember)?;
                if accused.token != *token && !planted!("token-check-off") {
                    return Err(Dropped::StaleToken);
                }
                if !planted!("accuser-check-off") {
                    self.author_row(author, *accuser_token)?;
                }
                self.current(*epoch)?;
                match evidence {
                    Evidence::Closed => self.remove(member),
                    Evidence::Silent { had_contact } => self.accuse(author, member, *token, *had_contact),
                }
            }
            MembershipEvent::Withdraw { token, epoch } => {
                let row = self.author_row(author, *token)?;
                let accuses = row.accuses.take().ok_or(Dropped::NothingNew)?;
                if accuses.epoch != *epoch {
                    return Err(Dropped::StaleEpoch);
                }
                self.current(*epoch)?;
                Ok(Change::Withdrawn { by: author.node.clone() })
            }
            MembershipEvent::Leave { token } => {
                self.author_row(author, *token)?;
                self.after.members.remove(&author.node);
                if !planted!("leaver-keeps-seat") {
                    self.vacate_if(&author.node, *token);
                }
                Ok(Change::Left { node: author.node.clone() })
            }
            MembershipEvent::Resign { token, epoch } => {
                self.author_row(author, *token)?;
                self.current(*epoch)?;
                if !self.vacate_if(&author.node, *token) {
                    return Err(Dropped::NotLeader);
                }
                self.deposed = Some(author.node.clone());
                Ok(Change::Resigned { node: author.node.clone() })
            }
            MembershipEvent::Drain { token } => {
                let row = self.author_row(author, *token)?;
                if std::mem::replace(&mut row.draining, true) {
                    return Err(Dropped::NothingNew);
                }
                Ok(Change::Drains { node: author.node.clone() })
            }
            MembershipEvent::Configure { token, change } => {
                if !planted!("anybody-configures") {
                    self.author_row(author, *token)?;
                }
                change.check().map_err(Dropped::OutOfBounds)?;
                if self.after.settings.has(change) {
                    return Err(Dropped::NothingNew);
                }
                self.after.settings = self.after.settings.with(change);
                Ok(Change::Configured { by: author.node.clone() })
            }
            MembershipEvent::Synced { token, epoch, position } => {
                self.author_row(author, *token)?;
                self.current(*epoch)?;
                self.relied.insert(Relied::Floor);
                if position.next() < self.facts.floor && !planted!("synced-below-floor") {
                    return Err(Dropped::BehindFloor);
                }
                let row = self.author_row(author, *token)?;
                if row.synced && !row.empty {
                    return Err(Dropped::NothingNew);
                }
                (row.synced, row.empty) = (true, false);
                Ok(Change::Synced { node: author.node.clone() })
            }
        }
    }

    fn join(&mut self, mut row: MemberRow) -> Result<Change, Dropped> {
        let node = row.session.node.clone();
        // The entry of a dead incarnation must not bring back a row that nobody answers for.
        self.relied.insert(Relied::Session(node.clone()));
        if !self.facts.is_open(&row.session) && !planted!("resurrecting-join") {
            return Err(Dropped::AuthorNotOpen);
        }
        let former = self.after.members.get(&node).map(|former| former.token);
        if former.is_some_and(|former| former >= row.token) {
            return Err(Dropped::StaleToken);
        }
        if !self.after.has_room_for(&node, self.facts.most_checks) {
            return Err(Dropped::Full);
        }
        // A leader that joins again has lost what it knew: going on under the same epoch, it would hand out an
        // empty table, and batches of its former self would still pass the fence.
        if self.after.term.leader.as_ref().is_some_and(|leader| leader.node == node) {
            if planted!("restarted-leader-keeps-epoch") {
                let (incarnation, token) = (row.session.incarnation, row.token);
                self.after.term.leader = Some(Leader { node: node.clone(), incarnation, token });
            } else {
                self.vacate();
            }
        }
        if planted!("restarted-member-still-synced") {
            row.synced = self.after.members.get(&node).is_some_and(|former| former.synced);
        }
        let token = row.token;
        self.after.members.insert(node.clone(), row);
        Ok(Change::Joined { node, token })
    }

    fn remove(&mut self, node: &NodeName) -> Result<Change, Dropped> {
        self.relied.insert(Relied::Session(node.clone()));
        let row = self.after.members.get(node).ok_or(Dropped::UnknownMember)?;
        if !self.facts.is_closed(&row.session) && !planted!("token-check-off") {
            return Err(Dropped::NotClosed);
        }
        let token = row.token;
        self.after.members.remove(node);
        if !planted!("dead-leader-keeps-seat") {
            self.vacate_if(node, token);
        }
        Ok(Change::Removed { node: node.clone() })
    }

    fn accuse(
        &mut self,
        by: &SessionId,
        leader: &NodeName,
        token: Token,
        had_contact: bool,
    ) -> Result<Change, Dropped> {
        let epoch = self.after.term.epoch;
        if !self.after.term.is_led_by(leader, token) || *leader == by.node {
            return Err(Dropped::NotLeader);
        }
        let row = self.after.members.get_mut(&by.node).ok_or(Dropped::StaleAuthor)?;
        let former = row.accuses.filter(|former| former.epoch == epoch);
        if former.is_some_and(|former| former.had_contact || !had_contact) {
            return Err(Dropped::NothingNew);
        }
        row.accuses = Some(Accusation { epoch, had_contact });
        Ok(Change::Accused { by: by.node.clone() })
    }

    fn author_row(&mut self, author: &SessionId, token: Token) -> Result<&mut MemberRow, Dropped> {
        let row = self.after.members.get_mut(&author.node);
        row.filter(|row| row.token == token && row.session == *author).ok_or(Dropped::StaleAuthor)
    }

    fn current(&self, epoch: Epoch) -> Result<(), Dropped> {
        if epoch == self.after.term.epoch || planted!("entry-of-any-epoch") {
            Ok(())
        } else {
            Err(Dropped::StaleEpoch)
        }
    }

    fn vacate_if(&mut self, node: &NodeName, token: Token) -> bool {
        let leads = self.after.term.is_led_by(node, token);
        if leads {
            self.vacate();
        }
        leads
    }

    fn vacate(&mut self) {
        self.after.term.leader = None;
        self.vacated = true;
    }

    /// Unseats a leader that enough members call silent, then decides who takes a vacant seat.
    ///
    /// The votes are counted after every entry, not only after a vote: a vote stands until its epoch ends, and what
    /// it lacks may be that a dead member goes, or that a successor becomes synced.
    fn settle(&mut self, accuser: Option<&NodeName>) {
        if let Some(leader) = self.after.term.leader.clone()
            && self.votes_suffice(&leader.node)
            && let Some(successor) = self.successor_beside(&leader.node)
        {
            self.relied.insert(Relied::Session(successor));
            self.vacate();
            self.deposed = Some(leader.node);
        }
        if self.after.term.leader.is_none() {
            self.decide(accuser);
        }
        let elected = self.before.term.leader.is_none() && self.after.term.leader.is_some();
        if self.vacated || elected {
            self.begin_epoch();
        }
    }

    /// When the leader begins to drain, and when somebody becomes synced, and then only: so the seat moves once for each of
    /// these. A member that drains and was elected because the one that stays is silent is not replaced by that one.
    fn is_time_to_hand_over(&self, change: &Change) -> bool {
        match change {
            Change::Drains { node } => {
                self.after.term.leader.as_ref().is_some_and(|leader| leader.node == *node)
            }
            Change::Synced { .. } => true,
            _ => false,
        }
    }

    /// Takes the seat from a leader that is about to leave, if a member can have it that stays.
    fn hand_over(&mut self) {
        let Some(leader) = self.after.term.leader.clone() else { return };
        if !self.after.members.get(&leader.node).is_some_and(|row| row.draining) {
            return;
        }
        let candidates = self.candidates();
        let successor = candidates.iter().find(|(node, c)| **node != leader.node && c.is_willing());
        if let Some((successor, _)) = successor {
            self.relied.insert(Relied::Session(successor.clone()));
            self.vacate();
            self.deposed = Some(leader.node);
        }
    }

    fn votes_suffice(&self, leader: &NodeName) -> bool {
        let votes = || {
            let others = self.after.members.iter().filter(|(node, _)| *node != leader);
            others
                .filter_map(|(_, row)| row.accuses)
                .filter(|a| a.epoch == self.after.term.epoch || planted!("votes-outlive-epoch"))
        };
        let members = self.after.members.len();
        let others = self.after.members.keys().filter(|node| *node != leader).count();
        // Who never heard the leader may itself be the one that is cut off: then it takes more of them, so that
        // the halves of a split cannot depose each other in turns.
        2 * votes().filter(|vote| vote.had_contact || planted!("votes-without-contact-count")).count()
            > others
            || 2 * votes().count() > members
            || (planted!("one-vote-deposes") && votes().next().is_some())
    }

    fn successor_beside(&self, leader: &NodeName) -> Option<NodeName> {
        let candidates = self.candidates();
        candidates.iter().find(|(node, c)| *node != leader && c.is_eligible()).map(|(node, _)| node.clone())
    }

    fn candidates(&self) -> BTreeMap<NodeName, Candidate> {
        let candidate = |(node, row): (&NodeName, &MemberRow)| {
            let candidate = Candidate {
                synced: row.synced,
                alive: self.facts.is_open(&row.session),
                priority: if self.facts.barred.contains(node) { 0 } else { row.priority },
                draining: row.draining,
            };
            (node.clone(), candidate)
        };
        self.after.members.iter().map(candidate).collect()
    }

    fn decide(&mut self, accuser: Option<&NodeName>) {
        let decision = policy::decide(&Election {
            preset: self.after.settings.policy.unwrap_or_default(),
            candidates: &self.candidates(),
            incumbent: None,
            proposer: &self.facts.proposer.node,
            accuser,
            deposed: self.deposed.as_ref(),
            unlinked: &self.facts.unlinked,
            opening: opening(&self.after.members, &self.facts.sessions, self.facts.commit),
        });
        let Decision::Elect { node, opening } = decision else { return };
        let Some(row) = self.after.members.get(&node) else { return };
        let (incarnation, token) = (row.session.incarnation, row.token);
        self.relied.insert(Relied::Session(node.clone()));
        if let Some(opening) = opening {
            self.relied.insert(Relied::Commit);
            self.relied.insert(Relied::Members);
            // Where checks are counted, there may be none left for these. A session that is over stays over in its lineage, and
            // that is checked.
            if opening == Opening::Reset && self.facts.most_checks.is_none() {
                let closed = closed_holders(&self.after.members, &self.facts.sessions).unwrap_or_default();
                self.relied.extend(closed.into_iter().map(|node| Relied::Session(node.clone())));
            }
        }
        self.opening = opening;
        self.after.term.leader = Some(Leader { node, incarnation, token });
    }

    /// One step of the epoch, also when the seat fell vacant and was taken at once.
    fn begin_epoch(&mut self) {
        let term = &mut self.after.term;
        term.epoch = match term.leader {
            None if planted!("epoch-reset-on-vacancy") => Epoch(1),
            _ => Epoch(self.facts.lineage.after(term.epoch.0)),
        };
        term.ballot = Ballot(self.facts.lineage.after(term.ballot.0));
        term.elected_at = self.facts.version;
        self.after.lock = term.leader.as_ref().map(|leader| Lock {
            epoch: term.epoch,
            owner: leader.node.clone(),
            nonce: self.facts.nonce,
        });
    }

    fn finish(self, change: Change) -> Applied {
        let seat = match &self.after.term.leader {
            _ if self.after.term == self.before.term => Seat::Kept,
            None => Seat::Vacated,
            Some(leader) => Seat::Elected { node: leader.node.clone(), opening: self.opening },
        };
        Applied { outcome: Ok(change), seat, after: self.after, relied: self.relied, vacates: self.vacated }
    }
}

#[cfg(test)]
mod tests;
