//! References end when their actors do: `monitor`, `link` and `wait` across nodes.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use callsign_transport::{
    Carrier, DownReason, Endpoint, Kind, MemoryNetwork, Network, RactorClusterMessage, RactorMessage,
    ResolveError, Tasks, remote_message,
};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::mpsc;

use crate::support::*;

type End = fn(&ActorCell);

const SOON: Duration = Duration::from_secs(60);

#[derive(RactorClusterMessage)]
enum Order {
    Panic,
    Fail,
    StopSelf,
}
remote_message!(Order, "test.Order");

struct Worker;

impl Actor for Worker {
    type Msg = Order;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Order>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Order>,
        order: Order,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Panic => panic!("on request"),
            Order::Fail => Err("it said so".into()),
            Order::StopSelf => {
                myself.stop(Some("of itself".into()));
                Ok(())
            }
        }
    }
}

async fn worker() -> ActorRef<Order> {
    Actor::spawn(None, Worker, ()).await.unwrap().0
}

/// Tells what it is told as a supervisor or monitor, as text.
struct Witness;

#[derive(RactorMessage)]
struct Nothing;

type Told = mpsc::UnboundedSender<(ActorCell, String)>;

impl Actor for Witness {
    type Msg = Nothing;
    type State = Told;
    type Arguments = Told;

    async fn pre_start(&self, _: ActorRef<Nothing>, told: Told) -> Result<Told, ActorProcessingErr> {
        Ok(told)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Nothing>,
        event: SupervisionEvent,
        told: &mut Told,
    ) -> Result<(), ActorProcessingErr> {
        let _ = match event {
            SupervisionEvent::ActorTerminated(who, _, reason) => {
                told.send((who, format!("stopped: {reason:?}")))
            }
            SupervisionEvent::ActorFailed(who, error) => told.send((who, format!("failed: {error}"))),
            _ => Ok(()),
        };
        Ok(())
    }
}

/// "a" has actors, "b" references to them, and a witness.
struct Scene {
    a: Endpoint,
    b: Endpoint,
    witness: ActorCell,
    told: mpsc::UnboundedReceiver<(ActorCell, String)>,
}

impl Scene {
    async fn over(network: &Over) -> Self {
        let (a, b) = pair(network).await;
        tokio::join!(link(&a, &b), link(&b, &a));
        Self::of(a, b).await
    }

    async fn of(a: Endpoint, b: Endpoint) -> Self {
        let (tells, told) = mpsc::unbounded_channel();
        let witness = Actor::spawn(None, Witness, tells).await.unwrap().0.get_cell();
        Self { a, b, witness, told }
    }

    /// A worker, and a reference that the witness monitors.
    async fn monitored(&self) -> (ActorRef<Order>, ActorRef<Order>) {
        let worker = worker().await;
        let remote = self.b.resolve_live(&self.a.address_of(&worker), SOON).await.unwrap();
        self.witness.monitor(remote.get_cell());
        (worker, remote)
    }

    async fn told(&mut self) -> (ActorCell, String) {
        tokio::time::timeout(SOON, self.told.recv()).await.expect("it is told").unwrap()
    }
}

async fn monitors_hear_how_an_actor_of_another_node_ended(network: Over) {
    let mut scene = Scene::over(&network).await;
    for (how, text) in [
        (Order::Panic, "failed: on request"),
        (Order::Fail, "failed: it said so"),
        (Order::StopSelf, "stopped: Some(\"of itself\")"),
    ] {
        let (_, remote) = scene.monitored().await;
        remote.cast(how).unwrap();
        assert_eq!(scene.told().await, (remote.get_cell(), text.to_owned()));
        remote.wait(Some(SOON)).await.unwrap();
        assert!(remote.cast(Order::Fail).is_err());
    }

    let ends: [(End, &str); 3] = [
        (|actor| actor.stop(None), "stopped: None"),
        (|actor| actor.stop(Some("done".into())), "stopped: Some(\"done\")"),
        (|actor| actor.kill(), "stopped: Some(\"killed\")"),
    ];
    for (end, text) in ends {
        let (worker, remote) = scene.monitored().await;
        end(&worker.get_cell());
        assert_eq!(scene.told().await, (remote.get_cell(), text.to_owned()));
    }
    until("nothing is kept", || (scene.a.watched() == 0 && scene.b.links()[0].references == 0).then_some(()))
        .await;
}

