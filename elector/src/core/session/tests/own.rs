//! Opening, beating, trust.

use super::*;

/// A host whose second beat has just been asked for, a little before 2 s.
fn beating(rows: &mut Mvcc) -> Host {
    let mut host = Host::opened("a", 7, rows);
    host.run(rows, 1_700);
    host.until_commit(rows, 2_000);
    host
}

/// A host whose first opening has just been asked for, at 0.
fn opening(rows: &mut Mvcc) -> Host {
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.answer_next(rows);
    host
}

#[test]
fn the_first_session_is_opened_over_nothing_with_number_and_beat_one() {
    let mut host = opening(&mut no_rows());
    let (_, transaction) = host.take_commit();
    assert!(checks(&transaction, "a", None));
    assert!(writes(&transaction, "a", &record(7, 1, 1)));
    assert_eq!(host.core.session(), None);
}

#[test]
fn the_next_session_is_opened_over_exactly_the_closed_one_that_was_read() {
    let mut rows = no_rows();
    put(&mut rows, "a", &closed(6, 4, 9));
    let mut host = opening(&mut rows);
    let (_, transaction) = host.take_commit();
    assert!(checks(&transaction, "a", Some(&closed(6, 4, 9))));
    assert!(writes(&transaction, "a", &record(7, 5, 1)));
}

#[test]
fn a_beat_checks_the_whole_record_that_it_replaces() {
    let mut host = beating(&mut no_rows());
    let (_, transaction) = host.take_commit();
    assert!(checks(&transaction, "a", Some(&record(7, 1, 1))));
    assert!(writes(&transaction, "a", &record(7, 1, 2)));
}

#[test]
fn trust_is_counted_from_the_start_of_the_beat() {
    let (mut rows, mut host) = with(beating);
    assert_eq!(host.until, Some(ms(TRUST_WINDOW)));
    let start = host.now;
    host.now = start + Duration::from_millis(900);
    host.answer_next(&mut rows);
    assert_eq!(host.until, Some(start + Duration::from_millis(TRUST_WINDOW)));
}

#[test]
fn a_beat_that_is_answered_after_its_window_gives_no_trust() {
    let (mut rows, mut host) = with(beating);
    host.now = host.now + Duration::from_millis(TRUST_WINDOW);
    host.answer_next(&mut rows);
    assert_eq!(host.until, None);
    assert_eq!(host.take_events(), [SessionEvent::Lapsed { session: id("a", 7, 1) }]);
}

#[test]
fn an_unknown_beat_that_landed_counts_from_its_own_start() {
    let (mut rows, mut host) = with(beating);
    let start = host.now;
    let (beat, transaction) = host.take_commit();
    rows.apply(&transaction);
    host.now = start + Duration::from_millis(400);
    host.unknown(beat);
    assert_eq!(host.until, Some(ms(TRUST_WINDOW)), "nothing is known yet");
    host.serve(&mut rows);
    assert_eq!(host.until, Some(start + Duration::from_millis(TRUST_WINDOW)));
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 2)));
}

#[test]
fn an_unknown_beat_that_did_not_land_is_followed_by_a_number_never_used() {
    let (mut rows, mut host) = with(beating);
    let (beat, _) = host.take_commit();
    host.unknown(beat);
    assert!(matches!(host.requests.front(), Some(Effect::Read { .. })), "it looks first");
    host.until_commit(&mut rows, 3_000);
    let (_, transaction) = host.take_commit();
    assert!(checks(&transaction, "a", Some(&record(7, 1, 1))));
    assert!(writes(&transaction, "a", &record(7, 1, 3)));
}

#[test]
fn an_unknown_beat_that_lands_later_is_found_and_the_one_after_it_conflicts() {
    let (mut rows, mut host) = with(beating);
    let start = host.now;
    let (beat, late) = host.take_commit();
    host.unknown(beat);
    host.until_commit(&mut rows, 3_000);
    rows.apply(&late);
    host.answer_next(&mut rows);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 2)), "the retry conflicts");
    host.serve(&mut rows);
    assert_eq!(host.until, Some(start + Duration::from_millis(TRUST_WINDOW)));
    host.run(&mut rows, 30_000);
    assert_eq!(host.take_events(), []);
}

