use std::sync::Arc;

use callsign_elector::record::LogEnd;
use callsign_store::ids::{Epoch, Incarnation, Nonce, SessionId, SessionNumber};
use callsign_transport::Kind;

use super::*;
use crate::core::{
    log::{Batch, Op},
    replica::Staged,
    table::RequestNumber,
    why::GivenUp,
};

type Rows = BTreeMap<Name, Row>;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// A node that sends snapshots, and the one to which it sends.
struct Donor {
    walks: Walks,
    replica: Replica<Rows>,
    now: Time,
}

impl Donor {
    /// It has these names, and sends so many in a chunk.
    fn with(names: &[&str], chunk: usize) -> Self {
        let mut replica = Replica::new(node("d"), Rows::new());
        replica.base_on_nothing();
        let mut donor = Self { walks: Walks::new(chunk), replica, now: Time(Duration::from_secs(100)) };
        donor.apply(names.iter().map(|name| register(name)).collect());
        donor
    }

    fn apply(&mut self, ops: Vec<Op>) {
        let prev = self.replica.end();
        let position = prev.position.next();
        let session = SessionId { node: node("h"), incarnation: Incarnation(1), number: SessionNumber(1) };
        let (epoch, nonce, sessions) = (Epoch(1), Nonce(position.0), vec![Arc::new(session)]);
        self.replica.apply(&Batch { epoch, nonce, position, prev, sessions, ops });
    }

    fn unregisters(&mut self, name: &str) {
        let position = self.replica.row(name).unwrap().position;
        self.apply(vec![Op::Unregister { name: name.into(), position, why: GivenUp::Unregistered }]);
    }

    fn begin(&mut self, to: &str, id: u64) -> Message {
        self.walks.begin(self.now, &mut self.replica, &node(to), id)
    }

    fn next(&mut self, to: &str, id: u64, index: u64) -> Message {
        self.walks.next(self.now, &mut self.replica, &node(to), id, index)
    }

    /// How many snapshots are being sent, and for how many it is remembered what changes.
    fn under_way(&self) -> (usize, usize) {
        (self.walks.walks.len(), self.replica.touched.len())
    }

    /// The rest of a snapshot for node r, from a chunk on; and of how many names each chunk is.
    fn rest(&mut self, first: Message) -> (Staged, Vec<usize>, LogEnd) {
        let (mut staged, mut sizes, mut message) = (Staged::default(), Vec::new(), first);
        loop {
            let Message::SnapshotChunk { id, index, chunk, end } = message else { panic!("{message:?}") };
            assert_eq!(index, sizes.len() as u64);
            sizes.push(chunk.rows.len());
            staged.take(chunk).unwrap();
            if let Some((epoch, end)) = end {
                assert_eq!(epoch, Epoch(1));
                return (staged, sizes, end);
            }
            assert!(sizes.len() < 100, "it comes to an end");
            message = self.next("r", id, index + 1);
        }
    }

    /// Whether it is what the donor has.
    fn is_all(&self, staged: Staged, end: LogEnd) -> bool {
        let mut replica = Replica::new(node("r"), Rows::new());
        assert!(replica.install(staged, Epoch(1), end));
        while replica.is_busy() {
            replica.proceed(10);
        }
        end == self.replica.end() && replica.rows().eq(self.replica.rows())
    }
}

fn register(name: &str) -> Op {
    let (name, request, kind): (Name, _, _) = (name.into(), RequestNumber(1), Kind(7));
    Op::Register { name, session: 0, request, actor: Some(5), kind, meta: None }
}

fn index_of(message: &Message) -> (u64, usize, bool) {
    let Message::SnapshotChunk { index, chunk, end, .. } = message else { panic!("{message:?}") };
    (*index, chunk.rows.len(), end.is_some())
}

const REFUSED: fn(u64) -> Message = |id| Message::SnapshotRefused { id };

#[test]
fn a_snapshot_is_sent_a_chunk_at_a_time_and_forgotten_with_the_last() {
    let mut donor = Donor::with(&["u", "v", "w", "x", "y"], 2);
    let first = donor.begin("r", 7);
    assert_eq!((index_of(&first), donor.under_way()), ((0, 2, false), (1, 1)));
    let (staged, sizes, end) = donor.rest(first);
    assert_eq!((sizes, donor.under_way()), (vec![2, 2, 1], (0, 0)));
    assert!(donor.is_all(staged, end));
    assert_eq!(donor.next("r", 7, 3), REFUSED(7));
    // Nothing is a snapshot, too.
    let mut donor = Donor::with(&[], 2);
    let first = donor.begin("r", 7);
    assert_eq!(index_of(&first), (0, 0, true));
}

#[test]
fn what_changes_while_a_snapshot_is_sent_is_in_it() {
    // What fits in the last chunk is in it; what does not is walked over again.
    for (names, changes, chunks) in [
        (&["v", "w", "x"][..], &["p"][..], &[2, 2][..]),
        (&["v", "w", "x"], &["p", "q"], &[2, 1, 2]),
        (&["v", "w", "x", "y"], &["p", "q", "r"], &[2, 2, 2, 1]),
    ] {
        let mut donor = Donor::with(names, 2);
        let first = donor.begin("r", 7);
        donor.apply(changes.iter().map(|name| register(name)).collect());
        let (staged, sizes, end) = donor.rest(first);
        assert_eq!(sizes[..2], chunks[..2], "{changes:?}");
        assert!(donor.is_all(staged, end), "{changes:?} in {sizes:?}");
    }
    // Names go, alone or with their session, behind the walk and before it.
    let mut donor = Donor::with(&["u", "v", "w", "x", "y", "z"], 2);
    let first = donor.begin("r", 7);
    let Message::SnapshotChunk { chunk, .. } = &first else { panic!("{first:?}") };
    let sent = chunk.rows[0].name.to_string();
    donor.unregisters(&sent);
    donor.unregisters("u");
    let (staged, _, end) = donor.rest(first);
    assert!(donor.is_all(staged, end));
    let first = donor.begin("r", 8);
    donor.apply(vec![Op::HostGone { session: 0 }]);
    donor.apply(vec![register("n")]);
    let (staged, _, end) = donor.rest(first);
    assert!(donor.is_all(staged, end));
}

