//! What operations did to an election, for people and metrics.
//!
//! The authority is a record in a store and says nothing; whoever changes it does. So each change is told by one process, the
//! one whose transaction brought it. Of a transaction whose outcome it never heard, it tells what it finds in the records
//! when it tries again: that it was elected, that it is registered. That something is *not* there any more may be
//! somebody else's doing, and is told by nobody; nor is what lands after its caller has given up for good.

use callsign_store::ids::{Ballot, Epoch, Incarnation, MemberId, Seniority};

use crate::core::{
    state::{Command, Effect, ElectionState, Evidence, Refused, Seat, Who},
    term::Term,
};

/// Something happened to an election. Each is reported once, in order, to `tracing`, target `callsign::election`, by the
/// process that did it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LeaseEvent {
    /// Whom it is about; nobody, if it is about the election.
    pub member: Option<MemberId>,
    /// Its incarnation.
    pub incarnation: Option<Incarnation>,
    /// The seat's epoch, after what happened.
    pub epoch: Option<Epoch>,
    /// The seat's last ballot.
    pub ballot: Option<Ballot>,
    /// Who has the seat then.
    pub leader: Option<MemberId>,
    /// What happened.
    pub what: LeaseEventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseEventKind {
    /// The election got its first configuration.
    Initialised,
    /// Its configuration was replaced.
    ConfigChanged,
    /// It takes claims again.
    Enabled,
    /// It takes none any more.
    Disabled,
    /// The member registered, or changed its registration.
    Joined {
        /// Its seniority.
        seniority: Seniority,
    },
    /// The member removed its registration.
    Left,
    /// The member was called dead, and removed.
    DownApplied,
    /// The member was called dead in an incarnation that is not registered: nothing was done.
    DownStale,
    /// Candidates were silent for too long, and were removed.
    Evicted {
        /// Who, in the order of their names.
        members: Vec<MemberId>,
    },
    /// The leader was asked to resign.
    ResignRequested {
        /// Its epoch.
        epoch: Epoch,
    },
    /// The member has the seat.
    Elected,
    /// The member's term is over: given back, lapsed, or ended from outside.
    Vacated {
        /// The term.
        was: Term,
    },
    /// The member's term is over: somebody comes before it.
    Preempted {
        /// The term.
        was: Term,
        /// Who.
        by: MemberId,
    },
    /// The member asked for something that may not be.
    Refused {
        /// Why.
        why: Refused,
    },
}

impl LeaseEventKind {
    /// The event's name, as in `election.elected`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Initialised => "election.initialised",
            Self::ConfigChanged => "election.config_changed",
            Self::Enabled => "election.enabled",
            Self::Disabled => "election.disabled",
            Self::Joined { .. } => "election.joined",
            Self::Left => "election.left",
            Self::DownApplied => "election.down_applied",
            Self::DownStale => "election.down_stale",
            Self::Evicted { .. } => "election.evicted",
            Self::ResignRequested { .. } => "election.resign_requested",
            Self::Elected => "election.elected",
            Self::Vacated { .. } => "election.vacated",
            Self::Preempted { .. } => "election.preempted",
            Self::Refused { .. } => "election.refused",
        }
    }

    /// Whether it happens all the time, and changed nothing.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::DownStale)
    }
}

/// An operation that is over, and what it was decided on.
pub(super) struct Over<'a> {
    /// The state that the commands found.
    pub(super) before: &'a ElectionState,
    /// The state after them.
    pub(super) after: &'a ElectionState,
    /// What was known.
    pub(super) evidence: &'a Evidence,
    /// The term that this process knew to have.
    pub(super) held: Option<Epoch>,
    /// Whether they changed anything, or may have done so when they were tried before.
    pub(super) changed: bool,
}

