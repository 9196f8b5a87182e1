//! What leading means: the program runs here.

use std::{sync::Arc, time::Duration};

use callsign_election::{Abort, Fence, Grant, Leadership, Lost, Role, Term, campaign::Until};
use callsign_store::{
    Clock,
    ids::{ElectionName, MemberId},
    time::Time,
};
use tokio::sync::mpsc;

use crate::{
    guard::{Ended, kill_descendants},
    program::{Allowed, Mandate, OnExit, Outcome, Plan, Restarts, Shift, grace},
};

/// A node's seat, which lets the program run while the node leads.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) leadership: Leadership<Fence>,
    pub(crate) singleton: ElectionName,
    pub(crate) member: MemberId,
}

impl Mandate for Seat {
    fn check(&self) -> Option<Allowed> {
        let fence = self.leadership.check().ok()?;
        let environment = vec![
            ("CALLSIGN_SINGLETON", self.singleton.to_string()),
            ("CALLSIGN_MEMBER", self.member.to_string()),
            ("CALLSIGN_EPOCH", fence.epoch.to_string()),
            ("CALLSIGN_BALLOT", fence.ballot.to_string()),
        ];
        Some(Allowed { in_words: format!("leads in epoch {}", fence.epoch), environment })
    }

    fn until(&self) -> Option<Time> {
        match self.leadership.until() {
            Some(Until::At(until)) => Some(until),
            _ => None,
        }
    }

    async fn changed(&mut self) {
        self.leadership.changed().await;
    }

    fn clock(&self) -> &Clock {
        self.leadership.clock()
    }

    fn not_extended(&self) -> &'static str {
        "the lease was not refreshed in time"
    }
}

/// Runs the program while this node leads.
pub(crate) struct Program {
    plan: Arc<Plan>,
    seat: Seat,
    restarts: Restarts,
    shift: Option<Shift>,
    /// Told how the program ended, if the command is to end with it.
    over: mpsc::UnboundedSender<Ended>,
}

impl Program {
    pub(crate) fn new(
        plan: Arc<Plan>,
        on_exit: OnExit,
        seat: Seat,
        over: mpsc::UnboundedSender<Ended>,
    ) -> Self {
        Self { plan, seat, restarts: Restarts::new(on_exit), shift: None, over }
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
        let (shift, started) = Shift::begin(Arc::clone(&self.plan), self.seat.clone(), self.restarts.clone());
        self.shift = Some(shift);
        if started.await.is_ok() {
            return Ok(());
        }
        self.end_of_shift().await;
        Err(Abort("the program was not started".to_owned()))
    }

    async fn deactivate(&mut self, _: Lost, budget: Duration) {
        if let Some(shift) = &self.shift {
            shift.stop(self.seat.clock().now() + grace(budget));
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
