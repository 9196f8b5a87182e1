//! Small clusters, every interleaving: the same world, with what may be done to it counted.
//!
//! A state is a world and what is left to be spent. From each state everything that can happen by itself is tried, each
//! claim and each fault that is left. To keep spaces small enough to be complete, three things are decided rather than
//! tried, and are left to the simulator:
//!
//! - cores of one process hear from each other at once (an eager world), and what it does by itself (its reads, its session's
//!   beats, watches and timers, in most spaces its elector's commits) happens before anything else; so do handshakes, pings,
//!   heartbeats and the end of a connection;
//! - time passes only when nothing else can happen, from one time asked for to the next, up to a horizon;
//! - an operation of the store whose outcome is known is answered when the store gets to it.
//!
//! What is tried in every order: registry messages against each other, commits of members and their outcomes, abandoned commits
//! that land, claims, and every fault at every point.

use std::time::Duration;

use callsign::cores::{Message, Tuning};

use crate::{
    run::formed_of,
    schedule::{progress, until_next_wake},
    search::Space,
    world::{Action, CoreId, Fate, Frame, NodeId, Request, Setup, Violation, Want, World},
};

/// What may still be done to a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Registers by clients, two on different nodes at most.
    pub claims: u8,
    /// Processes that are killed.
    pub crashes: u8,
    /// Processes that are started again.
    pub restarts: u8,
    /// Connections that break.
    pub cuts: u8,
    /// Commits of members or electors whose outcome is unknown.
    pub unknowns: u8,
    /// Takes by node c of n0, which node b holds from the beginning.
    pub takes: u8,
    /// Starts of n0, by node b and then by node c.
    pub starts: u8,
    /// How often the leader is asked to give up the seat.
    pub resigns: u8,
}

/// A space to be searched to its end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Its name on the command line.
    pub name: &'static str,
    /// What may be done.
    pub budget: Budget,
    /// How long it goes on, in milliseconds.
    pub horizon: u64,
    /// Whether what electors commit is tried in every order as well.
    pub free_electors: bool,
    /// Whether it is small enough for every run of CI.
    pub is_small: bool,
    /// How many states there are, and how many are made.
    pub counts: (usize, usize),
}

const fn limits(name: &'static str, budget: [u8; 4], horizon: u64, counts: (usize, usize)) -> Limits {
    let [crashes, restarts, cuts, unknowns] = budget;
    let budget = Budget { claims: 2, crashes, restarts, cuts, unknowns, takes: 0, starts: 0, resigns: 0 };
    Limits { name, budget, horizon, free_electors: false, is_small: false, counts }
}

/// One take in place of the claims.
const fn take(limits: Limits) -> Limits {
    Limits { budget: Budget { claims: 0, takes: 1, ..limits.budget }, ..limits }
}

/// Two starts of one name in place of the claims.
const fn start(limits: Limits) -> Limits {
    Limits { budget: Budget { claims: 0, starts: 2, ..limits.budget }, ..limits }
}

/// The leader is asked to give up the seat, too.
const fn resign(limits: Limits) -> Limits {
    Limits { budget: Budget { resigns: 1, ..limits.budget }, ..limits }
}

const fn small(limits: Limits) -> Limits {
    Limits { is_small: true, ..limits }
}

const fn free(limits: Limits) -> Limits {
    Limits { free_electors: true, ..limits }
}

/// The spaces: three members, two names, two concurrent claims or starts or one take, and each pair of faults. The counts are exact: an action
/// that is lost, or one too many, shows.
pub const SPACES: &[Limits] = &[
    small(limits("small-crash-restart", [1, 1, 0, 0], 300, (177_696, 194_167))),
    small(limits("small-crash-cut", [1, 0, 1, 0], 30, (171_197, 190_824))),
    small(limits("small-cut-unknown", [0, 0, 1, 1], 300, (303_335, 368_175))),
    small(limits("small-restart-unknown", [1, 1, 0, 1], 30, (286_694, 346_867))),
    small(take(limits("take-crash", [1, 0, 0, 0], 700, (8_692, 9_027)))),
    small(take(limits("take-crash-unknown", [1, 0, 0, 1], 300, (17_938, 20_571)))),
    small(take(limits("take-cut-unknown", [0, 0, 1, 1], 300, (30_528, 34_434)))),
    small(resign(take(limits("take-unknown-leader", [0, 0, 0, 1], 300, (22_828, 29_952))))),
    small(start(limits("start-crash-unknown", [1, 0, 0, 1], 300, (49_102, 59_016)))),
    limits("crash-restart", [1, 1, 0, 0], 1000, (2_323_198, 2_493_768)),
    limits("crash-cut", [1, 0, 1, 0], 500, (2_723_955, 2_867_833)),
    free(limits("cut-unknown", [0, 0, 1, 1], 200, (2_941_701, 4_178_726))),
    limits("restart-unknown", [1, 1, 0, 1], 450, (3_016_805, 3_540_749)),
];

/// A state: a world, and what is left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The world.
    pub world: World,
    /// What may still be done to it.
    pub left: Budget,
}

/// A space over a world that has formed.
#[derive(Debug)]
pub struct Cluster {
    limits: Limits,
    begin: World,
    end: Duration,
}

