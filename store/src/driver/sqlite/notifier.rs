//! How processes tell each other of a commit: whoever changed a key that somebody watches writes one byte to `PATH-notify`,
//! and everybody has the kernel tell them when that file is written.

use std::{
    fs::File,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use notify::{Event, EventHandler, EventKind, RecursiveMode, Watcher, event::ModifyKind};

use super::{Breaks, file::Identity, marks, requests::Looks};
use crate::{
    core::transaction::{Version, Write},
    driver::supervision::text,
};

/// The file through which a process tells others what it watches and commits. Each of its threads has a handle of its own.
#[derive(Debug)]
pub(super) struct Notifier(Option<File>);

impl Notifier {
    pub(super) fn open(path: &Path) -> Self {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
        match file.and_then(|file| marks::make_room(&file).map(|()| file)) {
            Ok(file) => Self(Some(file)),
            Err(error) => {
                let path = path.display();
                crate::logged!(warn, %path, %error, "other processes will not be told of commits at once");
                Self(None)
            }
        }
    }

    /// Tells everybody that a key is watched here. Do it before the key is read. If it fails, others may not ring.
    pub(super) fn mark(&self, key: &[u8]) -> io::Result<()> {
        let file = self.0.as_ref().ok_or_else(|| io::Error::other("it could not be opened"))?;
        marks::mark(file, key)
    }

    /// Whether anybody, also here, may watch what these writes changed at that version.
    pub(super) fn may_be_watched(&self, version: Version, writes: &[Write]) -> bool {
        self.0.as_ref().is_none_or(|file| marks::may_be_watched(file, version, writes))
    }

    /// Tells everybody that a watched key was changed. Costs some microseconds and no disk access.
    pub(super) fn notify(&self) {
        if let Some(file) = &self.0 {
            // A ring that is lost costs others their slow poll, nothing else.
            let _ = marks::ring(file);
        }
    }
}

/// Listens to the notifier until it is dropped.
pub(super) struct Listener {
    closes: Arc<AtomicBool>,
    _watcher: Option<notify::RecommendedWatcher>,
}

impl Listener {
    /// Asks for a look at each ring. Where nobody can listen, asks for slow looks instead, and says so once. If what listens
    /// panics, the store is broken.
    pub(super) fn listen(path: &Path, looks: &Looks, breaks: &Breaks) -> Self {
        let at_ring = {
            let (path, looks) = (path.to_owned(), looks.clone());
            let listened_to = Identity::of(&path).ok();
            move |event: notify::Result<Event>| match event.map(|event| event.kind) {
                Ok(EventKind::Remove(_)) => look_slowly(&path, &"it was removed", &looks),
                Ok(EventKind::Access(_)) => {}
                // We hold it open ourselves, so of its removal only the number of its names is told.
                Ok(EventKind::Modify(ModifyKind::Metadata(_))) if Identity::of(&path).ok() != listened_to => {
                    look_slowly(&path, &"it was removed or replaced", &looks);
                }
                // Also what is not understood: a needless look costs little.
                Ok(_) => looks.ask(),
                Err(error) => look_slowly(&path, &error, &looks),
            }
        };
        Self::with(path, looks, breaks, at_ring)
    }

    fn with(
        path: &Path,
        looks: &Looks,
        breaks: &Breaks,
        at_ring: impl FnMut(notify::Result<Event>) + Send + 'static,
    ) -> Self {
        let closes = Arc::<AtomicBool>::default();
        let (path, looks) = (path.to_owned(), looks.clone());
        let handler = Handler { at_ring, path, looks, breaks: breaks.clone(), closes: Arc::clone(&closes) };
        let (path, looks) = (handler.path.clone(), handler.looks.clone());
        let watcher = notify::recommended_watcher(handler).and_then(|mut watcher| {
            watcher.watch(&path, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        if let Err(error) = &watcher {
            look_slowly(&path, error, &looks);
        }
        Self { closes, _watcher: watcher.ok() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.closes.store(true, Ordering::SeqCst);
    }
}

/// Lives in the thread of the watcher, and as long as that does.
struct Handler<R> {
    at_ring: R,
    path: PathBuf,
    looks: Looks,
    breaks: Breaks,
    closes: Arc<AtomicBool>,
}

impl<R: FnMut(notify::Result<Event>) + Send + 'static> EventHandler for Handler<R> {
    fn handle_event(&mut self, event: notify::Result<Event>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.at_ring)(event))) {
            self.breaks
                .send_replace(Some(format!("what listens to the notifier panicked: {}", text(&*panic))));
        }
    }
}

impl<R> Drop for Handler<R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.breaks.send_replace(Some("the thread that listens to the notifier panicked".to_owned()));
        } else if !self.closes.load(Ordering::SeqCst) {
            look_slowly(&self.path, &"the thread that listened to it has ended", &self.looks);
        }
    }
}

