//! What becomes of those who hold names, and of those who wait: by a lapse, a loss, the end of an actor, and a node that leaves.

use super::*;

#[test]
fn an_actor_is_treated_as_each_of_its_claims_says_at_each_lapse_and_when_they_are_lost() {
    let mut alone = Alone::holding_each(&[("x", 5, OnLapse::Stop), ("y", 5, OnLapse::Suspend)]);
    for _ in 0..2 {
        alone.host.on_session_lapsed(session(1));
        alone.host.on_session_lapsed(session(1));
        assert_eq!(alone.slices().concat(), [notify(5, &[2], Notice::Lapsed), Effect::Stop { actor: 5 }]);
        alone.host.on_session_resumed(session(1));
        alone.host.on_session_resumed(session(1));
        assert_eq!(alone.slices().concat(), [notify(5, &[2], Notice::Resumed)]);
    }
    alone.host.drop_all_claims(&mut Vec::new());
    let (x, y) = (CallId(1), CallId(2));
    let lost = |name: &str| Effect::Event(Event::ClaimLost { name: name.into() });
    let all = [
        Effect::Flag { claim: x },
        Effect::Flag { claim: y },
        notify(5, &[2], Notice::Lost),
        Effect::Stop { actor: 5 },
        Effect::Unwatch { actor: 5 },
        Effect::Forget { claim: x },
        Effect::Forget { claim: y },
        lost("x"),
        lost("y"),
    ];
    assert_eq!(alone.slices().concat(), all);
    alone.compare_at(1000);
    alone.compare_at(2000);
    assert!(!alone.host.is_busy(), "it holds what the log says: nothing");
}

#[test]
fn an_actor_with_more_names_than_a_slice_has_loses_them_all() {
    let mut alone = Alone::holding(&[("x", 5), ("y", 5), ("z", 5)], OnLapse::Stop);
    alone.host.on_session_lost(alone.now().time);
    let (flag, forget) = (|id| Effect::Flag { claim: CallId(id) }, |id| Effect::Forget { claim: CallId(id) });
    let stop = || Effect::Stop { actor: 5 };
    assert_eq!(alone.slice(), [flag(1), flag(2), stop(), forget(1), forget(2)]);
    assert_eq!(alone.slice(), [flag(3), stop(), Effect::Unwatch { actor: 5 }, forget(3)]);
}

#[test]
fn an_actor_that_ends_gives_up_all_that_it_holds_or_is_granted_yet() {
    let freed = |alone: &mut Alone| {
        let wish = Wish::Unregister { position: Position(7), why: GivenUp::ActorEnded };
        let asked = alone.requests();
        assert!(asked.iter().all(|request| request.wish == wish), "{asked:?}");
        asked.len()
    };
    let mut alone = Alone::holding(&[("x", 5), ("y", 5), ("z", 5)], OnLapse::Stop);
    alone.host.on_actor_ended(5);
    alone.slices();
    assert_eq!((alone.host.claims().len(), freed(&mut alone)), (0, 3));

    let mut alone = Alone::new();
    for name in ["q", "r", "s", "t", "u"] {
        alone.register(name, 5, OnLapse::Stop);
    }
    let asked = alone.flush();
    alone.host.on_actor_ended(5);
    alone.slices();
    let verdicts = asked.into_iter().map(|number| (number, granted())).collect();
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), verdicts);
    let told = alone.settle();
    let ended = |call| {
        let (call, answer) = (CallId(call), Answer::Registered(Err(RegisterError::ActorEnded)));
        [Effect::Forget { claim: call }, Effect::Answer { call, answer }]
    };
    assert_eq!(told, [ended(1), ended(2), ended(3), ended(4), ended(5)].concat());
    assert_eq!((alone.host.claims().len(), freed(&mut alone)), (0, 5));
}

#[test]
fn calls_that_wait_for_their_turn_are_done_some_at_a_time() {
    let mut alone = Alone::new();
    alone.host.on_actor_ended(99);
    for (name, actor) in THREE {
        alone.register(name, actor, OnLapse::Stop);
    }
    let watch = |actor| Effect::Watch { actor };
    assert_eq!(alone.slice(), [watch(5), watch(6)]);
    assert_eq!(alone.slice(), [watch(7)]);
    assert_eq!(alone.host.duties, Duties::default());
}

#[test]
fn a_node_that_leaves_refuses_what_was_not_sent_and_goes_on_with_the_rest() {
    let mut alone = Alone::new();
    let first = alone.register("x", 5, OnLapse::Stop);
    alone.host.turn_away(Vec::new());
    let draining = Answer::Registered(Err(RegisterError::Draining { ask: vec![] }));
    let told = [
        Effect::Answer { call: first, answer: draining },
        Effect::Unwatch { actor: 5 },
        Effect::Forget { claim: first },
    ];
    assert_eq!((alone.slices(), alone.flush()), (vec![told.to_vec()], vec![]), "it takes one turn");

    let mut alone = Alone::holding(&[("x", 5)], OnLapse::Stop);
    let call = alone.register("w", 8, OnLapse::Suspend);
    let sent = alone.flush();
    let caller = Client::new(alone.now().time, CallId(9), Duration::from_secs(5));
    alone.host.unregister(caller, "x".into(), None, &alone.replica, &mut Vec::new());
    alone.host.turn_away(Vec::new());
    assert_eq!(alone.slices().concat(), []);
    assert!(matches!(alone.requests()[..], [Request { wish: Wish::Unregister { .. }, .. }]));
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), vec![(sent[0], granted())]);
    let told = alone.settle();
    assert_eq!(told[0], notify(8, &[call.0], Notice::Draining), "it is told as those who held before");
    assert!(matches!(told[1..], [Effect::Answer { answer: Answer::Registered(Ok(_)), .. }]), "{told:?}");
}

