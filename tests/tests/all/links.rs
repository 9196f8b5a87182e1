//! Links of real nodes that are cut: that it is the right ones, that both sides notice, and that they come back.

use std::time::Duration;

use callsign_tests::{Carried, Cluster, StartOptions, StoreLinks, TestStore, eventually};

const LEASE: Duration = Duration::from_secs(10);
/// Beyond the silence after which a link is given up, and the longest wait before it is dialled again.
const NOTICED: Duration = Duration::from_secs(30);

/// To whom a node is linked, as it says itself.
fn linked(cluster: &Cluster, name: &str) -> Result<Vec<String>, String> {
    let status = cluster.node(name).client.status().result()?;
    let members = status["members"].as_array().cloned().unwrap_or_default();
    let linked = members.iter().filter(|member| member["linked"] == true && member["node"] != *name);
    Ok(linked.filter_map(|member| member["node"].as_str().map(str::to_owned)).collect())
}

fn wait_until_linked(cluster: &Cluster, name: &str, to: &[&str]) {
    eventually(&format!("{name} is linked to {to:?}"), NOTICED, || {
        let found = linked(cluster, name)?;
        if found == to { Ok(()) } else { Err(format!("it is linked to {found:?}")) }
    });
}

#[test]
fn a_link_that_is_cut_one_way_is_given_up_by_both_and_only_that_one() {
    let cluster = Cluster::start(StartOptions::lease(LEASE).linked(), &["a", "b", "c"]);
    let leader = cluster.leader();
    let others = cluster.others(&[&leader]);
    let [one, other] = [others[0].as_str(), others[1].as_str()];
    cluster.links().cut_way(one, other);
    wait_until_linked(&cluster, other, &[&leader]);
    wait_until_linked(&cluster, one, &[&leader]);
    wait_until_linked(&cluster, &leader, &[one, other]);
    // All have the leader, so all can still hold names.
    for name in ["a", "b", "c"] {
        cluster.register(name, &format!("desk-{name}"));
    }
    cluster.links().heal(one, other);
    cluster.wait_until_ready();
    let carried = cluster.links().carried();
    assert!(
        matches!(carried, Carried::Connections { strangers: 0, .. }),
        "every dialler was known: {carried}"
    );
    cluster.check();
    cluster.check_recordings();
}

/// Over Postgres whatever the environment says: there is no way to a file that could be cut for one node.
#[test]
fn a_node_whose_way_to_the_store_is_cut_loses_its_names_and_comes_back() {
    let Some(place) = TestStore::postgres() else { return };
    assert!(StoreLinks::can_cut(&place.url));
    let lease = Duration::from_secs(3);
    let cluster =
        Cluster::start_over(place, StartOptions::lease(lease).linked().store_linked(), &["a", "b", "c"]);
    let leader = cluster.leader();
    let node = cluster.others(&[&leader]).remove(0);
    let token = cluster.register(&node, "desk");
    cluster.store_links().cut(&node);
    let other = cluster.others(&[&leader, &node]).remove(0);
    // Its session is closed after the lease, and the name is free.
    let again = cluster.register(&other, "desk");
    assert!(again > token);
    cluster.store_links().heal(&node);
    cluster.wait_until_ready();
    cluster.check_but(&cluster.with_lost_sessions());
    cluster.check_recordings();
}
