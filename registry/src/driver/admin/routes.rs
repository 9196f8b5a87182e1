//! The routes, all of which only read.

use axum::{
    Router,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};

use super::{HttpRefusal, events, explain, groups, names, node, page, shared::AdminShared};

/// What probes ask: whether the node's process has to be restarted, and whether it serves.
const LIVE: &str = "/live";
const READY: &str = "/ready";

/// Whether this is what a probe asks, at once. It says nothing of names or members, so it needs no token: a probe of Kubernetes has none to show.
pub(super) fn is_probe(path: &str, query: Option<&str>) -> bool {
    matches!(path, LIVE | READY) && query.is_none_or(str::is_empty)
}

/// The routes of an endpoint, and those of whoever embeds it. Each of ours is asked by `GET`.
pub(super) fn routes(shared: AdminShared, more: Router) -> Router {
    let has_metrics = shared.metrics.is_some();
    let mut routes = page::routes()
        .route("/whereis", get(names::whereis))
        .route("/explain", get(explain::explain))
        .route("/names", get(names::names))
        .route("/entries", get(names::entries))
        .route("/count", get(names::count))
        .route("/groups", get(groups::groups))
        .route("/watch", get(events::watch))
        .route("/wait-for", get(node::wait_for))
        .route("/members", get(node::members))
        .route("/status", get(node::status))
        .route(LIVE, get(node::live))
        .route(READY, get(node::ready))
        .route("/history", get(node::history));
    #[cfg(feature = "election")]
    {
        routes = routes.route("/singletons", get(super::singletons::singletons));
    }
    if has_metrics {
        routes = routes.route("/metrics", get(metrics));
    }
    routes
        .with_state(shared)
        .merge(more)
        .fallback(async || HttpRefusal::usage("no_such_route", "there is no such route"))
        .method_not_allowed_fallback(async || HttpRefusal::wrong_method())
}

async fn metrics(State(admin): State<AdminShared>) -> Response {
    let text = admin.metrics.as_ref().map(|render| render()).unwrap_or_default();
    // The version of the text format.
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
