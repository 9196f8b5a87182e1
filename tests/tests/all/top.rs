//! `callsign top`: the members of a registry, again and again.

use std::{
    process::{Command, Output},
    time::Duration,
};

use callsign_tests::{Cluster, StartOptions, callsign};
use serde_json::Value;

const LEASE: Duration = Duration::from_secs(10);

fn top(options: &[&str]) -> Output {
    Command::new(callsign()).arg("top").args(options).env_remove("CALLSIGN_STORE").output().unwrap()
}

#[test]
fn each_look_has_all_members_and_how_far_each_is() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    cluster.register("b", "desk");
    let leader = cluster.leader();
    let node = cluster.node("a").client.address().to_owned();
    let output = top(&["--node", &node, "--times", "2", "--every", "10ms", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let looks: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [first, second] = &looks[..] else { panic!("two looks: {text}") };
    assert_eq!((&first["leader"]["node"], &first["names"]), (&leader.as_str().into(), &1.into()), "{text}");
    assert!(first["names_per_s"].is_null() && second["names_per_s"] == 0.0, "{text}");
    for look in &looks {
        let members = look["members"].as_array().unwrap();
        assert_eq!(members.len(), 3, "{text}");
        assert!(members.iter().all(|member| member["behind"].is_u64()), "{text}");
    }

    let text = top(&["--node", &node, "--times", "1"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("registry default, as a sees it: "), "{text}");
    assert!(!text.contains('\u{1b}'), "a file is no terminal: {text:?}");

    // One that is gone is said so, with the others; and where nobody answers, nothing is known.
    let url = cluster.place.url.clone();
    cluster.kill("a");
    let output = top(&["--node", &node, "--times", "3", "--every", "10ms"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let found = top(&["--store", &url, "--times", "1", "--json", "--cluster", &cluster.place.cluster]);
    assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stderr));
    let look: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert!(["b", "c"].contains(&look["node"].as_str().unwrap()), "{look}");
}

#[test]
fn a_registry_that_is_not_there_is_a_refusal_at_once() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let node = cluster.node("a").client.address();
    let output = top(&["--node", node, "--registry", "nothing"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
