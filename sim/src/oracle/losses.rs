//! A store that goes back behind what it acknowledged: what is still promised, and from when on everything is again.
//!
//! What the store shows is rolled back with it. From the loss until the raise and the greatest lease are over, P1 and P3 are
//! not promised, nor is what clients were told true; what each node had applied counts again when the node has begun anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_elector::{
    lineage::{LineageId, LineageNumber},
    record::Lineage,
};
use callsign_store::{
    Transaction, Write,
    ids::{Incarnation, Nonce, Position, SessionId},
    record::Record,
};

use super::{Check, Inner, Oracle, ProcessSeen};
use crate::world::{NodeId, World};

/// By when all who knew what was lost have noticed it, beside their leases, and how much a clock may lag in the lease.
const NOTICED: Duration = Duration::from_secs(5);
const DRIFT: Duration = Duration::from_millis(100);

/// The store went back, and what comes of it is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// From then on one holder is promised again.
    until: Duration,
    /// Some lineage was written because of it.
    is_raised: bool,
}

/// What is counted in which lineage.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// The lineage that the store is in.
    pub(super) lineage: LineageNumber,
    /// Which one of that number.
    nonce: Nonce,
    present: Option<Loss>,
    /// How many losses no lineage was written for.
    unraised: u32,
    /// Processes that may know what was lost, and have not begun anew.
    stale: BTreeSet<Incarnation>,
    /// Until when, by its own clock, a process trusted a session last.
    trusted_until: BTreeMap<Incarnation, Duration>,
    /// The greatest position that was ever committed.
    greatest: Position,
    /// The greatest one that each process applied.
    applied: BTreeMap<Incarnation, Position>,
    /// The lineage was written when more than one loss had none: it may be for the first of them, by a node that knew of no other.
    is_for_one_of_several: bool,
    /// Nobody wrote that something was lost, so that what clients were told has no place in the log.
    is_history_torn: bool,
    /// Everything is healed, and nothing is on its way.
    is_at_rest: bool,
}

/// What is not promised while a loss is not over.
const NOT_THEN: &[Check] = &[
    Check::ViewTrue,
    Check::ActHeld,
    Check::ActClaimed,
    Check::TrustIsOpen,
    Check::OneHolder,
    Check::Kept,
    Check::AnswerTrue,
    Check::ReadTrue,
    Check::FreedTrue,
    Check::UpdateTold,
    Check::StartTold,
    Check::MoveTold,
    Check::OfferTold,
    Check::DrainedMoved,
    Check::DrainMoves,
    Check::MoveWanted,
    Check::MoveWhole,
    Check::OneStart,
    Check::AtMostLimit,
    Check::LimitTold,
    Check::NoMeansNo,
    Check::OwnRegister,
    Check::LocalMonotonic,
    Check::FlaggedFirst,
    Check::ResetSafe,
    Check::EmptyHandsOff,
    Check::SyncedAtEnd,
    Check::Electable,
    Check::OwnEpoch,
    Check::ReadOpen,
    Check::DeadLeader,
    Check::FoundDead,
    Check::DrainKnown,
    Check::DrainSaid,
    Check::LeaveSaid,
    Check::NamesThenSession,
    Check::FloorSafe,
    Check::SeatGivenUp,
    Check::LockOwner,
    Check::FailedClosed,
];

/// What is not promised either while nobody has written that something was lost: who has not noticed goes on where it was.
const UNTIL_NOTICED: &[Check] = &[
    Check::ActHeld,
    Check::ActClaimed,
    Check::TrustIsOpen,
    Check::OneHolder,
    Check::OneStart,
    Check::AtMostLimit,
    Check::QueueOrder,
];

impl Losses {
    /// Whether nothing was lost, or a lineage says so, or everybody has looked since.
    fn is_noticed(&self) -> bool {
        self.stale.is_empty() || self.present.is_some_and(|loss| loss.is_raised) || !self.is_history_torn()
    }

