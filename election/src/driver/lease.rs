//! An election on any store, by leases: no clock but each member's own, and no server but the store.
//!
//! [`LeaseOracle`] takes part in one; [`Election`] sets it up and looks at it.
//!
//! **What is stored**, below `callsign/<cluster>/election/<name>/`: `seat` (who has it, and a counter that is never
//! reset), `control` (configuration, whether it is enabled, who is asked to resign), `candidate/<member>`, and `count`
//! (the last seniority given out).
//!
//! **Leases without a clock.** The seat's record carries its lease. Whoever wants it must have seen the record
//! unchanged for all of that lease, by its own clock, from the end of the read that first showed it. A holder counts from
//! the start of the attempt that wrote it. So a holder that keeps to its lease has stopped before another may follow,
//! if their clocks run alike, whatever they show. What has to be safe also when they do not needs a sink that checks
//! the [`Fence`].
//!
//! **Events.** Whoever changes the election says so to `tracing`, target `callsign::election`: `election.joined`, `.elected`,
//! `.preempted`, `.vacated`, `.evicted` and so on, see [`LeaseEventKind`]. Counted as `callsign_election_events_total`.
//!
//! **Cost.** `claim`, `refresh`, `abdicate` and [`Election::leader`] read at most three keys and write at most two, however
//! many candidates there are: one more write once in 2^32 ballots, and when the seat's record was lost. A policy that
//! [ranks](crate::Policy::needs_all) all candidates reads all their records in each claim. Registering reads four
//! and writes two.
//!
//! **Rows.** A member that [registers by itself](LeaseOptions::register) removes its row when its campaign ends. The row of a member
//! that dies, or cannot reach the store at its end, is swept away by whoever leads: once it was silent for
//! [ten times](crate::state::SWEPT_AFTER) as long as it may, as the holder saw in one term. The holder reads all rows for that,
//! once in each term and then once in ten candidate timeouts, while no refresh is due. A candidate that comes back after that
//! registers again, behind all others.
//!
//! **Loss.** If the seat's record is lost, nobody gets a ballot that was given out before, and nobody follows until a
//! lease has passed: the old holder's writes fail at a sink that checks. A store that loses both `seat` and `control` has
//! lost the election, and what sinks have seen must be kept apart from it.

use std::time::Duration;

use callsign_store::{
    SharedStore,
    ids::{ClusterName, Epoch},
    keys::{ClusterKeys, ElectionKeys},
    logged,
};
use futures::{StreamExt, stream::BoxStream};
use tokio::sync::mpsc;

pub use crate::core::lease::{
    error::ElectionError,
    event::{LeaseEvent, LeaseEventKind},
    member,
    memory::Memory,
    operation,
    signals::Watcher,
};
use crate::{
    core::{
        lease::member::{Answer, Ask, Member},
        state::{Candidate, Who},
        term::Fence,
    },
    oracle::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Reaction, Refusal, Signal, Verdict},
};

mod admin;
mod drive;
mod options;
mod report;
mod seats;

pub use admin::{Election, Initialised, Listed, Seated};
use drive::{drive, watch};
pub use options::{LeaseOptions, Mismatch};
pub use seats::{ElectionSeat, seats};

/// Takes part in an election on a store.
#[derive(Debug)]
pub struct LeaseOracle {
    store: SharedStore,
    cluster: ClusterName,
    options: LeaseOptions,
    part: Option<Part>,
    mismatch: Option<Mismatch>,
    requests: mpsc::UnboundedSender<Signal>,
    requested: Option<mpsc::UnboundedReceiver<Signal>>,
}

/// What begins with `init`.
#[derive(Debug)]
struct Part {
    keys: ElectionKeys,
    me: Who,
    member: Member,
    /// The epoch of the last request to resign that was passed on.
    told: Option<Epoch>,
}

impl LeaseOracle {
    /// A member's part in an election of the cluster. Which election, and who takes part, the campaign says.
    pub fn new(store: SharedStore, cluster: &ClusterName, options: LeaseOptions) -> Self {
        let (requests, requested) = mpsc::unbounded_channel();
        let cluster = cluster.clone();
        Self { store, cluster, options, part: None, mismatch: None, requests, requested: Some(requested) }
    }

    /// How the configuration that it was started with differs from the one that holds. Known after `init`.
    pub fn mismatch(&self) -> Option<&Mismatch> {
        self.mismatch.as_ref()
    }

    /// Says that it lives, and refreshes its term or claims the seat, in one transaction.
    pub async fn run_cycle(&mut self, attempt: Attempt) -> Result<Verdict<Fence>, Fault> {
        self.verdict(Ask::Cycle(attempt.nonce)).await
    }

    fn is_mine(&self, held: &Grant<Fence>) -> bool {
        let who = Who { member: held.term.leader.clone(), incarnation: held.term.incarnation };
        self.part.as_ref().is_some_and(|part| part.me == who)
    }

