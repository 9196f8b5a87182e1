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
        let tuning = Tuning { chunk_names: chunk, snapshot_window: WINDOW, ..Tuning::default() };
        let mut donor = Self { walks: Walks::new(tuning), replica, now: Time(Duration::from_secs(100)) };
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

    /// A node asks for a snapshot and has room for one chunk. What it is sent.
    fn begin(&mut self, to: &str, id: u64) -> Message {
        if !self.walks.begin(self.now, &mut self.replica, &node(to), id, 1) {
            return REFUSED(id);
        }
        self.next(to, id, 0)
    }

    /// It has room for all chunks up to this one. What it is sent.
    fn next(&mut self, to: &str, id: u64, index: u64) -> Message {
        self.walks.let_on(self.now, &node(to), id, index + 1);
        let (receiver, message) = self.sends().expect("it is asked for");
        assert_eq!(receiver, to);
        message
    }

    /// What is sent next, and to whom.
    fn sends(&mut self) -> Option<(String, Message)> {
        let is_busy = self.walks.is_busy(&self.replica);
        let sent = self.walks.proceed(&mut self.replica);
        assert_eq!(sent.is_some(), is_busy, "it knows when it has something to send");
        sent.map(|(to, message)| (to.to_string(), message))
    }

    /// The indexes of the chunks that are sent, and to whom, until no more is asked for.
    fn sends_all(&mut self) -> Vec<(String, u64)> {
        std::iter::from_fn(|| self.sends()).map(|(to, message)| (to, index_of(&message).0)).collect()
    }

    /// How many snapshots are being sent, and for how many it is remembered what changes.
    fn under_way(&self) -> (usize, usize) {
        (self.walks.under_way.len(), self.replica.touched.len())
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

/// How many chunks may be on their way.
const WINDOW: u64 = 4;

const REFUSED: fn(u64) -> Message = |id| Message::SnapshotRefused { id };

#[test]
fn a_snapshot_is_sent_a_chunk_at_a_time_and_forgotten_with_the_last() {
    let mut donor = Donor::with(&["u", "v", "w", "x", "y"], 2);
    let first = donor.begin("r", 7);
    assert_eq!((index_of(&first), donor.under_way()), ((0, 2, false), (1, 1)));
    let (staged, sizes, end) = donor.rest(first);
    assert_eq!((sizes, donor.under_way()), (vec![2, 2, 1], (0, 0)));
    assert!(donor.is_all(staged, end));
    // What its receiver says of chunks that are still on their way is of no account: it is not refused what it has.
    assert!(!donor.walks.let_on(donor.now, &node("r"), 7, 9));
    assert_eq!(donor.sends(), None);
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
fn as_many_chunks_are_sent_as_the_receiver_has_room_for_and_never_more_than_the_window() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut donor = Donor::with(&names, 2);
    let r = |index: u64| ("r".to_owned(), index);
    assert!(donor.walks.begin(donor.now, &mut donor.replica, &node("r"), 7, 3));
    assert_eq!(donor.sends_all(), [r(0), r(1), r(2)]);
    // What it says comes twice, and late.
    let mut let_on = |below| {
        assert!(donor.walks.let_on(donor.now, &node("r"), 7, below));
        donor.sends_all()
    };
    assert_eq!((let_on(3), let_on(1)), (vec![], vec![]));
    assert_eq!((let_on(5), let_on(4)), (vec![r(3), r(4)], vec![]));
    assert_eq!(let_on(u64::MAX), [r(5), r(6), r(7), r(8)]);
    // Nor does it matter that nothing was sent in between: what was said last may be less, and twice too much is no more than once.
    for (below, sent) in [([11, 10], vec![r(9), r(10)]), ([u64::MAX; 2], vec![r(11), r(12), r(13), r(14)])] {
        for below in below {
            assert!(donor.walks.let_on(donor.now, &node("r"), 7, below));
        }
        assert_eq!(donor.sends_all(), sent);
    }
    assert!(donor.walks.begin(donor.now, &mut donor.replica, &node("r"), 8, u64::MAX));
    assert_eq!(donor.sends_all(), [r(0), r(1), r(2), r(3)]);
}

#[test]
fn the_receivers_take_turns() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut donor = Donor::with(&names, 2);
    for (to, below) in [("r", 3), ("s", 2), ("q", 1)] {
        assert!(donor.walks.begin(donor.now, &mut donor.replica, &node(to), 7, below));
    }
    let to = |sent: Vec<(String, u64)>| sent.into_iter().map(|(to, _)| to).collect::<String>();
    assert_eq!(to(donor.sends_all()), "qrsrsr");
    donor.walks.let_on(donor.now, &node("q"), 7, 2);
    donor.walks.let_on(donor.now, &node("s"), 7, 3);
    assert_eq!(to(donor.sends_all()), "sq", "r was the last one");
    for to in ["q", "r", "s"] {
        donor.walks.drop_node(&mut donor.replica, &node(to));
    }
    assert_eq!(donor.walks, Donor::with(&[], 2).walks, "nothing is left of them");
}

