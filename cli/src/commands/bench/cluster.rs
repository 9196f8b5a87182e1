//! The bench's cluster: child processes that take orders by lines of JSON.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::{ChildStdin, Stdio},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::orders::{Leading, Names, Order, OrderLine, ReportLine, Took};
use crate::{
    child::OwnedChild,
    output::Steps,
    processes::{own_cluster, spawn_heard},
};

/// How much longer the bench waits for a report than a node for what it reports.
const REPORTING: Duration = Duration::from_secs(20);

/// What the cluster is like.
pub(super) struct Setting {
    pub(super) store: String,
    pub(super) workers: u32,
    pub(super) observers: u32,
    pub(super) in_flight: u32,
    /// With --load: how many actors of a node hold its names, at most.
    pub(super) actors: u32,
    /// How long a node waits for a condition: more names take longer.
    pub(super) patience: Duration,
    /// How far it has come.
    pub(super) steps: Steps,
}

impl Setting {
    /// Says what is measured next.
    pub(super) fn begin(&self, text: &str) {
        self.steps.begin(format_args!("{text} ..."));
    }
}

/// The nodes that run, workers first.
pub(super) struct BenchCluster<'a> {
    pub(super) setting: &'a Setting,
    pub(super) name: String,
    secret: String,
    pub(super) nodes: Vec<BenchProcess>,
    /// How many registries each node joins; names are spread over them.
    registries: u32,
}

/// One process with a node.
pub(super) struct BenchProcess {
    pub(super) name: String,
    /// What it registers, and again after a restart.
    pub(super) share: Option<Names>,
    /// How many names it holds besides.
    pub(super) others: usize,
    pub(super) child: OwnedChild,
    patience: Duration,
    orders: ChildStdin,
    reports: Receiver<ReportLine>,
    /// Reports that came before they were asked for.
    early: BTreeMap<u64, Result<Value, String>>,
    next: u64,
}

/// An order that was given.
pub(super) struct Given(u64);

impl BenchProcess {
    fn start(name: &str, share: Option<Names>, patience: Duration) -> Result<Self> {
        let read = |line: io::Result<String>| serde_json::from_str(&line.ok()?).ok();
        let (mut child, reports) = spawn_heard(read, |command| {
            command.arg("bench-node").stdin(Stdio::piped());
        })?;
        let orders = child.child().stdin.take().context("a child has no input")?;
        let name = name.to_owned();
        let early = BTreeMap::new();
        Ok(Self { name, share, others: 0, child, patience, orders, reports, early, next: 0 })
    }

    /// Gives an order, and does not wait for it.
    pub(super) fn give(&mut self, order: Order) -> Result<Given> {
        let id = self.next;
        self.next += 1;
        let line = serde_json::to_string(&OrderLine { id, order })?;
        writeln!(self.orders, "{line}").with_context(|| format!("{} takes no orders", self.name))?;
        Ok(Given(id))
    }

    /// Waits for what an order reports.
    pub(super) fn report<T: DeserializeOwned>(&mut self, given: &Given) -> Result<T> {
        let deadline = Instant::now() + self.patience + REPORTING;
        let result = loop {
            if let Some(result) = self.early.remove(&given.0) {
                break result;
            }
            let wait = deadline.saturating_duration_since(Instant::now());
            let report = self.reports.recv_timeout(wait);
            let report = report.with_context(|| format!("{} does not report", self.name))?;
            self.early.insert(report.id, report.result);
        };
        let value = result.map_err(|error| anyhow!("{}: {error}", self.name))?;
        Ok(serde_json::from_value(value)?)
    }

    /// Gives an order, and waits for what it reports.
    pub(super) fn order<T: DeserializeOwned>(&mut self, order: Order) -> Result<T> {
        let given = self.give(order)?;
        self.report(&given)
    }
}

impl<'a> BenchCluster<'a> {
    /// Starts all nodes, in one registry, and waits until they serve. `names` are what the workers are to register.
    pub(super) fn start(setting: &'a Setting, names: u32) -> Result<Self> {
        Self::of_registries(setting, 1, names)
    }

    /// The same in so many registries.
    pub(super) fn of_registries(setting: &'a Setting, registries: u32, names: u32) -> Result<Self> {
        let (name, secret) = own_cluster("bench");
        let mut cluster = Self { setting, name, secret, nodes: Vec::new(), registries };
        for worker in 0..setting.workers {
            let count = names / setting.workers + u32::from(worker < names % setting.workers);
            let name = format!("w{}", worker + 1);
            let share = Names { prefix: format!("{name}/actor-"), from: 0, to: count };
            cluster.add(&name, Some(share), None, false)?;
        }
        for observer in 0..setting.observers {
            cluster.add(&format!("o{}", observer + 1), None, None, false)?;
        }
        cluster.on_all::<()>(|_| Order::Ready)?;
        Ok(cluster)
    }

    /// Starts a node, and waits until it has joined, or until it knows so many names. Returns how long that took,
    /// in nanoseconds.
    pub(super) fn add(
        &mut self,
        name: &str,
        share: Option<Names>,
        until: Option<usize>,
        ordered: bool,
    ) -> Result<u64> {
        let mut node = BenchProcess::start(name, share, self.setting.patience)?;
        let took: Took = node.order(Order::Join {
            node: name.to_owned(),
            store: self.setting.store.clone(),
            cluster: self.name.clone(),
            secret: self.secret.clone(),
            registries: self.registries,
            ordered,
            until,
            patience_ms: u64::try_from(self.setting.patience.as_millis())?,
        })?;
        self.nodes.push(node);
        Ok(took.ns)
    }

    /// Tells each node what it is to register from now on, and returns what it was before.
    pub(super) fn share_out(&mut self, shares: Vec<Option<Names>>) -> Vec<Option<Names>> {
        let nodes = self.nodes.iter_mut().zip(shares);
        nodes.map(|(node, share)| std::mem::replace(&mut node.share, share)).collect()
    }

    /// Gives each node an order, at once, and collects what they report.
    pub(super) fn on_all<T: DeserializeOwned>(
        &mut self,
        order: impl Fn(&BenchProcess) -> Order,
    ) -> Result<Vec<T>> {
        let given: Result<Vec<_>> = self.nodes.iter_mut().map(|node| node.give(order(node))).collect();
        self.nodes.iter_mut().zip(given?).map(|(node, given)| node.report(&given)).collect()
    }

    /// Waits until every node knows so many names. Returns the last moment at which one came to.
    pub(super) fn await_count(&mut self, count: usize) -> Result<u64> {
        let moments: Vec<u64> = self.on_all(|_| Order::AwaitCount { count })?;
        moments.into_iter().max().context("there are no nodes")
    }

    /// The index of a node that is none of these.
    pub(super) fn bystander(&self, others: &[usize]) -> Result<usize> {
        let bystander = (0..self.nodes.len()).rev().find(|node| !others.contains(node));
        bystander.context("there are too few nodes")
    }

    /// The index of the leader, once all agree on it.
    pub(super) fn leader(&mut self) -> Result<usize> {
        let deadline = Instant::now() + self.setting.patience;
        loop {
            let leaders: Vec<Leading> = self.on_all(|_| Order::Leader)?;
            if leaders.windows(2).all(|pair| pair[0] == pair[1]) {
                let index = self.nodes.iter().position(|node| node.name == leaders[0].node);
                // A node that was killed may still be read as the leader.
                if let Some(index) = index {
                    return Ok(index);
                }
            }
            if Instant::now() > deadline {
                bail!("the nodes do not agree on a leader");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
