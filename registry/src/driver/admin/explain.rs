//! Why a name is as it is, as the node knows.

use std::time::Duration;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    HttpAnswer, Query,
    node::rows,
    shared::AdminShared,
    shown::{whole_millis, with_name},
};
use crate::{Change, Entry, Explanation, HolderSession, NameState, PastChange, Why, WhyFree};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuery {
    name: String,
    registry: Option<String>,
}

pub(super) async fn explain(
    State(admin): State<AdminShared>,
    Query(query): Query<ExplainQuery>,
) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    let explained = registry.explain(&query.name).await?;
    let mut body = described(&explained);
    body["members"] = rows(registry, &explained.status);
    Ok(Json(body))
}

fn described(explained: &Explanation) -> Value {
    let Explanation { name, state, session, changes, remembers_from, position, trusted, status, .. } =
        explained;
    let (mut ago, mut changed, mut why_free) = (None, None, Value::Null);
    let kind = match state {
        NameState::Held { entry, ago: since, changed_ago } => {
            (ago, changed) = (*since, *changed_ago);
            if entry.is_starting() { "starting" } else { "held" }
        }
        NameState::Free(why) => {
            why_free = free(why);
            "free"
        }
        _ => "unknown",
    };
    json!({
        "name": name,
        "said": explained.to_string(),
        "state": kind,
        "holder": state.entry().map(|entry| with_name(name, entry)),
        "ago_ms": ago.map(whole_millis),
        "changed_ago_ms": changed.map(whole_millis),
        "why_free": why_free,
        "session": session.as_ref().map(session_of),
        "changes": changes.iter().map(change).collect::<Vec<_>>(),
        "remembers_from": remembers_from,
        "node": status.node,
        "position": position,
        "trusted": trusted,
        "synced": status.synced,
        "leader": status.leader,
        "epoch": status.epoch,
    })
}

fn free(why: &WhyFree) -> Value {
    match why {
        WhyFree::Ended(last) => change(last),
        WhyFree::Reset { position, ago } => {
            json!({"why": "reset", "position": position, "ago_ms": ago.map(whole_millis)})
        }
        WhyFree::NotRemembered { since } => json!({"why": "not_remembered", "position": since}),
    }
}

fn change(told: &PastChange) -> Value {
    let Change { name, position, was, now, why, .. } = &told.change;
    let reason = if let Why::StartFailed { reason } = why { Some(reason) } else { None };
    let entry = |entry: &Option<Entry>| entry.as_ref().map(|entry| with_name(name, entry));
    json!({
        "position": position, "why": why.as_str(), "reason": reason, "was": entry(was), "now": entry(now),
        "ago_ms": told.ago.map(whole_millis),
    })
}

fn session_of(session: &HolderSession) -> Value {
    let millis = |time: Option<Duration>| time.map(whole_millis);
    json!({
        "node": session.node, "number": session.number, "open": session.open, "trusted": session.trusted,
        "last_beat_ms": millis(session.last_beat), "lease_ms": millis(session.lease), "said": session.to_string(),
    })
}
