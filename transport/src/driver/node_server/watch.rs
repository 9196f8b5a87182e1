//! What the `NodeServer` says of sessions, kept by the labels of their streams.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use callsign_store::lock::lock;
use ractor_cluster::{NodeEventSubscription, node::NodeServerSessionInformation as Session};
use tokio::sync::{Notify, futures::Notified};

/// How far a session got.
enum SessionProgress {
    Expected,
    Ready(Session),
    Over,
}

/// The sessions that are waited for or used.
#[derive(Default)]
pub(super) struct Watch {
    sessions: Mutex<BTreeMap<String, SessionProgress>>,
    changed: Notify,
}

impl Watch {
    /// A session with this label is about to begin.
    pub(super) fn expect(&self, label: &str) {
        lock(&self.sessions).insert(label.to_owned(), SessionProgress::Expected);
    }

    pub(super) fn forget(&self, label: &str) {
        lock(&self.sessions).remove(label);
    }

    /// Waits for the next event of any session.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Waits until an expected session is ready. `None`: it ended.
    pub(super) async fn ready(&self, label: &str) -> Option<Session> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable(); // before the look
            match lock(&self.sessions).get(label) {
                Some(SessionProgress::Expected) => {}
                Some(SessionProgress::Ready(session)) => return Some(session.clone()),
                Some(SessionProgress::Over) | None => return None,
            }
            changed.await;
        }
    }

    fn note(&self, label: &str, progress: SessionProgress) {
        if let Some(session) = lock(&self.sessions).get_mut(label) {
            *session = progress;
        }
        self.changed.notify_waiters();
    }
}

/// Called inside the `NodeServer`: must not wait, and must not panic.
pub(super) struct SessionSubscription {
    watch: Arc<Watch>,
    prefix: String,
}

impl SessionSubscription {
    pub(super) fn new(watch: Arc<Watch>, prefix: String) -> Self {
        Self { watch, prefix }
    }

    fn note(&self, session: Session, progress: impl FnOnce(Session) -> SessionProgress) {
        let label = session.peer_addr.clone();
        if label.starts_with(&self.prefix) {
            self.watch.note(&label, progress(session));
        }
    }
}

impl NodeEventSubscription for SessionSubscription {
    fn node_session_opened(&self, _: Session) {}

    fn node_session_authenticated(&self, _: Session) {}

    fn node_session_ready(&self, session: Session) {
        self.note(session, SessionProgress::Ready);
    }

    fn node_session_disconnected(&self, session: Session) {
        self.note(session, |_| SessionProgress::Over);
    }
}