#[test]
fn nothing_is_sent_of_what_is_not_asked_for_and_what_is_forgotten_is_refused_unasked() {
    let mut donor = Donor::with(&["u", "v", "w", "x", "y"], 2);
    donor.begin("r", 7);
    for (to, id) in [("r", 8), ("s", 7)] {
        assert!(!donor.walks.let_on(donor.now, &node(to), id, 2));
        assert_eq!(donor.sends(), None);
    }
    assert_eq!(index_of(&donor.next("r", 7, 1)), (1, 2, false));
    // A member has one at a time, and what it was sent before is forgotten.
    assert_eq!(index_of(&donor.begin("s", 7)), (0, 2, false));
    assert_eq!(index_of(&donor.begin("r", 8)), (0, 2, false));
    assert!(!donor.walks.let_on(donor.now, &node("r"), 7, 3));
    assert_eq!((donor.sends(), donor.under_way()), (None, (2, 2)));
    // It is cut off.
    donor.walks.drop_node(&mut donor.replica, &node("r"));
    assert!(!donor.walks.let_on(donor.now, &node("r"), 8, 2));
    assert_eq!((donor.sends(), donor.under_way()), (None, (1, 1)));
    assert_eq!(index_of(&donor.next("s", 7, 1)), (1, 2, false));
    // The donor has lost its own base.
    donor.begin("t", 7);
    donor.replica.give_up_base();
    assert_eq!(donor.begin("u", 9), REFUSED(9));
    let refused = |to: &str| Some((to.to_owned(), REFUSED(7)));
    assert_eq!((donor.sends(), donor.sends(), donor.sends()), (refused("s"), refused("t"), None));
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
    let (walks, replica) = (donor.walks.clone(), donor.replica.clone());
    let mut other = Donor { walks, replica, now: donor.now };
    donor.walks.forget_abandoned(donor.now, &mut donor.replica);
    assert_eq!(donor.under_way(), (1, 1), "one was asked for since");
    // They make room for others when these begin, too.
    assert_eq!(index_of(&other.begin("s", 7)), (0, 2, false));
    assert_eq!(other.under_way(), (2, 2));
}

#[test]
fn what_is_remembered_of_a_table_that_changes_is_bounded() {
    let changes = |names: usize, changes: usize| {
        let names: Vec<String> = (0..names).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut donor = Donor::with(&names, 2);
        donor.begin("r", 7);
        donor.apply((0..changes).map(|number| register(&format!("c{number}"))).collect());
        let is_refused = donor.sends() == Some(("r".to_owned(), REFUSED(7)));
        assert_eq!(donor.under_way(), if is_refused { (0, 0) } else { (1, 1) });
        is_refused
    };
    let least = 2 * TOUCHED_CHUNKS;
    assert!(!changes(5, least) && changes(5, least + 1));
    assert!(!changes(50, 50) && changes(50, 51), "as many as it has names");
}
