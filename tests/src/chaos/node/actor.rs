//! An actor that acts all the time, as long as it may: it asks `check()`, and writes down that it passed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign::{Notice, RactorClusterMessage, Registration, remote_message};
use callsign_elector::lock::lock;
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr};

use crate::chaos::{
    event::{Event, Told},
    journal::{Journal, now},
};

/// Between two acts.
const EVERY: Duration = Duration::from_millis(50);

/// What such an actor takes.
#[derive(Debug, RactorClusterMessage)]
pub(super) enum Act {
    /// It acts.
    Now,
}
remote_message!(Act, "callsign.chaos.act/1");

/// An actor, as its client has it.
#[derive(Clone)]
pub(super) struct Acting {
    pub(super) actor: ActorRef<Act>,
    /// Its number, among those of its process.
    pub(super) number: u64,
    registration: Held,
    told: Arc<Mutex<Option<Told>>>,
    journal: Arc<Journal>,
}

/// What an actor holds; whoever takes it away knows that it does not act any more.
type Held = Arc<Mutex<Option<Registration>>>;

impl Acting {
    pub(super) async fn spawn(number: u64, journal: &Arc<Journal>) -> Result<Self, SpawnErr> {
        let registration = Held::default();
        let acts = Acts { number, journal: journal.clone(), registration: registration.clone() };
        let (actor, _) = Actor::spawn(None, acts, ()).await?;
        let (told, journal) = (Arc::default(), journal.clone());
        Ok(Self { actor, number, registration, told, journal })
    }

    /// It holds a name, and acts from now on.
    pub(super) fn begin(&self, registration: Registration) {
        *lock(&self.registration) = Some(registration);
    }

    /// It does not act any more, though it lives.
    pub(super) fn pause(&self) {
        lock(&self.registration).take();
    }

    /// What it was told of its session last.
    pub(super) fn told(&self) -> Option<Told> {
        *lock(&self.told)
    }

    /// Writes down what it is told.
    pub(super) fn listener(&self) -> Arc<dyn Fn(Notice) + Send + Sync> {
        let (number, told, journal) = (self.number, self.told.clone(), self.journal.clone());
        Arc::new(move |notice| {
            let what = match notice {
                Notice::Lapsed => Told::Lapsed,
                Notice::Resumed => Told::Resumed,
                Notice::Lost => Told::Lost,
                // The name is held as before.
                Notice::Draining => return,
            };
            journal.write(&Event::Noticed { at: now(), actor: number, told: what });
            *lock(&told) = Some(what);
        })
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.journal.write(&Event::Ended { at: now(), actor: self.number });
        self.actor.stop(None);
    }
}

struct Acts {
    number: u64,
    journal: Arc<Journal>,
    registration: Held,
}

impl Actor for Acts {
    type Msg = Act;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<Act>, (): ()) -> Result<(), ActorProcessingErr> {
        myself.send_interval(EVERY, || Act::Now);
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Act>, Act::Now: Act, (): &mut ()) -> Result<(), ActorProcessingErr> {
        // Who takes the registration away waits until the act is written down.
        let held = lock(&self.registration);
        let Some(registration) = held.as_ref() else { return Ok(()) };
        let from = now();
        if registration.check().is_ok() {
            let (to, actor) = (now(), self.number);
            let (name, token) = (registration.name().to_owned(), registration.token().0);
            self.journal.write(&Event::Acted { from, to, actor, name, token });
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Act>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        // Also when the registry stops it. Its name is freed after this at the earliest.
        self.journal.write(&Event::Ended { at: now(), actor: self.number });
        Ok(())
    }
}
