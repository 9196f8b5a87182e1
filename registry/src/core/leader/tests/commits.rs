//! What becomes of a batch.

use callsign_elector::record::Lineage;

use super::*;
use crate::core::why::GivenUp;

#[test]
fn what_was_seen_of_the_fence_stands_in_for_a_read_for_as_long_as_stores_remember_it() {
    let mut led = Led::elected(Tuning::default());
    let opening = led.opens(false, Vec::new());
    assert_eq!(seen_at(&opening), [None; 3], "nothing was seen yet");
    led.committed(&opening);
    for (names, after, seen) in
        [([(1, "v")], just_before(FENCE_AGE), Some(Version(7))), ([(2, "w")], FENCE_AGE, None)]
    {
        led.now = led.now + after;
        led.asks("a", &names);
        let asked = led.proceeds();
        assert_eq!(seen_at(&asked), [seen; 3], "{after:?} after it was seen");
        led.committed(&asked);
    }
    // Nobody knows what the store has after an attempt of which nobody knows what became of it.
    led.asks("a", &[(3, "x")]);
    let asked = led.proceeds();
    assert_eq!(seen_at(&asked), [Some(Version(7)); 3]);
    let (_, again) = led.ends(&asked, &CommitOutcome::Unknown);
    assert_eq!(seen_at(&again), [None; 3]);
    led.committed(&again);
    led.asks("a", &[(4, "y")]);
    let asked = led.proceeds();
    assert_eq!(led.wakes_after(just_before(UNANSWERED_AFTER)), []);
    assert_eq!(led.leader.wakes_at(), Some(led.now + MILLIS(1)));
    let again = led.wakes_after(MILLIS(1));
    assert_eq!((seen_at(&again), batch(&again)), (vec![None; 3], batch(&asked)));
    assert_eq!(led.committed(&asked), (Outcome::default(), vec![]), "it is late");
    // A conflict says that it was not so, and the read after it says what is.
    let (_, reading) = led.ends(&again, &CommitOutcome::Conflict);
    let mut fence = led.fence();
    fence.push(None);
    let (_, again) = led.reads(read(&reading).0, Some(&fence));
    assert_eq!(seen_at(&again), [Some(Version(8)); 3]);
    let (_, reading) = led.ends(&again, &CommitOutcome::Conflict);
    led.reads(read(&reading).0, None);
    let again = led.wakes_after(MILLIS(50));
    assert_eq!(seen_at(&again), [None; 3]);
    led.committed(&again);
}

#[test]
fn a_batch_that_resets_is_written_only_where_its_conditions_hold() {
    let mut led = Led::elected(Tuning::default());
    let condition = (b"row".to_vec(), Some(b"empty".to_vec()));
    let opening = led.opens(true, vec![condition.clone()]);
    assert_eq!(batch(&opening).ops, [Op::Reset, Op::Open]);
    let last = commit(&opening).1.checks.last().unwrap();
    assert_eq!((last.key.clone(), last.expected.clone(), last.seen_at), (condition.0, condition.1, None));
    // The fence is as it was, so it was the condition.
    let (_, reading) = led.ends(&opening, &CommitOutcome::Conflict);
    let mut fence = led.fence();
    fence.push(None);
    let (outcome, effects) = led.reads(read(&reading).0, Some(&fence));
    assert!(outcome.deposed && effects.is_empty() && !led.leader.is_open());
    let mut led = Led::elected(Tuning::default());
    assert_eq!(batch(&led.opens(false, Vec::new())).ops, [Op::Open]);
}

#[test]
fn a_commit_that_fails_is_tried_again_at_once_and_then_after_pauses_that_double() {
    let mut led = Led::open();
    for (nth, (first, pauses)) in [
        (CommitOutcome::Unknown, &[0, 50, 100, 200, 400, 400][..]),
        (UNAVAILABLE(), &[50, 100, 200, 400, 400]),
        // One that was committed ends the row.
        (CommitOutcome::Unknown, &[0, 50]),
    ]
    .into_iter()
    .enumerate()
    {
        led.asks("a", &[(nth as u64 + 1, ["x", "y", "z"][nth])]);
        let mut asked = led.proceeds();
        let first_batch = batch(&asked);
        for pause in pauses {
            let (_, again) = led.ends(&asked, &first);
            asked = if *pause == 0 {
                again
            } else {
                assert_eq!(again, []);
                let at = led.leader.next_heartbeat.min(led.now + MILLIS(*pause));
                assert_eq!(led.leader.wakes_at(), Some(at));
                let early = led.wakes_after(MILLIS(pause - 1));
                assert!(early.is_empty(), "{early:?}");
                led.wakes_after(MILLIS(1))
            };
            assert_eq!(batch(&asked), first_batch, "it is the same batch");
        }
        led.committed(&asked);
    }
}

