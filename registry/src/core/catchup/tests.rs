//! Who is asked for a snapshot, and for how long it may take.

mod asking;

use std::{collections::BTreeMap, sync::Arc};

use callsign_store::{
    Limits, Transaction,
    ids::{ClusterName, Incarnation, Nonce, RegistryName, SessionId, SessionNumber},
    keys::ClusterKeys,
    mvcc::Mvcc,
    record::Record,
};

use super::*;
use crate::core::{log::Op, name::Name, table::Row};

fn node(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// A member without a base, and what it asks for.
struct Joiner {
    catchup: CatchUp,
    replica: Replica<BTreeMap<Name, Row>>,
    sources: Sources,
    keys: RegistryKeys,
    now: Time,
    effects: Vec<Effect>,
}

impl Joiner {
    fn new(leader: &str, synced: &[&str]) -> Self {
        let cluster = ClusterName::new("test").unwrap();
        let mut catchup = CatchUp::new(7, 4);
        let now = Time(Duration::from_secs(100));
        catchup.want(now, Position(90));
        Self {
            catchup,
            replica: Replica::new(node("j"), BTreeMap::new()),
            sources: Sources {
                leader: Some(node(leader)),
                synced: synced.iter().map(|name| node(name)).collect(),
                epoch: Epoch(1),
                ..Sources::default()
            },
            keys: ClusterKeys::new(&cluster).registry(&RegistryName::new("r").unwrap()),
            now,
            effects: Vec::new(),
        }
    }

    /// Time passes; who is asked for a snapshot then, and under which number.
    fn asks_after(&mut self, time: Duration) -> Option<(NodeName, u64)> {
        self.now = self.now + time;
        let mut next_op = 0;
        let turn = Turn::new(self.now, &self.keys, &mut next_op, &mut self.effects);
        if self.catchup.lacks(&self.replica) {
            self.catchup.drive(turn, &self.replica, &self.sources);
        }
        let asked = self.effects.drain(..).filter_map(|effect| match effect {
            Effect::Send { to, message: Message::SnapshotWanted { id, .. }, .. } => Some((to, id)),
            _ => None,
        });
        asked.last()
    }

    fn chunk(&mut self, from: &NodeName, id: u64, index: u64, end: Option<(Epoch, LogEnd)>) -> Applied {
        let chunk = ArrivedChunk { id, index, chunk: Chunk::default(), end };
        self.catchup.on_chunk(self.now, &mut self.replica, from, chunk, &mut self.effects).unwrap();
        let mut applied = Applied::default();
        while self.replica.is_busy() {
            applied.gone.extend(self.replica.proceed(1).applied.gone);
        }
        applied
    }
}

const END: LogEnd = LogEnd { position: Position(90), nonce: Nonce(9) };

const MILLIS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn a_snapshot_may_take_as_long_as_it_likes_while_its_chunks_come() {
    let mut joiner = Joiner::new("a", &[]);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    for index in 0..20 {
        assert_eq!(
            joiner.asks_after(MILLIS(900)),
            None,
            "chunk {index} comes in time, and nothing is begun again"
        );
        joiner.chunk(&donor, id, index, None);
    }
    assert_eq!(joiner.asks_after(MILLIS(900)), None);
    joiner.chunk(&donor, id, 20, Some((Epoch(1), END)));
    assert_eq!((joiner.replica.is_based(), joiner.replica.position()), (true, Position(90)));
    assert_eq!(joiner.asks_after(MILLIS(2000)), None);
}

#[test]
fn a_donor_that_is_silent_is_followed_by_the_next_and_one_that_refuses_too() {
    let mut joiner = Joiner::new("a", &["b", "c"]);
    let mut asked = Vec::new();
    for round in 0..6 {
        let (donor, id) = joiner.asks_after(MILLIS(1000)).unwrap();
        if round % 2 == 1 {
            joiner.catchup.on_refused(joiner.now, &donor, id);
        }
        asked.push(donor.to_string());
    }
    assert_eq!(asked[..3], asked[3..]);
    assert_eq!(asked[2], "a", "the leader is the last one");
    asked[..2].sort();
    assert_eq!(asked[..2], ["b", "c"]);
}

#[test]
fn batches_that_waited_for_a_snapshot_are_told_of_like_any_other() {
    let mut joiner = Joiner::new("a", &[]);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    let session = SessionId { node: node("h"), incarnation: Incarnation(1), number: SessionNumber(1) };
    let gone = Batch {
        epoch: Epoch(1),
        nonce: Nonce(1),
        position: Position(91),
        prev: END,
        sessions: vec![Arc::new(session.clone())],
        ops: vec![Op::HostGone { session: 0 }],
    };
    let applied = joiner.replica.offer(Epoch(1), Position(91), &gone.encode()).unwrap();
    assert_eq!(applied, Applied::default(), "it waits");
    let applied = joiner.chunk(&donor, id, 0, Some((Epoch(1), END)));
    assert_eq!(joiner.replica.position(), Position(91));
    assert_eq!(applied.gone, [(session, 0)]);
}

#[test]
fn a_snapshot_of_a_log_that_was_lost_is_not_installed() {
    let mut joiner = Joiner::new("a", &["b"]);
    joiner.catchup.begin_at(LineageNumber(1));
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    // The donor's elector has read the present epoch, and its member has not heard yet that its replica is worth nothing.
    joiner.chunk(&donor, id, 0, Some((Epoch((1 << 40) + 1), END)));
    assert!(!joiner.replica.is_based());
    assert_eq!(joiner.asks_after(MILLIS(99)), None, "it would not be another one at once");
    let (next, id) = joiner.asks_after(MILLIS(1)).unwrap();
    assert_ne!(next, donor);
    let end = LogEnd { position: Position((1 << 40) + 1), nonce: Nonce(9) };
    joiner.chunk(&next, id, 0, Some((Epoch((1 << 40) + 1), end)));
    assert_eq!((joiner.replica.is_based(), joiner.replica.position()), (true, end.position));
}

#[test]
fn only_the_next_chunk_of_the_snapshot_that_was_asked_for_counts() {
    let mut joiner = Joiner::new("a", &["b"]);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    joiner.chunk(&donor, id, 0, None);
    let last = Some((Epoch(1), END));
    for (from, id, index) in [(&node("a"), id, 1), (&donor, id + 1, 1), (&donor, id, 0)] {
        joiner.effects.clear();
        joiner.chunk(from, id, index, last);
        assert!(!joiner.replica.is_based() && joiner.effects.is_empty(), "chunk {index} of {id} from {from}");
    }
    joiner.chunk(&donor, id, 1, last);
    assert!(joiner.replica.is_based());
}

#[test]
fn two_incarnations_of_a_node_ask_for_snapshots_under_different_numbers() {
    let mut joiner = Joiner::new("a", &[]);
    let mut ids: Vec<u64> = (0..3).map(|_| joiner.asks_after(MILLIS(1000)).unwrap().1).collect();
    joiner.catchup = CatchUp::new(8, 4);
    joiner.catchup.want(joiner.now, Position(90));
    ids.extend((0..3).map(|_| joiner.asks_after(MILLIS(1000)).unwrap().1));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6, "{ids:?}");
}

