//! Subscriptions: the state first, then every transition, in order.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use callsign_store::lock::lock;
use tokio::sync::mpsc;

use crate::core::campaign::Transition;

/// How many transitions a subscriber may lag behind, 4096.
pub const QUEUE_CAP: usize = 4096;

/// Why no more transitions come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// The campaign has ended. The last transition was `Following`.
    #[error("the campaign has ended")]
    Ended,
    /// The subscriber was [`QUEUE_CAP`] transitions behind. What came before was delivered; subscribe anew.
    #[error("the subscriber was {QUEUE_CAP} transitions behind, and was closed")]
    Overrun,
}

/// A subscription. The first item is the state at the time of subscribing; `Following` and `Leading` take turns from
/// there. Dropping it unsubscribes, at once.
pub struct Transitions<F> {
    id: u64,
    queue: mpsc::Receiver<Transition<F>>,
    overrun: Arc<AtomicBool>,
    subscribers: Subscribers<F>,
}

impl<F> Transitions<F> {
    /// The next transition. Cancel-safe: none is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Transition<F>, SubscriptionError> {
        let next = self.queue.recv().await;
        next.ok_or_else(|| self.end())
    }

    /// The next transition, if there is one already.
    pub fn try_next(&mut self) -> Result<Option<Transition<F>>, SubscriptionError> {
        match self.queue.try_recv() {
            Ok(transition) => Ok(Some(transition)),
            Err(mpsc::error::TryRecvError::Empty) => Ok(None),
            Err(mpsc::error::TryRecvError::Disconnected) => Err(self.end()),
        }
    }

    fn end(&self) -> SubscriptionError {
        if self.overrun.load(SeqCst) { SubscriptionError::Overrun } else { SubscriptionError::Ended }
    }
}

impl<F> Drop for Transitions<F> {
    fn drop(&mut self) {
        self.subscribers.lock().queues.remove(&self.id);
    }
}

impl<F> fmt::Debug for Transitions<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transitions").field("waiting", &self.queue.len()).finish_non_exhaustive()
    }
}

/// All subscribers of a campaign.
pub(super) struct Subscribers<F> {
    shared: Arc<Mutex<SubscribersShared<F>>>,
}

struct SubscribersShared<F> {
    state: Transition<F>,
    ended: bool,
    next_id: u64,
    queues: BTreeMap<u64, Queue<F>>,
}

struct Queue<F> {
    sender: mpsc::Sender<Transition<F>>,
    overrun: Arc<AtomicBool>,
}

impl<F> Clone for Subscribers<F> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<F> Subscribers<F> {
    pub(super) fn new() -> Self {
        let shared = SubscribersShared {
            state: Transition::Following(None),
            ended: false,
            next_id: 0,
            queues: BTreeMap::new(),
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Held for a push into each queue at most: nobody waits for a subscriber under it.
    fn lock(&self) -> MutexGuard<'_, SubscribersShared<F>> {
        // Nothing that could panic half-way happens under it.
        lock(&self.shared)
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().queues.len()
    }

    /// No more transitions will come. Who leads does not any more.
    pub(super) fn end(&self) {
        let mut shared = self.lock();
        shared.ended = true;
        if matches!(shared.state, Transition::Leading(_)) {
            shared.state = Transition::Following(None);
            for queue in shared.queues.values() {
                let is_told = queue.sender.try_send(Transition::Following(None)).is_ok();
                queue.overrun.store(!is_told, SeqCst);
            }
        }
        shared.queues.clear();
    }
}

impl<F: Clone> Subscribers<F> {
    pub(super) fn subscribe(&self) -> Transitions<F> {
        let (sender, queue) = mpsc::channel(QUEUE_CAP);
        let overrun = Arc::new(AtomicBool::new(false));
        let mut shared = self.lock();
        let id = shared.next_id;
        shared.next_id += 1;
        // It is empty.
        let _ = sender.try_send(shared.state.clone());
        if !shared.ended {
            shared.queues.insert(id, Queue { sender, overrun: Arc::clone(&overrun) });
        }
        Transitions { id, queue, overrun, subscribers: self.clone() }
    }

