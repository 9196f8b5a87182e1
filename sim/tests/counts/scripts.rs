//! The scripts: what is done to a cluster while it is counted. Whatever changes names waits until all nodes know of it.

use std::time::Duration;

use callsign::{Registry, Select, Watch, WatchEvent};
use callsign_sim::histories::acting::Act;
use futures::future::{join, join_all};
use ractor::ActorRef;
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, DEADLINE, Leader, actor, counted, counted_with, eventually},
    counts::Tally,
    table::Costs,
};

/// What a commit takes where many are to be under way at once.
const COMMIT: Duration = Duration::from_millis(1);
/// What a script does that says nothing else.
const MANY: usize = 1000;

/// Runs all scripts, each in a cluster of its own.
pub(crate) fn all() -> Costs {
    let on_leader: fn(&Cluster) -> &Registry = |cluster| &cluster.a;
    let on_other: fn(&Cluster) -> &Registry = |cluster| &cluster.b;
    [
        ("1 minute in which nothing happens", idle()),
        ("1 minute with 10 registrations a second on the leader", minute(on_leader)),
        ("1 minute with 10 registrations a second on another node", minute(on_other)),
        ("100 registrations one after another on the leader", one_by_one(on_leader)),
        ("100 registrations one after another on another node", one_by_one(on_other)),
        ("100 consistent lookups one after another", consistent(false)),
        ("100 consistent lookups at once", consistent(true)),
        ("1000 registrations at once on each of two nodes", at_once()),
        ("1000 registrations at once where one watches", watched()),
        ("1000 names given up at once on each of two nodes", given_up()),
        ("1000 names of an actor that ends", ended()),
        ("1000 lookups", lookups()),
        ("1000 references by name to an actor of another node", references()),
        ("1000 actors join a group at once", group()),
        ("1 broadcast to 1000 actors on each of two nodes", broadcast()),
        ("10000 names when a node joins", joined()),
        // Last: the more actors there were in this process, the longer are their numbers.
        ("1 minute in which nothing happens on 9 nodes: the leader, an observer, one that rests", idle_of(9)),
        (
            "1 minute in which nothing happens on 17 nodes: the leader, an observer, one that rests",
            idle_of(17),
        ),
        ("1 node joins 3: the leader, an observer, the last, the new one", join_of(3)),
        ("1 node joins 9: the leader, an observer, one that rests, the new one", join_of(9)),
        ("1 node joins 17: the leader, an observer, one that rests, the new one", join_of(17)),
        ("1 leader of 3 nodes dies: an observer, the last", failover_of(3)),
        ("1 leader of 9 nodes dies: an observer, one that rests", failover_of(9)),
        ("1 leader of 17 nodes dies: an observer, one that rests", failover_of(17)),
    ]
    .map(|(script, tally)| (script.to_owned(), tally))
    .into()
}

/// So many names that no other node takes.
fn names(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of}/{number:08}")).collect()
}

/// Registers all of them for one actor, at once.
async fn register(node: &Registry, names: &[String], actor: &ActorRef<Act>) {
    let calls = names.iter().map(|name| node.register(name, actor));
    for granted in join_all(calls).await {
        granted.unwrap();
    }
}

fn idle() -> Tally {
    counted(async |_| (), async |_, ()| a_minute().await)
}

/// What happens in this time is what is counted. The clock is that of the script, and a minute takes no time.
async fn a_minute() {
    sleep(Duration::from_secs(60)).await;
}

/// The nodes of a cluster of so many, beside `a`, `b` and `c`.
fn others(nodes: usize) -> &'static [&'static str] {
    &["d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"][..nodes - 3]
}

/// The one of so many nodes that joined last. It rests, if there are more than the leader and three observers.
fn last(nodes: usize) -> &'static str {
    others(nodes).last().copied().unwrap_or("c")
}

