//! Commits whose outcome nobody knows. In memory only: there a test says what becomes of them.

use callsign_store::{
    SharedStore,
    ids::{ElectionName, Incarnation},
    memory::{self, Fate, MemoryStore},
};
use futures::FutureExt;

use super::{
    beds::{LEASE, cluster},
    people::id,
};
use crate::{
    ElectionConfig,
    core::lease::operation::{MAX_TRIES, MAX_UNKNOWN},
    driver::{
        conformance::{Player, attempt, denied, granted},
        lease::{Election, ElectionError, LeaseOptions, LeaseOracle},
    },
    oracle::{Context, Fault, Oracle, Verdict},
    tests::{clock::SetClock, stores::Faulty},
};

struct Bed {
    store: MemoryStore,
    hand: SetClock,
}

impl Bed {
    fn new() -> Self {
        Self { store: MemoryStore::new(), hand: SetClock::default() }
    }

    fn pass(&self, time: std::time::Duration) {
        self.hand.pass(time);
    }

    async fn player(&self, name: &str) -> Player<LeaseOracle> {
        self.player_on(name, std::sync::Arc::new(self.store.connect(name))).await
    }

    async fn player_on(&self, name: &str, store: SharedStore) -> Player<LeaseOracle> {
        let config = ElectionConfig::default();
        let options =
            LeaseOptions { config: Some(config), clock: self.hand.clock(), ..LeaseOptions::default() };
        let context = Context {
            election: ElectionName::new("e").unwrap(),
            member: id(name),
            incarnation: Incarnation(rand::random()),
        };
        let mut player = Player { oracle: LeaseOracle::new(store, &cluster(), options), context };
        player.init().await;
        player
    }

    fn admin(&self) -> Election {
        let name = ElectionName::new("e").unwrap();
        let store = std::sync::Arc::new(self.store.connect("admin"));
        Election::new(store, &cluster(), &name, self.hand.clock())
    }

    fn fails(&self, name: &str, fate: Fate) {
        self.store.connect(name).inject(memory::Fault::Unknown(fate));
    }
}

#[tokio::test]
async fn a9_d17_a_claim_whose_outcome_is_unknown_is_found_out_with_its_nonce() {
    for fate in [Fate::Applied, Fate::NotApplied, Fate::LandsLater] {
        let bed = Bed::new();
        let mut a = bed.player("a").await;
        bed.fails("a", fate);
        let held = granted(a.claim().await);
        // A first claim is ballot 1; found out, it was refreshed.
        assert_eq!(held.term.epoch.0, 1, "{fate:?}: no second epoch");
        bed.store.land();
        let kept = granted(a.refresh(&held).await);
        assert_eq!(kept.term, held.term, "{fate:?}: what lands late is refused");
    }
}

#[tokio::test]
async fn a9_d17_a_claim_that_stays_unknown_is_made_again_without_waiting_for_the_lease() {
    let bed = Bed::new();
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let attempt = attempt();
    for _ in 0..=MAX_UNKNOWN {
        bed.fails("a", Fate::LandsLater);
    }
    let fault = a.oracle.claim(attempt).await;
    assert!(matches!(fault, Err(Fault::Transient { maybe_committed: true, .. })), "{fault:?}");
    // Now they land: the first does, and the others do not.
    let landed = bed.store.land();
    assert_eq!(landed.iter().filter(|o| matches!(o, callsign_store::CommitOutcome::Committed(_))).count(), 1);
    bed.pass(LEASE / 2);
    let held = granted(a.claim_as(attempt).await);
    assert_eq!(held.term.epoch.0, 1);
    assert_eq!(b.lose().await.leader, Some(held.term));
}

