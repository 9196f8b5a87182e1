//! How soon followers notice.

use super::*;
use crate::{MonitorEvent, MonitorSettings};
use callsign_election::{
    Attempt, Denial, Fault, Grant, Oracle, Refusal, Timing, Verdict, campaign::CampaignEventKind,
};

over_every_oracle!(
    i9_the_death_of_the_leader_is_followed_by_a_claim_within_a_tenth_of_a_second,
    i12_c1_without_a_monitor_polls_take_over_from_a_leader_that_died,
    i12_i1_without_a_monitor_a_resignation_is_noticed_at_once,
);

/// Nobody asks by timer, so that what is noticed is noticed by the monitor.
fn without_polls<S: Seats>(plan: SingletonPlan<S::Oracle, Work>) -> SingletonPlan<S::Oracle, Work> {
    plan.timing(Timing { poll: Duration::from_secs(24 * 3600), ..timing() })
}

fn is_claim(event: &SingletonEvent) -> Option<()> {
    matches!(
        what(event),
        Some(
            CampaignEventKind::Claimed
                | CampaignEventKind::Rejected { .. }
                | CampaignEventKind::UnknownOutcome { .. }
        )
    )
    .then_some(())
}

async fn i9_the_death_of_the_leader_is_followed_by_a_claim_within_a_tenth_of_a_second<S: Seats>() {
    // Its actor dies, or its whole node.
    for whole_node in [false, true] {
        let mut sites = Sites::<S>::start(without_polls::<S>).await;
        let first = sites.led(None).await;
        let other = (first + 1) % 3;
        sites
            .event(other, |e| {
                matches!(e, SingletonEvent::Monitor(MonitorEvent::Started { .. })).then_some(())
            })
            .await;
        sites.seen(other).await;
        let killed = tokio::time::Instant::now();
        if whole_node {
            sites.isolate(first);
        } else {
            let child: ActorRef<Work> = sites.nodes[first].whereis("reports").unwrap();
            child.kill();
        }
        sites.event(other, is_claim).await;
        let took = killed.elapsed();
        assert!(took < Duration::from_millis(100), "whole node: {whole_node}: {took:?}");
    }
}

async fn i12_c1_without_a_monitor_polls_take_over_from_a_leader_that_died<S: Seats>() {
    let mut sites = Sites::<S>::start(|plan| plan.monitor(None)).await;
    let first = sites.led(None).await;
    let killed = tokio::time::Instant::now();
    sites.isolate(first);
    let second = sites.led(Some(first)).await;
    let took = killed.elapsed();
    let timing = timing();
    let bound = timing.lease + timing.poll + timing.jitter + Duration::from_secs(3);
    assert!(took <= bound, "{took:?} of {bound:?}");
    let seen = sites.seen(second).await;
    assert!(!seen.iter().any(|e| matches!(e, SingletonEvent::Monitor(_))), "it was off");
}

async fn i12_i1_without_a_monitor_a_resignation_is_noticed_at_once<S: Seats>() {
    let sites = Sites::<S>::start(|plan| plan.monitor(None)).await;
    let first = sites.led(None).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = tokio::time::Instant::now();
    sites.singletons[first].request_resign(None);
    sites.led(Some(first)).await;
    assert!(asked.elapsed() < Duration::from_millis(250), "{:?}", asked.elapsed());
}

/// Always says no, and counts.
struct Never(Arc<Mutex<Vec<tokio::time::Instant>>>);

impl Oracle for Never {
    type Fence = ();
    type Info = ();
    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        self.0.lock().unwrap().push(tokio::time::Instant::now());
        Ok(Verdict::Denied(Denial { why: Refusal::Held, leader: None, retry_in: None }))
    }
    async fn refresh(&mut self, attempt: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
        self.claim(attempt).await
    }
}

const SETTINGS: MonitorSettings =
    MonitorSettings { delay: Duration::from_secs(5), timeout: Duration::from_secs(30) };

