//! What a node says of itself, and of the members that it knows.

use std::time::Duration;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    HttpAnswer, HttpRefusal, Query,
    shared::{AdminShared, millis},
    shown::{exact, settings},
};
use crate::{Position, Registry, Status};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistryQuery {
    registry: Option<String>,
}

pub(super) async fn members(
    State(admin): State<AdminShared>,
    Query(query): Query<RegistryQuery>,
) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    let status = registry.status();
    Ok(Json(json!({"members": rows(registry, &status), "settings": settings(&status.settings)})))
}

/// The members. Why a member drains is known of the node itself only: the store has no more than that it does.
pub(super) fn rows(registry: &Registry, status: &Status) -> Value {
    let mut rows = json!(status.members);
    let own = rows.as_array_mut().into_iter().flatten().find(|row| row["node"] == status.node.as_str());
    if let (Some(row), Some(why)) = (own, registry.node.why_leaving()) {
        row["why_draining"] = json!(why);
    }
    rows
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusQuery {
    /// Whether the others are asked for their links, which a later answer has.
    #[serde(default)]
    ask_links: bool,
    registry: Option<String>,
}

pub(super) async fn status(State(admin): State<AdminShared>, Query(query): Query<StatusQuery>) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    if query.ask_links {
        registry.ask_for_links();
    }
    let known = registry.status();
    let mut status = json!(known);
    status["members"] = rows(registry, &known);
    status["settings"] = settings(&known.settings);
    status["incarnation"] = exact(registry.incarnation()).into();
    status["pid"] = std::process::id().into();
    status["listen"] = registry.local_addr().to_string().into();
    status["registries"] = admin.registries.names().collect();
    status["registry"] = admin.registries.name(query.registry.as_deref()).into();
    // Null: it does not know, because it is not synced or its session has lapsed.
    status["names"] = json!(registry.count().ok());
    let remote = registry.remote();
    status["admission"] = json!({
        "unauthenticated": remote.unauthenticated(),
        "refused": remote.refusal_counts(),
        "certificate_expires_in_s": remote.certificate_expires_in().map(|left| left.as_secs()),
    });
    status["ready"] = registry.ready(Duration::ZERO).await.is_ok().into();
    Ok(Json(status))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitQuery {
    wait_ms: Option<u64>,
    registry: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveQuery {}

/// How long a member may take to answer before it counts as one that hangs.
const LIVES: Duration = Duration::from_secs(5);

/// Not whether it can serve: a node that has lost its store, its session or its peers serves again by itself.
pub(super) async fn live(
    State(admin): State<AdminShared>,
    Query(LiveQuery {}): Query<LiveQuery>,
) -> HttpAnswer {
    for (name, registry) in admin.registries.iter() {
        registry.live(LIVES).await.map_err(|error| HttpRefusal::from(error).with("registry", name))?;
    }
    Ok(Json(json!({"live": true})))
}

/// Whether it serves in the registry that is asked for; if none is, in all of them.
pub(super) async fn ready(State(admin): State<AdminShared>, Query(query): Query<WaitQuery>) -> HttpAnswer {
    if let Some(name) = &query.registry {
        admin.registries.get(Some(name))?;
    }
    let is_meant = |name: &str| query.registry.as_deref().is_none_or(|meant| meant == name);
    let (wait, mut until) = (millis(Some(query.wait_ms.unwrap_or(0))), None);
    for (name, registry) in admin.registries.iter().filter(|(name, _)| is_meant(name)) {
        let now = registry.clock().now();
        // They are waited for together.
        let left = until.get_or_insert(now + wait).since(now);
        registry.ready(left).await.map_err(|error| HttpRefusal::from(error).with("registry", name))?;
    }
    Ok(Json(json!({"ready": true})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PositionQuery {
    position: Position,
    wait_ms: Option<u64>,
    registry: Option<String>,
}

pub(super) async fn wait_for(
    State(admin): State<AdminShared>,
    Query(query): Query<PositionQuery>,
) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    registry.wait_for(query.position, millis(query.wait_ms)).await?;
    Ok(Json(json!({"position": query.position})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    #[serde(default)]
    after: u64,
    registry: Option<String>,
}

pub(super) async fn history(
    State(admin): State<AdminShared>,
    Query(query): Query<HistoryQuery>,
) -> HttpAnswer {
    admin.registries.get(query.registry.as_deref())?;
    let (changes, next) =
        admin.histories.after(admin.registries.name(query.registry.as_deref()), query.after);
    Ok(Json(json!({"changes": changes, "next": next})))
}
