use std::collections::BTreeMap;

use callsign_store::{
    Version,
    ids::{ClusterName, NodeName, Nonce, RegistryName},
    keys::{ClusterKeys, RegistryKeys},
};

use super::*;

const MILLIS: fn(u64) -> Duration = Duration::from_millis;

fn end(position: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(position) }
}

/// The reads of a member whose replica is where it is put.
struct Reader {
    reads: Reads,
    replica: Replica<BTreeMap<Name, Row>>,
    keys: RegistryKeys,
    now: Time,
    next_op: u64,
}

impl Reader {
    /// Its replica is at this position.
    fn at(position: u64) -> Self {
        let cluster = ClusterKeys::new(&ClusterName::new("test").unwrap());
        let mut replica = Replica::new(NodeName::new("a").unwrap(), BTreeMap::new());
        replica.base_on_nothing();
        replica.skip_to(end(position));
        let keys = cluster.registry(&RegistryName::new("r").unwrap());
        Self { reads: Reads::default(), replica, keys, now: Time(Duration::from_secs(100)), next_op: 0 }
    }

    /// A caller wants to know what a name is, within a second and a half.
    fn asks(&mut self, call: u64) {
        self.reads.consistent(self.now, CallId(call), "x".into(), MILLIS(1500));
    }

    /// The read that begins after so long.
    fn begins_after(&mut self, millis: u64) -> Option<OpId> {
        self.now = self.now + MILLIS(millis);
        let mut effects = Vec::new();
        let end = self.replica.is_based().then(|| self.replica.end());
        self.reads.proceed(Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects), end);
        match &effects[..] {
            [] => None,
            [Effect::Read { id, reads }] => {
                assert_eq!(*reads, [read_key(self.keys.commit())]);
                Some(*id)
            }
            other => panic!("{other:?}"),
        }
    }

    fn reads(&mut self, id: OpId, commit: Option<Vec<u8>>) -> Result<Option<Position>, WentBack> {
        let answers = vec![commit.into_iter().map(|value| (self.keys.commit(), value)).collect()];
        self.reads.on_read(self.now, id, &Ok(ReadResult { version: Version(1), answers }))
    }

    fn answers(&mut self) -> Vec<(u64, Answer)> {
        let mut effects = Vec::new();
        self.reads.settle(self.now, &self.replica, &mut effects);
        let answers = effects.into_iter().map(|effect| match effect {
            Effect::Answer { call, answer } => (call.0, answer),
            other => panic!("{other:?}"),
        });
        answers.collect()
    }
}

fn found(call: u64, at: u64) -> (u64, Answer) {
    (call, Answer::Consistent(Ok((Position(at), None))))
}

fn unavailable(call: u64, waited: u64) -> (u64, Answer) {
    (call, Answer::Consistent(Err(ConsistentError::StoreUnavailable { waited: MILLIS(waited) })))
}

#[test]
fn one_read_serves_all_who_asked_before_it_began_and_nobody_who_asked_later() {
    let mut reader = Reader::at(4);
    assert_eq!((reader.begins_after(0), reader.reads.is_waiting()), (None, false));
    reader.asks(1);
    reader.asks(2);
    assert!(reader.reads.is_waiting());
    let id = reader.begins_after(0).unwrap();
    reader.asks(3);
    assert_eq!(reader.begins_after(0), None, "one at a time");
    assert_eq!(reader.reads(OpId(id.0 + 9), Some(end(5).to_value())), Ok(None), "another one");
    assert_eq!(reader.reads(id, Some(end(5).to_value())), Ok(Some(Position(5))));
    assert_eq!(reader.answers(), [], "the replica is not there yet");
    reader.replica.skip_to(end(5));
    assert_eq!(reader.answers(), [found(1, 5), found(2, 5)]);
    let id = reader.begins_after(0).unwrap();
    assert!(reader.reads.is_waiting(), "a read is under way");
    assert_eq!(reader.reads(id, Some(end(5).to_value())), Ok(Some(Position(5))));
    assert!(reader.reads.is_waiting(), "the answer is to be given");
    assert_eq!(reader.answers(), [found(3, 5)]);
    assert!(!reader.reads.is_waiting());
}

