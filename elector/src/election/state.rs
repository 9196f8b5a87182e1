//! The durable state of an election, and what a command makes of it.
//!
//! Takes as given that commands are applied one at a time to the state as it is stored, and that the [`Evidence`] is
//! true: whoever has it saw it, or has a clock that all share.
//!
//! Promises: ballots only grow, by one with everything that happens to the seat; at most one holder per epoch; only the
//! holder's own incarnation, in its own term, refreshes and resigns it; a command that is refused changes nothing.
//!
//! Pure: the same state, evidence and command give the same result. There is no clock here, only ages.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    config::{ElectionConfig, Invalid, MAX_TAGS},
    policy::Standing,
    term::{AuthorityTime, Fence, Term},
};
use crate::{
    ids::{Ballot, Beat, Epoch, Incarnation, MemberId, Nonce, Seniority, Tag},
    record::{CorruptRecord, Record},
};

mod candidates;
mod seat;

/// How many ballots are promised ahead, so that the seat's record may be lost and no ballot is given out twice.
pub const RESERVE: u64 = 1 << 32;

/// Who has the seat, and under what terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The member.
    pub member: MemberId,
    /// The incarnation that won.
    pub incarnation: Incarnation,
    /// The attempt that won: by it a claim is recognised whose answer was lost.
    pub nonce: Nonce,
    /// Its priority, as of its last heartbeat.
    pub priority: u32,
    /// Its seniority.
    pub seniority: Seniority,
    /// What it has.
    pub tags: BTreeSet<Tag>,
    /// How long the term stands without a refresh. Whatever others are configured with.
    pub lease: Duration,
    /// How much longer the seat stays empty, if it was not given back.
    pub lock_delay: Duration,
    /// When it won.
    pub elected_at: AuthorityTime,
}

/// The seat. No value is written twice while it is held by one member and then by another: every win, refresh and
/// vacancy moves the ballot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seat {
    /// Moves with everything that happens to the seat. Never reset.
    pub ballot: Ballot,
    /// The ballot at which the seat was last won or fell vacant.
    pub epoch: Epoch,
    /// Who has it.
    pub holder: Option<Holder>,
    /// How long a vacant seat must be seen vacant before it may be taken. Zero after a resignation.
    pub wait: Duration,
}

impl Record for Seat {
    fn from_value(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let seat: Self = crate::record::decode(bytes)?;
        if seat.epoch.0 > seat.ballot.0 {
            return Err(CorruptRecord::Malformed("an epoch above its ballot".to_owned()));
        }
        Ok(seat)
    }
}

impl Seat {
    /// The term that is written, whether or not its lease is over.
    pub fn term(&self) -> Option<Term> {
        self.holder.as_ref().map(|holder| Term {
            leader: holder.member.clone(),
            incarnation: holder.incarnation,
            epoch: self.epoch,
            elected_at: holder.elected_at,
        })
    }

    /// The token of the last win or refresh.
    pub fn fence(&self) -> Fence {
        Fence { epoch: self.epoch, ballot: self.ballot }
    }

    /// Whether this incarnation has it.
    pub fn is_held_by(&self, member: &MemberId, incarnation: Incarnation) -> bool {
        self.holder.as_ref().is_some_and(|h| h.member == *member && h.incarnation == incarnation)
    }
}

/// How the election is run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Control {
    /// Its configuration.
    pub config: ElectionConfig,
    /// Whether it takes claims.
    pub enabled: bool,
    /// The epoch whose leader is asked to resign.
    pub request: Option<Epoch>,
    /// No ballot up to this one is given out again if the seat's record is lost.
    pub reserved: Ballot,
    /// Moves with every change of this record, so that a change left unknown cannot land behind a later one.
    pub revision: u64,
}
impl Record for Control {}

/// A candidate's row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Row {
    /// The incarnation that registered.
    pub incarnation: Incarnation,
    /// Greater is preferred, by policies that look at it.
    pub priority: u32,
    /// When it registered.
    pub seniority: Seniority,
    /// What it has.
    pub tags: BTreeSet<Tag>,
    /// How long it counts as alive without a heartbeat.
    pub timeout: Duration,
    /// Moves with every heartbeat.
    pub beat: Beat,
    /// The authority's time shortly before its last heartbeat.
    pub seen: AuthorityTime,
}
impl Record for Row {}

/// The last seniority given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Count(pub Seniority);
impl Record for Count {}

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

/// What becomes of a holder when its election is disabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Disable {
    /// It is refused its next refresh, and stops in good order.
    #[default]
    Drain,
    /// Its term is over at once.
    Stop,
}

/// A candidate as it registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Who.
    pub member: MemberId,
    /// Its incarnation: fresh for each start.
    pub incarnation: Incarnation,
    /// Greater is preferred, by policies that look at it.
    pub priority: u32,
    /// What it has that an election may ask for.
    pub tags: BTreeSet<Tag>,
}

/// One incarnation of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// The member.
    pub member: MemberId,
    /// Its incarnation: what it says of another one is stale.
    pub incarnation: Incarnation,
}

