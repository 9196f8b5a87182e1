//! What is undecided: it is asked again, it waits, and it is told in its time.

use super::*;

#[test]
fn what_is_undecided_is_asked_again_after_two_seconds_or_soon_if_it_was_not_sent() {
    let mut alone = Alone::new();
    alone.register(1, 5, "x");
    assert_eq!(alone.asks_one(), RequestNumber(1));
    assert_eq!((alone.wake(1999), alone.asks()), (vec![], vec![]));
    assert_eq!((alone.wake(1), alone.asks_one()), (vec![], RequestNumber(1)));
    alone.host.on_send_failed(alone.now.time);
    assert_eq!((alone.wake(99), alone.asks()), (vec![], vec![]));
    assert_eq!((alone.wake(1), alone.asks_one()), (vec![], RequestNumber(1)));
    alone.host.on_leader_linked();
    assert_eq!(alone.asks_one(), RequestNumber(1), "what was on the former link may be lost");
    // It is decided while it waits to be asked again: then it is not.
    alone.host.on_leader_linked();
    assert_eq!(alone.decided(RequestNumber(1), grant(0)), [registered(1, 0)]);
    assert_eq!(alone.asks(), []);
}

#[test]
fn a_verdict_counts_for_its_session_and_in_the_epoch_that_was_asked_last() {
    let mut alone = Alone::new();
    alone.register(1, 5, "x");
    let early = vec![(RequestNumber(1), grant(0))];
    alone.host.on_verdicts(Epoch(1), &session(1), Position(0), early.clone());
    let number = alone.asks_one();
    alone.host.on_verdicts(Epoch(2), &session(1), Position(0), early.clone());
    alone.host.on_verdicts(Epoch(1), &session(2), Position(0), early);
    assert_eq!(alone.settle(), []);
    assert_eq!(alone.decided(number, grant(0)), [registered(1, 0)]);
    assert_eq!(alone.decided(number, grant(0)), [], "once");
}

#[test]
fn a_member_that_does_not_have_all_names_or_has_something_else_to_do_asks_for_nothing() {
    let mut alone = Alone::new();
    alone.register(1, 5, "x");
    alone.is_synced = false;
    assert_eq!(alone.asks(), []);
    alone.is_synced = true;
    alone.host.on_actor_ended(99);
    assert_eq!(alone.asks(), []);
    assert!(alone.host.wants_a_turn());
    alone.settle();
    assert!(!alone.host.wants_a_turn());
    alone.leads = (true, false);
    assert_eq!(alone.asks(), []);
    alone.leads = (true, true);
    assert_eq!(alone.asks().len(), 1);
}

#[test]
fn who_waits_long_enough_is_told_whether_anything_was_asked_and_why_not() {
    let (synced, not_synced) = (true, false);
    let register = || RegisterError::NotSynced;
    for (is_sent, is_synced, leads, error, update) in [
        (true, synced, true, unknown(WAIT), None),
        (true, not_synced, false, unknown(WAIT), None),
        (false, not_synced, true, register(), Some(UpdateError::NotSynced)),
        (false, not_synced, false, register(), Some(UpdateError::NotSynced)),
        (false, synced, false, RegisterError::NoLeader, Some(UpdateError::NoLeader)),
        (false, synced, true, unknown(WAIT), None),
    ] {
        let after = |alone: &mut Alone| {
            if is_sent {
                assert_eq!(alone.asks().len(), 1);
            }
            (alone.is_synced, alone.leads.0) = (is_synced, leads);
            assert_eq!(alone.wake(4999), []);
            let told = alone.wake(1);
            assert_eq!(alone.wake(1), [], "once");
            alone.is_synced = true;
            told
        };
        let left = usize::from(is_sent);
        let mut alone = Alone::new();
        alone.register(1, 5, "x");
        let withdrawn = [refused(1, error.clone()), Effect::Unwatch { actor: 5 }, forget(1)];
        assert_eq!(after(&mut alone), withdrawn[..if is_sent { 1 } else { 3 }]);
        assert_eq!((alone.host.is_waiting(), alone.asks().len()), (is_sent, left));
        let mut alone = Alone::new();
        alone.start(1, "x", None);
        let withdrawn = [not_started(1, error.clone()), forget(1)];
        assert_eq!(after(&mut alone), withdrawn[..2 - left]);
        assert_eq!((alone.host.is_waiting(), alone.asks().len()), (is_sent, left));

        let name = "x".to_owned();
        let update = update.unwrap_or(UpdateError::Unknown { name, waited: WAIT });
        let mut alone = Alone::holding();
        alone.update(2, "x", 1);
        assert_eq!(after(&mut alone), [not_updated(2, update)]);
        assert_eq!(alone.asks().len(), left);
        // What is given up is given up in any case.
        let mut alone = Alone::holding();
        alone.unregister(2, "x", None);
        assert_eq!(after(&mut alone), [pending(2, WAIT)]);
        assert_eq!(alone.asks().len(), 1);
    }
}

