//! Which worlds are drawn, and what is done to them how often.

use crate::rng::Rng;

/// Weights of what clients do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// A name for a new actor.
    pub register: u64,
    /// A name for an actor that has one.
    pub again: u64,
    /// A name is given up.
    pub unregister: u64,
    /// A consistent lookup.
    pub consistent: u64,
    /// A local lookup.
    pub lookup: u64,
    /// An actor ends.
    pub end: u64,
    /// A leader is asked to resign.
    pub resign: u64,
    /// A node leaves at once.
    pub leave: u64,
    /// A node is asked to end: it drains, and leaves.
    pub drain: u64,
}

/// Weights of what is done to the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// SIGKILL.
    pub crash: u64,
    /// A process starts where none runs.
    pub start: u64,
    /// SIGSTOP, or SIGCONT.
    pub pause: u64,
    /// A connection breaks.
    pub cut: u64,
    /// A way is blocked, or free again.
    pub block: u64,
    /// A node is cut off from all others, both ways.
    pub isolate: u64,
    /// The store cannot be reached from a node, or again.
    pub outage: u64,
    /// A transaction that was given up lands, or never will.
    pub land: u64,
    /// A clock changes its rate.
    pub rate: u64,
    /// A machine is without power: its links stay half open.
    pub power: u64,
    /// A watch is lost.
    pub watch: u64,
    /// The leader is cut off from everybody for some seconds, and hears nothing of the store's records of elections; to
    /// its clients it seems to lead.
    pub forsake: u64,
    /// A session is closed because its beats do not get through.
    pub lapse: u64,
}

/// What the store does to commits, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreFaults {
    /// The answer comes later.
    pub late: u64,
    /// A conflict for no reason.
    pub conflict: u64,
    /// Done, and unknown.
    pub unknown_done: u64,
    /// Not done, and unknown.
    pub unknown_lost: u64,
    /// Given up.
    pub unknown_later: u64,
    /// Refused.
    pub unavailable: u64,
}

/// What one run is drawn from.
#[allow(clippy::struct_excessive_bools)] // each is a choice of its own
#[derive(Clone, Debug)]
pub struct Profile {
    /// How many nodes.
    pub nodes: usize,
    /// How many names.
    pub names: u8,
    /// How many steps before everything is healed.
    pub steps: u32,
    /// Whether it begins with nodes that have just started, on an empty store.
    pub from_nothing: bool,
    /// Whether cores of a process hear from each other at once.
    pub eager: bool,
    /// Whether the store proves deaths.
    pub proof: bool,
    /// How many messages a lane takes.
    pub lane: usize,
    /// How often a client does something, in thousandths of steps.
    pub call: u64,
    /// How often something is done to the cluster.
    pub fault: u64,
    /// How often time passes although something else could happen.
    pub tick: u64,
    /// What clients do.
    pub work: Work,
    /// What is done to the cluster.
    pub faults: Faults,
    /// What the store does.
    pub store: StoreFaults,
    /// How many millionths a clock may be off.
    pub ppm: u64,
    /// How many faults there are at most.
    pub budget: u32,
    /// How long a jump of time may be at most, in milliseconds.
    pub jump: u64,
    /// How many of some hundred ticks are such jumps.
    pub long: u64,
    /// How often what is done is done to the leader, in thousandths.
    pub aim: u64,
    /// How often a way, or the store for a core, becomes slow, in thousandths of steps.
    pub hold: u64,
    /// Whether what becomes slow is the store for sessions.
    pub hold_sessions: bool,
    /// How many bytes of the log a synced member may lag.
    pub lag: usize,
    /// Whether those that are left have to serve without the dead, before these are started again.
    pub mourn: bool,
}

/// A family of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Three nodes, 200 steps, all faults, in mixes that differ from seed to seed.
    Standard,
    /// No faults at all.
    Calm,
    /// Two to five nodes that start on an empty store.
    Forming,
    /// Crashes and restarts, most of all.
    Crashes,
    /// Ways that are cut, most of all.
    Cuts,
    /// The store's faults, most of all.
    Store,
    /// Pauses, jumps of time and drifting clocks within the promised rate.
    Clocks,
    /// Five nodes, 600 steps.
    Large,
    /// Many names: snapshots, full lanes, a log that is cut.
    Bulk,
    /// Two to five nodes; most is done to whoever leads, and seconds pass.
    Leaders,
    /// Machines that lose power, links that are half open, and successors that come at once.
    Links,
    /// A store and ways that are slow for a while, and sessions that lapse.
    Slow,
    /// Leaders that are cut off and do not know it, and names that come and go meanwhile.
    Forsaken,
    /// Sessions that are closed while their nodes live, and slow observers.
    Lapses,
    /// Restarts with many names, and members that lag too far.
    Snapshots,
    /// Nodes that drain and leave, one after the other or all at once, and start again.
    Draining,
    /// Clocks that drift apart faster than was promised. Must break P1.
    Drift,
}

