//! An actor that acts all the time, as long as it may: it asks `check()`, and writes down that it passed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign::{NotHeld, Notice, RactorClusterMessage, Registration, remote_message};
use callsign_store::lock::lock;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus, SpawnErr};

use super::{
    Journal,
    event::{Event, Told},
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
    registration: Held,
    told: Arc<Mutex<Option<Told>>>,
    journal: Arc<dyn Journal>,
}

/// What an actor holds; whoever takes it away knows that it does not act any more.
type Held = Arc<Mutex<Option<Registration>>>;

impl Acting {
    /// Starts one of this number, among those of its process, which acts that often.
    pub async fn spawn(number: u64, every: Duration, journal: &Arc<dyn Journal>) -> Result<Self, SpawnErr> {
        let registration = Held::default();
        let acts = Acts { number, every, journal: journal.clone(), registration: registration.clone() };
        let (actor, _) = Actor::spawn(None, acts, ()).await?;
        let (told, journal) = (Arc::default(), journal.clone());
        Ok(Self { actor, number, registration, told, journal })
    }

    /// The same actor, by another number, for another name: under that it holds, and does not act.
    #[must_use]
    pub fn also(&self, number: u64) -> Self {
        Self { number, registration: Held::default(), ..self.clone() }
    }

    /// The name that it holds though its session is not trusted, if it lives and was not told.
    pub fn should_be_told(&self) -> Option<String> {
        let held = lock(&self.registration);
        let registration = held.as_ref()?;
        let lapsed = registration.check() == Err(NotHeld::NotTrusted);
        let lives = self.actor.get_status() < ActorStatus::Stopping;
        let told = matches!(self.told(), Some(Told::Lapsed | Told::Lost));
        (lapsed && lives && !told).then(|| registration.name().to_owned())
    }

    /// It holds a name, and acts from now on.
    pub fn begin(&self, registration: Registration) {
        *lock(&self.registration) = Some(registration);
    }

    /// It does not act any more, though it lives.
    pub fn pause(&self) {
        lock(&self.registration).take();
    }

    /// What it was told of its session last.
    pub fn told(&self) -> Option<Told> {
        *lock(&self.told)
    }

    /// Writes down what it is told, and panics after that if it is to.
    pub fn listener(&self, panics: bool) -> Arc<dyn Fn(Notice) + Send + Sync> {
        let (number, told, journal) = (self.number, self.told.clone(), self.journal.clone());
        Arc::new(move |notice| {
            let what = match notice {
                Notice::Lapsed => Told::Lapsed,
                Notice::Resumed => Told::Resumed,
                Notice::Lost => Told::Lost,
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

    /// Ends it.
    pub fn end(&self) {
        self.journal.write(&Event::Ended { at: self.journal.now(), actor: self.number, by_client: true });
        self.actor.stop(None);
    }
}

struct Acts {
    number: u64,
    /// Between two acts.
    every: Duration,
    journal: Arc<dyn Journal>,
    registration: Held,
}

impl Actor for Acts {
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
        let held = lock(&self.registration);
        let Some(registration) = held.as_ref() else { return Ok(()) };
        let from = self.journal.now();
        if registration.check().is_ok() {
            let (to, actor) = (self.journal.now(), self.number);
            let (name, token) = (registration.name().to_owned(), registration.token().0);
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
