//! The server: one seat, in memory. Each claim that wins gets a code; only who shows it refreshes or releases.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde::{Deserialize, Serialize};

/// The longest lease that is given.
const MAX_LEASE: Duration = Duration::from_secs(60);

/// What a claim says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) member: String,
    pub(crate) incarnation: u64,
    /// The same for an attempt that is made again.
    pub(crate) nonce: u64,
    pub(crate) lease_ms: u64,
}

/// What a refresh and a release say.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Show {
    pub(crate) code: String,
    pub(crate) lease_ms: u64,
}

/// Who has the seat, for everybody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) member: String,
    pub(crate) incarnation: u64,
    /// How many terms there were. In memory: it begins again with the server, so it is no fence.
    pub(crate) term: u64,
}

/// What the winner is told, and nobody else.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Won {
    pub(crate) code: String,
    pub(crate) holder: Holder,
    pub(crate) left_ms: u64,
}

struct Lease {
    holder: Holder,
    nonce: u64,
    code: String,
    until: Instant,
}

#[derive(Default)]
struct Seat {
    terms: u64,
    lease: Option<Lease>,
}

/// A server that runs. A test moves its clock on by ending leases earlier.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    #[cfg(test)]
    seat: Shared,
}

#[cfg(test)]
impl Server {
    /// Lets time pass for the server.
    pub(crate) fn pass(&self, time: Duration) {
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = &mut seat.lease {
            lease.until -= time;
        }
    }
}

type Shared = Arc<Mutex<Seat>>;

impl Seat {
    /// The lease, if it is not over.
    fn valid(&mut self) -> Option<&mut Lease> {
        self.lease.take_if(|lease| lease.until <= Instant::now());
        self.lease.as_mut()
    }

    /// The lease, if it is not over and this is its code.
    fn shown(&mut self, code: &str) -> Option<&mut Lease> {
        self.valid().filter(|lease| lease.code == code)
    }
}

impl Lease {
    fn won(&self) -> Won {
        let left = self.until.saturating_duration_since(Instant::now());
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Won { code: self.code.clone(), holder: self.holder.clone(), left_ms }
    }
}

fn lease(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis).min(MAX_LEASE)
}

type Answer<T, E> = Result<Json<T>, (StatusCode, Json<E>)>;

async fn claim(State(seat): State<Shared>, Json(claim): Json<Claim>) -> Answer<Won, Holder> {
    let mut seat = seat.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lease) = seat.valid() {
        let Holder { member, incarnation, .. } = &lease.holder;
        // The same attempt: its answer was lost.
        let is_same = (member, *incarnation, lease.nonce) == (&claim.member, claim.incarnation, claim.nonce);
        return if is_same {
            Ok(Json(lease.won()))
        } else {
            Err((StatusCode::CONFLICT, Json(lease.holder.clone())))
        };
    }
    seat.terms += 1;
    let holder = Holder { member: claim.member, incarnation: claim.incarnation, term: seat.terms };
    let code = format!("{:032x}", rand::random::<u128>());
    let lease = Lease { holder, nonce: claim.nonce, code, until: lease(claim.lease_ms) };
    Ok(Json(seat.lease.insert(lease).won()))
}

async fn refresh(State(seat): State<Shared>, Json(show): Json<Show>) -> Answer<Won, Option<Holder>> {
    let mut seat = seat.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mine) = seat.shown(&show.code) {
        mine.until = lease(show.lease_ms);
        return Ok(Json(mine.won()));
    }
    let holder = seat.valid().map(|lease| lease.holder.clone());
    Err((StatusCode::FORBIDDEN, Json(holder)))
}

async fn release(State(seat): State<Shared>, Json(show): Json<Show>) -> Json<bool> {
    let mut seat = seat.lock().unwrap_or_else(PoisonError::into_inner);
    let is_mine = seat.shown(&show.code).is_some();
    if is_mine {
        seat.lease = None;
    }
    Json(is_mine)
}

/// Serves on a free port of loopback, until the runtime ends.
pub(crate) async fn serve() -> std::io::Result<Server> {
    let seat = Shared::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/claim", post(claim))
        .route("/refresh", post(refresh))
        .route("/release", post(release))
        .with_state(seat.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(Server {
        address,
        #[cfg(test)]
        seat,
    })
}
