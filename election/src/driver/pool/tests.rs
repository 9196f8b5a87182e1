use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use callsign_store::ids::{ElectionName, Incarnation, MemberId, Nonce};
use futures::{FutureExt, channel::mpsc};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

mod turns;
mod whole;

type Replica = Arc<Mutex<BTreeMap<MemberId, PoolRow>>>;

/// True time in milliseconds, which nobody in the pool knows.
type Now = Arc<AtomicU64>;

/// A peer's replica; the test copies rows between them.
#[derive(Clone, Default)]
struct Shelf {
    rows: Replica,
    fails: Arc<AtomicBool>,
    listeners: Arc<Mutex<Vec<mpsc::UnboundedSender<()>>>>,
}

impl Pool for Shelf {
    async fn rows(&mut self) -> Result<Vec<PoolRow>, PoolFailed> {
        Ok(self.rows.lock().unwrap().values().cloned().collect())
    }

    async fn upsert(&mut self, row: PoolRow) -> Result<(), PoolFailed> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(PoolFailed("full".to_owned()));
        }
        self.rows.lock().unwrap().insert(row.member.clone(), row);
        self.listeners.lock().unwrap().iter().for_each(|to| drop(to.unbounded_send(())));
        Ok(())
    }

    fn changes(&mut self) -> BoxStream<'static, ()> {
        let (told, changes) = mpsc::unbounded();
        self.listeners.lock().unwrap().push(told);
        changes.boxed()
    }
}

struct Peer {
    oracle: PoolOracle<Shelf>,
    shelf: Shelf,
    id: MemberId,
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A day in 2026, so that a clock can also be behind.
const EPOCH: u64 = 1_780_000_000_000;

/// With a clock that is `skew` ahead of true time.
fn peer(shelf: &Shelf, now: &Now, id: &str, priority: u32, timing: PoolTiming, skew: Duration) -> Peer {
    let now = now.clone();
    let clock: WallClock = Arc::new(move || Duration::from_millis(EPOCH + now.load(Ordering::SeqCst)) + skew);
    let mut oracle = PoolOracle::new(shelf.clone(), priority, timing, clock).unwrap();
    let (election, id) = (ElectionName::new("pool").unwrap(), MemberId::new(id).unwrap());
    let context = Context { election, member: id.clone(), incarnation: Incarnation(rand::random()) };
    oracle.init(&context).now_or_never().unwrap().unwrap();
    Peer { oracle, shelf: shelf.clone(), id }
}

impl Peer {
    fn claim(&mut self) -> Result<Verdict<()>, Fault> {
        self.oracle.claim(Attempt { nonce: Nonce(0) }).now_or_never().unwrap()
    }

    fn refresh(&mut self, held: &Grant<()>) -> Result<Verdict<()>, Fault> {
        self.oracle.refresh(Attempt { nonce: Nonce(0) }, held).now_or_never().unwrap()
    }

    fn wins(&mut self) -> Grant<()> {
        match self.claim().unwrap() {
            Verdict::Granted(grant) => grant,
            Verdict::Denied(denial) => panic!("{denial:?}"),
        }
    }

    /// Who leads instead, and why.
    fn loses(&mut self) -> (Refusal, Option<String>) {
        match self.claim().unwrap() {
            Verdict::Granted(grant) => panic!("{grant:?}"),
            Verdict::Denied(denial) => (denial.why, denial.leader.map(|term| term.leader.to_string())),
        }
    }

    fn abdicate(&mut self, held: &Grant<()>) -> bool {
        self.oracle.abdicate(held).now_or_never().unwrap().unwrap()
    }