/// What may be done to an election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Writes the configuration, if there is none.
    Initialise(ElectionConfig),
    /// Replaces the configuration.
    Configure(ElectionConfig),
    /// Takes claims again.
    Enable,
    /// Takes none any more.
    Disable(Disable),
    /// Registers. The same incarnation keeps its seniority; another gets a new one.
    Join(Registration),
    /// Removes its own registration, and gives its term back.
    Leave(Who),
    /// Removes an incarnation that is known to be dead, and ends its term.
    Down(Who),
    /// Says that it lives, and what its priority is now.
    Beat {
        /// Who.
        who: Who,
        /// Its new priority; `None` leaves it.
        priority: Option<u32>,
    },
    /// Asks for the seat.
    Claim {
        /// Who.
        who: Who,
        /// By which the attempt is recognised when it is made again.
        nonce: Nonce,
    },
    /// Asks to keep it.
    Refresh {
        /// Who.
        who: Who,
        /// The term that is to go on.
        epoch: Epoch,
    },
    /// Gives it back.
    Resign {
        /// Who.
        who: Who,
        /// The term that is given back.
        epoch: Epoch,
    },
    /// Asks the leader of this epoch, or whoever leads, to resign.
    RequestResign {
        /// The epoch that is meant.
        epoch: Option<Epoch>,
    },
    /// Removes candidates that were silent for too long, at most so many.
    Evict {
        /// The most that go at once.
        most: usize,
    },
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// There was no configuration; now there is.
    Initialised,
    /// The configuration was replaced.
    Configured,
    /// The election takes claims again.
    Enabled,
    /// It takes none any more.
    Disabled,
    /// A candidate registered, or was registered already.
    Joined {
        /// Its seniority.
        seniority: Seniority,
    },
    /// A candidate is gone: it left, or was called down.
    Left,
    /// A candidate was heard.
    Heard,
    /// A term began.
    Elected {
        /// The term.
        term: Term,
        /// Its token.
        fence: Fence,
    },
    /// A term goes on.
    Refreshed {
        /// The term.
        term: Term,
        /// Its new token.
        fence: Fence,
    },
    /// A term is over.
    Vacated {
        /// The term.
        was: Term,
    },
    /// The leader of the epoch is asked to resign.
    Asked {
        /// The epoch.
        epoch: Epoch,
    },
    /// A silent candidate was removed.
    Evicted(MemberId),
    /// Nothing: what was to be changed is not there, or is so already.
    Nothing,
    /// Nothing, because it may not be.
    Refused(Refused),
}

/// Why a command may not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// Nobody has initialised the election.
    NotInitialized,
    /// It is disabled.
    Disabled,
    /// The candidate is not registered.
    Unregistered,
    /// Another incarnation is registered under its id, or has the seat.
    DuplicateIdentity,
    /// It must not be elected.
    Ineligible,
    /// Another candidate comes before it.
    Outranked,
    /// Somebody has the seat.
    Held,
    /// The seat may be taken only later.
    TooEarly {
        /// How much later.
        wait: Duration,
    },
    /// The term is over.
    TermOver,
    /// A counter is at its end.
    Exhausted,
    /// What was asked for cannot work.
    Invalid(Invalid),
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
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
                let config = config.clone();
                self.rewrite(|control| control.config = config)?;
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
            Command::Refresh { who, epoch } => self.refresh(evidence, who, *epoch, effects),
            Command::Resign { who, epoch } => self.resign(who, *epoch, effects),
            Command::RequestResign { epoch } => self.request_resign(*epoch, effects),
            Command::Evict { most } => self.evict(evidence, *most, effects),
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
        self.control =
            Some(Control { config: config.clone(), enabled: true, request: None, reserved, revision: 1 });
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
            self.rewrite(|control| control.request = Some(asked))?;
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

impl Row {
    fn standing(&self, member: &MemberId, requires: Option<&Tag>) -> Standing {
        Standing {
            member: member.clone(),
            incarnation: self.incarnation,
            priority: self.priority,
            seniority: self.seniority,
            qualified: requires.is_none_or(|tag| self.tags.contains(tag)),
        }
    }
}

impl Holder {
    fn standing(&self, requires: Option<&Tag>) -> Standing {
        Standing {
            member: self.member.clone(),
            incarnation: self.incarnation,
            priority: self.priority,
            seniority: self.seniority,
            qualified: requires.is_none_or(|tag| self.tags.contains(tag)),
        }
    }

    /// How long nobody may follow a holder that is deposed: where sinks check no fence, until its lease would have
    /// ended, and the delay after it.
    fn wait_when_deposed(&self) -> Duration {
        if self.lock_delay.is_zero() { Duration::ZERO } else { self.lease.saturating_add(self.lock_delay) }
    }
}

fn check_tags(tags: &BTreeSet<Tag>) -> Result<(), Invalid> {
    if tags.len() > MAX_TAGS {
        return Err(Invalid::TooMany { what: "tags", count: tags.len(), most: MAX_TAGS });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
