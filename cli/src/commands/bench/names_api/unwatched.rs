//! What a watch costs once it is closed and forgotten: nothing, it should be.

use std::{thread::sleep, time::Duration};

use anyhow::Result;
use serde::Serialize;

use super::{
    super::{
        cluster::{BenchCluster, Setting},
        orders::Order,
        per_second,
        phases::{median, register_shares},
    },
    row,
};

/// Rounds, each with registrations in both clusters.
const ROUNDS: u32 = 8;
/// A node remembers changes for a minute after its last watch.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(63);
/// How many steps it has.
pub(super) const STEPS: u64 = 1;

/// The figure: the median over the rounds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Unwatched {
    after_the_last_watch_ratio: f64,
}

/// Two clusters register in turns. In one of them each node had a watch, which was closed and is forgotten. In the other one nobody has ever
/// watched.
pub(super) fn measure(setting: &Setting, names: u32) -> Result<Unwatched> {
    setting.begin(&format!("{names} registrations where nobody watches any more, and where nobody ever did"));
    let share = names / ROUNDS;
    let [mut never, mut once] = [BenchCluster::start(setting, share)?, BenchCluster::start(setting, share)?];
    once.on_all::<()>(|_| Order::Watch { readers: 1 })?;
    once.on_all::<()>(|_| Order::Unwatch)?;
    sleep(FORGOTTEN_AFTER);
    let (mut ratios, mut count) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        count += share as usize;
        let mut rates = [0.0; 2];
        // Each comes first as often as the other.
        for turn in [round % 2, (round + 1) % 2] {
            let cluster = if turn == 0 { &mut never } else { &mut once };
            for node in &mut cluster.nodes {
                if let Some(names) = &mut node.share {
                    names.prefix = format!("{}/{round}-", node.name);
                }
            }
            rates[turn as usize] = per_second(share, register_shares(cluster, count, 0)?)?;
        }
        let [without, closed] = rates;
        ratios.push(closed / without);
    }
    Ok(Unwatched { after_the_last_watch_ratio: (median(&ratios)? * 1000.0).round() / 1000.0 })
}

/// The figure in a row, for people.
pub(super) fn rows(figures: &Unwatched) -> Vec<Vec<String>> {
    let ratio = format!("{} x", figures.after_the_last_watch_ratio);
    vec![row("  with none left, a minute after the last", ratio, "to where nobody ever watched")]
}
