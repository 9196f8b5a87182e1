//! A soak: a cluster that works for long while its nodes come and go, and what it keeps.
//!
//! Nodes are processes of this same program, as those of [`chaos`], without its faults. Two of them stay. The others
//! leave or are killed in turns, and come back, half of them under a new name. Clients in all nodes do what those of chaos do, and
//! register a new name some ten times a second besides ([`chaos::node::churn`]).
//! Memory, files, threads, the store, and how long registrations take are measured all the time, and must stay flat
//! ([`flat`], [`measures`]). What clients were told is judged as chaos judges it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use callsign_sim::histories::judge::judge;

mod changes;
pub mod flat;
pub mod measures;
pub mod report;
mod store;
mod tails;

use self::{
    changes::{Change, Changes},
    measures::{Measures, Of, Row, What},
    report::{SoakReport, Window},
    store::RowCounts,
    tails::Tails,
};
use crate::{
    chaos::{
        self,
        node::churn::CHURNED,
        world::{Setup, World},
    },
    holds::Holds,
    store_view::StoreView,
    wait::wait_for,
};

/// Nodes that run all the time, and are measured.
const STAY: usize = 2;
/// How often a process is looked after.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long nodes may take to join at the begin.
const JOINING: Duration = Duration::from_secs(60);
/// How long a node may take to leave.
const LEAVING: Duration = Duration::from_secs(20);
/// From this on, times are judged: in a shorter run a busy machine decides.
const LONG: Duration = Duration::from_secs(600);
/// In how many registries a node is.
const REGISTRIES: usize = 2;
/// Without which a run has shown nothing.
const NEEDED: [&str; 8] = [
    "registered",
    "updated",
    "unregistered",
    "actors that ended",
    "joined",
    "left",
    "watches",
    "held in the end",
];

/// What to do.
#[derive(Clone, Debug)]
pub struct SoakOptions {
    /// For how long it is measured.
    pub time: Duration,
    /// Decides which node goes when, and what clients do.
    pub seed: u64,
    /// `sqlite`, `postgres` (private, gone afterwards), or a URL.
    pub store: String,
    /// How many nodes there are at a time: two that stay, and those that come and go.
    pub nodes: usize,
    /// The lease of sessions.
    pub lease: Duration,
    /// So many KiB a second each node never gives back, to see that found.
    pub leak: u64,
    /// Where everything is written. It must be empty, or not there.
    pub directory: PathBuf,
}

impl SoakOptions {
    /// Between the return of a node and the next one that goes.
    fn change_interval(&self) -> Duration {
        (self.time / 12).clamp(Duration::from_secs(2), Duration::from_secs(15))
    }

    /// Between two measurements.
    fn sample_interval(&self) -> Duration {
        (self.time / 120).clamp(Duration::from_millis(500), Duration::from_secs(5))
    }

    /// For how long registrations are put together.
    fn window(&self) -> Duration {
        (self.time / 24).clamp(Duration::from_secs(2), Duration::from_secs(30))
    }

    /// Between two lines that say how it goes.
    fn say_interval(&self) -> Duration {
        (self.time / 12).clamp(Duration::from_secs(5), Duration::from_secs(60))
    }
}

/// Who goes, and how far that is.
enum Going {
    /// Nobody. When the next one goes.
    Nobody(Duration),
    /// It was asked to leave, then.
    Leaves(Change, Duration),
    /// It is gone, and another comes then.
    Gone(Change, Duration),
}

/// Runs, and judges. `say` is told what happens meanwhile.
pub fn run(options: &SoakOptions, say: &mut dyn FnMut(&str)) -> Result<SoakReport> {
    chaos::make_directory(&options.directory)?;
    let mut soak = Soak::start(options)?;
    soak.churn(say);
    say("waiting until everything is at rest");
    let at_rest = chaos::settle(&soak.world, chaos::patience(options.lease));
    soak.world.end()?;
    soak.breaches.extend(at_rest.err());
    say("judging what was measured and written down");
    soak.report()
}

struct Soak<'a> {
    options: &'a SoakOptions,
    world: World,
    view: StoreView,
    url: String,
    cluster: String,
    begin: Instant,
    /// All names of nodes so far.
    names: BTreeSet<String>,
    changes: Changes,
    left: usize,
    killed: usize,
    /// Nodes that have just come and were not measured yet: the process, and when it was started.
    young: Vec<(u32, Instant)>,
    measures: Measures,
    tails: Tails,
    /// How long each registration took since the last window.
    took: Vec<u32>,
    windows: Vec<Window>,
    counts: BTreeMap<String, u64>,
    breaches: Vec<String>,
}

