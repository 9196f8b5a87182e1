//! What some seeds of every scenario have besides its mix.
//!
//! It is drawn from choices of its own, so that all other seeds are what they are without it.

use super::{Profile, drawn_permits};
use crate::rng::Rng;

/// Sets these choices apart from those that the mix is drawn from.
const APART: u64 = 0x0ffe_25a7_ce27_f1ca;
/// In one of so many seeds names are offered, in as many others certificates say what nodes may do, and in as many others few members observe.
const ONE_OF: u64 = 8;

/// Adds to the mix of a seed: nodes that drain offer their names, or certificates say which names a node may hold and whether it leads, or most
/// members rest.
pub(super) fn add(profile: &mut Profile, seed: u64) {
    let mut rng = Rng::new(seed ^ APART);
    match rng.below(ONE_OF) {
        0 => offers(profile, &mut rng),
        1 => certificates(profile, &mut rng),
        2 => resting(profile, &mut rng),
        _ => {}
    }
}

/// Few members observe, and in half of these seeds the store tells nobody of a change: what rests has to look.
fn resting(profile: &mut Profile, rng: &mut Rng) {
    profile.observers = rng.index(2);
    profile.tells = rng.index(2) == 0;
}

fn offers(profile: &mut Profile, rng: &mut Rng) {
    if profile.offers {
        return;
    }
    profile.offers = true;
    profile.work.offer = 6 + rng.below(20);
    if profile.work.drain == 0 {
        profile.work.drain = 1 + rng.below(3);
    }
}

fn certificates(profile: &mut Profile, rng: &mut Rng) {
    if !profile.permits.is_empty() {
        return;
    }
    profile.permits = (0..profile.nodes).map(|node| drawn_permits(rng, node)).collect();
    profile.faults.certify = rng.below(4);
    // Only those that are dead may be let lead.
    profile.mourn = false;
}
