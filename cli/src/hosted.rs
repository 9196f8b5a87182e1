//! The registries that a node has joined, and the actors that it hosts under names.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use callsign::{
    Notice, Position, RegisterError, RegisterOptions, Registration, Registry, UnregisterError, WhenLapsed,
};
use ractor::{ActorRef, ActorStatus};
use serde::Serialize;

use crate::{
    echo::{self, Echo},
    reply::Refusal,
};

/// A registry and a name in it.
type Place = (String, String);

/// What a node hosts.
pub(crate) struct Hosted {
    pub(crate) node: String,
    pub(crate) registries: BTreeMap<String, Registry>,
    pub(crate) default: String,
    /// Serves all names that were asked for with `shared`.
    shared: ActorRef<Echo>,
    actors: Mutex<HashMap<Place, Hosting>>,
}

/// An actor under a name.
struct Hosting {
    actor: ActorRef<Echo>,
    /// None while no verdict is known: asking again has to be for the same actor.
    registration: Option<Registration>,
    notices: Arc<Mutex<Vec<Notice>>>,
}

/// A name that an actor of this node holds, as far as this node knows.
#[derive(Serialize)]
pub(crate) struct Held {
    registry: String,
    name: String,
    token: Position,
    /// Whether `Registration::check` passed, just now.
    trusted: bool,
    /// What the actor was told, if it was registered with `when_lapsed: tell`.
    notices: Vec<&'static str>,
}

/// How to register.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Under the one actor that serves all such names, not an actor of its own.
    pub(crate) shared: bool,
    /// The actor is told of a lapse, not stopped.
    pub(crate) tell: bool,
    /// How long to wait for the verdict.
    pub(crate) wait: Option<Duration>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks: they guard plain collections.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_running(actor: &ActorRef<Echo>) -> bool {
    actor.get_status() < ActorStatus::Stopping
}

impl Hosted {
    pub(crate) fn new(
        node: String,
        registries: BTreeMap<String, Registry>,
        default: String,
        shared: ActorRef<Echo>,
    ) -> Self {
        Self { node, registries, default, shared, actors: Mutex::default() }
    }

    /// The registry of that name, or the node's first.
    pub(crate) fn registry(&self, name: Option<&str>) -> Result<&Registry, Refusal> {
        let name = name.unwrap_or(&self.default);
        self.registries.get(name).ok_or_else(|| {
            Refusal::usage("unknown_registry", format!("this node has not joined {name:?}"))
                .with("joined", self.registries.keys().collect::<Vec<_>>())
        })
    }

    fn place(&self, registry: Option<&str>, name: &str) -> Place {
        (registry.unwrap_or(&self.default).to_owned(), name.to_owned())
    }

    /// Registers an echo actor. Asked again for a name that this node holds, or may hold, it is for the same actor.
    pub(crate) async fn register(
        &self,
        registry: Option<&str>,
        name: &str,
        how: How,
    ) -> Result<Registration, Refusal> {
        let place = self.place(registry, name);
        let registry = self.registry(registry)?;
        let (actor, notices) = self.actor_for(&place, how.shared).await?;
        let when_lapsed = if how.tell {
            let notices = notices.clone();
            WhenLapsed::Tell(Arc::new(move |notice| lock(&notices).push(notice)))
        } else {
            WhenLapsed::Stop
        };
        let options = RegisterOptions { when_lapsed, wait: how.wait, on_outage: None };
        let result = registry.register_with(name, &actor, options).await;
        let mut actors = lock(&self.actors);
        let hosting = actors.get_mut(&place).filter(|hosting| hosting.actor.get_id() == actor.get_id());
        match &result {
            Ok(registration) => {
                if let Some(hosting) = hosting {
                    hosting.registration = Some(registration.clone());
                }
            }
            // It may be held by now or later: the actor stays, so that asking again finds out.
            Err(RegisterError::Unknown { .. } | RegisterError::NoLeader) => {}
            Err(_) if hosting.is_some_and(|hosting| hosting.registration.is_none()) => {
                actors.remove(&place);
                self.discard(&actor);
            }
            Err(_) => {}
        }
        Ok(result?)
    }

