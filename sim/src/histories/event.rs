//! What a node does and is told, an event before and after everything.
//!
//! Moments are nanoseconds of a clock that all nodes of a history share and nobody sets.

use std::fmt;

use serde::{Deserialize, Serialize};

mod page;

pub use self::page::{Listed, Page};

/// A moment.
pub type At = u64;

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// A name for an actor.
    Register,
    /// A name, and that the actor is started only if nobody has it.
    Start,
    /// A name, from the actor that holds it.
    Take {
        /// The token of that actor.
        from: u64,
    },
    /// That the holder of a name says something else of itself.
    Update {
        /// Its token.
        token: u64,
        /// At which revision, if that matters.
        expected: Option<u64>,
        /// What it says from then on.
        says: u64,
    },
    /// A membership for an actor: a name of its own, which begins with that of the group.
    Join,
    /// A place in a semaphore, which is held by the answer: a name of its own, which begins with that of the semaphore.
    Acquire {
        /// How many may hold one.
        limit: u32,
    },
    /// That a name of this node goes to another one.
    Offer {
        /// The token under which it is held here.
        from: u64,
    },
    /// That a membership, or a place, is given up.
    Leave,
    /// That a name is given up.
    Unregister,
    /// Who holds a name, now.
    Consistent,
    /// Who holds a name, as this node knows.
    Local,
}

impl Ask {
    /// Whether an actor holds the name if the answer is yes.
    pub fn wants(self) -> bool {
        matches!(self, Self::Register | Self::Start | Self::Take { .. } | Self::Join | Self::Acquire { .. })
    }

    /// What it is, as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Register => "Register",
            Self::Start => "Start",
            Self::Take { .. } => "Take",
            Self::Update { .. } => "Update",
            Self::Join => "Join",
            Self::Acquire { .. } => "Acquire",
            Self::Offer { .. } => "Offer",
            Self::Leave => "Leave",
            Self::Unregister => "Unregister",
            Self::Consistent => "Consistent",
            Self::Local => "Local",
        }
    }
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The actor holds the name.
    Granted(u64),
    /// The actor was started, and holds the name.
    Bound {
        /// Under this token.
        token: u64,
        /// Since this revision.
        revision: u64,
    },
    /// The name has gone from another actor to this one.
    Moved {
        /// Under this token.
        token: u64,
        /// What the former holder gave, if it can be read.
        data: Option<u64>,
    },
    /// The name has gone to an actor of another node, as was asked.
    Went {
        /// The token under which that one holds it.
        token: u64,
        /// The node.
        to: String,
    },
    /// What it says of itself is changed, at this revision.
    Updated(u64),
    /// It was changed before, at this revision.
    Changed(u64),
    /// Another one does.
    Taken(u64),
    /// It is given up.
    Freed,
    /// It is held under this token.
    Found(u64),
    /// It is held so.
    Shown(Shown),
    /// Nobody holds it.
    Free,
    /// Nothing was done or learned, and why.
    Refused(String),
    /// Nobody knows yet, and why.
    Unknown(String),
}

impl Answer {
    /// Under which token the actor holds the name from now on.
    pub fn granted(&self) -> Option<u64> {
        match self {
            Self::Granted(token) | Self::Bound { token, .. } | Self::Moved { token, .. } => Some(*token),
            _ => None,
        }
    }

    /// Under which token the name was found held.
    pub fn found(&self) -> Option<u64> {
        match self {
            Self::Found(token) | Self::Shown(Shown { token, .. }) => Some(*token),
            _ => None,
        }
    }

    /// Which token somebody is known by it to hold.
    pub fn names(&self) -> Option<u64> {
        match self {
            Self::Taken(token) | Self::Went { token, .. } => Some(*token),
            _ => self.granted().or(self.found()),
        }
    }
}

/// How a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shown {
    /// The token.
    pub token: u64,
    /// Where it was changed last.
    pub revision: u64,
    /// Whether its actor is being started.
    pub starts: bool,
    /// What the holder says of itself.
    pub says: Option<u64>,
}

/// What a watch gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Saw {
    /// Nothing yet: it begins.
    Opened {
        /// How the names begin that it is for.
        prefix: String,
        /// Behind which position, if not with the present state.
        from: Option<u64>,
    },
    /// A part of the present state.
    Present {
        /// The name.
        name: String,
        /// How it is held.
        now: Shown,
    },
    /// The present state is complete.
    Current(u64),
    /// A name has changed.
    Change {
        /// The name.
        name: String,
        /// Where.
        position: u64,
        /// How it was held.
        was: Option<Shown>,
        /// How it is held.
        now: Option<Shown>,
        /// Why.
        why: String,
    },
    /// Nothing, up to a position.
    Bookmark(u64),
    /// Something was missed.
    Lagged,
    /// All is to be forgotten.
    Reset,
    /// The session is not trusted.
    Lapsed,
    /// It is trusted again.
    Resumed,
    /// Nothing more: it ends.
    Closed,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.token, self.revision)?;
        if self.starts {
            f.write_str(" starts")?;
        }
        self.says.map_or(Ok(()), |says| write!(f, " says {says}"))
    }
}

impl fmt::Display for Saw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { prefix, from: None } => write!(f, "opened for {prefix}"),
            Self::Opened { prefix, from: Some(from) } => write!(f, "opened for {prefix}, behind {from}"),
            Self::Present { name, now } => write!(f, "{name} {now}"),
            Self::Current(position) => write!(f, "current {position}"),
            Self::Change { name, position, was, now, why } => {
                write!(f, "{name} at {position}, {why}:")?;
                for (what, shown) in [("was", was), ("now", now)] {
                    if let Some(shown) = shown {
                        write!(f, " {what} {shown}")?;
                    }
                }
                Ok(())
            }
            Self::Bookmark(position) => write!(f, "bookmark {position}"),
            Self::Lagged => f.write_str("lagged"),
            Self::Reset => f.write_str("reset"),
            Self::Lapsed => f.write_str("lapsed"),
            Self::Resumed => f.write_str("resumed"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seated {
    /// Its token.
    pub token: u64,
    /// Its node.
    pub node: String,
    /// What it says of itself, which is its own.
    pub says: Option<u64>,
}

/// What a registered actor is told of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionTold {
    /// It is not trusted.
    Lapsed,
    /// It is trusted again.
    Resumed,
    /// It is over.
    Lost,
    /// The name is another actor's, who has taken it.
    Transferred,
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
        told: SessionTold,
    },
    /// An actor is about to be started for a name: the name is taken for it.
    Begun {
        /// When.
        at: At,
        /// Which actor it will be.
        actor: u64,
        /// For which name.
        name: String,
        /// Under which token.
        token: u64,
    },
    /// An actor is asked to say what goes with its name to another one. It does not act any more, unless it keeps the name.
    Gave {
        /// When.
        at: At,
        /// Which actor.
        actor: u64,
        /// Which name.
        name: String,
        /// What it says. Nobody says the same.
        data: u64,
    },
    /// Something of a watch.
    Watched {
        /// When.
        at: At,
        /// The number of the watch, among those of its process.
        watch: u64,
        /// What.
        saw: Saw,
        /// Up to where everything was given.
        passed: Option<u64>,
    },
    /// The members of a group, as this node knows, in their order.
    Members {
        /// When.
        at: At,
        /// The group.
        group: String,
        /// They.
        members: Vec<Seated>,
    },
    /// A page of names, as this node knows them.
    Paged {
        /// Before it asked.
        from: At,
        /// When it was answered.
        to: At,
        /// What it got.
        page: Page,
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
