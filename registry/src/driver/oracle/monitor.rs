//! Claims as soon as the leader is seen to be gone.

use std::{sync::Arc, time::Duration};

use callsign_election::{Attempt, Context, Fault, Grant, Init, Oracle, Reaction, Signal, Verdict};
use callsign_store::logged;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

use crate::{
    core::{
        entry::Entry,
        name::{BadName, Name, check_name},
    },
    driver::registry::Registry,
};

/// How a follower looks for the leader's actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MonitorSettings {
    /// How long between two looks while the leader is not to be seen. Longer: a leader that comes and goes in between is
    /// left to the poll. Default 5 s.
    pub delay: Duration,
    /// After how long without a leader to be seen the seat is claimed. Default 30 s.
    pub timeout: Duration,
}

impl Default for MonitorSettings {
    fn default() -> Self {
        Self { delay: Duration::from_secs(5), timeout: Duration::from_secs(30) }
    }
}

impl MonitorSettings {
    /// How long between two looks while the leader is not to be seen.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// After how long without a leader to be seen the seat is claimed.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

/// What a monitor sees.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MonitorEvent {
    /// The leader's actor is watched.
    Started {
        /// It.
        leader: Entry,
    },
    /// It is not to be seen: nobody holds the name, or no link leads to its node.
    Failed {
        /// How often in a row.
        retry: u32,
        /// How much longer it is looked for.
        remaining: Duration,
    },
    /// It was not to be seen for so long that the seat is claimed.
    Timeout {
        /// How long.
        elapsed: Duration,
    },
    /// It is gone: it has ended, or the link to its node. The seat is claimed.
    LeaderDown {
        /// It.
        leader: Entry,
    },
}

/// What sees the events of a monitor. Called on its task: must not block.
pub(crate) type Observer = Arc<dyn Fn(MonitorEvent) + Send + Sync>;

/// An oracle, and claims as soon as the leader is seen to be gone.
///
/// The leader has an actor registered under a name; a singleton's child is. A member that was denied
/// watches it. Its end, and the end of the link to its node, are told as [`Signal::Wakeup`]: whether the seat is free is for
/// the oracle to say. While there is no such actor it is looked for every [`delay`](MonitorSettings::delay), and after
/// [`timeout`](MonitorSettings::timeout) the seat is claimed anyway. The campaign polls as ever, so a leader that lives and
/// hangs is replaced, too.
pub struct Monitored<O> {
    oracle: O,
    registry: Registry,
    name: Name,
    settings: Option<MonitorSettings>,
    observer: Observer,
    /// Each denial lets a monitor that has told go on.
    follows: watch::Sender<Follows>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Follows {
    is_following: bool,
    denials: u64,
}

impl<O: Oracle> Monitored<O> {
    /// Watches whoever holds `name` on behalf of `oracle`; without settings, nobody.
    pub fn new(
        oracle: O,
        registry: &Registry,
        name: &str,
        settings: impl Into<Option<MonitorSettings>>,
    ) -> Result<Self, BadName> {
        check_name(name)?;
        Ok(Self {
            oracle,
            registry: registry.clone(),
            name: name.into(),
            settings: settings.into(),
            observer: Arc::new(|event| logged!(debug, "{event}")),
            follows: watch::Sender::new(Follows { is_following: false, denials: 0 }),
        })
    }

    /// Has the events told to `observer`, on the monitor's own task: it must not block.
    #[must_use]
    pub fn observed_by(mut self, observer: impl Fn(MonitorEvent) + Send + Sync + 'static) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    fn note(&self, verdict: &Verdict<O::Fence>) {
        self.follows.send_modify(|follows| {
            follows.is_following = matches!(verdict, Verdict::Denied(_));
            follows.denials += u64::from(follows.is_following);
        });
    }
}

impl<O: Oracle> Oracle for Monitored<O> {
    type Fence = O::Fence;
    type Info = O::Info;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.oracle.init(context).await
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<O::Fence>, Fault> {
        let verdict = self.oracle.claim(attempt).await?;
        self.note(&verdict);
        Ok(verdict)
    }

    async fn refresh(
        &mut self,
        attempt: Attempt,
        held: &Grant<O::Fence>,
    ) -> Result<Verdict<O::Fence>, Fault> {
        let verdict = self.oracle.refresh(attempt, held).await?;
        self.note(&verdict);
        Ok(verdict)
    }

    async fn abdicate(&mut self, held: &Grant<O::Fence>) -> Result<bool, Fault> {
        self.oracle.abdicate(held).await
    }

    async fn leave(&mut self, held: Option<&Grant<O::Fence>>) -> Result<bool, Fault> {
        self.oracle.leave(held).await
    }

    async fn tidy(&mut self) -> Result<Option<Duration>, Fault> {
        self.oracle.tidy().await
    }

