//! What no node can see alone: rules over the recordings of all nodes, by positions, versions and epochs.
//!
//! Only [`holders`] looks at clocks: those of the processes of one machine are the same one.

use std::{collections::BTreeMap, fmt};

use super::counts::RecordingCounts;

pub mod grants;
pub mod growth;
pub mod holders;
pub mod leaders;
pub mod log;
pub mod messages;
pub mod once;
pub mod prefixes;

use self::{
    grants::Grants,
    growth::Growth,
    holders::{Claims, Trust},
    leaders::Leaders,
    log::Log,
    messages::Messages,
    once::{AnsweredCalls, Queue},
    prefixes::Prefixes,
};
use super::place::Process;

/// A rule that the recordings break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule.
    pub rule: &'static str,
    /// How it is broken, and where.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What the nodes of one cluster share beyond a registry.
#[derive(Clone, Debug, Default)]
pub struct InCluster {
    /// Whose session was trusted when.
    pub trust: BTreeMap<Process, Trust>,
}

impl InCluster {
    /// The trust of one process.
    pub fn trust_of(&mut self, process: &Process) -> &mut Trust {
        self.trust.entry(process.clone()).or_default()
    }
}

/// All that is checked of one registry.
#[derive(Clone, Debug, Default)]
pub struct InRegistry {
    /// One batch per position.
    pub log: Log,
    /// One leader per epoch.
    pub leaders: Leaders,
    /// Nothing goes back.
    pub growth: Growth,
    /// Replicas are the log.
    pub prefixes: Prefixes,
    /// Granted is logged.
    pub grants: Grants,
    /// One holder.
    pub claims: Claims,
    /// Each to whom it was for.
    pub messages: Messages,
    /// One answer.
    pub calls: AnsweredCalls,
    /// Once off the queue.
    pub queue: Queue,
}

impl InRegistry {
    /// Checks what was seen, once all of it was.
    pub fn finish(self, cluster: &InCluster, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        self.leaders.finish(&self.log, counts, breaches);
        self.grants.finish(&self.log, counts, breaches);
        self.prefixes.finish(&self.log, counts, breaches);
        self.log.finish(counts, breaches);
        self.growth.finish(counts, breaches);
        self.claims.finish(&cluster.trust, counts, breaches);
        self.messages.finish(counts, breaches);
        self.calls.finish(counts, breaches);
        self.queue.finish(counts, breaches);
    }
}
