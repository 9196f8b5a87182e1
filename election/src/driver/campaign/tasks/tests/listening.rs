//! Subscriptions, status, events.

use callsign_store::{
    ids::{Ballot, Epoch, Incarnation, MemberId},
    testing::log::Listening,
};
use tokio::time::sleep;

use super::toy::*;
use crate::{
    core::term::{AuthorityTime, Fence, Term},
    driver::campaign::{Phase, QUEUE_CAP, SubscriptionError, Transition, subscribers::Subscribers},
    oracle::{Denial, Grant, Reaction, Refusal, Validity, Verdict},
    role::Lost,
};

fn grant(epoch: u64) -> Grant<Fence> {
    Grant {
        term: Term {
            leader: MemberId::new("a").unwrap(),
            incarnation: Incarnation(1),
            epoch: Epoch(epoch),
            elected_at: AuthorityTime(1),
        },
        fence: Fence { epoch: Epoch(epoch), ballot: Ballot(epoch) },
        validity: Validity::UntilRevoked,
        refresh_in: None,
    }
}

fn denied() -> Reaction<Fence> {
    Reaction::Verdict(Verdict::Denied(Denial { why: Refusal::Held, leader: None, retry_in: None }))
}

/// The seat is another's, so that only messages from outside make it lead.
async fn flipping() -> (Authority, Member) {
    let authority = Authority::default();
    let mut b = member(&authority, "b").await;
    b.leads().await;
    // It stays.
    Box::leak(Box::new(b));
    let a = member(&authority, "a").await;
    (authority, a)
}

async fn flip(member: &Member, epoch: u64) {
    assert!(member.campaign.info(Reaction::Verdict(Verdict::Granted(grant(epoch)))));
    until(|| member.campaign.status().phase == Phase::Leading).await;
    assert!(member.campaign.info(denied()));
    until(|| member.campaign.status().phase == Phase::Following).await;
}

#[tokio::test(start_paused = true)]
async fn i5_i6_i7_a_slow_subscriber_gets_every_transition_in_order_with_its_term() {
    let (_authority, mut a) = flipping().await;
    // It sleeps, in effect: it does not look at its queue until all is over.
    for epoch in 100..600 {
        flip(&a, epoch).await;
    }
    assert_eq!(a.transitions.next().await, Ok(Transition::Following(None)));
    for epoch in 100..600 {
        assert_eq!(a.transitions.next().await, Ok(Transition::Leading(grant(epoch))));
        assert_eq!(a.transitions.next().await, Ok(Transition::Following(None)));
    }
    assert_eq!(a.transitions.try_next(), Ok(None));
    // Whoever comes now begins with the state.
    assert!(a.campaign.info(Reaction::Verdict(Verdict::Granted(grant(600)))));
    until(|| a.campaign.status().phase == Phase::Leading).await;
    let mut late = a.campaign.subscribe();
    assert_eq!(late.try_next(), Ok(Some(Transition::Leading(grant(600)))));
    assert!(a.campaign.info(denied()));
    assert_eq!(late.next().await, Ok(Transition::Following(None)));
}

#[test]
fn i6_at_the_cap_the_subscriber_is_closed_and_nothing_was_skipped() {
    let subscribers = Subscribers::new();
    let mut slow = subscribers.subscribe();
    let mut fast = subscribers.subscribe();
    assert_eq!(fast.try_next(), Ok(Some(Transition::Following(None))));
    let cap = u64::try_from(QUEUE_CAP).unwrap();
    for epoch in 1..=cap {
        subscribers.publish(&Transition::Leading(grant(epoch)));
        assert_eq!(fast.try_next(), Ok(Some(Transition::Leading(grant(epoch)))));
    }
    assert_eq!(slow.try_next(), Ok(Some(Transition::Following(None))));
    for epoch in 1..cap {
        assert_eq!(slow.try_next(), Ok(Some(Transition::Leading(grant(epoch)))));
    }
    assert_eq!(slow.try_next(), Err(SubscriptionError::Overrun));
    assert_eq!(fast.try_next(), Ok(None));
    subscribers.end();
    assert_eq!(fast.try_next(), Ok(Some(Transition::Following(None))));
    assert_eq!(fast.try_next(), Err(SubscriptionError::Ended));
}

#[tokio::test(start_paused = true)]
async fn i8_who_unsubscribes_leaves_nothing_behind() {
    let subscribers = Subscribers::<Fence>::new();
    let held: Vec<_> = (0..100).map(|_| subscribers.subscribe()).collect();
    assert_eq!(subscribers.count(), 100);
    drop(held);
    assert_eq!(subscribers.count(), 0);
    // In the middle of a delivery, of a campaign: no task is left, nor after its end.
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    let running = alive();
    for _ in 0..100 {
        let mut transitions = a.campaign.subscribe();
        let _ = transitions.try_next();
        let waiting = tokio::spawn(async move { transitions.next().await });
        sleep(ms(1)).await;
        waiting.abort();
    }
    until(|| alive() == running).await;
    a.campaign.stop().await.unwrap();
    until(|| alive() == before).await;
}

