//! What is peculiar to an oracle.

use super::*;
use crate::SingletonError;
use callsign_election::{
    Attempt, Context, Denial, Fault, Grant, Init, Oracle, Refusal, Validity, Verdict,
    campaign::{CampaignEventKind, CampaignStartError},
};
use callsign_store::ids::{ElectionName, Incarnation, MemberId, Nonce};

over_every_oracle!(
    j14_when_both_sides_of_a_healed_split_lead_the_one_of_the_current_term_survives_always,
    d1_d2_a_vacant_seat_is_granted_to_exactly_one_and_the_others_are_told_whom,
    d5_d6_a_term_that_is_over_is_neither_refreshed_nor_given_back,
    a2_a_second_campaign_of_one_member_is_told_and_does_not_lead,
);

async fn j14_when_both_sides_of_a_healed_split_lead_the_one_of_the_current_term_survives_always<S: Seats>() {
    let sites = Sites::<S>::start(as_it_is::<S>).await;
    let mut old = sites.led(None).await;
    for round in 0..6 {
        let epoch = sites.epoch(old);
        sites.isolate(old);
        let new = sites.led(Some(old)).await;
        assert_eq!(sites.leads(old), !S::HAS_CLOCK, "round {round}: without a clock it does not know");
        let current = sites.epoch(new);
        assert!(current > epoch);
        sites.heal(old);
        until("the old one follows", || sites.singletons[old].status().phase == Phase::Following).await;
        assert!(sites.leads(new), "round {round}");
        assert_eq!(sites.epoch(new), current, "round {round}: the one of the current term goes on");
        until("all are linked", || {
            sites
                .nodes
                .iter()
                .all(|n| n.members().len() == 3 && n.members().iter().all(|m| m.linked && m.synced))
        })
        .await;
        old = new;
    }
}

fn context(node: &Registry) -> Context {
    Context {
        election: ElectionName::new("reports").unwrap(),
        member: MemberId::new(node.node()).unwrap(),
        incarnation: Incarnation(node.incarnation()),
    }
}

fn attempt(n: u64) -> Attempt {
    Attempt { nonce: Nonce(n) }
}

