//! Reads at one version.

use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio_postgres::{Error, Row};

use super::{
    ANSWER_TIMEOUT,
    line::{Line, NotConnected, Session},
    pipeline::Pipeline,
    sql::seen,
    trouble::{Meaning, in_words, meaning},
};
use crate::{
    core::transaction::{Key, Read, ReadResult, Value},
    error::StoreError,
};

/// The snapshot is taken by the first statement behind it, and is the snapshot of all.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The pause before a read that failed is tried again.
const READ_PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn read(line: &Line, reads: &[Read], deadline: Instant) -> Result<ReadResult, StoreError> {
    loop {
        let session = line.session(deadline).await.map_err(StoreError::Unavailable)?;
        let why = match tokio::time::timeout(ANSWER_TIMEOUT, attempt(&session, reads)).await {
            Ok(Ok(Some(result))) => return Ok(result),
            Ok(Ok(None)) => {
                session.give_up();
                NotConnected::Replaced.to_string()
            }
            Ok(Err(error)) => {
                session.met(&error);
                if meaning(&error) == Meaning::Refused {
                    return Err(StoreError::Unavailable(in_words(&error)));
                }
                in_words(&error)
            }
            Err(_) => {
                session.give_up();
                "the server does not answer".to_owned()
            }
        };
        if Instant::now() >= deadline {
            return Err(StoreError::Unavailable(why));
        }
        tokio::time::sleep(READ_PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
    }
}

/// `None`: it is another store by now.
async fn attempt(session: &Session, reads: &[Read]) -> Result<Option<ReadResult>, Error> {
    let (client, sql) = (&session.client, &session.sql);
    let none = |done: Result<(), Error>| done.map(|()| Vec::new());
    let mut pipeline = Pipeline::new();
    pipeline.push(client.batch_execute(BEGIN).map(none));
    pipeline.push(client.query(&sql.version, &[]));
    for read in reads {
        pipeline.push(async move {
            match read {
                Read::Key(key) => client.query(&sql.key, &[key]).await,
                Read::Range { range, limit } => {
                    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                    client.query(&sql.range, &[&range.start, &range.end, &limit]).await
                }
            }
        });
    }
    pipeline.push(client.batch_execute("COMMIT").map(none));
    let mut answers: Vec<Vec<Row>> = pipeline.finish().await.into_iter().collect::<Result<_, _>>()?;
    // Behind BEGIN, before COMMIT: the version and the answers.
    answers.pop();
    let mut answers = answers.into_iter().skip(1);
    let version = match answers.next().unwrap_or_default().first() {
        Some(row) if row.try_get::<_, i64>(1)? == session.identity() => seen(row.try_get(0)?),
        _ => return Ok(None),
    };
    session.saw(version);
    let entries = |rows: Vec<Row>| rows.iter().map(entry).collect::<Result<_, _>>();
    Ok(Some(ReadResult { version, answers: answers.map(entries).collect::<Result<_, _>>()? }))
}

fn entry(row: &Row) -> Result<(Key, Value), Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}
