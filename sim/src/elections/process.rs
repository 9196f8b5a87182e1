//! One process: a campaign, its part in the election, its role, its handle, its subscribers.

use std::collections::{BTreeSet, VecDeque};

use callsign_election::{
    Fence, Grant,
    campaign::{
        Transition, Until,
        core::{CallId, Core, CoreConfig, RunId},
    },
    lease::{
        Memory, Watcher,
        member::{Ask, Member},
        operation::{Input, Operation},
    },
    state::{Candidate, Who},
};
use callsign_store::{
    Read, Transaction, Version,
    ids::{Epoch, Incarnation},
    time::Time,
};

use super::{
    action::Slot,
    setup::{ElectionSetup, election},
};

/// What the store is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum ElectionRequest {
    /// To read.
    Read(Vec<Read>),
    /// To commit.
    Commit(Transaction),
}

/// Why somebody commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To have the seat.
    Claim,
    /// To keep the term.
    Refresh(Epoch),
    /// To give it back.
    Resign(Epoch),
    /// To give it back, if there is one, and to be a candidate no more.
    Leave,
    /// To remove what is left of others.
    Sweep,
    /// Anything else.
    Other,
}

/// Whose commit it is, and what it was decided from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Author {
    /// The machine.
    pub at: Slot,
    /// The incarnation.
    pub incarnation: Incarnation,
    /// Why.
    pub intent: Intent,
    /// When the attempt's read began, by the author's clock.
    pub started: Time,
    /// When it was decided, by the author's clock.
    pub decided: Time,
}

/// A question to the store, and its answer on the way back.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The question.
    pub request: ElectionRequest,
    /// The answer, if the store has given one.
    pub answer: Option<Input>,
    /// Tells it from others.
    pub serial: u64,
    /// When the try's read began.
    pub started: Time,
    /// When the question was put.
    pub decided: Time,
}

/// What a campaign's call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OracleCallKind {
    /// A claim or a refresh.
    Attempt,
    /// Giving back.
    Abdicate,
    /// Giving back, and leaving.
    Leave,
    /// Tidying up.
    Tidy,
    /// Looking for rivals.
    Rivals,
}

/// What the oracle is busy with.
#[derive(Clone, Debug, PartialEq)]
pub struct Asking {
    /// What is asked.
    pub asked: OracleCall,
    /// The store's part.
    pub pending: Pending,
}

/// What a campaign asks of its oracle.
#[derive(Clone, Debug, PartialEq)]
pub struct OracleCall {
    /// The campaign's call.
    pub call: CallId,
    /// What it is.
    pub kind: OracleCallKind,
    /// Why it commits.
    pub intent: Intent,
    /// What comes after it was prepared.
    pub then: Option<Ask>,
}

/// Sees the records change.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    pub(super) watcher: Watcher,
    pub(super) memory: Memory,
    pub(super) operation: Option<Operation>,
    /// The store's part of a look.
    pub pending: Option<Pending>,
    /// The version of the last look.
    pub since: Option<Version>,
}

/// What a role is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It takes up a term.
    Activating(RunId),
    /// It stops.
    Stopping(RunId),
    /// It is ended.
    Aborting(RunId),
}

/// The work that only one may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// What it is doing, and since which of all actions.
    pub doing: Option<(Doing, u64)>,
    /// The run in which it is active.
    pub active: Option<RunId>,
    /// The term whose work may be going on.
    pub works: Option<Epoch>,
}

/// Somebody who wants to hear of every transition.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscriber {
    pub(super) queue: VecDeque<Transition<Fence>>,
    /// Where in the process's log it began.
    pub(super) from: usize,
    /// How many it took.
    pub(super) taken: usize,
    pub(super) last: Option<bool>,
}

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectionProcess {
    /// Fresh for each.
    pub incarnation: Incarnation,
    /// The campaign.
    pub core: Core<Fence>,
    pub(super) member: Member,
    /// Whether it was prepared.
    pub ready: bool,
    /// What the oracle is busy with.
    pub asking: Option<Asking>,
    /// Its look at the records.
    pub watch: Watch,
    /// What `check()` looks at.
    pub handle: Option<(Grant<Fence>, Until)>,
    /// Its role.
    pub role: Role,
    /// The state at first, and every transition.
    pub(super) log: Vec<Transition<Fence>>,
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) infos: VecDeque<u32>,
    /// The epochs that somebody asked it to give up.
    pub asked: BTreeSet<Epoch>,
    /// What was told to the campaign and is not yet looked at.
    pub(super) inputs: VecDeque<callsign_election::campaign::core::Input<Fence>>,
    /// Its priority.
    pub priority: u32,
    /// When its last claim or refresh was asked for.
    pub(super) asked_at: Time,
    /// When the term that it holds is to be refreshed, as its last grant says.
    pub refresh_due: Option<Time>,
    /// Whether it may have left something behind: it was told so, or gave up a transaction that may land late.
    pub(super) may_leave_some: bool,
}

impl ElectionProcess {
    pub(super) fn new(setup: &ElectionSetup, at: Slot, incarnation: Incarnation) -> Option<Self> {
        let seat = setup.members.get(usize::from(at))?;
        let config = CoreConfig {
            election: election(),
            member: seat.member.clone(),
            incarnation,
            timing: seat.timing,
            claim_delay: seat.claim_delay,
            cool_down: seat.timing.lease,
            activate_attempts: 3,
            activate_timeout: std::time::Duration::from_secs(15),
            abdicate_tries: [1, 2, 3].map(std::time::Duration::from_secs).to_vec(),
            on_loss: seat.on_loss,
            seed: setup.seed ^ (u64::from(at) << 32) ^ incarnation.0,
        };
        let core = Core::new(config).ok()?;
        let me = Candidate {
            member: seat.member.clone(),
            incarnation,
            priority: seat.priority,
            tags: BTreeSet::new(),
        };
        let who = Who { member: seat.member.clone(), incarnation };
        let watch = Watch {
            watcher: Watcher::new(who),
            memory: Memory::default(),
            operation: None,
            pending: None,
            since: None,
        };
        Some(Self {
            incarnation,
            core,
            member: Member::new(setup.keys.clone(), me, true),
            ready: false,
            asking: None,
            watch,
            handle: None,
            role: Role::default(),
            log: vec![Transition::Following(None)],
            subscribers: Vec::new(),
            infos: VecDeque::new(),
            asked: BTreeSet::new(),
            inputs: VecDeque::new(),
            priority: seat.priority,
            asked_at: Time::ZERO,
            refresh_due: None,
            may_leave_some: false,
        })
    }

    /// The grant with which it may act now, by its own clock: what `check()` says.
    pub fn check(&self, now: Time) -> Option<&Grant<Fence>> {
        self.handle.as_ref().filter(|(_, until)| !until.is_over(now)).map(|(grant, _)| grant)
    }
}
