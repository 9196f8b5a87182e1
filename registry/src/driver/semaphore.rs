//! Semaphores and locks: groups in which the first few members, in the order of the log, hold what all of them wait for.

use std::{fmt, time::Duration};

use callsign_store::{ids::Position, planted};
use callsign_transport::RemoteMessage;

use crate::{
    core::{
        group::GroupId,
        input::Call,
        name::{Name, check_name},
    },
    driver::{
        group::{Joined, of_group},
        registration::NotHeld,
        registry::{RegisterOptions, Registry},
        seat::{Never, Seat},
    },
    error::{AcquireError, RegisterError, UnregisterError},
};

/// Something that so many may hold at a time, in the whole cluster. Cheap to clone. See [`Registry::semaphore`].
#[derive(Clone)]
pub struct Semaphore {
    registry: Registry,
    name: Name,
    limit: u32,
}

/// A place in a semaphore, or a lock, that is held. It is given up when the guard is dropped.
pub struct Guard {
    registry: Registry,
    /// Given up with the guard.
    _place: Seat,
    held: Joined,
}

impl Registry {
    /// A semaphore of so many places, by its name: `registry.semaphore("gpu", 4)`. Semaphores and locks have names of their own.
    ///
    /// The limit is that of whoever asked first: another one is refused until nobody is in it any more, who waits included.
    pub fn semaphore(&self, name: &str, limit: u32) -> Semaphore {
        Semaphore { registry: self.clone(), name: name.into(), limit }
    }

    /// A lock, by its name: a semaphore of one place.
    pub fn lock(&self, name: &str) -> Semaphore {
        self.semaphore(name, 1)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, limit, .. } = self;
        f.debug_struct("Semaphore").field("name", name).field("limit", limit).finish_non_exhaustive()
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}

impl Semaphore {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a place, for as long as it takes: first come, first served, as the log has it. A caller that stops waiting (drops the future)
    /// gives its place up.
    ///
    /// The place is asked for at once, in the time of any registration; then others are waited for. It is lost when this node's session
    /// is closed; [`Guard::check`] says so.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        check_name(&self.name).map_err(RegisterError::from)?;
        if self.limit == 0 {
            return Err(AcquireError::NoPlaces);
        }
        // Until it is given to the guard, whoever stops waiting drops it.
        let place = Seat::start(&self.registry.node.supervisor).await;
        let place = place.map_err(|error| AcquireError::NotStarted(error.into()))?;
        let address = self.registry.local(place.actor())?;
        let id = GroupId::semaphore(&self.name, self.limit);
        let (group, actor, kind) = (id.clone(), address.pid, Never::kind());
        let call = |on_lapse, _, meta| Call::Join { group, actor, kind, on_lapse, meta };
        // A lapse that is over ends no place: whoever holds one asks its check.
        let options = RegisterOptions::default().tell(|_| ());
        let held = self.registry.ask_for(&self.name, place.actor().get_cell(), call, options).await;
        let held = held.map_err(|error| of_group(error, &self.name))?;
        let claim = held.granted.claim;
        let held = Joined::new(&self.registry, self.name.clone(), id, actor, held);
        let holds = self.registry.shared.holding.of(claim);
        let Some(mut holds) = holds else { return Err(AcquireError::Lost) };
        // It ends with the claim.
        let is_held = |holds: &bool| *holds || planted!("guard-of-who-waits");
        holds.wait_for(is_held).await.map_err(|_| AcquireError::Lost)?;
        Ok(Guard { registry: self.registry.clone(), _place: place, held })
    }

    /// The same, for so long at the most.
    ///
    /// # Errors
    /// `TimedOut` then: the place is given up. See [`AcquireError`].
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard, AcquireError> {
        let clock = self.registry.clock();
        let until = clock.now() + wait;
        tokio::select! {
            biased;
            acquired = self.acquire() => acquired,
            () = clock.sleep_until(until) => Err(AcquireError::TimedOut { waited: wait }),
        }
    }
}

impl Guard {
    /// The name of the semaphore.
    pub fn name(&self) -> &str {
        self.held.registration().name()
    }

    /// The fencing token, which is where in the log the place was granted. It grows from holder to holder of a lock.
    pub fn token(&self) -> Position {
        self.held.registration().token()
    }

    /// Asks before an act whether the place is held still. Costs what [`Registration::check`](crate::Registration::check) costs.
    ///
    /// # Errors
    /// `NotTrusted` while the session is not trusted; the place is held again if the session is found open. `Ended` for good.
    pub fn check(&self) -> Result<(), NotHeld> {
        self.held.registration().check()
    }

    /// Gives the place up, and says from which position on it is the next one's. Dropping the guard does the same without a word.
    ///
    /// # Errors
    /// See [`UnregisterError`]. The place is given up in any case.
    pub async fn release(self) -> Result<Position, UnregisterError> {
        self.held.withdraw(&self.registry).await
    }
}