impl Scenario {
    /// All that must hold.
    pub const SOUND: &'static [Self] = &[
        Self::Standard,
        Self::Calm,
        Self::Forming,
        Self::Crashes,
        Self::Cuts,
        Self::Store,
        Self::Clocks,
        Self::Large,
        Self::Bulk,
        Self::Leaders,
        Self::Links,
        Self::Slow,
        Self::Forsaken,
        Self::Lapses,
        Self::Snapshots,
        Self::Draining,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Calm => "calm",
            Self::Forming => "forming",
            Self::Crashes => "crashes",
            Self::Cuts => "cuts",
            Self::Store => "store",
            Self::Clocks => "clocks",
            Self::Large => "large",
            Self::Bulk => "bulk",
            Self::Leaders => "leaders",
            Self::Links => "links",
            Self::Slow => "slow",
            Self::Forsaken => "forsaken",
            Self::Lapses => "lapses",
            Self::Snapshots => "snapshots",
            Self::Draining => "draining",
            Self::Drift => "drift",
        }
    }

    /// The profile of a seed.
    pub fn profile(self, rng: &mut Rng) -> Profile {
        let mut profile = standard(rng);
        match self {
            Self::Standard => {}
            Self::Calm => {
                profile.fault = 0;
                profile.store = StoreFaults::default();
            }
            Self::Forming => {
                profile.nodes = 2 + rng.index(4);
                profile.from_nothing = true;
                profile.steps = 300;
            }
            Self::Crashes => {
                profile.fault = 30;
                profile.faults = Faults { crash: 10, start: 14, land: 4, ..Faults::default() };
                profile.budget = 12;
                profile.steps = 300;
                profile.mourn = rng.below(2) == 0;
            }
            Self::Cuts => {
                profile.fault = 35;
                profile.faults =
                    Faults { cut: 8, block: 10, isolate: 4, crash: 1, start: 2, ..Faults::default() };
                profile.budget = 14;
                profile.steps = 300;
            }
            Self::Store => {
                profile.fault = 20;
                profile.faults =
                    Faults { outage: 4, land: 10, crash: 2, start: 3, pause: 2, ..Faults::default() };
                profile.store = StoreFaults {
                    late: 100,
                    conflict: 40,
                    unknown_done: 60,
                    unknown_lost: 40,
                    unknown_later: 60,
                    unavailable: 30,
                };
                profile.budget = 20;
            }
            Self::Clocks => {
                profile.faults = Faults {
                    pause: 12,
                    outage: 4,
                    rate: 6,
                    crash: 1,
                    start: 2,
                    land: 2,
                    ..Faults::default()
                };
                profile.fault = 30;
                profile.jump = 4000;
                profile.steps = 300;
                profile.ppm = 490;
                profile.proof = false;
            }
            Self::Large => {
                profile.nodes = 5;
                profile.steps = 600;
                profile.budget = 16;
            }
            Self::Bulk => {
                profile.names = 14;
                profile.call = 300;
                profile.lane = 6;
                profile.steps = 400;
                profile.work.lookup = 1;
            }
            Self::Leaders => {
                profile.nodes = 2 + rng.index(4);
                profile.aim = 600;
                profile.faults = Faults {
                    crash: rng.below(3),
                    start: 6,
                    pause: 6,
                    block: 10,
                    isolate: 6,
                    outage: rng.below(3),
                    land: 2,
                    watch: 1,
                    forsake: rng.below(12),
                    ..Faults::default()
                };
                profile.fault = 30;
                profile.call = 60;
                profile.work.resign = [0, 6, 30][rng.index(3)];
                profile.work.unregister += 8;
                profile.budget = 12;
                profile.jump = 4000;
                profile.long = 1 + rng.below(30);
                profile.steps = 300;
                profile.hold = rng.below(3) * 12;
            }
            Self::Links => {
                profile.nodes = 2 + rng.index(2);
                profile.faults =
                    Faults { crash: 4, power: 6, start: 30, cut: 10, block: 4, ..Faults::default() };
                profile.fault = 60;
                profile.call = 20;
                profile.budget = 30;
                profile.steps = 300;
                profile.hold = 10;
            }
            Self::Slow => {
                profile.nodes = 2 + rng.index(2);
                profile.hold = 20;
                profile.hold_sessions = rng.below(2) == 0;
                profile.faults =
                    Faults { outage: 8, pause: 4, crash: 1, start: 3, land: 6, ..Faults::default() };
                profile.fault = 20;
                profile.aim = rng.below(2) * 400;
                profile.work.resign = rng.below(4);
                profile.jump = 1500;
                profile.long = 1 + rng.below(20);
                profile.steps = 400;
                profile.proof = rng.below(4) == 0;
                profile.store.unknown_later = rng.below(100);
            }
            Self::Forsaken => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 1 + u8::try_from(rng.below(2)).unwrap_or(0);
                profile.faults = Faults { forsake: 10, land: 2, block: 2, ..Faults::default() };
                profile.fault = 30;
                profile.budget = 6;
                profile.call = 150;
                profile.aim = 400;
                profile.work = Work { register: 20, unregister: 15, ..profile.work };
                profile.work.resign = rng.below(2) * 6;
                profile.hold = rng.below(2) * 10;
                profile.steps = 400;
            }
            Self::Lapses => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 8;
                profile.faults = Faults { lapse: 10, ..Faults::default() };
                profile.fault = 20;
                profile.budget = 3;
                profile.call = 60;
                profile.work = Work { register: 20, unregister: 6, ..profile.work };
                profile.steps = 500;
                profile.proof = false;
                profile.store = StoreFaults::default();
            }
            Self::Snapshots => {
                profile.nodes = 2 + rng.index(3);
                profile.names = 12;
                profile.lag = [150, 400, 1000][rng.index(3)];
                profile.faults = Faults {
                    crash: 8,
                    start: 16,
                    block: 6,
                    cut: 3,
                    pause: 3,
                    outage: 2,
                    land: 3,
                    ..Faults::default()
                };
                profile.fault = 30;
                profile.call = 250;
                profile.aim = rng.below(2) * 300;
                profile.budget = 14;
                profile.long = 1 + rng.below(10);
                profile.jump = 2000;
                profile.steps = 400;
                profile.hold = 8 + rng.below(24);
                profile.store.unknown_later = rng.below(80);
            }
            Self::Draining => {
                profile.nodes = 2 + rng.index(4);
                profile.names = 6;
                profile.faults = Faults {
                    crash: rng.below(3),
                    start: 20,
                    pause: rng.below(4),
                    block: rng.below(6),
                    cut: rng.below(4),
                    outage: rng.below(3),
                    land: 2,
                    ..Faults::default()
                };
                profile.fault = 25;
                profile.budget = 14;
                profile.call = 120;
                profile.aim = rng.below(3) * 300;
                profile.work.drain = [3, 12, 40][rng.index(3)];
                profile.steps = 400;
                profile.hold = rng.below(3) * 10;
                profile.mourn = rng.below(2) == 0;
            }
            Self::Drift => {
                profile.faults = Faults { pause: 6, outage: 12, ..Faults::default() };
                profile.fault = 40;
                profile.jump = 2000;
                profile.steps = 400;
                profile.ppm = 200_000;
                profile.proof = false;
            }
        }
        profile
    }
}