    /// Tells all. Does not wait: who has no room left is closed.
    pub(super) fn publish(&self, transition: &Transition<F>) {
        let mut shared = self.lock();
        if shared.ended {
            return;
        }
        shared.state = transition.clone();
        shared.queues.retain(|_, queue| {
            let told = queue.sender.try_send(transition.clone()).is_ok();
            if !told {
                queue.overrun.store(true, SeqCst);
            }
            told
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callsign_store::ids::{Epoch, Incarnation, MemberId};

    use super::*;
    use crate::{
        core::term::{AuthorityTime, Term},
        oracle::{Grant, Validity},
    };

    const NOBODY: Transition<()> = Transition::Following(None);

    fn leading(epoch: u64) -> Transition<()> {
        let term = Term {
            leader: MemberId::new("a").unwrap(),
            incarnation: Incarnation(1),
            epoch: Epoch(epoch),
            elected_at: AuthorityTime(0),
        };
        let validity = Validity::For(Duration::from_secs(1));
        Transition::Leading(Grant { term, fence: (), validity, refresh_in: None })
    }

    fn read(subscription: &mut Transitions<()>) -> Vec<Result<Option<Transition<()>>, SubscriptionError>> {
        let mut read = Vec::new();
        loop {
            let next = subscription.try_next();
            let is_last = !matches!(next, Ok(Some(_)));
            read.push(next);
            if is_last {
                return read;
            }
        }
    }

    #[test]
    fn each_reads_the_state_first_and_then_all_that_comes() {
        let subscribers = Subscribers::new();
        let mut early = subscribers.subscribe();
        subscribers.publish(&leading(1));
        let mut late = subscribers.subscribe();
        subscribers.publish(&NOBODY);
        assert_eq!(read(&mut early), [Ok(Some(NOBODY)), Ok(Some(leading(1))), Ok(Some(NOBODY)), Ok(None)]);
        assert_eq!(read(&mut late), [Ok(Some(leading(1))), Ok(Some(NOBODY)), Ok(None)]);
        assert_eq!(subscribers.count(), 2);
        drop(early);
        assert_eq!(subscribers.count(), 1);
        drop(late);
        assert_eq!(subscribers.count(), 0);
    }

    #[test]
    fn at_the_end_who_leads_does_not_any_more_and_nothing_comes_after_it() {
        let subscribers = Subscribers::new();
        subscribers.publish(&leading(1));
        let mut reads = subscribers.subscribe();
        subscribers.end();
        subscribers.publish(&leading(2));
        assert_eq!(read(&mut reads), [Ok(Some(leading(1))), Ok(Some(NOBODY)), Err(SubscriptionError::Ended)]);
        // Whoever comes later learns how it ended.
        assert_eq!(read(&mut subscribers.subscribe()), [Ok(Some(NOBODY)), Err(SubscriptionError::Ended)]);
        assert_eq!(subscribers.count(), 0);

        let follows = Subscribers::<()>::new();
        let mut reads = follows.subscribe();
        follows.end();
        assert_eq!(read(&mut reads), [Ok(Some(NOBODY)), Err(SubscriptionError::Ended)], "said once");
    }

    #[test]
    fn who_is_too_far_behind_is_told_so_and_costs_nobody_else_anything() {
        let subscribers = Subscribers::new();
        let (mut slow, mut quick) = (subscribers.subscribe(), subscribers.subscribe());
        for epoch in 1..QUEUE_CAP as u64 {
            subscribers.publish(&leading(epoch));
        }
        assert_eq!(read(&mut quick).len(), QUEUE_CAP + 1);
        assert_eq!(subscribers.count(), 2, "there was room for all of it");
        subscribers.publish(&NOBODY);
        assert_eq!(read(&mut quick), [Ok(Some(NOBODY)), Ok(None)]);
        let behind = read(&mut slow);
        assert_eq!(behind.len(), QUEUE_CAP + 1);
        assert_eq!(behind.last(), Some(&Err(SubscriptionError::Overrun)));
        assert_eq!(subscribers.count(), 1);

        // Also if the last word is what there is no room for.
        let mut slow = subscribers.subscribe();
        for epoch in 1..QUEUE_CAP as u64 {
            subscribers.publish(&leading(epoch));
            read(&mut quick);
        }
        subscribers.end();
        assert_eq!(read(&mut slow).last(), Some(&Err(SubscriptionError::Overrun)));
        assert_eq!(read(&mut quick), [Ok(Some(NOBODY)), Err(SubscriptionError::Ended)]);
    }
}