#[test]
fn an_attempt_that_never_answers_does_not_stop_the_next() {
    let (mut rows, mut host) = with(beating);
    let start = host.now;
    let (beat, transaction) = host.take_commit();
    while !matches!(host.requests.back(), Some(Effect::Read { id, .. }) if host.core.own.is_reading(*id)) {
        assert!(host.now < start + Duration::from_millis(1_001));
        host.now = host.wake.unwrap().max(host.now);
        host.feed(Input::Wake);
    }
    // Nothing rules it out, so its answer is news even now.
    rows.apply(&transaction);
    host.feed(Input::CommitDone { id: beat, outcome: CommitOutcome::Committed(rows.version()) });
    assert_eq!(host.until, Some(start + Duration::from_millis(TRUST_WINDOW)));
}

#[test]
fn the_late_answer_of_a_beat_that_was_passed_by_changes_nothing() {
    let (mut rows, mut host) = with(beating);
    let (beat, _) = host.take_commit();
    host.unknown(beat);
    host.run(&mut rows, 5_000);
    let before = (host.core.clone(), host.until);
    host.feed(Input::CommitDone { id: beat, outcome: CommitOutcome::Committed(rows.version()) });
    assert_eq!((host.core, host.until), before);
}

#[test]
fn a_read_from_before_the_opening_does_not_lose_the_session() {
    let mut rows = no_rows();
    let mut old = rows.clone();
    let mut host = beating(&mut rows);
    host.serve(&mut rows);
    let session = id("a", 7, 1);
    host.run(&mut rows, 3_600);
    host.until_commit(&mut rows, 4_000);
    let (beat, _) = host.take_commit();
    host.unknown(beat);
    host.answer_next(&mut old);
    assert_eq!(host.until, None, "nothing is trusted while it is looked into");
    host.run(&mut rows, 30_000);
    let events = [SessionEvent::Lapsed { session: session.clone() }, SessionEvent::Resumed { session }];
    assert_eq!(host.take_events(), events, "it reads again and goes on");
}

#[test]
fn trust_ends_on_time_without_an_answer_and_resumes_with_the_same_session() {
    let (mut rows, mut host) = with(opened);
    // The store is silent.
    while host.now < ms(TRUST_WINDOW) {
        host.requests.clear();
        let at = host.wake.unwrap();
        assert!(at <= ms(TRUST_WINDOW), "it asks to be woken when its trust ends");
        host.now = at;
        host.feed(Input::Wake);
    }
    assert_eq!(host.take_events(), [SessionEvent::Lapsed { session: id("a", 7, 1) }]);
    assert_eq!((host.until, host.core.session()), (None, Some(id("a", 7, 1))));
    host.requests.clear();
    host.run(&mut rows, 12_000);
    assert_eq!(host.take_events(), [SessionEvent::Resumed { session: id("a", 7, 1) }]);
    assert!(host.until.is_some());
}

#[test]
fn an_answer_that_comes_after_trust_has_ended_finds_it_ended() {
    let (mut rows, mut host) = with(beating);
    host.now = ms(TRUST_WINDOW);
    host.answer_next(&mut rows);
    let session = id("a", 7, 1);
    let lapsed = SessionEvent::Lapsed { session: session.clone() };
    assert_eq!(host.take_events(), [lapsed, SessionEvent::Resumed { session }]);
}

#[test]
fn a_lapsed_session_that_was_closed_is_lost_and_the_next_number_opened() {
    let (mut rows, mut host) = with(opened);
    put(&mut rows, "a", &closed(7, 1, 1));
    host.sleep_to(11_000);
    host.serve(&mut rows);
    assert_eq!(
        host.take_events(),
        [
            SessionEvent::Lapsed { session: id("a", 7, 1) },
            SessionEvent::Lost { session: id("a", 7, 1) },
            SessionEvent::Opened { session: id("a", 7, 2) },
        ]
    );
    assert_eq!(stored(&rows, "a"), Some(record(7, 2, 1)));
}

#[test]
fn a_session_over_which_another_has_opened_is_lost() {
    let (mut rows, mut host) = with(opened);
    put(&mut rows, "a", &record(8, 2, 5));
    host.sleep_to(11_000);
    host.serve(&mut rows);
    assert_eq!(
        host.take_events(),
        [SessionEvent::Lapsed { session: id("a", 7, 1) }, SessionEvent::Lost { session: id("a", 7, 1) }]
    );
    assert_eq!(host.core.session(), None);
    assert_eq!(stored(&rows, "a"), Some(record(8, 2, 5)));
}

#[test]
fn an_unknown_opening_that_landed_is_gone_on_with() {
    let (mut rows, mut host) = with(opening);
    let (opening, transaction) = host.take_commit();
    rows.apply(&transaction);
    host.now = ms(600);
    host.unknown(opening);
    host.serve(&mut rows);
    assert_eq!(host.take_events(), [SessionEvent::Opened { session: id("a", 7, 1) }]);
    assert_eq!(host.until, Some(ms(TRUST_WINDOW)), "trust counts from the start of that attempt");
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
}

