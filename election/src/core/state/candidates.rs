//! Candidates come, are heard, and go.

use std::time::Duration;

use callsign_store::ids::{Beat, Epoch, MemberId, Seniority, next_count};
use callsign_store::planted;

use super::{
    Candidate, Effect, ElectionState, Evidence, Holder, Refused, Row, SWEPT_AFTER, Who, command::check_tags,
};

impl ElectionState {
    /// Whether another candidate than this one may be elected and is not known to be silent.
    pub fn rivals(&self, evidence: &Evidence, member: &MemberId) -> bool {
        let Some(policy) = self.control.as_ref().map(|control| &control.config.policy) else { return false };
        let requires = policy.requires.as_ref();
        self.candidates.iter().any(|(other, row)| {
            other != member
                && evidence.silent.get(other).is_none_or(|age| *age < row.timeout)
                && policy.is_eligible(&row.standing(other, requires))
        })
    }

    pub(super) fn join(
        &mut self,
        evidence: &Evidence,
        registration: &Candidate,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        check_tags(&registration.tags)?;
        let timeout = self.enabled()?.config.candidate_timeout;
        let Candidate { member, incarnation, priority, tags } = registration;
        // Whoever has the seat is not pushed out by a namesake: its successor waits, as any other does.
        let namesake = self.holder().filter(|h| h.member == *member && h.incarnation != *incarnation);
        if namesake.is_some_and(|h| !h.is_over(evidence)) {
            return Err(Refused::DuplicateIdentity);
        }
        let row = match self.candidates.get(member) {
            Some(row) if row.incarnation == *incarnation => {
                Row { priority: *priority, tags: tags.clone(), timeout, ..row.clone() }
            }
            _ => {
                let seniority = next_count(self.count.0.0).map(Seniority).ok_or(Refused::Exhausted)?;
                self.count.0 = seniority;
                Row {
                    incarnation: *incarnation,
                    priority: *priority,
                    seniority,
                    tags: tags.clone(),
                    timeout,
                    beat: Beat(1),
                    seen: evidence.at,
                }
            }
        };
        effects.push(Effect::Joined { seniority: row.seniority });
        self.candidates.insert(member.clone(), row);
        Ok(())
    }

    pub(super) fn beat(
        &mut self,
        evidence: &Evidence,
        who: &Who,
        priority: Option<u32>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        let timeout = self.enabled()?.config.candidate_timeout;
        let row = self.candidates.get_mut(&who.member).ok_or(Refused::Unregistered)?;
        if row.incarnation != who.incarnation {
            return Err(Refused::DuplicateIdentity);
        }
        row.beat = next_count(row.beat.0).map(Beat).ok_or(Refused::Exhausted)?;
        row.seen = evidence.at;
        row.timeout = timeout;
        row.priority = priority.unwrap_or(row.priority);
        // Challengers read only the seat: what they compare themselves with is there.
        let priority = row.priority;
        if let Some(holder) = self.holder_mut().filter(|h| h.is(who)) {
            holder.priority = priority;
        }
        effects.push(Effect::HeartbeatSeen);
        Ok(())
    }

    /// Removes an incarnation; `wait` says how long nobody may follow it, if it leads. Of another incarnation, and of
    /// nobody, it says nothing.
    pub(super) fn remove(
        &mut self,
        who: &Who,
        wait: impl FnOnce(&Holder) -> Duration,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        self.control()?;
        let leads = self.holder().is_some_and(|h| h.is(who));
        let is_own =
            |row: &Row| row.incarnation == who.incarnation || planted!("lease-leaves-for-a-namesake");
        let registered = self.candidates.get(&who.member).is_some_and(is_own);
        if leads {
            self.depose(wait, effects)?;
        }
        if registered {
            self.candidates.remove(&who.member);
        }
        effects.push(if leads || registered { Effect::Left } else { Effect::Nothing });
        Ok(())
    }

    pub(super) fn evict(
        &mut self,
        evidence: &Evidence,
        most: usize,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        self.control()?;
        // A holder that refreshes lives, whatever became of its heartbeats.
        let stays = self.holder().filter(|h| !h.is_over(evidence)).map(|h| (h.member.clone(), h.incarnation));
        let silent: Vec<_> = self
            .candidates
            .iter()
            .filter(|(member, row)| evidence.silent.get(*member).is_some_and(|age| *age >= row.timeout))
            .filter(|(member, row)| stays.as_ref().is_none_or(|(m, i)| m != *member || *i != row.incarnation))
            .map(|(member, row)| Who { member: member.clone(), incarnation: row.incarnation })
            .take(most)
            .collect();
        for who in &silent {
            if self.holder().is_some_and(|h| h.is(who)) {
                self.depose(|_| Duration::ZERO, effects)?;
            }
            self.candidates.remove(&who.member);
            effects.push(Effect::Evicted(who.member.clone()));
        }
        if silent.is_empty() {
            effects.push(Effect::Nothing);
        }
        Ok(())
    }

    /// Removes others that whoever holds the seat in this term has seen silent for long, while it held it. Of a term that is over
    /// it removes nobody.
    pub(super) fn sweep(
        &mut self,
        evidence: &Evidence,
        (who, epoch): (&Who, Epoch),
        watched: Duration,
        most: usize,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refused> {
        self.control()?;
        let is_gone = |member: &MemberId, row: &Row| {
            let silent = evidence.silent.get(member).map(|age| (*age).min(watched));
            let is_long = silent.is_some_and(|age| age >= row.timeout.saturating_mul(SWEPT_AFTER));
            *member != who.member && (is_long || planted!("lease-sweep-of-the-living"))
        };
        let holds = self.holder_of(who, epoch).is_some();
        let gone: Vec<_> = self
            .candidates
            .iter()
            .filter(|(member, row)| holds && is_gone(member, row))
            .map(|(member, _)| member.clone())
            .take(most)
            .collect();
        if gone.is_empty() {
            effects.push(Effect::Nothing);
        }
        for member in gone {
            self.candidates.remove(&member);
            effects.push(Effect::Evicted(member));
        }
        Ok(())
    }
}
