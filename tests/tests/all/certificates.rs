//! What nodes may do by their certificates: the names that they may hold, and whether they lead.

use std::{fs, path::Path};

use callsign_tests::{Answer, Cluster, NodeProcess, StartOptions, TEST_DEADLINE, eventually};
use serde_json::json;

use crate::strangers::{LEASE, LOOKING, authority::Authority, certify, equip, started_with};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Registers until the leader can be asked. The last answer.
fn registers(node: &NodeProcess, name: &str) -> Answer {
    let mut last = None;
    eventually("the leader answers", TEST_DEADLINE, || {
        let answer = node.client.register(name);
        let is_decided = matches!(answer.code(), "ok" | "not_permitted" | "taken");
        let text = format!("{answer:?}");
        last = Some(answer);
        if is_decided { Ok(()) } else { Err(text) }
    });
    last.unwrap()
}

fn is_refused(node: &NodeProcess, name: &str, allowed: &[&str]) {
    let Answer::Refused(body) = registers(node, name) else { panic!("{name} was granted") };
    assert_eq!((&body["error"], &body["allowed"]), (&json!("not_permitted"), &json!(allowed)), "{body}");
    assert!(body["message"].as_str().unwrap().contains(&format!("{name:?}")), "{body}");
}

/// Whatever happens to those that may, the node does not lead.
fn never_leads(cluster: &Cluster, node: &str) {
    let metrics = cluster.node(node).client.metrics().unwrap();
    assert!(metrics.contains("event=\"term\"") && !metrics.contains("event=\"serving\""), "{metrics}");
    let status = cluster.node(node).client.status().ok();
    assert_eq!(status["leads"], json!(false), "{status}");
}

#[test]
fn a_node_holds_what_its_certificate_says_and_leads_only_if_it_says_so() {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &[]);
    let name_of = cluster.place.cluster.clone();
    let uri = |node: &str, query: &str| format!("callsign://{name_of}/{node}{query}");
    let directory = |node: &str| files.path().join(node);
    let replace = |node: &str, query: &str| certify(&authority, &uri(node, query), &directory(node));
    for (node, query) in [("a", "?names=shop/&names=caf%C3%A9/&lead=no"), ("b", ""), ("c", "?lead=no")] {
        fs::create_dir(directory(node)).unwrap();
        equip(&authority, &uri(node, query), &[&authority], &directory(node));
        cluster.launch_with(node, &started_with(&LOOKING, &directory(node)));
    }
    cluster.wait_until_ready();
    assert_eq!(cluster.leader(), "b");
    is_refused(cluster.node("a"), "jobs/x", &["café/", "shop/"]);
    is_refused(cluster.node("a"), "sho", &["café/", "shop/"]);
    registers(cluster.node("a"), "shop/x").ok();
    registers(cluster.node("a"), "café/x").ok();
    registers(cluster.node("c"), "jobs/x").ok();
    let code = cluster.node("a").client.register("jobs/x").code().to_owned();
    assert_eq!(code, "taken", "who holds it is told to everybody");

    // Another certificate holds for what is asked from then on, and what is held stays held, and is given up.
    replace("a", "?names=jobs/&lead=no");
    eventually("the new certificate is gone by", TEST_DEADLINE, || {
        match cluster.node("a").client.register("jobs/y") {
            Answer::Ok(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    is_refused(cluster.node("a"), "shop/y", &["jobs/"]);
    let held = cluster.node("b").client.whereis_consistent("shop/x").ok();
    assert_eq!(held["node"], json!("a"), "{held}");
    cluster.node("a").client.unregister("shop/x").ok();

    // Without the one that may lead nobody does, and it is said why. What is held stays held.
    let stopped = cluster.terminate("b");
    assert!(stopped.status.is_some_and(|status| status.success()), "{}", stopped.log);
    eventually("nobody leads", TEST_DEADLINE, || {
        let status = cluster.node("c").client.status().ok();
        let members = status["members"].as_array().cloned().unwrap_or_default();
        if members.len() == 2 && status["leader"].is_null() { Ok(()) } else { Err(status.to_string()) }
    });
    let refused = cluster.node("a").client.register("jobs/z");
    assert!(matches!(refused.code(), "no_leader" | "not_synced"), "{refused:?}");
    let log = cluster.node("a").log();
    assert!(log.contains("by their certificates or priorities no member may"), "{log}");
    never_leads(&cluster, "a");
    never_leads(&cluster, "c");

    // One that may takes the seat, by a certificate that it gets while it runs.
    replace("c", "");
    eventually("it leads", TEST_DEADLINE, || {
        let status = cluster.node("c").client.status().ok();
        if status["leads"] == json!(true) { Ok(()) } else { Err(status.to_string()) }
    });
    registers(cluster.node("a"), "jobs/z").ok();
    is_refused(cluster.node("a"), "shop/z", &["jobs/"]);
    never_leads(&cluster, "a");
    // And it gives the seat up when it must not lead any more, to one that comes.
    launch(&mut cluster, "b", &directory("b"));
    replace("c", "?lead=no");
    eventually("b leads", TEST_DEADLINE, || {
        let status = cluster.node("b").client.status().ok();
        if status["leads"] == json!(true) { Ok(()) } else { Err(status.to_string()) }
    });
    registers(cluster.node("a"), "jobs/last").ok();
    never_leads(&cluster, "a");
    assert_eq!(cluster.names(), NAMES);
    cluster.check_recordings();
}

fn launch(cluster: &mut Cluster, node: &str, directory: &Path) {
    cluster.launch_with(node, &started_with(&LOOKING, directory));
    cluster.wait_until_ready();
}
