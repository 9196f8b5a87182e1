//! The edge that can be exchanged: who decides the election, and how it is asked.
//!
//! An oracle is a thin driver. It has no timer loop of its own: the campaign asks it, one attempt at a time, and
//! measures trust by its own clock, from before it asked.

use std::{future::Future, time::Duration};

use callsign_store::ids::{ElectionName, Epoch, Incarnation, MemberId, Nonce};
use futures::stream::BoxStream;

use crate::core::term::{Fence, Term};

/// How long a grant may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Validity {
    /// For this long, counted from the start of the attempt that brought it. The campaign takes margin, drift and the
    /// time to stop the work off it.
    For(Duration),
    /// No clock ends it: until an event or the fence says otherwise. Only with a sink that checks the fence.
    UntilRevoked,
}

/// The seat is yours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant<F> {
    /// The term it belongs to.
    pub term: Term,
    /// What a sink compares; `()` from an oracle that only advises.
    pub fence: F,
    /// How long it may be believed.
    pub validity: Validity,
    /// When to refresh it, counted from the start of the attempt. `None`: never by timer.
    pub refresh_in: Option<Duration>,
}

/// Why the seat was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Somebody else has it.
    #[error("somebody else has the seat")]
    Held,
    /// Another process takes part under the same [`MemberId`].
    #[error("another process takes part under the same id")]
    DuplicateIdentity,
    /// The election is disabled.
    #[error("the election is disabled")]
    Disabled,
    /// The member has not registered as a candidate, or was evicted.
    #[error("the member is not registered as a candidate")]
    Unregistered,
    /// The member's priority is 0, or it lacks what the election asks for.
    #[error("the member must not be elected: its priority is 0, or it lacks what the election asks for")]
    Ineligible,
    /// Somebody of better rank is there.
    #[error("a candidate of better rank is there")]
    Outranked,
    /// The seat is vacant, and may be taken only later: its last holder did not resign, or did so for somebody better.
    #[error("the seat may be taken only later")]
    TooEarly,
    /// The term that was to be refreshed is over.
    #[error("the term is over")]
    TermOver,
}

/// The seat is not yours. Certain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Denial {
    /// Why.
    pub why: Refusal,
    /// Who has it, if anybody.
    pub leader: Option<Term>,
    /// When to ask again, if the oracle knows better than the campaign's poll: when the seat may be had, or earlier, where
    /// asking is also how a candidate is heard. So it says nothing certain about how long the seat stays empty.
    pub retry_in: Option<Duration>,
}

/// What an oracle knows for certain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict<F> {
    /// The seat is yours.
    Granted(Grant<F>),
    /// It is not.
    Denied(Denial),
}

/// Nothing is known: neither "granted" nor "denied".
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It may work the next time.
    #[error("the oracle did not decide: {cause}")]
    Transient {
        /// Whether the attempt may have been carried out, or still may be. The same [`Attempt`] is made again then.
        maybe_committed: bool,
        /// What happened.
        cause: String,
    },
    /// It will not work, however often it is tried.
    #[error("the oracle cannot decide: {0}")]
    Fatal(String),
}

impl Fault {
    /// What happened.
    #[must_use]
    pub fn cause(&self) -> &str {
        match self {
            Self::Transient { cause, .. } | Self::Fatal(cause) => cause,
        }
    }
}

/// One attempt to get or to keep the seat. Made again with the same nonce until its outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// By which an attempt is recognised that was carried out although its answer was lost.
    pub nonce: Nonce,
}

/// What an oracle is told before it is asked anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The election.
    pub election: ElectionName,
    /// Who takes part.
    pub member: MemberId,
    /// Its incarnation, fresh for this campaign.
    pub incarnation: Incarnation,
}

/// Whether the oracle takes part at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Init {
    /// It does.
    Ready,
    /// There is no election here; the campaign does not start, and that is no error.
    Ignore,
}

/// Something that an oracle noticed by itself. It only brings the next attempt forward, or asks the leader to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// The seat may have changed: ask soon.
    Wakeup,
    /// Somebody asks the leader to resign: of this epoch, or whoever leads.
    ResignRequested {
        /// The epoch that is meant; a leader of another ignores it.
        epoch: Option<Epoch>,
    },
    /// The term of this epoch is over: the authority says so.
    Revoked {
        /// The epoch that is over.
        epoch: Epoch,
    },
}

/// What a message from outside comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reaction<F> {
    /// Nothing.
    Ignore,
    /// Ask soon.
    Poll,
    /// The seat is yours, or not.
    Verdict(Verdict<F>),
}