impl Joiner {
    /// Time passes; what it does then.
    fn does_after(&mut self, time: Duration) -> Vec<Effect> {
        self.now = self.now + time;
        let mut next_op = 0;
        let turn = Turn::new(self.now, &self.keys, &mut next_op, &mut self.effects);
        if self.catchup.lacks(&self.replica) {
            self.catchup.drive(turn, &self.replica, &self.sources);
        }
        std::mem::take(&mut self.effects)
    }

    /// The store's log, with so many batches, and a last one that cannot be read.
    fn log(&self, batches: u64) -> Mvcc {
        let mut there = Transaction::new();
        let mut prev = LogEnd::default();
        for position in (1..=batches).map(Position) {
            let ops = vec![if position == Position(1) { Op::Reset } else { Op::Open }];
            let batch = Batch { epoch: Epoch(1), nonce: Nonce(9), position, prev, sessions: Vec::new(), ops };
            there = there.put(self.keys.log(position), batch.encode().to_vec());
            prev = LogEnd { position, nonce: Nonce(9) };
        }
        let last = LogEnd { position: prev.position.next(), nonce: Nonce(9) };
        there = there.put(self.keys.log(last.position), vec![0xff]);
        there = there.put(self.keys.commit(), last.to_value());
        let mut store = Mvcc::new(Limits::FOUNDATIONDB, 10);
        store.apply(&there);
        store
    }

