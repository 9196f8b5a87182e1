//! A part of a campaign that panics ends all of it, which says so; code of the application that panics costs its own call.

use callsign_store::ids::{Epoch, Incarnation, MemberId};
use futures::stream::{self, BoxStream, StreamExt};
use tokio::time::timeout;

use super::toy::*;
use crate::{
    core::term::{AuthorityTime, Term},
    driver::campaign::{Campaign, CampaignStarted, Phase, StopError, SubscriptionError, Transition, Trouble},
    oracle::{Attempt, Fault, Grant, Oracle, Reaction, Signal, Validity, Verdict},
    role::{Abort, Lost, Role},
};

/// All that a campaign is made of.
const CAMPAIGN_PARTS: [&str; 4] = [
    "the loop of a campaign",
    "the oracle of a campaign",
    "the role of a campaign",
    "what an oracle notices",
];

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_ends_its_campaign_whichever_it_is() {
    for part in CAMPAIGN_PARTS {
        let authority = Authority::default();
        let mut a = member(&authority, "a").await;
        a.leads().await;
        let (leadership, supervisor) = (a.campaign.leadership(), a.campaign.supervisor().clone());
        assert_eq!(supervisor.parts().iter().map(String::as_str).collect::<Vec<_>>(), CAMPAIGN_PARTS);
        // What a user sees on the thread that noticed it, before anything else runs.
        let (seen, at_once) = std::sync::mpsc::channel();
        let (leads, late) = (leadership.clone(), a.campaign.subscribe());
        supervisor.on_failure(move |_| {
            let mut late = late;
            let states: Vec<_> = std::iter::from_fn(|| late.try_next().ok().flatten()).collect();
            seen.send((leads.check().is_err(), states.last().cloned())).unwrap();
        });
        supervisor.sabotage(part);
        // Each has something to do; refreshes come by themselves.
        match part {
            "the role of a campaign" => a.journal.ended.notify_one(),
            "what an oracle notices" => authority.signal(Signal::Wakeup),
            _ => {}
        }
        timeout(s(60), supervisor.failed()).await.expect(part);

        assert_eq!(at_once.try_recv(), Ok((true, Some(Transition::Following(None)))), "{part}");
        assert!(leadership.check().is_err(), "{part}: it says that it leads");
        let status = a.campaign.status();
        assert_eq!((status.phase, status.grant, status.leader), (Phase::Over, None, None), "{part}");
        assert_eq!(status.trust_left, std::time::Duration::ZERO);
        assert_eq!(status.trouble, Some(Trouble::Died(format!("{part} panicked: sabotage"))));
        assert!(!a.campaign.info(Reaction::Ignore), "nobody takes it");
        assert_eq!(a.transitions.next().await, Ok(Transition::Following(None)));
        assert_eq!(a.transitions.next().await, Err(SubscriptionError::Ended));
        let state = a.campaign.subscribe().next().await;
        assert_eq!(state, Ok(Transition::Following(None)), "also for who asks afterwards");
        assert_eq!(timeout(s(60), a.campaign.ended()).await.unwrap(), Err(StopError::Died));
        assert_eq!(timeout(s(60), a.campaign.stop()).await.unwrap(), Err(StopError::Died));
        until(|| a.journal.lines().ends_with(&["abort"])).await;

        let mut b = member(&authority, "b").await;
        b.leads().await;
        assert!(leadership.check().is_err());
        assert!(authority.lock().abdications.is_empty(), "{part}: nobody knows whether the role has stopped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_is_halted_has_lapsed_at_once_and_stops_in_order() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    a.leads().await;
    a.campaign.halt();
    assert!(a.campaign.leadership().check().is_err());
    a.campaign.ended().await.unwrap();
    let mut late = a.campaign.subscribe();
    assert_eq!(late.next().await, Ok(Transition::Following(None)), "also for who asks afterwards");
    assert_eq!(late.next().await, Err(SubscriptionError::Ended));
    assert_eq!(a.journal.lines(), ["activate", "active", "stop", "stopped"]);
    assert_eq!(authority.lock().abdications.len(), 1, "the seat is given back");
    assert!(a.campaign.leadership().check().is_err());
}

/// Grants whatever it is asked for. What it notices by itself makes it panic.
struct Nervous {
    /// In the stream, not before there is one.
    late: bool,
}

impl Oracle for Nervous {
    type Fence = ();
    type Info = ();

    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        let term = Term {
            leader: MemberId::new("a").unwrap(),
            incarnation: Incarnation(1),
            epoch: Epoch(1),
            elected_at: AuthorityTime(1),
        };
        let validity = Validity::For(LEASE);
        Ok(Verdict::Granted(Grant { term, fence: (), validity, refresh_in: Some(s(3)) }))
    }

    async fn refresh(&mut self, attempt: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
        self.claim(attempt).await
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        assert!(self.late, "the application's own mistake");
        stream::poll_fn(|_| panic!("the application's own mistake")).boxed()
    }
}

/// Panics outside of any future, when it is asked for the first time whether it has ended.
struct Hasty {
    is_hasty: bool,
}

impl<F: Sync> Role<F> for Hasty {
    async fn activate(&mut self, _: &Grant<F>) -> Result<(), Abort> {
        Ok(())
    }

    async fn deactivate(&mut self, _: Lost, _: std::time::Duration) {}

    fn ended(&mut self) -> impl Future<Output = ()> + Send {
        assert!(!std::mem::take(&mut self.is_hasty), "the application's own mistake");
        std::future::pending()
    }
}

#[tokio::test(start_paused = true)]
async fn an_oracle_that_panics_over_its_signals_is_polled() {
    for late in [false, true] {
        let started = Campaign::start(Nervous { late }, Hasty { is_hasty: false }, settings("a")).await;
        let CampaignStarted::Running(campaign) = started.unwrap() else { panic!("it declined") };
        until(|| campaign.leadership().check().is_ok()).await;
        tokio::time::sleep(6 * LEASE).await;
        assert!(campaign.leadership().check().is_ok(), "it is refreshed");
        assert_eq!(campaign.stop().await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_panics_before_it_waits_costs_its_term_only() {
    let started = Campaign::start(Nervous { late: true }, Hasty { is_hasty: true }, settings("a")).await;
    let CampaignStarted::Running(campaign) = started.unwrap() else { panic!("it declined") };
    let mut transitions = campaign.subscribe();
    for leads in [false, true, false, true] {
        let next = timeout(s(600), transitions.next()).await.expect("it goes on").unwrap();
        assert_eq!(matches!(next, Transition::Leading(_)), leads, "{next:?}");
    }
    assert_eq!(campaign.stop().await, Ok(()));
}
