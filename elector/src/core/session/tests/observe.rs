//! Observing and closing the sessions of others.

use super::*;

/// The observer of these histories: "o", opened at 0.
pub(super) fn observer(rows: &mut Mvcc) -> Host {
    let mut host = Host::new("o", 1);
    host.feed(Input::Leads(true));
    host.feed(Input::Start);
    host.run(rows, 0);
    host.take_events();
    host
}

pub(super) fn millis(time: Time) -> u64 {
    u64::try_from(time.0.as_millis()).unwrap()
}

fn is_observation(request: &Effect) -> bool {
    matches!(request, Effect::Read { reads, .. } if matches!(reads.get(1), Some(Read::Range { .. })))
}

/// Runs up to the first commit on another node's key, and takes it.
pub(super) fn until_close(host: &mut Host, rows: &mut Mvcc) -> (RequestId, Transaction) {
    let own = keys().session(&node("o"));
    loop {
        match host.requests.front() {
            Some(Effect::Commit { transaction, .. }) if transaction.checks[0].key != own => {
                return host.take_commit();
            }
            _ => host.serve_one(rows),
        }
    }
}

#[test]
fn first_sight_never_closes_however_old_the_beat_is() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.run(&mut rows, S - 1);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    assert_eq!(host.take_events(), []);
}

#[test]
fn a_beat_that_did_not_move_for_its_lease_is_closed_and_reported_once() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.run(&mut rows, S);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
    host.run(&mut rows, 3 * S);
    assert_eq!(host.take_events(), []);
}

#[test]
fn the_lease_that_counts_is_that_of_the_record() {
    let mut rows = no_rows();
    let long = SessionRecord { lease: Duration::from_millis(2 * S), ..record(7, 1, 1) };
    let short = SessionRecord { lease: Duration::from_secs(1), ..record(8, 1, 1) };
    put(&mut rows, "a", &long);
    put(&mut rows, "b", &short);
    let mut host = observer(&mut rows);
    host.run(&mut rows, 1_000);
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("b", 8, 1))]);
    host.run(&mut rows, 2 * S - 1);
    assert_eq!(host.take_events(), []);
    host.run(&mut rows, 2 * S);
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
}

#[test]
fn the_count_begins_at_the_end_of_the_read_that_first_showed_the_beat() {
    let (mut rows, mut host) = with(observer);
    host.until_request(1_500);
    let start = millis(host.now);
    put(&mut rows, "a", &record(7, 1, 1));
    host.now = ms(start + 600);
    host.answer_next(&mut rows);
    host.run(&mut rows, start + 599 + S);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    host.run(&mut rows, start + 600 + S);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
}

#[test]
fn a_beat_that_moves_is_never_closed() {
    let (mut rows, mut host) = with(observer);
    for beat in 1..=20 {
        put(&mut rows, "a", &record(7, 1, beat));
        host.run(&mut rows, beat * 9_000);
        assert_eq!(stored(&rows, "a"), Some(record(7, 1, beat)));
    }
    assert_eq!(host.take_events(), []);
}

#[test]
fn a_gap_between_reads_starts_the_count_again() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.run(&mut rows, 8_000);
    // Stopped for more than S/4, not so long that it lapses.
    host.sleep_to(12_000);
    host.run(&mut rows, 12_000 + S - 1);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    assert_eq!(host.take_events(), []);
    host.run(&mut rows, 12_000 + S);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
}

#[test]
fn a_lapsed_node_beats_before_it_observes_and_starts_the_count_again() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    // Reads are answered, commits are not.
    while host.now < ms(12_000) {
        assert!(host.until.is_some() || !host.requests.iter().any(is_observation));
        while let Some(request) = host.requests.pop_front() {
            if matches!(request, Effect::Read { .. }) {
                host.answer(&mut rows, request);
            }
        }
        host.now = host.wake.unwrap().max(host.now);
        host.feed(Input::Wake);
    }
    assert_eq!(host.take_events(), [SessionEvent::Lapsed { session: id("o", 1, 1) }]);
    while host.until.is_none() {
        assert!(!host.requests.iter().any(is_observation));
        host.serve_one(&mut rows);
    }
    assert!(host.requests.iter().any(is_observation), "now it does");
    let resumed = millis(host.now);
    host.run(&mut rows, resumed + S - 1);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    host.run(&mut rows, resumed + S + 1);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
}

#[test]
fn a_closing_is_conditional_on_the_beat_and_loses_against_a_later_one() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    let (close, transaction) = until_close(&mut host, &mut rows);
    assert!(checks(&transaction, "a", Some(&record(7, 1, 1))));
    assert!(writes(&transaction, "a", &closed(7, 1, 1)));
    put(&mut rows, "a", &record(7, 1, 2));
    let outcome = rows.apply(&transaction);
    assert_eq!(outcome, CommitOutcome::Conflict);
    host.feed(Input::CommitDone { id: close, outcome });
    host.run(&mut rows, 2 * S);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 2)), "the count starts with the new beat");
    assert_eq!(host.take_events(), []);
}

