//! Requests, and the sessions that they belong to.

use super::*;
use crate::core::{group::GroupId, leader::requests::WAITING, why::GivenUp};

#[test]
fn a_request_is_decided_once_and_told_again_until_its_host_acknowledges_it() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    led.asks("a", &[(1, "x"), (2, "y")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["x", "y"]);
    led.asks("a", &[(1, "x")]);
    let (_, effects) = led.committed(&asked);
    assert_eq!(verdicts(&effects), [("a".to_owned(), vec![1, 2])]);
    assert_eq!(led.proceeds(), [], "it was a copy");
    assert_eq!(verdicts(&led.asks("a", &[(2, "y"), (1, "x")])), [("a".to_owned(), vec![2, 1])]);
    // It knows of the first one.
    let again = led.wishes("a", 2, vec![(1, "x", register()), (2, "y", register())]);
    assert_eq!(verdicts(&again), [("a".to_owned(), vec![2])]);
    assert_eq!(led.leader.hosts[&*session("a")].decided.len(), 1, "nobody asks for the other one again");
    assert_eq!(led.proceeds(), []);
}

#[test]
fn a_session_is_served_once_it_was_read_open() {
    let mut led = Led::open();
    for name in ["d", "e"] {
        led.permitted.linked(&node(name), Permits::default());
    }
    let concerned = |names: &[&str]| Effect::Tell(Tell::Concerned(names.iter().copied().map(node).collect()));
    let refresh = Effect::Tell(Tell::Refresh);
    assert_eq!(led.asks("d", &[(1, "x")]), [concerned(&["d"]), refresh.clone()]);
    assert_eq!(led.asks("e", &[(1, "y")]), [concerned(&["d", "e"]), refresh.clone()]);
    assert_eq!(led.asks("e", &[(2, "z")]), [refresh], "they are known to be of concern");
    assert_eq!(led.proceeds(), []);
    led.view.sessions.insert(node("d"), Some(record(1, true)));
    assert_eq!(led.sees(), []);
    assert_eq!(names(&led.proceeds()), ["x"]);
    // Members are read anyway, and one that was read open is not asked for.
    assert_eq!(led.asks("d", &[(2, "w")]), []);
    assert_eq!(led.sees_closed("e"), [concerned(&["d"])]);
}

#[test]
fn a_session_that_was_read_closed_is_not_served_and_its_names_are_freed_by_one_entry() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x"), (2, "y")]);
    let asked = led.proceeds();
    led.committed(&asked);
    led.asks("a", &[(3, "z")]);
    led.sees_closed("a");
    led.asks("a", &[(4, "w")]);
    assert!(!led.leader.hosts.contains_key(&*session("a")));
    // Hosts may ask again first.
    assert_eq!(led.proceeds(), []);
    assert_eq!(led.leader.wakes_at(), Some(led.now + ASKED_AGAIN));
    led.now = led.now + ASKED_AGAIN;
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["(a)"]);
    assert_eq!(led.leader.wakes_at(), Some(led.leader.next_heartbeat), "what is in flight goes first");
    led.committed(&asked);
    assert_eq!((led.proceeds(), led.replica.count()), (vec![], 0));
}

#[test]
fn the_names_of_a_session_that_nobody_asked_in_are_freed_too() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.committed(&asked);
    // It knows of it by its replica only.
    led.leader.hosts.clear();
    led.sees_closed("a");
    led.now = led.now + ASKED_AGAIN;
    assert_eq!(names(&led.proceeds()), ["(a)"]);
}

