//! How much may be asked for at once, and what waits for its turn.

use super::*;
use crate::core::{
    message::MESSAGE_BYTES,
    permitted::Permitted,
    taking::{Taker, Taking},
};

/// Metadata of so many bytes.
fn meta(bytes: usize) -> Meta {
    let meta = Meta::new(&"x".repeat(bytes - 3)).unwrap();
    assert_eq!(meta.as_bytes().len(), bytes);
    meta
}

#[test]
fn requests_and_their_metadata_are_counted_wherever_they_wait_and_too_many_are_refused() {
    let (mut alone, meta) = (Alone::holding(), meta(4096));
    let with = || Some(meta.clone());
    // One start runs, and one waits for it.
    alone.start(2, "s", with());
    let number = alone.asks_one();
    let (request, kind, actor) = (number, Kind(7), None);
    alone.apply(Op::Register { name: "s".into(), session: 0, request, actor, kind, meta: None });
    let started = alone.decided(number, grant(2));
    assert!(matches!(started[..], [Effect::Start { .. }]), "{started:?}");
    assert_eq!(alone.start(3, "s", with()), []);
    // One is decided, and its replica is not there. One waits for another one.
    alone.register_with(4, 6, "d", with());
    let number = alone.asks_one();
    alone.host.on_verdicts(Epoch(1), &session(1), Position(9), vec![(number, grant(9))]);
    alone.register_with(5, 7, "d", with());
    // One is taken, and has the data.
    alone.take(6, "x", 1);
    let (session, data) = (Arc::new(session(1)), vec![0; 4096].into());
    let taker = Taker { session: session.clone(), number: RequestNumber(number.0 + 1) };
    let handed = Taking::Data { taker, holder: session, consent: 1, data };
    let (mut effects, permitted) = (Vec::new(), Permitted::new(node("a")));
    alone.host.on_taking(alone.now, &node("a"), handed, &alone.replica, &permitted, &mut effects);
    assert_eq!(effects.len(), 1);
    // 16 384 have as many bytes as there may be. The last one waits for its turn.
    let register = |alone: &mut Alone, nth, meta| alone.register_with(nth, nth, &format!("n{nth}"), meta);
    for nth in 100..100 + 16_384 - 6 {
        register(&mut alone, nth, with());
    }
    alone.host.on_actor_ended(99);
    register(&mut alone, 7, with());
    assert_eq!(alone.host.overload(None), None);
    assert_eq!(alone.host.overload(Some(&self::meta(300))), Some(16_384));
    alone.settle();
    // 100 000 are as many as there may be, however little they bring. The last one waits for its turn.
    for nth in 20_000..20_000 + 99_999 - 16_384 {
        register(&mut alone, nth, None);
    }
    assert_eq!(alone.host.overload(None), None);
    alone.host.on_actor_ended(99);
    register(&mut alone, 8, None);
    assert_eq!(alone.host.overload(None), Some(100_000));
    assert_eq!(alone.settle(), [Effect::Watch { actor: 8 }]);
    let overloaded = || RegisterError::Overloaded { pending: 100_000 };
    assert_eq!(alone.register(9, 9, "y"), [forget(9), refused(9, overloaded())]);
    assert_eq!(alone.start(9, "y", None), [forget(9), not_started(9, overloaded())]);
    let taken = Answer::Taken(Err(overloaded().into()));
    assert_eq!(alone.take(9, "y", 1), [forget(9), answer(9, taken)]);
    assert_eq!(alone.update(9, "x", 1), [not_updated(9, UpdateError::Overloaded { pending: 100_000 })]);
}

#[test]
fn a_message_has_no_more_bytes_than_it_may() {
    let mut alone = Alone::new();
    let empty =
        Request { number: RequestNumber(1), name: "n000".into(), wish: gives_up(1, GivenUp::Unregistered) };
    let meta = meta(4096 - empty.weight());
    for nth in 0..129 {
        alone.register_with(nth, nth, &format!("n{nth:03}"), Some(meta.clone()));
    }
    let messages = alone.messages();
    assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [128, 1]);
    assert_eq!(messages[0].iter().map(Request::weight).sum::<usize>(), MESSAGE_BYTES);
}

