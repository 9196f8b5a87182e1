//! The promises, kept by real processes over a real store, under real faults. One module per promise,
//! and one for the store that is a server.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod licences;
mod p1_one_holder;
mod p3_acknowledged_means_kept;
mod p8_nothing_is_stuck;
mod p9_bad_input;
mod postgres;
