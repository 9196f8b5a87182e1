//! What is asked of the server. The tables themselves are made in [`schema`](super::schema).

use tokio_postgres::{Client, Error, Statement};

use crate::core::transaction::Version;

/// For how many versions removals are remembered. Fewer would end more watches without cause, more would make the
/// table larger.
pub(super) const CLEARS_KEPT: u64 = 1024;

pub(super) const CHANNEL: &str = "callsign";

/// For each watch (`$1` keys, `$2` versions; `$3` how many versions of removals are kept), in order: the version of the look, and whether the key
/// has changed. No row if the database holds another store than the one of identity `$4`.
pub(super) const LOOK_AT_WATCHES: &str = "
    SELECT store.version, CASE
        WHEN kv.key IS NOT NULL THEN kv.version > watch.since
        WHEN watch.since + $3::int8 < store.version THEN true
        ELSE EXISTS (
            SELECT FROM callsign.clears WHERE clears.version > watch.since
            AND clears.first <= watch.key AND clears.beyond > watch.key
        ) END
    FROM unnest($1::bytea[], $2::int8[]) WITH ORDINALITY AS watch (key, since, nth)
    CROSS JOIN callsign.store LEFT JOIN callsign.kv ON kv.key = watch.key
    WHERE store.id = 0 AND store.identity = $4 ORDER BY watch.nth";

/// Every limit is shorter than [`ANSWER_TIMEOUT`](super::ANSWER_TIMEOUT): the server ends what hangs, and says so. A session that stops
/// in the middle of a transaction loses it, and with it its turn. Every query has an index to use; a plan made while a
/// table was small must not read it whole when it is large.
pub(super) const SETTINGS: &str = "
    SET lock_timeout = '1s'; SET statement_timeout = '3s'; SET idle_in_transaction_session_timeout = '2s';
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
    SET client_min_messages = 'warning';
    SELECT set_config('synchronous_commit', 'on', false) FROM pg_settings
        WHERE name = 'synchronous_commit' AND setting IN ('off', 'local') AND source <> 'client'";

/// What a database says of itself.
pub(super) const STATE: &str = "SELECT layout, identity, version FROM callsign.store WHERE id = 0";

pub(super) const VERSION: &str = "SELECT version, identity FROM callsign.store WHERE id = 0";
pub(super) const KEY: &str = "SELECT key, value FROM callsign.kv WHERE key = $1";
pub(super) const RANGE: &str =
    "SELECT key, value FROM callsign.kv WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3";

/// Raises the version if all checks hold, in the transaction that was begun: `$1` keys, `$2` their values or null for
/// "absent", `$3` the nonce, `$4` the identity: a store that was put in the place of ours conflicts with everything. `$5` is the turn.
///
/// `seen_at` is not needed: the row has been looked up anyway.
pub(super) const BUMP: &str = "
    UPDATE callsign.store SET version = version + 1, nonce = $3 WHERE id = 0 AND identity = $4
        AND current_setting('callsign.turn', true) = $5::int8::text AND NOT EXISTS (
        SELECT FROM unnest($1::bytea[], $2::bytea[]) AS expected (key, value)
        LEFT JOIN callsign.kv ON kv.key = expected.key WHERE kv.value IS DISTINCT FROM expected.value
    ) RETURNING version";

/// The same without a write, `$3` the identity: the version if all checks hold, else null. One statement is one snapshot.
pub(super) const CHECK: &str = "
    SELECT CASE WHEN identity = $3 AND NOT EXISTS (
        SELECT FROM unnest($1::bytea[], $2::bytea[]) AS expected (key, value)
        LEFT JOIN callsign.kv ON kv.key = expected.key WHERE kv.value IS DISTINCT FROM expected.value
    ) THEN version END FROM callsign.store WHERE id = 0";

// Each of the following does nothing unless the nonce is there, that is, unless the checks held.

/// `$1` keys, each once, `$2` values, `$3` the nonce.
pub(super) const PUT: &str = "
    INSERT INTO callsign.kv (key, value, version)
        SELECT new.key, new.value, store.version
        FROM callsign.store, unnest($1::bytea[], $2::bytea[]) AS new (key, value) WHERE store.nonce = $3
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version";

/// Removes the keys from `$1` up to, not including, `$2`, and notes as the `$3`th removal that they were; `$4` the nonce.
pub(super) const CLEAR: &str = "
    WITH gone AS (
        DELETE FROM callsign.kv USING callsign.store
        WHERE store.nonce = $4 AND kv.key >= $1::bytea AND kv.key < $2::bytea RETURNING kv.version
    )
    INSERT INTO callsign.clears (version, nth, first, beyond)
        SELECT store.version, $3::int4, $1::bytea, $2::bytea FROM callsign.store
        WHERE store.nonce = $4 AND EXISTS (SELECT FROM gone)";

/// Forgets old removals: `$1` how many versions are kept, `$2` the nonce.
pub(super) const FORGET: &str = "
    DELETE FROM callsign.clears USING callsign.store
    WHERE store.nonce = $2 AND clears.version < store.version - $1::int8";

/// `$1` prefix, `$2` value, `$3` which entry of this transaction it is, `$4` the nonce. A stamp is the version and this
/// number, most significant byte first.
pub(super) const APPEND: &str = "
    WITH stamp AS (
        SELECT int8send(version) || int4send($3::int4) AS stamp, version FROM callsign.store WHERE nonce = $4
    )
    INSERT INTO callsign.kv (key, value, version)
        SELECT $1::bytea || stamp, $2::bytea, version FROM stamp UNION ALL SELECT $1::bytea, stamp, version FROM stamp
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version";

/// `$1` the channel, `$2` what is said, `$3` the nonce.
pub(super) const NOTIFY: &str = "SELECT pg_notify($1::text, $2::text) FROM callsign.store WHERE nonce = $3";

/// Prepared on each connection, so that a request is one flight.
pub(super) struct Statements {
    pub(super) bump: Statement,
    pub(super) check: Statement,
    pub(super) put: Statement,
    pub(super) clear: Statement,
    pub(super) forget: Statement,
    pub(super) append: Statement,
    pub(super) notify: Statement,
    pub(super) version: Statement,
    pub(super) key: Statement,
    pub(super) range: Statement,
    pub(super) look: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let (bump, check, put, clear, forget, append, notify, version, key, range, look) = tokio::try_join!(
            client.prepare(BUMP),
            client.prepare(CHECK),
            client.prepare(PUT),
            client.prepare(CLEAR),
            client.prepare(FORGET),
            client.prepare(APPEND),
            client.prepare(NOTIFY),
            client.prepare(VERSION),
            client.prepare(KEY),
            client.prepare(RANGE),
            client.prepare(LOOK_AT_WATCHES),
        )?;
        Ok(Self { bump, check, put, clear, forget, append, notify, version, key, range, look })
    }
}

/// A version as Postgres has it. Counted one by one from 0, it stays far below 2^63.
pub(super) fn seen(version: i64) -> Version {
    Version(version.unsigned_abs())
}
