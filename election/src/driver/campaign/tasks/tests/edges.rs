//! What an oracle may do: little, nothing, or wrong.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use callsign_store::ids::{ElectionName, Epoch, Incarnation, MemberId};
use futures::stream::{self, BoxStream, StreamExt};
use tokio::{sync::watch, time::sleep};

use super::toy::*;
use crate::{
    core::{
        term::{AuthorityTime, Fence, Term},
        timing::{Timing, TimingError},
    },
    driver::campaign::{Campaign, CampaignSettings, CampaignStartError, CampaignStarted, Transition},
    oracle::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Refusal, Signal, Validity, Verdict},
    tests::Idle,
};

/// Only what an oracle must have.
struct Least;

impl Oracle for Least {
    type Fence = ();
    type Info = &'static str;

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
}

#[tokio::test(start_paused = true)]
async fn j1_an_oracle_needs_only_claim_and_refresh() {
    let started = Campaign::start(Least, Idle, settings("a")).await.unwrap();
    let campaign = started.running().unwrap();
    let mut transitions = campaign.subscribe();
    assert_eq!(transitions.next().await, Ok(Transition::Following(None)));
    assert!(matches!(transitions.next().await, Ok(Transition::Leading(_))));
    assert!(campaign.info("ignored"));
    sleep(s(60)).await;
    assert!(campaign.leadership().check().is_ok());
    // Nothing to release is no error.
    assert_eq!(campaign.stop().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn j2_an_oracle_may_fail_or_decline_to_start() {
    let authority = Authority::default();
    let journal = Journal::default();
    let start = |init| {
        let oracle = Toy { init: Some(init), ..Toy::new(&authority) };
        Campaign::start(oracle, journal.clone(), settings("a"))
    };
    let fault = Fault::Fatal("no such table".to_owned());
    let refused = start(Err(fault.clone())).await.unwrap_err();
    assert_eq!(refused, CampaignStartError::Oracle(fault));
    assert!(matches!(start(Ok(Init::Ignore)).await, Ok(CampaignStarted::Ignored)));
    sleep(s(60)).await;
    assert_eq!(journal.lines(), [""; 0]);
    assert_eq!(authority.lock().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn c12_a_campaign_does_not_start_with_a_timing_that_cannot_work() {
    let authority = Authority::default();
    let mut settings = settings("a");
    settings.timing = Timing { refresh: s(15), op_timeout: s(15), ..Timing::for_lease(s(30)) };
    let started = Campaign::start(Toy::new(&authority), Journal::default(), settings).await;
    assert!(
        matches!(started, Err(CampaignStartError::Timing(TimingError::NoRoom { needed, .. })) if needed == s(30))
    );
    assert_eq!(authority.lock().calls, 0);
}

/// An oracle whose options may have a name.
struct Named {
    name: Option<ElectionName>,
    used: Arc<Mutex<Vec<String>>>,
}

impl Oracle for Named {
    type Fence = ();
    type Info = ();

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        let name = self.name.get_or_insert_with(|| context.election.clone());
        self.used.lock().unwrap().push(name.to_string());
        Ok(Init::Ready)
    }

    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        Ok(Verdict::Denied(Denial { why: Refusal::Held, leader: None, retry_in: None }))
    }

    async fn refresh(&mut self, attempt: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
        self.claim(attempt).await
    }
}

#[tokio::test(start_paused = true)]
async fn j4_an_oracle_without_a_name_gets_the_elections() {
    let used = Arc::<Mutex<Vec<String>>>::default();
    for name in [None, Some(ElectionName::new("its-own").unwrap())] {
        let oracle = Named { name, used: Arc::clone(&used) };
        let _campaign = Campaign::start(oracle, Idle, settings("a")).await.unwrap();
        // It claims again and again, and is prepared once.
        sleep(s(60)).await;
    }
    assert_eq!(*used.lock().unwrap(), ["e", "its-own"]);
}

/// Writes down what it is asked. It can be prepared by the second try only, and what it notices never ends.
struct Late {
    asked: Arc<Mutex<Vec<&'static str>>>,
    /// Has a reader as long as somebody listens to what it notices.
    heard: watch::Sender<()>,
    is_always_awake: bool,
}

impl Late {
    fn new(is_always_awake: bool) -> Self {
        Self { asked: Arc::default(), heard: watch::Sender::new(()), is_always_awake }
    }

    fn note(&self, what: &'static str) {
        self.asked.lock().unwrap().push(what);
    }
}

impl Oracle for Late {
    type Fence = ();
    type Info = ();

    async fn init(&mut self, _: &Context) -> Result<Init, Fault> {
        self.note("init");
        if self.asked.lock().unwrap().len() > 2 {
            return Ok(Init::Ready);
        }
        Err(Fault::Transient { maybe_committed: true, cause: "as the test wants".to_owned() })
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<()>, Fault> {
        self.note("claim");
        Least.claim(attempt).await
    }

    async fn refresh(&mut self, attempt: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
        self.note("refresh");
        Least.claim(attempt).await
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        self.note("signals");
        let heard = self.heard.subscribe();
        let is_always_awake = self.is_always_awake;
        let next = move |heard| async move {
            if !is_always_awake {
                std::future::pending::<()>().await;
            }
            Some((Signal::Wakeup, heard))
        };
        stream::unfold(heard, next).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn an_oracle_that_cannot_be_prepared_at_the_start_is_prepared_before_it_is_asked_and_once() {
    let oracle = Late::new(false);
    let (asked, heard, mut settings) = (oracle.asked.clone(), oracle.heard.clone(), settings("a"));
    let events = Arc::<Mutex<Vec<&'static str>>>::default();
    let seen = events.clone();
    settings.observer = Some(Arc::new(move |event| seen.lock().unwrap().push(event.what.name())));
    let campaign = Campaign::start(oracle, Idle, settings).await.unwrap().running().unwrap();
    until(|| campaign.leadership().check().is_ok()).await;
    sleep(s(60)).await;
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked[..5], ["init", "init", "init", "claim", "signals"]);
    assert!(asked.len() > 10 && asked[5..].iter().all(|asked| *asked == "refresh"), "{asked:?}");
    let events = events.lock().unwrap().clone();
    assert!(!events.contains(&"campaign.unknown_outcome"), "nothing was claimed: {events:?}");
    assert_eq!(heard.receiver_count(), 1);
    campaign.stop().await.unwrap();
    until(|| heard.receiver_count() == 0).await;
}

/// In real time, as that stands still while anything runs.
#[tokio::test]
async fn an_oracle_that_always_notices_something_leaves_the_thread_to_others() {
    let oracle = Late::new(true);
    let campaign = Campaign::start(oracle, Idle, settings("a")).await.unwrap().running().unwrap();
    let mut transitions = campaign.subscribe();
    let leads = async { while !matches!(transitions.next().await.unwrap(), Transition::Leading(_)) {} };
    tokio::time::timeout(s(60), leads).await.expect("it leads");
    assert_eq!(campaign.stop().await, Ok(()));
}

/// An oracle that panics says nothing about the outcome.
#[tokio::test(start_paused = true)]
async fn an_oracle_that_panics_is_asked_again() {
    let authority = Authority::default();
    let mut a = member(&authority, "a").await;
    let granted = a.leads().await;
    authority.lock().panics = true;
    until(|| a.events().contains(&"campaign.unknown_outcome")).await;
    authority.lock().panics = false;
    sleep(s(20)).await;
    assert_eq!(a.campaign.leadership().term(), Some(granted.term));
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_costs_its_own_call_only() {
    let authority = Authority::default();
    let mut settings: CampaignSettings = settings("a");
    let refreshed = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&refreshed);
    settings.observer = Some(Arc::new(move |event| {
        if event.what.name() == "campaign.refreshed" {
            seen.fetch_add(1, Ordering::Relaxed);
            panic!("as the test wants");
        }
    }));
    let started = Campaign::start(Toy::new(&authority), Journal::default(), settings).await.unwrap();
    let campaign = started.running().unwrap();
    until(|| refreshed.load(Ordering::Relaxed) >= 3).await;
    campaign.leadership().check().unwrap();
    campaign.stop().await.unwrap();
}

/// A role that panics has failed.
struct Panics;

impl crate::Role<Fence> for Panics {
    async fn activate(&mut self, _: &Grant<Fence>) -> Result<(), crate::Abort> {
        panic!("as the test wants")
    }
    async fn deactivate(&mut self, _: crate::Lost, _: std::time::Duration) {
        panic!("as the test wants")
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_panics_gives_up_the_term() {
    let authority = Authority::default();
    let started = Campaign::start(Toy::new(&authority), Panics, settings("a")).await.unwrap();
    until(|| authority.lock().abdications.len() == 1).await;
    started.running().unwrap().stop().await.unwrap();
}
