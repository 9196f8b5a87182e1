//! What a node has counted, in Prometheus' text format.

use std::time::Duration;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::output::LossyLines;

/// How often what was sampled is put into buckets, so that it takes no more memory while nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// From a link's round trip to the longest lease that is sensible.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A batch has at most 90 000 bytes, and an operation some 50 of them.
const BYTES: [f64; 7] = [128.0, 512.0, 2048.0, 8192.0, 16_384.0, 32_768.0, 65_536.0];
const OPERATIONS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0];

/// How many lines were lost of what the process says.
const LOST: &str = "callsign_log_lines_lost_total";

/// What was counted so far.
#[derive(Clone)]
pub(crate) struct Counted {
    handle: PrometheusHandle,
    /// Counts what of it is lost, for reasons of its own.
    log: Option<LossyLines>,
}

impl Counted {
    /// By a recorder that counts no lines.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn by(handle: PrometheusHandle) -> Self {
        Self { handle, log: None }
    }

    /// In Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        if let Some(log) = &self.log {
            metrics::counter!(LOST).absolute(log.lost());
        }
        self.handle.render()
    }
}

/// Counts from now on, in this whole process. Needs a tokio runtime.
pub(crate) fn install(log: LossyLines) -> Result<Counted> {
    let suffix = |suffix: &str| Matcher::Suffix(suffix.to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(suffix("_seconds"), &SECONDS)?
        .set_buckets_for_metric(suffix("_bytes"), &BYTES)?
        .set_buckets_for_metric(suffix("_operations"), &OPERATIONS)?
        .install_recorder()
        .context("metrics cannot be counted")?;
    callsign::metrics::describe();
    metrics::describe_counter!(
        LOST,
        "lines of the log that nobody read fast enough, or that could not be written"
    );
    let kept = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            kept.run_upkeep();
        }
    });
    Ok(Counted { handle, log: Some(log) })
}
