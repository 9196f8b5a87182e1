//! How long a node takes to join beside what 100 000 former nodes left behind within the last hour, and how long without.
//!
//!     cargo run --release -p callsign-tests --example dead_names [NAMES [JOINS]]
//!
//! Both are measured over a file of their own, in one process; what is printed is the median. Fails if joining beside the
//! dead takes more than 1.2 times as long, and 20 ms.

#![forbid(unsafe_code)]

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use callsign::{Config, Registry};
use callsign_tests::leave_behind;

fn argument(n: usize, default: usize) -> usize {
    std::env::args().nth(n).map_or(default, |text| text.parse().expect("a number"))
}

/// The median of some joins, beside one node that is there.
async fn joining(directory: &Path, dead: usize, joins: usize) -> Duration {
    let url = format!("sqlite:{}", directory.join(format!("{dead}.db")).display());
    leave_behind(&url, "default", Duration::from_secs(10), dead).await;
    let ready = Duration::from_secs(60);
    let first = Registry::join(Config::new("x", url.as_str())).await.expect("the first joins");
    assert!(first.ready(ready).await.is_ok(), "{:?}", first.status());
    let mut took = Vec::new();
    for nth in 0..joins {
        let begun = Instant::now();
        let node = Registry::join(Config::new(format!("z{nth}"), url.as_str())).await.expect("it joins");
        assert!(node.ready(ready).await.is_ok(), "{:?}", node.status());
        took.push(begun.elapsed());
        node.leave().await.expect("it leaves");
    }
    first.leave().await.expect("it leaves");
    took.sort();
    took[joins / 2]
}

fn main() -> ExitCode {
    let (dead, joins) = (argument(1, 100_000), argument(2, 15));
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (none, many) = runtime.block_on(async {
        let none = joining(directory.path(), 0, joins).await;
        (none, joining(directory.path(), dead, joins).await)
    });
    let most = none.mul_f64(1.2) + Duration::from_millis(20);
    println!("joining: {none:.1?}; beside {dead} names that came and went: {many:.1?}, at most {most:.1?}");
    if many <= most { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