impl<'a> Soak<'a> {
    /// Starts all nodes, and waits until they have joined.
    fn start(options: &'a SoakOptions) -> Result<Self> {
        let place = chaos::place(&options.store, &options.directory)?;
        let (view, url, cluster) = (StoreView::open(&place), place.url.clone(), place.cluster.clone());
        let mut arguments = vec!["--churn".to_owned()];
        if options.leak > 0 {
            arguments.extend(["--leak".to_owned(), options.leak.to_string()]);
        }
        let setup = Setup {
            nodes: options.nodes,
            lease: options.lease,
            seed: options.seed,
            clocks: false,
            plant: None,
            netns: false,
            program: std::env::current_exe().context("a running program has a file")?,
            records: false,
            callsign: None,
            arguments,
        };
        let mut world = World::new(&options.directory, place, setup)?;
        let names = world.names();
        for name in &names {
            world.launch(name);
        }
        let has_joined = |name: &String| !world.history(name).is_empty();
        if wait_for(JOINING, || names.iter().all(has_joined).then_some(())).is_none() {
            bail!("not all nodes have joined within {JOINING:?}");
        }
        Ok(Self {
            options,
            world,
            view,
            url,
            cluster,
            begin: Instant::now(),
            changes: Changes::new(options.seed, names[STAY..].to_vec()),
            names: names.into_iter().collect(),
            left: 0,
            killed: 0,
            young: Vec::new(),
            measures: Measures::default(),
            tails: Tails::default(),
            took: Vec::new(),
            windows: Vec::new(),
            counts: BTreeMap::new(),
            breaches: Vec::new(),
        })
    }

