//! One established link, as its tasks, senders and proxies share it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use callsign_store::lock::lock;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    core::{
        frame::Frame,
        link::{Effect, Input, Link},
        outbox::Outbox,
        peer::{LinkId, PeerId},
        permits::Permits,
    },
    driver::remote::side::RemoteSide,
    error::DownReason,
};

/// What the task of a link does.
enum Turn {
    /// It writes when it runs next. Then these links are to write.
    ToCome(Vec<Arc<LinkHandle>>),
    /// It reads, and may be held up by what it reads.
    Reads,
    /// It writes no more.
    Over,
}

/// A link that may be up.
pub(crate) struct LinkHandle {
    pub(crate) id: LinkId,
    pub(crate) peer: PeerId,
    /// What the peer may do.
    pub(crate) permits: Permits,
    pub(crate) address: SocketAddr,
    pub(crate) remote: RemoteSide,
    pub(crate) outbox: Mutex<Outbox>,
    /// Messages to remote actors that found the queue full.
    pub(crate) dropped: AtomicU64,
    core: Mutex<Link>,
    /// There may be something to say of actors, which waits in their cores.
    to_say: AtomicBool,
    /// There is something to write, or to wait for.
    pub(crate) written: Notify,
    /// The core is to be woken earlier than it said before.
    pub(crate) earlier: Notify,
    turn: Mutex<Turn>,
    /// Its task is in the middle of a write, and takes nothing more until its peer has taken that.
    is_writing: AtomicBool,
    /// The link ended.
    pub(crate) done: CancellationToken,
    /// By then its connection is closed, whether or not the last words are out.
    closed_by: OnceLock<Instant>,
}

impl LinkHandle {
    pub(crate) fn new(
        id: LinkId,
        (peer, permits, address): (PeerId, Permits, SocketAddr),
        remote: RemoteSide,
        outbox: Outbox,
        core: Link,
    ) -> Self {
        Self {
            id,
            peer,
            permits,
            address,
            remote,
            outbox: Mutex::new(outbox),
            dropped: AtomicU64::default(),
            core: Mutex::new(core),
            to_say: AtomicBool::default(),
            written: Notify::new(),
            earlier: Notify::new(),
            turn: Mutex::new(Turn::ToCome(Vec::new())),
            is_writing: AtomicBool::default(),
            done: CancellationToken::new(),
            closed_by: OnceLock::new(),
        }
    }

    /// Puts something into the outbox and wakes the writer.
    pub(crate) fn queue<T>(&self, put: impl FnOnce(&mut Outbox) -> T) -> T {
        let result = put(&mut lock(&self.outbox));
        self.written.notify_one();
        result
    }

    /// Wakes the writer, and those of the next links once this one's has written.
    pub(crate) fn write_before(&self, next: impl Iterator<Item = Arc<LinkHandle>>) {
        let mut turn = lock(&self.turn);
        match &mut *turn {
            Turn::ToCome(all) => all.extend(next),
            // It may take long until it writes again.
            Turn::Reads | Turn::Over => next.for_each(|link| link.written.notify_one()),
        }
        drop(turn);
        self.written.notify_one();
    }

    /// The task of this link has written what it could, and reads now, or has ended.
    pub(crate) fn has_written(&self, is_over: bool) {
        let now = if is_over { Turn::Over } else { Turn::Reads };
        if let Turn::ToCome(next) = std::mem::replace(&mut *lock(&self.turn), now) {
            for link in next {
                link.written.notify_one();
            }
        }
    }

    /// A write of this link's task begins, or is over.
    pub(crate) fn set_writing(&self, is_writing: bool) {
        self.is_writing.store(is_writing, SeqCst);
    }

    /// The task of this link has read what there was. It writes first when it runs again, unless a write holds it up.
    pub(crate) fn has_read(&self) {
        let mut turn = lock(&self.turn);
        if matches!(*turn, Turn::Reads) && !self.is_writing.load(SeqCst) {
            *turn = Turn::ToCome(Vec::new());
        }
    }

    /// There is something to say of actors.
    pub(crate) fn has_to_say(&self) {
        self.to_say.store(true, SeqCst);
        self.written.notify_one();
    }

    /// Whether there may be something to say of actors. Whoever asks says it, or that there is more.
    pub(crate) fn take_to_say(&self) -> bool {
        self.to_say.load(SeqCst) && self.to_say.swap(false, SeqCst)
    }

    /// There was no room for all of it.
    pub(crate) fn has_more_to_say(&self) {
        self.to_say.store(true, SeqCst);
    }

    /// Gives the core an input and carries out its effects. If it ends the link, `ended` is told before the link's tasks are, and
    /// last words may take as long as `leave`.
    pub(crate) fn step(
        &self,
        now: Duration,
        leave: Duration,
        input: Input,
        mut ended: impl FnMut(DownReason),
    ) {
        let mut effects = Vec::new();
        let mut core = lock(&self.core);
        let before = core.next_wake();
        core.step(now, input, &mut effects);
        let after = core.next_wake();
        drop(core);
        if before.zip(after).is_some_and(|(before, after)| after < before) {
            self.earlier.notify_one();
        }
        let speaks = effects.iter().any(|effect| matches!(effect, Effect::SayOnly(_)));
        for effect in effects {
            match effect {
                Effect::Ping => self.queue(|outbox| outbox.send_own(&Frame::Ping)),
                Effect::SayLast(farewell) => self.queue(|outbox| outbox.close_after_all(farewell)),
                Effect::SayOnly(farewell) => self.queue(|outbox| outbox.close_with(farewell)),
                Effect::End(reason) => {
                    if !speaks {
                        self.queue(Outbox::close);
                    }
                    let _ = self.closed_by.set(Instant::now() + leave);
                    ended(reason);
                    self.done.cancel();
                }
            }
        }
    }

    /// When the core has to be woken.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        lock(&self.core).next_wake()
    }

    /// The time for last words is over.
    pub(crate) async fn overdue(&self) {
        self.done.cancelled().await;
        if let Some(at) = self.closed_by.get() {
            sleep_until(*at).await;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