#[test]
fn what_is_withdrawn_makes_room_for_the_next_call_and_for_the_end_of_its_actor() {
    let mut alone = Alone::new();
    alone.register(1, 5, "x");
    alone.wait = 2 * WAIT;
    alone.register(2, 6, "x");
    let told = alone.wake(5000);
    assert_eq!(told.last(), Some(&Effect::Watch { actor: 6 }));
    assert_eq!(alone.asks_one(), RequestNumber(2));

    let mut alone = Alone::holding();
    alone.update(2, "x", 1);
    alone.host.on_actor_ended(5);
    alone.settle();
    alone.wake(5000);
    assert_eq!(alone.wishes(), [gives_up(1, GivenUp::ActorEnded)]);
}

#[test]
fn each_call_that_waits_for_another_one_is_told_in_its_time() {
    let mut alone = Alone::holding();
    alone.update(2, "x", 1);
    assert_eq!(alone.asks().len(), 1);
    alone.wait = Duration::from_secs(1);
    let effects = [
        alone.register(3, 6, "x"),
        alone.start(4, "x", None),
        alone.unregister(5, "x", None),
        alone.update(6, "x", 1),
        alone.take(7, "x", 1),
    ];
    assert_eq!(effects.concat(), []);
    assert_eq!(alone.wake(999), []);
    let waited = Duration::from_secs(1);
    let taken = Answer::Taken(Err(unknown(waited).into()));
    let told = [
        forget(3),
        refused(3, unknown(waited)),
        forget(4),
        not_started(4, unknown(waited)),
        pending(5, waited),
        not_updated(6, UpdateError::Unknown { name: "x".into(), waited }),
        forget(7),
        answer(7, taken),
    ];
    assert_eq!(alone.wake(1), told);
    assert_eq!(alone.host.queued, Queues::default());
}

#[test]
fn calls_on_one_name_are_done_in_turn() {
    let mut alone = Alone::holding();
    alone.update(2, "x", 1);
    let first = alone.asks_one();
    let queued =
        [alone.update_at(3, "x", 1, Some(1)), alone.unregister(4, "x", Some(1)), alone.start(5, "x", None)];
    assert_eq!(queued.concat(), []);
    alone.apply(Op::Open);
    let told = alone.decided(first, Verdict::Updated { revision: Position(2) });
    assert_eq!(told, [answer(2, Answer::Updated(Ok(Position(2))))]);
    assert_eq!(alone.host.claims()["x"].revision, Position(2));
    let second = alone.asks_one();
    let told = alone.decided(second, Verdict::Moved { revision: Position(2) });
    let (expected, revision) = (Position(1), Position(2));
    assert_eq!(told[0], not_updated(3, UpdateError::Changed { name: "x".into(), expected, revision }));
    assert_eq!(told[1], Effect::Flag { claim: CallId(1) });
    let third = alone.asks();
    assert_eq!(third[0].wish, gives_up(1, GivenUp::Unregistered));
    let told = alone.decided(third[0].number, Verdict::Released);
    assert_eq!(told, [answer(4, Answer::Unregistered(Ok(Position(2))))]);
    assert!(alone.wishes()[0].starts());
}

#[test]
fn a_grant_waits_for_trust_longer_than_its_caller() {
    for is_late in [false, true] {
        let mut alone = Alone::new();
        alone.register(1, 5, "x");
        let number = alone.asks_one();
        let trusted = alone.now.trusted.take();
        assert_eq!(alone.decided(number, grant(0)), []);
        if is_late {
            assert_eq!(alone.wake(4999), []);
            assert_eq!(alone.wake(1), [refused(1, unknown(WAIT))]);
            assert_eq!(alone.wake(1), [], "once");
        }
        alone.now.trusted = trusted;
        assert_eq!(alone.settle(), if is_late { vec![] } else { vec![registered(1, 0)] });
        assert!(alone.host.claims().contains_key("x"));
    }
}

#[test]
fn a_grant_waits_until_a_snapshot_is_in_its_place() {
    let mut alone = Alone::new();
    alone.register(1, 5, "x");
    let number = alone.asks_one();
    alone.held("x", number);
    let (mut chunk, mut snapshot) = (Chunk::default(), Staged::default());
    chunk.push("x".into(), alone.replica.row("x"));
    snapshot.take(chunk).unwrap();
    let end = LogEnd { position: Position(2), nonce: Nonce(2) };
    assert!(alone.replica.install(snapshot, Epoch(1), end));
    assert_eq!(alone.decided(number, grant(1)), [], "a lookup does not find it yet");
    while alone.replica.is_busy() {
        assert_eq!(alone.settle(), []);
        alone.replica.proceed(1);
    }
    assert_eq!(alone.settle(), [registered(1, 1)]);
}

