//! The durable state of an election, and what a command makes of it.
//!
//! Takes as given that commands are applied one at a time to the state as it is stored, and that the [`Evidence`] is
//! true: whoever has it saw it, or has a clock that all share.
//!
//! Promises: ballots only grow, by one with everything that happens to the seat; at most one holder per epoch; only the
//! holder's own incarnation, in its own term, refreshes and resigns it; a command that is refused changes nothing.
//!
//! Pure: the same state, evidence and command give the same result. There is no clock here, only ages.

use std::{collections::BTreeMap, time::Duration};

use callsign_store::ids::{Ballot, Epoch, MemberId};

use super::{config::ElectionConfig, term::AuthorityTime};

mod candidates;
mod command;
mod records;
mod seat;

pub use command::{Candidate, Command, Disable, Effect, Refused, SWEPT_AFTER, Who};
pub use records::{Control, Count, Holder, RESERVE, Row, Seat};

/// The durable state of an election, or the part of it that a command needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElectionState {
    /// The seat. `None`: its record was never written, or was lost.
    pub seat: Option<Seat>,
    /// How the election is run. `None`: it was never initialised.
    pub control: Option<Control>,
    /// The candidates. A command about one member looks at no other's row, unless the policy ranks them all.
    pub candidates: BTreeMap<MemberId, Row>,
    /// The last seniority given out.
    pub count: Count,
}

/// How long something has stood as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Age {
    /// At least so long: for whoever wants to replace it.
    pub at_least: Duration,
    /// At most so long: for whoever wants to go on with it. `None`: it may be as old as it likes.
    pub at_most: Option<Duration>,
}

impl Age {
    /// An age that is known. An authority with a clock has only these.
    pub fn exactly(age: Duration) -> Self {
        Self { at_least: age, at_most: Some(age) }
    }
}

/// What is known beside the state. All of it is about the state as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// The authority's time: stamped on what is decided now.
    pub at: AuthorityTime,
    /// How long the seat has stood unchanged.
    pub seat: Age,
    /// How long, at least, the present epoch has stood.
    pub epoch: Duration,
    /// How long, at least, the request to resign has stood.
    pub request: Duration,
    /// How long, at least, the member that commands has been registered.
    pub registered: Duration,
    /// How long, at least, candidates' rows have stood unchanged. Those that are not named are not known to be silent.
    pub silent: BTreeMap<MemberId, Duration>,
}

impl ElectionState {
    /// Applies one command. What is refused changes nothing, except that a claim may ask or depose a holder whom it may
    /// not follow at once.
    pub fn apply(&mut self, evidence: &Evidence, command: &Command) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Err(refused) = self.carry_out(evidence, command, &mut effects) {
            effects.push(Effect::Refused(refused));
        }
        effects
    }

    fn carry_out(
        &mut self,
        evidence: &Evidence,
        command: &Command,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        match command {
            Command::Initialise(config) => self.initialise(config, effects),
            Command::Configure(config) => {
                config.validate()?;
                let control = self.control()?;
                if control.config == *config {
                    effects.push(Effect::Nothing);
                    return Ok(());
                }
                // Whoever had a seat whose record is lost believes in it for as long as was configured then.
                let wait = control.config.lease.saturating_add(control.config.lock_delay);
                let lost = if self.seat.is_none() { Some(self.next_ballot()?) } else { None };
                let config = config.clone();
                self.rewrite(|control| control.config = config)?;
                if let Some(ballot) = lost {
                    self.seat = Some(Seat { ballot, epoch: Epoch(ballot.0), holder: None, wait, heir: None });
                }
                effects.push(Effect::Configured);
                Ok(())
            }
            Command::Enable => {
                if self.control()?.enabled {
                    effects.push(Effect::Nothing);
                    return Ok(());
                }
                self.rewrite(|control| control.enabled = true)?;
                effects.push(Effect::Enabled);
                Ok(())
            }
            Command::Disable(how) => self.disable(*how, effects),
            Command::Join(registration) => self.join(evidence, registration, effects),
            Command::Leave(who) => self.remove(who, |_| Duration::ZERO, effects),
            Command::Down(who) => self.remove(who, Holder::wait_when_deposed, effects),
            Command::Beat { who, priority } => self.beat(evidence, who, *priority, effects),
            Command::Claim { who, nonce } => self.claim(evidence, who, *nonce, effects),
            Command::Refresh { who, epoch, trusted } => {
                self.refresh(evidence, who, *epoch, *trusted, effects)
            }
            Command::Resign { who, epoch } => self.resign(who, *epoch, effects),
            Command::RequestResign { epoch } => self.request_resign(*epoch, effects),
            Command::Evict { most } => self.evict(evidence, *most, effects),
            Command::Sweep { who, epoch, watched, most } => {
                self.sweep(evidence, (who, *epoch), *watched, *most, effects)
            }
        }
    }

    fn initialise(&mut self, config: &ElectionConfig, effects: &mut Vec<Effect>) -> Result<(), Refused> {
        config.validate()?;
        if self.control.is_some() {
            effects.push(Effect::Nothing);
            return Ok(());
        }
        let seat = self.seat.get_or_insert_default();
        let reserved = Ballot(seat.ballot.0.saturating_add(RESERVE));
        self.control = Some(Control {
            config: config.clone(),
            enabled: true,
            request: None,
            heir: None,
            reserved,
            revision: 1,
        });
        effects.push(Effect::Initialised);
        Ok(())
    }

    fn disable(&mut self, how: Disable, effects: &mut Vec<Effect>) -> Result<(), Refused> {
        let was_enabled = self.control()?.enabled;
        if how == Disable::Stop {
            self.depose(Holder::wait_when_deposed, effects)?;
        }
        if was_enabled {
            self.rewrite(|control| control.enabled = false)?;
            effects.push(Effect::Disabled);
        } else if effects.is_empty() {
            effects.push(Effect::Nothing);
        }
        Ok(())
    }

    fn request_resign(&mut self, epoch: Option<Epoch>, effects: &mut Vec<Effect>) -> Result<(), Refused> {
        let already = self.control()?.request;
        let leading = self.seat.as_ref().filter(|seat| seat.holder.is_some()).map(|seat| seat.epoch);
        let Some(asked) = leading.filter(|leading| epoch.is_none_or(|epoch| epoch == *leading)) else {
            effects.push(Effect::Nothing);
            return Ok(());
        };
        if already != Some(asked) {
            self.rewrite(|control| (control.request, control.heir) = (Some(asked), None))?;
        }
        effects.push(Effect::Asked { epoch: asked });
        Ok(())
    }

    fn control(&self) -> Result<&Control, Refused> {
        self.control.as_ref().ok_or(Refused::NotInitialized)
    }

    fn enabled(&self) -> Result<&Control, Refused> {
        self.control().and_then(|control| if control.enabled { Ok(control) } else { Err(Refused::Disabled) })
    }

    fn rewrite(&mut self, change: impl FnOnce(&mut Control)) -> Result<(), Refused> {
        let control = self.control.as_mut().ok_or(Refused::NotInitialized)?;
        control.revision = control.revision.checked_add(1).ok_or(Refused::Exhausted)?;
        change(control);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
