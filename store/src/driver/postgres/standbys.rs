//! Commits that the primary has, and that its synchronous standby may lack.
//!
//! A commit waits for the standby after it has been written to the primary's own log, where it stays whatever becomes of the wait. The wait
//! may be cancelled: by `pg_cancel_backend`, by a cancellation from the client's side, by `pg_terminate_backend`, by a crash. Then the
//! commit is there for all who look at the primary, and a failover loses it. After a cancellation the server even answers that it is
//! done, and only warns. Our own limits do not cancel it: `statement_timeout` ends before the commit, as `lock_timeout` does.
//!
//! So such an answer is "unknown". And a process that does not know what became of a commit looks, and must not take for kept what is on the
//! primary only. So connections that are made afterwards begin with a commit that does wait: what was written to the log before it is on
//! the standby, too.
//!
//! The commit may also be one of another process: a primary that recovers from a crash shows what was waiting. All connections end with the
//! crash. So where commits wait for standbys, every connection that commits or reads begins so. A connection that lives on while somebody
//! ends the wait of another process's commit does not notice it.

use tokio_postgres::{Client, Error, error::DbError};

/// The function of the server in which a commit waits. Its name is the same in every language, unlike the warning.
const WAITS: &str = "SyncRepWaitForLSN";

/// Takes its turn as every commit does: the server does not notice that a client has given up such a wait, so that there must not be many.
const TAKE_TURN: &str = "BEGIN; LOCK TABLE callsign.turn IN EXCLUSIVE MODE;
    UPDATE callsign.store SET nonce = nonce WHERE id = 0; COMMIT";

/// Whether the server says that it did not wait for a standby to the end.
pub(super) fn is_of_a_wait(notice: &DbError) -> bool {
    notice.routine() == Some(WAITS)
}

/// Waits until standbys have what the primary has, where commits wait for standbys. It takes as long as one commit. While a standby is away
/// it is refused at the lock after 1 s, except for the first that waits: that one ends with its caller's patience.
pub(super) async fn wait_for_them(client: &Client) -> Result<(), Error> {
    client.batch_execute(TAKE_TURN).await
}

/// Why such a commit is not said to be done.
pub(super) const CUT_SHORT: &str = "the wait for a standby was cancelled: a failover may lose the commit";
