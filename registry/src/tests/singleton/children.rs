//! Which child runs where, and when.

use ractor::SupervisionEvent;

use super::*;
use crate::ChildKind::{Follower, Leader};
use callsign_election::{
    Lost,
    campaign::{CampaignEventKind, OnLoss},
};

over_every_oracle!(
    j6_the_leader_child_runs_where_the_seat_is_and_is_down_before_the_seat_is_given_back,
    j7_the_follower_child_is_down_before_the_leader_child_starts_and_a_failed_claim_keeps_it,
    j8_a_child_that_exits_or_crashes_gives_up_the_term_and_another_leads,
    j8_a_child_is_restarted_in_place_three_times_first,
    j9_a_member_whose_refresh_is_denied_becomes_a_follower_in_place,
    j9_or_it_stops_with_the_reason_normal,
    j16_a_child_that_ignores_stop_is_aborted_at_the_end_of_the_stop_budget,
    callers_reach_the_child_by_name_through_a_change_of_leader,
    a_child_does_what_it_was_sent_before_it_is_asked_to_end,
);

async fn j6_the_leader_child_runs_where_the_seat_is_and_is_down_before_the_seat_is_given_back<S: Seats>() {
    let mut sites = Sites::<S>::start(as_it_is::<S>).await;
    let first = sites.led(None).await;
    let leaders = sites.journal.leaders();
    assert_eq!(leaders.len(), 1, "denied ones have never started it: {leaders:?}");
    assert_eq!(leaders[0].node, NAMES[first]);

    sites.singletons[first].request_resign(None);
    let second = sites.led(Some(first)).await;
    sites.journal.assert_no_overlap();
    let nodes: Vec<_> = sites.journal.leaders().iter().map(|line| (line.node.clone(), line.up)).collect();
    let (first_node, second_node) = (NAMES[first].to_owned(), NAMES[second].to_owned());
    assert_eq!(nodes, [(first_node.clone(), true), (first_node, false), (second_node, true)]);
    // It was down before this node even said that it gives the leadership back.
    let seen = sites.seen(first).await;
    let place = |wanted: fn(&SingletonEvent) -> bool| seen.iter().position(wanted).unwrap();
    let down = place(|e| matches!(e, SingletonEvent::ChildStopped { kind: Leader, .. }));
    let resigned = place(|e| matches!(what(e), Some(CampaignEventKind::Resigned { .. })));
    assert!(down < resigned, "{seen:#?}");
    assert!(sites.journal.leaders()[2].epoch > sites.journal.leaders()[0].epoch);
}

async fn j7_the_follower_child_is_down_before_the_leader_child_starts_and_a_failed_claim_keeps_it<
    S: Seats,
>() {
    let mut sites = Sites::<S>::start(as_it_is::<S>).await;
    let first = sites.led(None).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    for n in (0..3).filter(|n| *n != first) {
        let rejected = sites.seen(n).await;
        let rejected =
            rejected.iter().filter(|e| matches!(what(e), Some(CampaignEventKind::Rejected { .. }))).count();
        assert!(rejected >= 5, "{} has claimed again and again: {rejected}", NAMES[n]);
        assert_eq!(sites.journal.of(NAMES[n]), [(Follower, true)], "and keeps its child");
    }
    sites.singletons[first].request_resign(None);
    let second = sites.led(Some(first)).await;
    assert_eq!(
        sites.journal.of(NAMES[second]),
        [(Follower, true), (Follower, false), (Leader, true)],
        "the one is down before the other starts"
    );
    let lines = sites.journal.lines();
    let down = lines.iter().find(|line| line.node == NAMES[second] && !line.up);
    assert!(down.is_some_and(|down| down.ended_well), "it was asked to end, and had the time: {down:?}");
    until("the first has a follower child", || {
        sites.journal.of(NAMES[first]).ends_with(&[(Leader, true), (Leader, false), (Follower, true)])
    })
    .await;
}