#[test]
fn an_unknown_opening_that_lands_later_is_gone_on_with() {
    let (mut rows, mut host) = with(opening);
    let (opening, late) = host.take_commit();
    host.unknown(opening);
    host.until_commit(&mut rows, 1_000);
    rows.apply(&late);
    host.serve(&mut rows);
    assert_eq!(host.take_events(), [SessionEvent::Opened { session: id("a", 7, 1) }]);
    assert_eq!(host.until, Some(ms(TRUST_WINDOW)));
}

#[test]
fn over_an_open_session_it_waits_and_says_that_the_name_is_in_use_while_that_moves() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(6, 1, 1));
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    assert_eq!(host.proofs, []);
    host.run(&mut rows, 1_500);
    assert_eq!(host.take_events(), [], "first sight is no sign of life");
    assert_eq!(host.core.obstacle(), Obstacle::FormerOpen { incarnation: Incarnation(6) });
    for beat in 2..=20 {
        put(&mut rows, "a", &record(6, 1, beat));
        host.run(&mut rows, beat * 1_500);
        let in_use = SessionEvent::NameInUse { node: node("a"), incarnation: Incarnation(6) };
        assert_eq!(host.take_events(), [in_use]);
    }
    assert_eq!(host.core.obstacle(), Obstacle::NameInUse { incarnation: Incarnation(6) });
    assert_eq!(stored(&rows, "a"), Some(record(6, 1, 20)));
}

#[test]
fn a_former_session_that_does_not_move_is_closed_after_its_lease_and_the_next_opened() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(6, 1, 5));
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.run(&mut rows, S - 1);
    assert_eq!(stored(&rows, "a"), Some(record(6, 1, 5)));
    host.run(&mut rows, S);
    assert_eq!(host.take_events(), [SessionEvent::Opened { session: id("a", 7, 2) }]);
}

#[test]
fn a_former_session_that_is_proven_dead_is_closed_at_once() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(6, 1, 5));
    let mut host = Host::new("a", 7);
    host.dead.push((node("a"), Incarnation(6)));
    host.feed(Input::Start);
    host.run(&mut rows, 0);
    assert_eq!(host.take_events(), [SessionEvent::Opened { session: id("a", 7, 2) }]);
}

#[test]
fn of_two_that_open_over_nothing_one_waits_for_the_other() {
    let (mut rows, mut host) = with(opening);
    put(&mut rows, "a", &record(8, 1, 1));
    host.run(&mut rows, 1_500);
    assert_eq!(host.take_events(), []);
    assert_eq!(stored(&rows, "a"), Some(record(8, 1, 1)));
    assert_eq!(host.core.obstacle(), Obstacle::FormerOpen { incarnation: Incarnation(8) });
}

#[test]
fn a_record_of_its_own_incarnation_that_it_did_not_write_is_another_process() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.run(&mut rows, 5_000);
    assert_eq!(host.core.session(), None);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
}

#[test]
fn a_corrupt_record_of_its_own_is_fatal_and_not_written_over() {
    let mut rows = no_rows();
    put_value(&mut rows, "a", vec![9]);
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.run(&mut rows, 60_000);
    assert!(matches!(host.take_events().as_slice(), [SessionEvent::Failed(SessionFailure::Corrupt(_))]));
    assert_eq!(rows.get(&keys().session(&node("a"))), Some(&[9][..]));
}

#[test]
fn an_own_record_that_becomes_corrupt_costs_trust_and_the_node_goes_on_once_it_is_repaired() {
    let mut rows = no_rows();
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.run(&mut rows, 5_000);
    let good = rows.get(&keys().session(&node("a"))).unwrap().to_vec();
    host.take_events();
    put_value(&mut rows, "a", vec![9]);
    host.run(&mut rows, 60_000);
    let events = host.take_events();
    assert!(
        matches!(events.as_slice(), [SessionEvent::Unreadable { .. }, SessionEvent::Lapsed { .. }]),
        "{events:?}"
    );
    assert_eq!(rows.get(&keys().session(&node("a"))), Some(&[9][..]), "it is not written over");
    put_value(&mut rows, "a", good);
    host.run(&mut rows, 65_000);
    assert_eq!(host.take_events(), [SessionEvent::Resumed { session: id("a", 7, 1) }]);
}

