//! Where each member of a registry is in the log: what one node knows of the members, and what each of them says itself.

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use super::{ask, members::tabulate};
use crate::output::printable;

/// The members of a node's status, each with `position` and how many positions it is `behind` the furthest; or with the reason why it
/// was `not_asked`.
pub(super) fn members(to: &ask::Args, status: &Value) -> Vec<Value> {
    let mut members: Vec<Value> = status["members"].as_array().cloned().unwrap_or_default();
    for member in &mut members {
        let said = if member["node"] == status["node"] { Ok(status.clone()) } else { said_by(to, member) };
        match said {
            Ok(said) => {
                member["position"] = said["position"].clone();
                let own = said["members"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|row| row["node"] == member["node"]);
                if let Some(why) = own.and_then(|row| row.get("why_draining")) {
                    member["why_draining"] = why.clone();
                }
            }
            Err(why) => member["not_asked"] = format!("{why:#}").into(),
        }
    }
    let end = members.iter().filter_map(|member| member["position"].as_u64()).max();
    for member in &mut members {
        if let (Some(end), Some(position)) = (end, member["position"].as_u64()) {
            member["behind"] = (end - position).into();
        }
    }
    members
}

/// What a member says of itself.
fn said_by(to: &ask::Args, member: &Value) -> Result<Value> {
    let admin = member["admin"].as_str().context("it does not say where it is administered")?;
    let client = to.client_of(&admin.parse().map_err(|why| anyhow!("{admin}: {why}"))?)?;
    let status = client.get("/status", &to.registry_query())?.ok()?;
    ensure!(status["node"] == member["node"], "{admin} is another node here");
    Ok(status)
}

/// A line for each member.
pub(super) fn as_table(members: &Value) -> String {
    let number = |value: &Value| value.as_u64().map_or_else(|| "?".to_owned(), |number| number.to_string());
    let place = |member: &Value| {
        let why = printable(member["not_asked"].as_str().unwrap_or_default());
        [number(&member["position"]), number(&member["behind"]), why]
    };
    let members = members.as_array().map_or(&[][..], Vec::as_slice);
    tabulate(members, ([], |_| []), (["POSITION", "BEHIND", "NOT ASKED"], place))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_that_was_not_asked_has_a_reason_and_no_position() {
        let members = json!([
            {"node": "a", "leads": true, "synced": true, "session_open": true, "linked": true, "draining": false,
             "position": 7, "behind": 2},
            {"node": "b", "leads": false, "synced": false, "session_open": false, "linked": false, "draining": true,
             "not_asked": "no answer"},
        ]);
        let text = as_table(&members);
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["a", "yes", "yes", "yes", "yes", "no", "7", "2"], "{text}");
        assert_eq!(lines[2], ["b", "no", "no", "no", "no", "yes", "?", "?", "no", "answer"], "{text}");
    }
}