#[test]
fn whoever_wants_a_name_of_the_dead_has_it_freed_at_once_and_others_take_turns_with_that() {
    let dead = || {
        let mut led = Led::open();
        led.asks("a", &[(1, "x")]);
        let asked = led.proceeds();
        led.committed(&asked);
        led.sees_closed("a");
        led
    };
    let mut led = dead();
    led.asks("b", &[(1, "x")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["(a)"]);
    led.committed(&asked);
    assert_eq!(names(&led.proceeds()), ["x"]);
    // Requests go first, and the next time they do not.
    let mut led = dead();
    led.asks("b", &[(1, "v"), (2, "v"), (3, "x"), (4, "w")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["v", "w"]);
    led.committed(&asked);
    led.asks("c", &[(1, "u")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["(a)"]);
    led.committed(&asked);
    // What waited comes before what came since, in its order.
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["x", "u"]);
    let (_, effects) = led.committed(&asked);
    let both = [("b".to_owned(), vec![2, 3]), ("c".to_owned(), vec![1])];
    assert_eq!(verdicts(&effects), both);
}

#[test]
fn what_does_not_fit_in_a_batch_is_in_the_next_one() {
    let mut led = Led::open_with(Tuning { batch_bytes: 700, ..Tuning::default() });
    led.asks("a", &[(1, "s"), (2, "t"), (3, "u"), (4, "v"), (5, "w"), (6, "x"), (7, "y"), (8, "z")]);
    let mut batches = Vec::new();
    while !led.leader.queue.is_empty() {
        let asked = led.proceeds();
        batches.push(names(&asked));
        led.committed(&asked);
    }
    assert!(batches.len() > 1, "{batches:?}");
    assert_eq!(batches.concat(), ["s", "t", "u", "v", "w", "x", "y", "z"]);
}

#[test]
fn a_request_of_a_node_whose_certificate_is_not_known_is_as_if_it_had_been_lost() {
    let mut led = Led::open();
    led.view.sessions.insert(node("d"), Some(record(1, true)));
    led.asks("d", &[(1, "x")]);
    led.asks("a", &[(1, "y")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["y"]);
    let (_, effects) = led.committed(&asked);
    assert_eq!(verdicts(&effects), [("a".to_owned(), vec![1])]);
    // It is asked again, and there is a link by then.
    led.permitted.linked(&node("d"), Permits::default());
    led.asks("d", &[(1, "x")]);
    assert_eq!(names(&led.proceeds()), ["x"]);
}

#[test]
fn that_a_session_is_closed_is_remembered_for_as_long_as_it_may_come_to_have_a_row() {
    let is_closed = |led: &Led| led.leader.closed.contains(&*session("a"));
    let mut led = Led::open();
    led.sees_closed("a");
    assert!(!is_closed(&led), "nobody asked in it");
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    assert_eq!(asked, []);
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.sees_closed("a");
    assert!(is_closed(&led), "it is the latest one of its node");
    led.view.sessions.insert(node("a"), Some(record(2, true)));
    led.sees();
    assert!(is_closed(&led), "what is in flight will give it a row");
    led.committed(&asked);
    led.sees();
    assert!(is_closed(&led), "it has a row");
    led.now = led.now + ASKED_AGAIN;
    let asked = led.proceeds();
    led.committed(&asked);
    led.sees();
    assert!(!is_closed(&led), "it is over");
}

/// A store that goes back behind the closing shows the session as it was, and the session goes on.
#[test]
fn a_session_that_is_open_again_is_served_again() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.committed(&asked);
    led.sees_closed("a");
    led.now = led.now + ASKED_AGAIN;
    let asked = led.proceeds();
    led.committed(&asked);
    led.asks("a", &[(2, "y")]);
    assert_eq!(led.proceeds(), [], "nobody waits for what is asked in it");
    led.view.sessions.insert(node("a"), Some(record(1, true)));
    led.sees();
    led.asks("a", &[(2, "y")]);
    assert_eq!(names(&led.proceeds()), ["y"]);
}

fn transfer(to: &str) -> Wish {
    let (position, number) = (Position(2), RequestNumber(9));
    Wish::Transfer { position, to: session(to), number, actor: 4, kind: Kind(7) }
}

#[test]
fn a_name_goes_to_another_session_once_that_was_read() {
    let given = |to: &str| {
        let mut led = Led::open();
        led.permitted.linked(&node("d"), Permits::default());
        led.asks("a", &[(1, "x")]);
        let asked = led.proceeds();
        led.committed(&asked);
        let effects = led.wishes("a", 0, vec![(2, "x", transfer(to))]);
        (led, effects)
    };
    let concerned = |names: &[&str]| Effect::Tell(Tell::Concerned(names.iter().copied().map(node).collect()));
    // It was read open before.
    let (mut led, effects) = given("b");
    assert!(!effects.contains(&Effect::Tell(Tell::Refresh)));
    assert_eq!(names(&led.proceeds()), ["x"]);
    // It is asked for.
    let (mut led, effects) = given("d");
    assert_eq!(effects, [concerned(&["a", "d"]), Effect::Tell(Tell::Refresh)]);
    assert_eq!(led.proceeds(), []);
    led.view.sessions.insert(node("d"), Some(record(1, true)));
    led.sees();
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["x"]);
    led.committed(&asked);
    // It was open once, and a view of other nodes says nothing of it.
    led.view.sessions = View { ..nothing_known() }.sessions;
    led.view.sessions.insert(node("a"), Some(record(1, true)));
    led.wishes("a", 0, vec![(3, "w", transfer("d"))]);
    assert_eq!(read(&led.proceeds()).1, 3, "it is decided");
    // It is closed, and the name stays.
    let (mut led, _) = given("d");
    led.sees_closed("d");
    let (id, _) = read(&led.proceeds());
    let fence = led.fence();
    let (_, effects) = led.reads(id, Some(&fence));
    let kept = Verdict::Kept { allowed: None };
    let [Effect::Send { message: Message::Verdicts { verdicts, .. }, .. }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(verdicts[..], [(RequestNumber(2), kept)]);
    // The one that gives is closed.
    let (mut led, _) = given("d");
    led.view.sessions.insert(node("d"), Some(record(1, true)));
    led.sees_closed("a");
    led.now = led.now + ASKED_AGAIN;
    assert_eq!(names(&led.proceeds()), ["(a)"]);
}

#[test]
fn a_taker_that_is_closed_is_given_nothing_more_and_loses_what_it_was_given() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.committed(&asked);
    led.wishes("a", 0, vec![(2, "x", transfer("b"))]);
    let asked = led.proceeds();
    led.sees_closed("b");
    led.committed(&asked);
    led.now = led.now + ASKED_AGAIN;
    assert_eq!(names(&led.proceeds()), ["(b)"]);
}

#[test]
fn new_places_of_one_semaphore_have_positions_of_their_own() {
    let place = |of: &str, node: &str| GroupId::semaphore(of, 2).member(&session(node), 1).to_string();
    let (first, second, other) = (place("gpu", "a"), place("gpu", "b"), place("cpu", "a"));
    let mut led = Led::open();
    led.asks("a", &[(1, &first), (2, &other)]);
    led.asks("b", &[(1, &second), (2, "x")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), [&first, &other, "x"]);
    led.committed(&asked);
    let asked = led.proceeds();
    assert_eq!(names(&asked), [second]);
    led.committed(&asked);
    // A group has no places.
    let member = |node: &str| GroupId::group("room").member(&session(node), 1).to_string();
    led.asks("a", &[(3, &member("a"))]);
    led.asks("b", &[(3, &member("b"))]);
    assert_eq!(names(&led.proceeds()), [member("a"), member("b")]);
}

#[test]
fn a_name_or_a_reason_that_is_longer_than_a_host_makes_it_is_passed_over() {
    let mut led = Led::open();
    let text = |bytes: usize| "x".repeat(bytes);
    let (incarnation, number) = (Incarnation(1), SessionNumber(u64::MAX));
    let far = SessionId { node: node(&"n".repeat(100)), incarnation, number };
    let place = |bytes| GroupId::semaphore(&text(bytes), u32::MAX).member(&far, u64::MAX).to_string();
    let failed = |bytes| {
        let why = GivenUp::StartFailed { reason: text(bytes) };
        Wish::Unregister { position: Position(1), why }
    };
    let (longest, too_long) = ([text(512), place(512)], [text(513), place(513)]);
    let asked = vec![
        (1, too_long[0].as_str(), register()),
        (2, longest[0].as_str(), register()),
        (3, too_long[1].as_str(), register()),
        (4, longest[1].as_str(), register()),
        (5, "x", failed(201)),
        (6, "y", failed(200)),
    ];
    led.wishes("a", 0, asked);
    let asked = led.proceeds();
    assert_eq!(names(&asked), longest);
    let (_, effects) = led.committed(&asked);
    assert_eq!(verdicts(&effects), [("a".to_owned(), vec![2, 4, 6])]);
}

fn numbered(name: &str, requests: u64) -> Vec<(u64, &str)> {
    (1..=requests).map(|number| (number, name)).collect()
}

/// How many requests are answered.
fn answered(effects: &[Effect]) -> usize {
    verdicts(effects).iter().map(|(_, numbers)| numbers.len()).sum()
}

#[test]
fn refusals_take_no_room_in_a_batch_and_are_decided_so_many_at_a_time() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.committed(&asked);
    led.asks("b", &numbered("x", 2100));
    for count in [2048, 52] {
        let (id, _) = read(&led.proceeds());
        let fence = led.fence();
        let (_, effects) = led.reads(id, Some(&fence));
        assert_eq!(answered(&effects), count);
    }
    assert_eq!(led.proceeds(), []);
}