async fn d1_d2_a_vacant_seat_is_granted_to_exactly_one_and_the_others_are_told_whom<S: Seats>() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let mut oracles: Vec<_> = nodes.iter().map(S::oracle).collect();
    for (oracle, node) in oracles.iter_mut().zip(&nodes) {
        assert_eq!(oracle.init(&context(node)).await, Ok(Init::Ready));
    }
    let claims = oracles.iter_mut().enumerate().map(|(n, oracle)| oracle.claim(attempt(n as u64)));
    let verdicts: Vec<_> = futures::future::join_all(claims).await;
    let granted: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            Ok(Verdict::Granted(grant)) => Some(grant.clone()),
            _ => None,
        })
        .collect();
    let [grant] = &granted[..] else { panic!("{verdicts:?}") };
    let winner = nodes.iter().position(|node| node.node() == grant.term.leader.as_str()).unwrap();
    for (n, oracle) in oracles.iter_mut().enumerate().filter(|(n, _)| *n != winner) {
        // In the first round a store may have had no answer for those who lost a race.
        let verdict = oracle.claim(attempt(10 + n as u64)).await.unwrap();
        let Verdict::Denied(Denial { leader: Some(leader), .. }) = verdict else { panic!("{verdict:?}") };
        assert_eq!((&leader.leader, leader.epoch), (&grant.term.leader, grant.term.epoch));
    }
    // Its own again is the same term.
    let Verdict::Granted(again) = oracles[winner].claim(attempt(winner as u64)).await.unwrap() else {
        panic!("it has it")
    };
    assert_eq!(again.term.epoch, grant.term.epoch);
    // Given back, it is free, and the next epoch is greater. Of another term nothing is given back.
    let mut stale = again.clone();
    stale.term.epoch.0 -= 1;
    assert_eq!(oracles[winner].abdicate(&stale).await, Ok(false));
    assert_eq!(oracles[winner].abdicate(&again).await, Ok(true));
    let next = async {
        loop {
            for (n, oracle) in oracles.iter_mut().enumerate() {
                if let Ok(Verdict::Granted(grant)) = oracle.claim(attempt(20 + n as u64)).await {
                    return grant;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let next = tokio::time::timeout(TEST_DEADLINE, next).await.unwrap();
    assert!(next.term.epoch > grant.term.epoch && next.fence.ballot > grant.fence.ballot);
}

async fn d5_d6_a_term_that_is_over_is_neither_refreshed_nor_given_back<S: Seats>() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let mut oracle = S::oracle(&node);
    oracle.init(&context(&node)).await.unwrap();
    let Ok(Verdict::Granted(old)) = oracle.claim(attempt(1)).await else { panic!("nobody else is there") };
    let Ok(Verdict::Granted(refreshed)) = oracle.refresh(attempt(2), &old).await else { panic!("it holds") };
    assert_eq!(refreshed.term, old.term);
    S::depose(&node).await;
    let mut verdict = oracle.refresh(attempt(3), &old).await;
    // A seat that is resigned is so a moment later.
    for _ in 0..100 {
        if matches!(verdict, Ok(Verdict::Denied(_))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        verdict = oracle.refresh(attempt(3), &old).await;
    }
    assert!(
        matches!(&verdict, Ok(Verdict::Denied(denial)) if denial.why == Refusal::TermOver),
        "{verdict:?}"
    );
    let claimed = async {
        loop {
            if let Ok(Verdict::Granted(grant)) = oracle.claim(attempt(4)).await {
                return grant;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let new = tokio::time::timeout(TEST_DEADLINE, claimed).await.unwrap();
    assert!(new.term.epoch > old.term.epoch);
    assert!(matches!(oracle.refresh(attempt(5), &old).await, Ok(Verdict::Denied(_))), "not of another term");
    assert_eq!(oracle.abdicate(&old).await, Ok(false));
    assert!(matches!(oracle.refresh(attempt(6), &new).await, Ok(Verdict::Granted(_))), "it stands");
}

async fn a2_a_second_campaign_of_one_member_is_told_and_does_not_lead<S: Seats>() {
    if !S::HAS_CLOCK {
        return; // both follow the node's own seat: there is no claim of their own
    }
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (mut one, mut two) = (S::oracle(&node), S::oracle(&node));
    one.init(&context(&node)).await.unwrap();
    assert!(matches!(one.claim(attempt(1)).await, Ok(Verdict::Granted(_))));
    let other = Context { incarnation: Incarnation(77), ..context(&node) };
    two.init(&other).await.unwrap();
    let Verdict::Denied(denial) = two.claim(attempt(2)).await.unwrap() else { panic!("two lead") };
    assert_eq!(denial.why, Refusal::DuplicateIdentity);
}

#[tokio::test(start_paused = true)]
async fn c15_without_a_clock_no_timer_ever_ends_a_term() {
    let mut sites = Sites::<BySeat>::start(as_it_is::<BySeat>).await;
    let first = sites.led(None).await;
    let epoch = sites.epoch(first);
    let grant = sites.singletons[first].status().grant.unwrap();
    assert_eq!((grant.validity, grant.refresh_in), (Validity::UntilRevoked, None));
    sites.seen(first).await;
    // Nobody can elect another, nor say so.
    sites.cluster.store.outage_for_all();
    tokio::time::sleep(60 * LEASE).await;
    assert!(sites.leads(first));
    assert_eq!(sites.epoch(first), epoch);
    assert_eq!(sites.journal.leaders().len(), 1, "its child runs on");
    let seen = sites.seen(first).await;
    assert!(!seen.iter().any(|e| matches!(what(e), Some(CampaignEventKind::Lost { .. }))), "{seen:#?}");
    // That it is made with a sink that checks the fence is for the compiler: see `QueueOracle::new`.
    let _: fn(&Registry, &Ledger) -> QueueOracle = QueueOracle::new::<Ledger>;
}

/// Only advises: its grants have no fence.
struct Advisory;

impl Oracle for Advisory {
    type Fence = ();
    type Info = ();
    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        Ok(Verdict::Denied(Denial { why: Refusal::Held, leader: None, retry_in: None }))
    }
    async fn refresh(&mut self, attempt: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
        self.claim(attempt).await
    }
}

#[test]
fn j17_an_oracle_without_a_fence_is_not_accepted_where_one_is_needed() {
    // Compiles only while exactly one of the two holds for the type: the blanket one. With `Advisory: RegistryElector`
    // the call would be ambiguous. What `over` says to it is in its documentation, as a test that must not compile.
    trait NotFenced<A> {
        fn holds() -> bool {
            true
        }
    }
    struct IsFenced;
    impl<O> NotFenced<()> for O {}
    impl<O: RegistryElector> NotFenced<IsFenced> for O {}
    // And the three that come with the registry are accepted.
    fn fenced<O: RegistryElector>() {}
    assert!(<Advisory as NotFenced<_>>::holds());
    fenced::<LeaseOracle>();
    fenced::<RegistryOracle>();
    fenced::<QueueOracle>();
}

#[tokio::test(start_paused = true)]
async fn a_stop_budget_holds_whether_it_is_set_before_the_other_times_or_after() {
    let node = Cluster::new().node("a").await;
    let budget = Duration::from_secs(1);
    for is_first in [true, false] {
        let plan = Singleton::builder(&node, "reports").leader(|_| -> (Child, ()) { panic!("nobody leads") });
        let plan = if is_first {
            plan.stop_budget(budget).timing(Timing::default())
        } else {
            plan.timing(Timing::default()).stop_budget(budget)
        };
        let (tell, told) = std::sync::mpsc::channel();
        let plan = plan.settings(move |settings| {
            tell.send(settings.timing.stop_budget).unwrap();
            settings
        });
        // It is given up before anybody leads.
        drop(tokio::time::timeout(Duration::ZERO, plan.start()).await);
        assert_eq!(told.try_recv(), Ok(budget), "{is_first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_given_up_while_its_oracle_is_asked_leaves_nothing_behind() {
    struct Silent;
    impl Oracle for Silent {
        type Fence = ();
        type Info = ();
        async fn init(&mut self, _: &Context) -> Result<Init, Fault> {
            std::future::pending().await
        }
        async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
            panic!("it was not to take part")
        }
        async fn refresh(&mut self, _: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
            panic!("it was not to take part")
        }
    }
    let node = Cluster::new().node("a").await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let start = Singleton::builder(&node, "reports")
        .advised_by(Silent)
        .leader(|_| -> (Child, ()) { panic!("nobody leads") })
        .start();
    assert!(tokio::time::timeout(Duration::from_secs(1), start).await.is_err(), "the oracle does not answer");
    until("nothing is left of it", || alive() == before).await;
}

#[tokio::test(start_paused = true)]
async fn j2_an_oracle_that_fails_or_declines_at_the_start_starts_no_child() {
    struct Starts(Result<Init, Fault>);
    impl Oracle for Starts {
        type Fence = ();
        type Info = ();
        async fn init(&mut self, _: &Context) -> Result<Init, Fault> {
            self.0.clone()
        }
        async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
            panic!("it was not to take part")
        }
        async fn refresh(&mut self, _: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
            panic!("it was not to take part")
        }
    }
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let journal = Journal::default();
    let start = |init| {
        let (leads, follows) = (journal.clone(), journal.clone());
        let child =
            |journal: Journal, kind| Child { journal, node: "a".into(), kind, epoch: 0, notes: Vec::new() };
        Singleton::builder(&node, "reports")
            .advised_by(Starts(init))
            .leader(move |_| (child(leads.clone(), ChildKind::Leader), ()))
            .follower(move |_| (child(follows.clone(), ChildKind::Follower), ()))
            .start()
    };
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let declined = start(Ok(Init::Ignore)).await.unwrap_err();
    assert!(matches!(declined, SingletonError::Ignored), "{declined}");
    let failed = start(Err(Fault::Fatal("no such table".into()))).await.unwrap_err();
    assert!(matches!(failed, SingletonError::Campaign(CampaignStartError::Oracle(_))), "{failed}");
    until("nothing is left of either", || alive() == before).await;
    tokio::time::sleep(TEST_DEADLINE).await;
    assert!(journal.lines().is_empty(), "{:?}", journal.lines());
    let named = Singleton::builder(&node, "two words").leader(|_| -> (Child, ()) { panic!() }).start().await;
    assert!(matches!(named, Err(SingletonError::Name(_))));
}
