//! How many members a registry may have where transactions have few checks, and what is not checked then.

use super::*;

#[test]
fn the_fewer_checks_a_transaction_may_have_the_fewer_members_a_registry_has() {
    assert_eq!([None, Some(1000), Some(126), Some(3)].map(most_members), [MAX_MEMBERS, MAX_MEMBERS, 118, 0]);
}

#[test]
fn a_newcomer_for_whom_a_transaction_has_no_check_left_is_refused_as_one_member_too_many_is() {
    let mut world = World::led(&["a", "b"]);
    world.facts.most_checks = Some(10);
    world.open("z", 1);
    let join = world.join("z");
    assert_eq!(dropped(&world.apply("a", &join)), Dropped::Full);

    // One that is a member already takes nobody's place.
    let again = world.join("b");
    assert!(world.apply("a", &again).outcome.is_ok());
    let leave = world.leave("b");
    assert!(world.apply("a", &leave).outcome.is_ok());
    let join = world.join("z");
    assert!(world.apply("a", &join).outcome.is_ok());
}

#[test]
fn where_checks_are_counted_the_sessions_that_are_over_are_not_checked_when_a_seat_is_opened_anew() {
    let mut world = World::led(&["a", "b", "c"]);
    world.open("a", 2);
    let join = world.join("a");
    world.apply("a", &join);
    world.facts.proposer = session("a", 2);
    world.close("b");
    world.close("c");
    let opened = |world: &World| {
        let applied = world.state.fill(&world.facts).unwrap();
        assert_eq!(applied.seat, Seat::Elected { node: node("a"), opening: Some(Opening::Reset) });
        applied.relied
    };
    let own = [Relied::Session(node("a")), Relied::Commit, Relied::Members];
    let of_the_others = ["b", "c"].map(|name| Relied::Session(node(name)));
    let all: BTreeSet<_> = own.iter().chain(&of_the_others).cloned().collect();
    assert_eq!(opened(&world), all);
    world.facts.most_checks = Some(126);
    assert_eq!(opened(&world), BTreeSet::from(own));
}
