//! What others ask of a campaign: coalesced, so that no sender ever waits and nothing piles up.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard},
};

use callsign_store::{ids::Epoch, lock::lock};
use tokio::sync::Notify;

use crate::{core::campaign::Input, driver::campaign::subscribers::QUEUE_CAP, oracle::Signal};

/// One bit each, and the epochs that somebody named.
#[derive(Debug)]
pub(super) struct Mailbox<I> {
    waiting: Mutex<WaitingInputs<I>>,
    changed: Notify,
}

#[derive(Debug)]
struct WaitingInputs<I> {
    wake: bool,
    resign: bool,
    resign_epochs: BTreeSet<Epoch>,
    revoked: BTreeSet<Epoch>,
    stop: bool,
    /// How many of the messages the core was told of.
    told: usize,
    infos: VecDeque<I>,
}

impl<I> Default for Mailbox<I> {
    fn default() -> Self {
        let waiting = WaitingInputs {
            wake: false,
            resign: false,
            resign_epochs: BTreeSet::new(),
            revoked: BTreeSet::new(),
            stop: false,
            told: 0,
            infos: VecDeque::new(),
        };
        Self { waiting: Mutex::new(waiting), changed: Notify::new() }
    }
}

impl<I> Mailbox<I> {
    /// Held for a moment; nothing that could panic half-way happens under it.
    fn lock(&self) -> MutexGuard<'_, WaitingInputs<I>> {
        lock(&self.waiting)
    }

    fn put(&self, put: impl FnOnce(&mut WaitingInputs<I>)) {
        put(&mut self.lock());
        self.changed.notify_one();
    }

    pub(super) fn wake(&self) {
        self.put(|waiting| waiting.wake = true);
    }

    pub(super) fn request_resign(&self, epoch: Option<Epoch>) {
        self.put(|waiting| match epoch {
            Some(epoch) => {
                waiting.resign_epochs.insert(epoch);
            }
            None => waiting.resign = true,
        });
    }

    pub(super) fn signal(&self, signal: Signal) {
        match signal {
            Signal::Wakeup => self.wake(),
            Signal::ResignRequested { epoch } => self.request_resign(epoch),
            Signal::Revoked { epoch } => self.put(|waiting| {
                waiting.revoked.insert(epoch);
            }),
        }
    }

    pub(super) fn stop(&self) {
        self.put(|waiting| waiting.stop = true);
    }

    /// Whether there was room.
    pub(super) fn info(&self, info: I) -> bool {
        let mut has_room = false;
        self.put(|waiting| {
            has_room = waiting.infos.len() < QUEUE_CAP;
            if has_room {
                waiting.infos.push_back(info);
            }
        });
        has_room
    }

    /// The oldest message.
    pub(super) fn pop(&self) -> Option<I> {
        let mut waiting = self.lock();
        let info = waiting.infos.pop_front()?;
        waiting.told = waiting.told.saturating_sub(1);
        Some(info)
    }

    /// Waits until something was put in.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What waits, as inputs of the core: what ends a term first.
    pub(super) fn take<F>(&self) -> Vec<Input<F>> {
        let mut waiting = self.lock();
        let mut inputs = Vec::new();
        let mut push = |signal| inputs.push(Input::Signal(signal));
        for epoch in std::mem::take(&mut waiting.revoked) {
            push(Signal::Revoked { epoch });
        }
        for epoch in std::mem::take(&mut waiting.resign_epochs) {
            push(Signal::ResignRequested { epoch: Some(epoch) });
        }
        if std::mem::take(&mut waiting.resign) {
            push(Signal::ResignRequested { epoch: None });
        }
        if std::mem::take(&mut waiting.wake) {
            push(Signal::Wakeup);
        }
        let news = waiting.infos.len() - waiting.told;
        waiting.told = waiting.infos.len();
        inputs.extend((0..news).map(|_| Input::Info));
        if std::mem::take(&mut waiting.stop) {
            inputs.push(Input::Stop);
        }
        inputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_the_order_in_which_they_were_put_in() {
        let mailbox = Mailbox::default();
        for message in 1..=3 {
            assert!(mailbox.info(message), "there is room");
        }
        let popped: Vec<u8> = std::iter::from_fn(|| mailbox.pop()).collect();
        assert_eq!(popped, [1, 2, 3]);
    }

    #[test]
    fn what_is_full_takes_no_more_and_loses_nothing() {
        let mailbox = Mailbox::default();
        let taken = (0..=QUEUE_CAP).filter(|message| mailbox.info(*message)).count();
        assert_eq!(taken, QUEUE_CAP);
        assert_eq!(mailbox.take::<()>().len(), QUEUE_CAP, "the core is told of each");
        assert!(mailbox.take::<()>().is_empty(), "and once");
        assert_eq!(mailbox.pop(), Some(0));
        assert!(mailbox.info(7));
        assert_eq!(mailbox.take::<()>().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_several_times_is_told_once_and_what_ends_a_term_first() {
        let mailbox = Mailbox::default();
        let epochs = [Some(Epoch(1)), Some(Epoch(2)), Some(Epoch(1)), None, None];
        for _ in 0..2 {
            assert!(mailbox.info(()));
            mailbox.stop();
            mailbox.wake();
            mailbox.signal(Signal::Wakeup);
            for epoch in epochs {
                mailbox.signal(Signal::ResignRequested { epoch });
            }
            for epoch in epochs.into_iter().flatten() {
                mailbox.signal(Signal::Revoked { epoch });
            }
        }
        // All of it is one change.
        mailbox.changed().await;
        let signals = [
            Signal::Revoked { epoch: Epoch(1) },
            Signal::Revoked { epoch: Epoch(2) },
            Signal::ResignRequested { epoch: Some(Epoch(1)) },
            Signal::ResignRequested { epoch: Some(Epoch(2)) },
            Signal::ResignRequested { epoch: None },
            Signal::Wakeup,
        ];
        let ends = [Input::Info, Input::Info, Input::Stop];
        let told: Vec<Input<()>> = signals.map(Input::Signal).into_iter().chain(ends).collect();
        assert_eq!(mailbox.take(), told);
        assert_eq!(mailbox.take::<()>(), []);
        let changes = tokio::time::timeout(std::time::Duration::from_secs(1), mailbox.changed());
        assert!(changes.await.is_err(), "nothing has changed since");
        assert!(mailbox.info(()));
        mailbox.changed().await;
        assert_eq!(mailbox.take::<()>(), [Input::Info]);
    }
}
