//! Drives a campaign's core: a task for the loop, one for the oracle, one for the role. It decides nothing.
//!
//! Oracle and role have tasks of their own so that neither can keep the loop from noticing that trust is over. The
//! handle does not even need the loop for that: it compares with the clock.

mod asking;
mod mailbox;
mod playing;
mod report;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use callsign_store::{clock::Clock, ids::Epoch, supervision::Supervisor, time::Time};
use tokio::sync::{mpsc, watch};

use self::{asking::OracleAsk, mailbox::Mailbox, playing::Play};
use super::{
    CampaignSettings, CampaignStartError, CampaignStatus, End, Leadership, Phase, Release, StopError,
    Trouble, Until,
    leadership::LeadershipSeat,
    settings::Observer,
    subscribers::{Subscribers, Transitions},
};
use crate::{
    core::campaign::{Core, CoreConfig, Effect, Input},
    driver::metrics::OfElection,
    oracle::{Context, Fault, Init, Oracle},
    role::Role,
};

/// The runtime's timers stand still while the machine is suspended; so the clock is read at least this often.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// How a campaign ended, once it has.
type Ended = Option<End>;

/// What the public face holds. Dropped, the campaign stops.
pub(super) struct Handle<F, I> {
    mailbox: Arc<Mailbox<I>>,
    leadership: Leadership<F>,
    subscribers: Subscribers<F>,
    status: Arc<ArcSwap<StatusSnapshot<F>>>,
    ended: watch::Receiver<Ended>,
    seat: Arc<LeadershipSeat<F>>,
    supervisor: Supervisor,
}

/// The status, and what it takes to say how much trust is left when somebody asks.
struct StatusSnapshot<F> {
    status: CampaignStatus<F>,
    until: Option<Until>,
}

/// Prepares the oracle, and starts the tasks. `None` if the oracle declines.
pub(super) async fn start<O: Oracle, R: Role<O::Fence>>(
    mut oracle: O,
    settings: CampaignSettings,
    make: impl FnOnce(Leadership<O::Fence>) -> R,
) -> Result<Option<Handle<O::Fence, O::Info>>, CampaignStartError> {
    let CampaignSettings { clock, observer, .. } = settings.clone();
    let config = CoreConfig::from(settings);
    let context = Context {
        election: config.election.clone(),
        member: config.member.clone(),
        incarnation: config.incarnation,
    };
    let patience = config.timing.op_timeout;
    let core = Core::new(config)?;
    let ready = match tokio::time::timeout(patience, oracle.init(&context)).await {
        Ok(Ok(Init::Ready)) => true,
        Ok(Ok(Init::Ignore)) => return Ok(None),
        Ok(Err(fault @ Fault::Fatal(_))) => return Err(CampaignStartError::Oracle(fault)),
        Ok(Err(Fault::Transient { .. })) | Err(_) => false,
    };
    let (seat, leadership) = LeadershipSeat::new(clock.clone());
    let seat = Arc::new(seat);
    let role = make(leadership.clone());
    let mailbox = Arc::new(Mailbox::default());
    let subscribers = Subscribers::new();
    let (inputs_in, inputs) = mpsc::unbounded_channel();
    let (asks, asked) = mpsc::unbounded_channel();
    let (plays, played) = mpsc::unbounded_channel();
    let (ended_in, ended) = watch::channel(None);
    let snapshot = StatusSnapshot { status: core.status(clock.now()), until: None };
    let status = Arc::new(ArcSwap::from_pointee(snapshot));
    let metrics = OfElection::new(&context.election);
    let supervisor = Supervisor::of("a campaign");
    let asking = asking::Asking {
        oracle,
        context,
        ready,
        mailbox: Arc::clone(&mailbox),
        inputs: inputs_in.clone(),
        metrics: metrics.clone(),
        supervisor: supervisor.clone(),
    };
    let (lapses, tells) = (Arc::clone(&seat), subscribers.clone());
    supervisor.on_failure(move |_| {
        lapses.end();
        tells.end();
    });
    supervisor.service("the oracle of a campaign", asking.run(asked));
    supervisor.service("the role of a campaign", playing::Playing::new(role, inputs_in).run(played));
    let driver = Driver {
        core,
        clock,
        observer,
        seat: Arc::clone(&seat),
        mailbox: Arc::clone(&mailbox),
        subscribers: subscribers.clone(),
        status: Arc::clone(&status),
        asks,
        plays,
        inputs,
        metrics: metrics.clone(),
        end: None,
        ended: ended_in,
        supervisor: supervisor.clone(),
    };
    supervisor.service("the loop of a campaign", driver.run());
    Ok(Some(Handle { mailbox, leadership, subscribers, status, ended, seat, supervisor }))
}

