//! Under paused time: the runtime's clock moves only when everybody waits.

use tokio::time::Instant;

use super::*;
use crate::{
    ids::{Beat, ClusterName, SessionNumber},
    keys::ClusterKeys,
    record::{Record, SessionRecord},
    session::{
        SessionTiming,
        test_store::{Fault, TestStore},
    },
    store::Key,
};

const SOON: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

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

async fn open(store: &Arc<TestStore>, name: &str, incarnation: u64) -> NodeSession {
    try_open(store, name, incarnation, SOON).await.unwrap()
}

async fn try_open(
    store: &Arc<TestStore>,
    name: &str,
    incarnation: u64,
    deadline: Duration,
) -> Result<NodeSession, OpenSessionError> {
    let store: SharedStore = Arc::<TestStore>::clone(store);
    NodeSession::open(store, Clock::runtime(), config(name, incarnation), deadline).await
}

/// The next event; none within a minute is a failure.
async fn next(events: &mut UnboundedReceiver<SessionEvent>) -> SessionEvent {
    tokio::time::timeout(LONG, events.recv()).await.expect("an event").expect("a driver")
}

async fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
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

#[tokio::test(start_paused = true)]
async fn check_fails_after_the_deadline_although_the_driver_is_gone() {
    let store = Arc::new(TestStore::default());
    let session = open(&store, "a", 7).await;
    let mut events = session.subscribe();
    assert_eq!(next(&mut events).await, SessionEvent::Opened { session: id("a", 7, 1) });
    let trust = session.trust();
    session.inner.actor.kill();
    assert_eq!(events.recv().await, None);
    assert_eq!(trust.check(), Ok(SessionNumber(1)), "nothing has told it");
    tokio::time::advance(trust.remaining().saturating_sub(Duration::from_nanos(1))).await;
    assert_eq!(trust.check(), Ok(SessionNumber(1)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(trust.check().is_err());
    assert_eq!(session.leave().await, Err(LeaveError::Ended));
}

#[tokio::test]
async fn check_fails_after_the_deadline_although_no_task_of_the_process_ran() {
    let store: SharedStore = Arc::new(TestStore::default());
    let timing = SessionTiming::for_lease(Duration::from_millis(200));
    let config = SessionConfig { timing, ..config("a", 7) };
    let session = NodeSession::open(store, Clock::boot(), config, LONG).await.unwrap();
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
    until(|| trust.check().is_err()).await;
    assert!(stored(&store, "a").unwrap().open);
    assert_eq!(next(&mut events).await, SessionEvent::Opened { session: id("o", 1, 1) });
    assert_eq!(next(&mut events).await, SessionEvent::PeerClosed(id("a", 7, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_is_dead_is_closed_long_before_its_lease() {
    let store = Arc::new(TestStore::default());
    let observer = open(&store, "o", 1).await;
    observer.lead(true);
    let mut events = observer.subscribe();
    drop(open(&store, "a", 7).await);
    let a = NodeName::new("a").unwrap();
    store.kill(&a, Incarnation(7));
    let start = Instant::now();
    observer.suspect(&a, Incarnation(7));
    assert_eq!(next(&mut events).await, SessionEvent::Opened { session: id("o", 1, 1) });
    assert_eq!(next(&mut events).await, SessionEvent::PeerClosed(id("a", 7, 1)));
    assert!(start.elapsed() < Duration::from_secs(10), "this time is not the machine's");
}

#[tokio::test(start_paused = true)]
async fn a_name_in_use_is_refused_and_nothing_is_left_behind() {
    let store = Arc::new(TestStore::default());
    let first = open(&store, "a", 7).await;
    let refused = try_open(&store, "a", 8, LONG).await;
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
    let second = try_open(&store, "a", 9, LONG).await.unwrap();
    assert_eq!(second.session(), Some(id("a", 9, 2)));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_of_opening_is_said() {
    let store = Arc::new(TestStore::default());
    store.fail(Some(Fault::Silence));
    let refused = try_open(&store, "a", 7, SOON * 5).await;
    assert!(matches!(refused, Err(OpenSessionError::StoreUnavailable(_))), "{refused:?}");
    store.fail(None);
    store.put(key("a"), vec![9]);
    let refused = try_open(&store, "a", 7, SOON * 5).await;
    assert!(matches!(refused, Err(OpenSessionError::Corrupt(_))), "{refused:?}");
    let timing = SessionTiming { margin: LONG, ..SessionTiming::default() };
    let store: SharedStore = store;
    let config = SessionConfig { timing, ..config("a", 7) };
    let refused = NodeSession::open(store, Clock::runtime(), config, SOON).await;
    assert!(matches!(refused, Err(OpenSessionError::Timing(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_gets_the_closed_sessions_that_are_known() {
    let store = Arc::new(TestStore::default());
    let other = open(&store, "a", 7).await;
    other.leave().await.unwrap();
    let session = open(&store, "o", 1).await;
    let mut early = session.subscribe();
    let opened = SessionEvent::Opened { session: id("o", 1, 1) };
    let closed = SessionEvent::PeerClosed(id("a", 7, 1));
    assert_eq!(next(&mut early).await, opened);
    assert_eq!(next(&mut early).await, closed);
    let mut late = session.subscribe();
    assert_eq!(next(&mut late).await, opened);
    assert_eq!(next(&mut late).await, closed);
}
