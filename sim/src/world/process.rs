//! One process: its cores, what they wait for, and what waits for them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use callsign::cores::{
    CallId, CallerInput, Input, LeavingTimes, MemberConfig, NodeCore, NodeInput, QUEUES, Queue, RegistryCore,
    Row, Told,
};
use callsign_elector::{
    elector::{ElectorConfig, Input as ElectorInput},
    session::{Input as SessionInput, Session, SessionConfig},
};
use callsign_store::{
    CommitOutcome, Key, Proof, Read, ReadResult, StoreError, Time, Transaction, Version,
    ids::{Incarnation, NodeName, Position, SessionId, SessionNumber},
};
use callsign_transport::{LinkId, cores::Links};

use crate::{oracle::Check, shared::Shared};

use crate::rng::Rng;

use super::{
    CoreId, NameId, NodeId, World, moves::OfferOut, referring::Referring, starts::Running, watching::Readers,
};

/// A process whose cores tell each other more than this at once never comes to an end.
const MOST_STEPS: u32 = 10_000;

/// How long a node waits for what when it leaves: as drivers do, by default.
const LEAVING: LeavingTimes = LeavingTimes {
    drain: Duration::from_secs(5),
    decide: Duration::from_secs(1),
    say: Duration::from_secs(1),
    close: Duration::from_secs(5),
};

/// The table of a simulated member.
pub(super) type TableRows = BTreeMap<callsign::Name, Row>;

/// What is asked of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// To read.
    Read(Arc<Vec<Read>>),
    /// To commit.
    Commit(Arc<Transaction>),
    /// Whether an incarnation is dead.
    Prove(NodeName, Incarnation),
}

/// What the store said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpAnswer {
    /// Of a read.
    Read(Result<ReadResult, StoreError>),
    /// Of a commit.
    Commit(CommitOutcome),
    /// Of a question for a proof.
    Proof(Proof),
}

/// An operation of the store that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreOp {
    /// Who asked.
    pub core: CoreId,
    /// The core's own number for it.
    pub id: u64,
    /// What was asked.
    pub request: Request,
    /// The answer, once it is on its way.
    pub answer: Option<OpAnswer>,
}

/// A registration, as its caller has it: whoever acts under the name asks it first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallerRegistration {
    /// The name.
    pub name: NameId,
    /// Of a place in a semaphore: whether it holds.
    pub holds: bool,
    /// Its token.
    pub token: Position,
    /// Its session.
    pub session: SessionNumber,
}

/// What there is once the session was opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parts {
    /// Elector and member, and what they tell each other.
    pub core: RegistryCore<TableRows>,
    /// When the elector wants to be woken.
    pub elector_wake: Option<Time>,
    /// What the elector watches, and since when.
    pub watch: Option<(Vec<Key>, Version)>,
    /// Whether the watch has something to tell.
    pub fired: bool,
    /// When the member wants to be woken.
    pub member_wake: Time,
    /// The links that the member knows to be up.
    pub link_of: BTreeMap<NodeName, LinkId>,
    /// For each message that the member asked for and that was not sent yet: for whom, and over which link when it was asked for.
    pub sends: VecDeque<(NodeName, Option<LinkId>)>,
    /// The actors that the member wants to hear of.
    pub watched: BTreeSet<u64>,
    /// The actors that have ended: who is to be watched after that is reported at once.
    pub ended: BTreeSet<u64>,
    /// Starts that run, oldest first.
    pub starts: Vec<Running>,
    /// The claims of starts that may come to nothing any more.
    pub over: BTreeSet<CallId>,
    /// Actors that starts brought, and that nobody watches.
    pub yielded: BTreeSet<u64>,
    /// Registrations that callers got and that are not flagged: their checks pass while the session is trusted. By claim.
    pub acting: BTreeMap<CallId, CallerRegistration>,
    /// Of claims whose names are on their way to other actors: what may be acted on again if the name stays.
    pub suspended: BTreeMap<CallId, Option<CallerRegistration>>,
    /// The names that the member has offered last, by the number of the offer.
    pub offers: BTreeMap<u64, OfferOut>,
    /// The calls of actors that take what was offered: the holder's session, and the number of the offer.
    pub offered: BTreeMap<CallId, (Arc<SessionId>, u64)>,
    /// The readers of watches here.
    pub readers: Readers,
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SimulatedProcess {
    /// Drawn at its start.
    pub incarnation: Incarnation,
    /// What it is beside its registry.
    pub node: NodeCore,
    /// Which session is trusted, and until when.
    pub trust: Option<(SessionNumber, Time)>,
    /// When the session wants to be woken.
    pub session_wake: Option<Time>,
    /// Its links.
    pub links: Links,
    /// The number of its latest link.
    pub last_link: u64,
    /// The latest links that were authenticated.
    pub admitted: VecDeque<LinkId>,
    /// The rest.
    pub parts: Option<Parts>,
    /// Its part in references to actors of other nodes, if there are any in its world.
    pub referring: Option<Referring>,
    /// What the store was asked, oldest first.
    pub ops: Vec<StoreOp>,
    /// It takes no input.
    pub paused: bool,
    /// The session that was open when a part of the node failed.
    pub failed_with: Option<SessionNumber>,
    /// Its session was opened, whatever became of it.
    pub was_opened: bool,
}

