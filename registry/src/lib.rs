//! Gives a running actor a name that the whole cluster agrees on.
//!
//! ```no_run
//! use callsign::{Config, P, RactorClusterMessage, Registry, remote_message};
//! use ractor::{Actor, ActorProcessingErr, ActorRef};
//!
//! #[derive(RactorClusterMessage)]
//! enum Pricing { Set(P<u64>) }
//! remote_message!(Pricing, "shop.pricing/1");
//!
//! struct PricingActor;
//! impl Actor for PricingActor {
//!     type Msg = Pricing;
//!     type State = u64;
//!     type Arguments = ();
//!     async fn pre_start(&self, _: ActorRef<Pricing>, (): ()) -> Result<u64, ActorProcessingErr> { Ok(0) }
//!     async fn handle(&self, _: ActorRef<Pricing>, Pricing::Set(P(price)): Pricing, state: &mut u64)
//!         -> Result<(), ActorProcessingErr> { *state = price; Ok(()) }
//! }
//!
//! async fn run() -> Result<(), Box<dyn std::error::Error>> {
//!     let registry = Registry::join(Config::new("berlin", "sqlite:/var/lib/shop/cluster.db")).await?;
//!     let (actor, _) = Actor::spawn(None, PricingActor, ()).await?;
//!     let held = registry.register("pricing", &actor).await?;        // one live holder, cluster-wide
//!     let pricing: ActorRef<Pricing> = registry.whereis("pricing")?; // local read, any node
//!     held.check()?;                                                 // before each act: is it still mine?
//!     let _ = pricing.cast(Pricing::Set(P(42)));
//!     Ok(())
//! }
//! ```
//!
//! `docs/promises.md` says what it promises. [`Registry`] is the public face; below it, each a pure core:
//! the host (names that this node's actors hold), the replica (the log, applied in order), the leader (decides), the
//! handoff (what makes an elected leader serve), and the member that holds them. `actor` drives it.

#![forbid(unsafe_code)]
#![allow(unreachable_pub)] // the cores are `pub` for the feature `cores`
#![cfg_attr(feature = "cores", allow(missing_docs))]

mod actor;
#[cfg(test)]
mod beside_tests;
mod catchup;
#[cfg(test)]
mod claim_tests;
mod config;
#[cfg(test)]
mod configuring_tests;
mod core;
#[cfg(feature = "cores")]
#[doc(hidden)]
pub mod cores;
#[cfg(test)]
mod draining_tests;
#[cfg(test)]
mod driver_tests;
#[cfg(test)]
mod edge_tests;
mod entry;
mod error;
#[cfg(test)]
mod failing_tests;
#[cfg(test)]
mod fault_tests;
mod fence;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden_tests;
mod handoff;
mod host;
mod inbox;
mod input;
#[cfg(test)]
mod joining_tests;
mod leader;
#[cfg(test)]
mod lineage_tests;
mod log;
mod member;
mod message;
pub mod metrics;
mod name;
mod name_ref;
#[cfg(test)]
mod name_ref_tests;
mod node;
#[cfg(test)]
#[cfg(feature = "node-server")]
mod node_server_tests;
mod oracle;
mod outage;
mod reads;
mod registry;
mod replica;
mod shared;
mod singleton;
#[cfg(test)]
mod singleton_tests;
mod snapshot;
mod status;
mod table;
mod trim;
mod tuning;
#[cfg(test)]
mod world;
#[cfg(test)]
mod world_tests;

/// The code of these pages compiles.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../docs/getting-started.md")]
    mod getting_started {}
}

pub use callsign_elector::{
    Clock, Entropy,
    clock::OwnClock,
    election,
    elector::ElectorTiming,
    ids::{Epoch, Incarnation, InvalidName, NodeName, Position, SessionNumber},
    session::{SessionTiming, TrustHandle},
    settings::{InForce, Limit, OutOfBounds, Preset, Settings},
    store::{OpenError, SharedStore, open as open_store},
    supervision::{NodeFailure, Turn, Turns},
};
pub use callsign_transport::{
    ActorAddress, BadSecret, BadTls, Keys, KeysRefused, Kind, LinkLimits, LinkTiming, MAX_SECRETS,
    MemoryNetwork, Network, P, RactorClusterMessage, RactorMessage, RemoteMessage, ResolveError, Secret,
    Security, StartError, Tls, remote_message,
};
#[cfg(feature = "node-server")]
#[doc(no_inline)]
pub use callsign_transport::{NodeServerNetwork, ractor_cluster};

pub use crate::{
    config::{Config, StoreSource},
    entry::Entry,
    error::{
        ConfigureError, ConsistentError, Elsewhere, JoinError, LeaveError, LookupError, RegisterError,
        UnregisterError, WhereisError,
    },
    input::Drained,
    input::{Event, Notice},
    name::{BadName, MAX_NAME_BYTES, Name},
    name_ref::{CallError, CastError, NameRef, NameRefOptions, Obstacle},
    oracle::{ChecksFence, MonitorEvent, MonitorSettings, Monitored, QueueOracle, RegistryOracle},
    outage::OnOutage,
    registry::{NotHeld, RegisterOptions, Registration, Registry, WhenLapsed},
    singleton::{
        ChildKind, Follow, Lead, MAX_HAND_OVER, Singleton, SingletonBuilder, SingletonError, SingletonEvent,
        SingletonEvents, SingletonPlan,
    },
    status::{LeaderInfo, MemberInfo, Status},
};
