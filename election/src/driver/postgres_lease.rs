//! A lease in one row of a Postgres table, judged by the clock of the database alone.
//!
//! ```text
//! claim   --> vacant or expired: ballot + 1 is the epoch of a new term; my own valid term: the same epoch, ballot + 1
//! refresh --> exactly my term, and not expired: ballot + 1, the same epoch
//! resign  --> exactly my term: nobody leads, the counters stay; NOTIFY
//! look    --> in the same flight as the first two: who has it instead
//! ```
//!
//! Promises: ballots grow with every grant, over resignations, expiries, crashes and restarts of the server; one
//! (member, incarnation) per epoch; an attempt made again with its nonce, after its answer was lost, is the same one. The
//! clocks of members are never read. Does not promise that a leader knows it was replaced: writes carry the fence.
//!
//! What it takes as given: the server keeps what it answered (see the store in Postgres for `synchronous_commit`, `fsync` and
//! failover), and its clock does not jump. A clock that jumps ahead ends leases early, so that two believe to lead until
//! the first one's trust ends: only the fence tells them apart.
//!
//! One connection for each oracle, in the runtime that started it. Not through a pooler that hands out connections per
//! transaction.

use std::{future, time::Duration};

use callsign_store::{
    OpenError,
    ids::{ElectionName, Epoch, Incarnation, MemberId},
    postgres::connection::Address,
};
use futures::{StreamExt, stream::BoxStream};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    core::{term::Fence, timing::refresh_after},
    oracle::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Refusal, Signal, Validity, Verdict},
};

mod link;
mod seat;
mod sql;

use link::Notified;
use seat::seat;
pub use seat::{PostgresSeat, SeatRow};

/// The longest lease: a week. Longer is a mistake in the unit.
pub const MAX_LEASE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How a [`PostgresLease`] takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresLeaseOptions {
    /// How long a grant is valid, 1 ms to [`MAX_LEASE`]. It is refreshed after a third of it. 15 s. Shorter: a pause or a slow
    /// server costs the seat; longer: the seat of a leader that died stays taken for longer.
    pub lease: Duration,
    /// Noted in the row; 0 never leads. 1.
    pub priority: u32,
    /// The election, if not the campaign's.
    pub election: Option<ElectionName>,
}

impl Default for PostgresLeaseOptions {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), priority: 1, election: None }
    }
}

/// Why an oracle cannot be made. Nothing was asked or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrongLease {
    /// The lease is not between 1 ms and [`MAX_LEASE`].
    #[error("a lease of {0:?} is not between 1 ms and {MAX_LEASE:?}")]
    Duration(Duration),
    /// The URL makes no sense.
    #[error(transparent)]
    Url(#[from] OpenError),
}

/// A lease in a Postgres table, for a campaign.
#[derive(Debug)]
pub struct PostgresLease {
    url: String,
    options: PostgresLeaseOptions,
    taking_part: Option<(PostgresSeat, MemberId, Incarnation)>,
}

impl PostgresLease {
    /// Takes part in an election that is held in a database; see [`open`](callsign_store::open()) for the URLs. Connects when the
    /// campaign starts, and goes on trying: a server that is not there yet is no error.
    pub fn new(url: &str, options: PostgresLeaseOptions) -> Result<Self, WrongLease> {
        if !(Duration::from_millis(1)..=MAX_LEASE).contains(&options.lease) {
            return Err(WrongLease::Duration(options.lease));
        }
        Address::parse(url)?;
        Ok(Self { url: url.to_owned(), options, taking_part: None })
    }

    fn taking_part(&self) -> Result<&(PostgresSeat, MemberId, Incarnation), Fault> {
        self.taking_part.as_ref().ok_or_else(|| Fault::Fatal("it was not initialised".to_owned()))
    }

    fn lease_micros(&self) -> i64 {
        // At most a week.
        i64::try_from(self.options.lease.as_micros()).unwrap_or(i64::MAX)
    }

