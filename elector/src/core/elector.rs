//! One member's part in membership, and in who leads.
//!
//! An [`Elector`] turns what its node sees of itself, of the others and of the store into transactions: it enqueues
//! what it has to say, consumes the queue, fills a vacant seat, and sees to the lock of a handoff. It decides nothing
//! alone: what an entry comes to is said by [`ElectionState::apply`](crate::core::state::ElectionState::apply), and holds
//! if the store commits it.
//!
//! Takes as given: what the [`store`](callsign_store) promises, and that a session is trusted by its own node only
//! while it is open. Not given: that a commit is answered, that a watch ends, that a silent node is dead, that clocks
//! agree.
//!
//! Promises: every entry of the queue is applied or dropped exactly once, in the order of the queue, except that votes
//! and what vacates the seat pass a lock; and after any crash some other elector goes on within the times of
//! [`ElectorTiming`] (P8). Does not promise that the leader has heard that it was deposed.
//!
//! ```text
//! members' electors --append--> queue --consume, one at a time--> member rows, term + lock
//!                                                                        |
//!          the elected one's elector sees term and lock: RunHandoff -> member runs the handoff -> HandoffDone -> lock cleared
//! ```

mod act;
mod barred;
mod delta;
mod handoff;
mod heard;
mod lineage;
mod plan;
mod reading;
mod resting;
mod said;
mod silence;
mod sweeper;
mod taking_in;
pub(crate) mod timing;
mod types;
mod view;
mod wanted;
mod watching;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use callsign_store::{
    CommitOutcome, Key, Time,
    ids::{Epoch, NodeName, Position, Sequence, SessionId, Token},
    keys::{ClusterKeys, RegistryKeys},
    planted,
    random::SplitMix64,
};

use self::{
    act::Action,
    barred::Barred,
    handoff::{Answer, Handoff},
    lineage::Known,
    reading::Reading,
    resting::Rest,
    silence::Silence,
    wanted::Wanted,
    watching::Watched,
};
pub use self::{
    delta::{RowDelta, ViewDelta},
    timing::ElectorTiming,
    types::{Effect, ElectorConfig, ElectorEvent, Input, Notice, OpId},
    view::View,
};
use crate::core::{past::Past, record::MembershipEvent, settings::Settings, sweep::Walk};

/// How many entries of the queue are read at a time, while the first can be applied.
const QUEUE_LIMIT: usize = 64;
/// How many are read at most when a lock is held and none of the first can pass it.
const QUEUE_LIMIT_LOCKED: usize = 4096;

/// What an input has just shown of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    Nothing,
    /// What a glance shows.
    Glance,
    All,
}

impl Fresh {
    /// Whether that is enough to do it. A vote relies on nothing but what a glance shows.
    fn is_enough_for(self, action: &Action) -> bool {
        match self {
            Self::Nothing => false,
            Self::Glance => action.is_vote(),
            Self::All => true,
        }
    }
}

/// What the node wants of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wish {
    /// To be a member. Left by `Leave`.
    Member,
    /// To have left. Left once the row is gone.
    Leaving,
    /// To stay out. Left by `Rejoin`.
    Gone,
}

/// Whether the node is about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Leaving {
    No,
    /// The others are to be told.
    ToSay,
    /// That was appended for the latest join. An elector of a version that does not know what it means drops it.
    Said,
}

/// The one operation of the store that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Read,
    /// A look at the records that change whenever anything else does.
    Glance,
    /// A page of authors, to see which are of no use.
    SweepPage,
    /// What the store has of authors that may be swept.
    SweepLook(Vec<NodeName>),
    /// They are swept.
    Sweep {
        /// Whether more of the page are to go.
        is_part: bool,
    },
    Commit {
        /// What to report when it is known to be committed.
        report: Vec<ElectorEvent>,
        /// The sequence number of the join that it appends, if it does.
        join: Option<Sequence>,
        /// Whether it appends that the leader is silent.
        is_vote: bool,
        /// Whether it appends that the member drains.
        drain: bool,
        /// What it appends that is to be set.
        configure: Option<Settings>,
        /// What is known when it is committed.
        commits: Past,
    },
}

