//! A cluster as one value: nodes with their cores, connections, the store, and time.
//!
//! [`World::apply`] is the only way in which anything happens, and an [`Action`] says all of it: whoever draws actions
//! simulates, whoever tries all of them checks exhaustively, and whoever reads them from a file replays. An action that
//! cannot happen is skipped, which is all that shrinking a trace needs.
//!
//! The network is what the transport promises, no kinder: FIFO per connection and lane, the bulk lane may be overtaken,
//! what was under way when a connection broke is lost from some point on, and each end learns of it at its own time.
//! The store is the shipped [`Mvcc`]; its faults are in [`Fate`]. Each node has its own clock.

mod action;
mod callers;
mod calls;
mod carry;
mod certificates;
mod clock;
mod faults;
mod groups;
mod leaving;
mod links;
mod moves;
pub(crate) mod newer;
mod process;
mod referring;
mod starts;
mod store;
mod watching;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use callsign::cores::{Answer, CallId, Tuning};
use callsign_elector::{elector::ElectorTiming, session::SessionTiming};
use callsign_store::{
    Limits,
    ids::{ClusterName, Incarnation, NodeName, RegistryName},
    keys::{ClusterKeys, RegistryKeys},
    mvcc::Mvcc,
};
use callsign_transport::{LinkTiming, Permits};

pub(crate) use self::groups::{group_of_id, is_member, limit_of};
pub use self::{
    action::{Action, CoreId, Fate},
    calls::{Asked, GrantedName, Want, name_of, name_of_id, number_of},
    clock::NodeClock,
    groups::NameId,
    links::{Conn, End, Frame},
    moves::OfferOut,
    process::{CallerRegistration, OpAnswer, Parts, Request, SimulatedProcess, StoreOp},
    referring::{Address, Referring},
    starts::Running,
    store::Orphan,
    watching::{Filter, Reader, Readers},
};
use crate::{oracle::Oracle, shared::Shared};

/// A node, by its place in [`World::nodes`].
pub type NodeId = u8;

/// What a world is made with. It does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is chosen by itself
pub struct Setup {
    /// The nodes' names, in their order.
    pub names: Vec<NodeName>,
    /// The cluster.
    pub cluster: ClusterName,
    /// The registry.
    pub registry: RegistryName,
    /// Where its records are.
    pub keys: RegistryKeys,
    /// The times of sessions.
    pub session: SessionTiming,
    /// The times of electors.
    pub elector: ElectorTiming,
    /// The times of links.
    pub link: LinkTiming,
    /// The sizes of members.
    pub tuning: Tuning,
    /// Whether the store can prove a death.
    pub proof: bool,
    /// Whether what cores of one process tell each other arrives at once, in order. If not, each queue between two of
    /// them is emptied when the scheduler says so.
    pub eager: bool,
    /// Whether the registry is joined by an action of its own, some time after the session was opened.
    pub joins_late: bool,
    /// How many messages may wait in a lane of a connection.
    pub lane: usize,
    /// How many operations a batch may have for the store to take it. A leader does not know it.
    pub most_ops: usize,
    /// How many of its latest commits the store may lose.
    pub loses: usize,
    /// How many versions the store keeps.
    pub window: u64,
    /// The nodes that run the next version: their records have a field that the others do not know.
    pub newer: BTreeSet<NodeId>,
    /// Whether each process has readers that watch.
    pub watches: bool,
    /// Whether the store tells electors of changes. If not, they find them by polls.
    pub tells: bool,
    /// Whether holders offer their names when their nodes drain, and others take what is offered.
    pub offers: bool,
    /// Whether applications have references to actors of other nodes.
    pub references: bool,
    /// Where the nodes' jitter begins.
    pub seed: u64,
}

