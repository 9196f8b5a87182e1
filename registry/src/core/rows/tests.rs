use std::{collections::BTreeSet, ops::ControlFlow};

use callsign_store::ids::{Incarnation, NodeName, SessionNumber};
use callsign_transport::Kind;

use super::*;
use crate::core::table::{RequestNumber, Standing};

fn session(node: &str) -> Arc<SessionId> {
    let node = NodeName::new(node).unwrap();
    Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) })
}

fn rows() -> Rows<BTreeMap<Name, Row>> {
    Rows::new(BTreeMap::new())
}

fn put(rows: &mut Rows<BTreeMap<Name, Row>>, name: &str, node: &str, position: u64) -> Option<Row> {
    let (request, kind, slot) = (RequestNumber(1), Kind(7), Slot::default());
    let (position, session) = (Position(position), session(node));
    rows.put(&name.into(), Row { position, session, request, actor: 5, kind, more: None, slot })
}

fn names(rows: &Rows<BTreeMap<Name, Row>>) -> Vec<String> {
    rows.iter().map(|(name, _)| name.to_string()).collect()
}

fn swept(rows: &mut Rows<BTreeMap<Name, Row>>) -> Vec<String> {
    rows.take_swept().into_iter().map(|(name, _)| name.to_string()).collect()
}

#[test]
fn a_digest_tells_names_and_positions_apart() {
    let names = ["", "a", "aa", "b", "a\0", "ab", "ba", "a name that is longer than a register"];
    let all: BTreeSet<u64> =
        names.iter().flat_map(|name| (0..100).map(|position| digest(name, Position(position)))).collect();
    assert_eq!(all.len(), names.len() * 100);
    assert_eq!(digest("a", Position(1)), digest("a", Position(1)));
    // What stands at two places is not taken for what stands at two others.
    let both = |one, other| digest("a", Position(one)) ^ digest("b", Position(other));
    assert_ne!(both(1, 2), both(2, 1));
}

