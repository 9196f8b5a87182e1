//! Terms, and the counter that never goes back.

use std::time::Duration;

use callsign_store::ids::{Ballot, Epoch};

use super::{Authority, Bed, Promise, TestedFence, attempt, bed::Granted, denied};
use crate::{
    core::term::Term,
    oracle::{Grant, Oracle, Refusal, Validity, Verdict},
};

/// A1, A3.
pub async fn a1_a3_a_restarted_process_does_not_continue_its_term<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut old = bed.player("m").await;
    let held = bed.win(&mut old).await;
    let mut new = bed.restarted("m").await;
    // It waits, or begins anew; it never gets what its former self had.
    let next = match new.claim().await {
        Verdict::Granted(grant) => grant,
        Verdict::Denied(denial) => {
            if bed.promises(Promise::Namesakes) {
                assert_eq!(denial.why, Refusal::DuplicateIdentity);
            }
            assert!(!new.is_granted(&held.term, &held).await);
            let lease = Bed::<A>::while_of(&held);
            authority.pass(lease).await;
            bed.follow(&mut new).await
        }
    };
    bed.judge(&new, &next);
    bed.assert_follows(&next, &held);
    let dated = Term { elected_at: held.term.elected_at, ..next.term.clone() };
    assert_ne!(dated, held.term, "also where both were elected at one time");
    // Its successor is registered in its place. Where it is cut off it is told nothing, and certainly not that it leads.
    match old.oracle.refresh(attempt(), &held).await {
        Ok(Verdict::Denied(denial)) => {
            let why = denial.why;
            assert!(matches!(why, Refusal::TermOver | Refusal::DuplicateIdentity), "{why:?}");
        }
        Ok(Verdict::Granted(grant)) => assert!(!bed.promises(Promise::Exclusive), "two at once: {grant:?}"),
        Err(_) => {}
    }
    new.keep(&next).await;
}

/// A4, and Inv1.
pub async fn a4_i1_ballots_only_grow_whatever_happens<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut players = [bed.player("a").await, bed.player("b").await, bed.player("c").await];
    let mut held: [Option<Granted<A>>; 3] = [None, None, None];
    let (mut highest, mut terms) = (Ballot(0), Vec::<(Epoch, Term)>::new());
    for round in 0..60_usize {
        let draw: usize = rand::random::<u16>().into();
        let who = draw % 3;
        let player = &mut players[who];
        let verdict = match (draw / 3 % 5, held[who].clone()) {
            (0 | 1, _) => {
                if !bed.promises(Promise::FirstCome) {
                    authority.elect(&bed.election, &player.context.member).await;
                }
                Some(player.claim_as(attempt()).await)
            }
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
            bed.judge(player, &grant);
            let Some(fence) = grant.fence.fence() else { panic!("it is fenced") };
            let is_of_last = terms.last().is_some_and(|(epoch, _)| *epoch == grant.term.epoch);
            let may_stay = is_of_last && !bed.promises(Promise::BallotPerRefresh);
            assert!(
                fence.ballot > highest || (may_stay && fence.ballot == highest),
                "round {round}: {fence:?} after {highest}"
            );
            highest = fence.ballot;
            match terms.last() {
                Some((epoch, term)) if *epoch == grant.term.epoch => assert_eq!(*term, grant.term),
                Some((epoch, _)) => assert!(grant.term.epoch > *epoch),
                None => {}
            }
            terms.push((grant.term.epoch, grant.term.clone()));
            held[who] = Some(grant);
        }
    }
    assert!(!terms.is_empty(), "somebody was granted something");
}

/// A5.
pub async fn a5_a_refresh_moves_the_ballot_and_not_the_epoch<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let won = bed.win(&mut a).await;
    let mut last = won.clone();
    for _ in 0..3 {
        let kept = a.keep(&last).await;
        let (Some(now), Some(before)) = (kept.fence.fence(), last.fence.fence()) else {
            panic!("it is fenced")
        };
        assert_eq!((now.epoch, now.ballot.0), (before.epoch, before.ballot.0 + 1));
        last = kept;
    }
}