impl From<CampaignSettings> for CoreConfig {
    fn from(settings: CampaignSettings) -> Self {
        Self {
            election: settings.election,
            member: settings.member,
            incarnation: settings.incarnation,
            timing: settings.timing,
            claim_delay: settings.claim_delay,
            cool_down: settings.cool_down,
            activate_attempts: settings.activate_attempts,
            activate_timeout: settings.activate_timeout,
            abdicate_tries: settings.abdicate_tries,
            on_loss: settings.on_loss,
            seed: settings.seed,
        }
    }
}

/// The loop.
struct Driver<F, I> {
    core: Core<F>,
    clock: Clock,
    observer: Option<Observer>,
    seat: Arc<LeadershipSeat<F>>,
    mailbox: Arc<Mailbox<I>>,
    subscribers: Subscribers<F>,
    status: Arc<ArcSwap<StatusSnapshot<F>>>,
    asks: mpsc::UnboundedSender<OracleAsk<F>>,
    plays: mpsc::UnboundedSender<Play<F>>,
    inputs: mpsc::UnboundedReceiver<Input<F>>,
    metrics: OfElection,
    /// It has ended in this step.
    end: Option<End>,
    ended: watch::Sender<Ended>,
    supervisor: Supervisor,
}

impl<F: Clone + PartialEq + Send + Sync + 'static, I> Driver<F, I> {
    async fn run(mut self) {
        self.step(Input::Start);
        while !self.core.is_over() {
            let wake = wait(self.clock.clone(), self.core.wake_at());
            tokio::select! {
                biased;
                // Nothing can be taken up or given back without oracle and role.
                _ = self.supervisor.failed() => return,
                Some(input) = self.inputs.recv() => self.step(input),
                () = self.mailbox.changed() => {
                    for input in self.mailbox.take() {
                        self.step(input);
                    }
                }
                () = wake => self.step(Input::Wake),
            }
        }
        // From here on all of it may end.
        self.supervisor.end();
    }

    fn step(&mut self, input: Input<F>) {
        let now = self.clock.now();
        let mut effects = Vec::new();
        self.core.step(now, input, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
        let status = self.core.status(now);
        self.status.store(Arc::new(StatusSnapshot { status, until: self.core.until() }));
        if let Some(end) = self.end.take() {
            self.subscribers.end();
            // Perhaps nobody waits.
            self.ended.send_replace(Some(end));
        }
    }

    fn carry_out(&mut self, effect: Effect<F>) {
        // Nobody takes it if a part of the campaign has ended, and all of it with that.
        match effect {
            Effect::Claim { call, attempt } => drop(self.asks.send(OracleAsk::Claim { call, attempt })),
            Effect::Refresh { call, attempt, held } => {
                drop(self.asks.send(OracleAsk::Refresh { call, attempt, held }));
            }
            Effect::Abdicate { call, held } => drop(self.asks.send(OracleAsk::Abdicate { call, held })),
            Effect::Leave { call, held } => drop(self.asks.send(OracleAsk::Leave { call, held })),
            Effect::Tidy { call } => drop(self.asks.send(OracleAsk::Tidy { call })),
            Effect::Rivals { call } => drop(self.asks.send(OracleAsk::Rivals { call })),
            Effect::Inform { call } => drop(self.asks.send(OracleAsk::Inform { call })),
            Effect::Abandon { .. } => drop(self.asks.send(OracleAsk::Abandon)),
            Effect::Trust { grant, until } => self.seat.trust(grant, until),
            Effect::Lapse => self.seat.lapse(),
            Effect::Publish(transition) => {
                self.subscribers.publish(&transition);
                self.metrics.published(&transition);
            }
            Effect::Activate { run, grant } => drop(self.plays.send(Play::Activate { run, grant })),
            Effect::Deactivate { run, why, budget } => {
                drop(self.plays.send(Play::Deactivate { run, why, budget }));
            }
            Effect::Abort { run } => drop(self.plays.send(Play::Abort { run })),
            Effect::Follow { leader } => drop(self.plays.send(Play::Follow { leader })),
            Effect::Emit(event) => {
                report::trace(&event);
                self.metrics.event(&event);
                if let Some(observer) = &self.observer {
                    let _ = callsign_store::supervision::foreign("an observer of a campaign", || {
                        observer(&event);
                    });
                }
            }
            Effect::End(end) => self.end = Some(end),
        }
    }
}

