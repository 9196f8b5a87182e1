//! What a member may say of the leader's silence.

use super::*;
use crate::core::elector::silence::Voice;

/// In epoch 1 since the start; looks every second until the given one.
fn silence() -> Silence {
    let timing = ElectorTiming::default();
    assert_eq!((timing.silence, timing.lock), (SECOND * 2, SECOND * 3));
    let mut silence = Silence::of(&timing);
    silence.observe(at(0), Epoch(1));
    silence
}

fn at(seconds: u32) -> Time {
    Time(SECOND * seconds)
}

fn until(silence: &mut Silence, from: u32, to: u32) -> Voice {
    for second in from..=to {
        silence.pass(at(second));
    }
    silence.voice(at(to), &node("a"))
}

#[test]
fn f8_who_never_heard_the_leader_waits_for_its_handoff() {
    let mut silence = silence();
    assert_eq!(until(&mut silence, 0, 6), Voice::Fine);
    silence.link(node("a"), false);
    assert_eq!(silence.voice(at(6), &node("a")), Voice::Fine, "a link that is down may never have been up");
    assert_eq!(until(&mut silence, 7, 7), Voice::Silent { had_contact: false });
}

#[test]
fn f7_who_heard_the_leader_misses_it_after_the_limit_or_when_the_link_closes() {
    let mut silence = silence();
    assert!(!silence.contact(at(1), Epoch(1)));
    assert_eq!(until(&mut silence, 0, 2), Voice::Fine);
    assert_eq!(until(&mut silence, 3, 3), Voice::Silent { had_contact: true });
    silence.contact(at(3), Epoch(1));
    assert_eq!(silence.voice(at(3), &node("a")), Voice::Fine);
    silence.link(node("b"), false);
    assert_eq!(silence.voice(at(3), &node("a")), Voice::Fine);
    silence.link(node("a"), false);
    assert_eq!(silence.voice(at(3), &node("a")), Voice::Silent { had_contact: true });
    silence.link(node("a"), true);
    assert_eq!(silence.voice(at(3), &node("a")), Voice::Fine);
}

#[test]
fn contact_counts_in_its_epoch_only() {
    let mut silence = silence();
    silence.contact(at(1), Epoch(1));
    assert!(silence.contact(at(2), Epoch(2)), "the store has not shown it yet");
    silence.observe(at(2), Epoch(2));
    assert_eq!(until(&mut silence, 0, 4), Voice::Silent { had_contact: true });
    silence.observe(at(4), Epoch(3));
    silence.contact(at(4), Epoch(2));
    assert_eq!(silence.voice(at(6), &node("a")), Voice::Fine, "not heard in epoch 3 yet");
}

#[test]
fn who_was_suspended_itself_calls_nobody_silent_for_it() {
    let mut silence = silence();
    silence.contact(at(1), Epoch(1));
    assert_eq!(until(&mut silence, 60, 60), Voice::Fine);
    assert_eq!(until(&mut silence, 61, 62), Voice::Silent { had_contact: true }, "but for what comes after");
}

#[test]
fn when_a_leader_becomes_silent_follows_from_the_latest_contact_in_its_epoch() {
    let mut silence = silence();
    assert_eq!(silence.due(), at(7));
    silence.contact(at(1), Epoch(1));
    assert_eq!(silence.due(), at(3));
    // What a leader said whose epoch was over before it was seen is of no use in the next one.
    silence.contact(at(2), Epoch(2));
    silence.observe(at(3), Epoch(3));
    assert_eq!(silence.due(), at(10));
    silence.contact(at(4), Epoch(4));
    silence.observe(at(5), Epoch(4));
    assert_eq!(silence.due(), at(6));
    silence.limit(SECOND * 3, SECOND);
    assert_eq!(silence.due(), at(7));
}

#[test]
fn a_gap_is_a_stall_only_if_it_is_longer_than_the_limit_of_stalls() {
    let a = node("a");
    let mut silence = silence();
    silence.pass(at(0));
    silence.contact(at(0), Epoch(1));
    silence.pass(at(2));
    assert_eq!(silence.voice(at(2), &a), Voice::Silent { had_contact: true });
    silence.pass(at(5));
    assert_eq!(silence.voice(at(5), &a), Voice::Fine);
    assert_eq!(silence.due(), at(7), "it is counted from the end of the stall");
}

#[test]
fn a_message_says_that_the_leader_goes_on_if_it_was_heard_before_and_is_not_silent_until_then() {
    let a = node("a");
    let mut silence = silence();
    let goes_on =
        |silence: &Silence, epoch: u64, until: u32| silence.goes_on(at(1), Epoch(epoch), &a, at(until));
    assert!(!goes_on(&silence, 1, 2), "it was never heard in this epoch");
    silence.contact(at(1), Epoch(1));
    assert!(goes_on(&silence, 1, 2));
    assert!(!goes_on(&silence, 1, 3), "it is silent by then");
    assert!(!goes_on(&silence, 2, 2) && !goes_on(&silence, 0, 2), "of another epoch");
    silence.link(a.clone(), false);
    assert!(!goes_on(&silence, 1, 2), "it is accused");
    silence.link(a.clone(), true);
    assert!(goes_on(&silence, 1, 2));
    assert!(!silence.goes_on(at(3), Epoch(1), &a, at(2)), "it is silent");
}

#[test]
fn nobody_waits_for_a_leader_that_is_silent_or_whose_link_is_down() {
    let a = node("a");
    let mut silence = silence();
    assert!(!silence.is_out(at(0), &a));
    silence.link(node("b"), false);
    assert!(!silence.is_out(at(0), &a));
    silence.link(node("a"), false);
    assert!(silence.is_out(at(0), &a));
    assert_eq!(silence.unlinked(), &BTreeSet::from(["a", "b"].map(node)));
    silence.link(node("a"), true);
    assert!(!silence.is_out(at(6), &a));
    assert!(silence.is_out(at(7), &a));
}
