//! Everything that can happen in a world.

use std::time::Duration;

use callsign::cores::Queue;
use callsign_elector::settings::Settings;
use callsign_transport::Permits;
use serde::{Deserialize, Serialize};

use super::{NodeId, Want};

/// Which core of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CoreId {
    /// The node's session.
    Session,
    /// The elector.
    Elector,
    /// The member.
    Member,
    /// Which link counts, and whom to dial.
    Links,
    /// The ends of connections.
    Ends,
    /// The clients that wait.
    Callers,
}

/// What the store makes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fate {
    /// Done, and answered.
    Done,
    /// Done, and answered later.
    Late,
    /// A commit: refused, though nothing was in its way.
    Conflict,
    /// A commit: done, and nobody knows.
    UnknownDone,
    /// A commit: not done, never will be, and nobody knows.
    UnknownLost,
    /// A commit: given up by the client; it may land later, or never.
    UnknownLater,
    /// Refused: the store cannot be reached.
    Unavailable,
    /// Done, and the answer never comes.
    Mute,
    /// A commit: it may land later, or never, and no answer ever comes.
    MuteLater,
}

/// One thing that happens. `nth` counts from the oldest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// The next frame of a lane arrives, on the `nth` connection between the two.
    Frame {
        /// Who sent it.
        from: NodeId,
        /// Who gets it.
        to: NodeId,
        /// Which of their connections.
        nth: u8,
        /// From the bulk lane.
        bulk: bool,
    },
    /// A core takes what waits first in a queue of its process.
    Inbox {
        /// The node.
        node: NodeId,
        /// The queue.
        queue: Queue,
    },
    /// The member has taken all inputs that waited.
    Idle {
        /// The node.
        node: NodeId,
    },
    /// The store gets to an operation.
    Store {
        /// Whose.
        node: NodeId,
        /// Which of its operations.
        nth: u8,
        /// What becomes of it.
        fate: Fate,
    },
    /// The answer to an operation arrives.
    Answered {
        /// Whose.
        node: NodeId,
        /// Which of its operations.
        nth: u8,
    },
    /// A transaction that was given up lands.
    Land {
        /// Which.
        nth: u8,
    },
    /// A transaction that was given up never lands.
    Vanish {
        /// Which.
        nth: u8,
    },
    /// A watch fires.
    Watch {
        /// Whose.
        node: NodeId,
    },
    /// A client takes the answer that is on its way to it.
    TakeAnswer {
        /// Where.
        node: NodeId,
    },
    /// A time asked for has come.
    Wake {
        /// Whose.
        node: NodeId,
        /// Of which core.
        core: CoreId,
    },
    /// Time passes.
    Tick {
        /// How much.
        by: Duration,
    },
    /// A process starts.
    Start {
        /// Where.
        node: NodeId,
    },
    /// A process joins the registry, where nodes do so late.
    Join {
        /// Where.
        node: NodeId,
    },
    /// SIGKILL.
    Crash {
        /// Where.
        node: NodeId,
    },
    /// The machine is without power: nobody closes its connections.
    PowerOff {
        /// Where.
        node: NodeId,
    },
    /// A part of the node panics: the node trusts nothing any more, closes its session, and ends.
    Fail {
        /// Where.
        node: NodeId,
        /// Whether the driver of the session is that part, so that another one has to close it.
        of_session: bool,
    },
    /// The store is as it was before the latest of its commits.
    GoBack {
        /// How many are lost.
        by: u8,
    },
    /// A watch is lost: it never fires.
    LoseWatch {
        /// Whose.
        node: NodeId,
    },
    /// A peer says, over the link, that it leads in an epoch that there will never be.
    Lie {
        /// Who.
        from: NodeId,
        /// To whom.
        to: NodeId,
    },
    /// SIGSTOP.
    Pause {
        /// Where.
        node: NodeId,
    },
    /// SIGCONT.
    Resume {
        /// Where.
        node: NodeId,
    },
    /// A connection breaks.
    Break {
        /// One end.
        a: NodeId,
        /// The other.
        b: NodeId,
        /// Which of their connections.
        nth: u8,
        /// How many of the frames under way still arrive, at most, in each direction.
        keep: u8,
    },
    /// From now on nothing arrives on this way.
    Block {
        /// From here.
        from: NodeId,
        /// To there.
        to: NodeId,
    },
    /// The way is free again: what waited arrives.
    Unblock {
        /// From here.
        from: NodeId,
        /// To there.
        to: NodeId,
    },
    /// The store cannot be reached from a node, or again.
    Outage {
        /// The node.
        node: NodeId,
        /// Whether it begins.
        is_out: bool,
    },
    /// The store refuses commits to everybody, while reads go on; or takes them again.
    Refuse {
        /// Whether it begins.
        is_on: bool,
    },
    /// No lane of a link is full any more, as long as nobody lets thousands of messages wait.
    Widen,
    /// A node's clock goes at another rate.
    Rate {
        /// The node.
        node: NodeId,
        /// How many millionths faster than true time.
        ppm: i32,
    },
    /// A client calls.
    Call {
        /// Where.
        node: NodeId,
        /// What it wants.
        want: Want,
    },
    /// A start that runs comes to its end.
    EndStart {
        /// Where.
        node: NodeId,
        /// Which of those that run.
        nth: u8,
    },
    /// An actor that holds or asks for a name ends.
    EndActor {
        /// Where.
        node: NodeId,
        /// Which of those that are watched.
        nth: u8,
    },
    /// Whoever leads there is asked to give up the seat.
    Resign {
        /// Where.
        node: NodeId,
    },
    /// Something is to be set for all members.
    Configure {
        /// Which node is asked.
        node: NodeId,
        /// What it is to set.
        change: Settings,
    },
    /// The node leaves, without waiting for anything.
    Leave {
        /// Which.
        node: NodeId,
    },
    /// The node is asked to end: it drains, and leaves then.
    Drain {
        /// Which.
        node: NodeId,
    },
    /// A node gets another certificate.
    Certify {
        /// Which.
        node: NodeId,
        /// What it may do by it.
        permits: Permits,
    },
    /// An application resolves an address.
    Refer {
        /// Where.
        node: NodeId,
        /// Which of those that it knows.
        nth: u8,
    },
    /// An application drops its references to an actor.
    DropReference {
        /// Where.
        node: NodeId,
        /// Which of the references there.
        nth: u8,
    },
    /// An application sends a message to an actor of another node.
    Cast {
        /// Where.
        node: NodeId,
        /// By which of the references there.
        nth: u8,
    },
    /// What there is to say of actors goes onto a link.
    Speak {
        /// The node that says it.
        node: NodeId,
        /// On which of the links that have room for it.
        nth: u8,
    },
    /// The monitor of an actor that has ended says so.
    NoticeEnd {
        /// Where.
        node: NodeId,
    },
}

