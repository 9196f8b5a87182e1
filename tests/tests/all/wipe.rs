//! `callsign wipe`: a registry is removed, whoever runs, whenever it is stopped, and tokens only grow.

use std::{
    process::{Command, Output},
    time::{Duration, Instant},
};

use callsign_store::{
    CommitOutcome, Read, Transaction,
    ids::{ClusterName, NodeName, Position, RegistryName},
    keys::ClusterKeys,
    open,
};
use callsign_tests::{Cluster, StartOptions, TEST_DEADLINE, callsign, eventually};
use serde_json::Value;

const LEASE: Duration = Duration::from_secs(4);
fn command(cluster: &Cluster, more: &[&str]) -> Command {
    let mut command = Command::new(callsign());
    let place = &cluster.place;
    command.args([
        "wipe",
        "--json",
        "--store",
        &place.url,
        "--cluster",
        &place.cluster,
        "--registry",
        "default",
    ]);
    command.args(more);
    command
}

fn wipe(cluster: &Cluster, more: &[&str]) -> (Option<i32>, Value) {
    let Output { status, stdout, stderr } = command(cluster, more).output().unwrap();
    let body = serde_json::from_slice(&stdout);
    (status.code(), body.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&stderr))))
}

/// A cluster whose nodes were all killed, with names, and the greatest of their tokens.
fn dead_cluster() -> (Cluster, u64) {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let tokens: Vec<_> = (0..20).map(|i| cluster.register("a", &format!("desk-{i}"))).collect();
    for name in cluster.names() {
        cluster.kill(&name);
    }
    (cluster, tokens.into_iter().max().unwrap())
}

/// What is stored of the registry: the names of the keys.
fn stored(cluster: &Cluster) -> Vec<String> {
    let all = cluster.store.keys.all();
    let skip = all.start.len();
    let entries = cluster.store.entries(Read::Range { range: all, limit: 10_000 });
    entries.into_iter().map(|(key, _)| String::from_utf8_lossy(&key[skip..]).into_owned()).collect()
}

fn serves_again_with_greater_tokens(cluster: &mut Cluster, token: u64) {
    for name in ["a", "b"] {
        cluster.launch(name);
    }
    cluster.wait_until_ready();
    let found = cluster.node("b").client.whereis_consistent("desk-0");
    assert_eq!(found.code(), "not_found", "{found:?}");
    let again = cluster.register("b", "desk-0");
    assert!(again > token, "{again} is not greater than {token}");
}

