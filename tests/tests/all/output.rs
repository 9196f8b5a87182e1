//! What commands say, where nobody can hear it: it ends nothing, and holds nothing up.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use callsign_tests::{Client, Cluster, Sink, StartOptions, TEST_DEADLINE, callsign, eventually};

const LEASE: Duration = Duration::from_secs(10);
/// Nodes whose log nobody gets lead, serve, let another one join, and leave in good order.
fn nodes_go_on_without_their_log(log: Sink) {
    let mut cluster = Cluster::start(StartOptions { log, ..StartOptions::lease(LEASE) }, &["a", "b"]);
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(100);
    cluster.launch("c");
    cluster.wait_until_ready();
    cluster.register("c", "desk");
    load.finish();
    let leader = cluster.leader();
    cluster.no_session_was_lost();
    cluster.check();
    for name in [cluster.others(&[&leader])[0].clone(), leader] {
        let stopped = cluster.terminate(&name);
        assert_eq!(stopped.status.and_then(|status| status.code()), Some(0), "{name}: {:?}", stopped.status);
    }
    let left = cluster.leader();
    if log == Sink::Unread {
        // Most of it waits.
        return;
    }
    eventually("what was lost is counted", TEST_DEADLINE, || {
        let client = &cluster.node(&left).client;
        client
            .post("/register-many", &json!({"prefix": "p", "from": 0, "to": 100, "shared": true}))
            .result()?;
        let metrics = client.metrics()?;
        let lost = metrics.lines().find_map(|line| line.strip_prefix("callsign_log_lines_lost_total "));
        let lost: u64 = lost.and_then(|count| count.parse().ok()).unwrap_or_default();
        if lost > 0 { Ok(()) } else { Err(metrics) }
    });
}

#[test]
fn nodes_whose_log_reader_is_gone_go_on() {
    nodes_go_on_without_their_log(Sink::Gone);
}

#[test]
fn nodes_whose_log_disk_is_full_go_on() {
    nodes_go_on_without_their_log(Sink::FullDisk);
}

#[test]
fn nodes_whose_log_nobody_reads_go_on() {
    nodes_go_on_without_their_log(Sink::Unread);
}

/// A loopback address that no other test has.
fn own_address(nth: u8) -> SocketAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 1 + nth, high, low], 7080))
}

#[test]
fn a_node_whose_ready_line_nobody_gets_serves_and_leaves() {
    for (nth, sink) in (0..).zip([Sink::Gone, Sink::FullDisk, Sink::Unread]) {
        let admin = own_address(nth);
        let (out, _unread) = sink.open("unused".as_ref());
        let mut node = Command::new(callsign())
            .args(["node", "--name", "a", "--store", "memory:", "--admin", &admin.to_string()])
            .env("CALLSIGN_PARENT", std::process::id().to_string())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let client = Client::new(&format!("http://{admin}"));
        eventually("it serves", TEST_DEADLINE, || client.register("desk").result());
        client.post("/leave", &json!({})).ok();
        let status = node.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{sink:?}: {status:?}");
    }
}

