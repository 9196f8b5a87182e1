use std::time::Duration;

use self::harness::{Manner, Sim, node};
use super::*;

mod barred;
mod checks;
mod configuring;
mod deltas;
mod handoff;
mod harness;
mod heard;
mod lineage;
mod lock;
mod outage;
mod queue;
mod records;
mod resting;
mod seat;
mod sweeping;
mod voice;
mod watching;

const SECOND: Duration = Duration::from_secs(1);
