//! Choices from a seed.

use std::time::Duration;

use callsign_store::random::SplitMix64;

/// The choices of a seed, of which two that are neighbours have nothing in common.
#[derive(Clone, Debug)]
pub struct Rng(SplitMix64);

impl Rng {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03))
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half times the range: no division, and no bias worth mentioning for the small ranges here.
        ((self.draw() >> 32) * end) >> 32
    }

    /// An index below `end`; 0 if there is none.
    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or(0)
    }

    /// True so many times in a thousand.
    pub fn per_mille(&mut self, of_thousand: u64) -> bool {
        of_thousand > 0 && self.below(1000) < of_thousand
    }

    /// A duration below `end`.
    pub fn duration(&mut self, end: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(end.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The index of a weight, drawn by weight. The sum must not be 0.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        weights.len() - 1
    }
}
