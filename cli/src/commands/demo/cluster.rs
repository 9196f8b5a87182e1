//! The demo's cluster: child processes, asked over HTTP as anybody would.

use std::{
    fs::File,
    path::PathBuf,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{
    child::OwnedChild,
    client::{Answer, Client},
    node_url::NodeUrl,
    processes::{own_cluster, spawn_heard},
};

/// How long a node may take to say where it can be reached, and then to serve.
const START_DEADLINE: Duration = Duration::from_secs(20);

/// The longest that anything else may take.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a condition is looked at.
const POLL_EVERY: Duration = Duration::from_millis(2);

/// One node.
pub(super) struct DemoNode {
    pub(super) name: String,
    pub(super) child: OwnedChild,
    pub(super) client: Client,
}

/// A name and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DemoRow {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) incarnation: u64,
    pub(super) token: u64,
}

/// The nodes that run.
pub(super) struct DemoCluster {
    store: String,
    logs: PathBuf,
    name: String,
    secret: String,
    pub(super) nodes: Vec<DemoNode>,
}

impl DemoCluster {
    pub(super) fn new(store: String, logs: PathBuf) -> Self {
        let (name, secret) = own_cluster("demo");
        Self { store, logs, name, secret, nodes: Vec::new() }
    }

    /// Starts a node, and waits until it can be asked.
    pub(super) fn start(&mut self, name: &str) -> Result<()> {
        let path = self.logs.join(format!("{name}.log"));
        let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let (child, says) = spawn_heard(Some, |command| {
            command.args(["node", "--print-json", "--lease-anyway", "--name", name, "--store", &self.store]);
            command.args(["--cluster", &self.name, "--admin", "127.0.0.1:0"]);
            command.env("CALLSIGN_SECRET", &self.secret).stderr(log);
        })?;
        let line = match says.recv_timeout(START_DEADLINE) {
            Ok(line) => line?,
            // It has ended without a word.
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(error) => return Err(error).with_context(|| format!("{name} does not start")),
        };
        let ready: Value = serde_json::from_str(&line)
            .with_context(|| format!("{name} did not start, see {}", path.display()))?;
        let admin = ready["admin"].as_str().context("a node does not say where it can be asked")?;
        let admin: NodeUrl = admin.parse().map_err(anyhow::Error::msg)?;
        self.nodes.push(DemoNode { name: name.to_owned(), child, client: Client::new(&admin, STEP_TIMEOUT) });
        Ok(())
    }

    pub(super) fn node(&self, name: &str) -> Result<&DemoNode> {
        self.nodes.iter().find(|node| node.name == name).with_context(|| format!("there is no node {name}"))
    }

    /// Does the same on every node, at once, and collects what came of it, in the order of the nodes.
    pub(super) fn on_all<T: Send>(
        &self,
        act: impl Fn(usize, &DemoNode) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        std::thread::scope(|scope| {
            let act = &act;
            let running: Vec<_> = self
                .nodes
                .iter()
                .enumerate()
                .map(|(index, node)| scope.spawn(move || act(index, node).context(node.name.clone())))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
                .collect()
        })
    }
}

impl DemoNode {
    pub(super) fn ready(&self) -> Result<()> {
        let wait = START_DEADLINE.as_millis().to_string();
        self.client.get("/ready", &[("wait_ms", &wait)])?.ok().map(drop)
    }

    pub(super) fn count(&self) -> Result<u64> {
        let body = self.client.get("/count", &[])?.ok()?;
        body["count"].as_u64().context("a count is no number")
    }

    pub(super) fn await_count(&self, count: u64) -> Result<()> {
        self.until(&format!("{count} names"), || Ok(self.count()? == count))
    }

    /// Waits until this node knows no name of a node. Lapses and the like are waited out.
    pub(super) fn await_none_of(&self, dead: &str) -> Result<Instant> {
        self.until(&format!("no name of {dead}"), || {
            let answer = self.client.get("/count", &[("node", dead)])?;
            Ok(answer.is_ok() && answer.body["count"] == 0)
        })?;
        Ok(Instant::now())
    }

    /// The leader that serves, and its epoch, as this node knows.
    pub(super) fn leader(&self) -> Result<Option<(String, u64)>> {
        let status = self.client.get("/status", &[])?.ok()?;
        let leader = &status["leader"];
        let found = leader["node"].as_str().zip(leader["epoch"].as_u64());
        Ok(found.filter(|_| leader["serving"] == true).map(|(node, epoch)| (node.to_owned(), epoch)))
    }

