use super::*;
use crate::core::frame::NotDelivered;

/// A reference, and whether somebody ended it here.
type Reference = (u32, bool);

#[allow(clippy::trivially_copy_pass_by_ref)] // as it is called
fn is_alive(reference: &Reference) -> bool {
    !reference.1
}

fn find(held: &mut Held<Reference>, actor: u64, kind: u64) -> Result<Option<u32>, NoReference> {
    held.find(actor, kind, is_alive).map(|found| found.map(|reference| reference.0))
}

fn stopped() -> End {
    End::stopped(Some("done"))
}

#[test]
fn a_reference_is_asked_for_once_and_ends_once() {
    let mut held = Held::new(10);
    assert_eq!(find(&mut held, 1, 7), Ok(None));
    held.add(1, 7, (11, false));
    assert_eq!(find(&mut held, 1, 7), Ok(Some(11)));
    assert_eq!((held.take_next(), held.take_next()), (Some((1, 7)), None));
    assert_eq!(held.watched(1, 7), Some(&(11, false)));
    assert_eq!(held.ended(1, 7, &stopped()), [(11, false)]);
    assert_eq!(held.ended(1, 7, &stopped()), [], "told twice");
    assert_eq!(held.watched(1, 7), None, "said late");
    assert_eq!(find(&mut held, 1, 7), Err(NoReference::Ended(stopped())), "it does not come back");
    assert_eq!(find(&mut held, 1, 8), Err(NoReference::Ended(stopped())));
    assert_eq!(held.count(), 0);
}

#[test]
fn what_nobody_asked_for_ends_nothing_and_is_not_remembered() {
    let mut held = Held::new(10);
    held.add(1, 7, (11, false));
    assert_eq!(held.ended(2, 7, &stopped()), []);
    assert_eq!(held.watched(2, 7), None);
    assert_eq!(find(&mut held, 2, 7), Ok(None));
    assert_eq!(find(&mut held, 1, 7), Ok(Some(11)));
}

#[test]
fn an_end_ends_the_references_of_all_kinds_and_a_refusal_one_and_not_for_good() {
    let mut held = Held::new(10);
    let refusals = [
        End::Not(NotDelivered::WrongKind),
        End::Not(NotDelivered::NotExported),
        End::Not(NotDelivered::NoAnswer),
        End::TooMany(3),
    ];
    held.add(1, 7, (11, false));
    for refusal in refusals {
        held.add(1, 8, (12, false));
        assert_eq!(held.ended(1, 8, &refusal), [(12, false)]);
        assert_eq!(find(&mut held, 1, 8), Ok(None));
        assert_eq!(find(&mut held, 1, 7), Ok(Some(11)));
    }
    held.add(1, 0, (13, false));
    held.add(1, u64::MAX, (15, false));
    for neighbour in [0, 2] {
        held.add(neighbour, u64::MAX, (14, false));
        held.add(neighbour, 0, (14, false));
    }
    let ended = [(13, false), (11, false), (15, false)];
    assert_eq!(held.ended(1, 9, &End::Not(NotDelivered::Gone)), ended);
    assert_eq!(held.count(), 4);
}

#[test]
fn a_reference_that_was_ended_here_is_made_and_asked_for_anew() {
    let mut held = Held::new(10);
    held.add(1, 7, (11, true));
    assert_eq!(find(&mut held, 1, 7), Ok(None));
    held.add(1, 7, (12, false));
    assert_eq!((held.take_next(), held.take_next()), (Some((1, 7)), None), "nobody asks for the first one");
    assert_eq!(held.ended(1, 7, &stopped()), [(12, false)]);
}

#[test]
fn there_are_at_most_so_many_and_those_that_were_ended_here_make_room() {
    let mut held = Held::new(2);
    held.add(1, 7, (11, false));
    held.add(2, 7, (12, true));
    assert_eq!(find(&mut held, 3, 7), Ok(None));
    held.add(3, 7, (13, false));
    assert_eq!(find(&mut held, 4, 7), Err(NoReference::TooMany { limit: 2 }));
    assert_eq!(find(&mut held, 3, 7), Ok(Some(13)));
    held.ended(1, 7, &stopped());
    assert_eq!(find(&mut held, 4, 7), Ok(None));
}

#[test]
fn those_that_live_are_not_looked_at_again_and_again() {
    let (mut held, mut looks) = (Held::new(usize::MAX), 0);
    for actor in 0..LEAST_SWEPT as u64 * 4 {
        let seen = std::cell::Cell::new(0);
        held.find(actor, 7, |()| {
            seen.set(seen.get() + 1);
            true
        })
        .unwrap();
        looks += seen.get();
        held.add(actor, 7, ());
    }
    assert_eq!(looks, LEAST_SWEPT + LEAST_SWEPT * 2);
}

#[test]
fn the_last_ends_are_remembered_and_all_references_end_with_the_link() {
    let mut held = Held::new(usize::MAX);
    for actor in 0..=REMEMBERED as u64 {
        held.add(actor, 7, (0, false));
        held.ended(actor, 7, &stopped());
    }
    assert_eq!(find(&mut held, 0, 7), Ok(None), "forgotten: it is asked for anew");
    assert!(find(&mut held, 1, 7).is_err());
    held.add(0, 7, (11, false));
    held.add(0, 8, (12, true));
    assert_eq!(held.take_all().collect::<Vec<_>>(), [(11, false), (12, true)]);
    assert_eq!((held.take_next(), held.count()), (None, 0));
}

#[test]
fn the_peer_is_asked_in_the_order_in_which_references_were_made() {
    let mut held = Held::new(10);
    for actor in [3, 1, 2] {
        held.add(actor, 7, (0, false));
    }
    assert_eq!([(); 4].map(|()| held.take_next()), [Some((3, 7)), Some((1, 7)), Some((2, 7)), None]);
}

#[test]
fn what_the_peer_said_of_a_former_reference_answers_for_the_next_one() {
    let mut held = Held::new(10);
    held.add(1, 7, (11, false));
    assert_eq!(held.take_next(), Some((1, 7)));
    held.add(1, 7, (12, false));
    assert_eq!(held.watched(1, 7), Some(&(12, false)));
    assert_eq!(held.take_next(), None, "the peer watches the actor already");
}

#[test]
fn an_end_that_is_told_twice_is_remembered_in_one_place() {
    let mut held = Held::new(usize::MAX);
    for actor in [0, 0].into_iter().chain(1..REMEMBERED as u64) {
        held.add(actor, 7, (0, false));
        held.ended(actor, 7, &stopped());
    }
    assert!(find(&mut held, 0, 7).is_err(), "there is room for it beside the others");
}
