//! One registration after the other, and bare commits to the same store and bare round trips in between.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use callsign::open_store;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::Node;
use crate::{
    commands::bench::orders::{Names, Sequential},
    fenced::FencedCommits,
    measure::{micros, now_ns, quantile, rounded},
};

/// Sends back each byte that comes, in a task of the runtime in which this node runs. Says where.
pub(super) async fn echo() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (mut reads, mut writes) = stream.split();
        tokio::io::copy(&mut reads, &mut writes).await
    });
    Ok(address)
}

/// Measures in turns, so that all see the same machine.
pub(super) async fn measure(
    node: &Node,
    names: Names,
    store: &str,
    echo: Option<SocketAddr>,
) -> Result<Sequential> {
    let mut commits =
        FencedCommits::begin(open_store(store)?, format!("callsign-bench/{}", names.prefix)).await?;
    let mut echo = match echo {
        Some(address) => Some(TcpStream::connect(address).await?),
        None => None,
    };
    let (mut register, mut commit, mut round_trip) = (Vec::new(), Vec::new(), Vec::new());
    for number in names.from..names.to {
        let name = names.name(number);
        let start = now_ns();
        node.registry.register(&name, &node.actor).await?;
        let between = now_ns();
        commits.commit().await?;
        let committed = now_ns();
        register.push(micros(between - start));
        commit.push(micros(committed - between));
        if let Some(echo) = &mut echo {
            echo.write_u8(0).await?;
            echo.read_u8().await?;
            round_trip.push(micros(now_ns() - committed));
        }
    }
    commits.remove().await?;
    let of = |samples: &mut [f64], share| quantile(samples, share).map(rounded).context("no samples");
    Ok(Sequential {
        register_p50: of(&mut register, 0.5)?,
        register_p99: of(&mut register, 0.99)?,
        commit_p50: of(&mut commit, 0.5)?,
        round_trip_p50: echo.map(|_| of(&mut round_trip, 0.5)).transpose()?,
    })
}