/// What a node logs that is alone, serves, and leaves.
fn log_of_a_node(nth: u8, options: &[&str]) -> String {
    let admin = own_address(nth);
    let node = Command::new(callsign())
        .args(["node", "--name", "a", "--store", "memory:", "--admin", &admin.to_string(), "--log", "info"])
        .args(options)
        .env("CALLSIGN_PARENT", std::process::id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let client = Client::new(&format!("http://{admin}"));
    eventually("it serves", TEST_DEADLINE, || client.register("desk").result());
    client.post("/leave", &json!({})).ok();
    let output = node.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}

const SAID_IN_ORDER: [&str; 4] = [
    "session a#1 is open",
    "a joined; a is elected",
    "a leads, epoch 1",
    "the node has left, and its session is closed",
];

#[test]
fn a_node_logs_sentences() {
    let log = log_of_a_node(10, &[]);
    let mut lines = log.lines();
    for said in SAID_IN_ORDER {
        assert!(lines.any(|line| line.contains(said)), "{said}: {log}");
    }
    assert!(!log.contains("WARN"), "nothing is wrong with a node that leaves: {log}");
    for dump in ["SessionId", "Epoch(", "Actor{", "callsign_elector::"] {
        assert!(!log.contains(dump), "{dump}: {log}");
    }
}

#[test]
fn a_node_logs_objects_where_it_is_told_to() {
    let log = log_of_a_node(11, &["--log-format", "json"]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let mut left = lines.iter();
    for said in SAID_IN_ORDER {
        assert!(left.any(|line| line["message"] == said), "{said}: {log}");
    }
    let first = lines.iter().find(|line| line["message"] == "a leads, epoch 1").unwrap();
    assert_eq!((&first["level"], &first["node"]), (&json!("INFO"), &json!("a")), "{first}");
    assert!(first["timestamp"].is_string() && first["target"].is_string(), "{first}");
    let said = |begin: &str| {
        let is_it = |line: &&Value| line["message"].as_str().is_some_and(|said| said.starts_with(begin));
        lines.iter().find(is_it).unwrap_or_else(|| panic!("{begin}: {log}"))
    };
    let of_the_session = said("session a#1 is open");
    assert_eq!(of_the_session["node"], "a", "{of_the_session}");
    let of_the_member = said("this node serves as the leader of epoch 1");
    for line in [said("a joined"), of_the_member] {
        assert_eq!((&line["registry"], &line["node"]), (&json!("default"), &json!("a")), "{line}");
        assert!(line["epoch"].is_u64() && line["position"].is_u64(), "{line}");
    }
    assert_eq!(of_the_member["epoch"], 1, "{of_the_member}");
}

#[test]
fn a_node_and_who_asks_it_take_their_options_from_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("callsign.toml");
    let store = format!("sqlite:{}", directory.path().join("x.db").display());
    let text = format!(
        "store = {store:?}\ncluster = \"of-a-file\"\n[node]\nname = \"a\"\nadmin = \"127.0.0.1:0\"\nprint-json = true\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut node = Command::new(callsign())
        .args(["--config", file.to_str().unwrap(), "node"])
        .env("CALLSIGN_PARENT", std::process::id().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&ready["node"], &ready["cluster"]), (&json!("a"), &json!("of-a-file")));
    let ask = |options: &[&str], environment: Option<&str>| {
        let mut command = Command::new(callsign());
        command.args(options).env_remove("CALLSIGN_NODE").env_remove("CALLSIGN_STORE");
        command.envs(environment.map(|file| ("CALLSIGN_CONFIG", file)));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    // The node says where it listens before its row is in the store, by which it is found.
    let status = eventually("the node is found by the store", TEST_DEADLINE, || {
        let (code, status) = ask(&["status", "--json"], file.to_str());
        if code == Some(0) { Ok(status) } else { Err(status) }
    });
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["node"], "a");
    let (code, printed) = ask(&["node", "--print-config", "--name", "b"], file.to_str());
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("name = \"b\"\n") && printed.contains("cluster = \"of-a-file\"\n"), "{printed}");
    let (code, said) = ask(&["--config", "/nowhere/x.toml", "ls"], None);
    assert!(code == Some(2) && said.contains("/nowhere/x.toml: it cannot be read"), "{said}");

    Client::new(ready["admin"].as_str().unwrap()).post("/leave", &json!({})).ok();
    assert_eq!(node.wait().unwrap().code(), Some(0));
}

#[test]
fn a_shell_and_man_are_told_of_every_command() {
    let run = |arguments: &[&str]| {
        let output = Command::new(callsign()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script) = run(&["completions", shell]);
        assert!(code == Some(0) && script.contains("unregister"), "{shell}: {script}");
        assert!(!script.contains("bench-node"), "{shell}: commands that are not for people are hidden");
    }
    assert_eq!(run(&["completions", "tcsh"]).0, Some(2));
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    assert_eq!(run(&["man", pages.to_str().unwrap()]).0, Some(0));
    let page = std::fs::read_to_string(pages.join("callsign-wipe.1")).unwrap();
    assert!(page.contains("There is no way back"), "{page}");
    assert!(pages.join("callsign.1").exists() && !pages.join("callsign-bench-node.1").exists());
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(run(&["man", file.to_str().unwrap()]).0, Some(1), "no directory");
}

#[test]
fn what_was_started_by_a_process_that_has_ended_does_nothing() {
    // The one that runs it has another number.
    let output =
        Command::new(callsign()).args(["completions", "bash"]).env("CALLSIGN_PARENT", "0").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("the process that started this one has ended"), "{said}");
}

