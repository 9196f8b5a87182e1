//! A cluster as one value, for tests of the cores: members, electors, links, and the store, under virtual time and a
//! seeded order. Sessions are opened and closed by the test.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_elector::{
    elector::{Effect as ElectorEffect, ElectorConfig, ElectorTiming, Input as ElectorInput, Notice},
    record::{Lock, PositionRecord, SessionRecord, Term},
};
use callsign_store::{
    CommitOutcome, Key, Limits, StoreError, Time, Transaction, Version, Write,
    ids::{
        Beat, ClusterName, Epoch, Incarnation, NodeName, Position, RegistryName, SessionId, SessionNumber,
    },
    keys::{ClusterKeys, RegistryKeys},
    mvcc::Mvcc,
    random::splitmix,
    record::Record,
};
use callsign_transport::Kind;

use crate::{
    core::{
        input::{
            Answer, Call, CallId, Effect, Event, Input, Notice as ActorNotice, Now, OnLapse, OpId, Tell,
        },
        log::Batch,
        member::{Member, MemberConfig},
        message::Message,
        name::Name,
        registry::{Queue, RegistryCore, RegistryEffect, Told},
        table::Row,
        tuning::Tuning,
    },
    error::RegisterError,
};

mod asking;
mod carry;
mod checks;

type Rows = BTreeMap<Name, Row>;

/// What happens next, and to which incarnation.
#[derive(Clone, Debug)]
enum Next {
    Tell(Told),
    Wake,
    WakeElector,
    Commit(Transaction, Owner),
    Land(Transaction),
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Member(OpId),
    Elector(callsign_elector::elector::OpId),
}

pub(crate) struct Node {
    pub(crate) core: RegistryCore<Rows>,
    incarnation: Incarnation,
    pub(crate) session: Option<SessionId>,
    pub(crate) trusted: bool,
    watch: Option<(Vec<Key>, Version)>,
    wake: Time,
    elector_wake: Time,
    pub(crate) watched: BTreeSet<u64>,
    pub(crate) notices: Vec<(u64, ActorNotice)>,
    pub(crate) events: Vec<Event>,
}

impl Node {
    pub(crate) fn member(&self) -> &Member<Rows> {
        self.core.member()
    }
}

/// How often, in thousandths, a commit meets a fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) conflict: u64,
    pub(crate) unknown_applied: u64,
    pub(crate) unknown_lost: u64,
    pub(crate) unknown_later: u64,
    pub(crate) unavailable: u64,
    /// An answer of the store takes seconds.
    pub(crate) slow: u64,
    /// A message finds the link's queue full.
    pub(crate) queue_full: u64,
}

