//! Who starts the tasks of an endpoint.
#![allow(clippy::disallowed_methods)] // where they are started if nobody else does

use std::{fmt, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use tokio::runtime::Handle;

type Start = dyn Fn(&'static str, BoxFuture<'static, ()>) + Send + Sync;

/// Starts the tasks of an endpoint, each with what it is called: for a node that has to know when one of them panics. By
/// default they run in the endpoint's runtime, and a panic ends the task only.
#[derive(Clone, Default)]
pub struct Tasks(Option<Arc<Start>>);

impl Tasks {
    /// Has them started by this function, which must not wait. It may be called outside of a runtime.
    pub fn started_by(start: impl Fn(&'static str, BoxFuture<'static, ()>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(start)))
    }

    pub(crate) fn start(
        &self,
        runtime: &Handle,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        match &self.0 {
            Some(start) => start(what, work.boxed()),
            None => drop(runtime.spawn(work)),
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tasks(started by the node)" } else { "Tasks" })
    }
}
