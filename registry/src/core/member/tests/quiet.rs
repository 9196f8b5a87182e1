//! What a member says, and when it is woken, while nothing happens.

use super::{super::progress::AGAIN, links::links_at, *};

/// What it says of how far it is.
fn said(effects: &[Effect]) -> Vec<(String, u64, Message)> {
    let is_progress = |(_, _, message): &(String, u64, Message)| matches!(message, Message::Progress { .. });
    sends(effects).into_iter().filter(is_progress).collect()
}

fn to_l(link: u64, message: Message) -> Vec<(String, u64, Message)> {
    vec![("l".to_owned(), link, message)]
}

#[test]
fn how_far_it_is_is_said_at_a_heartbeat_if_that_is_new_and_from_time_to_time() {
    let mut one = One::following();
    assert_eq!(said(&one.hears("l", heartbeat(5, 1))), [], "it was said");
    one.hears("l", replicate(&batch(2, vec![])));
    assert_eq!(said(&one.hears("l", heartbeat(5, 2))), to_l(1, progress(5, 2)));
    one.now.time = one.now.time + AGAIN.saturating_sub(MILLIS(1));
    assert_eq!(said(&one.hears("l", heartbeat(5, 2))), []);
    one.now.time = one.now.time + MILLIS(1);
    assert_eq!(said(&one.hears("l", heartbeat(5, 2))), to_l(1, progress(5, 2)));
    // A leader forgets it with the link.
    one.unlinks("l", 1);
    one.links("l", 3);
    assert_eq!(said(&one.hears("l", heartbeat(5, 2))), to_l(3, progress(5, 2)));
    // There was no room for something.
    one.step(Input::SendFailed { to: node("o") });
    assert_eq!(said(&one.hears("l", heartbeat(5, 2))), []);
    one.step(Input::SendFailed { to: node("l") });
    assert_eq!(said(&one.hears("l", heartbeat(5, 2))), to_l(3, progress(5, 2)));
    // Of another epoch it knows nothing.
    one.sees(6, Some("l"));
    assert_eq!(said(&one.hears("l", heartbeat(6, 2))), to_l(3, progress(6, 2)));
}

#[test]
fn whoever_hears_its_leader_is_woken_seldom_and_heartbeats_do_not_put_it_off() {
    let mut one = One::following();
    one.wakes_after(1000);
    let at = one.member.wakes_at(one.now.time);
    assert_eq!(at, one.now.time + MEMBER_TICK + FOLLOWER_LOOKS);
    for _ in 0..8 {
        one.now.time = one.now.time + MILLIS(500);
        one.hears("l", heartbeat(5, 1));
        assert_eq!(one.member.wakes_at(one.now.time), at);
    }
    // The log gives it a name that nobody here claims. When that is seen it is looked at again soon.
    one.hears("l", replicate(&batch(2, vec![register("x")])));
    one.now.time = at;
    let orphan = Event::Orphan { name: "x".into() };
    assert!(!events(&one.wakes_after(0)).contains(&orphan));
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MILLIS(1000));
    assert!(events(&one.wakes_after(1000)).contains(&orphan));
    // Without a leader it is woken as often as before.
    let mut one = One::following();
    one.wakes_after(1000);
    one.unlinks("l", 1);
    assert!(one.member.wakes_at(one.now.time) <= one.now.time + MILLIS(1000));
}

#[test]
fn whoever_hears_its_leader_forgets_in_time_what_others_said_of_their_links() {
    let mut one = One::following();
    one.links("o", 2);
    one.wakes_after(1000);
    one.step(Input::AskForLinks);
    one.hears("o", links_at(&["m"], 1));
    let said_at = one.now.time;
    one.now.time = one.now.time + MILLIS(4500);
    one.hears("l", heartbeat(5, 1));
    assert_eq!(one.member.wakes_at(one.now.time), said_at + MILLIS(5000));
    assert!(one.member.links_of(&node("o")).is_some());
    one.wakes_after(500);
    assert!(one.member.links_of(&node("o")).is_none());
}

#[test]
fn a_leader_is_not_woken_to_cut_a_log_that_is_too_short_for_it() {
    let mut one = One::leading();
    one.wakes_after(1000);
    one.wakes_after(510);
    assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MILLIS(500), "its members are told");
}
