//! Is what clients were told linearizable? A checker for our object: names, holders, fencing tokens.
//!
//! Own, because what there is does not fit. `todc-utils` panics on a call without an answer, and an outcome that
//! stays unknown is what we most want to see. Stateright's tester backtracks without memory and allows a thread one
//! call in flight.
//!
//! Linearizability is local: a history is linearizable if the history of each of its names is, so names are checked
//! one by one. For one name this is the algorithm of Wing and Gong, with Lowe's memory of (calls in order so far,
//! state). Tokens, which only grow, make it fast: see `linear/order.rs`.
//!
//! # The object
//!
//! A name is free, or held by a claimant under a token. Tokens of one name only grow. What is held has a revision: its token, until it
//! is updated; the revisions of one hold only grow.
//!
//! | call | answer | at one moment between call and return |
//! |---|---|---|
//! | register | granted | the name was free and is held under this new token; or the caller held it already, under this token |
//! | | taken | another held it, under that token |
//! | | unknown | it was granted at any time after the call, later than the return perhaps, or never |
//! | unregister | done | the target's hold ended, or it had none; a token that was never granted cannot be released |
//! | | unknown | as done, at any time after the call, or never |
//! | update | done | the name was held under the token, at the expected revision if there is one, and has this new revision |
//! | | changed | it was held under the token, and at this revision, which is not the expected one |
//! | | unknown | it was done at any time after the call, or never |
//! | move | done | the name was held under the former token, and is held by the claimant under this new one; or the claimant held it already, under this token |
//! | | unknown | it was done at any time after the call, or never |
//! | read | found, free | so it was, at that revision if it says one |
//! | free | | the system ended the hold of that token, or it had ended; without a return: at any time after, or never |
//! | any | refused | nothing happened, and nothing was learned |
//!
//! A call comes before another if it returned at a smaller stamp than the other was called at.

use std::fmt::{self, Display};

use order::{OrderSearch, Ordered};

mod explain;
mod order;
#[cfg(test)]
mod tests;

/// Who asks for a name: an actor, in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claimant {
    /// The session of its node.
    pub session: u64,
    /// The actor.
    pub actor: u64,
}

/// One call on one name, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// The stamp at which it began.
    pub call: u64,
    /// The stamp at which it ended, if it did. A stamp below `call` is read as `call`. An answer without a return
    /// was given at a time unknown.
    pub ret: Option<u64>,
    /// The call and its answer.
    pub what: What,
}

/// A call and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A claimant asks for the name.
    Register {
        /// Who asks.
        by: Claimant,
        /// What it was told.
        answer: Registered,
    },
    /// The name is given up.
    Unregister {
        /// Whose hold is to end.
        target: Target,
        /// What the caller was told.
        answer: Unregistered,
    },
    /// What is held is changed.
    Update {
        /// The hold.
        token: u64,
        /// The revision that it is to have before, if that matters.
        expected: Option<u64>,
        /// What the caller was told.
        answer: Updated,
    },
    /// What is held under a token goes to another claimant.
    Move {
        /// The hold that ends.
        from: u64,
        /// Who gets the name.
        by: Claimant,
        /// What the caller was told.
        answer: Moved,
    },
    /// A consistent read.
    Read {
        /// What the caller was told.
        answer: Seen,
    },
    /// The system ended a hold by itself: a session was closed, an actor ended.
    Free {
        /// The hold.
        token: u64,
    },
}

/// The answer to `Register`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Registered {
    /// The caller holds the name.
    Granted {
        /// The fencing token.
        token: u64,
    },
    /// Another holds it.
    Taken {
        /// The holder's token.
        token: u64,
    },
    /// No answer, or none that says.
    Unknown,
    /// It had no effect and will have none.
    Refused,
}

/// Whose hold an `Unregister` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The one under this token.
    Token(u64),
    /// That of this claimant, whatever its token.
    By(Claimant),
}

/// The answer to `Unregister`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unregistered {
    /// The hold has ended.
    Done,
    /// No answer, or none that says.
    Unknown,
    /// It had no effect and will have none.
    Refused,
}

/// The answer to `Update`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Updated {
    /// It is changed.
    Done {
        /// Its revision from then on.
        revision: u64,
    },
    /// Another change came before.
    Changed {
        /// Its revision.
        revision: u64,
    },
    /// No answer, or none that says.
    Unknown,
    /// It had no effect and will have none.
    Refused,
}

/// The answer to `Move`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moved {
    /// The name is the claimant's.
    Done {
        /// Its fencing token from then on.
        token: u64,
    },
    /// No answer, or none that says.
    Unknown,
    /// It had no effect and will have none.
    Refused,
}

/// The answer to `Read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    /// The name is held.
    Found {
        /// The holder's token.
        token: u64,
        /// Its revision, if the answer says it.
        revision: Option<u64>,
    },
    /// Nobody holds it.
    Free,
    /// No answer.
    Refused,
}

