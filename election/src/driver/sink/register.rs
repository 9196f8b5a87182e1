//! A value of any size, behind a fence that readers install.

use std::ops::Range;

use bytes::Bytes;
use callsign_store::{
    Key, Read, ReadResult, SharedStore, Transaction,
    ids::Nonce,
    keys::{read_key, read_range},
    record::{CorruptRecord, Record},
};
use serde::{Deserialize, Serialize};

use super::{Domain, RecordKind, SinkError, SinkStep, Token, change};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    kind: RecordKind,
    /// One more with every change.
    generation: u64,
    max_read: u64,
    /// The rank, the nonce and the length of the value that is there.
    written: Option<(u64, Nonce, u64)>,
}
impl Record for Head {}

/// What others read of it.
#[cfg(test)]
pub(super) fn golden(golden: &mut callsign_golden::Golden) {
    for (name, written) in [("register/written", Some((7, Nonce(5), 6))), ("register/empty", None)] {
        let head = Head { kind: RecordKind::of::<super::ByBallot>('r'), generation: 3, max_read: 7, written };
        golden.record(name, head, Record::to_value, Record::from_value);
    }
}

/// A value in a store that is written once for each rank, and never with a rank behind one that it was read with.
///
/// A leader reads with its rank before it writes: from then on nobody behind it changes what it read. The value may be
/// larger than one value of the store, up to what one transaction takes.
#[derive(Clone, Debug)]
pub struct RankedRegister<D> {
    store: SharedStore,
    key: Key,
    domain: std::marker::PhantomData<fn() -> D>,
}

/// The most that one piece of a value may have, in bytes; a store that takes less gets less.
const VALUE_PIECE: usize = 90_000;
/// More pieces than any transaction takes.
const MOST_PIECES: usize = 10_000;

impl<D: Domain> RankedRegister<D> {
    /// The register at a key of a store. Nothing else must write that key, or one that begins with it.
    pub fn new(store: SharedStore, key: Key) -> Self {
        Self { store, key, domain: std::marker::PhantomData }
    }

    /// The value, without a rank: fences nothing, and promises nothing about the next moment.
    pub async fn value(&self) -> Result<Option<Bytes>, SinkError<D>> {
        let read = self.store.read(self.reads()).await;
        let read = read.map_err(|error| SinkError::Unavailable(error.to_string()))?;
        self.assemble(&read, Self::head(&read)?.as_ref())
    }

    /// The value, and from now on no write of a rank behind this one. Refused if the register was read or written with a
    /// greater one. Done twice it is done.
    pub async fn read(&self, rank: Token<D>) -> Result<Option<Bytes>, SinkError<D>> {
        let decide = |read: &ReadResult, _| {
            let before = Self::head(read)?;
            let value = self.assemble(read, before.as_ref())?;
            let head = before.unwrap_or_else(Self::empty);
            let greatest = head.greatest();
            if greatest > rank.number {
                return Err(SinkError::Fenced { by: Token::new(greatest) });
            }
            if head.max_read == rank.number && head.generation > 0 {
                return Ok(SinkStep::Done(value));
            }
            let generation = head.generation + 1;
            let next = Head { generation, max_read: rank.number, ..head };
            Ok(SinkStep::Commit(self.replace(read, &next), value, generation))
        };
        change(&self.store, self.reads(), decide).await
    }

    /// Writes the value, if the rank is not behind any it was read with, and ahead of all it was written with. `nonce` is
    /// drawn afresh for each write; the same rank and nonce again are the same write.
    pub async fn write(
        &self,
        rank: Token<D>,
        value: impl Into<Bytes>,
        nonce: Nonce,
    ) -> Result<(), SinkError<D>> {
        let value = value.into();
        let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
        let decide = |read: &ReadResult, unsure: Option<u64>| {
            let head = Self::head(read)?.unwrap_or_else(Self::empty);
            match head.written {
                Some((by, with, _)) if (by, with) == (rank.number, nonce) => return Ok(SinkStep::Done(())),
                // One write for each rank: one of a greater rank may have come over mine, none of my own or a smaller one.
                Some((by, ..))
                    if by > rank.number && unsure.is_some_and(|landed| landed < head.generation) =>
                {
                    return Err(SinkError::Unknown);
                }
                Some((by, ..)) if by >= rank.number => {
                    return Err(SinkError::Fenced { by: Token::new(head.greatest()) });
                }
                _ => {}
            }
            if head.max_read > rank.number {
                return Err(SinkError::Fenced { by: Token::new(head.greatest()) });
            }
            let generation = head.generation + 1;
            let next = Head { generation, written: Some((rank.number, nonce, length)), ..head };
            let mut transaction = self.replace(read, &next).clear_range(self.pieces());
            for (nth, piece) in value.chunks(self.piece_size()).enumerate() {
                transaction = transaction.put(self.piece(nth), piece.to_vec());
            }
            Ok(SinkStep::Commit(transaction, (), generation))
        };
        change(&self.store, self.reads(), decide).await
    }

    fn empty() -> Head {
        Head { kind: RecordKind::of::<D>('r'), generation: 0, max_read: 0, written: None }
    }

    fn reads(&self) -> Vec<Read> {
        vec![read_key(self.key.clone()), read_range(self.pieces(), MOST_PIECES)]
    }

    fn replace(&self, read: &ReadResult, next: &Head) -> Transaction {
        Transaction::new()
            .check(self.key.clone(), read.value(0).cloned())
            .put(self.key.clone(), next.to_value())
    }

    fn piece_size(&self) -> usize {
        self.store.limits().value.min(VALUE_PIECE)
    }

    fn piece(&self, nth: usize) -> Key {
        // Of fixed width: it sorts like the number.
        [&self.key[..], format!("/{nth:08x}").as_bytes()].concat()
    }

    fn pieces(&self) -> Range<Key> {
        [&self.key[..], b"/"].concat()..[&self.key[..], b"0"].concat()
    }

    fn head(read: &ReadResult) -> Result<Option<Head>, SinkError<D>> {
        let Some(value) = read.value(0) else { return Ok(None) };
        let kind = super::kind::<D>(value)?;
        kind.must_be(RecordKind::of::<D>('r'))?;
        Ok(Some(Head::from_value(value)?))
    }

    fn assemble(&self, read: &ReadResult, head: Option<&Head>) -> Result<Option<Bytes>, SinkError<D>> {
        let Some((.., length)) = head.and_then(|head| head.written) else { return Ok(None) };
        let pieces = read.entries(1);
        let value = pieces.iter().flat_map(|(_, piece)| piece).copied().collect::<Vec<u8>>();
        let is_whole = pieces.iter().enumerate().all(|(nth, (key, _))| *key == self.piece(nth));
        if is_whole && u64::try_from(value.len()) == Ok(length) {
            return Ok(Some(value.into()));
        }
        let found = format!("a register of {length} bytes has pieces of {}", value.len());
        Err(SinkError::Corrupt(CorruptRecord::Malformed(found)))
    }
}

impl Head {
    fn greatest(&self) -> u64 {
        self.max_read.max(self.written.map_or(0, |(rank, ..)| rank))
    }
}
