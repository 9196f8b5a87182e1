//! When something is asked for, and of whom.

use callsign_transport::Kind;

use super::*;
use crate::core::{explained::NameState, table::RequestNumber};

/// What was asked for, in a word.
fn asked(effects: &[Effect]) -> Vec<String> {
    let word = |effect: &Effect| match effect {
        Effect::Send { to, message: Message::Fetch { after, .. }, .. } => format!("{to} after {}", after.0),
        Effect::Send { to, message: Message::SnapshotWanted { .. }, .. } => format!("{to} for all"),
        Effect::Read { .. } => "log".to_owned(),
        other => panic!("{other:?}"),
    };
    effects.iter().map(word).collect()
}

/// The batch at a position, behind the one at the position before it.
fn batch(position: u64, ops: Vec<Op>) -> Batch {
    let at = |position: u64| match position {
        0 => LogEnd::default(),
        position => LogEnd { position: Position(position), nonce: Nonce(9) },
    };
    let (position, prev) = (Position(position), at(position - 1));
    Batch { epoch: Epoch(1), nonce: Nonce(9), position, prev, sessions: Vec::new(), ops }
}

/// A log of batches, and where it ends; its floor, if it was cut.
fn log_of(joiner: &Joiner, batches: &[Batch], floor: Option<u64>) -> Mvcc {
    let mut there = Transaction::new();
    for batch in batches {
        there = there.put(joiner.keys.log(batch.position), batch.encode().to_vec());
        there = there.put(joiner.keys.commit(), batch.end().to_value());
    }
    if let Some(floor) = floor {
        there = there.put(joiner.keys.floor(), PositionRecord(Position(floor)).to_value());
    }
    let mut store = Mvcc::new(Limits::FOUNDATIONDB, 10);
    store.apply(&there);
    store
}

impl Joiner {
    /// One that has a base.
    fn based(leader: Option<&str>) -> Self {
        let mut joiner = Self::new("a", &["b"]);
        joiner.sources.leader = leader.map(node);
        joiner.replica.base_on_nothing();
        joiner
    }

    fn asks(&mut self, millis: u64) -> Vec<String> {
        asked(&self.does_after(MILLIS(millis)))
    }

    fn fetched(&mut self, batches: &[Batch]) -> Result<Applied, CorruptBatch> {
        let batches: Vec<_> = batches.iter().map(|batch| (batch.position, batch.encode())).collect();
        self.catchup.on_fetched(self.now, &mut self.replica, Epoch(1), &batches)
    }

    /// The log was read as asked, and so many names may be changed at once.
    fn reads_some(&mut self, asked: &[Effect], log: &Mvcc, names: usize) -> Result<Applied, CorruptBatch> {
        let [Effect::Read { id, reads }] = asked else { panic!("{asked:?}") };
        let result = log.read(reads, None).unwrap();
        let Self { catchup, replica, keys, now, .. } = self;
        catchup.on_log(*now, replica, *id, Some(&result), keys, names)
    }
}

#[test]
fn a_replica_that_lacks_nothing_asks_nobody() {
    let mut joiner = Joiner::based(Some("a"));
    joiner.catchup = CatchUp::new(7, 4);
    assert!(joiner.catchup.is_complete(&joiner.replica), "of nothing it is known that it is there");
    assert_eq!((joiner.asks(1000), joiner.catchup.is_too_far()), (vec![], false));
    joiner.catchup.want(joiner.now, Position(1));
    assert!(!joiner.catchup.is_complete(&joiner.replica));
    joiner.replica.apply(&batch(1, vec![]));
    assert!(joiner.catchup.is_complete(&joiner.replica));
    assert_eq!(joiner.asks(1000), [""; 0]);
    joiner.replica.give_up_base();
    assert!(!joiner.catchup.is_complete(&joiner.replica), "it has no base");
}

#[test]
fn batches_are_on_their_way_for_a_moment_and_the_moment_begins_when_they_are_first_heard_of() {
    let mut joiner = Joiner::based(Some("a"));
    assert_eq!(joiner.asks(100), [""; 0]);
    joiner.catchup.want(joiner.now, Position(90));
    joiner.catchup.want(joiner.now, Position(80));
    assert_eq!(joiner.asks(49), [""; 0]);
    assert_eq!(joiner.asks(1), ["a after 0"]);
    assert_eq!(joiner.asks(0), [""; 0], "one thing at a time");
}