#[tokio::test(start_paused = true)]
async fn i13_the_status_says_what_is_known_without_waiting() {
    let authority = Authority::default();
    authority.lock().silent = true;
    let init = Some(Ok(crate::Init::Ready));
    let journal = Journal::default();
    journal.lock().stop_takes = s(1);
    let mut a = member_with(Toy { init, ..Toy::new(&authority) }, settings("a"), journal).await;
    let status = a.campaign.status();
    assert_eq!((status.phase, status.grant, status.leader), (Phase::Following, None, None));
    sleep(s(3)).await;
    let trouble = a.campaign.status().trouble.expect("no answer came");
    assert!(trouble.to_string().contains("no answer in time"), "{trouble}");
    authority.lock().silent = false;
    let granted = a.leads().await;
    let status = a.campaign.status();
    assert_eq!((status.phase, status.leader), (Phase::Leading, Some(granted.term.clone())));
    assert_eq!((status.trouble, status.lost), (None, None));
    assert_eq!(status.trust_left, a.campaign.leadership().remaining());
    sleep(s(1)).await;
    assert_eq!(a.campaign.status().trust_left, a.campaign.leadership().remaining());
    a.campaign.request_resign(None);
    a.follows().await;
    let status = a.campaign.status();
    assert_eq!((status.phase, status.lost), (Phase::Stopping, Some(Lost::ResignRequested)));
    assert_eq!(status.grant.map(|grant| grant.term), Some(granted.term));
    assert!(status.trust_left.is_zero());
    a.campaign.stop().await.unwrap();
    assert_eq!(a.campaign.status().phase, Phase::Over);
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_the_handle_is_told_of_grants_refreshes_and_ends() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    let mut leadership = a.campaign.leadership();
    leadership.changed().await;
    let granted = leadership.grant().unwrap();
    assert_eq!(a.leads().await, granted);
    leadership.changed().await;
    let refreshed = leadership.grant().unwrap();
    assert_eq!(refreshed.term, granted.term);
    assert!(refreshed.fence.ballot > granted.fence.ballot);
    a.campaign.stop().await.unwrap();
    leadership.changed().await;
    assert_eq!((leadership.grant(), leadership.until()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn i2_ten_thousand_wakeups_from_outside_are_two_questions() {
    let authority = Authority::default();
    let mut b = member(&authority, "b").await;
    b.leads().await;
    let a = member(&authority, "a").await;
    until(|| a.journal.lines() == ["follow"]).await;
    let calls = authority.lock().calls;
    for _ in 0..10_000 {
        a.campaign.wake();
    }
    sleep(ms(500)).await;
    let asked = authority.lock().calls - calls;
    assert!((1..=2).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn messages_beyond_the_cap_are_refused() {
    let authority = Authority::default();
    let a = member(&authority, "a").await;
    let taken = (0..QUEUE_CAP + 10).filter(|_| a.campaign.info(Reaction::Ignore)).count();
    assert_eq!(taken, QUEUE_CAP);
    sleep(s(1)).await;
    assert!(a.campaign.info(Reaction::Ignore));
    a.campaign.stop().await.unwrap();
    assert!(!a.campaign.info(Reaction::Ignore));
}

#[tokio::test(start_paused = true)]
async fn h10_tracing_gets_each_event_once_in_order_with_its_fields() {
    let log = Listening::to("callsign::election");
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    until(|| a.events().contains(&"campaign.refreshed")).await;
    a.campaign.stop().await.unwrap();
    let heard = log.all();
    let names: Vec<_> = heard.iter().map(|fields| fields["event"].trim_matches('"').to_owned()).collect();
    assert_eq!(
        names,
        [
            "campaign.claimed",
            "role.activating",
            "role.active",
            "campaign.refreshed",
            "campaign.lost",
            "role.stopping",
            "role.stopped",
            "campaign.resigned",
        ]
    );
    let levels: Vec<_> = heard.iter().map(|fields| fields["level"].as_str()).collect();
    assert_eq!(levels, ["INFO", "INFO", "INFO", "DEBUG", "INFO", "INFO", "INFO", "INFO"]);
    assert_eq!(names, a.events(), "the observer saw the same");
    for fields in &heard {
        for field in
            ["election", "member", "incarnation", "epoch", "ballot", "phase", "trust_left", "message"]
        {
            assert!(fields.contains_key(field), "{field} in {fields:?}");
        }
    }
    assert_eq!((heard[0]["member"].as_str(), heard[0]["epoch"].as_str()), ("a", "1"));
    assert!(heard[0]["leader"].contains('a'), "{:?}", heard[0]);
    assert_eq!(heard[4]["message"], "this member leads no more: the campaign stops");
    // What somebody should look at is louder.
    let mut b = member(&authority, "b").await;
    b.leads().await;
    b.journal.ended.notify_one();
    b.follows().await;
    let exited = log.all().into_iter().find(|fields| fields["event"].contains("role.exited"));
    assert_eq!(exited.map(|fields| fields["level"].clone()).as_deref(), Some("WARN"));
}