    /// Has nodes come and go, and measures, until the time is over.
    fn churn(&mut self, say: &mut dyn FnMut(&str)) {
        let mut going = Going::Nobody(self.options.change_interval());
        let [mut sample, mut window, mut line] = [Duration::ZERO, self.options.window(), Duration::ZERO];
        loop {
            let at = self.begin.elapsed();
            going = self.go_on(going, at, say);
            self.measure_young(at);
            if at >= sample {
                self.measure(at);
                sample = at + self.options.sample_interval();
            }
            if at >= window {
                self.close_window(at);
                window = at + self.options.window();
            }
            if at >= line {
                say(&self.line(at));
                line = at + self.options.say_interval();
            }
            if at >= self.options.time && matches!(going, Going::Nobody(_)) {
                return;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn go_on(&mut self, going: Going, at: Duration, say: &mut dyn FnMut(&str)) -> Going {
        let leaving = match &going {
            Going::Leaves(change, _) => BTreeSet::from([change.goes.clone()]),
            _ => BTreeSet::new(),
        };
        self.world.look(&leaving);
        let pause = self.options.change_interval() / 4;
        match going {
            Going::Nobody(next) if at >= next && at < self.options.time => match self.changes.next() {
                Some(change) if change.killed => {
                    self.world.kill(&change.goes);
                    self.killed += 1;
                    Going::Gone(change, at + pause)
                }
                Some(change) => {
                    self.world.ask_to_leave(&change.goes);
                    self.left += 1;
                    Going::Leaves(change, at)
                }
                None => Going::Nobody(Duration::MAX),
            },
            Going::Leaves(change, since) => {
                if self.world.process(&change.goes).is_some() && at < since + LEAVING {
                    return Going::Leaves(change, since);
                }
                // It says what is wrong if that one is still there.
                self.world.await_leave(&change.goes);
                Going::Gone(change, at + pause)
            }
            Going::Gone(change, until) if at >= until => {
                let Change { goes, killed, comes } = change;
                let how = if killed { "was killed" } else { "has left" };
                say(&format!("{:6.1} s  {goes} {how}, {comes} joins", at.as_secs_f64()));
                self.names.insert(comes.clone());
                self.world.replace(&goes, &comes);
                self.world.launch(&comes);
                let process = self.world.process(&comes);
                self.young.extend(process.map(|(pid, _)| (pid, Instant::now())));
                Going::Nobody(at + self.options.change_interval())
            }
            other => other,
        }
    }

    /// Measures those that have just come, all at the same age.
    fn measure_young(&mut self, at: Duration) {
        let age = self.options.change_interval() / 2;
        let is_of_age = |(_, since): &(u32, Instant)| since.elapsed() >= age;
        let (of_age, younger) = std::mem::take(&mut self.young).into_iter().partition(is_of_age);
        self.young = younger;
        for (pid, _) in of_age {
            self.add_process(&Of::Young, pid, at);
        }
    }

    fn add_process(&mut self, of: &Of, pid: u32, at: Duration) {
        // One that has just ended is reported elsewhere.
        let Some(holds) = Holds::of(pid) else { return };
        self.add(of, What::Anonymous, at, holds.anonymous);
        self.add(of, What::Resident, at, holds.resident);
        self.add(of, What::Files, at, holds.files);
        self.add(of, What::Threads, at, holds.threads);
    }

    #[allow(clippy::cast_precision_loss)] // of bytes some may be lost here
    fn add(&mut self, of: &Of, what: What, at: Duration, value: u64) {
        self.measures.add(of.clone(), what, at, value as f64);
    }

    fn measure(&mut self, at: Duration) {
        for name in self.world.names().into_iter().take(STAY) {
            if let Some((pid, _)) = self.world.process(&name) {
                self.add_process(&Of::Node(name), pid, at);
            }
        }
        let counts = RowCounts::of(&self.view, &self.cluster);
        if let Some(bytes) = store::bytes(&self.url) {
            self.add(&Of::Store, What::StoreBytes, at, bytes);
        }
        self.add(&Of::Store, What::Rows, at, counts.others as u64);
        self.add(&Of::Store, What::LogRows, at, counts.log as u64);
        let names = self.names.len();
        // A node that leaves removes its row. The leader removes those of nodes that were killed, but only after minutes.
        let candidates = self.world.names().len() + self.killed;
        let more = counts.sessions.saturating_sub(names)
            + counts.authors.saturating_sub(names * REGISTRIES)
            + counts.candidates.saturating_sub(candidates)
            + store::lives(&self.url).saturating_sub(self.world.lives.len());
        self.add(&Of::Store, What::Leftovers, at, more as u64);
    }

    /// Reads what nodes said of their churn since the last time.
    fn read(&mut self) {
        for life in &self.world.lives {
            let path = self.world.directory().join(&life.history).with_extension(CHURNED);
            match self.tails.news(&path) {
                Ok(lines) => {
                    for line in lines {
                        for (what, count) in line.counts {
                            *self.counts.entry(what).or_default() += count;
                        }
                        self.took.extend(line.took);
                        let whose = |breach| format!("{}: {breach}", life.node);
                        self.breaches.extend(line.breaches.into_iter().map(whose));
                    }
                }
                Err(error) => self.breaches.push(format!("{} cannot be read: {error}", path.display())),
            }
        }
    }

    fn close_window(&mut self, at: Duration) {
        self.read();
        let window = Window::of(at.as_secs_f64(), &mut self.took);
        self.took.clear();
        for (what, value) in window.values() {
            self.measures.add(Of::Registrations, what, at, value);
        }
        self.windows.push(window);
    }

    /// How it goes.
    fn line(&self, at: Duration) -> String {
        let last = |of: &Of, what: What| {
            let value = self.measures.last(of, what);
            value.map_or_else(|| "-".to_owned(), |value| what.shown(value))
        };
        let nodes = self.world.names().into_iter().take(STAY).map(|name| {
            let of = Of::Node(name.clone());
            let [memory, files, threads] =
                [What::Anonymous, What::Files, What::Threads].map(|what| last(&of, what));
            format!("{name} {memory}, {files} files, {threads} threads; ")
        });
        let [bytes, log] = [What::StoreBytes, What::LogRows].map(|what| last(&Of::Store, what));
        let registered = self.windows.last().map_or_else(String::new, |window| {
            let Window { registrations, p50, p99, p999, .. } = window;
            format!("; {registrations} registered, p50 {p50:.1} ms, p99 {p99:.1} ms, p99.9 {p999:.1} ms")
        });
        let nodes: String = nodes.collect();
        format!("{:6.1} s  {nodes}store {bytes}, {log} batches{registered}", at.as_secs_f64())
    }

    fn report(mut self) -> Result<SoakReport> {
        let options = self.options;
        self.read();
        let verdict = judge(&chaos::report::histories(&options.directory, &self.world.lives)?);
        let rows = self.measures.judge(options.time, options.time >= LONG);
        let mut breaches = self.world.breaches.clone();
        breaches.extend(self.breaches);
        breaches.extend(verdict.breaches);
        breaches.extend(rows.iter().filter_map(Row::breach));
        let never = NEEDED.iter().filter(|what| !self.counts.contains_key(**what));
        breaches.extend(never.map(|what| format!("never exercised: {what}")));
        if !verdict.checked.contains_key("names kept to the end") {
            breaches.push("never exercised: names kept to the end".to_owned());
        }
        Ok(SoakReport {
            seed: options.seed,
            store: options.store.split(':').next().unwrap_or_default().to_owned(),
            nodes: options.nodes,
            seconds: options.time.as_secs_f64(),
            left: self.left,
            killed: self.killed,
            names: self.names.len(),
            counts: self.counts,
            checked: verdict.checked,
            windows: self.windows,
            rows,
            breaches,
        })
    }
}