    async fn actor_for(
        &self,
        place: &Place,
        shared: bool,
    ) -> Result<(ActorRef<Echo>, Arc<Mutex<Vec<Notice>>>), Refusal> {
        let find = |actors: &HashMap<Place, Hosting>| {
            let hosting = actors.get(place).filter(|hosting| is_running(&hosting.actor));
            hosting.map(|hosting| (hosting.actor.clone(), hosting.notices.clone()))
        };
        if let Some(found) = find(&lock(&self.actors)) {
            return Ok(found);
        }
        let actor = if shared {
            self.shared.clone()
        } else {
            let spawned = echo::spawn(&self.node).await;
            spawned.map_err(|error| Refusal::unavailable("no_actor", error.to_string()))?
        };
        let mut actors = lock(&self.actors);
        if let Some(found) = find(&actors) {
            self.discard(&actor);
            return Ok(found);
        }
        let notices = Arc::default();
        let hosting = Hosting { actor: actor.clone(), registration: None, notices: Arc::clone(&notices) };
        actors.insert(place.clone(), hosting);
        Ok((actor, notices))
    }

    fn discard(&self, actor: &ActorRef<Echo>) {
        if actor.get_id() != self.shared.get_id() {
            actor.stop(None);
        }
    }

    /// Gives a name up, and ends its actor; not if that was refused before anything was done.
    pub(crate) async fn unregister(&self, registry: Option<&str>, name: &str) -> Result<Position, Refusal> {
        let place = self.place(registry, name);
        let registry = self.registry(registry)?;
        // The host drops its claim before it asks for anything, so the name is not held from here on.
        let hosting = lock(&self.actors).remove(&place);
        let result = registry.unregister(name).await;
        if let Some(hosting) = hosting {
            if matches!(result, Err(UnregisterError::StoreUnavailable { .. })) {
                lock(&self.actors).entry(place).or_insert(hosting);
            } else {
                self.discard(&hosting.actor);
            }
        }
        Ok(result?)
    }

    /// Ends the actor that holds a name here, and waits until it has ended. Its names are freed thereafter.
    pub(crate) async fn end_actor(&self, registry: Option<&str>, name: &str) -> Result<(), Refusal> {
        let place = self.place(registry, name);
        let Some(hosting) = lock(&self.actors).remove(&place) else {
            return Err(Refusal::not_found(name));
        };
        if hosting.actor.get_id() == self.shared.get_id() {
            lock(&self.actors).insert(place, hosting);
            return Err(Refusal::usage("shared_actor", "the actor serves other names, too"));
        }
        let ended = hosting.actor.stop_and_wait(None, Some(Duration::from_secs(5))).await;
        match ended {
            // It may have ended by itself.
            Err(error) if hosting.actor.get_status() != ActorStatus::Stopped => {
                Err(Refusal::timed_out("not_ended", error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The names whose registered actors run here, in order.
    pub(crate) fn held(&self) -> Vec<Held> {
        let mut actors = lock(&self.actors);
        actors.retain(|_, hosting| is_running(&hosting.actor));
        let held = actors.iter().filter_map(|((registry, name), hosting)| {
            let registration = hosting.registration.as_ref()?;
            Some(Held {
                registry: registry.clone(),
                name: name.clone(),
                token: registration.token(),
                trusted: registration.check().is_ok(),
                notices: lock(&hosting.notices).iter().copied().map(word).collect(),
            })
        });
        let mut held: Vec<_> = held.collect();
        held.sort_by(|a, b| (&a.registry, &a.name).cmp(&(&b.registry, &b.name)));
        held
    }
}

fn word(notice: Notice) -> &'static str {
    match notice {
        Notice::Lapsed => "lapsed",
        Notice::Resumed => "resumed",
        Notice::Lost => "lost",
        Notice::Draining => "draining",
    }
}
