use super::*;

fn disown(alone: &mut Alone, call: u64, token: u64, actor: u64) -> Vec<Effect> {
    let caller = Client::new(alone.now.time, CallId(call), WAIT);
    let (disowned, mut effects) = (Disowned { token: Position(token), actor }, Vec::new());
    alone.host.disown(caller, "x".into(), disowned, &alone.replica, &mut effects);
    effects
}

fn is_not_held(effect: &Effect) -> bool {
    matches!(effect, Effect::Answer { answer: Answer::Unregistered(Err(_)), .. })
}

#[test]
fn what_comes_to_an_actor_that_does_not_want_it_any_more_is_given_up() {
    let mut alone = Alone::taking(&["x"]);
    alone.hears("b", data(1, 4, "data"));
    // Not that of another actor, and of no other registration.
    for (token, actor) in [(1, 6), (2, 5)] {
        assert!(is_not_held(&disown(&mut alone, 7, token, actor)[0]));
    }
    assert!(is_not_held(&disown(&mut alone, 8, 1, 5)[0]), "it is not its own yet");
    let effects = alone.apply(vec![moved("x", 0, 1)]);
    assert!(effects.contains(&Effect::Unwatch { actor: 5 }), "{effects:?}");
    assert!(effects.contains(&Effect::Forget { claim: CallId(1) }), "{effects:?}");
    assert!(alone.host.claims().is_empty());
    let (position, why) = (Position(2), GivenUp::Unregistered);
    assert_eq!(alone.asked(), [("x".to_owned(), Wish::Unregister { position, why })]);
}

#[test]
fn what_has_come_to_an_actor_that_does_not_want_it_any_more_is_given_up() {
    let mut alone = Alone::taking(&["x"]);
    alone.hears("b", data(1, 4, "data"));
    alone.apply(vec![moved("x", 0, 1)]);
    for (token, actor) in [(1, 6), (2, 5)] {
        assert!(is_not_held(&disown(&mut alone, 7, token, actor)[0]), "it is what {actor} wants");
    }
    let effects = disown(&mut alone, 8, 1, 5);
    assert_eq!(effects[0], Effect::Flag { claim: CallId(1) });
    assert!(alone.host.claims().is_empty());
    let (position, why) = (Position(2), GivenUp::Unregistered);
    assert_eq!(alone.asked(), [("x".to_owned(), Wish::Unregister { position, why })]);
}

#[test]
fn an_actor_that_does_not_want_what_its_holder_has_not_given_yet_does_not_get_it() {
    let mut alone = Alone::taking(&["x"]);
    assert!(is_not_held(&disown(&mut alone, 8, 1, 5)[0]));
    alone.settle();
    assert_eq!(alone.hears("b", data(1, 4, "data")), [over(1)]);
}

#[test]
fn that_an_actor_does_not_want_a_name_is_heard_behind_what_is_to_be_done_before() {
    let mut alone = Alone::taking(&["x"]);
    alone.hears("b", data(1, 4, "data"));
    alone.host.on_actor_ended(99);
    assert_eq!(disown(&mut alone, 8, 1, 5), []);
    let effects = alone.settle();
    assert!(is_not_held(&effects[0]) && effects.len() == 1, "{effects:?}");
    alone.apply(vec![moved("x", 0, 1)]);
    let (position, why) = (Position(2), GivenUp::Unregistered);
    assert_eq!(alone.asked(), [("x".to_owned(), Wish::Unregister { position, why })]);
}
