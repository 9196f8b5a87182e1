//! Who gets the seat.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::{Authority, Bed, Promise, TestedFence, attempt, denied};
use crate::oracle::{Fault, Oracle, Refusal, Validity, Verdict};

/// D1, B1.
pub async fn d1_b1_a_vacant_seat_is_granted<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let first = bed.win(&mut a).await;
    if let Some(fence) = first.fence.fence()
        && bed.promises(Promise::FirstCome)
    {
        assert_eq!(fence.ballot.0, fence.epoch.0, "the ballot at the win");
    }
    assert!(a.abdicate(&first).await);
    let second = bed.win(&mut b).await;
    bed.assert_follows(&second, &first);
}

/// D2.
pub async fn d2_of_many_concurrent_claims_one_is_granted_and_all_others_name_it<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut players = Vec::new();
    for n in 0..authority.crowd() {
        players.push(bed.player(&format!("m{n}")).await);
    }
    let verdicts = join_all(players.iter_mut().map(super::Player::claim)).await;
    let (mut won, mut lost) = (Vec::new(), Vec::new());
    for (player, verdict) in players.iter_mut().zip(verdicts) {
        match verdict {
            Verdict::Granted(grant) => won.push(grant.term),
            Verdict::Denied(denial) => lost.push((player, denial.leader)),
        }
    }
    assert_eq!((won.len(), lost.len()), (1, authority.crowd() - 1), "{won:?}");
    if !bed.promises(Promise::NamesTheHolder) {
        return;
    }
    for (player, named) in lost {
        // Whoever comes while the winner is being written down may be told of nobody. Then it is named when asked for again.
        let named = if named.is_none() { player.lose().await.leader } else { named };
        assert_eq!(named.as_ref(), won.first(), "{:?} names the winner", player.context);
    }
}

/// D3.
pub async fn d3_while_somebody_holds_the_seat_a_claim_is_denied_and_changes_nothing<A: Authority>(
    authority: &A,
) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = bed.win(&mut a).await;
    let before = bed.stored().await;
    for _ in 0..3 {
        bed.assert_held(&b.lose().await, &held.term);
    }
    assert_eq!(bed.stored().await, before, "byte-identical");
    a.keep(&held).await;
}

/// D4.
pub async fn d4_a_claim_of_the_holder_gets_the_same_epoch_back<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let won = bed.win(&mut a).await;
    let again = a.win().await;
    assert_eq!(again.term, won.term);
    if let (Some(again), Some(won)) = (again.fence.fence(), won.fence.fence()) {
        assert!(again.ballot >= won.ballot);
    }
    a.keep(&again).await;
    // And the one before is as good: it is the same term.
    a.keep(&won).await;
}

/// A9.
pub async fn a9_an_attempt_made_again_gets_the_same_term<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let attempt = attempt();
    // The answer is lost: whoever asked does not know that it won.
    let lost = bed.win_as(&mut a, attempt).await;
    let known = bed.win_as(&mut a, attempt).await;
    assert_eq!(known.term, lost.term, "no second epoch");
    bed.assert_held(&b.lose().await, &known.term);
    a.keep(&known).await;
}

/// A2.
pub async fn a2_of_two_processes_of_one_id_one_is_granted_and_the_other_is_told<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut first, mut second) = (bed.player("same").await, bed.player("same").await);
    let (one, other) = (first.claim().await, second.claim().await);
    let (mut winner, grant, mut loser, denial) = match (one, other) {
        (Verdict::Granted(grant), Verdict::Denied(denial)) => (first, grant, second, denial),
        (Verdict::Denied(denial), Verdict::Granted(grant)) => (second, grant, first, denial),
        both => panic!("exactly one is granted: {both:?}"),
    };
    assert_eq!(denial.why, Refusal::DuplicateIdentity);
    // It stays so, and what the other overheard is of no use to it.
    assert_eq!(loser.lose().await.why, Refusal::DuplicateIdentity);
    denied(loser.refresh(&grant).await);
    assert!(!loser.abdicate(&grant).await);
    winner.keep(&grant).await;
}

