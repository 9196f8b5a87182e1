//! What is committed: ballots, terms, who has the seat, and who may have written it.

use std::time::Duration;

use callsign_election::{
    policy::Preempt,
    state::{Control, Holder, Row, Seat},
};
use callsign_store::ids::Epoch;

use super::{Judge, LastWrite, Records, is_eligible, member, policy, read};
use crate::elections::{
    checks::Check,
    process::{Author, Intent},
    setup::DRIFT_PPM,
    world::ElectionWorld,
};

/// A commit that changed the seat.
#[derive(Clone, Copy)]
struct Commit<'a> {
    world: &'a ElectionWorld,
    before: &'a Records,
    /// For how long the seat had been as it was.
    age: Duration,
    author: Option<Author>,
}

impl Judge {
    pub(in crate::elections) fn committed(
        &mut self,
        world: &ElectionWorld,
        before: &Records,
        author: Option<Author>,
    ) {
        let after = self.records(world);
        self.rows_changed(world, before, &after, author);
        self.asked(world, before, &after, author);
        if before.seat == after.seat {
            return;
        }
        let Some(seat) = &after.seat else {
            return self.fail(Check::Inv1, || "the seat's record was removed".to_owned());
        };
        let is_first = before.seat.is_none() && self.ballot == 0 && seat.holder.is_none();
        if is_first {
            self.seat_since = world.now;
            return;
        }
        // A holder that only says that it lives, and has another priority, does not lead for longer by that.
        if before.seat.as_ref().is_some_and(|before| is_beat(before, seat)) {
            return;
        }
        let (last, ballot) = (self.ballot, seat.ballot.0);
        self.hold(Check::Inv1, ballot > last, || format!("ballot {ballot} was written after {last}"));
        self.ballot = self.ballot.max(ballot);
        let old = before.seat.as_ref().and_then(|seat| seat.holder.as_ref());
        let age = world.now.saturating_sub(self.seat_since);
        let commit = Commit { world, before, age, author };
        let vacated_for = self.vacated_for.take();
        match (&before.seat, old, &seat.holder) {
            (Some(before_seat), Some(old), Some(new)) if before_seat.epoch == seat.epoch => {
                self.renewed(commit, before_seat, old, new);
            }
            (_, _, Some(new)) => {
                if let (Some(better), None) = (vacated_for, old) {
                    self.inherited(before, new, better, age);
                }
                self.elected(commit, old, seat, new);
            }
            (Some(before_seat), Some(old), None) => {
                let asked_for = self.asked_for.filter(|(epoch, _)| *epoch == before_seat.epoch.0);
                self.vacated_for =
                    challenger(world, before, author).or(asked_for.map(|(_, priority)| priority));
                self.vacated(commit, before_seat, old, seat);
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

    /// Somebody asks for the seat of a holder whom it comes before.
    fn asked(&mut self, world: &ElectionWorld, before: &Records, after: &Records, author: Option<Author>) {
        let request = |records: &Records| records.control.as_ref().and_then(|control| control.request);
        if let Some(epoch) = request(after).filter(|_| request(before) != request(after)) {
            self.asked_for = challenger(world, before, author).map(|priority| (epoch.0, priority));
        }
    }

    /// A seat was taken that was vacated for somebody of this priority.
    fn inherited(&mut self, before: &Records, new: &Holder, better: u32, age: Duration) {
        let (wait, lease) = (
            before.seat.as_ref().map_or(Duration::ZERO, |seat| seat.wait),
            before.control.as_ref().map_or(Duration::ZERO, |control| control.config.lease),
        );
        let had_time = age >= self.less_drift(wait + lease);
        self.hold(Check::Heir, new.priority >= better || had_time, || {
            format!("{new:?} took a seat after {age:?} that was vacated for priority {better}")
        });
    }

    /// Inv4, Inv5, Inv10: a term goes on.
    fn renewed(&mut self, commit: Commit<'_>, seat: &Seat, old: &Holder, new: &Holder) {
        let Commit { world, before, author, .. } = commit;
        let same = (&old.member, old.incarnation) == (&new.member, new.incarnation);
        self.hold(Check::Inv2, same, || format!("epoch {} went from {old:?} to {new:?}", seat.epoch));
        self.enabled(before, seat.epoch);
        self.registered(world, new);
        let by_holder = author.is_some_and(|author| {
            author.incarnation == old.incarnation
                && member(world, author.at) == Some(&old.member)
                && match author.intent {
                    Intent::Refresh(epoch) => epoch == seat.epoch,
                    Intent::Claim => true,
                    Intent::Resign(_) | Intent::Leave | Intent::Sweep | Intent::Other => false,
                }
        });
        self.hold(Check::Inv4, by_holder, || format!("{author:?} refreshed epoch {} of {old:?}", seat.epoch));
        if let Some((author, last)) = author.zip(self.last_write)
            && (last.at, last.incarnation) == (author.at, author.incarnation)
        {
            let age = author.decided.since(last.started);
            let lease = old.lease;
            self.hold(Check::Inv4, age < lease, || {
                format!("machine {} refreshed a lease of {lease:?} that it began {age:?} ago", author.at)
            });
        }
    }

    fn elected(&mut self, commit: Commit<'_>, old: Option<&Holder>, seat: &Seat, new: &Holder) {
        let Commit { world, before, age, author } = commit;
        let epoch = seat.epoch.0;
        let is_new = epoch > self.newest && seat.epoch.0 == seat.ballot.0;
        let newest = self.newest;
        self.hold(Check::Inv2, is_new && !self.terms.contains_key(&epoch), || {
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
        self.hold(Check::Inv2, claimed, || format!("{author:?} made {new:?} the leader"));
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
        if self.at_rest {
            self.fail(Check::Inv14, || {
                format!("{new:?} was elected after {old:?}, and nothing had happened")
            });
        }
    }

    fn vacated(&mut self, commit: Commit<'_>, seat: &Seat, old: &Holder, after: &Seat) {
        let Commit { world, before, age, author } = commit;
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
                self.hold(Check::Inv4, is_holder && epoch == seat.epoch, || {
                    format!(
                        "machine {} resigned epoch {epoch}, and ended {} of {old:?}",
                        author.at, seat.epoch
                    )
                });
                let process = world.process(author.at).filter(|p| p.incarnation == author.incarnation);
                let works = process.is_some_and(|process| process.role.works == Some(seat.epoch));
                self.hold(Check::Inv7, !works, || {
                    format!("machine {} gave epoch {} back while its role was at work", author.at, seat.epoch)
                });
            }
            Intent::Leave => {
                self.hold(Check::Inv4, is_holder, || {
                    format!("machine {} left, and ended {} of {old:?}", author.at, seat.epoch)
                });
                let process = world.process(author.at).filter(|p| p.incarnation == author.incarnation);
                let works = process.and_then(|process| process.role.works);
                self.hold(Check::Inv7, works.is_none(), || {
                    format!("machine {} left while its role was at work on {works:?}", author.at)
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
            Intent::Refresh(_) | Intent::Sweep | Intent::Other => {
                self.fail(Check::Inv4, || format!("{author:?} ended epoch {} of {old:?}", seat.epoch));
            }
        }
    }

    /// Preempted by policy, and not before its time.
    fn preempted(
        &mut self,
        world: &ElectionWorld,
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
        self.hold(Check::Inv10, is_enabled, || format!("epoch {epoch} was granted in a disabled election"));
    }

    fn registered(&mut self, world: &ElectionWorld, holder: &Holder) {
        let row: Option<Row> = read(world, &world.setup.keys.candidate(&holder.member));
        let control: Option<Control> = read(world, &world.setup.keys.control());
        let fits = row.as_ref().zip(control.as_ref()).is_some_and(|(row, control)| {
            row.incarnation == holder.incarnation && is_eligible(&control.config.policy, row)
        });
        self.hold(Check::Inv5, fits, || format!("{holder:?} has the seat, and its row is {row:?}"));
    }

    pub(in crate::elections) fn seat_lost(&mut self, world: &ElectionWorld, before: &Records) {
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
    pub(super) fn less_drift(&self, duration: Duration) -> Duration {
        let ppm = if self.sound_clocks { DRIFT_PPM } else { 300_000 };
        duration * (1_000_000 - ppm) / 1_000_000
    }
}

/// The priority of a claimant who does not lead, where that is what counts.
fn challenger(world: &ElectionWorld, before: &Records, author: Option<Author>) -> Option<u32> {
    let author = author.filter(|author| author.intent == Intent::Claim)?;
    policy(before).filter(|policy| policy.preempt == Preempt::HigherPriority)?;
    let row: Row = read(world, &world.setup.keys.candidate(member(world, author.at)?))?;
    Some(row.priority)
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