    /// Whether a check does not count now.
    pub(super) fn excuses(&self, check: Check, now: Duration) -> bool {
        if !self.is_noticed() && (NOT_THEN.contains(&check) || UNTIL_NOTICED.contains(&check)) {
            return true;
        }
        let Some(loss) = self.present else { return false };
        match check {
            Check::ActHeld
            | Check::ActClaimed
            | Check::TrustIsOpen
            | Check::OneHolder
            | Check::OneStart
            | Check::AtMostLimit => now < loss.until,
            _ => NOT_THEN.contains(&check),
        }
    }

    /// A process applied the log up to there.
    pub(super) fn applied(&mut self, incarnation: Incarnation, position: Position) {
        let greatest = self.applied.entry(incarnation).or_default();
        *greatest = position.max(*greatest);
    }

    /// What positions of the present lineage are greater than, where they are counted on. It is all that was ever counted, unless a loss
    /// was followed by another before anybody said so: then it is what those know who live and have noticed both.
    fn is_counted_from(&self, world: &World) -> Position {
        if !self.is_for_one_of_several {
            return self.greatest;
        }
        let living = world.ids().filter_map(|id| world.process(id)).map(|process| &process.incarnation);
        let noticed = living.filter(|incarnation| !self.stale.contains(incarnation));
        noticed.filter_map(|incarnation| self.applied.get(incarnation)).max().copied().unwrap_or_default()
    }

    /// Whether what the store shows of the session may have come back with it: it is of a lineage before that of the store, or no lineage
    /// says that something was lost.
    pub(super) fn brought_back(&self, session: &SessionId) -> bool {
        self.lineage.is_after(session.number.0) || self.is_history_torn()
    }

    /// Whether a replica is ahead of the log, by what was on its way when that was lost, and no lineage says so. Its member compares it
    /// with the store soon, so that at rest nobody is.
    pub(super) fn is_ahead_by_what_was_lost(&self, position: Position, end: Position) -> bool {
        self.is_history_torn() && !self.is_at_rest && (end < position && position <= self.greatest)
    }

    /// Whether a process cuts a log beyond its end, up to what it applied and what was lost since, while nobody has said so: its cut was on
    /// its way before it noticed the loss. A member that reads such a log notices it, too.
    pub(super) fn cuts_what_was_lost(&self, by: Incarnation, floor: Position, end: Position) -> bool {
        let has_applied = |applied: &Position| applied.next() >= floor;
        floor > end.next() && self.is_history_torn() && self.applied.get(&by).is_some_and(has_applied)
    }

    /// Whether what clients were told need not be in the log: it was lost, and no lineage says so.
    pub(super) fn is_history_torn(&self) -> bool {
        self.is_history_torn || self.unraised > 0
    }

    /// Whatever the processes that run have is of another store, until they begin anew.
    fn nobody_has_looked(&mut self, world: &World) {
        self.stale.extend(world.ids().filter_map(|id| world.process(id)).map(|process| process.incarnation));
    }
}

impl Oracle {
    /// The store is as it was when `before` was watching, and nobody in the world is told.
    pub(crate) fn went_back(&mut self, world: &World, before: &Self) {
        let (Some(inner), Some(before)) = (self.edit(), before.inner()) else { return };
        inner.counts.add(Check::WentBack, 1);
        inner.roll_back(before);
        let losses = &mut inner.losses;
        // What the lineages said that are lost with it is said no more.
        losses.unraised += 1 + u32::from(losses.lineage > before.losses.lineage);
        (losses.lineage, losses.nonce) = (before.losses.lineage, before.losses.nonce);
        let until = world.now + world.setup.session.lease + NOTICED;
        losses.present = Some(Loss { until, is_raised: false });
        losses.nobody_has_looked(world);
    }
}

impl Oracle {
    /// Whether what came of a loss is not over yet.
    pub(crate) fn is_in_loss(&self) -> bool {
        self.inner().is_some_and(|inner| inner.losses.present.is_some())
    }

    /// A process trusts its session until then, by its own clock.
    pub(crate) fn trusts_until(&mut self, incarnation: Incarnation, until: Duration) {
        let Some(inner) = self.edit() else { return };
        inner.losses.trusted_until.insert(incarnation, until);
    }

