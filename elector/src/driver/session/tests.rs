//! Under paused time: the runtime's clock moves only when everybody waits.

use callsign_store::{
    Key, Piece, TooLarge,
    ids::{Beat, ClusterName, Incarnation, NodeName, SessionNumber},
    keys::ClusterKeys,
    memory::MemoryStore,
    record::Record,
};
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

use super::*;
use crate::{
    core::record::SessionRecord,
    recording::{Ending, Frame, Recording},
    session::SessionTiming,
    tests::{
        bare::{self, Opened},
        store::{Fault, TestStore},
    },
};

const OPEN_WAIT: Duration = Duration::from_secs(1);
const TEST_DEADLINE: Duration = Duration::from_secs(60);

fn config(name: &str, incarnation: u64) -> SessionConfig {
    SessionConfig {
        cluster: ClusterName::new("c").unwrap(),
        node: NodeName::new(name).unwrap(),
        incarnation: Incarnation(incarnation),
        timing: SessionTiming::default(),
        seed: incarnation,
    }
}

fn id(name: &str, incarnation: u64, number: u64) -> SessionId {
    SessionId {
        node: NodeName::new(name).unwrap(),
        incarnation: Incarnation(incarnation),
        number: SessionNumber(number),
    }
}

fn key(name: &str) -> Key {
    ClusterKeys::new(&ClusterName::new("c").unwrap()).session(&NodeName::new(name).unwrap())
}

fn stored(store: &TestStore, name: &str) -> Option<SessionRecord> {
    store.get(&key(name)).map(|value| SessionRecord::from_value(&value).unwrap())
}

async fn open(store: &Arc<TestStore>, name: &str, incarnation: u64) -> Opened {
    try_open(store, name, incarnation, OPEN_WAIT).await.unwrap()
}

async fn try_open(
    store: &Arc<TestStore>,
    name: &str,
    incarnation: u64,
    patience: impl Into<Patience>,
) -> Result<Opened, OpenSessionError> {
    let store: SharedStore = Arc::<TestStore>::clone(store);
    bare::open(store, Clock::runtime(), config(name, incarnation), patience, Supervisor::new()).await
}

async fn supervised(store: &Arc<TestStore>) -> (Opened, Supervisor) {
    let (supervisor, config) = (Supervisor::new(), config("a", 7));
    let (store, clock): (SharedStore, _) = (Arc::<TestStore>::clone(store), Clock::runtime());
    let opened = bare::open(store, clock, config, OPEN_WAIT, supervisor.clone()).await;
    (opened.unwrap(), supervisor)
}

/// The next event; none within a minute is a failure.
async fn next(events: &mut UnboundedReceiver<SessionEvent>) -> SessionEvent {
    tokio::time::timeout(TEST_DEADLINE, events.recv()).await.expect("an event").expect("a driver")
}

async fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_guards_its_life_opens_and_beats() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    assert_eq!(store.guarded(), [(NodeName::new("a").unwrap(), Incarnation(7))]);
    assert_eq!(session.session(), Some(id("a", 7, 1)));
    let trust = session.trust();
    until(|| stored(&store, "a").is_some_and(|r| r.beat >= Beat(5))).await;
    assert_eq!(trust.check(), Ok(SessionNumber(1)));
    assert_eq!(trust.check_session(SessionNumber(1)), Ok(()));
}

