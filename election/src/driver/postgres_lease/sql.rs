//! The table, and the five statements.
//!
//! Each statement is one transaction. A claim and a refresh go through `ON CONFLICT DO UPDATE` because that takes the row's
//! lock first and reads the clock and the row after: a plain `UPDATE` that waited for the lock would judge the lease by
//! the clock of before the wait. The clock is read once in each decision.

use callsign_store::postgres::connection::CREATING;
use tokio_postgres::{Client, Error, Statement};

/// The channel that all elections share. A payload begins with the name of its election.
pub(super) const CHANNEL: &str = "callsign_lease";

/// The number is the layout's. Logged, as a crash must not take the ballots.
const TABLE: &str = "
    CREATE TABLE callsign.lease_v1 (
        election text PRIMARY KEY, ballot int8 NOT NULL, epoch int8 NOT NULL,
        leader text, incarnation int8, nonce int8, priority int8,
        elected_at timestamptz, expires_at timestamptz,
        CHECK (epoch <= ballot),
        CHECK (num_nulls(leader, incarnation, nonce, priority, elected_at, expires_at) IN (0, 6))
    ) WITH (fillfactor = 10)";

/// `$1` election, `$2` member, `$3` incarnation, `$4` nonce, `$5` priority, `$6` lease in microseconds.
///
/// Whoever finds a valid lease of somebody else writes nothing and locks nothing. A first row starts at the clock in
/// milliseconds, not at 1: so a row that somebody removed does not begin again below its former ballots.
const CLAIM: &str = "
    INSERT INTO callsign.lease_v1 AS l
        (election, ballot, epoch, leader, incarnation, nonce, priority, elected_at, expires_at)
    SELECT $1, first, first, $2, $3, $4, $5, now, now + $6::int8 * interval '1 microsecond'
    FROM (SELECT now, (extract(epoch FROM now) * 1000)::int8 AS first
        FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock) AS fresh
    WHERE NOT EXISTS (
        SELECT FROM callsign.lease_v1 AS held WHERE held.election = $1 AND held.expires_at > now
        AND (held.leader, held.incarnation) IS DISTINCT FROM ($2::text, $3::int8))
    ON CONFLICT (election) DO UPDATE
    SET (ballot, epoch, leader, incarnation, nonce, priority, elected_at, expires_at) = (
        SELECT CASE WHEN again THEN l.ballot ELSE l.ballot + 1 END,
            CASE WHEN mine THEN l.epoch ELSE l.ballot + 1 END,
            $2, $3, $4, $5,
            CASE WHEN mine THEN l.elected_at ELSE now END,
            CASE WHEN again THEN l.expires_at ELSE now + $6::int8 * interval '1 microsecond' END
        FROM (SELECT now, mine, mine AND l.nonce = $4 AS again
            FROM (SELECT now, coalesce(l.leader = $2 AND l.incarnation = $3 AND l.expires_at > now, false) AS mine
                FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock) AS seen) AS decided)
    WHERE l.ballot < 9223372036854775807 AND (l.leader IS NULL OR l.expires_at <= clock_timestamp()
        OR l.leader = $2 AND l.incarnation = $3)
    RETURNING ";

/// `$1` election, `$2` member, `$3` incarnation, `$4` epoch, `$5` nonce, `$6` lease in microseconds.
///
/// Should the row be removed between the look and the lock, a vacant one with its ballot takes its place.
const REFRESH: &str = "
    INSERT INTO callsign.lease_v1 AS l (election, ballot, epoch)
    SELECT election, ballot, epoch FROM callsign.lease_v1
        WHERE election = $1 AND leader = $2 AND incarnation = $3 AND epoch = $4
    ON CONFLICT (election) DO UPDATE
    SET (ballot, nonce, expires_at) = (
        SELECT CASE WHEN again THEN l.ballot ELSE l.ballot + 1 END, $5,
            CASE WHEN again THEN l.expires_at ELSE now + $6::int8 * interval '1 microsecond' END
        FROM (SELECT clock_timestamp() AS now, l.nonce = $5 AS again OFFSET 0) AS decided)
    WHERE l.ballot < 9223372036854775807 AND l.expires_at > clock_timestamp()
        AND l.leader = $2 AND l.incarnation = $3 AND l.epoch = $4
    RETURNING ";

/// `$1` election, `$2` member, `$3` incarnation, `$4` epoch. Keeps the counters. A row if there was something to give.
const RESIGN: &str = "
    WITH given AS (
        UPDATE callsign.lease_v1
        SET leader = NULL, incarnation = NULL, nonce = NULL, priority = NULL, elected_at = NULL, expires_at = NULL
        WHERE election = $1 AND leader = $2 AND incarnation = $3 AND epoch = $4 RETURNING 1)
    SELECT pg_notify('callsign_lease', $1 || ' free ' || $3::int8) FROM given";

const FROM_THE_SEAT: &str = " FROM callsign.lease_v1 AS l WHERE election = $1";

/// `$1` election, `$2` epoch, or whichever is the present one. A row if somebody leads in it.
///
/// What is said names the epoch in every case: it may come late, and whoever leads by then is not meant.
const ASK_TO_RESIGN: &str = "
    SELECT epoch, pg_notify('callsign_lease', $1 || ' resign ' || epoch) FROM callsign.lease_v1
    WHERE election = $1 AND expires_at > clock_timestamp() AND epoch = coalesce($2::int8, epoch)";

/// What is said of a row: times in microseconds.
const ROW: &str =
    "l.ballot, l.epoch, l.leader, l.incarnation, (extract(epoch FROM l.elected_at) * 1000000)::int8,
    (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::int8, l.priority";

/// Prepared on each connection, so that a question is one flight.
pub(super) struct Statements {
    pub(super) claim: Statement,
    pub(super) refresh: Statement,
    pub(super) resign: Statement,
    pub(super) look: Statement,
    pub(super) ask_to_resign: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let (claim, refresh) = (format!("{CLAIM}{ROW}"), format!("{REFRESH}{ROW}"));
        let look = format!("SELECT {ROW}{FROM_THE_SEAT}");
        let (claim, refresh, resign, look, ask_to_resign) = tokio::try_join!(
            client.prepare(&claim),
            client.prepare(&refresh),
            client.prepare(RESIGN),
            client.prepare(&look),
            client.prepare(ASK_TO_RESIGN),
        )?;
        Ok(Self { claim, refresh, resign, look, ask_to_resign })
    }
}

/// Makes the table where it is missing; ten may do so at once. A role that may not create anything can use what is there.
pub(super) async fn lay_out(client: &Client) -> Result<(), Error> {
    // The catalogs themselves are asked: `to_regclass` may answer from a cache that is older than the lock below.
    let is_there =
        "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'callsign' AND tablename = 'lease_v1')";
    if client.query_one(is_there, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(());
    }
    // Short: whoever waits for longer connects anew, and finds it there.
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    client.execute("SELECT pg_advisory_xact_lock($1)", &[&CREATING]).await?;
    if !client.query_one(is_there, &[]).await?.try_get::<_, bool>(0)? {
        let has_schema = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'callsign')";
        if !client.query_one(has_schema, &[]).await?.try_get::<_, bool>(0)? {
            client.batch_execute("CREATE SCHEMA callsign").await?;
        }
        client.batch_execute(TABLE).await?;
    }
    client.batch_execute("COMMIT").await
}