#[test]
fn those_who_wait_for_the_places_of_one_semaphore_get_them_in_the_order_in_which_they_asked() {
    let mut led = Led::open();
    let lock = GroupId::semaphore("x", 1);
    let places: Vec<String> = (1..=2100).map(|actor| lock.member(&session("a"), actor).to_string()).collect();
    led.asks("a", &(1..).zip(places.iter().map(String::as_str)).collect::<Vec<_>>());
    for place in &places[..3] {
        let asked = led.proceeds();
        assert_eq!(names(&asked), [place.as_str()]);
        led.committed(&asked);
    }
}

#[test]
fn each_request_of_a_batch_has_to_be_of_a_node_that_may_hold_its_name() {
    let mut led = Led::open();
    led.view.sessions.insert(node("d"), Some(record(1, true)));
    led.permitted.linked(&node("b"), Permits::read("names=shop/").unwrap());
    led.asks("a", &[(1, "x")]);
    led.asks("d", &[(1, "y")]);
    led.asks("b", &[(1, "z"), (2, "shop/z")]);
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["x", "shop/z"], "nobody knows what d may hold");
    let (_, effects) = led.committed(&asked);
    assert_eq!(verdicts(&effects), [("a".to_owned(), vec![1]), ("b".to_owned(), vec![1, 2])]);
}

