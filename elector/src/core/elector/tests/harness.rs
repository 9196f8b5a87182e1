//! Electors over one store, with members that answer, links that can be cut, and virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use callsign_store::{
    Limits, Read, Transaction, Value, Version, Write,
    ids::{Beat, ClusterName, Incarnation, NodeName, Nonce, RegistryName, SessionNumber},
    mvcc::Mvcc,
    record::Record,
};

use super::super::*;
use crate::core::{
    record::{LogEnd, QueueEntry, SessionRecord},
    state::ElectionState,
};

pub(super) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// How a member takes the order to run its handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Answers,
    Fails,
    Silent,
}

pub(super) struct Host {
    pub(super) elector: Elector,
    pub(super) session: SessionId,
    pub(super) alive: bool,
    pub(super) manner: Manner,
    pub(super) serves: Option<Epoch>,
    pub(super) events: Vec<ElectorEvent>,
    /// Whether its commits wait until they are released.
    pub(super) parked: Option<Vec<Transaction>>,
    /// What it read.
    pub(super) looks: Vec<Vec<Read>>,
    /// What it began to watch.
    pub(super) begun: Vec<Vec<Key>>,
    /// For how long an answer to a read is on its way, beside the usual.
    pub(super) answers_after: Duration,
    watch: Option<(Vec<Key>, Version)>,
    wake: Option<Time>,
    life: u64,
}

enum Due {
    Input(Input),
    Read(OpId, Vec<Read>),
    Commit(OpId, Transaction),
    Wake(Time),
    Beat,
    Close,
    Handoff(Epoch),
    Asked { leader: NodeName, epoch: Epoch },
}

pub(super) struct Sim {
    pub(super) now: Time,
    pub(super) store: Mvcc,
    pub(super) hosts: BTreeMap<NodeName, Host>,
    pub(super) keys: RegistryKeys,
    pub(super) watches: bool,
    /// Whether members have contact with the leader that serves.
    pub(super) has_contact: bool,
    /// The leaders by epoch, as the store had them.
    pub(super) terms: BTreeMap<Epoch, Option<NodeName>>,
    /// The entries taken off the queue, in order, and whether a lock was held.
    pub(super) consumed: Vec<(Key, QueueEntry, bool)>,
    pub(super) timing: ElectorTiming,
    most_checks: Option<usize>,
    cuts: BTreeSet<(NodeName, NodeName)>,
    due: BTreeMap<(Time, u64), (NodeName, u64, Due)>,
    count: u64,
    seed: SplitMix64,
}

impl Sim {
    pub(super) fn new(seed: u64, names: &[&str]) -> Self {
        Self::with_timing(seed, names, ElectorTiming::default())
    }

    pub(super) fn with_timing(seed: u64, names: &[&str], timing: ElectorTiming) -> Self {
        println!("seed {seed}");
        let keys = ClusterKeys::new(&ClusterName::new("test").unwrap());
        let mut sim = Self {
            now: Time(Duration::from_secs(1000)),
            store: Mvcc::new(Limits::FOUNDATIONDB, 1_000_000),
            hosts: BTreeMap::new(),
            keys: keys.registry(&RegistryName::new("names").unwrap()),
            watches: true,
            has_contact: true,
            terms: BTreeMap::new(),
            consumed: Vec::new(),
            timing,
            most_checks: None,
            cuts: BTreeSet::new(),
            due: BTreeMap::new(),
            count: 0,
            seed: SplitMix64::for_node(seed, &node("sim")),
        };
        for name in names {
            sim.start(name);
        }
        sim
    }

    /// Without nodes, over a store whose transactions may have so many checks.
    pub(super) fn with_checks(seed: u64, most: usize) -> Self {
        let mut sim = Self::new(seed, &[]);
        sim.store = Mvcc::new(Limits { checks: Some(most), ..Limits::FOUNDATIONDB }, 1_000_000);
        sim.most_checks = Some(most);
        sim
    }

    /// With members that are synced and one that leads and serves.
    pub(super) fn settled(seed: u64, names: &[&str]) -> Self {
        let mut sim = Self::new(seed, names);
        sim.settle(names.len());
        sim
    }

    pub(super) fn settle(&mut self, members: usize) {
        let settled = self.run_until(Duration::from_secs(30), |sim| {
            let state = sim.state();
            state.lock.is_none()
                && sim.serving().is_some()
                && state.members.len() == members
                && state.members.values().all(|row| row.synced)
        });
        assert!(settled, "{:?}", self.state());
    }

