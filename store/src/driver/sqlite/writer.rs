//! The thread that commits. Those who wait at the same time share a transaction of the file, so that the disk is waited for once.

use std::{collections::VecDeque, sync::mpsc, time::Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    attempt::{Failure, attempt},
    file::{DatabaseFile, Trouble},
    notifier::Notifier,
    requests::Looks,
    wake::Wakes,
};
use crate::{
    core::transaction::{CommitOutcome, Transaction},
    driver::failures::Failures,
};

/// How many commits share a transaction of the file at most. It bounds how long other processes wait for one that does not
/// wait for them.
const TOGETHER: usize = 16;

/// A transaction to commit.
pub(super) struct Job {
    pub(super) transaction: Transaction,
    /// Until when to wait for other processes. Counted from the call, so that a queue of jobs behind a lock ends
    /// together, not one after the other.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<CommitOutcome>,
    pub(super) wakes: Wakes,
}

impl Job {
    fn writes(&self) -> bool {
        !self.transaction.writes.is_empty()
    }
}

pub(super) struct Writer {
    pub(super) file: DatabaseFile,
    /// Gone after an error other than "busy"; then the next job opens another.
    pub(super) connection: Option<Connection>,
    pub(super) notifier: Notifier,
    pub(super) looks: Looks,
    /// Commits in a row that failed on their last step.
    pub(super) failures: Failures,
}

impl Writer {
    /// Commits until nobody is left who could ask.
    pub(super) fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        let mut waiting = VecDeque::new();
        while let Some(first) = waiting.pop_front().or_else(|| jobs.recv().ok()) {
            waiting.extend(jobs.try_iter());
            // One that only checks waits for no lock, so it shares none.
            let with_it = if first.writes() {
                waiting.iter().take(TOGETHER - 1).take_while(|job| job.writes()).count()
            } else {
                0
            };
            let group: Vec<_> = std::iter::once(first).chain(waiting.drain(..with_it)).collect();
            self.serve(group);
        }
    }

    fn serve(&mut self, jobs: Vec<Job>) {
        let outcomes = self.commit(&jobs);
        let mut rings = false;
        for (Job { transaction, reply, wakes, .. }, outcome) in jobs.into_iter().zip(outcomes) {
            let changed = match outcome {
                CommitOutcome::Committed(version) if !transaction.writes.is_empty() => Some(version),
                _ => None,
            };
            // The author first; if it is gone, the outcome is as unknown as it chose.
            let _ = reply.send(outcome);
            drop(wakes);
            rings |=
                changed.is_some_and(|version| self.notifier.may_be_watched(version, &transaction.writes));
        }
        if rings {
            self.looks.ask();
            self.notifier.notify();
        }
    }

    /// One outcome for each.
    fn commit(&mut self, jobs: &[Job]) -> Vec<CommitOutcome> {
        let connection = match self.connection.take().map_or_else(|| self.file.connect(), Ok) {
            Ok(connection) => connection,
            Err(trouble) => return vec![CommitOutcome::Unavailable(trouble.to_string()); jobs.len()],
        };
        let transactions: Vec<_> = jobs.iter().map(|job| &job.transaction).collect();
        let result = attempt(&connection, &self.file, &transactions, jobs[0].deadline);
        // A connection that is still inside a transaction, or that met an error, is not used again: closing it
        // rolls back, and the next one begins with what is in the file.
        let rolled_back = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        let is_sound = match &result {
            Ok(_) => true,
            Err(Failure::Before(Trouble::Database(error))) => super::file::is_busy(error),
            Err(_) => false,
        };
        if rolled_back && is_sound {
            self.connection = Some(connection);
        }
        match result {
            Ok(outcomes) => {
                for outcome in &outcomes {
                    self.failures.answered(outcome);
                }
                outcomes
            }
            // What one of them met is not the others' trouble.
            Err(Failure::Before(_)) if jobs.len() > 1 => {
                jobs.chunks(1).flat_map(|alone| self.commit(alone)).collect()
            }
            Err(Failure::Before(trouble)) => vec![CommitOutcome::Unavailable(trouble.to_string())],
            Err(Failure::During(error, mut outcomes)) => {
                self.failures.note(&error);
                for outcome in &mut outcomes {
                    *outcome = without_commit(outcome, &error);
                }
                outcomes
            }
        }
    }
}

