//! What a node is made of, and that none of it ends alone. A campaign that is nobody's part is made of parts in the same way.
//!
//! A *part* is a task, an actor or a thread of a node. A part that panics, or ends though nobody asked it to, ends the node:
//! half a node would go on to lead, to hold names, or to say that nobody holds one. All parts are started here, so that
//! none is forgotten.
//!
//! The first such end is the node's [`NodeFailure`]. A part that has to act on it at once leaves a hook, which runs on the
//! thread that noticed it; whoever has time waits for [`Supervisor::failed`].

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{FutureExt, future::BoxFuture};
use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::Notify, task::JoinHandle};

use crate::{driver::lock::lock, planted};

mod actor;
mod living;
mod turns;

use actor::Watched;
pub use living::Living;
use turns::InTurn;
pub use turns::{Turn, Turns};

/// Why a node has failed: what ended first though nobody asked it to, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("{part} {reason}")]
#[non_exhaustive]
pub struct NodeFailure {
    /// The part of the node: a task, an actor or a thread.
    pub part: String,
    /// How it ended: `panicked: ...`, say.
    pub reason: String,
}

impl NodeFailure {
    /// What ended, and how.
    #[must_use]
    pub fn new(part: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { part: part.into(), reason: reason.into() }
    }
}

/// What is to be run once the node has failed.
struct Hook {
    run: Box<dyn FnOnce(&NodeFailure) + Send>,
    /// What it is about. If that is gone, there is nothing to run.
    of: Option<Weak<dyn Any + Send + Sync>>,
}

impl Hook {
    fn is_of_use(&self) -> bool {
        self.of.as_ref().is_none_or(|of| of.strong_count() > 0)
    }
}

/// Starts the parts of one node, and learns when one ends. Cheap to clone.
#[derive(Clone)]
pub struct Supervisor {
    shared: Arc<SupervisorShared>,
}

struct SupervisorShared {
    /// Whose parts they are, for people.
    whose: &'static str,
    runtime: Handle,
    /// When its parts may run; always, if nobody says.
    turns: Option<Arc<dyn Turns>>,
    /// What is to be run once the node has failed. Held while that is decided.
    hooks: Mutex<Living<Hook>>,
    life: Mutex<Life>,
    /// It has failed, or has left. Whoever waits is woken in the order in which they came.
    over: Notify,
    /// For tests: the part that is to panic when it runs next.
    #[cfg(any(test, feature = "faults"))]
    sabotaged: Mutex<Option<String>>,
    #[cfg(any(test, feature = "faults"))]
    parts: Mutex<std::collections::BTreeSet<String>>,
}

#[derive(Clone, Debug)]
enum Life {
    Runs,
    Failed(NodeFailure),
    /// The node has left: its parts may end.
    Over,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("life", &*self.life()).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// A supervisor of parts that run in this tokio runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    #[allow(clippy::new_without_default)] // a default should not depend on where it is made
    pub fn new() -> Self {
        Self::of("the node")
    }