#[test]
fn a_number_that_cannot_grow_is_an_error_before_any_write() {
    let mut rows = no_rows();
    put(&mut rows, "a", &closed(6, callsign_store::ids::MAX_COUNT, 1));
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.run(&mut rows, 1_000);
    assert_eq!(host.take_events(), [SessionEvent::Failed(SessionFailure::Exhausted)]);
}

#[test]
fn a_store_that_is_unavailable_is_asked_again_until_it_is_there() {
    let mut rows = no_rows();
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    for _ in 0..5 {
        host.until_request(10_000);
        let Some(Effect::Read { id, .. }) = host.requests.pop_front() else { panic!("it reads first") };
        host.feed(Input::ReadDone { id, result: Err(StoreError::Unavailable("down".to_owned())) });
        assert_eq!(host.requests.len(), 0, "it pauses");
    }
    assert_eq!(host.core.obstacle(), Obstacle::Unavailable("down".to_owned()));
    host.run(&mut rows, 10_000);
    assert_eq!(host.take_events(), [SessionEvent::Opened { session: id("a", 7, 1) }]);
}

#[test]
fn a_former_session_with_a_short_lease_is_over_after_that_lease() {
    let mut rows = no_rows();
    let short = SessionRecord { lease: Duration::from_secs(1), ..record(6, 1, 5) };
    put(&mut rows, "a", &short);
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    host.run(&mut rows, 0);
    assert_eq!(host.core.waits_until(), Some(ms(1_500)), "with half of it for the reads and the commits");
    host.run(&mut rows, 999);
    assert_eq!(stored(&rows, "a"), Some(short));
    host.run(&mut rows, 1_000);
    assert_eq!(host.take_events(), [SessionEvent::Opened { session: id("a", 7, 2) }]);
    assert_eq!(host.core.waits_until(), None);
}

#[test]
fn what_is_in_the_way_is_said_as_it_is_now_and_nothing_is_once_the_session_is_open() {
    let mut rows = no_rows();
    let mut host = Host::new("a", 7);
    host.feed(Input::Start);
    assert_eq!(host.core.obstacle(), Obstacle::Nothing);
    // The first read is never answered.
    host.requests.clear();
    host.sleep_to(1_000);
    assert_eq!(host.core.obstacle(), Obstacle::NoAnswer);
    host.answer_next(&mut rows);
    let (id, _) = host.take_commit();
    host.feed(Input::CommitDone { id, outcome: CommitOutcome::Unavailable("down".to_owned()) });
    assert_eq!(host.core.obstacle(), Obstacle::Unavailable("down".to_owned()));
    host.until_commit(&mut rows, 3_000);
    let (id, _) = host.take_commit();
    host.unknown(id);
    assert_eq!(host.core.obstacle(), Obstacle::NoAnswer);
    host.run(&mut rows, 4_000);
    assert_eq!(host.take_events(), [SessionEvent::Opened { session: super::id("a", 7, 1) }]);
    assert_eq!(host.core.obstacle(), Obstacle::Nothing);
}

#[test]
fn of_many_beats_that_are_not_answered_the_first_is_forgotten() {
    let mut rows = no_rows();
    let mut host = Host::new("a", 7);
    let mut config = config("a", 7);
    config.timing.beat_every = Duration::from_millis(100);
    host.core = Session::new(config).unwrap();
    host.feed(Input::Start);
    host.run(&mut rows, 0);
    let mut unknown = Vec::new();
    for _ in 0..65 {
        host.until_commit(&mut rows, 9_000);
        let (id, _) = host.take_commit();
        host.unknown(id);
        unknown.push(id);
    }
    let before = (host.core.clone(), host.until);
    let committed = |id| Input::CommitDone { id, outcome: CommitOutcome::Committed(rows.version()) };
    host.feed(committed(unknown[0]));
    assert_eq!((host.core.clone(), host.until), before);
    host.feed(committed(unknown[1]));
    assert!(host.until > before.1, "the second one is not");
}

#[test]
fn beats_are_as_seldom_as_is_configured_but_for_one_in_thirty() {
    let mut dues = std::collections::BTreeSet::new();
    for seed in 0..10 {
        let mut rows = no_rows();
        let mut host = Host::new("a", 7);
        host.core = Session::new(SessionConfig { seed, ..config("a", 7) }).unwrap();
        host.feed(Input::Start);
        host.run(&mut rows, 0);
        // Ten minutes, one beat every two seconds.
        host.run(&mut rows, 600_000);
        let beats = stored(&rows, "a").unwrap().beat.0 - 1;
        assert!((300..=310).contains(&beats), "{beats} of seed {seed}");
        dues.insert(host.core.own.due);
    }
    assert!(dues.len() > 1, "all nodes beat at once");
}
