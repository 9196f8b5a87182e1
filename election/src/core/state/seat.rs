//! The seat: who gets it, who keeps it, who gives it back.

use std::time::Duration;

use callsign_store::ids::{Ballot, Epoch, Nonce, next_count};
use callsign_store::planted;

use super::{Effect, ElectionState, Evidence, Holder, RESERVE, Refused, Row, Seat, Who};
use crate::core::policy::{Decision, Preempt, Replace, Standing};

/// How a claimant comes to the seat.
enum Way {
    /// It has it: the term goes on.
    Own,
    /// Nobody has it.
    Free,
    /// It replaces a holder whose term stands.
    Replaces,
}

impl Holder {
    pub(super) fn is(&self, who: &Who) -> bool {
        self.member == who.member && self.incarnation == who.incarnation
    }

    /// How long the seat must have stood unchanged before another may follow.
    fn stands_for(&self) -> Duration {
        self.lease.saturating_add(self.lock_delay)
    }

    pub(super) fn is_over(&self, evidence: &Evidence) -> bool {
        evidence.seat.at_least >= self.stands_for()
    }

    /// Whether its own incarnation may go on with the term.
    fn is_live(&self, evidence: &Evidence) -> bool {
        evidence.seat.at_most.is_some_and(|age| age < self.lease) || planted!("lease-refresh-of-expired")
    }
}

impl ElectionState {
    pub(super) fn claim(
        &mut self,
        evidence: &Evidence,
        who: &Who,
        nonce: Nonce,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let requires = self.enabled()?.config.policy.requires.clone();
        let row = self.row(who)?.clone();
        let claimant = row.standing(&who.member, requires.as_ref());
        if !self.control()?.config.policy.is_eligible(&claimant) {
            return Err(Refused::Ineligible);
        }
        match self.way(evidence, who, &claimant)? {
            Way::Own => {
                let trusted = self.holder().map_or(Duration::ZERO, |holder| holder.lease);
                self.renew(&row, trusted, effects)
            }
            Way::Free => self.elect(evidence, who, nonce, &row, effects),
            Way::Replaces => {
                let policy = &self.control()?.config.policy;
                // Where all are ranked, the others are outranked anyway.
                let heir = Some(row.priority).filter(|_| policy.preempt == Preempt::HigherPriority);
                let wait = self.may_replace(evidence, heir, effects)?;
                if wait.is_zero() {
                    return self.elect(evidence, who, nonce, &row, effects);
                }
                self.vacate(|_| wait, heir, effects)?;
                Err(Refused::TooEarly { wait })
            }
        }
    }

    /// How the claimant may come to the seat, or why not.
    fn way(&self, evidence: &Evidence, who: &Who, claimant: &Standing) -> Result<Way, Refused> {
        let control = self.control()?;
        let policy = &control.config.policy;
        let seen = evidence.seat.at_least;
        let not_before = |wait: Duration| match wait.checked_sub(seen) {
            Some(left) if !left.is_zero() => Err(Refused::TooEarly { wait: left }),
            _ => Ok(()),
        };
        let holder = match &self.seat {
            // Lost: somebody may have had it, and may believe in it still.
            None => {
                not_before(control.config.lease.saturating_add(control.config.lock_delay))?;
                None
            }
            Some(Seat { holder: None, wait, heir, .. }) => {
                // Somebody better is to follow, and has a lease to come: whoever took it before would have to go again.
                let is_anothers = heir.is_some_and(|heir| claimant.priority < heir);
                let leaves = is_anothers && !planted!("lease-heir-forgotten");
                let more = if leaves { control.config.lease } else { Duration::ZERO };
                not_before(wait.saturating_add(more))?;
                None
            }
            Some(Seat { holder: Some(holder), .. }) if holder.is(who) => {
                if holder.is_live(evidence) {
                    return Ok(Way::Own);
                }
                // Nobody but myself has it, and I do not go on with it.
                if !holder.lock_delay.is_zero() {
                    not_before(holder.stands_for())?;
                }
                None
            }
            Some(Seat { holder: Some(holder), .. }) => {
                let lease = if planted!("lease-own-duration") { control.config.lease } else { holder.lease };
                if seen < lease {
                    Some(holder)
                } else {
                    not_before(lease.saturating_add(holder.lock_delay))?;
                    None
                }
            }
        };
        if holder.is_some_and(|h| h.member == who.member) {
            return Err(Refused::DuplicateIdentity);
        }
        let live = self.live(evidence, claimant, holder);
        match policy.decide(&live, holder.map(|h| &h.member), Some(&who.member)) {
            Decision::Elect(member) if member == who.member => match holder {
                None => Ok(Way::Free),
                Some(_) => Ok(Way::Replaces),
            },
            Decision::Elect(_) if holder.is_none() => Err(Refused::Outranked),
            Decision::Elect(_) | Decision::Keep => Err(Refused::Held),
            Decision::Vacate => Err(Refused::Ineligible),
        }
    }

