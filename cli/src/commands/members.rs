//! The members of a registry as rows of a table: the facts that every such table has, in one order.

use serde_json::Value;

use crate::output::{printable, table};

/// The facts about a member that a node knows: the column, and the field of the member.
const FACTS: [(&str, &str); 5] = [
    ("LEADS", "leads"),
    ("SYNCED", "synced"),
    ("SESSION OPEN", "session_open"),
    ("LINKED", "linked"),
    ("DRAINS", "draining"),
];

/// A table of members: their names, some cells, the facts that a node knows of each, some more cells.
pub(super) fn tabulate<const N: usize, const M: usize>(
    members: &[Value],
    (before, cells_before): ([&str; N], impl Fn(&Value) -> [String; N]),
    (behind, cells_behind): ([&str; M], impl Fn(&Value) -> [String; M]),
) -> String {
    let heads: Vec<_> =
        ["NODE"].into_iter().chain(before).chain(FACTS.map(|(head, _)| head)).chain(behind).collect();
    let row = |member: &Value| {
        let mut cells = vec![text(member, "node")];
        cells.extend(cells_before(member));
        cells.extend(FACTS.map(|(_, field)| {
            let why = if field == "draining" { why_draining(member) } else { None };
            why.map_or_else(|| yes_no(&member[field]), |why| format!("yes ({why})"))
        }));
        cells.extend(cells_behind(member));
        cells
    };
    table(&heads, &members.iter().map(row).collect::<Vec<_>>())
}

/// Where each member listens and is administered, and the facts.
pub(super) fn with_addresses(members: &[Value]) -> String {
    let addresses =
        |member: &Value| [text(member, "address"), printable(member["admin"].as_str().unwrap_or_default())];
    tabulate(members, (["ADDRESS", "ADMIN"], addresses), ([], |_| []))
}

/// Why a member drains, if that is known.
fn why_draining(member: &Value) -> Option<&'static str> {
    match member["why_draining"].as_str()? {
        "asked_to_drain" => Some("asked to drain"),
        "asked_to_leave" => Some("asked to leave"),
        "failed" => Some("it has failed"),
        _ => None,
    }
}

fn text(member: &Value, field: &str) -> String {
    printable(member[field].as_str().unwrap_or("?"))
}

pub(super) fn yes_no(value: &Value) -> String {
    if value == true { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_say_which_of_them_drains_and_why_if_that_is_known() {
        let member = |node, draining, why| {
            json!({"node": node, "address": "127.0.0.1:1", "leads": false, "synced": true, "session_open": true,
                   "linked": true, "draining": draining, "why_draining": why})
        };
        let drained = member("c", true, json!("asked_to_drain"));
        let rows = [member("a", false, Value::Null), member("b", true, Value::Null), drained];
        let printed = with_addresses(&rows);
        let column = printed.lines().next().unwrap().find("DRAINS").unwrap();
        let cells: Vec<_> = printed.lines().map(|line| line[column..].trim_end()).collect();
        assert_eq!(cells, ["DRAINS", "no", "yes", "yes (asked to drain)"]);
    }

    #[test]
    fn each_reason_to_drain_is_said_in_words() {
        for (why, said) in [
            ("asked_to_leave", "yes (asked to leave)"),
            ("failed", "yes (it has failed)"),
            ("a_reason_of_a_later_version", "yes"),
        ] {
            let printed = with_addresses(&[json!({"node": "a", "draining": true, "why_draining": why})]);
            let column = printed.lines().next().unwrap().find("DRAINS").unwrap();
            assert_eq!(printed.lines().nth(1).map(|line| line[column..].trim_end()), Some(said));
        }
    }
}
