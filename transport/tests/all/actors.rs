//! References to actors of other nodes.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

mod callers;
mod resolved;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    time::Duration,
};

use crate::{slow::counted, support::*};
use callsign_transport::{
    ActorAddress, BroadcastError, Broadcasted, Carrier, DownReason, Endpoint, Kind, MemoryNetwork, Network,
    P, PeerId, RactorClusterMessage, ResolveError, Tasks, remote_message,
};
use futures::StreamExt;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, ActorStatus, RpcReplyPort, rpc::CallResult};

#[derive(RactorClusterMessage)]
enum CounterMessage {
    Add(P<u64>),
    #[rpc]
    Get(RpcReplyPort<P<u64>>),
    /// Answers, then stops.
    #[rpc]
    GetAndStop(RpcReplyPort<P<u64>>),
    /// Drops the port.
    #[rpc]
    Ignore(RpcReplyPort<P<u64>>),
    /// Keeps the port.
    #[rpc]
    Never(RpcReplyPort<P<u64>>),
    #[rpc]
    All(RpcReplyPort<P<Vec<u64>>>),
}
remote_message!(CounterMessage, "test.Counter");

/// The same variants with other fields: what an incompatible node would send.
#[derive(RactorClusterMessage)]
enum OtherCounterMessage {
    Add(P<String>),
    #[rpc]
    Unknown(RpcReplyPort<P<u64>>),
}
remote_message!(OtherCounterMessage, "test.Counter");

#[derive(RactorClusterMessage)]
enum Unrelated {
    #[rpc]
    Get(RpcReplyPort<P<u64>>),
}
remote_message!(Unrelated, "test.Unrelated");

struct Counter;

impl Actor for Counter {
    type Msg = CounterMessage;
    type State = (Vec<u64>, Vec<RpcReplyPort<P<u64>>>);
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ActorRef<CounterMessage>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok((vec![], vec![]))
    }

    async fn handle(
        &self,
        myself: ActorRef<CounterMessage>,
        message: CounterMessage,
        (added, kept): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let sum = || P(added.iter().sum());
        match message {
            CounterMessage::Add(P(n)) => added.push(n),
            CounterMessage::Get(port) => drop(port.send(sum())),
            CounterMessage::GetAndStop(port) => {
                let _ = port.send(sum());
                myself.stop(None);
            }
            CounterMessage::Ignore(_) => {}
            CounterMessage::Never(port) => kept.push(port),
            CounterMessage::All(port) => drop(port.send(P(added.clone()))),
        }
        Ok(())
    }
}

async fn counter() -> ActorRef<CounterMessage> {
    Actor::spawn(None, Counter, ()).await.unwrap().0
}

const CALL_TIMEOUT: Option<Duration> = Some(Duration::from_secs(600));

/// `Some(answer)`, or `None` where the call failed at once. A timeout is a failed test.
async fn get(actor: &ActorRef<CounterMessage>) -> Option<u64> {
    answer(actor.call(CounterMessage::Get, CALL_TIMEOUT).await)
}

#[allow(clippy::needless_pass_by_value)] // reads better where it is called
fn answer<M>(result: Result<CallResult<P<u64>>, ractor::MessagingErr<M>>) -> Option<u64> {
    match result {
        Ok(CallResult::Success(P(sum))) => Some(sum),
        Ok(CallResult::SenderError) | Err(_) => None,
        Ok(CallResult::Timeout) => panic!("waited for the timeout"),
    }
}

/// "a" has a counter, "b" a reference to it.
struct Scene {
    a: Endpoint,
    b: Endpoint,
    counter: ActorRef<CounterMessage>,
    address: ActorAddress,
    remote: ActorRef<CounterMessage>,
}

impl Scene {
    async fn over(network: &Over) -> Self {
        let (a, b) = pair(network).await;
        tokio::join!(link(&a, &b), link(&b, &a));
        let counter = counter().await;
        let address = a.address_of(&counter);
        let remote = b.resolve(&address).unwrap();
        Self { a, b, counter, address, remote }
    }
}