    async fn rivals(&mut self) -> Result<bool, Fault> {
        self.oracle.rivals().await
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        let Some(settings) = self.settings else { return self.oracle.signals() };
        // One is enough: several that wait count as one.
        let (wake, wakes) = mpsc::channel(1);
        let watching = Monitoring {
            registry: self.registry.clone(),
            name: self.name.clone(),
            settings,
            observer: self.observer.clone(),
            follows: self.follows.subscribe(),
            wake,
        };
        let task = self.registry.node.supervisor.task("the monitor of a leader", watching.run());
        let task = Aborts(task.abort_handle());
        let own = stream::unfold((wakes, task), |(mut wakes, task)| async move {
            wakes.recv().await.map(|signal| (signal, (wakes, task)))
        });
        // The oracle's signals may end, and the monitor with the oracle.
        stream::select(self.oracle.signals(), own.chain(stream::pending())).boxed()
    }

    async fn handle_info(&mut self, info: O::Info) -> Reaction<O::Fence> {
        let reaction = self.oracle.handle_info(info).await;
        if let Reaction::Verdict(verdict) = &reaction {
            self.note(verdict);
        }
        reaction
    }
}

/// Ends the task with whoever listens to it.
struct Aborts(AbortHandle);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Monitoring {
    registry: Registry,
    name: Name,
    settings: MonitorSettings,
    observer: Observer,
    follows: watch::Receiver<Follows>,
    wake: mpsc::Sender<Signal>,
}

impl Monitoring {
    async fn run(mut self) {
        loop {
            if self.follows.wait_for(|follows| follows.is_following).await.is_err() {
                return;
            }
            let denials = self.follows.borrow().denials;
            let mut leads = self.follows.clone();
            let told = tokio::select! {
                biased;
                told = self.watch_leader() => told,
                // This member leads now, or the oracle is gone.
                led = leads.wait_for(|follows| !follows.is_following) => {
                    if led.is_err() { return }
                    continue;
                }
            };
            self.tell(told);
            let _ = self.wake.try_send(Signal::Wakeup);
            // Starts over with the next denial, or with the next stay as a follower.
            let next = |follows: &Follows| !follows.is_following || follows.denials != denials;
            if self.follows.wait_for(next).await.is_err() {
                return;
            }
        }
    }

    /// Looks for the leader's actor and then at it, until the seat is to be claimed.
    async fn watch_leader(&self) -> MonitorEvent {
        let clock = self.registry.clock().clone();
        let mut begun = clock.now();
        let mut retry = 0;
        loop {
            if let Some(leader) = self.leader() {
                self.tell(MonitorEvent::Started { leader: leader.clone() });
                if self.is_gone(&leader).await {
                    return MonitorEvent::LeaderDown { leader };
                }
                (begun, retry) = (clock.now(), 0); // not known, because this node itself is cut off
            }
            let elapsed = clock.now().since(begun);
            if elapsed >= self.settings.timeout {
                return MonitorEvent::Timeout { elapsed };
            }
            retry += 1;
            let remaining = self.settings.timeout.saturating_sub(elapsed);
            self.tell(MonitorEvent::Failed { retry, remaining });
            clock.sleep_until(clock.now() + self.settings.delay.min(remaining)).await;
        }
    }

    fn tell(&self, event: MonitorEvent) {
        let _ = callsign_store::supervision::foreign("an observer of a leader", || (self.observer)(event));
    }

    /// The actor, if it is there to be seen.
    fn leader(&self) -> Option<Entry> {
        self.registry.lookup(&self.name).ok().flatten().filter(|entry| self.is_linked(entry))
    }

    fn is_linked(&self, entry: &Entry) -> bool {
        let status = self.registry.shared.status.load();
        status.members.iter().any(|member| member.node == entry.node && member.linked)
    }

    /// Waits until the actor is gone. `false`: it is not known any more.
    async fn is_gone(&self, leader: &Entry) -> bool {
        loop {
            let changed = self.registry.changed();
            match self.registry.lookup(&self.name) {
                Ok(Some(entry)) if entry.token == leader.token && self.is_linked(&entry) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use callsign_election::{Denial, Refusal};

    use super::*;
    use crate::tests::driver::{Cluster, until};

    /// Is asked for nothing, and says no by itself.
    struct Denies;

    impl Oracle for Denies {
        type Fence = ();
        type Info = ();

        async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
            panic!("nobody claims")
        }

        async fn refresh(&mut self, _: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
            panic!("nobody holds anything")
        }

        async fn handle_info(&mut self, (): ()) -> Reaction<()> {
            Reaction::Verdict(Verdict::Denied(Denial { why: Refusal::Held, leader: None, retry_in: None }))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_denial_that_nobody_asked_for_starts_the_monitor_too_which_ends_with_its_listener() {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let looks = Arc::new(AtomicUsize::new(0));
        let seen = looks.clone();
        let monitored = Monitored::new(Denies, &node, "reports", MonitorSettings::default()).unwrap();
        let mut monitored = monitored.observed_by(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
        });
        let signals = monitored.signals();
        assert!(monitored.follows.receiver_count() > 0, "the monitor waits for a denial");
        assert!(matches!(monitored.handle_info(()).await, Reaction::Verdict(_)));
        until("the leader is looked for", || looks.load(Ordering::SeqCst) > 0).await;
        drop(signals);
        until("the monitor has ended", || monitored.follows.receiver_count() == 0).await;
    }
}
