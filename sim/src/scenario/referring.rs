//! Which seeds have references to actors of other nodes.

use super::Profile;
use crate::rng::Rng;

/// These choices have nothing in common with those of the profile, so that a seed without references is as it was before there were any.
const OTHER: u64 = 0x7265_6665_7273;

/// One seed in so many has references.
const ONE_IN: u64 = 8;

/// Has clients of some seeds ask for references.
pub(super) fn refer(profile: &mut Profile, seed: u64) {
    let mut rng = Rng::new(seed ^ OTHER);
    if rng.below(ONE_IN) == 0 {
        profile.work.refer = 40 + rng.below(160);
        // Where clients are seldom heard of, references would be met by nothing.
        profile.call = profile.call.max(100);
    }
}
