//! What every fenced oracle must do: one suite, run on each.
//!
//! An oracle's test makes an [`Authority`] and calls [`run`], or lets `rows!` make a test of each check; one that fails
//! panics. Checks are named by the rows of requirements that they show. Time passes only as the authority says.
#![allow(clippy::disallowed_methods)] // it drives oracles, as drivers do

use std::{fmt::Debug, time::Duration};

use futures::future::BoxFuture;

use super::{
    oracle::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Validity, Verdict},
    term::Fence,
};
use crate::ids::{ElectionName, Incarnation, MemberId, Nonce};

pub mod claims;
pub mod terms;

/// How long to ask again until something is known, before it counts as lost. Longer than any backend is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// An authority under test.
pub trait Authority: Send + Sync {
    /// How it is asked.
    type Oracle: Oracle<Fence = Fence>;

    /// Another process that takes part: not prepared yet, with a clock of its own if the oracle has one. All ask the same
    /// authority.
    fn oracle(&self) -> Self::Oracle;

    /// Lets this much time pass, for the authority and for all clocks.
    fn pass(&self, time: Duration) -> BoxFuture<'_, ()>;

    /// Everything that is stored of an election, if it can be looked at.
    fn stored(&self, election: &ElectionName) -> BoxFuture<'_, Option<Vec<u8>>> {
        let _ = election;
        Box::pin(async { None })
    }

    /// The names of checks that do not apply, each with the reason.
    fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }
}

/// Who takes part in an election under test.
#[derive(Debug)]
pub struct Player<O> {
    /// Its oracle.
    pub oracle: O,
    /// What it was told.
    pub context: Context,
}

/// An election of its own on the authority, for one check.
#[derive(Debug)]
pub struct Bed<'a, A> {
    /// The authority.
    pub authority: &'a A,
    /// The election.
    pub election: ElectionName,
}

impl<'a, A: Authority> Bed<'a, A> {
    /// An election that nobody else has.
    pub fn new(authority: &'a A) -> Self {
        let name = format!("conformance-{:016x}", rand::random::<u64>());
        Self { authority, election: ElectionName::new(name).expect("it is a name") }
    }

    /// A process that takes part under this id, prepared.
    pub async fn player(&self, member: &str) -> Player<A::Oracle> {
        self.join(self.authority.oracle(), member).await
    }

    /// The same with an oracle that is there already.
    pub async fn join(&self, oracle: A::Oracle, member: &str) -> Player<A::Oracle> {
        let context = Context {
            election: self.election.clone(),
            member: MemberId::new(member).expect("it is a name"),
            incarnation: Incarnation(rand::random()),
        };
        let mut player = Player { oracle, context };
        player.init().await;
        player
    }

    /// Everything that is stored.
    pub async fn stored(&self) -> Option<Vec<u8>> {
        self.authority.stored(&self.election).await
    }

    /// Lets a grant's validity pass, and a little more. Whether it ever does.
    pub async fn expire(&self, grant: &Grant<Fence>) -> bool {
        match grant.validity {
            Validity::For(lease) => {
                self.authority.pass(lease + Duration::from_millis(1)).await;
                true
            }
            Validity::UntilRevoked => false,
        }
    }
}

impl<O: Oracle<Fence = Fence>> Player<O> {
    /// Prepares.
    pub async fn init(&mut self) {
        let began = std::time::Instant::now();
        loop {
            match self.oracle.init(&self.context).await {
                Ok(Init::Ready) => return,
                Ok(Init::Ignore) => panic!("there is an election"),
                Err(fault) => may_repeat(began, fault).await,
            }
        }
    }

    /// Claims, with a nonce of its own, until something is known.
    pub async fn claim(&mut self) -> Verdict<Fence> {
        self.claim_as(attempt()).await
    }

    /// Makes this attempt until something is known.
    pub async fn claim_as(&mut self, attempt: Attempt) -> Verdict<Fence> {
        let began = std::time::Instant::now();
        loop {
            match self.oracle.claim(attempt).await {
                Ok(verdict) => return verdict,
                Err(fault) => may_repeat(began, fault).await,
            }
        }
    }

    /// Refreshes, until something is known.
    pub async fn refresh(&mut self, held: &Grant<Fence>) -> Verdict<Fence> {
        let (began, attempt) = (std::time::Instant::now(), attempt());
        loop {
            match self.oracle.refresh(attempt, held).await {
                Ok(verdict) => return verdict,
                Err(fault) => may_repeat(began, fault).await,
            }
        }
    }

