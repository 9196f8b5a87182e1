//! Runs a [`Member`] as an actor.
//!
//! Decides nothing: it turns messages, timers and completions into inputs, and carries out effects in order. A rule
//! of the protocol found here is in the wrong place.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the driver is where time and tasks come from

use std::sync::Arc;

use callsign_elector::{
    Clock, Time,
    elector::{ElectorEvent, driver::ElectorHandle},
    ids::{NodeName, RegistryName},
    recording::Recorder,
    session::NodeSession,
    store::SharedStore,
    supervision::{Part, Supervisor},
};
use callsign_transport::{Endpoint, PeerId};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use ractor_cluster_derive::RactorMessage;
use tokio::sync::{mpsc, watch};

use crate::{
    input::{Effect, Input, Now},
    member::{Member, MemberConfig},
    metrics::OfRegistry,
    shared::SharedTable,
    status::Status,
};

mod callers;
mod effects;
mod failing;
mod pumps;
mod watched;

pub(crate) use callers::{Flag, Listener, Shared};

/// There are inputs to take.
#[derive(Debug, RactorMessage)]
pub(crate) struct Kick;

/// Told of every new set of members and their addresses.
pub(crate) type OnMembers = Box<dyn Fn(Vec<(NodeName, String)>) + Send + Sync>;

/// What a member actor is started with.
pub(crate) struct Parts {
    pub(crate) config: MemberConfig,
    pub(crate) registry: RegistryName,
    pub(crate) channel: String,
    pub(crate) store: SharedStore,
    pub(crate) clock: Clock,
    pub(crate) session: NodeSession,
    pub(crate) endpoint: Endpoint,
    pub(crate) elector: ElectorHandle,
    pub(crate) elector_events: mpsc::UnboundedReceiver<ElectorEvent>,
    /// Told of every new set of members, so that the node links to them.
    pub(crate) on_members: OnMembers,
    pub(crate) on_lead: Box<dyn Fn(bool) + Send + Sync>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) supervisor: Supervisor,
}

/// A member that runs.
pub(crate) struct Started {
    pub(crate) shared: Arc<Shared>,
    pub(crate) actor: ActorCell,
    pub(crate) part: Part,
}

/// Starts a member.
pub(crate) async fn start(parts: Parts) -> Result<Started, ractor::SpawnErr> {
    // A recording can be replayed only if the order of the table is in it, or none of it.
    let table = if parts.recorder.is_some() { SharedTable::in_order() } else { SharedTable::new() };
    let shared = Arc::new(Shared::new(&parts, &table));
    let (supervisor, name) = (parts.supervisor.clone(), format!("the member of registry {}", parts.registry));
    let arguments = (shared.clone(), parts, table);
    let (actor, part) = supervisor.actor(name, MemberActor, arguments).await?;
    shared.runs_in(actor.clone());
    Ok(Started { shared, actor: actor.get_cell(), part })
}

struct MemberActor;

/// Everything that the driver keeps besides the core.
struct Driver {
    member: Member<SharedTable>,
    shared: Arc<Shared>,
    store: SharedStore,
    clock: Clock,
    session: NodeSession,
    endpoint: Endpoint,
    elector: ElectorHandle,
    channel: String,
    /// How many were up when it was last counted.
    links: usize,
    wake: watch::Sender<Time>,
    effects: Vec<Effect>,
    on_members: OnMembers,
    on_lead: Box<dyn Fn(bool) + Send + Sync>,
    /// Why the log could not be read, the last time, and how often in a row.
    corrupt: (String, u64),
    known: Vec<(NodeName, String)>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    recorder: Option<Recorder>,
    supervisor: Supervisor,
    metrics: OfRegistry,
}

/// Also after a panic, when nothing else is run.
impl Drop for Driver {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.metrics.ended();
    }
}

impl Actor for MemberActor {
    type Msg = Kick;
    type State = Driver;
    type Arguments = (Arc<Shared>, Parts, SharedTable);

