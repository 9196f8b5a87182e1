//! `callsign top`: the members of a registry, who leads, and what goes on, again and again.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{ask, lag};
use crate::{
    client::Answer,
    duration,
    output::{Work, line, printable, tell},
};

/// Puts the cursor in the corner, and empties the terminal.
const EMPTY: &str = "\u{1b}[H\u{1b}[2J";

/// Arguments of `callsign top`.
#[derive(clap::Args)]
#[group(skip)] // the other arguments are a group of this name
pub(crate) struct Args {
    /// How long to wait between two looks.
    #[arg(long, default_value = "1s", value_parser = duration::parse)]
    every: Duration,
    /// How often to look. Default: until you end it.
    #[arg(long, value_name = "LOOKS", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
    #[command(flatten)]
    to: ask::Args,
}

/// What a look saw, and when.
struct Seen {
    at: Instant,
    status: Value,
}

/// Looks, until nobody reads it any more. A node that does not answer is asked again; with `--store`, any other member is, too.
pub(crate) fn run(args: &Args) -> ExitCode {
    let is_alone = io::stdout().is_terminal() && !args.to.is_json();
    let mut before = None;
    let mut looks = 0;
    loop {
        let looked = look(args, before.as_ref());
        looks += 1;
        let is_last = args.times == Some(looks);
        let failed = match looked {
            Ok(Ok((seen, text))) => {
                before = Some(seen);
                let text = if is_alone { format!("{EMPTY}{text}") } else { text };
                if !line(&text) {
                    return ExitCode::SUCCESS;
                }
                None
            }
            Ok(Err(refused)) => Some(Ok(refused)),
            Err(error) => Some(Err(error)),
        };
        if let Some(failed) = failed {
            // The first look may be of what is not there at all. Later, it may come back.
            if is_last || looks == 1 {
                return args.to.print(failed, Work::Asks, |_| String::new());
            }
            if let Err(error) = failed.and_then(Answer::ok) {
                tell(format_args!("callsign: {}", printable(&format!("{error:#}"))));
            }
        }
        if is_last {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(args.every);
    }
}

/// What is seen now, as it is shown; or what the node answered in its place.
fn look(args: &Args, before: Option<&Seen>) -> Result<Result<(Seen, String), Answer>> {
    let answer = args.to.client()?.get("/status", &args.to.registry_query())?;
    if !answer.is_ok() {
        return Ok(Err(answer));
    }
    let (at, mut status) = (Instant::now(), answer.body);
    status["members"] = lag::members(&args.to, &status).into();
    let seen = Seen { at, status };
    let text = if args.to.is_json() { as_json(&seen, before) } else { as_text(&seen, before) };
    Ok(Ok((seen, text)))
}

/// By how much a number has grown in a second, since the look before. None: there was none, or it was of another node.
fn rate(seen: &Seen, before: Option<&Seen>, number: &str) -> Option<f64> {
    let before = before.filter(|before| before.status["node"] == seen.status["node"])?;
    let (now, then) = (seen.status[number].as_f64()?, before.status[number].as_f64()?);
    Some((now - then) / (seen.at - before.at).as_secs_f64())
}

fn as_json(seen: &Seen, before: Option<&Seen>) -> String {
    let status = &seen.status;
    json!({
        "node": status["node"], "registry": status["registry"], "leader": status["leader"], "epoch": status["epoch"],
        "position": status["position"], "positions_per_s": rate(seen, before, "position"), "names": status["names"],
        "names_per_s": rate(seen, before, "names"), "members": status["members"],
    })
    .to_string()
}

fn as_text(seen: &Seen, before: Option<&Seen>) -> String {
    let status = &seen.status;
    let text = |value: &Value| printable(value.as_str().unwrap_or("?"));
    let leader = match status["leader"]["node"].as_str() {
        None => "nobody leads".to_owned(),
        Some(node) if status["leader"]["serving"] == true => format!("{} leads", printable(node)),
        Some(node) => format!("{} is to lead, and does not serve yet", printable(node)),
    };
    let number = |name: &str| {
        let value = status[name].as_u64().map_or_else(|| "?".to_owned(), |number| number.to_string());
        rate(seen, before, name)
            .map_or_else(|| value.clone(), |rate| format!("{value} ({rate:+.0} a second)"))
    };
    format!(
        "registry {}, as {} sees it: {leader}, epoch {}\nnames: {}\nposition of the log: {}\n\n{}",
        text(&status["registry"]),
        text(&status["node"]),
        status["epoch"],
        number("names"),
        number("position"),
        lag::as_table(&status["members"])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: Instant, node: &str, names: impl Into<Option<u64>>, serving: bool) -> Seen {
        let leader = json!({"node": "b", "serving": serving});
        let status = json!({
            "node": node, "registry": "default", "leader": leader, "epoch": 3, "position": 9, "names": names.into(), "members": [],
        });
        Seen { at, status }
    }

    #[test]
    fn rates_are_those_since_the_last_look_at_the_same_node() {
        let begun = Instant::now();
        let first = seen(begun, "a", 10, true);
        let text = as_text(&first, None);
        assert!(text.starts_with(
            "registry default, as a sees it: b leads, epoch 3\nnames: 10\nposition of the log: 9\n\n"
        ));
        let next = seen(begun + Duration::from_secs(2), "a", 4, false);
        let text = as_text(&next, Some(&first));
        assert!(
            text.contains("b is to lead, and does not serve yet, epoch 3\nnames: 4 (-3 a second)\n"),
            "{text}"
        );
        assert!(text.contains("log: 9 (+0 a second)\n"), "{text}");
        let said: Value = serde_json::from_str(&as_json(&next, Some(&first))).unwrap();
        assert_eq!((&said["names_per_s"], &said["positions_per_s"]), (&json!(-3.0), &json!(0.0)));
        // Another node was asked, or the node does not know.
        for other in [seen(begun, "c", 1, true), seen(begun, "a", None, true)] {
            assert_eq!(rate(&next, Some(&other), "names"), None);
        }
        let mut vacant = seen(begun, "a", None, true);
        vacant.status["leader"] = Value::Null;
        assert!(as_text(&vacant, None).contains("sees it: nobody leads, epoch 3\nnames: ?\n"));
    }
}