    fn row(&self) -> Option<PoolRow> {
        self.shelf.rows.lock().unwrap().get(&self.id).cloned()
    }
}

fn outranked_by(leader: &str) -> (Refusal, Option<String>) {
    (Refusal::Outranked, Some(leader.to_owned()))
}

fn exact() -> PoolTiming {
    PoolTiming { max_skew: Duration::ZERO, ..PoolTiming::default() }
}

fn pass(now: &Now, time: Duration) {
    now.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
}

#[test]
fn c13_a_skew_of_half_the_expiry_is_refused() {
    let clock: WallClock = Arc::new(|| Duration::ZERO);
    let make = |timing| PoolOracle::new(Shelf::default(), 1, timing, clock.clone()).map(drop);
    assert_eq!(make(PoolTiming::default()), Ok(()));
    for skew in [30, 31, 60] {
        let (max_skew, expiry) = (seconds(skew), seconds(60));
        let timing = PoolTiming { max_skew, ..PoolTiming::default() };
        assert_eq!(make(timing), Err(WrongPoolTiming::Skew { max_skew, expiry }));
    }
    let timing = PoolTiming { heartbeat: seconds(35), ..PoolTiming::default() };
    let wrong = WrongPoolTiming::Heartbeat { heartbeat: seconds(35), recheck: seconds(5), left: seconds(40) };
    assert_eq!(make(timing), Err(wrong));
}

/// The grant is advisory by its type: its fence is `()`.
#[test]
fn c13_who_leads_stops_at_expiry_less_skew_and_others_start_at_expiry_and_skew() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let timing = PoolTiming::default();
    for (ahead, behind) in [(0, 0), (20, 0), (0, 20)] {
        let mut a = peer(&shelf, &now, &format!("a{ahead}{behind}"), 9, timing, seconds(ahead));
        let mut b = peer(&shelf, &now, &format!("b{ahead}{behind}"), 8, timing, seconds(behind));
        let held: Grant<()> = a.wins();
        assert_eq!((held.validity, held.refresh_in), (Validity::For(seconds(40)), Some(seconds(5))));
        assert_eq!(b.loses(), outranked_by(a.id.as_str()));
        // From here on `a` is silent. It has stopped after 40 s; b may not start before 60 s, whatever the clocks show.
        let mut silent = 0;
        while matches!(b.claim().unwrap(), Verdict::Denied(_)) {
            pass(&now, seconds(1));
            silent += 1;
        }
        assert_eq!(silent, 80 + ahead - behind, "expiry and skew, by its own clock");
        assert!(silent >= 60, "not before a's heartbeat has expired everywhere");
        // For the next round.
        pass(&now, seconds(200));
    }
}

#[test]
fn c13_a_leader_that_cannot_write_its_heartbeat_is_trusted_for_no_longer() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut a = peer(&shelf, &now, "a", 1, PoolTiming::default(), Duration::ZERO);
    let held = a.wins();
    shelf.fails.store(true, Ordering::SeqCst);
    pass(&now, seconds(10));
    let Ok(Verdict::Granted(kept)) = a.refresh(&held) else { panic!("no heartbeat was due") };
    assert_eq!(kept.validity, Validity::For(seconds(30)), "from the last heartbeat, not from now");
    pass(&now, seconds(5));
    assert!(matches!(a.refresh(&held), Err(Fault::Transient { .. })));
    shelf.fails.store(false, Ordering::SeqCst);
    let Ok(Verdict::Granted(kept)) = a.refresh(&held) else { panic!("it is there again") };
    assert_eq!((kept.term, kept.validity), (held.term, Validity::For(seconds(40))));
}

#[test]
fn a1_a2_of_two_processes_of_one_name_the_elder_leads_and_the_other_is_told() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut first = peer(&shelf, &now, "a", 1, exact(), Duration::ZERO);
    let held = first.wins();
    pass(&now, seconds(5));
    let mut second = peer(&shelf, &now, "a", 1, exact(), Duration::ZERO);
    assert_eq!(second.loses(), (Refusal::DuplicateIdentity, Some("a".to_owned())));
    assert!(matches!(first.refresh(&held), Ok(Verdict::Granted(_))));
    // Or the first is dead, and the second a restart: it waits, and never goes on with that term.
    pass(&now, seconds(60));
    let next = second.wins();
    assert_ne!((next.term.incarnation, next.term.epoch), (held.term.incarnation, held.term.epoch));
    // Should the first come back after all, it is the younger now.
    assert_eq!(first.loses().0, Refusal::DuplicateIdentity);
}

#[test]
fn e2_e3_e4_a_heartbeat_keeps_the_stamp_and_who_was_removed_is_the_youngest() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut a = peer(&shelf, &now, "z", 1, exact(), Duration::ZERO);
    a.wins();
    let joined = a.row().unwrap().joined;
    pass(&now, seconds(1));
    let mut b = peer(&shelf, &now, "b", 1, exact(), Duration::ZERO);
    assert_eq!(b.loses(), outranked_by("z"), "the elder, not the smaller id");
    for _ in 0..10 {
        pass(&now, seconds(5));
        a.wins();
    }
    let row = a.row().unwrap();
    assert_eq!(row.joined, joined);
    assert!(row.heartbeat > joined + seconds(30));
    shelf.rows.lock().unwrap().remove(&a.id);
    assert_eq!(a.loses().0, Refusal::Outranked);
    b.wins();
    assert_eq!(a.loses(), outranked_by("b"));
    assert!(a.row().unwrap().joined > b.row().unwrap().joined);
}

