//! Makes keys in etcd, each if it has never been made, by so many connections at once, and prints how many a second: what a service would do that
//! kept a key for each name. It talks to etcd's JSON gateway. `tests/beside/run` calls it.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("beside_etcd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [address, connections, keys] = arguments.as_slice() else {
        bail!("usage: beside_etcd HOST:PORT CONNECTIONS KEYS")
    };
    let (connections, keys): (u32, u32) = (connections.parse()?, keys.parse()?);
    // Keys that no former run made.
    let run = SystemTime::UNIX_EPOCH.elapsed()?.as_nanos();
    let next = AtomicU32::new(0);
    let begun = Instant::now();
    thread::scope(|scope| {
        let make = || {
            let agent = ureq::Agent::new_with_defaults();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= keys {
                    return Ok(());
                }
                make(&agent, address, &format!("{run}name{number}"))?;
            }
        };
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(make)).collect();
        // A thread that panicked has said why.
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a connection's thread panicked")))
    })?;
    println!("{:.1}", f64::from(keys) / begun.elapsed().max(Duration::from_nanos(1)).as_secs_f64());
    Ok(())
}

/// Makes one key, which must not have been there.
fn make(agent: &ureq::Agent, address: &str, key: &str) -> Result<()> {
    // The gateway has keys and values as base64: letters and digits, four at a time.
    let key = format!("{key}{}", "A".repeat((4 - key.len() % 4) % 4));
    let request = json!({
        "compare": [{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }],
        "success": [{ "requestPut": { "key": key, "value": "aG9sZGVy" } }],
    });
    let url = format!("http://{address}/v3/kv/txn");
    let answer: Value =
        agent.post(&url).send_json(&request).context("etcd does not answer")?.body_mut().read_json()?;
    ensure!(answer["succeeded"] == true, "the key was there, or etcd refused it: {answer}");
    Ok(())
}