async fn casts_and_calls_work_in_order(network: Over) {
    let scene = Scene::over(&network).await; // dropping an endpoint ends it
    let Scene { remote, .. } = &scene;
    for n in 0..1000 {
        remote.cast(CounterMessage::Add(P(n))).unwrap();
    }
    let all = remote.call(CounterMessage::All, CALL_TIMEOUT).await.unwrap().unwrap().0;
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    // A caller may be in a hurry.
    let hurried = remote.call(CounterMessage::Get, Some(Duration::from_millis(900))).await;
    assert_eq!(answer(hurried), Some(499_500));
}

async fn casts_and_calls_work_in_order_over_memory(carrier: Carrier) {
    casts_and_calls_work_in_order(memory(carrier).1).await;
}

async fn casts_and_calls_work_in_order_over_tcp(carrier: Carrier) {
    casts_and_calls_work_in_order(tcp(carrier)).await;
}

async fn an_answer_arrives_though_its_actor_stops_at_once(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, b, .. } = &scene;
    for _ in 0..300 {
        let actor = counter().await;
        let remote: ActorRef<CounterMessage> = b.resolve(&a.address_of(&actor)).unwrap();
        remote.cast(CounterMessage::Add(P(5))).unwrap();
        assert_eq!(answer(remote.call(CounterMessage::GetAndStop, CALL_TIMEOUT).await), Some(5));
    }
}

async fn a_call_that_is_not_answered_ends_at_once(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, b, counter, address, remote } = &scene;
    let start = tokio::time::Instant::now();
    assert_eq!(answer(remote.call(CounterMessage::Ignore, CALL_TIMEOUT).await), None, "the port was dropped");
    assert_eq!(get(remote).await, Some(0), "which harms nobody");

    let unknown = altered(address, |it| it.pid = u64::MAX);
    assert_eq!(get(&b.resolve(&unknown).unwrap()).await, None, "no such actor");

    let secret = self::counter().await;
    let ractor::ActorId::Local(pid) = secret.get_id() else { panic!() };
    let not_exported = altered(address, |it| it.pid = pid);
    assert_eq!(get(&b.resolve(&not_exported).unwrap()).await, None, "it was not exported");
    a.export(&secret.get_cell(), Kind::of("test.Counter"));
    assert_eq!(get(&b.resolve(&not_exported).unwrap()).await, Some(0), "now it was");

    counter.stop(None);
    counter.wait(None).await.unwrap();
    assert_eq!(get(remote).await, None, "the actor has ended");
    assert!(start.elapsed() < CALL_TIMEOUT.unwrap());
}

async fn a_cast_to_an_actor_that_is_not_there_ends_the_reference(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, b, counter, address, remote } = &scene;
    counter.stop(None);
    counter.wait(None).await.unwrap();
    until("an error", || remote.cast(CounterMessage::Add(P(1))).err().map(|_| ())).await;
    assert!(matches!(b.resolve::<CounterMessage>(address), Err(ResolveError::Gone)));
    // Of one that nobody asked for before it is found out by sending, too.
    let other = self::counter().await;
    let address = a.address_of(&other);
    other.stop_and_wait(None, None).await.unwrap();
    let remote: ActorRef<CounterMessage> = b.resolve(&address).unwrap();
    remote.cast(CounterMessage::Add(P(1))).unwrap();
    remote.wait(CALL_TIMEOUT).await.unwrap();
    assert!(remote.cast(CounterMessage::Add(P(1))).is_err());
}

async fn messages_of_another_kind_are_refused(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, b, address, .. } = &scene;
    for endpoint in [a, b] {
        let wrong = endpoint.resolve::<Unrelated>(address).unwrap_err();
        assert!(matches!(wrong, ResolveError::WrongType { found: Some(_), .. }), "{wrong:?}");
        let named = "the actor takes messages of test.Counter, not of test.Unrelated";
        assert_eq!(wrong.to_string(), named);
        // No type of this program has that tag.
        let unheard = altered(address, |it| it.kind = Kind::of("test.Unheard"));
        let wrong = endpoint.resolve::<Unrelated>(&unheard).unwrap_err();
        let in_words =
            "the actor takes messages of a kind that this program does not know, not of test.Unrelated";
        assert_eq!(wrong.to_string(), in_words);
    }
    // A peer that lies about the kind gets nowhere either.
    let lie = altered(address, |it| it.kind = Kind::of("test.Unrelated"));
    let lying = b.resolve::<Unrelated>(&lie).unwrap();
    assert_eq!(answer(lying.call(Unrelated::Get, CALL_TIMEOUT).await), None);
    // Here the type itself is looked at.
    let wrong = a.resolve::<OtherCounterMessage>(address).unwrap_err();
    assert!(matches!(wrong, ResolveError::WrongType { found: None, .. }), "{wrong:?}");
    assert_eq!(wrong.to_string(), "the actor takes other messages than those of test.Counter");
}