#[test]
fn each_call_that_waits_for_another_one_is_told_that_the_session_is_lost() {
    let mut alone = Alone::holding(&[("x", 5)], OnLapse::Stop);
    let (now, name) = (alone.now(), || Name::from("x"));
    let caller = |call| Client::new(now.time, CallId(call), Duration::from_secs(5));
    let change = || MetaChange { token: Position(7), revision: None, meta: None };
    let (kind, on_lapse, on_take) = (Kind(1), OnLapse::Stop, OnTake::default());
    let mut effects = Vec::new();
    let (host, replica) = (&mut alone.host, &alone.replica);
    host.update(now, caller(2), name(), change(), replica, &mut effects);
    let registrant = Registrant { actor: 6, kind, on_lapse, on_take, meta: None };
    host.register(now, caller(3), name(), registrant, &mut effects);
    let (limit, wait, until) = (Duration::from_secs(1), Duration::from_secs(5), now.time);
    let starter = crate::core::host::Starter { kind, on_lapse, on_take, meta: None, limit, wait, until };
    host.start(now, caller(4), name(), starter, replica, &mut effects);
    host.unregister(caller(5), name(), None, replica, &mut effects);
    host.update(now, caller(6), name(), change(), replica, &mut effects);
    let wanted = crate::core::host::Wanted { token: Position(7), actor: 7, kind, on_lapse, on_take };
    host.take(now, caller(7), name(), wanted, replica, &mut effects);
    assert_eq!(effects, []);
    alone.host.on_session_lost(now.time);
    let slices = alone.slices();
    let answers = |slice: &Vec<Effect>| slice.iter().filter(|it| matches!(it, Effect::Answer { .. })).count();
    assert!(slices.iter().all(|slice| answers(slice) <= 2), "{slices:?}");
    let told = slices.concat();
    let lost = || RegisterError::SessionLost { name: "x".into() };
    let not_updated = || Answer::Updated(Err(UpdateError::SessionLost { name: "x".into() }));
    let answer = |call, answer| Effect::Answer { call: CallId(call), answer };
    let forget = |call| Effect::Forget { claim: CallId(call) };
    let all = [
        answer(2, not_updated()),
        forget(3),
        answer(3, Answer::Registered(Err(lost()))),
        forget(4),
        answer(4, Answer::Started(Err(lost().into()))),
        answer(5, not_held(&name(), None)),
        answer(6, not_updated()),
        forget(7),
        answer(7, Answer::Taken(Err(lost().into()))),
    ];
    assert_eq!(told[told.len() - all.len()..], all);
    // Nothing of it is asked for in the next session.
    alone.host.on_session_opened(session(2));
    alone.slices();
    assert_eq!(alone.flush(), []);
    assert!(!alone.host.is_waiting());
}

#[test]
fn all_that_is_undecided_ends_with_the_session_and_may_be_asked_for_in_the_next_one() {
    let mut alone = Alone::new();
    let calls = THREE.map(|(name, actor)| alone.register(name, actor, OnLapse::Stop));
    alone.flush();
    alone.host.on_session_lost(alone.now().time);
    let lost = |(call, (name, actor)): (CallId, (&str, u64))| {
        let answer = Answer::Registered(Err(RegisterError::SessionLost { name: name.into() }));
        [Effect::Unwatch { actor }, Effect::Forget { claim: call }, Effect::Answer { call, answer }]
    };
    let all: Vec<_> = calls.into_iter().zip(THREE).flat_map(lost).collect();
    assert_eq!(alone.slices().concat(), all);
    assert!(!alone.host.is_waiting() && !alone.host.is_registering());
    alone.host.on_session_opened(session(2));
    alone.slices();
    alone.trusted = Some(SessionNumber(2));
    for (name, actor) in THREE {
        alone.register(name, actor, OnLapse::Stop);
    }
    assert_eq!(alone.flush().len(), 3);
}

#[test]
fn an_actor_whose_turn_comes_when_the_one_before_it_has_ended_is_told_of_all_its_names() {
    let mut alone = Alone::holding(&[("x", 5), ("y", 5), ("z", 5), ("a", 6)], OnLapse::Suspend);
    alone.host.on_session_lapsed(session(1));
    assert_eq!(alone.slice(), [notify(5, &[1, 2], Notice::Lapsed)], "there is more to say to it");
    alone.host.on_actor_ended(5);
    let told = alone.slices().concat();
    let said: Vec<_> = told.iter().filter(|effect| matches!(effect, Effect::Notify { .. })).collect();
    assert_eq!(said, [&notify(6, &[4], Notice::Lapsed)]);
}

#[test]
fn as_many_as_a_slice_has_are_told_at_a_time_that_their_session_is_lost() {
    let mut alone = Alone::new();
    for (name, actor) in [("v", 4), ("w", 5), ("x", 6), ("y", 7)] {
        alone.register(name, actor, OnLapse::Stop);
    }
    alone.host.on_session_lost(alone.now().time);
    let answers = |slice: &Vec<Effect>| slice.iter().filter(|it| matches!(it, Effect::Answer { .. })).count();
    let told: Vec<usize> = alone.slices().iter().map(answers).filter(|answers| *answers > 0).collect();
    assert_eq!(told, [2, 2]);
}