fn look_slowly(path: &Path, why: &dyn std::fmt::Display, looks: &Looks) {
    if looks.look_slowly() {
        crate::logged!(warn, path = %path.display(), %why, "commits of other processes are noticed only by slow looks");
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::sync::watch;

    use super::*;

    const TEST_DEADLINE: Duration = Duration::from_secs(60);

    fn rings(_: notify::Result<Event>) {}

    fn looks() -> (Looks, mpsc::Receiver<super::super::requests::ReaderRequest>) {
        let (requests, asked) = mpsc::channel();
        (Looks::new(requests, Arc::default()), asked)
    }

    #[test]
    fn who_cannot_see_what_is_watched_takes_every_change_for_watched() {
        let place = tempfile::tempdir().unwrap();
        let writes = [Write::Clear(b"k".to_vec())];
        let notifier = Notifier::open(&place.path().join("notifier"));
        assert!(!notifier.may_be_watched(Version(1), &writes));
        // A directory is no notifier.
        let none = Notifier::open(place.path());
        assert!(none.may_be_watched(Version(1), &writes) && none.mark(b"k").is_err());
    }

    #[tokio::test]
    async fn a_panic_of_what_listens_to_the_notifier_breaks_the_store() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notifier");
        let ((looks, _asked), (breaks, mut broken)) = (looks(), watch::channel(None));
        let notifier = Notifier::open(&path);
        let listener = Listener::with(&path, &looks, &breaks, |_| panic!("on request"));
        notifier.notify();
        let said =
            tokio::time::timeout(TEST_DEADLINE, broken.wait_for(Option::is_some)).await.expect("it is said");
        assert_eq!(said.unwrap().as_deref(), Some("what listens to the notifier panicked: on request"));
        drop(listener);
    }

    #[test]
    fn the_end_of_the_thread_that_listens_makes_looks_slow_and_a_panic_in_it_breaks_the_store() {
        for (panics, closes) in [(false, false), (false, true), (true, false)] {
            let ((looks, asked), (breaks, broken)) = (looks(), watch::channel(None));
            let closes = Arc::new(AtomicBool::new(closes));
            let is_closed = closes.load(Ordering::SeqCst);
            let handler = Handler { at_ring: rings, path: PathBuf::new(), looks, breaks, closes };
            let thread = std::thread::spawn(move || {
                let _handler = handler;
                assert!(!panics, "on request");
            });
            assert_eq!(thread.join().is_err(), panics);
            assert_eq!(broken.borrow().is_some(), panics);
            assert_eq!(asked.try_recv().is_ok(), !panics && !is_closed, "it looks by itself from now on");
        }
    }

    #[test]
    fn a_notifier_that_is_touched_and_not_replaced_is_listened_to_as_before() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notifier");
        let _notifier = Notifier::open(&path);
        let (requests, asked) = mpsc::channel();
        let state: Arc<super::super::looks::LookState> = Arc::default();
        let looks = Looks::new(requests, Arc::clone(&state));
        let (breaks, _broken) = watch::channel(None);
        let _listener = Listener::listen(&path, &looks, &breaks);
        state.watch(1);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(asked.recv_timeout(TEST_DEADLINE).is_ok(), "a needless look costs little");
        assert!(!state.is_deaf());
    }

    #[test]
    fn a_store_that_is_closed_does_not_ask_for_slow_looks() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notifier");
        let ((looks, asked), (breaks, broken)) = (looks(), watch::channel(None));
        let notifier = Notifier::open(&path);
        let listener = Listener::listen(&path, &looks, &breaks);
        drop((listener, looks, notifier));
        let told = asked.recv_timeout(TEST_DEADLINE);
        assert!(matches!(told, Err(mpsc::RecvTimeoutError::Disconnected)), "it asks for nothing");
        assert!(broken.borrow().is_none());
    }
}
