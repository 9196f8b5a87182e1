//! Places in semaphores, and a lock, that all nodes want: each is held for a moment, by one client of a node at a time.

use std::sync::Arc;

use callsign::{AcquireError, Guard, NotHeld, UnregisterError};
use tokio::time::sleep;

use super::{
    super::{
        acting::{Acting, Holds},
        event::{Answer, Ask},
    },
    CALL_AGAIN, Calls, Client, Duration, VERDICT_TIMEOUT,
    takes::not_registered,
    word,
};

/// All semaphores, and how many places each has.
const SEMAPHORES: [(&str, u32); 2] = [("lock", 1), ("pair", 2)];
/// How long a place is held, at most.
const HOLD: Duration = Duration::from_secs(3);

/// A place that a client has.
struct ClientPlace {
    /// What it is called in the history.
    name: String,
    acting: Acting,
    guard: Arc<Guard>,
}

impl Client {
    /// Waits for places, holds each for a moment, and gives it up.
    pub async fn lock_up(mut self) {
        while self.works() {
            let (semaphore, limit) = SEMAPHORES[self.rng.index(SEMAPHORES.len())];
            if let Some(place) = self.enter(semaphore, limit).await {
                let until = self.now() + u64::try_from(self.rng.duration(HOLD).as_nanos()).unwrap_or(0);
                while self.works() && self.now() < until && place.guard.check() != Err(NotHeld::Ended) {
                    sleep(CALL_AGAIN).await;
                }
                self.leave_place(place).await;
            }
            for _ in 0..3 {
                self.pause().await;
            }
        }
    }

    /// Gets a place of each semaphore once more, until it has had it: no place is lost for good.
    pub async fn lock_all(mut self) {
        for (semaphore, limit) in SEMAPHORES {
            loop {
                if let Some(place) = self.enter(semaphore, limit).await {
                    self.leave_place(place).await;
                    break;
                }
                sleep(CALL_AGAIN).await;
            }
        }
    }

    /// A place, if there is one within the time of a call.
    async fn enter(&mut self, semaphore: &str, limit: u32) -> Option<ClientPlace> {
        let number = Calls::next(&self.calls.actors);
        let name = format!("{semaphore}#{}", self.says());
        let call = self.asked(Ask::Acquire { limit }, &name, number);
        let acquired = self.site.registry.semaphore(semaphore, limit).acquire_within(VERDICT_TIMEOUT).await;
        let guard = match acquired {
            Ok(guard) => Arc::new(guard),
            Err(error) => {
                let answer = match &error {
                    AcquireError::Register(error) => not_registered(error),
                    // It was given up.
                    AcquireError::TimedOut { .. } | AcquireError::Lost => Answer::Unknown(word(&error)),
                    _ => Answer::Refused(word(&error)),
                };
                self.told(call, answer);
                return None;
            }
        };
        // The place is held from here on, also if no actor can be started to act by it.
        self.told(call, Answer::Granted(guard.token().0));
        let acting = Acting::spawn(number, self.site.act_every, &self.site.journal).await.ok()?;
        acting.begin(Holds::Place(guard.clone(), name.clone()));
        Some(ClientPlace { name, acting, guard })
    }

    /// In so many words, or without.
    async fn leave_place(&mut self, place: ClientPlace) {
        let ClientPlace { name, acting, guard } = place;
        acting.pause();
        let in_words = self.rng.per_mille(500);
        if !in_words {
            acting.end();
            return;
        }
        let call = self.asked(Ask::Leave, &name, acting.number);
        // Its actor has put down what it had of it.
        let Some(guard) = Arc::into_inner(guard) else { return acting.end() };
        let answer = match guard.release().await {
            Ok(_) => Answer::Freed,
            Err(error @ (UnregisterError::Pending { .. } | UnregisterError::Left)) => {
                Answer::Unknown(word(&error))
            }
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer);
        acting.end();
    }
}
