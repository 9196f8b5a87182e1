//! Lookups and typed references, by one thread and by two at once, beside gets of a bare map.

use std::sync::Barrier;

use anyhow::{Context, Result, ensure};
use callsign::{Name, Registry};

use super::{
    actors::Heard,
    lookups::{Copied, bare, listed, time},
};
use crate::{
    commands::bench::orders::{Names, Read},
    measure::{quantile, rounded},
};

/// How many names are read at random: all of a worker's, few that are hot, or one.
const FEW: usize = 1000;
/// Rounds, and the most reads of each kind, by each thread, in a round.
const ROUNDS: usize = 10;
const READS: usize = 20_000;

/// Measures in rounds, each of all kinds, so that all see the same machine.
pub(super) fn measure(registry: &Registry, local: &Names, remote: &Names) -> Result<Vec<Read>> {
    let bare = bare(registry)?;
    let mut rows = Vec::new();
    for (place, names) in [("local", local), ("remote", remote)] {
        let all = listed(names);
        // The first reference to an actor of another node is made once; what is measured is to find it.
        for name in &all {
            let actor = registry.whereis::<Heard>(name);
            actor.with_context(|| format!("{name} is not found"))?;
            ensure!(bare.contains_key(name), "{name} is not in the map");
        }
        let mut sizes = vec![all.len(), all.len().min(FEW), 1];
        sizes.dedup();
        for (size, threads) in sizes.into_iter().flat_map(|size| [(size, 1), (size, 2)]) {
            let names = &all[..size];
            let each = u32::try_from(all.len().min(READS))?;
            let mut samples = [const { Vec::new() }; 3];
            for round in 0..ROUNDS {
                // What comes second finds the names in the processor's caches: they take turns.
                for turn in 0..samples.len() {
                    let which = (round + turn) % samples.len();
                    samples[which].push(match which {
                        0 => at_once(names, threads, each, |name| registry.lookup(name).ok().flatten()),
                        1 => at_once(names, threads, each, |name| registry.whereis::<Heard>(name).ok()),
                        _ => at_once(names, threads, each, |name| bare.get(name).map(|row| Copied::of(&row))),
                    });
                }
            }
            let median =
                |mut samples: Vec<f64>| quantile(&mut samples, 0.5).map(rounded).context("no rounds");
            let [lookups, whereis, gets] = samples;
            rows.push(Read {
                place: place.to_owned(),
                names: u32::try_from(size)?,
                threads: u32::try_from(threads)?,
                lookup_ns: median(lookups)?,
                whereis_ns: median(whereis)?,
                dashmap_get_ns: median(gets)?,
            });
        }
    }
    Ok(rows)
}

/// Nanoseconds of one read, where so many threads read at once: each its own part of the names, or all of them the only one.
fn at_once<T>(names: &[Name], threads: usize, each: u32, read: impl Fn(&str) -> T + Sync) -> f64 {
    let begin = Barrier::new(threads);
    let part = |thread: usize| {
        let size = (names.len() / threads).max(1);
        let names = if names.len() == 1 { names } else { &names[thread * size..(thread + 1) * size] };
        let mut random = 0x5eed + thread as u64;
        begin.wait();
        time(names, each, &mut random, &read)
    };
    let times: Vec<f64> = std::thread::scope(|scope| {
        let part = &part;
        let running: Vec<_> = (1..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        let first = part(0);
        // A read that panics has no time, and the bench fails by it.
        running.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).chain([first]).collect()
    });
    let count = u32::try_from(times.len()).map_or(f64::NAN, f64::from);
    times.iter().sum::<f64>() / count
}
