//! The scenarios by name.

use clap::ValueEnum;

use crate::oracle::Check;

/// A family of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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
    /// Clients wait until their session is trusted again.
    Callers,
    /// Ways, a donor or the store stay slow when everything else is healed.
    Sluggish,
    /// Settings that change while leaders do.
    Configured,
    /// Leaders that lose their sessions while they drain, and successors of which the leader has not read.
    Parting,
    /// A store that loses its latest commits, once or again.
    WentBack,
    /// Nodes of which a part panics, that of the session too.
    Failing,
    /// Nodes whose certificates say which names they may hold, and whether they lead; and certificates that are replaced.
    Permitted,
    /// Nodes that drain, and whose names go to others meanwhile.
    Moving,
    /// Nodes that die together, the leader and those that observe all sessions above all, or are cut off together, while little else goes wrong.
    Perishing,
    /// Clocks that drift apart faster than was promised. Must break P1.
    Drift,
}

impl Scenario {
    /// All that must hold.
    pub fn sound() -> Vec<Self> {
        let is_sound = |scenario: &Self| !matches!(scenario, Self::WentBack | Self::Drift);
        Self::value_variants().iter().copied().filter(is_sound).collect()
    }

    /// Whether enough seeds of it exercise a check: nobody drains where that is not drawn.
    pub fn exercises(self, check: Check) -> bool {
        match check {
            Check::NamesLast
            | Check::TurnedAway
            | Check::DrainerElected
            | Check::DrainedLed
            | Check::DrainedAlone
            | Check::DrainedLate => matches!(self, Self::Draining | Self::Moving),
            Check::DrainKnown | Check::DrainSaid => {
                matches!(self, Self::Draining | Self::Parting | Self::Moving)
            }
            Check::DrainedMoved | Check::DrainMoves | Check::OfferTold | Check::OfferMoved => {
                self == Self::Moving
            }
            Check::BuiltOnNewer => self == Self::Versions,
            Check::Configured | Check::RankedFirst => self == Self::Configured,
            Check::AskedAgain => self == Self::Callers,
            Check::Permitted | Check::NotPermitted | Check::MayLead => self == Self::Permitted,
            Check::FailedClosed => self == Self::Failing,
            Check::RaisedForALoss | Check::CountedOn | Check::WaitedOut | Check::WentBack => {
                self == Self::WentBack
            }
            _ => true,
        }
    }
}
