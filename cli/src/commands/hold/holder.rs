//! Registers the name, and has the program run while it is held.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Result;
use callsign::{RegisterError, RegisterOptions, Registration, Registry, UntilError, in_full};
use callsign_store::time::Time;
use ractor::ActorRef;
use tokio::sync::{Notify, watch};

use super::{Args, Wanted, holding::Holding};
use crate::{
    echo::Echo,
    program::{Ends, OnExit, Outcome, Plan, Restarts, Shift, status_of},
    service,
    usage::Usage,
};

/// How long to wait before what was not answered is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long one wait for the end of another holder is.
const LOOK_AT_HOLDER: Duration = Duration::from_secs(60);
/// How long one wait for the registry to serve is, before it is said that it does not.
const SERVES: Duration = Duration::from_secs(10);

/// Why the program does not run any more.
pub(super) enum End {
    /// The command was told so.
    Told,
    /// It has ended by itself.
    Program(ExitCode),
    /// The node has failed, and said so.
    Node,
    /// Another one holds the name.
    Taken,
}

/// Holds the name, and has the program run while it does.
pub(super) struct Holder<'a> {
    pub(super) args: &'a Args,
    pub(super) wanted: &'a Wanted,
    pub(super) plan: Arc<Plan>,
    pub(super) registry: Registry,
    /// What answers `callsign call`: the program takes no messages.
    pub(super) actor: ActorRef<Echo>,
    pub(super) told: Arc<Notify>,
    pub(super) hurry: watch::Sender<bool>,
}

impl Holder<'_> {
    pub(super) async fn until_the_end(&mut self, signals: &mut Ends) -> Result<End> {
        loop {
            let registration = tokio::select! {
                biased;
                registration = self.obtain() => registration?,
                failure = self.registry.failed() => return Ok(self.failed(failure)),
                signal = signals.next() => {
                    self.plan.say.line(format_args!("{signal}: stops, the program does not run here"));
                    return Ok(End::Told);
                }
            };
            let Some(registration) = registration else { return Ok(End::Taken) };
            if let Some(end) = self.run_under(registration, signals).await {
                return Ok(end);
            }
        }
    }

    fn failed(&self, failure: impl std::fmt::Display) -> End {
        self.plan.say.line(format_args!("the node has failed: {failure}"));
        End::Node
    }

    /// Registers the name. `None`: another one holds it, and is not waited for.
    async fn obtain(&self) -> Result<Option<Registration>> {
        let say = &self.plan.say;
        let mut said = String::new();
        let mut say_once = |what: String| {
            if said != what {
                say.line(&what);
                said = what;
            }
        };
        loop {
            if let Err(why) = self.registry.ready(SERVES).await {
                say_once(format!("waits for the registry: {}", in_full(&why)));
                tokio::time::sleep(ASK_AGAIN).await;
                continue;
            }
            let error = match self.register().await {
                Ok(registration) => {
                    service::is_ready("holds the name");
                    return Ok(Some(registration));
                }
                Err(error) => error,
            };
            match &error {
                RegisterError::Taken { .. } if self.args.wait => {
                    say_once(format!("waiting: {}", in_full(&error)));
                    service::is_ready("waits for the name");
                    // Others may wait for it, too, so it is asked for again.
                    while let Err(UntilError::TimedOut { .. }) =
                        self.registry.until_gone(&self.args.name, LOOK_AT_HOLDER).await
                    {}
                }
                RegisterError::NotPermitted { .. } if self.args.wait => {
                    say_once(format!("{}; waits for another certificate", in_full(&error)));
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                RegisterError::Taken { .. } | RegisterError::NotPermitted { .. } => {
                    say_once(in_full(&error).to_string());
                    return Ok(None);
                }
                RegisterError::BadName(_) => return Err(Usage::because(error).into()),
                RegisterError::Left | RegisterError::Failed(_) => return Err(error.into()),
                // Asking again is for the same actor, and finds out what became of it.
                _ => {
                    say_once(format!("{}; tries again", in_full(&error)));
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    async fn register(&self) -> Result<Registration, RegisterError> {
        let told = self.told.clone();
        let options = RegisterOptions::default().tell(move |_| told.notify_waiters());
        let options = match &self.wanted.meta {
            Some(meta) => options.meta(meta.clone()),
            None => options,
        };
        self.registry.register_with(&self.args.name, &self.actor, options).await
    }

    /// Has the program run while the name is held by this registration. `None`: that has ended.
    async fn run_under(&mut self, registration: Registration, signals: &mut Ends) -> Option<End> {
        let (say, clock) = (self.plan.say.clone(), self.registry.clock().clone());
        let holding = Holding {
            registration,
            node: self.wanted.node.clone(),
            clock: clock.clone(),
            stop_budget: self.wanted.stop_budget,
            look: (self.args.joining.lease / 20).min(ASK_AGAIN),
            told: self.told.clone(),
        };
        loop {
            tokio::select! {
                biased;
                () = holding.decided() => {}
                failure = self.registry.failed() => return Some(self.failed(failure)),
                signal = signals.next() => {
                    say.line(format_args!("{signal}: stops, the program does not run here"));
                    return Some(End::Told);
                }
            }
            if holding.has_ended() {
                say.line("the name is lost");
                return None;
            }
            let restarts = Restarts::new(OnExit::Stop);
            let (mut shift, _) = Shift::begin(Arc::clone(&self.plan), holding.clone(), restarts);
            let mut end = None;
            let mut is_lost = false;
            // From when it is told to end, however long it ran before.
            let mut kill_at = None;
            let outcome = loop {
                let is_stopping = end.is_some() || is_lost;
                tokio::select! {
                    biased;
                    outcome = shift.ended() => break outcome,
                    signal = signals.next() => {
                        if end.is_some() {
                            say.line(format_args!("{signal} again: the program is killed"));
                            self.hurry.send_replace(true);
                        } else {
                            say.line(format_args!("{signal}: stops"));
                            end = Some(End::Told);
                        }
                    }
                    failure = self.registry.failed(), if !is_stopping => end = Some(self.failed(failure)),
                    // It may be another's by now.
                    () = holding.ended(), if !is_lost => (is_lost, kill_at) = (true, Some(Time::ZERO)),
                }
                shift.stop(*kill_at.get_or_insert_with(|| clock.now() + self.plan.grace));
            };
            match (end, outcome.map(|(_, outcome)| outcome)) {
                (Some(end), _) => return Some(end),
                (None, Some(Outcome::Over(ended))) => return Some(End::Program(status_of(ended))),
                // One that panicked has dropped its guard, and with it the program.
                (None, Some(Outcome::Stopped | Outcome::GivenUp) | None) => {}
            }
        }
    }
}
