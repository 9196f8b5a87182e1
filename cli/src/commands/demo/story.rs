//! What happens in the demo, in order, and what is checked.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    DemoProgress, DemoReport,
    cluster::{DemoCluster, DemoNode, DemoRow},
};
use crate::measure::as_ms;

/// How long the nodes may take to leave.
const LEAVE: Duration = Duration::from_secs(20);

/// How many steps it has.
const STEPS: u64 = 7;

pub(super) fn tell(cluster: &mut DemoCluster, report: &mut DemoReport) -> Result<()> {
    let progress = DemoProgress::of(STEPS);
    progress.begin(&format!("starting {} nodes", report.nodes));
    for number in 1..=report.nodes {
        cluster.start(&format!("n{number}"))?;
    }
    cluster.on_all(|_, node| node.ready())?;

    progress.begin(&format!("registering {} names, some on every node", report.names));
    let shares = shares(report.names, report.nodes);
    cluster.on_all(|index, node| node.register_many(&format!("{}/", node.name), 0, shares[index]))?;
    let mut expected = u64::from(report.names);
    cluster.on_all(|_, node| node.await_count(expected))?;

    progress.begin("looking every name up on every node");
    let rows = agreed_rows(cluster, report)?;
    let as_registered = rows.iter().all(|row| row.name.split('/').next() == Some(&row.node));
    report.check("every_name_is_held_by_the_node_that_registered_it", as_registered);
    refuses_what_is_taken(cluster, report, &shares)?;
    call_across(cluster, report, &rows)?;

    let (leader, epoch) = agreed_leader(cluster)?;
    report.leader_before = Some(leader.clone());
    report.epoch_before = Some(epoch);
    progress.begin(&format!("killing the leader, {leader}"));
    kill(cluster, report, &leader)?;
    expected += 1; // what was registered meanwhile

    let (next, epoch) = agreed_leader(cluster)?;
    report.check("another_node_leads_after_the_kill", next != leader);
    report.check("the_epoch_grew_with_the_change_of_leader", Some(epoch) > report.epoch_before);
    report.leader_after = Some(next);
    report.epoch_after = Some(epoch);

    progress.begin("registering the dead node's names elsewhere");
    let lost = u32::try_from(rows.iter().filter(|row| row.node == leader).count())?;
    cluster.nodes[0].register_many(&format!("{leader}/"), 0, lost)?;
    cluster.on_all(|_, node| node.await_count(expected))?;
    let now = agreed_rows(cluster, report)?;
    compare(report, &rows, &now, &leader, &cluster.nodes[0].name);

    let joiner = format!("n{}", report.nodes + 1);
    progress.begin(&format!("{joiner} joins"));
    let from = Instant::now();
    cluster.start(&joiner)?;
    let node = cluster.node(&joiner)?;
    node.until("all names", || {
        let answer = node.client.get("/count", &[])?;
        Ok(answer.is_ok() && answer.body["count"] == expected)
    })?;
    report.join_ms = Some(as_ms(from.elapsed()));
    node.ready()?;
    let rows = agreed_rows(cluster, report)?;
    report.check("a_new_node_has_every_name", rows.len() as u64 == expected);
    cluster.node(&joiner)?.register(&format!("{joiner}/0"))?.ok()?;
    cluster.on_all(|_, node| node.await_count(expected + 1))?;
    let rows = agreed_rows(cluster, report)?;
    call_across(cluster, report, &rows)?;

    progress.begin("all nodes leave");
    leave(cluster, report)?;
    progress.finish();
    Ok(())
}

/// How many names each node registers.
fn shares(names: u32, nodes: u32) -> Vec<u32> {
    (0..nodes).map(|node| names / nodes + u32::from(node < names % nodes)).collect()
}

/// Every node knows the same names, with the same holders and tokens.
fn agreed_rows(cluster: &DemoCluster, report: &mut DemoReport) -> Result<Vec<DemoRow>> {
    let mut rows = cluster.on_all(|_, node| node.rows())?.into_iter();
    let first = rows.next().context("there is no node")?;
    report.check("all_nodes_agree_on_every_name", rows.all(|others| others == first));
    Ok(first)
}

/// All nodes know the same leader: as soon as they do, within a deadline.
fn agreed_leader(cluster: &DemoCluster) -> Result<(String, u64)> {
    let mut agreed = None;
    cluster.nodes[0].until("all to know one leader", || {
        let mut leaders = cluster.on_all(|_, node| node.leader())?;
        leaders.dedup();
        agreed = (leaders.len() == 1).then(|| leaders.swap_remove(0)).flatten();
        Ok(agreed.is_some())
    })?;
    agreed.context("there is no leader")
}

