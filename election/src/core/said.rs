//! What the events of an election say in a log: a sentence each.

use std::fmt;

use callsign_store::ids::MemberId;

use super::{
    campaign::event::{CampaignEvent, CampaignEventKind},
    lease::event::{LeaseEvent, LeaseEventKind},
};

impl fmt::Display for CampaignEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed => f.write_str("the seat is this member's"),
            Self::Rejected { why } => write!(f, "the claim was denied: {why}"),
            Self::Refreshed => f.write_str("the term is refreshed"),
            Self::Lost { why } => write!(f, "this member leads no more: {why}"),
            Self::UnusableGrant { why } => write!(f, "a grant is of no use: {why}"),
            Self::DuplicateIdentity => f.write_str("another process takes part under this member's id"),
            Self::DuplicateLeader { other } => {
                write!(f, "the seat was granted, although {other} is known to lead")
            }
            Self::UnknownOutcome { fault } => write!(f, "it is not known what became of an attempt: {fault}"),
            Self::Failed { fault } => write!(f, "an attempt came to nothing: {fault}"),
            Self::Resigned { was_there: true } => f.write_str("the seat is given back"),
            Self::Resigned { was_there: false } => {
                f.write_str("the seat was to be given back, and was this member's no more")
            }
            Self::ResignFailed { fault } => {
                write!(f, "the seat was not given back, and stays taken until the lease ends: {fault}")
            }
            Self::LeaveFailed { fault } => {
                write!(f, "something of this campaign may be left with the oracle: {fault}")
            }
            Self::TidyFailed { fault } => write!(f, "what others left behind was not removed: {fault}"),
            Self::RoleActivating { attempt } => write!(f, "the role is to begin (attempt {attempt})"),
            Self::RoleActive { took } => write!(f, "the role began within {took:?}"),
            Self::RoleActivateFailed { attempt, reason } => {
                write!(f, "the role did not begin (attempt {attempt}): {reason}")
            }
            Self::RoleStopping { why, budget } => write!(f, "the role is to stop within {budget:?}: {why}"),
            Self::RoleStopped { took } => write!(f, "the role stopped within {took:?}"),
            Self::RoleAborted { took } => write!(f, "the role did not stop within {took:?}, and is aborted"),
            Self::RoleExited { reason } => write!(f, "the role ended by itself: {reason}"),
        }
    }
}

impl fmt::Display for CampaignEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.what.name(), self.member, self.election)?;
        if let Some(epoch) = self.epoch {
            write!(f, " in epoch {epoch}")?;
        }
        Ok(())
    }
}

/// With the member that the event is about.
impl fmt::Display for LeaseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.member.as_ref().map_or("nobody", MemberId::as_str);
        match &self.what {
            LeaseEventKind::Initialised => f.write_str("the election has its first configuration"),
            LeaseEventKind::ConfigChanged => f.write_str("the election has another configuration"),
            LeaseEventKind::Enabled => f.write_str("the election takes claims again"),
            LeaseEventKind::Disabled => f.write_str("the election takes no claims any more"),
            LeaseEventKind::Joined { seniority } => {
                write!(f, "{who} is a candidate, of seniority {seniority}")
            }
            LeaseEventKind::Left => write!(f, "{who} is no candidate any more"),
            LeaseEventKind::DownApplied => write!(f, "{who} is dead, and no candidate any more"),
            LeaseEventKind::DownStale => {
                write!(f, "{who} was called dead in a start that is not registered, so nothing was done")
            }
            LeaseEventKind::Evicted { members } => {
                let members: Vec<_> = members.iter().map(MemberId::as_str).collect();
                write!(f, "{} said nothing for too long: no candidate any more", members.join(", "))
            }
            LeaseEventKind::ResignRequested { epoch } => {
                write!(f, "{who} is asked to give epoch {epoch} back")
            }
            LeaseEventKind::Elected => write!(f, "{who} is elected"),
            LeaseEventKind::Vacated { was } => write!(f, "the term of {was} is over"),
            LeaseEventKind::Preempted { was, by } => {
                write!(f, "the term of {was} is over, since {by} comes before it")
            }
            LeaseEventKind::Refused { why } => write!(f, "{who} was refused: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callsign_store::ids::{Epoch, Incarnation, Seniority};

    use super::*;
    use crate::{
        core::{
            state::Refused,
            term::{AuthorityTime, Term},
        },
        oracle::{Fault, Refusal},
        role::Lost,
    };

    fn member(name: &str) -> MemberId {
        MemberId::new(name).unwrap()
    }

    fn term() -> Term {
        let (incarnation, elected_at) = (Incarnation(u64::MAX), AuthorityTime(0));
        Term { leader: member("a"), incarnation, epoch: Epoch(3), elected_at }
    }

    #[test]
    fn what_happens_in_a_campaign_is_a_sentence() {
        let took = Duration::from_millis(20);
        let fault = || Fault::Fatal("no table".into());
        for (what, said) in [
            (
                CampaignEventKind::Rejected { why: Refusal::Held },
                "the claim was denied: somebody else has the seat",
            ),
            (
                CampaignEventKind::Lost { why: Lost::Shutdown },
                "this member leads no more: the campaign stops",
            ),
            (
                CampaignEventKind::DuplicateLeader { other: term() },
                "the seat was granted, although a in epoch 3 is known to lead",
            ),
            (
                CampaignEventKind::Failed { fault: fault() },
                "an attempt came to nothing: the oracle cannot decide: no table",
            ),
            (CampaignEventKind::Resigned { was_there: true }, "the seat is given back"),
            (CampaignEventKind::RoleActive { took }, "the role began within 20ms"),
            (
                CampaignEventKind::RoleExited { reason: "it had enough".into() },
                "the role ended by itself: it had enough",
            ),
        ] {
            assert_eq!(what.to_string(), said);
        }
    }

    #[test]
    fn what_happens_to_an_election_is_a_sentence() {
        let of = |name: Option<&str>, what| LeaseEvent {
            member: name.map(member),
            incarnation: None,
            epoch: None,
            ballot: None,
            leader: None,
            what,
        };
        let evicted = LeaseEventKind::Evicted { members: vec![member("b"), member("c")] };
        for (event, said) in [
            (
                of(Some("b"), LeaseEventKind::Joined { seniority: Seniority(4) }),
                "b is a candidate, of seniority 4",
            ),
            (of(None, evicted), "b, c said nothing for too long: no candidate any more"),
            (of(Some("a"), LeaseEventKind::Elected), "a is elected"),
            (of(Some("a"), LeaseEventKind::Vacated { was: term() }), "the term of a in epoch 3 is over"),
            (
                of(Some("b"), LeaseEventKind::Refused { why: Refused::Disabled }),
                "b was refused: the election is disabled",
            ),
        ] {
            assert_eq!(event.to_string(), said);
        }
    }
}