/// A singleton that never gets the seat, and is only told by its monitor when to ask.
async fn advised_by_never(
    node: &Registry,
    claims: &Arc<Mutex<Vec<tokio::time::Instant>>>,
) -> Singleton<Never, Work> {
    let journal = Journal::default();
    let child = move || Child {
        journal: journal.clone(),
        node: "a".into(),
        kind: ChildKind::Leader,
        epoch: 0,
        notes: Vec::new(),
    };
    Singleton::builder(node, "reports")
        .advised_by(Never(claims.clone()))
        .leader(move |_| (child(), ()))
        .timing(Timing { poll: Duration::from_secs(24 * 3600), ..timing() })
        .monitor(Some(SETTINGS))
        .start()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn i10_a_leader_that_is_not_to_be_seen_is_looked_for_and_after_the_timeout_the_seat_is_claimed() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let claims = Arc::<Mutex<Vec<_>>>::default();
    let singleton = advised_by_never(&node, &claims).await;
    let mut events = singleton.subscribe();
    let begun = tokio::time::Instant::now();
    let mut looks = Vec::new();
    while claims.lock().unwrap().len() < 3 {
        let event =
            tokio::time::timeout(TEST_DEADLINE, events.next()).await.expect("an event comes").unwrap();
        if let SingletonEvent::Monitor(MonitorEvent::Failed { retry, remaining }) = event {
            looks.push((retry, remaining.as_secs(), begun.elapsed().as_secs()));
        }
    }
    let claims = claims.lock().unwrap().clone();
    let between: Vec<_> = claims.windows(2).map(|two| two[1] - two[0]).collect();
    for took in &between {
        let least = SETTINGS.timeout;
        assert!(*took >= least && *took <= least + SETTINGS.delay, "{between:?}");
    }
    let first: Vec<_> = looks.iter().take(6).map(|(retry, remaining, _)| (*retry, *remaining)).collect();
    assert_eq!(first, [(1, 30), (2, 25), (3, 20), (4, 15), (5, 10), (6, 5)], "{looks:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_cut_off_looks_for_the_leader_from_the_beginning() {
    let cluster = Cluster::new();
    let [node, other] = [cluster.node("a").await, cluster.node("b").await];
    let _held = other.register("reports", &crate::tests::driver::counter().await).await.unwrap();
    until("it is seen", || node.lookup("reports").is_ok_and(|entry| entry.is_some())).await;
    let singleton = advised_by_never(&node, &Arc::default()).await;
    let mut events = singleton.subscribe();
    let mut monitored = async || loop {
        let event =
            tokio::time::timeout(SETTINGS.timeout, events.next()).await.expect("an event comes").unwrap();
        if let SingletonEvent::Monitor(event) = event {
            return event;
        }
    };
    assert!(matches!(monitored().await, MonitorEvent::Started { .. }));
    // It is seen for longer than it would be looked for. The clock is paused, so nobody waits here.
    tokio::time::sleep(SETTINGS.timeout * 2).await;
    cluster.store.outage_for_all();
    until("it has lapsed", || node.lookup("reports").is_err()).await;
    cluster.network.cut(Cluster::address("a"), Cluster::address("b"));
    // For as long as it has seen the leader, nothing was looked for.
    let looked = monitored().await;
    assert_eq!(looked, MonitorEvent::Failed { retry: 1, remaining: SETTINGS.timeout });
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_looked_for_as_long_as_was_set_and_no_longer() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let singleton = advised_by_never(&node, &Arc::default()).await;
    let mut events = singleton.subscribe();
    let mut looks = 0;
    let elapsed = loop {
        let event = tokio::time::timeout(TEST_DEADLINE, events.next()).await.expect("an event comes");
        match event.unwrap() {
            SingletonEvent::Monitor(MonitorEvent::Failed { .. }) => looks += 1,
            SingletonEvent::Monitor(MonitorEvent::Timeout { elapsed }) => break elapsed,
            _ => {}
        }
    };
    assert_eq!((looks, elapsed), (6, SETTINGS.timeout));
}
