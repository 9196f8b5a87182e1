//! Names that go from node to node while both live: when one drains, and by `callsign transfer`.

use std::{
    collections::BTreeSet,
    process::{Command, Output},
    time::Duration,
};

use callsign_tests::{Cluster, StartOptions, TEST_DEADLINE, callsign, eventually};
use serde_json::{Value, json};

const LEASE: Duration = Duration::from_secs(10);

/// Registers a name for an echo actor that moves.
fn register_moving(cluster: &Cluster, node: &str, name: &str) -> u64 {
    let body = json!({"name": name, "moves": true});
    cluster.node(node).client.post("/register", &body).ok()["token"].as_u64().unwrap()
}

fn transfer(cluster: &Cluster, asked: &str, name: &str, to: &str) -> Output {
    let node = cluster.node(asked).client.address();
    Command::new(callsign()).args(["transfer", name, "--to", to, "--node", node, "--json"]).output().unwrap()
}

/// The exit status of the command, and what it says to programs.
fn said(output: &Output) -> (Option<i32>, Value) {
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

#[test]
fn a_node_that_drains_moves_its_names_to_the_others_and_none_is_seen_to_be_free() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let leader = cluster.leader();
    let others = cluster.others(&[&leader]);
    let names: Vec<String> = (0..100).map(|nth| format!("shop/{nth:03}")).collect();
    let tokens: Vec<u64> = names.iter().map(|name| register_moving(&cluster, &leader, name)).collect();
    let stays = cluster.register(&leader, "desk");
    let last = tokens.iter().max().unwrap().to_string();
    let mut watch = Command::new(callsign());
    let watched = cluster.node(&others[0]).client.clone();
    watch.args(["watch", "--prefix", "shop/", "--node", watched.address(), "--from", &last, "--json"]);
    let files = tempfile::tempdir().unwrap();
    let (printed, errors) = (files.path().join("said"), files.path().join("errors"));
    watched.get("/wait-for", &[("position", &last)]).ok();
    watch.stdout(std::fs::File::create(&printed).unwrap());
    watch.stderr(std::fs::File::create(&errors).unwrap());
    let mut watcher = watch.spawn().unwrap();
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&printed).unwrap();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    eventually("it watches", TEST_DEADLINE, || {
        let is_there = lines().iter().any(|line| line["event"] == "current");
        if is_there { Ok(()) } else { Err(std::fs::read_to_string(&errors).unwrap()) }
    });

    let drained = cluster.node(&leader).client.post("/drain", &json!({})).ok();
    assert_eq!(drained["drained"], "led", "{drained}");
    assert_eq!((&drained["moved"], &drained["stay"]), (&json!(names.len()), &json!(1)), "{drained}");
    let mut holders = BTreeSet::new();
    for (name, token) in names.iter().zip(&tokens) {
        let found = watched.whereis_consistent(name).ok();
        let holder = found["node"].as_str().unwrap().to_owned();
        assert!(others.contains(&holder), "{found}");
        assert!(found["token"].as_u64() > Some(*token), "{found}");
        holders.insert(holder);
    }
    assert_eq!(holders.len(), 2, "each of the others takes some: {holders:?}");
    let desk = watched.whereis_consistent("desk").ok();
    assert_eq!(desk["token"].as_u64(), Some(stays), "who does not move holds it until the node leaves");
    let ended = cluster.terminate(&leader);
    assert!(ended.status.is_some_and(|status| status.success()), "{}", ended.log);
    eventually("the watcher has seen them all", TEST_DEADLINE, || {
        let changes: Vec<Value> = lines().into_iter().filter(|line| line["event"] == "change").collect();
        for change in &changes {
            assert_eq!(change["data"]["why"], "transferred", "{change}");
            assert!(change["data"]["was"].is_object() && change["data"]["now"].is_object(), "{change}");
        }
        if changes.len() == names.len() { Ok(()) } else { Err(format!("{} changes", changes.len())) }
    });
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    // They answer, and are known where they are now.
    for name in &names {
        let answer = watched.post("/call", &json!({"name": name, "text": "hello"})).ok();
        assert!(answer["answer"].as_str().unwrap().ends_with("says hello"), "{answer}");
    }
    let held =
        |node: &str| cluster.node(node).client.get("/held", &[]).ok()["held"].as_array().unwrap().len();
    assert_eq!(held(&others[0]) + held(&others[1]), names.len());
    cluster.check();
    cluster.check_recordings();
}

#[test]
fn the_command_moves_a_name_whichever_node_it_asks_and_says_what_came_of_it() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let token = cluster.register("a", "desk");
    // The node that is asked is neither the one that holds it nor the one that is to.
    let (status, moved) = said(&transfer(&cluster, "c", "desk", "b"));
    assert_eq!((status, &moved["node"]), (Some(0), &json!("b")), "{moved}");
    assert!(moved["token"].as_u64() > Some(token), "{moved}");
    let found = cluster.node("c").client.whereis_consistent("desk").ok();
    assert_eq!((&found["node"], &found["token"]), (&json!("b"), &moved["token"]));
    let (status, again) = said(&transfer(&cluster, "a", "desk", "b"));
    assert_eq!((status, &again["token"]), (Some(0), &moved["token"]), "it is there: {again}");
    let (status, back) = said(&transfer(&cluster, "b", "desk", "a"));
    assert_eq!((status, &back["node"]), (Some(0), &json!("a")), "{back}");

    let (status, nobody) = said(&transfer(&cluster, "a", "nobody", "b"));
    assert_eq!((status, &nobody["error"]), (Some(1), &json!("not_found")), "{nobody}");
    let (status, unknown) = said(&transfer(&cluster, "b", "desk", "z"));
    assert_eq!((status, &unknown["error"]), (Some(1), &json!("no_such_member")), "{unknown}");
    let (status, wrong) = said(&transfer(&cluster, "b", "desk", "no node/"));
    assert_eq!(status, Some(2), "{wrong}");
    let shared = json!({"name": "shared", "shared": true});
    cluster.node("a").client.post("/register", &shared).ok();
    let (status, kept) = said(&transfer(&cluster, "c", "shared", "b"));
    assert_eq!((status, &kept["error"]), (Some(1), &json!("not_given")), "{kept}");
    let both =
        cluster.node("a").client.post("/register", &json!({"name": "x", "shared": true, "moves": true}));
    assert_eq!(both.code(), "shared_actor");
    let elsewhere = cluster.node("b").client.post("/transfer", &json!({"name": "desk", "to": "c"}));
    assert_eq!(elsewhere.code(), "not_held_here", "the route is that of the node that holds it");
    cluster.check_recordings();
}
