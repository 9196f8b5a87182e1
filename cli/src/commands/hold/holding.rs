//! A name that is held lets the program run.

use std::{sync::Arc, time::Duration};

use callsign::{NotHeld, Registration};
use callsign_store::{Clock, time::Time};
use tokio::sync::Notify;

use crate::program::{Allowed, Mandate};

/// A name, as its holder has it.
#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) registration: Registration,
    /// This node.
    pub(crate) node: String,
    pub(crate) clock: Clock,
    /// From the request to end until everybody of the program is killed. That has to happen while the name is trusted.
    pub(crate) stop_budget: Duration,
    /// How often trust is looked at, which each beat of the node extends.
    pub(crate) look: Duration,
    /// Rung when the holder is told of its name.
    pub(crate) told: Arc<Notify>,
}

impl Holding {
    /// Whether it never holds again.
    pub(crate) fn has_ended(&self) -> bool {
        self.registration.check() == Err(NotHeld::Ended)
    }

    /// Returns when it never holds again. May be dropped and called again.
    pub(crate) async fn ended(&self) {
        while !self.has_ended() {
            self.look_again().await;
        }
    }

    /// Returns when the program may run, or never may again.
    pub(crate) async fn decided(&self) {
        while self.check().is_none() && !self.has_ended() {
            self.look_again().await;
        }
    }

    async fn look_again(&self) {
        let _ = tokio::time::timeout(self.look, self.told.notified()).await;
    }
}

impl Mandate for Holding {
    fn check(&self) -> Option<Allowed> {
        // A program that would have no time to run is not started.
        self.until().filter(|until| *until > self.clock.now())?;
        let token = self.registration.token();
        let environment = vec![
            ("CALLSIGN_NAME", self.registration.name().to_owned()),
            ("CALLSIGN_MEMBER", self.node.clone()),
            ("CALLSIGN_TOKEN", token.to_string()),
        ];
        Some(Allowed { in_words: format!("holds the name, token {token}"), environment })
    }

    fn until(&self) -> Option<Time> {
        // Before what is left is asked for, which counts from then on.
        let now = self.clock.now();
        let left = self.registration.trusted_for().ok()?;
        Some(now + left.saturating_sub(self.stop_budget))
    }

    async fn changed(&mut self) {
        self.look_again().await;
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn not_extended(&self) -> &'static str {
        "the node's session was not renewed in time"
    }
}
