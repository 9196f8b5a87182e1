use std::time::Duration;

use callsign_store::{
    ids::{Epoch, NodeName, Position, SessionId},
    keys::ClusterKeys,
};

use super::*;
use crate::core::elector::{Elector, ElectorConfig, ElectorEvent, ElectorTiming};

mod driven;
mod odd_store;

const SECOND: Duration = Duration::from_secs(1);

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}
