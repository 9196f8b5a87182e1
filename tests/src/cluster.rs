//! A cluster of nodes over one store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use callsign_store::lock::lock;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    client::Answer,
    history::{Forgive, History, Life, Span},
    links::{Links, StoreLinks},
    load::Load,
    process::{NodeProcess, StartOptions, Stopped, recordings},
    retrying::Retrying,
    sampler::{Directory, Sampler, note},
    store::TestStore,
    store_view::{StoreView, WriteLock},
    wait::eventually,
};

/// How long a cluster without faults may take for whatever it has to do. Only tests that fail wait so long.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(30);

/// Nodes over a store of their own, in a directory of their own.
#[derive(Debug)]
pub struct Cluster {
    nodes: BTreeMap<String, NodeProcess>,
    /// Sees and touches the store.
    pub store: StoreView,
    /// What clients and nodes have said so far.
    pub history: Arc<History>,
    /// What nodes are started with.
    pub options: StartOptions,
    lives: Vec<Arc<Life>>,
    directory: Directory,
    launches: usize,
    /// Where the store is. Dropped after the nodes.
    pub place: TestStore,
    files: TempDir,
}

impl Cluster {
    /// Starts nodes with these names, and waits until they are ready.
    pub fn start(options: StartOptions, names: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a temporary directory can be made");
        let place = TestStore::new(files.path());
        Self::start_in(files, place, options, names)
    }

    /// As [`start`](Self::start), over a store that is there, whatever the environment says.
    pub fn start_over(place: TestStore, options: StartOptions, names: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a temporary directory can be made");
        Self::start_in(files, place, options, names)
    }

    fn start_in(files: TempDir, place: TestStore, options: StartOptions, names: &[&str]) -> Self {
        let store = StoreView::open(&place);
        let mut cluster = Self {
            nodes: BTreeMap::new(),
            store,
            history: Arc::default(),
            options,
            lives: Vec::new(),
            directory: Directory::default(),
            launches: 0,
            place,
            files,
        };
        for name in names {
            cluster.launch(name);
        }
        cluster.wait_until_ready();
        cluster
    }

    fn try_launch(&mut self, name: &str, options: &StartOptions) -> Result<NodeProcess, Stopped> {
        self.launches += 1;
        let mut options = options.clone();
        if !options.arguments.iter().any(|argument| argument == "--cluster") {
            options.arguments.extend(["--cluster", &self.place.cluster].map(Into::into));
        }
        NodeProcess::start(name, &self.place.url, &options, self.files.path(), self.launches)
    }

    /// Starts a node over the same store that is none of this cluster's.
    pub fn launch_aside(&mut self, name: &str, options: &StartOptions) -> NodeProcess {
        match self.try_launch(name, options) {
            Ok(node) => node,
            Err(stopped) => panic!("{name} did not start: {:?}\n{}", stopped.status, stopped.log),
        }
    }

    /// Starts a node that is expected not to start.
    pub fn refused(&mut self, name: &str, options: &StartOptions) -> Stopped {
        match self.try_launch(name, options) {
            Ok(_) => panic!("a second {name} has started"),
            Err(stopped) => stopped,
        }
    }

    /// Starts a node, again if there was one of this name, which is killed. Waits for its session, not until it is
    /// ready.
    pub fn launch(&mut self, name: &str) {
        let options = self.options.clone();
        self.launch_with(name, &options);
    }

    /// As [`launch`](Self::launch), with other options.
    pub fn launch_with(&mut self, name: &str, options: &StartOptions) {
        self.kill_if_there(name);
        let node = self.launch_aside(name, options);
        if let Some(session) = self.store.open_session(name, node.ready.incarnation) {
            node.life.set_session(session.0);
        }
        self.lives.push(node.life.clone());
        lock(&self.directory).insert(name.to_owned(), node.life.clone());
        self.nodes.insert(name.to_owned(), node);
    }

    fn kill_if_there(&mut self, name: &str) {
        if let Some(mut node) = self.nodes.remove(name) {
            node.kill();
        }
    }

    /// Kills a node (SIGKILL).
    pub fn kill(&mut self, name: &str) {
        assert!(self.nodes.contains_key(name), "{name} is no running node");
        self.kill_if_there(name);
    }

    /// Has a node leave in good order (SIGTERM), and says how it ended.
    pub fn terminate(&mut self, name: &str) -> Stopped {
        let mut node = self.nodes.remove(name).expect("a running node");
        node.terminate()
    }

    /// A running node.
    pub fn node(&self, name: &str) -> &NodeProcess {
        self.nodes.get(name).expect("a running node")
    }