impl<F, I> Drop for Driver<F, I> {
    fn drop(&mut self) {
        self.metrics.lapsed();
        // Also if it died, and if it was dropped with its runtime.
        self.seat.end();
        self.subscribers.end();
    }
}

/// Waits until it may be that late: the clock is read again whenever this returns.
async fn wait(clock: Clock, at: Option<Time>) {
    match at {
        Some(at) => tokio::time::sleep(at.since(clock.now()).min(CLOCK_INTERVAL)).await,
        None => std::future::pending().await,
    }
}

impl<F: Clone, I> Handle<F, I> {
    pub(super) fn leadership(&self) -> Leadership<F> {
        self.leadership.clone()
    }

    pub(super) fn subscribe(&self) -> Transitions<F> {
        self.subscribers.subscribe()
    }

    pub(super) fn status(&self) -> CampaignStatus<F> {
        let snapshot = self.status.load();
        if let Some(how) = self.death() {
            return died(&snapshot.status, how);
        }
        let now = self.leadership.clock().now();
        let trust_left = snapshot.until.map_or(Duration::ZERO, |until| until.left(now));
        CampaignStatus { trust_left, ..snapshot.status.clone() }
    }

    pub(super) fn request_resign(&self, epoch: Option<Epoch>) {
        self.mailbox.request_resign(epoch);
    }

    pub(super) fn info(&self, info: I) -> bool {
        self.ended.borrow().is_none() && self.death().is_none() && self.mailbox.info(info)
    }

    /// How it died, if it did.
    fn death(&self) -> Option<String> {
        if let Some(failure) = self.supervisor.failure() {
            return Some(failure.to_string());
        }
        let is_gone = self.ended.has_changed().is_err() && self.ended.borrow().is_none();
        is_gone.then(|| "its runtime has ended".to_owned())
    }

    #[cfg(any(test, feature = "faults"))]
    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    pub(super) fn wake(&self) {
        self.mailbox.wake();
    }

    pub(super) fn halt(&self) {
        self.seat.end();
        self.mailbox.stop();
    }

    pub(super) async fn stop(&self) -> Result<(), StopError> {
        self.mailbox.stop();
        match self.ended().await?.release {
            Release::NotHeld | Release::Released | Release::WasGone | Release::Expired(_) => Ok(()),
            Release::Failed(fault) => Err(StopError::NotReleased(fault)),
            Release::Unknown => Err(StopError::Unknown),
            Release::RoleStuck => Err(StopError::RoleStuck),
        }
    }

    pub(super) async fn ended(&self) -> Result<End, StopError> {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.map_err(|_| StopError::Died)?;
        ended.clone().ok_or(StopError::Died)
    }
}

/// What is left of a campaign that died in this status.
fn died<F>(status: &CampaignStatus<F>, how: String) -> CampaignStatus<F> {
    CampaignStatus {
        phase: Phase::Over,
        grant: None,
        trust_left: Duration::ZERO,
        leader: None,
        // Why a term ended that it still had, the trouble says.
        lost: status.lost.filter(|_| status.grant.is_none()),
        trouble: Some(Trouble::Died(how)),
    }
}

impl<F, I> Drop for Handle<F, I> {
    fn drop(&mut self) {
        self.mailbox.stop();
    }
}

#[cfg(test)]
mod tests;