#[test]
fn what_is_certainly_not_on_its_way_is_asked_for_at_once() {
    let mut joiner = Joiner::based(None);
    assert_eq!(joiner.asks(0), ["log"], "nobody leads");
    let mut joiner = Joiner::based(Some("a"));
    joiner.sources.is_taking_over = true;
    assert_eq!(joiner.asks(0), ["a after 0"], "it leads itself");
    let mut joiner = Joiner::based(Some("a"));
    let later = batch(3, vec![]);
    joiner.replica.offer(Epoch(1), Position(3), &later.encode()).unwrap();
    assert_eq!(joiner.asks(0), ["a after 0"], "there is a gap");
    let mut joiner = Joiner::new("a", &[]);
    assert_eq!(joiner.asks(0), ["a for all"], "it has no base");
}

#[test]
fn nothing_is_asked_for_while_what_is_here_may_be_all_that_lacks() {
    let mut joiner = Joiner::new("a", &[]);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    let chunk = ArrivedChunk { id, index: 0, chunk: Chunk::default(), end: Some((Epoch(1), END)) };
    joiner.catchup.on_chunk(joiner.now, &mut joiner.replica, &donor, chunk, &mut joiner.effects).unwrap();
    assert!(joiner.replica.is_installing());
    assert_eq!(joiner.asks(3000), [""; 0]);
    // The log was read, and is not looked at yet.
    let mut joiner = Joiner::based(None);
    let log = log_of(&joiner, &[batch(1, vec![Op::Open, Op::Open]), batch(2, vec![Op::Open])], None);
    let read = joiner.does_after(MILLIS(0));
    joiner.reads_some(&read, &log, 1).unwrap();
    assert_eq!((joiner.replica.position(), joiner.catchup.is_busy()), (Position(1), true));
    assert_eq!(joiner.asks(3000), [""; 0]);
}

#[test]
fn a_log_that_was_read_is_applied_until_so_many_names_are_changed() {
    for (names, positions) in [(1, &[1, 2, 3, 4][..]), (2, &[1, 3, 4]), (3, &[2, 4])] {
        let mut joiner = Joiner::based(None);
        let two = || vec![Op::Open, Op::Open];
        let log = [batch(1, two()), batch(2, vec![]), batch(3, vec![Op::Open]), batch(4, two())];
        let log = log_of(&joiner, &log, None);
        let read = joiner.does_after(MILLIS(0));
        joiner.reads_some(&read, &log, names).unwrap();
        let mut at = vec![joiner.replica.position().0];
        while joiner.catchup.is_busy() {
            joiner.catchup.proceed(joiner.now, &mut joiner.replica, names).unwrap();
            at.push(joiner.replica.position().0);
        }
        assert_eq!(at, positions, "{names} at a time");
    }
}

#[test]
fn the_leader_is_asked_first_and_the_log_if_it_does_not_have_it_or_does_not_answer() {
    // It does not remember so much.
    let mut joiner = Joiner::based(Some("a"));
    assert_eq!(joiner.asks(150), ["a after 0"]);
    assert_eq!(joiner.fetched(&[]), Ok(Applied::default()));
    assert_eq!(joiner.asks(0), ["log"]);
    // What comes from it unasked counts for nothing.
    joiner.fetched(&[batch(1, vec![])]).unwrap();
    assert_eq!((joiner.replica.position(), joiner.asks(0)), (Position(0), vec![]));
    // Once nothing is lacking, it is the first again.
    for position in 1..=90 {
        joiner.replica.apply(&batch(position, vec![]));
    }
    assert_eq!(joiner.asks(0), [""; 0]);
    joiner.catchup.want(joiner.now, Position(91));
    assert_eq!(joiner.asks(149), [""; 0]);
    assert_eq!(joiner.asks(1), ["a after 90"], "also if another source has not answered");
    joiner.fetched(&[batch(91, vec![])]).unwrap();
    assert_eq!(joiner.replica.position(), Position(91));
    // It has some of it.
    joiner.catchup.want(joiner.now, Position(93));
    joiner.asks(150);
    joiner.fetched(&[batch(92, vec![])]).unwrap();
    assert_eq!(joiner.asks(0), ["a after 92"]);
    // It is cut off.
    joiner.catchup.lost(&node("b"), Some(&node("a")));
    assert_eq!(joiner.asks(0), [""; 0], "another one is");
    joiner.catchup.lost(&node("a"), Some(&node("a")));
    assert_eq!(joiner.asks(0), ["log"]);
    joiner.catchup.lost(&node("b"), Some(&node("a")));
    joiner.catchup.lost(&node("a"), Some(&node("a")));
    assert_eq!(joiner.asks(0), [""; 0], "the log is being read, whoever is lost");
}