#[test]
fn a_registry_whose_nodes_are_dead_is_removed_and_one_of_its_name_goes_on_counting() {
    let (mut cluster, token) = dead_cluster();
    let epoch = cluster.store.term().epoch;
    let (status, said) = wipe(&cluster, &[]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(
        (said["members"].as_u64(), said["position"].as_u64() >= Some(token)),
        (Some(2), true),
        "{said}"
    );
    assert_eq!(stored(&cluster), ["author/a", "author/b", "commit", "floor", "term"]);
    assert!(cluster.store.term().epoch > epoch && cluster.store.leader().is_none());
    assert_eq!(wipe(&cluster, &[]).0, Some(0), "once more does nothing");
    serves_again_with_greater_tokens(&mut cluster, token);
}

#[test]
fn nothing_is_removed_from_nodes_that_live() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let token = cluster.register("a", "desk");
    let (leader, epoch, began) = (cluster.leader(), cluster.store.term().epoch, Instant::now());
    let (status, said) = wipe(&cluster, &["--wait", "25s"]);
    assert_eq!((status, &said["error"]), (Some(1), &"in_use".into()), "{said}");
    assert!(began.elapsed() < Duration::from_secs(25), "it says so as soon as one has beaten");
    assert!(said["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()), "{said}");
    assert_eq!((cluster.leader(), cluster.store.term().epoch), (leader, epoch));
    let found = cluster.node("b").client.whereis_consistent("desk").ok();
    assert_eq!(found["token"].as_u64(), Some(token));
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn by_force_the_nodes_that_live_lose_their_names_and_serve_on() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let tokens = ["a", "b", "c"].map(|name| cluster.register(name, &format!("desk-{name}")));
    let (epoch, sessions) =
        (cluster.store.term().epoch, ["a", "b", "c"].map(|n| cluster.node(n).life.session()));
    let (status, said) = wipe(&cluster, &["--force"]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said["closed"], serde_json::json!(["a", "b", "c"]));
    for (name, session) in ["a", "b", "c"].into_iter().zip(sessions) {
        eventually("a new session", TEST_DEADLINE, || {
            let life = &cluster.node(name).life;
            let open = cluster.store.open_session(name, life.incarnation).ok_or("none is open")?;
            if open.0 > session { Ok(()) } else { Err(format!("{open}")) }
        });
    }
    cluster.wait_until_ready();
    for name in ["a", "b", "c"] {
        let gone = format!("desk-{name}");
        eventually("the name is free", TEST_DEADLINE, || {
            match cluster.node("b").client.whereis_consistent(&gone).code() {
                "not_found" => Ok(()),
                code => Err(code.to_owned()),
            }
        });
    }
    let again = cluster.register("c", "desk-a");
    assert!(tokens.iter().all(|token| again > *token), "{again} is not greater than {tokens:?}");
    assert!(cluster.store.term().epoch > epoch);
}

/// Killed at any moment, it has removed everything or nothing, and the next one ends it.
#[test]
fn a_wipe_that_is_killed_half_way_leaves_a_registry_that_serves() {
    let (mut cluster, token) = dead_cluster();
    // So that its sessions are closed, and there is nothing to wait for.
    assert_eq!(wipe(&cluster, &[]).0, Some(0));
    serves_again_with_greater_tokens(&mut cluster, token);
    let token = cluster.register("a", "desk-1");
    for name in cluster.names() {
        let ended = cluster.terminate(&name);
        assert!(ended.status.is_some_and(|status| status.success()), "{}", ended.log);
    }
    // Many positions, so that clearing them takes many pieces.
    let end = Position(token + 30_000);
    cluster.store.pad_log(end);
    let epoch = cluster.store.term().epoch;
    let mut child = command(&cluster, &[]).spawn().unwrap();
    eventually("it has begun", TEST_DEADLINE, || {
        if cluster.store.term().epoch > epoch { Ok(()) } else { Err("not yet".to_owned()) }
    });
    child.kill().unwrap();
    child.wait().unwrap();
    println!("left of the log: {}", stored(&cluster).len());
    serves_again_with_greater_tokens(&mut cluster, end.0);
    for name in cluster.names() {
        cluster.terminate(&name);
    }
    assert_eq!(wipe(&cluster, &[]).0, Some(0));
    assert_eq!(stored(&cluster), ["author/a", "author/b", "commit", "floor", "term"]);
}

#[test]
fn what_is_not_there_is_a_no_and_forgetting_the_tokens_leaves_nothing() {
    let (mut cluster, _) = dead_cluster();
    let mut other = Command::new(callsign());
    other.args([
        "wipe",
        "--store",
        &cluster.place.url,
        "--cluster",
        &cluster.place.cluster,
        "--registry",
        "none",
    ]);
    let said = other.output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stderr).contains("there is no registry none"), "{said:?}");
    assert_eq!(command(&cluster, &["--force", "--forget-tokens"]).output().unwrap().status.code(), Some(2));
    let (status, said) = wipe(&cluster, &["--forget-tokens"]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(stored(&cluster), [""; 0]);
    for name in ["a", "b"] {
        cluster.launch(name);
    }
    cluster.wait_until_ready();
    cluster.register("a", "desk-0");
}

#[test]
fn a_store_that_is_not_there_is_told_and_not_made() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("mistyped.db");
    let url = format!("sqlite:{}", file.display());
    let wiped = Command::new(callsign())
        .args(["wipe", "--json", "--store", &url, "--registry", "default"])
        .output()
        .unwrap();
    let body: Value = serde_json::from_slice(&wiped.stdout).unwrap();
    assert_eq!((wiped.status.code(), &body["error"]), (Some(1), &Value::from("bad_store")), "{body}");
    assert!(body["message"].as_str().unwrap().contains("mistyped.db does not exist"), "{body}");
    assert!(!file.exists());
}

#[test]
fn people_read_what_was_removed_and_what_stays_and_programs_why_nothing_was() {
    let files = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", files.path().join("store.db").display());
    let cluster = ClusterKeys::new(&ClusterName::new("default").unwrap());
    let registry = cluster.registry(&RegistryName::new("r").unwrap());
    let author = registry.author(&NodeName::new("a").unwrap());
    let store = open(&url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(store.commit(Transaction::new().put(author, b"of old".to_vec())));
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    let wipe = |more: &[&str]| {
        let mut command = Command::new(callsign());
        command.args(["wipe", "--store", &url, "--registry", "r"]).args(more);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    };
    let removed = "r is removed: 0 members, 0 positions of its log; ";
    let (code, said, told) = wipe(&[]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(said, format!("{removed}epoch 0 and position 0 stay, so that tokens only grow\n"));
    let (code, said, told) = wipe(&["--forget-tokens"]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(said, format!("{removed}nothing is left of it\n"));
    let (code, said, told) = wipe(&["--json"]);
    assert_eq!((code, told.as_str()), (Some(1), ""), "programs read one object: {said}");
    let body: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&body["error"], &body["verdict"]), (&"no_such_registry".into(), &"no".into()), "{body}");
}
