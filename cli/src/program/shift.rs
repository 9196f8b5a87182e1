//! The work under one mandate: runs of the program, one after the other, each under a guard of its own.

use std::{sync::Arc, time::Duration};

use callsign_store::time::Time;
use tokio::{
    sync::{oneshot, watch},
    task::{JoinHandle, spawn_blocking},
};

use super::{
    Allowed, Mandate, Plan,
    restarts::{MOST_RESTARTS, Next, RESTARTS_WITHIN, Restarts},
};
use crate::guard::{self, Ended, GuardHandle, GuardReport, Why};

/// Between the end of a program and its next start. A signal that ended it may be on its way to this process, too, and be
/// meant to stop all.
const BREATH: Duration = Duration::from_millis(100);
/// How long a guard that is done may take to end by itself.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long to wait for processes that were killed before it is said that they are still there.
const DYING: Duration = Duration::from_secs(1);

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was asked to, or the mandate is over.
    Stopped,
    /// The program has ended, and another node is to have it.
    GivenUp,
    /// The program has ended, and the command with it.
    Over(Ended),
}

/// The work under one mandate.
#[derive(Debug)]
pub(crate) struct Shift {
    /// When the program is killed, if it is to stop.
    stop: watch::Sender<Option<Time>>,
    work: JoinHandle<(Restarts, Outcome)>,
}

impl Shift {
    /// Begins, and says when the program has started for the first time. An answer that never comes: it did not.
    pub(crate) fn begin(
        plan: Arc<Plan>,
        mandate: impl Mandate,
        restarts: Restarts,
    ) -> (Self, oneshot::Receiver<()>) {
        let (stop, stopping) = watch::channel(None);
        let (started, has_started) = oneshot::channel();
        let worker = Worker { plan, mandate, restarts, stopping, started: Some(started) };
        (Self { stop, work: tokio::spawn(worker.work()) }, has_started)
    }

    /// Has the program stop, and killed at that time.
    pub(crate) fn stop(&self, kill_at: Time) {
        self.stop.send_replace(Some(kill_at));
    }

    /// Waits for the end of the work: nobody is left of the program then. May be dropped and called again, but not after
    /// it has answered. `None`: the work panicked.
    pub(crate) async fn ended(&mut self) -> Option<(Restarts, Outcome)> {
        (&mut self.work).await.ok()
    }

    /// Drops everything: the guard kills the program.
    pub(crate) fn abort(&self) {
        self.work.abort();
    }
}

struct Worker<M> {
    plan: Arc<Plan>,
    mandate: M,
    restarts: Restarts,
    stopping: watch::Receiver<Option<Time>>,
    started: Option<oneshot::Sender<()>>,
}

impl<M: Mandate> Worker<M> {
    async fn work(mut self) -> (Restarts, Outcome) {
        let outcome = self.runs().await;
        (self.restarts, outcome)
    }

    fn is_to_stop(&self) -> bool {
        self.stopping.borrow().is_some() || self.mandate.check().is_none()
    }

    async fn runs(&mut self) -> Outcome {
        // What a worker that was aborted may have left.
        self.wait_for_all(Duration::ZERO).await;
        let pause = self.restarts.pause();
        if !pause.is_zero() {
            self.plan.say.line(format_args!("the program failed here before: it starts in {pause:?}"));
            self.rest(pause).await;
        }
        loop {
            let Some(allowed) = self.mandate.check() else { return Outcome::Stopped };
            if self.is_to_stop() {
                return Outcome::Stopped;
            }
            let clock = self.mandate.clock().clone();
            let began = clock.now();
            let (ended, was_asked) = self.run(allowed).await;
            // Whatever ended it: without trust it is not started again.
            if self.is_to_stop() {
                return Outcome::Stopped;
            }
            if was_asked {
                // The guard had not heard yet that the trust goes on. That is no failure of the program.
                self.rest(BREATH).await;
                continue;
            }
            let now = clock.now();
            let next = self.restarts.ended(now, now.since(began));
            let how = in_words(ended);
            match next {
                Next::Restart(count) => {
                    let say = &self.plan.say;
                    say.line(format_args!(
                        "{how}: started again ({count} of {MOST_RESTARTS} times in {RESTARTS_WITHIN:?})"
                    ));
                    self.rest(BREATH).await;
                }
                Next::Release => {
                    self.plan.say.line(format_args!("{how}: another node may have it"));
                    return Outcome::GivenUp;
                }
                Next::Stop => {
                    self.plan.say.line(format_args!("{how}: so ends this command"));
                    return Outcome::Over(ended.unwrap_or(Ended::Exit(1)));
                }
            }
        }
    }

