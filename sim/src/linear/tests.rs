use super::*;

mod brute;
mod random;

fn actor(actor: u64) -> Claimant {
    Claimant { session: 1, actor }
}

/// A call from one stamp to another.
fn op(call: u64, ret: u64, what: What) -> Op {
    Op { call, ret: Some(ret), what }
}

/// A call that never returned.
fn open(call: u64, what: What) -> Op {
    Op { call, ret: None, what }
}

fn granted(by: u64, token: u64) -> What {
    What::Register { by: actor(by), answer: Registered::Granted { token } }
}

fn taken(by: u64, token: u64) -> What {
    What::Register { by: actor(by), answer: Registered::Taken { token } }
}

fn asked(by: u64) -> What {
    What::Register { by: actor(by), answer: Registered::Unknown }
}

fn turned_away(by: u64) -> What {
    What::Register { by: actor(by), answer: Registered::Refused }
}

fn released(token: u64) -> What {
    What::Unregister { target: Target::Token(token), answer: Unregistered::Done }
}

fn maybe_released(token: u64) -> What {
    What::Unregister { target: Target::Token(token), answer: Unregistered::Unknown }
}

fn not_released(token: u64) -> What {
    What::Unregister { target: Target::Token(token), answer: Unregistered::Refused }
}

fn dropped(by: u64) -> What {
    What::Unregister { target: Target::By(actor(by)), answer: Unregistered::Done }
}

fn maybe_dropped(by: u64) -> What {
    What::Unregister { target: Target::By(actor(by)), answer: Unregistered::Unknown }
}

fn found(token: u64) -> What {
    What::Read { answer: Seen::Found { token, revision: None } }
}

fn found_at(token: u64, revision: u64) -> What {
    What::Read { answer: Seen::Found { token, revision: Some(revision) } }
}

fn updated(token: u64, expected: impl Into<Option<u64>>, answer: Updated) -> What {
    What::Update { token, expected: expected.into(), answer }
}

fn moved(from: u64, by: u64, token: u64) -> What {
    What::Move { from, by: actor(by), answer: Moved::Done { token } }
}

fn maybe_moved(from: u64, by: u64) -> What {
    What::Move { from, by: actor(by), answer: Moved::Unknown }
}

#[test]
fn a_name_that_moves_is_free_at_no_moment_and_under_a_new_token() {
    good(&[op(0, 1, granted(1, 5)), op(2, 9, moved(5, 2, 8)), op(3, 4, found(5)), op(5, 6, found(8))]);
    good(&[op(0, 1, granted(1, 5)), op(2, 3, maybe_moved(5, 2)), op(8, 9, found(7))]);
    good(&[op(0, 1, granted(1, 5)), op(2, 3, maybe_moved(5, 2)), op(8, 9, found(5))]);
    good(&[op(0, 1, granted(1, 5)), op(2, 3, moved(5, 2, 6)), op(4, 5, moved(6, 1, 7)), op(6, 7, found(7))]);
    let vacant_between = [op(0, 1, granted(1, 5)), op(2, 9, moved(5, 2, 8)), op(3, 4, vacant())];
    // Without the move, too.
    bad(&vacant_between, &[vacant_between[0], vacant_between[2]]);
    let twice = [op(0, 1, granted(1, 5)), op(2, 3, moved(5, 2, 8)), op(4, 5, moved(5, 1, 9))];
    bad(&twice, &twice[1..]);
    // Its token may be one that nobody saw, if whoever got the name gives up whatever it has.
    let unseen = |calls: u64, ends: What| {
        [op(0, 1, granted(1, 5)), op(2, calls, maybe_moved(5, 2)), op(6, 7, ends), op(8, 9, vacant())]
    };
    good(&unseen(3, dropped(2)));
    good(&unseen(3, maybe_dropped(2)));
    bad(&unseen(3, dropped(3)), &[unseen(3, dropped(3))[0], unseen(3, dropped(3))[3]]);
    bad(&unseen(3, released(4)), &[unseen(3, released(4))[0], unseen(3, released(4))[3]]);
    // It is one between those of the others.
    let between = |next: u64| {
        let ends = [op(4, 5, dropped(2)), op(6, 7, granted(3, next))];
        [op(0, 1, granted(1, 5)), op(2, 3, maybe_moved(5, 2)), ends[0], ends[1]]
    };
    good(&between(7));
    bad(&between(6), &[between(6)[0], between(6)[3]]);
    // Who holds it already is told so.
    good(&[op(0, 1, granted(1, 5)), op(2, 3, moved(5, 1, 5)), op(4, 5, found(5))]);
    let others = [op(0, 1, granted(1, 5)), op(2, 3, moved(5, 2, 5))];
    // Nobody else can have it under that token.
    bad(&others, &others[1..]);
    let back = [op(0, 1, granted(1, 5)), op(2, 3, moved(5, 2, 8)), op(4, 5, found(5))];
    bad(&back, &back[1..]);
}

