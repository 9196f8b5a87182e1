//! Watches everything that happens, and says what must not.
//!
//! It has a view of its own of what a lease is: true time, the records before and after each commit, and whose they are.

mod commits;
mod rest;
mod rows;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_election::{
    Denial, Fault, Fence, Grant, Lost, Refusal, Verdict,
    campaign::{CampaignEvent, CampaignEventKind, Transition, Until, Unusable, core::Input},
    lease,
    policy::Policy,
    state::{Control, Effect, Row, Seat},
};
use callsign_store::{
    ids::{Epoch, Incarnation, MemberId},
    record::Record,
    time::Time,
};

use super::{
    action::Slot,
    checks::{Check, ElectionCounts},
    process::{ElectionProcess, Subscriber},
    world::ElectionWorld,
};
use crate::world::Violation;

/// The records of the election, as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) seat: Option<Seat>,
    pub(super) control: Option<Control>,
    pub(super) rows: BTreeMap<MemberId, Row>,
}

/// Who wrote the seat last.
#[derive(Clone, Copy, Debug)]
struct LastWrite {
    at: Slot,
    incarnation: Incarnation,
    /// When its attempt began, by its own clock.
    started: Time,
}

/// Sees everything, and says what must not happen.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    sound_clocks: bool,
    violation: Option<Violation>,
    counts: ElectionCounts,
    /// The greatest ballot that was ever written.
    ballot: u64,
    /// The newest epoch in which somebody was elected.
    newest: u64,
    /// Who was elected in which epoch, and when.
    terms: BTreeMap<u64, (MemberId, Incarnation, Duration)>,
    /// Since when the seat's record is as it is.
    seat_since: Duration,
    last_write: Option<LastWrite>,
    /// Terms that were ended while they stood, as their policy or an administrator wants: they may overlap with the next.
    cut_short: BTreeSet<u64>,
    /// The last epoch that a candidate asked to end, because it is to follow, and that candidate's priority.
    asked_for: Option<(u64, u32)>,
    /// The priority of whoever the vacant seat was vacated for.
    vacated_for: Option<u32>,
    last_leader: Option<(MemberId, Incarnation)>,
    /// Whether all is at rest, and whoever leads is to stay.
    at_rest: bool,
    trusted_epochs: BTreeSet<u64>,
    /// The epochs of which somebody said that a leader was elected, and that they are over.
    told: [BTreeSet<u64>; 2],
    /// Since when each candidate's row is as it is, and the incarnations whose rows were swept.
    rows_since: BTreeMap<MemberId, Duration>,
    swept: BTreeSet<Incarnation>,
    /// Before the present input: the term that the process held, and whether it was trusted.
    held: Option<(Epoch, bool)>,
}

impl Judge {
    pub(super) fn new(sound_clocks: bool) -> Self {
        Self { sound_clocks, ..Self::default() }
    }

    /// What was found wrong first.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// How often each check was exercised.
    pub fn counts(&self) -> &ElectionCounts {
        &self.counts
    }

    /// From now on nothing is done to anybody: Inv14.
    pub fn expects_rest(&mut self) {
        self.at_rest = true;
    }

    /// All that later checks compare with; but for the age of rows: where this is asked for, they never grow old enough.
    pub(super) fn memory(&self) -> String {
        let Self { ballot, newest, terms, seat_since, last_write, cut_short, last_leader, .. } = self;
        let seat = (self.asked_for, self.vacated_for);
        format!(
            "{ballot} {newest} {terms:?} {seat_since:?} {last_write:?} {cut_short:?} {last_leader:?} {seat:?}"
        )
    }

