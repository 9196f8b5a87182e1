//! A store that goes back behind what it acknowledged, under running nodes: a file restored in place, a database whose data are put
//! back, a primary that is lost while its standby lags. Nobody intervenes, and the cluster serves again.

use std::time::{Duration, Instant};

use callsign_elector::{lineage::LineageNumber, record::Lineage};
use callsign_store::record::Record;
use callsign_tests::{Cluster, StartOptions, TestStore, eventually};

/// A node that was not trusted for two leases raises no lineage: the store must be back before.
const LEASE: Duration = Duration::from_secs(5);
/// What is promised.
const RECOVERY: Duration = LEASE.saturating_add(Duration::from_secs(5));
/// The same with room for a loaded machine.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(60);
/// What a database says that has fewer commits than it had.
const COMMITS_LOST: &str = "the database has lost commits";

fn options() -> StartOptions {
    StartOptions::lease(LEASE)
}

fn lineage(cluster: &Cluster) -> u64 {
    let value = cluster.store.value(cluster.store.cluster.lineage());
    let id = value.map(|value| Lineage::from_value(&value).unwrap().id).unwrap_or_default();
    let LineageNumber(number) = id.number;
    number
}

/// Three nodes over a store that goes back between two registrations.
fn a_store_goes_back(
    cluster: &mut Cluster,
    save: impl FnOnce(&mut Cluster),
    put_back: impl FnOnce(&mut Cluster),
) -> Duration {
    cluster.register("a", "early");
    save(cluster);
    cluster.wait_until_ready();
    let mut late = cluster.register("b", "late");
    for name in cluster.names() {
        eventually("the name everywhere", RECOVERY_DEADLINE, || {
            cluster.node(&name).client.whereis("late").result()
        });
    }
    // Beats, too, are lost, and more names.
    let until = Instant::now() + LEASE / 2;
    for (n, name) in cluster.names().iter().cycle().enumerate() {
        late = late.max(cluster.register(name, &format!("late-{n}")));
        std::thread::sleep(LEASE / 50);
        if Instant::now() > until {
            break;
        }
    }
    let epoch = cluster.store.term().epoch;
    put_back(cluster);
    let begun = Instant::now();
    let took = served_again(cluster, late, begun);
    let now = cluster.store.term().epoch;
    assert!(now > epoch, "{now:?} after {epoch:?}");
    what_was_lost_is_said(cluster);
    took
}

/// Nobody has a name any more, new ones are granted with greater tokens, and nobody intervened.
fn served_again(cluster: &Cluster, late: u64, begun: Instant) -> Duration {
    eventually("the lineage is raised", RECOVERY_DEADLINE, || {
        if lineage(cluster) == 1 { Ok(()) } else { Err("it is not".to_owned()) }
    });
    cluster.wait_until_ready();
    let took = begun.elapsed();
    println!("served again {took:?} after the loss");
    for name in cluster.names() {
        for lost in ["early", "late", "late-0"] {
            // A node that has not noticed the loss yet says that it is ready.
            eventually("nobody has what was lost", RECOVERY_DEADLINE, || {
                match cluster.node(&name).client.whereis_consistent(lost).code() {
                    "not_found" => Ok(()),
                    code => Err(format!("{lost} on {name}: {code}")),
                }
            });
        }
    }
    cluster.wait_until_ready();
    let mut last = late;
    for name in cluster.names() {
        let again = cluster.register(&name, &format!("late-of-{name}"));
        assert!(again > last && again > 1 << 40, "{again} after {last}, on {name}");
        last = again;
    }
    assert_eq!(lineage(cluster), 1, "it was noticed once");
    took
}

