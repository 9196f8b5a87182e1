//! Who takes part in an election under test.

use std::{fmt::Debug, time::Duration};

use callsign_store::ids::{ElectionName, Incarnation, MemberId, Nonce};
use tokio::time::Instant;

use crate::{
    core::term::Term,
    oracle::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Verdict},
};

use super::TestedFence;

/// How long to ask again until something is known, before it counts as lost. Longer than any backend is busy.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// One process.
#[derive(Debug)]
pub struct Player<O> {
    /// Its oracle.
    pub oracle: O,
    /// What it was told.
    pub context: Context,
}

impl<O: Oracle> Player<O> {
    /// Takes part with an incarnation that nobody had before.
    pub fn new(oracle: O, election: &ElectionName, member: &MemberId) -> Self {
        Self::with_incarnation(oracle, election, member, Incarnation(rand::random()))
    }

    /// Takes part with the incarnation of the process, where grants carry that.
    pub fn with_incarnation(
        oracle: O,
        election: &ElectionName,
        member: &MemberId,
        incarnation: Incarnation,
    ) -> Self {
        let (election, member) = (election.clone(), member.clone());
        Self { oracle, context: Context { election, member, incarnation } }
    }

    /// Prepares.
    pub async fn init(&mut self) {
        let Self { oracle, context } = self;
        let init = until_known("init", async || oracle.init(context).await).await;
        assert_eq!(init, Init::Ready, "there is an election");
    }

    /// Claims, with a nonce of its own, until something is known.
    pub async fn claim(&mut self) -> Verdict<O::Fence> {
        self.claim_as(attempt()).await
    }

    /// Makes this attempt until something is known.
    pub async fn claim_as(&mut self, attempt: Attempt) -> Verdict<O::Fence> {
        until_known("claim", async || self.oracle.claim(attempt).await).await
    }

    /// Refreshes, until something is known.
    pub async fn refresh(&mut self, held: &Grant<O::Fence>) -> Verdict<O::Fence> {
        let attempt = attempt();
        until_known("refresh", async || self.oracle.refresh(attempt, held).await).await
    }

    /// Gives a term back, until something is known.
    pub async fn abdicate(&mut self, held: &Grant<O::Fence>) -> bool {
        until_known("abdicate", async || self.oracle.abdicate(held).await).await
    }
}

impl<O: Oracle<Fence: TestedFence>> Player<O> {
    /// Claims, and is granted with that claim.
    pub async fn win(&mut self) -> Grant<O::Fence> {
        granted(self.claim().await)
    }

    /// Claims, and is denied.
    pub async fn lose(&mut self) -> Denial {
        denied(self.claim().await)
    }

    /// Refreshes, and is granted the same term.
    pub async fn keep(&mut self, held: &Grant<O::Fence>) -> Grant<O::Fence> {
        let kept = granted(self.refresh(held).await);
        assert_eq!(kept.term, held.term, "a refresh is of the same term");
        kept
    }

    /// Whether it would be granted this term now, as far as it knows by itself or is told.
    pub async fn is_granted(&mut self, term: &Term, held: &Grant<O::Fence>) -> bool {
        matches!(self.oracle.refresh(attempt(), held).await, Ok(Verdict::Granted(grant)) if grant.term == *term)
    }
}

/// An attempt that nobody made before.
pub fn attempt() -> Attempt {
    Attempt { nonce: Nonce(rand::random()) }
}

/// What was granted.
pub fn granted<F>(verdict: Verdict<F>) -> Grant<F> {
    match verdict {
        Verdict::Granted(grant) => grant,
        Verdict::Denied(denial) => panic!("denied: {denial:?}"),
    }
}

/// Why it was denied.
pub fn denied<F: Debug>(verdict: Verdict<F>) -> Denial {
    match verdict {
        Verdict::Denied(denial) => denial,
        Verdict::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

/// Asks again and again. Panics if nothing is known in good time, or never will be.
async fn until_known<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, Fault>) -> T {
    let began = Instant::now();
    loop {
        match tokio::time::timeout(ANSWER_DEADLINE, ask()).await {
            Ok(Ok(known)) => return known,
            // A pause, so that a clock that is paused goes on.
            Ok(Err(Fault::Transient { .. })) if began.elapsed() < ANSWER_DEADLINE => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(Err(fault)) => panic!("{what}: nothing is known: {fault}"),
            Err(late) => panic!("{what}: no answer within {ANSWER_DEADLINE:?}: {late}"),
        }
    }
}