    /// Starts a node, as the next incarnation and session if it ran before.
    pub(super) fn start(&mut self, name: &str) {
        let name = node(name);
        let key = self.keys.cluster().session(&name);
        let former = self.store.get(&key).map(|value| SessionRecord::from_value(value).unwrap());
        let number = SessionNumber(former.map_or(1, |former| former.number.0 + 1));
        let session = SessionId { node: name.clone(), incarnation: Incarnation(number.0), number };
        let record = SessionRecord {
            incarnation: session.incarnation,
            number,
            lease: Duration::from_secs(10),
            beat: Beat(1),
            open: true,
        };
        self.write(key, Some(record.to_value()));
        let config = ElectorConfig {
            registry: RegistryName::new("names").unwrap(),
            cluster: ClusterName::new("test").unwrap(),
            node: name.clone(),
            address: format!("{name}:1"),
            admin: None,
            priority: 1,
            timing: self.timing,
            seed: self.seed.draw(),
            most_checks: self.most_checks,
        };
        let life = self.hosts.get(&name).map_or(0, |host| host.life + 1);
        let host = Host {
            elector: Elector::new(config),
            session: session.clone(),
            alive: true,
            manner: Manner::Answers,
            serves: None,
            events: Vec::new(),
            parked: None,
            looks: Vec::new(),
            begun: Vec::new(),
            answers_after: Duration::ZERO,
            watch: None,
            wake: None,
            life,
        };
        self.hosts.insert(name.clone(), host);
        self.later(Duration::ZERO, &name, Due::Input(Input::Notice(Notice::Session(Some(session)))));
        let after = self.seed.below(Duration::from_secs(1));
        self.later(after, &name, Due::Beat);
    }

    /// Ends a node at once. Its session is closed after its lease, if it does not come back before.
    pub(super) fn kill(&mut self, name: &str) {
        let name = node(name);
        let host = self.hosts.get_mut(&name).unwrap();
        host.alive = false;
        host.serves = None;
        self.later(Duration::from_secs(10), &name, Due::Close);
    }

    pub(super) fn close_session(&mut self, name: &str) {
        self.close(&node(name));
    }

    fn close(&mut self, name: &NodeName) {
        let key = self.keys.cluster().session(name);
        let mut record = SessionRecord::from_value(self.store.get(&key).unwrap()).unwrap();
        record.open = false;
        self.write(key, Some(record.to_value()));
    }

    pub(super) fn tell(&mut self, name: &str, notice: Notice) {
        self.later(Duration::ZERO, &node(name), Due::Input(Input::Notice(notice)));
    }