async fn monitors_hear_over_memory(carrier: Carrier) {
    monitors_hear_how_an_actor_of_another_node_ended(memory(carrier).1).await;
}

async fn monitors_hear_over_tcp(carrier: Carrier) {
    monitors_hear_how_an_actor_of_another_node_ended(tcp(carrier)).await;
}

async fn a_supervisor_hears_of_an_actor_of_another_node_that_is_linked_to_it(carrier: Carrier) {
    let mut scene = Scene::over(&memory(carrier).1).await;
    let worker = worker().await;
    let remote: ActorRef<Order> = scene.b.resolve(&scene.a.address_of(&worker)).unwrap();
    remote.get_cell().link(scene.witness.clone());
    remote.cast(Order::Panic).unwrap();
    assert_eq!(scene.told().await, (remote.get_cell(), "failed: on request".to_owned()));

    // The other way round a link ends the reference, and nothing of the other node.
    let (worker, remote) = scene.monitored().await;
    remote.get_cell().link(scene.witness.clone());
    scene.witness.kill();
    remote.wait(Some(SOON)).await.unwrap();
    let again: ActorRef<Order> = scene.b.resolve_live(&scene.a.address_of(&worker), SOON).await.unwrap();
    assert_ne!(again.get_status(), ractor::ActorStatus::Stopped);
}

async fn several_nodes_are_told_and_each_once(carrier: Carrier) {
    let network = memory(carrier).1;
    let mut first = Scene::over(&network).await;
    let c = start(config("c", 3, &network)).await;
    dial(&c, &[&first.a]);
    tokio::join!(link(&first.a, &c), link(&c, &first.a));
    let mut second = Scene::of(first.a.clone(), c).await;
    let (worker, remote) = first.monitored().await;
    let other: ActorRef<Order> = second.b.resolve_live(&second.a.address_of(&worker), SOON).await.unwrap();
    second.witness.monitor(other.get_cell());
    worker.stop(Some("done".into()));
    for (scene, remote) in [(&mut first, remote), (&mut second, other)] {
        assert_eq!(scene.told().await, (remote.get_cell(), "stopped: Some(\"done\")".to_owned()));
    }
    // Whatever else is told comes later.
    let (worker, last) = first.monitored().await;
    worker.stop(None);
    assert_eq!(first.told().await.0, last.get_cell());
    assert!(second.told.try_recv().is_err());
}

async fn an_actor_that_has_ended_is_said_to_be_gone_at_once(carrier: Carrier) {
    let mut scene = Scene::over(&memory(carrier).1).await;
    let (a, b) = (scene.a.clone(), scene.b.clone());
    let gone = worker().await;
    let address = a.address_of(&gone);
    gone.stop_and_wait(None, None).await.unwrap();
    let resolved = b.resolve_live::<Order>(&address, SOON).await;
    assert!(matches!(resolved, Err(ResolveError::Gone)), "{resolved:?}");
    let resolved = b.resolve::<Order>(&address);
    assert!(matches!(resolved, Err(ResolveError::Gone)), "it is remembered: {resolved:?}");

    // Who does not wait gets a reference that ends.
    let gone = worker().await;
    let address = a.address_of(&gone);
    gone.stop_and_wait(None, None).await.unwrap();
    let remote: ActorRef<Order> = b.resolve(&address).unwrap();
    scene.witness.monitor(remote.get_cell());
    let told = scene.told().await;
    assert_eq!(told, (remote.get_cell(), "stopped: Some(\"callsign: the actor has ended\")".to_owned()));

    let secret = worker().await;
    let ractor::ActorId::Local(pid) = secret.get_id() else { panic!() };
    let hidden = altered(&address, |it| it.pid = pid);
    let resolved = b.resolve_live::<Order>(&hidden, SOON).await;
    assert!(matches!(resolved, Err(ResolveError::NotExported)), "{resolved:?}");
    a.export(&secret.get_cell(), Kind::of("test.Other"));
    let resolved = b.resolve_live::<Order>(&hidden, SOON).await;
    let Err(wrong @ ResolveError::WrongType { found: None, .. }) = resolved else { panic!("{resolved:?}") };
    assert_eq!(wrong.to_string(), "the actor takes other messages than those of test.Order");
    a.export(&secret.get_cell(), Kind::of("test.Order"));
    assert!(b.resolve_live::<Order>(&hidden, SOON).await.is_ok(), "a refusal is not for good");
    assert!(a.resolve_live::<Order>(&hidden, SOON).await.is_ok(), "its own");
}