async fn what_cannot_be_decoded_is_dropped_and_its_call_fails_and_the_actor_lives(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { b, address, remote, .. } = &scene;
    let other: ActorRef<OtherCounterMessage> = b.resolve(address).unwrap();
    other.cast(OtherCounterMessage::Add(P("not a number".into()))).unwrap();
    assert_eq!(answer(other.call(OtherCounterMessage::Unknown, CALL_TIMEOUT).await), None);
    assert_eq!(get(remote).await, Some(0));
}

async fn a_stopped_proxy_harms_nobody_and_the_next_resolve_makes_a_new_one(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, b, counter, address, remote } = &scene;
    let other = self::counter().await;
    let bystander: ActorRef<CounterMessage> = b.resolve(&a.address_of(&other)).unwrap();
    let (id, _) = b.link_to("a").unwrap();
    for end in [|proxy: &ActorCell| proxy.stop(None), |proxy: &ActorCell| proxy.kill()] {
        let proxy: ActorRef<CounterMessage> = b.resolve(address).unwrap();
        end(&proxy.get_cell());
        proxy.wait(None).await.unwrap();
        assert!(proxy.cast(CounterMessage::Add(P(1))).is_err());
        let again: ActorRef<CounterMessage> = b.resolve(address).unwrap();
        assert_eq!(get(&again).await, Some(0));
    }
    // One that does what it still has to do takes nothing more.
    b.resolve::<CounterMessage>(address).unwrap().drain().unwrap();
    assert_eq!(get(&b.resolve(address).unwrap()).await, Some(0));
    assert_eq!(get(&bystander).await, Some(0));
    assert!(remote.cast(CounterMessage::Add(P(1))).is_err(), "the first proxy stays ended");
    assert_eq!(counter.get_status(), ActorStatus::Running);
    assert_eq!(b.link_to("a").unwrap().0, id);
}

async fn an_address_has_one_proxy_however_often_it_is_resolved(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { b, address, remote, .. } = &scene;
    let again: ActorRef<CounterMessage> = b.resolve(address).unwrap();
    let stopped = remote.get_cell();
    stopped.stop(None);
    stopped.wait(None).await.unwrap();
    assert!(again.cast(CounterMessage::Add(P(1))).is_err(), "it is the same actor");
}

async fn resolving_works_outside_of_a_runtime(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { b, address, .. } = &scene;
    let fresh = altered(address, |it| it.pid = address.pid + 1_000_000);
    let b = b.clone();
    std::thread::spawn(move || b.resolve::<CounterMessage>(&fresh).unwrap()).join().unwrap();
}

async fn a_call_that_waits_fails_when_the_link_goes_down_and_the_reference_is_dead_for_good(
    carrier: Carrier,
) {
    let (faults, network) = memory(carrier);
    let scene = Scene::over(&network).await; // dropping an endpoint ends it
    let Scene { a, b, address, remote, .. } = &scene;
    let mut events = b.subscribe(CHANNEL);
    up(&mut events).await;
    let call = tokio::spawn({
        let remote = remote.clone();
        async move { answer(remote.call(CounterMessage::Never, None).await) }
    });
    assert_eq!(get(remote).await, Some(0), "the call has arrived, too");
    faults.cut(a.local_addr(), b.local_addr());
    assert_eq!(down(&mut events).await.2, DownReason::Closed);
    assert!(remote.cast(CounterMessage::Add(P(1))).is_err(), "from the moment that Down is seen");
    assert_eq!(call.await.unwrap(), None);
    let unlinked = b.resolve::<CounterMessage>(address);
    assert!(matches!(unlinked, Err(ResolveError::NotLinked { .. })));

    faults.heal(a.local_addr(), b.local_addr());
    up(&mut events).await;
    assert_eq!(get(remote).await, None, "the old reference");
    tokio::join!(link(a, b), link(b, a));
    assert_eq!(get(&b.resolve(address).unwrap()).await, Some(0), "a new one");
}

