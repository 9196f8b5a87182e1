//! A cluster of as many members as a registry takes: it starts all at once, each node is started again, and half of it dies.
//!
//! The drivers that ship, under a paused clock, with the network and the store in memory. Nothing fails but what is meant to. Each
//! node holds one name. What is measured is virtual time: it has no part in it that the machine has.
#![allow(clippy::disallowed_methods)] // tasks are started here, and time passes

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use callsign::{
    Clock, Config, Entropy, MemoryNetwork, Network, RactorClusterMessage, Registry, SessionTiming,
    remote_message,
};
use callsign_store::{memory::MemoryStore, random::splitmix};
use futures::future::join_all;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::{Instant, sleep, timeout};

use super::{counts::NodeCounts, life::Life, trace::RunTrace};

/// Between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Before a node that has not joined tries again, and a name that was not granted.
const AGAIN: Duration = Duration::from_millis(300);
/// How long a condition is waited for: much longer than what is promised.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(1000);

#[derive(Debug, RactorClusterMessage)]
enum Nothing {
    Hear,
}
remote_message!(Nothing, "callsign.crowd.nothing/1");

/// Holds a name, and does nothing.
struct IdleHolder;

impl Actor for IdleHolder {
    type Msg = Nothing;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Nothing>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Nothing>,
        Nothing::Hear: Nothing,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// What a crowd came to, in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrowdOutcome {
    /// All start at once: until each serves, and knows all members and all names.
    pub up: Duration,
    /// One after the other leaves and is started again, each when the one before serves: all of them.
    pub restarted: Duration,
    /// The longest of these.
    pub longest_restart: Duration,
    /// Half of them die at once, the leader among them: until each survivor knows that their names are free.
    pub freed: Duration,
    /// From then on until a name of theirs is granted to a survivor.
    pub granted: Duration,
}

impl fmt::Display for CrowdOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { up, restarted, longest_restart, freed, granted } = self;
        writeln!(f, "up from a start of all at once          {up:.1?}")?;
        writeln!(
            f,
            "each started again, one after the other {restarted:.1?}, the longest {longest_restart:.1?}"
        )?;
        writeln!(f, "half dies: their names are free         {freed:.1?}")?;
        write!(f, "  and one of them is granted again      {granted:.1?}")
    }
}

struct CrowdRun {
    begin: Instant,
    lease: Duration,
    store: MemoryStore,
    network: MemoryNetwork,
    seed: u64,
    lives: u64,
}

/// A node that has joined, and holds its name.
struct Node {
    life: Arc<Life>,
    registry: Registry,
}

/// Runs a crowd of so many, with sessions of this lease. Its processor time grows with the cube of its members: 64 take about 20 s.
///
/// # Errors
/// If something does not come about at all, or the nodes do not agree.
///
/// # Panics
/// If there is no runtime to be had.
pub fn run(members: usize, lease: Duration, seed: u64, say: impl Fn(&str)) -> Result<CrowdOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime
        .expect("a runtime of one thread needs no more than memory")
        .block_on(whole(members, lease, seed, say))
}

