//! Names that go from one living actor to another, over the drivers: with consent and data, or not at all.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_transport::{P, RemoteMessage};
use ractor::{ActorProcessingErr, ActorRef, ActorStatus, call_t};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    BadName, HandedTo, MAX_HANDED_BYTES, Meta, NotHeld, Notice, Position, RegisterError, RegisterOptions,
    Registration, Registry, Select, TakeError, TakeOptions, TakeRefusal, Taken, UpdateError, WatchEvent,
    WhenTaken, Why,
    core::{
        group::GroupId,
        host::OnTake,
        input::{Answer, Call, OnLapse},
    },
    driver::actor::Keeps,
    tests::driver::{Cluster, Counter, Other, TEST_DEADLINE, counter, until},
};

const WAIT: Duration = Duration::from_secs(30);

type Given = Result<Vec<u8>, ActorProcessingErr>;

/// Holds a name on a node, with an actor that gives what it counted.
async fn giver(node: &Registry, name: &str) -> (ActorRef<Counter>, Registration) {
    let actor = counter().await;
    let asked = actor.clone();
    let options = RegisterOptions::default().give(move |_| {
        let asked = asked.clone();
        async move {
            let P(count) = call_t!(asked, Counter::Get, 5000)?;
            Given::Ok(count.to_be_bytes().to_vec())
        }
    });
    let held = node.register_with(name, &actor, options).await.unwrap();
    (actor, held)
}

/// A hand-over that waits until the test says what is given, and to whom it goes.
struct Asked {
    to: HandedTo,
    gives: oneshot::Sender<Given>,
}

/// Holds a name on a node; what is given, and when, the test says.
async fn asked_giver(
    node: &Registry,
    name: &str,
) -> (ActorRef<Counter>, Registration, mpsc::UnboundedReceiver<Asked>) {
    let actor = counter().await;
    let (ask, asked) = mpsc::unbounded_channel();
    let options = RegisterOptions::default().give(move |to| {
        let (gives, given) = oneshot::channel();
        ask.send(Asked { to, gives }).expect("the test listens");
        async move { given.await? }
    });
    let held = node.register_with(name, &actor, options).await.unwrap();
    (actor, held, asked)
}

async fn take(
    node: &Registry,
    name: &str,
    actor: &ActorRef<Counter>,
    token: Position,
) -> Result<Taken, TakeError> {
    node.take(name, actor, token, WAIT).await
}

fn in_background(
    node: &Registry,
    name: &str,
    actor: &ActorRef<Counter>,
    token: Position,
    wait: Duration,
) -> JoinHandle<Result<Taken, TakeError>> {
    let (node, name, actor) = (node.clone(), name.to_owned(), actor.clone());
    tokio::spawn(async move { node.take(&name, &actor, token, wait).await })
}