async fn references_and_calls_end_with_their_link_even_if_the_network_lets_nothing_through(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let scene = Scene::over(&network).await;
    let Scene { a, b, remote, .. } = &scene;
    let call = tokio::spawn({
        let remote = remote.clone();
        async move { answer(remote.call(CounterMessage::Never, None).await) }
    });
    assert_eq!(get(remote).await, Some(0));
    faults.hold(a.local_addr(), b.local_addr());
    faults.hold(b.local_addr(), a.local_addr());
    b.forget("a");
    assert!(remote.cast(CounterMessage::Add(P(1))).is_err(), "nothing ran in between");
    let ended = tokio::time::timeout(Duration::from_millis(10), call).await;
    assert_eq!(ended.expect("it waits for the closing of the connection").unwrap(), None);
}

async fn a_new_incarnation_ends_the_references_to_the_old_one(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let a = start(config("a", 1, &network)).await;
    let old = start(config("b", 2, &network)).await;
    dial(&old, &[&a]);
    link(&a, &old).await;
    let counter = counter().await;
    let address = old.address_of(&counter);
    let remote: ActorRef<CounterMessage> = a.resolve(&address).unwrap();
    assert_eq!(get(&remote).await, Some(0));

    let new = start(config("b", 3, &network)).await;
    dial(&new, &[&a]);
    link(&a, &new).await;
    assert_eq!(get(&remote).await, None);
    match a.resolve::<CounterMessage>(&address) {
        Err(ResolveError::OtherIncarnation { wanted: 2, linked }) => assert_eq!(linked, *new.peer_id()),
        other => panic!("{other:?}"),
    }
    let own_past = new.resolve::<CounterMessage>(&address);
    assert!(matches!(own_past, Err(ResolveError::OtherIncarnation { .. })));
}

async fn a_local_address_is_the_actor_itself_while_it_runs(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, counter, address, .. } = &scene;
    let local: ActorRef<CounterMessage> = a.resolve(address).unwrap();
    assert_eq!(local.get_id(), counter.get_id());
    counter.stop(None);
    counter.wait(None).await.unwrap();
    assert!(matches!(a.resolve::<CounterMessage>(address), Err(ResolveError::Gone)));
}

async fn the_address_of_a_reference_is_that_of_the_actor_behind_it(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { b, address, remote, .. } = &scene;
    assert_eq!(b.address_of(remote), *address);
    b.set_peers(vec![]);
    b.forget("a");
    let nowhere = b.address_of(remote);
    assert_eq!((&*nowhere.node, nowhere.incarnation), ("", 0));
    assert!(matches!(b.resolve::<CounterMessage>(&nowhere), Err(ResolveError::NotLinked { .. })));
}

async fn messages_that_find_no_room_are_counted_and_their_calls_fail(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let (a, mut small) = (start(config("a", 1, &network)).await, config("b", 2, &network));
    small.limits.frame = 1024;
    small.limits.control_queue = 1024;
    let b = start(small).await;
    dial(&b, &[&a]);
    tokio::join!(link(&a, &b), link(&b, &a));
    let counter = counter().await;
    let remote: ActorRef<CounterMessage> = b.resolve(&a.address_of(&counter)).unwrap();
    faults.hold(b.local_addr(), a.local_addr());
    until("a full pipe and a full queue", || {
        (0..100).for_each(|n| remote.cast(CounterMessage::Add(P(n))).unwrap());
        (b.links()[0].control_queued > 900).then_some(())
    })
    .await;
    // The first few calls may still find a gap, and wait.
    let mut calls: futures::stream::FuturesUnordered<_> = (0..20).map(|_| get(&remote)).collect();
    assert_eq!(calls.next().await, Some(None), "a call that found no room");
    assert!(b.links()[0].dropped > 100, "and its link is up");
    drop(calls);
    faults.heal(a.local_addr(), b.local_addr());
    // The link itself is none the worse.
    until("room", || (b.links()[0].control_queued == 0).then_some(())).await;
    assert!(get(&remote).await.is_some());
}

async fn a_name_of_this_process_survives_the_end_of_proxies(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { remote, .. } = &scene;
    let (named, _) = Actor::spawn(Some("survivor".into()), Counter, ()).await.unwrap();
    remote.stop(None);
    remote.wait(None).await.unwrap();
    assert_eq!(ractor::registry::where_is("survivor").map(|a| a.get_id()), Some(named.get_id()));
}

