//! Groups, semaphores and locks, over the drivers.

use std::{collections::BTreeSet, time::Duration};

use callsign_transport::P;
use ractor::{ActorRef, call_t};

use crate::{
    AcquireError, BadName, BroadcastError, Entry, Group, GroupError, GroupSize, LookupError, Meta, NotHeld,
    RegisterError, RegisterOptions, Registry, Select, Strategy, UnregisterError, WhereisError,
    tests::driver::{Cluster, Counter, Other, TEST_DEADLINE, counter, until},
};

const ROOM: &str = "room/7";

fn group(node: &Registry) -> Group<Counter> {
    node.group(ROOM)
}

/// Where the members are, in their order, as a node has it.
fn members(node: &Registry) -> Vec<(String, Option<u64>)> {
    let entry = |entry: Entry| (entry.node().as_str().to_owned(), entry.actor());
    group(node).members().unwrap().into_iter().map(entry).collect()
}

fn pid(actor: &ActorRef<Counter>) -> u64 {
    actor.get_id().pid()
}

async fn count(actor: &ActorRef<Counter>) -> i64 {
    call_t!(actor, Counter::Get, 5000).unwrap().0
}

/// Two members on a, one on b, none on c. All nodes know.
async fn room(nodes: &[Registry; 3]) -> [ActorRef<Counter>; 3] {
    let actors = [counter().await, counter().await, counter().await];
    for (node, actor) in [(0, 0), (0, 1), (1, 2)] {
        group(&nodes[node]).join(&actors[actor], None).await.unwrap();
    }
    for node in nodes {
        until("all are members", || members(node).len() == 3).await;
    }
    actors
}

