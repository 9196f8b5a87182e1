//! The registries that a node has joined, and the actors that it hosts under names.

use std::{
    collections::HashMap,
    future::{Ready, ready},
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign::{
    Meta, NodeName, NotHeld, Notice, Position, Received, Receiving, RegisterError, RegisterOptions,
    Registration, Registry, TakeOptions, Taken, UnregisterError, WhenLapsed, WhenTaken, admin::Registries,
    in_full,
};
use callsign_store::lock::lock;
use ractor::{ActorProcessingErr, ActorRef, ActorStatus};
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
    pub(crate) registries: Registries,
    /// Serves all names that were asked for with `shared`.
    shared: ActorRef<Echo>,
    actors: Mutex<HashMap<Place, Hosting>>,
}

/// What an actor is told by.
type Listener = Arc<dyn Fn(Notice) + Send + Sync>;

/// An actor under a name, shared by all who ask to register that name here. It ends when nobody needs it any more, and never
/// because of the answer to one of them alone.
struct Hosting {
    actor: ActorRef<Echo>,
    registration: Option<Registration>,
    /// How many requests for it are under way.
    asking: usize,
    /// A request for it went without a verdict: it may be held, now or later. Asking again has to be for the same actor.
    is_unknown: bool,
    notices: Arc<Mutex<Vec<Notice>>>,
    /// One for all requests, so that it is told of everything once.
    listener: Listener,
}

impl Hosting {
    fn new(actor: ActorRef<Echo>) -> Self {
        let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let told = notices.clone();
        let listener: Listener = Arc::new(move |notice| lock(&told).push(notice));
        Self { actor, registration: None, asking: 0, is_unknown: false, notices, listener }
    }

    /// The registration, unless it has ended for good.
    fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref().filter(|registration| registration.check() != Err(NotHeld::Ended))
    }

    fn is_needed(&self) -> bool {
        is_running(&self.actor) && (self.asking > 0 || self.is_unknown || self.registration().is_some())
    }
}

/// A request for an actor that is under way. One that is dropped was given up by its caller, without a verdict.
struct Asking<'a> {
    hosted: &'a Hosted,
    place: Place,
    actor: ActorRef<Echo>,
    listener: Listener,
    verdict: Option<Result<Registration, RegisterError>>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut actors = lock(&self.hosted.actors);
        let is_its = |hosting: &&mut Hosting| hosting.actor.get_id() == self.actor.get_id();
        let Some(hosting) = actors.get_mut(&self.place).filter(is_its) else { return };
        hosting.asking -= 1;
        match self.verdict.take() {
            Some(Ok(registration)) => {
                // The answer to an earlier request may come later.
                if hosting.registration().is_none_or(|known| known.token() < registration.token()) {
                    hosting.registration = Some(registration);
                }
                hosting.is_unknown = false;
            }
            // An answer of the registry: whatever was asked before for this actor is decided, too.
            Some(Err(
                RegisterError::Taken { .. }
                | RegisterError::NotPermitted { .. }
                | RegisterError::ActorEnded
                | RegisterError::SessionLost { .. },
            )) => {
                hosting.is_unknown = false;
            }
            Some(Err(RegisterError::Unknown { .. } | RegisterError::NoLeader)) | None => {
                hosting.is_unknown = true;
            }
            // Nothing was asked for by this request, which says nothing of others.
            Some(Err(_)) => {}
        }
        self.hosted.let_go(&mut actors, &self.place);
    }
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
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// Under the one actor that serves all such names, not an actor of its own.
    pub(crate) shared: bool,
    /// The actor is told of a lapse, not stopped.
    pub(crate) tell: bool,
    /// The name is offered to other nodes when this one drains.
    pub(crate) moves: bool,
    /// How long to wait for the verdict.
    pub(crate) wait: Option<Duration>,
    /// What the actor says of itself.
    pub(crate) meta: Option<Meta>,
}