    /// The log is read, as was asked.
    fn reads(&mut self, asked: &[Effect], log: &Mvcc) {
        let [Effect::Read { id, reads }] = asked else { panic!("{asked:?}") };
        let result = log.read(reads, None).unwrap();
        let Self { catchup, replica, keys, now, .. } = self;
        catchup.on_log(*now, replica, *id, Some(&result), keys, 100).unwrap();
    }
}

#[test]
fn what_the_log_has_before_a_batch_that_cannot_be_read_is_applied_first() {
    let mut joiner = Joiner::new("a", &[]);
    joiner.replica.base_on_nothing();
    // The leader is nearer than the store, and may have it still.
    let asked = joiner.does_after(LAG_ALLOWED);
    assert!(matches!(&asked[..], [Effect::Send { message: Message::Fetch { .. }, .. }]), "{asked:?}");
    let asked = joiner.does_after(SOURCE_TIMEOUT);
    joiner.reads(&asked, &joiner.log(2));
    assert_eq!((joiner.replica.position(), joiner.catchup.is_busy()), (Position(2), true));
    assert!(joiner.catchup.proceed(joiner.now, &mut joiner.replica, 100).is_err());
    assert_eq!((joiner.replica.position(), joiner.catchup.is_busy()), (Position(2), false));
    // What cannot be read is not asked for again at once, nor is it given up.
    assert!(joiner.does_after(UNREADABLE / 2).is_empty());
    assert!(!joiner.does_after(UNREADABLE).is_empty());
}

#[test]
fn a_leader_whose_batch_cannot_be_read_is_not_asked_again_at_once() {
    let mut joiner = Joiner::new("a", &[]);
    joiner.replica.base_on_nothing();
    joiner.does_after(LAG_ALLOWED);
    let unreadable = [(Position(1), Bytes::from_static(&[0xff]))];
    let Joiner { catchup, replica, now, .. } = &mut joiner;
    assert!(catchup.on_fetched(*now, replica, Epoch(1), &unreadable).is_err());
    assert!(joiner.does_after(UNREADABLE / 2).is_empty());
    assert!(!joiner.does_after(UNREADABLE).is_empty());
}

#[test]
fn a_leader_lacks_nothing_that_somebody_said_of_a_log_that_was_lost() {
    let mut joiner = Joiner::new("a", &[]);
    joiner.replica.base_on_nothing();
    assert!(!joiner.catchup.is_complete(&joiner.replica), "position 90 was heard of");
    joiner.catchup.stop();
    assert!(joiner.catchup.is_complete(&joiner.replica));
}

#[test]
fn the_log_is_read_up_to_the_end_that_it_has_itself() {
    let mut joiner = Joiner::new("a", &[]);
    joiner.sources.leader = None;
    joiner.replica.base_on_nothing();
    joiner.catchup = CatchUp::new(7, 4);
    joiner.catchup.want(joiner.now, Position(1));
    let log = joiner.log(LOG_READ as u64 * 2);
    for round in 1..=2 {
        let asked = joiner.does_after(MILLIS(0));
        joiner.reads(&asked, &log);
        assert_eq!(joiner.replica.position(), Position(round * LOG_READ as u64));
    }
}