    /// As [`new`](Self::new), for the parts of something else, which is called `whose` where people read of it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn of(whose: &'static str) -> Self {
        Self::in_turns(whose, None)
    }

    /// As [`of`](Self::of), for a simulation that says when the parts may run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn in_turns(whose: &'static str, turns: Option<Arc<dyn Turns>>) -> Self {
        let shared = SupervisorShared {
            whose,
            runtime: Handle::current(),
            hooks: Mutex::default(),
            turns,
            life: Mutex::new(Life::Runs),
            over: Notify::new(),
            #[cfg(any(test, feature = "faults"))]
            sabotaged: Mutex::default(),
            #[cfg(any(test, feature = "faults"))]
            parts: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts a task that ends when its work is done. If it panics, the node has failed.
    pub fn task(
        &self,
        part: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        self.start_task(part, work.boxed())
    }

    /// Runs something in the node's own runtime, and returns what it comes to: what it starts lives there, wherever the caller does.
    /// It goes on if the caller stops waiting. `None`: it panicked, or the runtime ends.
    pub async fn at_home<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.shared.runtime.spawn(work).await.ok()
    }

    /// Boxed, so that the runtime's code for a task is compiled once, and not for each task of a node.
    fn start_task(&self, part: &'static str, work: BoxFuture<'static, ()>) -> JoinHandle<()> {
        let me = self.clone();
        let work = async move {
            #[cfg(any(test, feature = "faults"))]
            let work = me.sabotages(part, work);
            if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
                me.fail(part, format!("panicked: {}", text(&*panic)));
            }
        };
        match &self.shared.turns {
            None => self.shared.runtime.spawn(work),
            Some(turns) => self.shared.runtime.spawn(InTurn::new(part, turns.clone(), work)),
        }
    }

    /// Starts a task that is never done. If it ends before the node does, the node has failed.
    pub fn service(
        &self,
        part: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        self.start_service(part, work.boxed())
    }

    fn start_service(&self, part: &'static str, work: BoxFuture<'static, ()>) -> JoinHandle<()> {
        let me = self.clone();
        self.task(part, async move {
            work.await;
            me.fail(part, UNASKED.to_owned());
        })
    }

    /// Does a bit of work of a part that runs elsewhere, in an actor or a thread that somebody else started. If it panics, the
    /// node has failed, and there is nothing to return.
    pub fn step<T>(&self, part: &str, work: impl FnOnce() -> T) -> Option<T> {
        if self.is_dead() {
            return None;
        }
        let work = || {
            #[cfg(any(test, feature = "faults"))]
            self.strike(part);
            work()
        };
        let done = catch_unwind(AssertUnwindSafe(work));
        done.inspect_err(|panic| self.fail(part, format!("panicked: {}", text(&**panic)))).ok()
    }

    /// Starts an actor. If it ends before its [`Part`] or the node may end, the node has failed.
    pub async fn actor<A: Actor>(
        &self,
        part: impl Into<String>,
        handler: A,
        arguments: A::Arguments,
    ) -> Result<(ActorRef<A::Msg>, Part), SpawnErr> {
        self.actor_under(None, part, handler, arguments).await
    }

    /// As [`actor`](Self::actor), linked to another actor, if there is one.
    pub async fn actor_under<A: Actor>(
        &self,
        parent: Option<ActorCell>,
        part: impl Into<String>,
        handler: A,
        arguments: A::Arguments,
    ) -> Result<(ActorRef<A::Msg>, Part), SpawnErr> {
        let part = Part { name: part.into().into(), supervisor: self.clone(), may_end: Arc::default() };
        let watched = Watched { handler, part: part.clone() };
        let (actor, running) = match parent {
            Some(parent) => Actor::spawn_linked(None, watched, arguments, parent).await?,
            None => Actor::spawn(None, watched, arguments).await?,
        };
        self.watch_end(running, part.clone());
        Ok((actor, part))
    }

    /// Whoever kills or stops an actor from outside is not seen by the actor itself.
    fn watch_end(&self, running: JoinHandle<()>, part: Part) {
        self.shared.runtime.spawn(async move {
            // An error is the end of the runtime, which is the end of everything.
            if running.await.is_ok() {
                part.has_ended(UNASKED);
            }
        });
    }

    /// Says that a part has ended, and how. Only the first counts, and none after [`end`](Self::end).
    pub fn fail(&self, part: &str, reason: String) {
        if planted!("half-a-node-goes-on") {
            return;
        }
        let failure = NodeFailure { part: part.to_owned(), reason };
        let mut hooks = self.hooks();
        if !matches!(*self.life(), Life::Runs) || self.is_dead() {
            return;
        }
        *self.life() = Life::Failed(failure.clone());
        self.shared.over.notify_waiters();
        let due = hooks.take();
        drop(hooks);
        for hook in due {
            run(hook, &failure);
        }
        let whose = self.shared.whose;
        crate::logged!(error, part = failure.part, reason = failure.reason, "{whose} has failed");
    }

    /// Has this run once the node has failed, at once and on the thread that noticed it; now, if it has failed already.
    pub fn on_failure(&self, hook: impl FnOnce(&NodeFailure) + Send + 'static) {
        self.keep(Hook { run: Box::new(hook), of: None });
    }

    /// As [`on_failure`](Self::on_failure), for something that may be gone by then: nothing is run in this case. A node may start and
    /// end as many such things as it likes, since the hooks of those that are gone are dropped.
    pub fn on_failure_of<T: Send + Sync + 'static>(
        &self,
        of: Weak<T>,
        hook: impl FnOnce(&T, &NodeFailure) + Send + 'static,
    ) {
        let lives = of.clone();
        let run = move |failure: &NodeFailure| {
            if let Some(of) = of.upgrade() {
                hook(&of, failure);
            }
        };
        self.keep(Hook { run: Box::new(run), of: Some(lives) });
    }

    fn keep(&self, hook: Hook) {
        let mut hooks = self.hooks();
        match self.failure() {
            None => hooks.add(hook, Hook::is_of_use),
            Some(failure) => {
                drop(hooks);
                run(hook, &failure);
            }
        }
    }

    /// From now on parts may end: the node has left. Nothing, if it has failed before.
    pub fn end(&self) {
        let mut hooks = self.hooks();
        drop(hooks.take());
        let mut life = self.life();
        if matches!(*life, Life::Runs) {
            *life = Life::Over;
            self.shared.over.notify_waiters();
        }
    }

    /// How the node has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<NodeFailure> {
        match &*self.life() {
            Life::Failed(failure) => Some(failure.clone()),
            Life::Runs | Life::Over => None,
        }
    }

    /// Waits until the node has failed, or has left: then there is no failure.
    pub async fn outcome(&self) -> Option<NodeFailure> {
        let mut over = pin!(self.shared.over.notified());
        over.as_mut().enable(); // before the look, so that no end is missed
        if matches!(*self.life(), Life::Runs) {
            over.await;
        }
        self.failure()
    }

    /// Waits until the node has failed.
    pub async fn failed(&self) -> NodeFailure {
        match self.outcome().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Whether a simulation has the node be dead: nothing of it runs any more.
    fn is_dead(&self) -> bool {
        self.shared.turns.as_ref().is_some_and(|turns| turns.is_dead())
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        lock(&self.shared.life)
    }

    fn hooks(&self) -> MutexGuard<'_, Living<Hook>> {
        // Nothing panics under this lock: hooks run outside.
        lock(&self.shared.hooks)
    }
}

