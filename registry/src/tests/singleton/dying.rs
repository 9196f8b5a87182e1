//! A part of a singleton that panics ends its node, and another one leads; children that panic cost their own run.

use std::sync::atomic::AtomicUsize;

use futures::{FutureExt, future::BoxFuture};

use super::*;
use crate::{ChildKind::Leader, NodeFailure, SingletonError, Turn, Turns, core::input::Input};

/// All that a singleton adds to its node, but its campaign.
const SINGLETON_PARTS: [&str; 8] = [
    "a child of a singleton",
    "the end of a singleton's child",
    "the monitor of a leader",
    "the name of a singleton",
    "the supervisor of singleton reports",
    "the timer of a singleton",
    "the watch over a singleton's campaign",
    "the watch over a singleton's supervisor",
];

impl<S: Seats> Sites<S> {
    /// Has whoever leads give up the leadership, again and again.
    async fn changes_hands(&self) {
        loop {
            let leader = self.led(None).await;
            self.singletons[leader].request_resign(None);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until a node has failed, and sees that nothing of its singleton goes on, and that another one leads.
    async fn fails(&self, n: usize, stimulus: impl Future<Output = ()>) -> NodeFailure {
        let failure = tokio::select! {
            biased;
            failure = self.nodes[n].failed() => failure,
            () = stimulus => unreachable!("it is never done"),
            () = tokio::time::sleep(5 * TEST_DEADLINE) => panic!("it has not failed"),
        };
        // At once, before anything else runs.
        assert!(self.singletons[n].leadership().check().is_err(), "{failure}: it is trusted");
        self.led(Some(n)).await;
        until("its children are down", || self.journal.of(NAMES[n]).last().is_some_and(|(_, up)| !up)).await;
        let refused = plan::<S>(&self.nodes[n], &self.journal, as_it_is::<S>).start().await;
        assert!(matches!(refused, Err(SingletonError::Failed(why)) if why == failure));
        // Nothing of it begins again.
        let lines = self.journal.of(NAMES[n]).len();
        tokio::time::sleep(6 * LEASE).await;
        assert_eq!(self.journal.of(NAMES[n]).len(), lines, "{failure}: a child was started");
        assert!(self.singletons[n].leadership().check().is_err());
        self.journal.assert_no_overlap();
        failure
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_singleton_that_panics_ends_its_node_whichever_it_is() {
    for part in SINGLETON_PARTS {
        let sites = Sites::<ByLease>::start(as_it_is::<ByLease>).await;
        let n = sites.led(None).await;
        sites.nodes[n].node.supervisor.sabotage(part);
        if part == "the watch over a singleton's supervisor" {
            sites.singletons[n].supervisor().stop(None);
        }
        let failure = sites.fails(n, sites.changes_hands()).await;
        assert_eq!((failure.part.as_str(), failure.reason.as_str()), (part, "panicked: sabotage"));
    }
}

#[tokio::test(start_paused = true)]
async fn these_are_all_the_parts_that_a_singleton_adds() {
    let sites = Sites::<ByLease>::start(as_it_is::<ByLease>).await;
    let alone = Cluster::new().three().await;
    let without: std::collections::BTreeSet<_> =
        alone.iter().flat_map(|node| node.node.supervisor.parts()).collect();
    let added = || {
        let parts = sites.nodes.iter().flat_map(|node| node.node.supervisor.parts());
        let mut parts: std::collections::BTreeSet<_> = parts.filter(|part| !without.contains(part)).collect();
        parts.retain(|part| part.contains("singleton") || part.contains("leader"));
        parts.into_iter().collect::<Vec<_>>()
    };
    tokio::select! {
        biased;
        () = sites.changes_hands() => {}
        () = until("all have run", || added().len() >= SINGLETON_PARTS.len()) => {}
    }
    assert_eq!(added(), SINGLETON_PARTS, "a part is missing in the list, and in the test above");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_dies_ends_the_node_of_its_singleton() {
    let sites = Sites::<ByLease>::start(as_it_is::<ByLease>).await;
    let n = sites.led(None).await;
    sites.singletons[n].campaign().supervisor().sabotage("the loop of a campaign");
    let failure = sites.fails(n, std::future::pending()).await;
    assert_eq!(failure.part, "the campaign of a singleton");
    assert_eq!(failure.reason, "the loop of a campaign panicked: sabotage");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_fails_gives_up_the_seat() {
    let sites = Sites::<ByLease>::start(as_it_is::<ByLease>).await;
    let n = sites.led(None).await;
    sites.nodes[n].node.supervisor.sabotage("the member of registry default");
    sites.nodes[n].shared.push(Input::Wake);
    let failure = sites.fails(n, std::future::pending()).await;
    assert_eq!(failure.part, "the member of registry default");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_panics_and_what_makes_one_that_panics_cost_their_own_run() {
    let sites = Sites::<ByLease>::start(as_it_is::<ByLease>).await;
    let n = sites.led(None).await;
    sites.who(n).await;
    sites.to(n).cast(Work::Panic).await.unwrap();
    let again = [(Leader, true), (Leader, false), (Leader, true)];
    until("it is started again in place", || sites.journal.of(NAMES[n]).ends_with(&again)).await;
    assert!(sites.leads(n));
    sites.who(n).await;

    let (made, journal) = (Arc::new(AtomicUsize::new(0)), Journal::default());
    let (makes, child) = (made.clone(), journal.clone());
    let other = Singleton::builder(&sites.nodes[n], "others")
        .leader(move |lead: Lead<Fence>| {
            assert!(makes.fetch_add(1, Ordering::SeqCst) > 0, "the application's own mistake");
            let (journal, epoch) = (child.clone(), lead.grant.term.epoch.0);
            (Child { journal, node: "a".into(), kind: Leader, epoch, notes: Vec::new() }, ())
        })
        .timing(timing())
        .start()
        .await
        .unwrap();
    until("it is made again", || journal.of("a") == [(Leader, true)]).await;
    until("it leads", || other.leadership().check().is_ok()).await;
    assert_eq!(sites.nodes[n].status().failed, None);
}

/// Once it is told so, the supervisors of singletons do not run.
#[derive(Debug, Default)]
struct WithoutSupervisors(AtomicBool);

impl Turns for WithoutSupervisors {
    fn turn(&self, part: &str) -> Turn {
        let stands = self.0.load(Ordering::SeqCst) && part.starts_with("the supervisor of singleton");
        if stands { Turn::Waits(std::future::pending().boxed()) } else { Turn::Runs }
    }

    fn is_dead(&self) -> bool {
        false
    }

    fn death(&self) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_ends_in_time_though_its_supervisor_does_not_run() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let turns = Arc::new(WithoutSupervisors::default());
    let node = Registry::join(cluster.config("a").turns(turns.clone())).await.unwrap();
    let singleton = plan::<ByLease>(&node, &journal, as_it_is::<ByLease>).start().await.unwrap();
    until("it leads", || singleton.leadership().check().is_ok()).await;
    until("its child runs", || journal.leaders().len() == 1).await;
    turns.0.store(true, Ordering::SeqCst);
    cluster.store.connect("a").outage();
    let until_then = tokio::time::Instant::now() + LEASE;
    until("it is not trusted", || singleton.leadership().check().is_err()).await;
    until("its child is down", || journal.leaders().iter().any(|line| !line.up)).await;
    assert!(tokio::time::Instant::now() <= until_then, "another may lead now");
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_next_to_nothing_of_the_singletons_that_it_has_ended() {
    let cluster = Cluster::new();
    let (node, journal) = (cluster.node("a").await, Journal::default());
    let supervisor = &node.node.supervisor;
    let before = supervisor.hooks_kept();
    let stays = children(Singleton::builder(&node, "stays"), &node, &journal).start().await.unwrap();
    for n in 0..100 {
        let singleton = Singleton::builder(&node, &format!("s{n}"));
        let singleton = children(singleton, &node, &Journal::default()).start().await.unwrap();
        singleton.stop().await.unwrap();
    }
    let kept = (node.node.endings_kept(), supervisor.hooks_kept() - before);
    assert!(kept.0 < 30 && kept.1 < 30, "{kept:?}");
    // One that has not ended is not forgotten.
    until("it leads", || stays.leadership().check().is_ok()).await;
    node.leave().await.unwrap();
    until("it has ended", || stays.status().phase == Phase::Over).await;
}