#[tokio::test]
async fn a9_c10_a_claim_found_out_after_its_lease_is_a_new_term() {
    let bed = Bed::new();
    let mut a = bed.player("a").await;
    let attempt = attempt();
    // Its answer is held back, and the caller gives up.
    let connection = bed.store.connect("a");
    let hold = connection.hold_answers();
    assert!(a.oracle.claim(attempt).now_or_never().is_none());
    drop(hold);
    bed.pass(LEASE);
    let held = granted(a.claim_as(attempt).await);
    assert_eq!(held.term.epoch.0, 2, "what it won then may be over");
}

#[tokio::test]
async fn d17_a_refresh_whose_outcome_is_unknown_is_found_out() {
    for fate in [Fate::Applied, Fate::NotApplied, Fate::LandsLater] {
        let bed = Bed::new();
        let mut a = bed.player("a").await;
        let held = a.win().await;
        bed.pass(LEASE / 2);
        bed.fails("a", fate);
        let kept = granted(a.refresh(&held).await);
        assert_eq!(kept.term, held.term);
        assert!(kept.fence.ballot > held.fence.ballot);
        bed.store.land();
        assert_eq!(granted(a.refresh(&kept).await).fence.ballot.0, kept.fence.ballot.0 + 1);
    }
}

#[tokio::test]
async fn d17_what_an_unknown_resignation_and_removal_did_is_found_out() {
    for fate in [Fate::Applied, Fate::NotApplied, Fate::LandsLater] {
        let bed = Bed::new();
        let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
        let held = a.win().await;
        bed.fails("a", fate);
        assert!(a.abdicate(&held).await, "{fate:?}");
        let next = b.win().await;
        bed.store.land();
        let kept = granted(b.refresh(&next).await);
        assert_eq!(kept.term, next.term);
        let admin = bed.admin();
        bed.fails("admin", fate);
        let gone = admin.unregister(&id("b"), b.context.incarnation).await.unwrap();
        assert!(gone, "{fate:?}");
        assert!(!admin.unregister(&id("b"), b.context.incarnation).await.unwrap());
    }
}

#[tokio::test]
async fn e6_an_eviction_whose_outcome_is_unknown_says_so() {
    let bed = Bed::new();
    let _a = bed.player("a").await;
    let admin = bed.admin();
    admin.list().await.unwrap();
    bed.pass(LEASE * 2);
    bed.fails("admin", Fate::Applied);
    assert_eq!(admin.evict().await, Err(ElectionError::Unknown));
    assert_eq!(admin.evict().await, Ok(0));
}

#[tokio::test]
async fn d17_a_store_that_is_away_is_neither_yes_nor_no() {
    let bed = Bed::new();
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = a.win().await;
    b.lose().await;
    bed.store.outage_for_all();
    for asked in [a.oracle.refresh(attempt(), &held).await, b.oracle.claim(attempt()).await] {
        assert!(matches!(asked, Err(Fault::Transient { maybe_committed: false, .. })), "{asked:?}");
    }
    bed.pass(LEASE / 2);
    bed.store.heal_all();
    assert_eq!(granted(a.refresh(&held).await).term, held.term);
    denied(b.claim().await);
}

/// A store that takes no more after a commit whose outcome nobody knows does not make it known.
#[tokio::test]
async fn d17_what_is_unknown_stays_so_when_the_store_goes_away() {
    for fate in [Fate::Applied, Fate::NotApplied, Fate::LandsLater] {
        // The second try is refused when it commits, and when it reads.
        let bed = Bed::new();
        let mut a = bed.player("a").await;
        bed.fails("a", fate);
        bed.store.connect("a").inject(memory::Fault::Unavailable);
        let fault = a.oracle.claim(attempt()).await;
        assert!(matches!(fault, Err(Fault::Transient { maybe_committed: true, .. })), "{fault:?}");

        let bed = Bed::new();
        let faulty = Faulty::over(&(std::sync::Arc::new(bed.store.clone()) as SharedStore));
        let mut a = bed.player_on("a", faulty.shared()).await;
        faulty.lose(fate);
        faulty.pause();
        let ends = async {
            faulty.has_stopped().await;
            faulty.set_down(true);
            faulty.go_on();
        };
        let (fault, ()) = futures::join!(a.oracle.claim(attempt()), ends);
        assert!(matches!(fault, Err(Fault::Transient { maybe_committed: true, .. })), "{fault:?}");

        faulty.set_down(false);
        let landed = if fate == Fate::LandsLater { faulty.land().await.len() } else { 0 };
        assert_eq!(landed, usize::from(fate == Fate::LandsLater));
        granted(a.claim().await);
    }
}

