//! What fuzzing drives: whatever other members and the log say, nothing panics, and what is said in each function holds.
//!
//! The functions are called by `tests/fuzz/`, and by a test with every file that fuzzing left in `tests/fuzz/corpus/`.
#![allow(missing_docs)] // it is hidden

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use callsign_elector::{
    elector::View,
    record::{Leader, LogEnd, MemberRow, PositionRecord, SessionRecord, Term},
};
use callsign_store::{
    Key, Limits, Read, StoreError, Time, Transaction, Value,
    ids::{
        Ballot, Beat, ClusterName, Epoch, Incarnation, NodeName, Nonce, Position, RegistryName, SessionId,
        SessionNumber, Token,
    },
    keys::{ClusterKeys, RegistryKeys},
    mvcc::Mvcc,
    record::Record,
};
use callsign_transport::{Kind, Permits};

use crate::core::{
    host::OnTake,
    input::{Call, CallId, Effect, Event, Input, Now, OnLapse},
    log::Batch,
    member::MemberConfig,
    message::Message,
    name::{Name, check_name},
    registry::RegistryCore,
    replica::Replica,
    table::Row,
    tuning::Tuning,
};

type FuzzRows = BTreeMap<Name, Row>;

/// The nodes of the registry. The second is this one.
const NODES: [&str; 3] = ["a", "b", "c"];

fn node(nth: usize) -> NodeName {
    NodeName::new(NODES[nth % 3]).expect("a letter is a name")
}

fn keys() -> RegistryKeys {
    let cluster = ClusterName::new("c").expect("a letter is a name");
    ClusterKeys::new(&cluster).registry(&RegistryName::new("r").expect("a letter is a name"))
}

fn session(nth: usize) -> SessionId {
    SessionId { node: node(nth), incarnation: Incarnation(7), number: SessionNumber(1) }
}

/// One after the other: a byte that says what, two bytes of length, and so many bytes.
fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&what, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (piece, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        bytes = rest;
        Some((what, piece))
    })
}

/// What is read is written so that it is read as the same.
fn message_reads_back(bytes: &[u8]) -> Option<Message> {
    let (message, _) = Message::decode_with(bytes, true).ok()?;
    assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
    Some(message)
}

/// What a member hears of others, in pieces; the first byte of each says what it is. Other kinds of pieces let it lead and
/// follow, let time pass, put batches into the log, and ask for names.
pub fn messages(bytes: &[u8]) {
    let mut world = World::new();
    for (what, piece) in pieces(bytes).take(64) {
        let first = piece.first().copied().unwrap_or_default();
        match what % 10 {
            who @ (0 | 2) => {
                if let Some(message) = message_reads_back(piece) {
                    world.step(Input::Message { from: node(usize::from(who)), message });
                }
            }
            // Led by one of them, or by nobody.
            1 => world.term(usize::from(first), u64::from(piece.get(1).copied().unwrap_or(1))),
            3 => world.time(Duration::from_millis(u64::from(first) * 20)),
            4 => world.log(piece),
            5 => {
                let (node, incarnation) = (node(usize::from(first)), Incarnation(7));
                world.step(Input::LinkDown { node: node.clone(), incarnation });
                world.step(Input::LinkUp { node, incarnation, link: 1, permits: Permits::default() });
            }
            6 => world.call(&String::from_utf8_lossy(piece), true),
            7 => world.call(&String::from_utf8_lossy(piece), false),
            8 => world.step(Input::ActorEnded { actor: u64::from(first) }),
            _ => world.step(match first % 5 {
                0 => Input::SessionLapsed(session(1)),
                1 => Input::SessionResumed(session(1)),
                2 => Input::SessionLost,
                3 => Input::SessionOpened(session(1)),
                _ => Input::RunHandoff { leader: node(1), epoch: world.epoch },
            }),
        }
    }
}