    pub(super) fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.get_mut(&node(name)).unwrap()
    }

    pub(super) fn cut(&mut self, name: &str, other: &str) {
        for (a, b) in [(node(name), node(other)), (node(other), node(name))] {
            self.cuts.insert((a.clone(), b.clone()));
            self.later(Duration::from_millis(1), &a, Due::Input(Input::Notice(Notice::LinkDown { node: b })));
        }
    }

    pub(super) fn heal(&mut self) {
        for (a, b) in std::mem::take(&mut self.cuts) {
            self.later(
                Duration::from_millis(1),
                &a,
                Due::Input(Input::Notice(Notice::LinkUp { node: b, may_lead: true })),
            );
        }
    }

    /// Writes past all electors.
    pub(super) fn write(&mut self, key: Key, value: Option<Value>) {
        let write = match value {
            Some(value) => Transaction::new().put(key, value),
            None => Transaction::new().clear(key),
        };
        assert!(matches!(self.store.apply(&write), CommitOutcome::Committed(_)));
        self.wake_watchers();
    }

    /// Appends to the queue past all electors.
    pub(super) fn append(&mut self, value: Value) {
        let append = Transaction::new().append(self.keys.queue(), value);
        assert!(self.commit(&append));
    }

    pub(super) fn state(&self) -> ElectionState {
        self.reading().state.unwrap()
    }

    pub(super) fn reading(&self) -> Reading {
        let all = self.hosts.keys().cloned().collect();
        let reads = reading::reads(&self.keys, &node("sim"), 100_000, &all);
        let read = self.store.read(&reads, None).unwrap();
        Reading::new(&self.keys, 100_000, &all, Sequence(0), None, read)
    }

    pub(super) fn raw(&self, key: &Key) -> Option<Value> {
        self.store.get(key).map(<[u8]>::to_vec)
    }

    pub(super) fn leader(&self) -> Option<String> {
        self.state().term.leader.map(|leader| leader.node.to_string())
    }

    /// The leader, if it has done its handoff.
    pub(super) fn serving(&self) -> Option<String> {
        let term = self.state().term;
        let leader = term.leader?.node;
        let host = &self.hosts[&leader];
        (host.alive && host.serves == Some(term.epoch)).then(|| leader.to_string())
    }

    /// How often the seat got a new leader.
    pub(super) fn changes(&self) -> usize {
        self.terms.values().flatten().count()
    }

    pub(super) fn events(&self, name: &str) -> &[ElectorEvent] {
        &self.hosts[&node(name)].events
    }

    pub(super) fn view(&self, name: &str) -> Option<Arc<View>> {
        self.hosts[&node(name)].elector.view().cloned()
    }

    pub(super) fn release(&mut self, name: &str) -> Vec<bool> {
        let parked = self.host(name).parked.take().unwrap_or_default();
        parked.iter().map(|transaction| self.commit(transaction)).collect()
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.due.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.next();
        }
        self.now = end;
    }

    /// Runs until the condition holds; says whether it did within the time.
    pub(super) fn run_until(&mut self, time: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + time;
        while !holds(self) {
            if self.due.first_key_value().is_none_or(|((at, _), _)| *at > end) {
                return false;
            }
            self.next();
        }
        true
    }

    fn later(&mut self, after: Duration, name: &NodeName, due: Due) {
        self.count += 1;
        let life = self.hosts.get(name).map_or(0, |host| host.life);
        self.due.insert((self.now + after, self.count), (name.clone(), life, due));
    }

    fn soon(&mut self, name: &NodeName, due: Due) {
        let after = self.a_moment();
        self.later(after, name, due);
    }

    fn a_moment(&mut self) -> Duration {
        Duration::from_micros(200) + self.seed.below(Duration::from_millis(3))
    }

    fn next(&mut self) {
        let Some(((at, _), (name, life, due))) = self.due.pop_first() else { return };
        self.now = at;
        match &due {
            // What the store was sent may land after the death of its author.
            Due::Commit(_, transaction) if !self.is_current(&name, life) => {
                if self.seed.draw().is_multiple_of(2) {
                    self.commit(transaction);
                }
                return;
            }
            Due::Close if self.hosts[&name].life == life => return self.close(&name),
            _ if !self.is_current(&name, life) => return,
            _ => {}
        }
        match due {
            Due::Input(input) => self.step(&name, input),
            Due::Wake(wake) => {
                if self.hosts[&name].wake == Some(wake) {
                    self.step(&name, Input::Wake);
                }
            }
            Due::Read(id, reads) => {
                let result = Ok(self.store.read(&reads, None).unwrap());
                let after = self.hosts[&name].answers_after + self.a_moment();
                self.later(after, &name, Due::Input(Input::ReadDone { id, result }));
            }
            Due::Commit(id, transaction) => {
                let outcome = if self.commit(&transaction) {
                    CommitOutcome::Committed(self.store.version())
                } else {
                    CommitOutcome::Conflict
                };
                self.soon(&name, Due::Input(Input::CommitDone { id, outcome }));
            }
            Due::Beat => self.beat(&name),
            Due::Handoff(epoch) => self.hand_off(&name, epoch),
            Due::Asked { leader, epoch } => self.ask(&name, &leader, epoch),
            Due::Close => {}
        }
    }

    fn is_current(&self, name: &NodeName, life: u64) -> bool {
        self.hosts.get(name).is_some_and(|host| host.alive && host.life == life)
    }

    fn step(&mut self, name: &NodeName, input: Input) {
        let host = self.hosts.get_mut(name).unwrap();
        let mut effects = Vec::new();
        host.elector.step(self.now, input, &mut effects);
        for effect in effects {
            self.carry_out(name, effect);
        }
    }

    fn carry_out(&mut self, name: &NodeName, effect: Effect) {
        let host = self.hosts.get_mut(name).unwrap();
        match effect {
            Effect::Read { id, reads } => {
                host.looks.push(reads.clone());
                self.soon(name, Due::Read(id, reads));
            }
            Effect::Commit { id, transaction } => match &mut host.parked {
                Some(parked) => parked.push(transaction),
                None => self.soon(name, Due::Commit(id, transaction)),
            },
            Effect::Watch { keys, since } => {
                host.begun.push(keys.clone());
                host.watch = Some((keys, since));
                self.wake_watchers();
            }
            Effect::WakeAt(at) => {
                host.wake = Some(at);
                let after = at.since(self.now);
                self.later(after, name, Due::Wake(at));
            }
            Effect::Emit(event) => {
                host.events.push(event.clone());
                match event {
                    ElectorEvent::View(view) => self.sync(name, &view),
                    ElectorEvent::RunHandoff { leader, epoch } => {
                        self.soon(name, Due::Asked { leader, epoch });
                    }
                    _ => {}
                }
            }
        }
    }

    /// A member that is not synced follows the log in the store, which takes it no time.
    fn sync(&mut self, name: &NodeName, view: &View) {
        let unsynced = view.me.is_some() && view.members.get(name).is_some_and(|row| !row.synced);
        if let (true, Some(end)) = (unsynced, view.commit) {
            let synced = Notice::Synced { epoch: view.term.epoch, position: end.position };
            self.soon(name, Due::Input(Input::Notice(synced)));
        }
    }

    fn ask(&mut self, name: &NodeName, leader: &NodeName, epoch: Epoch) {
        let is_cut = self.cuts.contains(&(name.clone(), leader.clone()));
        let Some(host) = self.hosts.get(leader).filter(|host| host.alive && !is_cut) else { return };
        if host.manner == Manner::Silent {
            return;
        }
        if name != leader {
            if host.serves == Some(epoch) {
                self.soon(name, Due::Input(Input::Notice(Notice::HandoffDone { epoch })));
            } else {
                self.later(Duration::from_millis(20), leader, Due::Handoff(epoch));
                self.later(Duration::from_millis(40), name, Due::Asked { leader: leader.clone(), epoch });
            }
            return;
        }
        if host.manner == Manner::Fails {
            self.soon(name, Due::Input(Input::Notice(Notice::HandoffFailed { epoch })));
        } else {
            self.later(Duration::from_millis(20), name, Due::Handoff(epoch));
        }
    }

    /// Opens the epoch, as the registry would: a batch fenced by the term.
    fn hand_off(&mut self, name: &NodeName, epoch: Epoch) {
        let term = self.state().term;
        if term.epoch != epoch || term.leader.is_none_or(|leader| leader.node != *name) {
            return;
        }
        let batch = self.batch();
        assert!(self.commit(&batch));
        self.hosts.get_mut(name).unwrap().serves = Some(epoch);
        self.step(name, Input::Notice(Notice::HandoffDone { epoch }));
    }

    /// A batch of the leader's as the store is now: it checks the term and the log's end, and moves that.
    pub(super) fn batch(&self) -> Transaction {
        let (term, commit) = (self.keys.term(), self.keys.commit());
        let end = self.reading().commit.unwrap_or_default();
        Transaction::new()
            .check(term.clone(), self.raw(&term))
            .check(commit.clone(), self.raw(&commit))
            .put(commit, LogEnd { position: end.position.next(), nonce: Nonce(1) }.to_value())
    }

    fn beat(&mut self, name: &NodeName) {
        let key = self.keys.cluster().session(name);
        let mut record = SessionRecord::from_value(self.store.get(&key).unwrap()).unwrap();
        let session = self.hosts[name].session.clone();
        if record.is_open_as(&session) {
            record.beat = record.beat.next();
            self.write(key, Some(record.to_value()));
        } else {
            self.step(name, Input::Notice(Notice::Session(None)));
        }
        // A leader that serves is heard by all whom it can reach, until it learns that it does not lead.
        let leads =
            self.view(name.as_str()).and_then(|view| view.term.leader.clone().map(|l| (l, view.term.epoch)));
        if let Some((_, epoch)) = leads.filter(|(leader, _)| leader.node == *name)
            && self.hosts[name].serves == Some(epoch)
            && self.has_contact
        {
            let is_reached =
                |other: &&NodeName| *other != name && !self.cuts.contains(&(name.clone(), (*other).clone()));
            let others: Vec<NodeName> = self.hosts.keys().filter(is_reached).cloned().collect();
            for other in &others {
                self.soon(other, Due::Input(Input::Notice(Notice::LeaderContact { epoch })));
            }
        }
        let after = Duration::from_millis(400) + self.seed.below(Duration::from_millis(200));
        self.later(after, name, Due::Beat);
    }

    /// Commits, and checks what must hold of every commit.
    pub(super) fn commit(&mut self, transaction: &Transaction) -> bool {
        let before = self.store.clone();
        if !matches!(self.store.apply(transaction), CommitOutcome::Committed(_)) {
            return false;
        }
        let queue = self.keys.queue_entries();
        for write in &transaction.writes {
            if let Write::Clear(key) = write
                && queue.contains(key)
                && let Ok(entry) = QueueEntry::from_value(before.get(key).unwrap())
            {
                self.consumed.push((key.clone(), entry, before.get(&self.keys.lock()).is_some()));
            }
        }
        if before.get(&self.keys.term()) != self.store.get(&self.keys.term()) {
            let term = self.state().term;
            let last = self.terms.last_key_value().map_or(Epoch(0), |(epoch, _)| *epoch);
            assert_eq!(term.epoch, last.next(), "epochs grow one by one");
            self.terms.insert(term.epoch, term.leader.map(|leader| leader.node));
        }
        self.wake_watchers();
        true
    }

    fn wake_watchers(&mut self) {
        if !self.watches {
            return;
        }
        let is_over = |host: &Host| {
            host.watch
                .as_ref()
                .is_some_and(|(keys, since)| keys.iter().any(|key| self.store.changed_since(key, *since)))
        };
        let over: Vec<NodeName> =
            self.hosts.iter().filter(|(_, host)| is_over(host)).map(|(name, _)| name.clone()).collect();
        for name in over {
            self.hosts.get_mut(&name).unwrap().watch = None;
            self.soon(&name, Due::Input(Input::Notice(Notice::Changed)));
        }
    }
}
