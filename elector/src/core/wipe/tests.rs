use std::{sync::Arc, time::Duration};

use callsign_store::{
    CommitOutcome, SharedStore, Store,
    ids::{Beat, ClusterName, Incarnation, Nonce, RegistryName, SessionId, SessionNumber, Token},
    keys::ClusterKeys,
    memory::{Fate, Fault, MemoryStore},
};
use futures::executor::block_on;

use super::*;
use crate::core::{
    lineage::LineageId,
    record::{AuthorRecord, Leader, Lock, LogEnd, MembershipEvent},
};

struct Bed {
    memory: MemoryStore,
    store: SharedStore,
    keys: RegistryKeys,
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session_of(name: &str) -> SessionId {
    SessionId { node: node(name), incarnation: Incarnation(7), number: SessionNumber(3) }
}

fn session(open: bool) -> Value {
    let (incarnation, number) = (Incarnation(7), SessionNumber(3));
    let lease = Duration::from_secs(10);
    SessionRecord { incarnation, number, lease, beat: Beat(5), open }.to_value()
}

fn row(name: &str) -> Value {
    let (token, session) = (Token(4), session_of(name));
    let address = "127.0.0.1:1".to_owned();
    MemberRow {
        token,
        session,
        address,
        admin: None,
        priority: 1,
        synced: true,
        empty: false,
        accuses: None,
        draining: false,
    }
    .to_value()
}

/// A registry that `a` leads and `b` is a member of, with a log from 6 to 2505, and one named like it beside it.
fn bed(open: bool) -> Bed {
    let memory = MemoryStore::new();
    let cluster = ClusterKeys::new(&ClusterName::new("c").unwrap());
    let keys = cluster.registry(&RegistryName::new("r").unwrap());
    let leader = Leader { node: node("a"), incarnation: Incarnation(7), token: Token(4) };
    let term = Term { leader: Some(leader), epoch: Epoch(9), ballot: Ballot(12), elected_at: Version(3) };
    let lock = Lock { epoch: Epoch(9), owner: node("a"), nonce: Nonce(1) };
    let entry = QueueEntry {
        author: session_of("b"),
        sequence: callsign_store::ids::Sequence(5),
        event: MembershipEvent::Leave { token: Token(4) },
    };
    let mut all = Transaction::new()
        .put(keys.term(), term.to_value())
        .put(keys.lock(), lock.to_value())
        .put(keys.commit(), LogEnd { position: Position(2505), nonce: Nonce(5) }.to_value())
        .put(keys.floor(), PositionRecord(Position(6)).to_value())
        .put(keys.author(&node("b")), AuthorRecord { sequence: callsign_store::ids::Sequence(5) }.to_value())
        .append(keys.queue(), entry.to_value())
        .put(cluster.registry(&RegistryName::new("r2").unwrap()).term(), b"another's".to_vec());
    for name in ["a", "b"] {
        all = all.put(keys.member(&node(name)), row(name)).put(cluster.session(&node(name)), session(open));
    }
    for position in 6..=2505 {
        all = all.put(keys.log(Position(position)), b"batch".to_vec());
    }
    let bed = Bed { store: Arc::new(memory.connect("wipe")), memory, keys };
    assert!(matches!(bed.commit(all), CommitOutcome::Committed(_)));
    bed
}

impl Bed {
    fn commit(&self, transaction: Transaction) -> CommitOutcome {
        block_on(self.store.commit(transaction))
    }

    fn found(&self) -> Found {
        let look = |nodes: &BTreeSet<NodeName>| {
            let read = block_on(self.store.read(reads(&self.keys, nodes))).unwrap();
            Found::new(&self.keys, nodes, &read)
        };
        let first = look(&BTreeSet::new());
        first.lacks().map_or_else(|| first.clone(), look)
    }

    fn value(&self, key: Key) -> Option<Value> {
        block_on(self.store.read(vec![read_key(key)])).unwrap().value(0).cloned()
    }

