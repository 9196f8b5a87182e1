//! Electors under their driver, over a store that answers at once.

use std::sync::Arc;

use callsign_store::{
    Clock, SharedStore, Transaction,
    ids::{Ballot, Beat, ClusterName, Incarnation, Nonce, RegistryName, SessionNumber},
    memory::MemoryStore,
    record::Record,
    supervision::Supervisor,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;
use crate::{
    core::record::{Lock, SessionRecord, Term},
    driver::elector::UnderWay,
};

/// An elector in a task of its own.
pub(super) struct Handle {
    inputs: UnboundedSender<Input>,
    task: tokio::task::JoinHandle<()>,
}

impl Handle {
    fn start(store: SharedStore, config: ElectorConfig, events: UnboundedSender<ElectorEvent>) -> Self {
        let (inputs, mut waiting) = unbounded_channel();
        let (told, clock) = (inputs.clone(), Clock::runtime());
        let mut under_way = UnderWay::new(store, clock.clone(), Supervisor::new(), move |input| {
            let _ = told.send(input); // it has stopped
        });
        let mut elector = Elector::new(config);
        let _ = inputs.send(Input::Wake);
        let task = tokio::spawn(async move {
            while let Some(input) = waiting.recv().await {
                let mut effects = Vec::new();
                elector.step(clock.now(), input, &mut effects);
                for effect in effects {
                    if let Effect::Emit(event) = &effect {
                        let _ = events.send(event.clone());
                    }
                    under_way.carry_out(effect);
                }
            }
        });
        Self { inputs, task }
    }

    pub(super) fn tell(&self, notice: Notice) {
        self.inputs.send(Input::Notice(notice)).expect("the elector runs");
    }

    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

pub(super) struct Running {
    pub(super) handle: Handle,
    pub(super) events: UnboundedReceiver<ElectorEvent>,
}

async fn start(store: &MemoryStore, name: &str) -> Running {
    start_with(Arc::new(store.clone()), name, ElectorTiming::default()).await
}

pub(super) fn config(name: &str, timing: ElectorTiming) -> ElectorConfig {
    ElectorConfig {
        registry: RegistryName::new("names").unwrap(),
        cluster: ClusterName::new("test").unwrap(),
        node: node(name),
        address: format!("{name}:1"),
        admin: None,
        priority: 1,
        timing,
        seed: 1,
        most_checks: None,
    }
}

pub(super) async fn start_with(store: SharedStore, name: &str, timing: ElectorTiming) -> Running {
    let config = config(name, timing);
    let session = SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) };
    let record = SessionRecord {
        incarnation: Incarnation(1),
        number: SessionNumber(1),
        lease: SECOND * 10,
        beat: Beat(1),
        open: true,
    };
    let key = ClusterKeys::new(&config.cluster).session(&node(name));
    let opened = store.commit(Transaction::new().put(key, record.to_value())).await;
    assert!(matches!(opened, CommitOutcome::Committed(_)));
    let (sender, events) = unbounded_channel();
    let handle = Handle::start(store, config, sender);
    handle.tell(Notice::Session(Some(session)));
    Running { handle, events }
}

impl Running {
    pub(super) async fn until(&mut self, holds: impl Fn(&ElectorEvent) -> bool) -> ElectorEvent {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("the elector runs");
                if let ElectorEvent::RunHandoff { epoch, .. } = event {
                    self.handle.tell(Notice::HandoffDone { epoch });
                }
                if holds(&event) {
                    return event;
                }
            }
        };
        tokio::time::timeout(SECOND * 30, found).await.expect("the event comes")
    }
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_takes_the_place_of_the_one_before_it_and_ends_with_what_asked_for_it() {
    let (told, mut tells) = unbounded_channel();
    let (store, clock): (SharedStore, _) = (Arc::new(MemoryStore::new()), Clock::runtime());
    let mut under_way = UnderWay::new(store, clock.clone(), Supervisor::new(), move |input| {
        told.send(input).expect("the test listens");
    });
    let begun = clock.now();
    under_way.carry_out(Effect::WakeAt(begun + SECOND));
    under_way.carry_out(Effect::WakeAt(begun + SECOND * 2));
    assert_eq!(tells.recv().await, Some(Input::Wake));
    assert!(clock.now() >= begun + SECOND * 2, "the first one was not asked for any more");
    under_way.carry_out(Effect::WakeAt(clock.now() + SECOND));
    drop(under_way);
    assert_eq!(tells.recv().await, None);
}

pub(super) fn is_led_by(event: &ElectorEvent, name: &str) -> bool {
    matches!(event, ElectorEvent::View(view)
        if view.lock.is_none() && view.term.leader.as_ref().is_some_and(|leader| leader.node == node(name)))
}

#[tokio::test(start_paused = true)]
async fn a_driven_elector_leads_alone_and_lets_another_in() {
    let store = MemoryStore::new();
    let mut a = start(&store, "a").await;
    a.until(|event| is_led_by(event, "a")).await;
    let mut b = start(&store, "b").await;
    b.until(|event| is_led_by(event, "a")).await;
    let both = |event: &ElectorEvent| matches!(event, ElectorEvent::View(view) if view.members.len() == 2);
    a.until(both).await;
    b.until(|event| matches!(event, ElectorEvent::View(view) if view.me.is_some())).await;

    b.handle.tell(Notice::Synced { epoch: Epoch(1), position: Position(0) });
    a.until(|event| {
        matches!(event, ElectorEvent::View(view) if view.members.get(&node("b")).is_some_and(|row| row.synced))
    })
    .await;
    a.handle.tell(Notice::Resign { epoch: Epoch(1) });
    b.until(|event| is_led_by(event, "b")).await;
    a.until(|event| is_led_by(event, "b")).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_elector_says_and_does_nothing_more() {
    let store = MemoryStore::new();
    let mut a = start(&store, "a").await;
    a.until(|event| is_led_by(event, "a")).await;
    a.handle.stop();
    let ended = async { while a.events.recv().await.is_some() {} };
    tokio::time::timeout(SECOND * 30, ended).await.expect("its events end");
    let version = store.data().version();
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(store.data().version(), version);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_any_key_that_counts_is_seen_long_before_the_poll() {
    let keys =
        ClusterKeys::new(&ClusterName::new("test").unwrap()).registry(&RegistryName::new("names").unwrap());
    let timing = ElectorTiming { poll: SECOND * 3600, ..ElectorTiming::default() };
    let lock = Lock { epoch: Epoch(1), owner: node("z"), nonce: Nonce(7) };
    let term = Term { epoch: Epoch(50), ballot: Ballot(77), ..Term::vacant() };
    for (key, value) in [(keys.lock(), lock.to_value()), (keys.term(), term.to_value())] {
        // Its watches end for their own key only.
        let store: SharedStore = Arc::new(MemoryStore::new());
        let mut a = start_with(store.clone(), "a", timing).await;
        a.until(|event| is_led_by(event, "a")).await;
        // Nothing else is on the way.
        while tokio::time::timeout(SECOND * 10, a.events.recv()).await.is_ok() {}
        store.commit(Transaction::new().put(key, value)).await;
        let is_seen = |event: &ElectorEvent| {
            matches!(event, ElectorEvent::View(view)
                if view.lock.is_some() || view.term.ballot == Ballot(77))
        };
        a.until(is_seen).await;
    }
}
