//! Nodes that are there and of no use: cut off from their peers, from the store, or from some of each. Within what time
//! names are granted again, and that nobody loses one.
//!
//! The bounds are those of the default settings: a leader that is not heard for 2 s is called silent, and its successor is
//! in its seat a second later; a leader that hears everybody and cannot write keeps its seat as long as its session.

use std::time::{Duration, Instant};

use callsign::{Config, ConsistentError, NotLive, Registry};
use callsign_tests::{Cluster, Load, Sampler, StartOptions, TEST_DEADLINE, TestStore, eventually};

const LEASE: Duration = Duration::from_secs(10);
/// Within it names are granted again, where a majority of the other members does not hear the leader.
const SILENT: Duration = Duration::from_secs(5);
/// Within it they are, where everybody hears a leader that cannot write: its session has to be closed.
const CLOSED: Duration = Duration::from_secs(20);
/// Under load, on `count` nodes whose links can be cut.
fn busy(options: StartOptions, place: Option<TestStore>, count: usize) -> (Cluster, Load, Sampler) {
    let names = &["a", "b", "c", "d", "e"][..count];
    let cluster = match place {
        Some(place) => Cluster::start_over(place, options, names),
        None => Cluster::start(options, names),
    };
    let (load, sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    (cluster, load, sampler)
}

/// Each of these nodes is granted a name within the bound, counted from now.
fn are_granted_names(cluster: &Cluster, nodes: &[String], within: Duration) {
    let since = Instant::now();
    for node in nodes {
        let name = format!("after-{node}-{}", cluster.store.term().epoch.0);
        let left = within.saturating_sub(since.elapsed());
        eventually(&format!("{node} is granted a name again"), left, || {
            cluster.node(node).client.register(&name).result()
        });
    }
    println!("{nodes:?} were granted names again within {:?}", since.elapsed());
}

/// A node without a leader in reach is granted nothing, and told so.
fn is_granted_none(cluster: &Cluster, node: &str) {
    let refused = cluster.node(node).client.register(&alone(node));
    assert!(["no_leader", "unknown"].contains(&refused.code()), "{refused:?}");
}

fn alone(node: &str) -> String {
    format!("alone-{node}")
}

/// All is as before: every node serves, and nothing that was acknowledged is lost.
fn heals(cluster: Cluster, load: Load) {
    cluster.links().heal_all();
    cluster.wait_until_ready();
    // What was unknown may be held by now: whoever asks again finds out.
    for node in cluster.names() {
        cluster.register(&node, &alone(&node));
    }
    are_granted_names(&cluster, &cluster.names(), TEST_DEADLINE);
    load.finish();
    cluster.check_but(&cluster.with_lost_sessions());
    cluster.check_recordings();
}

fn linked() -> StartOptions {
    StartOptions::lease(LEASE).linked()
}

#[test]
fn a_leader_that_reaches_the_store_and_none_of_its_peers_is_replaced() {
    let (cluster, load, _sampler) = busy(linked(), None, 3);
    let leader = cluster.leader();
    cluster.links().isolate(&leader);
    are_granted_names(&cluster, &cluster.others(&[&leader]), SILENT);
    assert_ne!(cluster.leader(), leader);
    // It beats, so nobody takes its names.
    is_granted_none(&cluster, &leader);
    cluster.no_session_was_lost();
    heals(cluster, load);
}

#[test]
fn a_leader_that_hears_its_peers_and_is_not_heard_is_replaced() {
    let (cluster, load, _sampler) = busy(linked(), None, 3);
    let leader = cluster.leader();
    let others = cluster.others(&[&leader]);
    for other in &others {
        cluster.links().cut_way(&leader, other);
    }
    are_granted_names(&cluster, &others, SILENT);
    cluster.no_session_was_lost();
    heals(cluster, load);
}

#[test]
fn a_follower_that_reaches_the_store_and_none_of_its_peers_holds_nobody_up() {
    let (cluster, load, _sampler) = busy(linked(), None, 3);
    let (leader, epoch) = (cluster.leader(), cluster.store.term().epoch);
    let cut_off = cluster.others(&[&leader]).remove(0);
    cluster.links().isolate(&cut_off);
    are_granted_names(&cluster, &cluster.others(&[&cut_off]), SILENT);
    // Longer than its voice would take to be heard.
    is_granted_none(&cluster, &cut_off);
    are_granted_names(&cluster, &cluster.others(&[&cut_off]), SILENT);
    assert_eq!(cluster.store.term().epoch, epoch, "one voice deposes nobody");
    cluster.no_session_was_lost();
    heals(cluster, load);
}

/// Every member sees another part of the cluster, and most do not see the leader.
#[test]
fn a_cut_that_leaves_each_member_with_another_view_moves_the_seat_to_where_most_are() {
    let (cluster, load, _sampler) = busy(linked(), None, 5);
    let leader = cluster.leader();
    let others = cluster.others(&[&leader]);
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| others[at].as_str());
    // The leader sees a; a sees the leader, c and d; b sees c and d; c sees a, b and d; d sees a, b and c.
    for cut_off in [b, c, d] {
        cluster.links().cut(&leader, cut_off);
    }
    cluster.links().cut(a, b);
    let new = eventually("the seat moves", SILENT, || {
        let term = cluster.store.term();
        let new = term.leader.map(|leader| leader.node.to_string()).filter(|new| *new != leader);
        new.ok_or_else(|| "it has not".to_owned())
    });
    // Whoever is linked to it is served: all but the old leader, and b or a if the other of them leads.
    let sees = |node: &str| node != leader && !(new == a && node == b) && !(new == b && node == a);
    let served: Vec<_> = cluster.names().into_iter().filter(|node| sees(node)).collect();
    assert!(served.len() >= 3, "{served:?}");
    are_granted_names(&cluster, &served, SILENT);
    cluster.no_session_was_lost();
    heals(cluster, load);
}

