//! P1: at most one actor holds a name, whatever stops for however long.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use callsign_tests::{Cluster, StartOptions, eventually};
use serde_json::Value;

/// S: short, so that outliving it takes a short time.
const LEASE: Duration = Duration::from_secs(3);

const NAMES: usize = 10;

/// Asks a node that is stopped what it holds: it answers as soon as it goes on.
fn ask_ahead(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!("GET /held HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> Value {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).unwrap()
}

fn stopped_for_longer_than_its_lease(leads: bool) {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let leader = cluster.leader();
    let stopped = if leads { leader } else { cluster.others(&[&leader])[0].clone() };
    let others = cluster.others(&[&stopped]);
    let old: Vec<_> = (0..NAMES).map(|i| cluster.register(&stopped, &format!("desk-{i}"))).collect();
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    let session = cluster.node(&stopped).life.session();

    cluster.stop_outside_a_commit(&stopped);
    eventually("the session of the stopped node is closed", Duration::from_secs(20), || {
        let record = cluster.store.session(&stopped).unwrap();
        if record.open { Err(format!("{record:?}")) } else { Ok(()) }
    });
    let asked: Vec<_> = (0..5).map(|_| ask_ahead(cluster.node(&stopped).client.address())).collect();
    let new: Vec<_> = (0..NAMES).map(|i| cluster.register(&others[i % 2], &format!("desk-{i}"))).collect();
    assert!(old.iter().zip(&new).all(|(old, new)| new > old), "{old:?} {new:?}");
    let late = Instant::now();
    let asked = asked.into_iter().chain((0..5).map(|_| ask_ahead(cluster.node(&stopped).client.address())));
    let asked: Vec<_> = asked.collect();
    cluster.wait_for_registrations(30);

    cluster.node(&stopped).go_on();
    for stream in asked {
        let body = answer(stream);
        // All names that it held are others' by now, so every check must fail, also the first.
        for held in body["held"].as_array().unwrap() {
            let token = held["token"].as_u64().unwrap();
            assert!(held["trusted"] == false || token > new[0], "it trusts an old registration: {held}");
        }
        cluster.note_held(&stopped, late, body);
    }
    cluster.wait_until_ready();
    let now = cluster.store.open_session(&stopped, cluster.node(&stopped).ready.incarnation).unwrap();
    assert!(now.0 > session, "session {now} follows {session}");
    for (i, token) in new.iter().enumerate() {
        let found = cluster.node(&stopped).client.whereis_consistent(&format!("desk-{i}")).ok();
        assert_eq!(found["token"].as_u64(), Some(*token), "{found}");
    }
    cluster.wait_for_registrations(30);
    load.finish();
    let forgive = cluster.with_lost_sessions();
    assert!(forgive.only(cluster.node(&stopped).ready.incarnation), "others lost their sessions, too");
    cluster.check_but(&forgive);
    cluster.check_recordings();
}

#[test]
fn a_leader_stopped_for_longer_than_its_lease_holds_nothing_when_it_goes_on() {
    stopped_for_longer_than_its_lease(true);
}

#[test]
fn a_follower_stopped_for_longer_than_its_lease_holds_nothing_when_it_goes_on() {
    stopped_for_longer_than_its_lease(false);
}

#[test]
fn sessions_that_lapse_because_nobody_can_write_grant_nothing_twice() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    if !cluster.store.can_lock() {
        return println!("skipped: nothing locks this store for writing");
    }
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(30);
    let locked = cluster.store.try_lock();
    let locked = locked.unwrap_or_else(|| cluster.lock_the_store());
    for name in cluster.names() {
        eventually("the session lapses", LEASE * 4, || {
            let body = cluster.node(&name).client.get("/held", &[]).result()?;
            let held = body["held"].as_array().cloned().unwrap_or_default();
            let trusts = held.iter().any(|held| held["trusted"] == true);
            if trusts || held.is_empty() { Err(format!("{name}: {body}")) } else { Ok(()) }
        });
        // Checks ask the clock; reads say so from the moment at which the node has noticed.
        eventually("a read that may be old says so", LEASE, || {
            let refused = cluster.node(&name).client.whereis("contested-0");
            if refused.code() == "lapsed" { Ok(()) } else { Err(format!("{refused:?}")) }
        });
    }
    drop(locked);
    cluster.wait_until_ready();
    cluster.wait_for_registrations(30);
    load.finish();
    cluster.check_but(&cluster.with_lost_sessions());
    cluster.check_recordings();
}