/// An echo actor has nothing to hand over.
fn nothing() -> Ready<Result<Vec<u8>, ActorProcessingErr>> {
    ready(Ok(Vec::new()))
}

/// What becomes of a name that another node wants. The actor that serves many names gives none of them: it would be stopped.
fn when_taken(how: &How) -> WhenTaken {
    match how {
        How { shared: true, .. } => WhenTaken::Refuse,
        How { moves: true, .. } => WhenTaken::offer(|_| nothing()),
        _ => WhenTaken::give(|_| nothing()),
    }
}

fn is_running(actor: &ActorRef<Echo>) -> bool {
    actor.get_status() < ActorStatus::Stopping
}

impl Hosted {
    pub(crate) fn new(node: String, registries: Registries, shared: ActorRef<Echo>) -> Self {
        Self { node, registries, shared, actors: Mutex::default() }
    }

    /// The registry of that name, or the node's first.
    pub(crate) fn registry(&self, name: Option<&str>) -> Result<&Registry, Refusal> {
        self.registries.get(name)
    }

    fn place(&self, registry: Option<&str>, name: &str) -> Place {
        (self.registries.name(registry).to_owned(), name.to_owned())
    }

    /// Registers an echo actor. Asked again for a name that this node holds, or may hold, it is for the same actor.
    pub(crate) async fn register(
        &self,
        registry: Option<&str>,
        name: &str,
        how: How,
    ) -> Result<Registration, Refusal> {
        if how.shared && how.moves {
            return Err(Refusal::usage("shared_actor", "the actor serves other names, too, and cannot move"));
        }
        let place = self.place(registry, name);
        let registry = self.registry(registry)?;
        let mut asking = self.actor_for(place, how.shared).await?;
        let when_lapsed = if how.tell { WhenLapsed::Tell(asking.listener.clone()) } else { WhenLapsed::Stop };
        let mut options = RegisterOptions::default().when_lapsed(when_lapsed);
        options.when_taken = when_taken(&how);
        (options.wait, options.meta) = (how.wait, how.meta);
        let result = registry.register_with(name, &asking.actor, options).await;
        asking.verdict = Some(result.clone());
        Ok(result?)
    }

