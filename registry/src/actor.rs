//! Runs a [`Member`] as an actor.
//!
//! Decides nothing: it turns messages, timers and completions into inputs, and carries out effects in order. A rule
//! of the protocol found here is in the wrong place.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the driver is where time and tasks come from

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use callsign_elector::{
    Clock, Time,
    elector::{ElectorEvent, driver::ElectorHandle},
    ids::{NodeName, RegistryName},
    record::SessionRecord,
    recording::Recorder,
    session::NodeSession,
    store::SharedStore,
};
use callsign_transport::{Endpoint, LinkId, PeerId};
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
mod pumps;

pub(crate) use callers::Shared;

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
}

/// Starts a member.
pub(crate) async fn start(parts: Parts) -> Result<(Arc<Shared>, ActorRef<Kick>), ractor::SpawnErr> {
    // A recording can be replayed only if the order of the table is in it, or none of it.
    let table = if parts.recorder.is_some() { SharedTable::in_order() } else { SharedTable::new() };
    let shared = Arc::new(Shared::new(&parts, &table));
    let arguments = (shared.clone(), parts, table);
    let (actor, _) = Actor::spawn(None, MemberActor, arguments).await?;
    shared.runs_in(actor.clone());
    Ok((shared, actor))
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
    links: BTreeMap<NodeName, LinkId>,
    watched: HashMap<u64, ActorCell>,
    wake: watch::Sender<Time>,
    effects: Vec<Effect>,
    on_members: OnMembers,
    on_lead: Box<dyn Fn(bool) + Send + Sync>,
    /// Why the log could not be read, the last time, and how often in a row.
    corrupt: (String, u64),
    known: Vec<(NodeName, String)>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    recorder: Option<Recorder>,
    metrics: OfRegistry,
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
        let tasks = vec![
            tokio::spawn(pumps::links(
                shared.clone(),
                parts.endpoint.subscribe(&parts.channel),
                metrics.pump(),
            )),
            tokio::spawn(pumps::session(shared.clone(), parts.session.subscribe(), parts.elector.clone())),
            tokio::spawn(pumps::elector(shared.clone(), parts.elector_events, metrics.pump())),
            tokio::spawn(pumps::time(shared.clone(), parts.clock.clone(), wakes)),
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
            links: BTreeMap::new(),
            watched: HashMap::new(),
            wake,
            effects: Vec::new(),
            on_members: parts.on_members,
            on_lead: parts.on_lead,
            corrupt: (String::new(), 0),
            known: Vec::new(),
            tasks,
            recorder: parts.recorder,
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
        myself: ActorRef<Kick>,
        event: SupervisionEvent,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        // A watched actor is not a child: its end is an input, and never this actor's.
        if let SupervisionEvent::ActorTerminated(who, ..) | SupervisionEvent::ActorFailed(who, _) = event {
            let actor = who.get_id().pid();
            if driver.watched.remove(&actor).is_some() {
                let _ = driver.shared.inbox.push(Input::ActorEnded { actor });
                driver.take_all(&myself);
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Kick>,
        driver: &mut Driver,
    ) -> Result<(), ActorProcessingErr> {
        for task in &driver.tasks {
            task.abort();
        }
        driver.shared.ends();
        driver.metrics.ended();
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
            Input::LinkUp { node, link, .. } => {
                self.links.insert(node.clone(), LinkId(*link));
                self.metrics.link("up");
                self.metrics.links(self.links.len());
            }
            Input::LinkDown { node, .. } => {
                self.links.remove(node);
                self.metrics.link("down");
                self.metrics.links(self.links.len());
            }
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
                    let is_open = |r: &SessionRecord| r.is_open_as(&row.session);
                    if view.sessions.get(&row.session.node).is_some_and(is_open) {
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

    fn publish(&self) {
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
