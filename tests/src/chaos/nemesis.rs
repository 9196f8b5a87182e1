//! What is done to the nodes, their links, their clocks and their store: a file for each idea.

use std::time::Duration;

use callsign_sim::rng::Rng;

use super::world::World;
use crate::links::{Ends, both_ways};

mod clock;
mod cut;
mod etcd;
mod kill;
mod pair;
mod pause;
mod slow;
mod store;

macro_rules! kinds {
    ($($kind:ident $name:literal $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $(#[doc = $text] $kind,)* }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its name, for `--only`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// What it does.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$kind => $text,)* }
            }
        }
    };
}

kinds! {
    Kill "kill" "SIGKILL, and started again",
    Restart "restart" "SIGTERM, and started again",
    Pause "pause" "SIGSTOP for less than the lease",
    Freeze "freeze" "SIGSTOP for longer than the lease",
    CutWay "cut-way" "a link cut one way",
    Cut "cut" "a link cut both ways",
    Isolate "isolate" "a node cut off from all others, not from the store",
    Split "split" "two nodes cut off from the other three",
    Slow "slow" "links of a node slow",
    Lossy "lossy" "links of a node lossy, and breaking",
    Break "break" "connections of a node broken, again and again",
    StoreCut "store-cut" "the store cut off for one node, not its links",
    StoreMute "store-mute" "the answers of the store cut off for one node: what it asks for is done",
    StoreStop "store-stop" "the store stopped for all",
    Clock "clock" "the wall clock of one process set forward or back",
    EtcdKill "etcd-kill" "SIGKILL for etcd's leader, and started again",
    EtcdStop "etcd-stop" "SIGSTOP for etcd's leader",
    EtcdCut "etcd-cut" "one member of etcd cut off from the other two",
    EtcdQuorum "etcd-quorum" "two members of etcd killed: no majority",
    EtcdCompact "etcd-compact" "etcd compacted and defragmented, again and again",
    EtcdFull "etcd-full" "one member of etcd beyond its quota: all refuse writes",
    EtcdDisk "etcd-disk" "the disk of one member of etcd full: it ends by itself",
    PgKill "pg-kill" "SIGKILL for Postgres's primary, its standby promoted",
    PgCut "pg-cut" "Postgres's primary stopped, or cut off from the nodes or from its standby, which is promoted",
    PgTwice "pg-twice" "Postgres's primary back beside the standby that was promoted in its place",
}

/// At whom a fault is aimed.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The node.
    pub node: String,
    /// The others, in the order in which they are preferred.
    pub others: Vec<String>,
    /// For what else is to be chosen.
    pub draw: u64,
}

impl Aim {
    /// All ways between the node and these.
    fn ways(&self, others: &[String]) -> Vec<Ends> {
        others.iter().flat_map(|other| both_ways(&self.node, other)).collect()
    }
}

/// One idea.
trait Nemesis {
    /// Why it cannot be had here.
    fn missing(&self, _world: &World) -> Option<String> {
        None
    }

    /// Does it, and says what.
    fn begin(&self, world: &mut World, aim: &Aim) -> String;

    /// Called now and then while it lasts.
    fn go_on(&self, _world: &mut World, _aim: &Aim) {}

    /// Asked when it is time to undo it: else why it has not come to what it is there for.
    fn came(&self, _world: &mut World, _aim: &Aim) -> Result<(), String> {
        Ok(())
    }

    /// Undoes it.
    fn end(&self, world: &mut World, aim: &Aim);
}

impl Kind {
    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    fn nemesis(self) -> &'static dyn Nemesis {
        match self {
            Self::Kill => &kill::Kill,
            Self::Restart => &kill::Restart,
            Self::Pause | Self::Freeze => &pause::Pause,
            Self::CutWay => &cut::CutWay,
            Self::Cut => &cut::Cut,
            Self::Isolate => &cut::Isolate,
            Self::Split => &cut::Split,
            Self::Slow => &slow::Slow,
            Self::Lossy => &slow::Lossy,
            Self::Break => &slow::Break,
            Self::StoreCut => &store::StoreCut,
            Self::StoreMute => &store::Mute,
            Self::StoreStop => &store::StoreStop,
            Self::Clock => &clock::Shift,
            Self::EtcdKill => &etcd::EtcdKill,
            Self::EtcdStop => &etcd::EtcdStop,
            Self::EtcdCut => &etcd::EtcdCutOff,
            Self::EtcdQuorum => &etcd::Quorum,
            Self::EtcdCompact => &etcd::Compact,
            Self::EtcdFull => &etcd::Full,
            Self::EtcdDisk => &etcd::Disk,
            Self::PgKill => &pair::PairKill,
            Self::PgCut => &pair::PairCutOff,
            Self::PgTwice => &pair::Twice,
        }
    }

    /// Whether everybody feels it.
    pub fn hits_all(self) -> bool {
        self == Self::StoreStop || self.is_of_a_store()
    }

    /// Whether another primary of Postgres is promoted.
    pub fn fails_over(self) -> bool {
        matches!(self, Self::PgKill | Self::PgCut | Self::PgTwice)
    }

    /// Whether it is done to the servers of one kind of store.
    pub fn is_of_a_store(self) -> bool {
        matches!(
            self,
            Self::EtcdKill
                | Self::EtcdStop
                | Self::EtcdCut
                | Self::EtcdQuorum
                | Self::EtcdCompact
                | Self::EtcdFull
                | Self::EtcdDisk
        ) || self.fails_over()
    }

    /// Whether the process ends by it.
    pub fn ends_the_process(self) -> bool {
        matches!(self, Self::Kill | Self::Restart)
    }

    /// Whether the process cannot be aimed at again while it lasts.
    pub fn takes_the_process(self) -> bool {
        matches!(self, Self::Kill | Self::Restart | Self::Pause | Self::Freeze)
    }

    /// For how long, from a seed.
    pub fn lasts(self, lease: Duration, rng: &mut Rng) -> Duration {
        let between =
            |rng: &mut Rng, from: u32, to: u32| lease * from / 100 + rng.duration(lease * (to - from) / 100);
        match self {
            Self::Kill | Self::Restart => between(rng, 5, 130),
            Self::Pause => between(rng, 5, 70),
            Self::Freeze => between(rng, 150, 250),
            Self::StoreStop => between(rng, 10, 160),
            // With the default lease, 10 s, these are 30 s.
            Self::EtcdQuorum => lease * 3,
            _ => between(rng, 30, 160),
        }
    }

    /// Why it cannot be had here.
    pub fn missing(self, world: &World) -> Option<String> {
        self.nemesis().missing(world)
    }

    /// Does it, and says what.
    pub fn begin(self, world: &mut World, aim: &Aim) -> String {
        self.nemesis().begin(world, aim)
    }

    /// Goes on with it.
    pub fn go_on(self, world: &mut World, aim: &Aim) {
        self.nemesis().go_on(world, aim);
    }

    /// Else why it has not come to what it is there for.
    pub fn came(self, world: &mut World, aim: &Aim) -> Result<(), String> {
        self.nemesis().came(world, aim)
    }

    /// Undoes it.
    pub fn end(self, world: &mut World, aim: &Aim) {
        self.nemesis().end(world, aim);
    }
}
