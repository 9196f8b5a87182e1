//! The thread that reads, and looks after the watches. It has a connection of its own: no read waits for a commit.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::{
    file::{DatabaseFile, Trouble, is_busy, patiently},
    looks::LookState,
    notifier::Notifier,
    requests::ReaderRequest,
    sql::newest,
    watches::{Watch, Watches},
};
use crate::{
    core::transaction::{Key, Read, ReadResult, Value},
    error::StoreError,
};

/// The least time between two looks at the watched keys. Shorter would cost a core under load, longer would be felt.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// The time between looks when nothing rings, and after a look that failed.
const SLOW_LOOK: Duration = Duration::from_millis(250);

pub(super) struct Reader {
    pub(super) file: DatabaseFile,
    /// Gone after an error other than "busy"; then the next request opens another.
    pub(super) connection: Option<Connection>,
    pub(super) notifier: Notifier,
    pub(super) looks: Arc<LookState>,
    pub(super) watches: Watches,
    pub(super) last_look: Instant,
    pub(super) next_look: Option<Instant>,
}

impl Reader {
    pub(super) fn new(
        file: DatabaseFile,
        connection: Connection,
        notifier: Notifier,
        looks: Arc<LookState>,
    ) -> Self {
        let watches = Watches::default();
        Self {
            file,
            connection: Some(connection),
            notifier,
            looks,
            watches,
            last_look: Instant::now(),
            next_look: None,
        }
    }