#[tokio::test]
async fn d2_conflicts_are_tried_again_and_not_for_ever() {
    let bed = Bed::new();
    let mut a = bed.player("a").await;
    let connection = bed.store.connect("a");
    connection.inject(memory::Fault::Conflict);
    connection.inject(memory::Fault::Conflict);
    let held = a.win().await;
    for _ in 0..100 {
        connection.inject(memory::Fault::Conflict);
    }
    let fault = a.oracle.claim(attempt()).await;
    assert!(matches!(&fault, Err(Fault::Transient { maybe_committed: false, .. })), "{fault:?}");
    while connection.faults_left() > 0 {
        let _ = a.oracle.claim(attempt()).await;
    }
    assert!(matches!(a.claim().await, Verdict::Granted(grant) if grant.term == held.term));
}

#[tokio::test]
async fn a9_what_is_unknown_as_often_as_is_borne_is_still_found_out() {
    let bed = Bed::new();
    let mut a = bed.player("a").await;
    for _ in 0..MAX_UNKNOWN {
        bed.fails("a", Fate::NotApplied);
    }
    let claim = a.oracle.claim(attempt()).await;
    assert!(matches!(claim, Ok(Verdict::Granted(_))), "{claim:?}");
}

#[tokio::test(start_paused = true)]
async fn d2_as_many_conflicts_as_are_borne_cost_time_only_and_one_more_ends_it() {
    let conflicts = |bed: &Bed, many: u32| {
        for _ in 0..many {
            bed.store.connect("a").inject(memory::Fault::Conflict);
        }
    };
    let bed = Bed::new();
    let mut a = bed.player("a").await;
    conflicts(&bed, MAX_TRIES);
    let claim = a.oracle.claim(attempt()).await;
    assert!(matches!(claim, Ok(Verdict::Granted(_))), "{claim:?}");
    conflicts(&bed, MAX_TRIES + 1);
    let claim = a.oracle.claim(attempt()).await;
    assert!(matches!(claim, Err(Fault::Transient { maybe_committed: false, .. })), "{claim:?}");
    // One of its tries may land yet.
    bed.fails("a", Fate::LandsLater);
    conflicts(&bed, MAX_TRIES);
    let claim = a.oracle.claim(attempt()).await;
    assert!(matches!(claim, Err(Fault::Transient { maybe_committed: true, .. })), "{claim:?}");
}

#[tokio::test(start_paused = true)]
async fn d2_whoever_meets_others_again_and_again_lets_them_pass() {
    for (many, waits) in [(3, false), (10, true)] {
        let bed = Bed::new();
        let mut a = bed.player("a").await;
        for _ in 0..many {
            bed.store.connect("a").inject(memory::Fault::Conflict);
        }
        let since = tokio::time::Instant::now();
        a.win().await;
        assert_eq!(!since.elapsed().is_zero(), waits, "{many} conflicts");
    }
}

#[tokio::test]
async fn d17_what_an_unknown_leave_gave_back_is_said_of_whoever_had_a_term_and_of_nobody_else() {
    for fate in [Fate::Applied, Fate::NotApplied, Fate::LandsLater] {
        let bed = Bed::new();
        let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
        let held = a.win().await;
        bed.fails("a", fate);
        assert_eq!(a.oracle.leave(Some(&held)).await, Ok(true), "{fate:?}");
        bed.fails("b", fate);
        assert_eq!(b.oracle.leave(None).await, Ok(false), "{fate:?}");
    }
}
