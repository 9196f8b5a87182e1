//! What a process that goes on logs, and what becomes of its panics: lines that nobody waits for.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt::Write,
};

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
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
    let mut targets: Targets =
        filter.parse().map_err(|error| Usage(format!("{from} {filter:?}: {error}")))?;
    if !filter.contains(SPANS_OF_ACTORS) {
        let level = targets.default_level().unwrap_or(LevelFilter::OFF);
        targets = targets.with_target(SPANS_OF_ACTORS, level.min(LevelFilter::WARN));
    }
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
