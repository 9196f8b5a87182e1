//! How long registrations take in a busy cluster of three processes, and how long while strangers connect to it all the time.
//!
//!     cargo run --release -p callsign-tests --example besieged [SECONDS [ROUNDS [LORIS [SCANS_PER_SECOND]]]]
//!
//! Quiet and besieged windows take turns, so that both see the same machine. Each client registers a name and gives it up,
//! over HTTP, without a pause; the same clients all the time. The strangers: slow-loris sockets, a port scan with garbage,
//! half of them from the nodes' own address, and a node with a wrong secret. What is printed last is the ratio. It fails if the
//! p99 is more than twice as long in every round: another program may disturb one of them.

#![forbid(unsafe_code)]

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use callsign_tests::{Cluster, Siege, StartOptions, Strangers};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// For each node.
const CLIENTS: usize = 2;
/// At the start of a window, not measured: what was under way ends, strangers come or go.
const SETTLING: Duration = Duration::from_secs(1);

/// The p99 under siege may be so many times that of the quiet cluster.
const MOST_SLOWER: f64 = 2.0;

type Samples = Arc<Mutex<Vec<Duration>>>;

fn argument(n: usize, default: u32) -> u32 {
    std::env::args().nth(n).map_or(default, |text| text.parse().expect("a number"))
}

fn main() -> ExitCode {
    let (seconds, rounds) = (argument(1, 10), argument(2, 3));
    let strangers = Strangers { loris: argument(3, 500), scans_per_second: argument(4, 200) };
    let with_secret = |secret: &str| StartOptions {
        secret: Some(secret.to_owned()),
        ..StartOptions::lease(Duration::from_secs(10))
    };
    let mut cluster = Cluster::start(with_secret("correct horse battery staple"), &NAMES);
    let listen: Vec<SocketAddr> =
        NAMES.iter().map(|name| cluster.node(name).ready.listen.parse().expect("an address")).collect();
    println!("load average before: {}", load_average());

    let (samples, ends) = (Samples::default(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = NAMES
        .iter()
        .flat_map(|name| (0..CLIENTS).map(move |n| (name, n)))
        .map(|(name, n)| {
            let client = cluster.node(name).client.clone();
            let (samples, ends, name) = (samples.clone(), ends.clone(), format!("{name}-{n}"));
            thread::spawn(move || {
                while !ends.load(Relaxed) {
                    let began = Instant::now();
                    client.register(&name).ok();
                    let took = began.elapsed();
                    client.unregister(&name).ok();
                    samples.lock().expect("nobody panics under it").push(took);
                }
            })
        })
        .collect();
    let window = || {
        thread::sleep(SETTLING);
        samples.lock().expect("nobody panics under it").clear();
        thread::sleep(Duration::from_secs(seconds.into()));
        std::mem::take(&mut *samples.lock().expect("nobody panics under it"))
    };
    let memory = |cluster: &Cluster| NAMES.map(|name| cluster.node(name).memory() >> 10);
    let (mut quiet, mut besieged) = (Vec::new(), Vec::new());
    let mut best = f64::INFINITY;
    window(); // names, links and caches are there
    let before = memory(&cluster);
    for round in 1..=rounds {
        let calm = window();
        let siege = Siege::start(&listen, strangers);
        let stranger = cluster.launch_aside("z", &with_secret("incorrect horse battery"));
        let under = window();
        println!(
            "round {round}: quiet {}, besieged {}; strangers {:?}",
            shown(&calm),
            shown(&under),
            siege.done
        );
        drop((siege, stranger));
        best = best.min(as_ms(quantile(&under, 99)) / as_ms(quantile(&calm, 99)));
        quiet.extend(calm);
        besieged.extend(under);
    }
    let after = memory(&cluster);
    ends.store(true, Relaxed);
    for client in clients {
        client.join().expect("every registration was granted");
    }
    println!("load average after: {}", load_average());
    println!("memory of the nodes, KiB: {before:?} before, {after:?} after");
    for name in NAMES {
        let node = cluster.node(name);
        let downs =
            node.log().lines().filter(|line| line.contains("down: ") && !line.contains("peer=z@")).count();
        println!("{name}: {downs} links lost; refused {}", node.client.status().ok()["admission"]["refused"]);
    }
    println!("quiet:    {}", shown(&quiet));
    println!("besieged: {}", shown(&besieged));
    let ratio = |q| as_ms(quantile(&besieged, q)) / as_ms(quantile(&quiet, q));
    println!("besieged / quiet: p50 {:.2}, p99 {:.2}, p99 of the best round {best:.2}", ratio(50), ratio(99));
    // Without a single registration it is no number, and no success.
    if best <= MOST_SLOWER { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

fn as_ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn quantile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len().saturating_sub(1)) * percent / 100).copied().unwrap_or_default()
}

fn shown(samples: &[Duration]) -> String {
    let at = |percent| as_ms(quantile(samples, percent));
    format!("p50 {:.2} ms, p99 {:.2} ms ({} registrations)", at(50), at(99), samples.len())
}