impl Over<'_> {
    /// What came of the commands.
    pub(super) fn events(&self, commands: &[Command], effects: &[Vec<Effect>]) -> Vec<LeaseEvent> {
        let mut events = Vec::new();
        for (command, effects) in commands.iter().zip(effects) {
            let told = effects.iter().filter_map(|effect| self.event(command, effect));
            events.extend(told.filter(|event| self.changed || event.what.is_idle()));
            let evicted = |effect: &Effect| match effect {
                Effect::Evicted(member) => Some(member.clone()),
                _ => None,
            };
            let members: Vec<_> = effects.iter().filter_map(evicted).collect();
            if !members.is_empty() {
                events.push(self.about(None, LeaseEventKind::Evicted { members }));
            }
        }
        events
    }

    fn event(&self, command: &Command, effect: &Effect) -> Option<LeaseEvent> {
        let who = command.commander();
        match effect {
            Effect::Initialised => Some(self.about(None, LeaseEventKind::Initialised)),
            Effect::Configured => Some(self.about(None, LeaseEventKind::ConfigChanged)),
            Effect::Enabled => Some(self.about(None, LeaseEventKind::Enabled)),
            Effect::Disabled => Some(self.about(None, LeaseEventKind::Disabled)),
            Effect::Joined { seniority } => {
                Some(self.about(who, LeaseEventKind::Joined { seniority: *seniority }))
            }
            Effect::Left if matches!(command, Command::Down(_)) => {
                Some(self.about(who, LeaseEventKind::DownApplied))
            }
            Effect::Left => Some(self.about(who, LeaseEventKind::Left)),
            Effect::Nothing if matches!(command, Command::Down(_)) => {
                // It may be what an earlier try of the same command did.
                (!self.changed).then(|| self.about(who, LeaseEventKind::DownStale))
            }
            Effect::Asked { epoch } => {
                let asked = self.before.seat.as_ref().and_then(Seat::term);
                Some(
                    self.about(asked.as_ref().map(holder), LeaseEventKind::ResignRequested { epoch: *epoch }),
                )
            }
            Effect::Elected { term, .. } => Some(self.about(Some(holder(term)), LeaseEventKind::Elected)),
            // A claim finds its own term there: it won it in an attempt of which it heard nothing.
            Effect::Refreshed { term, .. } if matches!(command, Command::Claim { .. }) => (self.held
                != Some(term.epoch))
            .then(|| self.about(Some(holder(term)), LeaseEventKind::Elected)),
            Effect::Vacated { was } => Some(self.about(Some(holder(was)), self.end(command, was))),
            Effect::Refused(why) => Some(self.about(who, LeaseEventKind::Refused { why: why.clone() })),
            Effect::Refreshed { .. } | Effect::HeartbeatSeen | Effect::Evicted(_) | Effect::Nothing => None,
        }
    }

    /// How a term ended.
    fn end(&self, command: &Command, was: &Term) -> LeaseEventKind {
        let lease = self.before.seat.as_ref().and_then(|seat| Some(seat.holder.as_ref()?.lease));
        let stood = lease.is_some_and(|lease| self.evidence.seat.at_least < lease);
        match command {
            Command::Claim { who, .. } if stood && *who != holder(was) => {
                LeaseEventKind::Preempted { was: was.clone(), by: who.member.clone() }
            }
            _ => LeaseEventKind::Vacated { was: was.clone() },
        }
    }

    fn about(&self, who: Option<Who>, what: LeaseEventKind) -> LeaseEvent {
        let seat = self.after.seat.as_ref();
        let (member, incarnation) = who.map(|who| (who.member, who.incarnation)).unzip();
        let leader = seat.and_then(|seat| Some(seat.holder.as_ref()?.member.clone()));
        let (epoch, ballot) = seat.map(|seat| (seat.epoch, seat.ballot)).unzip();
        LeaseEvent { member, incarnation, epoch, ballot, leader, what }
    }
}

fn holder(term: &Term) -> Who {
    Who { member: term.leader.clone(), incarnation: term.incarnation }
}
