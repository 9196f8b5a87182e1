//! What an oracle must do: one suite, run on each; also on your own.
//!
//! Make an [`Authority`] for it: how a process takes part, how time passes, how one is cut off, and what the authority does not
//! promise, each with the reason. Then [`run`] runs every check whose [`Promise`]s are kept, and reports the others;
//! [`election_rows!`](crate::election_rows) makes a test of each. A check that fails panics. Checks are named by the rows of
//! requirements that they show.
//!
//! Time passes only as the authority says, so the suite runs as well under tokio's paused clock. It needs tokio's timer.
//!
//! ```
//! use std::time::Duration;
//! use callsign_election::{
//!     LeaseOptions, LeaseOracle,
//!     conformance::{self, Authority, Player, Promise, Withheld},
//! };
//! use callsign_store::{
//!     Clock, SharedStore,
//!     ids::{ClusterName, ElectionName, MemberId},
//!     memory::MemoryStore,
//! };
//!
//! /// Leases in a store in memory.
//! struct Leases { store: MemoryStore, clock: Clock }
//!
//! impl Leases {
//!     /// The connection of one member in one election.
//!     fn line(&self, election: &ElectionName, member: &MemberId) -> MemoryStore {
//!         self.store.connect(&format!("{election}/{member}"))
//!     }
//! }
//!
//! impl Authority for Leases {
//!     type Oracle = LeaseOracle;
//!
//!     async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<LeaseOracle> {
//!         let store: SharedStore = std::sync::Arc::new(self.line(election, member));
//!         let options = LeaseOptions { clock: self.clock.clone(), ..LeaseOptions::default() };
//!         let cluster = ClusterName::new("docs").expect("it is a name");
//!         let oracle = LeaseOracle::new(store, &cluster, options);
//!         Player::new(oracle, election, member)
//!     }
//!     async fn pass(&self, time: Duration) {
//!         tokio::time::sleep(time).await;
//!     }
//!     async fn cut(&self, election: &ElectionName, member: &MemberId) {
//!         self.line(election, member).outage();
//!     }
//!     async fn heal(&self, election: &ElectionName, member: &MemberId) {
//!         self.line(election, member).heal();
//!     }
//!     fn withholds(&self) -> Vec<Withheld> {
//!         vec![Withheld { promise: Promise::Record, because: "nobody looks into the store here" }]
//!     }
//! }
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
//! # runtime.block_on(async {
//! let authority = Leases { store: MemoryStore::new(), clock: Clock::runtime() };
//! let report = conformance::run(&authority).await;
//! println!("{report}");
//! assert!(report.left_out.is_empty(), "only comparisons of what is stored were left out");
//! # });
//! ```

use std::time::Duration;

use callsign_store::ids::{ElectionName, MemberId};

use crate::{core::term::Fence, oracle::Oracle};

#[cfg(test)]
pub(crate) mod advising;
mod bed;
pub mod claims;
mod player;
mod report;
pub mod terms;

pub use bed::Bed;
pub use player::{Player, attempt, denied, granted};
pub use report::{LeftOut, Report};

/// What an authority may promise, beyond that it grants or denies. A check says which it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Promise {
    /// Of several who claim at once exactly one is granted, whatever the timing.
    Exclusive,
    /// Whoever claims a vacant seat gets it, with that claim. Otherwise [`Authority::elect`] is called, and the claim is
    /// repeated until it is granted.
    FirstCome,
    /// Grants carry a [`Fence`]; ballots and epochs grow, over all members.
    Fenced,
    /// Each refresh moves the ballot by one, and nothing but a refresh, a win and a vacancy moves it.
    BallotPerRefresh,
    /// A grant ends by time: its validity is [`For`](crate::Validity::For) some duration.
    EndsByTime,
    /// A grant whose time is over is not refreshed, also if nobody else claimed: it has to be claimed, and is another term.
    Expires,
    /// What is given back is free for others. Otherwise `abdicate` says `false`.
    GivesBack,
    /// Of two processes that take part as one member, one is told so.
    Namesakes,
    /// A denial names the term of whoever has the seat, the same that was granted.
    NamesTheHolder,
    /// A member can be cut off by the test, [`Authority::cut`]. Otherwise it is only silent.
    CutsOff,
    /// What is stored can be compared, [`Authority::stored`]. No check is left out without; some compare less.
    Record,
}

