//! Which store it is, and which layout its keys have: one row, `1 IDENTITY`.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use tonic::Status;

use super::{
    address::EtcdAddress,
    member::{EtcdNotConnected, MemberClient, PROBE},
    trouble,
    wire::{Compare, PutRequest, RangeRequest, Request, TxnRequest},
};
use crate::{core::transaction::Version, error::OpenError};

/// The layout of [`space`](super::space) and [`plan`](super::plan). Another layout gets another number.
const LAYOUT: i32 = 1;

/// How long a cluster that is just starting, or electing, is waited for.
const START_TIMEOUT: Duration = Duration::from_secs(5);

fn read(address: &EtcdAddress) -> Request {
    Request::Range(RangeRequest { key: address.space.layout(), ..RangeRequest::default() })
}

/// The row, and the version at which it was read. A member that the others have left behind does not answer.
pub(super) async fn look(
    member: &MemberClient,
    address: &EtcdAddress,
) -> Result<(Option<Vec<u8>>, Version), Status> {
    let looked = TxnRequest { success: vec![read(address).into()], ..TxnRequest::default() };
    let answer = member.call(address, looked).await?;
    Ok((answer.value(0).map(<[u8]>::to_vec), Version(answer.revision().unsigned_abs())))
}

/// The row, which is made if it is missing.
async fn note(member: &MemberClient, address: &EtcdAddress) -> Result<Vec<u8>, Status> {
    if let (Some(noted), _) = look(member, address).await? {
        return Ok(noted);
    }
    let key = address.space.layout();
    let row = format!("{LAYOUT} {:016x}", rand::random::<u64>()).into_bytes();
    let put = Request::Put(PutRequest { key: key.clone(), value: row.clone() });
    let noted = TxnRequest {
        compare: vec![Compare::is(key, None)],
        success: vec![put.into()],
        failure: vec![read(address).into()],
    };
    let answer = member.call(address, noted).await?;
    // Somebody else may have been first.
    Ok(if answer.succeeded { row } else { answer.value(0).unwrap_or_default().to_vec() })
}

/// Sees to it that the row is there, at any member, and says what it holds.
pub(super) async fn prepare(address: &EtcdAddress) -> Result<Vec<u8>, OpenError> {
    let deadline = Instant::now() + START_TIMEOUT;
    let identity = loop {
        let mut why = EtcdNotConnected::Silent;
        let mut found = None;
        for name in &address.members {
            match at(address, name).await {
                Ok(identity) => {
                    found = Some(identity);
                    break;
                }
                Err(EtcdNotConnected::Said(status)) if is_refused(&status) => {
                    return Err(refused(address, &status));
                }
                Err(error) => why = error,
            }
        }
        if let Some(identity) = found {
            break identity;
        }
        if Instant::now() >= deadline {
            return Err(OpenError::Unreachable { url: address.describe(), cause: why.to_string() });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    match layout(&identity) {
        LAYOUT => Ok(identity),
        found => Err(OpenError::WrongSchema { url: address.describe(), found, expected: LAYOUT }),
    }
}

async fn at(address: &EtcdAddress, name: &str) -> Result<Vec<u8>, EtcdNotConnected> {
    let member = MemberClient::connect(address, name).await?;
    match timeout(PROBE * 2, note(&member, address)).await {
        Ok(noted) => noted.map_err(EtcdNotConnected::Said),
        // It may have been noted nevertheless; whoever asks again reads it.
        Err(_) => Err(EtcdNotConnected::Silent),
    }
}

/// Whether the servers answer, and asking again would not help.
pub(super) fn is_refused(status: &Status) -> bool {
    trouble::was_said_by_the_server(status)
        && (trouble::meaning(status) == trouble::Meaning::Refused || trouble::is_out_of_space(status))
}

pub(super) fn refused(address: &EtcdAddress, status: &Status) -> OpenError {
    OpenError::Server { url: address.describe(), cause: trouble::in_words(status) }
}

/// What cannot be read is none of ours.
fn layout(row: &[u8]) -> i32 {
    let number = std::str::from_utf8(row).ok().and_then(|row| row.split(' ').next()?.parse().ok());
    number.unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_row_says_its_layout_before_its_identity() {
        assert_eq!(layout(b"1 00ff"), 1);
        assert_eq!(layout(b"2 00ff and more"), 2);
        assert_eq!((layout(b""), layout(b"\xff"), layout(b"one")), (-1, -1, -1));
    }

    #[test]
    fn only_what_the_servers_themselves_refuse_for_good_is_refused() {
        let said_by_the_client = |mut status: Status| {
            status.set_source(Arc::new(std::io::Error::other("broken")));
            status
        };
        let denied = || Status::permission_denied("etcdserver: permission denied");
        let full = || Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        assert!(is_refused(&denied()) && is_refused(&full()));
        assert!(!is_refused(&Status::unavailable("etcdserver: no leader")));
        assert!(!is_refused(&said_by_the_client(denied())) && !is_refused(&said_by_the_client(full())));
    }
}