async fn j8_a_child_that_exits_or_crashes_gives_up_the_term_and_another_leads<S: Seats>() {
    for how in [|| Work::Exit, || Work::Crash] {
        let mut sites = Sites::<S>::start(|plan| plan.restarts(0, Duration::from_secs(30))).await;
        let first = sites.led(None).await;
        sites.to(0).cast(how()).await.unwrap();
        let second = sites.led(Some(first)).await;
        assert_ne!(first, second);
        sites.journal.assert_no_overlap();
        let seen = sites.seen(first).await;
        assert!(seen.iter().any(|e| matches!(e, SingletonEvent::GivenUp { kind: Leader, .. })), "{seen:#?}");
        assert!(
            seen.iter().any(|e| matches!(what(e), Some(CampaignEventKind::Lost { why: Lost::RoleFailed })))
        );
        assert!(
            seen.iter().any(|e| matches!(what(e), Some(CampaignEventKind::Resigned { .. }))),
            "{seen:#?}"
        );
    }
}

async fn j8_a_child_is_restarted_in_place_three_times_first<S: Seats>() {
    let sites = Sites::<S>::start(as_it_is::<S>).await;
    let first = sites.led(None).await;
    let epoch = sites.epoch(first);
    for n in 1..=3 {
        sites.to(0).cast(Work::Crash).await.unwrap();
        until("it is there again", || sites.journal.leaders().len() == 1 + 2 * n).await;
        assert_eq!(sites.who(1).await, format!("{} in {epoch}", NAMES[first]), "in the same term");
    }
    sites.to(0).cast(Work::Crash).await.unwrap();
    let second = sites.led(Some(first)).await;
    assert!(sites.epoch(second) > epoch);
    sites.journal.assert_no_overlap();
}

async fn j9_a_member_whose_refresh_is_denied_becomes_a_follower_in_place<S: Seats>() {
    let mut sites = Sites::<S>::start(as_it_is::<S>).await;
    let first = sites.led(None).await;
    S::depose(&sites.nodes[first]).await;
    let why = sites.event(first, |event| match what(event) {
        Some(CampaignEventKind::Lost { why }) => Some(*why),
        _ => None,
    });
    assert_eq!(why.await, Lost::Denied);
    let name = NAMES[first];
    until("it has a follower child", || {
        sites.journal.of(name).ends_with(&[(Leader, true), (Leader, false), (Follower, true)])
            || sites.journal.of(name).ends_with(&[(Leader, false), (Leader, true)])
    })
    .await;
    assert_ne!(sites.singletons[first].status().phase, Phase::Over, "it goes on taking part");
    sites.led(None).await;
    sites.journal.assert_no_overlap();
}

/// Hears what becomes of those linked to it.
struct Parent;

impl Actor for Parent {
    type Msg = Work;
    type State = Arc<Mutex<Vec<Option<String>>>>;
    type Arguments = Arc<Mutex<Vec<Option<String>>>>;

    async fn pre_start(
        &self,
        _: ActorRef<Work>,
        ends: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(ends)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Work>,
        event: SupervisionEvent,
        ends: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(_, _, why) => ends.lock().unwrap().push(why),
            SupervisionEvent::ActorFailed(_, error) => panic!("it failed: {error}"),
            _ => {}
        }
        Ok(())
    }
}

async fn j9_or_it_stops_with_the_reason_normal<S: Seats>() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (journal, ends) = (Journal::default(), Arc::default());
    let (parent, _) = Actor::spawn(None, Parent, Arc::clone(&ends)).await.unwrap();
    let plan = plan::<S>(&node, &journal, |plan| plan.on_loss(OnLoss::Stop));
    let singleton = plan.start_linked(parent.get_cell()).await.unwrap();
    until("it leads", || {
        singleton.leadership().check().is_ok() && singleton.status().phase == Phase::Leading
    })
    .await;
    S::depose(&node).await;
    let end = singleton.ended().await.unwrap();
    assert_eq!(end.why, Lost::Denied);
    singleton.supervisor().wait(Some(TEST_DEADLINE)).await.unwrap();
    until("its parent has heard", || *ends.lock().unwrap() == [None::<String>]).await;
    let lines = journal.of("a");
    assert!(lines.ends_with(&[(Leader, true), (Leader, false)]), "no child is left: {lines:?}");
}

