//! What changes of names cost the cores of a node: `cargo bench --package callsign-sim`.
//!
//! A member that leads decides, commits to a store in memory, and applies what was committed, as [`Alone`] does it. There are no links,
//! threads or disks. One line is so many names, and the throughput is names for each second.

use callsign_sim::cost::Alone;
use divan::{Bencher, counter::ItemsCount};

const NAMES: u32 = 10_000;

fn main() {
    divan::main();
}

/// Makes a change to all names of a member that is as it was left, so many at a time.
fn change(bencher: Bencher<'_, '_>, before: &Alone, in_flight: u32, change: fn(&mut Alone, u32)) {
    bencher.counter(ItemsCount::new(NAMES)).with_inputs(|| before.clone()).bench_local_values(|mut alone| {
        alone.change_all(NAMES, in_flight, &change);
        alone
    });
}

fn with_names() -> Alone {
    let mut alone = Alone::new();
    alone.change_all(NAMES, 1000, &Alone::register);
    alone
}

#[divan::bench(args = [1, 50, 1500])]
fn register(bencher: Bencher<'_, '_>, in_flight: u32) {
    change(bencher, &Alone::new(), in_flight, Alone::register);
}

#[divan::bench(args = [1, 50, 1500])]
fn unregister(bencher: Bencher<'_, '_>, in_flight: u32) {
    change(bencher, &with_names(), in_flight, Alone::unregister);
}

#[divan::bench(args = [1, 50, 1500])]
fn end_of_an_actor(bencher: Bencher<'_, '_>, in_flight: u32) {
    change(bencher, &with_names(), in_flight, Alone::end);
}
