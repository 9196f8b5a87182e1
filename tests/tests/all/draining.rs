//! Nodes that are asked to end hand over what they lead, say whom to ask, and free their names last.

use std::{
    io::Write,
    net::TcpStream,
    process::{Command, Output},
    time::{Duration, Instant},
};

use callsign_tests::{Cluster, StartOptions, callsign, eventually};
use serde_json::json;

/// Long enough that nothing that is waited for here is the end of a lease.
const LEASE: Duration = Duration::from_secs(10);

/// What a node that is asked to end may take at the most: it drains (5 s), and leaves (8 s); 2 s more if its member hangs.
const LEAVING: Duration = Duration::from_secs(15);

#[test]
fn a_rolling_restart_of_five_nodes_loses_no_name_and_fails_no_request_that_is_retried_once() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c", "d", "e"]);
    let load = cluster.retrying();
    let enough = |load: &callsign_tests::Retrying, more: usize| {
        let wanted = load.fared.registered() + more;
        eventually("registrations go on", LEASE * 3, || {
            if load.fared.registered() >= wanted { Ok(()) } else { Err(load.fared.to_string()) }
        });
    };
    enough(&load, 50);
    // The leader of the moment is the first and, with luck, the last one, too: each hand-over is by somebody under load.
    let mut order = cluster.names();
    let leader = cluster.leader();
    order.sort_by_key(|name| *name != leader);
    for name in order {
        let led = cluster.leader() == name;
        let from = Instant::now();
        let ended = cluster.terminate(&name);
        let took = from.elapsed();
        assert!(ended.status.is_some_and(|status| status.success()), "{name}: {}", ended.log);
        let session = cluster.store.session(&name).expect("the record of a closed session stays");
        assert!(!session.open, "{name} has left, and its session is open: {session:?}");
        enough(&load, 10);
        let (gone, gap) = (Instant::now(), load.fared.longest_gap(from, Instant::now()));
        cluster.launch(&name);
        cluster.wait_until_ready();
        let joining = load.fared.longest_gap(gone, Instant::now());
        println!(
            "{name}{}: left within {took:?}; the longest time without an acknowledged registration: {gap:?} while it left, \
             {joining:?} while it came back",
            if led { " (led)" } else { "" }
        );
        enough(&load, 10);
    }
    let fared = load.finish();
    println!("{fared}");
    cluster.no_session_was_lost();
    cluster.check();
    cluster.check_recordings();
}

#[test]
fn a_leader_that_drains_is_followed_at_once_says_whom_to_ask_and_holds_its_names_until_it_leaves() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let leader = cluster.leader();
    let token = cluster.register(&leader, "desk");
    let (client, life) = (cluster.node(&leader).client.clone(), cluster.node(&leader).life.clone());
    let begun = Instant::now();
    let drained = client.post("/drain", &json!({})).ok();
    assert_eq!(drained["drained"], "led", "{drained}");
    let next = drained["by"].as_str().unwrap().to_owned();
    assert_ne!(next, leader);
    cluster.register(&next, "after");
    let took = begun.elapsed();
    println!("from the request to drain to the first name by the next leader: {took:?}");
    assert!(took < LEASE / 2, "somebody waited for a lease: {took:?}");
    assert_eq!(cluster.leader(), next);

    let refused = client.register("late");
    assert_eq!(refused.code(), "draining", "{refused:?}");
    let callsign_tests::Answer::Refused(body) = refused else { panic!("it was registered") };
    assert_eq!(body["ask"][0]["node"], next.as_str(), "{body}");
    assert_eq!(body["ask"].as_array().map(Vec::len), Some(2), "{body}");
    assert_eq!(client.get("/ready", &[]).code(), "not_ready");
    assert_eq!(client.status().ok()["draining"], true);
    // It holds its names, and answers for them.
    for name in cluster.names() {
        let found = cluster.node(&name).client.whereis_consistent("desk").ok();
        assert_eq!(found["token"].as_u64(), Some(token), "{found}");
    }
    let again = client.register("desk").ok();
    assert_eq!(again["token"].as_u64(), Some(token));
    let session = cluster.store.open_session(&leader, life.incarnation);
    assert_eq!(session.map(|session| session.0), Some(life.session()));
    let others = cluster.others(&[&leader]);
    let members = cluster.node(&others[0]).client.get("/members", &[]).ok();
    let row =
        members["members"].as_array().unwrap().iter().find(|row| row["node"] == leader.as_str()).cloned();
    assert_eq!(row.unwrap()["draining"], true, "{members}");
    // Where it answers requests, and not only where links come in.
    let rows = members["members"].as_array().unwrap();
    let next_row = rows.iter().find(|row| row["node"] == next.as_str()).unwrap();
    assert!(next_row["admin"].is_string(), "{next_row}");
    assert_eq!(body["ask"][0]["admin"], next_row["admin"], "{body}");

    let epoch = cluster.store.term().epoch;
    let ended = cluster.terminate(&leader);
    assert!(ended.status.is_some_and(|status| status.success()), "{}", ended.log);
    assert_eq!(cluster.store.term().epoch, epoch, "nobody had to be elected for that");
    let now = cluster.register(&next, "desk");
    assert!(now > token);
    cluster.check();
    cluster.check_recordings();
}

