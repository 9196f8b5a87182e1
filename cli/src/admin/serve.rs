//! Serves the routes: so many connections at once, and none that says nothing for long.
//!
//! A silent connection costs nobody but itself: its head has to come within [`HEAD`], its body within the time that [`callsign::admin`] gives it, and
//! what is asked says itself how long it may take, an hour at most. When all places are taken, others wait to be accepted.

use std::{sync::Arc, time::Duration};

use axum::{Extension, Router, extract::ConnectInfo};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::sleep,
};
use tower::Layer;

/// How long the head of a request may take to arrive, also of the next one over the same connection.
const HEAD: Duration = Duration::from_secs(30);

/// The most bytes of the head of a request.
const MAX_HEAD: usize = 16 << 10;

/// How many connections are served at once.
const CONNECTIONS: usize = 512;

/// How long to wait when the system lets nobody in: it has no descriptors left, say.
const REFUSED: Duration = Duration::from_millis(100);

/// Limits of an endpoint. Tests have smaller ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) head: Duration,
    pub(crate) connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: HEAD, connections: CONNECTIONS }
    }
}

/// Serves until `leaving` is true and the answers under way are out.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: Limits,
    mut leaving: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // Never closed.
            let place = places.clone().acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        tokio::select! {
            biased;
            () = is_leaving(&mut leaving) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (place, accepted) = accepted => match accepted {
                Ok((stream, from)) => {
                    let _ = stream.set_nodelay(true); // only slower without
                    let mut leaving = leaving.clone();
                    let service = TowerToHyperService::new(Extension(ConnectInfo(from)).layer(routes.clone()));
                    let mut builder = hyper::server::conn::http1::Builder::new();
                    builder.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(MAX_HEAD);
                    connections.spawn(async move {
                        let connection = builder.serve_connection(TokioIo::new(stream), service);
                        tokio::pin!(connection);
                        // How it ended concerns whoever asked; the place is free in any case.
                        tokio::select! {
                            biased;
                            _ = &mut connection => {}
                            () = is_leaving(&mut leaving) => {
                                connection.as_mut().graceful_shutdown();
                                let _ = connection.await;
                            }
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!("no connection accepted: {error}");
                    sleep(REFUSED).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Ends when the node leaves; too, if nobody can say it any more.
async fn is_leaving(leaving: &mut watch::Receiver<bool>) {
    let _ = leaving.wait_for(|leaving| *leaving).await;
}