    /// A session asks for a commit. A node that was not trusted for so long that nobody can trust what it lost must raise no
    /// lineage.
    pub(crate) fn raises(&mut self, world: &World, node: NodeId, transaction: &Transaction) {
        let key = world.setup.keys.cluster().lineage();
        let raised = transaction.writes.iter().find_map(|write| match write {
            Write::Put { key: put, value } if *put == key => Lineage::from_value(value).ok(),
            _ => None,
        });
        let (Some(inner), Some(raised), Some(process)) = (self.edit(), raised, world.process(node)) else {
            return;
        };
        if raised.id.number <= inner.losses.lineage {
            return;
        }
        let (now, until) = (world.local(node), inner.losses.trusted_until.get(&process.incarnation));
        if until.is_none_or(|until| now >= *until + raised.greatest_lease) {
            let what = format!("node {node}, trusted until {until:?}, raises it at {now:?}: {raised:?}");
            inner.fail(Check::RaisedForALoss, what);
        }
    }

    /// A member has begun anew: if that is in the lineage of the store, all that it has from now on is of the present store.
    pub(crate) fn began_anew(&mut self, node: NodeId, incarnation: Incarnation, lineage: LineageId) {
        let Some(inner) = self.edit() else { return };
        let LineageId { number, nonce } = lineage;
        let losses = &mut inner.losses;
        if number == losses.lineage && (number == LineageNumber(0) || nonce == losses.nonce) {
            losses.stale.remove(&incarnation);
        }
        inner.seen[usize::from(node)] = ProcessSeen::default();
    }
}

impl Inner {
    /// Takes what the store shows from an earlier time.
    fn roll_back(&mut self, before: &Self) {
        (self.position, self.end, self.floor) = (before.position, before.end, before.floor);
        self.truth.clone_from(&before.truth);
        self.digests.clone_from(&before.digests);
        self.spans.clone_from(&before.spans);
        self.watched.roll_back(&before.watched);
        self.updates.clone_from(&before.updates);
        self.binds.clone_from(&before.binds);
        self.requests.clone_from(&before.requests);
        self.committers.clone_from(&before.committers);
        self.consumed.clone_from(&before.consumed);
        self.tokens.clone_from(&before.tokens);
        self.sessions.clone_from(&before.sessions);
        self.closed.clone_from(&before.closed);
        self.epochs.clone_from(&before.epochs);
        self.authored.clone_from(&before.authored);
        self.swept.clone_from(&before.swept);
        self.taken.clone_from(&before.taken);
        self.drain_said.clone_from(&before.drain_said);
        (self.last_epoch, self.numbers, self.reset_at) = (before.last_epoch, before.numbers, before.reset_at);
        self.resets.clone_from(&before.resets);
        (self.dead_leader, self.lock_since) = (None, self.now);
        self.deaths.begin_anew();
        self.passed_over.clear();
    }

    /// Whether what the node's process knows may be of a store that is no more.
    pub(super) fn is_stale(&self, node: NodeId) -> bool {
        self.seen[usize::from(node)].incarnation.is_some_and(|known| self.losses.stale.contains(&known))
    }

    /// The record of the lineage is written.
    pub(super) fn lineage_written(&mut self, world: &World, value: &[u8], by: Incarnation) {
        let Ok(Lineage { id, greatest_lease }) = Lineage::from_value(value) else { return };
        let former = std::mem::replace(&mut self.losses.lineage, id.number);
        self.losses.nonce = id.nonce;
        if id.number <= former {
            return;
        }
        self.counts.add(Check::RaisedForALoss, 1);
        // Two may have written one of the same number, and a second loss may have taken the first one's away.
        let unraised = std::mem::take(&mut self.losses.unraised);
        self.losses.is_for_one_of_several = unraised > 1;
        if unraised == 0 && !self.losses.stale.contains(&by) {
            self.fail(
                Check::RaisedForALoss,
                format!("{former:?} becomes {:?}, and nothing was lost", id.number),
            );
        }
        let until = world.now + greatest_lease + DRIFT;
        self.losses.present = Some(Loss { until, is_raised: true });
        self.losses.nobody_has_looked(world);
    }

