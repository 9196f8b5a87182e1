//! What may happen. A run is a list of these: who draws them simulates, who reads them from a file replays.

use serde::{Deserialize, Serialize};

/// A machine, by its number.
pub type Slot = u8;

/// Which of a member's two conversations with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Channel {
    /// What the campaign asked for.
    Oracle,
    /// A look at the records that were watched.
    Watch,
}

/// What becomes of something that the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ElectionFate {
    /// It is done.
    Done,
    /// It is refused for no reason.
    Conflict,
    /// It is done, and the answer is "unknown".
    UnknownDone,
    /// It is not done, and the answer is "unknown".
    UnknownLost,
    /// The answer is "unknown", and it may still be done.
    UnknownLater,
    /// It is certainly not done.
    Unavailable,
}

/// What somebody administers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Takes claims again.
    Enable,
    /// Takes none: the leader stops in good order, or its term is over.
    Disable {
        /// At once.
        stop: bool,
    },
    /// Another lease and lock delay, in milliseconds.
    #[allow(missing_docs)]
    Configure { lease: u32, lock_delay: u32 },
    /// Whoever leads is asked to resign.
    RequestResign,
    /// Silent candidates are removed.
    Evict,
}

/// Something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs)] // `at`: on which machine; `nth`: which of several
pub enum ElectionAction {
    /// True time passes, in nanoseconds.
    Pass { nanos: u64 },
    /// A process starts, with a fresh incarnation.
    Start { at: Slot },
    /// SIGKILL.
    Crash { at: Slot },
    /// SIGSTOP.
    Pause { at: Slot },
    /// SIGCONT.
    Continue { at: Slot },
    /// The machine sleeps.
    Suspend { at: Slot },
    /// It wakes.
    Resume { at: Slot },
    /// The store cannot be reached from there, or again.
    Outage { at: Slot, is_out: bool },
    /// The campaign's timer fires.
    Wake { at: Slot },
    /// The store does what it was asked.
    Reach { at: Slot, channel: Channel, fate: ElectionFate },
    /// The answer arrives.
    Deliver { at: Slot, channel: Channel },
    /// A watch fires: the member looks at the records.
    Look { at: Slot },
    /// What the role is doing ends; well or not.
    Role { at: Slot, well: bool },
    /// The role's work ends by itself.
    Exit { at: Slot },
    /// The worker acts, if it may.
    Act { at: Slot },
    /// A write reaches the sink.
    Sink { nth: u8 },
    /// A transaction that was given up is done all the same.
    Land { nth: u8 },
    /// It never will be.
    Vanish { nth: u8 },
    /// Somebody subscribes.
    Subscribe { at: Slot },
    /// All subscribers take what waits for them.
    TakeTransitions { at: Slot },
    /// The process is asked to give its term up: this one, or whichever.
    Resign { at: Slot, exact: bool },
    /// The campaign is told that the seat may have changed.
    Poke { at: Slot },
    /// The campaign stops in good order.
    Stop { at: Slot },
    /// The member gets another priority.
    Priority { at: Slot, priority: u32 },
    /// Somebody administers.
    Admin { order: Order },
    /// The seat's record is lost.
    LoseSeat,
}

impl ElectionAction {
    /// A word for its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pass { .. } => "pass",
            Self::Start { .. } => "start",
            Self::Crash { .. } => "crash",
            Self::Pause { .. } => "pause",
            Self::Continue { .. } => "continue",
            Self::Suspend { .. } => "suspend",
            Self::Resume { .. } => "resume",
            Self::Outage { .. } => "outage",
            Self::Wake { .. } => "wake",
            Self::Reach { fate, .. } => match fate {
                ElectionFate::Done => "store: done",
                ElectionFate::Conflict => "store: conflict",
                ElectionFate::UnknownDone => "store: unknown, done",
                ElectionFate::UnknownLost => "store: unknown, lost",
                ElectionFate::UnknownLater => "store: unknown, later",
                ElectionFate::Unavailable => "store: unavailable",
            },
            Self::Deliver { .. } => "answer",
            Self::Look { .. } => "look",
            Self::Role { well: true, .. } => "role done",
            Self::Role { well: false, .. } => "role failed",
            Self::Exit { .. } => "role exited",
            Self::Act { .. } => "act",
            Self::Sink { .. } => "write",
            Self::Land { .. } => "land",
            Self::Vanish { .. } => "vanish",
            Self::Subscribe { .. } => "subscribe",
            Self::TakeTransitions { .. } => "take-transitions",
            Self::Resign { .. } => "resign",
            Self::Poke { .. } => "poke",
            Self::Stop { .. } => "stop",
            Self::Priority { .. } => "priority",
            Self::Admin { .. } => "admin",
            Self::LoseSeat => "lose the seat's record",
        }
    }
}