#[test]
fn e8_rank_is_priority_then_seniority_then_id_whatever_the_order_of_the_rows() {
    let mut random = StdRng::seed_from_u64(8);
    for _ in 0..300 {
        let (shelf, now) = (Shelf::default(), Now::default());
        let row = |n: u32, random: &mut StdRng| PoolRow {
            member: MemberId::new(format!("m{n}")).unwrap(),
            incarnation: Incarnation(u64::from(n)),
            priority: random.random_range(0..4),
            joined: Duration::from_millis(EPOCH - random.random_range(0..3)),
            heartbeat: Duration::from_millis(EPOCH),
            terms: 1,
            leads_since: Some(Duration::from_millis(EPOCH)),
        };
        let rows: Vec<_> = (0..6).map(|n| row(n, &mut random)).collect();
        for row in &rows {
            shelf.rows.lock().unwrap().insert(row.member.clone(), row.clone());
        }
        let best = rows
            .iter()
            .filter(|row| row.priority > 0)
            .min_by_key(|row| (std::cmp::Reverse(row.priority), row.joined, row.member.clone()))
            .map(|row| row.member.to_string());
        // Two that look, from outside.
        for id in ["look", "on"] {
            let why = Refusal::Ineligible;
            let mut onlooker = peer(&shelf, &now, id, 0, exact(), Duration::ZERO);
            assert_eq!(onlooker.loses(), (why, best.clone()));
        }
    }
}

#[test]
fn e9_priority_0_never_leads_and_a_leader_that_opts_out_is_followed_within_one_recheck() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut out = peer(&shelf, &now, "a", 0, exact(), Duration::ZERO);
    assert_eq!(out.loses(), (Refusal::Ineligible, None), "also when alone");
    let mut b = peer(&shelf, &now, "b", 5, exact(), Duration::ZERO);
    let mut c = peer(&shelf, &now, "c", 3, exact(), Duration::ZERO);
    let held = b.wins();
    assert_eq!(c.loses(), outranked_by("b"));
    let told = b.oracle.handle_info(SetPriority(0)).now_or_never().unwrap();
    let Reaction::Verdict(Verdict::Denied(denial)) = told else { panic!("{told:?}") };
    assert_eq!(denial.why, Refusal::Ineligible);
    assert!(b.abdicate(&held), "its work has ended");
    pass(&now, exact().recheck);
    c.wins();
    let Ok(Verdict::Denied(denial)) = b.refresh(&held) else { panic!("it opted out") };
    assert_eq!(denial.leader.map(|term| term.leader), Some(c.id.clone()));
    // And back: it outranks, once the other has stopped.
    assert_eq!(b.oracle.handle_info(SetPriority(5)).now_or_never(), Some(Reaction::Poll));
    assert!(matches!(b.loses(), (Refusal::Held, Some(leader)) if leader == "c"));
    assert_eq!(c.loses(), (Refusal::Outranked, None));
    b.wins();
    assert_eq!(c.loses(), outranked_by("b"));
}

#[test]
fn a_peer_that_has_resigned_and_is_given_a_priority_leads_no_term_that_it_does_not_claim() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut a = peer(&shelf, &now, "a", 9, exact(), Duration::ZERO);
    let mut b = peer(&shelf, &now, "b", 1, exact(), Duration::ZERO);
    let held = a.wins();
    assert!(a.abdicate(&held));
    assert_eq!(a.oracle.handle_info(SetPriority(8)).now_or_never(), Some(Reaction::Poll));
    pass(&now, exact().recheck);
    b.wins();
    // Its next claim says so, and the other stops.
    assert!(matches!(a.loses(), (Refusal::Held, Some(leader)) if leader == "b"));
    assert_eq!(b.loses(), (Refusal::Outranked, None));
    a.wins();
}

#[test]
fn e10_i11_a_silent_top_is_followed_between_expiry_and_one_recheck_later() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut a = peer(&shelf, &now, "a", 9, exact(), Duration::ZERO);
    let mut b = peer(&shelf, &now, "b", 1, exact(), Duration::ZERO);
    a.wins();
    // It hangs; that its row is still there impresses nobody.
    pass(&now, seconds(3));
    let mut silent = seconds(3);
    while b.claim().is_ok_and(|verdict| matches!(verdict, Verdict::Denied(_))) {
        pass(&now, exact().recheck);
        silent += exact().recheck;
    }
    assert!((seconds(60)..=seconds(65)).contains(&silent), "{silent:?}");
}

#[test]
fn i1_a_change_of_the_pool_brings_the_next_look_forward() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut a = peer(&shelf, &now, "a", 9, exact(), Duration::ZERO);
    let mut b = peer(&shelf, &now, "b", 1, exact(), Duration::ZERO);
    let held = a.wins();
    b.loses();
    let mut signals = b.oracle.signals();
    assert_eq!(signals.next().now_or_never(), None);
    a.abdicate(&held);
    assert_eq!(signals.next().now_or_never(), Some(Some(Signal::Wakeup)));
    b.wins();
}
