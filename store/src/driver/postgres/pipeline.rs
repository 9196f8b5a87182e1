//! Several statements in one flight.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use tokio_postgres::Error;

enum Step<'a, T> {
    Sent(BoxFuture<'a, Result<T, Error>>),
    Done(Result<T, Error>),
}

/// Statements that are sent one behind the other, with nothing of anybody else in between, and answered together.
///
/// The client queues a statement at the first poll of its future. So each is polled as it comes; as there is no await
/// before the last, and the runtime has one thread, no other task gets a statement in between.
pub(super) struct Pipeline<'a, T> {
    steps: Vec<Step<'a, T>>,
    is_sent: bool,
}

impl<'a, T> Pipeline<'a, T> {
    pub(super) fn new() -> Self {
        Self { steps: Vec::new(), is_sent: true }
    }

    /// Sends a statement.
    pub(super) fn push(&mut self, step: impl Future<Output = Result<T, Error>> + Send + 'a) {
        let mut step = step.boxed();
        // Its waker does not matter: `finish` polls again.
        let step = match step.poll_unpin(&mut Context::from_waker(futures::task::noop_waker_ref())) {
            Poll::Pending => Step::Sent(step),
            // No answer can have come by now.
            Poll::Ready(result) => {
                self.is_sent &= result.is_ok();
                Step::Done(result)
            }
        };
        self.steps.push(step);
    }

    /// Whether all so far were sent.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// Waits for all answers.
    pub(super) async fn finish(self) -> Vec<Result<T, Error>> {
        let mut steps = self.steps;
        poll_fn(|context| {
            let mut pending = false;
            for step in &mut steps {
                let Step::Sent(future) = step else { continue };
                match Pin::new(future).poll(context) {
                    Poll::Ready(result) => *step = Step::Done(result),
                    Poll::Pending => pending = true,
                }
            }
            if pending { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        steps
            .into_iter()
            .filter_map(|step| match step {
                Step::Done(result) => Some(result),
                Step::Sent(_) => None, // none is left
            })
            .collect()
    }
}
