//! The clocks that drivers read. Cores never see them.

use std::{fmt::Debug, sync::Arc, time::Duration};

use crate::core::time::Time;

/// Where a driver reads the time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Clock {
    /// The machine's boot-time clock: it advances through suspend, and nobody sets it.
    Boot,
    /// The clock of the tokio runtime, which tests may pause. Read it inside the runtime only.
    Runtime(tokio::time::Instant),
    /// A clock of a simulation's own: one that drifts, say.
    Own(Arc<dyn OwnClock>),
}

/// A node's clock in a simulation.
pub trait OwnClock: Debug + Send + Sync {
    /// What it shows. Never less than before.
    fn now(&self) -> Time;

    /// How long the runtime's timer has to run until it shows `at`. Whoever waited that long reads the clock again.
    fn until(&self, at: Time) -> Duration;
}

impl Clock {
    /// The boot-time clock, for production.
    pub fn boot() -> Self {
        Self::Boot
    }

    /// The runtime's clock, starting now. For tests under paused time.
    pub fn runtime() -> Self {
        Self::Runtime(tokio::time::Instant::now())
    }

    /// Reads the clock. Costs some tens of nanoseconds, no lock and no I/O.
    pub fn now(&self) -> Time {
        match self {
            Self::Boot => Time(boot_time()),
            Self::Runtime(start) => Time(start.elapsed()),
            Self::Own(clock) => clock.now(),
        }
    }

    /// Waits until the clock shows `at`.
    ///
    /// The runtime's timer stands still while the machine is suspended, so the wait ends late then; whoever
    /// waits reads the clock again and decides by what it shows.
    pub async fn sleep_until(&self, at: Time) {
        let wait = match self {
            Self::Own(clock) => clock.until(at),
            _ => at.since(self.now()),
        };
        tokio::time::sleep(wait).await;
    }
}

#[cfg(target_os = "linux")]
fn boot_time() -> Duration {
    // The plain monotonic clock stands still while the machine is suspended.
    let monotonic = crate::planted!("campaign-monotonic-clock");
    let id = if monotonic { rustix::time::ClockId::Monotonic } else { rustix::time::ClockId::Boottime };
    let now = rustix::time::clock_gettime(id);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// On macOS and the BSDs the monotonic clock is the nearest there is; on macOS it stops in suspend, so that a
/// suspended host is outside P1 there.
#[cfg(not(target_os = "linux"))]
fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{env, process::Command};

    use super::*;

    const SHIFTED: &str = "CALLSIGN_TEST_SHIFTED_CLOCK";

    /// In a namespace whose boot-time clock is a day ahead of the monotonic one, as after a day in suspend.
    #[test]
    fn c11_the_boot_clock_is_the_one_that_advances_through_suspend() {
        if env::var_os(SHIFTED).is_none() {
            let name = "driver::clock::tests::c11_the_boot_clock_is_the_one_that_advances_through_suspend";
            let unshared = Command::new("unshare")
                .args(["--time", "--boottime", "86400"])
                .arg(env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(SHIFTED, "yes")
                .output();
            let output = match unshared {
                Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("unshare:") => output,
                other => return println!("not tried: no time namespace can be made here: {other:?}"),
            };
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
        assert!(seconds > 86_400.0, "{uptime}");
        let off = Duration::from_secs_f64(seconds).abs_diff(Clock::boot().now().0);
        assert!(off < Duration::from_secs(3_600), "the clock is off by {off:?}");
    }
}
