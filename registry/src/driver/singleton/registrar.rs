//! The leader child's name: held while it runs, given up before it ends.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::{Clock, ids::Epoch, in_full, lock::lock, supervision::foreign_async};
use callsign_transport::RemoteMessage;
use ractor::{ActorRef, ActorStatus};
use tokio::sync::Notify;

use super::{
    events::{Publisher, SingletonEvent},
    hand_over::{Cell, HandOver},
};
use crate::{
    core::{caller::OnOutage, input::Notice, name::Name},
    driver::{
        registration::{NotHeld, Registration},
        registry::{RegisterOptions, Registry, WhenLapsed},
    },
    error::RegisterError,
};

/// What a child has of its name, for whoever ends it. `None`: it was not granted, or is lost.
pub(super) type KeptRegistration = Arc<Mutex<Option<Registration>>>;

/// How long between two tries that failed for another reason than that the name is held.
const REGISTER_RETRY: Duration = Duration::from_millis(500);

/// At the longest, a name that is held is asked for again after this: what tells of its end may be late.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Keeps a child registered, and says in `granted` what it has. Ends when it cannot be within the time given, each time anew, and says why.
pub(super) async fn keep<M: RemoteMessage>(
    registry: &Registry,
    name: &Name,
    child: &ActorRef<M>,
    within: Duration,
    granted: &KeptRegistration,
    events: &Publisher,
) -> Result<(), String> {
    let clock = registry.clock();
    loop {
        let lost = Arc::new(Notify::new());
        let until = clock.now() + within;
        let mut holder = None;
        let registration = loop {
            let changed = registry.changed();
            let told = lost.clone();
            // The leadership says how long the child lives; what ends with the session is only its name.
            let options = RegisterOptions {
                when_lapsed: WhenLapsed::Tell(Arc::new(move |notice| {
                    if notice == Notice::Lost {
                        told.notify_one();
                    }
                })),
                on_outage: Some(OnOutage::Wait),
                ..RegisterOptions::default()
            };
            let (why, pause) = match registry.register_with(name, child, options).await {
                Ok(registration) => break registration,
                Err(RegisterError::ActorEnded) => return Ok(()),
                Err(RegisterError::Taken { holder: now, .. }) => {
                    if holder.as_ref() != Some(&now) {
                        events.tell(&SingletonEvent::NameHeld { holder: now.clone() });
                    }
                    let why = format!("{name:?} is held by an actor on {}", now.node);
                    holder = Some(now);
                    (why, None)
                }
                Err(error) => {
                    events.tell(&SingletonEvent::NotRegistered { why: in_full(&error).to_string() });
                    (in_full(&error).to_string(), Some(REGISTER_RETRY))
                }
            };
            let now = clock.now();
            if now >= until {
                return Err(format!("not registered within {within:?}: {why}"));
            }
            if let Some(pause) = pause {
                clock.sleep_until(until.min(now + pause)).await;
            } else {
                tokio::select! {
                    biased;
                    () = changed => {}
                    () = clock.sleep_until(until.min(now + LOOK_AGAIN)) => {}
                }
            }
        };
        let token = registration.token();
        *lock(granted) = Some(registration.clone());
        events.tell(&SingletonEvent::Registered { token });
        until_gone(registry, &registration, &lost).await;
        lock(granted).take();
        if child.get_status() >= ActorStatus::Stopping {
            return Ok(());
        }
        events.tell(&SingletonEvent::NameLost);
    }
}

/// Waits until a name is lost, or is given up by somebody on this node.
async fn until_gone(registry: &Registry, registration: &Registration, lost: &Notify) {
    loop {
        let changed = registry.changed();
        if registration.check() == Err(NotHeld::Ended) {
            return;
        }
        tokio::select! {
            biased;
            () = lost.notified() => return,
            () = changed => {}
        }
    }
}

/// The clean end of a leader child: its name is free, it has left what it leaves, and done what it was sent.
pub(super) struct Farewell<M> {
    pub(super) clock: Clock,
    pub(super) granted: KeptRegistration,
    pub(super) actor: ActorRef<M>,
    pub(super) epoch: Option<Epoch>,
    pub(super) hand_over: Option<(HandOver<M>, Duration)>,
    pub(super) cell: Cell,
    pub(super) events: Publisher,
    pub(super) budget: Duration,
}

