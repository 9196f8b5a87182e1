//! Names: who holds one, and which there are, page by page.

use axum::{Json, extract::State};
use callsign_store::in_full;
use serde::Deserialize;
use serde_json::json;

use super::{
    HttpAnswer, HttpRefusal, Query,
    shared::{AdminShared, millis},
    shown::with_name,
};
use crate::{Page, Select};

/// How many names one answer has at most.
const PAGE: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhereisQuery {
    name: String,
    #[serde(default)]
    consistent: bool,
    wait_ms: Option<u64>,
    registry: Option<String>,
}

pub(super) async fn whereis(
    State(admin): State<AdminShared>,
    Query(query): Query<WhereisQuery>,
) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    let found = if query.consistent {
        registry.lookup_consistent(&query.name, millis(query.wait_ms)).await?
    } else {
        registry.lookup(&query.name)?
    };
    let entry = found.ok_or_else(|| HttpRefusal::not_found(&query.name))?;
    Ok(Json(with_name(&query.name, &entry)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SelectQuery {
    #[serde(default)]
    prefix: String,
    node: Option<String>,
    /// `field=value`, several of them with commas between; the values are texts.
    meta: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
    registry: Option<String>,
}

impl SelectQuery {
    /// The page that is asked for, and where the next one begins.
    fn page(&self, admin: &AdminShared) -> Result<Page, HttpRefusal> {
        let mut select = filter(&self.prefix, self.node.as_deref(), self.meta.as_deref())?;
        select = select.limit(self.limit.unwrap_or(PAGE).min(PAGE));
        if let Some(after) = &self.after {
            select = select.after(&**after);
        }
        Ok(admin.registries.get(self.registry.as_deref())?.select(&select)?)
    }
}

/// Names that begin so, of this node, with these fields.
pub(super) fn filter(prefix: &str, node: Option<&str>, meta: Option<&str>) -> Result<Select, HttpRefusal> {
    let mut select = Select::prefix(prefix);
    if let Some(node) = node {
        select = select.node(node);
    }
    for pair in meta.into_iter().flat_map(|pairs| pairs.split(',')) {
        let (field, value) = pair.split_once('=').ok_or_else(|| {
            HttpRefusal::usage("bad_meta", format!("{pair:?} is not of the form field=value"))
        })?;
        let equal = select.meta_eq(field, value);
        select = equal.map_err(|error| HttpRefusal::usage("bad_meta", in_full(&error).to_string()))?;
    }
    Ok(select)
}

pub(super) async fn names(State(admin): State<AdminShared>, Query(query): Query<SelectQuery>) -> HttpAnswer {
    let Page { names, next, .. } = query.page(&admin)?;
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    Ok(Json(json!({"names": names, "next": next})))
}

pub(super) async fn entries(
    State(admin): State<AdminShared>,
    Query(query): Query<SelectQuery>,
) -> HttpAnswer {
    let Page { names, next, .. } = query.page(&admin)?;
    let entries: Vec<_> = names.iter().map(|(name, entry)| with_name(name, entry)).collect();
    Ok(Json(json!({"entries": entries, "next": next})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountQuery {
    node: Option<String>,
    registry: Option<String>,
}

pub(super) async fn count(State(admin): State<AdminShared>, Query(query): Query<CountQuery>) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    let Some(node) = query.node else { return Ok(Json(json!({"count": registry.count()?}))) };
    let mut count = 0;
    for name in registry.names()? {
        count += u64::from(registry.lookup(&name)?.is_some_and(|entry| entry.node().as_str() == node));
    }
    Ok(Json(json!({"count": count})))
}
