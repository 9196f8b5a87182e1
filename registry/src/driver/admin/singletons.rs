//! Singletons, and whatever else is elected by leases in the store of this node's cluster, page by page.
//!
//! The member that has the seat of an election runs the singleton of its name. Every node of the cluster says the same, whether or not it takes part,
//! because the store says it. A lease that is not refreshed stays there until a rival takes the seat: whoever looks twice sees by `ballot`
//! whether it is refreshed.

use std::time::Duration;

use axum::{Json, extract::State};
use callsign_election::lease::{ElectionSeat, seats};
use callsign_store::ids::ElectionName;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    HttpAnswer, HttpRefusal, Query,
    shared::AdminShared,
    shown::{holder, whole_millis},
};
use crate::Registry;

/// How many one answer has at most: each is read by itself.
const PAGE: usize = 100;

/// How long the store may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SingletonsQuery {
    after: Option<String>,
    limit: Option<usize>,
    registry: Option<String>,
}

pub(super) async fn singletons(
    State(admin): State<AdminShared>,
    Query(query): Query<SingletonsQuery>,
) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    let after = query.after.as_deref().map(ElectionName::new).transpose();
    let after = after.map_err(|error| HttpRefusal::usage("bad_after", error.to_string()))?;
    let limit = query.limit.unwrap_or(PAGE).min(PAGE);
    let node = &registry.node;
    let clock = registry.clock();
    // One more says whether there is a next page.
    let read = seats(&node.store, &node.cluster, after.as_ref(), limit + 1);
    let found = tokio::select! {
        biased;
        found = read => found.map_err(|error| HttpRefusal::unavailable("store_unavailable", error.to_string()))?,
        () = clock.sleep_until(clock.now() + STORE_TIMEOUT) => {
            return Err(HttpRefusal::timed_out("store_unavailable", "the store has not answered in time"));
        }
    };
    let (page, more) = found.split_at(limit.min(found.len()));
    let next = page.last().filter(|_| !more.is_empty()).map(|last| &last.election);
    Ok(Json(
        json!({"singletons": page.iter().map(|seat| shown(registry, seat)).collect::<Vec<_>>(), "next": next}),
    ))
}

fn shown(registry: &Registry, ElectionSeat { election, seated, .. }: &ElectionSeat) -> Value {
    // The leader child of a singleton of this crate is registered under its name. Other programs have none.
    let child = registry.lookup(election.as_str()).ok().flatten();
    json!({
        "name": election,
        "leader": seated.as_ref().map(|seated| &seated.term.leader),
        "epoch": seated.as_ref().map(|seated| seated.fence.epoch),
        "ballot": seated.as_ref().map(|seated| seated.fence.ballot),
        "lease_ms": seated.as_ref().map(|seated| whole_millis(seated.lease)),
        "child": child.as_ref().map(holder),
    })
}
