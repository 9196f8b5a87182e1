//! A member that is about to leave hands the seat over, once, to somebody who stays.

use callsign_store::record::Record;

use super::*;

impl World {
    pub(super) fn drain(&mut self, author: &str) -> QueueEntry {
        let token = self.token(author);
        self.entry(author, MembershipEvent::Drain { token })
    }

    fn drains(&mut self, author: &str) -> Applied {
        let entry = self.drain(author);
        self.apply(author, &entry)
    }

    fn is_draining(&self, name: &str) -> bool {
        self.state.members[&node(name)].draining
    }
}

#[test]
fn a_leader_that_drains_gives_the_seat_to_a_synced_member_that_stays_and_remains_a_member() {
    let mut world = World::led(&["b", "c", "d"]);
    world.member("a", false);
    world.drains("c");
    assert_eq!((world.leader(), world.epoch()), (Some("b"), 1), "a follower that drains moves nothing");
    let applied = world.drains("b");
    assert_eq!(applied.seat, Seat::Elected { node: node("d"), opening: None }, "a is not synced, c drains");
    assert!(applied.passes_lock() && applied.relied.contains(&Relied::Session(node("d"))));
    assert!(world.is_draining("b") && world.epoch() == 2);
}

#[test]
fn said_again_or_by_a_former_self_it_does_nothing() {
    let mut world = World::led(&["a", "b"]);
    world.drains("a");
    assert_eq!(dropped(&world.drains("a")), Dropped::NothingNew);
    let stale = world.drain("b");
    world.open("b", 2);
    let join = world.join("b");
    world.apply("b", &join);
    assert_eq!(dropped(&world.apply("a", &stale)), Dropped::StaleAuthor);
    assert!(!world.is_draining("b"), "who joins does not drain");
}

/// With members that never drain there would be two that hand the seat to each other for ever.
#[test]
fn when_all_drain_the_seat_comes_to_rest_with_the_last_of_them() {
    for order in [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]] {
        let mut world = World::led(&["a", "b", "c"]);
        for name in order {
            world.drains(name);
        }
        assert_eq!(world.leader(), Some(order[2]), "{order:?}");
        let epoch = world.epoch();
        assert!(epoch <= 4, "it moved {} times", epoch - 1);
        for name in order {
            let withdraw = world.withdraw(name);
            world.apply(name, &withdraw);
        }
        assert_eq!(world.epoch(), epoch);
    }
}

#[test]
fn one_that_becomes_synced_takes_the_seat_from_one_that_drains() {
    let mut world = World::led(&["a", "b"]);
    world.member("c", false);
    world.drains("b");
    world.drains("a");
    assert_eq!((world.leader(), world.epoch()), (Some("a"), 1), "nobody else stays and is synced");
    let synced = world.synced("c", 7);
    let applied = world.apply("b", &synced);
    assert_eq!(applied.seat, Seat::Elected { node: node("c"), opening: None });
}

#[test]
fn a_vacant_seat_goes_to_one_that_drains_only_if_nobody_stays() {
    let mut world = World::led(&["a", "b", "c"]);
    world.drains("b");
    let leave = world.leave("a");
    world.apply("b", &leave);
    assert_eq!(world.leader(), Some("c"), "though b committed it");
    let leave = world.leave("c");
    world.apply("b", &leave);
    assert_eq!(world.leader(), Some("b"), "better than nobody");
}

#[test]
fn a_member_whose_session_is_closed_or_that_may_not_lead_is_no_successor() {
    let mut world = World::led(&["a", "b", "c"]);
    world.close("b");
    world.state.members.get_mut(&node("c")).unwrap().priority = 0;
    world.drains("a");
    assert_eq!((world.leader(), world.epoch()), (Some("a"), 1));
}

#[test]
fn a_row_of_a_version_that_knew_no_draining_is_read_and_one_that_does_not_drain_is_written_as_then() {
    let mut world = World::led(&["a"]);
    let row = world.state.members[&node("a")].clone();
    let mut former = row.to_value();
    assert!(!former.windows(8).any(|bytes| bytes == b"draining"));
    assert_eq!(MemberRow::from_value(&former), Ok(row));
    world.drains("a");
    former = world.state.members[&node("a")].to_value();
    assert!(MemberRow::from_value(&former).is_ok_and(|row| row.draining));
}

#[test]
fn a_silent_member_does_not_get_the_seat_back_from_one_that_drains_because_another_drains() {
    let mut world = World::led(&["a", "b", "c"]);
    world.drains("b");
    // b and c do not hear a; c leaves.
    let (first, leave) = (world.silent("b", "a"), world.leave("c"));
    world.apply("b", &leave);
    let applied = world.apply("b", &first);
    assert_eq!(applied.seat, Seat::Elected { node: node("b"), opening: None }, "a was not heard");
    world.member("d", false);
    world.drains("d");
    assert_eq!(world.leader(), Some("b"));
}

#[test]
fn a_seat_is_left_for_a_successor_to_take_only_while_that_one_lives() {
    let mut world = World::led(&["a", "b"]);
    world.member("c", false);
    let drain = world.drain("a");
    let applied = world.apply("c", &drain);
    assert_eq!(
        (applied.seat, world.leader()),
        (Seat::Vacated, None),
        "c, which is not synced, leaves it to b"
    );
    assert_eq!(applied.relied, BTreeSet::from([Relied::Session(node("b"))]));
}
