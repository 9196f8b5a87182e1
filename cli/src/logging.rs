//! What a process that goes on logs, and what becomes of its panics: lines that nobody waits for.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt::Write,
};

use tracing_subscriber::{
    filter::{LevelFilter, ParseError, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{output::LossyLines, usage::Usage};

/// What is logged, and how.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LogArgs {
    /// What to log to standard error, such as `info` or `callsign=debug`. Default: the environment's `RUST_LOG`; without that, `info` of a
    /// node, and `warn` of whatever runs a program.
    #[arg(long)]
    log: Option<String>,
    /// How a line of the log looks: for people, or an object of JSON.
    #[arg(long, value_enum, default_value_t)]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

/// The library of actors opens a span for each message of an actor: it would stand in every line.
const SPANS_OF_ACTORS: &str = "ractor";

/// Logs what passes the filter: the one given, else the environment's `RUST_LOG`, else `default`. Panics are told there, too.
pub(crate) fn begin(args: &LogArgs, default: &str, to: &LossyLines, colours: bool) -> Result<(), Usage> {
    let environment = || std::env::var("RUST_LOG").ok();
    let (from, filter) = match &args.log {
        Some(given) => ("--log", given.clone()),
        None => ("RUST_LOG", environment().unwrap_or_else(|| default.to_owned())),
    };
    // By target and level only: to filter by spans and fields would bring regular expressions, and nobody asked for it.
    let targets = targets(&filter).map_err(|error| Usage(format!("{from} {filter:?}: {error}")))?;
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(to.clone())
        .with_ansi(colours)
        .with_target(false)
        // They would be printed, and that waits, and panics where nobody listens.
        .log_internal_errors(false);
    let begun = match args.log_format {
        Format::Text => lines.finish().with(targets).try_init(),
        Format::Json => lines.json().flatten_event(true).with_target(true).finish().with(targets).try_init(),
    };
    begun.map_err(|_| Usage::because("something logs in this process already"))?;
    tell_panics(to.clone());
    Ok(())
}

/// What passes a filter. The spans of actors do only if it names them.
fn targets(filter: &str) -> Result<Targets, ParseError> {
    let targets: Targets = filter.parse()?;
    if filter.contains(SPANS_OF_ACTORS) {
        return Ok(targets);
    }
    let level = targets.default_level().unwrap_or(LevelFilter::OFF);
    Ok(targets.with_target(SPANS_OF_ACTORS, level.min(LevelFilter::WARN)))
}

/// The usual hook writes to standard error itself, and waits for whoever reads that.
fn tell_panics(to: LossyLines) {
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let mut text = format!("callsign: thread {:?}: {panic}\n", thread.name().unwrap_or("without a name"));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{trace}");
        }
        to.say(&text);
    }));
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use tracing::Level;

    use super::*;

    #[test]
    fn spans_of_actors_are_logged_only_where_they_are_asked_for_and_nothing_is_where_nothing_is() {
        let logs =
            |filter: &str, target: &str, level: Level| targets(filter).unwrap().would_enable(target, &level);
        assert!(logs("info", "callsign", Level::INFO) && !logs("info", "ractor", Level::INFO));
        assert!(logs("info", "ractor", Level::WARN) && logs("info,ractor=info", "ractor", Level::INFO));
        assert!(!logs("off", "ractor", Level::ERROR) && !logs("error", "ractor", Level::WARN));
        assert!(
            !logs("callsign=debug", "ractor", Level::ERROR)
                && logs("callsign=debug", "callsign", Level::DEBUG)
        );
        assert!(targets("x=loud").is_err());
    }

    #[test]
    fn a_panic_is_told_where_all_else_is_logged_and_logging_begins_once() {
        let mut file = tempfile::tempfile().unwrap();
        let (lines, writing) = LossyLines::to(&file).unwrap();
        let usual = std::panic::take_hook();
        let args = LogArgs { log: Some("off".to_owned()), ..LogArgs::default() };
        let begun = begin(&args, "info", &lines, false);
        let again = begin(&args, "info", &lines, false);
        let breaks = || assert!(std::hint::black_box(false), "it broke");
        let ended = std::thread::Builder::new().name("worker".to_owned()).spawn(breaks).unwrap().join();
        std::panic::set_hook(usual);
        drop(writing);
        assert!(begun.is_ok() && ended.is_err());
        let refused = again.unwrap_err().to_string();
        assert_eq!(refused, "something logs in this process already");
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("callsign: thread \"worker\": panicked at "), "{text}");
        assert!(text.contains("it broke\n"), "{text}");
        let is_traced = Backtrace::capture().status() == BacktraceStatus::Captured;
        assert_eq!(text.lines().count() > 2, is_traced, "{text}");
    }
}