#[test]
fn a_new_leader_is_asked_at_once_for_what_the_former_one_did_not_give() {
    let mut joiner = Joiner::based(Some("a"));
    joiner.asks(150);
    joiner.sources.leader = Some(node("b"));
    joiner.catchup.term_changed();
    assert_eq!(joiner.asks(0), ["b after 0"]);
    joiner.fetched(&[]).unwrap();
    joiner.catchup.term_changed();
    assert_eq!(joiner.asks(0), ["b after 0"]);
    // What is read of the log is read, whoever leads.
    joiner.fetched(&[]).unwrap();
    assert_eq!(joiner.asks(0), ["log"]);
    joiner.catchup.term_changed();
    assert_eq!(joiner.asks(0), [""; 0]);
}

#[test]
fn the_log_decides_whose_word_counts_if_the_leader_has_another_batch() {
    let mut joiner = Joiner::based(Some("a"));
    joiner.replica.apply(&batch(1, vec![]));
    joiner.asks(150);
    let other = Batch { prev: LogEnd { nonce: Nonce(8), ..batch(1, vec![]).end() }, ..batch(2, vec![]) };
    assert!(matches!(joiner.fetched(&[other]), Err(CorruptBatch::Diverged { .. })));
    assert_eq!(joiner.asks(999), [""; 0]);
    let read = joiner.does_after(MILLIS(1));
    assert_eq!(asked(&read), ["log"]);
    // It says so, too: what it has is shown once.
    let other = Batch { nonce: Nonce(8), ..batch(1, vec![]) };
    let follows = Batch { prev: other.end(), ..batch(2, vec![]) };
    let log = log_of(&joiner, &[other, follows.clone(), batch(3, vec![])], None);
    assert!(joiner.reads_some(&read, &log, 9).is_err());
    let shown = (joiner.keys.log(Position(2)), follows.encode().to_vec());
    assert_eq!(joiner.catchup.take_contradiction(), Some(shown));
    assert_eq!((joiner.catchup.take_contradiction(), joiner.catchup.is_busy()), (None, false));
    // What cannot be read at all contradicts nothing.
    joiner.asks(1000);
    let mut joiner = Joiner::based(None);
    let read = joiner.does_after(MILLIS(0));
    let log = joiner.log(0);
    assert!(joiner.reads_some(&read, &log, 9).is_err());
    assert_eq!((joiner.catchup.take_contradiction(), joiner.catchup.is_busy()), (None, false));
}

#[test]
fn a_log_that_does_not_follow_is_read_again_later() {
    let mut joiner = Joiner::based(None);
    let read = joiner.does_after(MILLIS(0));
    // Another source is quicker.
    let log = log_of(&joiner, &[batch(1, vec![]), batch(2, vec![]), batch(3, vec![])], None);
    joiner.replica.apply(&batch(1, vec![]));
    assert_eq!(joiner.reads_some(&read, &log, 9), Ok(Applied::default()));
    assert_eq!((joiner.replica.position(), joiner.catchup.is_busy()), (Position(1), false));
    assert_eq!(joiner.asks(99), [""; 0]);
    let read = joiner.does_after(MILLIS(1));
    joiner.reads_some(&read, &log, 9).unwrap();
    assert_eq!(joiner.replica.position(), Position(3), "to its very end");
}

