//! `callsign explain`: who holds a name, and where each member of the registry is. It asks one node, and then all members that this one knows.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::{ask, lag};
use crate::output::{Work, answer, printable};

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
    let mut query = vec![("name", args.name.as_str()), ("consistent", "true"), ("wait_ms", &wait)];
    query.extend(&registry);
    let found = client.get("/whereis", &query)?;
    if !found.is_ok() && found.code() != "not_found" {
        return Ok(Err(found));
    }
    let status = client.get("/status", &registry)?;
    if !status.is_ok() {
        return Ok(Err(status));
    }
    let (exit_status, holder) = if found.is_ok() { (0, found.body) } else { (1, Value::Null) };
    let members = lag::members(&args.to, &status.body);
    let said = json!({
        "name": args.name, "holder": holder, "leader": status.body["leader"]["node"],
        "epoch": status.body["epoch"], "members": members,
    });
    Ok(Ok((said, exit_status)))
}

fn in_words(said: &Value) -> String {
    let text = |value: &Value| printable(value.as_str().unwrap_or("?"));
    let name = printable(said["name"].as_str().unwrap_or_default());
    let holder = &said["holder"];
    let node = text(&holder["node"]);
    let held = if holder.is_null() {
        format!("nobody holds {name}")
    } else if holder["actor"].is_null() {
        format!("an actor is being started for {name} on {node}, since position {}", holder["token"])
    } else {
        let (token, revision) = (&holder["token"], &holder["revision"]);
        let changed = if token == revision { String::new() } else { format!(", and changed at {revision}") };
        format!("{name} is held on {node}: registered at position {token}, which is its token{changed}")
    };
    let meta = match &holder["meta"] {
        Value::Null => String::new(),
        meta => format!("metadata: {}\n", printable(&meta.to_string())),
    };
    let leader = said["leader"]
        .as_str()
        .map_or("nobody leads".to_owned(), |node| format!("{} leads", printable(node)));
    format!("{held}\n{meta}{leader}, epoch {}\n\n{}", said["epoch"], lag::as_table(&said["members"]))
}