#[test]
fn each_name_is_found_in_the_list_of_its_session_whatever_goes() {
    let mut rows = rows();
    for (position, name) in [(1, "u"), (2, "v"), (3, "w"), (4, "x")] {
        assert_eq!(put(&mut rows, name, "a", position), None);
    }
    assert!(rows.take("u").is_some() && rows.take("u").is_none());
    // It goes to another session, whose first name it is.
    assert_eq!(put(&mut rows, "v", "b", 5).map(|row| row.position), Some(Position(2)));
    for name in ["v", "w", "x"] {
        let row = rows.row(name).unwrap();
        let held = &rows.sessions()[&*row.session];
        assert_eq!(held.names.get(row.slot.0 as usize).map(|held| &**held), Some(name));
    }
    let held = |node: &str| rows.sessions()[&*session(node)].clone();
    assert_eq!((held("a").names.len(), held("b").names.len(), rows.count()), (2, 1, 3));
    assert_eq!(held("a").digest, digest("w", Position(3)) ^ digest("x", Position(4)));
    rows.take("v");
    assert_eq!(rows.sessions()[&*session("b")].digest, 0);
    rows.forget_empty();
    assert_eq!(rows.sessions().keys().map(|id| id.node.to_string()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn names_that_are_gone_are_not_there_and_leave_the_table_so_many_at_a_time() {
    let mut rows = rows();
    rows.keep_swept(true);
    for (position, name) in [(1, "u"), (2, "v"), (3, "w")] {
        put(&mut rows, name, "a", position);
    }
    put(&mut rows, "x", "b", 4);
    assert_eq!((rows.hide(&session("c"), Position(9)), rows.is_sweeping()), (0, false));
    assert_eq!(rows.hide(&session("a"), Position(5)), 3);
    assert_eq!((names(&rows), rows.count(), rows.row("u")), (vec!["x".to_owned()], 1, None));
    assert_eq!(rows.gone_below(&session("a")), Some(Position(5)));
    assert!(rows.take("u").is_none(), "it was not there");
    rows.sweep(1);
    assert_eq!((swept(&mut rows), rows.is_sweeping()), (vec!["w".to_owned()], true));
    rows.sweep(2);
    assert_eq!((swept(&mut rows), rows.is_sweeping()), (vec!["v".to_owned()], false));
    assert_eq!(rows.gone_below(&session("a")), None);
    assert!(rows.row("x").is_some());
    rows.keep_swept(false);
    rows.hide(&session("b"), Position(9));
    rows.sweep(9);
    assert!(swept(&mut rows).is_empty());
    assert_eq!(rows.iter().count(), 0);
}

#[test]
fn a_name_that_is_taken_again_before_it_was_swept_stays() {
    // It is taken by the same session from that position on, or by another one.
    for node in ["a", "b"] {
        let mut rows = rows();
        rows.keep_swept(true);
        put(&mut rows, "x", "a", 1);
        put(&mut rows, "y", "a", 2);
        rows.hide(&session("a"), Position(5));
        assert_eq!(put(&mut rows, "x", node, 5), None, "it was free");
        assert_eq!(swept(&mut rows), ["x"], "the former one is gone");
        rows.sweep(9);
        assert_eq!((swept(&mut rows), names(&rows)), (vec!["y".to_owned()], vec!["x".to_owned()]));
        assert!(!rows.is_sweeping());
    }
    // A snapshot has rows of whatever positions.
    let mut rows = rows();
    put(&mut rows, "x", "a", 1);
    put(&mut rows, "y", "a", 2);
    put(&mut rows, "z", "c", 2);
    rows.hide_all(Position(u64::MAX));
    assert_eq!((rows.count(), names(&rows)), (0, vec![]));
    put(&mut rows, "x", "b", 1);
    put(&mut rows, "y", "a", 2);
    rows.sweep(9);
    assert_eq!(names(&rows), ["x", "y"]);
    assert_eq!(rows.count(), 2);
}

#[test]
fn what_is_gone_twice_is_gone_up_to_the_greater_position() {
    for (first, second) in [(5, 9), (9, 5)] {
        let mut rows = rows();
        rows.keep_swept(true);
        put(&mut rows, "x", "a", 1);
        rows.hide(&session("a"), Position(first));
        for (at, name) in ["u", "v", "w"].iter().enumerate() {
            put(&mut rows, name, "b", at as u64 + 10);
        }
        put(&mut rows, "y", "a", 12);
        rows.hide(&session("a"), Position(second.max(13)));
        assert_eq!(rows.gone_below(&session("a")), Some(Position(13)));
        rows.sweep(9);
        assert_eq!(names(&rows), ["u", "v", "w"]);
    }
    let mut rows = rows();
    put(&mut rows, "x", "a", 7);
    rows.hide(&session("a"), Position(9));
    put(&mut rows, "y", "a", 9);
    rows.hide(&session("a"), Position(4));
    assert_eq!(rows.gone_below(&session("a")), Some(Position(9)), "it does not go back");
}

#[test]
fn rows_are_taken_out_one_by_one_until_there_is_none() {
    let mut rows = rows();
    put(&mut rows, "x", "a", 1);
    put(&mut rows, "y", "b", 2);
    put(&mut rows, "z", "b", 3);
    let mut taken: Vec<String> =
        std::iter::from_fn(|| rows.pop()).map(|(name, _)| name.to_string()).collect();
    taken.sort_unstable();
    assert_eq!((taken, rows.pop()), (vec!["x".to_owned(), "y".to_owned(), "z".to_owned()], None));
}

#[test]
fn a_tour_comes_to_each_name_that_was_there_when_it_began_and_still_is() {
    let mut rows = rows();
    for (position, name) in [(1, "t"), (2, "u"), (3, "v"), (4, "w")] {
        put(&mut rows, name, "a", position);
    }
    put(&mut rows, "x", "b", 5);
    put(&mut rows, "z", "c", 6);
    let mut tour = rows.tour();
    let mut comes_to = |rows: &Rows<BTreeMap<Name, Row>>| tour.next(rows.sessions()).map(Name::to_string);
    assert_eq!(comes_to(&rows).as_deref(), Some("z"));
    // A session is gone, and names come to one that is walked over.
    rows.hide(&session("b"), Position(9));
    assert_eq!(comes_to(&rows).as_deref(), Some("w"));
    put(&mut rows, "p", "a", 10);
    assert_eq!(comes_to(&rows).as_deref(), Some("v"), "that one is told of as a change");
    // All but one go.
    for name in ["p", "w", "v", "u"] {
        rows.take(name);
    }
    assert_eq!(comes_to(&rows).as_deref(), Some("t"));
    assert_eq!(comes_to(&rows), None);
    assert!(tour.is_over());
    assert!(self::rows().tour().is_over());
}

/// A table that is read beside its replica: it is told what nobody may see.
#[derive(Default)]
struct Shown {
    rows: BTreeMap<Name, Row>,
    hidden: BTreeMap<SessionId, (Position, usize)>,
}

impl Table for Shown {
    fn row(&self, name: &str) -> Option<Row> {
        self.rows.row(name)
    }

    fn put(&mut self, name: Name, row: Row) -> Option<Row> {
        self.rows.put(name, row)
    }

    fn take(&mut self, name: &str) -> Option<Row> {
        self.rows.take(name)
    }

    fn set_slot(&mut self, name: &str, slot: Slot) {
        self.rows.set_slot(name, slot);
    }

    fn hide(&mut self, session: &SessionId, below: Position, names: usize) {
        self.hidden.insert(session.clone(), (below, names));
    }

    fn unhide(&mut self, session: &SessionId) {
        self.hidden.remove(session);
    }

    fn visit_group(&self, group: &str, see: &mut dyn FnMut(&Name, &Standing) -> ControlFlow<()>) {
        self.rows.visit_group(group, see);
    }
}

#[test]
fn whoever_reads_the_table_is_told_what_is_gone_for_as_long_as_it_is_there() {
    let mut rows = Rows::new(Shown::default());
    for (position, name) in [(1, "x"), (2, "y")] {
        let (request, kind, slot) = (RequestNumber(1), Kind(7), Slot::default());
        let (position, session) = (Position(position), session("a"));
        rows.put(&name.into(), Row { position, session, request, actor: 5, kind, more: None, slot });
    }
    rows.hide(&session("b"), Position(9));
    assert!(rows.table.hidden.is_empty(), "it has no names");
    rows.hide(&session("a"), Position(9));
    let hidden = BTreeMap::from([(SessionId::clone(&session("a")), (Position(9), 2))]);
    rows.sweep(1);
    assert_eq!((&rows.table.hidden, rows.table.rows.len()), (&hidden, 1));
    rows.sweep(1);
    assert!(rows.table.hidden.is_empty() && rows.table.rows.is_empty());
}
