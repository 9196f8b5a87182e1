//! A session that is a part of nothing, for tests of its driver.

use std::{
    collections::VecDeque,
    ops::Deref,
    path::Path,
    sync::{Arc, Mutex},
};

use callsign_store::{SharedStore, clock::Clock, lock::lock, supervision::Supervisor, time::Time};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::session::{
    CarriesOut, Effect, Input, NodeSession, OpenSessionError, Patience, Session, SessionConfig, SessionEvent,
    SessionOpening, Steps,
};

/// The session, and who listens to what it says.
#[derive(Debug)]
pub(crate) struct Bare {
    session: Mutex<Session>,
    told: Mutex<VecDeque<Input>>,
    listeners: Mutex<Vec<UnboundedSender<SessionEvent>>>,
}

impl Steps for Bare {
    fn step(&self, now: Time, input: Input, driver: &mut dyn CarriesOut) {
        let (mut session, mut effects) = (lock(&self.session), Vec::new());
        session.step(now, input, &mut effects);
        driver.has_stepped(&session, &mut effects.iter());
        for effect in effects {
            if let Effect::Emit(event) = &effect {
                let mut listeners = lock(&self.listeners);
                listeners.retain(|listener| listener.send(event.clone()).is_ok());
                if matches!(event, SessionEvent::Left | SessionEvent::Failed(_)) {
                    listeners.clear();
                }
            }
            driver.carry_out(effect);
        }
    }

    fn take(&self) -> Option<Input> {
        lock(&self.told).pop_front()
    }

    fn start_over(&self) {
        let told = lock(&self.session).start_over();
        lock(&self.told).push_back(told);
    }
}

/// Such a session, open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) driver: NodeSession,
    core: Arc<Bare>,
}

impl Opened {
    /// How the session is, and what it says from now on.
    pub(crate) fn subscribe(&self) -> UnboundedReceiver<SessionEvent> {
        let (sender, receiver) = unbounded_channel();
        let session = lock(&self.core.session);
        assert!(session.current().into_iter().all(|event| sender.send(event).is_ok()));
        lock(&self.core.listeners).push(sender);
        receiver
    }

    pub(crate) fn tell(&self, input: Input) {
        lock(&self.core.told).push_back(input);
        self.driver.is_told();
    }
}

impl Deref for Opened {
    type Target = NodeSession;

    fn deref(&self) -> &NodeSession {
        &self.driver
    }
}

pub(crate) async fn open(
    store: SharedStore,
    clock: Clock,
    config: SessionConfig,
    patience: impl Into<Patience>,
    supervisor: Supervisor,
) -> Result<Opened, OpenSessionError> {
    open_recorded(store, clock, config, patience, supervisor, None).await
}

pub(crate) async fn open_recorded(
    store: SharedStore,
    clock: Clock,
    config: SessionConfig,
    patience: impl Into<Patience>,
    supervisor: Supervisor,
    record: Option<&Path>,
) -> Result<Opened, OpenSessionError> {
    let session = Mutex::new(Session::new(config.clone()).map_err(OpenSessionError::Timing)?);
    let core = Arc::new(Bare { session, told: Mutex::default(), listeners: Mutex::default() });
    let opening = SessionOpening { store, clock, config, patience: patience.into(), record, supervisor };
    let driver = NodeSession::open(core.clone(), opening).await?;
    Ok(Opened { driver, core })
}
