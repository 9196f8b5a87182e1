//! In a campaign: what the notifications are for.

use super::*;
use crate::{Campaign, CampaignSettings, Timing, driver::campaign::Transition, tests::Idle};

/// A member that would not ask again within the test, unless it is told to.
async fn member(server: &Server, name: &str) -> Campaign<PostgresLease> {
    let settings = CampaignSettings::new(election("seat"), MemberId::new(name).unwrap());
    let timing = Timing { poll: Duration::from_secs(3600), ..Timing::for_lease(TEST_DEADLINE) };
    let lease = PostgresLease::new(&server.url("postgres"), short(TEST_DEADLINE)).unwrap();
    let started = Campaign::start(lease, Idle, settings.with_timing(timing)).await;
    started.unwrap().running().unwrap()
}

async fn until(campaign: &Campaign<PostgresLease>, wanted: impl Fn(&Transition<Fence>) -> bool) {
    let mut transitions = campaign.subscribe();
    let seen = async { while !wanted(&transitions.next().await.unwrap()) {} };
    tokio::time::timeout(TEST_DEADLINE / 2, seen).await.expect("it was told");
}

fn leads(transition: &Transition<Fence>) -> bool {
    matches!(transition, Transition::Leading(_))
}

#[tokio::test]
async fn i1_d12_a_resignation_and_a_request_for_one_are_heard_at_once() {
    let server = server!();
    let first = member(&server, "first").await;
    until(&first, leads).await;
    let second = member(&server, "second").await;
    let knows = async {
        while second.status().leader.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_DEADLINE / 2, knows).await.expect("it has asked");
    // Asked from outside, it goes, and the other comes.
    let seat = PostgresSeat::connect(&server.url("postgres"), election("seat")).unwrap();
    seat.request_resign(None).await.unwrap();
    until(&second, leads).await;
    // A clean stop, too.
    assert!(first.leadership().check().is_err());
    second.stop().await.unwrap();
    let third = member(&server, "third").await;
    until(&third, leads).await;
    third.stop().await.unwrap();
    first.stop().await.unwrap();
}