#[test]
fn a_new_leader_decides_what_is_asked_for_before_it_frees_the_names_of_the_dead() {
    let mut led = Led::elected(Tuning::default());
    // A former leader has given a name to node a.
    let mut builder = BatchBuilder::default();
    let index = builder.session(&session("a"));
    let (name, request, kind) = ("x".into(), RequestNumber(1), Kind(7));
    builder.push(Op::Register { name, session: index, request, actor: Some(3), kind, meta: None });
    let end = led.replica.end();
    led.replica.apply(&builder.build(Epoch(4), Nonce(9), end, Position(1)));
    let opening = led.opens(false, Vec::new());
    assert!(led.committed(&opening).0.opened);
    led.sees_closed("a");
    for (of, name, decided) in [("b", "y", "y"), ("c", "z", "(a)")] {
        led.asks(of, &[(1, name)]);
        let asked = led.proceeds();
        assert_eq!(names(&asked), [decided]);
        led.committed(&asked);
    }
    assert_eq!(names(&led.proceeds()), ["z"]);
}

#[test]
fn that_a_session_is_closed_is_forgotten_when_its_node_is_not_read_any_more() {
    let mut led = Led::open();
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.committed(&asked);
    led.sees_closed("a");
    led.now = led.now + ASKED_AGAIN;
    let asked = led.proceeds();
    assert_eq!(names(&asked), ["(a)"]);
    led.committed(&asked);
    led.sees();
    assert!(led.leader.closed.contains(&*session("a")), "it is the latest one of its node");
    led.view.sessions = nothing_known().sessions;
    led.sees();
    assert!(led.leader.closed.is_empty());
}

