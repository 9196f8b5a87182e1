//! What a leader remembers, and in how many messages it says things.

use super::*;
use crate::core::log::MAX_BATCH_BYTES;

fn memory_of(limit: usize, sizes: &[usize]) -> Leader {
    let mut leader = Led::elected(Tuning { memory_bytes: limit, ..Tuning::default() }).leader;
    for (at, size) in sizes.iter().enumerate() {
        leader.remember(Position(at as u64 + 1), vec![0; *size].into());
    }
    leader
}

fn positions(leader: &Leader, after: u64) -> Vec<u64> {
    leader.remembered(Position(after)).iter().map(|(position, _)| position.0).collect()
}

#[test]
fn a_member_is_given_what_it_lacks_in_one_go_up_to_the_size_of_a_batch() {
    let leader = memory_of(1 << 20, &[MAX_BATCH_BYTES + 1, 1, MAX_BATCH_BYTES - 1, 1, 5]);
    assert_eq!(positions(&leader, 0), [1], "one that is larger comes alone");
    assert_eq!(positions(&leader, 1), [2, 3], "they fill it");
    assert_eq!(positions(&leader, 2), [3, 4]);
    assert_eq!(positions(&leader, 3), [4, 5]);
    assert_eq!(positions(&leader, 5), [0; 0]);
    assert_eq!(positions(&memory_of(1 << 20, &[]), 0), [0; 0]);
    assert_eq!(positions(&memory_of(1 << 20, &[MAX_BATCH_BYTES, 1]), 0), [1]);
}

#[test]
fn what_is_remembered_is_bounded_and_ends_where_the_log_is_cut() {
    let mut leader = memory_of(100, &[40, 40, 20]);
    assert_eq!(positions(&leader, 0), [1, 2, 3], "it is full");
    leader.remember(Position(4), vec![0; 1].into());
    assert_eq!((positions(&leader, 0), positions(&leader, 1)), (vec![], vec![2, 3, 4]));
    leader.remember(Position(5), vec![0; 39].into());
    assert_eq!(positions(&leader, 1), [2, 3, 4, 5], "what was dropped does not count");
    leader.remember(Position(6), vec![0; 500].into());
    assert_eq!((positions(&leader, 1), positions(&leader, 5)), (vec![], vec![6]), "the last one is kept");
    // Of the sizes nothing was forgotten.
    assert_eq!((leader.bytes_after(Position(0)), leader.bytes_after(Position(4))), (640, 539));

    let mut leader = memory_of(100, &[40, 40, 20]);
    leader.forget_below(Position(2));
    assert_eq!((positions(&leader, 0), positions(&leader, 1)), (vec![], vec![2, 3]));
    assert_eq!(leader.bytes_after(Position(0)), 60);
    leader.remember(Position(4), vec![0; 40].into());
    assert_eq!(positions(&leader, 1), [2, 3, 4], "what was cut does not count");
    leader.forget_below(Position(9));
    assert_eq!((positions(&leader, 3), leader.bytes_after(Position(0))), (vec![], 0));
}

#[test]
fn what_members_have_is_known_while_they_are_linked() {
    let mut leader = Led::open().leader;
    assert_eq!(leader.progress_of(&node("a")), None);
    leader.on_progress(&node("a"), Position(9));
    assert_eq!(leader.progress_of(&node("a")), Some(Position(9)));
    leader.forget_follower(&node("a"));
    assert_eq!(leader.progress_of(&node("a")), None);
}

#[test]
fn verdicts_of_one_host_travel_together_up_to_the_size_of_a_message() {
    let leader = Led::open().leader;
    let released = |number| (RequestNumber(number), Verdict::Released);
    let most = (MESSAGE_BYTES / Verdict::Released.weight()) as u64;
    let sent = |verdicts: Vec<(RequestNumber, Verdict)>| {
        let mut effects = Vec::new();
        leader.send_verdicts(&session("a"), Position(9), &verdicts, &mut effects);
        effects.len()
    };
    assert_eq!(sent((0..most).map(released).collect()), 1);
    assert_eq!(sent((0..=most).map(released).collect()), 2);
    assert_eq!(sent(Vec::new()), 0);
    // One that is larger than that travels, too.
    let large = Verdict::NotPermitted { allowed: vec!["x".repeat(MESSAGE_BYTES)].into() };
    assert_eq!(sent(vec![(RequestNumber(1), large), released(2)]), 2);
}