async fn a_link_that_is_lost_ends_references_with_its_reason_and_what_is_gone_is_heard_of_after_it(
    carrier: Carrier,
) {
    let (faults, network) = memory(carrier);
    let mut scene = Scene::over(&network).await;
    let (a, b) = (scene.a.clone(), scene.b.clone());
    let (lives, remote) = scene.monitored().await;
    faults.cut(a.local_addr(), b.local_addr());
    let (who, how) = scene.told().await;
    assert_eq!(who, remote.get_cell());
    assert!(how.starts_with("stopped: Some(\"callsign: the link to a@1 is down: "), "{how}");
    until("nobody is to be told", || (a.watched() == 0).then_some(())).await;
    let resolved = b.resolve_live::<Order>(&a.address_of(&lives), SOON).await;
    assert!(matches!(resolved, Err(ResolveError::NotLinked { .. })), "{resolved:?}");

    let gone = worker().await;
    let gone_address = a.address_of(&gone);
    gone.stop_and_wait(None, None).await.unwrap();
    faults.heal(a.local_addr(), b.local_addr());
    tokio::join!(link(&a, &b), link(&b, &a));
    let resolved = b.resolve_live::<Order>(&gone_address, SOON).await;
    assert!(matches!(resolved, Err(ResolveError::Gone)), "{resolved:?}");
    let again: ActorRef<Order> = b.resolve_live(&a.address_of(&lives), SOON).await.unwrap();
    scene.witness.monitor(again.get_cell());
    again.cast(Order::StopSelf).unwrap();
    assert_eq!(scene.told().await, (again.get_cell(), "stopped: Some(\"of itself\")".to_owned()));
}

async fn whoever_waits_for_an_answer_hears_of_the_end_of_the_link_or_of_its_patience(carrier: Carrier) {
    let (faults, network) = memory(carrier);
    let scene = Scene::over(&network).await;
    let worker = worker().await;
    let address = scene.a.address_of(&worker);
    faults.hold(scene.a.local_addr(), scene.b.local_addr());
    let resolved = scene.b.resolve_live::<Order>(&address, Duration::from_millis(10)).await;
    assert!(matches!(resolved, Err(ResolveError::Unanswered { .. })), "{resolved:?}");
    let (asks, b) = (scene.b.clone(), scene.b.clone());
    let asks = tokio::spawn(async move { asks.resolve_live::<Order>(&address, SOON).await.map(drop) });
    until("it asks", || (b.links()[0].references == 1).then_some(())).await;
    tokio::task::yield_now().await;
    b.forget("a");
    let resolved = asks.await.unwrap();
    assert!(matches!(resolved, Err(ResolveError::NotLinked { .. })), "{resolved:?}");
}

async fn another_incarnation_ends_the_references_to_the_former(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let b = start(config("b", 1, &network)).await;
    let old = start(config("c", 2, &network)).await;
    dial(&old, &[&b]);
    link(&b, &old).await;
    let mut scene = Scene::of(old, b.clone()).await;
    let (_, remote) = scene.monitored().await;
    let new = start(config("c", 3, &network)).await;
    dial(&new, &[&b]);
    link(&b, &new).await;
    let (who, how) = scene.told().await;
    assert_eq!(who, remote.get_cell());
    assert!(how.contains("the link to c@2 is down"), "{how}");
}