/// How many are answered when it is woken, and looks at so many.
fn answered_of(alone: &mut Alone, names: usize) -> usize {
    let around = Surroundings { leader: None, is_synced: true, has_leader: true };
    let mut effects = Vec::new();
    alone.host.on_wake(alone.now, names, around, &alone.replica, &mut effects);
    effects.iter().filter(|effect| matches!(effect, Effect::Answer { .. })).count()
}

#[test]
fn what_is_decided_and_what_waits_for_that_are_looked_at_in_one_step_that_has_room_for_both() {
    let mut alone = Alone::new();
    alone.register(1, 1, "x");
    alone.register(2, 2, "y");
    let verdicts = alone.asks().iter().map(|request| (request.number, grant(9))).collect();
    // The replica does not have them yet.
    alone.host.on_verdicts(Epoch(1), &session(1), Position(9), verdicts);
    assert_eq!([alone.register(3, 3, "x"), alone.register(4, 4, "y")].concat(), []);
    alone.now.time = alone.now.time + WAIT;
    assert_eq!((answered_of(&mut alone, 4), alone.host.is_looking()), (4, false));
}

#[test]
fn of_many_who_have_waited_too_long_for_one_name_as_many_are_told_as_a_step_looks_at() {
    let mut alone = Alone::holding();
    alone.update(2, "x", 1);
    assert_eq!(alone.asks().len(), 1);
    alone.wait = Duration::from_secs(1);
    for call in 10..1110 {
        assert_eq!(alone.register(call, 6, "x"), []);
    }
    alone.now.time = alone.now.time + alone.wait;
    // The update is looked at as well, and the calls of one name are looked at in two parts of 512.
    assert_eq!((answered_of(&mut alone, 1024), alone.host.is_looking()), (1024, true));
    assert_eq!((answered_of(&mut alone, 1024), alone.host.is_looking()), (76, false));
    assert_eq!(alone.host.queued, Queues::default());
}

#[test]
fn an_actor_that_ends_while_its_update_is_undecided_gives_the_name_up_when_that_is_decided() {
    let mut alone = Alone::holding();
    alone.update(2, "x", 1);
    let number = alone.asks_one();
    alone.host.on_actor_ended(5);
    alone.settle();
    assert_eq!(alone.asks(), [], "first it has to be decided");
    let told = alone.decided(number, Verdict::Updated { revision: Position(1) });
    assert_eq!(told, [answer(2, Answer::Updated(Ok(Position(1))))]);
    assert_eq!(alone.wishes(), [gives_up(1, GivenUp::ActorEnded)]);
}

#[test]
fn a_request_is_known_to_be_of_its_call_also_when_nobody_waits_for_it_any_more() {
    let mut alone = Alone::holding();
    alone.register(2, 6, "y");
    let registered = alone.asks_one();
    alone.unregister(3, "x", None);
    let given_up = alone.asks_one();
    let calls = |alone: &Alone| [registered, given_up].map(|number| alone.host.call_of(number));
    assert_eq!(calls(&alone), [Some(CallId(2)), Some(CallId(3))]);
    assert_eq!(alone.wake(5000).len(), 2);
    assert_eq!(calls(&alone), [Some(CallId(2)), None], "what is granted is a claim of its call");
    // The leader does not hear of a take by this node, and it has a call all the same.
    alone.take(4, "z", 1);
    let taken = RequestNumber(given_up.0 + 1);
    assert_eq!(alone.host.call_of(taken), Some(CallId(4)));
    alone.settle();
    assert_eq!(alone.host.call_of(taken), None);
}

#[test]
fn an_actor_is_watched_for_as_long_as_anything_is_asked_for_it() {
    let mut alone = Alone::new();
    alone.register(1, 5, "x");
    alone.register(2, 5, "y");
    let asked = alone.asks();
    let other_limit = || RegisterError::OtherLimit { limit: 3 };
    let told = alone.decided(asked[1].number, Verdict::OtherLimit { limit: 3 });
    assert_eq!(told, [forget(2), refused(2, other_limit())]);
    let told = alone.decided(asked[0].number, Verdict::OtherLimit { limit: 3 });
    assert_eq!(told, [Effect::Unwatch { actor: 5 }, forget(1), refused(1, other_limit())]);
}