/// Everybody has lost half of the others, and no two the same. Nobody is deposed by two of four.
#[test]
fn in_a_ring_the_leader_stays_and_serves_whom_it_reaches() {
    let (cluster, load, _sampler) = busy(linked(), None, 5);
    let (leader, epoch, names) = (cluster.leader(), cluster.store.term().epoch, cluster.names());
    for at in 0..5 {
        cluster.links().cut(&names[at], &names[(at + 2) % 5]);
    }
    let at = names.iter().position(|name| *name == leader).expect("the leader runs");
    let reached = [leader.clone(), names[(at + 1) % 5].clone(), names[(at + 4) % 5].clone()];
    // Twice: before and after the others have said that they do not hear it.
    are_granted_names(&cluster, &reached, SILENT);
    is_granted_none(&cluster, &names[(at + 2) % 5]);
    are_granted_names(&cluster, &reached, SILENT);
    assert_eq!(cluster.store.term().epoch, epoch, "two of four depose nobody");
    cluster.no_session_was_lost();
    heals(cluster, load);
}

/// Over Postgres whatever the environment says: there is no way to a file that could be cut for one node.
#[test]
fn a_leader_that_reaches_its_peers_and_not_the_store_is_replaced() {
    let Some(place) = TestStore::postgres() else { return };
    let (cluster, load, _sampler) = busy(linked().store_linked(), Some(place), 3);
    let leader = cluster.leader();
    cluster.store_links().cut(&leader);
    are_granted_names(&cluster, &cluster.others(&[&leader]), CLOSED);
    assert_ne!(cluster.leader(), leader);
    cluster.store_links().heal(&leader);
    heals(cluster, load);
}

/// As above; the leader commits, and does not learn it.
#[test]
fn a_leader_whose_commits_are_not_answered_is_replaced() {
    let Some(place) = TestStore::postgres() else { return };
    let (cluster, load, _sampler) = busy(linked().store_linked(), Some(place), 3);
    let leader = cluster.leader();
    cluster.store_links().cut_answers(&leader);
    are_granted_names(&cluster, &cluster.others(&[&leader]), CLOSED);
    assert_ne!(cluster.leader(), leader);
    cluster.store_links().heal(&leader);
    heals(cluster, load);
}

/// The leader is this test's own process, so that only its member hangs: its session is beaten, its links ping.
#[test]
fn a_leader_whose_member_hangs_is_replaced_and_its_callers_are_answered() {
    let files = tempfile::tempdir().expect("a temporary directory can be made");
    let place = TestStore::file(files.path());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let own = Config::new("own", place.url.as_str()).cluster(&place.cluster);
    let own = runtime.block_on(Registry::join(own)).expect("the first node joins");
    assert!(runtime.block_on(own.ready(TEST_DEADLINE)).is_ok());
    let (cluster, load, _sampler) = busy(StartOptions::lease(LEASE), Some(place), 3);
    assert!(own.status().leads, "{:?}", own.status());

    own.hang_member(Duration::from_secs(20));
    let waits = Duration::from_millis(500);
    let caller = own.clone();
    let asked = runtime.spawn(async move { caller.lookup_consistent("desk", waits).await });
    let probe = own.clone();
    let probed = runtime.spawn(async move { probe.live(waits).await });
    are_granted_names(&cluster, &cluster.names(), SILENT);
    let answer = runtime.block_on(asked).expect("it is answered");
    assert_eq!(answer, Err(ConsistentError::Unanswered { waited: waits }));
    let probed = runtime.block_on(probed).expect("it is answered");
    assert_eq!(probed, Err(NotLive::Unanswered { waited: waits }));
    assert_ne!(cluster.leader(), "own");
    cluster.no_session_was_lost();

    // It comes to itself, follows, and leaves in good order.
    assert!(runtime.block_on(own.ready(TEST_DEADLINE)).is_ok(), "{:?}", own.status());
    assert_eq!(runtime.block_on(own.live(TEST_DEADLINE)), Ok(()));
    eventually("it follows", TEST_DEADLINE, || {
        let status = own.status();
        if status.leads { Err(format!("{status:?}")) } else { Ok(()) }
    });
    runtime.block_on(own.leave()).expect("it leaves");
    load.finish();
    cluster.check();
    cluster.check_recordings();
}