impl Action {
    /// Whether somebody or something outside the protocol did it.
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Store { fate, .. } => !matches!(fate, Fate::Done | Fate::Late),
            Self::Land { .. }
            | Self::Start { .. }
            | Self::Crash { .. }
            | Self::PowerOff { .. }
            | Self::GoBack { .. }
            | Self::Fail { .. }
            | Self::LoseWatch { .. }
            | Self::Lie { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::Break { .. }
            | Self::Block { .. }
            | Self::Unblock { .. }
            | Self::Outage { .. }
            | Self::Refuse { .. }
            | Self::Widen
            | Self::Rate { .. } => true,
            _ => false,
        }
    }

    /// Its kind, for counts.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Frame { bulk: false, .. } => "frame",
            Self::Frame { bulk: true, .. } => "bulk frame",
            Self::Inbox { .. } => "inbox",
            Self::Idle { .. } => "idle",
            Self::Store { fate: Fate::Done, .. } => "store",
            Self::Store { fate: Fate::Late, .. } => "store, late answer",
            Self::Store { fate: Fate::Conflict, .. } => "spurious conflict",
            Self::Store { fate: Fate::UnknownDone, .. } => "unknown, done",
            Self::Store { fate: Fate::UnknownLost, .. } => "unknown, lost",
            Self::Store { fate: Fate::UnknownLater, .. } => "unknown, given up",
            Self::Store { fate: Fate::Unavailable, .. } => "unavailable",
            Self::Store { fate: Fate::Mute, .. } => "done, never answered",
            Self::Store { fate: Fate::MuteLater, .. } => "given up, never answered",
            Self::Answered { .. } => "answered",
            Self::Land { .. } => "landed later",
            Self::Vanish { .. } => "never landed",
            Self::Watch { .. } => "watch",
            Self::TakeAnswer { .. } => "take-answer",
            Self::Wake { .. } => "wake",
            Self::Tick { .. } => "tick",
            Self::Start { .. } => "start",
            Self::Join { .. } => "join",
            Self::Crash { .. } => "crash",
            Self::PowerOff { .. } => "power off",
            Self::GoBack { .. } => "the store goes back",
            Self::Fail { of_session: false, .. } => "a part panics",
            Self::Fail { of_session: true, .. } => "the session's driver panics",
            Self::LoseWatch { .. } => "watch lost",
            Self::Lie { .. } => "lie",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::Break { .. } => "break",
            Self::Block { .. } => "block",
            Self::Unblock { .. } => "unblock",
            Self::Outage { is_out: true, .. } => "outage",
            Self::Outage { is_out: false, .. } => "outage over",
            Self::Refuse { is_on: true } => "commits refused",
            Self::Refuse { is_on: false } => "commits taken again",
            Self::Widen => "lanes have room again",
            Self::Rate { .. } => "clock rate",
            Self::Call { want, .. } => want.kind(),
            Self::EndStart { .. } => "start of an actor ends",
            Self::EndActor { .. } => "actor ends",
            Self::Resign { .. } => "resign",
            Self::Configure { .. } => "configure",
            Self::Leave { .. } => "leave",
            Self::Drain { .. } => "drain",
            Self::Certify { .. } => "another certificate",
            Self::Refer { .. } => "resolve an address",
            Self::DropReference { .. } => "drop a reference",
            Self::Cast { .. } => "message to an actor",
            Self::Speak { .. } => "words of actors",
            Self::NoticeEnd { .. } => "end of an actor noticed",
        }
    }
}
