//! `callsign explain`: who holds a name, and where each member is.

use std::{process::Command, time::Duration};

use callsign_tests::{Cluster, StartOptions, TEST_DEADLINE, callsign, eventually};
use serde_json::{Value, json};

const LEASE: Duration = Duration::from_secs(10);

fn explain(cluster: &Cluster, name: &str, options: &[&str]) -> (Option<i32>, String) {
    let node = cluster.node("a").client.address();
    let output = Command::new(callsign())
        .args(["explain", name, "--node", node])
        .args(options)
        .env_remove("CALLSIGN_STORE")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_name_is_explained_by_whom_holds_it_and_where_each_member_is() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let (token, epoch) = (cluster.register("b", "desk"), cluster.store.term().epoch.0);
    let (code, text) = explain(&cluster, "desk", &[]);
    assert_eq!(code, Some(0), "{text}");
    let held = format!("desk is held on b: registered at position {token}, which is its token\n");
    assert!(text.starts_with(&held), "{text}");
    assert!(text.contains(&format!("\n{} leads, epoch {epoch}\n", cluster.leader())), "{text}");
    for node in ["a", "b", "c"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{node}  "))), "{node}: {text}");
    }

    let update = json!({"name": "desk", "meta": {"zone": "eu"}, "expected": null});
    let revision = cluster.node("b").client.post("/update", &update).ok()["revision"].clone();
    let (_, text) = explain(&cluster, "desk", &[]);
    assert!(text.contains(&format!("and changed at {revision}\nmetadata: {{\"zone\":\"eu\"}}\n")), "{text}");

    eventually("nobody is behind", TEST_DEADLINE, || {
        let (code, said) = explain(&cluster, "desk", &["--json"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, &said["holder"]["node"], &said["epoch"]), (Some(0), &json!("b"), &json!(epoch)));
        let members = said["members"].as_array().unwrap();
        let facts: Vec<_> =
            members.iter().map(|row| (&row["node"], &row["position"], &row["behind"])).collect();
        let expected = ["a", "b", "c"].map(|node| (json!(node), revision.clone(), json!(0)));
        if facts.into_iter().eq(expected.iter().map(|(node, at, behind)| (node, at, behind))) {
            Ok(())
        } else {
            Err(said.to_string())
        }
    });

    let (code, text) = explain(&cluster, "chair", &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("nobody holds chair\n") && text.contains("POSITION"), "{text}");
    let (code, said) = explain(&cluster, "", &["--json"]);
    assert_eq!(code, Some(2), "a name that is none: {said}");
}
