//! Electors under their driver, over a store that answers at once.
#![allow(clippy::disallowed_methods)] // tests wait with a deadline

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{toy::SharedToy, *};
use crate::{
    Clock,
    elector::driver::ElectorHandle,
    ids::{Beat, ClusterName, Incarnation, RegistryName, SessionNumber},
    record::{Record, SessionRecord},
    store::{Store, Transaction},
};

struct Running {
    handle: ElectorHandle,
    events: UnboundedReceiver<ElectorEvent>,
}

async fn start(store: &Arc<SharedToy>, name: &str) -> Running {
    let config = ElectorConfig {
        registry: RegistryName::new("names").unwrap(),
        cluster: ClusterName::new("test").unwrap(),
        node: node(name),
        address: format!("{name}:1"),
        priority: 1,
        timing: ElectorTiming::default(),
        seed: 1,
    };
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
    let handle =
        ElectorHandle::spawn(Arc::clone(store) as _, Clock::runtime(), config, sender).await.unwrap();
    handle.tell(Notice::Session(Some(session)));
    Running { handle, events }
}

impl Running {
    async fn until(&mut self, holds: impl Fn(&ElectorEvent) -> bool) -> ElectorEvent {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("the elector runs");
                if let ElectorEvent::Assume { epoch, .. } = event {
                    self.handle.tell(Notice::Assumed { epoch });
                }
                if holds(&event) {
                    return event;
                }
            }
        };
        tokio::time::timeout(SECOND * 30, found).await.expect("the event comes")
    }
}

fn is_led_by(event: &ElectorEvent, name: &str) -> bool {
    matches!(event, ElectorEvent::View(view)
        if view.lock.is_none() && view.term.leader.as_ref().is_some_and(|leader| leader.node == node(name)))
}

#[tokio::test(start_paused = true)]
async fn a_driven_elector_leads_alone_and_lets_another_in() {
    let store = Arc::new(SharedToy::new());
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
    let store = Arc::new(SharedToy::new());
    let mut a = start(&store, "a").await;
    a.until(|event| is_led_by(event, "a")).await;
    a.handle.stop();
    let ended = async { while a.events.recv().await.is_some() {} };
    tokio::time::timeout(SECOND * 30, ended).await.expect("its events end");
    let version = store.lock().version;
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(store.lock().version, version);
}
