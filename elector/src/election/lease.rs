//! An election on any store, by leases: no clock but each member's own, and no server but the store.
//!
//! [`LeaseOracle`] takes part in one; [`Election`] sets it up and looks at it.

use std::collections::BTreeSet;

use futures::stream::BoxStream;

use super::{
    config::ElectionConfig,
    oracle::{Attempt, Context, Fault, Grant, Init, Oracle, Signal, Verdict},
    term::Fence,
};
use crate::{
    Clock,
    ids::{ClusterName, Tag},
    store::SharedStore,
};

mod admin;

pub use admin::{Disable, Election, ElectionError, Initialised, Listed, Registration, Seated};

/// How a member takes part.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Written if nobody has initialised the election. Otherwise what is there decides, and a difference is reported.
    /// `None`: somebody else initialises it, and until then there is nothing to take part in.
    pub config: Option<ElectionConfig>,
    /// With which priority it registers.
    pub priority: u32,
    /// What it has that the election may ask for.
    pub tags: BTreeSet<Tag>,
    /// Whether it registers by itself, at the start and whenever it was evicted. Otherwise [`Election::register`] does.
    pub register: bool,
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
            clock: Clock::boot(),
        }
    }
}

/// Takes part in an election on a store.
#[derive(Debug)]
pub struct LeaseOracle {
    #[allow(dead_code)]
    store: SharedStore,
    #[allow(dead_code)]
    cluster: ClusterName,
    #[allow(dead_code)]
    options: LeaseOptions,
}

impl LeaseOracle {
    /// A member's part in an election of the cluster. Which election, and who takes part, the campaign says.
    pub fn new(store: SharedStore, cluster: &ClusterName, options: LeaseOptions) -> Self {
        Self { store, cluster: cluster.clone(), options }
    }
}

impl Oracle for LeaseOracle {
    type Fence = Fence;
    /// The member's new priority, written with its next heartbeat. 0 may mean that it will not lead.
    type Info = u32;

    async fn init(&mut self, _: &Context) -> Result<Init, Fault> {
        Err(Fault::Fatal("not built yet".to_owned()))
    }

    async fn claim(&mut self, _: Attempt) -> Result<Verdict<Fence>, Fault> {
        Err(Fault::Fatal("not built yet".to_owned()))
    }

    async fn refresh(&mut self, _: Attempt, _: &Grant<Fence>) -> Result<Verdict<Fence>, Fault> {
        Err(Fault::Fatal("not built yet".to_owned()))
    }

    async fn abdicate(&mut self, _: &Grant<Fence>) -> Result<bool, Fault> {
        Ok(false)
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        Box::pin(futures::stream::pending())
    }
}