    async fn pre_start(
        &self,
        _myself: ActorRef<Kick>,
        (shared, parts, table): Self::Arguments,
    ) -> Result<Driver, ActorProcessingErr> {
        let (wake, wakes) = watch::channel(Time::ZERO);
        let metrics = OfRegistry::new(parts.registry.as_str());
        metrics.links(0);
        let (links, session) = (parts.endpoint.subscribe(&parts.channel), parts.session.subscribe());
        let links = pumps::links(shared.clone(), links, metrics.pump());
        let session = pumps::session(shared.clone(), session, parts.elector.clone());
        let elector =
            pumps::elector(shared.clone(), parts.elector_events, parts.session.clone(), metrics.pump());
        let time = pumps::time(shared.clone(), parts.clock.clone(), wakes);
        let supervisor = parts.supervisor;
        // Session and elector are parts of the node themselves: their streams end when they do.
        let tasks = vec![
            supervisor.service("what comes over links to a registry", links),
            supervisor.task("what the session says to a registry", session),
            supervisor.task("what the elector says to a registry", elector),
            supervisor.task("the timer of a registry", time),
        ];
        Ok(Driver {
            member: Member::new(parts.config, table),
            shared,
            store: parts.store,
            clock: parts.clock,
            session: parts.session,
            endpoint: parts.endpoint,
            elector: parts.elector,
            channel: parts.channel,
            links: 0,
            wake,
            effects: Vec::new(),
            on_members: parts.on_members,
            on_lead: parts.on_lead,
            corrupt: (String::new(), 0),
            known: Vec::new(),
            tasks,
            recorder: parts.recorder,
            supervisor,
            metrics,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Kick>,
        _kick: Kick,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(feature = "faults")]
        {
            if let Some(time) = driver.shared.hangs() {
                tokio::time::sleep(time).await;
            }
        }
        driver.take_all(&myself);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Kick>,
        event: SupervisionEvent,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        // A watched actor is not a child: its end is an input, and never this actor's.
        if let SupervisionEvent::ActorTerminated(who, ..) | SupervisionEvent::ActorFailed(who, _) = event {
            let actor = who.get_id().pid();
            if driver.shared.watched.remove(actor).is_some() {
                // Not taken at once: ends that come together go together.
                driver.shared.actor_ended(actor);
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Kick>,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        driver.shared.ends();
        if let Some(recorder) = &mut driver.recorder {
            recorder.finish();
        }
        driver.shared.answers_nobody();
        Ok(())
    }
}

impl Driver {
    fn now(&self) -> Now {
        // The clock after the trust: a trust that ran out in between is not believed at the later time.
        let trusted = self.shared.trust.check().ok();
        Now { time: self.clock.now(), trusted }
    }

    fn take_all(&mut self, myself: &ActorRef<Kick>) {
        let inputs = self.shared.inbox.take();
        let now = self.now();
        let mut woke = false;
        let mut effects = std::mem::take(&mut self.effects);
        for input in inputs {
            woke |= matches!(input, Input::Wake);
            self.note(&input);
            self.step(now, input, &mut effects);
        }
        self.step(now, Input::Idle, &mut effects);
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
        for effect in effects.drain(..) {
            self.perform(effect, myself);
        }
        self.effects = effects;
        self.publish();
        self.metrics.tell();
        let wakes_at = self.member.wakes_at(now.time);
        self.wake.send_if_modified(|at| {
            // A timer that has fired waits to be told of the next time, even if it is the same.
            let is_news = woke || *at != wakes_at;
            *at = wakes_at;
            is_news
        });
    }

    fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        let Some(recorder) = &mut self.recorder else { return self.member.step(now, input, effects) };
        let begin = effects.len();
        recorder.before(&now, &input);
        self.member.step(now, input, effects);
        recorder.after(&effects[begin..]);
    }

    /// Keeps what the driver needs itself to carry out effects.
    fn note(&mut self, input: &Input) {
        match input {
            Input::LinkUp { .. } => self.metrics.link("up"),
            Input::LinkDown { .. } => self.metrics.link("down"),
            Input::Message { message, .. } => self.metrics.received(message),
            Input::Assume { leader, epoch } if *leader == self.shared.status.load().node => {
                self.metrics.assumes(*epoch);
            }
            Input::View(view) => {
                let members: Vec<_> =
                    view.members.iter().map(|(node, row)| (node.clone(), row.address.clone())).collect();
                let view_of = self.shared.status.load().node.clone();
                // The transport cannot tell which of two incarnations is the later one; the store can.
                for (_, row) in view.members.iter().filter(|(node, _)| *node != &view_of) {
                    if view.sessions.is_open(&row.session) {
                        let session = &row.session;
                        self.endpoint.confirm(&PeerId::new(session.node.as_str(), session.incarnation.0));
                    }
                }
                if members != self.known {
                    (self.on_members)(members.clone());
                    self.known = members;
                }
            }
            _ => {}
        }
    }

    fn publish(&mut self) {
        if std::mem::replace(&mut self.links, self.member.links()) != self.links {
            self.metrics.links(self.links);
        }
        let status = Status::of(&self.member);
        self.shared.set_synced(status.synced);
        let term = &self.member.view().term;
        if **self.shared.term.load() != *term {
            self.shared.term.store(Arc::new(term.clone()));
        }
        if **self.shared.status.load() != status {
            self.metrics.status(&status, self.shared.table.count());
            self.shared.status.store(Arc::new(status));
            self.shared.changed.notify_waiters();
        }
    }
}
