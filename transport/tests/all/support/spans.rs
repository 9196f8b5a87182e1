//! A tracing system for tests: the spans of this thread, by numbers that go to other nodes.

use std::{cell::RefCell, collections::BTreeMap, fmt, sync::Once};

use callsign_transport::trace::{self, Propagator, TraceContext};
use tracing::{
    Dispatch, Span, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::filter_fn,
    layer::{Context, SubscriberExt},
};

/// A span that somebody was told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub name: &'static str,
    pub trace: u8,
    pub id: u8,
    pub parent: Option<u8>,
    pub fields: BTreeMap<&'static str, String>,
    /// The traces and spans that it has to do with beside its parent.
    pub links: Vec<(u8, u8)>,
    pub is_over: bool,
}

#[derive(Default)]
struct Spans {
    seen: Vec<Seen>,
    /// Those that are open, by what `tracing` calls them.
    open: BTreeMap<u64, usize>,
    /// The propagator panics.
    panics: bool,
}

impl Spans {
    fn of(&mut self, id: &Id) -> Option<&mut Seen> {
        let at = *self.open.get(&id.into_u64())?;
        self.seen.get_mut(at)
    }
}

thread_local! {
    static SPANS: RefCell<Spans> = RefCell::default();
}

struct Collects;

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Collects {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let current = || context.current_span().id().cloned();
        let parent =
            attributes.parent().cloned().or_else(|| current().filter(|_| attributes.is_contextual()));
        SPANS.with_borrow_mut(|spans| {
            let number = u8::try_from(spans.seen.len() + 1).unwrap();
            let parent = parent.and_then(|parent| spans.of(&parent).map(|seen| (seen.trace, seen.id)));
            let trace = parent.map_or(number, |(trace, _)| trace);
            let parent = parent.map(|(_, id)| id);
            let mut seen =
                Seen { name: attributes.metadata().name(), trace, id: number, parent, ..Seen::default() };
            attributes.record(&mut Fields(&mut seen.fields));
            spans.open.insert(id.into_u64(), spans.seen.len());
            spans.seen.push(seen);
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        SPANS.with_borrow_mut(|spans| {
            if let Some(seen) = spans.of(id) {
                values.record(&mut Fields(&mut seen.fields));
            }
        });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        SPANS.with_borrow_mut(|spans| {
            if let Some(seen) = spans.of(&id) {
                seen.is_over = true;
            }
            spans.open.remove(&id.into_u64());
        });
    }
}

struct ByNumber;

impl Propagator for ByNumber {
    fn context(&self, span: &Span) -> Option<TraceContext> {
        SPANS.with_borrow_mut(|spans| {
            assert!(!spans.panics, "the propagator of the test panics");
            let seen = spans.of(&span.id()?)?;
            TraceContext::new([seen.trace; 16], [seen.id; 8], 1).ok()
        })
    }

    fn adopt(&self, span: &Span, parent: &TraceContext) {
        SPANS.with_borrow_mut(|spans| {
            let seen = spans.of(&span.id().unwrap()).unwrap();
            (seen.trace, seen.parent) = (parent.trace_id()[0], Some(parent.span_id()[0]));
        });
    }

    fn link(&self, span: &Span, other: &TraceContext) {
        SPANS.with_borrow_mut(|spans| {
            let seen = spans.of(&span.id().unwrap()).unwrap();
            seen.links.push((other.trace_id()[0], other.span_id()[0]));
        });
    }
}

/// Collects the spans of this thread for as long as it lives.
pub struct Collected {
    _guard: DefaultGuard,
    /// While there is only one, a call site that another thread comes to first is switched off for all.
    _second: Dispatch,
}

#[allow(clippy::unused_self)] // what is collected is there only while it lives
impl Collected {
    /// Those of the tests, and these.
    pub fn only(names: &'static [&'static str]) -> Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            trace::install(ByNumber).unwrap();
            trace::install(ByNumber).expect_err("there is one already");
        });
        let subscriber = || {
            let is_meant = filter_fn(|metadata| {
                let name = metadata.name();
                metadata.is_span()
                    && (metadata.target() == "test"
                        || metadata.target() == trace::SPANS && names.contains(&name))
            });
            Registry::default().with(Collects.with_filter(is_meant))
        };
        SPANS.set(Spans::default());
        let second = Dispatch::new(subscriber());
        Self { _guard: tracing::subscriber::set_default(subscriber()), _second: second }
    }

    /// All spans so far, as they began.
    pub fn all(&self) -> Vec<Seen> {
        SPANS.with_borrow(|spans| spans.seen.clone())
    }

    /// Those of a name.
    pub fn named(&self, name: &str) -> Vec<Seen> {
        self.all().into_iter().filter(|seen| seen.name == name).collect()
    }

    /// The only one of a name.
    pub fn one(&self, name: &str) -> Seen {
        let named = self.named(name);
        assert_eq!(named.len(), 1, "{name}: {:?}", self.all());
        named[0].clone()
    }

    /// From now on the propagator panics whenever it is asked for a context.
    pub fn panics(&self) {
        SPANS.with_borrow_mut(|spans| spans.panics = true);
    }
}
