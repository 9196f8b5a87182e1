//! One operation on an election: reads, decides by [`ElectionState::apply`], commits, and is over.
//!
//! ```text
//! read --> apply --> nothing to write ------------------------------> done
//!   ^        |                                                         ^
//!   |        '-----> commit --> committed --------------------------- -'
//!   |                   |------> conflict: read again, MAX_TRIES times
//!   '-------------------'------> unknown: read again; the same command finds its own traces
//! ```
//!
//! A value, stepped by its owner: [`Step`] says what to ask of the store, [`Input`] brings the answer. What it saw is
//! remembered only when it is over and its outcome is known. Dropped before that, it leaves nothing behind but, perhaps, a
//! transaction that lands; that one checks everything that it builds on.

use callsign_store::{
    CommitOutcome, Read, ReadResult, StoreError, Transaction, keys::ElectionKeys, planted, record::Record,
    time::Time,
};

use super::{
    error::ElectionError,
    event::{LeaseEvent, Over},
    memory::Memory,
    snapshot::{Corrupt, Snapshot},
};
use crate::core::state::{Command, Effect, ElectionState, Evidence, Refused, Who};

/// How often others may be faster before an operation gives up.
pub const MAX_TRIES: u32 = 64;

/// How often a commit may end unknown before an operation gives up.
pub const MAX_UNKNOWN: u32 = 3;

/// How many rows are read at once.
const CANDIDATES_PAGE: usize = 1000;

/// What an operation asks for, until it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Read, and bring the answer.
    Read(Vec<Read>),
    /// Commit, and bring the answer.
    Commit(Transaction),
    /// It is over.
    Done(Result<T, ElectionError>),
}

/// What an operation is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A read ended.
    Read(Result<ReadResult, StoreError>),
    /// A commit ended.
    Commit(CommitOutcome),
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What each command did, in order. A command that is refused is the last, unless it is a claim or a refresh.
    pub effects: Vec<Vec<Effect>>,
    /// The state, after them.
    pub state: ElectionState,
    /// What was known when it was decided.
    pub evidence: Evidence,
    /// Whether a former try of the same operation ended unknown. What it "found done" it may have done itself.
    pub uncertain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum OperationPhase {
    /// Nothing was read yet, or only the first rows.
    Reading(Option<Box<Snapshot>>),
    Committing(Box<Decided>),
    Over,
}

/// What is to be committed, and what it comes to then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Decided {
    snapshot: Snapshot,
    after: ElectionState,
    effects: Vec<Vec<Effect>>,
    evidence: Evidence,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    keys: ElectionKeys,
    commands: Vec<Command>,
    /// Who commands, if a member does.
    who: Option<Who>,
    /// Whether all rows are read.
    all: bool,
    phase: OperationPhase,
    /// The start of the present try.
    started: Time,
    tries: u32,
    unknown: u32,
}

impl Operation {
    /// Carries out commands, in one transaction.
    pub fn new(keys: &ElectionKeys, commands: Vec<Command>) -> Self {
        let who = commands.iter().find_map(Command::commander);
        let all =
            commands.iter().any(|command| matches!(command, Command::Evict { .. } | Command::Sweep { .. }));
        Self {
            keys: keys.clone(),
            commands,
            who,
            all,
            phase: OperationPhase::Over,
            started: Time::ZERO,
            tries: 0,
            unknown: 0,
        }
    }

    /// Only looks: at the seat, and at all candidates if asked to.
    pub fn look(keys: &ElectionKeys, all: bool) -> Self {
        Self { all, ..Self::new(keys, Vec::new()) }
    }

    /// How often it was tried in vain.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Begins.
    pub fn begin(&mut self, now: Time, memory: &mut Memory) -> Step<Box<Outcome>> {
        for command in &self.commands {
            if let Command::Claim { nonce, .. } = command {
                memory.tries(now, *nonce);
                self.all |= memory.ranks;
            }
        }
        self.read(now)
    }

