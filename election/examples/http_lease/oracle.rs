//! The oracle: asks the server, and knows the code of its claim.

use std::time::Duration;

use callsign_election::{
    AuthorityTime, Context, Denial, Fault, Grant, Init, Oracle, Refusal, Term, Validity, Verdict,
    oracle::Attempt, timing::refresh_after,
};
use callsign_store::ids::{Epoch, Incarnation, MemberId};
use serde::{Serialize, de::DeserializeOwned};

use crate::server::{Claim, Holder, Show, Won};

/// A lease over HTTP. It advises: the server counts terms in memory only.
pub(crate) struct HttpLease {
    url: String,
    lease: Duration,
    agent: ureq::Agent,
    me: Option<Context>,
    /// The term that it has, and the code that proves it.
    held: Option<(Term, String)>,
}

impl HttpLease {
    pub(crate) fn new(url: String, lease: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            // What the server refuses is an answer.
            .http_status_as_error(false)
            .timeout_global(Some(lease / 3))
            .proxy(None) // the server is on this machine
            .build();
        Self { url, lease, agent: config.into(), me: None, held: None }
    }

    /// The answer, or the refusal.
    pub(crate) async fn ask<T, E>(
        &self,
        path: &str,
        body: impl Serialize + Send + 'static,
    ) -> Result<Result<T, E>, Fault>
    where
        T: DeserializeOwned + Send + 'static,
        E: DeserializeOwned + Send + 'static,
    {
        let (agent, url) = (self.agent.clone(), format!("{}{path}", self.url));
        let asked = tokio::task::spawn_blocking(move || {
            let mut answer = agent.post(&url).send_json(&body)?;
            if answer.status().is_success() {
                answer.body_mut().read_json().map(Ok)
            } else {
                answer.body_mut().read_json().map(Err)
            }
        });
        // Whatever went wrong, the server may have done it.
        let unknown = |cause: String| Fault::Transient { maybe_committed: true, cause };
        let answer = asked.await.map_err(|error| unknown(error.to_string()))?;
        answer.map_err(|error: ureq::Error| unknown(error.to_string()))
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    fn granted(&mut self, won: Won) -> Result<Verdict<()>, Fault> {
        let term = term(won.holder)?;
        self.held = Some((term.clone(), won.code));
        let validity = Validity::For(Duration::from_millis(won.left_ms));
        Ok(Verdict::Granted(Grant { term, fence: (), validity, refresh_in: Some(refresh_after(self.lease)) }))
    }

    /// The code of a term, if it is the one that this oracle has.
    fn code(&self, term: &Term) -> Option<Show> {
        let (_, code) = self.held.as_ref().filter(|(held, _)| held == term)?;
        Some(Show { code: code.clone(), lease_ms: self.lease_ms() })
    }
}

fn term(holder: Holder) -> Result<Term, Fault> {
    let leader = MemberId::new(holder.member).map_err(|error| Fault::Fatal(error.to_string()))?;
    let (incarnation, epoch) = (Incarnation(holder.incarnation), Epoch(holder.term));
    Ok(Term { leader, incarnation, epoch, elected_at: AuthorityTime(0) })
}

fn denied(why: Refusal, leader: Option<Term>) -> Verdict<()> {
    Verdict::Denied(Denial { why, leader, retry_in: None })
}

impl Oracle for HttpLease {
    type Fence = ();
    type Info = ();

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.me = Some(context.clone());
        Ok(Init::Ready)
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<()>, Fault> {
        let me = self.me.clone().ok_or_else(|| Fault::Fatal("it was not initialised".to_owned()))?;
        // My own valid term, asked for again.
        if let Some(show) = self.held.as_ref().and_then(|(term, _)| self.code(term)) {
            if let Ok(won) = self.ask::<Won, Option<Holder>>("/refresh", show).await? {
                return self.granted(won);
            }
            self.held = None;
        }
        let claim = Claim {
            member: me.member.to_string(),
            incarnation: me.incarnation.0,
            nonce: attempt.nonce.0,
            lease_ms: self.lease_ms(),
        };
        match self.ask::<Won, Holder>("/claim", claim).await? {
            Ok(won) => self.granted(won),
            Err(holder) => {
                let leader = term(holder)?;
                let is_double = leader.leader == me.member && leader.incarnation != me.incarnation;
                let why = if is_double { Refusal::DuplicateIdentity } else { Refusal::Held };
                Ok(denied(why, Some(leader)))
            }
        }
    }

    async fn refresh(&mut self, _: Attempt, held: &Grant<()>) -> Result<Verdict<()>, Fault> {
        let Some(show) = self.code(&held.term) else { return Ok(denied(Refusal::TermOver, None)) };
        match self.ask::<Won, Option<Holder>>("/refresh", show).await? {
            Ok(won) => self.granted(won),
            Err(holder) => {
                self.held = None;
                Ok(denied(Refusal::TermOver, holder.map(term).transpose()?))
            }
        }
    }

    async fn abdicate(&mut self, held: &Grant<()>) -> Result<bool, Fault> {
        let Some(show) = self.code(&held.term) else { return Ok(false) };
        let released = self.ask::<bool, serde::de::IgnoredAny>("/release", show).await?;
        self.held = None;
        Ok(released.unwrap_or(false))
    }
}
