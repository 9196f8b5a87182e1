//! What a grant is worth, and until when.

use std::time::Duration;

use callsign_store::{planted, time::Time};

use super::{
    Asked, CampaignSeat, Core, Effect, Held, Listening, Lost, Releasing, RunId, Work, role::Tidying,
};
use crate::{
    core::campaign::{
        Until,
        event::CampaignEventKind,
        status::{Trouble, Unusable},
    },
    oracle::{Grant, Validity},
};

/// What a grant is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Worth {
    until: Until,
    refresh_at: Option<Time>,
    patience: Duration,
}

impl Unusable {
    /// Until when a grant could be trusted that is not used.
    fn trusted(self, now: Time) -> Until {
        match self {
            Self::TooLate { .. } | Self::TooShort { .. } => Until::At(now),
            Self::UnfencedForever | Self::OtherTerm => Until::Revoked,
        }
    }
}

impl<F: Clone + PartialEq + 'static> Core<F> {
    /// What a grant is worth at `now`, if its attempt was first sent at `anchor`.
    fn judge(&self, now: Time, grant: &Grant<F>, anchor: Time) -> Result<Worth, Unusable> {
        let timing = &self.config.timing;
        let validity = match grant.validity {
            // What has no size tells no two terms apart: no sink could check it.
            Validity::UntilRevoked if size_of::<F>() == 0 => return Err(Unusable::UnfencedForever),
            Validity::UntilRevoked => {
                let refresh_at = grant.refresh_in.map(|after| anchor + after);
                return Ok(Worth { until: Until::Revoked, refresh_at, patience: timing.op_timeout });
            }
            Validity::For(validity) => validity,
        };
        let (window, needed) = (timing.window(validity), timing.least_window());
        if window < needed {
            let (margin, stop_budget) = (timing.margin, timing.stop_budget);
            return Err(Unusable::TooShort { validity, window, margin, stop_budget, needed });
        }
        let anchor = if planted!("campaign-trust-from-the-reply") { now } else { anchor };
        let until = anchor + window;
        if until <= now && !planted!("campaign-late-grant-is-used") {
            return Err(Unusable::TooLate { window, late: now.since(until) });
        }
        let latest = timing.latest_refresh(window);
        let refresh_at = grant.refresh_in.map(|after| anchor + after.min(latest));
        let refresh_at = if planted!("campaign-refresh-at-the-end") { Some(until) } else { refresh_at };
        Ok(Worth { until: Until::At(until), refresh_at, patience: timing.patience(window) })
    }

    /// A seat was granted to a member that had none. While a term ends, nothing is asked that is answered by a grant.
    pub(super) fn granted(&mut self, now: Time, grant: Grant<F>, anchor: Time, out: &mut Vec<Effect<F>>) {
        let epoch = grant.term.epoch;
        // If it is the same, it has it again.
        self.left = None;
        let is_revoked = self.revoked.take() == Some(epoch);
        let is_asked = self.asked.take().is_some_and(|Asked(asked)| asked.is_none_or(|asked| asked == epoch));
        if is_revoked {
            self.poll_later(now);
            return;
        }
        let worth = match self.judge(now, &grant, anchor) {
            Ok(worth) => worth,
            Err(why) => {
                self.failures = self.failures.saturating_add(1);
                self.trouble = Some(Trouble::Unusable(why));
                let lost = if self.is_stopping() { Lost::Shutdown } else { Lost::TrustLapsed };
                self.seat = CampaignSeat::Releasing(Releasing::new(now, grant, why.trusted(now), lost));
                self.emit(now, CampaignEventKind::UnusableGrant { why }, out);
                return;
            }
        };
        let other = self.leader.replace(grant.term.clone());
        let other = other.filter(|other| *other != grant.term && other.epoch >= epoch);
        if self.is_stopping() || is_asked {
            let lost = if self.is_stopping() { Lost::Shutdown } else { Lost::ResignRequested };
            self.lost = Some(lost);
            self.leader = None;
            self.seat = CampaignSeat::Releasing(Releasing::new(now, grant, worth.until, lost));
            self.emit(now, CampaignEventKind::Claimed, out);
            self.emit(now, CampaignEventKind::Lost { why: lost }, out);
            return;
        }
        let Worth { until, refresh_at, patience } = worth;
        out.push(Effect::Trust { grant: grant.clone(), until });
        let work = Work::Waiting { at: now, attempt: 1, run: RunId(self.runs) };
        let tidying = Tidying::NotYet;
        self.seat = CampaignSeat::Held(Held { grant, until, refresh_at, anchor, patience, work, tidying });
        self.listening = Listening::Open;
        self.emit(now, CampaignEventKind::Claimed, out);
        if let Some(other) = other {
            self.emit(now, CampaignEventKind::DuplicateLeader { other }, out);
        }
    }

    /// A grant came while a term is held.
    pub(super) fn refreshed(&mut self, now: Time, grant: Grant<F>, anchor: Time, out: &mut Vec<Effect<F>>) {
        let worth = self.judge(now, &grant, anchor);
        let CampaignSeat::Held(held) = &mut self.seat else { return };
        if grant.term != held.grant.term {
            // The term is over, and the new one was won without the role: it is given back.
            let why = Unusable::OtherTerm;
            self.trouble = Some(Trouble::Unusable(why));
            self.emit(now, CampaignEventKind::UnusableGrant { why }, out);
            let trusted = worth.map_or_else(|why| why.trusted(now), |worth| worth.until);
            self.lose_for(now, Lost::Denied, Some((grant, trusted)), out);
            return;
        }
        match worth {
            Ok(Worth { until, refresh_at, patience }) => {
                out.push(Effect::Trust { grant: grant.clone(), until });
                (held.grant, held.until, held.refresh_at) = (grant, until, refresh_at);
                (held.anchor, held.patience) = (anchor, patience);
                held.tidying.may_begin(now);
                self.emit(now, CampaignEventKind::Refreshed, out);
                if std::mem::replace(&mut self.listening, Listening::Open) == Listening::Signalled {
                    self.wake(now);
                }
            }
            // A validity that shrank, or a lie: whatever the former grant said does not count any more.
            Err(why) => {
                (held.grant, held.until) = (grant, why.trusted(now));
                self.trouble = Some(Trouble::Unusable(why));
                self.emit(now, CampaignEventKind::UnusableGrant { why }, out);
                self.lose(now, Lost::TrustLapsed, true, out);
            }
        }
    }
}
