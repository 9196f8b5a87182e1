//! In which traces the requests are that other nodes sent; and the spans of this node's own calls.
//!
//! It has the traces beside the cores, which know nothing of them, by the number of a request. Nothing is kept here unless the
//! application has installed a propagator.

use std::{
    collections::{BTreeMap, VecDeque},
    error::Error,
    future::Future,
    sync::Mutex,
};

use callsign_store::{
    ids::{NodeName, Position},
    in_full,
    lock::lock,
    logged,
};
use callsign_transport::trace::{SPANS, TraceContext};
use futures::FutureExt;
use tracing::{Instrument, Span, field::display};

use crate::core::{table::RequestNumber, traced::Traced};

/// The most requests of other nodes whose traces are remembered. With more, the oldest are forgotten: their commit is in no trace.
pub(crate) const MOST_ASKED: usize = 1024;

/// The traces of other nodes that go on here.
#[derive(Default)]
pub(crate) struct Traces(Mutex<TracesByRequest>);

/// By node and request. A node counts all its requests in one row.
#[derive(Default)]
struct TracesByRequest {
    traces: BTreeMap<(NodeName, RequestNumber), TraceContext>,
    in_order: VecDeque<(NodeName, RequestNumber)>,
}

impl Traces {
    /// How many requests of other nodes are remembered.
    #[cfg(test)]
    pub(crate) fn count_asked(&self) -> usize {
        lock(&self.0).traces.len()
    }

    /// A node said in which traces its requests are. What is no trace is passed over.
    pub(crate) fn asked(&self, from: &NodeName, traced: &[Traced<'_>]) {
        if traced.is_empty() {
            return;
        }
        let mut asked = lock(&self.0);
        for Traced { number, parent, state } in traced {
            let context = match TraceContext::parse(parent) {
                Ok(context) => context.with_state(state.unwrap_or_default()),
                Err(why) => {
                    logged!(debug, peer = %from, "a trace is not gone on with: {why}");
                    continue;
                }
            };
            let of = (from.clone(), *number);
            if asked.traces.insert(of.clone(), context).is_none() {
                asked.in_order.push_back(of);
            }
            if asked.in_order.len() > MOST_ASKED
                && let Some(oldest) = asked.in_order.pop_front()
            {
                asked.traces.remove(&oldest);
            }
        }
    }

    /// The trace of a request of another node.
    pub(crate) fn of_request(&self, from: &NodeName, number: RequestNumber) -> Option<TraceContext> {
        lock(&self.0).traces.get(&(from.clone(), number)).cloned()
    }
}

/// Runs a call in its span, which says in the end what came of it.
///
/// No `async` block, which would keep the future twice.
pub(crate) fn in_span<T, E: Error + 'static>(
    span: Span,
    call: impl Future<Output = Result<T, E>>,
    token: impl FnOnce(&T) -> Option<Position>,
) -> impl Future<Output = Result<T, E>> {
    let noted = call.map(|done| {
        // Kept once, with the future. Where nobody listens to it, another one is current, or none.
        let span = Span::current();
        if span.metadata().is_some_and(|metadata| metadata.target() == SPANS) {
            match &done {
                Ok(done) => token(done).map(|token| span.record("token", token.0)),
                Err(error) => Some(span.record("error", display(in_full(error)))),
            };
        }
        done
    });
    noted.instrument(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn asks(traces: &Traces, node: &str, number: u64, parent: &str) {
        let traced = Traced { number: RequestNumber(number), parent, state: Some("a=1") };
        traces.asked(&NodeName::new(node).unwrap(), &[traced]);
    }

    fn of(traces: &Traces, node: &str, number: u64) -> Option<TraceContext> {
        traces.of_request(&NodeName::new(node).unwrap(), RequestNumber(number))
    }

    #[test]
    fn the_trace_of_a_request_is_known_by_its_node_and_number_and_what_is_none_is_passed_over() {
        let traces = Traces::default();
        asks(&traces, "a", 7, PARENT);
        asks(&traces, "a", 8, "00-ABC");
        let found = of(&traces, "a", 7).unwrap();
        assert_eq!((found.traceparent().as_str(), found.tracestate()), (PARENT, Some("a=1")));
        assert_eq!((of(&traces, "b", 7), of(&traces, "a", 8)), (None, None));
    }

    #[test]
    fn the_oldest_requests_are_forgotten() {
        let traces = Traces::default();
        for number in 0..=MOST_ASKED as u64 {
            asks(&traces, "a", number, PARENT);
            // Asked again: it counts once.
            asks(&traces, "a", number, PARENT);
        }
        assert_eq!(of(&traces, "a", 0), None);
        assert!(of(&traces, "a", 1).is_some() && of(&traces, "a", MOST_ASKED as u64).is_some());
        assert_eq!((traces.count_asked(), lock(&traces.0).in_order.len()), (MOST_ASKED, MOST_ASKED));
    }
}
