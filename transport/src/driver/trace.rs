//! Traces that go from process to process: the seam between spans and a tracing system such as OpenTelemetry.
//!
//! A span of `tracing` is known in its process only. What it is called elsewhere knows the tracing system that the application
//! uses, so the application says: it [installs](install) a [`Propagator`], once for the process, as it does with its subscriber.
//! There is one for the process because a message becomes bytes inside of ractor, where no node of Callsign is at hand.
//!
//! Nothing is sent, read or asked where none is installed. What comes from peers is bounded, and passed over if it is wrong.

use std::sync::OnceLock;

use callsign_store::supervision::foreign;
use tracing::Span;

pub use crate::core::trace::{BadTraceContext, TraceContext};

/// The target of all spans: a filter such as `callsign::spans=debug` switches them on, and nothing else.
pub const SPANS: &str = "callsign::spans";

/// What the application uses, asked where a span begins or goes on. It must not block.
static INSTALLED: OnceLock<Box<dyn Propagator>> = OnceLock::new();

/// Knows what spans of this process are called in others. `examples/traced` of `callsign` has one for OpenTelemetry.
///
/// It is asked in the middle of calls: it must not block. If it panics, only the trace is cut.
pub trait Propagator: Send + Sync + 'static {
    /// What other processes know this span by. `None`: it is in no trace. The span may be one that nobody listens to.
    fn context(&self, span: &Span) -> Option<TraceContext>;

    /// Makes a span of another process the parent of this one, which has just begun.
    fn adopt(&self, span: &Span, parent: &TraceContext);

    /// Says that this span has to do with another one, too, beside its parent. By default it is not noted.
    fn link(&self, span: &Span, other: &TraceContext) {
        let _ = (span, other);
    }
}

/// Why a propagator was not installed: there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process has a propagator of traces already")]
pub struct AlreadyInstalled;

/// Has spans go on in other processes, from now on, for all nodes of this process.
///
/// # Errors
/// [`AlreadyInstalled`], if that was done before. Nothing is changed then.
pub fn install(propagator: impl Propagator) -> Result<(), AlreadyInstalled> {
    INSTALLED.set(Box::new(propagator)).map_err(|_| AlreadyInstalled)
}

/// Whether spans go on in other processes.
#[doc(hidden)]
pub fn is_installed() -> bool {
    INSTALLED.get().is_some()
}

/// What other processes know a span by; or, if the tracing system does not have that span, the one that is current.
#[doc(hidden)]
pub fn context_of(span: &Span) -> Option<TraceContext> {
    let installed = INSTALLED.get()?;
    let of = |span: &Span| foreign("the propagator of traces", || installed.context(span)).flatten();
    of(span).or_else(|| of(&Span::current()))
}

/// Makes a span of another process the parent of this one.
#[doc(hidden)]
pub fn adopt(span: &Span, parent: &TraceContext) {
    if let Some(installed) = INSTALLED.get() {
        foreign("the propagator of traces", || installed.adopt(span, parent));
    }
}

/// Says that a span has to do with another one.
#[doc(hidden)]
pub fn link(span: &Span, other: &TraceContext) {
    if let Some(installed) = INSTALLED.get() {
        foreign("the propagator of traces", || installed.link(span, other));
    }
}
