//! P3: what was acknowledged is kept, whoever dies. Clients are at work all the time, and the history is judged.

use std::time::Duration;

use callsign_tests::{Cluster, StartOptions, eventually};

/// Long enough that no session of the living lapses while processes die and the machine is busy.
const LEASE: Duration = Duration::from_secs(10);

/// How many registrations make a steady load: some for every name.
const SOME: u64 = 60;

#[test]
fn no_name_of_the_living_is_lost_when_the_leader_is_killed() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(SOME);
    let leader = cluster.leader();
    cluster.kill(&leader);
    cluster.wait_for_registrations(SOME);
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
    assert_ne!(cluster.leader(), leader);
    cluster.check_recordings();
}

#[test]
fn no_name_of_the_living_is_lost_when_a_follower_is_killed_and_the_leader_stays() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(SOME);
    let (leader, epoch) = (cluster.leader(), cluster.store.term().epoch);
    let follower = cluster.others(&[&leader])[0].clone();
    cluster.kill(&follower);
    cluster.wait_for_registrations(SOME);
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
    assert_eq!((cluster.leader(), cluster.store.term().epoch), (leader, epoch));
    cluster.check_recordings();
}

#[test]
fn a_node_that_is_killed_and_started_again_has_every_name_of_the_others() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(SOME);
    let leader = cluster.leader();
    for name in [cluster.others(&[&leader])[0].clone(), leader] {
        let former = cluster.node(&name).ready.incarnation;
        // Killed, and started at once under the same name, with an empty replica.
        cluster.launch(&name);
        assert_ne!(cluster.node(&name).ready.incarnation, former);
        cluster.wait_until_ready();
        cluster.wait_for_registrations(SOME);
    }
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
    cluster.check_recordings();
}

#[test]
fn a_node_that_dies_ten_times_in_a_row_costs_the_others_nothing() {
    // Where no death is proven, each one is waited for as long as a lease.
    let mut cluster = Cluster::start(StartOptions::lease(LEASE / 2), &["a", "b", "c"]);
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(SOME);
    for _ in 0..10 {
        cluster.launch("b");
        cluster.wait_for_registrations(10);
    }
    cluster.wait_until_ready();
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
    cluster.check_recordings();
}

#[test]
fn a_store_that_another_program_writes_to_for_5_s_costs_no_session_and_no_name() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    if !cluster.store.can_lock() {
        return println!("skipped: nobody can keep all others from writing to this store");
    }
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(SOME);
    cluster.hold_the_store(Duration::from_secs(5));
    cluster.wait_for_registrations(SOME);
    load.finish();
    cluster.no_session_was_lost();
    cluster.check();
    cluster.check_recordings();
}

#[test]
fn a_node_that_leaves_has_closed_its_session_and_its_names_are_free_at_once() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b", "c"]);
    let leader = cluster.leader();
    let token = cluster.register(&leader, "desk");
    let (load, _sampler) = cluster.load();
    cluster.wait_for_registrations(SOME);
    let ended = cluster.terminate(&leader);
    assert!(ended.status.is_some_and(|status| status.success()), "{}", ended.log);
    let session = cluster.store.session(&leader).expect("the record of a closed session stays");
    assert!(!session.open, "it has left, and its session is open: {session:?}");
    let other = cluster.names()[0].clone();
    // The lease is 10 s; nobody had to wait for it.
    eventually("the names of a node that left are free", LEASE / 2, || {
        cluster.node(&other).client.register("desk").result()
    });
    let now = cluster.register(&other, "desk");
    assert!(now > token, "{now} is not greater than {token}");
    load.finish();
    cluster.check();
    cluster.check_recordings();
}