/// A promise that an authority does not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Withheld {
    /// The promise.
    pub promise: Promise,
    /// Why, and what else shows that this is well.
    pub because: &'static str,
}

/// The part of a grant that a sink compares.
pub trait TestedFence: Clone + PartialEq + std::fmt::Debug {
    /// It, if there is one.
    fn fence(&self) -> Option<Fence>;
}

impl TestedFence for Fence {
    fn fence(&self) -> Option<Fence> {
        Some(*self)
    }
}

impl TestedFence for () {
    fn fence(&self) -> Option<Fence> {
        None
    }
}

/// An authority under test, with the processes that ask it.
pub trait Authority: Send + Sync {
    /// How it is asked.
    type Oracle: Oracle<Fence: TestedFence>;

    /// Another process that takes part in this election as this member, with a clock of its own if the oracle has one; not
    /// prepared yet. All ask the same authority. If the member takes part already, this is a second process of its name.
    fn start(
        &self,
        election: &ElectionName,
        member: &MemberId,
    ) -> impl Future<Output = Player<Self::Oracle>> + Send;

    /// The same after the member's process was lost: it does nothing any more, and is not asked to stop.
    fn restart(
        &self,
        election: &ElectionName,
        member: &MemberId,
    ) -> impl Future<Output = Player<Self::Oracle>> + Send {
        self.start(election, member)
    }

