//! Runs an [`Elector`] as an actor.
//!
//! Decides nothing: it turns messages, timers and completions into inputs, and carries out effects in order. A rule of
//! the protocol found here is in the wrong place.
#![allow(clippy::disallowed_methods)] // the driver is where time and tasks come from

use std::{path::Path, time::Duration};

use futures::future::select_all;
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr};
use tokio::{sync::mpsc::UnboundedSender, task::JoinHandle};

use crate::{
    Clock,
    elector::{Effect, Elector, ElectorConfig, ElectorEvent, Input, Notice},
    ids::Incarnation,
    recording::{Core, Header, Recorder},
    store::{CommitOutcome, SharedStore, StoreError},
    supervision::{Part, Supervisor},
};

/// How long an operation of the store may take before it is given up. Shorter: a slow store looks like none; longer:
/// one lost answer holds up the elector.
const OPERATION: Duration = Duration::from_secs(5);

/// Tells a running elector what its node sees. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ElectorHandle {
    actor: ActorRef<Input>,
    part: Part,
}

impl ElectorHandle {
    /// Starts the elector of a node for a registry. It acts once it is told of an open session.
    ///
    /// Its events go to `events`, in order; the elector stops when their receiver is gone.
    pub async fn spawn(
        store: SharedStore,
        clock: Clock,
        config: ElectorConfig,
        events: UnboundedSender<ElectorEvent>,
    ) -> Result<Self, SpawnErr> {
        Self::spawn_recorded(store, clock, config, events, None).await
    }

    /// As [`spawn`](Self::spawn), and records the elector in a directory, if one is given, as one of this incarnation.
    pub async fn spawn_recorded(
        store: SharedStore,
        clock: Clock,
        config: ElectorConfig,
        events: UnboundedSender<ElectorEvent>,
        record: Option<(&Path, Incarnation)>,
    ) -> Result<Self, SpawnErr> {
        Self::spawn_supervised(store, clock, config, events, record, Supervisor::new()).await
    }

    /// As [`spawn_recorded`](Self::spawn_recorded), as a part of a node, which fails when the elector does.
    pub async fn spawn_supervised(
        store: SharedStore,
        clock: Clock,
        config: ElectorConfig,
        events: UnboundedSender<ElectorEvent>,
        record: Option<(&Path, Incarnation)>,
        supervisor: Supervisor,
    ) -> Result<Self, SpawnErr> {
        let recorder = record
            .and_then(|(dir, incarnation)| Recorder::begin(dir, &header(&config, incarnation), &config));
        let name = format!("the elector of registry {}", config.registry);
        let driver = Driver { store, clock, events, supervisor: supervisor.clone() };
        let (actor, part) = supervisor.actor(name, driver, (config, recorder)).await?;
        Ok(Self { actor, part })
    }

    /// Tells the elector something. Does not wait, and does nothing if it has stopped.
    pub fn tell(&self, notice: Notice) {
        send(&self.actor, Input::Notice(notice));
    }

    /// Ends the elector where it is. What it had under way in the store may still land.
    pub fn stop(&self) {
        self.part.may_end();
        self.actor.stop(None);
    }
}

fn header(config: &ElectorConfig, incarnation: Incarnation) -> Header {
    Header {
        core: Core::Elector,
        cluster: config.cluster.clone(),
        registry: Some(config.registry.clone()),
        node: config.node.clone(),
        incarnation,
    }
}

/// Inputs stay on their node.
impl ractor::Message for Input {}

struct Driver {
    store: SharedStore,
    clock: Clock,
    events: UnboundedSender<ElectorEvent>,
    supervisor: Supervisor,
}

/// The elector and the tasks that belong to it. They end with it.
struct Running {
    elector: Elector,
    watch: Option<Task>,
    timer: Option<Task>,
    operation: Option<Task>,
    recorder: Option<Recorder>,
}

/// A task that is aborted when it is replaced or dropped.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for Driver {
    type Msg = Input;
    type State = Running;
    type Arguments = (ElectorConfig, Option<Recorder>);

    async fn pre_start(
        &self,
        _myself: ActorRef<Input>,
        (config, recorder): Self::Arguments,
    ) -> Result<Running, ActorProcessingErr> {
        Ok(Running { elector: Elector::new(config), watch: None, timer: None, operation: None, recorder })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Input>,
        running: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        self.handle(myself, Input::Wake, running).await
    }

    async fn handle(
        &self,
        myself: ActorRef<Input>,
        input: Input,
        running: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        let mut effects = Vec::new();
        let now = self.clock.now();
        if let Some(recorder) = &mut running.recorder {
            recorder.before(&now, &input);
        }
        running.elector.step(now, input, &mut effects);
        if let Some(recorder) = &mut running.recorder {
            recorder.after(&effects);
            recorder.flush();
        }
        for effect in effects {
            self.carry_out(&myself, effect, running);
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Input>,
        running: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(recorder) = &mut running.recorder {
            recorder.finish();
        }
        Ok(())
    }
}

impl Driver {
    fn task(&self, part: &'static str, work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.supervisor.task(part, work))
    }

    fn carry_out(&self, myself: &ActorRef<Input>, effect: Effect, running: &mut Running) {
        let myself = myself.clone();
        match effect {
            Effect::Read { id, reads } => {
                let read = self.store.read(reads);
                running.operation = Some(self.task("a request of an elector to the store", async move {
                    let result = tokio::time::timeout(OPERATION, read).await;
                    let result = result.unwrap_or_else(|_| Err(StoreError::Unavailable("no answer".into())));
                    send(&myself, Input::ReadDone { id, result });
                }));
            }
            Effect::Commit { id, transaction } => {
                let commit = self.store.commit(transaction);
                running.operation = Some(self.task("a request of an elector to the store", async move {
                    let outcome = tokio::time::timeout(OPERATION, commit).await;
                    let outcome = outcome.unwrap_or(CommitOutcome::Unknown);
                    send(&myself, Input::CommitDone { id, outcome });
                }));
            }
            Effect::Watch { keys, since } => {
                let watches: Vec<_> = keys.into_iter().map(|key| self.store.watch(key, since)).collect();
                running.watch = Some(self.task("a watch of an elector", async move {
                    // A watch that cannot be had is made up for by the poll.
                    if select_all(watches).await.0.is_ok() {
                        send(&myself, Input::Notice(Notice::Changed));
                    }
                }));
            }
            Effect::WakeAt(at) => {
                let clock = self.clock.clone();
                running.timer = Some(self.task("the timer of an elector", async move {
                    clock.sleep_until(at).await;
                    send(&myself, Input::Wake);
                }));
            }
            Effect::Emit(event) => {
                if self.events.send(event).is_err() {
                    myself.stop(None);
                }
            }
        }
    }
}

/// An elector that has stopped has no use for the input.
fn send(actor: &ActorRef<Input>, input: Input) {
    let _ = actor.cast(input);
}