    /// The actor for a name: the one that is there, or a new one.
    async fn actor_for(&self, place: Place, shared: bool) -> Result<Asking<'_>, Refusal> {
        if let Some(asking) = self.ask_for(&mut lock(&self.actors), &place) {
            return Ok(asking);
        }
        let actor = if shared {
            self.shared.clone()
        } else {
            let spawned = echo::spawn(&self.node).await;
            spawned.map_err(|error| Refusal::unavailable("no_actor", in_full(&error).to_string()))?
        };
        let mut actors = lock(&self.actors);
        if let Some(asking) = self.ask_for(&mut actors, &place) {
            self.discard(&actor);
            return Ok(asking);
        }
        let hosting = actors.entry(place.clone()).insert_entry(Hosting::new(actor)).into_mut();
        Ok(self.begin(hosting, place))
    }

    fn ask_for(&self, actors: &mut HashMap<Place, Hosting>, place: &Place) -> Option<Asking<'_>> {
        let hosting = actors.get_mut(place).filter(|hosting| is_running(&hosting.actor))?;
        Some(self.begin(hosting, place.clone()))
    }

    fn begin(&self, hosting: &mut Hosting, place: Place) -> Asking<'_> {
        hosting.asking += 1;
        let (actor, listener) = (hosting.actor.clone(), hosting.listener.clone());
        Asking { hosted: self, place, actor, listener, verdict: None }
    }

    /// Ends the actor of a name that nobody needs any more.
    fn let_go(&self, actors: &mut HashMap<Place, Hosting>, place: &Place) {
        if actors.get(place).is_some_and(|hosting| !hosting.is_needed())
            && let Some(hosting) = actors.remove(place)
        {
            self.discard(&hosting.actor);
        }
    }

    fn discard(&self, actor: &ActorRef<Echo>) {
        if actor.get_id() != self.shared.get_id() {
            actor.stop(None);
        }
    }

    /// Gives a name up, and ends its actor if nobody asks for the name meanwhile; not if that was refused before anything was
    /// done.
    pub(crate) async fn unregister(&self, registry: Option<&str>, name: &str) -> Result<Position, Refusal> {
        let place = self.place(registry, name);
        let result = self.registry(registry)?.unregister(name).await;
        if !matches!(result, Err(UnregisterError::StoreUnavailable { .. })) {
            let mut actors = lock(&self.actors);
            if let Some(hosting) = actors.get_mut(&place) {
                // What was asked before is decided. What is asked meanwhile says for itself.
                hosting.is_unknown = false;
            }
            self.let_go(&mut actors, &place);
        }
        Ok(result?)
    }

    /// Offers a name that is held here to another node, which takes it for an actor of its own.
    pub(crate) async fn transfer(
        &self,
        registry: Option<&str>,
        name: &str,
        to: &NodeName,
        wait: Duration,
    ) -> Result<Position, Refusal> {
        Ok(self.registry(registry)?.offer(name, to, wait).await?)
    }

    /// Takes what other nodes offer, in every registry of this node, until what is returned is dropped.
    pub(crate) fn receive(self: &Arc<Self>) -> Vec<Receiving> {
        let receive = |(registry, joined): (&str, &Registry)| {
            let (hosted, registry) = (Arc::downgrade(self), registry.to_owned());
            joined.receive(move |offered| {
                let (hosted, place) = (hosted.clone(), (registry.clone(), offered.name.to_string()));
                async move {
                    let node = hosted.upgrade().ok_or("the node ends")?.node.clone();
                    let actor = echo::spawn(&node).await?;
                    let hosting = Hosting::new(actor.clone());
                    let moved = move |taken: Taken| async move {
                        hosted.upgrade().ok_or("the node ends")?.has_moved_here(place, hosting, taken);
                        Ok(())
                    };
                    // It moves on as it came.
                    let options = TakeOptions::default().when_taken(WhenTaken::offer(|_| nothing()));
                    Ok(Received::new(actor, moved).options(options))
                }
            })
        };
        self.registries.iter().map(receive).collect()
    }

    /// Keeps the actor of a name that has moved here. One that somebody asked for meanwhile does not get the name.
    fn has_moved_here(&self, place: Place, mut hosting: Hosting, taken: Taken) {
        hosting.registration = Some(taken.registration);
        if let Some(other) = lock(&self.actors).insert(place, hosting) {
            self.discard(&other.actor);
        }
    }

    /// What an actor of this node holds under a name.
    pub(crate) fn registration(&self, registry: Option<&str>, name: &str) -> Result<Registration, Refusal> {
        self.registry(registry)?;
        let actors = lock(&self.actors);
        let held = actors.get(&self.place(registry, name)).and_then(Hosting::registration);
        held.cloned().ok_or_else(|| Refusal::not_held_here(name))
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

    /// Whether another node has a name that was held here, as far as this node knows.
    pub(crate) fn is_elsewhere(&self, held: &Held) -> bool {
        let entry =
            self.registry(Some(&held.registry)).ok().and_then(|joined| joined.lookup(&held.name).ok());
        entry.flatten().is_some_and(|entry| entry.node().as_str() != self.node && entry.token() > held.token)
    }

    /// The names whose registered actors run here, in order.
    pub(crate) fn held(&self) -> Vec<Held> {
        let mut actors = lock(&self.actors);
        actors.retain(|_, hosting| {
            let is_needed = hosting.is_needed();
            if !is_needed {
                self.discard(&hosting.actor);
            }
            is_needed
        });
        let held = actors.iter().filter_map(|((registry, name), hosting)| {
            let registration = hosting.registration()?;
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
        Notice::Transferred => "transferred",
        _ => "other",
    }
}

#[cfg(test)]
mod tests;
