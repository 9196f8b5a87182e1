use std::sync::{Arc, Mutex};

use callsign_store::{
    Clock,
    ids::{ElectionName, Nonce},
};
use futures::{FutureExt, channel::mpsc};

use super::*;
use crate::{Campaign, CampaignSettings, Leadership, Timing, tests::Idle};

const VALIDITY: Duration = Duration::from_secs(9);

#[derive(Clone)]
enum Says {
    This(Leads),
    Error,
    Nothing,
}

/// A system that says what the test says.
#[derive(Clone)]
struct System {
    says: Arc<Mutex<Says>>,
    asked: Arc<Mutex<u32>>,
    changes: Arc<Mutex<Vec<mpsc::UnboundedSender<()>>>>,
}

impl System {
    fn that_says(leads: Leads) -> Self {
        Self { says: Arc::new(Mutex::new(Says::This(leads))), asked: Arc::default(), changes: Arc::default() }
    }

    fn now(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn tell(&self) {
        self.changes.lock().unwrap().iter().for_each(|to| to.unbounded_send(()).unwrap());
    }
}

impl Source for System {
    async fn leader(&mut self) -> Result<Leads, Unclear> {
        *self.asked.lock().unwrap() += 1;
        let says = self.says.lock().unwrap().clone();
        match says {
            Says::This(leads) => Ok(leads),
            Says::Error => Err(Unclear("it is confused".to_owned())),
            Says::Nothing => std::future::pending().await,
        }
    }

    fn changes(&mut self) -> BoxStream<'static, ()> {
        let (told, changes) = mpsc::unbounded();
        self.changes.lock().unwrap().push(told);
        changes.boxed()
    }
}

fn member() -> MemberId {
    MemberId::new("me").unwrap()
}

fn other() -> Leads {
    Leads::Elsewhere(Some(MemberId::new("other").unwrap()))
}

async fn oracle(system: &System) -> FollowOracle<System> {
    let mut oracle = FollowOracle::new(system.clone(), VALIDITY);
    let election = ElectionName::new("e").unwrap();
    let context = Context { election, member: member(), incarnation: Incarnation(7) };
    assert_eq!(oracle.init(&context).await, Ok(Init::Ready));
    oracle
}

fn attempt() -> Attempt {
    Attempt { nonce: Nonce(1) }
}

#[tokio::test(start_paused = true)]
async fn j11_here_is_granted_elsewhere_denied_and_silence_is_a_fault() {
    let system = System::that_says(Leads::Here);
    let mut oracle = oracle(&system).await;
    let Ok(Verdict::Granted(held)) = oracle.claim(attempt()).await else { panic!("it leads there") };
    assert_eq!((held.term.leader.clone(), held.validity), (member(), Validity::For(VALIDITY)));
    assert_eq!(oracle.refresh(attempt(), &held).await, Ok(Verdict::Granted(held.clone())));
    assert_eq!(oracle.claim(attempt()).await, Ok(Verdict::Granted(held.clone())), "the same term");

    for says in [Says::Error, Says::Nothing] {
        system.now(says);
        for asked in [oracle.claim(attempt()).await, oracle.refresh(attempt(), &held).await] {
            assert!(matches!(asked, Err(Fault::Transient { maybe_committed: false, .. })), "{asked:?}");
        }
    }
    // It changes nothing there to give up here; but the term is over.
    system.now(Says::This(Leads::Here));
    assert_eq!(oracle.abdicate(&held).await, Ok(false));
    let Ok(Verdict::Denied(denial)) = oracle.refresh(attempt(), &held).await else { panic!("it is over") };
    assert_eq!(denial.why, Refusal::TermOver);
    let Ok(Verdict::Granted(next)) = oracle.claim(attempt()).await else { panic!("it leads there") };
    assert_ne!(next.term, held.term);

    for (says, why, leader) in
        [(other(), Refusal::Held, Some("other")), (Leads::Nobody, Refusal::Ineligible, None)]
    {
        system.now(Says::This(says));
        let Ok(Verdict::Denied(denial)) = oracle.claim(attempt()).await else { panic!("it does not lead") };
        assert_eq!((denial.why, denial.leader.as_ref().map(|term| term.leader.as_str())), (why, leader));
        let Ok(Verdict::Denied(denial)) = oracle.refresh(attempt(), &next).await else { panic!("nor now") };
        assert_eq!(denial.why, Refusal::TermOver);
    }
}