#[tokio::test]
async fn an_opening_ends_in_time_where_nothing_can_be_laid_down_that_proves_a_death() {
    for fault in [Fault::Silence, Fault::Unavailable] {
        let store = Arc::new(TestStore::default());
        store.fail_guards(Some(fault));
        let opened = try_open(&store, "a", 7, Duration::from_millis(100));
        let opened = tokio::time::timeout(TEST_DEADLINE, opened).await.expect("it has ended");
        store.fail_guards(None);
        assert!(matches!(opened, Err(OpenSessionError::StoreUnavailable(_))), "{fault:?}: {opened:?}");
        assert_eq!(stored(&store, "a"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_the_store_does_not_take_says_so() {
    let store = Arc::new(TestStore::default());
    let too_large = TooLarge { what: Piece::Value, size: 2, limit: 1 };
    store.script(CommitOutcome::TooLarge(too_large), false);
    let supervisor = Supervisor::new();
    let (shared, clock): (SharedStore, _) = (Arc::<TestStore>::clone(&store), Clock::runtime());
    let opened = bare::open(shared, clock, config("a", 7), TEST_DEADLINE, supervisor.clone()).await;
    let why = SessionFailure::TooLarge(too_large);
    assert!(matches!(&opened, Err(OpenSessionError::Failed(said)) if *said == why), "{opened:?}");
    assert_eq!(
        supervisor.failure(),
        None,
        "it was never a part of its node, and is told to whoever opened it"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_store_that_never_answers_do_not_pile_up() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    store.fail(Some(Fault::Silence));
    // Each that is under way has a handle to the store.
    let lease = config("a", 7).timing.lease;
    tokio::time::sleep(3 * lease).await;
    let most = Arc::strong_count(&store) + 5;
    for _ in 0..30 {
        tokio::time::sleep(lease).await;
        let waiting = Arc::strong_count(&store);
        assert!(waiting <= most, "{waiting} handles, {most} at the most");
    }
    store.fail(None);
    until(|| session.trust().check().is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_ends_unasked_takes_the_trust_along_and_what_it_left_open_can_be_closed() {
    let store = Arc::new(TestStore::default());
    let (session, supervisor) = supervised(&store).await;
    let trust = session.trust();
    session.inner.actor.kill();
    assert_eq!(supervisor.failed().await.part, PART);
    assert!(trust.check().is_err() && trust.has_lapsed());
    assert!(stored(&store, "a").unwrap().open);
    assert_eq!(session.leave().await, Err(LeaveError::Ended));
    assert_eq!(session.close().await, Ok(()));
    assert!(!stored(&store, "a").unwrap().open);
    assert!(trust.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_left_ends_no_node_and_one_that_cannot_be_kept_does() {
    let store = Arc::new(TestStore::default());
    let (session, supervisor) = supervised(&store).await;
    session.leave().await.unwrap();
    session.inner.actor.wait(None).await.unwrap();
    assert_eq!(supervisor.failure(), None);
    let too_large = callsign_store::TooLarge { what: callsign_store::Piece::Value, size: 2, limit: 1 };
    let (session, supervisor) = supervised(&store).await;
    store.script(CommitOutcome::TooLarge(too_large), false);
    let failure = tokio::time::timeout(TEST_DEADLINE, supervisor.failed()).await.expect("it fails");
    assert_eq!(failure.part, PART);
    assert!(session.trust().has_lapsed());
    session.inner.actor.wait(None).await.unwrap();
    assert_eq!(session.session(), None);
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_lands_after_its_deadline_is_closed_again() {
    let memory = MemoryStore::new();
    // What it commits is done, and it never hears of it.
    let _answers = memory.connect("a").hold_answers();
    let store: SharedStore = Arc::new(memory.connect("a"));
    let refused = bare::open(store, Clock::runtime(), config("a", 7), OPEN_WAIT, Supervisor::new()).await;
    assert!(matches!(refused, Err(OpenSessionError::StoreUnavailable(_))), "{refused:?}");
    let is_open = || {
        let data = memory.data();
        SessionRecord::from_value(data.get(&key("a")).expect("it has landed")).unwrap().open
    };
    // Without a driver that closes it, it would stay open until others do that, after its lease.
    until(|| !is_open()).await;
}

#[tokio::test]
async fn check_fails_after_the_deadline_although_no_task_of_the_process_ran() {
    let store: SharedStore = Arc::new(TestStore::default());
    let timing = SessionTiming::for_lease(Duration::from_millis(200));
    let config = SessionConfig { timing, ..config("a", 7) };
    let session = bare::open(store, Clock::boot(), config, TEST_DEADLINE, Supervisor::new()).await.unwrap();
    let trust = session.trust();
    // The only thread of the runtime is held here, as if the process were stopped.
    while !trust.remaining().is_zero() {
        std::thread::yield_now();
    }
    assert_eq!(trust.check().unwrap_err().session, Some(SessionNumber(1)));
}

#[tokio::test(start_paused = true)]
async fn an_outage_lapses_and_its_end_resumes() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    let mut events = session.subscribe();
    store.fail(Some(Fault::Silence));
    assert_eq!(next(&mut events).await, SessionEvent::Opened { session: id("a", 7, 1) });
    assert_eq!(next(&mut events).await, SessionEvent::Lapsed { session: id("a", 7, 1) });
    assert!(session.trust().check().is_err());
    assert_eq!(session.session(), Some(id("a", 7, 1)));
    let mut late = session.subscribe();
    assert_eq!(next(&mut late).await, SessionEvent::Lapsed { session: id("a", 7, 1) });
    store.fail(None);
    assert_eq!(next(&mut events).await, SessionEvent::Resumed { session: id("a", 7, 1) });
    assert_eq!(session.trust().check(), Ok(SessionNumber(1)));
}

#[tokio::test(start_paused = true)]
async fn unknown_outcomes_are_survived() {
    let store = Arc::new(TestStore::default());
    store.script(CommitOutcome::Unknown, false);
    store.script(CommitOutcome::Unknown, true);
    store.script(CommitOutcome::Conflict, false);
    let session = open(&store, "a", 7).await;
    until(|| stored(&store, "a").is_some_and(|r| r.beat >= Beat(6))).await;
    assert_eq!(session.trust().check(), Ok(SessionNumber(1)));
}

#[tokio::test(start_paused = true)]
async fn leaving_lapses_closes_and_ends_the_stream() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    let mut events = session.subscribe();
    assert_eq!(session.leave().await, Ok(()));
    assert!(!stored(&store, "a").unwrap().open);
    assert!(session.trust().check().is_err());
    assert_eq!(next(&mut events).await, SessionEvent::Opened { session: id("a", 7, 1) });
    assert_eq!(next(&mut events).await, SessionEvent::Lapsed { session: id("a", 7, 1) });
    assert_eq!(next(&mut events).await, SessionEvent::Left);
    assert_eq!(events.recv().await, None);
    assert_eq!(session.session(), None);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_not_trusted_while_the_store_is_waited_for() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    let (trust, leaves) = (session.trust(), session.driver.clone());
    store.fail(Some(Fault::Silence));
    let leaving = tokio::spawn(async move { leaves.leave().await });
    let lapses = tokio::time::timeout(OPEN_WAIT, until(|| trust.check().is_err())).await;
    assert!(lapses.is_ok() && !leaving.is_finished());
    assert!(leaving.await.unwrap().is_err());
}

/// What a session was told is in its recording, step by step; a fresh one that is told the same asks for the same.
#[tokio::test(start_paused = true)]
async fn a_session_is_recorded_to_its_end_and_woken_only_when_it_asked_to_be() {
    let (store, dir) = (Arc::new(TestStore::default()), tempfile::tempdir().unwrap());
    let (shared, clock): (SharedStore, _) = (Arc::<TestStore>::clone(&store), Clock::runtime());
    let record = Some(dir.path());
    let opened =
        bare::open_recorded(shared, clock, config("a", 7), OPEN_WAIT, Supervisor::new(), record).await;
    let session = opened.unwrap();
    until(|| stored(&store, "a").is_some_and(|r| r.beat >= Beat(20))).await;
    session.leave().await.unwrap();
    session.inner.actor.wait(None).await.unwrap();

    let path = dir.path().join("a-7-session.rec");
    let mut recording = Recording::<SessionConfig, Time, Input, Effect>::open(&path, Core::Session).unwrap();
    let (mut again, mut inputs, mut wakes_at) = (Session::new(config("a", 7)).unwrap(), Vec::new(), None);
    while let Some(Frame { now, input, effects }) = recording.next_frame().unwrap() {
        if input == Input::Wake {
            assert!(wakes_at.is_some_and(|at| at <= now), "woken at {now:?}, and asked for {wakes_at:?}");
        }
        let mut asked = Vec::new();
        again.step(now, input.clone(), &mut asked);
        assert_eq!(asked, effects);
        for effect in effects {
            if let Effect::WakeAt(at) = effect {
                wakes_at = Some(at);
            }
        }
        inputs.push(input);
    }
    assert_eq!(recording.ending(), Some(Ending::Finished));
    assert_eq!(inputs.first(), Some(&Input::Start));
    assert!(inputs.contains(&Input::Leave) && inputs.len() > 40, "{} steps", inputs.len());
}

#[tokio::test(start_paused = true)]
async fn leaving_without_a_store_says_that_it_is_not_confirmed() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    store.fail(Some(Fault::Unavailable));
    let left = session.leave().await;
    assert!(matches!(left, Err(LeaveError::Failed(SessionFailure::LeaveUnconfirmed { .. }))), "{left:?}");
    assert!(session.trust().check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_dropped_stays_open_until_another_node_closes_it() {
    let store = Arc::new(TestStore::default());
    let observer = open(&store, "o", 1).await;
    let mut events = observer.subscribe();
    let session = open(&store, "a", 7).await;
    let trust = session.trust();
    drop(session);
    let lapses = tokio::time::timeout(OPEN_WAIT, until(|| trust.check().is_err())).await;
    assert!(lapses.is_ok(), "its driver has ended: it does not wait until the time of its trust is over");
    assert!(stored(&store, "a").unwrap().open);
    assert_eq!(next(&mut events).await, SessionEvent::Opened { session: id("o", 1, 1) });
    assert_eq!(next(&mut events).await, SessionEvent::PeerClosed(id("a", 7, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_is_dead_is_closed_long_before_its_lease() {
    let store = Arc::new(TestStore::default());
    let observer = open(&store, "o", 1).await;
    observer.tell(Input::Leads(true));
    let mut events = observer.subscribe();
    drop(open(&store, "a", 7).await);
    let a = NodeName::new("a").unwrap();
    store.kill(&a, Incarnation(7));
    let start = Instant::now();
    observer.tell(Input::Suspect { node: a.clone(), incarnation: Incarnation(7) });
    assert_eq!(next(&mut events).await, SessionEvent::Opened { session: id("o", 1, 1) });
    assert_eq!(next(&mut events).await, SessionEvent::PeerClosed(id("a", 7, 1)));
    assert!(start.elapsed() < Duration::from_secs(10), "this time is not the machine's");
}

#[tokio::test(start_paused = true)]
async fn a_name_in_use_is_refused_and_nothing_is_left_behind() {
    let store = Arc::new(TestStore::default());
    let first = open(&store, "a", 7).await;
    let refused = try_open(&store, "a", 8, TEST_DEADLINE).await;
    let in_use =
        OpenSessionError::NameInUse { node: NodeName::new("a").unwrap(), incarnation: Incarnation(7) };
    assert_eq!(refused.unwrap_err(), in_use);
    assert_eq!(first.session(), Some(id("a", 7, 1)));
    assert_eq!(stored(&store, "a").unwrap().incarnation, Incarnation(7));
}

#[tokio::test(start_paused = true)]
async fn a_former_session_that_may_be_dead_is_not_called_alive() {
    let store = Arc::new(TestStore::default());
    drop(open(&store, "a", 7).await);
    let refused = try_open(&store, "a", 8, Duration::from_secs(5)).await;
    assert!(matches!(refused, Err(OpenSessionError::FormerOpen { .. })), "{refused:?}");
    let second = try_open(&store, "a", 9, TEST_DEADLINE).await.unwrap();
    assert_eq!(second.session(), Some(id("a", 9, 2)));
}

#[tokio::test(start_paused = true)]
async fn a_silent_former_session_is_waited_for_as_long_as_its_own_lease_asks() {
    let store = Arc::new(TestStore::default());
    let shared: SharedStore = Arc::<TestStore>::clone(&store);
    let long = SessionConfig { timing: SessionTiming::for_lease(Duration::from_secs(60)), ..config("a", 7) };
    drop(bare::open(shared, Clock::runtime(), long, OPEN_WAIT, Supervisor::new()).await.unwrap());
    let begun = Instant::now();
    // Its own lease is 10 s, and it was to take half of that.
    let patience = Patience::ForFormer(Duration::from_secs(5));
    let second = try_open(&store, "a", 8, patience).await.unwrap();
    assert_eq!(second.session(), Some(id("a", 8, 2)));
    assert!((60..90).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    // A store that does not answer is not waited for any longer.
    store.fail(Some(Fault::Silence));
    let refused = try_open(&store, "b", 9, patience).await;
    assert!(matches!(refused, Err(OpenSessionError::StoreUnavailable(_))), "{refused:?}");
    assert!(begun.elapsed().as_secs() < 100, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_process_holds_is_not_waited_for() {
    let store = Arc::new(TestStore::default());
    let _first = open(&store, "a", 7).await;
    let begun = Instant::now();
    let refused = try_open(&store, "a", 8, Patience::ForFormer(TEST_DEADLINE)).await;
    assert!(matches!(refused, Err(OpenSessionError::NameInUse { .. })), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_of_opening_is_said() {
    let store = Arc::new(TestStore::default());
    store.fail(Some(Fault::Silence));
    let refused = try_open(&store, "a", 7, OPEN_WAIT * 5).await;
    assert!(matches!(refused, Err(OpenSessionError::StoreUnavailable(_))), "{refused:?}");
    store.fail(None);
    store.put(key("a"), vec![9]);
    let refused = try_open(&store, "a", 7, OPEN_WAIT * 5).await;
    assert!(matches!(refused, Err(OpenSessionError::Corrupt(_))), "{refused:?}");
    let timing = SessionTiming { margin: TEST_DEADLINE, ..SessionTiming::default() };
    let store: SharedStore = store;
    let config = SessionConfig { timing, ..config("a", 7) };
    let refused = bare::open(store, Clock::runtime(), config, OPEN_WAIT, Supervisor::new()).await;
    assert!(matches!(refused, Err(OpenSessionError::Timing(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn whenever_it_is_asked_it_says_the_same_of_how_it_left() {
    for fault in [None, Some(Fault::Unavailable)] {
        let store = Arc::new(TestStore::default());
        let session = open(&store, "a", 7).await;
        store.fail(fault);
        let (one, other) = tokio::join!(session.leave(), session.leave());
        assert_eq!(one.is_ok(), fault.is_none(), "{one:?}");
        assert_eq!(other, one);
        session.inner.actor.wait(None).await.unwrap();
        assert_eq!((session.leave().await, session.close().await), (one.clone(), one));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_dropped_while_it_leaves_is_closed_nevertheless() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    let (trust, leaves) = (session.trust(), session.driver.clone());
    store.fail(Some(Fault::Silence));
    let leaving = tokio::spawn(async move { leaves.leave().await });
    until(|| trust.check().is_err()).await;
    // Its caller has given up, and nobody holds it any more.
    leaving.abort();
    assert!(leaving.await.is_err());
    drop(session);
    store.fail(None);
    until(|| !stored(&store, "a").unwrap().open).await;
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_fails_says_what_the_store_said() {
    let refused = OpenSessionError::StoreUnavailable;
    for (fault, obstacle) in [
        (Fault::Silence, Obstacle::NoAnswer),
        (Fault::Unavailable, Obstacle::Unavailable("told so".to_owned())),
    ] {
        let store = Arc::new(TestStore::default());
        store.fail(Some(fault));
        let opened = try_open(&store, "a", 7, OPEN_WAIT * 5).await;
        assert_eq!(opened.unwrap_err(), refused(obstacle));
    }
    let store = Arc::new(TestStore::default());
    store.fail_guards(Some(Fault::Unavailable));
    let opened = try_open(&store, "a", 7, OPEN_WAIT * 5).await;
    assert_eq!(opened.unwrap_err(), refused(Obstacle::Unavailable("no locks".to_owned())));
}