/// A6.
pub async fn a6_the_epoch_moves_once_with_each_term_and_not_with_what_others_do<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let won = bed.win(&mut a).await;
    let mut b = bed.player("b").await;
    b.lose().await;
    let mut c = bed.player("c").await;
    c.lose().await;
    let kept = a.keep(&won).await;
    assert!(a.abdicate(&kept).await);
    let next = if bed.promises(Promise::FirstCome) {
        bed.win(&mut b).await
    } else {
        // Which of the others it is, is not for them to say.
        authority.elect(&bed.election, &b.context.member).await;
        loop {
            if let Verdict::Granted(grant) = b.claim().await {
                break grant;
            }
            if let Verdict::Granted(grant) = c.claim().await {
                break grant;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    bed.assert_follows(&next, &kept);
    if bed.promises(Promise::BallotPerRefresh) {
        // Every ballot since is accounted for: the refresh, the vacancy if it counts as a change, and the new term.
        let ballot = |grant: &Granted<A>| grant.fence.fence().map_or(0, |fence| fence.ballot.0);
        let moved = ballot(&next) - ballot(&kept);
        assert!((1..=2).contains(&moved), "{moved} ballots for one vacancy and one win");
        assert_eq!(next.term.epoch.0, ballot(&next));
    }
}

/// C10.
pub async fn c10_an_expired_lease_is_not_refreshed<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let mut a = bed.player("a").await;
    let held = bed.win(&mut a).await;
    bed.outlast(&mut a, &held).await;
    let before = bed.stored().await;
    assert_eq!(denied(a.refresh(&held).await).why, Refusal::TermOver, "although nobody claimed");
    assert_eq!(bed.stored().await, before);
    let next = bed.win(&mut a).await;
    // It must claim, and gets a new epoch.
    bed.assert_follows(&next, &held);
    assert_eq!(denied(a.refresh(&held).await).why, Refusal::TermOver);
}

/// A member that held one term and holds another.
async fn two_terms<A: Authority>(bed: &Bed<'_, A>) -> (super::Player<A::Oracle>, Granted<A>, Granted<A>) {
    let mut a = bed.player("a").await;
    let first = bed.win(&mut a).await;
    assert!(a.abdicate(&first).await);
    let second = bed.win(&mut a).await;
    bed.assert_follows(&second, &first);
    (a, first, second)
}

/// D5.
pub async fn d5_a_former_term_is_not_refreshed<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, first, second) = two_terms(&bed).await;
    let before = bed.stored().await;
    assert_eq!(denied(a.refresh(&first).await).why, Refusal::TermOver);
    assert_eq!(bed.stored().await, before, "the second term's expiry is unchanged");
    a.keep(&second).await;
}

/// D6.
pub async fn d6_a_former_term_is_not_given_back<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, first, second) = two_terms(&bed).await;
    let before = bed.stored().await;
    assert!(!a.abdicate(&first).await);
    assert_eq!(bed.stored().await, before);
    a.keep(&second).await;
}

/// D7.
pub async fn d7_a_resignation_keeps_the_counter<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let mut held = bed.win(&mut a).await;
    for _ in 0..3 {
        held = a.keep(&held).await;
    }
    assert!(a.abdicate(&held).await);
    let next = bed.win(&mut b).await;
    bed.assert_follows(&next, &held);
    assert!(b.abdicate(&next).await);
    let last = bed.win(&mut a).await;
    bed.assert_follows(&last, &next);
}

/// F3, as far as an oracle has it.
pub async fn f3_a_term_that_nobody_has_is_not_given_back<A: Authority>(authority: &A) {
    let bed = Bed::new(authority);
    let (mut a, mut b) = (bed.player("a").await, bed.player("b").await);
    let held = bed.win(&mut a).await;
    let before = bed.stored().await;
    assert!(!b.abdicate(&held).await, "it is another's");
    let never =
        Grant { term: Term { epoch: Epoch(u64::from(u32::MAX)), ..held.term.clone() }, ..held.clone() };
    assert!(!a.abdicate(&never).await, "there was no such term");
    assert_eq!(bed.stored().await, before);
    a.keep(&held).await;
    if bed.promises(Promise::GivesBack) {
        assert!(a.abdicate(&held).await);
        assert!(!a.abdicate(&held).await, "it was given back already");
    }
}