impl SimulatedProcess {
    /// Its session.
    pub fn session(&self) -> &Session {
        self.node.session()
    }

    /// How many wait in a queue.
    pub fn waiting(&self, queue: Queue) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.core.queue(queue).len())
    }

    /// The session that is trusted at a reading of the node's clock.
    pub fn trusted(&self, now: Duration) -> Option<SessionNumber> {
        self.trust.filter(|(_, until)| now < until.0).map(|(number, _)| number)
    }

    /// The registrations whose checks pass at a reading of the node's clock.
    pub fn acting(&self, now: Duration) -> impl Iterator<Item = &CallerRegistration> {
        let acting = self.parts.iter().flat_map(|parts| parts.acting.values());
        let trusted = self.trusted(now);
        acting.filter(move |acting| trusted == Some(acting.session))
    }

    /// The names for which actors are started whose check passes.
    pub fn starting(&self, now: Duration) -> impl Iterator<Item = NameId> {
        let running = self
            .parts
            .iter()
            .flat_map(|parts| parts.starts.iter().filter_map(|running| parts.acting.get(&running.claim)));
        let trusted = self.trusted(now);
        running.filter(move |acting| trusted == Some(acting.session)).map(|acting| acting.name)
    }

    /// When a core wants to be woken.
    pub fn wakes_at(&self, core: CoreId) -> Option<Duration> {
        match core {
            CoreId::Session => self.session_wake.map(|at| at.0),
            CoreId::Elector => self.parts.as_ref().and_then(|parts| parts.elector_wake).map(|at| at.0),
            CoreId::Member => self.parts.as_ref().map(|parts| parts.member_wake.0),
            CoreId::Links => self.links.next_wake(),
            CoreId::Ends | CoreId::Callers => None,
        }
    }
}

impl World {
    /// A process starts: it opens its session, listens, and waits.
    pub(super) fn start(&mut self, node: NodeId) -> bool {
        if self.process(node).is_some() {
            return false;
        }
        let incarnation = self.incarnation();
        let config = self.session_config(node, incarnation);
        let Ok(mut core) = NodeCore::new(config, LEAVING) else { return false };
        // It has joined nothing that is to be told.
        core.step(Time(self.local(node)), NodeInput::Permits(self.permits(node).clone()), &mut Vec::new());
        let seed = self.seed_of(incarnation, 2);
        let process = SimulatedProcess {
            incarnation,
            node: core,
            trust: None,
            session_wake: None,
            links: Links::new(self.setup.names[usize::from(node)].as_str().into(), self.setup.link, 64, seed),
            last_link: 0,
            admitted: VecDeque::new(),
            parts: None,
            referring: self.setup.references.then(Referring::default),
            ops: Vec::new(),
            paused: false,
            failed_with: None,
            was_opened: false,
        };
        self.nodes[usize::from(node)].process = Some(Shared::new(process));
        self.oracle.started(node);
        self.step_session(node, SessionInput::Start);
        self.settle(node);
        true
    }

    fn session_config(&self, node: NodeId, incarnation: Incarnation) -> SessionConfig {
        SessionConfig {
            cluster: self.setup.cluster.clone(),
            node: self.setup.names[usize::from(node)].clone(),
            incarnation,
            timing: self.setup.session,
            seed: self.seed_of(incarnation, 1),
        }
    }

    /// Where the choices of one core of one process begin. Nothing about one tells anything about another.
    fn seed_of(&self, incarnation: Incarnation, core: u64) -> u64 {
        Rng::new(Rng::new(self.setup.seed).draw() ^ (incarnation.0 << 8) ^ core).draw()
    }

    /// A registry is joined, some time after the node was started.
    pub(super) fn join(&mut self, node: NodeId) -> bool {
        let Some(process) = self.awake(node) else { return false };
        if !process.was_opened || process.parts.is_some() || process.node.leaving().has_begun() {
            return false;
        }
        self.start_parts(node);
        self.settle(node);
        true
    }

