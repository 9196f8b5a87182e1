//! The promises, kept by real processes over a real store, under real faults. One module per promise,
//! and some for stores: what an outage does, what `doctor` and `wipe` do.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod bench;
mod book;
mod certificates;
mod chaos;
mod configuring;
mod crowd;
mod doctor;
mod documented;
mod draining;
mod embedded;
mod errors;
mod etcd;
mod explain;
mod full_disk;
mod hold;
mod hung;
mod idle;
mod incarnations;
mod licences;
mod links;
mod metrics;
mod moving;
mod namespaces;
mod outage;
mod output;
mod p1_one_holder;
mod p3_acknowledged_means_kept;
mod p8_nothing_is_stuck;
mod p9_bad_input;
mod page;
mod postgres;
mod published;
mod run;
mod scripts;
mod services;
mod soak;
mod strangers;
mod top;
mod two_commits;
mod watching;
mod went_back;
mod wipe;
