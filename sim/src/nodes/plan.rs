//! What a seed decides before anything runs.

use std::time::Duration;

use callsign_store::random::splitmix;

use super::nemesis::Kind;
use crate::rng::Rng;

/// How long faults come.
pub const TROUBLE: Duration = Duration::from_secs(40);
/// How long a run is at least.
pub const STANDARD: Duration = Duration::from_secs(60);
/// Has the draw of a second registry differ from the others.
const SECOND: u64 = 0x5ec0_04d0;

/// A run, before it begins.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The seed.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// The lease of sessions.
    pub lease: Duration,
    /// Whether the store can prove a death.
    pub proves_deaths: bool,
    /// Between two calls of a client.
    pub pause: Duration,
    /// Between two faults: up to this.
    pub calm: Duration,
    /// How likely a commit goes wrong all the time, in a thousand.
    pub unsure: u64,
    /// How many names a chunk of a snapshot has.
    pub chunk: usize,
    /// How many members a leader has observe.
    pub observers: usize,
    /// Whether connections and the queues before them hold little.
    pub is_narrow: bool,
    /// Whether the nodes also take turns to lead a singleton.
    pub has_office: bool,
    /// How many registries each node joins: one, or two.
    pub registries: usize,
    /// What is never done: to see that whoever counts notices it.
    pub without: Option<Kind>,
}

impl RunPlan {
    /// What this seed decides.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let leases = [2, 3, 4, 8].map(Duration::from_secs);
        Self {
            seed,
            nodes: 3 + rng.index(3),
            lease: leases[rng.weighted(&[3, 3, 2, 1])],
            proves_deaths: rng.per_mille(500),
            pause: Duration::from_millis(800) + rng.duration(Duration::from_secs(1)),
            calm: Duration::from_millis(700) + rng.duration(Duration::from_millis(1400)),
            unsure: [0, 10, 40][rng.index(3)],
            chunk: [2, 8, 16, 4096][rng.index(4)],
            is_narrow: rng.per_mille(700),
            has_office: rng.per_mille(250),
            observers: [0, 1, 3][rng.index(3)],
            // Drawn by itself, so that all other seeds stay as they are.
            registries: 1 + usize::from(Rng::new(splitmix(seed ^ SECOND)).per_mille(100)),
            without: None,
        }
    }

    /// The names of the nodes.
    pub fn names(&self) -> Vec<String> {
        (0..self.nodes).map(|index| char::from(b'a' + u8::try_from(index).unwrap_or(0)).to_string()).collect()
    }
}
