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

/// Logs what passes the filter: the one given, else the environment's `RUST_LOG`, else `default`. Panics are told there, too.
pub(crate) fn begin(given: Option<&str>, default: &str, to: &LossyLines, colours: bool) -> Result<(), Usage> {
    let environment = || std::env::var("RUST_LOG").ok();
    let (from, filter) = match given {
        Some(given) => ("--log", given.to_owned()),
        None => ("RUST_LOG", environment().unwrap_or_else(|| default.to_owned())),
    };
    // By target and level only: to filter by spans and fields would bring regular expressions, and nobody asked for it.
    let filter: Targets = filter.parse().map_err(|error| Usage(format!("{from} {filter:?}: {error}")))?;
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(to.clone())
        .with_ansi(colours)
        // They would be printed, and that waits, and panics where nobody listens.
        .log_internal_errors(false)
        .finish()
        .with(filter)
        .try_init()
        .map_err(|_| Usage::because("something logs in this process already"))?;
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
