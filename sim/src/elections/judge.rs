//! Watches everything that happens, and says what must not.
//!
//! It has a view of its own of what a lease is: true time, the records before and after each commit, and whose they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_elector::{
    election::{
        Denial, Fault, Fence, Grant, Lost, Refusal, Verdict,
        campaign::{Event, Transition, Until, Unusable, What, core::Input},
        policy::{Policy, Preempt, Replace},
        state::{Control, Effect, Holder, Row, Seat},
    },
    ids::{Epoch, Incarnation, MemberId},
    record::Record,
    time::Time,
};

use super::{
    action::Slot,
    checks::{Check, Counts},
    process::{Author, Intent, Process, Subscriber},
    setup::DRIFT_PPM,
    world::World,
};
use crate::world::Violation;

/// The records of the election, as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) seat: Option<Seat>,
    pub(super) control: Option<Control>,
}

/// Who wrote the seat last.
#[derive(Clone, Copy, Debug)]
struct LastWrite {
    at: Slot,
    incarnation: Incarnation,
    /// When its attempt began, by its own clock.
    started: Time,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Judge {
    sound_clocks: bool,
    violation: Option<Violation>,
    counts: Counts,
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
    last_leader: Option<(MemberId, Incarnation)>,
    /// How often somebody was elected.
    elections: u64,
    trusted_epochs: BTreeSet<u64>,
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
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How often somebody was elected.
    pub fn elections(&self) -> u64 {
        self.elections
    }

    /// All that later checks compare with.
    pub(super) fn memory(&self) -> String {
        let Self { ballot, newest, terms, seat_since, last_write, cut_short, last_leader, .. } = self;
        format!("{ballot} {newest} {terms:?} {seat_since:?} {last_write:?} {cut_short:?} {last_leader:?}")
    }

    /// A check failed.
    pub fn fail(&mut self, check: Check, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { check: check.name(), what: what() });
        }
    }

    pub(super) fn met(&mut self, check: Check) {
        self.counts.add(check);
    }

    /// Exercises a check.
    pub(super) fn hold(&mut self, check: Check, holds: bool, what: impl FnOnce() -> String) {
        self.counts.add(check);
        if !holds {
            self.fail(check, what);
        }
    }

    #[allow(clippy::unused_self)] // it is the judge's view
    pub(super) fn records(&self, world: &World) -> Records {
        let keys = &world.setup.keys;
        Records { seat: read(world, &keys.seat()), control: read(world, &keys.control()) }
    }

    // ---- commits

    pub(super) fn committed(&mut self, world: &World, before: &Records, author: Option<Author>) {
        let after = self.records(world);
        if before.seat == after.seat {
            return;
        }
        let Some(seat) = &after.seat else {
            return self.fail(Check::I1, || "the seat's record was removed".to_owned());
        };
        let is_first = before.seat.is_none() && self.ballot == 0 && seat.holder.is_none();
        if is_first {
            self.seat_since = world.now;
            return;
        }
        if before.seat.as_ref().is_some_and(|before| is_beat(before, seat)) {
            self.seat_since = world.now;
            return;
        }
        let (last, ballot) = (self.ballot, seat.ballot.0);
        self.hold(Check::I1, ballot > last, || format!("ballot {ballot} was written after {last}"));
        self.ballot = self.ballot.max(ballot);
        let old = before.seat.as_ref().and_then(|seat| seat.holder.as_ref());
        let age = world.now.saturating_sub(self.seat_since);
        match (&before.seat, old, &seat.holder) {
            (Some(before_seat), Some(old), Some(new)) if before_seat.epoch == seat.epoch => {
                self.renewed(world, before, before_seat, old, new, author);
            }
            (_, _, Some(new)) => self.elected(world, before, old, seat, new, age, author),
            (Some(before_seat), Some(old), None) => {
                self.vacated(world, before, before_seat, old, seat, age, author);
            }
            (_, None, None) | (None, Some(_), None) => {}
        }
        self.seat_since = world.now;
        self.last_write = author.map(|author| LastWrite {
            at: author.at,
            incarnation: author.incarnation,
            started: author.started,
        });
    }

    /// I4, I5, I10: a term goes on.
    fn renewed(
        &mut self,
        world: &World,
        before: &Records,
        seat: &Seat,
        old: &Holder,
        new: &Holder,
        author: Option<Author>,
    ) {
        let same = (&old.member, old.incarnation) == (&new.member, new.incarnation);
        self.hold(Check::I2, same, || format!("epoch {} went from {old:?} to {new:?}", seat.epoch));
        self.enabled(before, seat.epoch);
        self.registered(world, new);
        let by_holder = author.is_some_and(|author| {
            author.incarnation == old.incarnation
                && member(world, author.at) == Some(&old.member)
                && match author.intent {
                    Intent::Refresh(epoch) => epoch == seat.epoch,
                    Intent::Claim => true,
                    Intent::Resign(_) | Intent::Other => false,
                }
        });
        self.hold(Check::I4, by_holder, || format!("{author:?} refreshed epoch {} of {old:?}", seat.epoch));
        if let Some((author, last)) = author.zip(self.last_write)
            && (last.at, last.incarnation) == (author.at, author.incarnation)
        {
            let age = author.decided.since(last.started);
            let lease = old.lease;
            self.hold(Check::I4, age < lease, || {
                format!("machine {} refreshed a lease of {lease:?} that it began {age:?} ago", author.at)
            });
        }
    }

    fn elected(
        &mut self,
        world: &World,
        before: &Records,
        old: Option<&Holder>,
        seat: &Seat,
        new: &Holder,
        age: Duration,
        author: Option<Author>,
    ) {
        let epoch = seat.epoch.0;
        let is_new = epoch > self.newest && seat.epoch.0 == seat.ballot.0;
        let newest = self.newest;
        self.hold(Check::I2, is_new && !self.terms.contains_key(&epoch), || {
            format!("epoch {epoch} was given to {new:?} after {newest}")
        });
        self.newest = self.newest.max(epoch);
        self.terms.insert(epoch, (new.member.clone(), new.incarnation, world.now));
        self.enabled(before, seat.epoch);
        self.registered(world, new);
        let claimed = author.is_some_and(|author| {
            author.intent == Intent::Claim
                && author.incarnation == new.incarnation
                && member(world, author.at) == Some(&new.member)
        });
        self.hold(Check::I2, claimed, || format!("{author:?} made {new:?} the leader"));
        match (&before.seat, old) {
            // Nobody but itself had it.
            (_, Some(old)) if old.is_same(new) => {}
            (Some(before_seat), Some(old)) => {
                if age < self.less_drift(old.lease) {
                    let waits = !old.lock_delay.is_zero();
                    // Whoever may not lead is not kept by any policy.
                    let never = policy(before).is_none_or(|policy| {
                        policy.preempt == Preempt::Never && !(policy.zero_is_ineligible && old.priority == 0)
                    });
                    self.hold(Check::Waited, !waits && !never, || {
                        format!("{new:?} followed {old:?} after {age:?}")
                    });
                    self.preempted(world, before, before_seat, old, Some(new));
                    self.cut_short.insert(before_seat.epoch.0);
                } else {
                    let stands = self.less_drift(old.lease + old.lock_delay);
                    self.hold(Check::Waited, age >= stands, || {
                        format!("{new:?} followed {old:?} after {age:?}, within its lock delay")
                    });
                    self.met(Check::Expiry);
                }
            }
            (Some(before_seat), None) => {
                let wait = self.less_drift(before_seat.wait);
                self.hold(Check::Waited, age >= wait, || {
                    format!(
                        "{new:?} took a seat after {age:?} that was to be vacant for {:?}",
                        before_seat.wait
                    )
                });
            }
            (None, _) => {
                let config = before.control.as_ref().map(|control| &control.config);
                let wait = config.map_or(Duration::ZERO, |config| config.lease + config.lock_delay);
                let wait = self.less_drift(wait);
                self.hold(Check::Waited, age >= wait, || {
                    format!("{new:?} took a seat after {age:?} whose record was lost")
                });
            }
        }
        let leader = (new.member.clone(), new.incarnation);
        if self.last_leader.as_ref().is_some_and(|last| *last != leader) {
            self.met(Check::Takeover);
        }
        self.last_leader = Some(leader);
        self.elections += 1;
    }

    fn vacated(
        &mut self,
        world: &World,
        before: &Records,
        seat: &Seat,
        old: &Holder,
        after: &Seat,
        age: Duration,
        author: Option<Author>,
    ) {
        let Some(author) = author else {
            // An administrator's order.
            if old.lock_delay.is_zero() {
                self.cut_short.insert(seat.epoch.0);
            }
            return;
        };
        let is_holder =
            author.incarnation == old.incarnation && member(world, author.at) == Some(&old.member);
        match author.intent {
            Intent::Resign(epoch) => {
                self.hold(Check::I4, is_holder && epoch == seat.epoch, || {
                    format!(
                        "machine {} resigned epoch {epoch}, and ended {} of {old:?}",
                        author.at, seat.epoch
                    )
                });
                let process = world.process(author.at).filter(|p| p.incarnation == author.incarnation);
                let works = process.is_some_and(|process| process.role.works == Some(seat.epoch));
                self.hold(Check::I7, !works, || {
                    format!("machine {} gave epoch {} back while its role was at work", author.at, seat.epoch)
                });
            }
            Intent::Claim => {
                let live = age < self.less_drift(old.lease);
                let wait = old.lease + old.lock_delay;
                self.hold(Check::Waited, !old.lock_delay.is_zero() && after.wait >= wait, || {
                    format!("machine {} deposed {old:?}, and the seat waits {:?}", author.at, after.wait)
                });
                if live {
                    self.preempted(world, before, seat, old, None);
                }
            }
            Intent::Refresh(_) | Intent::Other => {
                self.fail(Check::I4, || format!("{author:?} ended epoch {} of {old:?}", seat.epoch));
            }
        }
    }

    /// Preempted by policy, and not before its time.
    fn preempted(
        &mut self,
        world: &World,
        before: &Records,
        seat: &Seat,
        old: &Holder,
        new: Option<&Holder>,
    ) {
        self.met(Check::Preempted);
        let Some(policy) = policy(before) else { return };
        let wants = !(policy.zero_is_ineligible && old.priority == 0);
        let tenure = self.terms.get(&seat.epoch.0).map(|(_, _, since)| world.now.saturating_sub(*since));
        let least = self.less_drift(policy.min_tenure);
        let is_old = !wants || tenure.is_none_or(|tenure| tenure >= least);
        self.hold(Check::Tenure, is_old, || format!("{old:?} was preempted after {tenure:?}"));
        let better = new.is_none_or(|new| match policy.preempt {
            Preempt::Never => false,
            Preempt::HigherPriority => new.priority > old.priority,
            Preempt::BetterRank => {
                let rank = |h: &Holder| (std::cmp::Reverse(h.priority), h.seniority, h.member.clone());
                rank(new) < rank(old)
            }
        });
        self.hold(Check::Tenure, !wants || better, || format!("{old:?} was preempted by {new:?}"));
    }

    fn enabled(&mut self, before: &Records, epoch: Epoch) {
        let is_enabled = before.control.as_ref().is_some_and(|control| control.enabled);
        self.hold(Check::I10, is_enabled, || format!("epoch {epoch} was granted in a disabled election"));
    }

    fn registered(&mut self, world: &World, holder: &Holder) {
        let row: Option<Row> = read(world, &world.setup.keys.candidate(&holder.member));
        let control: Option<Control> = read(world, &world.setup.keys.control());
        let fits = row.as_ref().zip(control.as_ref()).is_some_and(|(row, control)| {
            row.incarnation == holder.incarnation && is_eligible(&control.config.policy, row)
        });
        self.hold(Check::I5, fits, || format!("{holder:?} has the seat, and its row is {row:?}"));
    }

    pub(super) fn seat_lost(&mut self, world: &World, before: &Records) {
        self.met(Check::SeatLost);
        self.seat_since = world.now;
        self.last_write = None;
        let lease = before.control.as_ref().map_or(Duration::ZERO, |control| control.config.lease);
        if let Some(seat) = &before.seat
            && seat.holder.as_ref().is_some_and(|holder| holder.lease > lease)
        {
            // How long it stood nobody knows any more: the present configuration decides.
            self.cut_short.insert(seat.epoch.0);
        }
    }

    /// How long something lasts at least in true time that a sound clock showed to last this long.
    fn less_drift(&self, duration: Duration) -> Duration {
        let ppm = if self.sound_clocks { DRIFT_PPM } else { 300_000 };
        duration * (1_000_000 - ppm) / 1_000_000
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
        self.hold(Check::I3, !admitted || epoch >= greatest, || {
            format!("the sink took epoch {epoch} after {greatest}")
        });
        self.hold(Check::I3, admitted || epoch < newest, || {
            format!("the sink refused epoch {epoch}, and there is none newer: it has seen {greatest}")
        });
        if !admitted {
            self.met(Check::StaleWrite);
        }
    }

    // ---- handles

    /// I6 and I9: at this instant.
    pub(super) fn look(&mut self, world: &World) {
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
        self.hold(Check::I9, epochs.len() == saying.len(), || format!("(machine, epoch): {saying:?}"));
        saying.retain(|(_, epoch)| !self.cut_short.contains(epoch));
        if saying.len() < 2 {
            return;
        }
        if self.sound_clocks {
            self.fail(Check::I6, || format!("(machine, epoch): {saying:?}"));
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
        self.hold(Check::I2, is_theirs, || format!("{grant:?} was trusted, and the store has {elected:?}"));
        if self.trusted_epochs.insert(epoch) && self.trusted_epochs.len() > 1 {
            // One after another.
            self.counts.add(Check::I6);
        }
    }

    pub(super) fn before_input(&mut self, now: Time, process: &mut Process, input: &Input<Fence>) {
        let held = process.handle.as_ref().map(|(grant, _)| grant.term.epoch);
        self.held = held.map(|epoch| (epoch, process.check(now).is_some()));
        if let Input::Signal(callsign_elector::election::Signal::ResignRequested { epoch }) = input {
            process.asked.extend(epoch.or(held));
        }
    }

    pub(super) fn after_input(&mut self, process: &Process, input: &Input<Fence>) {
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

    pub(super) fn event(&mut self, process: &Process, event: &Event) {
        match &event.what {
            What::Lost { why: Lost::ResignRequested } => {
                let asked = event.epoch.is_some_and(|epoch| process.asked.contains(&epoch));
                self.hold(Check::OwnRequest, asked, || {
                    format!("epoch {:?} was given up, and asked for were {:?}", event.epoch, process.asked)
                });
                self.met(Check::Forced);
            }
            What::UnusableGrant { why: Unusable::TooLate { .. } } => self.met(Check::LateGrant),
            What::RoleAborted { .. } => self.met(Check::Aborted),
            What::RoleActivateFailed { .. } => self.met(Check::RoleFailed),
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

    // ---- subscribers

    pub(super) fn published(&mut self, process: &Process, transition: &Transition<Fence>) {
        let handle = process.handle.as_ref().map(|(grant, _)| &grant.term);
        let (fits, turn) = match transition {
            Transition::Leading(grant) => {
                (handle == Some(&grant.term) && process.role.active.is_some(), true)
            }
            Transition::Following(_) => (handle.is_none(), false),
        };
        let last = matches!(process.log.last(), Some(Transition::Leading(_)));
        self.hold(Check::I8, fits && last != turn, || {
            format!("{transition:?} was published with {handle:?}, after {:?}", process.log.last())
        });
    }

    pub(super) fn heard(&mut self, log: &[Transition<Fence>], subscriber: &mut Subscriber) {
        while let Some(transition) = subscriber.queue.pop_front() {
            let leads = matches!(transition, Transition::Leading(_));
            let is_next = log.get(subscriber.from + subscriber.taken) == Some(&transition);
            let turns = subscriber.last != Some(leads);
            self.hold(Check::I8, is_next && turns, || format!("{transition:?} was heard out of turn"));
            subscriber.taken += 1;
            subscriber.last = Some(leads);
        }
    }

    // ---- at rest

    /// What is missing to rest, and which check that is.
    pub fn unrest(&self, world: &World) -> Option<(Check, String)> {
        let Records { seat, control } = self.records(world);
        let Some(holder) = seat.as_ref().and_then(|seat| seat.holder.as_ref()) else {
            return Some((Check::I13, format!("nobody has the seat: {seat:?}")));
        };
        let term = seat.as_ref().and_then(Seat::term);
        let leads = world.slots().find(|at| {
            let process = world.process(*at).filter(|process| process.incarnation == holder.incarnation);
            let working = process.is_some_and(|process| process.role.active.is_some());
            working
                && process.and_then(|process| process.check(world.local(*at))).map(|g| &g.term)
                    == term.as_ref()
        });
        if leads.is_none() {
            return Some((Check::I13, format!("{holder:?} has the seat, and does not lead")));
        }
        let policy = &control.as_ref()?.config.policy;
        if !settles(policy) {
            return None;
        }
        for at in world.slots() {
            let Some(process) = world.process(at) else {
                return Some((Check::I13, format!("machine {at} is down")));
            };
            let knows = process.core.status(world.local(at)).leader;
            if knows != term {
                return Some((Check::I11, format!("machine {at} knows of {knows:?}, and there is {term:?}")));
            }
        }
        let better = better_than(world, policy, holder);
        better.map(|better| (Check::I12, format!("{better} is to lead before {holder:?}")))
    }
}

/// Whether the seat comes to rest under a policy. Where the holder is asked to go, and a vacant seat is whoever's asks first,
/// a lower priority that is faster gets it each time.
pub(super) fn settles(policy: &Policy) -> bool {
    let asks_first = matches!(policy.replace, Replace::HandOver { .. });
    !(asks_first && policy.preempt == Preempt::HigherPriority)
}

/// Who should have the seat instead: decided anew, in other words than the policy's own.
fn better_than(world: &World, policy: &Policy, holder: &Holder) -> Option<MemberId> {
    let mut rows: Vec<(MemberId, Row)> = Vec::new();
    for at in world.slots() {
        let Some(process) = world.process(at) else { continue };
        let Some(member) = member(world, at) else { continue };
        let row: Option<Row> = read(world, &world.setup.keys.candidate(member));
        // Of namesakes, the one that registered.
        rows.extend(
            row.filter(|row| row.incarnation == process.incarnation).map(|row| (member.clone(), row)),
        );
    }
    rows.retain(|(_, row)| is_eligible(policy, row));
    let Some((_, own)) = rows.iter().find(|(member, _)| *member == holder.member).cloned() else {
        return Some(holder.member.clone());
    };
    let before = |(member, row): &&(MemberId, Row)| match policy.preempt {
        Preempt::Never => false,
        Preempt::HigherPriority => row.priority > own.priority,
        Preempt::BetterRank => {
            row.priority > own.priority
                || row.priority == own.priority && (row.seniority, member) < (own.seniority, &holder.member)
        }
    };
    rows.iter().find(before).map(|(member, _)| member.clone())
}

fn is_eligible(policy: &Policy, row: &Row) -> bool {
    !(policy.zero_is_ineligible && row.priority == 0)
        && policy.requires.as_ref().is_none_or(|tag| row.tags.contains(tag))
}

fn policy(records: &Records) -> Option<&Policy> {
    records.control.as_ref().map(|control| &control.config.policy)
}

fn member(world: &World, at: Slot) -> Option<&MemberId> {
    world.setup.members.get(usize::from(at)).map(|seat| &seat.member)
}

fn read<T: Record>(world: &World, key: &[u8]) -> Option<T> {
    world.store.get(key).and_then(|value| T::from_value(value).ok())
}

/// Whether only the holder's priority is another: it was heard, and that is no refresh.
fn is_beat(before: &Seat, after: &Seat) -> bool {
    let mut before = before.clone();
    if let (Some(old), Some(new)) = (&mut before.holder, &after.holder) {
        old.priority = new.priority;
    }
    before == *after
}

trait Same {
    fn is_same(&self, other: &Self) -> bool;
}

impl Same for Holder {
    fn is_same(&self, other: &Self) -> bool {
        (&self.member, self.incarnation) == (&other.member, other.incarnation)
    }
}