#[test]
fn a_closing_whose_outcome_is_unknown_is_reported_when_it_is_seen() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    let (close, transaction) = until_close(&mut host, &mut rows);
    rows.apply(&transaction);
    host.unknown(close);
    assert_eq!(host.take_events(), []);
    host.run(&mut rows, S + 100);
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
}

#[test]
fn a_read_from_before_a_closing_does_not_open_the_session_again() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    let (close, transaction) = until_close(&mut host, &mut rows);
    // An observation is sent, the closing commits, and then the observation is answered.
    host.feed(Input::Suspect { node: node("x"), incarnation: Incarnation(1) });
    host.feed(Input::Proof { node: node("x"), incarnation: Incarnation(1), proof: Proof::Dead });
    assert!(host.requests.iter().any(is_observation));
    let mut old = rows.clone();
    let outcome = rows.apply(&transaction);
    host.feed(Input::CommitDone { id: close, outcome });
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
    host.requests.retain(is_observation);
    host.answer_next(&mut old);
    host.run(&mut rows, 3 * S);
    assert_eq!(host.take_events(), []);
}

#[test]
fn leaders_close_first_and_others_after_a_delay() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut other = rows.clone();
    let mut leader = observer(&mut rows);
    let mut follower = Host::opened("o", 1, &mut other);
    let until = |host: &mut Host, rows: &mut Mvcc| {
        until_close(host, rows);
        millis(host.now)
    };
    let (first, second) = (until(&mut leader, &mut rows), until(&mut follower, &mut other));
    assert_eq!(first, S);
    assert!((S + 200..=S + 500).contains(&second), "{second}");
}

#[test]
fn a_suspect_is_asked_about_at_once_and_closed_at_once_when_proven_dead() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.run(&mut rows, 300);
    host.feed(Input::Suspect { node: node("a"), incarnation: Incarnation(7) });
    assert_eq!(host.proofs, [(node("a"), Incarnation(7))]);
    // The kernel has not cleared up after it yet.
    host.run(&mut rows, 320);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    host.dead.push((node("a"), Incarnation(7)));
    host.run(&mut rows, 340);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
}

#[test]
fn the_dead_are_closed_at_their_last_beat_even_if_that_was_not_seen_yet() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.run(&mut rows, 300);
    put(&mut rows, "a", &record(7, 1, 2));
    host.dead.push((node("a"), Incarnation(7)));
    host.feed(Input::Suspect { node: node("a"), incarnation: Incarnation(7) });
    host.run(&mut rows, 310);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 2)));
}

#[test]
fn the_questions_about_a_suspect_come_with_growing_pauses_and_then_with_each_observation() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.feed(Input::Suspect { node: node("a"), incarnation: Incarnation(7) });
    let mut asked = Vec::new();
    while host.now <= ms(4_500) {
        while let Some((node, incarnation)) = host.proofs.pop() {
            asked.push(millis(host.now));
            host.feed(Input::Proof { node, incarnation, proof: Proof::None });
        }
        host.serve_one(&mut rows);
    }
    assert_eq!(asked, [0, 2, 7, 17, 37, 87, 187, 387, 887, 1_000, 2_000, 3_000, 4_000]);
}

#[test]
fn a_proof_closes_only_what_it_is_about() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    // It came back under a new incarnation before the proof for the old one was answered.
    put(&mut rows, "a", &record(8, 2, 1));
    host.dead.push((node("a"), Incarnation(7)));
    host.feed(Input::Suspect { node: node("a"), incarnation: Incarnation(7) });
    host.run(&mut rows, 5_000);
    assert_eq!(stored(&rows, "a"), Some(record(8, 2, 1)));
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
}

#[test]
fn a_dead_suspect_that_was_never_seen_is_read_first() {
    let (mut rows, mut host) = with(observer);
    host.run(&mut rows, 300);
    put(&mut rows, "a", &record(7, 1, 3));
    host.dead.push((node("a"), Incarnation(7)));
    host.feed(Input::Suspect { node: node("a"), incarnation: Incarnation(7) });
    host.run(&mut rows, 300);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 3)));
}

#[test]
fn a_session_that_is_silent_for_two_beats_is_asked_about_without_being_suspected() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.dead.push((node("a"), Incarnation(7)));
    host.run(&mut rows, 4_000);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    host.run(&mut rows, 5_100);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
}