    pub(super) fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        while !holds()? {
            ensure!(Instant::now() < deadline, "{} waits in vain for {what}", self.name);
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    /// Registers `{prefix}{number}` for each number. All have to be granted.
    pub(super) fn register_many(&self, prefix: &str, from: u32, to: u32) -> Result<()> {
        let body = json!({"prefix": prefix, "from": from, "to": to, "concurrency": 200});
        let answer = self.client.post("/register-many", &body)?.ok()?;
        let all = answer["registered"] == to - from;
        ensure!(all, "{} registered {} of {}: {answer}", self.name, answer["registered"], to - from);
        Ok(())
    }

    /// Registers a name, again and again, until that is acknowledged.
    pub(super) fn register_at_last(&self, name: &str) -> Result<Instant> {
        self.until(&format!("{name} to be registered"), || {
            let answer = self.client.post("/register", &json!({"name": name}))?;
            let code = answer.code().to_owned();
            ensure!(answer.is_ok() || answer.exit_status() == 3, "{name} was refused: {code}");
            Ok(answer.is_ok())
        })?;
        Ok(Instant::now())
    }

    pub(super) fn register(&self, name: &str) -> Result<Answer> {
        self.client.post("/register", &json!({"name": name}))
    }

    /// All names and who holds them, in order of names.
    pub(super) fn rows(&self) -> Result<Vec<DemoRow>> {
        let body = self.client.entries(&[], None)?.ok()?;
        let entries = body["entries"].as_array().context("no list of entries")?;
        let row = |entry: &Value| {
            Some(DemoRow {
                name: entry["name"].as_str()?.to_owned(),
                node: entry["node"].as_str()?.to_owned(),
                incarnation: u64::from_str_radix(entry["incarnation"].as_str()?, 16).ok()?,
                token: entry["token"].as_u64()?,
            })
        };
        entries.iter().map(|entry| row(entry).context("an entry lacks something")).collect()
    }

    /// What the actor under a name answers.
    pub(super) fn call(&self, name: &str, text: &str) -> Result<String> {
        let body = self.client.post("/call", &json!({"name": name, "text": text}))?.ok()?;
        body["answer"].as_str().map(str::to_owned).context("an answer is no text")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        future::ready,
        process::Stdio,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
    };

    use axum::{
        Json, Router,
        http::StatusCode,
        routing::{get, post},
    };

    use super::*;

    /// A node for which these routes answer. Its process has nothing to do with them.
    pub(in crate::commands::demo) fn answered_by(name: &str, routes: Router) -> DemoNode {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url: NodeUrl = listener.local_addr().unwrap().to_string().parse().unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, routes).await.unwrap();
            });
        });
        // The program of the tests says how it is used, and ends.
        let child = OwnedChild::spawn(|command| {
            command.arg("--help").stdout(Stdio::null()).stderr(Stdio::null());
        });
        DemoNode { name: name.to_owned(), child: child.unwrap(), client: Client::new(&url, STEP_TIMEOUT) }
    }

    /// A cluster of such nodes.
    pub(in crate::commands::demo) fn of(nodes: Vec<DemoNode>) -> DemoCluster {
        DemoCluster { nodes, ..DemoCluster::new("memory:".to_owned(), PathBuf::new()) }
    }

    type Said = (StatusCode, Json<Value>);

    fn says(status: u16, body: Value) -> Said {
        (StatusCode::from_u16(status).unwrap(), Json(body))
    }

    /// Says one thing after the other, and the last one from then on. How often it was asked.
    fn one_by_one(said: Vec<Said>) -> (impl Fn() -> Said + Clone + Send + Sync + 'static, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let next = move || {
            let nth = counted.fetch_add(1, Relaxed);
            said[nth.min(said.len() - 1)].clone()
        };
        (next, asked)
    }

    #[test]
    fn a_node_knows_no_name_of_the_dead_one_when_it_says_so_and_lapses_are_waited_out() {
        let lapsed = says(503, json!({"error": "not_synced", "verdict": "unknown", "count": 0}));
        let (next, asked) =
            one_by_one(vec![lapsed, says(200, json!({"count": 3})), says(200, json!({"count": 0}))]);
        let node = answered_by("a", Router::new().route("/count", get(move || ready(next()))));
        node.await_none_of("b").unwrap();
        assert_eq!(asked.load(Relaxed), 3);
    }

    #[test]
    fn all_of_many_names_have_to_be_granted() {
        let granted = |_: String| ready(Json(json!({"registered": 3})));
        let node = answered_by("a", Router::new().route("/register-many", post(granted)));
        node.register_many("x/", 1, 4).unwrap();
        for to in [3, 5] {
            let error = node.register_many("x/", 1, to).unwrap_err().to_string();
            assert!(error.starts_with(&format!("a registered 3 of {}: ", to - 1)), "{error}");
        }
    }

    #[test]
    fn a_registration_is_tried_again_until_it_is_granted_and_not_after_a_refusal() {
        let unknown = says(504, json!({"error": "unknown", "verdict": "unknown"}));
        let granted = says(200, json!({"token": 7}));
        let (next, asked) = one_by_one(vec![unknown.clone(), unknown.clone(), granted]);
        let node = answered_by("a", Router::new().route("/register", post(move |_: String| ready(next()))));
        node.register_at_last("x").unwrap();
        assert_eq!(asked.load(Relaxed), 3);

        let taken = says(409, json!({"error": "taken", "verdict": "no"}));
        let (next, asked) = one_by_one(vec![unknown, taken]);
        let node = answered_by("a", Router::new().route("/register", post(move |_: String| ready(next()))));
        let error = node.register_at_last("x").unwrap_err().to_string();
        assert_eq!((error.as_str(), asked.load(Relaxed)), ("x was refused: taken", 2));
    }

    #[test]
    fn a_leader_counts_when_it_serves() {
        let leads =
            |serving: bool| says(200, json!({"leader": {"node": "b", "epoch": 4, "serving": serving}}));
        let nobody = says(200, json!({"leader": null}));
        let (next, _) = one_by_one(vec![nobody, leads(false), leads(true)]);
        let node = answered_by("a", Router::new().route("/status", get(move || ready(next()))));
        let found: Vec<_> = (0..3).map(|_| node.leader().unwrap()).collect();
        assert_eq!(found, [None, None, Some(("b".to_owned(), 4))]);
    }
}
