//! Names that are offered to other nodes, over the drivers: by a node that drains, and by hand.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use callsign_store::{ids::NodeName, in_full};
use callsign_transport::{P, RemoteMessage};
use futures::{StreamExt, stream};
use ractor::{ActorProcessingErr, ActorRef, ActorStatus, call_t};

use crate::{
    Decline, Drained, HandedTo, NotHeld, OfferError, OfferedName, Position, Received, Receiving,
    RegisterOptions, Registration, Registry, Select, StartOptions, TakeOptions, Taken, WatchEvent, WhenTaken,
    Why,
    core::input::Input,
    tests::driver::{Cluster, Counter, Other, TEST_DEADLINE, counter, until},
};

const WAIT: Duration = Duration::from_secs(30);

type Given = Result<Vec<u8>, ActorProcessingErr>;

/// Gives what a counter has counted.
fn counted(
    actor: &ActorRef<Counter>,
) -> impl Fn(HandedTo) -> futures::future::BoxFuture<'static, Given> + Send + Sync + 'static {
    let actor = actor.clone();
    move |_| {
        let actor = actor.clone();
        Box::pin(async move {
            let P(count) = call_t!(actor, Counter::Get, 5000)?;
            Ok(count.to_be_bytes().to_vec())
        })
    }
}

/// Holds a name on a node, and offers it.
async fn offering(node: &Registry, name: &str, count: i64) -> (ActorRef<Counter>, Registration) {
    let actor = counter().await;
    actor.cast(Counter::Add(P(count))).unwrap();
    let options = RegisterOptions::default().offer(counted(&actor));
    let held = node.register_with(name, &actor, options).await.unwrap();
    (actor, held)
}

async fn hold_many(node: &Registry, names: usize) -> Vec<(String, ActorRef<Counter>, Registration)> {
    let held = stream::iter(0..names).map(|nth| async move {
        let name = format!("n{nth:03}");
        let (actor, held) = offering(node, &name, i64::try_from(nth).unwrap()).await;
        (name, actor, held)
    });
    held.buffered(50).collect().await
}

/// Goes on with what was counted before.
fn counter_of(actor: ActorRef<Counter>) -> Received<Counter> {
    let (gives, counts) = (counted(&actor), actor.clone());
    let moved = move |taken: Taken| async move {
        let count = i64::from_be_bytes(taken.data[..].try_into()?);
        counts.cast(Counter::Add(P(count)))?;
        Ok(())
    };
    let options = TakeOptions::default().when_taken(WhenTaken::offer(gives));
    Received::new(actor, moved).options(options)
}

/// Has a node take all that is offered.
fn receiver(node: &Registry) -> Receiving {
    node.receive(|_| async { Ok(counter_of(counter().await)) })
}

/// What a function owns is dropped with it. Here that is what the function is registered by.
#[tokio::test]
async fn a_receiver_may_own_its_own_registration_and_that_of_another_kind() {
    let node = Cluster::new().node("a").await;
    let keeps = |kept: Arc<Mutex<Vec<Receiving>>>| {
        move |_: OfferedName| {
            let _ = &kept;
            async { Ok(counter_of(counter().await)) }
        }
    };
    let own = Arc::<Mutex<Vec<Receiving>>>::default();
    own.lock().unwrap().push(node.receive(keeps(own.clone())));
    // From here on the function alone keeps it, until another one takes its place.
    let former = Arc::downgrade(&own);
    drop(own);
    let (again, other) = (node.clone(), Arc::<Mutex<Vec<Receiving>>>::default());
    other.lock().unwrap().push(node.receive::<Other, _>(|_| async { Err("not here".into()) }));
    let taken = tokio::task::spawn_blocking(move || {
        let receiving = again.receive(keeps(other));
        drop(receiving);
    });
    tokio::time::timeout(TEST_DEADLINE, taken).await.expect("nobody waits for itself").unwrap();
    assert!(former.upgrade().is_none(), "the former function is gone");
}

/// A receiver that says no, and how often it was asked.
fn refuser(node: &Registry) -> (Receiving, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let counts = asked.clone();
    let receiving = node.receive::<Counter, _>(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        async { Err("no room".into()) }
    });
    (receiving, asked)
}

