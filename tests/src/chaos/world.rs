//! The nodes of a run as processes, and all that can be done to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::{
    event::{At, Event},
    holders::{HolderStart, Holders, Ran},
    journal,
    node::Joined,
    sink::SinkServer,
};
use crate::{
    etcd::EtcdServers,
    links::{Links, StoreLinks},
    process::{as_pid, kill, wait_until_stopped},
    store::TestStore,
    store_view::{StoreView, WriteLock},
    wait::wait_for,
};

mod pair;

/// The file that says who lived when, and was killed when.
pub const LIVES: &str = "lives.json";

/// The directory, in that of the run, of the recordings.
pub const RECORDINGS: &str = "recordings";

/// How long a node may take to leave.
const LEAVING: Duration = Duration::from_secs(20);
/// How long the store may take to say who leads, before a fault is aimed at somebody else.
const ASKING: Duration = Duration::from_millis(300);

/// From where to where in time something was so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// From.
    pub from: At,
    /// To; still, if none.
    pub to: Option<At>,
}

/// One process of a node, from its start to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessLife {
    /// The node.
    pub node: String,
    /// The file with what it wrote, in the run's directory.
    pub history: PathBuf,
    /// When it was started, and when it was gone.
    pub lived: Stretch,
    /// When it was about to be killed, if it was.
    pub killed: Option<At>,
    /// When it was stopped.
    pub stopped: Vec<Stretch>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// Which of all lives.
    life: usize,
    log: PathBuf,
}

/// What is being done to servers of etcd.
#[derive(Debug)]
pub struct Struck {
    /// To which member.
    pub member: Option<usize>,
    /// Else why it has not come to what it is there for.
    pub came: Result<(), String>,
}

/// How nodes are started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How many.
    pub nodes: usize,
    /// The lease.
    pub lease: Duration,
    /// Seeds the choices of the clients.
    pub seed: u64,
    /// Whether wall clocks are to be shifted.
    pub clocks: bool,
    /// A defect to plant in every node.
    pub plant: Option<String>,
    /// Whether each node has a network namespace of its own.
    pub netns: bool,
    /// The program that nodes run: `callsign-chaos`, or another one with the same nodes.
    pub program: PathBuf,
    /// Whether nodes record what their cores do.
    pub records: bool,
    /// The command that some nodes have beside them as `callsign hold`. None: no node has one.
    pub callsign: Option<PathBuf>,
    /// More arguments for every node.
    pub arguments: Vec<String>,
}

