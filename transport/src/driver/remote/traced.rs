//! What comes from a peer in a trace: a span in which the actor handles it.

use callsign_store::logged;
use tracing::{Span, debug_span, field::Empty};

use crate::{
    core::{headers::Headers, trace::TraceContext},
    driver::{
        handle::LinkHandle,
        inner::Inner,
        trace::{self, SPANS},
    },
};

/// A word for counters, beside those of [`crate::Refused`].
const BAD_TRACE_CONTEXT: &str = "bad-trace-context";

/// The span of a message whose sender's trace goes on here. Disabled, if there is no trace, or nobody listens.
pub(super) fn callee(inner: &Inner, link: &LinkHandle, headers: Headers<'_>, variant: &str) -> Span {
    if !trace::is_installed() {
        return Span::none();
    }
    match TraceContext::of_headers(headers) {
        None => Span::none(),
        Some(Ok(parent)) => {
            let peer = &link.peer;
            let span = debug_span!(target: SPANS, "callee", %peer, variant, answered = Empty);
            if !span.is_disabled() {
                trace::adopt(&span, &parent);
            }
            span
        }
        Some(Err(why)) => {
            let count = inner.count_refused(BAD_TRACE_CONTEXT);
            if count.is_power_of_two() {
                logged!(debug, peer = %link.peer, count, "a trace is not gone on with: {why}");
            }
            Span::none()
        }
    }
}
