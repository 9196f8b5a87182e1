//! A name as an address: who holds it is looked up for each message, and messages wait while nobody does.
//!
//! An `ActorRef` is bound to one actor. When a name moves, by a crash, by a hand-over of a
//! singleton, it is dead, and its owner has to ask again. A [`NameRef`] asks for each message.
//!
//! Promises: *at most once*. A message is handed to one actor's mailbox, or to the link that leads to it, or is given back
//! to its sender; it is never handed over twice, and a call that was handed over is never repeated. Messages of one
//! `NameRef` (and its clones) are handed over in the order in which they were sent.
//!
//! Does not promise that what was handed over is handled: an actor that ends leaves its mailbox behind, and a link that
//! goes down loses what is under way. Also, this node learns that an actor of another has ended a moment after it has; what is
//! sent in between is lost. A call tells: no answer. A cast does not. A name that is given up before its actor
//! ends, as a singleton does when it ends cleanly, makes that moment short; it does not close it.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use callsign_store::{Time, in_full};
use callsign_transport::{RemoteMessage, ResolveError};
use ractor::{MessagingErr, RpcReplyPort};
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit, oneshot};

use crate::{
    core::name::{BadName, Name, check_name},
    driver::registry::Registry,
    error::{LookupError, WhereisError, shown},
};

/// What tells of most changes does not tell of a session that resumes, nor of a local actor that is ending.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long, and how many, messages wait for somebody who takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameRefOptions {
    /// How many messages may wait at once, those of all clones together. Fewer: callers are refused during a hand-over.
    /// More: memory, and a flood for the new holder. Default 1024.
    pub buffer: usize,
    /// How long a message may wait. Shorter than a hand-over: callers notice it. Default 10 s: the takeover of a node that
    /// died without proof takes longer, a clean hand-over much less.
    pub deadline: Duration,
}

impl Default for NameRefOptions {
    fn default() -> Self {
        Self { buffer: 1024, deadline: Duration::from_secs(10) }
    }
}

impl NameRefOptions {
    /// How many messages may wait at once.
    #[must_use]
    pub fn buffer(self, buffer: usize) -> Self {
        Self { buffer, ..self }
    }

    /// How long a message may wait.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

/// Why a message was not sent. No actor has it, and none will get it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CastError<M> {
    /// As many messages as may are waiting.
    #[error("{waiting} messages are waiting already")]
    Full {
        /// The message.
        message: M,
        /// How many wait.
        waiting: usize,
    },
    /// Nobody who holds the name could be reached in time.
    #[error("not sent within {}", shown(*waited))]
    TooLate {
        /// The message.
        message: M,
        /// How long it has waited.
        waited: Duration,
        /// What the last attempt came to.
        #[source]
        last: Obstacle,
    },
    /// The holder takes messages of another type.
    #[error("not sent")]
    WrongType {
        /// The message.
        message: M,
        /// Which types.
        source: ResolveError,
    },
    /// The message could not be encoded for the link.
    #[error("the message cannot be encoded")]
    NotEncodable,
}

impl<M> CastError<M> {
    /// The message, to be sent elsewhere or later.
    pub fn into_message(self) -> Option<M> {
        match self {
            Self::Full { message, .. } | Self::TooLate { message, .. } | Self::WrongType { message, .. } => {
                Some(message)
            }
            Self::NotEncodable => None,
        }
    }

    /// The same without the message.
    fn without_message(self) -> CastError<()> {
        let message = ();
        match self {
            Self::Full { waiting, .. } => CastError::Full { message, waiting },
            Self::TooLate { waited, last, .. } => CastError::TooLate { message, waited, last },
            Self::WrongType { source, .. } => CastError::WrongType { message, source },
            Self::NotEncodable => CastError::NotEncodable,
        }
    }
}

impl<M> fmt::Debug for CastError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate { last, .. } => write!(f, "CastError({self}: {})", in_full(last)),
            Self::WrongType { source, .. } => write!(f, "CastError({self}: {})", in_full(source)),
            Self::Full { .. } | Self::NotEncodable => write!(f, "CastError({self})"),
        }
    }
}

/// Why a message that waits has not been sent yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nobody to send it to.
    #[error(transparent)]
    Whereis(#[from] WhereisError),
    /// The holder takes no more messages: it is ending.
    #[error("the holder is ending")]
    Ending,
    /// Others were there first, and wait.
    #[error("messages before it are waiting")]
    Queued,
}

/// Why a call brought no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// It was not sent: nobody has carried it out, and nobody will.
    #[error("the question was not sent")]
    NotSent(#[source] CastError<()>),
    /// It was sent, and no answer will come: the actor or the link to it ended, or the actor did not want to answer. It may
    /// have been carried out. It was not repeated.
    #[error("sent, and not answered")]
    NotAnswered,
    /// It was sent, and no answer came in time. It may be carried out, now or later. It was not repeated.
    #[error("sent, and not answered within {}", shown(*waited))]
    TimedOut {
        /// How long was waited, from the beginning of the call.
        waited: Duration,
    },
}