#[test]
fn a_read_of_the_log_that_fails_is_begun_again_after_a_moment() {
    let mut joiner = Joiner::based(None);
    let read = joiner.does_after(MILLIS(0));
    let [Effect::Read { id, reads }] = &read[..] else { panic!("{read:?}") };
    let log = log_of(&joiner, &[batch(1, vec![])], None);
    let result = log.read(reads, None).unwrap();
    let Joiner { catchup, replica, keys, now, .. } = &mut joiner;
    catchup.on_log(*now, replica, OpId(id.0 + 50), Some(&result), keys, 9).unwrap();
    assert_eq!(replica.position(), Position(0), "another read");
    catchup.on_log(*now, replica, *id, None, keys, 9).unwrap();
    assert_eq!(joiner.asks(99), [""; 0]);
    assert_eq!(joiner.asks(1), ["log"]);
}

#[test]
fn a_member_without_a_base_begins_where_the_log_does_if_that_was_never_cut() {
    let alone = || {
        let mut joiner = Joiner::new("a", &[]);
        joiner.sources.leader = None;
        joiner
    };
    let first = |ops| vec![batch(1, ops), batch(2, vec![])];
    let mut joiner = alone();
    let read = joiner.does_after(MILLIS(0));
    let log = log_of(&joiner, &first(vec![]), None);
    let applied = joiner.reads_some(&read, &log, 9).unwrap();
    assert!(applied.is_of_many, "whoever waits for a free name is told");
    assert_eq!((joiner.replica.is_based(), joiner.replica.position()), (true, Position(2)));
    let read = joiner.does_after(MILLIS(0));
    assert!(!joiner.reads_some(&read, &log, 9).unwrap().is_of_many, "it was based before");
    // It was cut.
    let mut joiner = alone();
    let read = joiner.does_after(MILLIS(0));
    let log = log_of(&joiner, &[batch(2, vec![]), batch(3, vec![])], Some(2));
    joiner.reads_some(&read, &log, 9).unwrap();
    assert_eq!((joiner.replica.is_based(), joiner.catchup.is_too_far()), (false, true));
    // Anybody who is linked may have a base.
    joiner.sources.others = vec![node("c")];
    assert_eq!(joiner.asks(99), [""; 0]);
    assert_eq!(joiner.asks(1), ["c for all"]);
    joiner.sources.synced = vec![node("b")];
    assert_eq!(joiner.asks(1000), ["b for all"]);
    // In a lineage that is not the first one, only what resets comes first.
    let mut joiner = alone();
    joiner.catchup.begin_at(LineageNumber(1));
    let read = joiner.does_after(MILLIS(0));
    let begin = 1 << 40;
    let at = |position: u64, ops| Batch { position: Position(begin + position), ..batch(position, ops) };
    let log = log_of(&joiner, &[at(1, vec![Op::Open])], None);
    joiner.reads_some(&read, &log, 9).unwrap();
    assert_eq!((joiner.replica.is_based(), joiner.catchup.is_busy()), (false, false));
    let read = joiner.does_after(MILLIS(100));
    let log = log_of(&joiner, &[at(1, vec![Op::Reset])], None);
    joiner.reads_some(&read, &log, 9).unwrap();
    assert_eq!((joiner.replica.is_based(), joiner.replica.position()), (true, Position(begin + 1)));
}

#[test]
fn a_replica_is_too_far_behind_if_the_log_was_cut_after_it_and_goes_on() {
    let cut = |floor: u64, last: u64| {
        let mut joiner = Joiner::based(None);
        joiner.replica.apply(&batch(1, vec![]));
        let read = joiner.does_after(MILLIS(0));
        let batches: Vec<_> = (floor..=last).map(|position| batch(position, vec![])).collect();
        let mut log = log_of(&joiner, &batches, Some(floor));
        let end = LogEnd { position: Position(last), nonce: Nonce(9) }.to_value();
        log.apply(&Transaction::new().put(joiner.keys.commit(), end));
        joiner.reads_some(&read, &log, 9).unwrap();
        joiner
    };
    let mut joiner = cut(2, 3);
    assert_eq!((joiner.catchup.is_too_far(), joiner.replica.position()), (false, Position(3)));
    assert!(!cut(2, 1).catchup.is_too_far(), "it is at its end");
    assert!(!cut(5, 1).catchup.is_too_far(), "it is at its end");
    assert_eq!(joiner.asks(0), ["log"]);
    let mut joiner = cut(3, 4);
    assert_eq!((joiner.catchup.is_too_far(), joiner.replica.position()), (true, Position(1)));
    assert_eq!(joiner.asks(100), ["b for all"]);
    // What it lacked comes in another way.
    joiner.replica.skip_to(END);
    assert_eq!((joiner.asks(0), joiner.catchup.is_too_far()), (vec![], false));
}