#[test]
fn five_nodes_that_are_asked_to_end_at_once_end_in_good_order() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c", "d", "e"]);
    for name in cluster.names() {
        cluster.register(&name, &format!("of-{name}"));
    }
    let begun = Instant::now();
    for name in cluster.names() {
        cluster.node(&name).ask_to_end();
    }
    for name in cluster.names() {
        let ended = cluster.node_mut(&name).wait(LEAVING * 2);
        assert!(ended.status.is_some_and(|status| status.success()), "{name}: {}", ended.log);
        assert!(!cluster.store.session(&name).unwrap().open, "{name} has closed its session");
    }
    println!("all five have ended within {:?}", begun.elapsed());
    // They start again, under the same names, with nothing left of before.
    for name in cluster.names() {
        cluster.launch(&name);
    }
    cluster.wait_until_ready();
    cluster.register("a", "of-b");
    cluster.check();
    cluster.check_recordings();
}

/// With a store that takes nothing a node cannot leave in good order; it gives up in time, or at once if it is told to.
#[test]
fn a_store_that_is_gone_keeps_nobody_from_ending_and_a_second_signal_ends_it_at_once() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    if !cluster.store.can_lock() {
        println!("skipped: this store cannot be locked from outside");
        return;
    }
    let mut options = StartOptions::lease(LEASE);
    options.arguments.extend(["--drain-timeout", "60s"].map(Into::into));
    cluster.launch_with("c", &options);
    cluster.wait_until_ready();
    let token = cluster.register("c", "desk");
    // c waits for 60 s when it is to end, the others for 5 s.
    let locked = cluster.lock_the_store();
    let begun = Instant::now();
    cluster.node("c").ask_to_end();
    eventually("it drains", LEASE, || {
        let status = cluster.node("c").client.status().result()?;
        let own = status["members"].as_array().into_iter().flatten().find(|row| row["node"] == "c");
        let why = own.map(|row| row["why_draining"].clone());
        if status["draining"] == true && why == Some(json!("asked_to_leave")) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    cluster.node("b").ask_to_end();
    assert!(cluster.node_mut("c").is_running());
    cluster.node("c").ask_to_end();
    let ended = cluster.node_mut("c").wait(LEASE);
    assert!(ended.status.is_some_and(|status| !status.success()), "{:?} {}", ended.status, ended.log);
    println!("after the second signal c had ended within {:?} of the first", begun.elapsed());
    let ended = cluster.node_mut("b").wait(LEAVING * 2);
    assert!(ended.status.is_some_and(|status| !status.success()), "{:?} {}", ended.status, ended.log);
    println!("b had given up within {:?}", begun.elapsed());
    drop(locked);
    // Whoever is left frees what they held.
    eventually("the name is free", LEASE * 3, || cluster.node("a").client.register("desk").result());
    assert!(cluster.register("a", "desk") > token);
    cluster.check_recordings();
}

/// Asks a node over HTTP to leave, and is gone as soon as it has begun to.
fn tell_to_leave_and_go(cluster: &Cluster, name: &str) {
    let node = cluster.node(name);
    node.life.end();
    let mut stream = TcpStream::connect(node.client.address()).unwrap();
    let request = "POST /leave HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).unwrap();
    eventually("it leaves", LEASE, || match node.client.status().result() {
        Ok(status) if status["draining"] == false => Err(status.to_string()),
        _ => Ok(()),
    });
}

#[test]
fn a_node_that_is_told_to_leave_ends_and_says_how_that_went_though_nobody_waits_for_its_answer() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    tell_to_leave_and_go(&cluster, "b");
    let ended = cluster.node_mut("b").wait(LEAVING * 2);
    assert!(ended.status.is_some_and(|status| status.success()), "{:?} {}", ended.status, ended.log);
    if !cluster.store.can_lock() {
        println!("skipped: this store cannot be locked from outside");
        return;
    }
    let _locked = cluster.lock_the_store();
    tell_to_leave_and_go(&cluster, "c");
    let ended = cluster.node_mut("c").wait(LEAVING * 2);
    assert!(ended.status.is_some_and(|status| !status.success()), "{:?} {}", ended.status, ended.log);
}

