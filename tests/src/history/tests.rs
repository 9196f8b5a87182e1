use std::time::Duration;

use super::*;

fn life(incarnation: u64) -> Life {
    Life::new("a", incarnation, Client::new("http://127.0.0.1:1"))
}

fn span(start: Instant, asked: u64, answered: u64) -> Span {
    Span { asked: start + Duration::from_millis(asked), answered: start + Duration::from_millis(answered) }
}

#[test]
fn an_old_holder_that_passes_the_check_after_the_new_one_was_granted_is_a_breach() {
    let (start, old, new, history) = (Instant::now(), life(1), life(2), History::default());
    history.granted(&old, "x", 5, span(start, 0, 1));
    history.granted(&new, "x", 9, span(start, 10, 20));
    history.held(&old, "x", 5, span(start, 21, 30), true);
    let breaches = history.breaches(&[&old, &new], &Forgive::nobody());
    assert!(breaches.len() == 1 && breaches[0].starts_with("P1"), "{breaches:?}");
}

#[test]
fn answers_that_overlap_may_be_a_handover() {
    let (start, old, new, history) = (Instant::now(), life(1), life(2), History::default());
    history.granted(&old, "x", 5, span(start, 0, 1));
    history.granted(&new, "x", 9, span(start, 10, 20));
    history.held(&old, "x", 5, span(start, 19, 40), true);
    history.held(&old, "x", 5, span(start, 50, 60), false);
    assert_eq!(history.breaches(&[&old, &new], &Forgive::nobody()), Vec::<String>::new());
}

#[test]
fn a_token_that_goes_back_or_is_given_twice_is_a_breach() {
    let (start, a, b, history) = (Instant::now(), life(1), life(2), History::default());
    history.granted(&a, "x", 5, span(start, 0, 1));
    history.granted(&a, "x", 4, span(start, 2, 3));
    history.granted(&b, "y", 7, span(start, 0, 1));
    history.held(&a, "y", 7, span(start, 2, 3), true);
    let breaches = history.breaches(&[&a, &b], &Forgive::nobody());
    assert_eq!(breaches.iter().filter(|breach| breach.starts_with("P7")).count(), 2, "{breaches:?}");
}

#[test]
fn a_consistent_read_that_misses_what_was_held_throughout_is_a_breach() {
    let (start, a, history) = (Instant::now(), life(1), History::default());
    history.granted(&a, "x", 5, span(start, 0, 10));
    history.read("x", None, span(start, 5, 20));
    assert_eq!(history.breaches(&[&a], &Forgive::nobody()), Vec::<String>::new());
    history.read("x", None, span(start, 11, 20));
    assert!(history.breaches(&[&a], &Forgive::nobody())[0].starts_with("P4"));
    let mut forgive = Forgive::nobody();
    forgive.and(1);
    assert_eq!(history.breaches(&[&a], &forgive), Vec::<String>::new());
}

#[test]
fn a_refusal_for_what_was_freed_before_is_a_breach() {
    let (start, a, history) = (Instant::now(), life(1), History::default());
    history.granted(&a, "x", 5, span(start, 0, 1));
    history.giving_up(&a, "x");
    history.freed(&a, "x");
    history.taken("x", 5, span(start, 10_000, 10_001));
    assert!(history.breaches(&[&a], &Forgive::nobody())[0].starts_with("P4"));
    assert!(history.owed(&a).is_empty());
}

#[test]
fn what_was_acknowledged_and_not_given_up_is_owed() {
    let (start, a, history) = (Instant::now(), life(1), History::default());
    history.granted(&a, "x", 5, span(start, 0, 1));
    history.granted(&a, "y", 6, span(start, 0, 1));
    history.unanswered(&a, "y");
    assert_eq!(history.owed(&a), BTreeMap::from([("x".to_owned(), 5)]));
}
