//! Who starts the tasks of an endpoint.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{FutureExt, future::BoxFuture};
use tokio::{runtime::Handle, task::JoinHandle};

type Start = dyn Fn(&'static str, BoxFuture<'static, ()>) + Send + Sync;
type Step = dyn Fn(&'static str, &mut dyn FnMut()) + Send + Sync;

/// Starts the tasks of an endpoint, each with what it is called: for a node that has to know when one of them panics. By
/// default they run in the endpoint's runtime, and a panic ends the task only.
#[derive(Clone, Default)]
pub struct Tasks {
    start: Option<Arc<Start>>,
    step: Option<Arc<Step>>,
}

impl Tasks {
    /// Has them started by this function, which must not wait. It may be called outside of a runtime.
    pub fn started_by(start: impl Fn(&'static str, BoxFuture<'static, ()>) + Send + Sync + 'static) -> Self {
        Self { start: Some(Arc::new(start)), step: None }
    }

    /// Has this function do what an endpoint does inside actors, a bit of work at a time, each with what it is called. It calls
    /// what it is given once, at once, and must not panic with it. By default a panic ends the actor only.
    #[must_use]
    pub fn stepped_by(self, step: impl Fn(&'static str, &mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        Self { step: Some(Arc::new(step)), ..self }
    }

    pub(crate) fn start(
        &self,
        runtime: &Handle,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.start_boxed(runtime, what, work.boxed());
    }

    fn start_boxed(&self, runtime: &Handle, what: &'static str, work: BoxFuture<'static, ()>) {
        match &self.start {
            Some(start) => start(what, work),
            None => drop(runtime.spawn(work)),
        }
    }

    pub(crate) fn step(&self, what: &'static str, work: impl FnOnce()) {
        let mut work = Some(work);
        let mut once = || {
            if let Some(work) = work.take() {
                work();
            }
        };
        match &self.step {
            Some(step) => step(what, &mut once),
            None => once(),
        }
    }

    /// Watches an actor that must not end before `may_end` says so: what it does for its node nobody else does.
    pub(crate) fn watch(&self, what: &'static str, running: JoinHandle<()>, may_end: Arc<AtomicBool>) {
        self.start(&Handle::current(), what, async move {
            // An error is the end of the runtime, which is the end of everything.
            if running.await.is_ok() {
                assert!(may_end.load(Ordering::SeqCst), "its actor ended, and nobody had asked it to");
            }
        });
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.start.is_some() { "Tasks(started by the node)" } else { "Tasks" })
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::AssertUnwindSafe, time::Duration};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn what_panics_in_an_actor_and_an_actor_that_ends_unasked_are_told() {
        let (told, mut tells) = mpsc::unbounded_channel();
        let (of_start, of_step) = (told.clone(), told);
        let tasks = Tasks::started_by(move |what, work| {
            let told = of_start.clone();
            tokio::spawn(async move {
                let _ = told.send((what, AssertUnwindSafe(work).catch_unwind().await.is_err()));
            });
        });
        let tasks = tasks.stepped_by(move |what, work| {
            let panics = std::panic::catch_unwind(AssertUnwindSafe(work)).is_err();
            let _ = of_step.send((what, panics));
        });
        let mut next = async || {
            tokio::time::timeout(Duration::from_secs(60), tells.recv()).await.expect("it is told").unwrap()
        };
        tasks.step("a step", || ());
        assert_eq!(next().await, ("a step", false));
        tasks.step("a step", || panic!("on request"));
        assert_eq!(next().await, ("a step", true));
        for may_end in [true, false] {
            tasks.watch("an actor", tokio::spawn(async {}), Arc::new(AtomicBool::new(may_end)));
            assert_eq!(next().await, ("an actor", !may_end));
        }
    }
}