/// A mix of everything: each kind of fault is there or not, and more or less often.
fn standard(rng: &mut Rng) -> Profile {
    let mut some = |most: u64| if rng.below(3) == 0 { 0 } else { rng.below(most) + 1 };
    let faults = Faults {
        crash: some(8),
        start: some(10) + 4,
        pause: some(8),
        cut: some(8),
        block: some(8),
        isolate: some(3),
        outage: some(4),
        land: some(8) + 1,
        rate: some(2),
        power: 0,
        watch: 0,
        forsake: 0,
        lapse: 0,
    };
    let store = StoreFaults {
        late: some(150),
        conflict: some(40),
        unknown_done: some(40),
        unknown_lost: some(40),
        unknown_later: some(40),
        unavailable: some(30),
    };
    let work = Work {
        register: 10 + some(20),
        again: some(3),
        unregister: some(10),
        consistent: some(6),
        lookup: some(6),
        end: some(4),
        resign: some(2),
        leave: some(1),
        drain: 0,
    };
    Profile {
        nodes: 3,
        names: 1 + u8::try_from(rng.below(4)).unwrap_or(0),
        steps: 200,
        from_nothing: false,
        eager: rng.below(3) > 0,
        proof: rng.below(2) == 0,
        lane: if rng.below(8) == 0 { 4 } else { 64 },
        call: 30 + rng.below(150),
        fault: rng.below(60),
        tick: 5 + rng.below(60),
        work,
        faults,
        store,
        ppm: if rng.below(2) == 0 { 0 } else { 490 },
        budget: 1 + u32::try_from(rng.below(8)).unwrap_or(0),
        jump: if rng.below(4) == 0 { 3000 } else { 100 },
        long: 1,
        aim: 0,
        hold: 0,
        hold_sessions: false,
        lag: 64 << 20,
        mourn: false,
    }
}
