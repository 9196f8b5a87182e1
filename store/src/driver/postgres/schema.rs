//! The tables: created, seen to be ours; and what every connection is set to.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use super::{
    ANSWER_TIMEOUT,
    address::Address,
    hosts,
    line::{AbortOnDrop, SILENT},
    not_connected::NotConnected,
    sql,
    trouble::{in_words, may_pass},
};
use crate::error::OpenError;

/// The layout below. Another layout gets another number.
const LAYOUT: i32 = 1;

/// Held while tables are created, by whoever creates them: "Callsign" as a number.
pub const CREATING: i64 = 0x4361_6c6c_7369_676e;

/// How long a server that is just starting, or full, is waited for.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Begins the creation. Its lock is waited for longer than others, as creating takes a moment. The limit of a statement would end that wait,
/// so it is raised, too. Both are below [`ANSWER_TIMEOUT`]: the server speaks first.
const BEGIN: &str =
    "SET lock_timeout = '3s'; SET statement_timeout = '4s'; BEGIN ISOLATION LEVEL READ COMMITTED";

/// - `store`: the newest version; who wrote it last; which store this is.
/// - `kv`: what the store holds, each row with the version that wrote it.
/// - `clears`: what was removed lately, so that a watch on an absent key knows; see [`super::watches`].
/// - `turn`: empty; its lock is the turn to commit. A table of its own, so that no vacuum of a fuller one stands in
///   the way.
const TABLES: &str = "
    CREATE TABLE callsign.store (
        id int4 PRIMARY KEY CHECK (id = 0), layout int4 NOT NULL, identity int8 NOT NULL,
        version int8 NOT NULL, nonce int8 NOT NULL
    ) WITH (fillfactor = 10);
    CREATE TABLE callsign.kv (key bytea PRIMARY KEY, value bytea NOT NULL, version int8 NOT NULL);
    ALTER TABLE callsign.kv ALTER COLUMN key SET STORAGE PLAIN;
    CREATE TABLE callsign.clears (
        version int8, nth int4, first bytea NOT NULL, beyond bytea NOT NULL, PRIMARY KEY (version, nth)
    );
    CREATE TABLE callsign.turn ();";

/// Sees to it that the tables are there, and says which store it is. After an error that may pass it can be called again, whatever became of
/// the first attempt: it looks for the tables under the lock.
pub(super) async fn prepare(address: &Address) -> Result<i64, OpenError> {
    let unreachable = |cause| OpenError::Unreachable { url: address.describe(), cause };
    let (client, connection) = at_last(async || hosts::connect(address).await)
        .await
        .map_err(|error| unreachable(error.to_string()))?;
    let mut driven = AbortOnDrop(tokio::spawn(connection));
    // The server's own limits do not end a COMMIT that waits for a standby, and a server that has stopped ends nothing.
    let result = timeout(ANSWER_TIMEOUT, lay_out(&client)).await;
    drop(client);
    if result.is_ok() {
        // It ends as its client is gone; whatever else it has to say was said to the client.
        let _ = timeout(ANSWER_TIMEOUT, &mut driven.0).await;
    }
    let (layout, identity) = match result {
        Ok(Ok(laid_out)) => laid_out,
        Ok(Err(error)) if may_pass(&error) => return Err(unreachable(in_words(&error))),
        Ok(Err(error)) => {
            return Err(OpenError::Server { url: address.describe(), cause: in_words(&error) });
        }
        Err(_) => return Err(unreachable(SILENT.to_owned())),
    };
    if layout != LAYOUT {
        return Err(OpenError::WrongSchema { url: address.describe(), found: layout, expected: LAYOUT });
    }
    Ok(identity)
}

/// Connects, and tries again for [`START_TIMEOUT`] while the server only needs a moment.
async fn at_last<T>(connect: impl AsyncFn() -> Result<T, NotConnected>) -> Result<T, NotConnected> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        match connect().await {
            Err(error) if Instant::now() < deadline && error.is_passing() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            connected => return connected,
        }
    }
}

async fn lay_out(client: &Client) -> Result<(i32, i64), tokio_postgres::Error> {
    // The catalogs themselves are asked: `to_regclass` may answer from a cache that is older than the lock below.
    let is_there =
        "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'callsign' AND tablename = 'store')";
    // Without a lock first: a role that may not create anything can use what is there.
    if !client.query_one(is_there, &[]).await?.try_get::<_, bool>(0)? {
        client.batch_execute(BEGIN).await?;
        client.execute("SELECT pg_advisory_xact_lock($1)", &[&CREATING]).await?;
        // Somebody else may have been first.
        if !client.query_one(is_there, &[]).await?.try_get::<_, bool>(0)? {
            // Asked first: "IF NOT EXISTS" wants the right to create one also where there is one.
            let has_schema = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'callsign')";
            if !client.query_one(has_schema, &[]).await?.try_get::<_, bool>(0)? {
                client.batch_execute("CREATE SCHEMA callsign").await?;
            }
            client.batch_execute(TABLES).await?;
            let first = "INSERT INTO callsign.store VALUES (0, $1, $2, 0, 0)";
            client.execute(first, &[&LAYOUT, &rand::random::<i64>()]).await?;
        }
        client.batch_execute("COMMIT").await?;
    }
    let row = client.query_one(sql::STATE, &[]).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{super::tests::said::*, *};

    #[tokio::test(start_paused = true)]
    async fn a_server_that_needs_a_moment_is_asked_again_after_a_pause() {
        let starts = RefCell::new(vec![said("57P03").await, said("53300").await]);
        let begun = Instant::now();
        let connect = async || starts.borrow_mut().pop().map_or(Ok("connected"), |error| Err(error.into()));
        assert_eq!(at_last(connect).await.unwrap(), "connected");
        assert!(begun.elapsed() > Duration::ZERO && begun.elapsed() < START_TIMEOUT, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_start_is_given_up_and_what_will_not_pass_is_said_at_once() {
        let begun = Instant::now();
        assert!(at_last(async || Err::<(), _>(said("57P03").await.into())).await.is_err());
        assert!(begun.elapsed() >= START_TIMEOUT);
        let begun = Instant::now();
        assert!(at_last(async || Err::<(), _>(said("28P01").await.into())).await.is_err());
        assert!(at_last(async || Err::<(), _>(unsaid().await.into())).await.is_err());
        assert!(at_last(async || Err::<(), _>(NotConnected::Silent)).await.is_err());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
