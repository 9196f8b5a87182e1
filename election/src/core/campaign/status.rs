//! What a campaign says about itself.

use std::{fmt, time::Duration};

use crate::{
    core::term::Term,
    oracle::{Fault, Grant, Refusal},
    role::Lost,
};

/// What a campaign does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// It has no term, and claims one from time to time.
    Following,
    /// It has a term, and its role is taking it up.
    Activating,
    /// It has a term, and its role is active.
    Leading,
    /// Its term is over for it, and its role is stopping.
    Stopping,
    /// Its role has stopped, and the seat is being given back.
    Releasing,
    /// It ends, has no term, and asks that nothing of it is left with the oracle.
    Leaving,
    /// It has ended.
    Over,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Following => "following",
            Self::Activating => "activating",
            Self::Leading => "leading",
            Self::Stopping => "stopping",
            Self::Releasing => "releasing",
            Self::Leaving => "leaving",
            Self::Over => "over",
        })
    }
}

/// Why a grant was not used. The term was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It came when its window was over already.
    #[error("the grant came {late:?} after the end of its window of {window:?}")]
    TooLate {
        /// How long it is trusted, from the start of the attempt.
        window: Duration,
        /// How long ago that ended.
        late: Duration,
    },
    /// Too little is left of its validity for any use.
    #[error(
        "a grant valid for {validity:?} is trusted for {window:?}: margin {margin:?} and stop budget {stop_budget:?} \
         leave less than {needed:?}"
    )]
    TooShort {
        /// What the oracle said.
        validity: Duration,
        /// How long it would be trusted.
        window: Duration,
        /// The margin of the timing.
        margin: Duration,
        /// The stop budget of the timing.
        stop_budget: Duration,
        /// The least window.
        needed: Duration,
    },
    /// The oracle only advises, and said `UntilRevoked`: nothing could ever stop a writer of an older term.
    #[error("an oracle without a fence granted a term that no clock ends")]
    UnfencedForever,
    /// A refresh was answered with a grant of another term.
    #[error("a refresh was answered with a grant of another term")]
    OtherTerm,
}

/// The last thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The oracle did not decide.
    #[error(transparent)]
    Fault(Fault),
    /// The oracle refused, for another reason than that somebody leads.
    #[error("the oracle refused")]
    Refused(#[source] Refusal),
    /// The oracle granted something that cannot be used.
    #[error(transparent)]
    Unusable(Unusable),
    /// The role failed to take up the term.
    #[error("the role failed: {0}")]
    Role(String),
    /// The seat could not be given back: it stays taken until its lease ends.
    #[error("the seat was not given back: {0}")]
    NotReleased(String),
    /// A part of the campaign panicked, or its runtime ended: it has ended without giving anything back, and does not take part
    /// any more. What it held stays taken until its lease ends.
    #[error("the campaign died: {0}")]
    Died(String),
}

/// A campaign at one moment. Made without waiting for anything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CampaignStatus<F> {
    /// What it does.
    pub phase: Phase,
    /// Its own grant, from the moment it came until the role has stopped.
    pub grant: Option<Grant<F>>,
    /// How much longer it leads if no refresh comes through. Zero if it does not lead, or did until now; `Duration::MAX`
    /// if no clock ends it.
    pub trust_left: Duration,
    /// Who leads, as far as the oracle last said; itself, if it does.
    pub leader: Option<Term>,
    /// Why its last term ended.
    pub lost: Option<Lost>,
    /// What went wrong last. Cleared by the next answer of the oracle that has nothing wrong with it.
    pub trouble: Option<Trouble>,
}