fn refuses_what_is_taken(cluster: &DemoCluster, report: &mut DemoReport, shares: &[u32]) -> Result<()> {
    let nodes = &cluster.nodes;
    for (index, node) in nodes.iter().enumerate().filter(|(index, _)| shares[*index] > 0) {
        let asker = &nodes[(index + 1) % nodes.len()];
        let answer = asker.register(&format!("{}/0", node.name))?;
        let refused = answer.code() == "taken" && answer.body["holder"]["node"] == node.name.as_str();
        report.check("a_taken_name_is_refused_and_its_holder_named", refused);
    }
    Ok(())
}

/// Each node calls an actor of every other node that holds a name, by that name.
fn call_across(cluster: &DemoCluster, report: &mut DemoReport, rows: &[DemoRow]) -> Result<()> {
    // One name of each node, and the last one, so that it differs from what others look at.
    let of_each: BTreeMap<&str, &str> =
        rows.iter().map(|row| (row.node.as_str(), row.name.as_str())).collect();
    let answered = cluster.on_all(|_, node| {
        let mut answered = true;
        for (host, name) in of_each.iter().filter(|(host, _)| **host != node.name) {
            let text = format!("hello to {}", node.name);
            answered &= node.call(name, &text)? == format!("node {host} says {text}");
        }
        Ok(answered)
    })?;
    report.check("actors_answer_calls_by_name_across_nodes", answered.into_iter().all(|answered| answered));
    Ok(())
}

/// Kills the leader, and measures until a survivor serves and all survivors have freed the names.
fn kill(cluster: &mut DemoCluster, report: &mut DemoReport, leader: &str) -> Result<()> {
    let index =
        cluster.nodes.iter().position(|node| node.name == leader).context("the leader is none of ours")?;
    let mut victim = cluster.nodes.remove(index);
    let killed = victim.child.crash()?;
    let (acknowledged, freed) = std::thread::scope(|scope| {
        let survivor = &cluster.nodes[0];
        let acknowledged = scope.spawn(|| survivor.register_at_last("after-the-kill"));
        let freed = cluster.on_all(|_, node: &DemoNode| node.await_none_of(leader));
        (acknowledged.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))), freed)
    });
    report.check("a_survivor_registers_after_the_kill", acknowledged.is_ok());
    report.check("the_dead_nodes_names_are_freed_everywhere", freed.is_ok());
    report.failover_ms = Some(as_ms(acknowledged? - killed));
    report.release_ms = freed?.into_iter().max().map(|last| as_ms(last - killed));
    Ok(())
}

/// What the kill may change, and what not.
fn compare(report: &mut DemoReport, before: &[DemoRow], after: &[DemoRow], dead: &str, heir: &str) {
    let now: BTreeMap<&str, &DemoRow> = after.iter().map(|row| (row.name.as_str(), row)).collect();
    let (lost, kept): (Vec<_>, Vec<_>) = before.iter().partition(|row| row.node == dead);
    let untouched = kept.iter().all(|row| now.get(row.name.as_str()) == Some(row));
    report.check("no_name_of_a_survivor_is_lost_or_changed", untouched);
    let inherited = lost.iter().all(|row| now.get(row.name.as_str()).is_some_and(|now| now.node == heir));
    report.check("the_dead_nodes_names_are_registered_elsewhere", inherited);
    let grown = lost.iter().all(|row| now.get(row.name.as_str()).is_some_and(|now| now.token > row.token));
    report.check("fencing_tokens_only_grow", grown);
}

