//! The role's task. A role that never answers, or blocks its thread, holds up nobody but itself.

use std::{
    collections::VecDeque,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use callsign_store::logged;
use futures::FutureExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::{
    core::{
        campaign::{Input, RunId},
        term::Term,
    },
    oracle::Grant,
    role::{Abort, Lost, Role},
};

/// What the role is told.
#[derive(Clone, Debug)]
pub(super) enum Play<F> {
    Activate { run: RunId, grant: Grant<F> },
    Deactivate { run: RunId, why: Lost, budget: Duration },
    Abort { run: RunId },
    Follow { leader: Option<Term> },
}

/// The role, and what it takes to talk to it.
pub(super) struct Playing<F, R>
where
    F: Clone + Send + Sync + 'static,
    R: Role<F>,
{
    role: R,
    inputs: UnboundedSender<Input<F>>,
    /// What it was told and has not begun with.
    waiting: VecDeque<Play<F>>,
    /// The run in which it may be doing something.
    busy: bool,
    fence: PhantomData<fn() -> F>,
}

/// Why something of the role came to no end of its own.
enum Cut {
    /// Something more urgent came.
    Interrupted,
    Panicked,
}

impl<F, R> Playing<F, R>
where
    F: Clone + Send + Sync + 'static,
    R: Role<F>,
{
    pub(super) fn new(role: R, inputs: UnboundedSender<Input<F>>) -> Self {
        Self { role, inputs, waiting: VecDeque::new(), busy: false, fence: PhantomData }
    }

    /// Until the loop has ended.
    pub(super) async fn run(mut self, mut plays: UnboundedReceiver<Play<F>>) {
        let mut active = None;
        loop {
            let Some(play) = self.next(&mut plays, &mut active).await else { break };
            match play {
                Play::Activate { run, grant } => {
                    self.busy = true;
                    let Self { role, waiting, .. } = &mut self;
                    let answer =
                        match cut(async { role.activate(&grant).await }, &mut plays, waiting, ends).await {
                            Ok(answer) => answer,
                            Err(Cut::Panicked) => Err(Abort("it panicked".to_owned())),
                            // Whoever interrupted does not wait for this answer.
                            Err(Cut::Interrupted) => continue,
                        };
                    if answer.is_ok() {
                        active = Some(run);
                    }
                    self.say(Input::Activated { run, answer });
                }
                Play::Deactivate { run, why, budget } => {
                    active = None;
                    let Self { role, waiting, .. } = &mut self;
                    match cut(async { role.deactivate(why, budget).await }, &mut plays, waiting, aborts).await
                    {
                        Ok(()) => {}
                        // It may have left something behind.
                        Err(Cut::Panicked) => self.abort(),
                        Err(Cut::Interrupted) => continue,
                    }
                    self.busy = false;
                    self.say(Input::Stopped { run });
                }
                Play::Abort { run } => {
                    active = None;
                    self.abort();
                    let Self { role, waiting, .. } = &mut self;
                    match cut(async { role.aborted().await }, &mut plays, waiting, |_| false).await {
                        Ok(()) | Err(Cut::Panicked) => self.say(Input::Aborted { run }),
                        // The loop has given up waiting for it.
                        Err(Cut::Interrupted) => {}
                    }
                }
                Play::Follow { leader } => {
                    let Self { role, waiting, .. } = &mut self;
                    // It has nothing to say.
                    let _ =
                        cut(async { role.follow(leader.as_ref()).await }, &mut plays, waiting, ends).await;
                }
            }
        }
    }

    /// What it is told next. Meanwhile, if it is active, it may end.
    async fn next(
        &mut self,
        plays: &mut UnboundedReceiver<Play<F>>,
        active: &mut Option<RunId>,
    ) -> Option<Play<F>> {
        loop {
            if let Some(play) = self.waiting.pop_front() {
                return Some(play);
            }
            let Some(run) = *active else { return plays.recv().await };
            let reason = tokio::select! {
                biased;
                play = plays.recv() => return play,
                ended = AssertUnwindSafe(async { self.role.ended().await }).catch_unwind() => match ended {
                    Ok(()) => "it ended",
                    Err(_) => "it panicked",
                },
            };
            *active = None;
            self.say(Input::Exited { run, reason: reason.to_owned() });
        }
    }

    fn abort(&mut self) {
        self.busy = false;
        if catch_unwind(AssertUnwindSafe(|| self.role.abort())).is_err() {
            logged!(error, target: "callsign::election", "a role panicked when it was aborted");
        }
    }

    fn say(&self, input: Input<F>) {
        // If the loop has ended, so does this.
        let _ = self.inputs.send(input);
    }
}

impl<F, R> Drop for Playing<F, R>
where
    F: Clone + Send + Sync + 'static,
    R: Role<F>,
{
    fn drop(&mut self) {
        if self.busy {
            // The campaign died while the role was at work.
            self.abort();
        }
    }
}

/// Ends whatever the role does for a term.
fn ends<F>(play: &Play<F>) -> bool {
    matches!(play, Play::Deactivate { .. } | Play::Abort { .. })
}

/// Ends also its stopping.
fn aborts<F>(play: &Play<F>) -> bool {
    matches!(play, Play::Abort { .. })
}

/// Lets the role do something, until it is done or something that `interrupts` comes. What comes meanwhile waits. Callers wrap
/// it into an async block, because what a role does before its first await may panic, too.
async fn cut<F, T>(
    doing: impl Future<Output = T>,
    plays: &mut UnboundedReceiver<Play<F>>,
    waiting: &mut VecDeque<Play<F>>,
    interrupts: fn(&Play<F>) -> bool,
) -> Result<T, Cut> {
    // It may have come before this began.
    if waiting.iter().any(interrupts) {
        return Err(Cut::Interrupted);
    }
    let mut doing = std::pin::pin!(AssertUnwindSafe(doing).catch_unwind());
    loop {
        let play = tokio::select! {
            biased;
            play = plays.recv() => play,
            done = &mut doing => return done.map_err(|_| Cut::Panicked),
        };
        // The loop has ended, of which `next` will hear, too.
        let Some(play) = play else { return Err(Cut::Interrupted) };
        let is_interrupted = interrupts(&play);
        put(waiting, play);
        if is_interrupted {
            return Err(Cut::Interrupted);
        }
    }
}

/// Only the last word about who leads counts. What is interrupted by something that waits behind it, `cut` does not begin.
fn put<F>(waiting: &mut VecDeque<Play<F>>, play: Play<F>) {
    if matches!(play, Play::Follow { .. }) {
        waiting.retain(|other| !matches!(other, Play::Follow { .. }));
    }
    waiting.push_back(play);
}