async fn whole(members: usize, lease: Duration, seed: u64, say: impl Fn(&str)) -> Result<CrowdOutcome> {
    let (store, network) = (MemoryStore::new(), MemoryNetwork::new());
    let mut crowd = CrowdRun { begin: Instant::now(), lease, store, network, seed, lives: 0 };
    let mut outcome = CrowdOutcome::default();

    say("all start at once");
    let begin = Instant::now();
    let starting: Vec<_> = (0..members).map(|index| crowd.start(index)).collect();
    let mut nodes = join_all(starting).await.into_iter().collect::<Result<Vec<_>>>()?;
    all_know(&nodes, members).await?;
    outcome.up = begin.elapsed();
    one_leads(&nodes)?;

    say("each is started again");
    let begin = Instant::now();
    for (index, node) in nodes.iter_mut().enumerate() {
        let begin = Instant::now();
        node.registry.leave().await.context("a node leaves")?;
        node.life.die();
        *node = crowd.start(index).await?;
        outcome.longest_restart = outcome.longest_restart.max(begin.elapsed());
    }
    outcome.restarted = begin.elapsed();
    all_know(&nodes, members).await?;
    one_leads(&nodes)?;

    say("half of them die");
    let leader = one_leads(&nodes)?;
    // Observers and leaders are chosen by name: the first ones go.
    nodes.sort_by_key(|node| node.registry.node() != leader);
    let begin = Instant::now();
    let dead: Vec<_> = nodes.drain(..members / 2).collect();
    for node in &dead {
        node.life.die();
    }
    until("the names of the dead are free", || {
        nodes.iter().all(|node| node.registry.count().ok() == Some(nodes.len()))
    })
    .await?;
    outcome.freed = begin.elapsed();
    let (heir, name) = (&nodes[0].registry, name_of(dead[0].registry.node()));
    hold(heir, &name).await?;
    outcome.granted = begin.elapsed().saturating_sub(outcome.freed);
    one_leads(&nodes)?;
    Ok(outcome)
}

fn name_of(node: &str) -> String {
    format!("of-{node}")
}

impl CrowdRun {
    /// Starts a node, until it serves and holds its name.
    fn start(&mut self, index: usize) -> impl Future<Output = Result<Node>> + use<> {
        self.lives += 1;
        let (number, node) = (self.lives, format!("n{index:03}"));
        let seed = splitmix(splitmix(self.seed) ^ number);
        let life = Life::new(&node, number, self.begin, seed, &RunTrace::new(false), &NodeCounts::default());
        let store: callsign::SharedStore = Arc::new(self.store.connect(&format!("{node}-{number}")));
        let port = 7000 + u16::try_from(number).unwrap_or(0);
        let config = Config::new(&node, store)
            .listen(([127, 0, 0, 1], port).into())
            .network(Network::Memory(self.network.clone()))
            .clock(Clock::runtime())
            .entropy(Entropy::seeded(seed))
            .turns(life.clone())
            .session_timing(SessionTiming::for_lease(self.lease));
        async move {
            let joining = async {
                loop {
                    match Registry::join(config.clone()).await {
                        Ok(registry) => return registry,
                        Err(_) => sleep(AGAIN).await,
                    }
                }
            };
            let registry =
                timeout(CONDITION_TIMEOUT, joining).await.with_context(|| format!("{node} does not join"))?;
            registry.ready(CONDITION_TIMEOUT).await?;
            hold(&registry, &name_of(&node)).await?;
            Ok(Node { life, registry })
        }
    }
}

/// Registers a name, again until it is granted.
async fn hold(registry: &Registry, name: &str) -> Result<()> {
    let (actor, _) = Actor::spawn(None, IdleHolder, ()).await?;
    let holding = async {
        while registry.register(name, &actor).await.is_err() {
            sleep(AGAIN).await;
        }
    };
    timeout(CONDITION_TIMEOUT, holding)
        .await
        .with_context(|| format!("{name} is not granted to {}", registry.node()))
}

/// Waits until every node knows so many members, with a link to each, and so many names.
async fn all_know(nodes: &[Node], many: usize) -> Result<()> {
    let knows = |node: &Node| {
        let members = node.registry.members();
        members.len() == many
            && members.iter().all(|member| member.linked && member.synced && member.session_open)
            && node.registry.count().ok() == Some(many)
    };
    until("all know all members and names", || nodes.iter().all(knows)).await
}

async fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let waiting = async {
        while !holds() {
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(CONDITION_TIMEOUT, waiting).await.with_context(|| format!("in vain: {what}"))
}

/// The name of the leader, if all know the same.
fn one_leads(nodes: &[Node]) -> Result<String> {
    let mut leaders =
        nodes.iter().map(|node| node.registry.leader().map(|leader| (leader.node, leader.epoch)));
    let Some(Some(first)) = leaders.next() else { bail!("nobody leads") };
    ensure!(leaders.all(|leader| leader.as_ref() == Some(&first)), "the nodes do not agree who leads");
    Ok(first.0.to_string())
}