async fn j16_a_child_that_ignores_stop_is_aborted_at_the_end_of_the_stop_budget<S: Seats>() {
    // Asked to resign: the leadership is given back when the child is down, and not before.
    let mut sites = Sites::<S>::start(as_it_is::<S>).await;
    let first = sites.led(None).await;
    sites.to(first).cast(Work::Hang).await.unwrap();
    let asked = tokio::time::Instant::now();
    sites.singletons[first].request_resign(None);
    let second = sites.led(Some(first)).await;
    sites.journal.assert_no_overlap();
    let took = sites.journal.leaders()[1].at - asked;
    let budget = timing().stop_budget;
    assert!(took >= budget && took < budget + Duration::from_millis(200), "down after {took:?}");
    let seen = sites.seen(first).await;
    assert!(
        seen.iter().any(|e| matches!(e, SingletonEvent::ChildAborted { kind: Leader, .. }))
            || seen.iter().any(|e| matches!(what(e), Some(CampaignEventKind::RoleAborted { .. }))),
        "{seen:#?}"
    );
    if !S::HAS_CLOCK {
        return; // no clock ends a term: what an old leader still does is for the sink to refuse
    }
    // Cut off: it is down before the lease can end elsewhere.
    sites.to(second).cast(Work::Hang).await.unwrap();
    sites.isolate(second);
    let third = sites.led(Some(second)).await;
    assert_ne!(second, third);
    sites.journal.assert_no_overlap();
}

async fn callers_reach_the_child_by_name_through_a_change_of_leader<S: Seats>() {
    let sites = Sites::<S>::start(as_it_is::<S>).await;
    let first = sites.led(None).await;
    let other = (first + 1) % 3;
    assert_eq!(sites.who(other).await, format!("{} in {}", NAMES[first], sites.epoch(first)));
    let to = sites.to(other);
    // Whoever still sends to it while it ends, sends in vain.
    to.cast(Work::Slow).await.unwrap();
    let stop = AtomicBool::new(false);
    let calls = async {
        let mut answers = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            answers.push(to.call(Work::Who, TEST_DEADLINE).await);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        answers
    };
    let change = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        sites.singletons[first].stop().await.unwrap();
        let second = sites.led(Some(first)).await;
        sites.who(other).await;
        stop.store(true, Ordering::SeqCst);
        second
    };
    let (answers, second) = tokio::join!(calls, change);
    let lost = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(lost, 0, "of {}: {:?}", answers.len(), answers.iter().find(|a| a.is_err()));
    let last = answers.last().unwrap().as_ref().unwrap();
    assert_eq!(last.0, format!("{} in {}", NAMES[second], sites.epoch(second)));
}

#[tokio::test(start_paused = true)]
async fn a_singleton_that_is_dropped_or_whose_supervisor_is_stopped_gives_back_the_seat_and_leaves_no_child()
{
    for drops in [true, false] {
        let mut sites = Sites::<ByLease>::start(as_it_is::<ByLease>).await;
        let first = sites.led(None).await;
        let begun = tokio::time::Instant::now();
        if drops {
            sites.singletons.remove(first);
        } else {
            sites.singletons[first].supervisor().stop(None);
        }
        until("another leads", || sites.journal.leaders().len() == 3).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "it was given back: {:?}", begun.elapsed());
        sites.journal.assert_no_overlap();
        let lines = sites.journal.of(NAMES[first]);
        assert!(lines.ends_with(&[(Leader, true), (Leader, false)]), "dropped: {drops}: {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_said_why_a_child_ended_and_that_a_singleton_has() {
    let mut sites = Sites::<ByLease>::start(|plan| plan.restarts(9, Duration::from_secs(30))).await;
    let first = sites.led(None).await;
    let reason = async |sites: &mut Sites<ByLease>| {
        let exited = |event: &SingletonEvent| match event {
            SingletonEvent::ChildExited { kind: Leader, why } => Some(why.clone()),
            _ => None,
        };
        sites.event(first, exited).await
    };
    for (work, why) in [(Work::Exit, "it ended"), (Work::Crash, "crashed"), (Work::Panic, "own mistake")] {
        sites.to(first).cast(work).await.unwrap();
        let said = reason(&mut sites).await;
        assert!(said.contains(why), "{said}");
    }
    // By somebody else, who says why.
    sites.who(first).await;
    let pid = sites.nodes[first].lookup("reports").unwrap().unwrap().actor().unwrap();
    ractor::registry::where_is_pid(ractor::ActorId::Local(pid)).unwrap().stop(Some("it is late".into()));
    assert_eq!(reason(&mut sites).await, "it is late");
    sites.singletons[first].stop().await.unwrap();
    let ends = async { while sites.events[first].next().await.is_ok() {} };
    tokio::time::timeout(TEST_DEADLINE, ends).await.expect("its events end");
}

#[tokio::test(start_paused = true)]
async fn what_else_a_campaign_can_be_set_is_what_it_does() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let journal = Journal::default();
    let begun = tokio::time::Instant::now();
    let delay = Duration::from_secs(7);
    let plan = plan::<ByName>(&node, &journal, as_it_is::<ByName>).settings(move |mut settings| {
        settings.claim_delay = delay;
        settings
    });
    let singleton = plan.start().await.unwrap();
    until("it leads", || singleton.leadership().check().is_ok()).await;
    assert!(begun.elapsed() >= delay, "{:?}", begun.elapsed());
}