    /// Lets this much time pass, for the authority and for all clocks.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// For how long at most the seat of a silent holder stays taken, after the end of its validity, or, without one, after it
    /// was cut off.
    fn takeover(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Cuts the member's processes off, so that nothing of theirs reaches the authority. See [`Promise::CutsOff`].
    fn cut(&self, election: &ElectionName, member: &MemberId) -> impl Future<Output = ()> + Send {
        let _ = (election, member);
        async {}
    }

    /// Ends that.
    fn heal(&self, election: &ElectionName, member: &MemberId) -> impl Future<Output = ()> + Send {
        let _ = (election, member);
        async {}
    }

    /// Has an authority that does not go by claims prefer this member. See [`Promise::FirstCome`].
    fn elect(&self, election: &ElectionName, member: &MemberId) -> impl Future<Output = ()> + Send {
        let _ = (election, member);
        async {}
    }

    /// How many take part when many are wanted.
    fn crowd(&self) -> usize {
        50
    }

    /// Everything that is stored of who has the seat. See [`Promise::Record`].
    fn stored(&self, election: &ElectionName) -> impl Future<Output = Option<Vec<u8>>> + Send {
        let _ = election;
        async { None }
    }

    /// What it does not promise.
    fn withholds(&self) -> Vec<Withheld> {
        Vec::new()
    }
}

/// Calls a macro with the name of each check, where it is, and the promises that it needs.
#[macro_export]
#[doc(hidden)]
macro_rules! election_checks {
    ([$($with:tt)*] $($more:tt)*) => {
        $($with)*! { $($more)*
            claims: d1_b1_a_vacant_seat_is_granted [GivesBack],
            claims: d2_of_many_concurrent_claims_one_is_granted_and_all_others_name_it [Exclusive],
            claims: d3_while_somebody_holds_the_seat_a_claim_is_denied_and_changes_nothing [],
            claims: d4_a_claim_of_the_holder_gets_the_same_epoch_back [],
            claims: a9_an_attempt_made_again_gets_the_same_term [],
            claims: a2_of_two_processes_of_one_id_one_is_granted_and_the_other_is_told [Namesakes],
            claims: c1_a_silent_holder_is_followed_when_its_lease_ends_and_is_told_when_it_returns [],
            claims: c3_first_sight_never_takes_a_seat_over [],
            claims: c9_j11_who_is_cut_off_knows_nothing_and_keeps_what_it_had [CutsOff],
            claims: d17_c6_who_is_cut_off_is_granted_no_more_than_it_had [CutsOff, EndsByTime],
            claims: h4_elections_on_one_backend_do_not_see_each_other [],
            terms: a1_a3_a_restarted_process_does_not_continue_its_term [],
            terms: a4_i1_ballots_only_grow_whatever_happens [Fenced],
            terms: a5_a_refresh_moves_the_ballot_and_not_the_epoch [Fenced, BallotPerRefresh],
            terms: a6_the_epoch_moves_once_with_each_term_and_not_with_what_others_do [Fenced, GivesBack],
            terms: c10_an_expired_lease_is_not_refreshed [EndsByTime, Expires],
            terms: d5_a_former_term_is_not_refreshed [GivesBack],
            terms: d6_a_former_term_is_not_given_back [GivesBack],
            terms: d7_a_resignation_keeps_the_counter [Fenced, GivesBack],
            terms: f3_a_term_that_nobody_has_is_not_given_back [],
        }
    };
}

macro_rules! run_all {
    ($report:ident $authority:ident $($module:ident: $check:ident [$($needs:ident),*],)*) => {$(
        if let Some(lacks) = report::left_out($authority, stringify!($check), &[$(Promise::$needs),*]) {
            println!("{lacks}");
            $report.left_out.push(lacks);
        } else {
            // Shown with the panic that follows, if one does.
            println!(stringify!($check));
            $module::$check($authority).await;
            $report.shown.push(stringify!($check));
        }
    )*};
}

/// Runs every check, one after the other, each with an election of its own. Panics at the first that fails. Checks that need a
/// promise which is not made are left out, printed, and reported.
pub async fn run<A: Authority>(authority: &A) -> Report {
    let mut report = Report { shown: Vec::new(), left_out: Vec::new(), withheld: authority.withholds() };
    election_checks!([run_all] report authority);
    report
}

/// A test of each check, for a module of its own. Takes a block that makes an `Option` of an
/// [`Authority`], and may wait; where there is none, it has said why. What comes
/// before the block is put to `tokio::test`.
///
/// ```ignore
/// mod conformance {
///     callsign_election::election_rows!((start_paused = true) { Some(super::Seats::new().await) });
/// }
/// ```
#[macro_export]
macro_rules! election_rows {
    (@tests $test:tt $authority:block $($module:ident: $check:ident [$($needs:ident),*],)*) => {
        $(
            #[tokio::test $test]
            async fn $check() {
                use $crate::conformance::{Promise, left_out};
                let made = $authority;
                let Some(authority) = made else { return };
                let needs: &[Promise] = &[$(Promise::$needs),*];
                if let Some(lacks) = left_out(&authority, stringify!($check), needs) {
                    return println!("{lacks}");
                }
                $crate::conformance::$module::$check(&authority).await;
            }
        )*

        /// Prints what is left out, and why.
        #[tokio::test $test]
        async fn what_is_not_promised_is_said_with_the_reason() {
            let made = $authority;
            let Some(authority) = made else { return };
            $crate::conformance::judge_withheld(&authority);
            $({
                use $crate::conformance::{Promise, left_out};
                let needs: &[Promise] = &[$(Promise::$needs),*];
                if let Some(lacks) = left_out(&authority, stringify!($check), needs) {
                    println!("{lacks}");
                }
            })*
        }
    };
    (($($test:tt)*) $authority:block) => {
        $crate::election_checks! { [$crate::election_rows] @tests ($($test)*) $authority }
    };
    ($authority:block) => { $crate::election_rows! { () $authority } };
}

#[doc(hidden)]
pub use report::{judge_withheld, left_out};