async fn many_actors_that_end_at_once_do_not_stall_the_link(carrier: Carrier) {
    const ACTORS: usize = 10_000;
    let (faults, network) = memory(carrier);
    let mut small = config("a", 1, &network);
    (small.limits.frame, small.limits.control_queue) = (16 << 10, 32 << 10);
    let (a, b) = (start(small).await, start(config("b", 2, &network)).await);
    dial(&b, &[&a]);
    let (was, _) = tokio::join!(link(&b, &a), link(&a, &b));
    let mut scene = Scene::of(a.clone(), b.clone()).await;
    let (mut workers, mut remotes) = (Vec::new(), Vec::new());
    for _ in 0..ACTORS {
        let worker = worker().await;
        remotes.push(b.resolve::<Order>(&a.address_of(&worker)).unwrap());
        workers.push(worker);
    }
    until("all are watched", || (a.watched() == ACTORS).then_some(())).await;
    let (_, last) = scene.monitored().await;
    // The peer does not read for a while: what is to be said waits, and takes no room from anything else.
    faults.hold(a.local_addr(), b.local_addr());
    for worker in &workers {
        worker.stop(None);
    }
    until("all have ended", || (a.watched() == 1).then_some(())).await;
    assert!(a.links()[0].control_queued <= 32 << 10, "{:?}", a.links());
    faults.heal(a.local_addr(), b.local_addr());
    for remote in &remotes {
        remote.wait(Some(SOON)).await.unwrap();
    }
    last.cast(Order::StopSelf).unwrap();
    assert_eq!(scene.told().await, (last.get_cell(), "stopped: Some(\"of itself\")".to_owned()));
    assert_eq!(link(&b, &a).await, was, "the same link");
}

async fn references_above_the_limit_are_refused_on_either_side(carrier: Carrier) {
    let (_, network) = memory(carrier);
    let mut small = config("a", 1, &network);
    small.limits.references = 2;
    let a = start(small).await;
    let b = start(config("b", 2, &network)).await;
    dial(&b, &[&a]);
    tokio::join!(link(&a, &b), link(&b, &a));
    let mut scene = Scene::of(a.clone(), b.clone()).await;
    let (first, _) = scene.monitored().await;
    let _second = scene.monitored().await;
    let third = worker().await;
    let resolved = b.resolve_live::<Order>(&a.address_of(&third), SOON).await;
    assert!(matches!(resolved, Err(ResolveError::TooMany { limit: 2 })), "{resolved:?}");
    first.stop(None);
    scene.told().await;
    assert!(b.resolve_live::<Order>(&a.address_of(&third), SOON).await.is_ok(), "one has ended");

    for _ in 0..2 {
        let worker = worker().await;
        a.resolve_live::<Order>(&b.address_of(&worker), SOON).await.unwrap();
    }
    let resolved = a.resolve::<Order>(&b.address_of(&worker().await));
    assert!(matches!(resolved, Err(ResolveError::TooMany { limit: 2 })), "{resolved:?}");
}

async fn local_ends_are_told_to_whoever_listens(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await;
    let (tells, mut told) = mpsc::unbounded_channel();
    let watches = scene.a.on_ends(move |pid| tells.send(pid).unwrap());
    let (worker, remote) = scene.monitored().await;
    assert!(watches.watch(&worker.get_cell()));
    worker.stop(None);
    remote.wait(Some(SOON)).await.unwrap();
    assert_eq!(told.recv().await, Some(worker.get_id().pid()), "beside the peers");
}

async fn an_actor_is_asked_for_and_the_answer_comes_before_anything_else_is_said(carrier: Carrier) {
    let scene = Scene::over(&memory(carrier).1).await;
    let address = scene.a.address_of(&worker().await);
    // Within less time than there is between two pings.
    let resolved = scene.b.resolve_live::<Order>(&address, Duration::from_millis(100)).await;
    assert!(resolved.is_ok(), "{resolved:?}");
}

/// A network whose connections hold next to nothing: who is not read from cannot write.
fn narrow(bytes: usize) -> (MemoryNetwork, Over) {
    let network = MemoryNetwork::narrow(bytes);
    (network.clone(), Over { carrier: Carrier::Connection, network: Network::Memory(network) })
}

