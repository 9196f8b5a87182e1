//! What the bench tells its processes, and what they report: one JSON value a line.
//!
//! Moments are nanoseconds of [`crate::measure::now_ns`], which all processes share.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line to a process. Orders run at the same time; each is answered under its id.
#[derive(Serialize, Deserialize)]
pub(crate) struct OrderLine {
    pub(crate) id: u64,
    pub(crate) order: Order,
}

/// One line from a process.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReportLine {
    pub(crate) id: u64,
    pub(crate) result: Result<Value, String>,
}

/// `{prefix}{number}` for a range of numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Names {
    pub(crate) prefix: String,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Names {
    pub(crate) fn len(&self) -> u32 {
        self.to - self.from
    }

    pub(crate) fn name(&self, number: u32) -> String {
        format!("{}{number}", self.prefix)
    }
}

/// What a process can be told.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start a node, in one registry or in several, which keeps names in order or not. Reports [`Took`]: until it has joined, or,
    /// if told so, until it knows that many names.
    Join {
        node: String,
        store: String,
        cluster: String,
        secret: String,
        registries: u32,
        ordered: bool,
        until: Option<usize>,
        /// How long the node waits for a condition.
        patience_ms: u64,
    },
    /// Wait until the node serves. Reports nothing.
    Ready,
    /// Report the [`Leading`] node, once there is one that serves.
    Leader,
    /// Register names by so many tasks at once, from a moment on, each with so many bytes of metadata, in all registries but so many.
    /// Reports [`Registered`].
    Register { names: Names, meta: usize, spared: u32, in_flight: u32, start_ns: u64 },
    /// Register names that another node claims too. Reports [`Contested`].
    Contest { names: Names, in_flight: u32, start_ns: u64 },
    /// Report who holds each of the names: a list of nodes or null.
    Holders { names: Names },
    /// Select so many pages of this many names, from somewhere in between on. Reports the [`Took`] of one page.
    SelectPages { names: Names, limit: usize, pages: u32 },
    /// Report the moment at which the node knows so many names.
    AwaitCount { count: usize },
    /// Report the [`ProcessUsage`] of the process.
    Usage,
    /// Send back each byte that comes to a socket of this process. Reports its address.
    Echo,
    /// Register one name after the other. Commit to the same store in between, and send a byte to where it comes back from, if
    /// there is such a place. Reports [`Sequential`].
    Sequential { names: Names, store: String, echo: Option<SocketAddr> },
    /// Look names up, and in a bare map in between. Reports [`Lookups`].
    LookUp { local: Names, remote: Names, rounds: u32, each: u32 },
    /// Begin so many watches of all names. Reports nothing.
    Watch { readers: u32 },
    /// Close all of these watches. Reports nothing.
    Unwatch,
    /// Wait until each of their readers was told of so many names. Reports how often one was too slow, or had to begin anew.
    Watched { names: u64 },
    /// Begin a watch that notes when each name of a prefix comes. Reports nothing.
    Note { prefix: String },
    /// Report the moments at which so many names came.
    Noted { count: usize },
    /// Register one name after the other. Reports the moments at which they were acknowledged.
    Acknowledged { names: Names },
    /// Start one name after the other, and commit to the same store twice in between. Reports the medians, in microseconds.
    StartOneByOne { names: Names, store: String },
    /// Start each of the names by so many callers at once. Reports [`Starts`].
    StartTogether { names: Names, callers: u32 },
    /// Spawn so many actors, which the next orders take. Reports nothing.
    Spawn { actors: u32 },
    /// Have them join a group by so many tasks at once, from a moment on. Reports [`Done`].
    JoinGroup { group: u32, in_flight: u32, start_ns: u64 },
    /// Register these names by so many tasks at once, from a moment on: each of the actors holds some of them. Reports [`Done`].
    RegisterEach { names: Names, in_flight: u32, start_ns: u64 },
    /// Unregister names by so many tasks at once, from a moment on. Reports [`Done`].
    UnregisterEach { names: Names, in_flight: u32, start_ns: u64 },
    /// End all actors that were spawned last. Reports the moment before the first.
    EndActors,
    /// Begin to register one name after the other. Reports nothing.
    Probe { prefix: String },
    /// End that. Reports [`Probed`].
    Probed,
    /// Report the moment at which the node knows that nobody holds a name.
    AwaitFree { name: String },
    /// Look names up in several ways, by one thread and by two. Reports a list of [`Read`].
    Read { local: Names, remote: Names },
    /// Report the moment at which the node knows so many members, those with a thread of their own included.
    AwaitMembers { count: usize },
    /// Send 32 bytes to all members of the group, and to those with a thread of their own behind it. Reports the moment of the call.
    Broadcast,
    /// Have an actor with a thread of its own join a group of such actors. Reports nothing.
    JoinGroupApart,
    /// Report when the members here had heard the last of so many broadcasts: [`Heards`].
    Heard { broadcasts: u32 },
    /// Take the names that are offered by nodes that drain.
    ReceiveNames,
    /// Register names, each with an actor of its own, that are offered when the node drains.
    OfferNames { names: Names },
    /// Begin to look up these names, again and again.
    LookOn { names: Names },
    /// End that. Reports [`Looked`].
    LookedOn,
    /// Drain. Reports [`Took`].
    Drain,
    /// Register a name, again and again until it is granted. Reports the moment.
    RegisterAtLast { name: String },
}