    /// Gives a term back, until something is known.
    pub async fn abdicate(&mut self, held: &Grant<Fence>) -> bool {
        let began = std::time::Instant::now();
        loop {
            match self.oracle.abdicate(held).await {
                Ok(was) => return was,
                Err(fault) => may_repeat(began, fault).await,
            }
        }
    }

    /// Claims, and is granted.
    pub async fn win(&mut self) -> Grant<Fence> {
        granted(self.claim().await)
    }

    /// Claims, and is denied.
    pub async fn lose(&mut self) -> Denial {
        denied(self.claim().await)
    }
}

/// An attempt that nobody made before.
pub fn attempt() -> Attempt {
    Attempt { nonce: Nonce(rand::random()) }
}

/// What was granted.
pub fn granted(verdict: Verdict<Fence>) -> Grant<Fence> {
    match verdict {
        Verdict::Granted(grant) => grant,
        Verdict::Denied(denial) => panic!("denied: {denial:?}"),
    }
}

/// Why it was denied.
pub fn denied(verdict: Verdict<Fence>) -> Denial {
    match verdict {
        Verdict::Denied(denial) => denial,
        Verdict::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

async fn may_repeat(began: std::time::Instant, fault: impl Into<Fault> + Debug) {
    match fault.into() {
        Fault::Transient { .. } if began.elapsed() < PATIENCE => tokio::task::yield_now().await,
        fault => panic!("nothing is known: {fault}"),
    }
}

/// Calls a macro with the name of each check and where it is.
#[macro_export]
#[doc(hidden)]
macro_rules! election_checks {
    ([$($with:tt)*] $($more:tt)*) => {
        $($with)*! { $($more)*
            claims: d1_b1_a_vacant_seat_is_granted_at_once,
            claims: d2_of_fifty_concurrent_claims_one_is_granted_and_all_others_name_it,
            claims: d3_while_somebody_holds_the_seat_a_claim_is_denied_and_changes_nothing,
            claims: d4_a_claim_of_the_holder_gets_the_same_epoch_back,
            claims: a9_an_attempt_made_again_gets_the_same_term,
            claims: a2_of_two_processes_of_one_id_one_is_granted_and_the_other_is_told,
            claims: c1_a_holder_that_stops_refreshing_is_followed_when_its_lease_ends,
            claims: c3_first_sight_never_takes_a_seat_over,
            claims: h4_elections_on_one_backend_do_not_see_each_other,
            terms: a1_a3_a_restarted_process_does_not_continue_its_term,
            terms: a4_i1_ballots_only_grow_whatever_happens,
            terms: a5_a_refresh_moves_the_ballot_and_not_the_epoch,
            terms: a6_the_epoch_moves_once_with_each_term_and_not_with_what_others_do,
            terms: c10_an_expired_lease_is_not_refreshed,
            terms: d5_a_former_term_is_not_refreshed,
            terms: d6_a_former_term_is_not_given_back,
            terms: d7_a_resignation_keeps_the_counter,
            terms: f3_a_term_that_nobody_has_is_not_given_back,
        }
    };
}

macro_rules! run_all {
    ($authority:ident $($module:ident: $check:ident,)*) => {$(
        let lacks = $authority.lacks();
        if let Some((name, why)) = lacks.iter().find(|(name, _)| *name == stringify!($check)) {
            println!("not run: {name}: {why}");
        } else {
            // Shown with the panic that follows, if one does.
            println!(stringify!($check));
            $module::$check($authority).await;
        }
    )*};
}

/// Runs every check, one after the other, each with an election of its own. Panics at the first that fails.
pub async fn run<A: Authority>(authority: &A) {
    election_checks!([run_all] authority);
}

/// A test of each check. Takes an expression that makes an `Option` of an [`Authority`]; where there is none, it has said
/// why.
#[macro_export]
#[doc(hidden)]
macro_rules! election_rows {
    (@tests $authority:block $($module:ident: $check:ident,)*) => {$(
        #[tokio::test]
        async fn $check() {
            use $crate::election::conformance::Authority as _;
            let made = $authority;
            let Some(authority) = made else { return };
            let lacks = authority.lacks();
            if let Some((name, why)) = lacks.iter().find(|(name, _)| *name == stringify!($check)) {
                return println!("not run: {name}: {why}");
            }
            $crate::election::conformance::$module::$check(&authority).await;
        }
    )*};
    ($authority:block) => { $crate::election_checks! { [$crate::election_rows] @tests $authority } };
}
