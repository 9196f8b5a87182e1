//! A life of a node in a second registry: what clients write down there is a history of its own.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use callsign::Registry;
use callsign_store::lock::lock;

use super::life::Life;
use crate::histories::{
    Journal,
    event::{At, Event},
};

/// One life of a node in its second registry.
pub struct Second {
    /// The life.
    pub life: Arc<Life>,
    /// What its clients ask.
    pub registry: Registry,
    events: Mutex<Vec<Event>>,
}

impl fmt::Debug for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Second({})", self.life.who)
    }
}

impl Second {
    /// Of a life that has joined it.
    pub fn new(life: &Arc<Life>, registry: Registry) -> Arc<Self> {
        Arc::new(Self { life: life.clone(), registry, events: Mutex::default() })
    }

    /// Whether it is of this life.
    pub fn is_of(&self, life: &Life) -> bool {
        self.life.who == life.who
    }

    /// Whether something like this was written down.
    pub fn has_written(&self, what: impl Fn(&Event) -> bool) -> bool {
        lock(&self.events).iter().rev().any(what)
    }

    /// What was written down, once.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.events))
    }
}

impl Journal for Second {
    fn now(&self) -> At {
        self.life.now()
    }

    fn note(&self, what: &'static str) {
        self.life.note(what);
    }

    fn is_closed(&self) -> bool {
        self.life.is_closed()
    }

    fn write(&self, event: &Event) {
        lock(&self.events).extend(self.life.written("in the second registry: ", event));
    }
}