/// How long something took.
#[derive(Serialize, Deserialize)]
pub(crate) struct Took {
    pub(crate) ns: u64,
}

/// What a node saw that registered one name after the other.
#[derive(Serialize, Deserialize)]
pub(crate) struct Probed {
    pub(crate) registrations: u32,
    pub(crate) longest_wait_us: f64,
    /// Only one of ten thousand was longer.
    pub(crate) wait_p9999_us: f64,
    /// How late a thread of the same process woke.
    pub(crate) longest_gap_us: f64,
}

/// Times of single reads by one of several threads, in nanoseconds: the median of the rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Read {
    /// Where the actors are: `local` or `remote`.
    pub(crate) place: String,
    /// How many names are read, at random.
    pub(crate) names: u32,
    /// How many threads read at once: each has its part of the names, unless there is only one.
    pub(crate) threads: u32,
    pub(crate) lookup_ns: f64,
    /// The actor's typed reference.
    pub(crate) whereis_ns: f64,
    /// The same rows in a bare map.
    pub(crate) dashmap_get_ns: f64,
}

/// What was found where names were looked up.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) lookups: u64,
    /// Of these, how many found that nobody holds the name.
    pub(crate) free: u64,
}

/// Who leads.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leading {
    pub(crate) node: String,
    pub(crate) epoch: u64,
}

/// What became of many registrations.
#[derive(Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) acknowledged: u32,
    /// The moment of the last verdict.
    pub(crate) done_ns: u64,
    /// How many were not, by reason.
    pub(crate) failed: BTreeMap<String, u32>,
}

/// When a broadcast came to the members of a node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Heards {
    /// When the last of them had heard it.
    pub(crate) heard_ns: u64,
    /// When the actor with a thread of its own heard what was sent next: the message is in all mailboxes.
    pub(crate) came_ns: u64,
}

/// What became of many calls that none refused.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    /// The moment of the last answer.
    pub(crate) done_ns: u64,
    /// How long single calls took, in microseconds: from the shortest to the longest, in steps of equal shares.
    pub(crate) took_us: Vec<f64>,
}

impl Done {
    /// How many steps there are.
    pub(crate) const PARTS: u32 = 1000;
}

/// What became of contested registrations.
#[derive(Serialize, Deserialize)]
pub(crate) struct Contested {
    /// The numbers of the names that were granted here.
    pub(crate) granted: Vec<u32>,
    /// How many were refused as taken.
    pub(crate) taken: u32,
    /// How many were neither, by reason.
    pub(crate) failed: BTreeMap<String, u32>,
}

/// What a process has used and uses.
#[derive(Serialize, Deserialize)]
pub(crate) struct ProcessUsage {
    pub(crate) cpu_us: u64,
    pub(crate) memory_bytes: u64,
    /// Commits of this process as a leader: batches, and cuts of the log.
    pub(crate) commits: u64,
    /// What it caused to be written to files, if the kernel says so.
    pub(crate) written_bytes: Option<u64>,
    /// How often it called the kernel to read and to write.
    pub(crate) system_calls: Option<u64>,
    /// How often its threads gave up their processors to wait.
    pub(crate) switches: Option<u64>,
}

/// Times of single operations, in microseconds.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Sequential {
    pub(crate) register_p50: f64,
    pub(crate) register_p99: f64,
    pub(crate) commit_p50: f64,
    /// Until a byte has come back from a task of another process.
    pub(crate) round_trip_p50: Option<f64>,
}

/// Times of single lookups, in nanoseconds: the median of the rounds.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lookups {
    pub(crate) local: f64,
    pub(crate) remote: f64,
    pub(crate) bare: f64,
}

/// What came of starts.
#[derive(Serialize, Deserialize)]
pub(crate) struct Starts {
    /// How many actors were spawned here.
    pub(crate) spawned: u32,
    /// How many callers were told that the actor is this node's, and that they started it.
    pub(crate) ours: u32,
}