    /// A running node, to do something to.
    pub fn node_mut(&mut self, name: &str) -> &mut NodeProcess {
        self.nodes.get_mut(name).expect("a running node")
    }

    /// The links between the nodes, of a cluster that was started [`linked`](StartOptions::linked).
    pub fn links(&self) -> &Links {
        self.options.links.as_ref().expect("started with links that can be cut")
    }

    /// The ways to the store, of a cluster that was started [`store_linked`](StartOptions::store_linked).
    pub fn store_links(&self) -> &StoreLinks {
        self.options.store_links.as_ref().expect("started with ways that can be cut")
    }

    /// The running nodes' names.
    pub fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// The running nodes' names but these.
    pub fn others(&self, than: &[&str]) -> Vec<String> {
        self.names().into_iter().filter(|name| !than.contains(&name.as_str())).collect()
    }

    /// Stops a node (SIGSTOP) at a moment at which it is not writing to the store, where it would keep everybody from
    /// writing: the store's documentation says so.
    pub fn stop_outside_a_commit(&self, name: &str) {
        eventually("the node is stopped outside a commit", CLUSTER_TIMEOUT, || {
            self.node(name).stop();
            if !self.store.can_lock() || self.store.try_lock().is_some() {
                return Ok(());
            }
            self.node(name).go_on();
            Err("it was writing".to_owned())
        });
    }

    /// Waits until every running node serves, knows every other as a member, and is linked to it.
    pub fn wait_until_ready(&self) {
        let names: BTreeSet<_> = self.names().into_iter().collect();
        for name in &names {
            self.wait_until_node_ready(name, &names);
        }
    }

