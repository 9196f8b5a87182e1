//! A store that is gone for 30 s: lookups go on, writes do as they were told, nobody spins, and all resumes by itself.

use std::time::{Duration, Instant};

use callsign_tests::{Answer, NodeProcess, StartOptions, StoreView, TEST_DEADLINE, TestStore, eventually};
use serde_json::json;

/// Longer than the lease: every session lapses.
const OUTAGE: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(10);
/// What a node may take of a core while nothing can be done, this test's own questions included: 1 %, and ten times as
/// much where it is built without optimisation. Who spins takes all of it.
fn allowance(time: Duration) -> Duration {
    if cfg!(debug_assertions) { time / 10 } else { time / 100 }
}

fn register(node: &NodeProcess, name: &str, wait: Duration) -> Answer {
    let wait = u64::try_from(wait.as_millis()).unwrap();
    node.client.post("/register", &json!({"name": name, "when_lapsed": "tell", "wait_ms": wait}))
}

/// Looks a name up that was there before: found, and, once trust has ended, marked, with what was known last.
fn look_up(node: &NodeProcess) -> bool {
    match node.client.whereis("before") {
        Answer::Ok(_) => false,
        Answer::Refused(body) => {
            assert_eq!(body["error"], "lapsed", "{body}");
            assert!(body["last_known"]["token"].is_u64(), "{body}");
            true
        }
        Answer::None(why) => panic!("no answer: {why}"),
    }
}

/// Two clusters over one store: calls wait in one, and fail in the other.
fn a_store_is_gone_for_30_s(place: &mut TestStore, mut gone: impl FnMut(&mut TestStore, bool)) {
    let logs = tempfile::tempdir().unwrap();
    let url = place.url.clone();
    let start = |(name, launch, policy): (&str, usize, &str)| {
        let mut options = StartOptions::lease(LEASE);
        options.arguments.extend(["--on-outage", policy, "--cluster", policy].map(Into::into));
        NodeProcess::start(name, &url, &options, logs.path(), launch)
            .unwrap_or_else(|stopped| panic!("{name} did not start: {}", stopped.log))
    };
    let mut nodes = [("a", 0, "wait"), ("b", 1, "wait"), ("c", 2, "fail"), ("d", 3, "fail")].map(start);
    for node in [&nodes[0], &nodes[2]] {
        eventually("the first registration", TEST_DEADLINE, || {
            register(node, "before", Duration::from_secs(5)).result()
        });
    }
    for node in &nodes {
        eventually("the name everywhere", TEST_DEADLINE, || node.client.whereis("before").result());
    }

    gone(place, true);
    let (began, cpu) = (Instant::now(), nodes.each_ref().map(NodeProcess::cpu));
    let [waits, _, fails, _] = &nodes;
    // Before anybody has noticed: sent, and so unknown, whatever was configured.
    let sent = register(waits, "sent", Duration::from_secs(1));
    assert_eq!(sent.code(), "unknown", "{sent:?}");
    eventually("those that are to fail do, and at once", TEST_DEADLINE, || {
        let refused = register(fails, "meanwhile", Duration::from_millis(500));
        match refused.code() {
            "store_unavailable" => Ok(()),
            code => {
                assert_eq!(code, "unknown", "{refused:?}");
                Err("it was sent".to_owned())
            }
        }
    });
    let given_up = fails.client.unregister("before");
    assert_eq!(given_up.code(), "store_unavailable", "{given_up:?}");
    for node in &nodes {
        eventually("the end of trust", TEST_DEADLINE, || {
            std::thread::sleep(Duration::from_millis(200));
            if look_up(node) { Ok(()) } else { Err("it is still found".to_owned()) }
        });
    }
    assert!(began.elapsed() < OUTAGE, "it took {:?} until all had lapsed", began.elapsed());
    let waited = register(waits, "waited", Duration::from_secs(1));
    assert_eq!(waited.code(), "store_unavailable", "{waited:?}");

    std::thread::scope(|scope| {
        let patient = scope.spawn(|| register(waits, "patient", Duration::from_secs(39)));
        while began.elapsed() < OUTAGE {
            std::thread::sleep(Duration::from_secs(1).min(OUTAGE.saturating_sub(began.elapsed())));
            assert!(nodes.iter().all(look_up));
        }
        let (lasted, used) = (began.elapsed(), nodes.each_ref().map(NodeProcess::cpu));
        for (node, (before, after)) in nodes.iter().zip(cpu.into_iter().zip(used)) {
            let took = after.saturating_sub(before);
            println!("{}: {took:?} of a processor in {lasted:?}", node.life.node);
            assert!(took <= allowance(lasted), "{} spins: {took:?}", node.life.node);
        }
        gone(place, false);
        let answer = patient.join().unwrap();
        assert_eq!(answer.code(), "ok", "it has waited for the end of the outage: {answer:?}");
    });
    for node in &nodes {
        let name = format!("after-{}", node.ready.incarnation);
        eventually("a registration after the outage", TEST_DEADLINE, || node.client.register(&name).result());
        eventually("the name is found as before", TEST_DEADLINE, || node.client.whereis("before").result());
    }
    // Whoever asks again finds out.
    eventually("what was unknown is held", TEST_DEADLINE, || nodes[0].client.register("sent").result());
    for node in &mut nodes {
        assert!(node.is_running());
        let stopped = node.terminate();
        assert!(stopped.status.is_some_and(|status| status.success()), "{}", stopped.log);
        assert!(!stopped.log.contains("panicked"), "{}", stopped.log);
    }
}

#[test]
fn a_postgres_server_that_is_gone_for_30_s() {
    let Some(mut place) = TestStore::postgres() else { return };
    a_store_is_gone_for_30_s(&mut place, |place, gone| {
        let server = place.server().expect("a private one");
        if gone { server.stop() } else { server.resume() }
    });
}

#[test]
fn three_etcd_servers_that_are_gone_for_30_s() {
    let Some(mut place) = TestStore::etcd() else { return };
    a_store_is_gone_for_30_s(&mut place, |place, gone| {
        let servers = place.etcd_servers().expect("private ones");
        if gone { servers.stop() } else { servers.resume_all() }
    });
}

#[test]
fn a_file_that_is_locked_for_30_s() {
    let files = tempfile::tempdir().unwrap();
    let mut place = TestStore::file(files.path());
    let view = StoreView::open(&place);
    let mut held = Vec::new();
    a_store_is_gone_for_30_s(&mut place, move |_, gone| {
        if gone {
            held.push(eventually("the file is locked", TEST_DEADLINE, || {
                view.try_lock().ok_or("others write".to_owned())
            }));
        } else {
            held.clear();
        }
    });
}
