//! Clusters of real processes over real stores, with real faults: the promises, seen from outside.
//!
//! A [`Cluster`] starts `callsign node` as child processes over one store, kills and stops them, and reads the store: a
//! `SQLite` file, or what `CALLSIGN_TEST_STORE` says ([`TestStore`]). A [`Load`] registers and unregisters names on all of
//! them meanwhile, and writes what was answered into a [`History`], which says afterwards whether a promise was broken.
//!
//! The command is built by the first test that needs it; `CALLSIGN_BIN` names another one in its place.
//! `CALLSIGN_TEST_LOG` is what nodes log, such as `debug`; the ends of their logs are shown where a test has failed.

#![forbid(unsafe_code)]

mod binary;
mod browser;
pub mod chaos;
mod client;
mod cluster;
mod dead;
pub mod etcd;
mod history;
mod holds;
mod links;
mod load;
mod process;
pub mod programs;
mod retrying;
mod sampler;
mod siege;
mod singleton;
mod small_disk;
pub mod soak;
mod store;
mod store_view;
mod wait;
mod witness;

pub use binary::callsign;
pub use browser::Browser;
pub use client::{Answer, Client};
pub use cluster::Cluster;
pub use dead::leave_behind;
pub use history::{Forgive, History, Life};
pub use holds::Holds;
pub use links::{Carried, Ends, Links, NoNamespaces, StoreLinks, Way, both_ways};
pub use load::Load;
pub use process::{NodeProcess, Ready, Sink, StartOptions, Stopped};
pub use retrying::{Fared, Retrying};
pub use sampler::Sampler;
pub use siege::{Done, Siege, Strangers};
pub use singleton::{Runner, Singleton, guard_of, parent_of, signal};
pub use small_disk::SmallDisk;
pub use store::{PostgresServer, TestStore};
pub use store_view::{StoreView, WriteLock};
pub use wait::{TEST_DEADLINE, eventually, wait_for};
pub use witness::{Did, Line, Lines};
