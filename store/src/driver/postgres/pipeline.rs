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

    /// Sends a statement. Returns where its answer will be among those of [`finish`](Self::finish).
    pub(super) fn push(&mut self, step: impl Future<Output = Result<T, Error>> + Send + 'a) -> usize {
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
        self.steps.len() - 1
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::channel::oneshot;

    use super::{super::tests::said::unsaid, *};

    #[tokio::test]
    async fn answers_are_in_the_order_of_the_statements_whichever_comes_first() {
        let (first, is_first) = oneshot::channel();
        let (third, is_third) = oneshot::channel();
        let mut pipeline = Pipeline::new();
        pipeline.push(is_first.map(|number| Ok(number.unwrap())));
        pipeline.push(ready(Ok(2)));
        pipeline.push(is_third.map(|number| Ok(number.unwrap())));
        assert!(pipeline.is_sent());
        let mut finish = Box::pin(pipeline.finish());
        third.send(3).unwrap();
        assert!(futures::poll!(&mut finish).is_pending());
        first.send(1).unwrap();
        let answers = finish.await;
        assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn once_something_could_not_be_sent_the_whole_was_not() {
        let mut pipeline = Pipeline::new();
        pipeline.push(pending());
        assert!(pipeline.is_sent());
        pipeline.push(ready(Err(unsaid().await)));
        assert!(!pipeline.is_sent());
        pipeline.push(ready(Ok(())));
        assert!(!pipeline.is_sent());
    }
}