const UNASKED: &str = "ended, and nobody had asked it to";

/// One hook that panics must not keep the others from running.
fn run(hook: Hook, failure: &NodeFailure) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (hook.run)(failure))) {
        crate::logged!(error, panic = text(&*panic), "what a failure brings about has panicked");
    }
}

/// An actor of a node, and whether it may end.
#[derive(Clone, Debug)]
pub struct Part {
    name: Arc<str>,
    supervisor: Supervisor,
    may_end: Arc<AtomicBool>,
}

impl Part {
    /// Its end is asked for, or is its own good end.
    pub fn may_end(&self) {
        self.may_end.store(true, Ordering::SeqCst);
    }

    /// It ends for a reason that ends the node.
    pub fn fails(&self, reason: impl Into<String>) {
        self.supervisor.fail(&self.name, reason.into());
    }

    fn has_ended(&self, how: &str) {
        if !self.may_end.load(Ordering::SeqCst) {
            self.fails(how);
        }
    }
}

/// What a panic said.
pub fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

/// Runs code of the application: a panic in it costs this call only, and is its own to mend. No lock may be held.
pub fn foreign<T>(what: &str, call: impl FnOnce() -> T) -> Option<T> {
    if planted!("half-a-node-goes-on") {
        return Some(call());
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => Some(done),
        Err(panic) => {
            crate::logged!(error, what, panic = text(&*panic), "code of the application has panicked");
            None
        }
    }
}

/// As [`foreign`], for code that waits.
pub async fn foreign_async<T>(what: &str, call: impl Future<Output = T>) -> Option<T> {
    caught(what, call).await.ok()
}

/// As [`foreign_async`]. An error is what the panic said.
///
/// # Errors
/// If it panics.
pub async fn caught<T>(what: &str, call: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(call).catch_unwind().await.map_err(|panic| {
        let panic = text(&*panic);
        crate::logged!(error, what, panic, "code of the application has panicked");
        panic.to_owned()
    })
}

/// Runs what only tells somebody something, as [`logged!`](crate::logged) does. A panic in it costs nothing else. It is not logged,
/// because that would panic as well.
#[doc(hidden)] // for what `logged!` becomes
pub fn contained(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}

#[cfg(any(test, feature = "faults"))]
mod sabotage;

#[cfg(test)]
mod tests;
