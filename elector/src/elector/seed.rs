//! Numbers that differ from node to node and repeat from run to run: jitter and nonces.

use crate::ids::NodeName;
use std::time::Duration;

/// A splitmix64 generator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seed(u64);

impl Seed {
    /// Mixes in the node, so that nodes of one simulation may share a seed.
    pub(super) fn new(seed: u64, node: &NodeName) -> Self {
        let mixed = node.as_str().bytes().fold(seed, |state, byte| Self(state ^ u64::from(byte)).next());
        Self(mixed)
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A time below `most`.
    pub(super) fn below(&mut self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1);
        Duration::from_nanos(self.next() % nanos)
    }
}
