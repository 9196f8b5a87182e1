//! Traces that go on: with requests to the leader, and with the commit that decides them.

use bytes::Bytes;
use callsign_store::ids::SessionId;
use callsign_transport::trace::{self, SPANS, TraceContext};
use tracing::{Span, debug_span};

use super::Driver;
use crate::core::{
    message::{Message, Wish},
    table::RequestNumber,
    taking::Taking,
    traced::{MOST_TRACED, Traced},
};

impl Driver {
    /// A message as it travels: with the traces of the requests in it.
    pub(super) fn encoded(&self, message: &Message) -> Bytes {
        let traces = if trace::is_installed() { self.traces_of(message) } else { Vec::new() };
        let parents: Vec<_> = traces.iter().map(|(_, context)| context.traceparent()).collect();
        let traced = traces.iter().zip(&parents).map(|((number, context), parent)| Traced {
            number: *number,
            parent,
            state: context.tracestate(),
        });
        message.encode_with(&traced.collect::<Vec<_>>())
    }

    /// By requests, the traces in which they are.
    fn traces_of(&self, message: &Message) -> Vec<(RequestNumber, TraceContext)> {
        match message {
            Message::Requests { session, requests, .. } => {
                let found = requests.iter().filter_map(|request| {
                    Some((request.number, self.trace_of(session, request.number, &request.wish)?))
                });
                found.take(MOST_TRACED).collect()
            }
            Message::Take(Taking::Ask { taker, .. }) => {
                let context = self.trace_of_own(taker.number);
                context.map(|context| (taker.number, context)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The trace of a request of this node.
    fn trace_of_own(&self, number: RequestNumber) -> Option<TraceContext> {
        self.shared.trace_of(self.core.member().call_of(number)?)
    }

    fn trace_of_number(&self, session: &SessionId, number: RequestNumber) -> Option<TraceContext> {
        if session.node == *self.core.member().me() {
            return self.trace_of_own(number);
        }
        self.shared.traces.of_request(&session.node, number)
    }

    /// The trace of a request: its own, or that of the taker for whom the holder of a name asks.
    fn trace_of(&self, session: &SessionId, number: RequestNumber, wish: &Wish) -> Option<TraceContext> {
        let own = self.trace_of_number(session, number);
        own.or_else(|| match wish {
            Wish::Transfer { to, number, .. } => self.trace_of_number(to, *number),
            _ => None,
        })
    }

    /// The span of a commit: in the trace of the first request that it decides, with a link to those of the others. Disabled if
    /// none of them is in a trace.
    pub(super) fn commit_span(&self) -> Span {
        if !trace::is_installed() {
            return Span::none();
        }
        let member = self.core.member();
        let deciding = member.deciding();
        let traces = deciding.filter_map(|(session, number, wish)| self.trace_of(session, number, wish));
        let traces: Vec<_> = traces.take(MOST_TRACED).collect();
        let Some((parent, others)) = traces.split_first() else { return Span::none() };
        let operations = member.batch_operations();
        let registry = self.shared.registry.as_str();
        // The member takes what waits in the span of somebody who woke it.
        let span = debug_span!(target: SPANS, parent: None, "commit", registry, operations);
        if !span.is_disabled() {
            trace::adopt(&span, parent);
            for other in others {
                trace::link(&span, other);
            }
        }
        span
    }
}
