//! A better peer comes while another leads: they take turns, and none waits for ever.

use super::*;

/// Why it does not lead any more.
fn deposed(peer: &mut Peer, held: &Grant<()>) -> Refusal {
    match peer.refresh(held).unwrap() {
        Verdict::Denied(denial) => denial.why,
        Verdict::Granted(grant) => panic!("{grant:?}"),
    }
}

fn held_by(leader: &str) -> (Refusal, Option<String>) {
    (Refusal::Held, Some(leader.to_owned()))
}

#[test]
fn c13_a_better_peer_that_joins_waits_until_the_leader_has_given_its_term_back() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut b = peer(&shelf, &now, "b", 1, PoolTiming::default(), Duration::ZERO);
    let held = b.wins();
    let mut a = peer(&shelf, &now, "a", 9, PoolTiming::default(), Duration::ZERO);
    assert_eq!(a.loses(), held_by("b"), "`b` does not know of it");
    pass(&now, seconds(5));
    assert_eq!(deposed(&mut b, &held), Refusal::Outranked);
    assert_eq!(a.loses(), held_by("b"), "its work has still to stop");
    assert!(b.abdicate(&held));
    a.wins();
    assert_eq!(b.loses(), outranked_by("a"));
}

#[test]
fn c13_a_peer_that_raises_its_priority_waits_until_the_leader_claims_anew() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut b = peer(&shelf, &now, "b", 5, PoolTiming::default(), Duration::ZERO);
    let held = b.wins();
    let mut a = peer(&shelf, &now, "a", 1, PoolTiming::default(), Duration::ZERO);
    assert_eq!(a.loses(), outranked_by("b"));
    assert_eq!(a.oracle.handle_info(SetPriority(9)).now_or_never(), Some(Reaction::Poll));
    assert_eq!(a.loses(), held_by("b"));
    assert_eq!(deposed(&mut b, &held), Refusal::Outranked);
    assert_eq!(a.loses(), held_by("b"));
    // It could not give its term back. A peer that claims has stopped as well.
    assert_eq!(b.loses(), (Refusal::Outranked, None));
    a.wins();
}

#[test]
fn c13_a_better_peer_does_not_wait_longer_for_a_silent_leader_than_others_do() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut b = peer(&shelf, &now, "b", 1, PoolTiming::default(), Duration::ZERO);
    b.wins();
    let mut a = peer(&shelf, &now, "a", 9, PoolTiming::default(), Duration::ZERO);
    let mut silent = 0;
    while matches!(a.claim().unwrap(), Verdict::Denied(_)) {
        pass(&now, seconds(1));
        silent += 1;
    }
    assert_eq!(silent, 80, "expiry and skew");
    // Nor for one that was told, and neither gives its term back nor claims.
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut b = peer(&shelf, &now, "b", 1, PoolTiming::default(), Duration::ZERO);
    let held = b.wins();
    let mut a = peer(&shelf, &now, "a", 9, PoolTiming::default(), Duration::ZERO);
    let mut silent = 0;
    while matches!(a.claim().unwrap(), Verdict::Denied(_)) {
        assert_eq!(deposed(&mut b, &held), Refusal::Outranked);
        pass(&now, seconds(1));
        silent += 1;
    }
    assert_eq!(silent, 80, "it keeps nobody out by asking");
}

#[test]
fn c13_of_two_that_led_in_parts_of_the_pool_none_waits_for_the_other() {
    let (here, there, now) = (Shelf::default(), Shelf::default(), Now::default());
    let mut a = peer(&here, &now, "a", 9, PoolTiming::default(), Duration::ZERO);
    let mut b = peer(&there, &now, "b", 1, PoolTiming::default(), Duration::ZERO);
    let (kept, lost) = (a.wins(), b.wins());
    let rows = [a.row().unwrap(), b.row().unwrap()];
    for shelf in [&here, &there] {
        let all = rows.iter().map(|row| (row.member.clone(), row.clone()));
        shelf.rows.lock().unwrap().extend(all);
    }
    let Ok(Verdict::Granted(grant)) = a.refresh(&kept) else { panic!("it is the better one") };
    assert_eq!(grant.term, kept.term);
    assert_eq!(deposed(&mut b, &lost), Refusal::Outranked);
}

#[test]
fn c13_a_row_from_further_in_the_future_than_clocks_differ_says_nothing() {
    let timing = PoolTiming::default();
    let latest = Duration::from_millis(EPOCH) + timing.max_skew;
    for (heartbeat, counts) in
        [(latest, true), (latest + Duration::from_nanos(1), false), (Duration::MAX, false)]
    {
        let (shelf, now) = (Shelf::default(), Now::default());
        let row = PoolRow {
            member: MemberId::new("top").unwrap(),
            incarnation: Incarnation(1),
            priority: 9,
            joined: heartbeat,
            heartbeat,
            terms: 1,
            leads_since: Some(heartbeat),
        };
        shelf.rows.lock().unwrap().insert(row.member.clone(), row);
        let mut a = peer(&shelf, &now, "a", 1, timing, Duration::ZERO);
        if counts {
            assert_eq!(a.loses(), outranked_by("top"));
            // A skew ahead, expiry, and a skew.
            pass(&now, seconds(99));
            assert_eq!(a.loses(), outranked_by("top"));
            pass(&now, seconds(1));
        }
        a.wins();
    }
}

#[test]
fn a2_a_process_that_gave_its_term_back_does_not_keep_the_next_of_its_name_out() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut first = peer(&shelf, &now, "a", 1, PoolTiming::default(), Duration::ZERO);
    let held = first.wins();
    assert!(first.abdicate(&held));
    let mut second = peer(&shelf, &now, "a", 1, PoolTiming::default(), Duration::ZERO);
    second.wins();
}

#[test]
fn a_peer_that_has_left_keeps_nobody_waiting_whether_it_led_or_not() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let peer = |id, priority| peer(&shelf, &now, id, priority, PoolTiming::default(), Duration::ZERO);
    let leave = |peer: &mut Peer, held: Option<&Grant<()>>| peer.oracle.leave(held).now_or_never().unwrap();
    let (mut a, mut b, mut c) = (peer("a", 9), peer("b", 5), peer("c", 1));
    let held = a.wins();
    assert_eq!(b.loses(), outranked_by("a"));
    assert_eq!(c.loses(), outranked_by("a"));
    assert_eq!(leave(&mut b, None), Ok(false), "there was no term to give");
    assert!(a.abdicate(&held));
    let held = c.wins();
    // A leader, whose first try fails.
    shelf.fails.store(true, Ordering::SeqCst);
    assert!(leave(&mut c, Some(&held)).is_err());
    shelf.fails.store(false, Ordering::SeqCst);
    assert_eq!(leave(&mut c, Some(&held)), Ok(true));
    assert_eq!(leave(&mut c, Some(&held)), Ok(false), "it was given");
    // One that did not hear that it leads.
    let mut d = peer("d", 1);
    d.wins();
    assert_eq!(leave(&mut d, None), Ok(true));
    peer("e", 1).wins();
}

#[test]
fn a_row_that_was_perhaps_written_is_not_said_to_have_failed_for_certain() {
    let (shelf, now) = (Shelf::default(), Now::default());
    let mut a = peer(&shelf, &now, "a", 1, PoolTiming::default(), Duration::ZERO);
    shelf.fails.store(true, Ordering::SeqCst);
    let asked = a.claim();
    let expected = Fault::Transient { maybe_committed: true, cause: "full".to_owned() };
    assert_eq!(asked, Err(expected));
}
