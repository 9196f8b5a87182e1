//! Which worlds are drawn, and what is done to them how often.

mod extras;
mod family;
mod mixes;
mod permits;
mod referring;
mod standard;

use std::collections::BTreeSet;

use callsign_transport::Permits;

pub use self::family::Scenario;
pub(crate) use self::permits::drawn_permits;
use crate::world::NodeId;

/// Weights of what clients do.
#[derive(Clone, Copy, Debug, Default)]
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
    /// A name, by a client that asks again when the session is trusted again.
    pub patient: u64,
    /// A holder says something else of itself.
    pub update: u64,
    /// A name for an actor that is started then.
    pub start: u64,
    /// An actor joins a group.
    pub join: u64,
    /// An actor asks for a place in a semaphore.
    pub acquire: u64,
    /// A membership is given up.
    pub withdraw: u64,
    /// A name of another actor.
    pub take: u64,
    /// A name of this node, which another node is to take.
    pub offer: u64,
    /// A reference to an actor of another node, or what is done with one. Zero in most seeds: then there are none in their worlds.
    pub refer: u64,
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
    /// The store loses its latest commits.
    pub back: u64,
    /// A part of a node panics: the node closes its session, and ends.
    pub fail: u64,
    /// A node gets another certificate.
    pub certify: u64,
    /// Several nodes are killed at once: the leader and those that observe, above all.
    pub perish: u64,
    /// The leader and those that observe are cut off from the others, or that is over.
    pub sever: u64,
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

/// What stays slow when everything else is healed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drag {
    /// Nothing.
    #[default]
    Nothing,
    /// What travels in bulk, on every way: a snapshot takes seconds, and none of its chunks does.
    Ways,
    /// One of those that have the end of the log when everything is healed sends nothing in bulk, though its links are up and all else
    /// arrives. In one half of the runs it is the leader.
    Donor,
    /// Every operation of the store.
    Store,
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
    /// What the nodes may do by their certificates; those for which nothing is said, everything.
    pub permits: Vec<Permits>,
    /// Whether holders offer their names when their nodes drain, and others take what is offered.
    pub offers: bool,
    /// Whether the store tells of changes. If not, they are found by polls.
    pub tells: bool,
    /// How many members a leader has observe the sessions of all.
    pub observers: usize,
    /// How many names of its own actors a member goes over at a time.
    pub own_names: usize,
}