/// They join, and are kept for as long as what this returns.
async fn join_all_of(cluster: &Cluster, nodes: usize) -> Vec<Registry> {
    let mut others = Vec::new();
    for name in self::others(nodes) {
        others.push(cluster.join(name).await);
    }
    others
}

/// What these nodes did.
fn by(nodes: &[&str], all: Tally) -> Tally {
    let shown: Vec<_> = nodes.iter().map(|node| format!(" by {node}")).collect();
    all.into_iter().filter(|(what, _)| shown.iter().any(|by| what.ends_with(by))).collect()
}

/// The first one leads, and names those that come next as observers. What the last one asks of the store does not depend on their number.
fn idle_of(nodes: usize) -> Tally {
    // It keeps them until the minute is over.
    let prepare = async |cluster: &Cluster| join_all_of(cluster, nodes).await;
    let all = counted(prepare, async |_, _others| a_minute().await);
    by(&["a", "b", last(nodes)], all)
}

/// Another node joins so many, until all know that it has all names.
fn join_of(nodes: usize) -> Tally {
    let prepare = async |cluster: &Cluster| join_all_of(cluster, nodes).await;
    let all = counted(prepare, async |cluster, others| {
        let new = cluster.join("z").await;
        let all: Vec<_> = cluster.nodes().into_iter().chain(&others).chain([&new]).collect();
        Cluster::settled_among(&all).await;
    });
    by(&["a", "b", last(nodes), "z"], all)
}

/// The leader of so many nodes dies, until a name is granted by the next one, and all know who is left.
fn failover_of(nodes: usize) -> Tally {
    let prepare = async |cluster: &Cluster| (join_all_of(cluster, nodes).await, actor().await);
    let all = counted_with(Leader::MayDie, prepare, async |cluster, (others, actor)| {
        cluster.kill_the_leader();
        eventually("the next leader grants", async || cluster.b.register("after", &actor).await.is_ok())
            .await;
        let left: Vec<_> = [&cluster.b, &cluster.c].into_iter().chain(&others).collect();
        Cluster::settled_among(&left).await;
    });
    by(&["b", last(nodes)], all)
}

fn minute(on: fn(&Cluster) -> &Registry) -> Tally {
    let prepare = async |_: &Cluster| (names("n", 600), actor().await);
    counted(prepare, async |cluster, (names, actor)| {
        for name in names {
            on(cluster).register(&name, &actor).await.unwrap();
            sleep(Duration::from_millis(100)).await;
        }
    })
}

fn one_by_one(on: fn(&Cluster) -> &Registry) -> Tally {
    let prepare = async |_: &Cluster| (names("n", 100), actor().await);
    counted(prepare, async |cluster, (names, actor)| {
        for name in &names {
            let token = on(cluster).register(name, &actor).await.unwrap().token();
            cluster.settled(token).await;
        }
    })
}

fn consistent(at_once: bool) -> Tally {
    let prepare = async |cluster: &Cluster| {
        register(&cluster.b, &names("n", 1), &actor().await).await;
    };
    counted(prepare, async |cluster, ()| {
        let call = || cluster.c.lookup_consistent("n/00000000", DEADLINE);
        if at_once {
            for found in join_all((0..100).map(|_| call())).await {
                assert!(found.unwrap().is_some());
            }
        } else {
            for _ in 0..100 {
                assert!(call().await.unwrap().is_some());
            }
        }
    })
}

/// The names of two nodes, and an actor of each.
async fn two(cluster: &Cluster) -> [(Registry, Vec<String>, ActorRef<Act>); 2] {
    let (b, c) = (cluster.b.clone(), cluster.c.clone());
    [(b, names("b", MANY), actor().await), (c, names("c", MANY), actor().await)]
}

async fn register_both([(b, bs, of_b), (c, cs, of_c)]: &[(Registry, Vec<String>, ActorRef<Act>); 2]) {
    join(register(b, bs, of_b), register(c, cs, of_c)).await;
}