#[test]
fn a_read_that_does_not_answer_or_fails_is_begun_again() {
    let mut reader = Reader::at(0);
    reader.asks(1);
    let first = reader.begins_after(0).unwrap();
    assert_eq!(reader.begins_after(999), None);
    let second = reader.begins_after(1).unwrap();
    assert_eq!(reader.reads(first, None), Ok(None), "it is late");
    assert_eq!(
        reader.reads.on_read(reader.now, second, &Err(StoreError::Unavailable("gone".into()))),
        Ok(None)
    );
    assert_eq!(reader.begins_after(49), None);
    let third = reader.begins_after(1).unwrap();
    // What cannot be read is not nothing.
    assert_eq!(reader.reads(third, Some(vec![0xff])), Ok(None));
    assert_eq!((reader.begins_after(49), reader.answers()), (None, vec![]));
    let fourth = reader.begins_after(1).unwrap();
    assert_eq!(reader.reads(fourth, None), Ok(Some(Position(0))), "nothing was ever written");
    assert_eq!(reader.answers(), [found(1, 0)]);
}

#[test]
fn a_read_that_shows_less_than_was_applied_before_it_answers_nobody() {
    let mut reader = Reader::at(9);
    reader.asks(1);
    let id = reader.begins_after(0).unwrap();
    assert_eq!(reader.reads(id, Some(end(8).to_value())), Err(WentBack));
    assert_eq!((reader.begins_after(49), reader.answers()), (None, vec![]));
    let id = reader.begins_after(1).unwrap();
    assert_eq!(reader.reads(id, Some(end(9).to_value())), Ok(Some(Position(9))));
    assert_eq!(reader.answers(), [found(1, 9)]);
    // What is no base says nothing of what there was.
    reader.replica.give_up_base();
    reader.asks(2);
    let id = reader.begins_after(0).unwrap();
    assert_eq!(reader.reads(id, Some(end(8).to_value())), Ok(Some(Position(8))));
    assert_eq!(reader.answers(), [], "nor is it an answer");
}

#[test]
fn who_has_waited_long_enough_is_told_what_was_missing() {
    let mut reader = Reader::at(4);
    reader.asks(1);
    let id = reader.begins_after(0).unwrap();
    reader.reads(id, Some(end(5).to_value())).unwrap();
    reader.now = reader.now + MILLIS(700);
    // The read of one is under way, and that of the other has not begun.
    reader.asks(2);
    reader.begins_after(0).unwrap();
    reader.asks(3);
    reader.now = reader.now + MILLIS(799);
    assert_eq!(reader.answers(), []);
    reader.now = reader.now + MILLIS(1);
    let (at, wanted, waited) = (Position(4), Position(5), MILLIS(1500));
    let behind = ConsistentError::Behind { at, wanted, waited };
    assert_eq!(reader.answers(), [(1, Answer::Consistent(Err(behind)))]);
    reader.now = reader.now + MILLIS(699);
    assert_eq!(reader.answers(), []);
    reader.now = reader.now + MILLIS(1);
    assert_eq!(reader.answers(), [unavailable(3, 1500), unavailable(2, 1500)]);
    assert_eq!(reader.answers(), []);
}

#[test]
fn a_position_is_waited_for_until_the_replica_has_it_or_time_is_over() {
    let mut reader = Reader::at(4);
    reader.reads.wait_for(reader.now, CallId(1), Position(5), MILLIS(10));
    reader.reads.wait_for(reader.now, CallId(2), Position(6), MILLIS(10));
    assert!(reader.reads.is_waiting());
    assert_eq!(reader.answers(), []);
    reader.replica.skip_to(end(5));
    assert_eq!(reader.answers(), [(1, Answer::Reached(Ok(())))]);
    reader.replica.skip_to(end(6));
    reader.replica.give_up_base();
    reader.now = reader.now + MILLIS(9);
    assert_eq!(reader.answers(), [], "what it has is no prefix of the log");
    reader.now = reader.now + MILLIS(1);
    assert_eq!(reader.answers(), [(2, Answer::Reached(Err(Position(6))))]);
    assert!(!reader.reads.is_waiting());
}