async fn lead(system: &System) -> (Campaign<FollowOracle<System>>, Leadership<()>) {
    let mut settings = CampaignSettings::new(ElectionName::new("e").unwrap(), member());
    settings.clock = Clock::runtime();
    settings.timing = Timing::for_lease(VALIDITY);
    let started = Campaign::start(FollowOracle::new(system.clone(), VALIDITY), Idle, settings).await;
    let campaign = started.unwrap().running().unwrap();
    let mut leadership = campaign.leadership();
    while leadership.check().is_err() {
        leadership.changed().await;
    }
    (campaign, leadership)
}

#[tokio::test(start_paused = true)]
async fn j12_who_led_before_the_other_system_changed_its_leader_stops_within_the_validity() {
    let system = System::that_says(Leads::Here);
    let (_campaign, mut leadership) = lead(&system).await;
    tokio::time::advance(Duration::from_millis(1)).await;
    let asked = *system.asked.lock().unwrap();
    system.now(Says::This(other()));
    let changed = tokio::time::Instant::now();
    while leadership.check().is_ok() {
        leadership.changed().await;
    }
    assert!(changed.elapsed() <= VALIDITY, "{:?}", changed.elapsed());
    assert!(*system.asked.lock().unwrap() > asked);
}

#[tokio::test(start_paused = true)]
async fn j11_who_hears_nothing_counts_as_no_leader_once_the_validity_ends() {
    for silence in [Says::Error, Says::Nothing] {
        let system = System::that_says(Leads::Here);
        let (_campaign, leadership) = lead(&system).await;
        let left = leadership.remaining();
        assert!(left > VALIDITY / 3 && left < VALIDITY);
        system.now(silence);
        tokio::time::sleep(left.saturating_sub(Duration::from_millis(1))).await;
        assert!(leadership.check().is_ok(), "an error is no loss");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(leadership.check().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn i1_what_the_other_system_tells_brings_the_next_question_forward() {
    let system = System::that_says(Leads::Here);
    let mut oracle = oracle(&system).await;
    let mut signals = oracle.signals();
    assert_eq!(signals.next().now_or_never(), None);
    system.tell();
    assert_eq!(signals.next().await, Some(Signal::Wakeup));
}

#[tokio::test(start_paused = true)]
async fn j11_a_term_is_over_when_another_leads_there_and_does_not_come_back() {
    let system = System::that_says(Leads::Here);
    let mut oracle = oracle(&system).await;
    let Ok(Verdict::Granted(held)) = oracle.claim(attempt()).await else { panic!("it leads there") };
    assert_eq!(held.refresh_in, Some(VALIDITY / 3));
    system.now(Says::This(other()));
    let Ok(Verdict::Denied(denial)) = oracle.refresh(attempt(), &held).await else { panic!("it lost") };
    assert_eq!(denial.leader.map(|term| term.leader.to_string()).as_deref(), Some("other"));
    // It leads there again: that is another term.
    system.now(Says::This(Leads::Here));
    let Ok(Verdict::Denied(denial)) = oracle.refresh(attempt(), &held).await else { panic!("it is over") };
    assert_eq!(denial.why, Refusal::TermOver);
    let Ok(Verdict::Granted(next)) = oracle.claim(attempt()).await else { panic!("it leads there") };
    assert_ne!(next.term, held.term);
    assert_eq!(denial.leader, Some(next.term));
}