    async fn ask(&mut self, ask: Ask) -> Result<Answer, ElectionError> {
        let Some(part) = &mut self.part else {
            return Err(ElectionError::Unavailable("`init` was not called".to_owned()));
        };
        let answer = drive(&self.store, &self.options.clock, &part.keys, &mut part.member, ask).await;
        let asked = part.member.asked_to_resign();
        if let Some(epoch) = asked.filter(|_| part.told != asked) {
            part.told = asked;
            // Nobody listens any more: nobody is to be asked.
            let _ = self.requests.send(Signal::ResignRequested { epoch: Some(epoch) });
        }
        answer
    }

    async fn verdict(&mut self, ask: Ask) -> Result<Verdict<Fence>, Fault> {
        match self.ask(ask).await? {
            Answer::Verdict(verdict) => Ok(verdict),
            _ => unreachable!("claims and refreshes are answered by verdicts"),
        }
    }
}

impl Oracle for LeaseOracle {
    type Fence = Fence;
    /// The member's new priority, written with its next attempt. 0 may mean that it will not lead.
    type Info = u32;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        let keys = ClusterKeys::new(&self.cluster).election(&context.election);
        let me = Candidate {
            member: context.member.clone(),
            incarnation: context.incarnation,
            priority: self.options.priority,
            tags: self.options.tags.clone(),
        };
        let who = Who { member: me.member.clone(), incarnation: me.incarnation };
        // Called again after a store was down, it goes on with what it knows.
        if self.part.as_ref().is_none_or(|part| part.keys != keys || part.me != who) {
            let member = Member::new(keys.clone(), me, self.options.register);
            self.part = Some(Part { keys, me: who, member, told: None });
        }
        let config = self.options.config.clone();
        match self.ask(Ask::Prepare(config.clone())).await {
            Ok(Answer::Ready(durable)) => {
                let both = config.zip(durable).filter(|(ours, durable)| ours != durable);
                self.mismatch = both.map(|(ours, durable)| Mismatch { ours, durable });
                if let Some(mismatch) = &self.mismatch {
                    logged!(warn, election = %context.election, member = %context.member,
                        "the election is configured otherwise, and what is stored decides: {mismatch}");
                }
                Ok(Init::Ready)
            }
            // It is initialised when it is.
            Ok(_) | Err(ElectionError::NotInitialized) => Ok(Init::Ready),
            Err(error) => Err(error.into()),
        }
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<Fence>, Fault> {
        self.verdict(Ask::Claim(attempt.nonce)).await
    }

    async fn refresh(&mut self, _: Attempt, held: &Grant<Fence>) -> Result<Verdict<Fence>, Fault> {
        if !self.is_mine(held) {
            return Ok(Verdict::Denied(Denial { why: Refusal::TermOver, leader: None, retry_in: None }));
        }
        self.verdict(Ask::refresh(held)).await
    }

    async fn abdicate(&mut self, held: &Grant<Fence>) -> Result<bool, Fault> {
        if !self.is_mine(held) {
            return Ok(false);
        }
        match self.ask(Ask::Resign(held.term.epoch)).await? {
            Answer::Resigned(was) => Ok(was),
            _ => unreachable!("a resignation is answered as one"),
        }
    }

    /// Gives the seat back, and removes its row, in one transaction. Also if it is not known whether it registered.
    async fn leave(&mut self, held: Option<&Grant<Fence>>) -> Result<bool, Fault> {
        if self.part.is_none() {
            return Ok(false);
        }
        let held = held.filter(|held| self.is_mine(held)).map(|held| held.term.epoch);
        match self.ask(Ask::Leave(held)).await? {
            Answer::Resigned(was) => Ok(was),
            _ => unreachable!("who leaves is answered as after a resignation"),
        }
    }

    /// Removes the rows of candidates that were silent for ten times as long as they may, a bounded number at a time.
    async fn tidy(&mut self) -> Result<Option<Duration>, Fault> {
        match self.ask(Ask::Tidy).await? {
            Answer::Tidied(again) => Ok(again),
            _ => unreachable!("who tidies up is told when to do so again"),
        }
    }

    async fn rivals(&mut self) -> Result<bool, Fault> {
        match self.ask(Ask::Rivals).await? {
            Answer::Rivals(rivals) => Ok(rivals),
            _ => unreachable!("who looks for rivals is told of them"),
        }
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        let Some(requested) = self.requested.take() else { return futures::stream::pending().boxed() };
        let requested = futures::stream::unfold(requested, |mut requested| async {
            requested.recv().await.map(|signal| (signal, requested))
        });
        let requested = requested.chain(futures::stream::pending());
        match &self.part {
            Some(part) if self.options.watch => {
                let watcher = Watcher::new(part.me.clone());
                let (store, clock, keys) =
                    (self.store.clone(), self.options.clock.clone(), part.keys.clone());
                let seen = watch(store, clock, keys, watcher, part.member.identity());
                futures::stream::select(requested, seen).boxed()
            }
            _ => requested.boxed(),
        }
    }

    async fn handle_info(&mut self, priority: u32) -> Reaction<Fence> {
        match &mut self.part {
            Some(part) => {
                part.member.set_priority(priority);
                Reaction::Poll
            }
            None => Reaction::Ignore,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