fn vacant() -> What {
    What::Read { answer: Seen::Free }
}

fn freed(token: u64) -> What {
    What::Free { token }
}

#[track_caller]
fn good(ops: &[Op]) {
    let verdict = check([("name", ops)]);
    assert!(matches!(verdict, LinearVerdict::Linearizable(stats) if stats.ops == ops.len()), "{verdict:?}");
    assert!(ops.len() > 7 || brute::linearizable(ops), "the other checker says no");
}

/// Not linearizable, and this is the core of it.
#[track_caller]
fn bad(ops: &[Op], core: &[Op]) {
    assert!(ops.len() > 7 || !brute::linearizable(ops), "the other checker says yes");
    match check([("name", ops)]) {
        LinearVerdict::NotLinearizable(offence) => {
            assert_eq!(offence.ops, core, "\n{offence}");
            assert_eq!(offence.name, "name");
        }
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn nothing_happened() {
    good(&[]);
}

#[test]
fn one_after_the_other() {
    good(&[
        op(0, 1, vacant()),
        op(2, 3, granted(1, 5)),
        op(4, 5, taken(2, 5)),
        op(6, 7, found(5)),
        op(8, 9, released(5)),
        op(10, 11, vacant()),
        op(12, 13, granted(2, 8)),
    ]);
}

#[test]
fn overlapping_calls_take_effect_in_any_order() {
    good(&[op(0, 9, taken(2, 5)), op(1, 8, granted(1, 5)), op(2, 7, vacant())]);
    good(&[op(0, 3, granted(1, 5)), op(2, 5, released(5)), op(2, 6, granted(2, 6)), op(4, 7, found(5))]);
}

#[test]
fn the_order_given_does_not_matter() {
    good(&[op(4, 5, found(5)), op(0, 1, granted(1, 5)), op(2, 3, taken(2, 5))]);
}

#[test]
fn asked_again_the_same_is_granted() {
    good(&[op(0, 1, granted(1, 5)), op(2, 3, granted(1, 5)), op(4, 5, released(5)), op(6, 7, granted(1, 7))]);
}

#[test]
fn of_two_updates_that_expect_the_same_revision_one_is_done() {
    let done = |revision| Updated::Done { revision };
    let by_both = |second| {
        [
            op(0, 1, granted(1, 5)),
            op(2, 9, updated(5, 5, done(6))),
            op(3, 8, updated(5, 5, second)),
            op(10, 11, found_at(5, 6)),
        ]
    };
    good(&by_both(Updated::Changed { revision: 6 }));
    good(&by_both(Updated::Unknown));
    let wrong = by_both(done(7));
    bad(&wrong[..3], &wrong[1..3]);
    good(&[
        op(0, 1, granted(1, 5)),
        op(2, 3, updated(5, None, done(6))),
        op(4, 5, updated(5, None, done(7))),
    ]);
}

#[test]
fn an_update_moves_the_revision_of_one_hold_only() {
    let done = |revision| Updated::Done { revision };
    let granted = op(0, 1, granted(1, 5));
    let after = |what| [granted, op(2, 3, updated(5, 5, done(6))), op(4, 5, what)];
    good(&after(found_at(5, 6)));
    good(&after(updated(5, 6, done(8))));
    good(&after(updated(5, 5, Updated::Changed { revision: 6 })));
    for what in [found_at(5, 5), found_at(5, 7), updated(5, None, done(6)), vacant()] {
        assert!(matches!(check([("name", &after(what)[..])]), LinearVerdict::NotLinearizable(_)), "{what}");
    }
    let freed = [granted, op(2, 3, released(5))];
    bad(
        &[granted, freed[1], op(4, 5, updated(5, None, done(6)))],
        &[freed[1], op(4, 5, updated(5, None, done(6)))],
    );
}

#[test]
fn an_update_of_unknown_outcome_is_done_when_somebody_sees_it_or_never() {
    let unknown = op(2, 3, updated(5, 5, Updated::Unknown));
    good(&[op(0, 1, granted(1, 5)), unknown, op(4, 5, found_at(5, 5)), op(6, 7, found_at(5, 9))]);
    good(&[op(0, 1, granted(1, 5)), unknown, op(4, 5, updated(5, 9, Updated::Done { revision: 11 }))]);
    let twice = [op(0, 1, granted(1, 5)), unknown, op(4, 5, found_at(5, 8)), op(6, 7, found_at(5, 9))];
    assert!(matches!(check([("name", &twice[..])]), LinearVerdict::NotLinearizable(_)));
}

#[test]
fn unknown_takes_effect_after_its_return_or_never() {
    good(&[op(0, 1, asked(1)), op(2, 3, vacant()), op(4, 5, found(7)), op(6, 7, taken(2, 7))]);
    good(&[op(0, 1, asked(1)), op(2, 3, granted(2, 7))]);
    good(&[open(0, asked(1)), op(2, 3, granted(1, 7))]);
    good(&[open(0, asked(1)), op(2, 3, taken(2, 4)), op(4, 5, granted(1, 4))]);
    good(&[op(0, 1, granted(1, 5)), op(2, 3, maybe_released(5)), op(4, 5, found(5)), op(6, 7, vacant())]);
    good(&[op(0, 1, granted(1, 5)), op(2, 3, maybe_dropped(1)), op(4, 5, granted(2, 6))]);
}

#[test]
fn two_unknown_registrations_hold_one_after_the_other() {
    good(&[
        open(0, asked(1)),
        open(0, asked(2)),
        op(2, 3, found(4)),
        open(4, freed(4)),
        op(5, 6, found(9)),
        op(7, 8, granted(2, 9)),
    ]);
}

#[test]
fn the_system_frees() {
    good(&[op(0, 1, granted(1, 5)), open(2, freed(5)), op(3, 4, found(5)), op(5, 6, granted(2, 6))]);
    good(&[op(0, 1, granted(1, 5)), op(2, 9, freed(5)), op(3, 4, found(5)), op(5, 6, vacant())]);
    good(&[op(0, 1, granted(1, 5)), op(2, 3, released(5)), op(4, 5, freed(5)), op(6, 7, vacant())]);
}

#[test]
fn released_twice_is_released() {
    good(&[
        op(0, 1, granted(1, 5)),
        op(2, 3, released(5)),
        op(4, 5, granted(2, 6)),
        op(6, 7, released(5)),
        op(8, 9, dropped(1)),
        op(10, 11, found(6)),
    ]);
}

#[test]
fn what_is_refused_constrains_nothing() {
    good(&[
        op(0, 1, turned_away(1)),
        op(2, 3, What::Read { answer: Seen::Refused }),
        op(4, 5, granted(2, 5)),
        op(6, 7, not_released(5)),
        op(8, 9, found(5)),
    ]);
}

#[test]
fn an_answer_may_be_known_before_it_returned() {
    good(&[open(0, granted(1, 5)), op(1, 2, vacant()), op(3, 4, found(5))]);
}

#[test]
fn two_grants_at_once() {
    let ops = [op(0, 1, granted(1, 5)), op(2, 3, granted(2, 6))];
    bad(&ops, &ops);
    let ops = [op(0, 3, granted(1, 5)), op(1, 2, granted(2, 5))];
    bad(&ops, &ops);
}

#[test]
fn a_stale_read() {
    bad(
        &[op(0, 1, granted(1, 5)), op(2, 3, released(5)), op(4, 5, granted(2, 6)), op(6, 7, found(5))],
        &[op(4, 5, granted(2, 6)), op(6, 7, found(5))],
    );
    let ops = [op(0, 1, granted(1, 5)), op(2, 3, vacant())];
    bad(&ops, &ops);
}

#[test]
fn reads_that_go_back() {
    let (first, second) = (op(4, 5, found(6)), op(6, 7, found(5)));
    bad(
        &[op(0, 1, granted(1, 5)), op(2, 9, released(5)), op(3, 9, granted(2, 6)), first, second],
        &[first, second],
    );
}

#[test]
fn a_read_of_what_was_never_granted() {
    let lie = op(2, 3, found(7));
    bad(&[op(0, 1, granted(1, 5)), lie, op(4, 5, released(5))], &[op(0, 1, granted(1, 5)), lie]);
    bad(&[op(0, 1, found(7))], &[op(0, 1, found(7))]);
}

#[test]
fn an_acknowledged_grant_is_lost() {
    let (grant, read) = (op(2, 3, granted(1, 5)), op(6, 7, vacant()));
    bad(&[op(0, 1, vacant()), grant, op(4, 5, found(5)), read], &[op(4, 5, found(5)), read]);
    bad(&[grant, op(4, 5, taken(2, 5)), op(4, 5, asked(3)), read], &[op(4, 5, taken(2, 5)), read]);
}

#[test]
fn a_grant_with_a_lower_token() {
    let (release, second) = (op(2, 3, released(5)), op(4, 5, granted(2, 4)));
    bad(&[op(0, 1, granted(1, 5)), release, second], &[release, second]);
}

#[test]
fn a_token_granted_again_after_its_release() {
    let (release, again) = (op(2, 3, released(5)), op(4, 5, granted(1, 5)));
    bad(&[op(0, 1, granted(1, 5)), release, again], &[release, again]);
}

#[test]
fn another_token_for_who_holds_it() {
    let ops = [op(0, 1, granted(1, 5)), op(2, 3, granted(1, 6))];
    bad(&ops, &ops);
}

#[test]
fn taken_by_a_holder_freed_before() {
    let (free, answer) = (op(2, 3, freed(5)), op(4, 5, taken(2, 5)));
    bad(&[op(0, 1, granted(1, 5)), free, answer], &[free, answer]);
}

#[test]
fn taken_by_oneself() {
    let answer = op(2, 3, taken(1, 5));
    bad(&[op(0, 1, granted(1, 5)), answer], &[answer]);
}

#[test]
fn taken_by_a_holder_yet_to_come() {
    let ops = [op(0, 1, taken(2, 5)), op(2, 3, granted(1, 5))];
    // The grant may have been to one who asked before; so it is the time that is wrong, not the token.
    bad(&ops, &ops[..1]);
    good(&[open(0, asked(1)), ops[0], ops[1]]);
}

#[test]
fn released_and_still_seen() {
    let (release, read) = (op(2, 3, released(5)), op(4, 5, found(5)));
    bad(&[op(0, 1, granted(1, 5)), release, read], &[release, read]);
    let (drop, read) = (op(2, 3, dropped(1)), op(4, 5, found(5)));
    bad(&[op(0, 1, granted(1, 5)), drop, read], &[op(0, 1, granted(1, 5)), drop, read]);
}

#[test]
fn a_refused_call_took_effect() {
    bad(&[op(0, 1, turned_away(1)), op(2, 3, found(5))], &[op(2, 3, found(5))]);
    let (grant, read) = (op(0, 1, granted(1, 5)), op(4, 5, vacant()));
    bad(&[grant, op(2, 3, not_released(5)), read], &[grant, read]);
}

#[test]
fn an_effect_before_its_call() {
    let ops = [op(0, 1, found(5)), op(2, 3, granted(1, 5))];
    bad(&ops, &ops[..1]);
    let (grant, read) = (op(0, 1, granted(1, 5)), op(2, 3, vacant()));
    bad(&[grant, read, op(4, 5, released(5))], &[grant, read]);
    bad(&[grant, read, open(4, maybe_released(5))], &[grant, read]);
    bad(&[grant, read, open(4, freed(5))], &[grant, read]);
    bad(&[op(0, 1, found(5)), open(2, asked(1))], &[op(0, 1, found(5))]);
}

#[test]
fn an_effect_after_its_return() {
    let ops = [op(0, 1, granted(1, 5)), op(2, 3, vacant()), op(4, 5, found(5))];
    bad(&ops, &ops[..2]);
}

#[test]
fn released_before_it_was_granted() {
    let (release, grant) = (op(0, 1, released(5)), op(2, 3, granted(1, 5)));
    bad(&[release, grant], &[release]);
}

#[test]
fn one_unknown_does_not_explain_two_holds() {
    let ops = [open(0, asked(1)), op(2, 3, found(5)), op(4, 5, found(6))];
    bad(&ops, &ops[1..]);
}

#[test]
fn an_unknown_grant_leaves_no_room_between_tokens() {
    let ops = [op(0, 1, granted(1, 5)), open(2, freed(5)), op(3, 4, granted(2, 6)), op(5, 6, found(7))];
    bad(&ops, &ops[2..]);
    let (read, grant) = (op(2, 3, found(9)), op(4, 5, granted(2, 8)));
    bad(&[open(0, asked(1)), read, open(3, freed(9)), grant], &[read, grant]);
}

#[test]
fn names_are_independent() {
    let (a, b) = ([op(0, 1, granted(1, 5))], [op(2, 3, granted(2, 4))]);
    let stats = Stats { names: 2, ops: 2, explored: 2 };
    assert_eq!(check([("a", &a[..]), ("b", &b[..])]), LinearVerdict::Linearizable(stats));
    let wrong = [op(0, 1, found(3))];
    let LinearVerdict::NotLinearizable(offence) = check([("a", &a[..]), ("b", &wrong[..])]) else { panic!() };
    assert_eq!(offence.name, "b");
}

#[test]
fn people_can_read_it() {
    let ops = [
        op(0, 1, granted(1, 5)),
        op(2, 3, freed(5)),
        op(4, 6, granted(2, 6)),
        op(7, 12, found(5)),
        op(13, 14, found(6)),
    ];
    let LinearVerdict::NotLinearizable(offence) = check([("orders", &ops[..])]) else { panic!() };
    let text = [
        "\"orders\": no order explains these answers, given to 2 calls",
        "      4 to 6     register by actor 2 of session 1: granted 6",
        "      7 to 12    read: held under 5",
        "  (2 other calls on this name up to then do not matter)",
    ];
    assert_eq!(offence.to_string(), text.join("\n"));
}

#[test]
fn it_gives_up_rather_than_hang() {
    let ops: Vec<Op> = (0..8).map(|by| op(0, 99, dropped(by))).chain([op(0, 99, found(1))]).collect();
    let mut checker = Checker::with_limit(100);
    assert_eq!(
        checker.check([("name", &ops[..])]),
        LinearVerdict::GaveUp { name: "name".into(), explored: 100 }
    );
    assert!(matches!(
        Checker::with_limit(300).check([("name", &ops[..])]),
        LinearVerdict::NotLinearizable(_)
    ));
}

#[test]
fn more_at_once_than_it_can_hold_is_no_verdict() {
    let unknown: Vec<Op> = (0..129).map(|by| open(0, asked(by))).collect();
    assert!(matches!(check([("name", &unknown[..])]), LinearVerdict::GaveUp { .. }));
    let overlapping: Vec<Op> = [op(0, 999, vacant()), op(0, 999, granted(1, 5))]
        .into_iter()
        .chain((0..200).map(|_| op(1, 998, found(5))))
        .collect();
    good(&overlapping);
    let behind: Vec<Op> =
        [op(0, 999, found(6))].into_iter().chain((0..200).map(|_| op(1, 998, vacant()))).collect();
    assert!(matches!(check([("name", &behind[..])]), LinearVerdict::GaveUp { .. }));
}