    /// Waits, but not if it is to stop.
    async fn rest(&mut self, pause: Duration) {
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            _ = self.stopping.wait_for(Option::is_some) => {}
        }
    }

    /// Runs the program once, until nobody is left of it. Says how it ended, and whether the guard had asked it to. `None`: it did
    /// not start, or nobody saw how it ended.
    async fn run(&mut self, allowed: Allowed) -> (Option<Ended>, bool) {
        let plan = Arc::clone(&self.plan);
        let mut handle = match GuardHandle::take(plan.of, &plan.command, plan.grace, allowed.environment) {
            Ok(handle) => handle,
            Err(error) => {
                plan.say.line(format_args!("no guard can be started: {error}"));
                return (None, false);
            }
        };
        let (mut hurry, mut is_hurried) = (plan.hurry.clone(), false);
        let mut signals = plan.handed_on.subscribe();
        self.extend(&handle);
        let (mut ended, mut was_asked) = (None, false);
        let last_words = loop {
            tokio::select! {
                biased;
                report = handle.report() => match report {
                    Some(GuardReport::Started(pid)) => {
                        plan.say.line(format_args!("{}, started as process {pid}", allowed.in_words));
                        self.started.take().map(|started| started.send(()));
                    }
                    Some(GuardReport::NotStarted(error)) => {
                        let error = std::io::Error::from_raw_os_error(error);
                        plan.say.line(format_args!("the program cannot be started: {error}"));
                    }
                    Some(GuardReport::Ending(Why::TrustEnded)) => {
                        was_asked = true;
                        let why = self.mandate.not_extended();
                        plan.say.line(format_args!("{why}: the program is asked to end (TERM)"));
                    }
                    Some(GuardReport::Ending(_)) => {
                        was_asked = true;
                        plan.say.line("the program is asked to end (TERM)");
                    }
                    Some(GuardReport::Ended(how)) => ended = Some(how),
                    Some(GuardReport::Gone) => break LAST_WORDS,
                    None => {
                        plan.say.line("the guard is gone: what it guarded is killed");
                        break Duration::ZERO;
                    }
                },
                () = self.mandate.changed() => self.extend(&handle),
                Ok(signal) = signals.recv() => handle.hand_on(signal),
                Ok(kill_at) = changed(&mut self.stopping) => handle.stop(kill_at),
                Ok(()) = hurried(&mut hurry), if !is_hurried => {
                    is_hurried = true;
                    handle.stop(Time::ZERO);
                }
            }
        };
        drop(handle);
        self.wait_for_all(last_words).await;
        (ended, was_asked)
    }

    fn extend(&self, handle: &GuardHandle) {
        if let Some(until) = self.mandate.until() {
            handle.trust(until);
        }
    }

    async fn wait_for_all(&self, mut last_words: Duration) {
        loop {
            let patience = last_words;
            let alone = spawn_blocking(move || guard::own_no_orphans(patience, DYING)).await;
            match alone {
                // Or the runtime ends, and with it everything.
                Ok(Ok(true)) | Err(_) => return,
                Ok(Ok(false)) => {
                    self.plan.say.line("a process of the program cannot be killed now: waiting for it");
                }
                Ok(Err(error)) => {
                    self.plan.say.line(format_args!("cannot see what is left of the program: {error}"));
                    tokio::time::sleep(DYING).await;
                }
            }
            last_words = Duration::ZERO;
        }
    }
}

/// The next time at which the program is killed.
async fn changed(stopping: &mut watch::Receiver<Option<Time>>) -> Result<Time, watch::error::RecvError> {
    loop {
        stopping.changed().await?;
        if let Some(kill_at) = *stopping.borrow_and_update() {
            return Ok(kill_at);
        }
    }
}

async fn hurried(hurry: &mut watch::Receiver<bool>) -> Result<(), watch::error::RecvError> {
    hurry.wait_for(|hurry| *hurry).await.map(|_| ())
}

fn in_words(ended: Option<Ended>) -> String {
    match ended {
        Some(Ended::Exit(status)) => format!("the program has ended, with exit status {status}"),
        Some(Ended::Signal(signal)) => format!("the program was ended by signal {signal}"),
        None => "the program is gone".to_owned(),
    }
}