    /// What became of a claim or a refresh: the row that it wrote, or the one that it found instead.
    fn verdict(&self, won: Option<&Row>, found: Option<&Row>, why: Refusal) -> Result<Verdict<Fence>, Fault> {
        let (_, member, incarnation) = self.taking_part()?;
        if let Some(SeatRow { term: Some(term), ballot, left }) = won.map(seat).transpose()? {
            let fence = Fence { epoch: term.epoch, ballot };
            let refresh_in = Some(refresh_after(self.options.lease));
            return Ok(Verdict::Granted(Grant { term, fence, validity: Validity::For(left), refresh_in }));
        }
        let found = found.map(seat).transpose()?;
        if found.as_ref().is_some_and(|seat| seat.ballot.0 >= i64::MAX.unsigned_abs()) {
            return Err(Fault::Fatal("this election has no more ballots".to_owned()));
        }
        let leader = found.filter(|seat| !seat.left.is_zero()).and_then(|seat| seat.term);
        let is_double =
            leader.as_ref().is_some_and(|term| term.leader == *member && term.incarnation != *incarnation);
        let why = if is_double && why == Refusal::Held { Refusal::DuplicateIdentity } else { why };
        Ok(Verdict::Denied(Denial { why, leader, retry_in: None }))
    }
}

impl Oracle for PostgresLease {
    type Fence = Fence;
    type Info = std::convert::Infallible;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        let election = self.options.election.clone().unwrap_or_else(|| context.election.clone());
        let seat =
            PostgresSeat::connect(&self.url, election).map_err(|error| Fault::Fatal(error.to_string()))?;
        self.taking_part = Some((seat, context.member.clone(), context.incarnation));
        Ok(Init::Ready)
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<Fence>, Fault> {
        let (seat, member, incarnation) = self.taking_part()?;
        if self.options.priority == 0 {
            let leader = seat.leader().await?;
            return Ok(Verdict::Denied(Denial { why: Refusal::Ineligible, leader, retry_in: None }));
        }
        let (election, member) = (seat.election.as_str(), member.as_str());
        let (incarnation, nonce) = (incarnation.0.cast_signed(), attempt.nonce.0.cast_signed());
        let (priority, lease) = (i64::from(self.options.priority), self.lease_micros());
        let with: [&(dyn ToSql + Sync); 6] = [&election, &member, &incarnation, &nonce, &priority, &lease];
        let (won, found) = seat.link.decide(|sql| &sql.claim, &with, election).await?;
        self.verdict(won.as_ref(), found.as_ref(), Refusal::Held)
    }

    async fn refresh(&mut self, attempt: Attempt, held: &Grant<Fence>) -> Result<Verdict<Fence>, Fault> {
        let (seat, member, incarnation) = self.taking_part()?;
        let (election, member, nonce) =
            (seat.election.as_str(), member.as_str(), attempt.nonce.0.cast_signed());
        let (incarnation, lease) = (incarnation.0.cast_signed(), self.lease_micros());
        let epoch = held.term.epoch.0.cast_signed();
        let with: [&(dyn ToSql + Sync); 6] = [&election, &member, &incarnation, &epoch, &nonce, &lease];
        let (kept, found) = seat.link.decide(|sql| &sql.refresh, &with, election).await?;
        self.verdict(kept.as_ref(), found.as_ref(), Refusal::TermOver)
    }

    async fn abdicate(&mut self, held: &Grant<Fence>) -> Result<bool, Fault> {
        let (seat, member, incarnation) = self.taking_part()?;
        let (election, member) = (seat.election.as_str(), member.as_str());
        let (incarnation, epoch) = (incarnation.0.cast_signed(), held.term.epoch.0.cast_signed());
        let with: [&(dyn ToSql + Sync); 4] = [&election, &member, &incarnation, &epoch];
        Ok(seat.link.ask(|sql| &sql.resign, &with).await?.is_some())
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        let Some((seat, _, incarnation)) = &self.taking_part else {
            return Box::pin(futures::stream::pending());
        };
        let (election, incarnation) = (seat.election.clone(), *incarnation);
        let mine = seat.link.notified();
        mine.filter_map(move |notified| future::ready(signal(&notified, &election, incarnation))).boxed()
    }
}

/// What a notification means for one election and one member: `NAME free INCARNATION`, `NAME resign EPOCH`.
fn signal(notified: &Notified, election: &ElectionName, me: Incarnation) -> Option<Signal> {
    let Notified::Said(said) = notified else { return Some(Signal::Wakeup) };
    let mut words = said.split(' ');
    if words.next() != Some(election.as_str()) {
        return None;
    }
    match (words.next()?, words.next()?) {
        // My own resignation is no news to me.
        ("free", who) if who.parse() == Ok(me.0.cast_signed()) => None,
        ("free", _) => Some(Signal::Wakeup),
        ("resign", epoch) => Some(Signal::ResignRequested { epoch: Some(Epoch(epoch.parse().ok()?)) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