#[test]
fn a_batch_that_a_store_refuses_as_too_large_is_halved_down_to_one_operation() {
    for (bytes, tried, order) in [
        // x and y were refused alone, and wait behind what may fit.
        (
            90_000,
            &[45_000, 22_500, 11_250, 5625, 2812, ONE_OPERATION, ONE_OPERATION, ONE_OPERATION][..],
            ["z", "x", "y", "w"],
        ),
        (3000, &[1500, ONE_OPERATION], ["x", "y", "z", "w"]),
    ] {
        let mut led = Led::open_with(Tuning { batch_bytes: bytes, ..Tuning::default() });
        led.asks("a", &[(1, "x"), (2, "y")]);
        led.asks("b", &[(1, "z")]);
        for (nth, next) in tried.iter().enumerate() {
            let asked = led.proceeds();
            let (_, effects) = led.ends(&asked, &TOO_LARGE);
            let reason = TooLarge { what: Piece::Value, size: 9, limit: 8 }.to_string();
            assert_eq!(effects, [Effect::Event(Event::BatchTooLarge { reason, tried_next: *next })]);
            // A store that refuses one operation is not hammered with it.
            let rest = [Duration::ZERO, STORE_RETRY][usize::from(nth == 7)];
            if rest > Duration::ZERO {
                assert_eq!(led.proceeds(), []);
                assert_eq!(led.leader.wakes_at(), Some(led.now + rest));
                led.now = led.now + rest;
            }
        }
        // Otherwise what was to be decided is decided in its order, and ahead of what came since.
        led.asks("c", &[(1, "w")]);
        let mut decided = Vec::new();
        for _ in 0..4 {
            let asked = led.proceeds();
            decided.extend(names(&asked));
            led.committed(&asked);
        }
        assert_eq!(decided, order);
    }
}

#[test]
fn nothing_is_decided_for_a_session_that_was_closed_while_its_batch_was_refused() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    led.asks("b", &[(1, "y")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["x", "y"]);
    led.sees_closed("a");
    led.ends(&asked, &TOO_LARGE);
    assert_eq!(names(&led.proceeds()), ["y"]);
}

#[test]
fn an_answer_without_an_entry_waits_for_a_read_of_the_fence() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.committed(&asked);
    led.asks("b", &[(1, "x")]);
    let reading = led.proceeds();
    let (id, keys) = read(&reading);
    assert_eq!((keys, led.leader.wakes_at()), (3, Some(led.leader.next_heartbeat)));
    led.asks("c", &[(1, "y")]);
    assert_eq!(led.proceeds(), [], "one thing is in flight at a time");
    let fence = led.fence();
    assert_eq!(led.reads(OpId(id.0 + 50), Some(&fence)), (Outcome::default(), vec![]), "of another one");
    // One that fails is asked again after a moment.
    assert_eq!(led.reads(id, None), (Outcome::default(), vec![]));
    assert_eq!(led.leader.wakes_at(), Some(led.leader.next_heartbeat.min(led.now + STORE_RETRY)));
    assert_eq!(led.wakes_after(just_before(STORE_RETRY)), []);
    let again = led.wakes_after(MILLIS(1));
    assert_eq!(led.reads(id, Some(&fence)), (Outcome::default(), vec![]), "it is late");
    assert_eq!(led.wakes_after(just_before(UNANSWERED_AFTER)), []);
    let third = led.wakes_after(MILLIS(1));
    assert_eq!(led.reads(read(&again).0, Some(&fence)), (Outcome::default(), vec![]), "it is late");
    let (outcome, effects) = led.reads(read(&third).0, Some(&fence));
    assert_eq!((outcome, verdicts(&effects)), (Outcome::default(), vec![("b".to_owned(), vec![1])]));
    // What the read has shown counts for what is written next.
    let asked = led.proceeds();
    assert_eq!((names(&asked), seen_at(&asked)), (vec!["y".to_owned()], vec![Some(Version(8)); 3]));
    led.committed(&asked);
    // Another leads: nobody is answered.
    led.asks("b", &[(2, "x")]);
    let (id, _) = read(&led.proceeds());
    for at in 0..3 {
        let mut fence = led.fence();
        fence[at] = Some(b"of another".to_vec());
        let mut led = Led { leader: led.leader.clone(), replica: led.replica.clone(), ..Led::open() };
        let (outcome, effects) = led.reads(id, Some(&fence));
        assert!(outcome.deposed && effects.is_empty());
    }
}

