//! What fixed scripts cost: reads and commits of the store, messages, reads and writes of links, allocations. They are counted, and not
//! timed, and held against `table.txt`. So one more of them for each registration fails a test, however busy the machine is.
//!
//! Whole nodes run as they ship, on this thread, under a paused clock, over a network and a store in memory. A script has a cluster of
//! its own, and begins once that is at rest.
//!
//! ```text
//! scripts ----> cluster: three nodes of the public crate
//!                 |-- Counting (store)                      --+
//!                 |-- MemoryNetwork::traffic                  |--> Counts --> table: expected beside found
//!                 |-- Recorder (`metrics`: messages)          |
//!                 '-- allocation_counter (this thread)      --+
//! ```
//!
//! Is a difference meant, `CALLSIGN_COUNTS=renew` writes the table anew.
#![allow(clippy::unwrap_used)] // helpers of tests are tests
#![allow(clippy::disallowed_methods)] // time passes here

mod cluster;
mod counts;
mod scripts;
mod table;

use std::{env, fs};

#[test]
fn scripts_cost_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/counts/table.txt");
    let found = scripts::all();
    match env::var("CALLSIGN_COUNTS").as_deref() {
        Ok("renew") => fs::write(path, table::written(&found)).unwrap(),
        Ok(other) => panic!("CALLSIGN_COUNTS={other}: only `renew` means something"),
        Err(_) => {
            let expected = table::read(&fs::read_to_string(path).unwrap());
            if let Some(differences) = table::differences(&expected, &found) {
                panic!("{differences}");
            }
        }
    }
}
