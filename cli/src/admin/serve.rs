//! Serves the routes: so many connections at once, and none that says nothing, or takes nothing, for long.
//!
//! A silent connection costs nobody but itself: its head has to come within [`HEAD`], its body within the time that [`callsign::admin`] gives it, and
//! what is asked says itself how long it may take, an hour at most. An answer of which nothing is taken for [`UNREAD`]
//! ends with its connection.
//!
//! When all places are taken, [`SPARE`] more are there for probes alone: what else is asked there is refused, and each of
//! these connections has one answer. When they are taken, too, others wait to be accepted.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{ConnectInfo, Request},
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::sleep,
};
use tower::Layer;

use crate::reply::Refusal;

/// How long the head of a request may take to arrive, also of the next one over the same connection.
const HEAD: Duration = Duration::from_secs(30);

/// The most bytes of the head of a request.
const MAX_HEAD: usize = 16 << 10;

/// How long nothing of an answer may be taken. The kernel sees that: this process knows only what it has handed to it.
const UNREAD: Duration = Duration::from_secs(30);

/// How many connections are served at once.
const CONNECTIONS: usize = 512;

/// How many more are served at once, for probes alone.
const SPARE: usize = 64;

/// What probes ask, without a query: each is answered at once.
const PROBES: [&str; 3] = ["/live", "/ready", "/metrics"];

/// How long to wait when the system lets nobody in: it has no descriptors left, say.
const REFUSED: Duration = Duration::from_millis(100);

/// Limits of an endpoint. Tests have smaller ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) head: Duration,
    pub(crate) unread: Duration,
    pub(crate) connections: usize,
    pub(crate) spare: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: HEAD, unread: UNREAD, connections: CONNECTIONS, spare: SPARE }
    }
}

/// Whether a connection has its place for a probe alone.
#[derive(Clone, Copy, Debug)]
struct ForProbes(bool);

/// Serves until `leaving` is true and the answers under way are out.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: Limits,
    mut leaving: watch::Receiver<bool>,
) {
    let [places, spare] = [limits.connections, limits.spare].map(|places| Arc::new(Semaphore::new(places)));
    let routes = routes.layer(middleware::from_fn(by_place));
    let unread = u32::try_from(limits.unread.as_millis()).unwrap_or(u32::MAX);
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // None of them is ever closed.
            let place = tokio::select! {
                biased;
                place = places.clone().acquire_owned() => (place.ok(), ForProbes(false)),
                place = spare.clone().acquire_owned() => (place.ok(), ForProbes(true)),
            };
            (place, listener.accept().await)
        };
        tokio::select! {
            biased;
            () = is_leaving(&mut leaving) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            ((place, ForProbes(is_spare)), accepted) = accepted => match accepted {
                Ok((stream, from)) => {
                    let _ = stream.set_nodelay(true); // only slower without
                    let _ = set_tcp_user_timeout(&stream, unread); // a place is taken for longer without
                    // Another place may have become free since.
                    let better = if is_spare { places.clone().try_acquire_owned().ok() } else { None };
                    let for_probes = ForProbes(is_spare && better.is_none());
                    let place = better.or(place);
                    let mut leaving = leaving.clone();
                    let routes = Extension(ConnectInfo(from)).layer(routes.clone());
                    let service = TowerToHyperService::new(Extension(for_probes).layer(routes));
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

/// Has a connection with a place for probes answer those alone, and end then.
async fn by_place(
    Extension(ForProbes(for_probes)): Extension<ForProbes>,
    request: Request,
    next: Next,
) -> Response {
    if !for_probes {
        return next.run(request).await;
    }
    let uri = request.uri();
    let mut response = if PROBES.contains(&uri.path()) && uri.query().is_none_or(str::is_empty) {
        next.run(request).await
    } else {
        let why = "this admin endpoint has as many connections as it serves at once: nothing was asked";
        Refusal::unavailable("too_many_connections", why).into_response()
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Ends when the node leaves; too, if nobody can say it any more.
async fn is_leaving(leaving: &mut watch::Receiver<bool>) {
    let _ = leaving.wait_for(|leaving| *leaving).await;
}
