//! P9: bad input costs a clear error, and nobody else anything.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use callsign_store::{Key, ids::NodeName};
use callsign_tests::{Cluster, StartOptions, StoreView, TEST_DEADLINE, callsign, eventually, wait_for};

const LEASE: Duration = Duration::from_secs(10);
fn with_secret(secret: &str) -> StartOptions {
    StartOptions { secret: Some(secret.to_owned()), ..StartOptions::lease(LEASE) }
}

/// The exit code of a command that is expected to end, and what it says.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    command.env("CALLSIGN_PARENT", std::process::id().to_string()).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if wait_for(TEST_DEADLINE * 3, || child.try_wait().unwrap()).is_none() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Runs `callsign node` where it is expected not to start, and returns its exit code and what it says.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    ended(Command::new(callsign()).args(["node", "--name", "a", "--log", "off"]).args(arguments))
}

#[test]
fn a_store_that_cannot_be_opened_ends_the_node_with_one_clear_line() {
    let files = tempfile::tempdir().unwrap();
    let not_a_database = files.path().join("text.db");
    std::fs::write(
        &not_a_database,
        "a letter to the editor, longer than the header of a database would be ".repeat(9),
    )
    .unwrap();
    let missing = files.path().join("missing/store.db");
    let url = |path: &Path| format!("sqlite:{}", path.display());
    for (store, says) in [
        (url(&missing), "does not exist"),
        (url(files.path()), "is not a database"),
        (url(&not_a_database), "is not a database"),
    ] {
        let (code, said) = refused(&["--store", &store]);
        assert_eq!(code, Some(1), "{store}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{store}: {said}");
    }
    assert!(!missing.parent().unwrap().exists(), "nothing was created");
}