/// Never comes to its first message.
struct Unborn;

impl Actor for Unborn {
    type Msg = Work;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Work>, (): ()) -> Result<(), ActorProcessingErr> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_has_not_started_yet_is_not_waited_for() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let makes = Arc::new(AtomicBool::new(false));
    let made = makes.clone();
    let plan = Singleton::builder(&node, "reports").over(ByName::oracle(&node));
    let plan = plan.leader(move |_| {
        made.store(true, Ordering::SeqCst);
        (Unborn, ())
    });
    let singleton: Singleton<_, Work> = plan.timing(timing()).start().await.unwrap();
    until("it is being started", || makes.load(Ordering::SeqCst)).await;
    let mut events = singleton.subscribe();
    singleton.stop().await.unwrap();
    let stopped = async {
        loop {
            if let SingletonEvent::ChildStopped { kind: Leader, took } = events.next().await.unwrap() {
                return took;
            }
        }
    };
    let took = stopped.await;
    assert!(took < Duration::from_millis(100), "it has done nothing yet that has to be ended well: {took:?}");
}

/// Has a child of its own, and does nothing more when it is told to hang.
struct Family(Arc<Mutex<Vec<ActorRef<crate::tests::driver::Counter>>>>);

impl Actor for Family {
    type Msg = Work;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<Work>, (): ()) -> Result<(), ActorProcessingErr> {
        let child = crate::tests::driver::counter().await;
        child.get_cell().link(myself.get_cell());
        self.0.lock().unwrap().push(child);
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Work>, _: Work, (): &mut ()) -> Result<(), ActorProcessingErr> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_aborted_takes_its_own_children_along() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let born = Arc::<Mutex<Vec<_>>>::default();
    let born_in = born.clone();
    let plan = Singleton::builder(&node, "reports").over(ByName::oracle(&node));
    let plan = plan.leader(move |_| (Family(born_in.clone()), ())).timing(timing());
    let singleton: Singleton<_, Work> = plan.start().await.unwrap();
    let to = singleton.name_ref(NameRefOptions::default()).unwrap();
    to.cast(Work::Hang).await.unwrap();
    singleton.stop().await.unwrap();
    let born = born.lock().unwrap().clone();
    assert_eq!(born.len(), 1);
    born[0].wait(Some(TEST_DEADLINE)).await.expect("it has ended");
}

/// Says which child it is, and exits when it is told so.
struct Known(Arc<Mutex<Vec<ActorRef<Work>>>>);

