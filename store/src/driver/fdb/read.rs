//! Reads at one version.

use std::{ops::Range, time::Instant};

use foundationdb::{
    FdbResult, RangeOption, Transaction as Begun,
    options::{StreamingMode, TransactionOption},
};
use futures::future::{join, join_all};

use super::{OPERATION_TIMEOUT, Shared, version};
use crate::{
    core::transaction::{Key, Read, ReadResult, Value, Version},
    error::StoreError,
};

pub(super) async fn read(shared: &Shared, reads: &[Read]) -> Result<ReadResult, StoreError> {
    let deadline = Instant::now() + OPERATION_TIMEOUT;
    loop {
        let begun = shared
            .begin(deadline)
            .map_err(|error| StoreError::Unavailable(super::trouble::in_words(error)))?;
        match attempt(&begun, reads).await {
            Ok(result) => {
                shared.recent.saw(result.version);
                return Ok(result);
            }
            Err(error) => shared.pause(error, deadline).await.map_err(StoreError::Unavailable)?,
        }
    }
}

async fn attempt(begun: &Begun, reads: &[Read]) -> FdbResult<ReadResult> {
    begun.set_option(TransactionOption::ReadYourWritesDisable)?;
    let answers = join_all(reads.iter().map(|read| async move {
        match read {
            Read::Key(key) => {
                Ok(value(begun, key).await?.into_iter().map(|value| (key.clone(), value)).collect())
            }
            Read::Range { range, limit } => entries(begun, range, *limit).await,
        }
    }));
    // All of them together with the version, which they wait for.
    let (at, answers) = join(at(begun), answers).await;
    Ok(ReadResult { version: at?, answers: answers.into_iter().collect::<FdbResult<_>>()? })
}

/// The version that a transaction reads at.
pub(super) async fn at(begun: &Begun) -> FdbResult<Version> {
    begun.get_read_version().await.map(version::of_read)
}

/// One value, without a conflict with whoever changes it.
pub(super) async fn value(begun: &Begun, key: &[u8]) -> FdbResult<Option<Value>> {
    let value = begun.get(key, true).await?;
    Ok(value.map(|value| value.to_vec()))
}

async fn entries(begun: &Begun, range: &Range<Key>, limit: usize) -> FdbResult<Vec<(Key, Value)>> {
    let mut entries = Vec::new();
    // Backwards is empty for us, and an error for the library; no limit is what it takes 0 for.
    if range.start >= range.end || limit == 0 {
        return Ok(entries);
    }
    let most = limit.min(i32::MAX as usize);
    let whole = RangeOption::from((range.start.as_slice(), range.end.as_slice()));
    let mut rest = Some(RangeOption { limit: Some(most), mode: StreamingMode::WantAll, ..whole });
    while let Some(asked) = rest {
        let found = begun.get_range(&asked, 1, true).await?;
        entries.extend(found.iter().map(|entry| (entry.key().to_vec(), entry.value().to_vec())));
        rest = asked.next_range(&found);
    }
    Ok(entries)
}