/// Who decides the election.
///
/// A future that is dropped before it answers has an unknown outcome; the campaign makes the attempt again with the
/// same nonce. At most one of `claim`, `refresh`, `abdicate`, `leave`, `rivals`, `tidy` and `handle_info` runs at
/// a time.
pub trait Oracle: Send + 'static {
    /// [`Fence`], or `()` for an oracle that only advises.
    type Fence: Clone + PartialEq + Send + Sync + 'static;
    /// What [`handle_info`](Self::handle_info) takes.
    type Info: Send + 'static;

    /// Prepares: makes tables, looks around. `Ignore` and a fatal fault keep the campaign from starting. After a transient
    /// one it starts, and this is called again before the next claim: an authority that is down at boot is waited for.
    fn init(&mut self, context: &Context) -> impl Future<Output = Result<Init, Fault>> + Send {
        let _ = context;
        async { Ok(Init::Ready) }
    }

    /// Asks for the seat.
    fn claim(&mut self, attempt: Attempt)
    -> impl Future<Output = Result<Verdict<Self::Fence>, Fault>> + Send;

    /// Asks to keep it. `held` is the last grant of the term. A grant of another term is no refresh.
    ///
    /// An answer may be lost. So an authority that makes its leases shorter lets this one stand as long as `held` says,
    /// and grants the shorter one: a refresh that comes with the shorter grant shows that it arrived.
    fn refresh(
        &mut self,
        attempt: Attempt,
        held: &Grant<Self::Fence>,
    ) -> impl Future<Output = Result<Verdict<Self::Fence>, Fault>> + Send;

    /// Gives back the term of `held`, and no other. Whether it was still there to give. Called when the work has ended.
    fn abdicate(&mut self, held: &Grant<Self::Fence>) -> impl Future<Output = Result<bool, Fault>> + Send {
        let _ = held;
        async { Ok(false) }
    }

    /// Gives back the term of `held`, if there is one, and removes all else that the authority has of this member: it does not take
    /// part any more. Whether a term was still there to give. Called at the end, when the work has ended, also of a member that
    /// never led. If it fails, it is tried some times more, and what is left must cost nobody but some space.
    ///
    /// By default it abdicates, if there is a term.
    fn leave(
        &mut self,
        held: Option<&Grant<Self::Fence>>,
    ) -> impl Future<Output = Result<bool, Fault>> + Send {
        async move {
            match held {
                Some(held) => self.abdicate(held).await,
                None => Ok(false),
            }
        }
    }

    /// Removes what the authority has of members that are gone for good, if it is time for that. Asked between two refreshes of a
    /// member that leads, and given up as soon as a refresh is due. After how long to ask again; `None`: not in this term.
    ///
    /// By default there is nothing to remove.
    fn tidy(&mut self) -> impl Future<Output = Result<Option<Duration>, Fault>> + Send {
        async { Ok(None) }
    }

    /// Whether another member could take the seat if this one does not. Asked once after a term that this member was
    /// made to give up: then it lets others go first for its cool-down. When in doubt, `true`.
    fn rivals(&mut self) -> impl Future<Output = Result<bool, Fault>> + Send {
        async { Ok(true) }
    }

    /// What the oracle notices by itself. Asked for once, after `init`. Several that come together count as one.
    fn signals(&mut self) -> BoxStream<'static, Signal> {
        Box::pin(futures::stream::pending())
    }

    /// Something from outside.
    fn handle_info(&mut self, info: Self::Info) -> impl Future<Output = Reaction<Self::Fence>> + Send {
        let _ = info;
        async { Reaction::Ignore }
    }
}

/// An oracle whose grants a sink can check. Only such a one may drive a registry: one that advises does not compile there.
///
/// ```compile_fail,E0271
/// use callsign_election::{follow::{FollowOracle, Source}, oracle::RegistryElector};
/// fn drive_a_registry(_: impl RegistryElector) {}
/// fn follow(oracle: FollowOracle<impl Source>) {
///     drive_a_registry(oracle); // it only advises
/// }
/// ```
///
/// With a fence it compiles:
///
/// ```
/// use callsign_election::{fenced::Fenced, follow::{FollowOracle, Source}, oracle::RegistryElector};
/// fn drive_a_registry(_: impl RegistryElector) {}
/// fn follow(oracle: Fenced<FollowOracle<impl Source>>) {
///     drive_a_registry(oracle);
/// }
/// ```
pub trait RegistryElector: Oracle<Fence = Fence> {}
impl<O: Oracle<Fence = Fence>> RegistryElector for O {}