/// Addresses travel in messages.
async fn an_actor_can_be_told_whom_to_answer(carrier: Carrier) {
    #[derive(RactorClusterMessage)]
    enum Watch {
        Me(P<ActorAddress>),
    }
    remote_message!(Watch, "test.Watch");
    struct Watched(Endpoint);
    impl Actor for Watched {
        type Msg = Watch;
        type State = ();
        type Arguments = ();
        async fn pre_start(&self, _: ActorRef<Watch>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
        async fn handle(
            &self,
            _: ActorRef<Watch>,
            Watch::Me(P(address)): Watch,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            let watcher: ActorRef<CounterMessage> = self.0.resolve(&address)?;
            watcher.cast(CounterMessage::Add(P(42)))?;
            Ok(())
        }
    }
    let scene = Scene::over(&memory(carrier).1).await; // dropping an endpoint ends it
    let Scene { a, b, .. } = &scene;
    let (watched, _) = Actor::spawn(None, Watched(a.clone()), ()).await.unwrap();
    let watcher = counter().await;
    let remote: ActorRef<Watch> = b.resolve(&a.address_of(&watched)).unwrap();
    remote.cast(Watch::Me(P(b.address_of(&watcher)))).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while get(&watcher).await != Some(42) {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[derive(RactorClusterMessage)]
enum Told {
    Bytes(P<Vec<u8>>),
    #[rpc]
    Ask(RpcReplyPort<P<u64>>),
}
remote_message!(Told, "test.Told");

async fn a_broadcast_says_which_nodes_it_is_not_on_its_way_to(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let (a, mut small) = (start(config("a", 1, &network)).await, config("b", 2, &network));
    (small.limits.frame, small.limits.control_queue) = (32 << 10, 64 << 10);
    let b = start(small).await;
    let came_to = |done: Result<Broadcasted, BroadcastError>| {
        let done = done.unwrap();
        (done.sent, done.unreached)
    };
    let to = |peer: &PeerId, actors: u64| vec![(peer.clone(), (1..=actors).collect::<Vec<u64>>())];
    let tell = |peer: &PeerId, actors| b.broadcast(Told::Bytes(P(vec![7; 28 << 10])), to(peer, actors));
    let unreached = vec!["a".to_owned()];
    assert_eq!(came_to(tell(a.peer_id(), 3)), (0, unreached.clone()), "there is no link");
    dial(&b, &[&a]);
    tokio::join!(link(&a, &b), link(&b, &a));
    assert_eq!(came_to(tell(&PeerId::new("a", 7), 3)), (0, unreached.clone()), "that is not who is linked");
    // A frame is for less than 300 actors, and the queue takes two of this size before the first one is written.
    let (sent, whom) = came_to(tell(a.peer_id(), 900));
    assert!((500..600).contains(&sent), "{sent}");
    assert_eq!(whom, unreached);
    until("room", || (b.links()[0].control_queued == 0).then_some(())).await;
    assert_eq!(came_to(tell(a.peer_id(), 3)), (3, vec![]));
    let ask = |port| b.broadcast(Told::Ask(port), to(a.peer_id(), 3));
    let (port, _answer) = ractor::concurrency::oneshot();
    assert_eq!(ask(port.into()), Err(BroadcastError::IsCall));
    // Those that are there get it, of this node and of the other.
    let (here, there) = (counter().await, counter().await);
    let both = [(&b, &here), (&a, &there)];
    let both = both.map(|(node, actor)| (node.peer_id().clone(), vec![node.address_of(actor).pid]));
    assert_eq!(came_to(b.broadcast(CounterMessage::Add(P(7)), both.into())), (2, vec![]));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    for actor in [here, there] {
        while get(&actor).await != Some(7) {
            assert!(tokio::time::Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_part_of_an_endpoint_is_started_and_watched_under_its_name() {
    let names = Arc::<Mutex<BTreeSet<&'static str>>>::default();
    let (runtime, seen) = (tokio::runtime::Handle::current(), names.clone());
    let tasks = Tasks::started_by(move |what, work| {
        seen.lock().unwrap().insert(what);
        runtime.spawn(work);
    });
    let (_, network) = memory(Carrier::Connection);
    let (mut a, mut b) = (config("a", 1, &network), config("b", 2, &network));
    (a.tasks, b.tasks) = (tasks.clone(), tasks);
    let Linked { a, b, .. } = linked(a, b).await;
    assert_eq!(get(&b.resolve(&a.address_of(&counter().await)).unwrap()).await, Some(0));
    let expected = [
        "a link that is dialled",
        "a link that was accepted",
        "an answer to a call",
        "the listener of links",
        "the references over a link",
        "the timer of links",
        "the watcher of actors",
    ];
    assert_eq!(*names.lock().unwrap(), BTreeSet::from(expected));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_an_endpoint_that_has_ended() {
    for leaves in [true, false] {
        let (_, network) = memory(Carrier::Connection);
        let (mut counting, (tasks, count)) = (config("a", 1, &network), counted(""));
        counting.tasks = tasks;
        let (a, b) = (start(counting).await, start(config("b", 2, &network)).await);
        dial(&b, &[&a]);
        tokio::join!(link(&a, &b), link(&b, &a));
        // Each has a reference to an actor of the other, and waits for an answer.
        let actors = [counter().await, counter().await];
        let remotes: [ActorRef<CounterMessage>; 2] =
            [b.resolve(&a.address_of(&actors[0])).unwrap(), a.resolve(&b.address_of(&actors[1])).unwrap()];
        let calls = remotes.map(|remote| {
            tokio::spawn(async move { answer(remote.call(CounterMessage::Never, None).await) })
        });
        for actor in &actors {
            assert_eq!(get(actor).await, Some(0));
        }
        until("both calls wait", || (a.watched() == 1 && b.watched() == 1).then_some(())).await;
        if leaves {
            a.leave().await;
        }
        drop(a);
        for call in calls {
            assert_eq!(call.await.unwrap(), None);
        }
        until("all that it started is over", || (count.load(SeqCst) == 0).then_some(())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_calls_and_does_not_read_the_answers_loses_its_link() {
    let network = MemoryNetwork::narrow(1 << 10);
    let over = Over { carrier: Carrier::Connection, network: Network::Memory(network.clone()) };
    let (mut small, mut patient) = (config("a", 1, &over), config("b", 2, &over));
    (small.limits.frame, small.limits.control_queue) = (1024, 1024);
    patient.timing.silence = Duration::from_secs(3600);
    let Linked { a, b, mut events, .. } = linked(small, patient).await;
    let remote: ActorRef<CounterMessage> = b.resolve(&a.address_of(&counter().await)).unwrap();
    assert_eq!(get(&remote).await, Some(0));
    network.hold(a.local_addr(), b.local_addr());
    for _ in 0..6000 {
        let (port, _) = ractor::concurrency::oneshot();
        remote.cast(CounterMessage::Get(port.into())).unwrap();
    }
    let why = "it asks, and does not read what it is answered";
    assert_eq!(down(&mut events).await.2, DownReason::Protocol(why.into()));
}

suite! {
    paused: [
        a_broadcast_says_which_nodes_it_is_not_on_its_way_to,
        casts_and_calls_work_in_order_over_memory,
        an_answer_arrives_though_its_actor_stops_at_once,
        a_call_that_is_not_answered_ends_at_once,
        a_cast_to_an_actor_that_is_not_there_ends_the_reference,
        messages_of_another_kind_are_refused,
        what_cannot_be_decoded_is_dropped_and_its_call_fails_and_the_actor_lives,
        a_stopped_proxy_harms_nobody_and_the_next_resolve_makes_a_new_one,
        an_address_has_one_proxy_however_often_it_is_resolved,
        a_call_that_waits_fails_when_the_link_goes_down_and_the_reference_is_dead_for_good,
        references_and_calls_end_with_their_link_even_if_the_network_lets_nothing_through,
        a_new_incarnation_ends_the_references_to_the_old_one,
        a_local_address_is_the_actor_itself_while_it_runs,
        the_address_of_a_reference_is_that_of_the_actor_behind_it,
        messages_that_find_no_room_are_counted_and_their_calls_fail,
        a_name_of_this_process_survives_the_end_of_proxies,
        an_actor_can_be_told_whom_to_answer,
    ];
    threads: [
        casts_and_calls_work_in_order_over_tcp,
    ];
    real: [
        resolving_works_outside_of_a_runtime,
    ];
}