fn refusal(taken: Result<Taken, TakeError>) -> TakeRefusal {
    match taken {
        Err(TakeError::Refused { why, .. }) => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_goes_to_another_node_with_the_data_of_its_holder_and_is_free_at_no_moment() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let (old, held) = giver(&a, "x").await;
    old.cast(Counter::Add(P(5))).unwrap();
    let said = held.update(None, Meta::new(&"eu").ok()).await.unwrap();
    c.wait_for(said, TEST_DEADLINE).await.unwrap();
    let mut watch = c.watch(Select::default()).unwrap();
    let new = counter().await;
    let taken = take(&b, "x", &new, held.token()).await.unwrap();
    assert_eq!(taken.data[..], 5_i64.to_be_bytes());
    let token = taken.registration.token();
    assert!(token > held.token());
    assert_eq!(taken.registration.check(), Ok(()));
    assert!(
        held.check().is_err(),
        "nobody acts on it any more, though a may not have applied the change yet"
    );
    // Its own next lookup sees it, as after a registration.
    assert_eq!(b.lookup("x").unwrap().unwrap().token(), token);
    old.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");
    assert_eq!(held.check(), Err(NotHeld::Ended));
    c.wait_for(token, TEST_DEADLINE).await.unwrap();
    let found: ActorRef<Counter> = c.whereis("x").unwrap();
    found.cast(Counter::Add(P(7))).unwrap();
    until("it is the new one", || new.get_status() == ActorStatus::Running).await;
    assert_eq!(call_t!(found, Counter::Get, 5000).unwrap(), P(7));
    // One change, and no moment without a holder.
    let change = loop {
        match watch.next().await.unwrap() {
            WatchEvent::Change(change) if change.why == Why::Transferred => break change,
            WatchEvent::Change(change) => assert!(change.now.is_some(), "{change:?}"),
            _ => {}
        }
    };
    let (was, now) = (change.was.as_ref().unwrap(), change.now.as_ref().unwrap());
    assert_eq!((was.token(), now.token(), now.revision()), (held.token(), token, token));
    assert_eq!((was.node().as_str(), now.node().as_str()), ("a", "b"));
    assert_eq!(now.meta::<String>(), Ok(Some("eu".to_owned())), "the metadata goes with the name");
    // It is held as any other.
    let revision = taken.registration.update(Some(token), None).await.unwrap();
    assert!(revision > token);
    new.stop(None);
    until("the name is free", || c.lookup("x") == Ok(None)).await;
}

#[tokio::test(start_paused = true)]
async fn within_one_node_the_same_happens_and_who_asked_to_be_told_is_told() {
    let cluster = Cluster::new();
    let [_a, b, _c] = cluster.three().await;
    let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
    let told = notices.clone();
    let options = RegisterOptions::default()
        .tell(move |notice| told.lock().unwrap().push(notice))
        .give(|to| async move { Given::Ok(to.node.as_str().as_bytes().to_vec()) });
    let (old, new) = (counter().await, counter().await);
    let held = b.register_with("x", &old, options).await.unwrap();
    let gives_on = TakeOptions::default().when_taken(WhenTaken::give(|_| async { Given::Ok(vec![2]) }));
    let taken = b.take_with("x", &new, held.token(), WAIT, gives_on).await.unwrap();
    assert_eq!((&taken.data[..], taken.registration.check()), (&b"b"[..], Ok(())));
    assert_eq!(held.check(), Err(NotHeld::Ended));
    assert_eq!(*notices.lock().unwrap(), [Notice::Transferred]);
    assert_eq!(old.get_status(), ActorStatus::Running, "it was told");
    // And back again: the new holder said that it gives the name on.
    let back = take(&b, "x", &old, taken.registration.token()).await.unwrap();
    assert_eq!((&back.data[..], back.registration.check()), (&[2_u8][..], Ok(())));
    // What it holds already is its own, and nobody is asked.
    let again = take(&b, "x", &old, back.registration.token()).await.unwrap();
    assert_eq!((again.registration.token(), again.data.len()), (back.registration.token(), 0));
    let kept = b.shared.kept();
    assert_eq!(kept, (1, 1), "nothing is kept for what is over");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_give_its_name_keeps_it_and_says_why() {
    let cluster = Cluster::new();
    let [_a, b, c] = cluster.three().await;
    let mine = counter().await;
    let plain = b.register("plain", &counter().await).await.unwrap();
    assert_eq!(refusal(take(&c, "plain", &mine, plain.token()).await), TakeRefusal::NotGiven);
    assert_eq!(plain.check(), Ok(()));

    let (_old, held, mut asked) = asked_giver(&b, "x").await;
    let other = ractor::ActorRef::<Other>::from(counter().await.get_cell());
    let mistyped = c.take("x", &other, held.token(), WAIT).await.unwrap_err();
    assert!(matches!(&mistyped, TakeError::Refused { why: TakeRefusal::OtherMessages, .. }), "{mistyped}");
    let gone = take(&c, "x", &mine, Position(held.token().0 - 1)).await.unwrap_err();
    assert!(matches!(gone, TakeError::Gone { .. }), "{gone}");
    let nobody = take(&c, "nobody", &mine, held.token()).await.unwrap_err();
    assert!(matches!(nobody, TakeError::Gone { .. }), "{nobody}");
    let short = Duration::from_secs(1);
    let ahead = c.take("x", &mine, Position(held.token().0 + 1000), short).await.unwrap_err();
    assert!(matches!(ahead, TakeError::Behind { .. }), "{ahead}");

    for (given, said) in [
        (Err("not now".into()), TakeRefusal::Failed { reason: "not now".into() }),
        (Ok(vec![0; MAX_HANDED_BYTES + 1]), TakeRefusal::TooLarge { bytes: MAX_HANDED_BYTES + 1 }),
    ] {
        let taking = in_background(&c, "x", &mine, held.token(), WAIT);
        let Asked { to, gives } = asked.recv().await.unwrap();
        assert_eq!((&*to.name, to.node.as_str()), ("x", "c"));
        assert_eq!(held.check(), Err(NotHeld::Moving), "from before it is asked");
        // There is one at a time.
        let second = counter().await;
        let busy = refusal(take(&b, "x", &second, held.token()).await);
        assert_eq!(busy, TakeRefusal::Busy);
        // What else is asked of the name waits.
        let update = tokio::spawn({
            let held = held.clone();
            async move { held.update(None, None).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!update.is_finished());
        gives.send(given).unwrap();
        assert_eq!(refusal(taking.await.unwrap()), said);
        assert_eq!(held.check(), Ok(()), "it is held as before");
        update.await.unwrap().unwrap();
    }
    let taking = in_background(&c, "x", &mine, held.token(), WAIT);
    // Dropped, as a panic of the function would.
    drop(asked.recv().await.unwrap());
    assert!(matches!(refusal(taking.await.unwrap()), TakeRefusal::Failed { .. }));
    let largest = in_background(&c, "x", &mine, held.token(), WAIT);
    let Asked { gives, .. } = asked.recv().await.unwrap();
    gives.send(Ok(vec![7; MAX_HANDED_BYTES])).unwrap();
    assert_eq!(largest.await.unwrap().unwrap().data.len(), MAX_HANDED_BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_panics_or_hangs_costs_this_hand_over_only() {
    let cluster = Cluster::new();
    let [_a, b, c] = cluster.three().await;
    let (old, mine) = (counter().await, counter().await);
    let options = RegisterOptions::default()
        .give(|_| async { if true { panic!("on purpose") } else { Given::Ok(Vec::new()) } });
    let held = b.register_with("x", &old, options).await.unwrap();
    let why = refusal(take(&c, "x", &mine, held.token()).await);
    assert_eq!(why, TakeRefusal::Failed { reason: "on purpose".into() });
    assert_eq!(held.check(), Ok(()));

    let (_old, held, mut asked) = asked_giver(&b, "y").await;
    let slow = in_background(&c, "y", &mine, held.token(), WAIT);
    let hangs = asked.recv().await.unwrap();
    assert!(matches!(refusal(slow.await.unwrap()), TakeRefusal::TooSlow { .. }));
    assert_eq!(held.check(), Ok(()));
    // What it gives in the end is not given to the next one either.
    let next = in_background(&c, "y", &mine, held.token(), WAIT);
    let Asked { gives, .. } = asked.recv().await.unwrap();
    let _ = hangs.gives.send(Ok(b"late".to_vec()));
    gives.send(Ok(b"now".to_vec())).unwrap();
    assert_eq!(&next.await.unwrap().unwrap().data[..], b"now");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_silent_leaves_the_outcome_open_and_the_name_comes_when_it_is_heard_again() {
    let cluster = Cluster::new();
    let [_a, b, c] = cluster.three().await;
    let (_old, held) = giver(&b, "x").await;
    c.wait_for(held.token(), TEST_DEADLINE).await.unwrap();
    cluster.network.cut(Cluster::address("b"), Cluster::address("c"));
    let mine = counter().await;
    let unknown = c.take("x", &mine, held.token(), Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(unknown, TakeError::Register(RegisterError::Unknown { .. })), "{unknown}");
    assert_eq!(held.check(), Ok(()), "it was not even asked");
    cluster.network.heal(Cluster::address("b"), Cluster::address("c"));
    until("it has come", || {
        b.lookup("x").is_ok_and(|found| found.is_some_and(|entry| entry.node().as_str() == "c"))
    })
    .await;
    assert_eq!(held.check(), Err(NotHeld::Ended));
    // The actor is known to hold it.
    let registered = c.register("x", &mine).await.unwrap();
    assert!(registered.token() > held.token());
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_lost_before_the_leader_is_asked_leaves_the_name_where_it_is() {
    let cluster = Cluster::new();
    let [_a, b, c] = cluster.three().await;
    let (_old, held, mut asked) = asked_giver(&b, "x").await;
    let mine = counter().await;
    let taking = in_background(&c, "x", &mine, held.token(), WAIT);
    let Asked { gives, .. } = asked.recv().await.unwrap();
    assert_eq!(held.check(), Err(NotHeld::Moving));
    cluster.network.cut(Cluster::address("b"), Cluster::address("c"));
    until("it is held again", || held.check() == Ok(())).await;
    let _ = gives.send(Ok(Vec::new()));
    cluster.network.heal(Cluster::address("b"), Cluster::address("c"));
    assert_eq!(refusal(taking.await.unwrap()), TakeRefusal::LinkLost);
    assert_eq!(held.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_taker_whose_actor_ends_gets_nothing_and_nobody_is_stopped_in_vain() {
    let cluster = Cluster::new();
    let [_a, b, c] = cluster.three().await;
    let (old, held, mut asked) = asked_giver(&b, "x").await;
    let dies = counter().await;
    let taking = in_background(&c, "x", &dies, held.token(), WAIT);
    let Asked { gives, .. } = asked.recv().await.unwrap();
    dies.stop(None);
    let ended = taking.await.unwrap().unwrap_err();
    assert!(matches!(ended, TakeError::Register(RegisterError::ActorEnded)), "{ended}");
    until("the flag is taken back", || held.check() == Ok(())).await;
    let _ = gives.send(Ok(Vec::new()));
    assert_eq!(old.get_status(), ActorStatus::Running);

    // Once it said that it has the data the log decides: the name is its own, and then free.
    let dies = counter().await;
    let hold = cluster.store.connect("a").hold_commits();
    let taking = in_background(&c, "x", &dies, held.token(), WAIT);
    let Asked { gives, .. } = asked.recv().await.unwrap();
    gives.send(Ok(Vec::new())).unwrap();
    assert_eq!(held.check(), Err(NotHeld::Moving));
    tokio::time::sleep(Duration::from_secs(1)).await;
    dies.stop(None);
    dies.wait(None).await.unwrap();
    drop(hold);
    let ended = taking.await.unwrap().unwrap_err();
    assert!(matches!(ended, TakeError::Register(RegisterError::ActorEnded)), "{ended}");
    until("it is free", || b.lookup("x") == Ok(None)).await;
    assert_eq!(held.check(), Err(NotHeld::Ended));
    let next = c.register("x", &counter().await).await.unwrap();
    assert!(next.token() > held.token());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_ends_under_way_frees_the_name_and_the_taker_hears_that() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let (old, held, mut asked) = asked_giver(&b, "x").await;
    let mine = counter().await;
    let taking = in_background(&c, "x", &mine, held.token(), WAIT);
    let _gives = asked.recv().await.unwrap();
    old.stop(None);
    let error = taking.await.unwrap().unwrap_err();
    let is_over =
        matches!(error, TakeError::Refused { why: TakeRefusal::NotHeld, .. } | TakeError::Gone { .. });
    assert!(is_over, "{error}");
    assert_eq!(held.check(), Err(NotHeld::Ended));
    until("it is free", || a.lookup("x") == Ok(None)).await;

    // With its node.
    let (_old, held, mut asked) = asked_giver(&b, "y").await;
    let taking = in_background(&c, "y", &mine, held.token(), WAIT);
    let _gives = asked.recv().await.unwrap();
    b.node.supervisor.sabotage("the timer of a registry");
    b.failed().await;
    let error = taking.await.unwrap().unwrap_err();
    assert!(matches!(error, TakeError::Gone { .. } | TakeError::Refused { .. }), "{error}");
    c.register("y", &mine).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lapses_on_both_sides_are_waited_for_and_a_lost_session_says_that_nothing_is_known() {
    let cluster = Cluster::new();
    let [_a, b, c] = cluster.three().await;
    let options = RegisterOptions::default().tell(|_| {});
    let old = counter().await;
    let (ask, mut asked) = mpsc::unbounded_channel();
    let options = options.give(move |to| {
        let (gives, given) = oneshot::channel();
        ask.send(Asked { to, gives }).expect("the test listens");
        async move { given.await? }
    });
    let held = b.register_with("x", &old, options).await.unwrap();
    let mine = counter().await;
    let tells = TakeOptions::default().when_lapsed(crate::WhenLapsed::Tell(Arc::new(|_| {})));
    let taking = tokio::spawn({
        let (c, mine, token) = (c.clone(), mine.clone(), held.token());
        async move { c.take_with("x", &mine, token, Duration::from_secs(60), tells).await }
    });
    let Asked { gives, .. } = asked.recv().await.unwrap();
    cluster.store.outage_for_all();
    until("both have lapsed", || b.lookup("x").is_err() && c.lookup("x").is_err()).await;
    gives.send(Ok(b"kept".to_vec())).unwrap();
    cluster.store.heal_all();
    // Less than what the flag waits for has passed, or more: in the end one of the two has it.
    let taken = taking.await.unwrap();
    match taken {
        Ok(taken) => {
            assert_eq!((&taken.data[..], taken.registration.check()), (&b"kept"[..], Ok(())));
            until("it has ended", || held.check() == Err(NotHeld::Ended)).await;
        }
        Err(TakeError::Refused { why: TakeRefusal::TooSlow { .. }, .. }) => {
            until("it is held again", || held.check() == Ok(())).await;
        }
        other => panic!("{other:?}"),
    }

    let lapsed = c.take("x", &mine, held.token(), WAIT);
    cluster.store.outage_for_all();
    until("it has lapsed", || c.lookup("x").is_err()).await;
    drop(lapsed);
    let refused = c.take("x", &mine, held.token(), Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(refused, TakeError::Register(_)), "{refused}");
    cluster.store.heal_all();
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_name_that_has_gone_says_so() {
    let cluster = Cluster::new();
    let [_a, b, c] = cluster.three().await;
    let (_old, held, mut asked) = asked_giver(&b, "x").await;
    let taking = in_background(&c, "x", &counter().await, held.token(), WAIT);
    let Asked { gives, .. } = asked.recv().await.unwrap();
    let update = tokio::spawn({
        let held = held.clone();
        async move { held.update(None, None).await }
    });
    let unregister = tokio::spawn({
        let b = b.clone();
        async move { b.unregister("x").await }
    });
    tokio::task::yield_now().await;
    gives.send(Ok(Vec::new())).unwrap();
    let taken = taking.await.unwrap().unwrap();
    let update = update.await.unwrap().unwrap_err();
    assert!(matches!(update, UpdateError::NotHeld { .. }), "{update}");
    assert!(unregister.await.unwrap().is_err());
    assert_eq!(taken.registration.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_bad_name_is_not_taken() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let bad = take(&node, "", &counter().await, Position(1)).await.unwrap_err();
    assert!(matches!(bad, TakeError::Register(RegisterError::BadName(BadName::Empty))), "{bad}");
}

#[tokio::test(start_paused = true)]
async fn a_membership_cannot_be_taken_whatever_its_options_say() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let (member, other) = (counter().await, counter().await);
    let options = RegisterOptions::default().give(|_| async { Given::Ok(Vec::new()) });
    let held = a.group::<Counter>("room").join_with(&member, options).await.unwrap();
    let rows = a.shared.table.members(GroupId::group("room").key());
    let name = rows[0].1.name.clone();
    let taken = take(&b, &name, &other, held.token()).await;
    let reserved = RegisterError::BadName(BadName::Reserved);
    assert!(matches!(taken, Err(TakeError::Register(error)) if error == reserved));
    // A node that asks all the same is refused by the member's.
    let call = Call::Take {
        name,
        token: held.token(),
        actor: other.get_id().pid(),
        kind: Counter::kind(),
        on_lapse: OnLapse::Stop,
        on_take: OnTake::Refuse,
    };
    let answer = b.shared.register(call, WAIT, Keeps::default(), other.get_cell()).1.await;
    let Some(Answer::Taken(Err(TakeError::Refused { why, .. }))) = answer else { panic!("{answer:?}") };
    assert_eq!((why, held.check()), (TakeRefusal::NotGiven, Ok(())));
}
