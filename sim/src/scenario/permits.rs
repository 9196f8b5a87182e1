//! What nodes may do by their certificates.

use callsign_transport::Permits;

use crate::rng::Rng;

/// The names, groups and semaphores that clients use.
const PREFIXES: [&str; 7] = ["n0", "n1", "n2", "n3", "g0", "g1", "s0"];

/// What a node may do. The first one may do everything, so that somebody can lead, and every name can be had.
pub(crate) fn drawn_permits(rng: &mut Rng, node: usize) -> Permits {
    let mut said: Vec<String> = Vec::new();
    if node > 0 && rng.below(3) > 0 {
        let most = 1 + rng.below(4);
        said.extend((0..most).map(|_| format!("names={}", PREFIXES[rng.index(PREFIXES.len())])));
    }
    if node > 0 && rng.below(3) == 0 {
        said.push("lead=no".to_owned());
    }
    if said.is_empty() {
        return Permits::default();
    }
    Permits::read(&said.join("&")).expect("this is how it is said")
}