#[test]
fn what_a_node_must_not_be_started_with_is_refused_before_anything_is_opened() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("store.db");
    let store = format!("sqlite:{}", path.display());
    for (arguments, exit, says) in [
        (["--admin", "0.0.0.0:0"], 2, "not a loopback address"),
        (["--admin-token-file", "/nowhere/token"], 2, "cannot read /nowhere/token"),
        (["--lease", "999ms"], 2, "999ms is too short, 1s is the least"),
        (["--registry", "a/b"], 2, "character"),
        (["--cluster", "a b"], 2, "character"),
        (["--listen", "0.0.0.0:0"], 2, "secret"),
        (["--listen", "192.0.2.1:0"], 2, "192.0.2.1"),
        (["--listen", "nonsense"], 2, "nonsense"),
        (["--admin", "nonsense"], 2, "nonsense"),
        (["--secret-file", "/nowhere/secret"], 2, "cannot read /nowhere/secret"),
    ] {
        let (code, said) = refused(&[&["--store", &store], &arguments[..]].concat());
        assert_eq!(code, Some(exit), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
    for (store, says) in
        [("mysql:there", "is not a store"), ("sqlite:", "has no path"), ("", "is not a store")]
    {
        let (code, said) = refused(&["--store", store]);
        assert_eq!(code, Some(2), "{store}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{store}: {said}");
    }
    for (arguments, says) in [
        (["--name", "a b", "--log", "off"], "character"),
        (["--name", "", "--log", "off"], "name"),
        (["--name", "a", "--log", "foo==="], "--log \"foo===\""),
    ] {
        let output = Command::new(callsign())
            .args(["node", "--store", &store])
            .args(arguments)
            .env("CALLSIGN_PARENT", std::process::id().to_string())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn a_node_is_asked_by_host_and_port_and_nonsense_is_wrong_usage() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let address = cluster.node("a").client.address();
    let port = address.rsplit_once(':').unwrap().1;
    let ask = |arguments: &[&str], environment: Option<&str>| {
        let mut command = Command::new(callsign());
        command.arg("status").args(arguments).env_remove("CALLSIGN_NODE");
        command.envs(environment.map(|node| ("CALLSIGN_NODE", node)));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (localhost, url) = (format!("localhost:{port}"), format!("http://{address}/"));
    for node in [address, &localhost, &url] {
        assert_eq!(ask(&["--node", node], None), (Some(0), String::new()), "{node}");
        assert_eq!(ask(&[], Some(node)), (Some(0), String::new()), "{node}");
    }
    for node in ["", " ", "nonsense", "7080", ":7080", "127.0.0.1:99999", "https://127.0.0.1:7080", "a b:80"]
    {
        // A variable that is empty is none.
        let of_environment = (!node.is_empty()).then(|| ask(&[], Some(node)));
        for (code, said) in [Some(ask(&["--node", node], None)), of_environment].into_iter().flatten() {
            assert_eq!(code, Some(2), "{node:?}: {said}");
            assert!(said.contains("HOST:PORT"), "{node:?}: {said}");
        }
    }
    assert_eq!(ask(&["--node", "127.0.0.1:1"], None).0, Some(3), "nobody is there");
}

#[test]
fn a_node_is_found_by_the_store_of_its_cluster() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let ask = |cluster: &Cluster, registry: &str| {
        let output = Command::new(callsign())
            .args(["status", "--json", "--store", &cluster.place.url, "--cluster", &cluster.place.cluster])
            .args(["--registry", registry])
            .env_remove("CALLSIGN_NODE")
            .output()
            .unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), said)
    };
    let (code, status) = ask(&cluster, "default");
    assert_eq!((code, status["node"].as_str()), (Some(0), Some("a")), "{status}");
    let registries = |options: &[&str]| {
        let output = Command::new(callsign())
            .args(["registries", "--store", &cluster.place.url, "--cluster", &cluster.place.cluster])
            .args(options)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, json) = registries(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let [only] = &json["registries"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!(
        (code, only["registry"].as_str(), only["members"][1].as_str()),
        (Some(0), Some("default"), Some("b"))
    );
    assert!(only["epoch"].as_u64() >= Some(1) && only["position"].as_u64() >= Some(1), "{json}");
    let (code, text) = registries(&[]);
    assert_eq!(code, Some(0));
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("REGISTRY"), "{text}");
    assert!(lines.next().unwrap().starts_with("default") && lines.next().is_none(), "{text}");

    let missing = ["registries", "--store", "sqlite:/nowhere/x.db"];
    let status = Command::new(callsign()).args(missing).output().unwrap().status;
    assert_eq!(status.code(), Some(3), "what a store does not say is not known");

    // Its row is there for a while yet.
    cluster.kill("a");
    let (code, status) = ask(&cluster, "default");
    assert_eq!((code, status["node"].as_str()), (Some(0), Some("b")), "{status}");
    let (code, refused) = ask(&cluster, "none");
    assert_eq!((code, refused["error"].as_str()), (Some(3), Some("no_answer")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("has no members"), "{refused}");
}

/// A store in which each commit takes more than 50 ms: it counts for a while first, for each thing that it writes.
fn slow_store(files: &Path) -> String {
    let path = files.join("slow.db");
    let store = format!("sqlite:{}", path.display());
    drop(callsign_store::open(&store).unwrap());
    let file = rusqlite::Connection::open(path).unwrap();
    file.execute_batch(
        "CREATE VIEW counted AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 400000)
         SELECT count(*) FROM n;
         CREATE TRIGGER slow AFTER INSERT ON kv BEGIN SELECT * FROM counted; END;",
    )
    .unwrap();
    store
}

#[test]
fn a_lease_that_is_too_short_for_the_store_is_refused_with_the_numbers() {
    let files = tempfile::tempdir().unwrap();
    let slow = slow_store(files.path());
    let run =
        |lease: &[&str]| {
            ended(
                Command::new(callsign())
                    .args(["run", "--singleton", "x", "--store", &slow])
                    .args(lease)
                    .args(["--on-exit", "stop", "--", "true"]),
            )
        };
    for (code, said) in [refused(&["--store", &slow, "--lease", "1s"]), run(&["--lease", "1s"])] {
        assert_eq!(code, Some(2), "{said}");
        for part in ["a lease of 1s is too short", "the median of 5 commits was", "20 times that is"] {
            assert!(said.contains(part), "{said}");
        }
    }
    // Asked for twice, it is taken: for a node, until something else is wrong with it.
    let (code, said) =
        refused(&["--store", &slow, "--lease", "1s", "--lease-anyway", "--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && said.contains("secret"), "{said}");
    let (code, said) = run(&["--lease", "900ms"]);
    assert!(code == Some(2) && said.contains("1s is the least"), "{said}");
    let (code, said) = run(&["--lease", "900ms", "--lease-anyway", "--stop-budget", "9s"]);
    assert!(code == Some(2) && said.contains("stop budget 9s"), "{said}");
}

#[test]
fn a_node_with_a_token_answers_only_who_presents_it() {
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, token: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, token).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (write("right", "0123456789abcdef\n"), write("wrong", "0123456789abcdeF\n"));
    let mut node = Command::new(callsign())
        .args(["node", "--name", "a", "--store", "memory:", "--log", "off", "--print-json"])
        .args(["--admin-token-file", &right])
        .env("CALLSIGN_PARENT", std::process::id().to_string())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let ask = |arguments: &[&str]| {
        let output = Command::new(callsign())
            .args(["status", "--node", ready["admin"].as_str().unwrap(), "--json"])
            .args(arguments)
            .env_remove("CALLSIGN_TOKEN_FILE")
            .output()
            .unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), answer["error"].as_str().map(str::to_owned))
    };
    assert_eq!(ask(&["--token-file", &right]), (Some(0), None));
    for arguments in [&[][..], &["--token-file", &wrong]] {
        assert_eq!(ask(arguments), (Some(2), Some("unauthorized".to_owned())));
    }
    node.kill().unwrap();
    node.wait().unwrap();
}

#[test]
fn a_second_node_of_a_name_is_refused_while_the_first_lives() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let token = cluster.register("a", "desk");
    let refused = cluster.refused("a", &StartOptions::lease(Duration::from_secs(2)));
    assert_eq!(refused.status.and_then(|status| status.code()), Some(1), "{}", refused.log);
    let incarnation = cluster.node("a").ready.incarnation.to_string();
    let line = refused.log.lines().last().unwrap_or_default();
    assert!(line.contains("a node a is alive already") && line.contains(&incarnation), "{}", refused.log);

    cluster.wait_until_ready();
    cluster.no_session_was_lost();
    let held = cluster.node("b").client.whereis_consistent("desk").ok();
    assert_eq!(held["token"].as_u64(), Some(token));
    assert_eq!(cluster.node("a").client.register("desk").ok()["token"].as_u64(), Some(token));
    cluster.check();
}

