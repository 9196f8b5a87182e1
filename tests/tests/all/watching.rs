//! `callsign watch` and `GET /watch`: what changes, on real nodes, and how whoever was away goes on.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::{Child, Command},
    time::Duration,
};

use callsign_tests::{Cluster, StartOptions, TEST_DEADLINE, callsign, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(4);

/// A `callsign watch` of names that begin with `shop/`. Killed when it is dropped.
struct Watcher {
    child: Child,
    files: TempDir,
}

impl Watcher {
    fn start(cluster: &Cluster, node: &str, more: &[&str]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(files.path().join(name)).unwrap();
        let mut command = Command::new(callsign());
        command.args(["watch", "--prefix", "shop/", "--node", cluster.node(node).client.address()]);
        let child = command.args(more).stdout(file("said")).stderr(file("errors")).spawn().unwrap();
        Self { child, files }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.files.path().join(file)).unwrap()
    }

    /// What it has printed once it has printed this line.
    fn until(&self, last: &str) -> Vec<String> {
        eventually(&format!("{last:?} is printed"), TEST_DEADLINE, || {
            let said = self.read("said");
            let lines: Vec<_> = said.split_inclusive('\n').map(|line| line.trim_end().to_owned()).collect();
            if lines.iter().any(|line| line == last) { Ok(lines) } else { Err(said + &self.read("errors")) }
        })
    }

    /// With which status it ends, and what it says to its user.
    fn end(&mut self) -> (Option<i32>, String) {
        let status = eventually("the command ends", TEST_DEADLINE, || {
            self.child.try_wait().unwrap().ok_or_else(|| self.read("said"))
        });
        (status.code(), self.read("errors"))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unregister(cluster: &Cluster, node: &str, name: &str) -> u64 {
    cluster.node(node).client.unregister(name).ok()["position"].as_u64().unwrap()
}

/// What does not depend on when the command began is printed whole.
fn without_bookmarks(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| !line.contains("nothing else") && !line.contains("bookmark")).collect()
}

#[test]
fn each_change_is_a_line_and_whoever_was_away_gets_what_was_missed() {
    let mut cluster = Cluster::start(StartOptions::lease(LEASE), &["a", "b"]);
    cluster.register("a", "desk");
    let x = cluster.register("a", "shop/x");
    eventually("b knows it", TEST_DEADLINE, || cluster.node("b").client.whereis("shop/x").result());
    let watcher = Watcher::start(&cluster, "b", &[]);
    let first = format!("shop/x is held on a, token {x}");
    let said = watcher.until(&format!("-- this is all, at {x}"));
    assert_eq!(said, [first, format!("-- this is all, at {x}")], "and nothing of the desk");
    let y = cluster.register("b", "shop/y");
    let freed = unregister(&cluster, "a", "shop/x");
    let free = format!("shop/x is free (unregistered, at {freed})");
    let said = without_bookmarks(watcher.until(&free));
    assert_eq!(said[2..], [format!("shop/y is held on b, token {y} (registered, at {y})"), free.clone()]);
    // Nobody watches, and something happens.
    drop(watcher);
    let z = cluster.register("a", "shop/z");
    let held = format!("shop/z is held on a, token {z} (registered, at {z})");
    let mut later = Watcher::start(&cluster, "b", &["--from", &y.to_string()]);
    assert_eq!(without_bookmarks(later.until(&held)), [free, held], "behind {y}, each once");
    // A node that was not watched remembers nothing, and says so.
    let other = Watcher::start(&cluster, "a", &["--from", &y.to_string(), "--json"]);
    let current = json!({"event": "current", "data": {"position": z}, "passed": z}).to_string();
    let said = other.until(&current);
    let said: Vec<Value> = said.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> =
        said.iter().map(|line| (&line["event"], &line["data"]["name"], &line["passed"])).collect();
    let of = |event: &str, name: Value, passed: Value| (Value::from(event), name, passed);
    let expected = [
        of("reset", Value::Null, Value::Null),
        of("present", "shop/y".into(), Value::Null),
        of("present", "shop/z".into(), Value::Null),
        of("current", Value::Null, z.into()),
    ];
    let mut names: Vec<_> = expected.iter().map(|(event, name, passed)| (event, name, passed)).collect();
    if events.get(1).is_some_and(|(_, name, _)| **name == "shop/z") {
        // A table is in no order.
        names.swap(1, 2);
    }
    assert_eq!(events, names);
    // With its node the command ends. It has passed everything that it has printed.
    let node = cluster.node("b").client.address().to_owned();
    cluster.kill("b");
    let (status, errors) = later.end();
    assert_eq!(status, Some(3), "{errors}");
    assert!(errors.contains(&node), "{errors}");
    assert!(errors.contains(&format!("`--from {z}` goes on from here")), "{errors}");
}

/// The answer to `GET /watch`: its status and type, and its lines.
fn asks(
    cluster: &Cluster,
    query: &str,
    last_id: Option<&str>,
) -> (u16, String, impl Iterator<Item = String> + use<>) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(TEST_DEADLINE))
        .proxy(None)
        .build()
        .into();
    let mut request = agent.get(format!("http://{}/watch?{query}", cluster.node("a").client.address()));
    if let Some(id) = last_id {
        request = request.header("Last-Event-ID", id);
    }
    let answer = request.call().unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (
        answer.status().as_u16(),
        kind,
        BufReader::new(answer.into_body().into_reader()).lines().map(Result::unwrap),
    )
}

#[test]
fn a_browser_that_comes_back_says_where_it_was() {
    let cluster = Cluster::start(StartOptions::lease(LEASE), &["a"]);
    let x = cluster.register("a", "shop/x");
    let (status, kind, mut lines) = asks(&cluster, "prefix=shop/", None);
    assert_eq!((status, &*kind), (200, "text/event-stream"));
    assert!(lines.any(|line| line == format!("id: {x}")));
    let y = cluster.register("a", "shop/y");
    let said: Vec<_> = lines.by_ref().take_while(|line| *line != format!("id: {y}")).collect();
    assert!(said.contains(&"event: change".to_owned()), "{said:?}");
    drop(lines);
    let freed = unregister(&cluster, "a", "shop/x");
    // The header has the last word: a browser repeats the query with which it began.
    for (query, id) in [(format!("from={x}"), Some(y.to_string())), (format!("from={y}"), None)] {
        let (_, _, mut lines) = asks(&cluster, &query, id.as_deref());
        let data = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
        let data: Value = serde_json::from_str(&data).unwrap();
        assert_eq!((&data["name"], &data["position"]), (&"shop/x".into(), &freed.into()), "{data}");
    }
    for (query, id, error) in
        [("", Some("x"), "bad_position"), ("from=x", None, "bad_query"), ("meta=x", None, "bad_meta")]
    {
        let (status, _, mut lines) = asks(&cluster, query, id);
        let body: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!((status, &body["error"]), (400, &error.into()), "{body}");
    }
}