#[test]
fn what_the_log_says_counts_over_what_was_heard_before_it_was_read() {
    let read_after = |millis: u64| {
        let mut joiner = Joiner::based(None);
        // Somebody has said that there are 90.
        let read = joiner.does_after(MILLIS(millis));
        let log = log_of(&joiner, &[batch(1, vec![])], None);
        joiner.reads_some(&read, &log, 9).unwrap();
        joiner.catchup.is_complete(&joiner.replica)
    };
    assert!(read_after(1), "they spoke of a log that was lost");
    assert!(!read_after(0), "it may be that this was written since");
}

#[test]
fn a_leader_takes_nothing_that_was_asked_for_before() {
    let mut joiner = Joiner::new("a", &[]);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    joiner.catchup.stop();
    joiner.chunk(&donor, id, 0, Some((Epoch(1), END)));
    assert!(!joiner.replica.is_based());
    let mut joiner = Joiner::based(None);
    let log = log_of(&joiner, &[batch(1, vec![Op::Open]), batch(2, vec![])], None);
    let read = joiner.does_after(MILLIS(0));
    joiner.reads_some(&read, &log, 1).unwrap();
    joiner.catchup.stop();
    assert!(!joiner.catchup.is_busy());
}

#[test]
fn a_donor_that_is_lost_is_followed_by_the_next_and_one_that_has_nothing_after_a_moment() {
    let mut joiner = Joiner::new("a", &["b"]);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    assert_eq!(donor, node("b"));
    joiner.catchup.on_refused(joiner.now, &node("a"), id);
    joiner.catchup.on_refused(joiner.now, &donor, id + 1);
    joiner.catchup.lost(&node("a"), Some(&node("a")));
    assert_eq!(joiner.asks(0), [""; 0], "that was another");
    joiner.catchup.lost(&donor, None);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    assert_eq!(donor, node("a"));
    joiner.catchup.on_refused(joiner.now, &donor, id);
    assert_eq!(joiner.asks(99), [""; 0]);
    let (donor, id) = joiner.asks_after(MILLIS(1)).unwrap();
    assert_eq!(donor, node("b"));
    // For each chunk another one may come, and one that cannot be read ends it.
    joiner.effects.clear();
    joiner.chunk(&donor, id, 0, None);
    let next = Effect::send(donor.clone(), Message::SnapshotNext { id, below: 1 + 4 });
    assert_eq!(std::mem::take(&mut joiner.effects), [next]);
    let chunk = Chunk { gone: vec![(7, Position(1))], ..Chunk::default() };
    let chunk = ArrivedChunk { id, index: 1, chunk, end: None };
    let Joiner { catchup, replica, now, effects, .. } = &mut joiner;
    assert!(catchup.on_chunk(*now, replica, &donor, chunk, effects).is_err() && effects.is_empty());
    assert_eq!(joiner.asks(99), [""; 0]);
    assert_eq!(joiner.asks(1), ["a for all"]);
}

/// The window with which a snapshot is asked for now, its donor, and its number.
fn window(joiner: &mut Joiner, millis: u64) -> Option<(u64, NodeName, u64)> {
    joiner.does_after(MILLIS(millis)).into_iter().find_map(|effect| match effect {
        Effect::Send { to, message: Message::SnapshotWanted { id, below }, .. } => Some((below, to, id)),
        _ => None,
    })
}