    /// Goes on. `now` must not decrease, and counts as the end of what was asked for. What it did to the election is added
    /// to `events`.
    pub fn step(
        &mut self,
        now: Time,
        memory: &mut Memory,
        input: Input,
        events: &mut Vec<LeaseEvent>,
    ) -> Step<Box<Outcome>> {
        match (std::mem::replace(&mut self.phase, OperationPhase::Over), input) {
            (OperationPhase::Reading(part), Input::Read(Ok(result))) => match self.take(part, &result) {
                Ok(Taken::All(snapshot)) => self.decide(now, memory, *snapshot, events),
                Ok(Taken::More(reads)) => Step::Read(reads),
                Err((what, why)) => self.done(Err(ElectionError::Corrupt { what, why })),
            },
            (OperationPhase::Reading(_), Input::Read(Err(StoreError::Unavailable(why)))) => {
                self.unavailable(why)
            }
            (OperationPhase::Committing(decided), Input::Commit(outcome)) => match outcome {
                CommitOutcome::Committed(_) => self.committed(now, memory, *decided, events),
                CommitOutcome::Conflict => self.again(now),
                CommitOutcome::Unknown => {
                    self.unknown += 1;
                    // How many an eviction removed nobody knows any more. A sweep is made again in its time.
                    let counts = self.commands.iter().any(|c| matches!(c, Command::Evict { .. }));
                    if counts || self.sweeps() || self.unknown > MAX_UNKNOWN {
                        return self.done(Err(ElectionError::Unknown));
                    }
                    self.again(now)
                }
                CommitOutcome::Unavailable(why) => self.unavailable(why),
                CommitOutcome::TooLarge(why) => self.done(Err(ElectionError::TooLarge(why))),
            },
            // An answer to something else: whoever drives it is wrong.
            _ => self.done(Err(ElectionError::Unavailable("an answer that nobody waits for".to_owned()))),
        }
    }

    fn read(&mut self, now: Time) -> Step<Box<Outcome>> {
        self.started = now;
        self.phase = OperationPhase::Reading(None);
        let mut reads = vec![Read::Key(self.keys.seat()), Read::Key(self.keys.control())];
        reads.extend(self.who.as_ref().map(|who| Read::Key(self.keys.candidate(&who.member))));
        if self.joins() {
            reads.push(Read::Key(self.keys.count()));
        }
        if self.all {
            reads.push(Read::Range { range: self.keys.candidates(), limit: CANDIDATES_PAGE });
        }
        Step::Read(reads)
    }

    fn again(&mut self, now: Time) -> Step<Box<Outcome>> {
        self.tries += 1;
        if self.tries > MAX_TRIES {
            let tries = self.tries;
            let error =
                if self.unknown > 0 { ElectionError::Unknown } else { ElectionError::Contended { tries } };
            return self.done(Err(error));
        }
        self.read(now)
    }

    fn unavailable(&mut self, why: String) -> Step<Box<Outcome>> {
        let unknown = self.unknown > 0;
        self.done(Err(if unknown { ElectionError::Unknown } else { ElectionError::Unavailable(why) }))
    }

    fn done(&mut self, result: Result<Box<Outcome>, ElectionError>) -> Step<Box<Outcome>> {
        self.phase = OperationPhase::Over;
        Step::Done(result)
    }

    fn joins(&self) -> bool {
        self.commands.iter().any(|command| matches!(command, Command::Join(_)))
    }

    fn sweeps(&self) -> bool {
        self.commands.iter().any(|command| matches!(command, Command::Sweep { .. }))
    }

    /// Takes what a read showed: all there is to see, or what to read next.
    fn take(&mut self, part: Option<Box<Snapshot>>, result: &ReadResult) -> Result<Taken, Corrupt> {
        let own = self.who.as_ref().map(|who| &who.member);
        let (mut snapshot, rows) = if let Some(part) = part {
            (part, 0)
        } else {
            let (snapshot, rows) = Snapshot::first(result, own, self.joins(), self.all)?;
            (Box::new(snapshot), rows)
        };
        if !self.all {
            return Ok(Taken::All(snapshot));
        }
        let entries = result.entries(rows);
        snapshot.add(&self.keys, entries, own)?;
        match entries.last().filter(|_| entries.len() == CANDIDATES_PAGE) {
            None => Ok(Taken::All(snapshot)),
            Some((last, _)) => {
                let mut from = last.clone();
                from.push(0);
                let range = from..self.keys.candidates().end;
                self.phase = OperationPhase::Reading(Some(snapshot));
                Ok(Taken::More(vec![Read::Range { range, limit: CANDIDATES_PAGE }]))
            }
        }
    }