    /// A registry is joined: the elector and the member start.
    pub(super) fn start_parts(&mut self, node: NodeId) {
        let name = self.setup.names[usize::from(node)].clone();
        let Some(incarnation) = self.process(node).map(|process| process.incarnation) else { return };
        let registry = self.setup.registry.clone();
        let elector = ElectorConfig {
            registry: registry.clone(),
            cluster: self.setup.cluster.clone(),
            node: name.clone(),
            address: format!("{name}:1"),
            admin: None,
            // Only ranked elections tell them apart.
            priority: 1 + u32::from(node),
            timing: self.setup.elector,
            seed: self.seed_of(incarnation, 3),
            most_checks: None,
        };
        let member = MemberConfig {
            me: name,
            incarnation,
            keys: self.setup.keys.clone(),
            seed: self.seed_of(incarnation, 4),
            tuning: self.setup.tuning,
        };
        let parts = Parts {
            core: RegistryCore::new(elector, member, TableRows::new()),
            elector_wake: None,
            watch: None,
            fired: false,
            member_wake: Time(self.local(node)),
            link_of: BTreeMap::new(),
            sends: VecDeque::new(),
            watched: BTreeSet::new(),
            ended: BTreeSet::new(),
            starts: Vec::new(),
            over: BTreeSet::new(),
            yielded: BTreeSet::new(),
            acting: BTreeMap::new(),
            suspended: BTreeMap::new(),
            offers: BTreeMap::new(),
            offered: BTreeMap::new(),
            readers: Readers::default(),
        };
        let Some(process) = self.process_mut(node) else { return };
        process.parts = Some(parts);
        if self.setup.offers {
            self.receive(node);
        }
        let Some(process) = self.process_mut(node) else { return };
        let mut effects = Vec::new();
        if !process.node.join(&registry, &mut effects) {
            return;
        }
        // As a subscriber of the endpoint, it is told of the links that are up already.
        let up: Vec<_> = process.links.up().map(|(link, peer)| (link, peer.clone())).collect();
        for (link, peer) in up {
            let Ok(name) = NodeName::new(&peer.node) else { continue };
            let incarnation = Incarnation(peer.incarnation);
            let permits = self.shown(node, link);
            let up = Input::LinkUp { node: name, incarnation, link: link.0, permits };
            self.tell_member(node, Queue::OfLinks, up);
        }
        self.step_told(node, Told::Elector(ElectorInput::Wake));
        self.carry_node(node, effects);
    }

    /// In an eager world: everything that cores of a process have told each other arrives.
    pub(super) fn settle(&mut self, node: NodeId) {
        if !self.setup.eager {
            return;
        }
        let mut rounds = 0;
        while self.process(node).is_some_and(|process| !process.paused) {
            rounds += 1;
            if rounds > MOST_STEPS {
                return self
                    .oracle
                    .fail(Check::NobodyWaits, || format!("node {node} talks to itself for ever"));
            }
            let taken = QUEUES.iter().any(|queue| self.take_from(node, *queue));
            if !taken && !self.idle(node) {
                return;
            }
        }
    }

    /// Takes what waits first in a queue.
    pub(super) fn take_from(&mut self, node: NodeId, queue: Queue) -> bool {
        let Some(process) = self.process_mut(node).filter(|process| !process.paused) else { return false };
        let Some(told) = process.parts.as_mut().and_then(|parts| parts.core.take(queue)) else {
            return false;
        };
        self.step_told(node, told);
        true
    }

    /// Lets a core be woken, if its time has come.
    pub(super) fn wake(&mut self, node: NodeId, core: CoreId) -> bool {
        let now = self.local(node);
        let Some(process) = self.awake(node) else { return false };
        if core == CoreId::Ends {
            let done = self.wake_ends(node);
            self.settle(node);
            return done;
        }
        if core == CoreId::Callers {
            let is_due = self.callers_wake_at(node).is_some_and(|at| at <= now);
            if is_due {
                self.tell_patients(node, &CallerInput::Wake);
                self.settle(node);
            }
            return is_due;
        }
        if process.wakes_at(core).is_none_or(|at| at > now) {
            return false;
        }
        match core {
            CoreId::Session => {
                if let Some(process) = self.process_mut(node) {
                    process.session_wake = None;
                }
                self.step_session(node, SessionInput::Wake);
            }
            CoreId::Elector => {
                if let Some(parts) = self.process_mut(node).and_then(|process| process.parts.as_mut()) {
                    parts.elector_wake = None;
                }
                self.step_told(node, Told::Elector(ElectorInput::Wake));
            }
            CoreId::Member => {
                self.step_told(node, Told::Member(Input::Wake));
                self.idle(node);
            }
            CoreId::Links => {
                self.step_links(node, callsign_transport::cores::Input::Wake);
            }
            CoreId::Ends | CoreId::Callers => {}
        }
        self.go_on_leaving(node);
        self.settle(node);
        true
    }
}
