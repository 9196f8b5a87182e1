//! The sink: where what a leader writes is checked, in the same transaction.
//!
//! Trust ends by a clock, and a write may be under way when it does. Only the place that is written to can refuse what
//! comes late: it remembers the greatest token that it has seen, and takes none that is behind it.
//!
//! ```text
//! FencedCell      write(token, value)   token >= greatest seen       seal(token): the same, and the value stays
//! RankedRegister  write(rank, value)    rank >= greatest read and > greatest written;   read(rank) raises the former
//! ```
//!
//! **Two domains.** Epochs grow with terms, ballots with refreshes, too: a number of one compared with a number of the
//! other says nothing. So a token has its domain in its type, a cell takes one of them, and the other does not compile:
//!
//! ```compile_fail,E0308
//! use callsign_election::sink::{ByBallot, ByEpoch, FencedCell, SinkError, Token};
//! use callsign_store::ids::Nonce;
//! async fn write(cell: FencedCell<ByEpoch>, token: Token<ByBallot>) -> Result<(), SinkError<ByEpoch>> {
//!     cell.write(token, "value", Nonce(1)).await
//! }
//! ```
//!
//! The same with the right token compiles:
//!
//! ```
//! use callsign_election::sink::{ByEpoch, FencedCell, SinkError, Token};
//! use callsign_store::ids::Nonce;
//! async fn write(cell: FencedCell<ByEpoch>, token: Token<ByEpoch>) -> Result<(), SinkError<ByEpoch>> {
//!     cell.write(token, "value", Nonce(1)).await
//! }
//! ```
//!
//! A token from outside is bytes, and begins with its domain: [`Token::from_bytes`] refuses another's.
//!
//! **What a new leader does first**: seal the cell, or read the register, with its token. From then on nothing of its
//! predecessor's lands. Before, it may: the sink does not know of elections that nobody told it of.
//!
//! **Unknown.** A write whose outcome the store does not know is looked for, and made again with the same checks, so that it
//! is done once. Where somebody else wrote since, and nothing shows whether the write was there in between, the answer is
//! [`SinkError::Unknown`], not "no".

use std::{fmt, marker::PhantomData};

use callsign_store::{
    CommitOutcome, Read, ReadResult, SharedStore, TooLarge, Transaction,
    record::{CorruptRecord, Record},
};
use serde::{Deserialize, Serialize};

use crate::core::term::Fence;

mod cell;
mod register;

pub use cell::{Content, FencedCell};
pub use register::RankedRegister;

mod sealed {
    pub trait Sealed {}
}

/// Which of the two numbers of a fence a sink compares. There are these two, [`ByEpoch`] and [`ByBallot`].
pub trait Domain: sealed::Sealed + Copy + Ord + fmt::Debug + Send + Sync + 'static {
    /// Which it is, as a byte.
    const TAG: u8;
    /// Which it is, in a word.
    const NAME: &'static str;
    /// The number that counts.
    fn number(fence: &Fence) -> u64;
}

/// One token for each term. A leader's own refresh fences nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ByEpoch {}

/// One token for each grant. A leader that refreshed, and wrote with the new token, has fenced off its own older writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ByBallot {}

impl sealed::Sealed for ByEpoch {}
impl sealed::Sealed for ByBallot {}

impl Domain for ByEpoch {
    const TAG: u8 = b'e';
    const NAME: &'static str = "epoch";
    fn number(fence: &Fence) -> u64 {
        fence.epoch.0
    }
}

impl Domain for ByBallot {
    const TAG: u8 = b'b';
    const NAME: &'static str = "ballot";
    fn number(fence: &Fence) -> u64 {
        fence.ballot.0
    }
}

/// What a write carries, and a sink compares with the greatest that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token<D> {
    number: u64,
    domain: PhantomData<fn() -> D>,
}

/// Why bytes are no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ForeignToken {
    /// They are a token of the other domain.
    #[error("a token of another domain ({0:#04x})")]
    OtherDomain(u8),
    /// They are none at all.
    #[error("{0} bytes are no token")]
    Length(usize),
}

impl<D: Domain> Token<D> {
    /// How many bytes a token has.
    pub const LENGTH: usize = 9;

    fn new(number: u64) -> Self {
        Self { number, domain: PhantomData }
    }

    /// The number that is compared.
    pub fn number(self) -> u64 {
        self.number
    }

    /// The token for other programs: its domain, then its number, greatest byte first.
    pub fn to_bytes(self) -> [u8; 9] {
        let mut bytes = [D::TAG; 9];
        bytes[1..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// A token from another program. One of the other domain is refused, whatever its number.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ForeignToken> {
        let [tag, number @ ..] = bytes else { return Err(ForeignToken::Length(0)) };
        let number = number.try_into().map_err(|_| ForeignToken::Length(bytes.len()))?;
        if *tag != D::TAG {
            return Err(ForeignToken::OtherDomain(*tag));
        }
        Ok(Self::new(u64::from_be_bytes(number)))
    }
}

impl<D: Domain> From<Fence> for Token<D> {
    fn from(fence: Fence) -> Self {
        Self::new(D::number(&fence))
    }
}

impl<D: Domain> fmt::Display for Token<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", D::NAME, self.number)
    }
}