#[test]
fn where_a_chunk_was_lost_the_snapshot_is_begun_anew_with_fewer_on_their_way() {
    let mut joiner = Joiner::new("a", &["b"]);
    let mut windows = Vec::new();
    for round in 0..5 {
        let (below, donor, id) =
            window(&mut joiner, if round % 2 == 0 { 1000 } else { 100 }).expect("it asks");
        windows.push(below);
        joiner.effects.clear();
        joiner.chunk(&donor, id, 0, None);
        let next = Effect::send(donor.clone(), Message::SnapshotNext { id, below: 1 + below });
        assert_eq!(std::mem::take(&mut joiner.effects), [next]);
        if round % 2 == 0 {
            // The one between never comes. What is on its way has to go before the next donor is asked.
            joiner.chunk(&donor, id, 2, Some((Epoch(1), END)));
            assert!(!joiner.replica.is_based() && joiner.effects.is_empty());
            assert_eq!(window(&mut joiner, 0), None);
        }
    }
    assert_eq!(windows, [4, 2, 1, 1, 1], "also if nothing came any more");
    // One that is refused, or whose donor is lost, says nothing of the room that there is.
    let mut joiner = Joiner::new("a", &["b"]);
    let (_, donor, id) = window(&mut joiner, 0).expect("it asks");
    joiner.catchup.on_refused(joiner.now, &donor, id);
    let (below, donor, _) = window(&mut joiner, 100).expect("it asks");
    assert_eq!(below, 4);
    joiner.catchup.lost(&donor, None);
    let (below, ..) = window(&mut joiner, 0).expect("it asks");
    assert_eq!(below, 4);
    // Once it has all there is room again.
    let (below, donor, id) = window(&mut joiner, 1000).expect("it asks");
    assert_eq!(below, 2);
    joiner.chunk(&donor, id, 0, Some((Epoch(1), END)));
    assert_eq!(window(&mut joiner, 0), None);
    joiner.replica.give_up_base();
    assert_eq!(window(&mut joiner, 0).map(|(below, ..)| below), Some(4));
    // What else is silent says nothing of it, either.
    let mut joiner = Joiner::based(Some("a"));
    assert_eq!((joiner.asks(150), joiner.asks(1000)), (vec!["a after 0".to_owned()], vec!["log".to_owned()]));
    let read = joiner.does_after(MILLIS(1000));
    let log = log_of(&joiner, &[batch(90, vec![])], Some(90));
    joiner.reads_some(&read, &log, 9).unwrap();
    assert_eq!(window(&mut joiner, 100).map(|(below, ..)| below), Some(4));
}

#[test]
fn those_that_join_together_ask_different_donors_and_none_of_them_the_leader() {
    let donors = ["b", "c", "d"];
    let mut asked = [0; 3];
    for seed in 0..60 {
        let mut joiner = Joiner::new("a", &donors);
        joiner.catchup = CatchUp::new(seed, 4);
        joiner.catchup.want(joiner.now, Position(90));
        let (donor, _) = joiner.asks_after(MILLIS(0)).unwrap();
        asked[donors.iter().position(|it| *it == donor.as_str()).expect("it is not the leader")] += 1;
    }
    assert!(asked.iter().all(|count| *count > 10), "{asked:?}");
}

#[test]
fn one_that_gave_nothing_comes_after_all_that_failed_less_often_until_nothing_is_lacking() {
    let mut joiner = Joiner::new("a", &["b"]);
    let (donor, id) = joiner.asks_after(MILLIS(0)).unwrap();
    assert_eq!(donor, node("b"));
    joiner.catchup.on_refused(joiner.now, &donor, id);
    assert_eq!(joiner.asks(100), ["a for all"], "the leader has refused nothing");
    // One that was not there before is the next, and the first one again only after both.
    joiner.sources.synced.push(node("c"));
    assert_eq!(joiner.asks(1000), ["c for all"]);
    joiner.catchup.lost(&node("c"), None);
    assert_eq!(joiner.asks(0).len(), 1);
    assert_eq!(joiner.catchup.failed, [("a", 1), ("b", 1), ("c", 1)].map(|(name, n)| (node(name), n)).into());
    joiner.replica.base_on_nothing();
    joiner.replica.skip_to(END);
    assert_eq!(joiner.asks(1000), [""; 0]);
    assert!(joiner.catchup.failed.is_empty() && joiner.catchup.known.is_empty());
}

