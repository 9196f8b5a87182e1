mod conformance;

use callsign_election::{Context, Oracle, Refusal, Verdict, oracle::Attempt};
use callsign_store::ids::{Incarnation, Nonce};

use super::*;
use crate::server::{Claim, Holder, Show, Won};

async fn lease(url: &str, member: &str, incarnation: u64) -> HttpLease {
    let mut lease = HttpLease::new(url.to_owned(), Duration::from_secs(60));
    let election = ElectionName::new("e").unwrap();
    let member = MemberId::new(member).unwrap();
    let context = Context { election, member, incarnation: Incarnation(incarnation) };
    lease.init(&context).await.unwrap();
    lease
}

fn attempt(nonce: u64) -> Attempt {
    Attempt { nonce: Nonce(nonce) }
}

fn granted(verdict: Verdict<()>) -> Grant<()> {
    match verdict {
        Verdict::Granted(grant) => grant,
        Verdict::Denied(denial) => panic!("{denial:?}"),
    }
}

fn why(verdict: Verdict<()>) -> Refusal {
    match verdict {
        Verdict::Denied(denial) => denial.why,
        Verdict::Granted(grant) => panic!("{grant:?}"),
    }
}

async fn url() -> String {
    format!("http://{}", server::serve().await.unwrap().address)
}

#[tokio::test]
async fn j15_a_wrong_code_neither_refreshes_nor_releases() {
    let url = url().await;
    let mut a = lease(&url, "a", 1).await;
    let held = granted(a.claim(attempt(1)).await.unwrap());
    // Anybody may ask, with a code of their own making, and with none.
    for code in ["", "00000000000000000000000000000000"] {
        let show = || Show { code: code.to_owned(), lease_ms: 1 };
        let refused = a.ask::<Won, Option<Holder>>("/refresh", show()).await.unwrap();
        assert_eq!(refused.unwrap_err().unwrap().member, "a", "who has it is no secret");
        assert!(!a.ask::<bool, ()>("/release", show()).await.unwrap().unwrap());
    }
    let kept = granted(a.refresh(attempt(2), &held).await.unwrap());
    assert_eq!(kept.term, held.term, "it is still there");
    // The code of an earlier claim is a wrong one, too.
    let earlier = a.ask::<Won, Holder>("/claim", claim("a", 1, 1)).await.unwrap().unwrap().code;
    assert!(a.abdicate(&held).await.unwrap());
    let next = granted(a.claim(attempt(3)).await.unwrap());
    assert!(next.term.epoch > held.term.epoch);
    let show = || Show { code: earlier.clone(), lease_ms: 1 };
    assert!(a.ask::<Won, Option<Holder>>("/refresh", show()).await.unwrap().is_err());
    assert!(!a.ask::<bool, ()>("/release", show()).await.unwrap().unwrap());
    assert_eq!(why(a.refresh(attempt(4), &held).await.unwrap()), Refusal::TermOver);
    assert!(!a.abdicate(&held).await.unwrap());
    granted(a.refresh(attempt(5), &next).await.unwrap());
}

fn claim(member: &str, incarnation: u64, nonce: u64) -> Claim {
    Claim { member: member.to_owned(), incarnation, nonce, lease_ms: 60_000 }
}

#[tokio::test]
async fn a2_a9_d3_one_has_it_and_an_attempt_made_again_is_the_same() {
    let url = url().await;
    let mut a = lease(&url, "a", 1).await;
    let held = granted(a.claim(attempt(1)).await.unwrap());
    let mut again = lease(&url, "a", 1).await;
    assert_eq!(granted(again.claim(attempt(1)).await.unwrap()).term, held.term, "its answer was lost");
    assert_eq!(why(lease(&url, "b", 2).await.claim(attempt(2)).await.unwrap()), Refusal::Held);
    let double = lease(&url, "a", 2).await.claim(attempt(2)).await.unwrap();
    assert_eq!(why(double), Refusal::DuplicateIdentity);
    granted(a.refresh(attempt(3), &held).await.unwrap());
}

#[tokio::test]
async fn j18_with_a_fence_added_a_server_that_forgot_everything_takes_no_epoch_back() {
    let store = callsign_store::open("memory:").unwrap();
    let mut last = None;
    for incarnation in 1..4 {
        // Each time another server, which counts from 1 again.
        let oracle = HttpLease::new(url().await, LEASE);
        let mut fenced = Fenced::new(oracle, store.clone(), &ClusterName::new("c").unwrap());
        let (election, member) = (ElectionName::new("e").unwrap(), MemberId::new("a").unwrap());
        let context = Context { election, member, incarnation: Incarnation(incarnation) };
        fenced.init(&context).await.unwrap();
        let Verdict::Granted(grant) = fenced.claim(attempt(1)).await.unwrap() else { panic!("it is vacant") };
        assert!(last < Some(grant.fence.epoch));
        last = Some(grant.fence.epoch);
    }
}
