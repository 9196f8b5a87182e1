//! Follows a system that has a leader already: who leads there leads here.
//!
//! Promises no more than that system does, and less: between two questions it may have changed its leader, so that two
//! lead here for up to the validity given. If it believes in a leader that is gone, so does this. Grants carry no fence;
//! [`Fenced`](super::fenced::Fenced) adds one.

use std::{future::Future, time::Duration};

use callsign_store::ids::{Epoch, Incarnation, MemberId};
use futures::{StreamExt, stream::BoxStream};

use crate::{
    core::{
        term::{AuthorityTime, Term},
        timing::refresh_after,
    },
    oracle::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Refusal, Signal, Validity, Verdict},
};

/// Who leads in the system that is followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Leads {
    /// This process.
    Here,
    /// Another; who, if it is known.
    Elsewhere(Option<MemberId>),
    /// Nobody.
    Nobody,
}

/// The system did not say. Nothing is concluded from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct Unclear(pub String);

/// A system that has a leader.
pub trait Source: Send + 'static {
    /// Who leads there, now. What is cached there counts from when it was true: subtract its age from the validity.
    fn leader(&mut self) -> impl Future<Output = Result<Leads, Unclear>> + Send;

    /// Says that it may have changed. Asked for once. It only brings the next question forward.
    fn changes(&mut self) -> BoxStream<'static, ()> {
        Box::pin(futures::stream::pending())
    }
}

/// An oracle that follows another system's leader.
#[derive(Debug)]
pub struct FollowOracle<S> {
    source: S,
    validity: Duration,
    me: Option<Context>,
    /// How often it has led.
    terms: u64,
    leads: Option<Term>,
}

impl<S: Source> FollowOracle<S> {
    /// Follows a system. An answer of it is believed for `validity`, which is also for how long two may lead after it has
    /// changed its leader; it is asked again after a third of it, and has another third to answer.
    pub fn new(source: S, validity: Duration) -> Self {
        Self { source, validity, me: None, terms: 0, leads: None }
    }

    /// Asks. `None`: this process leads, in the term that is noted.
    async fn ask(&mut self) -> Result<Option<Denial>, Fault> {
        let unclear = |cause: String| Fault::Transient { maybe_committed: false, cause };
        let me = self.me.clone().ok_or_else(|| Fault::Fatal("it was not initialised".to_owned()))?;
        let answer = tokio::time::timeout(self.validity / 3, self.source.leader()).await;
        let leads = match answer {
            Ok(Ok(leads)) => leads,
            Ok(Err(Unclear(cause))) => return Err(unclear(cause)),
            Err(_) => return Err(unclear("the system that is followed does not answer".to_owned())),
        };
        let (why, leader) = match leads {
            Leads::Here => {
                if self.leads.is_none() {
                    self.terms += 1;
                    self.leads = Some(term(me.member, me.incarnation, self.terms));
                }
                return Ok(None);
            }
            Leads::Elsewhere(who) => (Refusal::Held, who.map(|who| term(who, Incarnation(0), 0))),
            // There is a seat, and it is not ours to take.
            Leads::Nobody => (Refusal::Ineligible, None),
        };
        self.leads = None;
        Ok(Some(Denial { why, leader, retry_in: None }))
    }

    fn grant(&self, term: Term) -> Grant<()> {
        Grant {
            term,
            fence: (),
            validity: Validity::For(self.validity),
            refresh_in: Some(refresh_after(self.validity)),
        }
    }
}

/// Epochs count this process's own terms; of others nothing is known but the name, and the rest is 0.
fn term(leader: MemberId, incarnation: Incarnation, nth: u64) -> Term {
    Term { leader, incarnation, epoch: Epoch(nth), elected_at: AuthorityTime(0) }
}

impl<S: Source> Oracle for FollowOracle<S> {
    type Fence = ();
    type Info = std::convert::Infallible;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.me = Some(context.clone());
        Ok(Init::Ready)
    }

    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        Ok(match (self.ask().await?, self.leads.clone()) {
            (None, Some(term)) => Verdict::Granted(self.grant(term)),
            (None, None) => return Err(Fault::Fatal("it leads in no term".to_owned())),
            (Some(denial), _) => Verdict::Denied(denial),
        })
    }

    async fn refresh(&mut self, _: Attempt, held: &Grant<()>) -> Result<Verdict<()>, Fault> {
        let over = |leader| Denial { why: Refusal::TermOver, leader, retry_in: None };
        Ok(match self.ask().await? {
            None if self.leads.as_ref() == Some(&held.term) => {
                Verdict::Granted(self.grant(held.term.clone()))
            }
            None => Verdict::Denied(over(self.leads.clone())),
            Some(denial) => Verdict::Denied(over(denial.leader)),
        })
    }

    /// There is nothing to give back: the other system decides. The term is over here, nevertheless.
    async fn abdicate(&mut self, held: &Grant<()>) -> Result<bool, Fault> {
        self.leads.take_if(|term| *term == held.term);
        Ok(false)
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        self.source.changes().map(|()| Signal::Wakeup).boxed()
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
