//! When a leader is asked to run its handoff, and what becomes of its answers.

use callsign_store::ids::Nonce;

use super::*;
use crate::core::record::Lock;

const EPOCH: Epoch = Epoch(1);

fn at(seconds: u32) -> Time {
    Time(SECOND * seconds)
}

/// The lock of the first epoch.
fn lock(owner: &str, nonce: u64) -> Lock {
    Lock { epoch: EPOCH, owner: node(owner), nonce: Nonce(nonce) }
}

#[test]
fn a_handoff_is_asked_for_once_by_the_leader_and_once_under_each_lock_of_ones_own() {
    let (me, mut handoff) = (node("a"), Handoff::default());
    handoff.observe(at(1), Some(&lock("b", 5)));
    assert!(!handoff.ask(at(1), &me, EPOCH, false), "it does not lead, and has no lock");
    assert!(handoff.ask(at(1), &me, EPOCH, true));
    assert!(!handoff.ask(at(2), &me, EPOCH, true));
    assert_eq!(handoff.answer(EPOCH), Some((Answer::Open, at(1))));
    handoff.observe(at(3), Some(&lock("a", 6)));
    assert!(!handoff.ask(at(3), &me, Epoch(2), false), "the lock is of another epoch");
    assert!(handoff.ask(at(3), &me, EPOCH, false));
    assert!(!handoff.ask(at(4), &me, EPOCH, true));
    // An answer about another epoch is none, and the first one counts.
    handoff.answered(Epoch(2), Answer::Failed);
    assert_eq!(handoff.answer(EPOCH), Some((Answer::Open, at(3))));
    handoff.answered(EPOCH, Answer::Done);
    handoff.answered(EPOCH, Answer::Failed);
    assert_eq!((handoff.answer(EPOCH), handoff.answer(Epoch(2))), (Some((Answer::Done, at(3))), None));
    handoff.observe(at(5), Some(&lock("a", 7)));
    assert!(!handoff.ask(at(5), &me, EPOCH, true), "it is done");
}

#[test]
fn a_leader_tries_three_times_in_each_epoch_and_others_once() {
    let (me, mut handoff) = (node("a"), Handoff::default());
    for epoch in [EPOCH, Epoch(2)] {
        for _ in 0..3 {
            assert!(!handoff.has_failed(epoch));
            assert!(handoff.ask(at(1), &me, epoch, true));
            assert!(!handoff.has_failed(epoch), "it is open");
            handoff.answered(epoch, Answer::Failed);
            // It is said again, and counts once.
            handoff.answered(epoch, Answer::Failed);
        }
        assert!(handoff.has_failed(epoch) && !handoff.has_failed(epoch.next()));
        assert!(!handoff.ask(at(2), &me, epoch, true));
    }
    let mut handoff = Handoff::default();
    handoff.observe(at(1), Some(&lock("a", 5)));
    assert!(handoff.ask(at(1), &me, EPOCH, false));
    handoff.answered(EPOCH, Answer::Failed);
    assert!(!handoff.ask(at(2), &me, EPOCH, false));
}

#[test]
fn a_lock_is_unmoved_since_it_was_first_seen_as_it_is() {
    let mut handoff = Handoff::default();
    for (second, seen, since) in [
        (1, Some(lock("a", 5)), Some(1)),
        (2, Some(lock("a", 5)), Some(1)),
        (3, Some(lock("a", 6)), Some(3)),
        (4, None, None),
        (5, Some(lock("a", 6)), Some(5)),
    ] {
        handoff.observe(at(second), seen.as_ref());
        assert_eq!(handoff.unmoved_since(), since.map(at));
    }
    assert!(!handoff.is_taken(Nonce(6)));
    handoff.take(Nonce(6));
    assert!(handoff.is_taken(Nonce(6)) && !handoff.is_taken(Nonce(5)));
}