pub(crate) struct World {
    pub(crate) now: Time,
    rng: u64,
    order: u64,
    queue: BTreeMap<(Time, u64), (NodeName, Incarnation, Next)>,
    pub(crate) nodes: BTreeMap<NodeName, Node>,
    links: BTreeSet<(NodeName, NodeName)>,
    link_free: BTreeMap<(NodeName, NodeName), Time>,
    pub(crate) store: Mvcc,
    pub(crate) keys: RegistryKeys,
    pub(crate) answers: BTreeMap<CallId, Answer>,
    next_call: u64,
    incarnations: u64,
    pub(crate) faults: Faults,
    /// The next transaction that cuts the log lands only after so long, and its outcome is unknown.
    pub(crate) delay_cut: Option<Duration>,
    /// Every batch that was ever written, to see that none was written twice.
    pub(crate) history: BTreeMap<Position, Vec<u8>>,
    pub(crate) sent: BTreeMap<&'static str, u64>,
    pub(crate) hit: BTreeMap<&'static str, u64>,
    /// How often a member asked its elector to read who leads.
    pub(crate) looks: u64,
    /// Members that do not hear from their elector any more.
    pub(crate) unheard: BTreeSet<NodeName>,
    /// Nodes that hang: they take nothing in and say nothing, and their links stay up.
    pub(crate) hung: BTreeSet<NodeName>,
}

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// One of a, b and c that is none of these.
pub(crate) fn other_than(these: &[&NodeName]) -> &'static str {
    let is_other = |node: &&str| these.iter().all(|one| one.as_str() != *node);
    ["a", "b", "c"].into_iter().find(is_other).unwrap()
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let cluster = ClusterName::new("test").unwrap();
        Self {
            now: Time(Duration::from_secs(100)),
            rng: seed,
            order: 0,
            queue: BTreeMap::new(),
            nodes: BTreeMap::new(),
            links: BTreeSet::new(),
            link_free: BTreeMap::new(),
            store: Mvcc::new(Limits::FOUNDATIONDB, 1000),
            keys: ClusterKeys::new(&cluster).registry(&RegistryName::new("r").unwrap()),
            answers: BTreeMap::new(),
            next_call: 0,
            incarnations: 0,
            faults: Faults::default(),
            delay_cut: None,
            history: BTreeMap::new(),
            sent: BTreeMap::new(),
            hit: BTreeMap::new(),
            looks: 0,
            unheard: BTreeSet::new(),
            hung: BTreeSet::new(),
        }
    }

    /// Nodes of which one leads, and all are synced.
    pub(crate) fn settled(seed: u64, nodes: &[&str]) -> Self {
        let mut world = Self::new(seed);
        for node in nodes {
            world.start(node);
        }
        world.settle();
        world
    }

    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.rng = splitmix(self.rng);
        self.rng % below
    }

    fn chance(&mut self, thousandths: u64, what: &'static str) -> bool {
        let is_hit = thousandths > 0 && self.draw(1000) < thousandths;
        if is_hit {
            *self.hit.entry(what).or_default() += 1;
        }
        is_hit
    }

    fn later(&mut self, micros: u64) -> Time {
        let spread = self.draw(micros) + micros / 2;
        self.now + Duration::from_micros(spread)
    }

    fn push(&mut self, at: Time, node: &NodeName, next: Next) {
        self.order += 1;
        let Some(incarnation) = self.nodes.get(node).map(|n| n.incarnation) else { return };
        self.queue.insert((at, self.order), (node.clone(), incarnation, next));
    }

    /// Starts a node, with a session and links to all that run.
    pub(crate) fn start(&mut self, node: &str) {
        let node = name(node);
        self.incarnations += 1;
        let incarnation = Incarnation(self.incarnations);
        let key = self.keys.cluster().session(&node);
        let former = self.store.get(&key).map(|value| SessionRecord::from_value(value).unwrap());
        let number = SessionNumber(former.map_or(1, |record| record.number.0 + 1));
        let session = SessionId { node: node.clone(), incarnation, number };
        self.write_session(&session, true);
        let elector = ElectorConfig {
            registry: RegistryName::new("r").unwrap(),
            cluster: ClusterName::new("test").unwrap(),
            node: node.clone(),
            address: format!("{node}:1"),
            priority: 1,
            timing: ElectorTiming::default(),
            seed: self.draw(u64::MAX),
        };
        let config = MemberConfig {
            me: node.clone(),
            incarnation,
            keys: self.keys.clone(),
            seed: self.draw(u64::MAX),
            tuning: Tuning {
                cut_worth: 16,
                chunk_names: 8,
                slice_names: 2,
                memory_bytes: 4 << 10,
                max_lag: 64 << 20,
                batch_bytes: 90_000,
            },
        };
        self.nodes.insert(
            node.clone(),
            Node {
                core: RegistryCore::new(elector, config, Rows::new()),
                incarnation,
                session: Some(session.clone()),
                trusted: true,
                watch: None,
                wake: Time::ZERO,
                elector_wake: Time::ZERO,
                watched: BTreeSet::new(),
                notices: Vec::new(),
                events: Vec::new(),
            },
        );
        let now = self.now;
        self.push(now, &node, Next::Tell(Told::Member(Input::SessionOpened(session.clone()))));
        self.push(
            now,
            &node,
            Next::Tell(Told::Elector(ElectorInput::Notice(Notice::Session(Some(session))))),
        );
        for other in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.link(node.as_str(), other.as_str());
        }
    }

    fn write_session(&mut self, session: &SessionId, open: bool) {
        let record = SessionRecord {
            incarnation: session.incarnation,
            number: session.number,
            lease: Duration::from_secs(10),
            beat: Beat(1),
            open,
        };
        let key = self.keys.cluster().session(&session.node);
        let outcome = self.store.apply(&Transaction::new().put(key, record.to_value()));
        assert!(matches!(outcome, CommitOutcome::Committed(_)));
        self.after_commit();
    }

    /// Closes the session of a node, as an observer with a proof or after a long silence does.
    pub(crate) fn close_session(&mut self, session: &SessionId) {
        self.write_session(session, false);
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            let at = self.later(2000);
            self.push(at, &node, Next::Tell(Told::Elector(ElectorInput::Notice(Notice::Changed))));
        }
    }

    /// Closes a session, and nobody is told.
    pub(crate) fn close_session_quietly(&mut self, session: &SessionId) {
        self.write_session(session, false);
    }

    /// A leader is asked to give up its seat.
    pub(crate) fn resign(&mut self, node: &str, epoch: Epoch) {
        let now = self.now;
        self.push(
            now,
            &name(node),
            Next::Tell(Told::Elector(ElectorInput::Notice(Notice::Resign { epoch }))),
        );
    }

    /// The node's own view of losing its session, and opening the next.
    pub(crate) fn lose_session(&mut self, node: &str) {
        let node = name(node);
        let Some(session) = self.nodes.get_mut(&node).and_then(|n| n.session.take()) else { return };
        if let Some(n) = self.nodes.get_mut(&node) {
            n.trusted = false;
        }
        self.close_session(&session);
        let now = self.now;
        self.push(now, &node, Next::Tell(Told::Member(Input::SessionLost)));
        self.push(now, &node, Next::Tell(Told::Elector(ElectorInput::Notice(Notice::Session(None)))));
        let next = SessionId { number: session.number.next(), ..session };
        self.write_session(&next, true);
        if let Some(n) = self.nodes.get_mut(&node) {
            n.session = Some(next.clone());
            n.trusted = true;
        }
        self.push(now, &node, Next::Tell(Told::Member(Input::SessionOpened(next.clone()))));
        self.push(now, &node, Next::Tell(Told::Elector(ElectorInput::Notice(Notice::Session(Some(next))))));
    }

    pub(crate) fn set_trust(&mut self, node: &str, trusted: bool) {
        let node = name(node);
        let Some(n) = self.nodes.get_mut(&node) else { return };
        n.trusted = trusted;
        let Some(session) = n.session.clone() else { return };
        let input = if trusted { Input::SessionResumed(session) } else { Input::SessionLapsed(session) };
        let now = self.now;
        self.push(now, &node, Next::Tell(Told::Member(input)));
    }

    /// SIGKILL: the process is gone, its links close, its session is closed by proof.
    pub(crate) fn kill(&mut self, node: &str) {
        let session = self.crash(node);
        if let Some(session) = session {
            self.close_session(&session);
        }
    }

    /// The process is gone and its links close; its session stays open.
    pub(crate) fn crash(&mut self, node: &str) -> Option<SessionId> {
        let node = name(node);
        for other in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.cut(node.as_str(), other.as_str());
        }
        self.nodes.remove(&node).and_then(|n| n.session)
    }

    pub(crate) fn link(&mut self, a: &str, b: &str) {
        let (a, b) = (name(a), name(b));
        if a == b || !self.nodes.contains_key(&a) || !self.nodes.contains_key(&b) {
            return;
        }
        for (from, to) in [(&a, &b), (&b, &a)] {
            if self.links.insert((from.clone(), to.clone())) {
                let at = self.arrival(from, to);
                let incarnation = self.nodes[from].incarnation;
                let up = Input::LinkUp { node: from.clone(), incarnation, link: 0 };
                self.push(at, to, Next::Tell(Told::Member(up)));
            }
        }
    }

    pub(crate) fn cut(&mut self, a: &str, b: &str) {
        let (a, b) = (name(a), name(b));
        for (from, to) in [(&a, &b), (&b, &a)] {
            if self.links.remove(&(from.clone(), to.clone())) {
                let at = self.arrival(from, to);
                let incarnation = self.nodes[from].incarnation;
                let down = Input::LinkDown { node: from.clone(), incarnation };
                self.push(at, to, Next::Tell(Told::Member(down)));
            }
        }
    }

    /// A late copy of a message, or one that nobody should have sent.
    pub(crate) fn deliver(&mut self, from: &str, to: &NodeName, message: Message) {
        let at = self.arrival(&name(from), to);
        self.push(at, to, Next::Tell(Told::Member(Input::Message { from: name(from), message })));
    }

    /// How long the store takes to answer, in microseconds at most.
    fn store_takes(&mut self) -> u64 {
        if self.chance(self.faults.slow, "slow store") { 5_000_000 } else { 300 }
    }

    fn arrival(&mut self, from: &NodeName, to: &NodeName) -> Time {
        let at = self.later(200);
        let free = self.link_free.entry((from.clone(), to.clone())).or_insert(Time::ZERO);
        *free = (*free).max(at);
        *free
    }

    // ---- running

    /// Runs until the condition holds, or fails after so much virtual time.
    pub(crate) fn run_until(&mut self, what: &str, limit: Duration, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.now < end, "not within {limit:?}: {what}\n{}", self.picture());
            assert!(self.step(), "nothing happens any more: {what}\n{}", self.picture());
        }
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end && self.step() {}
    }

    pub(crate) fn step(&mut self) -> bool {
        let Some(((at, _), (node, incarnation, next))) = self.queue.pop_first() else { return false };
        self.now = self.now.max(at);
        let is_alive = self.nodes.get(&node).is_some_and(|n| n.incarnation == incarnation);
        match next {
            // A transaction lands also after its author died.
            Next::Land(transaction) => {
                self.apply(&transaction);
            }
            Next::Commit(transaction, owner) => self.commit(&node, incarnation, transaction, owner),
            _ if !is_alive => {}
            Next::Tell(_) | Next::Wake | Next::WakeElector if self.hung.contains(&node) => {}
            Next::Tell(told) => self.tell(&node, told),
            Next::Wake => {
                if self.nodes[&node].wake <= self.now {
                    self.tell(&node, Told::Member(Input::Wake));
                }
            }
            Next::WakeElector => {
                if self.nodes[&node].elector_wake <= self.now {
                    self.tell(&node, Told::Elector(ElectorInput::Wake));
                }
            }
        }
        self.check_one_holder();
        true
    }

    /// Has a core take an input, and both what they tell each other.
    fn tell(&mut self, node: &NodeName, told: Told) {
        let now = self.now;
        let is_unheard = self.unheard.contains(node);
        let Some(n) = self.nodes.get_mut(node) else { return };
        let trusted = n.session.as_ref().filter(|_| n.trusted).map(|s| s.number);
        let now_member = Now { time: now, trusted };
        let (mut effects, mut next) = (Vec::new(), Some(told));
        while let Some(told) = next {
            n.core.step(now_member, told, &mut effects);
            while is_unheard && n.core.take(Queue::OfElector).is_some() {}
            next = n.core.next_told();
        }
        n.wake = n.member().wakes_at(now).max(now + Duration::from_micros(1));
        let wake = n.wake;
        self.push(wake, node, Next::Wake);
        for effect in effects {
            match effect {
                RegistryEffect::Member(effect) => self.perform(node, effect),
                RegistryEffect::Elector(effect) => self.perform_for_elector(node, effect),
                // Sessions are opened and closed by the test, and so are links.
                RegistryEffect::Session(_) | RegistryEffect::Members(_) | RegistryEffect::Confirmed(..) => {}
            }
        }
    }
}