#[tokio::test(start_paused = true)]
async fn members_are_the_same_in_the_same_order_everywhere_until_they_leave_or_end() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let [a, b, c] = &nodes;
    let actors = [counter().await, counter().await, counter().await];
    let meta = Meta::new("moderator").unwrap();
    let first = group(a).join(&actors[0], Some(meta)).await.unwrap();
    assert_eq!((first.group(), first.check()), (ROOM, Ok(())));
    // After your own join returns, your own read has it.
    assert_eq!(members(a), [("a".to_owned(), Some(pid(&actors[0])))]);
    let second = group(b).join(&actors[1], None).await.unwrap();
    let third = group(a).join(&actors[2], None).await.unwrap();
    assert!(first.token() < second.token() && second.token() < third.token());
    assert_eq!(group(a).join(&actors[2], None).await.unwrap().token(), third.token(), "the same again");
    let all = [("a", 0), ("b", 1), ("a", 2)].map(|(node, n)| (node.to_owned(), Some(pid(&actors[n]))));
    for node in &nodes {
        until("all are members", || members(node) == all).await;
        let found = group(node).members().unwrap();
        assert_eq!(found[0].meta::<String>(), Ok(Some("moderator".to_owned())));
        assert_eq!(found[1].meta::<String>(), Ok(None));
        assert_eq!(group(node).count(), Ok(3));
    }
    // A name is no group, and a membership is no name.
    assert_eq!((c.lookup(ROOM), c.names(), c.count()), (Ok(None), Ok(vec![]), Ok(3)));
    assert_eq!(c.select(&Select::all()).unwrap().names, []);
    assert_eq!(a.group::<Counter>("room/8").members(), Ok(vec![]));
    let forged = a.unregister("\0groom/7").await;
    assert_eq!(forged, Err(UnregisterError::BadName(BadName::Reserved)));

    let at = group(a).leave(&first).await.unwrap();
    assert_eq!(first.check(), Err(NotHeld::Ended));
    c.wait_for(at, TEST_DEADLINE).await.unwrap();
    assert_eq!(members(c), all[1..]);
    // It comes back behind the others. What it left before it does not leave again.
    let back = group(a).join(&actors[0], None).await.unwrap();
    assert!(matches!(group(a).leave(&first).await, Err(UnregisterError::NotHeldHere { .. })));
    assert_eq!(back.check(), Ok(()));
    actors[1].stop(None);
    let left = [("a", 2), ("a", 0)].map(|(node, n)| (node.to_owned(), Some(pid(&actors[n]))));
    for node in &nodes {
        until("the ended one is a member no more", || members(node) == left).await;
    }
    a.leave().await.unwrap();
    until("nobody is left", || members(c).is_empty()).await;
    assert_eq!(c.count(), Ok(0));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_join_is_told_so() {
    let cluster = Cluster::new();
    let [a, b, _c] = cluster.three().await;
    let actor = counter().await;
    let refused = a.group("").join(&actor, None).await.unwrap_err();
    assert_eq!(refused, RegisterError::BadName(BadName::Empty));
    assert_eq!(a.group::<Counter>("\0x").members(), Err(LookupError::BadName(BadName::Reserved)));
    let token = a.register("x", &actor).await.unwrap().token();
    b.wait_for(token, TEST_DEADLINE).await.unwrap();
    let remote: ActorRef<Counter> = b.whereis("x").unwrap();
    assert!(matches!(group(&b).join(&remote, None).await, Err(RegisterError::NotLocal { .. })));
    actor.stop(None);
    actor.wait(None).await.unwrap();
    assert_eq!(group(&a).join(&actor, None).await.unwrap_err(), RegisterError::ActorEnded);
    a.drain().await;
    let refused = group(&a).join(&counter().await, None).await;
    assert!(matches!(refused, Err(RegisterError::Draining { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_comes_to_every_member_once() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let actors = room(&nodes).await;
    // In another group, and in none.
    let other = counter().await;
    nodes[1].group("room/8").join(&other, None).await.unwrap();
    for (from, node) in nodes.iter().enumerate() {
        let done = group(node).broadcast(Counter::Add(P(1))).unwrap();
        assert_eq!((done.sent, done.unreached), (3, vec![]), "from {from}");
    }
    for actor in &actors {
        let mut counted = 0;
        for _ in 0..600 {
            counted = count(actor).await;
            if counted == 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(counted, 3);
    }
    assert_eq!(count(&other).await, 0);
    // Nobody takes it, and nobody minds.
    assert_eq!(
        nodes[0].group::<Other>(ROOM).broadcast(Other::Nothing).unwrap().sent,
        1,
        "those of b are not known"
    );
    let (reply, _answer) = ractor::concurrency::oneshot();
    let call = group(&nodes[0]).broadcast(Counter::Get(reply.into()));
    assert_eq!(call, Err(GroupError::NotSent(BroadcastError::IsCall)));
    nodes[1].leave().await.unwrap();
    until("those of b are members no more", || members(&nodes[2]).len() == 2).await;
    assert_eq!(group(&nodes[2]).broadcast(Counter::Add(P(1))).unwrap().sent, 2);
}

#[tokio::test(start_paused = true)]
async fn a_member_is_picked_by_where_it_is_in_turn_or_by_a_key() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let nobody = group(&nodes[0]).pick(Strategy::RoundRobin);
    assert!(matches!(nobody, Err(WhereisError::NotFound { name }) if name == ROOM));
    let actors = room(&nodes).await;
    let picked = |node: &Registry, strategy: Strategy<'static>, times: usize| -> Vec<u64> {
        let group = group(node);
        (0..times).map(|_| pid(&group.pick(strategy).unwrap())).collect()
    };
    let [x, y, z] = actors.each_ref().map(pid);
    assert_eq!(picked(&nodes[2], Strategy::RoundRobin, 4), [x, y, z, x]);
    assert_eq!(picked(&nodes[0], Strategy::LocalFirst, 3), [x, y, x]);
    assert_eq!(picked(&nodes[1], Strategy::LocalFirst, 2), [z, z]);
    assert_eq!(picked(&nodes[2], Strategy::LocalFirst, 3), [x, y, z]);
    let local: Vec<u64> = group(&nodes[0]).local().unwrap().iter().map(pid).collect();
    assert_eq!((local, group(&nodes[2]).local().unwrap().len()), (vec![x, y], 0));
    // A key has one member on all nodes; keys are spread; who leaves takes no other's keys along.
    let of = |node: &Registry, n: usize| {
        let key = format!("user/{n}");
        pid(&group(node).pick(Strategy::Key(&key)).unwrap())
    };
    let before: Vec<u64> = (0..100).map(|n| of(&nodes[0], n)).collect();
    for node in &nodes {
        assert_eq!((0..100).map(|n| of(node, n)).collect::<Vec<_>>(), before);
    }
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
    actors[1].stop(None);
    until("it is a member no more", || members(&nodes[2]).len() == 2).await;
    for (n, owner) in before.iter().enumerate() {
        let now = of(&nodes[2], n);
        assert!(if *owner == y { now != y } else { now == *owner }, "key {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_cannot_be_reached_are_passed_over_and_the_first_is_named_where_none_can() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let leads = nodes.iter().position(|node| node.status().leads).unwrap();
    let [leader, holder, picker] = [0, 1, 2].map(|n| &nodes[(leads + n) % 3]);
    let actors = [counter().await, counter().await];
    for actor in &actors {
        group(holder).join(actor, None).await.unwrap();
    }
    until("both are known", || group(picker).count() == Ok(2)).await;
    cluster.network.cut(Cluster::address(holder.node()), Cluster::address(picker.node()));
    let is_linked =
        || picker.members().iter().any(|member| member.node.as_str() == holder.node() && member.linked);
    until("the link is down", || !is_linked()).await;
    let picked = group(picker).pick(Strategy::RoundRobin);
    let Err(WhereisError::Unreachable { name, entry, .. }) = picked else { panic!("{picked:?}") };
    assert_eq!((name.as_str(), entry.actor()), (ROOM, Some(pid(&actors[0]))));

    let near = counter().await;
    group(leader).join(&near, None).await.unwrap();
    until("all are known", || group(picker).count() == Ok(3)).await;
    let room = group(picker);
    for _ in 0..3 {
        assert_eq!(pid(&room.pick(Strategy::RoundRobin).unwrap()), pid(&near));
    }
}

/// A program that is not asynchronous waits for a lock in a runtime of its own, which rests while it does its work.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_given_up_though_the_runtime_in_which_it_was_acquired_rests() {
    let node = Cluster::new().node("a").await;
    let lock = node.lock("migrate");
    let bridge = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        drop(runtime.block_on(lock.acquire()).unwrap());
        runtime
    });
    let rests = bridge.await.unwrap();
    let next = node.lock("migrate").acquire_within(TEST_DEADLINE).await;
    assert_eq!(next.map(|guard| guard.check()), Ok(Ok(())));
    rests.shutdown_background();
}

#[tokio::test(start_paused = true)]
async fn a_lock_goes_from_one_to_the_next_in_the_order_in_which_they_asked() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let first = nodes[0].lock("migrate").acquire().await.unwrap();
    assert_eq!((first.name(), first.check()), ("migrate", Ok(())));
    let mut waiting = Vec::new();
    for n in 0..6 {
        let lock = nodes[n % 3].lock("migrate");
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
        // The next one asks when this one has its place.
        until("it has its place", || nodes[0].count() == Ok(n + 2)).await;
    }
    assert!(waiting.iter().all(|task| !task.is_finished()));
    let (mut token, mut held) = (first.token(), first);
    for (n, next) in waiting.into_iter().enumerate() {
        // Given up by a word, or without one.
        if n % 2 == 0 {
            _ = held.release().await.unwrap();
        } else {
            drop(held);
        }
        let guard = tokio::time::timeout(TEST_DEADLINE, next).await.unwrap().unwrap();
        assert_eq!(guard.check(), Ok(()));
        assert!(guard.token() > token, "tokens grow from holder to holder");
        (token, held) = (guard.token(), guard);
    }
    drop(held);
    until("nobody is in it", || nodes[1].count() == Ok(0)).await;
}

#[tokio::test(start_paused = true)]
async fn as_many_hold_a_semaphore_as_its_limit_says_and_another_limit_is_refused() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let one = nodes[0].semaphore("gpu", 2).acquire().await.unwrap();
    let two = nodes[1].semaphore("gpu", 2).acquire().await.unwrap();
    let (before, wait) = (tokio::time::Instant::now(), Duration::from_secs(3));
    let late = nodes[2].semaphore("gpu", 2).acquire_within(wait).await.unwrap_err();
    assert_eq!((late, before.elapsed()), (AcquireError::TimedOut { waited: wait }, wait));
    let unnamed = nodes[2].lock("").acquire().await.unwrap_err();
    assert_eq!(unnamed, AcquireError::Register(RegisterError::BadName(BadName::Empty)));
    until("its place is given up", || nodes[0].count() == Ok(2)).await;
    let refused = nodes[2].semaphore("gpu", 3).acquire().await.unwrap_err();
    assert_eq!(refused, AcquireError::Register(RegisterError::OtherLimit { limit: 2 }));
    assert_eq!(nodes[2].semaphore("gpu", 0).acquire().await.unwrap_err(), AcquireError::NoPlaces);
    // Names, groups, semaphores and locks do not know of each other.
    nodes[0].register("gpu", &counter().await).await.unwrap();
    nodes[0].group("gpu").join(&counter().await, None).await.unwrap();
    assert!(nodes[2].lock("gpu2").acquire().await.is_ok());
    drop((one, two));
    until("nobody is in it", || nodes[2].count() == Ok(2)).await;
    assert!(nodes[2].semaphore("gpu", 3).acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn whoever_looks_is_given_each_group_with_its_size() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    assert_eq!(nodes[0].groups("", 9), Ok(Vec::new()));
    nodes[0].register("gpu", &counter().await).await.unwrap();
    for node in &nodes {
        node.group("gpu").join(&counter().await, None).await.unwrap();
    }
    nodes[1].group("a/2").join(&counter().await, None).await.unwrap();
    let _holds = nodes[1].semaphore("gpu", 2).acquire().await.unwrap();
    let _locks = nodes[2].lock("migrate").acquire().await.unwrap();
    until("all is known", || nodes[0].count() == Ok(7)).await;
    let size = |name: &str, limit, members| GroupSize { name: name.into(), limit, members };
    let all =
        [size("a/2", None, 1), size("gpu", None, 3), size("gpu", Some(2), 1), size("migrate", Some(1), 1)];
    assert_eq!(nodes[0].groups("", 9), Ok(all.to_vec()));
    assert_eq!(nodes[0].groups("", 2), Ok(all[..2].to_vec()));
    assert_eq!(nodes[0].groups("g", 9), Ok(all[1..3].to_vec()));
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_stands_before_nobody_whenever_that_is() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    for waits in [0, 1, 2, 5, 20, 100, 700] {
        let lock = nodes[1].lock("x");
        let asked = tokio::spawn(async move { lock.acquire().await });
        tokio::time::sleep(Duration::from_millis(waits)).await;
        // It may hold by now, and then drops its guard.
        asked.abort();
        drop(asked.await);
        until("nobody is in it", || nodes.iter().all(|node| node.count() == Ok(0))).await;
        let guard = nodes[2].lock("x").acquire_within(TEST_DEADLINE).await.unwrap();
        drop(guard);
        until("nobody is in it", || nodes.iter().all(|node| node.count() == Ok(0))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_the_next_ones_when_its_node_is_gone_and_stays_through_a_lapse_that_is_over() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let held = nodes[0].lock("x").acquire().await.unwrap();
    cluster.store.outage_for_all();
    until("the session lapses", || held.check() == Err(NotHeld::NotTrusted)).await;
    cluster.store.heal_all();
    until("it is held again, or lost", || held.check() != Err(NotHeld::NotTrusted)).await;
    assert_eq!(held.check(), Ok(()));
    let lock = nodes[1].lock("x");
    let next = tokio::spawn(async move { lock.acquire().await.unwrap() });
    until("it waits", || nodes[0].count() == Ok(2)).await;
    nodes[0].leave().await.unwrap();
    let next = tokio::time::timeout(TEST_DEADLINE, next).await.unwrap().unwrap();
    assert_eq!((held.check(), next.check()), (Err(NotHeld::Ended), Ok(())));
    assert!(next.token() > held.token());
    // Nobody waits for ever on a node that leaves.
    let lock = nodes[2].lock("x");
    let last = tokio::spawn(async move { lock.acquire().await });
    until("it waits", || nodes[1].count() == Ok(2)).await;
    nodes[2].leave().await.unwrap();
    let last = tokio::time::timeout(TEST_DEADLINE, last).await.unwrap().unwrap();
    assert_eq!(last.unwrap_err(), AcquireError::Lost);
}

#[tokio::test(start_paused = true)]
async fn members_that_are_told_of_a_lapse_stay() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (stopped, told) = (counter().await, counter().await);
    group(&node).join(&stopped, None).await.unwrap();
    let stays = group(&node).join_with(&told, RegisterOptions::default().tell(|_| ())).await.unwrap();
    cluster.store.outage_for_all();
    until("the session lapses", || group(&node).members().is_err()).await;
    assert!(matches!(group(&node).broadcast(Counter::Add(P(1))), Err(GroupError::Lookup(_))));
    cluster.store.heal_all();
    until("one is left", || group(&node).members().is_ok_and(|members| members.len() == 1)).await;
    assert_eq!((members(&node), stays.check()), (vec![("a".to_owned(), Some(pid(&told)))], Ok(())));
}