impl Setup {
    /// A cluster of nodes `a`, `b`, ... with short times in the usual proportions.
    ///
    /// # Panics
    /// If there are to be more than 8 nodes.
    pub fn new(nodes: usize) -> Self {
        assert!(nodes <= 8, "a world has 8 nodes at most");
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let name = |text: &&str| NodeName::new(text).expect("a letter is a name");
        let cluster = ClusterName::new("sim").expect("it is a name");
        let registry = RegistryName::new("r").expect("it is a name");
        let lease = Duration::from_secs(3);
        Self {
            names: names[..nodes].iter().map(name).collect(),
            keys: ClusterKeys::new(&cluster).registry(&registry),
            cluster,
            registry,
            session: SessionTiming::default().with(|session| {
                session.lease = lease;
                session.margin = lease / 20;
                session.drift_ppm = 1000;
                session.beat_every = lease / 3;
                session.observe_every = lease / 5;
                // Nothing is swept, unless a scenario says so.
                session.sweep_after = Duration::ZERO;
                // Two sweepers are at other records at the same time only if a walk has several pages.
                session.sweep_page = 1;
            }),
            elector: ElectorTiming::default().with(|elector| {
                elector.poll = Duration::from_secs(2);
                elector.sweep_after = Duration::ZERO;
            }),
            link: LinkTiming::default().with(|link| {
                link.ping = Duration::from_millis(1500);
                link.redial_min = Duration::from_millis(200);
            }),
            tuning: Tuning {
                cut_worth: 4,
                chunk_names: 2,
                snapshot_window: 3,
                slice_names: 1,
                // All of them, unless a scenario has fewer.
                own_names: 64,
                memory_bytes: 400,
                max_lag: 64 << 20,
                batch_bytes: 1200,
                watch_bytes: 1600,
                missed_bytes: 1200,
                observers: 3,
                watch_looks: 4096,
                counts_checks: false,
            },
            proof: true,
            eager: true,
            joins_late: false,
            lane: 64,
            most_ops: usize::MAX,
            loses: 0,
            window: 32,
            newer: BTreeSet::new(),
            watches: false,
            tells: true,
            offers: false,
            references: false,
            seed: 1,
        }
    }

    /// The place of a node.
    pub fn id(&self, name: &str) -> Option<NodeId> {
        let at = self.names.iter().position(|known| known.as_str() == name)?;
        u8::try_from(at).ok()
    }
}

/// One machine: what stays when its process ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// What runs on it.
    pub process: Option<Shared<SimulatedProcess>>,
    /// What it may do by the certificate that is on it.
    pub permits: Permits,
    /// Its clock.
    pub clock: NodeClock,
    /// It cannot reach the store.
    pub outage: bool,
}

/// A transition or a state that a check refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// Which check.
    pub check: &'static str,
    /// What it found.
    pub what: String,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct World {
    /// What it was made with.
    pub setup: Arc<Setup>,
    /// True time, which nobody in the world can read.
    pub now: Duration,
    /// The nodes' machines.
    pub nodes: Vec<Machine>,
    /// Connections, oldest first.
    pub conns: Vec<Shared<Conn>>,
    /// Ways on which nothing arrives: bit `8 * from + to`.
    pub blocked: u64,
    /// The store.
    pub store: Shared<Mvcc>,
    /// It refuses commits to everybody, while reads go on.
    pub refuses: bool,
    /// Transactions that were given up and may still land, oldest first.
    pub orphans: Vec<Orphan>,
    /// Calls of clients that are not answered yet.
    pub asked: BTreeMap<CallId, Asked>,
    /// Clients that wait for trust, by the call that each began with.
    pub patients: BTreeMap<CallId, callers::Patient>,
    /// What was granted and is to be kept, by name.
    pub granted: calls::Granted,
    /// The membership that each node's clients left last.
    left: groups::Left,
    /// Calls of a test, and their very answers. No check looks at them, and they are no part of the state.
    pub asides: BTreeMap<CallId, Option<Answer>>,
    next_incarnation: u64,
    next_call: u64,
    next_actor: u64,
    /// The store, and what was known of it, before each of the latest commits. No part of the state: who searches loses none.
    former: VecDeque<(Shared<Mvcc>, Oracle)>,
    /// What is watched over all that happens. No part of the state.
    pub oracle: Oracle,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.now.hash(state);
        self.nodes.hash(state);
        self.conns.hash(state);
        self.blocked.hash(state);
        self.store.hash(state);
        self.refuses.hash(state);
        self.orphans.hash(state);
        self.asked.hash(state);
        self.patients.hash(state);
        self.granted.hash(state);
        self.left.hash(state);
        self.next_incarnation.hash(state);
        self.next_call.hash(state);
        self.oracle.violation().hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.now == other.now
            && self.nodes == other.nodes
            && self.conns == other.conns
            && self.blocked == other.blocked
            && self.store == other.store
            && self.refuses == other.refuses
            && self.orphans == other.orphans
            && self.asked == other.asked
            && self.patients == other.patients
            && self.granted == other.granted
            && self.left == other.left
            && self.next_incarnation == other.next_incarnation
            && self.next_call == other.next_call
            && self.oracle.violation() == other.oracle.violation()
    }
}

impl Eq for World {}

impl World {
    /// Machines on which nothing runs yet, and an empty store.
    pub fn new(setup: Setup) -> Self {
        let permits = Permits::default();
        let machine = Machine { process: None, permits, clock: NodeClock::default(), outage: false };
        Self {
            now: Duration::from_secs(100),
            nodes: vec![machine; setup.names.len()],
            conns: Vec::new(),
            blocked: 0,
            store: Shared::new(Mvcc::new(Limits::FOUNDATIONDB, setup.window)),
            refuses: false,
            orphans: Vec::new(),
            asked: BTreeMap::new(),
            patients: BTreeMap::new(),
            granted: calls::Granted::new(),
            left: groups::Left::new(),
            asides: BTreeMap::new(),
            next_incarnation: 1,
            next_call: 1,
            next_actor: 1,
            former: VecDeque::new(),
            oracle: Oracle::new(setup.names.len(), &setup.keys),
            setup: Arc::new(setup),
        }
    }