#[test]
fn nobody_waits_to_ask_a_donor_that_comes_where_there_was_none() {
    for of_leader in [true, false] {
        let mut joiner = Joiner::new("a", &[]);
        joiner.sources.leader = None;
        let read = joiner.does_after(MILLIS(0));
        let log = log_of(&joiner, &[batch(2, vec![]), batch(3, vec![])], Some(2));
        joiner.reads_some(&read, &log, 9).unwrap();
        assert_eq!(joiner.asks(1), [""; 0], "nobody came");
        // One that may have no base is no reason.
        joiner.sources.others = vec![node("c")];
        assert_eq!(joiner.asks(1), [""; 0]);
        let comes = node(if of_leader { "a" } else { "b" });
        if of_leader {
            joiner.sources.leader = Some(comes.clone());
        } else {
            joiner.sources.synced.push(comes.clone());
        }
        let (donor, id) = joiner.asks_after(MILLIS(1)).expect("it is asked at once");
        assert_eq!(donor, comes);
        // If it refuses, it is not asked again at once, also if it was away for a moment.
        joiner.catchup.on_refused(joiner.now, &donor, id);
        assert_eq!(joiner.asks(50), [""; 0]);
        let sources = std::mem::take(&mut joiner.sources);
        assert_eq!(joiner.asks(1), [""; 0]);
        joiner.sources = sources;
        assert_eq!(joiner.asks(1), [""; 0]);
        // Another one is.
        joiner.sources.synced.push(node("d"));
        assert_eq!(joiner.asks(1), ["d for all"]);
    }
}

#[test]
fn a_member_with_a_base_reads_the_log_no_sooner_because_somebody_is_linked() {
    let mut joiner = Joiner::based(None);
    let read = joiner.does_after(MILLIS(0));
    let [Effect::Read { id, .. }] = &read[..] else { panic!("{read:?}") };
    let Joiner { catchup, replica, keys, now, .. } = &mut joiner;
    catchup.on_log(*now, replica, *id, None, keys, 9).unwrap();
    joiner.sources.synced.push(node("d"));
    assert_eq!(joiner.asks(99), [""; 0]);
    assert_eq!(joiner.asks(1), ["log"]);
}

#[test]
fn once_a_snapshot_is_in_its_place_what_is_behind_it_is_asked_for_as_by_anybody() {
    let mut joiner = Joiner::based(None);
    joiner.replica.apply(&batch(1, vec![]));
    let read = joiner.does_after(MILLIS(0));
    let log = log_of(&joiner, &[batch(5, vec![]), batch(6, vec![])], Some(5));
    joiner.reads_some(&read, &log, 9).unwrap();
    assert!(joiner.catchup.is_too_far());
    let (donor, id) = joiner.asks_after(MILLIS(100)).unwrap();
    let end = LogEnd { position: Position(80), nonce: Nonce(9) };
    joiner.chunk(&donor, id, 0, Some((Epoch(1), end)));
    assert_eq!((joiner.replica.end(), joiner.catchup.is_too_far()), (end, false));
    assert_eq!(joiner.asks(0), ["log"]);
}

#[test]
fn what_a_leader_has_before_a_batch_that_cannot_be_read_is_applied_and_nobody_knows_how_old_it_is() {
    let mut joiner = Joiner::based(Some("a"));
    assert_eq!(joiner.asks(150), ["a after 0"]);
    let session = SessionId { node: node("h"), incarnation: Incarnation(1), number: SessionNumber(1) };
    let (name, request, kind): (Name, _, _) = ("x".into(), RequestNumber(1), Kind(7));
    let op = Op::Register { name: name.clone(), session: 0, request, actor: Some(5), kind, meta: None };
    let first = Batch { sessions: vec![Arc::new(session)], ..batch(1, vec![op]) };
    let batches = [(Position(1), first.encode()), (Position(2), Bytes::from_static(&[0xff]))];
    let Joiner { catchup, replica, now, .. } = &mut joiner;
    catchup.on_fetched(*now, replica, Epoch(1), &batches).unwrap();
    assert_eq!(replica.position(), Position(1));
    let said = replica.explain(&name).state;
    assert!(matches!(said, NameState::Held { ago: None, .. }), "{said:?}");
    assert_eq!(joiner.asks(0), ["a after 1"]);
}
