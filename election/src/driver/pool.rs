//! A replicated pool of rows, one per peer: the best by priority, seniority and id leads. Nobody decides.
//!
//! For pools that sync when they can, and accept every write: each peer ranks what *its* replica has. Rows carry readings of
//! wall clocks, which are compared between machines here and nowhere else; so the greatest difference between two clocks
//! has to be declared. Who leads stops trusting that much before its heartbeat expires, and others take over that much
//! after it. A row that is further in the future than that says nothing.
//!
//! A peer that comes before the leader, because it joins or raises its priority, waits: the leader is told with its next look,
//! stops, and gives its term back; or its row expires.
//!
//! Promises: peers whose replicas have the same rows agree on the leader, and take turns without overlap while clocks
//! differ less than declared and rows arrive in time. They do not arrive in time where two begin to lead before either has
//! the other's row: both lead until the worse one has that row, looks, and has stopped.
//!
//! Does not promise one leader while the pool is in parts: each part has its own. Grants have no fence, they advise. For work
//! that must not run twice, rank inside a store: [`Policy::ranked`](super::policy::Policy::ranked) with a
//! [`LeaseOracle`](super::lease::LeaseOracle).

use std::{fmt, sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};

use crate::{
    core::term::Term,
    oracle::{
        Attempt, Context, Denial, Fault, Grant, Init, Oracle, Reaction, Refusal, Signal, Validity, Verdict,
    },
};

mod ranking;
mod replica;
mod timing;

use ranking::{age, term, top};
pub use replica::{Pool, PoolFailed, PoolRow};
pub use timing::{PoolTiming, WrongPoolTiming};

/// Reads the wall clock: the time since 1970 as this machine believes it.
pub type WallClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A new priority for this peer. 0 takes it out: others lead as soon as they see that it has given its term back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetPriority(pub u32);

/// One peer's look at the pool.
pub struct PoolOracle<P> {
    pool: P,
    timing: PoolTiming,
    clock: WallClock,
    priority: u32,
    me: Option<Context>,
    /// The row as it was last written.
    written: Option<PoolRow>,
    /// The term in which it leads.
    leads: Option<Term>,
}

impl<P: fmt::Debug> fmt::Debug for PoolOracle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOracle")
            .field("pool", &self.pool)
            .field("leads", &self.leads)
            .finish_non_exhaustive()
    }
}

impl<P: Pool> PoolOracle<P> {
    /// Takes part in a pool with a priority. `clock` is this machine's wall clock.
    pub fn new(
        pool: P,
        priority: u32,
        timing: PoolTiming,
        clock: WallClock,
    ) -> Result<Self, WrongPoolTiming> {
        timing.check()?;
        Ok(Self { pool, timing, clock, priority, me: None, written: None, leads: None })
    }

    /// The row as it was last written, if it still counts.
    fn live(&self, now: Duration) -> Option<&PoolRow> {
        self.written.as_ref().filter(|row| self.timing.is_live(row, now))
    }

    /// Looks at the pool, and says in it that this peer is there. `None`: it leads, in the term that is noted. A peer that claims has
    /// no work that goes on.
    async fn look(&mut self, claims: bool) -> Result<Option<Denial>, Fault> {
        let me = self.me.clone().ok_or_else(|| Fault::Fatal("it was not initialised".to_owned()))?;
        let rows = self.pool.rows().await.map_err(PoolFailed::fault)?;
        let now = (self.clock)();
        let found = rows.iter().find(|row| row.member == me.member);
        if let Some(other) = found.filter(|row| row.incarnation != me.incarnation && row.priority > 0)
            && self.timing.is_live(other, now)
            && self.live(now).is_none_or(|mine| age(other) <= age(mine))
        {
            // The elder stays, so that not both give way. A former process of ours looks the same until it expires.
            self.leads = None;
            return Ok(Some(self.denial(Refusal::DuplicateIdentity, term(other))));
        }
        // Removed, or so long expired that nobody saw it any more: it joins anew, and is the youngest.
        let before = match found {
            Some(row) if row.incarnation == me.incarnation => Some(row),
            // Another process of this name, a younger one, or one of the past, has written over it.
            Some(_) => self.live(now),
            None => None,
        };
        let before = before.filter(|row| self.timing.is_live(row, now)).cloned();
        if before.is_none() {
            self.leads = None;
        }
        let terms = self.written.as_ref().map_or(0, |row| row.terms);
        let mut mine = before.unwrap_or_else(|| PoolRow::joining(&me, terms, now));
        mine.priority = self.priority;
        let others: Vec<_> =
            rows.iter().filter(|row| row.member != me.member && self.timing.is_live(row, now)).collect();
        let top = top(others.iter().copied().chain([&mine]));
        let leading = others.iter().find(|row| row.leads_since.is_some());
        let denial = if top.as_ref() == Some(&me.member) {
            // The leader stops when it sees this peer's row. Of two that lead already, the worse one stops.
            let waits_for = leading.filter(|_| self.leads.is_none());
            waits_for.map(|other| self.denial(Refusal::Held, term(other)))
        } else {
            let why = if self.priority == 0 { Refusal::Ineligible } else { Refusal::Outranked };
            let leader = rows.iter().find(|row| Some(&row.member) == top.as_ref());
            Some(self.denial(why, leader.and_then(term)))
        };
        if denial.is_some() && self.leads.is_some() && !claims {
            // Its work has still to stop. Until it gives its term back, its row says that it leads, and others wait.
            return Ok(denial);
        }
        if denial.is_some() {
            mine.leads_since = None;
        } else if self.leads.is_none() {
            mine.terms += 1;
            mine.leads_since = Some(now);
        }
        if self.timing.is_due(mine.heartbeat, now) || found != Some(&mine) {
            mine.heartbeat = now;
            self.pool.upsert(mine.clone()).await.map_err(PoolFailed::fault)?;
        }
        self.leads = if denial.is_some() { None } else { self.leads.take().or_else(|| term(&mine)) };
        self.written = Some(mine);
        Ok(denial)
    }

