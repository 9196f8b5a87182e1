//! What `tracing` is given.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// What was said of one thing on this thread, as the fields of each event.
#[derive(Clone)]
struct Captured {
    target: &'static str,
    events: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
}

/// Listens for as long as it lives.
pub struct Listening {
    captured: Captured,
    _guard: tracing::subscriber::DefaultGuard,
    _second: tracing::Dispatch,
}

impl Listening {
    /// Listens to what has this target, or one whose name begins so.
    pub fn to(target: &'static str) -> Self {
        let captured = Captured { target, events: Arc::default() };
        // While there is only one, a call site that another test comes to first is switched off by that test's thread, which
        // has none. With two, all that exist are asked.
        let second = tracing::Dispatch::new(Captured { target, events: Arc::default() });
        let guard = tracing::subscriber::set_default(captured.clone());
        Self { captured, _guard: guard, _second: second }
    }

    /// What was said so far.
    pub fn all(&self) -> Vec<BTreeMap<String, String>> {
        self.captured.events.lock().unwrap().clone()
    }
}

struct FieldVisitor<'a>(&'a mut BTreeMap<String, String>);

impl Visit for FieldVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Captured {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(self.target)
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::from([("level".to_owned(), event.metadata().level().to_string())]);
        event.record(&mut FieldVisitor(&mut fields));
        self.events.lock().unwrap().push(fields);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
