//! The command `watch`: prints what changes, as it comes.

use std::{io, process::ExitCode};

use anyhow::Result;
use serde_json::{Value, json};

use super::ask;
use crate::{
    client::Lines,
    output::{Work, line, printable, tell},
    reply::Verdict,
};

/// Arguments of `callsign watch`.
#[derive(clap::Args)]
#[group(skip)] // the other arguments are a group of this name
pub(crate) struct Args {
    /// Only names that begin so.
    #[arg(long, default_value = "")]
    prefix: String,
    /// Goes on behind this position of the log, as the `position` of a former watch said it. Without it the present state comes first.
    #[arg(long, value_name = "POSITION")]
    from: Option<u64>,
    #[command(flatten)]
    to: ask::Args,
}

/// Prints what changes, a line for each event, until nobody reads it any more or the node ends.
pub(crate) fn run(args: &Args) -> ExitCode {
    let from = args.from.map(|from| from.to_string());
    let mut query = vec![("prefix", args.prefix.as_str())];
    query.extend(from.as_deref().map(|from| ("from", from)));
    let (events, node) = match args.to.events("/watch", &query) {
        Ok(events) => events,
        Err(status) => return status,
    };
    let mut passed = args.from;
    let ended = print(events, args.to.is_json(), &mut passed);
    let Err(error) = ended else { return ExitCode::SUCCESS };
    let go_on =
        passed.map_or_else(String::new, |position| format!("; `--from {position}` goes on from here"));
    let why = printable(&format!("{error:#}"));
    tell(format_args!("callsign: the watch at {node} has ended: {why}{go_on}"));
    Verdict::Unknown.exit_status().into()
}

/// Prints events. It ends well if nobody reads them.
fn print(
    events: impl Iterator<Item = io::Result<String>>,
    is_json: bool,
    passed: &mut Option<u64>,
) -> Result<()> {
    let (mut name, mut data, mut id) = (String::new(), String::new(), None);
    for read in events {
        let read = read?;
        if let Some(text) = read.strip_prefix("event: ") {
            text.clone_into(&mut name);
        } else if let Some(text) = read.strip_prefix("data: ") {
            data.push_str(text);
        } else if let Some(text) = read.strip_prefix("id:") {
            id = Some(text.trim().parse().ok());
        } else if read.is_empty() && !name.is_empty() {
            if let Some(id) = id.take() {
                *passed = id;
            }
            let body: Value = serde_json::from_str(&std::mem::take(&mut data))?;
            let text = if is_json { as_json(&name, &body, *passed) } else { as_text(&name, &body) };
            if !line(&text) {
                return Ok(());
            }
            name.clear();
        }
    }
    anyhow::bail!("the node has ended, or does not answer any more")
}

fn as_json(event: &str, body: &Value, passed: Option<u64>) -> String {
    json!({"event": event, "data": body, "passed": passed}).to_string()
}

fn as_text(event: &str, body: &Value) -> String {
    let text = |value: &Value| printable(value.as_str().unwrap_or("?"));
    let name = || text(&body["name"]);
    match event {
        "present" => format!("{} is held on {}, token {}", name(), text(&body["node"]), body["token"]),
        "change" => {
            let now = match &body["now"] {
                Value::Null => "is free".to_owned(),
                now => format!("is held on {}, token {}", text(&now["node"]), now["token"]),
            };
            let why = text(&body["why"]).replace('_', " ");
            format!("{} {now} ({why}, at {})", name(), body["position"])
        }
        "current" => format!("-- this is all, at {}", body["position"]),
        "bookmark" => format!("-- nothing else up to {}", body["position"]),
        "lagged" => "-- some changes were missed: the last state of each name follows".to_owned(),
        "reset" => "-- forget all of the above: the present state follows".to_owned(),
        "lapsed" => "-- the session of the node has lapsed: this may be late".to_owned(),
        "resumed" => "-- the session of the node is trusted again".to_owned(),
        other => format!("-- {}", printable(other)),
    }
}

impl ask::Args {
    /// The events of a route, and where the node answers that tells them; or what the command ends with.
    fn events(&self, path: &str, query: &[(&str, &str)]) -> Result<(Lines, String), ExitCode> {
        let query = [query, &self.registry_query()].concat();
        let asked = self.client().and_then(|client| Ok((client.events(path, &query)?, client)));
        match asked {
            Ok((Ok(events), client)) => Ok((events, client.url().to_owned())),
            Ok((Err(answer), _)) => Err(self.print(Ok(answer), Work::Asks, |_| String::new())),
            Err(error) => Err(self.print(Err(error), Work::Asks, |_| String::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;

    use super::*;

    #[test]
    fn each_event_is_a_line() {
        let held = json!({"node": "a", "token": 7});
        let change =
            |now: Value| json!({"name": "x", "position": 9, "was": null, "now": now, "why": "actor_ended"});
        assert_eq!(as_text("change", &change(held)), "x is held on a, token 7 (actor ended, at 9)");
        assert_eq!(as_text("change", &change(Value::Null)), "x is free (actor ended, at 9)");
        assert_eq!(as_text("current", &json!({"position": 3})), "-- this is all, at 3");
        let text = as_json("lagged", &json!({}), Some(4));
        assert_eq!(text, r#"{"data":{},"event":"lagged","passed":4}"#);
    }

    #[test]
    fn where_to_go_on_from_is_the_last_id() {
        let stream = ": lives\n\nevent: current\ndata: {\"position\":3}\nid: 3\n\nevent: reset\ndata: {}\nid: \n\n\
                      event: current\ndata: {\"position\":5}\nid: 5\n\nevent: lagged\ndata: {}\n\nevent: chan";
        let mut passed = None;
        assert!(print(stream.as_bytes().lines(), true, &mut passed).is_err(), "it broke off");
        assert_eq!(passed, Some(5));
    }

    #[test]
    fn a_sign_of_life_between_two_events_is_none_of_them() {
        let event =
            |position| format!("event: current\ndata: {{\"position\":{position}}}\nid: {position}\n\n");
        let stream = [event(3), ": lives\n\n".to_owned(), event(5)].concat();
        let mut passed = None;
        assert!(print(stream.as_bytes().lines(), true, &mut passed).is_err(), "it broke off");
        assert_eq!(passed, Some(5));
    }
}