/// A member, its store, and nothing else.
pub(crate) struct World {
    pub(crate) registry: RegistryCore<FuzzRows>,
    store: Mvcc,
    keys: RegistryKeys,
    epoch: Epoch,
    now: Time,
    calls: u64,
    /// How often it read the store.
    pub(crate) reads: u64,
    /// Why it could not read the log, each time.
    pub(crate) corrupt: Vec<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        let config = MemberConfig {
            me: node(1),
            incarnation: Incarnation(7),
            keys: keys(),
            seed: 1,
            tuning: Tuning {
                cut_worth: 4,
                chunk_names: 2,
                snapshot_window: 3,
                slice_names: 2,
                own_names: 2,
                memory_bytes: 1 << 10,
                max_lag: 1 << 20,
                batch_bytes: 90_000,
                watch_bytes: 2000,
                missed_bytes: 1000,
                observers: 1,
                watch_looks: 16,
                counts_checks: false,
            },
        };
        let registry = RegistryCore::of_member(config, FuzzRows::new());
        let (store, now) = (Mvcc::new(Limits::FOUNDATIONDB, 1000), Time(Duration::from_secs(1000)));
        let mut world =
            Self { registry, store, keys: keys(), epoch: Epoch(0), now, calls: 0, reads: 0, corrupt: vec![] };
        let mut all = Transaction::new();
        for nth in 0..NODES.len() {
            let (key, record) = (world.keys.cluster().session(&node(nth)), session_record());
            all = all.put(key, record.to_value()).put(world.keys.member(&node(nth)), row(nth).to_value());
        }
        world.store.apply(&all);
        world.step(Input::SessionOpened(session(1)));
        for nth in [0, 2] {
            world.step(Input::LinkUp {
                node: node(nth),
                incarnation: Incarnation(7),
                link: 1,
                permits: Permits::default(),
            });
        }
        world.step(Input::Receives { kind: Kind(1), does: true });
        world
    }

    /// Carries out what the member asks for, at once, as long as it asks.
    pub(crate) fn step(&mut self, input: Input) {
        let mut inputs = vec![input, Input::Idle];
        for _ in 0..32 {
            if inputs.is_empty() {
                return;
            }
            let mut effects = Vec::new();
            let now = Now { time: self.now, trusted: Some(SessionNumber(1)) };
            self.registry.step_member(now, inputs.remove(0), &mut effects);
            for effect in effects {
                match effect {
                    Effect::Read { id, reads } => {
                        self.reads += 1;
                        let result = self.store.read(&reads, None);
                        let result = result.map_err(|_| StoreError::Unavailable("not kept".to_owned()));
                        inputs.push(Input::ReadDone { id, result });
                    }
                    Effect::Commit { id, transaction } => {
                        let outcome = self.store.apply(&transaction);
                        inputs.push(Input::CommitDone { id, outcome });
                        inputs.push(Input::Idle);
                    }
                    Effect::Send { message, .. } => {
                        assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
                    }
                    Effect::Stop { actor } => inputs.push(Input::ActorEnded { actor }),
                    Effect::Event(Event::Corrupt { reason }) => self.corrupt.push(reason),
                    other => drop(format!("{other:?}")),
                }
            }
        }
    }

    pub(crate) fn time(&mut self, by: Duration) {
        self.now = self.now + by;
        self.step(Input::Wake);
    }

    /// A new term, in the store and in what the member is shown.
    pub(crate) fn term(&mut self, leader: usize, more: u64) {
        self.epoch = Epoch(self.epoch.0 + more % 4);
        let leader = (leader % 4 < 3).then(|| Leader {
            node: node(leader % 4),
            incarnation: Incarnation(7),
            token: Token(1),
        });
        let (key, version) = (self.keys.term(), self.store.version());
        let term = Term { leader, epoch: self.epoch, ballot: Ballot(self.epoch.0), elected_at: version };
        self.store.apply(&Transaction::new().put(key, term.to_value()));
        let position = |key: Vec<u8>| {
            let value = self.store.get(&key)?;
            Some(PositionRecord::from_value(value).ok()?.0)
        };
        let commit = self.store.get(&self.keys.commit()).and_then(|value| LogEnd::from_value(value).ok());
        let view = View {
            lineage: callsign_elector::lineage::LineageId::default(),
            version: self.store.version(),
            term,
            lock: None,
            settings: callsign_elector::settings::InForce::default(),
            members: (0..NODES.len()).map(|nth| (node(nth), row(nth))).collect(),
            sessions: (0..NODES.len()).map(|nth| (node(nth), session_record())).collect(),
            commit,
            floor: position(self.keys.floor()).unwrap_or(Position(1)),
            me: Some(Token(1)),
            raw: self.raw(),
            queued: Some(BTreeSet::new()),
        };
        self.step(Input::View(Arc::new(view)));
        self.step(Input::RunHandoff { leader: node(1), epoch: self.epoch });
    }

    /// All that is in the store.
    fn raw(&self) -> Arc<BTreeMap<Key, Value>> {
        let all = Read::Range { range: vec![]..vec![0xff], limit: usize::MAX };
        let read = self.store.read(&[all], None).expect("its own version is kept");
        Arc::new(read.entries(0).iter().cloned().collect())
    }

    /// Whatever it is, it is the next batch of the log.
    pub(crate) fn log(&mut self, value: &[u8]) {
        let commit = self.store.get(&self.keys.commit()).and_then(|value| LogEnd::from_value(value).ok());
        let prev = commit.unwrap_or_default();
        let mut end = LogEnd { position: prev.position.next(), nonce: Nonce(0) };
        let mut value = value.to_vec();
        if let Ok(batch) = Batch::decode(&value) {
            end.nonce = batch.nonce;
            value = Batch { position: end.position, prev, ..batch }.encode().to_vec();
        }
        let put = Transaction::new().put(self.keys.log(end.position), value);
        self.store.apply(&put.put(self.keys.commit(), end.to_value()));
    }

    fn call(&mut self, name: &str, registers: bool) {
        if check_name(name).is_err() {
            return; // the registry answers that by itself
        }
        self.calls += 1;
        let name: Name = name.into();
        let call = if registers {
            Call::Register {
                name,
                actor: self.calls % 4,
                kind: Kind(1),
                on_lapse: OnLapse::Stop,
                on_take: OnTake::Offer,
                meta: None,
            }
        } else {
            Call::Consistent { name }
        };
        self.step(Input::Call { id: CallId(self.calls), call, wait: Duration::from_secs(5) });
    }
}