impl Cluster {
    /// Three members, synced and at rest.
    pub fn new(limits: Limits) -> Self {
        let mut setup = Setup::new(3);
        setup.tuning = Tuning { cut_worth: 1000, ..setup.tuning };
        setup.window = 8;
        let mut begin = formed_of(World::new(setup), 1);
        let before = match limits.budget {
            Budget { takes: 1.., .. } => Some(Want::Register { name: 0, stops: false }),
            // The number of a call decides what comes of a start: those of the second and the third take little time.
            Budget { starts: 1.., .. } => Some(Want::Lookup { name: 0 }),
            _ => None,
        };
        if let Some(want) = before {
            begin.apply(&Action::Call { node: 1, want });
            loop {
                let mut own = Vec::new();
                progress(&begin, &mut own);
                let Some(action) = own.first() else { break };
                begin.apply(action);
            }
        }
        let end = begin.now + Duration::from_millis(limits.horizon);
        Self { limits, begin, end }
    }
}

/// Says only where the log ends.
fn is_chatter(message: &Message) -> bool {
    matches!(message, Message::Heartbeat { .. } | Message::Progress { .. })
}

/// What happens by itself and need not be tried in every order: nobody else can see when it does, or it says nothing new.
fn is_private(world: &World, free_electors: bool, action: &Action) -> bool {
    match action {
        Action::Watch { .. } | Action::Wake { .. } => true,
        Action::Store { node, nth, .. } => {
            let op = world.process(*node).and_then(|process| process.ops.get(usize::from(*nth)));
            let is_tried = |core| core == CoreId::Member || (core == CoreId::Elector && free_electors);
            op.is_some_and(|op| !is_tried(op.core) || !matches!(op.request, Request::Commit(_)))
        }
        Action::Frame { from, to, nth, bulk: false } => {
            !matches!(world.next_frame(*from, *to, *nth), Some(Frame::Message(message)) if !is_chatter(message))
        }
        _ => false,
    }
}

impl Space for Cluster {
    type State = State;
    type Action = Action;

    fn initial(&self) -> Vec<State> {
        vec![State { world: self.begin.clone(), left: self.limits.budget }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let State { world, left } = state;
        if world.now > self.end {
            return;
        }
        let mut own = Vec::new();
        progress(world, &mut own);
        if let Some(private) = own.iter().find(|action| is_private(world, self.limits.free_electors, action))
        {
            actions.push(private.clone());
            return;
        }
        let commits = own.iter().filter(|action| matches!(action, Action::Store { .. }));
        if left.unknowns > 0 {
            for commit in commits {
                let Action::Store { node, nth, .. } = commit else { continue };
                for fate in [Fate::UnknownDone, Fate::UnknownLost, Fate::UnknownLater] {
                    actions.push(Action::Store { node: *node, nth: *nth, fate });
                }
            }
        }
        if own.is_empty() {
            let by =
                until_next_wake(world).unwrap_or(Duration::from_millis(100)).max(Duration::from_micros(1));
            actions.push(Action::Tick { by });
        }
        actions.append(&mut own);
        for nth in 0..u8::try_from(world.orphans.len()).unwrap_or(u8::MAX) {
            actions.push(Action::Land { nth });
        }
        faults(world, *left, actions);
        if left.takes > 0 {
            actions.push(Action::Call { node: 2, want: Want::Take { name: 0, stops: false } });
        }
        if left.starts > 0 {
            let node = if left.starts == self.limits.budget.starts { 1 } else { 2 };
            actions.push(Action::Call { node, want: Want::Start { name: 0, stops: false } });
        }
        if left.claims > 0 {
            // The first on node b for n0, the second on node c for either name.
            let is_first = left.claims == self.limits.budget.claims;
            let node: NodeId = if is_first { 1 } else { 2 };
            let names: &[u8] = if is_first { &[0] } else { &[0, 1] };
            for name in names {
                actions.push(Action::Call { node, want: Want::Register { name: *name, stops: false } });
            }
        }
    }

    fn next(&self, state: &State, action: &Action) -> Option<State> {
        let mut next = state.clone();
        if !next.world.apply(action) {
            return None;
        }
        let left = &mut next.left;
        match action {
            Action::Call { want: Want::Take { .. }, .. } => left.takes -= 1,
            Action::Call { want: Want::Start { .. }, .. } => left.starts -= 1,
            Action::Call { .. } => left.claims -= 1,
            Action::Resign { .. } => left.resigns -= 1,
            Action::Crash { .. } => left.crashes -= 1,
            Action::Start { .. } => left.restarts -= 1,
            Action::Break { .. } => left.cuts -= 1,
            Action::Store { fate, .. } if *fate != Fate::Done => left.unknowns -= 1,
            _ => {}
        }
        Some(next)
    }

    fn violation(&self, state: &State) -> Option<String> {
        let Violation { check, what } = state.world.oracle.violation()?;
        Some(format!("{check}: {what}"))
    }

    /// Both claims are answered, all faults are spent, and somebody serves: a space without such a state is empty.
    fn canary(&self, state: &State) -> bool {
        let State { world, left } = state;
        *left == Budget::default() && world.asked.is_empty() && world.ids().any(|node| serves(world, node))
    }
}

fn serves(world: &World, node: NodeId) -> bool {
    let parts = world.process(node).and_then(|process| process.parts.as_ref());
    parts.is_some_and(|parts| parts.core.member().is_serving())
}

fn faults(world: &World, left: Budget, actions: &mut Vec<Action>) {
    for node in world.ids() {
        let runs = world.process(node).is_some();
        if left.crashes > 0 && runs {
            actions.push(Action::Crash { node });
        }
        if left.restarts > 0 && !runs {
            actions.push(Action::Start { node });
        }
        if left.resigns > 0 && serves(world, node) {
            actions.push(Action::Resign { node });
        }
    }
    if left.cuts > 0 {
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            // What is under way is lost, or arrives first.
            for keep in [0, 8] {
                actions.push(Action::Break { a, b, nth: 0, keep });
            }
        }
    }
}
