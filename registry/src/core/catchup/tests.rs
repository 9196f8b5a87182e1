//! Who is asked for a snapshot, and for how long it may take.

use std::{collections::BTreeMap, sync::Arc};

use callsign_store::ids::{ClusterName, Incarnation, Nonce, RegistryName, SessionId, SessionNumber};
use callsign_store::keys::ClusterKeys;

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
        let mut catchup = CatchUp::new(7);
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
        self.catchup.drive(turn, &self.replica, &self.sources);
        let asked = self.effects.drain(..).filter_map(|effect| match effect {
            Effect::Send { to, message: Message::SnapshotWanted { id }, .. } => Some((to, id)),
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
    assert_eq!(asked, ["a", "b", "c", "a", "b", "c"]);
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
    let (next, id) = joiner.asks_after(MILLIS(1000)).unwrap();
    assert_ne!(next, donor);
    let end = LogEnd { position: Position((1 << 40) + 1), nonce: Nonce(9) };
    joiner.chunk(&next, id, 0, Some((Epoch((1 << 40) + 1), end)));
    assert_eq!((joiner.replica.is_based(), joiner.replica.position()), (true, end.position));
}

#[test]
fn two_incarnations_of_a_node_ask_for_snapshots_under_different_numbers() {
    let mut joiner = Joiner::new("a", &[]);
    let mut ids: Vec<u64> = (0..3).map(|_| joiner.asks_after(MILLIS(1000)).unwrap().1).collect();
    joiner.catchup = CatchUp::new(8);
    joiner.catchup.want(joiner.now, Position(90));
    ids.extend((0..3).map(|_| joiner.asks_after(MILLIS(1000)).unwrap().1));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6, "{ids:?}");
}