/// The elector of one node for one registry. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Elector {
    config: ElectorConfig,
    keys: RegistryKeys,
    /// The own key there as an author.
    author: Key,
    seed: SplitMix64,
    known: Known,
    /// The greatest number of an own entry that is known to have been appended.
    used: Sequence,

    session: Option<SessionId>,
    /// The session, or the one before trust in it lapsed.
    last_session: Option<SessionId>,
    wish: Wish,
    empty: bool,
    /// The latest join of this elector in this session. An older row is of a member that is no more.
    joined: Option<Token>,
    /// A join of which it is unknown whether it was appended.
    unsettled: Option<Sequence>,
    synced: Option<(Epoch, Position)>,
    resign: Option<Epoch>,
    /// What is to be set for all, and was not said yet.
    configure: Option<Settings>,
    leaving: Leaving,
    /// The last epoch in which this member led.
    led: Option<Epoch>,
    barred: Barred,
    silence: Silence,
    handoff: Handoff,
    walk: Walk,

    reading: Option<Reading>,
    queue_limit: usize,
    wanted: Wanted,
    rest: Rest,
    watched: Option<Watched>,
    doing: Option<(OpId, Doing)>,
    next_op: OpId,
    /// Whether to read as soon as possible.
    stale: bool,
    poll_at: Time,
    /// How many reads in a row have shown own entries in the queue.
    own_looks: u32,
    retry_at: Time,
    /// How many reads, and how many commits, have failed in a row.
    read_failures: u32,
    commit_failures: u32,
    /// Whether this elector took the last entry off the queue, before anybody else did: then it goes on with the next.
    draining: bool,
    /// When each thing that could be done is due. It keeps its turn while it remains to be done.
    turns: Vec<(Action, Time)>,
    wake_at: Option<Time>,
    view: Option<Arc<View>>,
    reported: BTreeSet<(Key, String)>,
}

impl Elector {
    /// An elector that wants its node to be a member without a base, and waits for the node's session.
    pub fn new(config: ElectorConfig) -> Self {
        let keys = ClusterKeys::new(&config.cluster).registry(&config.registry);
        let timing = config.timing;
        Self {
            seed: SplitMix64::for_node(config.seed, &config.node),
            silence: Silence::of(&timing),
            wanted: Wanted::new(&config.node),
            author: keys.author(&config.node),
            known: Known::default(),
            used: Sequence(0),
            config,
            keys,
            session: None,
            last_session: None,
            wish: Wish::Member,
            empty: true,
            joined: None,
            unsettled: None,
            synced: None,
            resign: None,
            configure: None,
            leaving: Leaving::No,
            led: None,
            barred: Barred::default(),
            handoff: Handoff::default(),
            walk: Walk::default(),
            reading: None,
            queue_limit: QUEUE_LIMIT,
            rest: Rest::default(),
            watched: None,
            doing: None,
            next_op: OpId(0),
            stale: true,
            poll_at: Time::ZERO,
            own_looks: 0,
            retry_at: Time::ZERO,
            read_failures: 0,
            commit_failures: 0,
            draining: false,
            turns: Vec::new(),
            wake_at: None,
            view: None,
            reported: BTreeSet::new(),
        }
    }

