//! `callsign bench`: what it counts, apart from what it times.

use std::process::Command;

use callsign_tests::callsign;
use serde_json::Value;

fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(callsign()).args(["bench", "--json"]).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn each_name_is_started_once_and_moves_whole_and_a_broadcast_reaches_all_members() {
    let figures = bench(&["--names-api", "--names", "1000"]);
    let starts = &figures["starts"];
    assert_eq!((&starts["spawned"], &starts["callers"]), (&10.into(), &21.into()), "{figures}");
    let groups = &figures["groups"];
    assert_eq!(groups["members"], 100, "{figures}");
    // The bench waits until all of them have heard it.
    let took = ["broadcast_p50_ms", "broadcast_heard_p50_ms"].map(|key| groups[key].as_f64());
    assert!(took.iter().all(|took| took.is_some_and(|took| took > 0.0)), "{figures}");
    let moves = &figures["moves"];
    assert_eq!((&moves["moved_names"], &moves["held_elsewhere"]), (&10.into(), &10.into()), "{figures}");
    assert_eq!(moves["found_free"], 0, "{figures}");
    let watches = &figures["watches"];
    assert!(watches["with_10_watches_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{figures}");
    let unwatched = &figures["unwatched"]["after_the_last_watch_ratio"];
    assert!(unwatched.as_f64().is_some_and(|ratio| ratio > 0.0), "{figures}");
}

#[test]
fn each_name_has_an_actor_and_all_names_are_freed_however_many_callers_ask() {
    let figures = bench(&["--load", "--names", "1001", "--callers", "1,20", "--nodes", "4", "--idle", "1"]);
    assert_eq!(
        (&figures["names"], &figures["nodes"], &figures["workers"]),
        (&1001.into(), &4.into(), &3.into())
    );
    let callers = figures["callers"].as_array().unwrap();
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap();
    assert_eq!(callers.iter().map(|of| number(of, "callers")).collect::<Vec<_>>(), [1.0, 20.0], "{figures}");
    for of in callers {
        assert_eq!(of["names"], 1001, "{figures}");
        let [middle, tail, longest] =
            ["register_p50_us", "register_p99_us", "register_longest_us"].map(|key| number(of, key));
        assert!(0.0 < middle && middle <= tail && tail <= longest, "{figures}");
        assert!(
            number(of, "registrations_per_s") > 0.0 && number(of, "unregistrations_per_s") > 0.0,
            "{figures}"
        );
        assert!(number(of, "cpu_us_per_registration") > 0.0, "{figures}");
        assert!(number(of, "cpu_us_per_unregistration") > 0.0, "{figures}");
        assert!((0.0..=1.1).contains(&number(of, "commits_per_registration")), "{figures}");
        // The file of the store is read and written, and threads wait for it.
        for key in ["system_calls_per_registration", "switches_per_registration"] {
            assert!(number(of, key) > 0.0, "{key}: {figures}");
        }
    }
    // One that waits for another is in the same batch as others.
    let commits = |at: usize| number(&callers[at], "commits_per_registration");
    assert!(0.0 < commits(1) && commits(1) < commits(0), "{figures}");
    let reads = figures["reads"].as_array().unwrap();
    let of = |read: &Value| (read["place"].clone(), number(read, "names"), number(read, "threads"));
    let places = ["local", "remote"].map(Value::from);
    let expected: Vec<_> = places
        .iter()
        .flat_map(|place| [1001.0, 1000.0, 1.0].map(|names| (place, names)))
        .flat_map(|(place, names)| [1.0, 2.0].map(|threads| (place.clone(), names, threads)))
        .collect();
    assert_eq!(reads.iter().map(of).collect::<Vec<_>>(), expected, "{figures}");
    for read in reads {
        let times = ["lookup_ns", "whereis_ns", "dashmap_get_ns"].map(|key| number(read, key));
        assert!(times.iter().all(|time| *time > 0.0), "{figures}");
    }
    let memory = &figures["memory"];
    let holder = number(memory, "holder_bytes_per_name");
    assert!(number(memory, "holder_with_actor_bytes_per_name") > holder, "an actor needs memory: {figures}");
    let disturbed = &figures["disturbed"];
    assert_eq!(
        (&disturbed["ended_actors"], &disturbed["lost_names"]),
        (&500.into(), &500.into()),
        "{figures}"
    );
    for key in ["join_ms", "ends_freed_ms", "death_freed_ms", "join_longest_wait_ms", "death_longest_wait_ms"]
    {
        assert!(number(disturbed, key) > 0.0, "{key}: {figures}");
    }
    for key in ["join_registrations", "death_registrations"] {
        assert!(number(disturbed, key) > 1.0, "{key}: {figures}");
    }
    for what in ["join", "death"] {
        let [p9999, longest] =
            ["p9999_ms", "longest_wait_ms"].map(|key| number(disturbed, &format!("{what}_{key}")));
        assert!(0.0 < p9999 && p9999 <= longest, "{what}: {figures}");
    }
    let idle = &figures["idle"];
    assert_eq!(idle["seconds"], 1, "{figures}");
    let [each, most] = ["idle_cpu_percent", "idle_cpu_percent_most"].map(|key| number(idle, key));
    assert!(0.0 < each && each <= most, "{figures}");
}
