//! Gives a running actor a name that the whole cluster agrees on.
//!
//! ```no_run
//! use callsign::{Config, Registry};
//! use ractor::{Actor, ActorProcessingErr, ActorRef};
//!
//! #[callsign::message("shop.pricing/1")]
//! enum Pricing { Set(u64) }
//!
//! struct PricingActor;
//! impl Actor for PricingActor {
//!     type Msg = Pricing;
//!     type State = u64;
//!     type Arguments = ();
//!     async fn pre_start(&self, _: ActorRef<Pricing>, (): ()) -> Result<u64, ActorProcessingErr> { Ok(0) }
//!     async fn handle(&self, _: ActorRef<Pricing>, Pricing::Set(price): Pricing, state: &mut u64)
//!         -> Result<(), ActorProcessingErr> { *state = price; Ok(()) }
//! }
//!
//! async fn run() -> Result<(), Box<dyn std::error::Error>> {
//!     let registry = Registry::join(Config::new("berlin", "sqlite:/var/lib/shop/cluster.db")).await?;
//!     let (actor, _) = Actor::spawn(None, PricingActor, ()).await?;
//!     let held = registry.register("pricing", &actor).await?;        // one live holder, cluster-wide
//!     let pricing: ActorRef<Pricing> = registry.whereis("pricing")?; // local read, any node
//!     held.check()?;                                                 // before each act: is it still mine?
//!     let _ = pricing.cast(Pricing::Set(42));
//!     Ok(())
//! }
//! ```
//!
//! `docs/promises.md` says what it promises. [`Registry`] is the public face; below it, each a pure core:
//! the host (names that this node's actors hold), the replica (the log, applied in order), the leader (decides), the
//! handoff (what makes an elected leader serve), and the member that holds them. They are in `core`; `driver` carries out what they ask for.

#![forbid(unsafe_code)]
#![allow(unreachable_pub)] // the cores are `pub` for the feature `cores`
#![cfg_attr(feature = "cores", allow(missing_docs))]

#[cfg(test)]
extern crate self as callsign; // as examples see it, of which tests take a part

mod config;
mod core;
#[cfg(feature = "cores")]
#[doc(hidden)]
pub mod cores;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // where time, tasks and randomness come from
mod driver;
mod error;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod status;
#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests drive
mod tests;

/// The code of these pages compiles.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../docs/getting-started.md")]
    mod getting_started {}
    #[doc = include_str!("../../docs/names.md")]
    mod names {}
    #[doc = include_str!("../../docs/groups.md")]
    mod groups {}
}

#[cfg(feature = "election")]
#[doc(inline)]
pub use callsign_election as election;
pub use callsign_elector::{
    elector::ElectorTiming,
    session::{SessionTiming, TrustHandle},
    settings::{InForce, Limit, OutOfBounds, Preset, Settings},
};
pub use callsign_store::{
    Clock, Entropy, OpenError, SharedStore,
    clock::OwnClock,
    ids::{Epoch, Incarnation, InvalidName, NodeName, Position, SessionNumber},
    open as open_store,
    supervision::{NodeFailure, Turn, Turns},
};
#[doc(hidden)]
pub use callsign_transport::__message;
#[cfg(feature = "noise")]
pub use callsign_transport::BadSecret;
#[cfg(feature = "tls")]
pub use callsign_transport::BadTls;
pub use callsign_transport::{
    ActorAddress, BadPermits, BroadcastError, Broadcasted, CertificateFault, Keys, KeysRefused, Kind, LinkId,
    LinkLimits, LinkStatus, LinkTiming, MAX_SECRETS, MemoryNetwork, Network, P, PeerId, Permits,
    RactorClusterMessage, RactorMessage, RefusalCounts, RemoteMessage, ResolveError, Secret, Security,
    StartError, Tls, Traffic, message, remote_message,
};
#[cfg(feature = "node-server")]
#[doc(no_inline)]
pub use callsign_transport::{NodeServerNetwork, ractor_cluster};

#[doc(inline)]
pub use callsign_transport::trace;

#[doc(inline)]
pub use crate::driver::metrics;
#[doc(hidden)]
pub use crate::driver::node::observe;
pub use crate::{
    config::{Config, StoreSource},
    core::{
        caller::OnOutage,
        entry::Entry,
        explained::{NameState, PastChange, WhyFree},
        input::{Drained, Notice},
        meta::{MAX_META_BYTES, Meta, MetaError},
        name::{BadName, MAX_NAME_BYTES, Name, check_name},
        select::Select,
        taking::{Decline, MAX_HANDED_BYTES, TakeRefusal},
        watch::{Change, WatchEvent},
        why::Why,
    },
    driver::{
        explain::{Explanation, HolderSession},
        group::{Group, GroupSize, Membership, Strategy},
        name_ref::{CallError, CastError, NameRef, NameRefOptions, Obstacle},
        reads::Page,
        receive::{OfferedName, Received, Receiving},
        registration::{NotHeld, Registration},
        registry::{RegisterOptions, Registry, WhenLapsed},
        remote::Remote,
        semaphore::{Guard, Semaphore},
        start::{StartOptions, Started, Starting},
        take::{HandedTo, TakeOptions, Taken, WhenTaken},
        watch::Watch,
    },
    error::{
        AcquireError, ConfigureError, ConsistentError, Elsewhere, ExplainError, GroupError, JoinError,
        LeaveError, LookupError, NotReady, NotStarted, OfferError, RegisterError, TakeError, UnregisterError,
        UntilError, UpdateError, WaitError, WatchError, WhereisError,
    },
    status::{LeaderInfo, MemberInfo, Status},
};
#[cfg(feature = "election")]
pub use crate::{
    core::singleton::ChildKind,
    driver::{
        oracle::{ChecksFence, MonitorEvent, MonitorSettings, Monitored, QueueOracle, RegistryOracle},
        singleton::{
            Follow, Lead, MAX_HAND_OVER, Singleton, SingletonBuilder, SingletonError, SingletonEvent,
            SingletonEvents, SingletonPlan,
        },
    },
};