fn session_record() -> SessionRecord {
    SessionRecord {
        incarnation: Incarnation(7),
        number: SessionNumber(1),
        lease: Duration::from_secs(10),
        beat: Beat(1),
        open: true,
    }
}

fn row(nth: usize) -> MemberRow {
    MemberRow {
        token: Token(1),
        session: session(nth),
        address: "x:1".to_owned(),
        admin: None,
        priority: 1,
        synced: true,
        empty: false,
        accuses: None,
        draining: false,
    }
}

/// Batches of a log, in pieces, offered to a replica as the next one, or, by the byte before them, as another one.
pub fn log(bytes: &[u8]) {
    let mut replica = Replica::new(node(1), FuzzRows::new());
    for (nth, (what, piece)) in pieces(bytes).take(64).enumerate() {
        if let Ok(batch) = Batch::decode(piece) {
            assert_eq!(Batch::decode(&batch.encode()).as_ref(), Ok(&batch));
        }
        if nth == 0 && what & 1 == 0 {
            replica.base_on_nothing();
        }
        let before = replica.position();
        let follows = |prev: LogEnd| {
            let position = prev.position.next();
            match Batch::decode(piece) {
                Ok(batch) => (position, Batch { position, prev, ..batch }.encode()),
                Err(_) => (position, Bytes::copy_from_slice(piece)),
            }
        };
        let (position, batch) = match what >> 1 & 3 {
            0 | 1 => follows(replica.end()),
            2 => follows(LogEnd { position: before.next(), nonce: Nonce(u64::from(what)) }),
            _ => (Position(u64::from(what)), Bytes::copy_from_slice(piece)),
        };
        let offered = replica.offer(Epoch(u64::from(what >> 6)), position, &batch);
        assert!(replica.position() >= before, "a replica went back");
        drop(offered.map_err(|error| error.to_string()));
    }
    assert_eq!(replica.count(), replica.rows().count(), "sessions and rows do not agree");
}

/// A name of an actor.
pub fn name(text: &str) {
    let is_one = (1..=crate::core::name::MAX_NAME_BYTES).contains(&text.len());
    assert_eq!(check_name(text).is_ok(), is_one);
}

#[cfg(test)]
mod tests {
    use callsign_golden::corpus;

    #[test]
    fn nothing_in_the_corpus_of_messages_panics() {
        corpus("messages", super::messages);
    }

    #[test]
    fn nothing_in_the_corpus_of_command_lines_panics() {
        corpus("text", |bytes| String::from_utf8_lossy(bytes).lines().for_each(super::name));
    }

    #[test]
    fn nothing_in_the_corpus_of_logs_panics() {
        corpus("log", super::log);
    }
}