#[tokio::test(start_paused = true)]
async fn what_a_node_asks_and_what_it_answers_find_room_beside_each_other() {
    const ACTORS: usize = 1000;
    let (faults, network) = narrow(1 << 10);
    let mut small = config("a", 1, &network);
    (small.limits.frame, small.limits.control_queue) = (16 << 10, 32 << 10);
    let (a, b) = (start(small).await, start(config("b", 2, &network)).await);
    dial(&b, &[&a]);
    tokio::join!(link(&b, &a), link(&a, &b));
    let (mut here, mut there, mut remotes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ACTORS {
        here.push(worker().await);
        there.push(worker().await);
    }
    for worker in &here {
        remotes.push(b.resolve::<Order>(&a.address_of(worker)).unwrap());
    }
    until("all are watched", || (a.watched() == ACTORS).then_some(())).await;
    // What it has to say waits, of both.
    faults.hold(a.local_addr(), b.local_addr());
    for worker in &there {
        a.resolve::<Order>(&b.address_of(worker)).unwrap();
    }
    for worker in &here {
        worker.stop(None);
    }
    until("all have ended", || (a.watched() == 0).then_some(())).await;
    faults.heal(a.local_addr(), b.local_addr());
    for remote in &remotes {
        remote.wait(Some(SOON)).await.unwrap();
    }
    until("all are watched there", || (b.watched() == ACTORS).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn of_an_actor_that_no_peer_watches_any_more_the_end_is_not_heard_of() {
    let (_, network) = memory(Carrier::Connection);
    let heard = Arc::new(AtomicUsize::new(0));
    let count = heard.clone();
    let mut counting = config("a", 1, &network);
    counting.tasks = Tasks::default().stepped_by(move |what, work| {
        count.fetch_add(usize::from(what == "the watcher of actors"), SeqCst);
        work();
    });
    let (a, b) = (start(counting).await, start(config("b", 2, &network)).await);
    dial(&b, &[&a]);
    tokio::join!(link(&a, &b), link(&b, &a));
    let (one, other) = (worker().await, worker().await);
    b.resolve_live::<Order>(&a.address_of(&one), SOON).await.unwrap();
    b.set_peers(vec![]);
    a.forget("b");
    until("nobody watches it", || (a.watched() == 0).then_some(())).await;
    one.stop_and_wait(None, None).await.unwrap();
    let (tells, mut told) = mpsc::unbounded_channel();
    let watches = a.on_ends(move |pid| tells.send(pid).unwrap());
    assert!(watches.watch(&other.get_cell()));
    other.stop(None);
    assert_eq!(told.recv().await, Some(other.get_id().pid()));
    assert_eq!(heard.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_for_actors_and_does_not_read_the_answers_loses_its_link() {
    let (faults, network) = narrow(1 << 10);
    let (mut small, mut patient) = (config("a", 1, &network), config("b", 2, &network));
    small.limits.references = 2;
    patient.timing.silence = Duration::from_secs(3600);
    let Linked { a, b, mut events, .. } = linked(small, patient).await;
    let address = a.address_of(&worker().await);
    faults.hold(a.local_addr(), b.local_addr());
    for n in 0..1000 {
        b.resolve::<Order>(&altered(&address, |it| it.pid = (1 << 40) + n)).unwrap();
    }
    let why = "it asks for actors, and does not read what it is answered";
    assert_eq!(down(&mut events).await.2, DownReason::Protocol(why.into()));
}

suite! {
    paused: [
        an_actor_is_asked_for_and_the_answer_comes_before_anything_else_is_said,
        monitors_hear_over_memory,
        a_supervisor_hears_of_an_actor_of_another_node_that_is_linked_to_it,
        several_nodes_are_told_and_each_once,
        an_actor_that_has_ended_is_said_to_be_gone_at_once,
        a_link_that_is_lost_ends_references_with_its_reason_and_what_is_gone_is_heard_of_after_it,
        whoever_waits_for_an_answer_hears_of_the_end_of_the_link_or_of_its_patience,
        another_incarnation_ends_the_references_to_the_former,
        many_actors_that_end_at_once_do_not_stall_the_link,
        references_above_the_limit_are_refused_on_either_side,
        local_ends_are_told_to_whoever_listens,
    ];
    threads: [
        monitors_hear_over_tcp,
    ];
    real: [];
}
