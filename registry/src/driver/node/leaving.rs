//! Carries out how a node leaves, and how one that has failed ends: the core says what comes when.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use callsign_elector::session::{self, Obstacle, SessionFailure};
use callsign_store::{Time, ids::RegistryName, in_full, lock::lock, logged, supervision::Living};
use futures::future::{BoxFuture, join_all};
use tokio::sync::oneshot;

use super::Node;
use crate::{
    core::{
        input::{Answer, Call, Drained},
        leaving::{LeavingCaller, LeavingEffect, LeavingInput, LeavingTimes},
        node::NodeInput,
    },
    driver::actor::Shared,
    error::LeaveError,
};

/// How long a node waits for what it asked before to be decided, and for the others to have heard that it leaves.
const SAY: Duration = Duration::from_secs(1);

/// How long a node that leaves waits for the store.
const CLOSE: Duration = Duration::from_secs(5);

/// Something that is to end before the names do.
pub(crate) trait Ends: Send + Sync {
    /// Ends it.
    fn end(self: Arc<Self>) -> BoxFuture<'static, ()>;
}

/// Who waits for a node to leave, and what became of it.
#[derive(Default)]
pub(super) struct Leaves {
    waiting: Mutex<WaitingCallers>,
    /// What ends before the names do, unless it is gone by then.
    endings: Mutex<Living<Weak<dyn Ends>>>,
}

#[derive(Default)]
struct WaitingCallers {
    last: LeavingCaller,
    drainers: BTreeMap<LeavingCaller, oneshot::Sender<Drained>>,
    leavers: BTreeMap<LeavingCaller, oneshot::Sender<()>>,
}

impl WaitingCallers {
    fn caller(&mut self) -> LeavingCaller {
        self.last += 1;
        self.last
    }
}

/// How long each step may take, where another is waited for so long to serve.
pub(super) fn times(drain: Duration) -> LeavingTimes {
    LeavingTimes { drain, decide: SAY, say: SAY, close: CLOSE }
}

impl Node {
    /// Has something end when the node begins to drain. False: it has begun, and that will not be asked.
    #[cfg(feature = "election")]
    pub(crate) fn end_with(&self, ending: Weak<dyn Ends>) -> bool {
        // Under the lock: whoever begins to drain takes all, or this sees that it has.
        let core = self.core.lock();
        let joins = !core.leaving().has_begun();
        if joins {
            lock(&self.leaves.endings).add(ending, |ending| ending.strong_count() > 0);
        }
        joins
    }

    /// How many things are kept that end before the names do.
    #[cfg(all(test, feature = "election"))]
    pub(crate) fn endings_kept(&self) -> usize {
        lock(&self.leaves.endings).all().len()
    }

    /// Whether the node has begun to leave.
    pub(crate) fn is_draining(&self) -> bool {
        self.core.lock().leaving().has_begun()
    }

    /// Why the node has begun to leave, if it has.
    #[cfg(feature = "admin")]
    pub(crate) fn why_leaving(&self) -> Option<crate::core::leaving::WhyLeaving> {
        self.core.lock().leaving().why()
    }

    /// No new names are registered from here on; what runs on exactly one node ends here, and every seat is handed over.
    pub(crate) async fn drain(self: &Arc<Self>) -> Drained {
        let (answer, answered) = oneshot::channel();
        let caller = {
            let mut waiting = lock(&self.leaves.waiting);
            let caller = waiting.caller();
            waiting.drainers.insert(caller, answer);
            caller
        };
        self.step_leaving(LeavingInput::Drain(caller));
        answered.await.unwrap_or(Drained::Left)
    }

    /// Drains, leaves every registry, closes the session, says goodbye. What has begun goes on if the caller gives up.
    pub(crate) async fn leave(self: &Arc<Self>) -> Result<(), LeaveError> {
        let (answer, answered) = oneshot::channel();
        let caller = {
            let mut waiting = lock(&self.leaves.waiting);
            let caller = waiting.caller();
            waiting.leavers.insert(caller, answer);
            caller
        };
        self.step_leaving(LeavingInput::Leave(caller));
        let _ = answered.await; // dropped with the runtime, which is the end of everything
        if let Some(failure) = self.supervisor.failure() {
            return Err(LeaveError::Failed(failure));
        }
        match self.closed() {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(LeaveError::StoreUnavailable(error)),
            None => Err(LeaveError::StoreUnavailable(SessionFailure::LeaveUnconfirmed {
                obstacle: Obstacle::NoAnswer,
            })),
        }
    }