/// What an outcome is worth when the `COMMIT` that would have made it true has failed.
fn without_commit(outcome: &CommitOutcome, error: &rusqlite::Error) -> CommitOutcome {
    match outcome {
        CommitOutcome::Committed(_) => CommitOutcome::Unknown,
        // It wrote nothing. But what it conflicts with may be what another one has just failed to write.
        _ => CommitOutcome::Unavailable(format!("a commit of another caller has failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        super::{SqliteOptions, looks::LookState},
        *,
    };
    use crate::{Version, testing::log::Listening};

    /// A file in which some writes meet trouble.
    struct TroubledFile {
        _directory: tempfile::TempDir,
        file: DatabaseFile,
        connection: Connection,
        notify: std::path::PathBuf,
    }

    impl TroubledFile {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            let (file, connection) = DatabaseFile::open(&path, SqliteOptions::default()).unwrap();
            Self { _directory: directory, file, connection, notify: path.with_extension("notify") }
        }

        /// From now on each write of this key fails at once.
        fn refuse(&self, key: &str) {
            self.on(key, "SELECT RAISE(ABORT, 'refused')");
        }

        /// From now on a transaction that writes this key fails at its end.
        fn refuse_at_the_end(&self, key: &str) {
            let tables = "CREATE TABLE one (id INTEGER PRIMARY KEY);
                CREATE TABLE other (id REFERENCES one DEFERRABLE INITIALLY DEFERRED)";
            self.connection.execute_batch(tables).unwrap();
            self.connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
            self.on(key, "INSERT INTO other VALUES (1)");
        }

        /// From now on each write of this key fails at once on this connection, and on no other.
        fn refuse_here(&self, key: &str) {
            let when = format!("WHEN new.key = CAST('{key}' AS BLOB)");
            let action = "SELECT RAISE(ABORT, 'refused here')";
            let trigger = format!("CREATE TEMP TRIGGER here AFTER INSERT ON kv {when} BEGIN {action}; END");
            self.connection.execute_batch(&trigger).unwrap();
        }

        fn on(&self, key: &str, action: &str) {
            let when = format!("WHEN new.key = CAST('{key}' AS BLOB)");
            let trigger = format!("CREATE TRIGGER t AFTER INSERT ON kv {when} BEGIN {action}; END");
            self.connection.execute_batch(&trigger).unwrap();
        }

        /// What is answered to those who all wait when the writer looks, and the keys that are there then.
        fn outcomes(self, transactions: Vec<Transaction>) -> (Vec<CommitOutcome>, Vec<String>) {
            let (sends, jobs) = mpsc::channel();
            let answers: Vec<_> = transactions
                .into_iter()
                .map(|transaction| {
                    let (reply, outcome) = oneshot::channel();
                    sends
                        .send(Job { transaction, deadline: Instant::now(), reply, wakes: Wakes::default() })
                        .unwrap();
                    outcome
                })
                .collect();
            drop(sends);
            let beside = self.file.connect().unwrap();
            let writer = Writer {
                file: self.file,
                connection: Some(self.connection),
                notifier: Notifier::open(&self.notify),
                looks: Looks::new(mpsc::channel().0, std::sync::Arc::default()),
                failures: Failures::default(),
            };
            writer.run(&jobs);
            let mut keys = beside.prepare("SELECT CAST(key AS TEXT) FROM kv ORDER BY key").unwrap();
            let keys = keys.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
            (answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect(), keys)
        }
    }

    fn put(key: &str) -> Transaction {
        Transaction::new().put(key.into(), b"value".to_vec())
    }

    fn committed(version: u64) -> CommitOutcome {
        CommitOutcome::Committed(Version(version))
    }

    fn job(transaction: Transaction) -> Job {
        Job { transaction, deadline: Instant::now(), reply: oneshot::channel().0, wakes: Wakes::default() }
    }

    fn is_unavailable(outcome: &CommitOutcome) -> bool {
        matches!(outcome, CommitOutcome::Unavailable(_))
    }

    #[test]
    fn those_who_wait_together_have_versions_of_their_own_and_find_what_came_before() {
        let is_free = put("a").check(b"a".to_vec(), None);
        let next = put("b").check(b"a".to_vec(), Some(b"value".to_vec()));
        let (outcomes, keys) = TroubledFile::new().outcomes(vec![is_free.clone(), is_free, next]);
        assert_eq!(outcomes, [committed(1), CommitOutcome::Conflict, committed(2)]);
        assert_eq!(keys, ["a", "b"]);
    }

    #[test]
    fn a_commit_that_is_refused_before_its_end_takes_none_of_the_others_with_it() {
        let place = TroubledFile::new();
        place.refuse("bad");
        let (outcomes, keys) = place.outcomes(vec![put("a"), put("bad"), put("b")]);
        assert_eq!((&outcomes[0], &outcomes[2]), (&committed(1), &committed(2)));
        assert!(is_unavailable(&outcomes[1]), "{outcomes:?}");
        assert_eq!(keys, ["a", "b"]);
    }

    /// They share a transaction of the file, so all share its end. One that wrote nothing was not committed, whatever comes of
    /// it: not even a conflict is sure then.
    #[test]
    fn where_the_end_fails_each_that_wrote_is_unknown_and_a_conflict_was_not_tried() {
        let place = TroubledFile::new();
        place.refuse_at_the_end("bad");
        let conflict = put("c").check(b"a".to_vec(), None);
        let (outcomes, keys) = place.outcomes(vec![put("a"), conflict, put("bad"), put("b")]);
        for wrote in [0, 2, 3] {
            assert_eq!(outcomes[wrote], CommitOutcome::Unknown);
        }
        assert!(is_unavailable(&outcomes[1]), "{outcomes:?}");
        assert!(keys.is_empty(), "{keys:?}");
    }

    #[test]
    fn one_that_only_checks_waits_for_no_lock_and_shares_the_end_of_nobody() {
        let place = TroubledFile::new();
        place.refuse_at_the_end("bad");
        let checks = || Transaction::new().check(b"a".to_vec(), None);
        let (outcomes, keys) = place.outcomes(vec![checks(), put("b"), checks(), put("bad"), checks()]);
        let unknown = CommitOutcome::Unknown;
        assert_eq!(outcomes, [committed(0), committed(1), committed(1), unknown, committed(1)]);
        assert_eq!(keys, ["b"]);

        let place = TroubledFile::new();
        let beside = place.file.connect().unwrap();
        beside.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (outcomes, _) = place.outcomes(vec![checks(), put("b"), checks()]);
        assert_eq!((&outcomes[0], &outcomes[2]), (&committed(0), &committed(0)));
        assert!(is_unavailable(&outcomes[1]), "{outcomes:?}");
    }

    #[test]
    fn so_many_share_a_transaction_and_no_more() {
        let place = TroubledFile::new();
        place.refuse_at_the_end("bad");
        let good = (1..TOGETHER).map(|nth| put(&format!("{nth:02}")));
        let (outcomes, keys) = place.outcomes(good.chain([put("bad"), put("next")]).collect());
        assert!(
            outcomes[..TOGETHER].iter().all(|outcome| *outcome == CommitOutcome::Unknown),
            "{outcomes:?}"
        );
        assert_eq!((&outcomes[TOGETHER..], keys), ([committed(1)].as_slice(), vec!["next".to_owned()]));
    }

    #[test]
    fn each_of_those_who_share_a_lock_that_is_not_had_is_told() {
        let place = TroubledFile::new();
        let beside = place.file.connect().unwrap();
        beside.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (outcomes, _) = place.outcomes(vec![put("a"), put("b")]);
        assert!(outcomes.iter().all(is_unavailable), "{outcomes:?}");
    }

    #[test]
    fn a_connection_is_used_until_it_has_met_an_error_and_then_another_one_is() {
        let checks = || Transaction::new().check(b"absent".to_vec(), None);
        let place = TroubledFile::new();
        place.refuse_here("marked");
        let conflict = put("a").check(b"a".to_vec(), Some(b"another".to_vec()));
        let before = [put("a"), checks(), conflict, checks(), put("marked")];
        let (outcomes, keys) = place.outcomes([&before[..], &[checks(), put("marked")]].concat());
        assert_eq!(outcomes[..4], [committed(1), committed(1), CommitOutcome::Conflict, committed(1)]);
        assert!(is_unavailable(&outcomes[4]), "over the first connection: {outcomes:?}");
        assert_eq!(outcomes[5..], [committed(1), committed(2)], "and these over the next");
        assert_eq!(keys, ["a", "marked"]);

        let place = TroubledFile::new();
        place.refuse_here("marked");
        place.refuse_at_the_end("bad");
        let (outcomes, _) = place.outcomes(vec![put("bad"), checks(), put("marked")]);
        assert_eq!(outcomes, [CommitOutcome::Unknown, committed(0), committed(1)]);
    }

    #[test]
    fn where_nobody_can_tell_what_is_watched_all_that_changes_something_rings_and_nothing_else() {
        let conflict = put("a").check(b"a".to_vec(), Some(vec![]));
        for (transaction, rings) in [(Transaction::new(), false), (conflict, false), (put("a"), true)] {
            let place = TroubledFile::new();
            // A directory is no notifier.
            let notifier = Notifier::open(place.notify.parent().unwrap());
            let (requests, asked) = mpsc::channel();
            let state: Arc<LookState> = Arc::default();
            state.watch(1);
            let mut writer = Writer {
                file: place.file,
                connection: Some(place.connection),
                notifier,
                looks: Looks::new(requests, state),
                failures: Failures::default(),
            };
            let said = format!("{transaction:?}");
            writer.serve(vec![job(transaction)]);
            assert_eq!(asked.try_recv().is_ok(), rings, "{said}");
        }
    }

    #[test]
    fn commits_that_fail_at_their_end_are_counted_in_the_log_and_so_is_the_end_of_their_row() {
        let log = Listening::to("callsign_store::driver::failures");
        let place = TroubledFile::new();
        place.refuse_at_the_end("bad");
        let mut writer = Writer {
            file: place.file,
            connection: Some(place.connection),
            notifier: Notifier::open(&place.notify),
            looks: Looks::new(mpsc::channel().0, Arc::default()),
            failures: Failures::default(),
        };
        for key in ["bad", "bad", "good"] {
            writer.serve(vec![job(put(key))]);
        }
        let said: Vec<_> =
            log.all().iter().map(|line| [line["message"].clone(), line["failed"].clone()]).collect();
        let unknown = "the outcome of a commit is unknown";
        assert_eq!(said, [[unknown, "1"], [unknown, "2"], ["commits succeed again", "2"]]);
    }
}
