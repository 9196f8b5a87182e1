//! `callsign explain`: who holds a name, or why nobody does, and where each member of the registry is. It asks one node, and then all members
//! that this one knows.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::{ask, lag};
use crate::output::{Work, answer, printable, table};

/// Arguments of `callsign explain`.
#[derive(clap::Args)]
#[group(skip)] // the other arguments are a group of this name
pub(crate) struct Args {
    /// The name.
    name: String,
    #[command(flatten)]
    to: ask::Args,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    match explained(args) {
        Ok(Ok((said, status))) => {
            let text = if args.to.is_json() { format!("{said}\n") } else { in_words(&said) };
            answer(&text, Work::Asks, status)
        }
        Ok(Err(refused)) => args.to.print(Ok(refused), Work::Asks, |_| String::new()),
        Err(error) => args.to.print(Err(error), Work::Asks, |_| String::new()),
    }
}

/// What there is to say, and the exit status; or what the node answered in its place.
fn explained(args: &Args) -> Result<Result<(Value, u8), crate::client::Answer>> {
    let client = args.to.client()?;
    let wait = args.to.wait_ms().to_string();
    let registry = args.to.registry_query();
    let name = ("name", args.name.as_str());
    // First: behind that the node knows all that was so when it was asked.
    let mut query = vec![name, ("consistent", "true"), ("wait_ms", &wait)];
    query.extend(&registry);
    let found = client.get("/whereis", &query)?;
    if !found.is_ok() && found.code() != "not_found" {
        return Ok(Err(found));
    }
    let mut query = vec![name];
    query.extend(&registry);
    let explained = client.get("/explain", &query)?;
    if !explained.is_ok() {
        return Ok(Err(explained));
    }
    let mut said = explained.body;
    if said["state"] == "unknown" && found.is_ok() {
        said["holder"] = found.body;
    }
    let exit_status = u8::from(said["holder"].is_null());
    said["members"] = lag::members(&args.to, &said).into();
    said["leader"] = said["leader"]["node"].take();
    Ok(Ok((said, exit_status)))
}

fn in_words(said: &Value) -> String {
    let text = |value: &Value| printable(value.as_str().unwrap_or("?"));
    let mut lines = vec![text(&said["said"])];
    if !said["holder"]["meta"].is_null() {
        lines.push(format!("metadata: {}", printable(&said["holder"]["meta"].to_string())));
    }
    lines.extend(said["session"]["said"].as_str().map(printable));
    let leader = said["leader"]
        .as_str()
        .map_or("nobody leads".to_owned(), |node| format!("{} leads", printable(node)));
    lines.push(format!("{leader}, epoch {}\n\n{}", said["epoch"], lag::as_table(&said["members"])));
    let changes = said["changes"].as_array().map_or(&[][..], Vec::as_slice);
    if !changes.is_empty() {
        let from = &said["remembers_from"];
        lines.push(format!(
            "{} remembers from position {from} on:\n\n{}",
            text(&said["node"]),
            past(changes)
        ));
    }
    lines.join("\n")
}

/// A line for each change.
fn past(changes: &[Value]) -> String {
    let node = |entry: &Value| entry["node"].as_str().map(printable).unwrap_or_default();
    let row = |change: &Value| {
        let why = change["why"].as_str().unwrap_or("?").replace('_', " ");
        let reason = change["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        let ago = change["ago_ms"].as_u64().map_or_else(|| "?".to_owned(), |ms| format!("{} s", ms / 1000));
        let was = [node(&change["was"]), node(&change["now"])];
        let [was, now] = was;
        vec![change["position"].to_string(), printable(&(why + &reason)), was, now, ago]
    };
    table(&["POSITION", "WHY", "HELD ON", "THEN ON", "AGO"], &changes.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_node_remembers_is_a_line_for_each_change() {
        let said = json!({
            "name": "shop", "said": "nobody holds shop: its actor on b ended at position 9 (2 s ago)", "holder": null,
            "session": null, "leader": null, "epoch": 3, "members": [], "node": "a", "remembers_from": 4,
            "changes": [
                {"position": 7, "why": "transferred", "reason": null, "was": {"node": "a"}, "now": {"node": "b"}, "ago_ms": null},
                {"position": 9, "why": "start_failed", "reason": "no\u{1b}disk", "was": {"node": "b"}, "now": null, "ago_ms": 2100},
            ],
        });
        let text = in_words(&said);
        assert!(text.starts_with(
            "nobody holds shop: its actor on b ended at position 9 (2 s ago)\nnobody leads, epoch 3\n\n"
        ));
        let (_, past) = text.split_once("\na remembers from position 4 on:\n\n").expect(&text);
        let lines: Vec<Vec<_>> = past.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["7", "transferred", "a", "b", "?"], "{text}");
        assert_eq!(lines[2], ["9", "start", "failed:", "no\\u{1b}disk", "b", "2", "s"], "{text}");
    }
}
