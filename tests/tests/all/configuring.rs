//! Settings of the elections: changed from the command, for all nodes, while they run.

use std::{
    process::{Command, Output},
    time::Duration,
};

use callsign_tests::{Cluster, StartOptions, TEST_DEADLINE, callsign, eventually};
use serde_json::{Value, json};

/// Long enough that nothing that is waited for here is the end of a lease.
const LEASE: Duration = Duration::from_secs(10);
fn ask(cluster: &Cluster, node: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let address = cluster.node(node).client.address();
    let output = Command::new(callsign()).args(arguments).args(["--node", address]).output().unwrap();
    let Output { status, stdout, stderr } = output;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn settings(cluster: &Cluster, node: &str) -> Value {
    cluster.node(node).client.status().ok()["settings"].clone()
}

#[test]
fn what_the_command_sets_at_one_node_holds_for_all_and_a_ranked_seat_goes_to_the_greatest_priority() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let arguments = ["--priority", "9"].map(Into::into).to_vec();
    cluster.launch_with("d", &StartOptions { arguments, ..StartOptions::lease(LEASE) });
    cluster.wait_until_ready();
    let leader = cluster.leader();
    assert_ne!(leader, "d");
    let before = settings(&cluster, "a");
    assert_eq!(before, json!({"lock_timeout_ms": 3000, "silence_ms": 2000, "policy": "sticky", "set": []}));

    let configure = ["configure", "--policy", "ranked", "--silence", "4s"];
    let (status, said, _) = ask(&cluster, "b", &configure);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said, "policy ranked, silence 4s, lock timeout 3s (not set)\n");
    let wanted = json!({
        "lock_timeout_ms": 3000, "silence_ms": 4000, "policy": "ranked", "set": ["silence_ms", "policy"],
    });
    for node in cluster.names() {
        eventually("every node shows it", TEST_DEADLINE, || {
            let now = settings(&cluster, &node);
            if now == wanted { Ok(()) } else { Err(format!("{node}: {now}")) }
        });
        let (status, said, _) = ask(&cluster, &node, &["members"]);
        assert_eq!(status, Some(0));
        assert!(said.contains("policy ranked, silence 4s"), "{said}");
    }
    let (_, said, _) = ask(&cluster, "c", &["status"]);
    assert!(said.contains("policy ranked"), "{said}");
    assert_eq!(cluster.leader(), leader, "a leader that lives stays");

    let ended = cluster.terminate(&leader);
    assert!(ended.status.is_some_and(|status| status.success()), "{}", ended.log);
    assert_eq!(cluster.leader(), "d");
    cluster.register("d", "desk");
    cluster.check();
    cluster.check_recordings();
}

#[test]
fn what_cannot_work_is_refused_with_the_numbers_and_nothing_is_set() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let (status, _, said) = ask(&cluster, "a", &["configure", "--silence", "10ms"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("silence of 10ms") && said.contains("between 1s and 600s"), "{said}");
    let (status, _, said) = ask(&cluster, "a", &["configure"]);
    assert_eq!(status, Some(2), "nothing to set: {said}");
    let client = &cluster.node("a").client;
    let refused = client.post("/configure", &json!({"lock_timeout_ms": 0}));
    assert_eq!(refused.code(), "out_of_bounds", "{refused:?}");
    let callsign_tests::Answer::Refused(body) = refused else { panic!("it was set") };
    assert_eq!((&body["least_ms"], &body["most_ms"]), (&json!(1000), &json!(600_000)), "{body}");
    assert_eq!(client.post("/configure", &json!({})).code(), "nothing_to_set");
    let unknown = client.post("/configure", &json!({"silence": 3000}));
    assert_eq!(unknown.code(), "bad_body", "{unknown:?}");
    assert_eq!(client.post("/configure", &json!({"policy": "random"})).code(), "bad_body");
    assert_eq!(settings(&cluster, "a")["set"], json!([]));
    cluster.check_recordings();
}
