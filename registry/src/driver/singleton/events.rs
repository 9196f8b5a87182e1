//! What happens to a singleton on this node, for programs.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use callsign_election::{
    campaign::{self, QUEUE_CAP, SubscriptionError},
    role::Lost,
};
use callsign_store::{
    ids::{Epoch, Position},
    lock::lock,
    logged,
};
use tokio::sync::mpsc;

use crate::{
    core::{
        entry::Entry,
        singleton::{ChildKind, Happened},
    },
    driver::oracle::MonitorEvent,
};

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SingletonEvent {
    /// In the election: a claim, a loss, a fault.
    Election(campaign::CampaignEvent),
    /// At the leader's actor, as a follower sees it.
    Monitor(MonitorEvent),
    /// A child runs.
    ChildStarted {
        /// Which.
        kind: ChildKind,
        /// How often it was started again in place.
        restart: u32,
    },
    /// A child did not start.
    ChildNotStarted {
        /// Which.
        kind: ChildKind,
        /// Why.
        why: String,
    },
    /// A child ended, and nobody had asked it to.
    ChildExited {
        /// Which.
        kind: ChildKind,
        /// Why.
        why: String,
    },
    /// A child ends no more restarts: the term is given up, or the follower child left off.
    GivenUp {
        /// Which.
        kind: ChildKind,
        /// Why it ended last.
        why: String,
    },
    /// The leader child is asked to end.
    Stopping {
        /// Why.
        why: Lost,
    },
    /// A child that was asked to end has.
    ChildStopped {
        /// Which.
        kind: ChildKind,
        /// How long it took.
        took: Duration,
    },
    /// A child did not end in time, and is aborted. `ChildStopped` follows when it is down. If it does not follow, the child
    /// blocks its thread: it still runs.
    ChildAborted {
        /// Which.
        kind: ChildKind,
        /// How long it had.
        took: Duration,
    },
    /// The leader child holds its name.
    Registered {
        /// The token of the registration.
        token: Position,
    },
    /// The name is still held, by the former child or by somebody else. It is waited for.
    NameHeld {
        /// By whom.
        holder: Entry,
    },
    /// The leader child could not be registered; it is tried again.
    NotRegistered {
        /// Why.
        why: String,
    },
    /// The leader child's name was lost with the node's session; it is registered again.
    NameLost,
    /// The leader child left data for its successor.
    HandedOver {
        /// How much.
        bytes: usize,
    },
    /// Nothing was left for the successor, or what was left could not be read. The children go on without.
    NotHandedOver {
        /// Why.
        why: String,
    },
    /// The leader child is given what the former one left.
    TookOver {
        /// How much.
        bytes: usize,
        /// In which epoch it was left.
        from: Epoch,
    },
}

impl From<Happened> for SingletonEvent {
    fn from(happened: Happened) -> Self {
        match happened {
            Happened::Started { kind, restart } => Self::ChildStarted { kind, restart },
            Happened::NotStarted { kind, why } => Self::ChildNotStarted { kind, why },
            Happened::Exited { kind, why } => Self::ChildExited { kind, why },
            Happened::Stopped { kind, took } => Self::ChildStopped { kind, took },
            Happened::Aborted { kind, took } => Self::ChildAborted { kind, took },
            Happened::GivenUp { kind, why } => Self::GivenUp { kind, why },
        }
    }
}

/// A subscription: every event from the time of subscribing, in order. Dropping it unsubscribes.
pub struct SingletonEvents {
    queue: mpsc::Receiver<SingletonEvent>,
    overrun: Arc<AtomicBool>,
}

impl SingletonEvents {
    /// The next event. Cancel-safe. A subscriber that is 4096 events behind is closed, and told; none is skipped.
    pub async fn next(&mut self) -> Result<SingletonEvent, SubscriptionError> {
        let next = self.queue.recv().await;
        next.ok_or(if self.overrun.load(SeqCst) {
            SubscriptionError::Overrun
        } else {
            SubscriptionError::Ended
        })
    }
}

impl fmt::Debug for SingletonEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingletonEvents").field("waiting", &self.queue.len()).finish_non_exhaustive()
    }
}

type EventQueue = (mpsc::Sender<SingletonEvent>, Arc<AtomicBool>);

/// Tells all subscribers, and `tracing`. Clones tell the same.
#[derive(Clone)]
pub(crate) struct Publisher {
    name: Arc<str>,
    queues: Arc<Mutex<Vec<EventQueue>>>,
}

impl Publisher {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), queues: Arc::default() }
    }

    pub(crate) fn subscribe(&self) -> SingletonEvents {
        let (sender, queue) = mpsc::channel(QUEUE_CAP);
        let overrun = Arc::new(AtomicBool::new(false));
        lock(&self.queues).push((sender, overrun.clone()));
        SingletonEvents { queue, overrun }
    }

    /// Does not wait: who has no room left is closed.
    pub(crate) fn tell(&self, event: &SingletonEvent) {
        match event {
            // These have been reported by whom they come from.
            SingletonEvent::Election(_) | SingletonEvent::Monitor(_) => {}
            SingletonEvent::ChildAborted { .. }
            | SingletonEvent::GivenUp { .. }
            | SingletonEvent::ChildExited { .. }
            | SingletonEvent::ChildNotStarted { .. } => {
                logged!(warn, singleton = &*self.name, "{event}");
            }
            event => logged!(info, singleton = &*self.name, "{event}"),
        }
        lock(&self.queues).retain(|(queue, overrun)| match queue.try_send(event.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                overrun.store(true, SeqCst);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        });
    }

    /// No more events will come.
    pub(crate) fn end(&self) {
        lock(&self.queues).clear();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// All that waits, and how it goes on, if it does not.
    fn read(events: &mut SingletonEvents) -> (usize, Option<SubscriptionError>) {
        let mut count = 0;
        loop {
            match events.next().now_or_never() {
                None => return (count, None),
                Some(Ok(_)) => count += 1,
                Some(Err(why)) => return (count, Some(why)),
            }
        }
    }

    #[test]
    fn who_is_too_far_behind_is_closed_and_told_and_the_others_hear_of_everything() {
        let publisher = Publisher::new("x");
        let (mut slow, mut quick) = (publisher.subscribe(), publisher.subscribe());
        for _ in 0..QUEUE_CAP {
            publisher.tell(&SingletonEvent::NameLost);
        }
        assert_eq!(read(&mut quick), (QUEUE_CAP, None));
        publisher.tell(&SingletonEvent::NameLost);
        assert_eq!(read(&mut slow), (QUEUE_CAP, Some(SubscriptionError::Overrun)));
        assert_eq!(read(&mut quick), (1, None));
        assert_eq!(lock(&publisher.queues).len(), 1);

        let dropped = publisher.subscribe();
        assert_eq!(lock(&publisher.queues).len(), 2);
        drop(dropped);
        publisher.tell(&SingletonEvent::NameLost);
        assert_eq!(lock(&publisher.queues).len(), 1);
        publisher.end();
        assert_eq!(read(&mut quick), (1, Some(SubscriptionError::Ended)));
    }
}
