//! Nodes of this commit beside nodes of an earlier one, over one store: a cluster is brought to a new version node by node, and
//! back.

use std::{env, fs, path::PathBuf, time::Duration};

use callsign_tests::{Cluster, Retrying, StartOptions, TEST_DEADLINE, callsign, eventually};
use serde_json::json;

/// Long enough that nothing that is waited for here is the end of a lease.
const LEASE: Duration = Duration::from_secs(10);
/// Names the `callsign` of the earlier commit. `.ci/run` builds it.
const EARLIER: &str = "CALLSIGN_EARLIER_BIN";
const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// How nodes of the earlier commit are started, if there is a build of it.
fn earlier() -> Option<StartOptions> {
    let Some(program) = env::var_os(EARLIER) else {
        println!("skipped: {EARLIER} names no callsign of an earlier commit; `.ci/run` builds one");
        return None;
    };
    let program = PathBuf::from(program);
    assert!(
        fs::read(&program).unwrap() != fs::read(callsign()).unwrap(),
        "both commits have the same program"
    );
    Some(StartOptions { program: Some(program), ..StartOptions::lease(LEASE) })
}

/// Registers a name that moves when its node drains, with metadata, and returns its token.
fn register_moving(cluster: &Cluster, node: &str, name: &str) -> u64 {
    let body = json!({"name": name, "moves": true, "meta": {"zone": "eu"}});
    cluster.node(node).client.post("/register", &body).ok()["token"].as_u64().unwrap()
}

/// Restarts all nodes under other options, the leader first, while clients are at work. What moves is free at no moment.
fn restart_all(cluster: &mut Cluster, load: &Retrying, options: &StartOptions) {
    let more = |more: usize| {
        let wanted = load.fared.registered() + more;
        eventually("registrations go on", TEST_DEADLINE, || {
            if load.fared.registered() >= wanted { Ok(()) } else { Err(load.fared.to_string()) }
        });
    };
    let mut order = cluster.names();
    let leader = cluster.leader();
    order.sort_by_key(|name| *name != leader);
    for name in order {
        let before = cluster.node(&name).client.whereis("moving").ok()["token"].as_u64().unwrap();
        let ended = cluster.terminate(&name);
        assert!(ended.status.is_some_and(|status| status.success()), "{name}: {}", ended.log);
        more(10);
        for other in cluster.names() {
            let now = cluster.node(&other).client.whereis_consistent("moving").ok();
            assert!(now["token"].as_u64() >= Some(before), "{other}, after {name} left: {now}");
            assert_eq!(now["meta"]["zone"], "eu", "{other}, after {name} left: {now}");
        }
        cluster.launch_with(&name, options);
        cluster.wait_until_ready();
        more(10);
    }
}

#[test]
fn a_cluster_is_brought_from_an_earlier_commit_to_this_one_and_back_without_losing_a_name() {
    let Some(earlier) = earlier() else { return };
    let mut cluster = Cluster::start(earlier.clone(), &NODES);
    register_moving(&cluster, &cluster.leader(), "moving");
    let this = StartOptions { program: None, ..earlier.clone() };
    let load = cluster.retrying();
    restart_all(&mut cluster, &load, &this);
    restart_all(&mut cluster, &load, &earlier);
    println!("{}", load.finish());
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn leaders_of_either_commit_that_die_cost_the_others_no_name() {
    let Some(earlier) = earlier() else { return };
    let mut cluster = Cluster::start(earlier.clone(), &NODES[..3]);
    let this = StartOptions { program: None, ..earlier.clone() };
    for node in &NODES[3..] {
        cluster.launch_with(node, &this);
    }
    cluster.wait_until_ready();
    let (load, _sampler) = cluster.load();
    // The leader comes back under the other commit each time, so both kinds are a majority, and lead, by turns.
    for _ in 0..4 {
        cluster.wait_for_registrations(60);
        let leader = cluster.leader();
        let was_earlier = cluster.node(&leader).program.is_some();
        println!("{leader} leads, of {} commit", if was_earlier { "the earlier" } else { "this" });
        cluster.launch_with(&leader, if was_earlier { &this } else { &earlier });
        cluster.wait_until_ready();
    }
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
}