#[test]
fn what_is_called_while_something_else_is_to_be_done_waits_for_its_turn() {
    let mut alone = Alone::holding();
    alone.host.on_actor_ended(99);
    assert_eq!([alone.update(2, "x", 1), alone.unregister(3, "x", None)].concat(), []);
    assert!(alone.host.is_registering() && alone.host.is_waiting());
    assert_eq!(alone.settle(), [], "the second one waits for the first");
    assert!(!alone.host.is_registering());
    let number = alone.asks_one();
    let told = alone.decided(number, Verdict::Updated { revision: Position(1) });
    assert_eq!(told[..2], [answer(2, Answer::Updated(Ok(Position(1)))), Effect::Flag { claim: CallId(1) }]);
    alone.host.on_actor_ended(99);
    assert_eq!(alone.register(4, 6, "y"), []);
    assert!(alone.host.is_registering(), "one that waits is one");
    // Behind the end of the session nothing is held any more.
    let mut alone = Alone::holding();
    alone.host.on_session_lost(alone.now.time);
    assert_eq!([alone.update(2, "x", 1), alone.unregister(3, "x", None)].concat(), []);
    let told = alone.settle();
    let not_held =
        UpdateError::NotHeld { name: "x".into(), holder: alone.replica.row("x").map(|row| row.entry()) };
    assert_eq!(told[told.len() - 2], not_updated(2, not_held));
    let last = told.last();
    assert!(matches!(last, Some(Effect::Answer { call: CallId(3), answer: Answer::Unregistered(Err(_)) })));
}

#[test]
fn there_is_nothing_more_to_send_when_there_is_nobody_to_send_it_to() {
    let mut alone = Alone::new();
    for nth in 0..2049 {
        alone.register(nth, nth, &format!("n{nth}"));
    }
    assert_eq!((alone.asks().len(), alone.host.has_more_to_send()), (2048, true));
    alone.leads.1 = false;
    assert_eq!((alone.asks().len(), alone.host.has_more_to_send()), (0, false));
    alone.leads.1 = true;
    assert_eq!((alone.asks().len(), alone.host.has_more_to_send()), (1, false));
}

#[test]
fn many_calls_that_waited_for_one_name_are_answered_in_parts_and_in_their_order() {
    let mut alone = Alone::holding();
    alone.update(2, "x", 1);
    let number = alone.asks_one();
    for call in 10..2010 {
        assert_eq!(alone.register(call, 5, "x"), []);
    }
    let (at, mut effects) = (alone.replica.position(), Vec::new());
    let verdicts = vec![(number, Verdict::Updated { revision: at })];
    alone.host.on_verdicts(Epoch(1), &session(1), at, verdicts);
    alone.host.settle(alone.now, &alone.replica, &mut effects);
    let answered = |effects: &[Effect]| -> Vec<u64> {
        let call = |effect: &Effect| match effect {
            Effect::Answer { call, .. } => Some(call.0),
            _ => None,
        };
        effects.iter().filter_map(call).collect()
    };
    let mut told = answered(&effects);
    assert!(told.len() < 1000 && alone.host.wants_a_turn(), "{}", told.len());
    // A call that comes meanwhile is behind them.
    assert_eq!(alone.register(3000, 5, "x"), []);
    told.extend(answered(&alone.settle()));
    assert_eq!(told, [2].into_iter().chain(10..2010).chain([3000]).collect::<Vec<u64>>());
    assert_eq!(alone.asks(), [], "it is held here");
}

#[test]
fn calls_behind_one_that_asks_for_something_wait_for_that_also_when_they_are_many() {
    let calls = |effects: &[Effect]| -> Vec<u64> {
        let call = |effect: &Effect| match effect {
            Effect::Answer { call, .. } => Some(call.0),
            _ => None,
        };
        effects.iter().filter_map(call).collect()
    };
    let mut alone = Alone::holding();
    alone.update(2, "x", 1);
    let number = alone.asks_one();
    for call in 10..526 {
        assert_eq!(alone.register(call, 5, "x"), []);
    }
    assert_eq!(alone.unregister(600, "x", None), []);
    for call in 601..604 {
        assert_eq!(alone.register(call, 6, "x"), []);
    }
    let (at, mut effects) = (alone.replica.position(), Vec::new());
    alone.host.on_verdicts(Epoch(1), &session(1), at, vec![(number, Verdict::Updated { revision: at })]);
    alone.host.settle(alone.now, &alone.replica, &mut effects);
    // The update, and 512 at a time.
    assert_eq!(calls(&effects), [2].into_iter().chain(10..522).collect::<Vec<u64>>());
    let mut parts = Vec::new();
    while alone.host.is_busy() && parts.len() < 9 {
        let mut effects = Vec::new();
        alone.host.proceed(alone.now, 2, &alone.replica, &mut effects);
        parts.push(calls(&effects));
    }
    assert_eq!(parts, [vec![522, 523], vec![524, 525], vec![]]);
    let number = alone.asks_one();
    let released = answer(600, Answer::Unregistered(Ok(at)));
    assert_eq!(alone.decided(number, Verdict::Released), [released, Effect::Watch { actor: 6 }]);
    assert_eq!(alone.host.queued.count(), 2);
    let next = alone.host.queued.pop(&"x".into());
    assert_eq!(next.map(|call| call.caller().call), Some(CallId(602)));
}
