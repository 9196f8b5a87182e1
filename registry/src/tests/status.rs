//! What a node tells of itself and of the others, and when.

use std::sync::Arc;

use callsign_store::{
    ids::{Epoch, NodeName, Position},
    supervision::NodeFailure,
};
use serde::Serialize;

use crate::{
    Registry, Status,
    status::{LeaderInfo, MemberInfo},
    tests::driver::{Cluster, TEST_DEADLINE, counter, until},
};

fn joining() -> Status {
    Status::joining(&NodeName::new("a").unwrap())
}

#[test]
fn before_anything_was_read_nothing_is_believed() {
    let status = joining();
    assert_eq!((status.node.as_str(), status.epoch, &status.leader), ("a", Epoch(0), &None));
    assert_eq!((status.leads, status.synced, status.draining), (false, false, false));
    assert_eq!((status.position, status.claims, status.members.len()), (Position(0), 0, 0));
    assert_eq!(status.failed, None);
}

#[test]
fn who_has_failed_holds_nothing_and_knows_what_it_knew() {
    let leader = LeaderInfo { node: NodeName::new("a").unwrap(), epoch: Epoch(3), serving: true };
    let before = Status {
        epoch: Epoch(3),
        leader: Some(leader.clone()),
        leads: true,
        synced: true,
        position: Position(7),
        claims: 2,
        ..joining()
    };
    let failure = NodeFailure::new("x", "y");
    let after = Status {
        leader: Some(LeaderInfo { serving: false, ..leader }),
        leads: false,
        synced: false,
        claims: 0,
        failed: Some(failure.clone()),
        ..before.clone()
    };
    assert_eq!(before.of_failed(failure), after);
}

#[test]
fn nobody_may_lead_where_there_are_members_and_neither_a_leader_nor_one_who_may() {
    let member = |may_lead| MemberInfo {
        node: NodeName::new("b").unwrap(),
        address: "b:1".into(),
        admin: None,
        synced: true,
        session_open: true,
        leads: false,
        draining: false,
        may_lead,
        linked: true,
        links_to: None,
        behind: None,
    };
    let leader = LeaderInfo { node: NodeName::new("a").unwrap(), epoch: Epoch(3), serving: true };
    let nobody = |leader: Option<&LeaderInfo>, may: &[bool]| {
        let members = may.iter().map(|may| member(*may)).collect();
        Status { leader: leader.cloned(), members, ..joining() }.nobody_may_lead()
    };
    assert!(nobody(None, &[false]) && nobody(None, &[false, false]));
    assert!(!nobody(None, &[]) && !nobody(None, &[false, true]) && !nobody(None, &[true]));
    assert!(!nobody(Some(&leader), &[false]) && !nobody(Some(&leader), &[]));
}

/// Who it is; whether its replica is synced, its session open, it leads, it drains, and it is linked.
fn flags(member: &MemberInfo) -> (&str, [bool; 5]) {
    let MemberInfo { synced, session_open, leads, draining, linked, .. } = *member;
    (member.node.as_str(), [synced, session_open, leads, draining, linked])
}

async fn tells(node: &Registry, what: &str, of_members: [(&str, [bool; 5]); 2]) {
    until(what, || node.status().members.iter().map(flags).eq(of_members)).await;
}

#[tokio::test(start_paused = true)]
async fn each_node_tells_who_leads_who_is_linked_and_who_drains() {
    let cluster = Cluster::new();
    let [a, b] = [cluster.node("a").await, cluster.node("b").await];
    let _held = a.register("x", &counter().await).await.unwrap();
    let _held_too = b.register("y", &counter().await).await.unwrap();
    let both = [("a", [true, true, true, false, true]), ("b", [true, true, false, false, true])];
    tells(&a, "a sees both", both).await;
    tells(&b, "b sees both", both).await;
    let serves = |serving| Some(LeaderInfo { node: NodeName::new("a").unwrap(), epoch: Epoch(1), serving });
    for (node, leads) in [(&a, true), (&b, false)] {
        let Status { node: name, epoch, leader, leads: does, synced, draining, claims, failed, .. } =
            node.status();
        assert_eq!((name.as_str(), epoch, leader), (node.node(), Epoch(1), serves(true)));
        assert_eq!((does, synced, draining, claims, failed), (leads, true, false, 1, None));
    }
    until("both are as far", || a.status().position == b.status().position).await;
    assert!(a.status().position > Position(0));

    // A batch is no reason to tell the members anew.
    let before = b.status();
    let _held_as_well = a.register("z", &counter().await).await.unwrap();
    until("b has it", || b.status().position > before.position).await;
    assert!(Arc::ptr_eq(&b.status().members, &before.members));
    drop(before);

    // Without its link b takes the seat, which a can see in the store.
    cluster.network.cut(Cluster::address("a"), Cluster::address("b"));
    tells(&b, "b leads", [("a", [true, true, false, false, false]), ("b", [true, true, true, false, true])])
        .await;
    tells(&a, "a knows", [("a", [true, true, false, false, true]), ("b", [true, true, true, false, false])])
        .await;
    for (node, serving) in [(&a, false), (&b, true)] {
        let leader = LeaderInfo { node: NodeName::new("b").unwrap(), epoch: Epoch(2), serving };
        assert_eq!((node.status().epoch, node.status().leader), (Epoch(2), Some(leader)));
        assert_eq!(node.status().leads, serving);
    }

    cluster.network.heal(Cluster::address("a"), Cluster::address("b"));
    b.drain().await;
    let both = [("a", [true, true, true, false, true]), ("b", [true, true, false, true, true])];
    tells(&a, "a sees b drain", both).await;
    tells(&b, "b sees itself drain", both).await;
    assert!(b.status().draining && !a.status().draining);
}