impl Actor for Known {
    type Msg = Work;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<Work>, (): ()) -> Result<(), ActorProcessingErr> {
        self.0.lock().unwrap().push(myself);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn children_are_told_how_often_they_were_started_again_and_who_leads() {
    let cluster = Cluster::new();
    let (node, other) = (cluster.node("a").await, cluster.node("b").await);
    let born = Arc::<Mutex<Vec<_>>>::default();
    let told = Arc::<Mutex<Vec<(String, u32)>>>::default();
    let plan = |node: &Registry| {
        let (leads, follows, of_leader, of_follower) =
            (born.clone(), born.clone(), told.clone(), told.clone());
        Singleton::builder(node, "reports")
            .over(ByName::oracle(node))
            .leader(move |lead: Lead<Fence>| {
                let who = lead.grant.term.leader.as_str().to_owned();
                of_leader.lock().unwrap().push((format!("{who} leads"), lead.restart));
                (Known(leads.clone()), ())
            })
            .follower(move |follow| {
                let who = follow.leader.map_or("nobody".to_owned(), |term| term.leader.as_str().to_owned());
                of_follower.lock().unwrap().push((format!("follows {who}"), follow.restart));
                (Known(follows.clone()), ())
            })
            .timing(timing())
    };
    let ends = async |child: usize| {
        until("it was born", || born.lock().unwrap().len() == child + 1).await;
        let child = born.lock().unwrap()[child].clone();
        child.stop(None);
    };
    let first = plan(&node).start().await.unwrap();
    until("it leads", || first.leadership().check().is_ok()).await;
    until("its child runs", || told.lock().unwrap().contains(&("a leads".to_owned(), 0))).await;
    let leaders = born.lock().unwrap().len();
    ends(leaders - 1).await;
    until("it is started again", || told.lock().unwrap().contains(&("a leads".to_owned(), 1))).await;
    let second = plan(&other).start().await.unwrap();
    until("it knows who leads", || second.status().leader.is_some()).await;
    let all = leaders + 1;
    until("its child runs", || born.lock().unwrap().len() > all).await;
    for (child, restart) in [(all, 1), (all + 1, 2)] {
        ends(child).await;
        let line = ("follows a".to_owned(), restart);
        until("it is started again", || told.lock().unwrap().last() == Some(&line)).await;
    }
    let told = told.lock().unwrap().clone();
    assert_eq!(told.iter().filter(|(what, _)| what == "a leads").count(), 2, "{told:?}");
    let restarts: Vec<_> = told.iter().rev().take(3).map(|(_, restart)| *restart).collect();
    assert_eq!(restarts, [2, 1, 0], "{told:?}");
}

/// A test that fails lets the thread go, too.
struct Released;

impl Drop for Released {
    fn drop(&mut self) {
        RELEASED.store(true, Ordering::SeqCst);
    }
}

/// The one that runs by the real clock: a paused one does not go on while a thread is blocked. It judges no durations.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn j16_d9_a_child_that_blocks_its_thread_keeps_the_seat_from_being_given_back_and_a_successor_from_being_started()
 {
    let cluster = Cluster::new();
    let nodes = [cluster.node("a").await, cluster.node("b").await];
    let journal = Journal::default();
    // By name: as long as its node lives, no clock gives it to another.
    let timing = Timing {
        stop_budget: Duration::from_millis(200),
        poll: Duration::from_millis(100),
        jitter: Duration::from_millis(10),
        ..timing()
    };
    let start = |n: usize| plan::<ByName>(&nodes[n], &journal, as_it_is::<ByName>).timing(timing).start();
    let first = start(0).await.unwrap();
    until("a leads", || first.status().phase == Phase::Leading).await;
    let (mut of_a, second) = (first.subscribe(), start(1).await.unwrap());
    let mut of_b = second.subscribe();
    let _released = Released;
    first.name_ref(NameRefOptions::default()).unwrap().cast(Work::Block).await.unwrap();
    first.request_resign(None);
    let mut before = Vec::new();
    loop {
        let event = of_a.next().await.unwrap();
        let is_aborted = matches!(event, SingletonEvent::ChildAborted { .. });
        before.push(event);
        if is_aborted {
            break;
        }
    }
    // Aborted, and still there: b asks again and again, and is denied.
    for _ in 0..5 {
        loop {
            match what(&of_b.next().await.unwrap()) {
                Some(CampaignEventKind::Rejected { .. }) => break,
                Some(CampaignEventKind::Claimed) => panic!("two at once"),
                _ => {}
            }
        }
    }
    assert_eq!(first.status().phase, Phase::Stopping);
    assert!(first.leadership().check().is_err(), "whatever it checks is refused");
    assert!(
        !before.iter().any(|e| matches!(what(e), Some(CampaignEventKind::Resigned { .. }))),
        "{before:#?}"
    );
    assert_eq!(journal.leaders().len(), 1, "{:?}", journal.lines());
    RELEASED.store(true, Ordering::SeqCst);
    until("b leads", || second.status().phase == Phase::Leading).await;
    journal.assert_no_overlap();
    second.stop().await.unwrap();
    first.stop().await.unwrap();
}

async fn a_child_does_what_it_was_sent_before_it_is_asked_to_end<S: Seats>() {
    let sites = Sites::<S>::start(as_it_is::<S>).await;
    let first = sites.led(None).await;
    let to = sites.to(first);
    to.cast(Work::Busy(P(100))).await.unwrap();
    let asked = tokio::spawn(async move { to.call(Work::Who, TEST_DEADLINE).await });
    // The question is on its way before the end.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let epoch = sites.epoch(first);
    sites.singletons[first].request_resign(None);
    let answer = asked.await.unwrap().map(|P(who)| who);
    assert_eq!(answer.unwrap(), format!("{} in {epoch}", NAMES[first]), "by the one that was asked");
    sites.led(Some(first)).await;
    sites.journal.assert_no_overlap();
}