#[test]
fn a_chunk_has_no_more_bytes_than_a_message_but_for_its_last_name() {
    let name = |weight: usize, with: char| -> Name {
        let beside = Chunk::weight(&Name::from(""), None);
        with.to_string().repeat(weight - beside).into()
    };
    // They are walked over from the end.
    for (last, sizes) in [(MESSAGE_BYTES - 1, &[2, 1][..]), (MESSAGE_BYTES, &[1, 1])] {
        let names = [name(100, 'a'), name(MESSAGE_BYTES, 'b'), name(last, 'c')];
        let mut donor = Donor::with(&[&names[0], &names[1], &names[2]], 10);
        let first = donor.begin("r", 7);
        let (staged, sent, end) = donor.rest(first);
        assert_eq!(sent[..2], sizes[..2], "{last} bytes");
        assert!(donor.is_all(staged, end));
    }
    // So have the names that changed.
    let mut donor = Donor::with(&["v", "w", "x"], 2);
    let first = donor.begin("r", 7);
    donor.apply(vec![register(&name(MESSAGE_BYTES, 'b'))]);
    let (staged, sent, end) = donor.rest(first);
    assert_eq!(sent, [2, 1, 1]);
    assert!(donor.is_all(staged, end));
}

#[test]
fn only_the_next_chunk_of_what_is_being_sent_is_given() {
    let mut donor = Donor::with(&["u", "v", "w", "x", "y"], 2);
    donor.begin("r", 7);
    for (to, id, index) in [("r", 7, 0), ("r", 7, 2), ("r", 8, 1), ("s", 7, 1)] {
        assert_eq!(donor.next(to, id, index), REFUSED(id));
    }
    assert_eq!(index_of(&donor.next("r", 7, 1)), (1, 2, false));
    // A member has one at a time, and what it was sent before is forgotten.
    assert_eq!(index_of(&donor.begin("s", 7)), (0, 2, false));
    assert_eq!(index_of(&donor.begin("r", 8)), (0, 2, false));
    assert_eq!((donor.next("r", 7, 2), donor.under_way()), (REFUSED(7), (2, 2)));
    // It is cut off.
    donor.walks.drop_node(&mut donor.replica, &node("r"));
    assert_eq!((donor.next("r", 8, 1), donor.under_way()), (REFUSED(8), (1, 1)));
    assert_eq!(index_of(&donor.next("s", 7, 1)), (1, 2, false));
    // The donor has lost its own base.
    donor.replica.give_up_base();
    assert_eq!((donor.next("s", 7, 2), donor.begin("s", 9)), (REFUSED(7), REFUSED(9)));
    assert_eq!(donor.under_way(), (0, 0));
}

#[test]
fn so_many_snapshots_are_sent_at_a_time_and_one_that_nobody_asks_for_is_forgotten() {
    let mut donor = Donor::with(&["u", "v", "w", "x", "y"], 2);
    for number in 0..MAX_WALKS {
        assert_eq!(index_of(&donor.begin(&format!("r{number}"), 7)), (0, 2, false));
    }
    assert_eq!((donor.begin("s", 7), donor.under_way()), (REFUSED(7), (16, 16)));
    donor.now = donor.now + FORGET_AFTER / 2;
    donor.next("r3", 7, 1);
    donor.now = donor.now + FORGET_AFTER / 2;
    donor.walks.forget_abandoned(donor.now, &mut donor.replica);
    assert_eq!(donor.under_way(), (16, 16), "it may yet be asked for");
    donor.now = donor.now + Duration::from_millis(1);
    let mut other = Donor { walks: donor.walks.clone(), ..Donor::with(&[], 2) };
    other.now = donor.now;
    donor.walks.forget_abandoned(donor.now, &mut donor.replica);
    assert_eq!(donor.under_way(), (1, 1), "one was asked for since");
    // They make room for others when these begin, too.
    assert_eq!(index_of(&other.begin("s", 7)), (0, 0, true));
    assert_eq!(other.walks.walks.len(), 1);
}

#[test]
fn what_is_remembered_of_a_table_that_changes_is_bounded() {
    let changes = |names: usize, changes: usize| {
        let names: Vec<String> = (0..names).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut donor = Donor::with(&names, 2);
        donor.begin("r", 7);
        donor.apply((0..changes).map(|number| register(&format!("c{number}"))).collect());
        let is_refused = donor.next("r", 7, 1) == REFUSED(7);
        assert_eq!(donor.under_way(), if is_refused { (0, 0) } else { (1, 1) });
        is_refused
    };
    let least = 2 * TOUCHED_CHUNKS;
    assert!(!changes(5, least) && changes(5, least + 1));
    assert!(!changes(50, 50) && changes(50, 51), "as many as it has names");
}