/// What the checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum LinearVerdict {
    /// Every name's calls can be put in order.
    Linearizable(Stats),
    /// Those of one name cannot.
    NotLinearizable(Box<Offence>),
    /// It would take too much work to say.
    GaveUp {
        /// The name.
        name: String,
        /// How many partial orders were tried.
        explored: usize,
    },
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Names.
    pub names: usize,
    /// Calls.
    pub ops: usize,
    /// Partial orders tried.
    pub explored: usize,
}

/// Calls on a name that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// The name.
    pub name: String,
    /// Calls whose answers cannot all be true, whatever the others on this name were told; as few as were found, in
    /// the order of their calls. The last to return is the first answer that cannot be explained.
    pub ops: Vec<Op>,
    /// How many other calls there are on this name up to then.
    pub others: usize,
}

/// Checks histories, and keeps its buffers from one to the next.
#[derive(Debug)]
pub struct Checker {
    limit: usize,
    order: OrderSearch,
}

impl Default for Checker {
    fn default() -> Self {
        Checker::with_limit(1_000_000)
    }
}

impl Checker {
    /// A checker that gives up a name after so many partial orders.
    pub fn with_limit(limit: usize) -> Self {
        Checker { limit, order: OrderSearch::default() }
    }

    /// Checks a history, given as the calls of each name, in any order.
    pub fn check<'a, N: Display>(&mut self, names: impl IntoIterator<Item = (N, &'a [Op])>) -> LinearVerdict {
        let mut stats = Stats::default();
        for (name, ops) in names {
            match self.order.find(ops, self.limit) {
                Ordered::Yes { explored } => {
                    stats.names += 1;
                    stats.ops += ops.len();
                    stats.explored += explored;
                }
                Ordered::No => {
                    let (core, others) = explain::core(ops, &mut self.order, self.limit);
                    return LinearVerdict::NotLinearizable(Box::new(Offence {
                        name: name.to_string(),
                        ops: core,
                        others,
                    }));
                }
                Ordered::GaveUp { explored } => {
                    return LinearVerdict::GaveUp { name: name.to_string(), explored };
                }
            }
        }
        LinearVerdict::Linearizable(stats)
    }
}

/// Checks one history; see [`Checker::check`].
pub fn check<'a, N: Display>(names: impl IntoIterator<Item = (N, &'a [Op])>) -> LinearVerdict {
    Checker::default().check(names)
}

impl Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}: no order explains these answers, given to {} calls", self.name, self.ops.len())?;
        for op in &self.ops {
            writeln!(f, "  {op}")?;
        }
        write!(f, "  ({} other calls on this name up to then do not matter)", self.others)
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ret {
            Some(ret) => write!(f, "{:>5} to {ret:<5} {}", self.call, self.what),
            None => write!(f, "{:>5} to ?     {}", self.call, self.what),
        }
    }
}

impl Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Register { by, answer } => write!(f, "register by {by}: {answer}"),
            What::Unregister { target, answer } => {
                match target {
                    Target::Token(token) => write!(f, "unregister {token}: ")?,
                    Target::By(by) => write!(f, "unregister by {by}: ")?,
                }
                f.write_str(match answer {
                    Unregistered::Done => "done",
                    Unregistered::Unknown => "unknown",
                    Unregistered::Refused => "refused",
                })
            }
            What::Update { token, expected, answer } => {
                write!(f, "update {token}")?;
                if let Some(expected) = expected {
                    write!(f, " at {expected}")?;
                }
                match answer {
                    Updated::Done { revision } => write!(f, ": done, {revision}"),
                    Updated::Changed { revision } => write!(f, ": changed before, {revision}"),
                    Updated::Unknown => f.write_str(": unknown"),
                    Updated::Refused => f.write_str(": refused"),
                }
            }
            What::Move { from, by, answer } => {
                write!(f, "{from} to {by}: ")?;
                match answer {
                    Moved::Done { token } => write!(f, "done, {token}"),
                    Moved::Unknown => f.write_str("unknown"),
                    Moved::Refused => f.write_str("refused"),
                }
            }
            What::Read { answer: Seen::Found { token, revision: Some(revision) } } => {
                write!(f, "read: held under {token}, changed at {revision}")
            }
            What::Read { answer: Seen::Found { token, revision: None } } => {
                write!(f, "read: held under {token}")
            }
            What::Read { answer: Seen::Free } => f.write_str("read: free"),
            What::Read { answer: Seen::Refused } => f.write_str("read: refused"),
            What::Free { token } => write!(f, "{token} freed by the system"),
        }
    }
}

impl Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Registered::Granted { token } => write!(f, "granted {token}"),
            Registered::Taken { token } => write!(f, "taken under {token}"),
            Registered::Unknown => f.write_str("unknown"),
            Registered::Refused => f.write_str("refused"),
        }
    }
}

impl Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor {} of session {}", self.actor, self.session)
    }
}