fn leave(cluster: &mut DemoCluster, report: &mut DemoReport) -> Result<()> {
    for node in &cluster.nodes {
        node.child.terminate()?;
    }
    for node in &mut cluster.nodes {
        let status = node.child.wait(LEAVE)?;
        report.check("every_node_leaves_in_good_order", status.is_some_and(|status| status.success()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        future::ready,
        sync::{Arc, OnceLock},
    };

    use axum::{
        Json, Router,
        http::StatusCode,
        routing::{get, post},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::demo::cluster::tests::{answered_by, of};

    #[test]
    fn every_name_has_a_node() {
        assert_eq!(shares(10, 3), [4, 3, 3]);
        assert_eq!(shares(2, 3), [1, 1, 0]);
        assert_eq!(shares(1000, 7).iter().sum::<u32>(), 1000);
    }

    fn row(name: &str, node: &str, token: u64) -> DemoRow {
        DemoRow { name: name.to_owned(), node: node.to_owned(), incarnation: 1, token }
    }

    #[test]
    fn a_kill_may_change_the_holders_of_the_dead_nodes_names_only_and_tokens_grow() {
        let before = [row("a/0", "a", 1), row("b/0", "b", 2)];
        for (after, grown, untouched, inherited) in [
            (vec![row("a/0", "b", 3), row("b/0", "b", 2), row("new", "b", 4)], true, true, true),
            (vec![row("a/0", "b", 1), row("b/0", "b", 2)], false, true, true),
            (vec![row("a/0", "b", 3), row("b/0", "b", 4)], true, false, true),
            (vec![row("a/0", "b", 3)], true, false, true),
            (vec![row("a/0", "c", 3), row("b/0", "b", 2)], true, true, false),
            (vec![row("b/0", "b", 2)], false, true, false),
        ] {
            let mut report = DemoReport::default();
            compare(&mut report, &before, &after, "a", "b");
            let expected = BTreeMap::from([
                ("fencing_tokens_only_grow", grown),
                ("no_name_of_a_survivor_is_lost_or_changed", untouched),
                ("the_dead_nodes_names_are_registered_elsewhere", inherited),
            ]);
            assert_eq!(report.checks, expected, "{after:?}");
        }
    }

    /// What somebody is told who registers a name that another node holds.
    fn taken_by(holder: &str) -> (StatusCode, Json<Value>) {
        let body = json!({"error": "taken", "verdict": "no", "holder": {"node": holder}});
        (StatusCode::CONFLICT, Json(body))
    }

    #[test]
    fn a_taken_name_has_to_be_refused_with_its_holder_and_a_node_without_names_is_not_asked_for() {
        // The first node has a name, which the second one is asked for. The second one has none.
        for (holder, holds) in [("a", true), ("z", false)] {
            let granting = post(|_: String| ready(Json(json!({"token": 1}))));
            let holder = holder.to_owned();
            let refusing = post(move |_: String| ready(taken_by(&holder)));
            let cluster = of(vec![
                answered_by("a", Router::new().route("/register", granting)),
                answered_by("b", Router::new().route("/register", refusing)),
            ]);
            let mut report = DemoReport::default();
            refuses_what_is_taken(&cluster, &mut report, &[1, 0]).unwrap();
            let expected = BTreeMap::from([("a_taken_name_is_refused_and_its_holder_named", holds)]);
            assert_eq!(report.checks, expected);
        }
    }

    #[test]
    fn each_node_has_to_reach_the_actors_of_the_others() {
        let answering = |host: &'static str, asker: &'static str| {
            let said = json!({"answer": format!("node {host} says hello to {asker}")});
            answered_by(asker, Router::new().route("/call", post(move |_: String| ready(Json(said)))))
        };
        let rows = [row("a/0", "a", 1), row("b/0", "b", 2)];
        for (reached_by_b, holds) in [("a", true), ("b", false)] {
            let cluster = of(vec![answering("b", "a"), answering(reached_by_b, "b")]);
            let mut report = DemoReport::default();
            call_across(&cluster, &mut report, &rows).unwrap();
            assert_eq!(report.checks, BTreeMap::from([("actors_answer_calls_by_name_across_nodes", holds)]));
        }
    }

    #[test]
    fn the_names_of_a_dead_node_are_free_when_the_last_of_the_others_knows_it() {
        const LATE: Duration = Duration::from_millis(100);
        let register = || post(|_: String| ready(Json(json!({"token": 1}))));
        let free = get(|| ready(Json(json!({"count": 0}))));
        let first = Arc::new(OnceLock::new());
        let late = get(move || {
            let is_late = first.get_or_init(Instant::now).elapsed() >= LATE;
            ready(Json(json!({"count": i32::from(!is_late)})))
        });
        let mut cluster = of(vec![
            answered_by("a", Router::new()),
            answered_by("b", Router::new().route("/register", register()).route("/count", free)),
            answered_by("c", Router::new().route("/register", register()).route("/count", late)),
        ]);
        let mut report = DemoReport::default();
        kill(&mut cluster, &mut report, "a").unwrap();
        assert_eq!(cluster.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        assert!(report.checks.values().all(|holds| *holds) && report.checks.len() == 2);
        assert!(report.release_ms.is_some_and(|ms| ms >= as_ms(LATE)), "{:?}", report.release_ms);
        assert!(report.failover_ms.is_some_and(|ms| ms > 0.0), "{:?}", report.failover_ms);
    }
}
