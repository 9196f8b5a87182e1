//! Stopping the work first, and in bounded time.

use std::time::Duration;

use callsign_store::ids::{ElectionName, MemberId};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::{Instant, sleep};

use super::toy::*;
use crate::{
    core::{term::Fence, timing::Timing},
    driver::campaign::{
        Campaign, CampaignSettings, CampaignStarted, Lapsed, Phase, Release, StopError, SubscriptionError,
        Transition, Trouble,
    },
    oracle::{Grant, Reaction, Signal},
    role::{Abort, Lost, Role},
};

/// However it ends, nobody else is granted the seat before the work has stopped.
#[tokio::test(start_paused = true)]
async fn d9_j6_no_other_is_granted_before_the_work_has_stopped() {
    for way in ["stop", "request", "signal", "exit", "drop"] {
        let authority = Authority::default();
        let journal = Journal::default();
        journal.lock().stop_takes = ms(1_900);
        let mut a = member_with(Toy::new(&authority), settings("a"), journal.clone()).await;
        a.leads().await;
        let leadership = a.campaign.leadership();
        let mut b = member(&authority, "b").await;
        match way {
            "stop" => a.campaign.stop().await.unwrap(),
            "request" => a.campaign.request_resign(None),
            "signal" => authority.signal(Signal::ResignRequested { epoch: None }),
            "exit" => a.journal.ended.notify_one(),
            _ => drop(a),
        }
        b.leads().await;
        assert!(leadership.check().is_err());
        let stopped = journal.at("stopped").expect(way);
        let stop = journal.at("stop").unwrap();
        assert!(stopped.duration_since(stop) >= ms(1_900));
        let (granted, term) = authority.lock().grants.last().cloned().unwrap();
        assert_eq!(term.leader, MemberId::new("b").unwrap(), "{way}");
        assert!(granted >= stopped, "{way}");
        let (given_back, _) = authority.lock().abdications[0].clone();
        assert!(given_back >= stopped, "{way}");
    }
}

/// The order in which everybody notices: the handle, the subscribers, the role, the authority.
#[tokio::test(start_paused = true)]
async fn a_loss_is_noticed_in_order() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    a.campaign.stop().await.unwrap();
    assert_eq!(a.journal.lines(), ["activate", "active", "stop", "stopped"]);
    let lost: Vec<_> = a.events().into_iter().skip(3).collect();
    assert_eq!(lost, ["campaign.lost", "role.stopping", "role.stopped", "campaign.resigned"]);
    assert_eq!(a.transitions.next().await, Ok(Transition::Following(None)));
    assert_eq!(a.transitions.next().await, Err(SubscriptionError::Ended));
    assert_eq!(authority.holder(), None);
    // i4: stopped, it does not win again.
    let calls = authority.lock().calls;
    authority.signal(Signal::Wakeup);
    sleep(s(60)).await;
    assert_eq!(authority.lock().calls, calls);
}

#[tokio::test(start_paused = true)]
async fn d8_a_stop_with_a_dead_authority_is_bounded() {
    for silent in [true, false] {
        let authority = Authority::default();
        let mut a = member(&authority, "a").await;
        a.leads().await;
        authority.set(silent, !silent);
        let since = Instant::now();
        let stopped = a.campaign.stop().await;
        assert!(matches!(stopped, Err(StopError::NotReleased(_))), "{stopped:?}");
        assert!(since.elapsed() <= s(6), "{:?}", since.elapsed());
        // Again: the same.
        assert_eq!(a.campaign.stop().await, stopped);
        // Expiry is the net.
        authority.set(false, false);
        let mut b = member(&authority, "b").await;
        b.leads().await;
        assert!(since.elapsed() <= LEASE + s(3));
    }
}