    fn decide(
        &mut self,
        now: Time,
        memory: &mut Memory,
        snapshot: Snapshot,
        events: &mut Vec<LeaseEvent>,
    ) -> Step<Box<Outcome>> {
        let ranks = snapshot.state.control.as_ref().is_some_and(|c| c.config.policy.needs_all());
        if self.commands.iter().any(|command| matches!(command, Command::Claim { .. })) {
            memory.ranks = ranks;
            if ranks && !self.all {
                self.all = true;
                return self.read(now);
            }
        }
        let evidence = memory.evidence(self.started, now, &snapshot, self.who.as_ref());
        let mut after = snapshot.state.clone();
        let mut effects = Vec::new();
        for command in &self.commands {
            let done = after.apply(&evidence, command);
            let refused = refusal(&done).cloned();
            effects.push(done);
            match refused {
                None => {}
                // Of what cannot work, nothing is carried out.
                Some(
                    refused @ (Refused::NotInitialized
                    | Refused::Disabled
                    | Refused::Exhausted
                    | Refused::Invalid(_)),
                ) => {
                    let (before, held) = (&snapshot.state, memory.held());
                    let over = Over { before, after: before, evidence: &evidence, held, changed: false };
                    events.extend(over.events(&self.commands, &effects));
                    memory.adopt(self.started, now, &snapshot);
                    return self.done(Err(refused.into()));
                }
                Some(_) => break,
            }
        }
        // A holder that sweeps must have the seat as it was read, also if its transaction lands late.
        let on_seat = self.joins() || self.sweeps();
        let transaction =
            snapshot.transaction(&self.keys, self.who.as_ref().map(|who| &who.member), on_seat, &after);
        if transaction.writes.is_empty() {
            let (before, changed) = (&snapshot.state, self.unknown > 0);
            let over = Over { before, after: &after, evidence: &evidence, held: memory.held(), changed };
            events.extend(over.events(&self.commands, &effects));
            memory.adopt(self.started, now, &snapshot);
            self.own(now, memory, &after, &effects);
            return self.finish(after, effects, evidence);
        }
        if planted!("lease-adopts-uncommitted") {
            self.own(now, memory, &after, &effects);
        }
        self.phase = OperationPhase::Committing(Box::new(Decided { snapshot, after, effects, evidence }));
        Step::Commit(transaction)
    }

    fn committed(
        &mut self,
        now: Time,
        memory: &mut Memory,
        decided: Decided,
        events: &mut Vec<LeaseEvent>,
    ) -> Step<Box<Outcome>> {
        let Decided { mut snapshot, after, effects, evidence } = decided;
        let (before, held) = (&snapshot.state, memory.held());
        let over = Over { before, after: &after, evidence: &evidence, held, changed: true };
        events.extend(over.events(&self.commands, &effects));
        if snapshot.state.seat != after.seat {
            snapshot.seat = after.seat.as_ref().map(Record::to_value);
        }
        for (member, row) in &after.candidates {
            if snapshot.state.candidates.get(member) != Some(row) {
                snapshot.rows.insert(member.clone(), row.to_value());
            }
        }
        snapshot.rows.retain(|member, _| after.candidates.contains_key(member));
        snapshot.state = after;
        memory.adopt(self.started, now, &snapshot);
        self.own(now, memory, &snapshot.state, &effects);
        self.finish(snapshot.state, effects, evidence)
    }

    /// What the member now knows of itself.
    fn own(&self, now: Time, memory: &mut Memory, after: &ElectionState, effects: &[Vec<Effect>]) {
        let Some(who) = &self.who else { return };
        if let Some(row) = after.candidates.get(&who.member).filter(|row| row.incarnation == who.incarnation)
        {
            memory.is_registered(now, who, row.seniority);
        }
        let mut won = effects.iter().flatten().filter_map(|effect| match effect {
            Effect::Elected { term, .. } | Effect::Refreshed { term, .. } => Some(term.epoch),
            _ => None,
        });
        if let Some(epoch) = won.next() {
            memory.holds(epoch, self.started);
        } else if !after.seat.as_ref().is_some_and(|s| s.is_held_by(&who.member, who.incarnation)) {
            memory.lets_go();
        }
    }

    fn finish(
        &mut self,
        state: ElectionState,
        effects: Vec<Vec<Effect>>,
        evidence: Evidence,
    ) -> Step<Box<Outcome>> {
        let uncertain = self.unknown > 0;
        self.done(Ok(Box::new(Outcome { effects, state, evidence, uncertain })))
    }
}

/// Why a command was refused, if it was.
pub(crate) fn refusal(effects: &[Effect]) -> Option<&Refused> {
    effects.iter().find_map(|effect| match effect {
        Effect::Refused(refused) => Some(refused),
        _ => None,
    })
}

enum Taken {
    All(Box<Snapshot>),
    More(Vec<Read>),
}