impl<M: RemoteMessage> Farewell<M> {
    /// Each step has a share of the budget, and what does not end in it is left behind. Who does not end at all is killed by
    /// the supervisor at the end of the budget.
    pub(super) async fn run(self) {
        let clock = self.clock.clone();
        let begun = clock.now();
        let part = |quarters: u32| begun + self.budget / 4 * quarters;
        // Its own, and no other actor's that has the name. What it only asked for ends with it.
        let granted = lock(&self.granted).take();
        if let Some(registration) = granted {
            // First, so that messages wait for the successor instead of being lost with this child.
            let name = registration.name().into();
            within(&clock, part(1), registration.withdraw(name)).await;
        }
        if let (Some((ask, limit)), Some(epoch)) = (&self.hand_over, self.epoch) {
            // Behind everything that it was sent before.
            let asked = foreign_async("a hand-over", async { ask(self.actor.clone()).await });
            let asked = within(&clock, part(2).min(clock.now() + *limit), asked).await;
            let left = match asked.flatten().flatten() {
                None => Err("the child left nothing".to_owned()),
                Some(data) => {
                    let bytes = data.len();
                    let left = within(&clock, part(3), self.cell.leave(epoch, data)).await;
                    let left = left.unwrap_or_else(|| {
                        Err(super::hand_over::HandOverError::Store("no answer in time".into()))
                    });
                    left.map(|()| bytes).map_err(|error| error.to_string())
                }
            };
            self.events.tell(&match left {
                Ok(bytes) => SingletonEvent::HandedOver { bytes },
                Err(why) => SingletonEvent::NotHandedOver { why },
            });
        } else if self.actor.drain().is_ok() {
            // It does what it was sent, and ends; if that takes too long, it ends anyway.
            clock.sleep_until(part(3)).await;
        }
        self.actor.stop(Some("callsign: the term is over".into()));
    }
}

async fn within<T>(clock: &Clock, until: callsign_store::Time, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = clock.sleep_until(until) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::driver::{Cluster, TEST_DEADLINE, counter, until};

    #[tokio::test(start_paused = true)]
    async fn a_child_that_has_ended_needs_no_name_and_nothing_went_wrong() {
        let cluster = Cluster::new();
        let (node, child) = (cluster.node("a").await, counter().await);
        let events = Publisher::new("reports");
        let mut told = events.subscribe();
        child.stop_and_wait(None, None).await.unwrap();
        assert_eq!(
            keep(&node, &"reports".into(), &child, TEST_DEADLINE, &KeptRegistration::default(), &events)
                .await,
            Ok(())
        );
        events.end();
        assert!(told.next().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_somebody_on_this_node_gives_up_is_had_again() {
        let cluster = Cluster::new();
        let (node, child, name) = (cluster.node("a").await, counter().await, Name::from("reports"));
        let (events, granted) = (Publisher::new("reports"), KeptRegistration::default());
        let mut told = events.subscribe();
        let given_up = async {
            let SingletonEvent::Registered { token } = told.next().await.unwrap() else {
                panic!("it is free")
            };
            node.unregister("reports").await.unwrap();
            assert_eq!(told.next().await.unwrap(), SingletonEvent::NameLost);
            let again = told.next().await.unwrap();
            let SingletonEvent::Registered { token: greater } = again else { panic!("{again:?}") };
            assert!(greater > token);
            assert_eq!(node.lookup("reports").unwrap().map(|entry| entry.token), Some(greater));
        };
        tokio::select! {
            biased;
            ended = keep(&node, &name, &child, TEST_DEADLINE, &granted, &events) => panic!("{ended:?}"),
            () = given_up => {}
        }
        assert!(lock(&granted).is_some(), "the end of the child gives it up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_ends_with_its_name_does_not_ask_for_it_again() {
        let cluster = Cluster::new();
        let (node, child, name) = (cluster.node("a").await, counter().await, Name::from("reports"));
        let (events, granted) = (Publisher::new("reports"), KeptRegistration::default());
        let mut told = events.subscribe();
        let ends = async {
            assert!(matches!(told.next().await, Ok(SingletonEvent::Registered { .. })));
            child.stop_and_wait(None, None).await.unwrap();
        };
        let kept = keep(&node, &name, &child, TEST_DEADLINE, &granted, &events);
        assert_eq!(tokio::join!(kept, ends).0, Ok(()));
        assert!(lock(&granted).is_none());
        events.end();
        assert!(told.next().await.is_err(), "it has not lost it");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_waited_for_also_on_a_node_whose_calls_fail_in_one() {
        let cluster = Cluster::new();
        let node = Registry::join(cluster.config("a").on_outage(OnOutage::Fail)).await.unwrap();
        assert!(node.ready(TEST_DEADLINE).await.is_ok());
        let (child, name, events) = (counter().await, Name::from("reports"), Publisher::new("reports"));
        let (mut told, granted) = (events.subscribe(), KeptRegistration::default());
        cluster.store.outage_for_all();
        until("it has lapsed", || node.lookup("reports").is_err()).await;
        let back = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.store.heal_all();
            told.next().await.unwrap()
        };
        tokio::select! {
            biased;
            ended = keep(&node, &name, &child, TEST_DEADLINE, &granted, &events) => panic!("{ended:?}"),
            event = back => assert!(matches!(event, SingletonEvent::Registered { .. }), "{event:?}"),
        }
    }
}
