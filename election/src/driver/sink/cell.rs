//! One value, under one key, behind one fence.

use bytes::Bytes;
use callsign_store::{Key, ReadResult, SharedStore, Transaction, ids::Nonce, keys::read_key, record::Record};
use serde::{Deserialize, Serialize};

use super::{Domain, RecordKind, SinkError, SinkStep, Token, change};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CellRecord {
    kind: RecordKind,
    /// One more with every change.
    generation: u64,
    /// The greatest token seen.
    greatest: u64,
    /// Who wrote the value, and the value. `None` if it was only sealed.
    written: Option<Written>,
}
impl Record for CellRecord {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    token: u64,
    nonce: Nonce,
    value: Bytes,
}

/// What others read of it.
#[cfg(test)]
pub(super) fn golden(golden: &mut callsign_golden::Golden) {
    let written = Written { token: 7, nonce: Nonce(5), value: Bytes::from_static(b"value") };
    for (name, written) in [("cell/written", Some(written)), ("cell/sealed", None)] {
        let kind = RecordKind::of::<super::ByEpoch>('c');
        let record = CellRecord { kind, generation: 3, greatest: 7, written };
        golden.record(name, record, Record::to_value, Record::from_value);
    }
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content<D> {
    /// The greatest token seen.
    pub greatest: Token<D>,
    /// The value, if one was ever written.
    pub value: Option<Bytes>,
}

/// A value in a store that is written only with a token that is not behind the greatest one seen.
///
/// The value has to fit into one value of the store, some hundred bytes less.
#[derive(Clone, Debug)]
pub struct FencedCell<D> {
    store: SharedStore,
    key: Key,
    domain: std::marker::PhantomData<fn() -> D>,
}

impl<D: Domain> FencedCell<D> {
    /// The cell at a key of a store. Nothing else must write that key; `callsign/` is the beginning of the library's own.
    pub fn new(store: SharedStore, key: Key) -> Self {
        Self { store, key, domain: std::marker::PhantomData }
    }

    /// Reads it. Fences nothing, and promises nothing about the next moment. `None`: it was never written or sealed.
    pub async fn read(&self) -> Result<Option<Content<D>>, SinkError<D>> {
        let read = self.store.read(vec![read_key(self.key.clone())]).await;
        let read = read.map_err(|error| SinkError::Unavailable(error.to_string()))?;
        Ok(Self::record(&read)?.map(|record| Content {
            greatest: Token::new(record.greatest),
            value: record.written.map(|written| written.value),
        }))
    }

    /// Writes the value, unless a greater token was here. `nonce` is drawn afresh for each write: by it the write is
    /// recognised when its outcome is unknown, here or by a caller that calls again with all the same.
    ///
    /// Called again after [`SinkError::Unknown`], when others have written with the same token since, it writes over them.
    pub async fn write(
        &self,
        token: Token<D>,
        value: impl Into<Bytes>,
        nonce: Nonce,
    ) -> Result<(), SinkError<D>> {
        let written = Written { token: token.number, nonce, value: value.into() };
        self.change(token, Some(written)).await
    }

    /// Raises the greatest token seen, and leaves the value as it is: a new leader's first act. Done twice it is done.
    pub async fn seal(&self, token: Token<D>) -> Result<(), SinkError<D>> {
        self.change(token, None).await
    }

    async fn change(&self, token: Token<D>, written: Option<Written>) -> Result<(), SinkError<D>> {
        let decide = |read: &ReadResult, unsure: Option<u64>| {
            let record = Self::record(read)?;
            let seen = read.value(0).cloned();
            let (generation, greatest, before) = match record {
                Some(record) => (record.generation, record.greatest, record.written),
                None => (0, 0, None),
            };
            let is_there = match (&written, &before) {
                (None, _) => seen.is_some() && greatest == token.number,
                (Some(mine), Some(there)) => (mine.token, mine.nonce) == (there.token, there.nonce),
                (Some(_), None) => false,
            };
            if is_there {
                return Ok(SinkStep::Done(()));
            }
            // It may have been there, under what others have written since.
            if written.is_some() && unsure.is_some_and(|landed| landed < generation) {
                return Err(SinkError::Unknown);
            }
            if greatest > token.number {
                return Err(SinkError::Fenced { by: Token::new(greatest) });
            }
            let generation = generation + 1;
            let written = written.clone().or(before);
            let next =
                CellRecord { kind: RecordKind::of::<D>('c'), generation, greatest: token.number, written };
            let transaction =
                Transaction::new().check(self.key.clone(), seen).put(self.key.clone(), next.to_value());
            Ok(SinkStep::Commit(transaction, (), generation))
        };
        change(&self.store, vec![read_key(self.key.clone())], decide).await
    }

    fn record(read: &ReadResult) -> Result<Option<CellRecord>, SinkError<D>> {
        let Some(value) = read.value(0) else { return Ok(None) };
        let kind = super::kind::<D>(value)?;
        kind.must_be(RecordKind::of::<D>('c'))?;
        Ok(Some(CellRecord::from_value(value)?))
    }
}