#[test]
fn the_session_of_a_taker_is_read_for_as_long_as_it_is_open() {
    let mut led = Led::open();
    led.permitted.linked(&node("d"), Permits::default());
    led.asks("a", &[(1, "x")]);
    let asked = led.proceeds();
    led.committed(&asked);
    let concerned = |names: &[&str]| Effect::Tell(Tell::Concerned(names.iter().copied().map(node).collect()));
    let effects = led.wishes("a", 0, vec![(2, "x", transfer("d"))]);
    assert!(effects.contains(&concerned(&["a", "d"])), "{effects:?}");
    led.view.sessions.insert(node("d"), Some(record(1, true)));
    assert_eq!(led.sees(), [], "it is of concern as before");
    assert_eq!(led.sees_closed("d"), [concerned(&["a"])]);
}

#[test]
fn a_verdict_that_is_told_again_holds_where_it_did_before() {
    let mut led = Led::open();
    for (number, name) in [(1, "x"), (2, "y")] {
        led.asks("a", &[(number, name)]);
        let asked = led.proceeds();
        led.committed(&asked);
    }
    let again = led.asks("a", &[(2, "y"), (1, "x")]);
    let told = again.iter().map(|effect| match effect {
        Effect::Send { message: Message::Verdicts { position, verdicts, .. }, .. } => {
            (*position, verdicts.iter().map(|(number, _)| number.0).collect::<Vec<u64>>())
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [(Position(2), vec![1]), (Position(3), vec![2])]);
}

#[test]
fn a_node_that_makes_up_sessions_has_one_of_them_here() {
    let mut led = Led::open();
    let asks = |led: &mut Led, incarnation, number, request: u64| {
        let session = SessionId {
            node: node("a"),
            incarnation: Incarnation(incarnation),
            number: SessionNumber(number),
        };
        let requests = vec![Request { number: RequestNumber(request), name: "x".into(), wish: register() }];
        let (Led { leader, replica, view, .. }, mut effects) = (led, Vec::new());
        leader.on_requests(replica, Arc::new(session), RequestNumber(0), requests, view, &mut effects);
    };
    let known = |led: &Led| -> Vec<_> {
        led.leader.hosts.keys().map(|id| (id.node.to_string(), id.incarnation.0, id.number.0)).collect()
    };
    led.asks("b", &[(1, "y")]);
    for number in 2..100 {
        asks(&mut led, 1, number, 1);
    }
    asks(&mut led, 1, 98, 1);
    assert_eq!(known(&led), [("a".to_owned(), 1, 99), ("b".to_owned(), 1, 1)], "the last one");
    // Its successor's numbers are its own, and the session that is open stays.
    asks(&mut led, 2, 3, 1);
    led.asks("a", &[(1, "z")]);
    assert_eq!(known(&led), [("a".to_owned(), 1, 1), ("b".to_owned(), 1, 1)]);
    asks(&mut led, 2, 3, 1);
    asks(&mut led, 2, 4, 1);
    let all = [("a".to_owned(), 1, 1), ("a".to_owned(), 2, 4), ("b".to_owned(), 1, 1)];
    assert_eq!(known(&led), all);
}

#[test]
fn more_requests_than_a_host_asks_at_a_time_are_passed_over_until_some_are_decided() {
    let mut led = Led::open();
    let most = u64::try_from(WAITING).unwrap();
    let ask = |led: &mut Led, number: u64| led.asks("d", &[(number, &format!("n{number}"))]);
    for number in 1..=most + 1 {
        ask(&mut led, number);
    }
    let waiting = |led: &Led| led.leader.hosts[&*session("d")].waiting.len();
    assert_eq!(waiting(&led), WAITING);
    // It is asked again when there is room.
    led.permitted.linked(&node("d"), Permits::default());
    led.view.sessions.insert(node("d"), Some(record(1, true)));
    led.sees();
    let asked = led.proceeds();
    led.committed(&asked);
    let before = waiting(&led);
    assert!(before < WAITING);
    ask(&mut led, most + 1);
    assert_eq!(waiting(&led), before + 1);
}