fn at_once() -> Tally {
    counted(two, async |cluster, both| {
        cluster.slow_store(COMMIT);
        register_both(&both).await;
        cluster.settled_with(2 * MANY).await;
    })
}

fn given_up() -> Tally {
    let prepare = async |cluster: &Cluster| {
        let both = two(cluster).await;
        register_both(&both).await;
        both
    };
    counted(prepare, async |cluster, both| {
        cluster.slow_store(COMMIT);
        let calls = both.iter().flat_map(|(node, names, _)| names.iter().map(|name| node.unregister(name)));
        for freed in join_all(calls).await {
            freed.unwrap();
        }
        cluster.settled_with(0).await;
    })
}

fn ended() -> Tally {
    let prepare = async |cluster: &Cluster| {
        let actor = actor().await;
        register(&cluster.b, &names("n", MANY), &actor).await;
        actor
    };
    counted(prepare, async |cluster, actor| {
        cluster.slow_store(COMMIT);
        actor.stop(None);
        cluster.settled_with(0).await;
    })
}

/// Reads changes until there were so many.
async fn changes(watch: &mut Watch, count: usize) {
    let mut seen = 0;
    while seen < count {
        if let WatchEvent::Change(_) = watch.next().await.unwrap() {
            seen += 1;
        }
    }
}

fn watched() -> Tally {
    let prepare = async |cluster: &Cluster| {
        let watch = cluster.c.watch(Select::all()).unwrap();
        (watch, names("n", MANY), actor().await)
    };
    counted(prepare, async |cluster, (mut watch, names, actor)| {
        cluster.slow_store(COMMIT);
        join(register(&cluster.b, &names, &actor), changes(&mut watch, MANY)).await;
        cluster.settled_with(MANY).await;
    })
}

/// So many names of another node, which all nodes know.
async fn known(cluster: &Cluster) -> Vec<String> {
    let names = names("n", MANY);
    register(&cluster.b, &names, &actor().await).await;
    cluster.settled_with(MANY).await;
    names
}

fn lookups() -> Tally {
    counted(known, async |cluster, names| {
        for name in names {
            assert!(cluster.c.lookup(&name).unwrap().is_some());
        }
    })
}

fn references() -> Tally {
    counted(known, async |cluster, names| {
        for name in names {
            let _: ActorRef<Act> = cluster.c.whereis(&name).unwrap();
        }
        cluster.settled_with(MANY).await;
    })
}

/// Has so many actors of a node join a group.
async fn join_group(node: &Registry, actors: &[ActorRef<Act>]) {
    let group = node.group::<Act>("all");
    for joined in join_all(actors.iter().map(|actor| group.join(actor, None))).await {
        joined.unwrap();
    }
}

fn group() -> Tally {
    let prepare = async |_: &Cluster| join_all((0..MANY).map(|_| actor())).await;
    counted(prepare, async |cluster, actors| {
        cluster.slow_store(COMMIT);
        join_group(&cluster.b, &actors).await;
        cluster.settled_with(MANY).await;
    })
}

fn broadcast() -> Tally {
    let prepare = async |cluster: &Cluster| {
        for node in [&cluster.b, &cluster.c] {
            let actors = join_all((0..MANY).map(|_| actor())).await;
            join_group(node, &actors).await;
        }
        cluster.settled_with(2 * MANY).await;
    };
    counted(prepare, async |cluster, ()| {
        cluster.a.group::<Act>("all").broadcast(Act::Now).unwrap();
        cluster.settled_with(2 * MANY).await;
    })
}

fn joined() -> Tally {
    let prepare = async |cluster: &Cluster| {
        let actor = actor().await;
        // In so many batches that the log does not go back to the first.
        for names in names("n", 10 * MANY).chunks(20) {
            register(&cluster.b, names, &actor).await;
        }
    };
    counted(prepare, async |cluster, ()| {
        let node = cluster.join("d").await;
        assert_eq!(node.count().unwrap(), 10 * MANY);
        cluster.settled_with(10 * MANY).await;
    })
}