fn holder(node: &Registry, name: &str) -> Option<String> {
    node.lookup(name).unwrap().map(|entry| entry.node().as_str().to_owned())
}

fn name_of(node: &Registry) -> NodeName {
    NodeName::new(node.node()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_drains_moves_all_its_names_and_none_is_free_at_any_moment() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let _receive: Vec<_> = nodes.iter().map(receiver).collect();
    let leads = nodes.iter().position(|node| node.status().leads).unwrap();
    let (node, others) = (&nodes[leads], [&nodes[(leads + 1) % 3], &nodes[(leads + 2) % 3]]);
    let all = hold_many(node, 150).await;
    for other in others {
        other.wait_for(all.iter().map(|(_, _, held)| held.token()).max().unwrap(), WAIT).await.unwrap();
    }
    let mut watch = others[0].watch(Select::default()).unwrap();
    while !matches!(watch.next().await.unwrap(), WatchEvent::Current { .. }) {}

    assert!(matches!(node.drain().await, Drained::Led { .. }));
    for (name, _, held) in &all {
        assert_eq!(held.check(), Err(NotHeld::Ended), "{name} has moved when the node has drained");
    }
    let mut changes = BTreeMap::new();
    while changes.len() < all.len() {
        if let WatchEvent::Change(change) = watch.next().await.unwrap() {
            assert_eq!(change.why, Why::Transferred, "{change:?}");
            let nodes = [&change.was, &change.now].map(|entry| entry.as_ref().unwrap().node().to_string());
            assert_eq!(nodes[0], node.node());
            assert_ne!(nodes[1], node.node());
            assert_eq!(changes.insert(change.name.clone(), nodes[1].clone()), None, "once");
        }
    }
    for other in others {
        let here = changes.values().filter(|to| *to == other.node()).count();
        assert!(here > 0, "both take some");
    }
    node.leave().await.unwrap();
    for (nth, (name, old, held)) in all.iter().enumerate() {
        old.wait(Some(TEST_DEADLINE)).await.expect("its former holder is stopped");
        let entry = others[0].lookup_consistent(name, WAIT).await.unwrap().unwrap();
        assert!(entry.token() > held.token());
        let found: ActorRef<Counter> = others[0].whereis(name).unwrap();
        let P(count) = call_t!(found, Counter::Get, 5000).unwrap();
        assert_eq!(count, i64::try_from(nth).unwrap(), "{name} goes on where it was");
    }
    // The new holders offer them in their turn.
    others[0].drain().await;
    for (name, ..) in &all {
        others[1].lookup_consistent(name, WAIT).await.unwrap().unwrap();
        assert_eq!(holder(others[1], name).as_deref(), Some(others[1].node()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_declines_or_is_silent_is_passed_over_and_what_nobody_takes_is_freed() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let (_refuses, asked) = refuser(&a);
    let hung = Arc::<AtomicUsize>::default();
    let hangs = hung.clone();
    let silent = b.receive::<Counter, _>(move |_| {
        hangs.fetch_add(1, Ordering::SeqCst);
        async { std::future::pending::<Result<Received<Counter>, _>>().await }
    });
    // A fourth node takes them all.
    let d = cluster.node("d").await;
    let takes = receiver(&d);
    let all = hold_many(&c, 100).await;
    let kept = counter().await;
    let plain = c.register("plain", &kept).await.unwrap();
    let give_only = counter().await;
    let gives = RegisterOptions::default().give(counted(&give_only));
    c.register_with("gives", &give_only, gives).await.unwrap();
    c.drain().await;
    for (name, ..) in &all {
        d.lookup_consistent(name, WAIT).await.unwrap().unwrap();
        assert_eq!(holder(&d, name).as_deref(), Some("d"), "{name}");
    }
    assert!(asked.load(Ordering::SeqCst) > 0 && hung.load(Ordering::SeqCst) > 0, "they were asked");
    assert!(hung.load(Ordering::SeqCst) <= 64, "who is silent is asked no more");
    assert_eq!(plain.check(), Ok(()), "who does not offer its name holds it");
    assert_eq!((holder(&d, "plain").as_deref(), holder(&d, "gives").as_deref()), (Some("c"), Some("c")));
    c.leave().await.unwrap();
    until("they are freed with the node", || d.lookup("plain") == Ok(None) && d.lookup("gives") == Ok(None))
        .await;
    // And where only such nodes are left, the names are held until the node leaves, and freed.
    drop(takes);
    drop(silent);
    let moved = d.lookup("n000").unwrap().unwrap().token();
    assert_eq!(holder(&d, "n000").as_deref(), Some("d"));
    d.drain().await;
    assert_eq!(d.lookup("n000").unwrap().unwrap().token(), moved);
    d.leave().await.unwrap();
    until("it is freed", || a.lookup("n000") == Ok(None)).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_no_longer_for_names_than_it_may() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let _receive = receiver(&a);
    let actor = counter().await;
    let options = RegisterOptions::default().offer(|_| std::future::pending::<Given>());
    let held = b.register_with("x", &actor, options).await.unwrap();
    assert_eq!(b.drain().await, Drained::TimedOut);
    assert_eq!(held.check(), Err(NotHeld::Moving), "it is still on its way");
    b.leave().await.unwrap();
    until("it is freed", || a.lookup("x") == Ok(None)).await;
}

#[tokio::test(start_paused = true)]
async fn when_a_node_has_drained_nothing_more_is_offered_and_what_is_on_its_way_arrives() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let offered = Arc::<AtomicUsize>::default();
    let counts = offered.clone();
    let _receive = a.receive(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        async { Ok(counter_of(counter().await)) }
    });
    // More than are offered at once, and they wait for a word of the test.
    let word = Arc::new(tokio::sync::Semaphore::new(0));
    for nth in 0..70 {
        let (word, actor) = (word.clone(), counter().await);
        let options = RegisterOptions::default().offer(move |_| {
            let word = word.clone();
            async move {
                word.acquire().await?.forget();
                Given::Ok(5_i64.to_be_bytes().to_vec())
            }
        });
        b.register_with(&format!("n{nth}"), &actor, options).await.unwrap();
    }
    assert_eq!(b.drain().await, Drained::TimedOut);
    assert_eq!(offered.load(Ordering::SeqCst), 64);
    word.add_permits(70);
    let here = |node: &Registry| node.select(&Select::default().node("a")).unwrap().names.len();
    until("what was on its way has arrived", || here(&a) == 64).await;
    // Whatever b asks for now comes behind what it might have offered.
    b.unregister("n69").await.unwrap();
    assert_eq!(b.offer("n68", &name_of(&a), WAIT).await.map(|_| ()), Ok(()));
    assert_eq!(offered.load(Ordering::SeqCst), 65, "by hand only");
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_does_not_get_its_name_is_not_left_running() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let made = Arc::<Mutex<Vec<ActorRef<Counter>>>>::default();
    let makes = made.clone();
    let _receive = a.receive(move |_| {
        let makes = makes.clone();
        async move {
            let actor = counter().await;
            makes.lock().unwrap().push(actor.clone());
            Ok(counter_of(actor))
        }
    });
    let actor = counter().await;
    let options = RegisterOptions::default().offer(|_| async { Given::Err("not now".into()) });
    let held = b.register_with("x", &actor, options).await.unwrap();
    let error = b.offer("x", &name_of(&a), WAIT).await.unwrap_err();
    assert!(matches!(&error, OfferError::Declined { why: Decline::Failed { .. }, .. }), "{error}");
    let said = in_full(&error).to_string();
    assert!(said.contains("not now"), "{said}");
    assert_eq!(held.check(), Ok(()));
    let vain = made.lock().unwrap()[0].clone();
    vain.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");

    // What it was handed is of no use to it.
    let actor = counter().await;
    let options = RegisterOptions::default().offer(|_| async { Given::Ok(vec![1]) });
    let held = b.register_with("y", &actor, options).await.unwrap();
    let token = b.offer("y", &name_of(&a), WAIT).await.unwrap();
    assert!(token > held.token());
    let vain = made.lock().unwrap()[1].clone();
    vain.wait(Some(TEST_DEADLINE)).await.expect("it is stopped");
    until("the name is free", || c.lookup("y") == Ok(None)).await;

    // One that has other things to do runs on.
    let shared = counter().await;
    let of_all = shared.clone();
    let _receive = a.receive(move |_| {
        let of_all = of_all.clone();
        async move { Ok(Received::new(of_all, |_| async { Err("not mine".into()) }).shared()) }
    });
    let (_actor, _held) = offering(&b, "z", 1).await;
    b.offer("x", &name_of(&a), WAIT).await.unwrap_err();
    b.offer("z", &name_of(&a), WAIT).await.unwrap();
    until("the name is free", || c.lookup("z") == Ok(None)).await;
    assert_eq!(shared.get_status(), ActorStatus::Running);
}

/// It was taken for an actor that has other things to do, and nobody could say in time what came of it.
#[tokio::test(start_paused = true)]
async fn a_name_that_comes_to_an_actor_when_nobody_waits_for_it_any_more_is_given_up() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let shared = counter().await;
    let of_all = shared.clone();
    let _receive = a.receive(move |_| {
        let of_all = of_all.clone();
        async move { Ok(counter_of(of_all).shared()) }
    });
    let (store, actor) = (cluster.store.clone(), counter().await);
    let options = RegisterOptions::default().offer(move |_| {
        // From here on nobody can write that it has moved.
        store.outage_for_all();
        async { Given::Ok(vec![1]) }
    });
    let held = b.register_with("x", &actor, options).await.unwrap();
    // For longer than the actor waits for its name.
    let error = b.offer("x", &name_of(&a), 3 * WAIT).await.unwrap_err();
    assert!(!matches!(error, OfferError::NotHeldHere { .. }), "{error}");
    cluster.store.heal_all();
    until("it is not held by the one that consented", || held.check() == Err(NotHeld::Ended)).await;
    until("it is free", || c.lookup("x") == Ok(None)).await;
    assert_eq!(shared.get_status(), ActorStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_offered_by_hand_and_each_outcome_says_what_happened() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let (to_a, to_c) = (name_of(&a), name_of(&c));
    let seen = Arc::<Mutex<Vec<OfferedName>>>::default();
    let sees = seen.clone();
    let receiving = a.receive(move |offered| {
        sees.lock().unwrap().push(offered);
        async { Ok(counter_of(counter().await)) }
    });
    let (_actor, held) = offering(&b, "x", 7).await;
    let plain = b.register("plain", &counter().await).await.unwrap();

    let bad = b.offer("", &to_a, WAIT).await.unwrap_err();
    assert!(matches!(bad, OfferError::BadName(_)), "{bad}");
    let nobody = b.offer("nobody", &to_a, WAIT).await.unwrap_err();
    assert_eq!(nobody, OfferError::NotHeldHere { name: "nobody".into(), holder: None });
    c.wait_for(plain.token(), WAIT).await.unwrap();
    let elsewhere = c.offer("x", &to_a, WAIT).await.unwrap_err();
    assert!(
        matches!(&elsewhere, OfferError::NotHeldHere { holder: Some(at), .. } if at.node().as_str() == "b")
    );
    let kept = b.offer("plain", &to_a, WAIT).await.unwrap_err();
    assert!(matches!(kept, OfferError::NotGiven { .. }), "{kept}");
    let unknown = b.offer("x", &NodeName::new("z").unwrap(), WAIT).await.unwrap_err();
    assert_eq!(unknown, OfferError::NoSuchMember { node: NodeName::new("z").unwrap() });
    let declined = b.offer("x", &to_c, WAIT).await.unwrap_err();
    assert!(matches!(declined, OfferError::Declined { why: Decline::NoReceiver, .. }), "{declined}");
    // What takes other messages is no receiver for it.
    let _other = c.receive::<Other, _>(|_| async { Err("never asked".into()) });
    let declined = b.offer("x", &to_c, WAIT).await.unwrap_err();
    assert!(matches!(declined, OfferError::Declined { why: Decline::NoReceiver, .. }), "{declined}");
    assert_eq!(b.offer("x", &name_of(&b), WAIT).await, Ok(held.token()), "it is there");
    assert_eq!(held.check(), Ok(()));

    let token = b.offer("x", &to_a, WAIT).await.unwrap();
    assert_eq!(held.check(), Err(NotHeld::Ended));
    assert_eq!(a.lookup("x").unwrap().unwrap().token(), token);
    let of = seen.lock().unwrap().clone();
    let [OfferedName { name, token: former, from }] = &of[..] else { panic!("{of:?}") };
    assert_eq!((&**name, *former, from.as_str()), ("x", held.token(), "b"));
    until("b knows", || holder(&b, "x").as_deref() == Some("a")).await;
    let again = b.offer("x", &to_a, WAIT).await.unwrap_err();
    assert!(matches!(again, OfferError::NotHeldHere { holder: Some(_), .. }), "{again}");

    // A later receiver takes the place of an earlier one, whose end changes nothing then.
    let later = receiver(&a);
    drop(receiving);
    let (_actor, _held) = offering(&b, "y", 1).await;
    b.offer("y", &to_a, WAIT).await.unwrap();
    drop(later);
    let (_actor, held) = offering(&b, "w", 1).await;
    let declined = b.offer("w", &to_a, WAIT).await.unwrap_err();
    assert!(matches!(declined, OfferError::Declined { why: Decline::NoReceiver, .. }), "{declined}");
    // The member may hear of it later than the application.
    a.shared.push(Input::Receives { kind: Counter::kind(), does: true });
    let declined = b.offer("w", &to_a, WAIT).await.unwrap_err();
    let said = in_full(&declined).to_string();
    assert!(said.contains("taken back"), "{said}");

    let _silent = a.receive(|_| std::future::pending::<Result<Received<Counter>, ActorProcessingErr>>());
    let silent = b.offer("w", &to_a, WAIT).await.unwrap_err();
    assert!(matches!(silent, OfferError::Silent { .. }), "{silent}");
    let short = b.offer("w", &to_a, Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(short, OfferError::Unknown { .. }), "{short}");
    let _panics =
        a.receive(|_| async { if true { panic!("on purpose") } else { Ok(counter_of(counter().await)) } });
    let declined = b.offer("w", &to_a, WAIT).await.unwrap_err();
    let said = in_full(&declined).to_string();
    assert!(said.contains("on purpose"), "{said}");
    assert_eq!(held.check(), Ok(()));

    let _receive = receiver(&a);
    cluster.network.cut(Cluster::address("a"), Cluster::address("b"));
    until("the link is lost", || b.members().iter().any(|one| one.node == to_a && !one.linked)).await;
    let cut = b.offer("w", &to_a, WAIT).await.unwrap_err();
    assert!(matches!(cut, OfferError::NotReady { .. }), "{cut}");
    cluster.network.heal(Cluster::address("a"), Cluster::address("b"));
    until("it is back", || b.members().iter().any(|one| one.node == to_a && one.linked)).await;
    a.drain().await;
    let draining = b.offer("w", &to_a, WAIT).await.unwrap_err();
    let is_known = matches!(draining, OfferError::NotReady { .. });
    assert!(
        is_known || matches!(draining, OfferError::Declined { why: Decline::Draining, .. }),
        "{draining}"
    );
    b.leave().await.unwrap();
    assert_eq!(b.offer("w", &to_c, WAIT).await, Err(OfferError::Left));
    assert!(Position(0) < token);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_session_is_not_trusted_offers_nothing() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let _receive = receiver(&a);
    let actor = counter().await;
    let options = RegisterOptions::default().tell(|_| {}).offer(counted(&actor));
    b.register_with("x", &actor, options).await.unwrap();
    cluster.store.outage_for_all();
    until("it has lapsed", || b.lookup("x").is_err()).await;
    assert_eq!(b.offer("x", &name_of(&a), WAIT).await, Err(OfferError::Lapsed));
    cluster.store.heal_all();
}

#[tokio::test(start_paused = true)]
async fn what_was_started_moves_as_well_and_what_is_only_given_moves_by_hand() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let _receive = receiver(&a);
    let offers = WhenTaken::offer(|_| async { Given::Ok(5_i64.to_be_bytes().to_vec()) });
    let options = StartOptions::default().when_taken(offers);
    let start = |_| async { Ok::<_, ActorProcessingErr>(counter().await) };
    b.start_with("started", options, start).await.unwrap();
    let given = counter().await;
    let options = RegisterOptions::default().give(counted(&given));
    b.register_with("given", &given, options).await.unwrap();
    let token = b.offer("given", &name_of(&a), WAIT).await.unwrap();
    assert_eq!(a.lookup("given").unwrap().unwrap().token(), token);
    b.drain().await;
    a.lookup_consistent("started", WAIT).await.unwrap().unwrap();
    assert_eq!(holder(&a, "started").as_deref(), Some("a"));
}