fn drain(arguments: &[&str], store: &str) -> Output {
    Command::new(callsign()).arg("drain").args(arguments).env("CALLSIGN_STORE", store).output().unwrap()
}

#[test]
fn a_node_that_is_named_drains_by_a_command_and_none_that_is_not() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    let store = cluster.place.url.clone();
    let refused = drain(&["--cluster", &cluster.place.cluster], &store);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--node"), "{refused:?}");

    let leader = cluster.leader();
    let [other] = &cluster.others(&[&leader])[..] else { panic!("there is one other") };
    let client = &cluster.node(&leader).client;
    client.register("desk").ok();
    let drained = drain(&["--node", client.address(), "--wait", "15s"], &store);
    let said = "leads; one name stays on this node, and is free when it stops";
    assert_eq!(String::from_utf8_lossy(&drained.stdout), format!("drained: {other} {said}\n"), "{drained:?}");
    assert!(drained.status.success());
    let why = |asked: &str| {
        let members = cluster.node(asked).client.get("/members", &[]).ok();
        let rows = members["members"].as_array().unwrap();
        rows.iter().find(|row| row["node"] == leader.as_str()).unwrap()["why_draining"].clone()
    };
    assert_eq!((why(&leader), why(other)), (json!("asked_to_drain"), json!(null)));
    for words in [vec!["members"], vec!["status"]] {
        let words = [&words[..], &["--node", client.address()]].concat();
        let printed = Command::new(callsign()).args(words).output().unwrap();
        assert!(String::from_utf8_lossy(&printed.stdout).contains("yes (asked to drain)"), "{printed:?}");
    }
    // `explain` asks all members, and so has it of each.
    let words = ["explain", "desk", "--node", cluster.node(other).client.address()];
    let explained = Command::new(callsign()).args(words).output().unwrap();
    assert!(String::from_utf8_lossy(&explained.stdout).contains("yes (asked to drain)"), "{explained:?}");
    assert_eq!(client.get("/ready", &[]).code(), "not_ready");
    // It is not to be started anew for that.
    assert_eq!(client.get("/live", &[]).ok()["live"], true);

    let last = drain(&["--node", cluster.node(other).client.address(), "--json"], &store);
    let said: serde_json::Value = serde_json::from_slice(&last.stdout).unwrap();
    assert_eq!(said["drained"], "alone", "whoever drains itself is no successor");
}
