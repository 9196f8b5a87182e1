//! What Callsign needs to know of OpenTelemetry. Take this file into your application.

use std::str::FromStr;

use callsign::trace::{Propagator, TraceContext};
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Spans of a subscriber that has the layer of `tracing-opentelemetry`.
pub(crate) struct OpenTelemetry;

impl Propagator for OpenTelemetry {
    fn context(&self, span: &Span) -> Option<TraceContext> {
        let context = span.context();
        let span = context.span();
        let known = span.span_context();
        let (trace, span) = (known.trace_id().to_bytes(), known.span_id().to_bytes());
        // A span that nobody listens to has the number zero, which is refused here.
        let context = TraceContext::new(trace, span, known.trace_flags().to_u8()).ok()?;
        Some(context.with_state(&known.trace_state().header()))
    }

    fn adopt(&self, span: &Span, parent: &TraceContext) {
        // It fails for a span that the layer does not have.
        let _ = span.set_parent(Context::new().with_remote_span_context(remote(parent)));
    }

    fn link(&self, span: &Span, other: &TraceContext) {
        span.add_link(remote(other));
    }
}

/// A span of another process.
fn remote(context: &TraceContext) -> SpanContext {
    let state = context.tracestate().and_then(|state| TraceState::from_str(state).ok());
    let (trace, span) = (TraceId::from_bytes(context.trace_id()), SpanId::from_bytes(context.span_id()));
    SpanContext::new(trace, span, TraceFlags::new(context.flags()), true, state.unwrap_or_default())
}
