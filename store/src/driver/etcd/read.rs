//! Reads at one revision.

use std::time::Instant;

use tokio::time::timeout;
use tonic::Status;

use super::{
    EtcdShared, MOST_OPERATIONS, READ_TIMEOUT,
    member::{EtcdNotConnected, EtcdSession},
    trouble::{self, in_words},
    wire::{RangeRequest, Request, RequestOp, TxnRequest},
};
use crate::{
    core::transaction::{Key, Read, ReadResult, Value, Version},
    error::StoreError,
};

/// Why one attempt has shown nothing.
pub(super) enum Failed {
    /// Another one may, at another member.
    Again(String),
    Refused(String),
}

/// Reads, and asks again, also other members, until the deadline.
pub(super) async fn read(
    shared: &EtcdShared,
    reads: &[Read],
    deadline: Instant,
) -> Result<ReadResult, StoreError> {
    loop {
        let session = shared.line.session(deadline).await.map_err(StoreError::Unavailable)?;
        match attempt(&session, reads).await {
            Ok(result) => {
                session.place.newest.saw(result.version);
                return Ok(result);
            }
            Err(Failed::Again(why)) if Instant::now() >= deadline => {
                return Err(StoreError::Unavailable(why));
            }
            Err(Failed::Again(_)) => {}
            Err(Failed::Refused(why)) => return Err(StoreError::Unavailable(why)),
        }
    }
}

/// One transaction for as many reads as it takes; the next ones at the revision of the first.
async fn attempt(session: &EtcdSession, reads: &[Read]) -> Result<ReadResult, Failed> {
    let mut result = ReadResult { version: Version(0), answers: vec![Vec::new(); reads.len()] };
    let space = &session.place.address.space;
    let asked: Vec<(usize, RangeRequest)> =
        reads.iter().enumerate().filter_map(|(nth, read)| Some((nth, range(session, read)?))).collect();
    let mut parts = asked.chunks(MOST_OPERATIONS - 1);
    let mut part = parts.next().unwrap_or_default();
    loop {
        let revision = result.version.0.cast_signed();
        let success = operations(session, part, revision);
        let answer = ask(session, TxnRequest { success, ..TxnRequest::default() }).await?;
        if answer.value(0) != Some(session.place.identity.as_slice()) {
            session.give_up();
            return Err(Failed::Refused(EtcdNotConnected::Replaced.to_string()));
        }
        if revision == 0 {
            result.version = Version(answer.revision().unsigned_abs());
        }
        for (at, (nth, _)) in part.iter().enumerate() {
            let entry = |found: &super::wire::KeyValue| -> Option<(Key, Value)> {
                Some((space.of(&found.key)?.to_vec(), found.value.clone()))
            };
            result.answers[*nth] = answer.found(at + 1).iter().filter_map(entry).collect();
        }
        match parts.next() {
            Some(next) => part = next,
            None => return Ok(result),
        }
    }
}

/// The row that says which store it is, and what is asked for. `revision` 0 is the newest.
fn operations(session: &EtcdSession, part: &[(usize, RangeRequest)], revision: i64) -> Vec<RequestOp> {
    let layout = RangeRequest { key: session.place.address.space.layout(), ..RangeRequest::default() };
    let asked = part.iter().map(|(_, range)| range.clone());
    let at = |range| Request::Range(RangeRequest { revision, ..range }).into();
    std::iter::once(layout).chain(asked).map(at).collect()
}

/// What to ask etcd for; nothing where the answer is empty whatever is stored.
fn range(session: &EtcdSession, read: &Read) -> Option<RangeRequest> {
    let space = &session.place.address.space;
    match read {
        Read::Key(key) => Some(RangeRequest { key: space.key(key), ..RangeRequest::default() }),
        // Backwards is an error for etcd, and no limit is what it takes 0 for.
        Read::Range { range, limit } if range.start >= range.end || *limit == 0 => None,
        Read::Range { range, limit } => Some(RangeRequest {
            key: space.key(&range.start),
            range_end: space.key(&range.end),
            limit: i64::try_from(*limit).unwrap_or(i64::MAX),
            ..RangeRequest::default()
        }),
    }
}

/// Sends what only reads.
pub(super) async fn ask(
    session: &EtcdSession,
    request: TxnRequest,
) -> Result<super::wire::TxnResponse, Failed> {
    match timeout(READ_TIMEOUT, session.call(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => {
            let why = in_words(&status);
            if is_final(&status) {
                return Err(Failed::Refused(why));
            }
            // Between the parts of a long read its revision was forgotten: nothing is wrong with the member.
            if !trouble::is_compacted(&status) {
                session.give_up();
            }
            Err(Failed::Again(why))
        }
        Err(_) => {
            session.give_up();
            Err(Failed::Again(EtcdNotConnected::Silent.to_string()))
        }
    }
}

fn is_final(status: &Status) -> bool {
    trouble::was_said_by_the_server(status) && trouble::meaning(status) == trouble::Meaning::Refused
}

impl From<Failed> for String {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Again(why) | Failed::Refused(why) => why,
        }
    }
}
