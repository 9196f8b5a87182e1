//! Numbers that differ from seed to seed and repeat from run to run: jitter, nonces, and whatever tests and simulations draw.
//!
//! Written here because the generators of `rand` may differ from version to version, and a seed has to mean the same run
//! tomorrow.

use std::time::Duration;

use crate::core::ids::NodeName;

/// `SplitMix64` (Steele, Lea and Flood 2014).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers of a seed at one node, so that nodes of one simulation may share a seed.
    pub fn for_node(seed: u64, node: &NodeName) -> Self {
        Self(node.as_str().bytes().fold(seed, |state, byte| splitmix(state ^ u64::from(byte))))
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A time below `bound`, or zero.
    pub fn below(&mut self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX).max(1);
        Duration::from_nanos(self.draw() % nanos)
    }
}

/// The first number of a seed, which may be the seed of others.
pub const fn splitmix(seed: u64) -> u64 {
    SplitMix64::new(seed).draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_are_those_of_the_paper() {
        // Of `java.util.SplittableRandom`, and of the authors' program in C.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
        assert_eq!(splitmix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn times_below_a_bound_are_spread_below_it_and_there_is_none_but_zero_below_the_smallest() {
        let mut random = SplitMix64::new(1);
        let bound = Duration::from_secs(1);
        let drawn: Vec<_> = (0..100).map(|_| random.below(bound)).collect();
        assert!(drawn.iter().all(|time| *time < bound), "{drawn:?}");
        assert!(drawn.iter().any(|time| *time > bound / 2) && drawn.iter().any(|time| *time < bound / 2));
        for smallest in [Duration::ZERO, Duration::from_nanos(1)] {
            assert!((0..20).all(|_| random.below(smallest).is_zero()));
        }
    }
}
