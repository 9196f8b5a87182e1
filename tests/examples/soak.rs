//! Whether a cluster that works for long keeps what it does not need: memory, open files, threads, bytes of the store.
//!
//!     cargo run --example soak -- --minutes 20
//!
//! Three processes over `SQLite`. Clients of two nodes register names that nobody had before, look them up on the other node, and give
//! them up some hundred names later. The third node leaves and comes back twice a minute, in turns by SIGTERM and by SIGKILL, so that
//! sessions, members and leaders change all the time. It fails if the two nodes, or the store, have much more at the end
//! than after the first quarter.

#![forbid(unsafe_code)]

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use callsign_tests::{Cluster, NodeProcess, StartOptions};
use clap::Parser;

/// Has a cluster work for long, and looks at what it keeps.
#[derive(Parser)]
struct Cli {
    /// For how many minutes.
    #[arg(long, default_value = "20")]
    minutes: u64,
}

/// They stay, and are looked at.
const STAYS: [&str; 2] = ["a", "b"];

/// It comes and goes.
const GOES: &str = "c";

/// How many clients there are on each node that stays.
const CLIENTS: usize = 2;

/// How many names each client holds at a time.
const HELD: u64 = 300;

/// Between two changes of the node that comes and goes.
const CHANGE: Duration = Duration::from_secs(15);

/// So much more there may be at the end than after a quarter: of memory and of the store's bytes, as a factor.
const FACTOR: f64 = 1.25;

/// And so many bytes beside it, which is what allocators and write-ahead logs come to.
const SLACK: u64 = 16 << 20;

/// So many more files and threads there may be: links that are being made, threads that wait for work.
const FEW: usize = 24;

/// What there is at a moment.
#[derive(Debug)]
struct Holds {
    memory: Vec<u64>,
    files: Vec<usize>,
    threads: Vec<usize>,
    store: u64,
}

fn main() -> ExitCode {
    let Cli { minutes } = Cli::parse();
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let quarter = Instant::now() + Duration::from_secs(15 * minutes);
    let mut cluster =
        Cluster::start(StartOptions::lease(Duration::from_secs(3)), &[STAYS[0], STAYS[1], GOES]);
    let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    for (at, name) in STAYS.iter().enumerate() {
        for nth in 0..CLIENTS {
            let (own, other) =
                (cluster.node(name).client.clone(), cluster.node(STAYS[1 - at]).client.clone());
            let (ends, done, name) = (ends.clone(), done.clone(), format!("{name}-{nth}"));
            clients.push(thread::spawn(move || {
                for number in 0_u64.. {
                    if ends.load(Relaxed) {
                        return;
                    }
                    // While the seat passes on, a call may have to be asked again; what counts here is what is left behind.
                    let _ = own.register(&format!("{name}-{number}"));
                    let _ = other.whereis(&format!("{name}-{number}"));
                    if let Some(former) = number.checked_sub(HELD) {
                        let _ = own.unregister(&format!("{name}-{former}"));
                    }
                    done.fetch_add(1, Relaxed);
                }
            }));
        }
    }
    let (mut before, mut changes) = (None, 0_u32);
    while Instant::now() < end {
        thread::sleep(CHANGE.min(end.saturating_duration_since(Instant::now())));
        changes += 1;
        match changes % 4 {
            1 => drop(cluster.terminate(GOES)),
            3 => cluster.kill(GOES),
            _ => cluster.launch(GOES),
        }
        if before.is_none() && Instant::now() >= quarter {
            before = Some(holds(&cluster));
        }
    }
    ends.store(true, Relaxed);
    for client in clients {
        client.join().expect("a client does not panic");
    }
    let (before, after) = (before.expect("a quarter is over before the whole is"), holds(&cluster));
    println!("{} names registered and given up, {changes} times a node came or went", done.load(Relaxed));
    println!("after a quarter: {before:?}");
    println!("at the end:      {after:?}");
    let grew = grew(&before, &after);
    for what in &grew {
        println!("grew: {what}");
    }
    if grew.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds(cluster: &Cluster) -> Holds {
    let nodes = || STAYS.iter().map(|name| cluster.node(name));
    let path = cluster.place.url.strip_prefix("sqlite:").unwrap_or_default();
    let size = |path: String| std::fs::metadata(path).map_or(0, |data| data.len());
    Holds {
        memory: nodes().map(NodeProcess::memory).collect(),
        files: nodes().map(NodeProcess::files).collect(),
        threads: nodes().map(NodeProcess::threads).collect(),
        store: size(path.to_owned()) + size(format!("{path}-wal")),
    }
}

/// What there is much more of.
fn grew(before: &Holds, after: &Holds) -> Vec<String> {
    #[allow(clippy::cast_precision_loss)] // of bytes some may be lost here
    let is_much = |before: u64, after: u64| after as f64 > before as f64 * FACTOR + SLACK as f64;
    let bytes = before.memory.iter().zip(&after.memory).map(|(before, after)| ("memory", *before, *after));
    let bytes = bytes.chain([("the store", before.store, after.store)]);
    let bytes = bytes.filter(|(_, before, after)| is_much(*before, *after));
    let files = before.files.iter().zip(&after.files).map(|(before, after)| ("open files", *before, *after));
    let threads =
        before.threads.iter().zip(&after.threads).map(|(before, after)| ("threads", *before, *after));
    let counts = files.chain(threads).filter(|(_, before, after)| *after > before + FEW);
    let counts = counts.map(|(what, before, after)| format!("{what}, from {before} to {after}"));
    bytes
        .map(|(what, before, after)| format!("{what}, from {before} to {after} bytes"))
        .chain(counts)
        .collect()
}
