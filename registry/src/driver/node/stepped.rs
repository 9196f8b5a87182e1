//! The node's core, where it is stepped: under a lock, so that effects are carried out in their order.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use callsign_elector::session::{self, CarriesOut, Session, Steps};
use callsign_store::{Time, lock::lock};

use super::Node;
use crate::core::node::{NodeCore, NodeEffect, NodeInput};

/// The core of a node. Its session is opened before there is anything else of the node.
pub(crate) struct Stepped {
    core: Mutex<NodeCore>,
    node: OnceLock<Weak<Node>>,
}

impl Stepped {
    pub(super) fn new(core: NodeCore) -> Self {
        Self { core: Mutex::new(core), node: OnceLock::new() }
    }

    /// From here on what is asked for beside the session's is done by this node.
    pub(super) fn belongs_to(&self, node: &Arc<Node>) {
        let _ = self.node.set(Arc::downgrade(node)); // it has one owner
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, NodeCore> {
        lock(&self.core)
    }

    /// Steps the core, and does what follows. `driver` is that of the session, if it is stepped.
    pub(super) fn step(&self, now: Time, input: NodeInput, driver: &mut dyn CarriesOut) {
        // Dropped behind the lock: it may be the last to hold the node.
        let node = self.node.get().and_then(Weak::upgrade);
        let is_of_session = matches!(input, NodeInput::Session(_));
        let (mut core, mut effects) = (self.lock(), Vec::new());
        let known = core.leaving().wakes_at();
        core.step(now, input, &mut effects);
        if is_of_session {
            let mut asked = effects.iter().filter_map(|effect| match effect {
                NodeEffect::Session(effect) => Some(effect),
                _ => None,
            });
            driver.has_stepped(core.session(), &mut asked);
        }
        if let Some(node) = &node
            && let Some(at) = core.leaving().wakes_at().filter(|at| Some(*at) != known)
        {
            node.wake_leaving(at);
        }
        for effect in effects {
            match (effect, &node) {
                (NodeEffect::Session(effect), _) => driver.carry_out(effect),
                (effect, Some(node)) => node.carry_out(effect),
                (_, None) => {}
            }
        }
    }
}

impl Steps for Stepped {
    fn step(&self, now: Time, input: session::Input, driver: &mut dyn CarriesOut) {
        self.step(now, NodeInput::Session(input), driver);
    }

    fn take(&self) -> Option<session::Input> {
        self.lock().take()
    }

    fn start_over(&self) {
        // What closes the session is taken next, whenever that is.
        self.step(Time::ZERO, NodeInput::SessionBroke, &mut NoSession);
    }
}

/// Where the session is not stepped.
pub(super) struct NoSession;

impl CarriesOut for NoSession {
    fn has_stepped(&mut self, _: &Session, _: &mut dyn Iterator<Item = &session::Effect>) {}

    fn carry_out(&mut self, _: session::Effect) {}
}