#[test]
fn after_a_conflict_the_log_says_whose_batch_it_has() {
    let conflict = || {
        let mut led = Led::open();
        led.asks("a", &[(1, "x")]);
        let asked = led.proceeds();
        let (_, reading) = led.ends(&asked, &CommitOutcome::Conflict);
        let (id, keys) = read(&reading);
        assert_eq!((keys, led.leader.wakes_at().is_some()), (4, true));
        (led, batch(&asked), id)
    };
    let with = |led: &Led, batch: Option<&Batch>| {
        let mut values = led.fence();
        if let Some(batch) = batch {
            values[1] = batch.end().to_record();
        }
        values.push(batch.map(|batch| batch.encode().to_vec()));
        values
    };
    // It is its own: it is committed, also if another one leads by now.
    let (mut led, own, id) = conflict();
    let values = with(&led, Some(&own));
    assert_eq!(led.reads(OpId(id.0 + 50), Some(&values)), (Outcome::default(), vec![]), "of another one");
    let (outcome, effects) = led.reads(id, Some(&values));
    assert!(!outcome.deposed && verdicts(&effects) == [("a".to_owned(), vec![1])]);
    let (mut led, own, id) = conflict();
    let mut values = with(&led, Some(&own));
    values[0] = Some(b"of another".to_vec());
    let (outcome, effects) = led.reads(id, Some(&values));
    assert!(outcome.deposed && verdicts(&effects) == [("a".to_owned(), vec![1])]);
    // It is another's.
    for another in [
        |own: Batch| Batch { nonce: Nonce(own.nonce.0 ^ 1), ..own },
        |own: Batch| Batch { epoch: Epoch(own.epoch.0 + 1), ..own },
    ] {
        let (mut led, own, id) = conflict();
        let values = with(&led, Some(&another(own)));
        let (outcome, effects) = led.reads(id, Some(&values));
        assert!(outcome.deposed && effects.is_empty());
        assert_eq!(led.replica.position(), Position(1));
    }
    // It is nobody's: it is written again. A record of the lineage that says more is taken as it is.
    let (mut led, own, id) = conflict();
    let mut values = with(&led, None);
    let lineage = Lineage { greatest_lease: MILLIS(9000), ..Lineage::default() }.to_value();
    values[2] = Some(lineage.clone());
    let (outcome, again) = led.reads(id, Some(&values));
    assert_eq!((outcome, batch(&again)), (Outcome::default(), own));
    assert_eq!(commit(&again).1.checks[2].expected, Some(lineage));
    // Nobody says: it is written again after a moment, by which all is known.
    let (mut led, own, id) = conflict();
    assert_eq!(led.reads(id, None), (Outcome::default(), vec![]));
    assert_eq!(batch(&led.wakes_after(STORE_RETRY)), own);
    let (mut led, own, _) = conflict();
    assert_eq!(led.wakes_after(just_before(UNANSWERED_AFTER)), []);
    assert_eq!(batch(&led.wakes_after(MILLIS(1))), own);
}

#[test]
fn a_leader_whose_batch_came_back_from_its_successor_answers_and_stops() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.replica.apply(&batch(&asked));
    let (outcome, effects) = led.committed(&asked);
    assert!(outcome.deposed && !outcome.opened);
    assert_eq!(verdicts(&effects), [("a".to_owned(), vec![1])]);
    assert_eq!(effects.len(), 1, "nobody else is told of it by this one");
}