    /// A check failed.
    pub fn fail(&mut self, check: Check, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { check: check.name(), what: what() });
        }
    }

    pub(super) fn met(&mut self, check: Check) {
        self.counts.add(check, 1);
    }

    /// Exercises a check.
    pub(super) fn hold(&mut self, check: Check, holds: bool, what: impl FnOnce() -> String) {
        self.counts.add(check, 1);
        if !holds {
            self.fail(check, what);
        }
    }

    #[allow(clippy::unused_self)] // it is the judge's view
    pub(super) fn records(&self, world: &ElectionWorld) -> Records {
        let keys = &world.setup.keys;
        let names = world.setup.members.iter().map(|seat| &seat.member);
        let rows = names.filter_map(|name| Some((name.clone(), read(world, &keys.candidate(name))?)));
        Records {
            seat: read(world, &keys.seat()),
            control: read(world, &keys.control()),
            rows: rows.collect(),
        }
    }

    pub(super) fn evicted(&mut self, effects: &[Vec<Effect>]) {
        if effects.iter().flatten().any(|effect| matches!(effect, Effect::Evicted(_))) {
            self.met(Check::Evicted);
        }
    }

    // ---- the sink

    pub(super) fn sink(&mut self, fence: Fence, greatest: u64, admitted: bool) {
        let epoch = fence.epoch.0;
        let newest = self.newest;
        self.hold(Check::Inv3, !admitted || epoch >= greatest, || {
            format!("the sink took epoch {epoch} after {greatest}")
        });
        self.hold(Check::Inv3, admitted || epoch < newest, || {
            format!("the sink refused epoch {epoch}, and there is none newer: it has seen {greatest}")
        });
        if !admitted {
            self.met(Check::StaleWrite);
        }
    }

    // ---- handles

    /// Inv6 and Inv9: at this instant.
    pub(super) fn look(&mut self, world: &ElectionWorld) {
        let mut saying: Vec<(Slot, u64)> = Vec::new();
        for at in world.slots() {
            let machine = &world.machines[usize::from(at)];
            let Some(process) = machine.process.as_ref().filter(|_| !machine.suspended) else { continue };
            if process.handle.is_none() {
                continue;
            }
            if let Some(grant) = process.check(world.local(at)) {
                saying.push((at, grant.term.epoch.0));
            }
        }
        if saying.len() < 2 {
            return;
        }
        let epochs: BTreeSet<u64> = saying.iter().map(|(_, epoch)| *epoch).collect();
        self.hold(Check::Inv9, epochs.len() == saying.len(), || format!("(machine, epoch): {saying:?}"));
        saying.retain(|(_, epoch)| !self.cut_short.contains(epoch));
        if saying.len() < 2 {
            return;
        }
        if self.sound_clocks {
            self.fail(Check::Inv6, || format!("(machine, epoch): {saying:?}"));
        } else {
            self.met(Check::Overlap);
        }
    }

    pub(super) fn trusted(&mut self, now: Time, grant: &Grant<Fence>, until: Until) {
        let epoch = grant.term.epoch.0;
        self.hold(Check::Trusted, !until.is_over(now), || {
            format!("epoch {epoch} is trusted until {until:?}, and it is {now:?}")
        });
        let elected = self.terms.get(&epoch).map(|(member, incarnation, _)| (member.clone(), *incarnation));
        let is_theirs = elected == Some((grant.term.leader.clone(), grant.term.incarnation))
            && grant.fence.epoch == grant.term.epoch
            && grant.fence.ballot.0 <= self.ballot;
        self.hold(Check::Inv2, is_theirs, || format!("{grant:?} was trusted, and the store has {elected:?}"));
        let is_told = self.told[0].contains(&epoch);
        self.hold(Check::ToldOnce, is_told, || {
            format!("{grant:?} was trusted, and its election was not told")
        });
        if self.trusted_epochs.insert(epoch) && self.trusted_epochs.len() > 1 {
            // One after another.
            self.counts.add(Check::Inv6, 1);
        }
    }

    pub(super) fn before_input(&mut self, now: Time, process: &mut ElectionProcess, input: &Input<Fence>) {
        let held = process.handle.as_ref().map(|(grant, _)| grant.term.epoch);
        self.held = held.map(|epoch| (epoch, process.check(now).is_some()));
        if let Input::Signal(callsign_election::Signal::ResignRequested { epoch }) = input {
            process.asked.extend(epoch.or(held));
        }
    }

    pub(super) fn after_input(&mut self, now: Time, process: &ElectionProcess, input: &Input<Fence>) {
        self.yields(now, process);
        let Input::Answered { answer, .. } = input else { return };
        let Some((epoch, trusted)) = self.held else { return };
        let holds = process.handle.is_some();
        match answer {
            Ok(Verdict::Denied(denial)) => self.hold(Check::NoIsNo, !holds, || {
                format!("epoch {epoch} is trusted after it was denied: {denial:?}")
            }),
            Err(Fault::Transient { cause, .. }) if trusted => {
                self.hold(Check::NoIsNo, holds, || format!("epoch {epoch} was lost by a fault: {cause}"));
            }
            _ => {}
        }
    }

    pub(super) fn event(&mut self, process: &ElectionProcess, event: &CampaignEvent) {
        match &event.what {
            CampaignEventKind::Lost { why: Lost::ResignRequested } => {
                let asked = event.epoch.is_some_and(|epoch| process.asked.contains(&epoch));
                self.hold(Check::OwnRequest, asked, || {
                    format!("epoch {:?} was given up, and asked for were {:?}", event.epoch, process.asked)
                });
                self.met(Check::Forced);
            }
            CampaignEventKind::UnusableGrant { why: Unusable::TooLate { .. } } => self.met(Check::LateGrant),
            CampaignEventKind::RoleAborted { .. } => self.met(Check::Aborted),
            CampaignEventKind::RoleActivateFailed { .. } => self.met(Check::RoleFailed),
            _ => {}
        }
    }

    pub(super) fn denied(&mut self, denial: &Denial) {
        match denial.why {
            Refusal::DuplicateIdentity => self.met(Check::Namesake),
            Refusal::Disabled => self.met(Check::Disabled),
            Refusal::TermOver => self.met(Check::StaleRefresh),
            _ => {}
        }
    }

    /// What an operation says of the election, for people and metrics.
    pub(super) fn told(&mut self, events: &[lease::LeaseEvent]) {
        for event in events {
            let (epoch, end) = match &event.what {
                lease::LeaseEventKind::Elected => (event.epoch, 0),
                lease::LeaseEventKind::Vacated { was } | lease::LeaseEventKind::Preempted { was, .. } => {
                    (Some(was.epoch), 1)
                }
                _ => continue,
            };
            let is_new = epoch.is_some_and(|epoch| self.told[end].insert(epoch.0));
            self.hold(Check::ToldOnce, is_new, || format!("{event:?} was told before"));
        }
    }

    // ---- subscribers

    pub(super) fn published(&mut self, process: &ElectionProcess, transition: &Transition<Fence>) {
        let handle = process.handle.as_ref().map(|(grant, _)| &grant.term);
        let (fits, turn) = match transition {
            Transition::Leading(grant) => {
                (handle == Some(&grant.term) && process.role.active.is_some(), true)
            }
            Transition::Following(_) => (handle.is_none(), false),
        };
        let last = matches!(process.log.last(), Some(Transition::Leading(_)));
        self.hold(Check::Inv8, fits && last != turn, || {
            format!("{transition:?} was published with {handle:?}, after {:?}", process.log.last())
        });
    }

    pub(super) fn taken(&mut self, log: &[Transition<Fence>], subscriber: &mut Subscriber) {
        while let Some(transition) = subscriber.queue.pop_front() {
            let leads = matches!(transition, Transition::Leading(_));
            let is_next = log.get(subscriber.from + subscriber.taken) == Some(&transition);
            let turns = subscriber.last != Some(leads);
            self.hold(Check::Inv8, is_next && turns, || format!("{transition:?} came out of turn"));
            subscriber.taken += 1;
            subscriber.last = Some(leads);
        }
    }
}

fn is_eligible(policy: &Policy, row: &Row) -> bool {
    !(policy.zero_is_ineligible && row.priority == 0)
        && policy.requires.as_ref().is_none_or(|tag| row.tags.contains(tag))
}

fn policy(records: &Records) -> Option<&Policy> {
    records.control.as_ref().map(|control| &control.config.policy)
}

fn member(world: &ElectionWorld, at: Slot) -> Option<&MemberId> {
    world.setup.members.get(usize::from(at)).map(|seat| &seat.member)
}

fn read<T: Record>(world: &ElectionWorld, key: &[u8]) -> Option<T> {
    world.store.get(key).and_then(|value| T::from_value(value).ok())
}
