//! What is remembered for readers that are slow, that come later, or that wait.

use super::*;

/// A node that remembers nothing for longer than a step, and keeps one change for a reader that has missed it. Its reader
/// knows that there is nothing, and has no room.
fn forgetful() -> Node {
    let (name, position, was, now, why) = ("x".into(), Position(1), None, None, Why::Unknown);
    let missed_bytes = memory::weight(&Change { name, position, was, now, why });
    let mut node = Node::new(Tuning { watch_bytes: 0, missed_bytes, ..Tuning::default() });
    node.open(1, Select::all(), None, 1);
    assert_eq!(node.told(1), ["current 0 | 0"]);
    node
}

impl Node {
    /// A batch comes for which its reader has no room; then the reader has room for so many events.
    fn missed(&mut self, op: Op, room: usize) -> Vec<String> {
        self.apply(vec![op]);
        assert!(self.told(1).is_empty(), "it has no room");
        self.watchers.has_room(WatchId(1), room);
        self.told(1)
    }
}

#[test]
fn each_time_a_reader_is_too_slow_it_is_told_so() {
    let mut node = forgetful();
    for name in ["x", "y", "z"] {
        let told = node.missed(register(name, None), 2);
        let at = node.position;
        assert_eq!(told, ["Lagged".to_owned(), format!("{name} at {at} - > {at} unknown")]);
    }
}

#[test]
fn a_reader_that_was_given_everything_anew_is_told_again_if_it_is_too_slow() {
    let mut node = forgetful();
    assert_eq!(node.missed(register("x", None), 1), ["Lagged"]);
    // It has not got what it missed, and misses more than is kept.
    assert_eq!(node.missed(register("y", None), 4), ["Reset", "y 2", "x 1", "current 2 | 2"]);
    assert_eq!(node.missed(register("z", None), 2), ["Lagged", "z at 3 - > 3 unknown"]);
}

#[test]
fn many_changes_of_one_name_that_a_reader_misses_take_the_place_of_one() {
    let mut node = forgetful();
    let token = node.apply(vec![register("x", None)]);
    for _ in 0..8 {
        assert!(node.told(1).is_empty());
        node.apply(vec![update("x", token, None)]);
    }
    assert_eq!(node.missed(update("x", token, None), 2), ["Lagged", "x at 10 - > 10 unknown"]);
}

#[test]
fn a_reader_that_waits_for_a_position_has_missed_nothing_before_it() {
    let mut node = Node::new(Tuning { watch_bytes: 0, ..Tuning::default() });
    node.apply(vec![register("x", None)]);
    node.open(1, Select::all(), Some(3), 100);
    for name in ["y", "z"] {
        node.apply(vec![register(name, None)]);
        assert!(node.told(1).is_empty(), "it has that");
    }
    node.apply(vec![register("w", None)]);
    assert_eq!(node.told(1), ["w at 4 - > 4 registered | 4"]);
}

#[test]
fn what_waits_for_a_sweep_and_is_too_much_is_forgotten_and_what_comes_later_is_remembered() {
    let mut node = Node::new(Tuning { watch_bytes: 1000, ..Tuning::default() });
    node.apply_of(3, vec![register("x", None)]);
    node.open(1, Select::all(), None, 100);
    assert_eq!(node.told(1), ["x 1", "current 1 | 1"]);
    node.apply_of(3, vec![Op::HostGone { session: 0 }]);
    node.apply(["p", "q", "r"].map(|name| register(name, None)).to_vec());
    assert!(node.told(1).is_empty(), "x is not swept");
    assert_eq!(node.replica.memory().of("p").count(), 0);
    assert_eq!(node.told(1), ["Reset", "r 3", "q 3", "p 3", "current 3 | 3"]);
    node.sweep(9);
    node.apply(vec![register("s", None)]);
    let later = ["s at 4 - > 4 registered | 4"];
    assert_eq!(node.told(1), later);
    node.open(2, Select::all(), Some(3), 100);
    assert_eq!(node.told(2), later);
}

#[test]
fn as_much_is_remembered_after_many_changes_as_after_a_few() {
    let mut node = Node::new(SMALL());
    node.open(1, Select::all(), None, 1000);
    let token = node.apply(vec![register("x", None)]);
    let mut remembered = Vec::new();
    for _ in 0..200 {
        let at = node.apply(vec![update("x", token, None)]);
        node.told(1);
        remembered.push(at - node.replica.memory().since().unwrap().0);
    }
    let after_a_few = remembered[20];
    assert!(after_a_few > 1 && remembered[20..].iter().all(|one| *one == after_a_few), "{remembered:?}");
}

#[test]
fn a_watch_that_begins_before_all_is_forgotten_is_given_what_changes_for_as_long_as_it_lasts() {
    let mut node = Node::new(Tuning::default());
    node.open(1, Select::all(), None, 100);
    node.watchers.close(node.now, WatchId(1));
    node.open(2, Select::all(), None, 100);
    assert_eq!(node.told(2), ["current 0 | 0"]);
    node.now = node.now + REMEMBERED_FOR;
    assert!(node.told(2).is_empty());
    node.apply(vec![register("x", None)]);
    assert_eq!(node.told(2), ["x at 1 - > 1 registered | 1"]);
}

#[test]
fn where_a_log_begins_anew_everything_is_given_anew() {
    let mut node = Node::new(Tuning::default());
    node.apply(vec![register("x", None)]);
    node.apply(vec![register("y", None)]);
    node.open(1, Select::all(), None, 100);
    assert_eq!(node.told(1), ["y 2", "x 1", "current 2 | 2"]);
    node.replica.give_up_base();
    assert!(node.told(1).is_empty());
    node.replica.base_on_nothing();
    assert_eq!(node.told(1), ["Reset", "current 0 | 0"]);
}

#[test]
fn a_reader_is_told_how_far_it_is_also_where_no_name_changed() {
    let mut node = Node::new(Tuning::default());
    node.open(1, Select::all(), None, 100);
    assert_eq!(node.told(1), ["current 0 | 0"]);
    node.apply(vec![Op::Open]);
    assert!(node.told(1).is_empty(), "it is told so from time to time");
    node.now = node.now + BOOKMARKED;
    assert_eq!(node.told(1), ["bookmark 1 | 1"]);
}

#[test]
fn of_three_turns_of_the_session_a_reader_is_told_the_last_and_one_that_begins_how_it_is() {
    let mut node = Node::new(Tuning::default());
    node.open(1, Select::all(), None, 100);
    node.told(1);
    node.watchers.lapsed();
    node.watchers.resumed();
    node.watchers.lapsed();
    assert_eq!(node.told(1), ["Lapsed"]);
    node.open(2, Select::all(), None, 100);
    assert_eq!(node.told(2), ["Lapsed", "current 0 | 0"]);
    node.watchers.resumed();
    node.open(3, Select::all(), None, 100);
    assert_eq!(node.told(3), ["current 0 | 0"]);
}
