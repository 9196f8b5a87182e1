//! `callsign-sim cost`: what a change costs a member, by how many are under way.

use std::time::Duration;

use anyhow::ensure;
use callsign_sim::{cost, longest};

/// Measures what a change costs a member, with 1000, 10 000 and 100 000 of them under way; and how long the longest step of a member is
/// that goes over many names.
#[derive(clap::Args, Debug)]
pub(crate) struct Cost {
    /// How many names are registered and given up in all.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    names: u32,
    /// How often each is measured: the least counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Fail if a change costs more than so many times what it costs with 1000 under way.
    #[arg(long)]
    at_most: Option<f64>,
    /// Fail if a step takes longer than so many milliseconds.
    #[arg(long, value_name = "MS")]
    longest: Option<f64>,
}

impl Cost {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if cfg!(debug_assertions) {
            tell!("this is not a release build, its figures say nothing");
        }
        say!("| under way | register | unregister | actor's end |\n|---|---|---|---|");
        let mut first: Option<[Duration; 3]> = None;
        let mut worst: f64 = 0.0;
        for in_flight in [1000, 10_000, 100_000] {
            let mut least = [Duration::MAX; 3];
            for _ in 0..self.rounds {
                let cost = cost::measure(self.names, in_flight);
                for (least, one) in least.iter_mut().zip([cost.register, cost.unregister, cost.end]) {
                    *least = one.min(*least);
                }
            }
            let first = *first.get_or_insert(least);
            let cells: Vec<String> = least
                .iter()
                .zip(first)
                .map(|(one, first)| {
                    let ratio = one.as_secs_f64() / first.as_secs_f64();
                    worst = worst.max(ratio);
                    format!(
                        "{:.0} /s ({:.2} us, {ratio:.2} x)",
                        1.0 / one.as_secs_f64(),
                        one.as_secs_f64() * 1e6
                    )
                })
                .collect();
            say!("| {in_flight} | {} |", cells.join(" | "));
        }
        say!(
            "\n| names | a batch of 1000 | such batches are read from the log | a snapshot is sent | it is installed | a session with all names is gone | the session lapses that all names are of | it is lost | an actor with all names ends | as many calls wait, or 90 000 |"
        );
        say!("|---|---|---|---|---|---|---|---|---|---|");
        let mut slowest = Duration::ZERO;
        for names in [10_000, 100_000, 1_000_000] {
            let longest = longest::measure(names, self.rounds.min(3));
            let steps = [
                longest.batch,
                longest.read,
                longest.sent,
                longest.installed,
                longest.gone,
                longest.lapsed,
                longest.lost,
                longest.ended,
                longest.waited,
            ];
            slowest = steps.into_iter().fold(slowest, Duration::max);
            let cells = steps.map(|step| format!("{:.2} ms", step.as_secs_f64() * 1e3));
            say!("| {names} | {} |", cells.join(" | "));
        }
        self.verdict(worst, slowest)
    }

    /// An error, if a change costs too much beside what it costs with 1000 under way, or if a step takes too long.
    fn verdict(&self, worst: f64, slowest: Duration) -> anyhow::Result<()> {
        let limit = self.at_most.unwrap_or(f64::INFINITY);
        ensure!(worst <= limit, "a change costs {worst:.2} times what it costs with 1000 under way");
        let (slowest, limit) = (slowest.as_secs_f64() * 1e3, self.longest.unwrap_or(f64::INFINITY));
        ensure!(slowest <= limit, "a step takes {slowest:.2} ms; {limit:.2} ms is the most");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_or_takes_more_than_the_limits_say_fails() {
        let cost = |at_most, longest| Cost { names: 1, rounds: 1, at_most, longest };
        let said = |cost: Cost, worst, millis| {
            cost.verdict(worst, Duration::from_millis(millis)).map_err(|error| error.to_string())
        };
        assert_eq!(said(cost(None, None), 9.0, 900), Ok(()), "there is no limit by default");
        assert_eq!(said(cost(Some(1.5), Some(20.0)), 1.5, 20), Ok(()));
        let dear = "a change costs 1.60 times what it costs with 1000 under way".to_owned();
        assert_eq!(said(cost(Some(1.5), None), 1.6, 0), Err(dear));
        let slow = "a step takes 21.00 ms; 20.00 ms is the most".to_owned();
        assert_eq!(said(cost(None, Some(20.0)), 9.0, 21), Err(slow));
    }
}
