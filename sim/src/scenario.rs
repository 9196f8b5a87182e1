//! Which worlds are drawn, and what is done to them how often.

mod standard;

use std::collections::BTreeSet;

use self::standard::standard;
use crate::{oracle::Check, rng::Rng, schedule::Drag, world::NodeId};

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
    /// A name for an actor for which another one is undecided.
    pub beside: u64,
    /// Something is set for all members.
    pub configure: u64,
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
    /// A process joins the registry. If this is not zero, it does not when its session is opened.
    pub join: u64,
    /// A peer lies about its epoch.
    pub lie: u64,
    /// The store refuses commits to everybody for about a lease, while reads go on.
    pub refuse: u64,
    /// A leader is asked to end and loses its session before it has drained.
    pub part: u64,
    /// A process is replaced by a successor, which asks before the leader has read of it.
    pub renew: u64,
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
    /// Never answered, and done; and as often: given up. Also of reads.
    pub mute: u64,
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
    /// How often whoever sends a snapshot becomes slow, so that its receiver turns to another, in thousandths of steps.
    pub hold_donors: u64,
    /// How many bytes of the log a synced member may lag.
    pub lag: usize,
    /// Whether those that are left have to serve without the dead, before these are started again.
    pub mourn: bool,
    /// The nodes that run the next version.
    pub newer: BTreeSet<NodeId>,
    /// How old closed records are when they are swept away, in milliseconds.
    pub sweep: u64,
    /// What stays slow when everything else is healed.
    pub drag: Drag,
    /// How many operations a batch may have for the store to take it.
    pub most_ops: usize,
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
    /// Registries that are joined some time after their nodes were started, whatever became of the sessions.
    Joining,
    /// Some nodes run the next version: the records that they write have fields which the others do not know.
    Versions,
    /// Actors that ask for several names at once and give some up, and sessions that lapse.
    Claims,
    /// Peers that lie about their epoch.
    Liars,
    /// Nodes that come and go, and are gone for so long that what they left behind is swept away.
    Sweeping,
    /// A store that refuses commits to everybody for about a lease, while reads go on.
    Refusing,
    /// A store of which answers never come.
    Mute,
    /// A store that takes smaller batches than leaders believe.
    Oversize,
    /// Ways, a donor or the store stay slow when everything else is healed.
    Sluggish,
    /// Settings that change while leaders do.
    Configured,
    /// Leaders that lose their sessions while they drain, and successors of which the leader has not read.
    Parting,
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
        Self::Joining,
        Self::Versions,
        Self::Claims,
        Self::Liars,
        Self::Sweeping,
        Self::Refusing,
        Self::Mute,
        Self::Oversize,
        Self::Sluggish,
        Self::Parting,
        Self::Configured,
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
            Self::Joining => "joining",
            Self::Versions => "versions",
            Self::Claims => "claims",
            Self::Liars => "liars",
            Self::Sweeping => "sweeping",
            Self::Refusing => "refusing",
            Self::Mute => "mute",
            Self::Oversize => "oversize",
            Self::Sluggish => "sluggish",
            Self::Parting => "parting",
            Self::Configured => "configured",
            Self::Drift => "drift",
        }
    }

    /// Whether enough seeds of it exercise a check: nobody drains where that is not drawn.
    pub fn exercises(self, check: Check) -> bool {
        match check {
            Check::NamesLast
            | Check::TurnedAway
            | Check::DrainerElected
            | Check::DrainedLed
            | Check::DrainedAlone
            | Check::DrainedLate => self == Self::Draining,
            Check::DrainKnown | Check::DrainSaid => matches!(self, Self::Draining | Self::Parting),
            Check::BuiltOnNewer => self == Self::Versions,
            Check::Configured | Check::RankedFirst => self == Self::Configured,
            _ => true,
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
                    mute: 0,
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
                profile.hold_donors = [0, 100][rng.index(2)];
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
            Self::Joining => {
                profile.nodes = 2 + rng.index(2);
                profile.from_nothing = true;
                profile.faults = Faults {
                    join: 6,
                    lapse: 6,
                    outage: 6,
                    crash: rng.below(2),
                    start: 4,
                    pause: rng.below(3),
                    ..Faults::default()
                };
                profile.fault = 40;
                profile.budget = 16;
                profile.call = 100;
                profile.jump = 3000;
                profile.long = 1 + rng.below(20);
                profile.steps = 400;
                profile.proof = rng.below(2) == 0;
            }
            Self::Versions => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 6;
                profile.newer = (0..3).filter(|_| rng.below(2) == 0).collect();
                profile.from_nothing = rng.below(2) == 0;
                profile.lag = [150, 64 << 20][rng.index(2)];
                profile.faults =
                    Faults { crash: 8, start: 10, lapse: 2, land: 4, cut: 2, ..Faults::default() };
                profile.fault = 30;
                profile.call = 150;
                profile.aim = rng.below(2) * 400;
                profile.work.resign = rng.below(3) * 6;
                profile.budget = 10;
                profile.steps = 300;
            }
            Self::Configured => {
                profile.nodes = 2 + rng.index(4);
                profile.work.configure = 20;
                profile.work.resign = 4 + rng.below(3) * 6;
                profile.call = 150;
                profile.faults =
                    Faults { crash: 6, start: 10, land: 4, cut: 3, block: 3, pause: 2, ..Faults::default() };
                profile.fault = 25;
                profile.aim = rng.below(2) * 400;
                profile.steps = 300;
            }
            Self::Claims => {
                profile.nodes = 2 + rng.index(2);
                profile.names = 3 + u8::try_from(rng.below(4)).unwrap_or(0);
                profile.faults = Faults {
                    outage: 6,
                    lapse: 4,
                    pause: 3,
                    crash: 1,
                    start: 4,
                    land: 2,
                    ..Faults::default()
                };
                profile.fault = 15;
                profile.call = 200;
                profile.aim = rng.below(2) * 300;
                profile.work =
                    Work { register: 20, again: 6, unregister: 12, beside: 25, end: 6, ..profile.work };
                profile.steps = 300;
            }
            Self::Liars => {
                profile.nodes = 2 + rng.index(3);
                profile.faults =
                    Faults { lie: 20, crash: 1, start: 6, cut: 2, pause: 2, land: 2, ..Faults::default() };
                profile.fault = 30;
                profile.budget = 10;
                profile.work.resign = rng.below(3) * 3;
                profile.steps = 300;
            }
            Self::Sweeping => {
                profile.nodes = 3 + rng.index(3);
                profile.sweep = 200 + rng.below(800);
                profile.faults = Faults {
                    crash: 8,
                    start: 10,
                    pause: rng.below(3),
                    outage: rng.below(3),
                    land: 6,
                    ..Faults::default()
                };
                profile.fault = 25;
                profile.budget = 20;
                profile.aim = rng.below(2) * 300;
                profile.work.leave = 4 + rng.below(12);
                profile.jump = 1500;
                profile.long = 4 + rng.below(20);
                profile.steps = 500;
                profile.hold = rng.below(3) * 8;
                profile.hold_sessions = rng.below(2) == 0;
                profile.proof = rng.below(4) > 0;
                profile.store.unknown_later = rng.below(100);
            }
            Self::Refusing => {
                profile.nodes = 2 + rng.index(3);
                profile.faults = Faults { refuse: 10, crash: rng.below(2), start: 3, ..Faults::default() };
                profile.fault = 15;
                profile.budget = 3;
                profile.call = 60;
                profile.steps = 500;
                profile.proof = false;
                profile.store = StoreFaults { late: profile.store.late, ..StoreFaults::default() };
            }
            Self::Mute => {
                profile.nodes = 2 + rng.index(2);
                profile.faults = Faults { crash: 2, start: 4, pause: 1, land: 6, ..Faults::default() };
                profile.fault = 15;
                profile.call = 120;
                profile.store = StoreFaults { mute: 20 + rng.below(60), ..profile.store };
                profile.steps = 300;
            }
            Self::Oversize => {
                profile.nodes = 2 + rng.index(2);
                // Small batches are many messages; what a full lane costs is looked at elsewhere.
                profile.lane = 64;
                profile.names = 14;
                profile.most_ops = 2 + rng.index(3);
                profile.call = 300;
                profile.work = Work { register: 20, unregister: 15, end: 4, ..profile.work };
                profile.hold = rng.below(2) * 10;
                profile.steps = 300;
            }
            Self::Sluggish => {
                let kind = rng.index(3);
                profile.drag = [Drag::Ways, Drag::Donor, Drag::Store][kind];
                // What a full lane costs on top of slow ways is looked at elsewhere.
                profile.lane = 64;
                profile.nodes = 3 + rng.index(2);
                profile.names = 12;
                profile.faults = Faults { crash: 8, start: 6, cut: 2, land: 3, ..Faults::default() };
                profile.fault = 25;
                profile.call = 250;
                profile.budget = 10;
                profile.mourn = rng.below(4) > 0;
                profile.steps = 300;
            }
            Self::Parting => {
                profile.nodes = 2 + rng.index(2);
                profile.faults = Faults { part: 10, renew: 6, start: 4, land: 1, ..Faults::default() };
                profile.fault = 15;
                profile.budget = 4;
                profile.call = 60;
                profile.steps = 500;
                profile.store = StoreFaults::default();
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