impl Setup {
    fn names(&self) -> Vec<String> {
        (b'a'..).take(self.nodes).map(|letter| char::from(letter).to_string()).collect()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct World {
    /// The links between the nodes.
    pub links: Links,
    /// All processes so far.
    pub lives: Vec<ProcessLife>,
    /// What went wrong that no history shows.
    pub breaches: Vec<String>,
    /// When another primary of the store was promoted.
    pub promotions: Vec<At>,
    setup: Setup,
    names: Vec<String>,
    directory: PathBuf,
    processes: BTreeMap<String, Process>,
    holders: Option<Holders>,
    store_links: Option<StoreLinks>,
    lock: Option<WriteLock>,
    struck: Struck,
    /// What an old primary of Postgres had when it came back as a second one.
    old_rows: Option<String>,
    sink: SinkServer,
    view: StoreView,
    place: TestStore,
    shim: Option<PathBuf>,
}

impl World {
    /// A store and no nodes yet. Everything is written to the directory.
    pub fn new(directory: &Path, place: TestStore, setup: Setup) -> Result<Self> {
        if setup.netns && !StoreLinks::is_local(&place.url) {
            bail!("from a network namespace a store is reached by a file or a Unix socket only");
        }
        for part in ["history", RECORDINGS, "logs"] {
            fs::create_dir_all(directory.join(part)).context("the directory cannot be written")?;
        }
        let shim = if setup.clocks { shim() } else { None };
        let callsign = setup.callsign.as_ref();
        let holders =
            callsign.map(|callsign| Holders::new(directory, callsign, &place, setup.lease, &setup.names()));
        let world = Self {
            holders: holders.transpose()?,
            links: if setup.netns { Links::in_namespaces(&setup.names())? } else { Links::default() },
            lives: Vec::new(),
            breaches: Vec::new(),
            promotions: Vec::new(),
            directory: directory.to_owned(),
            processes: BTreeMap::new(),
            store_links: StoreLinks::can_cut(&place.url).then(StoreLinks::default),
            lock: None,
            struck: Struck { member: None, came: Ok(()) },
            old_rows: None,
            sink: SinkServer::start(directory)?,
            view: StoreView::open(&place),
            place,
            shim,
            names: setup.names(),
            setup,
        };
        for name in world.names() {
            world.links.address(&name);
            world.set_wall_clock(&name, 0);
        }
        Ok(world)
    }

    /// The nodes' names.
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// A node of another name is to be there in the place of one that is gone.
    pub fn replace(&mut self, former: &str, next: &str) {
        self.names.iter_mut().filter(|name| *name == former).for_each(|name| next.clone_into(name));
    }

    /// The process of a node that runs, and which of all lives it is.
    pub fn process(&self, node: &str) -> Option<(u32, usize)> {
        self.processes.get(node).map(|process| (process.child.id(), process.life))
    }

    /// Where everything is written.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What a node has written so far, in all of its lives.
    pub fn history(&self, node: &str) -> Vec<Event> {
        let its = self.lives.iter().filter(|life| life.node == node);
        // One that has not joined yet has none.
        its.filter_map(|life| journal::read(&self.directory.join(&life.history)).ok()).flatten().collect()
    }

    /// What came to the sinks.
    pub fn sink(&self) -> super::sink::Counts {
        self.sink.counts()
    }

    /// Where the recordings are.
    pub fn recordings(&self) -> PathBuf {
        self.directory.join(RECORDINGS)
    }

    /// Who leads, if the store says so soon.
    pub fn leader(&self) -> Option<String> {
        self.view.leader_within(ASKING)
    }

    /// On which node the singleton's leader has written last.
    pub fn writer(&self) -> Option<String> {
        let pid = self.sink.writer()?;
        self.processes.iter().find(|(_, process)| process.child.id() == pid).map(|(node, _)| node.clone())
    }

    fn wall_clock(&self, node: &str) -> PathBuf {
        self.directory.join(format!("wall-{node}"))
    }

    /// Starts a node. It joins when it can.
    pub fn launch(&mut self, node: &str) {
        let number = self.lives.len();
        let file = |part: &str, end: &str| Path::new(part).join(format!("{number:03}-{node}.{end}"));
        let (history, log) = (file("history", "jsonl"), self.directory.join(file("logs", "log")));
        let store = self.store_of(node);
        let mut command = self.links.command(node, &self.setup.program);
        command
            .args(["node", "--name", node, "--store", &store, "--cluster", &self.place.cluster])
            .args(["--lease-ms", &self.setup.lease.as_millis().to_string()])
            .args(["--advertise", &self.links.address(node).to_string()])
            .args(["--nodes", &self.names().join(",")])
            .args(["--seed", &self.setup.seed.wrapping_add(number as u64).to_string()])
            .arg("--history")
            .arg(self.directory.join(&history))
            .arg("--sink")
            .arg(self.sink.path())
            .args(&self.setup.arguments)
            .env(super::PARENT, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("the directory can be written"));
        if let Some(listen) = self.links.listen(node) {
            command.args(["--listen", &listen.to_string()]);
        }
        if self.setup.records {
            command.arg("--record").arg(self.recordings());
        }
        if let Some(plant) = &self.setup.plant {
            command.args(["--plant", plant]);
        }
        if let Some(shim) = &self.shim {
            command
                .env("LD_PRELOAD", shim)
                .env("FAKETIME_TIMESTAMP_FILE", self.wall_clock(node))
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let from = journal::now();
        let mut child = command.spawn().expect("this program can be run");
        self.links.started(node, child.id());
        let (out, links, name) = (child.stdout.take(), self.links.clone(), node.to_owned());
        // Ends with the process, or when it has said where it listens.
        std::thread::spawn(move || {
            let line = out.and_then(|out| BufReader::new(out).lines().next()?.ok());
            if let Some(joined) = line.and_then(|line| serde_json::from_str::<Joined>(&line).ok()) {
                links.listens(&name, joined.listen);
            }
        });
        let lived = Stretch { from, to: None };
        self.lives.push(ProcessLife {
            node: node.to_owned(),
            history,
            lived,
            killed: None,
            stopped: Vec::new(),
        });
        self.processes.insert(node.to_owned(), Process { child, life: number, log });
        self.launch_holder(node, store);
    }

    /// How a node reaches the store.
    fn store_of(&self, node: &str) -> String {
        self.store_links.as_ref().map_or(self.place.url.clone(), |ways| ways.url(node, &self.place.url))
    }

    fn launch_holder(&mut self, node: &str, store: String) {
        let (Some(holders), Some(callsign)) = (self.holders.as_mut(), &self.setup.callsign) else { return };
        let command = self.links.command(node, callsign);
        // In the network of its node, which has one address, and at a port of its own there.
        let options = self.links.listen(node).map(|mut listen| {
            listen.set_port(0);
            vec!["--listen".to_owned(), listen.to_string()]
        });
        holders.launch(node, HolderStart { command, store, options: options.unwrap_or_default() });
    }

    /// What is done to a node is done to the `callsign hold` beside it, if there is one.
    fn with_holder(&mut self, act: impl FnOnce(&mut Holders)) {
        if let Some(holders) = self.holders.as_mut() {
            act(holders);
        }
    }

    /// Beside which node the program of `callsign hold` was started last.
    pub fn holder(&self) -> Option<String> {
        self.holders.as_ref().and_then(Holders::holder)
    }

    /// What the program of `callsign hold` did, if any node holds its name.
    pub fn held(&self) -> Option<Ran> {
        self.holders.as_ref().map(Holders::ran)
    }

    /// Waits until somebody runs the program of `callsign hold`.
    pub fn await_holder(&self, patience: Duration) -> Result<(), String> {
        self.holders.as_ref().map_or(Ok(()), |holders| holders.await_act(patience))
    }

    fn signal(&self, node: &str, signal: Signal) {
        let Some(process) = self.processes.get(node) else { return };
        // It may have ended, which `look` reports.
        let _ = kill_process(as_pid(process.child.id()), signal);
    }

    fn life(&mut self, node: &str) -> Option<&mut ProcessLife> {
        let number = self.processes.get(node)?.life;
        self.lives.get_mut(number)
    }

    /// Kills a node (SIGKILL), and waits until it is dead.
    pub fn kill(&mut self, node: &str) {
        self.with_holder(|holders| holders.kill(node));
        if let Some(life) = self.life(node) {
            life.killed = Some(journal::now());
        }
        if let Some(mut process) = self.processes.remove(node) {
            kill(&mut process.child);
            self.gone(&process);
        }
    }

    fn gone(&mut self, process: &Process) {
        let life = &mut self.lives[process.life];
        life.lived.to = Some(journal::now());
        if let Some(stretch) = life.stopped.last_mut().filter(|stretch| stretch.to.is_none()) {
            stretch.to = Some(journal::now());
        }
        // What the shim leaves behind of a process that was killed.
        for leftover in ["faketime_shm_", "sem.faketime_sem_"] {
            let _ = fs::remove_file(format!("/dev/shm/{leftover}{}", process.child.id()));
        }
    }

    /// Asks a node to leave in good order (SIGTERM).
    pub fn ask_to_leave(&mut self, node: &str) {
        self.with_holder(|holders| holders.ask_to_end(node));
        self.signal(node, Signal::TERM);
    }

    /// Waits until it has left; kills it if that takes too long. To leave without a store may end in an error.
    pub fn await_leave(&mut self, node: &str) {
        let holder = self.holders.as_mut().map_or(Ok(()), |holders| holders.await_end(node, LEAVING));
        self.breaches.extend(holder.err());
        let Some(process) = self.processes.get_mut(node) else { return };
        let child = &mut process.child;
        let ended = wait_for(LEAVING, || child.try_wait().ok().flatten());
        if ended.is_none() {
            self.breaches.push(format!("P8: {node} did not leave within {LEAVING:?}"));
            self.kill(node);
        } else if let Some(process) = self.processes.remove(node) {
            self.gone(&process);
        }
    }

    /// Stops a node (SIGSTOP), and waits until none of its threads runs.
    pub fn stop(&mut self, node: &str) {
        self.with_holder(|holders| holders.stop(node));
        self.signal(node, Signal::STOP);
        if let Some(process) = self.processes.get(node) {
            wait_until_stopped(process.child.id());
        }
        if let Some(life) = self.life(node) {
            life.stopped.push(Stretch { from: journal::now(), to: None });
        }
    }

    /// Lets it go on (SIGCONT).
    pub fn go_on(&mut self, node: &str) {
        self.with_holder(|holders| holders.go_on(node));
        if let Some(life) = self.life(node)
            && let Some(stretch) = life.stopped.last_mut()
        {
            stretch.to = Some(journal::now());
        }
        self.signal(node, Signal::CONT);
    }

    /// Tells every node's clients to stop.
    pub fn quieten(&self) {
        self.tell_all(Signal::USR1);
    }

    /// Has every node read once more what is to be kept.
    pub fn read_all(&self) {
        self.tell_all(Signal::USR2);
    }

    /// A node listens to signals before it begins its history. A process that does not listen yet would die of one.
    fn tell_all(&self, signal: Signal) {
        for (node, process) in &self.processes {
            if self.directory.join(&self.lives[process.life].history).exists() {
                self.signal(node, signal);
            }
        }
    }

    /// Whether every node has come so far: to [`QUIET`](super::node::QUIET) or [`DONE`](super::node::DONE).
    pub fn all_are(&self, state: &str) -> bool {
        let is = |process: &Process| {
            self.directory.join(&self.lives[process.life].history).with_extension(state).exists()
        };
        self.processes.len() == self.setup.nodes && self.processes.values().all(is)
    }

    /// Starts again who has ended by itself, and reports it. Those in `leaving` are asked to end.
    pub fn look(&mut self, leaving: &BTreeSet<String>) {
        let ended = |process: &mut Process| process.child.try_wait().ok().flatten();
        let found: Vec<_> = self
            .processes
            .iter_mut()
            .filter_map(|(node, process)| Some((node.clone(), ended(process)?)))
            .collect();
        for (node, status) in found {
            if let Some(process) = self.processes.remove(&node) {
                self.gone(&process);
                if leaving.contains(&node) {
                    continue;
                }
                let log = fs::read_to_string(&process.log).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(12)..].join("\n    ");
                self.breaches.push(format!("P8: {node} has ended by itself: {status}\n    {tail}"));
            }
            self.launch(&node);
        }
        for (node, why) in self.holders.as_mut().map(Holders::ended).unwrap_or_default() {
            if !leaving.contains(&node) {
                self.breaches.push(format!("P8: {why}"));
                let store = self.store_of(&node);
                self.launch_holder(&node, store);
            }
        }
    }

    /// Ways to the store for each node, where there can be such a thing.
    pub fn store_links(&self) -> Option<&StoreLinks> {
        self.store_links.as_ref()
    }

    /// Why there are none.
    pub fn why_no_store_links(&self) -> String {
        let scheme = self.place.url.split(':').next().unwrap_or_default();
        match scheme {
            "sqlite" => "all processes share one file: it cannot be cut off for one of them".to_owned(),
            "fdb" => "the client learns the servers' real addresses from the coordinators, past any proxy"
                .to_owned(),
            _ => format!("{scheme} has no way that could be cut"),
        }
    }

    /// Whether the store can be stopped for all.
    pub fn can_stop_store(&self) -> bool {
        self.place.has_server() || self.place.has_pair() || self.place.has_etcd() || self.view.can_lock()
    }

    /// Whether the store is in etcd servers of our own.
    pub fn has_etcd(&self) -> bool {
        self.place.has_etcd()
    }

    /// Does something to them; the other is what is noted of it.
    pub fn with_etcd(&mut self, act: impl FnOnce(&mut EtcdServers, &mut Struck)) {
        if let Some(etcd) = self.place.etcd_servers() {
            act(etcd, &mut self.struck);
        }
    }

    /// Stops the store for all, as far as that is possible, and says how.
    pub fn stop_store(&mut self) -> String {
        if let Some(server) = self.place.server() {
            server.stop();
            return "the server stopped".to_owned();
        }
        if let Some(pair) = self.place.pair() {
            pair.crash();
            return "both servers killed".to_owned();
        }
        if let Some(etcd) = self.place.etcd_servers() {
            etcd.stop();
            return "all servers killed".to_owned();
        }
        // Somebody may be writing.
        self.lock = wait_for(Duration::from_secs(5), || self.view.try_lock());
        if self.lock.is_some() {
            "locked for writing".to_owned()
        } else {
            "not locked: others write".to_owned()
        }
    }

    /// Lets it go on.
    pub fn resume_store(&mut self) {
        self.lock = None;
        if let Some(server) = self.place.server() {
            server.resume();
        }
        if let Some(pair) = self.place.pair() {
            pair.resume();
        }
        if let Some(etcd) = self.place.etcd_servers() {
            etcd.resume_all();
        }
    }

    /// Why no wall clock can be shifted.
    pub fn why_no_clocks(&self) -> Option<String> {
        self.shim.is_none().then(|| "libfaketime is not installed (apt-get install libfaketime)".to_owned())
    }

    /// Sets the wall clock of a node so far ahead of that of the machine.
    pub fn set_wall_clock(&self, node: &str, seconds: i64) {
        // In place of the old one at once: it is read all the time.
        let (file, new) = (self.wall_clock(node), self.directory.join("wall-new"));
        let written = fs::write(&new, format!("{seconds:+}")).and_then(|()| fs::rename(&new, &file));
        written.expect("the directory can be written");
    }

    /// All leave. What is known of their lives is written beside their histories.
    pub fn end(&mut self) -> Result<()> {
        for node in self.names() {
            self.ask_to_leave(&node);
        }
        for node in self.names() {
            self.await_leave(&node);
        }
        let lives = serde_json::to_vec_pretty(&self.lives)?;
        fs::write(self.directory.join(LIVES), lives).context("the lives cannot be written")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for node in self.names() {
            self.kill(&node);
        }
    }
}

/// What stands between a process and its clocks.
fn shim() -> Option<PathBuf> {
    let mut places = vec![PathBuf::from("/usr/lib/faketime"), PathBuf::from("/usr/local/lib/faketime")];
    let architectures = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    places.extend(architectures.map(|architecture| architecture.path().join("faketime")));
    places.into_iter().map(|place| place.join("libfaketimeMT.so.1")).find(|shim| shim.is_file())
}