/// C1; J14 for the one that comes back.
pub async fn c1_a_silent_holder_is_followed_when_its_lease_ends_and_is_told_when_it_returns<A: Authority>(
    authority: &A,
) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = bed.win(&mut a).await;
    bed.assert_held(&b.lose().await, &held.term);
    bed.cut(&a).await;
    let left = bed.left(&mut a, &held).await;
    let half = left / 2;
    authority.pass(half).await;
    if bed.promises(Promise::EndsByTime) {
        let asked = Instant::now();
        let early = b.oracle.claim(attempt()).await;
        // Where asking takes so long that the time is over, it may be granted.
        let is_early = asked.elapsed() < half;
        assert!(
            !(is_early && matches!(early, Ok(Verdict::Granted(_)))),
            "while {left:?} were left: {early:?}"
        );
    }
    authority.pass(left.saturating_sub(half)).await;
    let next = bed.follow(&mut b).await;
    bed.assert_follows(&next, &held);
    if bed.promises(Promise::EndsByTime) {
        assert!(!a.is_granted(&held.term, &held).await, "two at once");
    }
    // The old one is told when it asks.
    bed.heal(&a).await;
    let told = denied(a.refresh(&held).await);
    assert!(
        matches!(told.why, Refusal::TermOver | Refusal::DuplicateIdentity | Refusal::Outranked),
        "{told:?}"
    );
    if bed.promises(Promise::NamesTheHolder) {
        // What it sees may be behind. What it is told is not.
        assert!(told.leader.is_none() || told.leader.as_ref() == Some(&next.term), "{told:?}");
    }
    bed.assert_held(&a.lose().await, &next.term);
    assert!(!a.abdicate(&held).await);
    b.keep(&next).await;
}

/// C3, of what any authority must do: whoever comes first to a seat that is held does not get it, however long it was
/// away.
pub async fn c3_first_sight_never_takes_a_seat_over<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let mut held = bed.win(&mut a).await;
    for _ in 0..3 {
        let lease = Bed::<A>::while_of(&held);
        authority.pass(lease / 2).await;
        held = a.keep(&held).await;
        authority.pass(lease / 4).await;
        // It was refreshed since b looked.
        bed.assert_held(&b.lose().await, &held.term);
    }
}

/// C9, J11: "don't know" is neither "no" nor "yes".
pub async fn c9_j11_who_is_cut_off_knows_nothing_and_keeps_what_it_had<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = bed.win(&mut a).await;
    bed.assert_held(&b.lose().await, &held.term);
    let before = bed.stored().await;
    bed.cut(&a).await;
    let left = bed.left(&mut a, &held).await;
    authority.pass(left / 4).await;
    match a.oracle.refresh(attempt(), &held).await {
        Err(Fault::Transient { .. }) => {}
        // What it knows by itself it may say.
        Ok(Verdict::Granted(kept)) => assert_eq!(kept.term, held.term),
        other => panic!("nobody has told it: {other:?}"),
    }
    bed.heal(&a).await;
    a.keep(&held).await;
    bed.cut(&b).await;
    let asked = b.oracle.claim(attempt()).await;
    assert!(matches!(asked, Err(Fault::Transient { .. })), "nobody has told it: {asked:?}");
    bed.heal(&b).await;
    // What it asked may still be on its way, and is denied now as then.
    bed.assert_held(&b.lose().await, &held.term);
    let kept = a.keep(&held).await;
    if !bed.promises(Promise::BallotPerRefresh) {
        assert_eq!(bed.stored().await, before);
    }
    assert_eq!(kept.term, held.term, "an outage within its time costs nobody the seat");
}

/// D17, C6: whoever is cut off is granted nothing beyond the end of what it had.
pub async fn d17_c6_who_is_cut_off_is_granted_no_more_than_it_had<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let held = bed.win(&mut a).await;
    bed.cut(&a).await;
    let left = bed.left(&mut a, &held).await;
    let mut passed = Duration::ZERO;
    for _ in 0..4 {
        let step = left / 4 + Duration::from_millis(1);
        authority.pass(step).await;
        passed += step;
        match a.oracle.refresh(attempt(), &held).await {
            Ok(Verdict::Granted(kept)) => {
                assert_eq!(kept.term, held.term);
                let Validity::For(validity) = kept.validity else { panic!("it ends: {kept:?}") };
                assert!(passed + validity <= left, "{validity:?} after {passed:?} of {left:?}");
            }
            Err(Fault::Transient { .. }) => {}
            other => panic!("nobody has told it: {other:?}"),
        }
    }
    assert!(!a.is_granted(&held.term, &held).await, "its time is over");
}

/// H4.
pub async fn h4_elections_on_one_backend_do_not_see_each_other<A: Authority>(authority: &A) {
    let (one, other) = (Bed::new(authority), Bed::new(authority));
    let (mut a, mut b) = (one.player("same").await, other.player("same").await);
    let held = one.win(&mut a).await;
    let before = one.stored().await;
    let theirs = other.win(&mut b).await;
    let again = b.keep(&theirs).await;
    // A grant of this election is none there.
    denied(b.refresh(&held).await);
    assert!(!b.abdicate(&held).await);
    assert_eq!(b.abdicate(&again).await, other.promises(Promise::GivesBack));
    assert_eq!(one.stored().await, before);
    a.keep(&held).await;
}
