//! A store that goes back behind what it acknowledged, under nodes of one process and a paused clock.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_elector::{
    elector::View,
    lineage::{LineageId, LineageNumber},
    record::{Leader, Lineage, LogEnd, Term},
    sessions::Sessions,
};
use callsign_store::{
    CommitOutcome, Key, Limits, Read, Store, Time, Transaction, Version,
    ids::{
        Ballot, ClusterName, Epoch, Incarnation, NodeName, Nonce, Position, RegistryName, SessionId,
        SessionNumber, Token,
    },
    keys::{ClusterKeys, RegistryKeys},
    memory::{Fate, Fault, MemoryStore},
    mvcc::Mvcc,
    random::splitmix,
    record::Record,
};
use tokio::time::Instant;

use crate::{
    Registration, Registry,
    core::{
        fence::Fence,
        input::{Effect, Input, Now, Tell, Turn},
        leader::Leader as Leads,
        log::{Batch, Op},
        member::MemberConfig,
        message::Message,
        name::Name,
        registry::RegistryCore,
        replica::Replica,
        table::{RequestNumber, Row},
        tuning::Tuning,
    },
    tests::driver::{Cluster, counter, until},
};

/// The lease of these nodes: the default.
const LEASE: Duration = Duration::from_secs(10);
/// How much later than that a cluster serves again.
const MORE: Duration = Duration::from_secs(5);

fn keys(cluster: &Cluster) -> RegistryKeys {
    let config = cluster.config("x");
    let cluster = ClusterKeys::new(&ClusterName::new(&config.cluster).unwrap());
    cluster.registry(&RegistryName::new(&config.registry).unwrap())
}

fn lineage(cluster: &Cluster) -> LineageNumber {
    let value = cluster.store.data().get(&keys(cluster).cluster().lineage()).map(<[u8]>::to_vec);
    value.map_or(LineageNumber::default(), |value| Lineage::from_value(&value).unwrap().id.number)
}

fn commit(cluster: &Cluster) -> LogEnd {
    let value = cluster.store.data().get(&keys(cluster).commit()).map(<[u8]>::to_vec);
    LogEnd::from_value(&value.unwrap()).unwrap()
}

/// Makes keys what they were earlier, and leaves all others as they are.
async fn put_back_only(store: &MemoryStore, earlier: &Mvcc, keys: &[Key]) {
    let now = store.read(keys.iter().cloned().map(Read::Key).collect()).await.unwrap();
    let mut transaction = Transaction::new();
    for (nth, key) in keys.iter().enumerate() {
        transaction = match (earlier.get(key), now.value(nth)) {
            (Some(value), _) => transaction.put(key.clone(), value.to_vec()),
            (None, Some(_)) => transaction.clear(key.clone()),
            (None, None) => transaction,
        };
    }
    store.commit(transaction).await;
}

fn serves(registry: &Registry) -> bool {
    let status = registry.status();
    status.synced && status.leader.is_some_and(|leader| leader.serving)
}