    /// A batch is committed. The first of its lineage resets: whoever trusted what was lost does not any more.
    pub(super) fn counted(&mut self, world: &World, position: Position, resets: bool) {
        let former = self.losses.is_counted_from(world);
        self.losses.greatest = self.losses.greatest.max(position);
        if !self.awaits_reset() {
            return;
        }
        self.counts.add(Check::CountedOn, 1);
        // A token that was lost may be given again until that is noticed, and nobody who lives may know of it.
        let is_counted_on = position > former || self.losses.unraised > 0;
        if !is_counted_on || !resets {
            self.fail(
                Check::CountedOn,
                format!("{position:?} begins a lineage after {former:?}; resets: {resets}"),
            );
        }
        self.counts.add(Check::WaitedOut, 1);
        let acts =
            |id: &NodeId| world.process(*id).is_some_and(|p| p.acting(world.local(*id)).next().is_some());
        // Of another loss in this lineage nobody may know yet.
        if let Some(node) = world.ids().find(acts).filter(|_| self.losses.unraised == 0) {
            self.fail(
                Check::WaitedOut,
                format!("the registry begins anew at {position:?}, and node {node} acts by what was lost"),
            );
        }
        let told = std::mem::take(&mut self.told);
        for (call, at) in std::mem::take(&mut self.open_calls) {
            self.voided.insert(call);
            self.voided_of.insert(told[at].actor);
        }
        self.spans.clear();
        self.watched.clear();
        self.updates.clear();
        self.binds.clear();
        self.requests.clear();
        self.digests.begin(position);
    }

    /// Whether the registry was not opened in the present lineage yet.
    fn awaits_reset(&self) -> bool {
        self.losses.lineage.is_after(self.position.0)
    }

    /// Time has passed: a loss may be over.
    pub(super) fn look_at_losses(&mut self) {
        let Some(loss) = self.losses.present.filter(|loss| loss.until <= self.now) else { return };
        if self.awaits_reset() {
            return;
        }
        self.losses.present = None;
        if !loss.is_raised {
            // Nobody knew what was lost, or nobody who knew could say it yet.
            self.losses.is_history_torn = true;
        }
    }

    /// Everybody has looked at the store: who has not begun anew did not know what was lost.
    pub(super) fn all_have_looked(&mut self) {
        self.losses.stale.clear();
        self.losses.is_at_rest = true;
    }

    /// What is seen of a process that knows what was lost: nothing counts until it has begun anew. One that was started since may
    /// have it from another.
    pub(super) fn pass_over_stale(&mut self, node: NodeId, incarnation: Incarnation) -> bool {
        if self.seen[usize::from(node)].incarnation != Some(incarnation) && !self.losses.stale.is_empty() {
            self.losses.stale.insert(incarnation);
        }
        if !self.losses.stale.contains(&incarnation) {
            return false;
        }
        self.seen[usize::from(node)] =
            ProcessSeen { incarnation: Some(incarnation), ..ProcessSeen::default() };
        true
    }
}

/// A digest of the table at each position of the present lineage.
#[derive(Clone, Debug)]
pub(super) struct Digests {
    base: u64,
    list: Vec<u64>,
}

impl Default for Digests {
    fn default() -> Self {
        Self { base: 0, list: vec![0] }
    }
}

impl Digests {
    /// At a position; none of another lineage, but for its beginning: nothing was in any log before its first entry.
    pub(super) fn at(&self, position: Position) -> Option<u64> {
        if position == Position::default() {
            return Some(0);
        }
        let nth = position.0.checked_sub(self.base)?;
        self.list.get(usize::try_from(nth).ok()?).copied()
    }

    /// At the next position.
    pub(super) fn push(&mut self, digest: u64) {
        self.list.push(digest);
    }

    /// The next position is this one.
    fn begin(&mut self, next: Position) {
        (self.base, self.list) = (next.0 - 1, vec![0]);
    }
}
