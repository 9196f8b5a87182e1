//! The seat as the table says it, for anybody.

use std::time::Duration;

use callsign_store::{
    OpenError,
    ids::{Ballot, ElectionName, Epoch, Incarnation, MemberId},
    postgres::connection::Address,
};
use tokio_postgres::Row;

use super::link::Link;
use crate::{
    core::term::{AuthorityTime, Term},
    oracle::Fault,
};

/// Who has the seat, as the table says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatRow {
    /// The term, also an expired one; `None` after a resignation.
    pub term: Option<Term>,
    /// The greatest ballot so far.
    pub ballot: Ballot,
    /// How much of the lease was left when the database looked; zero when it is over.
    pub left: Duration,
}

/// The election as anybody sees it, whether or not they take part. Clones share their connection, which ends with the
/// last of them.
#[derive(Clone)]
pub struct PostgresSeat {
    pub(super) link: Link,
    pub(super) election: ElectionName,
}

impl PostgresSeat {
    /// Starts to connect; see [`open`](callsign_store::open()) for the URLs. Needs a tokio runtime. The server need not be there
    /// yet.
    pub fn connect(url: &str, election: ElectionName) -> Result<Self, OpenError> {
        Ok(Self { link: Link::start(Address::parse(url)?), election })
    }

    /// Who leads: whose lease is not expired by the clock of the database. That clock knows it at once: unlike
    /// [`Election`](crate::Election), nobody has to watch first. Nothing to build a write on: use the fence.
    pub async fn leader(&self) -> Result<Option<Term>, Fault> {
        Ok(self.raw().await?.filter(|seat| !seat.left.is_zero()).and_then(|seat| seat.term))
    }

    /// The row as it is, expired or not. `None`: the election was never held.
    pub async fn raw(&self) -> Result<Option<SeatRow>, Fault> {
        let name = self.election.as_str();
        let row = self.link.ask(|sql| &sql.look, &[&name]).await?;
        row.map(|row| seat(&row)).transpose()
    }

    /// Whether the term is the present one, and not expired.
    pub async fn is_leader(&self, term: &Term) -> Result<bool, Fault> {
        Ok(self.leader().await?.as_ref() == Some(term))
    }

    /// Asks the leader to resign: of that epoch, or whoever leads now. Says in which epoch somebody was asked; `None` if
    /// nobody leads, or in another epoch. Whether the leader hears of it is not known; whoever leads after it is not asked.
    pub async fn request_resign(&self, epoch: Option<Epoch>) -> Result<Option<Epoch>, Fault> {
        let (name, epoch) = (self.election.as_str(), epoch.map(|epoch| epoch.0.cast_signed()));
        let asked = self.link.ask(|sql| &sql.ask_to_resign, &[&name, &epoch]).await?;
        asked.map(|row| counter(&row, 0).map(Epoch)).transpose()
    }
}

impl std::fmt::Debug for PostgresSeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PostgresSeat").field(&self.election).finish()
    }
}

/// Reads a row. One that makes no sense is an error, never a vacant seat.
pub(super) fn seat(row: &Row) -> Result<SeatRow, Fault> {
    let (ballot, epoch) = (Ballot(counter(row, 0)?), Epoch(counter(row, 1)?));
    let leader: Option<&str> = row.try_get(2).map_err(corrupt)?;
    let Some(leader) = leader else { return Ok(SeatRow { term: None, ballot, left: Duration::ZERO }) };
    let leader = MemberId::new(leader).map_err(corrupt)?;
    let incarnation = number(row, 3)?.ok_or_else(|| corrupt("no incarnation"))?;
    let left = number(row, 5)?.ok_or_else(|| corrupt("no expiry"))?;
    let incarnation = Incarnation(incarnation.cast_unsigned());
    let term = Term { leader, incarnation, epoch, elected_at: AuthorityTime(counter(row, 4)?) };
    // Over: negative.
    Ok(SeatRow { term: Some(term), ballot, left: Duration::from_micros(u64::try_from(left).unwrap_or(0)) })
}

fn corrupt(cause: impl std::fmt::Display) -> Fault {
    Fault::Fatal(format!("the row of the election cannot be read: {cause}"))
}

fn number(row: &Row, at: usize) -> Result<Option<i64>, Fault> {
    row.try_get(at).map_err(corrupt)
}

fn counter(row: &Row, at: usize) -> Result<u64, Fault> {
    let n = number(row, at)?.ok_or_else(|| corrupt("a counter is missing"))?;
    u64::try_from(n).map_err(|_| corrupt(format!("a counter of {n}")))
}
