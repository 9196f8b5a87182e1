//! Leases on a store without a clock: who may follow, and when, by whose clock.

use std::time::Duration;

use callsign_store::{
    SharedStore,
    ids::{Epoch, Incarnation, Nonce},
    keys::ClusterKeys,
    time::Time,
};

use super::{
    beds::{LEASE, Stores, cluster},
    people::{MS, PATIENT, Place, id, not_known_yet, refused, surely},
};
use crate::{
    ElectionConfig,
    core::{
        lease::{
            member::{Answer, Ask, Member},
            operation::{Input, Step},
        },
        state::Candidate,
        term::Fence,
    },
    driver::{
        conformance::{denied, granted},
        lease::{ElectionError, LeaseOptions},
    },
    oracle::{Refusal, Validity, Verdict},
};

/// C1 with the poll: looked at every second, the seat is taken by the first look after the lease.
pub(super) async fn c1_a_silent_holder_is_followed_within_its_lease_and_a_poll(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let held = a.win().await;
    let poll = Duration::from_millis(900);
    let mut waited = Duration::ZERO;
    let next = loop {
        match b.claim().await {
            Verdict::Granted(next) => break next,
            Verdict::Denied(denial) => assert_eq!(denial.why, Refusal::Held),
        }
        stores.pass(poll);
        waited += poll;
    };
    assert!((LEASE..LEASE + poll).contains(&waited), "{waited:?}");
    assert!(next.term.epoch > held.term.epoch);
}

/// C2: all clocks of these tests are days apart. Here they are a day ahead and behind, on purpose.
pub(super) async fn c2_what_members_clocks_show_changes_nothing(stores: Stores) {
    let place = Place::new(&stores).await;
    let day = Duration::from_secs(24 * 3600);
    let mut players = Vec::new();
    for (name, at) in [("ahead", day * 3), ("right", day * 2), ("behind", day)] {
        let clock = stores.clock_at(at);
        players.push(place.with(name, LeaseOptions { clock, ..stores.options() }).await);
    }
    for holder in 0..3 {
        let held = players[holder].win().await;
        for other in (0..3).filter(|other| *other != holder) {
            assert_eq!(players[other].lose().await.why, Refusal::Held);
        }
        stores.pass(LEASE - MS);
        for other in (0..3).filter(|other| *other != holder) {
            assert_eq!(players[other].lose().await.why, Refusal::Held, "{holder} holds, {other} asks");
        }
        let kept = granted(players[holder].refresh(&held).await);
        stores.pass(LEASE - MS);
        players[(holder + 1) % 3].lose().await;
        assert!(players[holder].abdicate(&kept).await);
    }
    // And the end of a lease is the same for all of them.
    for holder in 0..3 {
        players[holder].win().await;
        let next = (holder + 1) % 3;
        assert_eq!(players[next].lose().await.why, Refusal::Held);
        stores.pass(LEASE);
        let grant = players[next].win().await;
        assert!(players[next].abdicate(&grant).await);
    }
}

pub(super) async fn c3_only_who_saw_the_very_record_for_its_whole_duration_takes_over(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let held = a.win().await;
    // A first sight never may, however long ago the record was written.
    stores.pass(LEASE * 5);
    assert_eq!(b.lose().await.why, Refusal::Held);
    stores.pass(LEASE - MS);
    assert_eq!(b.lose().await.why, Refusal::Held, "a millisecond is missing");
    stores.pass(MS);
    let next = b.win().await;
    assert!(next.term.epoch > held.term.epoch);
    // A changed record is another one.
    let mut held = next;
    a.lose().await;
    for _ in 0..3 {
        stores.pass(LEASE - MS);
        held = granted(b.refresh(&held).await);
        assert_eq!(a.lose().await.why, Refusal::Held);
    }
}