    fn wait_until_node_ready(&self, name: &str, members: &BTreeSet<String>) {
        eventually(&format!("{name} is ready"), CLUSTER_TIMEOUT, || {
            let status = self.node(name).client.status().result()?;
            let rows = status["members"].as_array().cloned().unwrap_or_default();
            let is_up =
                |row: &&Value| row["linked"] == true && row["synced"] == true && row["session_open"] == true;
            let up: BTreeSet<_> = rows.iter().filter(is_up).filter_map(|row| row["node"].as_str()).collect();
            let is_complete = members.iter().all(|member| up.contains(member.as_str()));
            if status["ready"] == true && is_complete { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Waits until some node leads and serves, and returns its name.
    pub fn leader(&self) -> String {
        eventually("a node leads", CLUSTER_TIMEOUT, || {
            let leader = self.store.leader().ok_or("nobody leads")?;
            let node = self.nodes.get(&leader).ok_or(format!("{leader} leads, and is not running"))?;
            let status = node.client.status().result()?;
            if status["leads"] == true { Ok(leader) } else { Err(status.to_string()) }
        })
    }

    /// Registers a name on a node, until it is granted, and returns its token.
    pub fn register(&self, name: &str, wanted: &str) -> u64 {
        let life = &self.node(name).life;
        eventually(&format!("{name} registers {wanted}"), CLUSTER_TIMEOUT, || {
            let asked = Instant::now();
            let token = life.client.register(wanted).result()?["token"].as_u64().ok_or("no token")?;
            self.history.granted(life, wanted, token, Span::since(asked));
            Ok(token)
        })
    }

    /// Notes what a node has answered to `/held` when it was asked at `asked`.
    pub fn note_held(&self, name: &str, asked: Instant, body: Value) {
        note(&self.history, &self.node(name).life, asked, Answer::Ok(body));
    }

    /// Keeps everybody from writing to the store, until the lock is dropped.
    pub fn lock_the_store(&self) -> WriteLock {
        eventually("the store is locked", CLUSTER_TIMEOUT, || {
            self.store.try_lock().ok_or("others write".to_owned())
        })
    }

    /// Keeps everybody from writing to the store for a time.
    pub fn hold_the_store(&self, time: Duration) {
        let lock = self.lock_the_store();
        std::thread::sleep(time);
        drop(lock);
    }

    /// Starts clients on all nodes that run now; and asks those nodes all the time what they hold.
    pub fn load(&self) -> (Load, Sampler) {
        let names = self.names();
        let sampler = Sampler::start(&self.directory, &names, &self.history);
        (Load::start(&self.directory, &names, &self.history), sampler)
    }

    /// Starts clients that ask any of the nodes that run now, and another one if that is no answer.
    pub fn retrying(&self) -> Retrying {
        Retrying::start(&self.directory, &self.names(), &self.history)
    }

    /// Waits until clients were granted so many registrations more.
    pub fn wait_for_registrations(&self, more: u64) {
        let enough = self.history.answers("registered") + more;
        eventually("clients are granted names", CLUSTER_TIMEOUT, || {
            if self.history.answers("registered") >= enough { Ok(()) } else { Err(self.history.to_string()) }
        });
    }

    /// Incarnations that live, but not in the session in which they began.
    pub fn with_lost_sessions(&self) -> Forgive {
        let mut forgive = Forgive::nobody();
        for node in self.nodes.values() {
            let session = self.store.open_session(&node.life.node, node.life.incarnation);
            if session.is_none_or(|session| session.0 != node.life.session()) {
                forgive.and(node.life.incarnation);
            }
        }
        forgive
    }

    /// Fails unless every running node is in the session in which it began.
    pub fn no_session_was_lost(&self) {
        for node in self.nodes.values() {
            let (life, session) = (&node.life, self.store.session(&node.life.node));
            let now = self.store.open_session(&life.node, life.incarnation).map(|session| session.0);
            assert_eq!(now, Some(life.session()), "{} has lost its session: {session:?}", life.node);
        }
    }

    /// Judges the history, of incarnations that kept their sessions.
    pub fn check(&self) {
        self.check_but(&Forgive::nobody());
    }

    /// Judges the history, and waits until what every node's replica has is what the nodes hold: all of what was
    /// acknowledged, and nothing else.
    pub fn check_but(&self, forgive: &Forgive) {
        let lives: Vec<_> = self.lives.iter().map(AsRef::as_ref).collect();
        let no_breach = || {
            let breaches = self.history.breaches(&lives, forgive);
            assert!(breaches.is_empty(), "{}\nhistory: {}", breaches.join("\n"), self.history);
        };
        no_breach();
        eventually("every replica has what is held, and nothing else", CLUSTER_TIMEOUT, || {
            let mut held = BTreeMap::new();
            for node in self.nodes.values() {
                held.extend(held_by(&node.life, &self.history)?);
            }
            for node in self.nodes.values() {
                let found = entries(node)?;
                if found != held {
                    return Err(differences(&node.life.node, &found, &held));
                }
            }
            Ok(())
        });
        for node in self.nodes.values().filter(|node| !forgive.has(node.life.incarnation)) {
            let found = entries(node).expect("a node that has just answered answers");
            for (name, token) in self.history.owed(&node.life) {
                let is_kept = found.get(&name).is_some_and(|(_, found)| *found == token);
                assert!(is_kept, "P3: {name} with token {token} is {:?}", found.get(&name));
            }
        }
        no_breach();
    }

    /// Kills every node, replays what all nodes of this test have recorded through fresh cores, and checks it all
    /// together. The recordings are kept if something is wrong with them.
    pub fn check_recordings(mut self) {
        for name in self.names() {
            self.kill(&name);
        }
        match callsign_sim::recording::check(&recordings(self.files.path())) {
            Ok(report) => println!("{report}"),
            Err(error) => {
                let kept = recordings(&self.files.keep());
                panic!("{error}\nkept in {}", kept.display());
            }
        }
    }
}

/// Name to incarnation and token.
type HoldersByName = BTreeMap<String, (u64, u64)>;

fn held_by(life: &Life, history: &History) -> Result<HoldersByName, String> {
    let asked = Instant::now();
    let body = life.client.get("/held", &[]).result()?;
    note(history, life, asked, Answer::Ok(body.clone()));
    let held = body["held"].as_array().cloned().unwrap_or_default();
    let trusted = held.iter().filter(|held| held["trusted"] == true);
    Ok(trusted.filter_map(|held| holder(held, Some(life.incarnation))).collect())
}

fn entries(node: &NodeProcess) -> Result<HoldersByName, String> {
    let body = node.client.get("/entries", &[]).result()?;
    let entries = body["entries"].as_array().cloned().unwrap_or_default();
    Ok(entries.iter().filter_map(|entry| holder(entry, None)).collect())
}

fn holder(value: &Value, incarnation: Option<u64>) -> Option<(String, (u64, u64))> {
    let said = || u64::from_str_radix(value["incarnation"].as_str()?, 16).ok();
    let incarnation = incarnation.or_else(said)?;
    Some((value["name"].as_str()?.to_owned(), (incarnation, value["token"].as_u64()?)))
}

fn differences(node: &str, found: &HoldersByName, held: &HoldersByName) -> String {
    let only = |these: &HoldersByName, those: &HoldersByName| {
        let only = these.iter().filter(|(name, holder)| those.get(*name) != Some(holder));
        format!("{:?}", only.collect::<Vec<_>>())
    };
    format!("{node}'s replica alone has {}, and lacks {}", only(found, held), only(held, found))
}