/// Why a sink did not take a write, or does not say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError<D: Domain> {
    /// A greater token was here. Nothing was written, and nothing will be: the term is over.
    #[error("fenced off by {by}")]
    Fenced {
        /// The greatest so far.
        by: Token<D>,
    },
    /// Nobody knows whether it was written. It may have been, and overwritten since, and **it may still be**.
    #[error("nobody knows whether it was written")]
    Unknown,
    /// The store could not be reached, or was busy. Nothing was written, and nothing will be.
    #[error("nothing was written: {0}")]
    Unavailable(String),
    /// The store does not take as much. Nothing was written, and nothing will be.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// What is there belongs to a sink of the other domain, or of the other kind. Nothing was written.
    #[error("what is there is {found}")]
    OtherDomain {
        /// What it is.
        found: String,
    },
    /// What is there cannot be read. It is not taken for "nothing".
    #[error(transparent)]
    Corrupt(#[from] CorruptRecord),
}

/// What a sink's record says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct RecordKind {
    /// `c` for a cell, `r` for a register.
    shape: char,
    domain: u8,
}

impl RecordKind {
    fn of<D: Domain>(shape: char) -> Self {
        Self { shape, domain: D::TAG }
    }

    fn must_be<D: Domain>(self, wanted: Self) -> Result<(), SinkError<D>> {
        if self == wanted {
            return Ok(());
        }
        let shape = if self.shape == 'c' { "a cell" } else { "a register" };
        let domain = if self.domain == ByEpoch::TAG { ByEpoch::NAME } else { ByBallot::NAME };
        Err(SinkError::OtherDomain { found: format!("{shape} in {domain} mode") })
    }
}

/// What others read of sinks.
#[cfg(test)]
pub(crate) fn golden(golden: &mut callsign_golden::Golden) {
    cell::golden(golden);
    register::golden(golden);
}

/// Only what kind of sink it is: a record of another kind is told from a damaged one.
#[derive(Deserialize, Serialize)]
struct OnlyKind {
    kind: RecordKind,
}
impl Record for OnlyKind {}

fn kind<D: Domain>(value: &[u8]) -> Result<RecordKind, SinkError<D>> {
    Ok(OnlyKind::from_value(value)?.kind)
}

/// What is to be done about what was read.
enum SinkStep<T> {
    /// Nothing: this is the answer.
    Done(T),
    /// This; and if it is committed, this is the answer. It makes the record of this generation.
    Commit(Transaction, T, u64),
}

/// How often a change is tried while others get in between, or the store does not say.
const CHANGE_TRIES: usize = 32;

/// Reads, decides, commits; again, until the outcome is known.
///
/// Every record has a generation, one greater than the one that it replaces, and its transaction checks all bytes of that.
/// So a transaction of unknown outcome lands, if at all, as exactly one generation: `decide` is told which.
async fn change<D: Domain, T>(
    store: &SharedStore,
    reads: Vec<Read>,
    mut decide: impl FnMut(&ReadResult, Option<u64>) -> Result<SinkStep<T>, SinkError<D>>,
) -> Result<T, SinkError<D>> {
    // The earliest generation as which an attempt may have landed, or may still.
    let mut unsure: Option<u64> = None;
    for _ in 0..CHANGE_TRIES {
        let read = match store.read(reads.clone()).await {
            Ok(read) => read,
            Err(_) if unsure.is_some() => return Err(SinkError::Unknown),
            Err(error) => return Err(SinkError::Unavailable(error.to_string())),
        };
        let (transaction, answer, generation) = match decide(&read, unsure)? {
            SinkStep::Done(answer) => return Ok(answer),
            SinkStep::Commit(transaction, answer, generation) => (transaction, answer, generation),
        };
        // Past it: nothing of the former attempts is there, or will be.
        if unsure.is_some_and(|unsure| unsure < generation) {
            unsure = None;
        }
        match store.commit(transaction).await {
            CommitOutcome::Committed(_) => return Ok(answer),
            CommitOutcome::Conflict => {}
            CommitOutcome::Unknown => unsure = Some(unsure.unwrap_or(generation)),
            CommitOutcome::Unavailable(_) if unsure.is_some() => return Err(SinkError::Unknown),
            CommitOutcome::Unavailable(why) => return Err(SinkError::Unavailable(why)),
            CommitOutcome::TooLarge(limit) => return Err(SinkError::TooLarge(limit)),
        }
    }
    match unsure {
        Some(_) => Err(SinkError::Unknown),
        None => Err(SinkError::Unavailable("too many write to it at once".to_owned())),
    }
}

#[cfg(test)]
mod tests;