    fn left(&self) -> Vec<String> {
        let all = block_on(self.store.read(vec![read_range(self.keys.all(), 10_000)])).unwrap();
        let name = |key: &Key| String::from_utf8_lossy(&key[self.keys.all().start.len()..]).into_owned();
        all.entries(0).iter().map(|(key, _)| name(key)).collect()
    }

    fn next_piece(&self, found: &Found) -> Option<Transaction> {
        Sweep::new(&self.keys, found.counters().1.next()).next(found)
    }

    /// Clears so many pieces of the log; says how many there were.
    fn sweep(&self, most: usize) -> usize {
        for done in 0..most {
            let found = self.found();
            let Some(piece) = self.next_piece(&found) else { return done };
            assert!(matches!(self.commit(piece), CommitOutcome::Committed(_)));
        }
        most
    }
}

const KEPT: [&str; 4] = ["author/b", "commit", "floor", "term"];

#[test]
fn a_wipe_leaves_what_only_grows_and_the_registry_beside_it() {
    let bed = bed(false);
    assert_eq!((bed.found().members(), bed.found().queued(), bed.found().logged()), (2, 1, 2500));
    assert!(matches!(bed.commit(fence(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    assert!(bed.found().is_fenced());
    assert_eq!(bed.sweep(10), 3);
    assert_eq!(bed.left(), KEPT);
    assert_eq!(bed.found().counters(), (Epoch(10), Position(2505)));
    let term = Term::from_value(&bed.value(bed.keys.term()).unwrap()).unwrap();
    assert_eq!((term.leader, term.ballot), (None, Ballot(13)));
    let floor = PositionRecord::from_value(&bed.value(bed.keys.floor()).unwrap()).unwrap();
    assert_eq!(floor, PositionRecord(Position(2506)));
    let beside = bed.keys.cluster().registry(&RegistryName::new("r2").unwrap());
    assert_eq!(bed.value(beside.term()), Some(b"another's".to_vec()));
    assert!(bed.value(bed.keys.cluster().session(&node("a"))).is_some(), "sessions are the cluster's");
}

#[test]
fn who_led_cannot_commit_after_the_fence() {
    let bed = bed(true);
    let batch = Transaction::new()
        .check(bed.keys.term(), bed.value(bed.keys.term()))
        .check(bed.keys.commit(), bed.value(bed.keys.commit()))
        .put(bed.keys.log(Position(2506)), b"late".to_vec());
    assert!(matches!(bed.commit(fence(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    assert_eq!(bed.commit(batch), CommitOutcome::Conflict);
}

#[test]
fn sessions_that_are_open_are_said_and_closed_with_the_fence_and_only_if_they_are_as_found() {
    let bed = bed(true);
    let found = bed.found();
    assert_eq!(found.open().keys().map(NodeName::as_str).collect::<Vec<_>>(), ["a", "b"]);
    let key = bed.keys.cluster().session(&node("a"));
    let mut beaten = SessionRecord::from_value(&session(true)).unwrap();
    beaten.beat = Beat(6);
    bed.commit(Transaction::new().put(key.clone(), beaten.to_value()));
    assert_eq!(bed.commit(fence(&bed.keys, &found)), CommitOutcome::Conflict, "a has beaten since");
    assert!(matches!(bed.commit(fence(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    let closed = SessionRecord::from_value(&bed.value(key).unwrap()).unwrap();
    assert_eq!((closed.open, closed.beat), (false, Beat(6)));
    assert!(bed.found().open().is_empty());
}

#[test]
fn who_comes_between_the_look_and_the_fence_is_not_wiped_away() {
    let bed = bed(false);
    let found = bed.found();
    bed.commit(Transaction::new().append(bed.keys.queue(), b"somebody joins".to_vec()));
    assert_eq!(bed.commit(fence(&bed.keys, &found)), CommitOutcome::Conflict);
}

#[test]
fn a_wipe_stopped_at_any_point_leaves_an_empty_registry_and_the_next_one_ends_it() {
    for pieces in 0..3 {
        let bed = bed(false);
        bed.commit(fence(&bed.keys, &bed.found()));
        assert_eq!(bed.sweep(pieces), pieces);
        let found = bed.found();
        assert!(found.is_fenced() && found.exists());
        assert_eq!(found.counters(), (Epoch(10), Position(2505)));
        assert_eq!(bed.sweep(10), 3 - pieces);
        assert_eq!(bed.left(), KEPT);
    }
}

#[test]
fn a_fence_of_unknown_outcome_lands_later_only_where_nothing_has_changed() {
    let bed = bed(false);
    let lost = bed.memory.connect("lost");
    lost.inject(Fault::Unknown(Fate::LandsLater));
    assert_eq!(block_on(lost.commit(fence(&bed.keys, &bed.found()))), CommitOutcome::Unknown);
    assert!(matches!(bed.commit(fence(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    bed.commit(Transaction::new().put(bed.keys.member(&node("new")), row("new")));
    bed.memory.land();
    assert_eq!(bed.found().members(), 1, "the new member is there");
    assert_eq!(bed.found().counters().0, Epoch(10));
}

#[test]
fn a_late_piece_clears_nothing_of_a_registry_that_begins_again() {
    let bed = bed(false);
    bed.commit(fence(&bed.keys, &bed.found()));
    let found = bed.found();
    let piece = bed.next_piece(&found).unwrap();
    bed.sweep(10);
    assert!(matches!(bed.commit(forget(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    assert!(!bed.found().exists() && bed.left().is_empty());
    bed.commit(Transaction::new().put(bed.keys.log(Position(6)), b"new".to_vec()));
    assert_eq!(bed.commit(piece), CommitOutcome::Conflict);
    assert_eq!(bed.left(), ["log/0000000000000006"]);
}

#[test]
fn nothing_is_forgotten_of_a_registry_that_somebody_has_come_to() {
    let bed = bed(false);
    bed.commit(fence(&bed.keys, &bed.found()));
    let found = bed.found();
    bed.commit(Transaction::new().append(bed.keys.queue(), b"somebody joins".to_vec()));
    assert_eq!(bed.commit(forget(&bed.keys, &found)), CommitOutcome::Conflict);
}

#[test]
fn what_cannot_be_read_is_said_and_is_not_absent() {
    let bed = bed(false);
    let garbage = b"\x07no record".to_vec();
    let all = Transaction::new().put(bed.keys.term(), garbage.clone());
    bed.commit(all.put(bed.keys.cluster().session(&node("a")), garbage.clone()));
    bed.commit(Transaction::new().put(bed.keys.member(&node("b")), garbage));
    let found = bed.found();
    assert_eq!(found.counters_unread().len(), 1, "{:?}", found.counters_unread());
    assert_eq!(found.others_unread().len(), 2, "{:?}", found.others_unread());
}

/// Fenced, and with its log still there.
fn fenced() -> Bed {
    let bed = bed(false);
    assert!(matches!(bed.commit(fence(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    bed
}

/// A transaction commits as the store is, and not where one of these keys has changed.
fn refused_if_altered(bed: &Bed, transaction: &Transaction, relied: &[Key]) {
    assert!(matches!(bed.memory.data().apply(transaction), CommitOutcome::Committed(_)));
    for key in relied {
        let mut altered = bed.memory.data();
        altered.apply(&Transaction::new().put(key.clone(), b"altered".to_vec()));
        let outcome = altered.apply(transaction);
        assert_eq!(outcome, CommitOutcome::Conflict, "{}", String::from_utf8_lossy(key));
    }
}

#[test]
fn each_step_of_a_wipe_is_refused_where_what_it_was_decided_from_has_changed() {
    let bed = bed(false);
    let keys = &bed.keys;
    let lineage = keys.cluster().lineage();
    let counters = [keys.term(), keys.lock(), keys.commit(), keys.floor(), keys.queue(), lineage.clone()];
    let mut relied = counters.to_vec();
    for name in ["a", "b"] {
        relied.extend([keys.member(&node(name)), keys.cluster().session(&node(name))]);
    }
    refused_if_altered(&bed, &fence(keys, &bed.found()), &relied);

    let bed = fenced();
    let found = bed.found();
    let piece = bed.next_piece(&found).unwrap();
    refused_if_altered(&bed, &piece, &[bed.keys.floor(), lineage]);
    refused_if_altered(&bed, &forget(&bed.keys, &found), &counters);
}

#[test]
fn a_registry_that_somebody_has_come_to_is_not_fenced_any_more() {
    let led = |keys: &RegistryKeys| {
        let leader = Leader { node: node("a"), incarnation: Incarnation(7), token: Token(4) };
        let (epoch, ballot, elected_at) = (Epoch(11), Ballot(14), Version(3));
        let term = Term { leader: Some(leader), epoch, ballot, elected_at };
        Transaction::new().put(keys.term(), term.to_value())
    };
    let changes: [fn(&RegistryKeys) -> Transaction; 7] = [
        led,
        |keys| Transaction::new().put(keys.lock(), b"held".to_vec()),
        // The entry was taken off the queue.
        |keys| Transaction::new().put(keys.queue(), b"the last entry".to_vec()),
        |keys| Transaction::new().append(keys.queue(), b"somebody joins".to_vec()),
        // As in a store that has lost what came with the entry.
        |keys| Transaction::new().put(keys.queue_entries().start, b"somebody joins".to_vec()),
        |keys| Transaction::new().put(keys.member(&node("c")), row("c")),
        |keys| Transaction::new().put(keys.floor(), PositionRecord(Position(2505)).to_value()),
    ];
    for (nth, change) in changes.into_iter().enumerate() {
        let bed = fenced();
        assert!(bed.found().is_fenced());
        bed.commit(change(&bed.keys));
        assert!(!bed.found().is_fenced(), "change {nth}");
    }
}

#[test]
fn a_fence_lowers_no_floor_and_takes_the_settings_and_the_marks_of_open_sessions_along() {
    let bed = bed(true);
    let mark = bed.keys.cluster().open_mark(&node("a"));
    let (floor, settings) = (bed.keys.floor(), bed.keys.settings());
    let all = Transaction::new()
        .put(floor.clone(), PositionRecord(Position(3000)).to_value())
        .put(settings.clone(), b"set".to_vec())
        .put(mark.clone(), b"open".to_vec());
    bed.commit(all);
    assert!(matches!(bed.commit(fence(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    assert_eq!([bed.value(mark), bed.value(settings)], [None, None]);
    assert_eq!(bed.value(floor), Some(PositionRecord(Position(3000)).to_value()));
}

#[test]
fn in_a_later_lineage_its_own_positions_are_counted_and_epochs_go_on_from_its_beginning() {
    let bed = bed(false);
    let first = LineageNumber(1).after(0);
    let id = LineageId { number: LineageNumber(1), nonce: Nonce(2) };
    let lineage = Lineage { id, greatest_lease: Duration::from_secs(10) };
    let end = LogEnd { position: Position(first + 4), nonce: Nonce(5) };
    let all = Transaction::new().put(bed.keys.cluster().lineage(), lineage.to_value());
    bed.commit(all.put(bed.keys.commit(), end.to_value()));
    assert_eq!(bed.found().logged(), 5);
    assert!(matches!(bed.commit(fence(&bed.keys, &bed.found())), CommitOutcome::Committed(_)));
    assert_eq!(bed.found().counters(), (Epoch(first), end.position));
    let term = Term::from_value(&bed.value(bed.keys.term()).unwrap()).unwrap();
    assert_eq!(term.ballot, Ballot(first));
}

#[test]
fn the_log_of_a_registry_that_is_not_fenced_is_not_swept() {
    let bed = bed(false);
    assert_eq!(bed.next_piece(&bed.found()), None);
}

#[test]
fn of_more_entries_than_are_read_it_cannot_be_said_who_lives() {
    let bed = bed(false);
    let append = |count: usize| {
        let all = (0..count).fold(Transaction::new(), |all, _| all.append(bed.keys.queue(), b"?".to_vec()));
        assert!(matches!(bed.commit(all), CommitOutcome::Committed(_)));
    };
    // One is there already.
    for count in [3000, 3000, 3998] {
        append(count);
    }
    assert!(bed.found().others_unread().is_empty());
    append(1);
    assert_eq!(bed.found().others_unread(), ["there are more than 10000 entries of the queue"]);
}
