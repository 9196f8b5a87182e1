//! What a supervisor does about children that do not end, and what is left of those that have.

use callsign_store::{Read, Store, Transaction};

use super::*;
use crate::{
    ChildKind::{Follower, Leader},
    Entropy, SingletonError,
};
use callsign_election::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Refusal, Verdict};

/// A child that never comes to its end by itself.
struct Stubborn(Arc<AtomicBool>);

impl Actor for Stubborn {
    type Msg = Work;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Work>, (): ()) -> Result<(), ActorProcessingErr> {
        self.0.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Work>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_child_that_does_not_end_is_aborted_after_the_stop_budget_and_the_leader_child_runs() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let journal = Journal::default();
    let first = plan::<ByName>(&a, &journal, as_it_is::<ByName>).start().await.unwrap();
    until("a leads", || first.leadership().check().is_ok()).await;
    let runs = Arc::new(AtomicBool::new(false));
    let says = runs.clone();
    let plan = plan::<ByName>(&b, &journal, as_it_is::<ByName>);
    let second = plan.follower(move |_| (Stubborn(says.clone()), ())).start().await.unwrap();
    let mut events = second.subscribe();
    until("the follower child runs", || runs.load(Ordering::SeqCst)).await;
    first.stop().await.unwrap();
    let ends = async {
        let mut is_aborted = false;
        loop {
            match events.next().await.unwrap() {
                SingletonEvent::ChildAborted { kind: Follower, .. } => is_aborted = true,
                SingletonEvent::ChildStopped { kind: Follower, took } => return (is_aborted, took),
                _ => {}
            }
        }
    };
    let (is_aborted, took) = tokio::time::timeout(TEST_DEADLINE, ends).await.expect("it ends");
    let budget = timing().stop_budget;
    assert!(is_aborted && took >= budget && took < budget * 2, "{is_aborted}: {took:?}");
    until("the leader child runs", || journal.of("b") == [(Leader, true)]).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_node_is_kept_for_children_that_have_ended() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let holders = || Arc::strong_count(&node.node);
    let before = holders();
    for _ in 0..5 {
        let journal = Journal::default();
        let singleton = plan::<ByName>(&node, &journal, as_it_is::<ByName>).start().await.unwrap();
        let to = singleton
            .name_ref(NameRefOptions { deadline: TEST_DEADLINE, ..NameRefOptions::default() })
            .unwrap();
        to.cast(Work::Crash).await.unwrap();
        until("it is started again", || journal.leaders().len() == 3).await;
        // It has its name, too, and gives it up when it is stopped.
        to.call(Work::Who, TEST_DEADLINE).await.unwrap();
        singleton.stop().await.unwrap();
    }
    until("nobody holds the node who did not before", || holders() <= before).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_left_and_cannot_be_read_is_told_and_stays_and_the_child_runs_without_it() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let (node, store) = (cluster.node("a").await, cluster.store.connect("z"));
    let key = b"callsign/default/singleton/reports/hand-over".to_vec();
    store.commit(Transaction::new().put(key.clone(), b"garbage".to_vec())).await;
    let plan = plan::<ByName>(&node, &journal, as_it_is::<ByName>)
        .hand_over(Duration::from_secs(1), |_| std::future::ready(Some(vec![1, 2, 3])));
    let singleton = plan.start().await.unwrap();
    let mut events = singleton.subscribe();
    let told = async {
        loop {
            match events.next().await.unwrap() {
                SingletonEvent::NotHandedOver { .. } => return,
                SingletonEvent::TookOver { .. } => panic!("nothing can be read"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(TEST_DEADLINE, told).await.expect("it is told");
    let to = singleton.name_ref(NameRefOptions::default()).unwrap();
    assert!(to.call(Work::Leave, TEST_DEADLINE).await.unwrap().0.is_empty());
    singleton.stop().await.unwrap();
    // Somebody may want to look at it.
    let read = store.read(vec![Read::Key(key)]).await.unwrap();
    assert_eq!(read.value(0).cloned(), Some(b"garbage".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn a_campaign_draws_who_it_is_where_its_node_draws() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let node = Registry::join(cluster.config("a").entropy(Entropy::seeded(7))).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    let singleton = plan::<ByLease>(&node, &journal, as_it_is::<ByLease>).start().await.unwrap();
    until("it leads", || singleton.leadership().check().is_ok()).await;
    let drawn = singleton.status().grant.unwrap().term.incarnation.0;
    assert_ne!(drawn, node.incarnation(), "each campaign has its own");
    let again = Entropy::seeded(7);
    assert!((0..10_000).any(|_| again.draw() == drawn));
}

/// Has its node begin to drain while it prepares.
struct Drains(Registry);

impl Oracle for Drains {
    type Fence = ();
    type Info = ();

    async fn init(&mut self, _: &Context) -> Result<Init, Fault> {
        let node = self.0.clone();
        tokio::spawn(async move { node.drain().await });
        while !self.0.node.is_draining() {
            tokio::task::yield_now().await;
        }
        Ok(Init::Ready)
    }

    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        Ok(Verdict::Denied(Denial { why: Refusal::Held, leader: None, retry_in: None }))
    }

    async fn refresh(&mut self, attempt: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
        self.claim(attempt).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_singleton_does_not_start_on_a_node_that_begins_to_drain_meanwhile() {
    let (cluster, journal) = (Cluster::new(), Journal::default());
    let node = cluster.node("a").await;
    let builder = Singleton::builder(&node, "reports").advised_by(Drains(node.clone()));
    let plan = builder.leader(move |_| {
        let child =
            Child { journal: journal.clone(), node: "a".into(), kind: Leader, epoch: 0, notes: Vec::new() };
        (child, ())
    });
    let started = plan.timing(timing()).start().await;
    assert!(matches!(started, Err(SingletonError::Draining)), "{started:?}");
}
