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
//! A name has at most one holder, under crashes, partitions, pauses and outages, while clocks drift less than configured. What was
//! acknowledged is kept until you unregister the name, its actor ends, or its node's session ends. "No" is never "don't know": each error says
//! which of the two it is. Callsign needs no servers of its own: nodes meet in a store that you have.
//!
//! # What to use when
//!
//! | you want | use |
//! |---|---|
//! | one actor to have a name that all nodes find | [`Registry::register`], [`Registry::whereis`] |
//! | to start an actor only where none has the name | [`Registry::start`] |
//! | the holder as it is at this moment, and not as this node last heard | [`Registry::whereis_consistent`] |
//! | to send to whoever holds a name, now or later | [`Registry::name_ref`], [`NameRef`] |
//! | to say something of a holder, and find names by it | [`Meta`], [`Registry::lookup`], [`Registry::select`] |
//! | to hear what changes | [`Registry::watch`]; [`Registry::until_held`] and [`Registry::until_gone`] for one name |
//! | many actors under one key, and broadcasts to them | [`Registry::group`] |
//! | that few do something at the same time | [`Registry::lock`], [`Registry::semaphore`] |
//! | a name to go to another actor, with data, and without being free | [`Registry::take`] |
//! | names to move when their node drains | [`RegisterOptions::offer`], [`Registry::receive`] |
//! | one child actor in the whole cluster | `Singleton` (feature `election`) |
//! | an election for something else | the module `election` (feature `election`) |
//! | to act only while the name is yours | [`Registration::check`] before each act |
//! | to keep a former holder from writing | [`Registration::token`], checked where it writes |
//! | a message that travels | [`#[callsign::message]`](macro@message); [`RactorMessage`] for one that stays |
//! | to say that a node can be sent work | [`Registry::ready`] |
//! | to end a node in good order | [`Registry::drain`], [`Registry::leave`] |
//! | to see a cluster in a browser | the module `admin` (feature `admin`) |
//! | several nodes in one test | [`MemoryStore`], [`MemoryNetwork`], [`Clock::runtime`] |
//! | any program under a name, or on one node only | the command: `callsign hold`, `callsign run` |
//!
//! # Features
//!
//! | feature | default | what it brings |
//! |---|---|---|
//! | `sqlite` | on | the store `sqlite:`; `SQLite` is compiled from C |
//! | `noise` | on | links that are encrypted with a shared [`Secret`] |
//! | `tls` | on | links that are encrypted with certificates: [`Tls`] |
//! | `election` | on | the module `election`, and singletons |
//! | `postgres` | off | the store `postgres:`, and with `election` leases in a table |
//! | `etcd` | off | the store `etcd:` |
//! | `fdb` | off | the store `fdb:`, by API version 7.3; the program links `FoundationDB`'s client. `fdb-7_1` and `fdb-7_4` are for other versions |
//! | `admin` | off | the module `admin`: a page and answers over HTTP for your axum application |
//! | `wall-clock-pool` | off | with `election`, elections in a replicated pool; they only advise |
//! | `node-server` | off | links over the sessions of an application's own `NodeServer`; an experiment |
//!
//! Without any of them there are names, over the store `memory:` or one of your own. Without `noise` and `tls` only loopback addresses are
//! served. The features `cores`, `faults` and `fuzz` are for Callsign's own tests, and promise nothing.
//!
//! # Stores
//!
//! | URL | for | when a node dies, its names are free |
//! |---|---|---|
//! | `sqlite:PATH` | processes on one machine | at once |
//! | `postgres://USER@HOST/DATABASE` | any machines | after the lease, 10 s by default |
//! | `etcd://HOST,HOST,HOST/PREFIX` | any machines, with etcd | after the lease |
//! | `fdb:CLUSTER_FILE` | any machines, with `FoundationDB` | after the lease |
//! | `memory:` | one process, and tests | at once |
//!
//! # Where to read on
//!
//! [`Config`] has every option with its default. The book is in the folder `docs/` of the repository: names, groups, messages, singletons, operations, promises and
//! how each is checked.
//!
//! Below [`Registry`] are pure cores, in `core`: the host (names that this node's actors hold), the replica (the log, applied in order), the leader (decides),
//! the handoff (what makes an elected leader serve), and the member that holds them. `driver` carries out what they ask for.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
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
#[cfg(doctest)]
mod guide;
mod status;
#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests drive
mod tests;

#[cfg(feature = "election")]
#[doc(inline)]
pub use callsign_election as election;
pub use callsign_elector::{
    elector::ElectorTiming,
    session::{
        OpenSessionError, SessionFailure, SessionTiming, TimingError as SessionTimingError, TrustHandle,
    },
    settings::{InForce, Limit, OutOfBounds, Preset, Settings},
};
#[cfg(feature = "election")]
pub use callsign_store::ids::{ClusterName, ElectionName, MemberId};
pub use callsign_store::{
    Clock, Entropy, OpenError, SharedStore,
    clock::OwnClock,
    ids::{Epoch, Incarnation, InvalidName, NodeName, Position, SessionNumber},
    in_full,
    memory::MemoryStore,
    open as open_store, open_patiently as open_store_patiently,
    record::CorruptRecord,
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

#[cfg(feature = "admin")]
#[doc(inline)]
pub use crate::driver::admin;
#[doc(inline)]
pub use crate::driver::metrics;
#[doc(hidden)]
pub use crate::driver::node::observe;
pub use crate::{
    config::{Config, JOIN_TIMEOUT, StoreSource},
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
        LeaveError, LookupError, NotLive, NotReady, NotSpawned, NotStarted, OfferError, RegisterError,
        TakeError, UnregisterError, UntilError, UpdateError, WaitError, WatchError, WhereisError,
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
