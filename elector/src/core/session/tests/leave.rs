//! Leaving.

use super::*;

#[test]
fn a_node_that_leaves_lapses_before_it_closes_and_never_beats_again() {
    let (mut rows, mut host) = with(opened);
    host.now = ms(500);
    host.feed(Input::Leave);
    assert_eq!(host.take_events(), [SessionEvent::Lapsed { session: id("a", 7, 1) }]);
    assert_eq!(host.until, None);
    let (close, transaction) = host.take_commit();
    assert!(checks(&transaction, "a", Some(&record(7, 1, 1))));
    assert!(writes(&transaction, "a", &closed(7, 1, 1)));
    let outcome = rows.apply(&transaction);
    host.feed(Input::CommitDone { id: close, outcome });
    assert_eq!(host.take_events(), [SessionEvent::Left]);
    host.run(&mut rows, 60_000);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
    assert!(host.core.is_over());
}

#[test]
fn a_beat_in_flight_is_waited_for_and_the_session_closed_over_it() {
    let (mut rows, mut host) = with(opened);
    host.run(&mut rows, 1_700);
    host.until_commit(&mut rows, 2_000);
    host.feed(Input::Leave);
    assert_eq!(host.requests.len(), 1);
    host.answer_next(&mut rows);
    assert_eq!(host.until, None, "its commit gives no trust back");
    host.serve(&mut rows);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 2)));
    assert_eq!(host.events.last(), Some(&SessionEvent::Left));
}

#[test]
fn a_closing_whose_outcome_is_unknown_is_looked_for() {
    let (mut rows, mut host) = with(opened);
    host.feed(Input::Leave);
    let (close, transaction) = host.take_commit();
    rows.apply(&transaction);
    host.unknown(close);
    assert_ne!(host.events.last(), Some(&SessionEvent::Left));
    host.serve(&mut rows);
    assert_eq!(host.events.last(), Some(&SessionEvent::Left));
}

#[test]
fn a_session_that_others_closed_meanwhile_is_left_too() {
    let (mut rows, mut host) = with(opened);
    host.feed(Input::Leave);
    put(&mut rows, "a", &closed(7, 1, 1));
    host.serve(&mut rows);
    assert_eq!(host.events.last(), Some(&SessionEvent::Left));
}

#[test]
fn an_opening_in_flight_cannot_land_after_the_node_has_left() {
    let mut rows = no_rows();
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.answer_next(&mut rows);
    let (opening, late) = host.take_commit();
    host.feed(Input::Leave);
    host.unknown(opening);
    host.run(&mut rows, 2_000);
    assert_eq!(host.take_events(), [SessionEvent::Left]);
    assert_eq!(rows.apply(&late), CommitOutcome::Conflict);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
}

#[test]
fn a_node_without_a_session_has_left_at_once() {
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.feed(Input::Leave);
    assert_eq!(host.take_events(), [SessionEvent::Left]);
}

#[test]
fn a_store_that_cannot_be_reached_is_given_up_after_half_a_lease_and_said_so() {
    let mut host = with(opened).1;
    host.feed(Input::Leave);
    host.take_events();
    while host.events.is_empty() {
        while let Some(Effect::Commit { id, .. }) = host.requests.pop_front() {
            let outcome = CommitOutcome::Unavailable("down".to_owned());
            host.feed(Input::CommitDone { id, outcome });
        }
        host.now = host.wake.unwrap();
        host.feed(Input::Wake);
    }
    assert_eq!(host.now, ms(S / 2));
    let obstacle = Obstacle::Unavailable("down".to_owned());
    assert_eq!(host.take_events(), [SessionEvent::Failed(SessionFailure::LeaveUnconfirmed { obstacle })]);
}

#[test]
fn what_a_broken_core_left_open_is_closed_over_a_beat_that_still_lands() {
    let mut rows = no_rows();
    let mut broken = Host::opened("a", 7, &mut rows);
    broken.run(&mut rows, 1_700);
    broken.until_commit(&mut rows, 2_000);
    let (_, beat) = broken.take_commit();
    let mut host = Host::new("a", 7);
    host.now = broken.now;
    host.feed(Input::Close(SessionNumber(1)));
    host.answer_next(&mut rows);
    assert!(matches!(rows.apply(&beat), CommitOutcome::Committed(_)));
    host.run(&mut rows, 10_000);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 2)));
    assert_eq!(host.take_events(), [SessionEvent::Left]);
    assert_eq!(host.until, None, "it trusts nothing");
}

#[test]
fn what_is_not_open_under_that_number_is_left_as_it_is() {
    for other in [record(7, 2, 1), record(8, 1, 1), closed(7, 1, 3)] {
        let mut rows = no_rows();
        put(&mut rows, "a", &other);
        let mut host = Host::new("a", 7);
        host.feed(Input::Close(SessionNumber(1)));
        host.serve(&mut rows);
        assert_eq!(stored(&rows, "a"), Some(other));
        assert_eq!(host.take_events(), [SessionEvent::Left]);
    }
}

#[test]
fn whoever_comes_late_is_told_how_a_session_ended() {
    let (mut rows, mut host) = with(opened);
    assert!(!host.core.is_leaving());
    host.feed(Input::Leave);
    assert!(host.core.is_leaving() && !host.core.is_over());
    assert_eq!(host.core.current(), [SessionEvent::Lapsed { session: id("a", 7, 1) }]);
    host.serve(&mut rows);
    assert!(host.core.is_leaving() && host.core.is_over());
    assert_eq!((host.core.current(), host.core.failure()), (vec![SessionEvent::Left], None));

    let mut rows = no_rows();
    put(&mut rows, "a", &closed(6, callsign_store::ids::MAX_COUNT, 1));
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    assert_eq!((host.core.current(), host.core.failure()), (Vec::new(), None));
    host.run(&mut rows, 1_000);
    assert!(host.core.is_leaving() && host.core.is_over());
    let failure = SessionFailure::Exhausted;
    assert_eq!(host.core.failure(), Some(&failure));
    assert_eq!(host.core.current(), [SessionEvent::Failed(failure)]);
}
