//! `callsign explain`: who holds a name, or why nobody does, and where each member is.

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
    let (held, _) = text.split_once(" s ago), which is its token\n").expect(&text);
    assert!(held.starts_with(&format!("desk is held on b: registered at position {token} (")), "{text}");
    eventually("a has seen the session of b", TEST_DEADLINE, || {
        let (_, text) = explain(&cluster, "desk", &[]);
        let session = text.lines().find(|line| line.starts_with("session "));
        let is_seen = session.is_some_and(|line| {
            line.contains(" of b is open; it was renewed ") && line.ends_with(" s ago; its lease is 10s")
        });
        if is_seen { Ok(()) } else { Err(text) }
    });
    assert!(text.contains(&format!("\n{} leads, epoch {epoch}\n", cluster.leader())), "{text}");
    for node in ["a", "b", "c"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{node}  "))), "{node}: {text}");
    }

    let update = json!({"name": "desk", "meta": {"zone": "eu"}, "expected": null});
    let revision = cluster.node("b").client.post("/update", &update).ok()["revision"].clone();
    let (_, text) = explain(&cluster, "desk", &[]);
    let (_, changed) = text.split_once(&format!(", and changed at {revision} (")).expect(&text);
    assert!(changed.contains(" s ago)\nmetadata: {\"zone\":\"eu\"}\n"), "{text}");

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
    let begun = "nobody holds chair: the registry began with no names at position 1";
    assert!(text.starts_with(begun) && text.contains("POSITION"), "{text}");
    let (code, said) = explain(&cluster, "", &["--json"]);
    assert_eq!(code, Some(2), "a name that is none: {said}");
}

#[test]
fn a_free_name_is_explained_by_why_it_is_free() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    for (node, name) in [("b", "desk"), ("b", "chair"), ("c", "lamp")] {
        cluster.register(node, name);
    }
    let client = &cluster.node("b").client;
    client.post("/end-actor", &json!({"name": "desk"})).ok();
    client.post("/unregister", &json!({"name": "chair"})).ok();
    cluster.kill("c");
    for (name, why, expected) in [
        ("desk", "actor_ended", "its actor on b ended at position "),
        ("chair", "unregistered", "it was unregistered on b at position "),
        ("lamp", "node_gone", "the session of its node, c, was closed at position "),
    ] {
        eventually("it is freed", TEST_DEADLINE, || {
            let (code, text) = explain(&cluster, name, &[]);
            let is_so = code == Some(1) && text.starts_with(&format!("nobody holds {name}: {expected}"));
            if is_so { Ok(()) } else { Err(format!("{code:?} {text}")) }
        });
        let (code, said) = explain(&cluster, name, &["--json"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((code, &said["state"], &said["holder"]), (Some(1), &json!("free"), &Value::Null));
        let last = said["changes"].as_array().unwrap().last().unwrap();
        assert_eq!((last, &last["why"]), (&said["why_free"], &json!(why)));
        assert!(last["ago_ms"].is_u64() && said["remembers_from"].is_u64(), "{said}");
    }
    let (_, text) = explain(&cluster, "desk", &[]);
    let past = text.lines().skip_while(|line| !line.starts_with("a remembers from position "));
    let words: Vec<Vec<_>> = past.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[3][1..4], ["actor", "ended", "b"], "{text}");
}