/// Waits until all of them serve in a lineage, and says how long that took.
async fn served_again(registries: &[&Registry], number: u64, cluster: &Cluster) -> Duration {
    let begun = Instant::now();
    until("the lineage is raised", || lineage(cluster).0 == number).await;
    until("all serve again", || {
        commit(cluster).position.0 > number << 40 && registries.iter().all(|registry| serves(registry))
    })
    .await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_went_back_costs_all_names_and_nobody_has_to_intervene() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let early = a.register("early", &counter().await).await.unwrap();
    let earlier = cluster.store.data();
    let late = b.register("late", &counter().await).await.unwrap();
    c.wait_for(late.token(), LEASE).await.unwrap();
    cluster.store.put_back(earlier);
    assert!(served_again(&[&a, &b, &c], 1, &cluster).await <= LEASE + MORE);
    assert_eq!((early.check().is_err(), late.check().is_err()), (true, true));
    for registry in [&a, &b, &c] {
        assert_eq!(registry.count().unwrap(), 0, "nobody holds a name");
    }
    let again = c.register("late", &counter().await).await.unwrap();
    assert!(again.token() > late.token() && again.token().0 > 1 << 40, "no token is given twice");
    a.wait_for(again.token(), LEASE).await.unwrap();
    assert!(a.lookup("late").unwrap().is_some());
    // Who comes later, and another registry, do as ever.
    let begun = Instant::now();
    let d = cluster.node("d").await;
    assert!(d.lookup("late").unwrap().is_some());
    let beside = d.join_beside("beside").await.unwrap();
    assert!(beside.ready(LEASE * 2).await.is_ok());
    let there = beside.register("late", &counter().await).await.unwrap();
    assert!(there.token().0 > 1 << 40 && begun.elapsed() <= LEASE * 2);
    // And it stays so: nothing is raised where nothing was lost.
    tokio::time::sleep(LEASE * 6).await;
    assert_eq!(lineage(&cluster).0, 1);
    assert_eq!(again.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_only_the_log_shows_is_noticed_by_whoever_applied_what_is_gone() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    a.register("early", &counter().await).await.unwrap();
    let (earlier, keys) = (cluster.store.data(), keys(&cluster));
    let late = b.register("late", &counter().await).await.unwrap();
    c.wait_for(late.token(), LEASE).await.unwrap();
    // All sessions, and what else there is, survive.
    put_back_only(&cluster.store, &earlier, &[keys.commit(), keys.log(late.token())]).await;
    assert!(served_again(&[&a, &b, &c], 1, &cluster).await <= LEASE + MORE);
    assert!(late.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_grew_back_to_the_same_position_with_another_batch_is_noticed_by_idle_nodes() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let late = b.register("late", &counter().await).await.unwrap();
    c.wait_for(late.token(), LEASE).await.unwrap();
    tokio::time::sleep(LEASE).await;
    let keys = keys(&cluster);
    let end = commit(&cluster);
    let value = cluster.store.data().get(&keys.log(end.position)).map(<[u8]>::to_vec).unwrap();
    let other = Batch { nonce: Nonce(end.nonce.0 ^ 1), ..Batch::decode(&value).unwrap() };
    let transaction = Transaction::new()
        .put(keys.log(end.position), other.encode().to_vec())
        .put(keys.commit(), other.end().to_value());
    cluster.store.commit(transaction).await;
    assert!(served_again(&[&a, &b, &c], 1, &cluster).await <= LEASE + MORE);
}

/// Tries to have the name on each of the registries, for so long, and says on how many tries it was granted while `held` was.
async fn nobody_gets(name: &str, registries: &[&Registry], held: &Registration, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for registry in registries {
            let granted = registry.register(name, &counter().await).await;
            let is_held = held.check();
            if granted.is_ok() {
                assert_ne!(is_held, Ok(()), "{name} was given again while its holder may act");
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} was never given again: {:?}", registries[0].status());
}

#[tokio::test(start_paused = true)]
async fn names_are_not_given_again_while_a_node_that_cannot_reach_the_store_may_still_trust_them() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a").await, cluster.node("b").await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The session of the third node, its row and its name are all lost: only the wait at the join covers it.
    let earlier = cluster.store.data();
    let c = cluster.node("c").await;
    let held = c.register("held", &counter().await).await.unwrap();
    a.wait_for(held.token(), LEASE).await.unwrap();
    b.wait_for(held.token(), LEASE).await.unwrap();
    // It has just beaten when the store goes back, and it is cut off.
    cluster.store.connect("c").outage();
    for other in ["a", "b"] {
        cluster.network.cut(Cluster::address("c"), Cluster::address(other));
    }
    cluster.store.put_back(earlier);
    assert_eq!(held.check(), Ok(()));
    nobody_gets("held", &[&a, &b], &held, LEASE * 4).await;
    assert_eq!(lineage(&cluster).0, 1);
    // When it can reach the store again it begins anew, and takes nothing from the others.
    cluster.store.connect("c").heal();
    for other in ["a", "b"] {
        cluster.network.heal(Cluster::address("c"), Cluster::address(other));
    }
    until("the third knows who has the name now", || {
        c.lookup("held").is_ok_and(|entry| entry.is_some_and(|entry| entry.node.as_str() != "c"))
    })
    .await;
    assert_eq!(lineage(&cluster).0, 1);
    assert_ne!(held.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_second_loss_during_the_first_is_a_loss_of_its_own() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let earlier = cluster.store.data();
    let late = b.register("late", &counter().await).await.unwrap();
    c.wait_for(late.token(), LEASE).await.unwrap();
    cluster.store.put_back(earlier.clone());
    until("the lineage is raised", || lineage(&cluster).0 == 1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.store.put_back(earlier);
    // Nobody gives the same lineage again.
    until("the lineage is raised again", || lineage(&cluster).0 == 2).await;
    served_again(&[&a, &b, &c], 2, &cluster).await;
    let tokens: BTreeSet<Position> =
        [a.register("x", &counter().await).await.unwrap(), b.register("y", &counter().await).await.unwrap()]
            .map(|registration| registration.token())
            .into();
    assert!(tokens.iter().all(|token| token.0 > 2 << 40), "{tokens:?}");
    assert!(late.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn the_leader_of_a_lost_log_commits_nothing_behind_another_one() {
    let cluster = Cluster::new();
    let [a, b, c] = cluster.three().await;
    let earlier = cluster.store.data();
    let late = b.register("late", &counter().await).await.unwrap();
    c.wait_for(late.token(), LEASE).await.unwrap();
    // A batch of the leader's is on its way when the store goes back, and lands late, after the lineage was raised.
    let leader = a.leader().unwrap().node;
    let connection = cluster.store.connect(leader.as_str());
    connection.inject(Fault::Unknown(Fate::LandsLater));
    let asks = tokio::spawn({
        let b = b.clone();
        async move { b.register("later", &counter().await).await.is_ok() }
    });
    until("it is on its way", || cluster.store.abandoned() > 0).await;
    cluster.store.put_back(earlier);
    until("the lineage is raised", || lineage(&cluster).0 == 1).await;
    let landed = cluster.store.land();
    assert!(landed.iter().all(|outcome| *outcome == CommitOutcome::Conflict));
    served_again(&[&a, &b, &c], 1, &cluster).await;
    let _ = asks.await;
    assert_eq!(lineage(&cluster).0, 1);
}

/// What clients hold, and whether two hold the same at once.
#[derive(Default)]
struct Held {
    registrations: Vec<Registration>,
}

impl Held {
    fn two_hold(&self) -> Option<String> {
        let held: Vec<_> = self.registrations.iter().filter(|held| held.check().is_ok()).collect();
        let names: BTreeSet<_> = held.iter().map(|held| held.name()).collect();
        (names.len() < held.len()).then(|| {
            let of = |held: &&Registration| (held.name().to_owned(), held.token());
            format!("{:?}", held.iter().map(of).collect::<Vec<_>>())
        })
    }
}

/// Registers names, and gives some of them up, for ever.
async fn client(registry: Registry, held: Arc<Mutex<Held>>, mut seed: u64) {
    let mut draw = move |below: u64| {
        seed = splitmix(seed);
        seed % below
    };
    loop {
        let name = format!("n{}", draw(4));
        if draw(3) == 0 {
            let _ = registry.unregister(&name).await;
        } else if let Ok(registration) = registry.register(&name, &counter().await).await {
            let mut held = held.lock().unwrap();
            held.registrations.retain(|held| held.check().is_ok());
            held.registrations.push(registration);
        }
        tokio::time::sleep(Duration::from_millis(20 + draw(200))).await;
    }
}

/// The store goes back by so much at a time at which something may be cut off from it.
async fn one_loss(seed: u64) {
    let mut state = seed;
    let mut draw = move |below: u64| {
        state = splitmix(state);
        state % below
    };
    let cluster = Cluster::new();
    let registries = cluster.three().await;
    let held = Arc::new(Mutex::new(Held::default()));
    let clients: Vec<_> = registries
        .iter()
        .enumerate()
        .map(|(nth, registry)| tokio::spawn(client(registry.clone(), held.clone(), seed * 16 + nth as u64)))
        .collect();
    let mut ring = VecDeque::new();
    let tick = Duration::from_millis(10);
    for _ in 0..300 + draw(700) {
        ring.push_back(cluster.store.data());
        if ring.len() > 400 {
            ring.pop_front();
        }
        assert_eq!(held.lock().unwrap().two_hold(), None, "seed {seed}, before the loss");
        tokio::time::sleep(tick).await;
    }
    let cut = (draw(2) == 0).then(|| ["a", "b", "c"][usize::try_from(draw(3)).unwrap()]);
    if let Some(node) = cut {
        cluster.store.connect(node).outage();
    }
    tokio::time::sleep(Duration::from_millis(draw(3000))).await;
    let back = usize::try_from(draw(ring.len() as u64)).unwrap();
    let before = commit(&cluster);
    let earlier = ring.swap_remove_back(back).unwrap();
    cluster.store.put_back(earlier);
    let lost = before != commit(&cluster);
    let begun = Instant::now();
    let (mut raised, mut served) = (None, None);
    while begun.elapsed() < LEASE * 2 + MORE * 2 {
        if raised.is_none() && lineage(&cluster).0 > 0 {
            raised = Some(Instant::now());
        }
        // Only from the end of the wait on nobody holds what was lost.
        if raised.is_none_or(|raised| raised.elapsed() > LEASE) && (raised.is_some() || !lost) {
            assert_eq!(held.lock().unwrap().two_hold(), None, "seed {seed}, after the loss");
        }
        let reached: Vec<_> = registries.iter().filter(|registry| cut != Some(registry.node())).collect();
        let is_open = raised.is_some() && commit(&cluster).position.0 > 1 << 40;
        if served.is_none() && is_open && reached.iter().all(|registry| serves(registry)) {
            served = Some(begun.elapsed());
        }
        tokio::time::sleep(tick).await;
    }
    if lost {
        let most = if cut.is_some() { LEASE * 2 + MORE } else { LEASE + MORE };
        assert!(served.is_some_and(|served| served <= most), "seed {seed}: {served:?}, cut {cut:?}");
    }
    assert!(lineage(&cluster).0 <= 1, "seed {seed}: it was raised once");
    if let Some(node) = cut {
        cluster.store.connect(node).heal();
    }
    until("all serve in the end", || registries.iter().all(serves)).await;
    assert!(lineage(&cluster).0 <= 1, "seed {seed}: who comes late raises nothing");
    for client in clients {
        client.abort();
    }
    assert_eq!(held.lock().unwrap().two_hold(), None);
}

#[tokio::test(start_paused = true)]
async fn whatever_was_lost_one_node_has_a_name_again_a_lease_later() {
    for seed in 1..=4 {
        one_loss(seed).await;
    }
}

/// A member that was told that the node is in lineage 1, and is linked to `b`.
fn in_lineage_1() -> (RegistryCore<BTreeMap<Name, Row>>, LineageId) {
    let keys =
        ClusterKeys::new(&ClusterName::new("test").unwrap()).registry(&RegistryName::new("r").unwrap());
    let config =
        MemberConfig { me: node("a"), incarnation: Incarnation(1), keys, seed: 1, tuning: Tuning::default() };
    let mut member = RegistryCore::of_member(config, BTreeMap::new());
    let lineage = LineageId { number: LineageNumber(1), nonce: Nonce(7) };
    step(
        &mut member,
        Input::LinkUp {
            node: node("b"),
            incarnation: Incarnation(2),
            link: 1,
            permits: callsign_transport::Permits::default(),
        },
    );
    step(&mut member, Input::Lineage(lineage));
    (member, lineage)
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn step(member: &mut RegistryCore<BTreeMap<Name, Row>>, input: Input) -> Vec<Effect> {
    let now = Now { time: Time(Duration::from_secs(100)), trusted: None };
    let mut effects = Vec::new();
    member.step_member(now, input, &mut effects);
    member.step_member(now, Input::Idle, &mut effects);
    effects
}

/// What the elector shows when `b` leads.
fn view(lineage: LineageId, epoch: u64, commit: LogEnd) -> Input {
    let leader = Leader { node: node("b"), incarnation: Incarnation(2), token: Token(1) };
    let term =
        Term { leader: Some(leader), epoch: Epoch(epoch), ballot: Ballot(epoch), elected_at: Version(1) };
    Input::View(Arc::new(View {
        version: Version(epoch),
        lineage,
        term,
        lock: None,
        members: BTreeMap::new(),
        settings: callsign_elector::settings::InForce::default(),
        sessions: Sessions::default(),
        commit: Some(commit),
        floor: Position(1),
        me: None,
        raw: Arc::default(),
        queued: None,
    }))
}

/// The batch that resets, as the leader of this epoch sends it.
fn reset(epoch: u64, prev: LogEnd, position: u64) -> Input {
    let batch = Batch {
        epoch: Epoch(epoch),
        nonce: Nonce(9),
        position: Position(position),
        prev,
        sessions: Vec::new(),
        ops: vec![Op::Reset, Op::Open],
    };
    let message = Message::Replicate { epoch: batch.epoch, position: batch.position, batch: batch.encode() };
    Input::Message { from: node("b"), message }
}

#[test]
fn in_another_lineage_a_member_takes_nothing_that_the_former_one_says() {
    let (mut member, lineage) = in_lineage_1();
    let (old_end, first) = (LogEnd { position: Position(1), nonce: Nonce(9) }, (1 << 40) + 1);
    step(&mut member, view(lineage, 5, old_end));
    step(&mut member, reset(5, LogEnd::default(), 1));
    assert!(!member.member().replica().is_based(), "a batch of the lost log that is late");
    step(&mut member, view(LineageId { nonce: Nonce(8), ..lineage }, 6, old_end));
    assert_eq!(member.member().view().term.epoch, Epoch(5), "nor what was read of another store");
    step(&mut member, view(lineage, first, old_end));
    step(&mut member, reset(first, old_end, first));
    assert_eq!(
        (member.member().replica().is_based(), member.member().replica().position()),
        (true, Position(first))
    );
}

#[test]
fn what_was_applied_is_told_again_to_an_elector_that_begins_anew() {
    let (mut member, lineage) = in_lineage_1();
    let first = (1 << 40) + 1;
    let told = |effects: Vec<Effect>| -> Vec<Position> {
        let position = |effect: Effect| match effect {
            Effect::Tell(Tell::Applied(end)) => Some(end.position),
            _ => None,
        };
        effects.into_iter().filter_map(position).collect()
    };
    let old_end = LogEnd { position: Position(1), nonce: Nonce(9) };
    for again in [false, true] {
        // Its elector has forgotten everything, and begins in the same lineage.
        step(&mut member, Input::Lineage(lineage));
        step(&mut member, view(lineage, first, old_end));
        let effects = step(&mut member, reset(first, old_end, first));
        assert_eq!(told(effects), [Position(first)], "{again}");
    }
}

#[test]
fn nothing_of_a_store_that_went_back_is_left_in_a_table_that_begins_anew() {
    let mut replica = Replica::new(node("b"), BTreeMap::new());
    replica.base_on_nothing();
    let session = SessionId { node: node("a"), incarnation: Incarnation(1), number: SessionNumber(1) };
    let op = Op::Register {
        name: "lost".into(),
        session: 0,
        request: RequestNumber(1),
        actor: Some(1),
        kind: callsign_transport::Kind(7),
        meta: None,
    };
    let batch = Batch {
        epoch: Epoch(1),
        nonce: Nonce(1),
        position: Position(1),
        prev: LogEnd::default(),
        sessions: vec![Arc::new(session)],
        ops: vec![op],
    };
    replica.offer(Epoch(1), Position(1), &batch.encode()).unwrap();
    assert_eq!(replica.count(), 1);
    replica.forget();
    replica.base_on_nothing();
    assert_eq!((replica.count(), replica.sessions().len()), (0, 0));
}

#[test]
fn a_batch_is_committed_only_in_the_lineage_that_its_leader_knows() {
    let keys =
        ClusterKeys::new(&ClusterName::new("test").unwrap()).registry(&RegistryName::new("r").unwrap());
    let of = |number| Lineage {
        id: LineageId { number: LineageNumber(number), nonce: Nonce(7) },
        greatest_lease: LEASE,
    };
    let term = Term { epoch: Epoch(1), ..Term::vacant() }.to_value();
    for (there, is_committed) in [(of(1), true), (of(2), false)] {
        let fence = Fence { term: term.clone(), commit: None, lineage: Some(of(1).to_value()) };
        let (mut effects, at) = (Vec::new(), (LineageNumber(1), Epoch(1)));
        let mut leader = Leads::new(node("a"), keys.clone(), at, fence, 1, Tuning::default());
        let replica = Replica::new(node("a"), BTreeMap::<Name, Row>::new());
        let mut next_op = 0;
        let turn = &mut Turn::new(Time::ZERO, &keys, &mut next_op, &mut effects);
        leader.open(turn, &replica, true, Vec::new());
        let Some(Effect::Commit { transaction, .. }) = effects.pop() else { panic!("{effects:?}") };
        let mut store = Mvcc::new(Limits::FOUNDATIONDB, 10);
        let elected =
            Transaction::new().put(keys.term(), term.clone()).put(keys.cluster().lineage(), there.to_value());
        assert!(matches!(store.apply(&elected), CommitOutcome::Committed(_)));
        assert_eq!(matches!(store.apply(&transaction), CommitOutcome::Committed(_)), is_committed);
        assert_eq!(store.get(&keys.log(Position((1 << 40) + 1))).is_some(), is_committed);
    }
}