/// Runs a command with its standard output and standard error going there. Says how it ended, and what it said on standard
/// error if that was heard.
fn said_to(out: Sink, err: Option<Sink>, arguments: &[&str]) -> (ExitStatus, String) {
    let (out, _unread) = out.open("unused".as_ref());
    let (err, _unread) = match err {
        Some(err) => err.open("unused".as_ref()),
        None => (Stdio::piped(), None),
    };
    let child = Command::new(callsign())
        .args(arguments)
        .env("CALLSIGN_PARENT", std::process::id().to_string())
        .env_remove("CALLSIGN_SECRET")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_command_whose_reader_is_gone_ends_quietly_with_the_status_of_its_answer() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let node = format!("http://{}", cluster.node("a").client.address());
    let node = node.as_str();
    cluster.register("a", "taken");
    let url = cluster.place.url.clone();
    for (arguments, status) in [
        (&["register", "desk", "--node", node][..], 0),
        (&["register", "desk", "--node", node, "--json"], 0),
        (&["whereis", "desk", "--node", node], 0),
        (&["whereis", "nobody", "--node", node, "--json"], 1),
        (&["call", "desk", "hello", "--node", node], 0),
        (&["ls", "--node", node], 0),
        (&["members", "--node", node], 0),
        (&["status", "--node", node], 0),
        (&["unregister", "desk", "--node", node], 0),
        (&["doctor", "--store", &url], 0),
        (&["doctor", "--store", "mysql:there", "--json"], 2),
        (&["wipe", "--store", &url, "--registry", "none", "--json"], 1),
        (&["status", "--node", "127.0.0.1:1", "--json"], 3),
        (&["--help"], 0),
        (&["--version"], 0),
    ] {
        let (ended, said) = said_to(Sink::Gone, None, arguments);
        assert_eq!(ended.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.is_empty() || status != 0, "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}

#[test]
fn what_was_done_stays_done_although_the_answer_finds_no_room() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let client = &cluster.node("a").client;
    let node = format!("http://{}", client.address());
    let node = node.as_str();
    let (ended, said) = said_to(Sink::FullDisk, None, &["register", "desk", "--node", node]);
    assert_eq!(ended.code(), Some(0), "the name was granted: {said}");
    assert!(said.contains("could not be printed") && said.contains("No space left"), "{said}");
    assert_eq!(client.whereis("desk").code(), "ok");
    // Who only asked has no answer.
    for arguments in [&["ls", "--node", node][..], &["whereis", "desk", "--node", node, "--json"]] {
        let (ended, said) = said_to(Sink::FullDisk, None, arguments);
        assert_eq!(ended.code(), Some(3), "{arguments:?}: {said}");
        assert!(said.contains("could not be printed"), "{arguments:?}: {said}");
    }
    let (ended, said) = said_to(Sink::FullDisk, None, &["unregister", "desk", "--node", node]);
    assert_eq!(ended.code(), Some(0), "{said}");
    assert_eq!(client.whereis("desk").code(), "not_found");
}

#[test]
fn a_command_that_can_say_nothing_at_all_still_ends_with_its_status() {
    for sink in [Sink::Gone, Sink::FullDisk] {
        for (arguments, status) in [
            (&["status", "--node", "127.0.0.1:1"][..], 3),
            (&["status", "--node", "nonsense"], 2),
            (&["ls", "--meta", "hosts=a,b", "--node", "127.0.0.1:1"], 2),
            (&["node", "--name", "a b", "--store", "memory:"], 2),
            (&["node", "--name", "a", "--store", "sqlite:/nowhere/at/all.db"], 1),
            (&["doctor", "--store", "mysql:there"], 2),
            (&["wipe", "--store", "sqlite:/nowhere/at/all.db", "--registry", "r"], 1),
            (&["run", "--singleton", "x", "--", "/no/such/program"], 2),
            (&["run", "--singleton", "x", "--store", "sqlite:/nowhere/at/all.db", "--", "true"], 1),
        ] {
            let (ended, _) = said_to(sink, Some(sink), arguments);
            assert_eq!(ended.code(), Some(status), "{sink:?} {arguments:?}: {:?}", ended.signal());
        }
    }
}