#[tokio::test(start_paused = true)]
async fn each_node_tells_who_may_not_lead() {
    let cluster = Cluster::new();
    let a = cluster.node("a").await;
    let b = Registry::join(cluster.config("b").priority(0)).await.unwrap();
    assert!(b.ready(TEST_DEADLINE).await.is_ok());
    let may_lead = |node: &Registry| -> Vec<bool> {
        node.status().members.iter().map(|member| member.may_lead).collect()
    };
    for node in [&a, &b] {
        until("it knows both", || may_lead(node) == [true, false]).await;
    }
}

/// What a node knows of the links of each member.
fn links(node: &Registry) -> Vec<Option<Vec<String>>> {
    let row = |member: &MemberInfo| {
        let linked = member.links_to.as_ref()?;
        Some(linked.iter().map(ToString::to_string).collect())
    };
    node.status().members.iter().map(row).collect()
}

fn known<const N: usize>(of_members: [&[&str]; N]) -> Vec<Option<Vec<String>>> {
    let of_member = |linked: &[&str]| Some(linked.iter().map(ToString::to_string).collect());
    of_members.map(of_member).to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_looked_at_tells_which_links_the_others_have() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let [a, b, c] = &nodes;
    for node in &nodes {
        let both = || node.status().members.iter().filter(|member| member.linked).count() == 3;
        until("it is linked to both", both).await;
    }
    assert_eq!(links(a), [known([&["b", "c"]]), vec![None, None]].concat(), "nobody was asked");
    for node in &nodes {
        node.ask_for_links();
        until("they say it", || links(node) == known([&["b", "c"], &["a", "c"], &["a", "b"]])).await;
    }
    cluster.network.cut(Cluster::address("b"), Cluster::address("c"));
    until("a hears of it", || {
        a.ask_for_links();
        links(a) == known([&["b", "c"], &["a"], &["a"]])
    })
    .await;
    until("b hears of it", || {
        b.ask_for_links();
        links(b) == [known([&["b", "c"], &["a"]]), vec![None]].concat()
    })
    .await;
    cluster.network.heal(Cluster::address("b"), Cluster::address("c"));
    until("c hears of it", || {
        c.ask_for_links();
        links(c) == known([&["b", "c"], &["a", "c"], &["a", "b"]])
    })
    .await;
    // Nobody looks any more.
    until("it is forgotten", || links(a) == [known([&["b", "c"]]), vec![None, None]].concat()).await;
}

/// What a member of a former version says of another.
#[allow(clippy::struct_excessive_bools)] // as it is there
#[derive(Serialize)]
struct Former {
    node: &'static str,
    address: &'static str,
    admin: Option<&'static str>,
    synced: bool,
    session_open: bool,
    leads: bool,
    draining: bool,
    linked: bool,
}

#[test]
fn a_member_of_a_version_that_does_not_say_so_may_lead_and_nothing_is_known_of_its_links() {
    let former = Former {
        node: "b",
        address: "b:1",
        admin: None,
        synced: true,
        session_open: true,
        leads: false,
        draining: false,
        linked: true,
    };
    let said = rmp_serde::to_vec_named(&former).unwrap();
    let read: MemberInfo = rmp_serde::from_slice(&said).unwrap();
    assert_eq!(flags(&read), ("b", [true, true, false, false, true]));
    assert_eq!((read.may_lead, read.links_to, read.behind), (true, None, None));
}