    /// What became of the session. `None`: the store has not answered.
    fn closed(&self) -> Option<Result<(), SessionFailure>> {
        let core = self.core.lock();
        let session = core.session();
        session.is_over().then(|| session.failure().cloned().map_or(Ok(()), Err))
    }

    /// Tells the core of something that matters to a node that leaves.
    pub(super) fn step_leaving(self: &Arc<Self>, input: LeavingInput) {
        self.step(NodeInput::Leaving(input));
    }

    /// Starts what an effect takes, and has the core told what came of it.
    pub(super) fn carry_out_leaving(self: &Arc<Self>, effect: LeavingEffect) {
        match effect {
            LeavingEffect::Drain(registry, wait) => {
                let shared = self.shared_of(&registry);
                self.then(async move { LeavingInput::Drained(registry, drain(shared, wait).await) });
            }
            LeavingEffect::End => {
                let ending = lock(&self.leaves.endings).take();
                let endings: Vec<_> = ending.iter().filter_map(Weak::upgrade).map(Ends::end).collect();
                self.then(async move {
                    join_all(endings).await;
                    LeavingInput::Ended
                });
            }
            LeavingEffect::Drained(callers, how) => {
                let mut waiting = lock(&self.leaves.waiting);
                for answer in callers.iter().filter_map(|caller| waiting.drainers.remove(caller)) {
                    let _ = answer.send(how.clone()); // who does not wait any more does not mind
                }
            }
            LeavingEffect::Drop(registry, wait) => self.drop_names(registry, wait),
            LeavingEffect::Close => {
                let me = self.clone();
                self.supervisor.task("what a node waits for that leaves", async move {
                    // The core knows it from the session, unless nobody can be found any more to drive that.
                    if me.session.close().await == Err(session::LeaveError::Ended) {
                        me.step_leaving(LeavingInput::Closed);
                    }
                });
            }
            LeavingEffect::Part => self.part(),
            LeavingEffect::Left(callers) => {
                let mut waiting = lock(&self.leaves.waiting);
                for answer in callers.iter().filter_map(|caller| waiting.leavers.remove(caller)) {
                    let _ = answer.send(()); // who does not wait any more does not mind
                }
            }
        }
    }

    fn drop_names(self: &Arc<Self>, registry: RegistryName, wait: Duration) {
        let Some(shared) = self.shared_of(&registry) else {
            return self.then(async move { LeavingInput::Dropped(registry, false) });
        };
        self.then(async move {
            let told = shared.call(Call::Leave, wait).await;
            LeavingInput::Dropped(registry, told.is_some())
        });
    }

    /// The registries end, and the links are closed.
    fn part(self: &Arc<Self>) {
        // From here on everything may end.
        self.supervisor.end();
        for joined in std::mem::take(&mut *lock(&self.joined)).into_values() {
            joined.stop.stop("the node leaves");
        }
        let me = self.clone();
        self.then(async move {
            if me.supervisor.failure().is_some() {
                match me.closed() {
                    Some(Ok(())) => logged!(info, "the session of the failed node is closed"),
                    Some(Err(error)) => {
                        logged!(warn, error = %in_full(&error), "the session of the failed node may be open");
                    }
                    None => {
                        logged!(
                            warn,
                            "the session of the failed node may be open: the store does not answer"
                        );
                    }
                }
            }
            me.endpoint.leave().await;
            LeavingInput::Parted
        });
    }

    pub(super) fn shared_of(&self, registry: &RegistryName) -> Option<Arc<Shared>> {
        lock(&self.joined).get(registry).map(|joined| joined.shared.clone())
    }

    /// Does something, and tells the core what came of it.
    fn then(self: &Arc<Self>, work: impl Future<Output = LeavingInput> + Send + 'static) {
        let me = self.clone();
        self.supervisor.task("what a node waits for that leaves", async move {
            let input = work.await;
            me.step_leaving(input);
        });
    }

    pub(super) fn wake_leaving(self: &Arc<Self>, at: Time) {
        let clock = self.config.clock.clone();
        self.then(async move {
            clock.sleep_until(at).await;
            LeavingInput::Wake
        });
    }
}

async fn drain(shared: Option<Arc<Shared>>, wait: Duration) -> Drained {
    let Some(shared) = shared else { return Drained::Left };
    match shared.call(Call::Drain, wait).await {
        Some(Answer::Drained(drained)) => drained,
        _ => Drained::Left,
    }
}
