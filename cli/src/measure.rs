//! Clocks and counters of processes, and figures made of them.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// A moment, in nanoseconds, that all processes of the machine agree on.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The time that this process has spent on processors, user and system.
pub(crate) fn cpu() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::ProcessCPUTime))
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let whole = |part: i64| u64::try_from(part).unwrap_or_default();
    whole(time.tv_sec) * 1_000_000_000 + whole(time.tv_nsec)
}

/// The memory of this process, in bytes: what is in RAM, shared pages in proportion.
pub(crate) fn memory() -> Result<u64> {
    let text =
        std::fs::read_to_string("/proc/self/smaps_rollup").context("cannot read the process's memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).context("no Pss in smaps_rollup")?;
    let kilobytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    Ok(kilobytes.context("Pss in smaps_rollup is no number")? * 1024)
}

/// What this process caused to be written to files, in bytes: whole pages, as the kernel counts them. `None`: the kernel does not say.
pub(crate) fn written_bytes() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/self/io").ok()?, "write_bytes")
}

/// How often this process called the kernel to read and to write: `read`, `pwrite`, `writev` and the like, but not `recv`
/// and `send`.
pub(crate) fn system_calls() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    Some(field(&text, "syscr")? + field(&text, "syscw")?)
}

/// How often the threads that this process has now gave up their processors to wait for something.
pub(crate) fn voluntary_switches() -> Option<u64> {
    let mut switches = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        // One that has ended since it was listed has no counters any more.
        let Ok(text) = std::fs::read_to_string(thread.ok()?.path().join("status")) else { continue };
        switches += field(&text, "voluntary_ctxt_switches")?;
    }
    Some(switches)
}

/// The number behind a name in a file of `/proc`.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().parse().ok()
}

/// The value below which the given share of the samples is. Sorts them.
pub(crate) fn quantile(samples: &mut [f64], share: f64) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    quantile_of_sorted(samples, share)
}

/// The same, of samples that are sorted.
pub(crate) fn quantile_of_sorted(samples: &[f64], share: f64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = (samples.len().saturating_sub(1) as f64 * share).round() as usize;
    samples.get(index).copied()
}

/// One decimal is enough.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Nanoseconds, as microseconds.
#[expect(clippy::cast_precision_loss)] // of a sample, not of a date
pub(crate) fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// As microseconds, with one decimal.
pub(crate) fn as_us(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e6)
}

/// As milliseconds, with one decimal.
pub(crate) fn as_ms(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_samples() {
        let mut samples = [5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(quantile(&mut samples, 0.5), Some(3.0));
        assert_eq!(quantile(&mut samples, 0.99), Some(5.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    #[test]
    fn figures_have_one_decimal() {
        let took = Duration::from_nanos(1_234_567);
        assert_eq!(Some(as_us(took)), Some(1234.6));
        assert_eq!(Some(as_ms(took)), Some(1.2));
        assert_eq!(Some(rounded(-0.26)), Some(-0.3));
        assert_eq!(Some(micros(2_345)), Some(2.345), "of a sample all counts");
    }

    #[test]
    fn this_process_has_used_processors_and_memory() {
        assert!(cpu() > Duration::ZERO);
        assert!(memory().unwrap() > 0);
    }

    #[test]
    fn a_field_of_proc_is_found_by_its_whole_name() {
        let text = "rchar: 7\nsyscr: 12\nnonvoluntary_ctxt_switches:\t3\nvoluntary_ctxt_switches:\t45\n";
        assert_eq!(field(text, "syscr"), Some(12));
        assert_eq!(field(text, "voluntary_ctxt_switches"), Some(45));
        assert_eq!((field(text, "sys"), field(text, "write_bytes")), (None, None));
    }
}