    /// Takes one input and appends what to do about it.
    ///
    /// Deterministic: the same elector, time and input give the same effects.
    pub fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        self.silence.pass(now);
        let mut fresh = Fresh::Nothing;
        match input {
            Input::Wake => self.wake_at = None,
            Input::Notice(Notice::LeaderContact { epoch }) if self.hears_nothing_new(now, epoch) => {
                self.silence.contact(now, epoch);
                return;
            }
            Input::Notice(notice @ (Notice::Applied { .. } | Notice::Contradicted { .. })) => {
                self.on_known(notice, effects);
            }
            Input::Notice(notice) => self.on_notice(now, notice),
            Input::ReadDone { id, result } => match self.doing.take() {
                Some((doing, Doing::Read)) if doing == id => {
                    if self.on_read(now, result, effects) {
                        fresh = Fresh::All;
                    }
                }
                Some((doing, Doing::Glance)) if doing == id => {
                    if self.on_glance(now, result, effects) {
                        fresh = Fresh::Glance;
                    }
                }
                Some((doing, Doing::SweepPage)) if doing == id => match result {
                    Ok(read) => self.on_sweep_page(now, &read, effects),
                    Err(_) => self.walk.put_off(now, self.config.timing.sweep_after),
                },
                Some((doing, Doing::SweepLook(nodes))) if doing == id => {
                    // Without an answer they wait for a later walk.
                    if let Ok(read) = result {
                        self.on_sweep_look(&nodes, &read, effects);
                    }
                }
                other => self.doing = other,
            },
            Input::CommitDone { id, outcome } => match self.doing.take() {
                Some((doing, Doing::Commit { report, join, is_vote, drain, configure, commits }))
                    if doing == id =>
                {
                    if matches!(outcome, CommitOutcome::Committed(_)) {
                        self.used = self.used.max(commits.sequence(&self.author).unwrap_or_default());
                        self.known.past().merge(commits);
                        if drain {
                            self.leaving = Leaving::Said;
                        }
                    }
                    // Not again: another member may want it otherwise.
                    if configure == self.configure && matches!(outcome, CommitOutcome::Committed(_)) {
                        self.configure = None;
                    }
                    if is_vote && self.may_glance(now) {
                        self.poll_at = now;
                    } else {
                        self.stale = true;
                    }
                    self.on_commit(now, outcome, report, join, effects);
                }
                Some((doing, Doing::Sweep { is_part })) if doing == id => match outcome {
                    CommitOutcome::Committed(_) if is_part => {
                        self.walk.go_on(now, self.config.timing.sweep_after);
                    }
                    CommitOutcome::Committed(_) => {}
                    // One record of many has changed, say.
                    _ => self.walk.again(now, self.config.timing.sweep_after),
                },
                other => self.doing = other,
            },
        }
        self.proceed(now, fresh, effects);
    }

    /// What the elector last saw. `None` before the first read.
    pub fn view(&self) -> Option<&Arc<View>> {
        self.view.as_ref()
    }

    fn on_notice(&mut self, now: Time, notice: Notice) {
        // Whether that is said already, only the queue shows.
        let wants = matches!(notice, Notice::Leave | Notice::Drain | Notice::Configure(_));
        self.stale |= wants && self.reading.as_ref().is_some_and(|reading| reading.untold.is_some());
        match notice {
            Notice::Session(session) => {
                if session.is_some() && session != self.last_session {
                    // The row of the former session is its, not ours; its votes and its seat go with it. A session
                    // that only lapsed for a while goes on with what it had.
                    self.forget_join();
                    self.last_session.clone_from(&session);
                }
                if session != self.session {
                    self.session = session;
                    self.turns.clear();
                    self.stale = true;
                }
            }
            Notice::Changed => self.look(now),
            Notice::WatchFailed => self.watched = None,
            Notice::LeaderContact { epoch } => self.stale |= self.silence.contact(now, epoch),
            Notice::LinkDown { node } => {
                self.silence.link(node, false);
                self.forget_barred();
            }
            Notice::LinkUp { node, may_lead } => {
                self.barred.other(&node, may_lead);
                self.silence.link(node, true);
            }
            Notice::MayLead(may_lead) => {
                // The row says whether it may: another join says it otherwise, and gives up the seat.
                if self.barred.own(may_lead) && !planted!("bar-not-said-anew") {
                    self.forget_join();
                }
            }
            Notice::Synced { epoch, position } => self.synced = Some((epoch, position)),
            Notice::HandoffDone { epoch } => self.handoff.answered(epoch, Answer::Done),
            Notice::HandoffFailed { epoch } => self.handoff.answered(epoch, Answer::Failed),
            Notice::Rejoin { empty } => {
                self.wish = Wish::Member;
                self.empty = empty;
                self.forget_join();
            }
            Notice::Leave => {
                if self.wish == Wish::Member {
                    self.wish = Wish::Leaving;
                }
            }
            Notice::Drain => {
                if self.leaving == Leaving::No {
                    self.leaving = Leaving::ToSay;
                }
            }
            Notice::Concerned { nodes } => {
                self.stale |= self.wanted.name(nodes);
            }
            Notice::Rests(rests) => self.stale |= self.rest.turn_to(rests),
            Notice::Delta(delta) => self.take_delta(now, delta),
            Notice::Configure(change) => {
                self.configure = Some(self.configure.unwrap_or_default().with(&change));
            }
            Notice::Resign { epoch } => self.resign = Some(epoch),
            Notice::Lineage { lineage, since } => self.begin_lineage(lineage, since),
            Notice::Applied { .. } | Notice::Contradicted { .. } => {}
        }
    }

    /// From now on no row is our own but that of a join yet to be enqueued.
    fn forget_join(&mut self) {
        (self.joined, self.unsettled, self.synced, self.resign) = (None, None, None, None);
        if self.leaving == Leaving::Said && !planted!("drain-said-once") {
            self.leaving = Leaving::ToSay;
        }
        if let Some((_, Doing::Commit { join, drain, .. })) = &mut self.doing {
            (*join, *drain) = (None, false);
        }
    }

    fn on_commit(
        &mut self,
        now: Time,
        outcome: CommitOutcome,
        report: Vec<ElectorEvent>,
        join: Option<Sequence>,
        effects: &mut Vec<Effect>,
    ) {
        let took_entry = report.iter().any(ElectorEvent::is_about_entry);
        self.draining = took_entry && matches!(outcome, CommitOutcome::Committed(_));
        match outcome {
            CommitOutcome::Committed(_) => {
                self.commit_failures = 0;
                if let Some(sequence) = join {
                    self.joined = Some(Token(sequence.0));
                }
                effects.extend(report.into_iter().map(Effect::Emit));
                return;
            }
            CommitOutcome::Conflict => {}
            CommitOutcome::Unknown => self.unsettled = join.or(self.unsettled),
            CommitOutcome::Unavailable(reason) => {
                if self.commit_failures == 0 {
                    effects.push(Effect::Emit(ElectorEvent::Unavailable { reason }));
                }
            }
            CommitOutcome::TooLarge(limit) => {
                effects.push(Effect::Emit(ElectorEvent::TooLarge(limit)));
                self.retry_at = now + self.config.timing.poll;
                return;
            }
        }
        // The first failure is the ordinary race for an entry; more of them want spreading.
        self.back_off(now, self.commit_failures);
        self.commit_failures += 1;
    }

    fn back_off(&mut self, now: Time, failures: u32) {
        let most = (Duration::from_millis(10) * failures.min(100)).min(self.config.timing.poll);
        self.retry_at = now + most / 2 + self.seed.below(most / 2);
    }

    /// Goes on with whatever is next: at most one operation of the store at a time.
    fn proceed(&mut self, now: Time, fresh: Fresh, effects: &mut Vec<Effect>) {
        if self.doing.is_some() {
            return;
        }
        if now < self.retry_at {
            return self.wake(self.retry_at, effects);
        }
        self.ask_for_handoff(now, effects);
        // What was just read is acted on first, though it may be stale already: else, in a busy store, nothing is done.
        let is_fresh = fresh != Fresh::Nothing;
        if !is_fresh && !self.stale && now >= self.poll_at && self.may_glance(now) {
            return self.glance(now, effects);
        }
        if !is_fresh && (self.stale || now >= self.poll_at) {
            return self.read(effects);
        }
        self.update_turns(now);
        while let Some((action, _)) = self.turns.iter().find(|(_, due)| *due <= now).cloned() {
            // What was read a while ago is soon changed by a beat: look again, then act at once.
            if !fresh.is_enough_for(&action) {
                let is_seen_by_glance = !is_fresh && action.is_vote() && self.may_glance(now);
                return if is_seen_by_glance { self.glance(now, effects) } else { self.read(effects) };
            }
            if self.perform(&action, effects) {
                return;
            }
        }
        if self.stale {
            return self.read(effects);
        }
        if self.sweep(now, effects) {
            return;
        }
        let turn = self.turns.iter().map(|(_, due)| *due).min();
        let silence = self.silence_due().filter(|due| *due > now);
        let wake = [turn, silence, self.retry_handoff_at(now), self.sweep_due()].into_iter().flatten().min();
        self.wake(wake.map_or(self.poll_at, |at| at.min(self.poll_at)), effects);
    }

    fn read(&mut self, effects: &mut Vec<Effect>) {
        self.stale = false;
        self.known.ask();
        let id = self.begin(Doing::Read);
        let nodes = self.wanted.nodes();
        let reads = reading::reads(&self.keys, &self.config.node, self.queue_limit, nodes);
        effects.push(Effect::Read { id, reads });
    }

    fn begin(&mut self, doing: Doing) -> OpId {
        let id = self.next_op;
        self.next_op = OpId(id.0 + 1);
        self.doing = Some((id, doing));
        id
    }

    fn wake(&mut self, at: Time, effects: &mut Vec<Effect>) {
        if self.wake_at != Some(at) {
            self.wake_at = Some(at);
            effects.push(Effect::WakeAt(at));
        }
    }

    fn is_equal_queued(&self, event: &MembershipEvent) -> bool {
        let (Some(reading), Some(session)) = (&self.reading, &self.session) else { return true };
        // None of its own waited then. Whatever it has appended since may wait.
        if let Some(told) = reading.untold {
            return reading.author != told.author;
        }
        // What is behind the part that was read may be equal too.
        reading.queue_is_longer || reading.queued_by(session).any(|entry| entry.event == *event)
    }
}

#[cfg(test)]
mod tests;
