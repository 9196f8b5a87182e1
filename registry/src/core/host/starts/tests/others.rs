//! Callers that wait for the starts of others.

use super::*;

/// Node b starts an actor for x under token 1, and call 1 waits for that.
fn waiting() -> Alone {
    let mut alone = Alone::new();
    alone.starting("b", 1);
    assert_eq!(alone.start(1), []);
    let number = alone.flush()[0].number;
    let holder = alone.replica.row("x").unwrap().holder();
    assert_eq!(alone.decided(number, Verdict::Taken { holder: Box::new(holder) }), []);
    alone
}

/// The replica has it, and the host does not look at it yet.
fn comes_to(alone: &mut Alone, op: Op) {
    let mut builder = BatchBuilder::default();
    builder.push(op);
    let (prev, at) = (alone.replica.end(), Position(2));
    let applied = alone.replica.apply(&builder.build(Epoch(1), Nonce(2), prev, at));
    alone.host.on_applied(&applied, &mut Vec::new());
}

fn freed() -> Op {
    Op::Unregister { name: "x".into(), position: Position(1), why: failed("on purpose") }
}

#[test]
fn who_asks_anew_after_the_start_of_another_has_its_whole_time_and_is_told_all_that_it_waited() {
    let mut alone = waiting();
    assert_eq!(alone.wake(Duration::from_secs(3)), []);
    assert_eq!(alone.apply("b", freed()), []);
    assert_eq!(alone.flush().len(), 1, "it asks for the name itself");
    assert_eq!(alone.wake(Duration::from_millis(4999)), []);
    let unknown = RegisterError::Unknown { name: "x".into(), waited: Duration::from_secs(8) };
    assert_eq!(alone.wake(Duration::from_millis(1)), end(unknown.into())[2..]);
}

#[test]
fn who_waits_for_a_start_that_has_just_ended_is_not_told_that_it_goes_on() {
    let mut alone = waiting();
    let (name, position, request) = ("x".into(), Position(1), RequestNumber(2));
    comes_to(&mut alone, Op::Bind { name, position, request, actor: 9, meta: None });
    assert_eq!(alone.wake(Duration::from_secs(20)), []);
    let told = alone.settle();
    let [_, Effect::Answer { answer: Answer::Started(Ok(StartedAs::Theirs(entry))), .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(entry.actor, Some(9));
}

#[test]
fn who_waits_for_a_start_of_this_node_asks_for_the_name_when_that_comes_to_nothing() {
    let mut alone = Alone::running();
    assert_eq!(alone.start(2), []);
    assert_eq!(alone.ended(brought(5)), [Effect::Watch { actor: 5 }]);
    let number = alone.flush()[0].number;
    // Another table does not have the name.
    let mut builder = BatchBuilder::default();
    builder.push(freed());
    let batch = builder.build(Epoch(1), Nonce(2), alone.replica.end(), Position(2));
    alone.replica.apply(&batch);
    alone.host.many_changed();
    assert_eq!((alone.settle(), alone.flush()), (vec![], vec![]), "first it has to be decided");
    let told = alone.decided(number, Verdict::NotHeld { holder: None });
    assert_eq!(told[0], Effect::Flag { claim: CallId(1) });
    let asked = alone.flush();
    assert_eq!((asked.len(), asked[0].wish.starts()), (1, true));
}
