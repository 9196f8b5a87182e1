//! Reads at one version.

use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio_postgres::{Error, Row};

use super::{
    line::{Line, Session},
    not_connected::NotConnected,
    pipeline::Pipeline,
    sql::seen,
    trouble::{PostgresMeaning, in_words, meaning},
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
        let why = match session.answer(attempt(&session, reads)).await {
            Ok(Ok(Some(result))) => return Ok(result),
            Ok(Ok(None)) => {
                session.give_up();
                NotConnected::Replaced.to_string()
            }
            Ok(Err(error)) => {
                session.met(&error);
                if meaning(&error) == PostgresMeaning::Refused {
                    return Err(StoreError::Unavailable(in_words(&error)));
                }
                in_words(&error)
            }
            Err(why) => why.to_owned(),
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::{
        super::{
            sql::VERSION,
            tests::wire::{self, IDENTITY, Said},
        },
        *,
    };
    use crate::{core::transaction::Version, testing::TEST_DEADLINE};

    /// A connection to a server that says this one after the other to the question of its version, and how often it was asked.
    async fn versions(mut said: Vec<Said>) -> (Line, Arc<Session>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let (line, session) = wire::line(move |statement| match statement {
            VERSION => {
                count.fetch_add(1, Ordering::SeqCst);
                said.remove(0)
            }
            _ => Said::Done,
        })
        .await;
        (line, session, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_after_a_pause_and_what_may_not_is_said_at_once() {
        let fine = || Said::Row(vec![Some(7), Some(IDENTITY)]);
        let (line, session, _) = versions(vec![Said::Refused("40001"), fine(), Said::Refused("42501")]).await;
        let deadline = Instant::now() + TEST_DEADLINE;
        let begun = tokio::time::Instant::now();
        assert_eq!(read(&line, &[], deadline).await.unwrap().version, Version(7));
        assert!(begun.elapsed() > Duration::ZERO, "a server in trouble is left alone for a moment");
        assert!(!session.was_given_up());
        let refused = read(&line, &[], deadline).await.unwrap_err();
        assert!(refused.to_string().contains("42501"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn at_its_deadline_a_read_is_not_tried_again() {
        let again = || Said::Refused("40001");
        let (line, _, asked) = versions(vec![again(), again()]).await;
        let given_up = read(&line, &[], Instant::now()).await.unwrap_err();
        assert!(given_up.to_string().contains("40001"), "{given_up}");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_silent_or_leads_to_another_store_is_given_up() {
        let other = Said::Row(vec![Some(7), Some(IDENTITY + 1)]);
        for (said, expected) in [(Said::Nothing, "does not answer"), (other, "not the one that was opened")] {
            let (line, session, _) = versions(vec![said]).await;
            let given_up = read(&line, &[], Instant::now()).await.unwrap_err();
            assert!(given_up.to_string().contains(expected), "{given_up}");
            assert!(session.was_given_up(), "{expected}");
        }
    }
}
