//! What comes from a peer in a trace: a span in which the actor handles it.

use callsign_store::supervision::foreign;
use ractor::{ActorCell, MessagingErr, message::SerializedMessage};
use tracing::{Span, debug_span, field::Empty};

use super::kind::RemoteMessage;
use crate::{
    core::{frame::NotDelivered, headers::Headers, trace::TraceContext},
    driver::{
        handle::LinkHandle,
        inner::Inner,
        trace::{self, SPANS},
    },
};

/// A word for counters, beside those of [`crate::Refused`].
const BAD_TRACE_CONTEXT: &str = "bad-trace-context";

/// Sends an actor a message that it knows how to read.
pub(super) type SendTo = fn(&ActorCell, SerializedMessage) -> Result<(), NotDelivered>;

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
                tracing::debug!(peer = %link.peer, count, "a trace is not gone on with: {why}");
            }
            Span::none()
        }
    }
}

/// Reads a message, and sends it as one of this node: so ractor has the actor handle it in the span that is current. What arrives as bytes
/// it does not.
pub(super) fn send_to<M: RemoteMessage>(
    actor: &ActorCell,
    message: SerializedMessage,
) -> Result<(), NotDelivered> {
    // ractor drops what an actor cannot read, and so does this.
    let Some(Ok(message)) = foreign("the reading of a message", || M::deserialize(message)) else {
        tracing::debug!(actor = %actor.get_id(), "a message that cannot be read is dropped");
        return Ok(());
    };
    actor.send_message(message).map_err(|error| match error {
        MessagingErr::InvalidActorType => NotDelivered::WrongKind,
        _ => NotDelivered::Gone,
    })
}