/// Nobody answers, so that a claim may have been granted; or everything fails for certain.
#[tokio::test(start_paused = true)]
async fn d8_a_stop_long_after_a_loss_is_clean_unless_something_is_not_known() {
    for silent in [true, false] {
        let authority = Authority::default();
        let mut a = member(&authority, "a").await;
        a.leads().await;
        authority.set(silent, !silent);
        a.follows().await;
        sleep(s(60)).await;
        let stopped = a.campaign.stop().await;
        let release = a.campaign.ended().await.unwrap().release;
        if silent {
            assert_eq!((stopped, release), (Err(StopError::Unknown), Release::Unknown));
        } else {
            assert_eq!(stopped, Ok(()));
            assert!(matches!(release, Release::Expired(_)), "{release:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn j16_a_role_that_ignores_its_stop_is_aborted_before_the_lease_ends() {
    let authority = Authority::default();
    let journal = Journal::default();
    journal.lock().ignores_stop = true;
    let mut a = member_with(Toy::new(&authority), settings("a"), journal.clone()).await;
    a.leads().await;
    let _b = member(&authority, "b").await;
    // No refresh comes through: the whole of trust is used up.
    authority.set(true, false);
    a.follows().await;
    authority.set(false, false);
    until(|| authority.lock().grants.len() == 2).await;
    let (granted, _) = authority.lock().grants[1].clone();
    assert!(granted >= journal.at("abort").unwrap());
    let took = journal.at("abort").unwrap().duration_since(journal.at("stop").unwrap());
    assert!(took.abs_diff(Timing::default().stop_budget) <= ms(50), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_role_that_hangs_while_it_starts_is_cut_off() {
    let authority = Authority::default();
    let journal = Journal::default();
    journal.lock().hangs = true;
    let a = member_with(Toy::new(&authority), settings("a"), journal.clone()).await;
    until(|| journal.at("activate").is_some()).await;
    sleep(s(20)).await;
    assert!(a.campaign.leadership().check().is_ok(), "it is refreshed meanwhile");
    a.campaign.stop().await.unwrap();
    assert_eq!(journal.lines(), ["activate", "stop", "stopped"]);
    assert!(!a.events().contains(&"role.active"));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_stops_it() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    let other = a.campaign.clone();
    let Member { campaign, mut transitions, journal, .. } = a;
    drop(campaign);
    sleep(s(10)).await;
    assert!(other.leadership().check().is_ok());
    drop(other);
    assert_eq!(transitions.next().await, Ok(Transition::Following(None)));
    until(|| authority.holder().is_none()).await;
    assert_eq!(journal.lock().lost, [Lost::Shutdown]);
}

#[tokio::test(start_paused = true)]
async fn j8_a_role_that_ends_gives_up_the_term() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    a.journal.ended.notify_one();
    a.follows().await;
    until(|| authority.lock().abdications.len() == 1).await;
    assert_eq!(a.journal.lock().lost, [Lost::RoleFailed]);
    assert!(a.events().contains(&"role.exited"));
}

/// A role that blocks the thread it runs on: nobody but itself is held up, and the seat is not given back.
struct Blocking(std::sync::mpsc::Receiver<()>);

impl Role<Fence> for Blocking {
    async fn activate(&mut self, _: &Grant<Fence>) -> Result<(), Abort> {
        Ok(())
    }

    async fn deactivate(&mut self, _: Lost, _: Duration) {
        let _ = self.0.recv();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_blocks_its_thread_does_not_block_the_campaign() {
    let authority = Authority::default();
    let settings = CampaignSettings::new(ElectionName::new("e").unwrap(), MemberId::new("a").unwrap())
        .with_timing(Timing::for_lease(s(1)));
    let (go, blocked) = std::sync::mpsc::channel();
    let started = Campaign::start(Toy::new(&authority), Blocking(blocked), settings).await.unwrap();
    let CampaignStarted::Running(campaign) = started else { panic!("it declined") };
    let mut transitions = campaign.subscribe();
    while !matches!(transitions.next().await.unwrap(), Transition::Leading(_)) {}
    assert_eq!(campaign.stop().await, Err(StopError::RoleStuck));
    assert!(campaign.leadership().check().is_err());
    assert!(authority.lock().abdications.is_empty());
    assert_eq!(campaign.ended().await.unwrap().release, Release::RoleStuck);
    go.send(()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_was_stopped_stays_over_and_has_not_died() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    a.campaign.stop().await.unwrap();
    let all_of_it = a.campaign.supervisor().clone();
    sleep(s(10)).await;
    assert_eq!(all_of_it.failure(), None, "its parts end with it");
    let status = a.campaign.status();
    assert_eq!((status.phase, status.lost, status.trouble), (Phase::Over, Some(Lost::Shutdown), None));
    assert_eq!(a.campaign.stop().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_dies_after_a_term_still_says_why_that_was_lost() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    authority.lock().down = true;
    a.follows().await;
    until(|| a.campaign.status().grant.is_none() && a.campaign.status().phase == Phase::Following).await;
    a.campaign.supervisor().sabotage("the loop of a campaign");
    tokio::time::timeout(s(60), a.campaign.supervisor().failed()).await.unwrap();
    let status = a.campaign.status();
    assert_eq!((status.phase, status.lost), (Phase::Over, Some(Lost::TrustLapsed)));
    assert!(matches!(status.trouble, Some(Trouble::Died(_))));
}

/// The runtime that the campaign was started in is gone, and with it all that the campaign consists of.
#[test]
fn a_campaign_whose_runtime_has_ended_says_that_it_died() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let authority = Authority::default();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let its_own = runtime().unwrap();
    let mut a = its_own.block_on(async {
        let mut a = member(&authority, "a").await;
        a.leads().await;
        a
    });
    let is_leader = || callsign_golden::Seen::by(&counted).get("callsign_election_leader", "election=e");
    assert_eq!(is_leader(), 1);
    drop(its_own);
    assert_eq!(is_leader(), 0);
    let status = a.campaign.status();
    assert_eq!((status.phase, status.grant, status.lost), (Phase::Over, None, None));
    assert!(matches!(status.trouble, Some(Trouble::Died(_))), "{:?}", status.trouble);
    assert_eq!(a.campaign.leadership().check(), Err(Lapsed));
    assert!(!a.campaign.info(Reaction::Ignore), "nobody takes it");
    runtime().unwrap().block_on(async {
        let within = |waiting| tokio::time::timeout(s(60), waiting);
        assert_eq!(within(a.campaign.stop()).await.unwrap(), Err(StopError::Died));
        assert_eq!(tokio::time::timeout(s(60), a.campaign.ended()).await.unwrap(), Err(StopError::Died));
        while let Ok(transition) = tokio::time::timeout(s(60), a.transitions.next()).await.unwrap() {
            drop(transition);
        }
    });
}
