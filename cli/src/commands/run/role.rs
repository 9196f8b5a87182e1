//! What leading means: the program runs here.

use std::{sync::Arc, time::Duration};

use callsign_election::{Abort, Fence, Grant, Leadership, Lost, Role, Term};
use tokio::sync::mpsc;

use super::{
    Plan,
    restarts::Restarts,
    shift::{Outcome, Shift},
};
use crate::guard::{Ended, kill_descendants};

/// Runs the program while this node leads.
pub(crate) struct Program {
    plan: Arc<Plan>,
    leadership: Leadership<Fence>,
    restarts: Restarts,
    shift: Option<Shift>,
    /// Told how the program ended, if the command is to end with it.
    over: mpsc::UnboundedSender<Ended>,
}

impl Program {
    pub(crate) fn new(
        plan: Arc<Plan>,
        leadership: Leadership<Fence>,
        over: mpsc::UnboundedSender<Ended>,
    ) -> Self {
        let restarts = Restarts::new(plan.on_exit);
        Self { plan, leadership, restarts, shift: None, over }
    }

    /// Waits for the end of the shift, and remembers what it says. `None`: there is no shift.
    async fn end_of_shift(&mut self) -> Option<Outcome> {
        let ended = self.shift.as_mut()?.ended().await;
        self.shift = None;
        // One that panicked has dropped its guard, and with it the program.
        let Some((restarts, outcome)) = ended else { return Some(Outcome::GivenUp) };
        self.restarts = restarts;
        Some(outcome)
    }
}

impl Role<Fence> for Program {
    async fn activate(&mut self, _: &Grant<Fence>) -> Result<(), Abort> {
        let (shift, started) =
            Shift::begin(Arc::clone(&self.plan), self.leadership.clone(), self.restarts.clone());
        self.shift = Some(shift);
        if started.await.is_ok() {
            return Ok(());
        }
        self.end_of_shift().await;
        Err(Abort("the program was not started".to_owned()))
    }

    async fn deactivate(&mut self, _: Lost, budget: Duration) {
        if let Some(shift) = &self.shift {
            shift.stop(self.leadership.clock().now() + super::grace(budget));
            self.end_of_shift().await;
        }
    }

    fn abort(&mut self) {
        if let Some(shift) = self.shift.take() {
            shift.abort();
        }
        // Also a guard that is stopped, and can do nothing itself.
        if let Err(error) = kill_descendants() {
            self.plan.say.line(format_args!("cannot kill the program: {error}"));
        }
    }

    async fn follow(&mut self, leader: Option<&Term>) {
        let who = leader.map(|term| format!("{} leads in epoch {}", term.leader, term.epoch));
        self.plan.say.line(format_args!("waiting: {}", who.as_deref().unwrap_or("nobody leads")));
    }

    async fn ended(&mut self) {
        match self.end_of_shift().await {
            Some(Outcome::Over(ended)) => {
                // The command stops the campaign then.
                let _ = self.over.send(ended);
                std::future::pending::<()>().await;
            }
            Some(Outcome::GivenUp) => {}
            // The campaign ends the term.
            Some(Outcome::Stopped) | None => std::future::pending().await,
        }
    }
}
