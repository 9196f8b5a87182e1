//! Starts: the actor is there only where the name is held for it already. What starts it acts, too.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign::{NotStarted, RegisterError, StartOptions, Started, Starting, WhenLapsed};
use callsign_store::lock::lock;
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::sleep;

use super::{
    super::{
        Journal,
        acting::{Act, Acting, Ear, Holds, PANIC, listener},
        event::{Answer, Ask, Event},
    },
    Calls, Client, VERDICT_TIMEOUT,
    moves::Piece,
    word,
};

/// How long a start may take.
const LIMIT: Duration = Duration::from_secs(2);
/// How many starts of a thousand take their time, and how many fail.
const SLOW: u64 = 300;
const FAILS: u64 = 80;

/// The actor that is started, as the one who asks for it sees it.
#[derive(Default)]
enum Child {
    /// It is not there yet.
    #[default]
    Awaited,
    /// It is there.
    Started(Acting),
    /// Nobody wants it any more.
    Unwanted,
}

/// What a start does.
struct Start {
    number: u64,
    name: String,
    every: Duration,
    takes: Duration,
    fails: bool,
    panics: bool,
    told: Ear,
    journal: Arc<dyn Journal>,
    child: Arc<Mutex<Child>>,
}

impl Start {
    /// Acts as long as it takes its time and may, and then starts the actor.
    async fn run(self, starting: Starting) -> Result<ActorRef<Act>, ActorProcessingErr> {
        let (number, token) = (self.number, starting.token().0);
        let (name, at) = (self.name.clone(), self.journal.now());
        self.journal.write(&Event::Begun { at, actor: number, name, token });
        let until = at + u64::try_from(self.takes.as_nanos()).unwrap_or(0);
        loop {
            let from = self.journal.now();
            if starting.check().is_ok() {
                let (to, name) = (self.journal.now(), self.name.clone());
                self.journal.write(&Event::Acted { from, to, actor: number, name, token });
            }
            if self.journal.now() >= until {
                break;
            }
            sleep(self.every).await;
        }
        if self.panics {
            self.journal.note("a start panics");
            panic!("{PANIC}");
        }
        if self.fails {
            self.journal.note("a start fails");
            return Err("it is to fail".into());
        }
        let acting = Acting::spawn_for(number, self.every, &self.journal, self.told.clone()).await?;
        let actor = acting.actor.clone();
        let mut child = lock(&self.child);
        if matches!(*child, Child::Unwanted) {
            acting.end();
        } else {
            acting.begin(Holds::Starting(starting));
            *child = Child::Started(acting);
        }
        Ok(actor)
    }
}

impl Client {
    /// Asks for a name for an actor that is started only if nobody has the name.
    pub(super) async fn start(&mut self, name: &str) -> Option<Piece> {
        let number = Calls::next(&self.calls.actors);
        let (told, child) = (Ear::default(), Arc::<Mutex<Child>>::default());
        let journal = self.site.journal.clone();
        let is_slow = self.rng.per_mille(SLOW);
        if is_slow {
            journal.note("a start is slow");
        }
        let start = Start {
            number,
            name: name.to_owned(),
            every: self.site.act_every,
            takes: if is_slow { self.rng.duration(LIMIT * 2) } else { Duration::ZERO },
            fails: self.rng.per_mille(FAILS),
            panics: self.rng.per_mille(self.site.panics),
            told: told.clone(),
            journal: journal.clone(),
            child: child.clone(),
        };
        let stops = self.rng.per_mille(300);
        let panics = self.rng.per_mille(self.site.panics);
        let tells = || WhenLapsed::Tell(listener(number, told, journal, panics));
        let options = StartOptions::default()
            .limit(LIMIT)
            .wait(VERDICT_TIMEOUT)
            .when_lapsed(if stops { WhenLapsed::Stop } else { tells() })
            .when_taken(self.gives(number, name));
        let call = self.asked(Ask::Start, name, number);
        let (answer, held) =
            match self.site.registry.start_with(name, options, move |starting| start.run(starting)).await {
                Ok(Started::Ours(held)) => {
                    let (token, revision) = (held.token().0, held.revision().0);
                    (Answer::Bound { token, revision }, Some(held))
                }
                Ok(Started::Theirs(entry)) => (Answer::Taken(entry.token().0), None),
                Ok(other) => (Answer::Unknown(word(&other)), None),
                Err(error) => (not_started(&error), None),
            };
        let child = std::mem::replace(&mut *lock(&child), Child::Unwanted);
        let acting = if let Child::Started(acting) = child { Some(acting) } else { None };
        let piece = match (held, acting) {
            (Some(held), Some(acting)) => {
                self.begins(&acting, held.clone());
                Some(Piece::new(acting, held))
            }
            // Its name may be bound yet, to an actor that nobody wants.
            (_, Some(acting)) => {
                acting.end();
                None
            }
            (_, None) => None,
        };
        self.told(call, answer);
        piece
    }
}

fn not_started(error: &NotStarted) -> Answer {
    match error {
        // It may be bound, or may have been.
        NotStarted::Register(
            error @ (RegisterError::Unknown { .. }
            | RegisterError::SessionLost { .. }
            | RegisterError::ActorEnded),
        ) => Answer::Unknown(word(error)),
        NotStarted::Register(error) => Answer::Refused(word(error)),
        NotStarted::StillStarting { .. } => Answer::Refused(word(error)),
        // It had the name for a while.
        _ => Answer::Unknown(word(error)),
    }
}