    /// Answers until nobody is left who could ask.
    pub(super) fn run(mut self, requests: &mpsc::Receiver<ReaderRequest>) {
        loop {
            let request = match self.look_due() {
                None => requests.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(due) => requests.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match request {
                Ok(ReaderRequest::Read { reads, deadline, reply, wakes }) => {
                    self.read(&reads, deadline, reply);
                    drop(wakes);
                }
                Ok(ReaderRequest::Watch { watch, deadline }) => self.watch(watch, deadline),
                Ok(ReaderRequest::Look) => {
                    self.looks.taken();
                    self.next_look.get_or_insert(self.last_look + BETWEEN_LOOKS);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if self.look_due().is_some_and(|due| due <= Instant::now()) {
                self.look();
            }
        }
    }

    fn look_due(&self) -> Option<Instant> {
        let slow = self.looks.is_deaf() && self.watches.len() > 0;
        self.next_look.or(slow.then_some(self.last_look + SLOW_LOOK))
    }

    fn read(
        &mut self,
        reads: &[Read],
        deadline: Instant,
        reply: oneshot::Sender<Result<ReadResult, StoreError>>,
    ) {
        if !reply.is_closed() {
            let result = self.at_one_version(deadline, |connection, _| answer(connection, reads));
            let _ = reply.send(result.map_err(|trouble| unavailable(&trouble)));
        }
    }

    fn watch(&mut self, watch: Watch, deadline: Instant) {
        self.watches.forget_dropped();
        if let Err(error) = self.notifier.mark(&watch.key)
            && self.looks.look_slowly()
        {
            crate::logged!(
                warn,
                %error,
                "the notifier cannot be told what is watched: commits of other processes are noticed only by slow looks"
            );
        }
        let (looks, mut watch) = (Arc::clone(&self.looks), Some(watch));
        let added = looks.counted(self.watches.len() + 1, || {
            self.at_one_version(deadline, |connection, watches| watches.add(connection, &mut watch))
        });
        if let (Err(trouble), Some(watch)) = (added, watch) {
            let _ = watch.ended.send(Err(unavailable(&trouble)));
        }
        self.looks.watch(self.watches.len());
    }

    fn look(&mut self) {
        self.watches.forget_dropped();
        let done = self.at_one_version(Instant::now(), |connection, watches| watches.look(connection));
        self.looks.watch(self.watches.len());
        self.last_look = Instant::now();
        self.next_look = done.is_err().then_some(self.last_look + SLOW_LOOK);
    }

    /// Runs `work` in one read transaction, again while others are in the way.
    fn at_one_version<T>(
        &mut self,
        deadline: Instant,
        mut work: impl FnMut(&Connection, &mut Watches) -> rusqlite::Result<T>,
    ) -> Result<T, Trouble> {
        let connection = self.connection.take().map_or_else(|| self.file.connect(), Ok)?;
        self.file.is_unmoved()?;
        let run = |sql| connection.prepare_cached(sql)?.execute([]).map(drop);
        let result = patiently(deadline, || {
            run("BEGIN")?;
            let result = work(&connection, &mut self.watches);
            // Some errors end the transaction by themselves.
            if !connection.is_autocommit() {
                run("ROLLBACK")?;
            }
            result
        });
        if connection.is_autocommit() && result.as_ref().err().is_none_or(is_busy) {
            self.connection = Some(connection);
        }
        Ok(result?)
    }
}

fn unavailable(trouble: &Trouble) -> StoreError {
    StoreError::Unavailable(trouble.to_string())
}

fn answer(connection: &Connection, reads: &[Read]) -> rusqlite::Result<ReadResult> {
    let version = newest(connection)?;
    let answers = reads.iter().map(|read| entries(connection, read)).collect::<rusqlite::Result<_>>()?;
    Ok(ReadResult { version, answers })
}

const ONE: &str = "SELECT key, value FROM kv WHERE key = ?1";
const SOME: &str = "SELECT key, value FROM kv WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";

fn entries(connection: &Connection, read: &Read) -> rusqlite::Result<Vec<(Key, Value)>> {
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    match read {
        Read::Key(key) => {
            let mut one = connection.prepare_cached(ONE)?;
            one.query_map([key], pair)?.collect()
        }
        Read::Range { range, limit } => {
            let mut some = connection.prepare_cached(SOME)?;
            let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
            some.query_map(params![range.start, range.end, limit], pair)?.collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::{super::SqliteOptions, *};
    use crate::{
        Version,
        keys::{read_key, read_range},
    };

    /// A reader, and a connection beside it.
    fn reader(place: &tempfile::TempDir) -> (Reader, Connection) {
        let (file, connection) =
            DatabaseFile::open(&place.path().join("file"), SqliteOptions::default()).unwrap();
        let notifier = Notifier::open(&file.beside("-notify"));
        (Reader::new(file.clone(), file.connect().unwrap(), notifier, Arc::default()), connection)
    }

    fn watch(reader: &mut Reader) -> oneshot::Receiver<Result<(), StoreError>> {
        let (ended, ends) = oneshot::channel();
        let watch = Watch { key: b"k".to_vec(), since: Version(0), ended };
        reader.watch(watch, Instant::now() + Duration::from_secs(60));
        ends
    }

    #[test]
    fn what_is_read_often_is_planned_once() {
        let place = tempfile::tempdir().unwrap();
        let (_reader, connection) = reader(&place);
        for key in [b"a", b"b", b"c"] {
            let range = read_range(key.to_vec()..b"z".to_vec(), 7);
            entries(&connection, &read_key(key.to_vec())).unwrap();
            entries(&connection, &range).unwrap();
        }
        for sql in [ONE, SOME] {
            let statement = connection.prepare_cached(sql).unwrap();
            assert_eq!(statement.get_status(StatementStatus::Run), 3);
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }

    #[test]
    fn a_watch_that_nobody_waits_for_is_forgotten_by_the_next_watch_or_look() {
        let place = tempfile::tempdir().unwrap();
        let (mut reader, _connection) = reader(&place);
        let first = watch(&mut reader);
        let second = watch(&mut reader);
        assert_eq!(reader.watches.len(), 2);
        drop(first);
        let third = watch(&mut reader);
        assert_eq!(reader.watches.len(), 2);
        drop((second, third));
        reader.look();
        assert_eq!(reader.watches.len(), 0);
        assert!(!reader.looks.is_wanted(), "and no commit asks for a look any more");
    }

    #[test]
    fn a_reader_that_cannot_say_what_it_watches_looks_by_itself() {
        let place = tempfile::tempdir().unwrap();
        let (mut reader, _connection) = reader(&place);
        let _first = watch(&mut reader);
        assert!(reader.look_due().is_none() && reader.connection.is_some());
        // A directory is no notifier.
        reader.notifier = Notifier::open(place.path());
        let _second = watch(&mut reader);
        assert!(reader.look_due() > Some(reader.last_look));
    }

    #[test]
    fn a_look_that_failed_is_made_up_for() {
        let place = tempfile::tempdir().unwrap();
        let (mut reader, connection) = reader(&place);
        let mut ends = watch(&mut reader);
        let change =
            "INSERT INTO kv (key, value, version) VALUES (x'6b', x'', 1); UPDATE counter SET version = 1";
        connection.execute_batch(change).unwrap();
        connection.execute_batch("ALTER TABLE kv RENAME TO away").unwrap();
        reader.look();
        assert!(ends.try_recv().is_err(), "what cannot be read has not changed");
        assert!(reader.look_due() > Some(reader.last_look), "it looks again by itself, and not at once");
        assert!(reader.connection.is_none(), "what met an error is not used again");
        connection.execute_batch("ALTER TABLE away RENAME TO kv").unwrap();
        reader.look();
        assert_eq!(ends.try_recv(), Ok(Ok(())));
        assert_eq!(reader.look_due(), None);
        assert!(reader.connection.is_some());
        let mut late = watch(&mut reader);
        assert_eq!(late.try_recv(), Ok(Ok(())), "it has changed since");
        assert!(!reader.looks.is_wanted(), "nobody watches any more");
    }

    #[test]
    fn a_reader_that_hears_nothing_looks_only_while_somebody_watches_and_waits_after_each_look() {
        let place = tempfile::tempdir().unwrap();
        let (mut reader, _connection) = reader(&place);
        assert!(reader.looks.look_slowly());
        assert_eq!(reader.look_due(), None, "nobody watches");
        let _ends = watch(&mut reader);
        let begun = Instant::now();
        reader.look();
        assert!(reader.last_look >= begun);
        assert!(reader.look_due() >= Some(begun + SLOW_LOOK));
    }
}
