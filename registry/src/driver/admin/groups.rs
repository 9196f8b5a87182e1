//! Groups, semaphores and locks with their sizes, page by page.

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::json;

use super::{HttpAnswer, HttpRefusal, Query, shared::AdminShared};
use crate::GroupSize;

/// How many one answer has at most.
const PAGE: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupsQuery {
    #[serde(default)]
    prefix: String,
    after: Option<String>,
    limit: Option<usize>,
    registry: Option<String>,
}

/// What to say as `after` for what comes behind a group: a semaphore may have the name of a group.
fn mark(group: &GroupSize) -> String {
    format!("{}{}", if group.limit.is_some() { 's' } else { 'g' }, group.name)
}

/// The group that a mark is of, and whether it is a semaphore.
fn marked(mark: &str) -> Result<(&str, bool), HttpRefusal> {
    let of_group = mark.strip_prefix('g').map(|name| (name, false));
    let of_either = of_group.or_else(|| mark.strip_prefix('s').map(|name| (name, true)));
    of_either.ok_or_else(|| HttpRefusal::usage("bad_after", format!("{mark:?} is not what `next` said")))
}

pub(super) async fn groups(State(admin): State<AdminShared>, Query(query): Query<GroupsQuery>) -> HttpAnswer {
    let registry = admin.registries.get(query.registry.as_deref())?;
    let after = query.after.as_deref().map(marked).transpose()?;
    let limit = query.limit.unwrap_or(PAGE).min(PAGE);
    // One more says whether there is a next page.
    let mut groups = registry.groups_after(&query.prefix, after, limit + 1)?;
    let has_more = groups.len() > limit;
    groups.truncate(limit);
    let next = groups.last().filter(|_| has_more).map(mark);
    let one = |group: &GroupSize| json!({"name": group.name, "limit": group.limit, "members": group.members});
    Ok(Json(json!({"groups": groups.iter().map(one).collect::<Vec<_>>(), "next": next})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_on_behind_what_it_said() {
        for (limit, is_semaphore) in [(None, false), (Some(2), true)] {
            let group = GroupSize { name: "sgs".into(), limit, members: 1 };
            assert_eq!(marked(&mark(&group)).unwrap(), ("sgs", is_semaphore));
        }
        for bad in ["", "x"] {
            assert_eq!(marked(bad).unwrap_err().code, "bad_after");
        }
    }
}