/// Every node has an event and an error of it, and whoever noticed it says which keys showed it.
fn what_was_lost_is_said(cluster: &Cluster) {
    let mut shown = 0;
    for name in cluster.names() {
        let counted = cluster.node(&name).client.metrics().unwrap();
        let mut samples = counted.lines().filter(|line| !line.starts_with('#'));
        let line = samples.find(|line| line.contains("store_went_back"));
        assert!(line.is_some_and(|line| line.ends_with(" 1")), "{name}: {line:?}");
        let log = cluster.node(&name).log();
        let is_error = |line: &&str| line.contains("ERROR") && line.contains("the store went back");
        let lines: Vec<_> = log.lines().filter(is_error).collect();
        let [line] = lines.as_slice() else { panic!("{name} says it once: {lines:?}") };
        assert!(line.contains("All names of the cluster are lost"), "{line}");
        shown += usize::from(line.contains("these keys show it: "));
    }
    assert!(shown > 0, "nobody says what showed it");
}

/// Somebody says how many commits are lost, as an error.
fn lost_commits_are_counted(cluster: &Cluster) {
    let logs: Vec<_> = cluster.names().iter().map(|name| cluster.node(name).log()).collect();
    let is_error = |line: &&str| line.contains("ERROR") && line.contains(COMMITS_LOST);
    let line = logs.iter().flat_map(|log| log.lines()).find(is_error);
    let line = line.unwrap_or_else(|| panic!("nobody says that {COMMITS_LOST}"));
    let number = |field: &str| -> u64 {
        let (_, rest) = line.split_once(field).unwrap_or_else(|| panic!("{field} in {line}"));
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    assert!(number("after=") < number("before="), "{line}");
}

#[test]
fn a_file_that_is_restored_in_place_stops_nobody_for_ever() {
    let files = tempfile::tempdir().unwrap();
    let place = TestStore::file(files.path());
    let (backup, path) = (files.path().join("backup.db"), files.path().join("store.db"));
    let mut cluster = Cluster::start_over(place, options(), &["a", "b", "c"]);
    let open = || {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.busy_timeout(RECOVERY_DEADLINE).unwrap();
        connection
    };
    a_store_goes_back(
        &mut cluster,
        |_| {
            open().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
        },
        |_| {
            let restore = "
                BEGIN IMMEDIATE;
                DELETE FROM kv; INSERT INTO kv SELECT * FROM backup.kv;
                DELETE FROM clears; INSERT INTO clears SELECT * FROM backup.clears;
                DELETE FROM counter; INSERT INTO counter SELECT * FROM backup.counter;
                COMMIT";
            let connection = open();
            connection.execute("ATTACH ?1 AS backup", [backup.to_str().unwrap()]).unwrap();
            connection.execute_batch(restore).unwrap();
        },
    );
}

#[test]
fn a_database_whose_data_are_put_back_stops_nobody_for_ever() {
    let Some(place) = TestStore::postgres() else { return };
    let mut cluster = Cluster::start_over(place, options(), &["a", "b", "c"]);
    a_store_goes_back(
        &mut cluster,
        |cluster| cluster.place.server().unwrap().save(),
        |cluster| cluster.place.server().unwrap().put_back(),
    );
    lost_commits_are_counted(&cluster);
}

/// What the standby had is there after its promotion, and what it had not is lost; the nodes begin anew all the same, because nobody
/// can tell which of their names are among the lost.
#[test]
fn a_standby_that_lagged_and_is_promoted_stops_nobody_for_ever() {
    let Some(mut place) = TestStore::postgres() else { return };
    place.server().unwrap().replicate();
    let mut cluster = Cluster::start_over(place, options(), &["a", "b", "c"]);
    let took = a_store_goes_back(
        &mut cluster,
        |cluster| cluster.place.server().unwrap().cut_standby_off(),
        |cluster| {
            let there = cluster.place.server().unwrap().fail_over(&["early", "late"]);
            assert_eq!(there, ["early"], "the standby has what was committed before it was cut off");
        },
    );
    lost_commits_are_counted(&cluster);
    assert!(took < RECOVERY, "{took:?}");
}
