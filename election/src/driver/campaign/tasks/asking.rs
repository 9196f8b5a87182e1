//! The oracle's task: one call at a time. A call that is given up is dropped.

use std::{panic::AssertUnwindSafe, sync::Arc};

use callsign_store::supervision::{Supervisor, foreign, foreign_async};
use futures::{FutureExt, StreamExt};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    task::AbortHandle,
    time::Instant,
};

use super::mailbox::Mailbox;
use crate::{
    core::campaign::{CallId, Input},
    driver::metrics::{OfElection, abdication, verdict},
    oracle::{Attempt, Context, Fault, Grant, Init, Oracle, Reaction},
};

/// What the oracle is asked.
#[derive(Clone, Debug)]
pub(super) enum OracleAsk<F> {
    Claim { call: CallId, attempt: Attempt },
    Refresh { call: CallId, attempt: Attempt, held: Grant<F> },
    Abdicate { call: CallId, held: Grant<F> },
    Leave { call: CallId, held: Option<Grant<F>> },
    Tidy { call: CallId },
    Rivals { call: CallId },
    Inform { call: CallId },
    Abandon,
}

impl<F> OracleAsk<F> {
    /// As a label, if it is counted.
    fn name(&self) -> Option<&'static str> {
        match self {
            Self::Claim { .. } => Some("claim"),
            Self::Refresh { .. } => Some("refresh"),
            Self::Abdicate { .. } => Some("abdicate"),
            Self::Leave { .. } => Some("leave"),
            Self::Tidy { .. } | Self::Rivals { .. } | Self::Inform { .. } | Self::Abandon => None,
        }
    }
}

/// The oracle, and what it takes to ask it.
pub(super) struct Asking<O: Oracle> {
    pub(super) oracle: O,
    pub(super) context: Context,
    /// Whether it was prepared.
    pub(super) ready: bool,
    pub(super) mailbox: Arc<Mailbox<O::Info>>,
    pub(super) inputs: UnboundedSender<Input<O::Fence>>,
    pub(super) metrics: OfElection,
    /// Starts what listens to the oracle.
    pub(super) supervisor: Supervisor,
}

/// Ends a task with whoever holds this.
struct Guard(AbortHandle);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<O: Oracle> Asking<O> {
    /// Until the loop has ended.
    pub(super) async fn run(mut self, mut asked: UnboundedReceiver<OracleAsk<O::Fence>>) {
        let mut listening = if self.ready { self.listen() } else { None };
        let mut next = asked.recv().await;
        while let Some(ask) = next.take() {
            let (was_ready, begun, call) = (self.ready, Instant::now(), ask.name());
            let metrics = self.metrics.clone();
            let done = |outcome| {
                if let Some(call) = call {
                    metrics.called(call, outcome, begun.elapsed());
                }
            };
            let answer = AssertUnwindSafe(self.answer(ask.clone())).catch_unwind();
            let answer = tokio::select! {
                biased;
                answer = answer => answer,
                // Whatever comes while a call runs means that it is given up.
                other = asked.recv() => {
                    next = other;
                    done("abandoned");
                    continue;
                }
            };
            if let Some(input) = answer.unwrap_or_else(|_| panicked(&ask)) {
                match &input {
                    Input::Answered { answer, .. } => done(verdict(answer)),
                    Input::Abdicated { answer, .. } => done(abdication(answer)),
                    _ => {}
                }
                // If the loop has ended, so does this.
                let _ = self.inputs.send(input);
            }
            if self.ready && !was_ready {
                listening = self.listen();
            }
            next = asked.recv().await;
        }
        drop(listening);
    }

    /// Passes on what the oracle notices by itself. If the oracle panics over it, polls have to do.
    fn listen(&mut self) -> Option<Guard> {
        let mut signals = foreign("the signals of an oracle", || self.oracle.signals())?;
        let mailbox = Arc::clone(&self.mailbox);
        let task = self.supervisor.task("what an oracle notices", async move {
            while let Some(Some(signal)) = foreign_async("the signals of an oracle", signals.next()).await {
                mailbox.signal(signal);
                // A stream that always has something must not keep a thread.
                tokio::task::yield_now().await;
            }
        });
        Some(Guard(task.abort_handle()))
    }

    async fn answer(&mut self, ask: OracleAsk<O::Fence>) -> Option<Input<O::Fence>> {
        match ask {
            OracleAsk::Claim { call, attempt } => {
                let answer = match self.prepare().await {
                    Ok(()) => self.oracle.claim(attempt).await,
                    Err(fault) => Err(fault),
                };
                Some(Input::Answered { call, answer })
            }
            OracleAsk::Refresh { call, attempt, held } => {
                Some(Input::Answered { call, answer: self.oracle.refresh(attempt, &held).await })
            }
            OracleAsk::Abdicate { call, held } => {
                Some(Input::Abdicated { call, answer: self.oracle.abdicate(&held).await })
            }
            OracleAsk::Leave { call, held } => {
                Some(Input::Abdicated { call, answer: self.oracle.leave(held.as_ref()).await })
            }
            OracleAsk::Tidy { call } => Some(Input::Tidied { call, answer: self.oracle.tidy().await }),
            OracleAsk::Rivals { call } => Some(Input::Rivals { call, answer: self.oracle.rivals().await }),
            OracleAsk::Inform { call } => {
                let reaction = match self.mailbox.pop() {
                    Some(info) => self.oracle.handle_info(info).await,
                    None => Reaction::Ignore,
                };
                Some(Input::Reacted { call, reaction: Ok(reaction) })
            }
            // It had answered already.
            OracleAsk::Abandon => None,
        }
    }

    async fn prepare(&mut self) -> Result<(), Fault> {
        if self.ready {
            return Ok(());
        }
        match self.oracle.init(&self.context).await {
            Ok(Init::Ready) => {
                self.ready = true;
                Ok(())
            }
            Ok(Init::Ignore) => Err(Fault::Fatal("the oracle declines to take part".to_owned())),
            // Nothing was claimed.
            Err(Fault::Transient { cause, .. }) => Err(Fault::Transient { maybe_committed: false, cause }),
            Err(fault) => Err(fault),
        }
    }
}

/// A panic says nothing about the outcome.
fn panicked<F>(ask: &OracleAsk<F>) -> Option<Input<F>> {
    let fault = Fault::Transient { maybe_committed: true, cause: "the oracle panicked".to_owned() };
    match *ask {
        OracleAsk::Claim { call, .. } | OracleAsk::Refresh { call, .. } => {
            Some(Input::Answered { call, answer: Err(fault) })
        }
        OracleAsk::Abdicate { call, .. } | OracleAsk::Leave { call, .. } => {
            Some(Input::Abdicated { call, answer: Err(fault) })
        }
        OracleAsk::Tidy { call } => Some(Input::Tidied { call, answer: Err(fault) }),
        OracleAsk::Rivals { call } => Some(Input::Rivals { call, answer: Err(fault) }),
        OracleAsk::Inform { call } => Some(Input::Reacted { call, reaction: Err(fault) }),
        OracleAsk::Abandon => None,
    }
}
