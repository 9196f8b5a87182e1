//! How a member takes part, and what holds in place of what it was started with.

use std::{collections::BTreeSet, fmt, time::Duration};

use callsign_store::{Clock, ids::Tag};

use crate::core::config::ElectionConfig;

/// How a member takes part.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Written if nobody has initialised the election. Otherwise what is there decides, and a difference is reported.
    /// `None`: somebody else initialises it, and until then every claim is a [`Fault`](crate::Fault).
    pub config: Option<ElectionConfig>,
    /// With which priority it registers.
    pub priority: u32,
    /// What it has that the election may ask for.
    pub tags: BTreeSet<Tag>,
    /// Whether it registers by itself, at the start and whenever it was evicted, and removes its row at the end. Otherwise
    /// [`Election::register`](super::Election::register) and [`unregister`](super::Election::unregister) do.
    pub register: bool,
    /// Whether it watches the records, so that it hears of a free seat at once. Otherwise it hears with its next poll.
    pub watch: bool,
    /// The clock by which it sees that records do not change.
    pub clock: Clock,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            config: Some(ElectionConfig::default()),
            priority: 1,
            tags: BTreeSet::new(),
            register: true,
            watch: true,
            clock: Clock::boot(),
        }
    }
}

/// A configuration that a member was started with, and that does not hold: the durable one decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The member's own.
    pub ours: ElectionConfig,
    /// What holds.
    pub durable: ElectionConfig,
}

/// What differs.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, durable } = self;
        let time = |what, ours: Duration, durable: Duration| {
            (ours != durable).then(|| format!("the {what} is {durable:?}, not {ours:?}"))
        };
        let differ = [
            (ours.policy != durable.policy).then(|| "the policy is another".to_owned()),
            time("lease", ours.lease, durable.lease),
            time("lock delay", ours.lock_delay, durable.lock_delay),
            time("candidate timeout", ours.candidate_timeout, durable.candidate_timeout),
        ];
        f.write_str(&differ.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}