#[test]
fn each_closed_session_that_is_seen_is_reported_once() {
    let mut rows = no_rows();
    put(&mut rows, "a", &closed(7, 1, 1));
    put(&mut rows, "b", &record(8, 4, 1));
    let mut host = Host::new("o", 1);
    host.feed(Input::Start);
    host.run(&mut rows, 1_500);
    assert_eq!(host.take_events()[1..], [], "it was never seen open");
    // Closed by somebody else, and the next opened, between two reads.
    put(&mut rows, "b", &record(8, 5, 1));
    put(&mut rows, "a", &record(9, 2, 1));
    host.run(&mut rows, 3_500);
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("b", 8, 4))]);
    put(&mut rows, "a", &closed(9, 2, 7));
    put(&mut rows, "b", &closed(8, 6, 1));
    host.run(&mut rows, 5_500);
    let [a, b, b_next] = [id("a", 9, 2), id("b", 8, 5), id("b", 8, 6)].map(SessionEvent::PeerClosed);
    assert_eq!(host.take_events(), [a, b, b_next]);
}

#[test]
fn a_session_that_was_swept_is_closed_and_one_that_is_only_gone_is_not() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 3, 1));
    put(&mut rows, "b", &record(8, 4, 1));
    let mut host = observer(&mut rows);
    host.run(&mut rows, 1_500);
    // Both are gone between two reads; the floor speaks for one of them.
    sweep(&mut rows, "a", 3);
    sweep(&mut rows, "b", 3);
    host.run(&mut rows, 3_500);
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 3))]);
}

#[test]
fn an_opening_over_no_record_goes_above_the_floor_and_checks_it() {
    let mut rows = no_rows();
    sweep(&mut rows, "a", 41);
    let mut host = Host::new("o", 1);
    host.feed(Input::Start);
    host.answer_next(&mut rows);
    let (id, opening) = host.take_commit();
    assert!(writes(&opening, "o", &record(1, 42, 1)));
    // Before it lands, another session of this name has come and gone.
    sweep(&mut rows, "a", 42);
    let outcome = rows.apply(&opening);
    assert_eq!(outcome, CommitOutcome::Conflict);
    host.feed(Input::CommitDone { id, outcome });
    host.run(&mut rows, 100);
    assert_eq!(stored(&rows, "o"), Some(record(1, 43, 1)));
}

#[test]
fn a_record_that_cannot_be_read_is_reported_and_neither_closed_nor_gone() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    put_value(&mut rows, "a", vec![9, 9]);
    host.run(&mut rows, 3 * S);
    assert!(matches!(host.take_events().as_slice(), [SessionEvent::PeerUnreadable { .. }]), "once");
    assert_eq!(rows.get(&keys().session(&node("a"))), Some(&[9, 9][..]));
    put(&mut rows, "a", &closed(7, 1, 9));
    host.run(&mut rows, 3 * S + 1_500);
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
}

#[test]
fn more_sessions_than_fit_in_a_page_are_all_observed() {
    let mut rows = no_rows();
    for index in 0..2_500 {
        put(&mut rows, &format!("n{index}"), &record(7, 1, 1));
    }
    let mut host = Host::new("o", 1);
    host.feed(Input::Start);
    host.run(&mut rows, 100);
    for index in 0..2_500 {
        put(&mut rows, &format!("n{index}"), &closed(7, 1, 1));
    }
    host.run(&mut rows, 1_500);
    let closed = host.take_events().iter().filter(|e| matches!(e, SessionEvent::PeerClosed(_))).count();
    assert_eq!(closed, 2_500);
}

#[test]
fn a_session_is_seen_by_its_lease_and_how_long_its_beat_has_not_moved() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.run(&mut rows, 3_000);
    let sight = |host: &Host, of: &SessionId| host.core.sight_of(host.now, of);
    let (of_a, own) = (id("a", 7, 1), host.core.session().unwrap());
    let seen = sight(&host, &of_a).unwrap();
    let lease = Duration::from_millis(S);
    assert_eq!((seen.trusted, seen.lease, seen.last_beat), (None, lease, Some(Duration::from_secs(3))));
    // It is no other session.
    for other in [id("a", 7, 2), id("a", 8, 1), id("b", 7, 1)] {
        assert_eq!(sight(&host, &other), None);
    }
    put(&mut rows, "a", &record(7, 1, 2));
    host.run(&mut rows, 6_000);
    assert!(sight(&host, &of_a).unwrap().last_beat < Some(Duration::from_secs(3)));
    let mine = sight(&host, &own).unwrap();
    assert_eq!((mine.trusted, mine.lease), (Some(true), lease));
    assert!(mine.last_beat < Some(lease / 3), "it beats more often: {mine:?}");
    // One that is closed is seen no more, and the own one is not trusted when trust is over.
    host.run(&mut rows, 6_000 + 2 * S);
    assert_eq!(sight(&host, &of_a), None);
    let late = host.now + lease;
    let mine = host.core.sight_of(late, &own).unwrap();
    assert_eq!((mine.trusted, mine.last_beat), (Some(false), None));
}