    /// The nodes, by their places.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        0..u8::try_from(self.nodes.len()).unwrap_or(u8::MAX)
    }

    /// What runs on a node.
    pub fn process(&self, node: NodeId) -> Option<&SimulatedProcess> {
        Some(self.nodes.get(usize::from(node))?.process.as_ref()?)
    }

    fn process_mut(&mut self, node: NodeId) -> Option<&mut SimulatedProcess> {
        self.nodes.get_mut(usize::from(node))?.process.as_mut().map(Shared::edit)
    }

    /// What runs on a node and takes inputs.
    pub fn awake(&self, node: NodeId) -> Option<&SimulatedProcess> {
        self.process(node).filter(|process| !process.paused)
    }

    /// Whether nothing that `from` sends arrives at `to`.
    pub fn is_blocked(&self, from: NodeId, to: NodeId) -> bool {
        self.blocked & (1 << (8 * u64::from(from) + u64::from(to))) != 0
    }

    /// A node's reading of its own clock.
    pub fn local(&self, node: NodeId) -> Duration {
        self.nodes[usize::from(node)].clock.at(self.now)
    }

    fn incarnation(&mut self) -> Incarnation {
        let incarnation = Incarnation(self.next_incarnation);
        self.next_incarnation += 1;
        incarnation
    }

    /// Does it. False: it cannot happen now, and nothing did.
    pub fn apply(&mut self, action: &Action) -> bool {
        self.oracle.note_fault(action);
        let done = self.perform(action);
        if done {
            self.drop_closed();
            let mut oracle = std::mem::take(&mut self.oracle);
            oracle.after(self, action);
            self.oracle = oracle;
        }
        done
    }

    fn perform(&mut self, action: &Action) -> bool {
        match action {
            Action::Frame { from, to, nth, bulk } => self.deliver(*from, *to, *nth, *bulk),
            Action::Inbox { node, queue } => self.take_from(*node, *queue),
            Action::Idle { node } => self.idle(*node),
            Action::Store { node, nth, fate } => self.answer_op(*node, *nth, *fate),
            Action::Answered { node, nth } => self.deliver_answer(*node, *nth),
            Action::Land { nth } => self.land(*nth),
            Action::Vanish { nth } => self.vanish(*nth),
            Action::Watch { node } => self.fire_watch(*node),
            Action::TakeAnswer { node } => self.take_answer(*node),
            Action::Wake { node, core } => self.wake(*node, *core),
            Action::Tick { by } => self.tick(*by),
            Action::Start { node } => self.start(*node),
            Action::Join { node } => self.join(*node),
            Action::Crash { node } => self.crash(*node),
            Action::PowerOff { node } => self.power_off(*node),
            Action::GoBack { by } => self.go_back(*by),
            Action::Fail { node, of_session } => self.fail_part(*node, *of_session),
            Action::LoseWatch { node } => self.lose_watch(*node),
            Action::Lie { from, to } => self.lie(*from, *to),
            Action::Pause { node } => self.pause(*node),
            Action::Resume { node } => self.resume(*node),
            Action::Break { a, b, nth, keep } => self.break_conn(*a, *b, *nth, *keep),
            Action::Block { from, to } => self.block(*from, *to),
            Action::Unblock { from, to } => self.unblock(*from, *to),
            Action::Outage { node, is_out } => self.outage(*node, *is_out),
            Action::Refuse { is_on } => self.refuse(*is_on),
            Action::Widen => self.widen(),
            Action::Rate { node, ppm } => self.set_rate(*node, *ppm),
            Action::Call { node, want } => self.call(*node, want),
            Action::EndStart { node, nth } => self.end_nth_start(*node, *nth),
            Action::EndActor { node, nth } => self.end_nth_actor(*node, *nth),
            Action::Resign { node } => self.resign(*node),
            Action::Configure { node, change } => self.configure(*node, *change),
            Action::Leave { node } => self.leave(*node),
            Action::Drain { node } => self.drain(*node),
            Action::Refer { node, nth } => self.refer(*node, *nth),
            Action::DropReference { node, nth } => self.drop_reference(*node, *nth),
            Action::Cast { node, nth } => self.cast(*node, *nth),
            Action::Speak { node, nth } => self.speak(*node, *nth),
            Action::NoticeEnd { node } => self.notice_end(*node),
            Action::Certify { node, permits } => self.certify(*node, permits),
        }
    }
}