    /// Whom the decision is about: the claimant, the holder, and, if the policy ranks them, all that are not silent.
    fn live(&self, evidence: &Evidence, claimant: &Standing, holder: Option<&Holder>) -> Vec<Standing> {
        let Some(control) = &self.control else { return Vec::new() };
        let requires = control.config.policy.requires.as_ref();
        let mut live = vec![claimant.clone()];
        live.extend(holder.map(|h| h.standing(requires)));
        if control.config.policy.needs_all() {
            let others = self.candidates.iter().filter(|(member, row)| {
                **member != claimant.member
                    && holder.is_none_or(|h| h.member != **member)
                    && evidence.silent.get(*member).is_none_or(|age| *age < row.timeout)
            });
            live.extend(others.map(|(member, row)| row.standing(member, requires)));
        }
        live
    }

    /// Whether the holder may be replaced now, by somebody who comes before it. How long nobody may follow it then. If it is
    /// only asked to go, it is for this heir.
    fn may_replace(
        &mut self,
        evidence: &Evidence,
        heir: Option<u32>,
        effects: &mut Vec<Effect>,
    ) -> Result<Duration, Refused> {
        let policy = &self.control()?.config.policy;
        let (least, replace) = (policy.min_tenure, policy.replace);
        let Some((holder, epoch)) = self.holder().zip(self.seat.as_ref().map(|seat| seat.epoch)) else {
            return Ok(Duration::ZERO);
        };
        let wants = policy.is_eligible(&holder.standing(policy.requires.as_ref()));
        let wait = holder.wait_when_deposed();
        if wants && (evidence.epoch < least || evidence.registered < least) {
            return Err(Refused::Held);
        }
        if let Replace::HandOver { grace } = replace {
            if self.control()?.request != Some(epoch) {
                self.rewrite(|control| (control.request, control.heir) = (Some(epoch), heir))?;
                effects.push(Effect::Asked { epoch });
                return Err(Refused::Held);
            }
            if evidence.request < grace {
                return Err(Refused::Held);
            }
        }
        Ok(wait)
    }

    fn elect(
        &mut self,
        evidence: &Evidence,
        who: &Who,
        nonce: Nonce,
        row: &Row,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let ballot = self.next_ballot()?;
        let config = &self.control()?.config;
        let holder = Holder {
            member: who.member.clone(),
            incarnation: who.incarnation,
            nonce,
            priority: row.priority,
            seniority: row.seniority,
            tags: row.tags.clone(),
            lease: config.lease,
            lock_delay: config.lock_delay,
            elected_at: evidence.at,
        };
        let seat =
            Seat { ballot, epoch: Epoch(ballot.0), holder: Some(holder), wait: Duration::ZERO, heir: None };
        let was = self.seat.as_ref().and_then(Seat::term);
        effects.extend(was.map(|was| Effect::Vacated { was }));
        effects.extend(seat.term().map(|term| Effect::Elected { term, fence: seat.fence() }));
        self.seat = Some(seat);
        Ok(())
    }

    pub(super) fn refresh(
        &mut self,
        evidence: &Evidence,
        who: &Who,
        epoch: Epoch,
        trusted: Duration,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        self.control()?;
        let holder = self.holder_of(who, epoch).ok_or(Refused::TermOver)?;
        if !holder.is_live(evidence) {
            return Err(Refused::TermOver);
        }
        let policy = &self.enabled()?.config.policy;
        let row = self.row(who)?;
        if !policy.is_eligible(&row.standing(&who.member, policy.requires.as_ref())) {
            return Err(Refused::Ineligible);
        }
        let row = row.clone();
        self.renew(&row, trusted, effects)
    }

