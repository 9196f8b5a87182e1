//! An actor that acts all the time, as long as it may: it asks `check()`, and writes down that it passed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign::{
    Guard, Membership, NotHeld, Notice, RactorClusterMessage, Registration, Starting, remote_message,
};
use callsign_store::lock::lock;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus, SpawnErr};

use super::{
    Journal,
    event::{Event, SessionTold},
};

/// What a listener says that is to panic.
pub const PANIC: &str = "a listener panics, as it is to";

/// What such an actor takes.
#[derive(Debug, RactorClusterMessage)]
pub enum Act {
    /// It acts.
    Now,
}
remote_message!(Act, "callsign.chaos.act/1");

/// An actor, as its client has it.
#[derive(Clone)]
pub struct Acting {
    /// It.
    pub actor: ActorRef<Act>,
    /// Its number, among those of its process.
    pub number: u64,
    held: HeldByActor,
    told: Ear,
    journal: Arc<dyn Journal>,
}

/// What an actor holds; whoever takes it away knows that it does not act any more.
type HeldByActor = Arc<Mutex<Option<Holds>>>;

/// What an actor was told of its session last.
pub type Ear = Arc<Mutex<Option<SessionTold>>>;

/// What lets an actor act.
#[derive(Clone, Debug)]
pub enum Holds {
    /// It holds a name.
    Name(Registration),
    /// It was started for a name, and may hold it by now.
    Starting(Starting),
    /// It is a member of a group, by this name.
    Member(Membership, String),
    /// It has a place in a semaphore, by this name.
    Place(Arc<Guard>, String),
}

impl Holds {
    fn name(&self) -> &str {
        match self {
            Self::Name(registration) => registration.name(),
            Self::Starting(starting) => starting.name(),
            Self::Member(_, name) | Self::Place(_, name) => name,
        }
    }

    fn token(&self) -> u64 {
        match self {
            Self::Name(registration) => registration.token().0,
            Self::Starting(starting) => starting.token().0,
            Self::Member(membership, _) => membership.token().0,
            Self::Place(guard, _) => guard.token().0,
        }
    }

    fn check(&self) -> Result<(), NotHeld> {
        match self {
            Self::Name(registration) => registration.check(),
            Self::Starting(starting) => starting.check(),
            Self::Member(membership, _) => membership.check(),
            Self::Place(guard, _) => guard.check(),
        }
    }
}

impl From<Registration> for Holds {
    fn from(registration: Registration) -> Self {
        Self::Name(registration)
    }
}

impl Acting {
    /// Starts one of this number, among those of its process, which acts that often.
    pub async fn spawn(number: u64, every: Duration, journal: &Arc<dyn Journal>) -> Result<Self, SpawnErr> {
        Self::spawn_for(number, every, journal, Ear::default()).await
    }

    /// The same, where what it is told is known already.
    pub async fn spawn_for(
        number: u64,
        every: Duration,
        journal: &Arc<dyn Journal>,
        told: Ear,
    ) -> Result<Self, SpawnErr> {
        let held = HeldByActor::default();
        let acts = ActingActor { number, every, journal: journal.clone(), held: held.clone() };
        let (actor, _) = Actor::spawn(None, acts, ()).await?;
        let journal = journal.clone();
        Ok(Self { actor, number, held, told, journal })
    }

    /// The same actor, by another number, for another name: under that it holds, and does not act.
    #[must_use]
    pub fn also(&self, number: u64) -> Self {
        Self { number, held: HeldByActor::default(), ..self.clone() }
    }

    /// The name that it holds though its session is not trusted, if it lives and was not told.
    pub fn should_be_told(&self) -> Option<String> {
        let held = lock(&self.held);
        let held = held.as_ref()?;
        let lapsed = held.check() == Err(NotHeld::NotTrusted);
        let lives = self.actor.get_status() < ActorStatus::Stopping;
        let told =
            matches!(self.told(), Some(SessionTold::Lapsed | SessionTold::Lost | SessionTold::Transferred));
        (lapsed && lives && !told).then(|| held.name().to_owned())
    }

    /// It may act from now on, as long as this lets it.
    pub fn begin(&self, holds: impl Into<Holds>) {
        *lock(&self.held) = Some(holds.into());
    }

    /// It does not act any more, though it lives.
    pub fn pause(&self) {
        lock(&self.held).take();
    }

    /// What it was told of its session last.
    pub fn told(&self) -> Option<SessionTold> {
        *lock(&self.told)
    }

    /// Whether it holds nothing any more, without having given it up.
    pub fn is_over(&self) -> bool {
        matches!(self.told(), Some(SessionTold::Lost | SessionTold::Transferred))
            || self.actor.get_status() >= ActorStatus::Stopping
    }

    /// Writes down what it is told, and panics after that if it is to.
    pub fn listener(&self, panics: bool) -> Arc<dyn Fn(Notice) + Send + Sync> {
        listener(self.number, self.told.clone(), self.journal.clone(), panics)
    }

    /// Ends it.
    pub fn end(&self) {
        self.journal.write(&Event::Ended { at: self.journal.now(), actor: self.number, by_client: true });
        self.actor.stop(None);
    }
}

/// Writes down what an actor of this number is told, and panics after that if it is to.
pub fn listener(
    number: u64,
    told: Ear,
    journal: Arc<dyn Journal>,
    panics: bool,
) -> Arc<dyn Fn(Notice) + Send + Sync> {
    Arc::new(move |notice| {
        let what = match notice {
            Notice::Lapsed => SessionTold::Lapsed,
            Notice::Resumed => SessionTold::Resumed,
            Notice::Lost => SessionTold::Lost,
            Notice::Transferred => SessionTold::Transferred,
            // It is about to leave: the name is held as before.
            _ => return,
        };
        journal.write(&Event::Noticed { at: journal.now(), actor: number, told: what });
        *lock(&told) = Some(what);
        if panics {
            journal.note("a listener panics");
            panic!("{PANIC}");
        }
    })
}

struct ActingActor {
    number: u64,
    /// Between two acts.
    every: Duration,
    journal: Arc<dyn Journal>,
    held: HeldByActor,
}

impl Actor for ActingActor {
    type Msg = Act;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<Act>, (): ()) -> Result<(), ActorProcessingErr> {
        myself.send_interval(self.every, || Act::Now);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Act>,
        Act::Now: Act,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if self.journal.is_closed() {
            myself.stop(None);
            return Ok(());
        }
        // Who takes the registration away waits until the act is written down.
        let held = lock(&self.held);
        let Some(held) = held.as_ref() else { return Ok(()) };
        let from = self.journal.now();
        if held.check().is_ok() {
            let (to, actor) = (self.journal.now(), self.number);
            let (name, token) = (held.name().to_owned(), held.token());
            self.journal.write(&Event::Acted { from, to, actor, name, token });
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Act>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        // Also when the registry stops it. Its name is freed after this at the earliest.
        self.journal.write(&Event::Ended { at: self.journal.now(), actor: self.number, by_client: false });
        Ok(())
    }
}
