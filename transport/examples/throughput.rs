//! How many small messages one link carries: `cargo run --release -p callsign-transport --example throughput`.
#![allow(clippy::disallowed_methods)] // it measures

use std::time::{Duration, Instant};

use callsign_transport::{Endpoint, EndpointConfig, Lane, LinkEvent, Secret, SendError};

const MESSAGES: u64 = 2_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for secret in [None, Some(Secret::new("a secret for the measurement")?)] {
        let mut ends = Vec::new();
        for (node, incarnation) in [("a", 1), ("b", 2)] {
            let mut config = EndpointConfig::new("bench", node, incarnation, "127.0.0.1:0".parse()?);
            config.keys.secrets = secret.iter().cloned().collect();
            ends.push(Endpoint::start(config).await?);
        }
        let (a, b) = (&ends[0], &ends[1]);
        let mut events = a.subscribe("bench");
        b.set_peers(vec![("a".into(), a.local_addr().to_string())]);
        let link = loop {
            if let Some((link, _)) = b.link_to("a") {
                break link;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let start = Instant::now();
        let sender = b.clone();
        tokio::spawn(async move {
            let body = bytes::Bytes::from_static(&[7; 64]);
            for n in 0..MESSAGES {
                while let Err(SendError::QueueFull { .. }) =
                    sender.send(link, Lane::Control, "bench", body.clone())
                {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                if n % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        let (mut count, mut batch) = (0, Vec::new());
        while count < MESSAGES && events.recv_many(&mut batch, 1024).await > 0 {
            count += batch
                .drain(..)
                .filter(|event| matches!(event, LinkEvent::Message { .. }))
                .map(|_| 1)
                .sum::<u64>();
        }
        let rate = u128::from(count) * 1_000_000 / start.elapsed().as_micros().max(1);
        let kind = if secret.is_some() { "encrypted" } else { "in the clear" };
        println!("{kind}: {rate} messages of 64 bytes per second, sender and receiver on one thread");
    }
    Ok(())
}
