//! Asking whether an incarnation is dead, and of whom nothing is asked any more.

use super::{
    observe::{millis, observer},
    *,
};

fn suspect(name: &str, incarnation: u64) -> Input {
    Input::Suspect { node: node(name), incarnation: Incarnation(incarnation) }
}

/// Runs up to a time, and says when the store was asked. It has no proof, if it answers.
fn asked_until(host: &mut Host, rows: &mut Mvcc, to: u64, answers: bool) -> Vec<u64> {
    let mut asked = Vec::new();
    for _ in 0..1_000 {
        if host.now > ms(to) {
            return asked;
        }
        while let Some((node, incarnation)) = host.proofs.pop() {
            asked.push(millis(host.now));
            if answers {
                host.feed(Input::Proof { node, incarnation, proof: Proof::None });
            }
        }
        host.serve_one(rows);
    }
    panic!("the time does not pass");
}

#[test]
fn a_question_that_is_never_answered_is_asked_again_as_if_there_were_no_proof() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.feed(suspect("a", 7));
    assert_eq!(asked_until(&mut host, &mut rows, 2_500, false), [0, 1_002, 2_007]);
}

#[test]
fn a_suspect_that_beats_is_asked_about_no_more() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.feed(suspect("a", 7));
    assert_eq!(asked_until(&mut host, &mut rows, 900, true), [0, 2, 7, 17, 37, 87, 187, 387, 887]);
    put(&mut rows, "a", &record(7, 1, 2));
    let asked = asked_until(&mut host, &mut rows, 3_900, true);
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn nothing_is_remembered_of_one_that_is_dead_and_closed_nor_of_one_that_nobody_has_seen() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.dead.push((node("a"), Incarnation(7)));
    host.feed(suspect("a", 7));
    host.feed(suspect("x", 1));
    host.run(&mut rows, 2_500);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
    assert_eq!(host.core.suspicions, Suspicions::default());
}

#[test]
fn whoever_is_proven_dead_is_not_asked_about_while_its_closing_is_under_way() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer(&mut rows);
    host.feed(suspect("a", 7));
    assert_eq!(host.proofs.pop(), Some((node("a"), Incarnation(7))));
    host.feed(Input::Proof { node: node("a"), incarnation: Incarnation(7), proof: Proof::Dead });
    assert!(matches!(host.requests.front(), Some(Effect::Commit { .. })));
    host.feed(suspect("a", 7));
    assert_eq!(host.proofs, []);
    // Nor when the question is too old to be answered.
    for at in [1_000, 1_010] {
        host.sleep_to(at);
        assert_eq!(host.proofs, []);
    }
}

#[test]
fn a_node_asks_about_another_process_of_its_name_and_not_about_itself() {
    let mut host = with(opened).1;
    host.feed(suspect("a", 7));
    assert_eq!(host.proofs, []);
    host.feed(suspect("a", 8));
    host.feed(suspect("b", 7));
    assert_eq!(host.proofs, [(node("a"), Incarnation(8)), (node("b"), Incarnation(7))]);
}
