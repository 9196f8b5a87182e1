//! What comes to nothing, and why.

use super::*;

#[test]
fn what_was_said_in_another_epoch_comes_to_nothing() {
    let mut world = World::led(&["a", "b", "c"]);
    world.member("d", false);
    let vote = world.silent("b", "a");
    assert!(world.apply("b", &vote).outcome.is_ok());
    world.close("c");
    let (down, synced, withdraw) =
        (world.down("b", "c", Evidence::Closed), world.synced("d", 7), world.withdraw("b"));
    let resign = world.resign("a");
    world.apply("b", &resign);
    assert_eq!((world.leader(), world.epoch()), (Some("b"), 2));
    for late in [down, synced, withdraw] {
        assert_eq!(dropped(&world.apply("b", &late)), Dropped::StaleEpoch, "{late:?}");
    }
    assert!(world.state.members.contains_key(&node("c")));
}

#[test]
fn only_a_member_as_it_says_accuses_and_only_the_leader_is_accused_and_not_by_itself() {
    let mut world = World::led(&["a", "b", "c"]);
    let (of_a_follower, of_itself) = (world.silent("c", "b"), world.silent("a", "a"));
    for vote in [of_a_follower, of_itself] {
        assert_eq!(dropped(&world.apply("c", &vote)), Dropped::NotLeader, "{vote:?}");
    }
    let (vote, withdraw) = (world.silent("c", "a"), world.withdraw("c"));
    assert_eq!(dropped(&world.apply("c", &withdraw)), Dropped::NothingNew, "it accuses nobody");
    let join = world.join("c");
    assert!(world.apply("b", &join).outcome.is_ok());
    for former in [vote, withdraw] {
        assert_eq!(dropped(&world.apply("c", &former)), Dropped::StaleAuthor, "{former:?}");
    }
}

#[test]
fn that_a_member_is_synced_is_said_once_unless_it_said_that_it_is_empty() {
    let mut world = World::led(&["a", "b"]);
    let synced = world.synced("b", 7);
    assert_eq!(dropped(&world.apply("a", &synced)), Dropped::NothingNew);
    world.state.members.get_mut(&node("b")).unwrap().empty = true;
    assert_eq!(world.apply("a", &synced).outcome, Ok(Change::Synced { node: node("b") }));
    assert!(!world.state.members[&node("b")].empty);
}

#[test]
fn a_vacant_seat_is_not_filled_while_a_lock_is_held() {
    let mut world = World::new();
    world.member("a", true);
    world.facts.proposer = session("a", 1);
    world.state.lock = Some(Lock { epoch: Epoch(0), owner: node("x"), nonce: Nonce(9) });
    assert_eq!(world.state.fill(&world.facts), None);
    world.state.lock = None;
    assert!(world.state.fill(&world.facts).is_some());
}

#[test]
fn a_row_is_of_the_session_and_of_the_join_that_are_asked_for() {
    let mut world = World::new();
    world.member("a", true);
    let (state, token) = (&world.state, world.token("a"));
    assert!(state.member(&session("a", 1), token).is_some());
    assert_eq!(state.member(&session("a", 2), token), None);
    assert_eq!(state.member(&session("a", 1), Token(token.0 + 1)), None);
    assert_eq!(state.member(&session("b", 1), token), None);
}