    /// The term goes on, under the present configuration. The holder is granted the configured lease; others leave it the
    /// seat for as long as it may believe what it was granted before.
    fn renew(&mut self, row: &Row, trusted: Duration, effects: &mut Vec<Effect>) -> Result<(), Refused> {
        let ballot = self.next_ballot()?;
        let config = &self.control()?.config;
        let trusted = if planted!("lease-shortened-at-once") { Duration::ZERO } else { trusted };
        let (lease, lock_delay) = (config.lease.max(trusted), config.lock_delay);
        let Some(seat) = &mut self.seat else { return Err(Refused::TermOver) };
        seat.ballot = ballot;
        if let Some(holder) = &mut seat.holder {
            holder.priority = row.priority;
            holder.tags.clone_from(&row.tags);
            holder.lease = lease;
            holder.lock_delay = lock_delay;
        }
        let (term, fence) = (seat.term(), seat.fence());
        effects.extend(term.map(|term| Effect::Refreshed { term, fence }));
        Ok(())
    }

    pub(super) fn resign(
        &mut self,
        who: &Who,
        epoch: Epoch,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        self.control()?;
        if self.holder_of(who, epoch).is_none() {
            effects.push(Effect::Nothing);
            return Ok(());
        }
        self.depose(|_| Duration::ZERO, effects)?;
        if planted!("lease-resign-resets-ballot") {
            self.seat = Some(Seat::default());
        }
        Ok(())
    }

    /// Ends the term, if there is one. `wait`: how long nobody may follow. If a candidate had asked for it, it follows.
    pub(super) fn depose(
        &mut self,
        wait: impl FnOnce(&Holder) -> Duration,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let epoch = self.seat.as_ref().map(|seat| seat.epoch);
        let asked = self.control.as_ref().filter(|control| control.request == epoch);
        let heir = asked.and_then(|control| control.heir);
        self.vacate(wait, heir, effects)
    }

    fn vacate(
        &mut self,
        wait: impl FnOnce(&Holder) -> Duration,
        heir: Option<u32>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let Some((was, wait)) =
            self.seat.as_ref().and_then(|seat| Some((seat.term()?, wait(seat.holder.as_ref()?))))
        else {
            return Ok(());
        };
        let ballot = self.next_ballot()?;
        self.seat = Some(Seat { ballot, epoch: Epoch(ballot.0), holder: None, wait, heir });
        effects.push(Effect::Vacated { was });
        Ok(())
    }

    /// One ballot more than was ever given out, also if the seat's record is gone.
    pub(super) fn next_ballot(&mut self) -> Result<Ballot, Refused> {
        let reserved = self.control()?.reserved;
        let last = self.seat.as_ref().map_or(reserved, |seat| seat.ballot);
        let next = next_count(last.0).map(Ballot).ok_or(Refused::Exhausted)?;
        if next > reserved {
            let reserved = Ballot(next.0.saturating_add(RESERVE));
            self.rewrite(|control| control.reserved = reserved)?;
        }
        Ok(next)
    }

    pub(super) fn holder(&self) -> Option<&Holder> {
        self.seat.as_ref()?.holder.as_ref()
    }

    pub(super) fn holder_mut(&mut self) -> Option<&mut Holder> {
        self.seat.as_mut()?.holder.as_mut()
    }

    /// The holder, if it is this incarnation, in this term.
    pub(super) fn holder_of(&self, who: &Who, epoch: Epoch) -> Option<&Holder> {
        let seat = self.seat.as_ref()?;
        let holder = seat.holder.as_ref()?;
        if planted!("lease-refresh-by-member") {
            return Some(holder).filter(|h| h.member == who.member);
        }
        Some(holder).filter(|h| h.is(who) && seat.epoch == epoch)
    }

    fn row(&self, who: &Who) -> Result<&Row, Refused> {
        let row = self.candidates.get(&who.member).ok_or(Refused::Unregistered)?;
        if row.incarnation == who.incarnation { Ok(row) } else { Err(Refused::DuplicateIdentity) }
    }
}