struct NameRefInner {
    registry: Registry,
    name: Name,
    options: NameRefOptions,
    places: Semaphore,
    /// Held by the message whose turn it is. Fair: first come, first served.
    turn: Mutex<()>,
}

/// A name as an address. Cheap to clone; clones share the buffer and its order.
pub struct NameRef<M> {
    inner: Arc<NameRefInner>,
    _messages: PhantomData<fn(M)>,
}

impl<M> Clone for NameRef<M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), _messages: PhantomData }
    }
}

impl<M> fmt::Debug for NameRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NameRef({:?} by {})", self.inner.name, self.inner.registry.node())
    }
}

impl Registry {
    /// A reference to whoever holds a name, whenever something is sent. The name need not be held.
    pub fn name_ref<M: RemoteMessage>(
        &self,
        name: &str,
        options: NameRefOptions,
    ) -> Result<NameRef<M>, BadName> {
        check_name(name)?;
        let options = options.buffer(options.buffer.clamp(1, Semaphore::MAX_PERMITS));
        let inner = NameRefInner {
            registry: self.clone(),
            name: name.into(),
            options,
            places: Semaphore::new(options.buffer),
            turn: Mutex::new(()),
        };
        Ok(NameRef { inner: Arc::new(inner), _messages: PhantomData })
    }
}

impl<M: RemoteMessage> NameRef<M> {
    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How many messages wait.
    pub fn waiting(&self) -> usize {
        self.inner.options.buffer - self.inner.places.available_permits()
    }

    /// Sends a message. `Ok`: the holder's mailbox, or the link to it, has it. It waits for its turn and for a holder, at
    /// most the [`deadline`](NameRefOptions::deadline); dropped before that, the message is not sent.
    ///
    /// While the name is held by an actor of this node it costs a look-up in a map, and awaits nothing.
    pub async fn cast(&self, message: M) -> Result<(), CastError<M>> {
        self.cast_until(message, self.inner.options.deadline).await
    }

    async fn cast_until(&self, message: M, wait: Duration) -> Result<(), CastError<M>> {
        let inner = &*self.inner;
        let Some(_place) = inner.place() else {
            return Err(CastError::Full { message, waiting: self.waiting() });
        };
        let begun = inner.registry.clock().now();
        let until = begun + wait;
        let Some(_turn) = inner.turn(until).await else {
            return Err(CastError::TooLate { message, waited: wait, last: Obstacle::Queued });
        };
        let mut message = message;
        loop {
            // Before the look-up, so that no change after it is missed.
            let changed = inner.registry.changed();
            let obstacle = match inner.registry.whereis::<M>(&inner.name) {
                Ok(actor) => match actor.cast(message) {
                    Ok(()) => return Ok(()),
                    Err(MessagingErr::SendErr(back)) => {
                        message = back;
                        Obstacle::Ending
                    }
                    Err(_) => return Err(CastError::NotEncodable),
                },
                Err(WhereisError::Unreachable {
                    source: source @ ResolveError::WrongType { .. }, ..
                }) => {
                    return Err(CastError::WrongType { message, source });
                }
                // Nobody will be found by a node that has failed.
                Err(other @ WhereisError::Lookup(LookupError::Failed(_))) => {
                    let waited = inner.registry.clock().now().since(begun);
                    return Err(CastError::TooLate { message, waited, last: other.into() });
                }
                Err(other) => other.into(),
            };
            let clock = inner.registry.clock();
            let now = clock.now();
            if now >= until {
                return Err(CastError::TooLate { message, waited: now.since(begun), last: obstacle });
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = clock.sleep_until(until.min(now + LOOK_AGAIN)) => {}
            }
        }
    }

    /// Sends a message that asks for an answer, and waits for that: at most `wait`, and of it at most the
    /// [`deadline`](NameRefOptions::deadline) for a holder. Once sent it is not sent again, whatever becomes of it.
    pub async fn call<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> M,
        wait: Duration,
    ) -> Result<R, CallError> {
        let clock = self.inner.registry.clock();
        let begun = clock.now();
        let (port, answer) = oneshot::channel();
        let sent = self.cast_until(message((port, wait).into()), wait.min(self.inner.options.deadline)).await;
        if let Err(error) = sent {
            return Err(CallError::NotSent(error.without_message()));
        }
        tokio::select! {
            biased;
            answer = answer => answer.map_err(|_| CallError::NotAnswered),
            () = clock.sleep_until(begun + wait) => {
                Err(CallError::TimedOut { waited: clock.now().since(begun) })
            }
        }
    }
}

impl NameRefInner {
    fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    async fn turn(&self, until: Time) -> Option<MutexGuard<'_, ()>> {
        tokio::select! {
            biased;
            turn = self.turn.lock() => Some(turn),
            () = self.registry.clock().sleep_until(until) => None,
        }
    }
}
