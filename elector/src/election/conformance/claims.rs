//! Who gets the seat.

use futures::future::join_all;

use super::{Authority, Bed, attempt, denied, granted};
use crate::election::oracle::{Refusal, Verdict};

/// D1, B1.
pub async fn d1_b1_a_vacant_seat_is_granted_at_once<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let first = a.win().await;
    assert_eq!((&first.term.leader, first.term.incarnation), (&a.context.member, a.context.incarnation));
    // A sink compares both.
    assert_eq!(first.fence.epoch, first.term.epoch);
    assert_eq!(first.fence.ballot.0, first.fence.epoch.0, "the ballot at the win");
    assert!(a.abdicate(&first).await);
    let second = b.win().await;
    assert!(second.fence.epoch > first.fence.epoch && second.fence.ballot > first.fence.ballot);
}

/// D2.
pub async fn d2_of_fifty_concurrent_claims_one_is_granted_and_all_others_name_it<A: Authority>(
    authority: &A,
) {
    let bed = Bed::new(authority);
    let names: Vec<_> = (0..50).map(|n| format!("m{n}")).collect();
    let mut players = join_all(names.iter().map(|name| bed.player(name))).await;
    let verdicts = join_all(players.iter_mut().map(super::Player::claim)).await;
    let (mut won, mut named) = (Vec::new(), Vec::new());
    for verdict in verdicts {
        match verdict {
            Verdict::Granted(grant) => won.push(grant.term),
            Verdict::Denied(denial) => named.push(denial.leader),
        }
    }
    assert_eq!((won.len(), named.len()), (1, 49));
    assert!(named.iter().all(|leader| leader.as_ref() == won.first()), "{named:?} name {won:?}");
}

/// D3.
pub async fn d3_while_somebody_holds_the_seat_a_claim_is_denied_and_changes_nothing<A: Authority>(
    authority: &A,
) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = a.win().await;
    let before = bed.stored().await;
    for _ in 0..3 {
        let denial = b.lose().await;
        assert_eq!((denial.why, denial.leader), (Refusal::Held, Some(held.term.clone())));
    }
    assert_eq!(bed.stored().await, before, "byte-identical");
    granted(a.refresh(&held).await);
}

/// D4.
pub async fn d4_a_claim_of_the_holder_gets_the_same_epoch_back<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let won = a.win().await;
    let again = a.win().await;
    assert_eq!(again.term, won.term);
    assert!(again.fence.ballot >= won.fence.ballot);
    let kept = granted(a.refresh(&again).await);
    assert_eq!(kept.term, won.term);
    // And the one before is as good: it is the same term.
    assert_eq!(granted(a.refresh(&won).await).term, won.term);
}

/// A9.
pub async fn a9_an_attempt_made_again_gets_the_same_term<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let attempt = attempt();
    // The answer is lost: whoever asked does not know that it won.
    let lost = granted(a.claim_as(attempt).await);
    let known = granted(a.claim_as(attempt).await);
    assert_eq!(known.term, lost.term, "no second epoch");
    assert_eq!(b.lose().await.leader, Some(known.term.clone()));
    granted(a.refresh(&known).await);
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
    granted(winner.refresh(&grant).await);
}

/// C1.
pub async fn c1_a_holder_that_stops_refreshing_is_followed_when_its_lease_ends<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = a.win().await;
    assert_eq!(b.lose().await.why, Refusal::Held);
    if !bed.expire(&held).await {
        return;
    }
    let next = b.win().await;
    assert!(next.fence.epoch > held.fence.epoch && next.fence.ballot > held.fence.ballot);
    // The old one is told when it asks.
    assert_eq!(denied(a.refresh(&held).await).leader, Some(next.term.clone()));
    assert_eq!(a.lose().await.leader, Some(next.term));
}

/// C3, of what any authority must do: whoever comes first to a seat that is held does not get it, however long it was
/// away.
pub async fn c3_first_sight_never_takes_a_seat_over<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let mut held = a.win().await;
    for _ in 0..3 {
        let super::Validity::For(lease) = held.validity else { return };
        authority.pass(lease / 2).await;
        held = granted(a.refresh(&held).await);
        authority.pass(lease / 4).await;
        assert_eq!(b.lose().await.why, Refusal::Held, "it was refreshed since b looked");
    }
}

/// H4.
pub async fn h4_elections_on_one_backend_do_not_see_each_other<A: Authority>(authority: &A) {
    let (one, other) = (Bed::new(authority), Bed::new(authority));
    let (mut a, mut b) = (one.player("same").await, other.player("same").await);
    let held = a.win().await;
    let before = one.stored().await;
    let theirs = b.win().await;
    let again = granted(b.refresh(&theirs).await);
    // The other's first epoch, whatever went on here.
    assert_eq!((theirs.fence, theirs.term.epoch), (held.fence, held.term.epoch), "each counts for itself");
    denied(b.refresh(&held).await);
    assert!(b.abdicate(&again).await);
    assert_eq!(one.stored().await, before);
    granted(a.refresh(&held).await);
}