pub(super) async fn c4_h2_the_persisted_duration_counts_and_not_ones_own(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    let held = a.win().await;
    let short = Duration::from_secs(2);
    place.config(&ElectionConfig { lease: short, ..stores.config.clone() }).await;
    // Also who was started with another one follows what is written.
    let own = ElectionConfig { lease: short, ..stores.config.clone() };
    let mut c = place.with("c", LeaseOptions { config: Some(own), ..stores.options() }).await;
    for follower in [&mut b, &mut c] {
        assert_eq!(follower.lose().await.why, Refusal::Held);
    }
    stores.pass(short);
    for follower in [&mut b, &mut c] {
        assert_eq!(follower.lose().await.why, Refusal::Held, "2 s have passed, of 10");
    }
    // H2: the next refresh grants the new one, and nobody is lost. Its answer may be: so followers leave its holder the
    // time of the former grant, once more, and use the new one from the refresh on that builds on it.
    let told = granted(a.refresh(&held).await);
    assert_eq!((told.term.clone(), told.validity), (held.term, Validity::For(short)));
    assert_eq!(b.lose().await.why, Refusal::Held);
    stores.pass(short);
    assert_eq!(b.lose().await.why, Refusal::Held, "who did not get the answer may believe in 10 s");
    let kept = granted(a.refresh(&told).await);
    assert_eq!((kept.term.clone(), kept.validity), (told.term, Validity::For(short)));
    assert_eq!(b.lose().await.why, Refusal::Held);
    stores.pass(short - MS);
    assert_eq!(b.lose().await.why, Refusal::Held);
    stores.pass(MS);
    assert!(b.win().await.term.epoch > kept.term.epoch);
}

/// A member that is stepped by hand: what it asks for takes as long as the test says.
struct Stepped {
    store: SharedStore,
    member: Member,
    now: Time,
}

impl Stepped {
    async fn new(stores: &Stores, place: &Place<'_>, name: &str) -> Self {
        let keys = ClusterKeys::new(&cluster()).election(&place.bed.election);
        let incarnation = Incarnation(rand::random());
        let me =
            Candidate { member: id(name), incarnation, priority: 1, tags: std::collections::BTreeSet::new() };
        let member = Member::new(keys, me, true);
        let mut stepped = Self { store: stores.store(), member, now: Time(Duration::from_secs(1)) };
        stepped.ask(Ask::Prepare(None), Duration::ZERO, Duration::ZERO).await.unwrap();
        stepped
    }

    /// Each read takes so long, half there and half back, and each commit.
    async fn ask(&mut self, ask: Ask, read: Duration, commit: Duration) -> Result<Answer, ElectionError> {
        let mut step = self.member.begin(self.now, ask);
        loop {
            let input = match step {
                Step::Read(reads) => {
                    self.now = self.now + read / 2;
                    let result = self.store.read(reads).await;
                    self.now = self.now + read / 2;
                    Input::Read(result)
                }
                Step::Commit(transaction) => {
                    let outcome = self.store.commit(transaction).await;
                    self.now = self.now + commit;
                    Input::Commit(outcome)
                }
                Step::Done(answer) => return answer,
            };
            step = self.member.step(self.now, input, &mut Vec::new());
        }
    }

    async fn claim(&mut self, read: Duration, commit: Duration) -> Verdict<Fence> {
        match self.ask(Ask::Claim(Nonce(rand::random())), read, commit).await {
            Ok(Answer::Verdict(verdict)) => verdict,
            other => panic!("{other:?}"),
        }
    }