    fn denial(&self, why: Refusal, leader: Option<Term>) -> Denial {
        Denial { why, leader, retry_in: Some(self.timing.recheck) }
    }

    fn grant(&self, term: Term) -> Verdict<()> {
        let heartbeat = self.written.as_ref().map_or(Duration::ZERO, |row| row.heartbeat);
        let left = self.timing.left(heartbeat, (self.clock)());
        let refresh_in = Some(self.timing.recheck);
        Verdict::Granted(Grant { term, fence: (), validity: Validity::For(left), refresh_in })
    }
}

impl<P: Pool> Oracle for PoolOracle<P> {
    type Fence = ();
    type Info = SetPriority;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.me = Some(context.clone());
        Ok(Init::Ready)
    }

    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        Ok(match (self.look(true).await?, self.leads.clone()) {
            (Some(denial), _) => Verdict::Denied(denial),
            (None, Some(term)) => self.grant(term),
            (None, None) => return Err(Fault::Fatal("it leads in no term".to_owned())),
        })
    }

    async fn refresh(&mut self, _: Attempt, held: &Grant<()>) -> Result<Verdict<()>, Fault> {
        Ok(match (self.look(false).await?, self.leads.clone()) {
            (Some(denial), _) => Verdict::Denied(denial),
            (None, Some(term)) if term == held.term => self.grant(term),
            (None, other) => Verdict::Denied(self.denial(Refusal::TermOver, other)),
        })
    }

    /// Says in the pool that this peer does not want to lead; its next claim takes that back.
    async fn abdicate(&mut self, held: &Grant<()>) -> Result<bool, Fault> {
        if self.leads.as_ref() != Some(&held.term) {
            return Ok(false);
        }
        let Some(written) = &self.written else { return Ok(false) };
        let mut row = written.clone();
        (row.priority, row.leads_since) = (0, None);
        // Noted once it is written: others wait for as long as the row says that it leads, so another attempt has to write it.
        self.pool.upsert(row.clone()).await.map_err(PoolFailed::fault)?;
        (self.leads, self.written) = (None, Some(row));
        Ok(true)
    }

    /// Says in the pool that this peer does not want to lead any more. Also of one that follows: its row would keep those
    /// behind it waiting until it expires.
    async fn leave(&mut self, held: Option<&Grant<()>>) -> Result<bool, Fault> {
        let Some(me) = &self.me else { return Ok(false) };
        let rows = self.pool.rows().await.map_err(PoolFailed::fault)?;
        let mine = rows.into_iter().find(|row| row.member == me.member && row.incarnation == me.incarnation);
        // The answer to the claim of a term may have been lost, and what it noted with it.
        let leads = self.leads.clone().or_else(|| mine.as_ref().and_then(term));
        let was_there = leads.is_some_and(|leads| held.is_none_or(|held| held.term == leads));
        if let Some(mut row) = mine.filter(|row| row.priority > 0 || row.leads_since.is_some()) {
            (row.priority, row.leads_since) = (0, None);
            self.pool.upsert(row.clone()).await.map_err(PoolFailed::fault)?;
            self.written = Some(row);
        }
        // Noted last: another try has to say it again.
        self.leads = None;
        Ok(was_there)
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        self.pool.changes().map(|()| Signal::Wakeup).boxed()
    }

    /// A leader that opts out is told at once: it stops and gives its term back, and others see that with their next look. The next claim
    /// says it of a peer that does not lead, and not before: one that has just resigned would take the term back.
    async fn handle_info(&mut self, SetPriority(priority): SetPriority) -> Reaction<()> {
        self.priority = priority;
        if self.leads.is_none() {
            return Reaction::Poll;
        }
        // A failure is a fault of the next attempt.
        let looked = self.look(false).await;
        match looked {
            Ok(Some(denial)) => Reaction::Verdict(Verdict::Denied(denial)),
            Ok(None) | Err(_) => Reaction::Poll,
        }
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
