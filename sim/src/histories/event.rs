//! What a node does and is told, an event before and after everything.
//!
//! Moments are nanoseconds of a clock that all nodes of a history share and nobody sets.

use serde::{Deserialize, Serialize};

/// A moment.
pub type At = u64;

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// A name for an actor.
    Register,
    /// That a name is given up.
    Unregister,
    /// Who holds a name, now.
    Consistent,
    /// Who holds a name, as this node knows.
    Local,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The actor holds the name.
    Granted(u64),
    /// Another one does.
    Taken(u64),
    /// It is given up.
    Freed,
    /// It is held under this token.
    Found(u64),
    /// Nobody holds it.
    Free,
    /// Nothing was done or learned, and why.
    Refused(String),
    /// Nobody knows yet, and why.
    Unknown(String),
}

/// What a registered actor is told of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// It is not trusted.
    Lapsed,
    /// It is trusted again.
    Resumed,
    /// It is over.
    Lost,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A process has joined.
    Started {
        /// When.
        at: At,
        /// As which node.
        node: String,
        /// In which incarnation.
        incarnation: u64,
    },
    /// A client is about to ask.
    Asked {
        /// When.
        at: At,
        /// The number of its call.
        call: u64,
        /// For which actor, of those of its process; 0 for none.
        actor: u64,
        /// About which name.
        name: String,
        /// What.
        ask: Ask,
    },
    /// A client was answered.
    Told {
        /// When.
        at: At,
        /// The number of its call.
        call: u64,
        /// What.
        answer: Answer,
    },
    /// An actor has asked `check()`, which passed, and acts.
    Acted {
        /// Before it asked.
        from: At,
        /// When it had passed.
        to: At,
        /// Which actor.
        actor: u64,
        /// Under which name.
        name: String,
        /// With which token.
        token: u64,
    },
    /// An actor ends, or is about to be ended.
    Ended {
        /// When.
        at: At,
        /// Which.
        actor: u64,
        /// Whether its client ends it. Otherwise the registry stops it, if its client did not before.
        by_client: bool,
    },
    /// An actor was told of its session.
    Noticed {
        /// When.
        at: At,
        /// Which actor.
        actor: u64,
        /// What.
        told: Told,
    },
    /// Its session may not be trusted: from now on, or until now. It may be lost, and an actor that was granted nothing is not told.
    Lapsed {
        /// When.
        at: At,
    },
    /// The leader of the singleton has asked `check()`, which passed.
    Led {
        /// Before it asked.
        from: At,
        /// When it had passed.
        to: At,
        /// In which epoch.
        epoch: u64,
    },
    /// What the node knows has changed.
    Seen {
        /// When.
        at: At,
        /// How far the wall clock is ahead of the boot-time clock, in milliseconds.
        wall: i64,
        /// The epoch.
        epoch: u64,
        /// Who leads.
        leader: Option<String>,
        /// Whether its replica is complete.
        synced: bool,
    },
    /// It is about to leave in good order.
    Leaving {
        /// When.
        at: At,
    },
    /// Clients have stopped, and all that is to be kept is held.
    Quiet {
        /// When.
        at: At,
    },
    /// Everything that is to be kept was read once more.
    Done {
        /// When.
        at: At,
    },
}