#[test]
fn members_are_told_of_the_opening_and_of_each_batch_and_when_idle_where_the_log_ends() {
    let mut led = Led::elected(Tuning::default());
    led.members = vec![node("a"), node("b")];
    let mut effects = Vec::new();
    led.leader.welcome(&led.replica, &node("a"), &mut effects);
    assert_eq!(effects, [], "it is not open");
    assert_eq!(led.wakes_after(HEARTBEAT), []);
    let opening = led.opens(false, Vec::new());
    let (id, written) = (commit(&opening).0, batch(&opening));
    let (_, effects) = led.committed(&opening);
    let batches = vec![(Position(1), written.encode())];
    let told = |name: &str, message: Message| Effect::send(node(name), message);
    let snapshot = Message::ApplyNamesSnapshot { epoch: Epoch(5), batches };
    assert_eq!(effects, [told("a", snapshot.clone()), told("b", snapshot)]);
    assert_eq!(led.leader.remembered(Position(0)), [(Position(1), written.encode())]);
    led.leader.welcome(&led.replica, &node("a"), &mut Vec::new());
    let heartbeat =
        |led: &Led, name: &str| told(name, Message::Heartbeat { epoch: Epoch(5), end: led.replica.end() });
    let mut welcome = Vec::new();
    led.leader.welcome(&led.replica, &node("a"), &mut welcome);
    assert_eq!(welcome, [heartbeat(&led, "a")]);
    assert_eq!(led.wakes_after(MILLIS(0)), [heartbeat(&led, "a"), heartbeat(&led, "b")]);
    assert_eq!(led.leader.wakes_at(), Some(led.now + HEARTBEAT));
    assert_eq!(led.wakes_after(just_before(HEARTBEAT)), []);
    assert_eq!(led.wakes_after(MILLIS(1)).len(), 2);
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    assert_eq!(led.leader.batch_operations(), Some(1));
    let mut turn_effects = Vec::new();
    let mut turn = Turn::new(led.now, &led.keys, &mut led.next_op, &mut turn_effects);
    let committed = CommitOutcome::Committed(Version(7));
    let late = led.leader.on_commit(&mut turn, &mut led.replica, id, &committed, &led.members);
    assert_eq!((late, turn_effects), (Outcome::default(), vec![]), "that of the opening again");
    let (_, effects) = led.committed(&asked);
    let replicate = |name: &str| {
        let (epoch, position, batch) = (Epoch(5), Position(2), batch(&asked).encode());
        told(name, Message::Replicate { epoch, position, batch })
    };
    assert_eq!(effects[..2], [replicate("a"), replicate("b")]);
    assert_eq!(verdicts(&effects[2..]), [("a".to_owned(), vec![1])]);
    assert_eq!(led.leader.remembered(Position(0)).len(), 2);
}

#[test]
fn each_batch_of_each_term_has_a_nonce_of_its_own() {
    let mut led = Led::open();
    let first = led.replica.end().nonce;
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    assert_ne!(batch(&asked).nonce, first);
}

#[test]
fn whatever_a_batch_that_was_too_large_was_to_decide_is_decided_later() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x"), (2, "y")]);
    let asked = led.proceeds();
    led.committed(&asked);
    let position = Position(2);
    let unregister = Wish::Unregister { position, why: GivenUp::Unregistered };
    let update = Wish::Update { position, revision: None, meta: None };
    led.wishes("a", 3, vec![(3, "x", unregister), (4, "y", update)]);
    let asked = led.proceeds();
    let refused = batch(&asked).ops;
    assert_eq!(refused.len(), 2);
    led.ends(&asked, &TOO_LARGE);
    let again = led.proceeds();
    assert_eq!(batch(&again).ops, refused);
    let (_, effects) = led.committed(&again);
    assert_eq!(verdicts(&effects), [("a".to_owned(), vec![3, 4])]);
}

#[test]
fn an_opening_of_which_nobody_knows_what_became_of_it_is_written_again_at_once() {
    let mut led = Led::elected(Tuning::default());
    let opening = led.opens(false, Vec::new());
    let (outcome, again) = led.ends(&opening, &CommitOutcome::Unknown);
    assert_eq!((outcome, batch(&again)), (Outcome::default(), batch(&opening)));
    let (outcome, _) = led.committed(&again);
    assert!(outcome.opened && led.leader.is_open());
}
