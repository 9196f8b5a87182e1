//! Terms, and the counter that never goes back.

use std::time::Duration;

use super::{Authority, Bed, Validity, attempt, denied, granted};
use crate::{
    election::{
        oracle::{Grant, Refusal, Verdict},
        term::{Fence, Term},
    },
    ids::{Ballot, Epoch},
};

/// A1, A3.
pub async fn a1_a3_a_restarted_process_does_not_continue_its_term<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut old = bed.player("m").await;
    let held = old.win().await;
    let mut new = bed.player("m").await;
    // It waits, or begins anew; it never gets what its former self had.
    match new.claim().await {
        Verdict::Granted(grant) => assert!(grant.term.epoch > held.term.epoch),
        Verdict::Denied(denial) => assert_eq!(denial.why, Refusal::DuplicateIdentity),
    }
    assert_ne!(new.refresh(&held).await, Verdict::Granted(held.clone()));
    if !bed.expire(&held).await {
        return;
    }
    let next = new.win().await;
    assert!(next.term.epoch > held.term.epoch);
    assert_ne!(next.term, held.term, "two terms of one member");
    let dated = Term { elected_at: held.term.elected_at, ..next.term };
    assert_ne!(dated, held.term, "also where both were elected at one time");
    // Its successor is registered in its place.
    let why = denied(old.refresh(&held).await).why;
    assert!(matches!(why, Refusal::TermOver | Refusal::DuplicateIdentity), "{why:?}");
}

/// A4, and I1 of the invariants.
pub async fn a4_i1_ballots_only_grow_whatever_happens<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut players = [bed.player("a").await, bed.player("b").await, bed.player("c").await];
    let mut held: [Option<Grant<Fence>>; 3] = [None, None, None];
    let (mut highest, mut terms) = (Ballot(0), Vec::<(Epoch, Term)>::new());
    for round in 0..60_usize {
        let draw: usize = rand::random::<u16>().into();
        let who = draw % 3;
        let player = &mut players[who];
        let verdict = match (draw / 3 % 5, held[who].clone()) {
            (0 | 1, _) => Some(player.claim_as(attempt()).await),
            (2, Some(grant)) => Some(player.refresh(&grant).await),
            (3, Some(grant)) => {
                player.abdicate(&grant).await;
                held[who] = None;
                None
            }
            _ => {
                // A third of what the leases are, so that some end and some do not.
                let lease = held.iter().flatten().map(|grant| grant.validity).next();
                if let Some(Validity::For(lease)) = lease {
                    authority.pass(lease / 3 + Duration::from_millis(1)).await;
                }
                None
            }
        };
        if let Some(Verdict::Granted(grant)) = verdict {
            assert!(grant.fence.ballot > highest, "round {round}: {:?} after {highest}", grant.fence);
            highest = grant.fence.ballot;
            assert!(grant.fence.epoch.0 <= grant.fence.ballot.0);
            match terms.last() {
                Some((epoch, term)) if *epoch == grant.term.epoch => assert_eq!(*term, grant.term),
                Some((epoch, _)) => assert!(grant.term.epoch > *epoch),
                None => {}
            }
            terms.push((grant.term.epoch, grant.term.clone()));
            held[who] = Some(grant);
        }
    }
}

/// A5.
pub async fn a5_a_refresh_moves_the_ballot_and_not_the_epoch<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let won = a.win().await;
    let mut last = won.clone();
    for _ in 0..3 {
        let kept = granted(a.refresh(&last).await);
        assert_eq!(kept.term, won.term);
        assert_eq!(kept.fence.epoch, won.fence.epoch);
        assert_eq!(kept.fence.ballot.0, last.fence.ballot.0 + 1);
        last = kept;
    }
}

/// A6.
pub async fn a6_the_epoch_moves_once_with_each_term_and_not_with_what_others_do<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let won = a.win().await;
    let mut b = bed.player("b").await;
    b.lose().await;
    let _c = bed.player("c").await;
    let kept = granted(a.refresh(&won).await);
    assert_eq!(kept.term, won.term);
    assert!(a.abdicate(&kept).await);
    let next = b.win().await;
    // Every ballot since is accounted for: the refresh, the vacancy if it counts as a change, and the new term.
    let moved = next.fence.ballot.0 - kept.fence.ballot.0;
    assert!((1..=2).contains(&moved), "{moved} ballots for one vacancy and one win");
    assert_eq!(next.fence.epoch.0, next.fence.ballot.0);
}

/// C10.
pub async fn c10_an_expired_lease_is_not_refreshed<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let held = a.win().await;
    let before = bed.stored().await;
    if !bed.expire(&held).await {
        return;
    }
    assert_eq!(denied(a.refresh(&held).await).why, Refusal::TermOver, "although nobody claimed");
    assert_eq!(bed.stored().await, before);
    let next = a.win().await;
    assert!(next.fence.epoch > held.fence.epoch, "it must claim, and gets a new epoch");
    assert_eq!(denied(a.refresh(&held).await).why, Refusal::TermOver);
}

/// A member that held one term and holds another.
async fn two_terms<A: Authority>(bed: &Bed<'_, A>) -> (super::Player<A::Oracle>, Grant<Fence>, Grant<Fence>) {
    let mut a = bed.player("a").await;
    let first = a.win().await;
    assert!(a.abdicate(&first).await);
    let second = a.win().await;
    assert!(second.term.epoch > first.term.epoch);
    (a, first, second)
}

/// D5.
pub async fn d5_a_former_term_is_not_refreshed<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, first, second) = two_terms(&bed).await;
    let before = bed.stored().await;
    assert_eq!(denied(a.refresh(&first).await).why, Refusal::TermOver);
    assert_eq!(bed.stored().await, before, "the second term's expiry is unchanged");
    assert_eq!(granted(a.refresh(&second).await).term, second.term);
}

/// D6.
pub async fn d6_a_former_term_is_not_given_back<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, first, second) = two_terms(&bed).await;
    let before = bed.stored().await;
    assert!(!a.abdicate(&first).await);
    assert_eq!(bed.stored().await, before);
    assert_eq!(granted(a.refresh(&second).await).term, second.term);
}

/// D7.
pub async fn d7_a_resignation_keeps_the_counter<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let mut held = a.win().await;
    for _ in 0..3 {
        held = granted(a.refresh(&held).await);
    }
    assert!(a.abdicate(&held).await);
    let next = b.win().await;
    assert!(next.fence.ballot.0 > held.fence.ballot.0);
    assert!(b.abdicate(&next).await);
    assert!(a.win().await.fence.ballot > next.fence.ballot);
}

/// F3, as far as an oracle has it.
pub async fn f3_a_term_that_nobody_has_is_not_given_back<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = a.win().await;
    let before = bed.stored().await;
    assert!(!b.abdicate(&held).await, "it is another's");
    let never =
        Grant { term: Term { epoch: Epoch(u64::from(u32::MAX)), ..held.term.clone() }, ..held.clone() };
    assert!(!a.abdicate(&never).await, "there was no such term");
    assert_eq!(bed.stored().await, before);
    assert!(a.abdicate(&held).await);
    assert!(!a.abdicate(&held).await, "it was given back already");
}