#[test]
fn names_that_are_none_get_a_typed_answer_and_the_next_one_is_served() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let client = &cluster.node("a").client;
    let oversized = "x".repeat(513);
    for name in ["", oversized.as_str()] {
        for answer in [
            client.register(name),
            client.unregister(name),
            client.whereis(name),
            client.whereis_consistent(name),
        ] {
            assert_eq!(answer.code(), "bad_name", "{answer:?}");
        }
    }
    let unreadable = client.post("/register", &serde_json::json!({"name": 7}));
    assert_eq!(unreadable.code(), "bad_body", "{unreadable:?}");
    assert_eq!(client.whereis("nobody").code(), "not_found");
    cluster.register("a", &"x".repeat(512));
    cluster.check();
}

/// Says something to the port at which nodes link up, and waits until the node hangs up.
fn say(listen: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(listen).unwrap();
    stream.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    // The node may hang up before all is said.
    let _ = stream.write_all(bytes);
    let ended = stream.read_to_end(&mut Vec::new());
    let reset = |kind| matches!(kind, std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe);
    assert!(
        ended.is_ok() || ended.as_ref().is_err_and(|error| reset(error.kind())),
        "not hung up: {ended:?}"
    );
}

fn strangers_at_the_link_port(options: StartOptions) {
    let cluster = Cluster::start(options, &["a", "b", "c"]);
    let leader = cluster.leader();
    let epoch = cluster.store.term().epoch;
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    let listen = &cluster.node(&leader).ready.listen;
    let noise: Vec<u8> = (0..100_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    say(listen, b"GET / HTTP/1.1\r\nhost: callsign\r\n\r\n");
    say(listen, &noise);
    // A frame longer than it may be, and than anybody has memory for.
    say(listen, &[0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
    say(listen, &[0, 1, 0, 0, 1, 2, 3]);
    // A frame that does not come to its end: hung up at the deadline.
    say(listen, &[0, 0, 0, 100, 1, 2, 3]);
    // Nor one that is cut short by its sender.
    let mut cut = TcpStream::connect(listen).unwrap();
    cut.write_all(&[0, 0, 0, 100, 1, 2, 3]).unwrap();
    drop(cut);
    eventually("the node says why", TEST_DEADLINE, || {
        let log = cluster.node(&leader).log();
        if log.contains("WARN") && log.contains("link refused") { Ok(()) } else { Err(log) }
    });
    cluster.wait_for_registrations(30);
    load.finish();
    assert_eq!((cluster.leader(), cluster.store.term().epoch), (leader.clone(), epoch));
    for name in cluster.names() {
        let downs = cluster.node(&name).log().matches("down: ").count();
        assert_eq!(downs, 0, "no link was hurt: {}", cluster.node(&name).log());
    }
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn strangers_at_the_link_port_are_hung_up_on_and_hurt_no_link() {
    strangers_at_the_link_port(StartOptions::lease(LEASE));
}

#[test]
fn strangers_at_the_link_port_of_a_secret_cluster_are_hung_up_on_and_hurt_no_link() {
    strangers_at_the_link_port(with_secret("correct horse battery staple"));
}

#[test]
fn a_node_with_another_secret_gets_no_link_and_leaves_the_others_alone() {
    let secret = with_secret("correct horse battery staple");
    let mut cluster = Cluster::start(secret, &["a", "b"]);
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    let epoch = cluster.store.term().epoch;
    cluster.launch_with("c", &with_secret("incorrect horse battery"));
    for name in ["b", "c"] {
        eventually("both sides are told", TEST_DEADLINE, || {
            let log = cluster.node(name).log();
            if log.contains("the cluster secrets differ") { Ok(()) } else { Err(format!("{name}: {log}")) }
        });
    }
    let status = cluster.node("c").client.status().ok();
    let is_linked = |row: &serde_json::Value| row["node"] != "c" && row["linked"] == true;
    assert!(!status["members"].as_array().unwrap().iter().any(is_linked), "{status}");
    let refused =
        cluster.node("c").client.post("/register", &serde_json::json!({"name": "desk", "wait_ms": 500}));
    assert_ne!(refused.code(), "ok", "it can write to nobody");
    cluster.wait_for_registrations(30);
    assert_eq!(cluster.store.term().epoch, epoch);
    cluster.kill("c");
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn a_node_of_another_cluster_that_comes_to_a_node_of_this_one_is_refused() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    let address = cluster.node("a").ready.listen.clone();
    let of_another = |more: &[&str]| {
        let arguments = ["--cluster", "other"].iter().chain(more).map(Into::into).collect();
        StartOptions { arguments, ..StartOptions::lease(LEASE) }
    };
    // What the other cluster believes to be the address of its "a" is that of this one's.
    let astray = cluster.launch_aside("a", &of_another(&["--advertise", &address]));
    let dials = cluster.launch_aside("z", &of_another(&[]));
    let ours = format!("cluster {:?} there", cluster.place.cluster);
    for (node, says) in [(cluster.node("a"), "cluster \"other\" there"), (&dials, ours.as_str())] {
        eventually("both sides are told", TEST_DEADLINE, || {
            let log = node.log();
            let is_said = log.lines().any(|line| line.contains("WARN") && line.contains(says));
            if is_said { Ok(()) } else { Err(log) }
        });
    }
    cluster.wait_for_registrations(30);
    let status = cluster.node("b").client.status().ok();
    let members: Vec<_> =
        status["members"].as_array().unwrap().iter().map(|row| row["node"].clone()).collect();
    assert_eq!(members, ["a", "b"], "one's own only");
    drop((astray, dials));
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn a_membership_event_that_nobody_understands_is_dropped_with_a_warning() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    cluster.store.enqueue(b"\x07no entry".to_vec());
    // Behind it in the queue.
    cluster.launch("c");
    cluster.wait_until_ready();
    let logs: Vec<_> = cluster.names().iter().map(|name| cluster.node(name).log()).collect();
    let told = logs
        .iter()
        .flat_map(|log| log.lines())
        .filter(|line| line.contains("cannot be understood, and is removed"));
    assert_eq!(told.filter(|line| line.contains("WARN")).count(), 1, "{logs:?}");
    cluster.register("c", "desk");
    cluster.check();
}

/// Puts bytes that are no record under a key, waits until what `noticed_by` names were noticed in a log, and puts back
/// what was there.
fn corrupt(cluster: &Cluster, key: &Key, noticed_by: &[(&str, &str)]) {
    let good = cluster.store.value(key.clone()).expect("the record is there");
    cluster.store.put(key.clone(), b"\x07no record".to_vec());
    for (name, says) in noticed_by {
        eventually("the corrupt record is noticed", TEST_DEADLINE, || {
            let log = cluster.node(name).log();
            let is_said = log.lines().any(|line| line.contains("WARN") && line.contains(says));
            if is_said { Ok(()) } else { Err(format!("{name}: {log}")) }
        });
    }
    let found = cluster.store.value(key.clone());
    assert_eq!(found.as_deref(), Some(&b"\x07no record"[..]), "nobody overwrites what he cannot read");
    cluster.store.put(key.clone(), good);
}

fn corrupt_record(which: impl Fn(&StoreView) -> Key, noticed_by: &[(&str, &str)]) {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let tokens: Vec<_> =
        cluster.names().iter().map(|name| cluster.register(name, &format!("desk-{name}"))).collect();
    corrupt(&cluster, &which(&cluster.store), noticed_by);
    cluster.wait_until_ready();
    for name in cluster.names() {
        cluster.register(&name, &format!("chair-{name}"));
    }
    for (name, token) in cluster.names().iter().zip(tokens) {
        let found = cluster.node("a").client.whereis_consistent(&format!("desk-{name}")).ok();
        assert_eq!(found["token"].as_u64(), Some(token));
    }
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn a_corrupt_term_is_no_vacant_seat_and_all_goes_on_once_it_is_repaired() {
    let says = "a record has schema 7";
    corrupt_record(|store| store.keys.term(), &[("a", says), ("b", says), ("c", says)]);
}

#[test]
fn nobody_is_elected_over_a_corrupt_term_until_it_is_repaired() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let (leader, epoch) = (cluster.leader(), cluster.store.term().epoch);
    let other = cluster.others(&[&leader])[0].clone();
    let token = cluster.register(&other, "desk");
    let key = cluster.store.keys.term();
    let good = cluster.store.value(key.clone()).unwrap();
    cluster.store.put(key.clone(), b"\x07no record".to_vec());
    cluster.kill(&leader);
    eventually("the leader is proven dead", TEST_DEADLINE, || {
        let session = cluster.store.session(&leader).unwrap();
        if session.open { Err(format!("{session:?}")) } else { Ok(()) }
    });
    let body = serde_json::json!({"name": "chair", "wait_ms": 3000});
    let refused = cluster.node(&other).client.post("/register", &body);
    assert!(["no_leader", "unknown"].contains(&refused.code()), "{refused:?}");
    assert_eq!(cluster.store.value(key.clone()).as_deref(), Some(&b"\x07no record"[..]));
    cluster.store.put(key, good);
    cluster.wait_until_ready();
    assert!(cluster.store.term().epoch > epoch && cluster.leader() != leader);
    let found = cluster.node(&other).client.whereis_consistent("desk").ok();
    assert_eq!(found["token"].as_u64(), Some(token), "{found}");
    cluster.register(&other, "chair");
    cluster.no_session_was_lost();
    cluster.check();
}

#[test]
fn a_corrupt_member_row_is_noticed_and_all_goes_on_once_it_is_repaired() {
    let says = "a record has schema 7";
    let key = |store: &StoreView| store.keys.member(&NodeName::new("c").unwrap());
    corrupt_record(key, &[("a", says), ("b", says), ("c", says)]);
}

#[test]
fn a_corrupt_session_is_not_a_closed_one_and_all_goes_on_once_it_is_repaired() {
    let key = |store: &StoreView| store.cluster.session(&NodeName::new("c").unwrap());
    corrupt_record(
        key,
        &[
            ("a", "the session record of c cannot"),
            ("b", "the session record of c cannot"),
            ("c", "this node's session record cannot"),
        ],
    );
}
