//! Whether something stayed flat: a rule that needs nobody to look at a curve.
//!
//! The first quarter of a run is not looked at: caches, pools and held names fill up. The rest has three thirds. The median of the
//! last third may be so much more than that of the first one, by a factor and something beside it. A median does not see a
//! single spike, nor the teeth of a saw.

use std::time::Duration;

use serde::Serialize;

/// How much more there may be.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// As a factor.
    pub factor: f64,
    /// And beside that, in the unit of what is looked at.
    pub beside: f64,
    /// How many values each of the two thirds has to have.
    pub least: usize,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It stayed flat.
    Flat,
    /// There is much more at the end.
    Grew,
    /// There were too few values to tell.
    TooFew,
}

/// What something came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The median of the first third.
    pub first: Option<f64>,
    /// The median of the last one.
    pub last: Option<f64>,
    /// The most that the last one may be.
    pub allowed: Option<f64>,
    /// What that means.
    pub finding: Finding,
}

impl Rule {
    /// Judges values, each with the time from the begin of a run that lasted so long.
    pub fn judge(&self, values: &[(Duration, f64)], run: Duration) -> Judged {
        let warm = run / 4;
        let third = run.saturating_sub(warm) / 3;
        let median = |is_in: &dyn Fn(Duration) -> bool| {
            let its: Vec<f64> = values.iter().filter(|(at, _)| is_in(*at)).map(|(_, value)| *value).collect();
            if its.len() < self.least { None } else { median(its) }
        };
        let first = median(&|at| at >= warm && at < warm + third);
        let last = median(&|at| at >= run.saturating_sub(third));
        let allowed = first.map(|first| first * self.factor + self.beside);
        let finding = match (last, allowed) {
            (Some(last), Some(allowed)) if last > allowed => Finding::Grew,
            (Some(_), Some(_)) => Finding::Flat,
            _ => Finding::TooFew,
        };
        Judged { first, last, allowed, finding }
    }
}

/// The value in the middle; of two, the lower one.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// The value that so many of a million are not above. `sorted` is in order.
pub fn quantile(sorted: &[u32], of_million: usize) -> Option<u32> {
    let rank = (sorted.len() * of_million).div_ceil(1_000_000);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests;
