//! Which watched keys have changed.
//!
//! As in the backend for `SQLite`: a row says which version wrote it, removals are noted in `clears` for the last
//! [`CLEARS_KEPT`] versions, a look moves every watch that goes on up to the version it saw, and a watch that comes with
//! an older version on an absent key is ended without cause.
//!
//! A watch is looked at when it comes, and LISTEN was in effect before, or a look follows as soon as it is: so a change
//! between the caller's read and the watch is seen by the look, one after it is heard.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;

use super::{
    BUSY,
    line::Line,
    not_connected::NotConnected,
    notice::{Event, PostgresWatch},
    sql::{CLEARS_KEPT, seen},
    trouble::in_words,
};
use crate::{core::transaction::Version, error::StoreError};

/// The least time between two looks. Shorter would burden the server under load, longer would be felt.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// The time between looks when nothing is heard, while it could be, and while it could not, or after a failed look.
const SLOW_LOOK: Duration = Duration::from_secs(1);
const LOOK_WHEN_DISCONNECTED: Duration = Duration::from_millis(250);

/// Looks after the watches.
pub(super) struct Keeper {
    line: Line,
    watches: Vec<PostgresWatch>,
    is_disconnected: bool,
    /// Whether something may have changed.
    is_due: bool,
    last_look: Instant,
    failed: bool,
}

impl Keeper {
    pub(super) fn new(line: Line) -> Self {
        Self {
            line,
            watches: Vec::new(),
            is_disconnected: true,
            is_due: false,
            last_look: Instant::now(),
            failed: false,
        }
    }