    async fn refresh(&mut self, epoch: Epoch) -> Verdict<Fence> {
        match self.ask(Ask::Refresh(epoch, LEASE), Duration::ZERO, Duration::ZERO).await {
            Ok(Answer::Verdict(verdict)) => verdict,
            other => panic!("{other:?}"),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }
}

pub(super) async fn c5_a_slow_read_does_not_age_what_it_saw(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    // Who registers looks at the seat as well: they do before there is something to see.
    let mut b = Stepped::new(&stores, &place, "b").await;
    let mut b2 = Stepped::new(&stores, &place, "b2").await;
    a.win().await;
    let slow = Duration::from_secs(8);
    denied(b.claim(slow, Duration::ZERO).await);
    // It is 0 s old, not 8, nor 4.
    b.pass(LEASE - MS);
    assert_eq!(denied(b.claim(Duration::ZERO, Duration::ZERO).await).why, Refusal::Held);
    // Nor does the time of the second read count.
    denied(b.claim(slow, Duration::ZERO).await);
    denied(b2.claim(Duration::ZERO, Duration::ZERO).await);
    b2.pass(LEASE - slow);
    assert_eq!(denied(b2.claim(slow, Duration::ZERO).await).why, Refusal::Held);
    granted(b2.claim(Duration::ZERO, Duration::ZERO).await);
}

pub(super) async fn c5_an_attempt_that_was_given_up_leaves_no_observation(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let mut b = Stepped::new(&stores, &place, "b").await;
    a.win().await;
    // A heartbeat is due: the attempt has something to commit.
    b.pass(LEASE / 2);
    let Step::Read(reads) = b.member.begin(b.now, Ask::Claim(Nonce(1))) else { panic!("it reads first") };
    let seen = b.store.read(reads).await;
    let Step::Commit(_) = b.member.step(b.now, Input::Read(seen), &mut Vec::new()) else {
        panic!("it is heard")
    };
    // Nobody knows what became of it; a new attempt is made when the lease is over, and sees the record first now.
    b.pass(LEASE);
    assert_eq!(denied(b.claim(Duration::ZERO, Duration::ZERO).await).why, Refusal::Held);
    b.pass(LEASE - MS);
    assert_eq!(denied(b.claim(Duration::ZERO, Duration::ZERO).await).why, Refusal::Held);
    b.pass(MS);
    granted(b.claim(Duration::ZERO, Duration::ZERO).await);
}

/// C10 from inside: the holder counts from the start of the attempt that wrote the record, not from its answer.
pub(super) async fn c10_a_holder_counts_from_the_start_of_its_attempt(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = Stepped::new(&stores, &place, "a").await;
    let slow = Duration::from_secs(3);
    let held = granted(a.claim(slow, slow).await);
    a.pass(LEASE - slow * 2 - MS);
    let kept = granted(a.refresh(held.term.epoch).await);
    assert_eq!(kept.term, held.term);
    a.pass(LEASE);
    assert_eq!(denied(a.refresh(held.term.epoch).await).why, Refusal::TermOver);
    let mut late = Stepped::new(&stores, &place, "late").await;
    denied(late.claim(Duration::ZERO, Duration::ZERO).await);
    late.pass(LEASE);
    let held = granted(late.claim(slow, slow).await);
    late.pass(LEASE - slow * 2);
    assert_eq!(denied(late.refresh(held.term.epoch).await).why, Refusal::TermOver);
}

pub(super) async fn b9_after_a_lease_that_was_not_given_back_the_seat_stays_empty(stores: Stores) {
    let delay = Duration::from_secs(4);
    let config = ElectionConfig { lock_delay: delay, candidate_timeout: PATIENT, ..stores.config.clone() };
    let stores = stores.with(config);
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    // Given back: at once.
    let held = a.win().await;
    assert!(a.abdicate(&held).await);
    let held = b.win().await;
    a.lose().await;
    stores.pass(LEASE);
    // Not given back: nobody before the delay is over, and everybody is told how long that is.
    let denial = a.lose().await;
    assert_eq!((denial.why, denial.leader, denial.retry_in), (Refusal::TooEarly, None, Some(delay)));
    let denial = b.lose().await;
    assert_eq!(denial.why, Refusal::TooEarly, "also its former holder");
    stores.pass(delay - MS);
    assert_eq!(a.lose().await.retry_in, Some(MS));
    stores.pass(MS);
    let next = a.win().await;
    assert!(next.term.epoch > held.term.epoch);
    // Called down is not given back: its lease and the delay.
    assert!(surely(async || place.admin.down(&id("a"), a.context.incarnation).await).await);
    assert_eq!(b.lose().await.why, Refusal::TooEarly);
    stores.pass(LEASE + delay - MS);
    assert_eq!(b.lose().await.retry_in, Some(MS));
    stores.pass(MS);
    b.win().await;
}

pub(super) async fn d11_a_leader_is_asked_for_with_and_without_its_lease(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let admin = &place.admin;
    let (me, incarnation) = (id("a"), a.context.incarnation);
    assert_eq!(surely(async || admin.leader().await).await, None);
    assert_eq!(surely(async || admin.leader_raw().await).await, None);
    let held = a.win().await;
    assert_eq!(surely(async || admin.leader().await).await, Some(held.term.clone()));
    assert!(surely(async || admin.is_leader(&me, incarnation).await).await);
    assert!(!surely(async || admin.is_leader(&me, Incarnation(1)).await).await);
    assert!(!surely(async || admin.is_leader(&id("b"), incarnation).await).await);
    stores.pass(LEASE);
    assert_eq!(surely(async || admin.leader().await).await, None);
    assert!(!surely(async || admin.is_leader(&me, incarnation).await).await);
    let raw = surely(async || admin.leader_raw().await).await.unwrap();
    assert_eq!((raw.term, raw.fence, raw.lease), (held.term, held.fence, LEASE));
    let nobody = refused(async || {
        stores.admin(&callsign_store::ids::ElectionName::new("none").unwrap()).leader().await
    });
    assert_eq!(nobody.await, ElectionError::NotInitialized);
}

pub(super) async fn b8_anyone_can_verify_a_token(stores: Stores) {
    let place = Place::new(&stores).await;
    let (mut a, mut b) = (place.player("a").await, place.player("b").await);
    assert_eq!(surely(async || place.admin.leader().await).await, None);
    let first = a.win().await;
    let verify = async |token: Fence| surely(async || place.admin.verify(&token).await).await;
    assert!(verify(first.fence).await);
    let kept = granted(a.refresh(&first).await);
    assert!(verify(kept.fence).await && verify(first.fence).await, "both are of the present term");
    let forged = Fence { ballot: kept.fence.ballot.next(), ..kept.fence };
    assert!(!verify(forged).await);
    assert!(!verify(Fence { epoch: Epoch(kept.fence.epoch.0 + 1), ..kept.fence }).await);
    assert!(a.abdicate(&kept).await);
    assert!(!verify(kept.fence).await, "nobody leads");
    let second = b.win().await;
    assert!(verify(second.fence).await && !verify(kept.fence).await);
    // One whose lease is known to be over is nobody's.
    stores.pass(LEASE);
    assert!(!verify(second.fence).await);
}

/// D17 in the middle of a refresh: the member that cannot know goes on with what it knew.
pub(super) async fn d17_a_refresh_that_nobody_knows_of_does_not_stretch_the_lease(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = Stepped::new(&stores, &place, "a").await;
    let held = granted(a.claim(Duration::ZERO, Duration::ZERO).await);
    a.pass(LEASE / 2);
    // It is committed, and the answer never comes: the driver gave up.
    let Step::Read(reads) = a.member.begin(a.now, Ask::Refresh(held.term.epoch, LEASE)) else {
        panic!("reads")
    };
    let seen = a.store.read(reads).await;
    let Step::Commit(transaction) = a.member.step(a.now, Input::Read(seen), &mut Vec::new()) else {
        panic!("commits")
    };
    a.store.commit(transaction).await;
    // So long as the former window lasts it may refresh; it looks again before it does.
    let mut other = Stepped { store: a.store.clone(), member: a.member.clone(), now: a.now };
    other.pass(LEASE / 2 - MS);
    let kept = granted(other.refresh(held.term.epoch).await);
    assert_eq!((kept.term, kept.fence.ballot.0), (held.term.clone(), held.fence.ballot.0 + 2));
    // Afterwards it may not: it must claim.
    a.pass(LEASE / 2);
    assert_eq!(denied(a.refresh(held.term.epoch).await).why, Refusal::TermOver);
}

/// A handle that has just been made knows nothing of a holder that may have died long ago.
pub(super) async fn d11_of_a_leader_that_was_not_watched_nothing_is_known(stores: Stores) {
    let place = Place::new(&stores).await;
    let mut a = place.player("a").await;
    let (me, incarnation) = (id("a"), a.context.incarnation);
    let held = a.win().await;
    stores.pass(LEASE * 1_000);
    let admin = stores.admin(&place.bed.election);
    // Three ways to ask, and neither "yes" nor "no".
    let unknown = (held.term.clone(), LEASE / 2);
    assert_eq!(not_known_yet(async || admin.leader().await).await, unknown);
    assert_eq!(not_known_yet(async || admin.is_leader(&me, incarnation).await).await, unknown);
    assert_eq!(not_known_yet(async || admin.verify(&held.fence).await).await, unknown);
    // What is certain is said.
    assert!(!surely(async || admin.is_leader(&id("b"), incarnation).await).await);
    assert!(!surely(async || admin.is_leader(&me, Incarnation(incarnation.0 ^ 1)).await).await);
    let other = Fence { epoch: Epoch(held.fence.epoch.0 + 1), ..held.fence };
    assert!(!surely(async || admin.verify(&other).await).await);
    assert_eq!(surely(async || admin.leader_raw().await).await.map(|raw| raw.term), Some(held.term.clone()));
    // After a lease it knows that nobody leads.
    stores.pass(LEASE - MS);
    assert_eq!(not_known_yet(async || admin.leader().await).await, (held.term.clone(), MS));
    stores.pass(MS);
    assert_eq!(surely(async || admin.leader().await).await, None);
    assert!(!surely(async || admin.is_leader(&me, incarnation).await).await);
    assert!(!surely(async || admin.verify(&held.fence).await).await);
    // The same handle, if it was not asked for as long.
    let held = a.win().await;
    assert_eq!(surely(async || admin.leader().await).await, Some(held.term.clone()));
    granted(a.refresh(&held).await);
    stores.pass(LEASE * 1_000);
    assert_eq!(not_known_yet(async || admin.leader().await).await, (held.term, LEASE / 2));
}

/// Whoever asks as often as it is told knows a holder that lives within a lease, whenever that one refreshes.
pub(super) async fn d11_a_leader_that_lives_is_known_within_a_lease(stores: Stores) {
    const STEPS: u32 = 20;
    for every in [1, 7, 11, 19] {
        let place = Place::new(&stores).await;
        let mut a = place.player("a").await;
        let mut held = a.win().await;
        for first in 0..every {
            held = granted(a.refresh(&held).await);
            stores.pass(LEASE / STEPS * first);
            let admin = stores.admin(&place.bed.election);
            let (mut ask, mut since_refresh) = (Duration::ZERO, first);
            let mut is_known = false;
            for step in 0..=STEPS {
                if since_refresh == every {
                    (held, since_refresh) = (granted(a.refresh(&held).await), 0);
                }
                if !is_known && LEASE / STEPS * step >= ask {
                    let answer = loop {
                        match admin.leader().await {
                            Err(ElectionError::Unavailable(_)) => {}
                            answer => break answer,
                        }
                    };
                    match answer {
                        Ok(leader) => {
                            assert_eq!(leader, Some(held.term.clone()), "it lives");
                            is_known = true;
                        }
                        Err(ElectionError::NotKnownYet { again_within, .. }) => {
                            // A step late is too late.
                            ask = LEASE / STEPS * step + again_within;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                stores.pass(LEASE / STEPS);
                since_refresh += 1;
            }
            assert!(is_known, "refreshed every {every} steps, first after {first}");
        }
    }
}