    /// Runs until nobody is left who could watch.
    pub(super) async fn run(mut self, mut events: mpsc::UnboundedReceiver<Event>) {
        loop {
            let event = match self.due() {
                None => Ok(events.recv().await),
                Some(due) => tokio::time::timeout_at(due.into(), events.recv()).await,
            };
            let Ok(event) = event else {
                self.look().await;
                continue;
            };
            match event {
                Some(event) => self.on_event(event),
                None => return,
            }
            while let Ok(event) = events.try_recv() {
                self.on_event(event);
            }
            if self.due().is_some_and(|due| due <= Instant::now()) {
                self.look().await;
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Watch(watch) => {
                self.watches.push(watch);
                self.is_due = true;
            }
            Event::Listens => {
                self.is_disconnected = false;
                self.is_due = true;
            }
            Event::Disconnected => self.is_disconnected = true,
            Event::Notified(words) => {
                self.is_due |= words.split(' ').any(|word| word == "*" || self.is_watched(word));
            }
        }
    }

    fn is_watched(&self, word: &str) -> bool {
        self.watches.iter().any(|watch| watch.word == word)
    }

    fn due(&self) -> Option<Instant> {
        let after = match () {
            () if self.watches.is_empty() => return None,
            // One that comes during an outage is told of it soon.
            () if self.failed && self.watches.iter().all(|watch| watch.is_armed) => LOOK_WHEN_DISCONNECTED,
            () if self.is_due => BETWEEN_LOOKS,
            () if self.is_disconnected => LOOK_WHEN_DISCONNECTED,
            () => SLOW_LOOK,
        };
        Some(self.last_look + after)
    }

    async fn look(&mut self) {
        self.is_due = false;
        self.watches.retain(|watch| !watch.ended.is_closed());
        let looked = if self.watches.is_empty() { Ok(Vec::new()) } else { self.ask().await };
        self.last_look = Instant::now();
        self.failed = looked.is_err();
        let seen = match looked {
            Ok(seen) => seen.into_iter().map(Ok).collect(),
            Err(why) => vec![Err(why); self.watches.len()],
        };
        let watches = std::mem::take(&mut self.watches);
        // Nobody waits any more where sending fails: nothing to tell.
        for (mut watch, seen) in watches.into_iter().zip(seen) {
            match seen {
                Ok((_, true)) => {
                    let _ = watch.ended.send(Ok(()));
                    continue;
                }
                Ok((version, false)) => {
                    watch.since = watch.since.max(version);
                    watch.is_armed = true;
                }
                // Those that have begun to wait go on.
                Err(_) if watch.is_armed => {}
                Err(why) => {
                    let _ = watch.ended.send(Err(StoreError::Unavailable(why)));
                    continue;
                }
            }
            self.watches.push(watch);
        }
    }

    /// For each watch, the version of the look and whether its key has changed.
    async fn ask(&self) -> Result<Vec<(Version, bool)>, String> {
        let session = self.line.session(Instant::now() + BUSY).await?;
        let (keys, since): (Vec<&[u8]>, Vec<i64>) =
            self.watches.iter().map(|watch| (watch.key.as_slice(), watch.since.0.cast_signed())).unzip();
        let kept = CLEARS_KEPT.cast_signed();
        let identity = session.identity();
        let params: [&(dyn ToSql + Sync); 4] = [&keys, &since, &kept, &identity];
        let asked = session.client.query(&session.sql.look, &params);
        let rows = match session.answer(asked).await {
            Ok(Ok(rows)) => rows,
            Ok(Err(error)) => {
                session.met(&error);
                return Err(in_words(&error));
            }
            Err(why) => return Err(why.to_owned()),
        };
        if rows.len() != self.watches.len() {
            session.give_up();
            return Err(NotConnected::Replaced.to_string());
        }
        let pair = |row: &tokio_postgres::Row| Ok((seen(row.try_get(0)?), row.try_get(1)?));
        rows.iter().map(pair).collect::<Result<_, _>>().map_err(|error| in_words(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::oneshot;

    use super::{
        super::{
            address::Address,
            line::{Place, Role},
            notice::{MOST_NAMED, spelled},
            tests::wire::{self, Said},
        },
        *,
    };
    use crate::core::transaction::Write;

    /// Looks after one watch that has been looked at, and hears commits.
    fn keeper() -> (Keeper, oneshot::Receiver<Result<(), StoreError>>) {
        // Nobody is there: nothing of this looks.
        let address = Address::parse("postgres://somebody@127.0.0.1:1/none").unwrap();
        keeper_over(Line::start(Arc::new(Place::new(address, 0)), Role::Reads))
    }

    fn keeper_over(line: Line) -> (Keeper, oneshot::Receiver<Result<(), StoreError>>) {
        let mut keeper = Keeper::new(line);
        let (ended, ends) = oneshot::channel();
        keeper.on_event(Event::Watch(PostgresWatch::new(b"k".to_vec(), Version(1), ended)));
        keeper.on_event(Event::Listens);
        looked(&mut keeper);
        (keeper, ends)
    }

    /// As a look that found nothing leaves it.
    fn looked(keeper: &mut Keeper) {
        keeper.is_due = false;
        keeper.failed = false;
        keeper.last_look = Instant::now();
        keeper.watches.iter_mut().for_each(|watch| watch.is_armed = true);
    }

    fn next_look(keeper: &Keeper) -> Duration {
        keeper.due().unwrap().duration_since(keeper.last_look)
    }

    #[tokio::test]
    async fn what_was_committed_while_nobody_listened_is_looked_for_as_soon_as_somebody_does() {
        let (mut keeper, _ends) = keeper();
        assert_eq!(next_look(&keeper), SLOW_LOOK);
        keeper.on_event(Event::Disconnected);
        assert_eq!(next_look(&keeper), LOOK_WHEN_DISCONNECTED);
        looked(&mut keeper);
        keeper.on_event(Event::Listens);
        assert_eq!(next_look(&keeper), BETWEEN_LOOKS, "a commit since the last look was not notified");
        looked(&mut keeper);
        assert_eq!(next_look(&keeper), SLOW_LOOK);
    }

    #[tokio::test]
    async fn a_watch_that_nobody_waits_for_is_forgotten_by_the_next_look() {
        let (mut keeper, ends) = keeper();
        drop(ends);
        keeper.look().await;
        assert!(keeper.watches.is_empty(), "{:?}", keeper.watches);
        assert_eq!(keeper.due(), None, "and nothing is looked for any more");
    }

    #[tokio::test]
    async fn a_commit_that_is_notified_is_looked_for_if_it_may_concern_a_watch() {
        let (mut keeper, _ends) = keeper();
        keeper.on_event(Event::Notified(spelled(&[Write::Clear(b"other".to_vec())])));
        assert_eq!(next_look(&keeper), SLOW_LOOK);
        let put = |key: &[u8]| Write::Put { key: key.to_vec(), value: Vec::new() };
        for writes in [
            vec![put(b"k")],
            vec![put(b"other"), put(b"k")],
            vec![Write::Append { prefix: b"k".to_vec(), value: Vec::new() }],
            vec![Write::ClearRange(b"a".to_vec()..b"z".to_vec())],
            vec![put(b"other"); MOST_NAMED + 1],
        ] {
            keeper.on_event(Event::Notified(spelled(&writes)));
            assert_eq!(next_look(&keeper), BETWEEN_LOOKS, "{writes:?}");
            looked(&mut keeper);
        }
        keeper.failed = true;
        assert_eq!(next_look(&keeper), LOOK_WHEN_DISCONNECTED, "a look that failed is made up for");
    }

    #[tokio::test]
    async fn a_look_moves_on_what_has_not_changed_and_ends_what_has() {
        let mut said = vec![Said::Done, Said::Looked(8, true), Said::Looked(7, false)];
        let (line, session) = wire::line(move |_| said.pop().unwrap()).await;
        let (mut keeper, mut ends) = keeper_over(line);
        keeper.is_due = true;
        let begun = Instant::now();
        keeper.look().await;
        assert_eq!(keeper.watches[0].since, Version(7), "what was removed before is forgotten some day");
        assert!(keeper.last_look >= begun);
        assert_eq!(next_look(&keeper), SLOW_LOOK);
        assert!(ends.try_recv().is_err());
        keeper.look().await;
        assert_eq!(ends.try_recv(), Ok(Ok(())));
        assert!(keeper.watches.is_empty());
        // The database holds another store by now.
        let (ended, mut ends) = oneshot::channel();
        keeper.on_event(Event::Watch(PostgresWatch::new(b"k".to_vec(), Version(8), ended)));
        keeper.look().await;
        let told = ends.try_recv();
        assert!(
            matches!(&told, Ok(Err(StoreError::Unavailable(why))) if why.contains("not the one that was opened")),
            "{told:?}"
        );
        assert!(
            session.was_given_up(),
            "what comes next is looked for over a connection that asks which store it is"
        );
    }

    #[tokio::test]
    async fn a_look_that_failed_is_told_to_who_comes_and_who_has_begun_to_wait_waits_on() {
        let (mut keeper, mut waits) = keeper();
        let come = |keeper: &mut Keeper| {
            let (ended, ends) = oneshot::channel();
            keeper.on_event(Event::Watch(PostgresWatch::new(b"l".to_vec(), Version(1), ended)));
            ends
        };
        let mut comes = come(&mut keeper);
        assert_eq!(next_look(&keeper), BETWEEN_LOOKS);
        keeper.look().await;
        let told = comes.try_recv();
        assert!(matches!(&told, Ok(Err(StoreError::Unavailable(_)))), "{told:?}");
        assert_eq!(waits.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(next_look(&keeper), LOOK_WHEN_DISCONNECTED);
        let _comes = come(&mut keeper);
        assert_eq!(next_look(&keeper), BETWEEN_LOOKS, "it is told of the outage soon");
    }
}
