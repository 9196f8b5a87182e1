//! A connection to one of the members, kept up: the first of the URL that answers, and serves, is used until it fails.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::TryFutureExt;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    layout,
    member::{EtcdNotConnected, EtcdPlace, EtcdSession, MemberClient, PROBE},
    watches::Event,
};
use crate::driver::pauses::Pauses;

#[derive(Clone)]
enum EtcdLineState {
    Up(Arc<EtcdSession>),
    /// With the reason.
    Down(Arc<str>),
}

/// A handle to a connection that a task keeps up until the runtime ends.
#[derive(Clone)]
pub(super) struct EtcdLine {
    state: watch::Receiver<EtcdLineState>,
}

impl EtcdLine {
    /// Starts the task that keeps it up, and that tells the watches of it. Call it inside the store's runtime.
    pub(super) fn start(place: Arc<EtcdPlace>, events: mpsc::UnboundedSender<Event>) -> Self {
        let (states, state) = watch::channel(EtcdLineState::Down("connecting".into()));
        let supervisor = place.supervisor.clone();
        supervisor.task("the connection to etcd", keep_up(place, states, events));
        Self { state }
    }

    /// The connection, as soon as there is one; at the deadline, why there is none.
    pub(super) async fn session(&self, deadline: Instant) -> Result<Arc<EtcdSession>, String> {
        let mut states = self.state.clone();
        let up = states.wait_for(|state| matches!(state, EtcdLineState::Up(_)));
        let up = match tokio::time::timeout_at(deadline.into(), up).await {
            Ok(Ok(state)) => Some(state.clone()),
            // The task is gone only with the runtime.
            Ok(Err(_)) | Err(_) => None,
        };
        match up.unwrap_or_else(|| self.state.borrow().clone()) {
            EtcdLineState::Up(session) => Ok(session),
            EtcdLineState::Down(why) => Err(why.to_string()),
        }
    }
}

/// Goes from member to member, whenever the connection is gone. The last one is asked first: it may be well, and only the
/// leader that it had passed our request to is not.
async fn keep_up(
    place: Arc<EtcdPlace>,
    states: watch::Sender<EtcdLineState>,
    events: mpsc::UnboundedSender<Event>,
) {
    let mut pauses = Pauses::default();
    let mut at = 0;
    loop {
        let mut lived = Duration::ZERO;
        for _ in 0..place.address.members.len() {
            match begin(&place, &place.address.members[at]).await {
                Ok(session) => {
                    let started = Instant::now();
                    states.send_replace(EtcdLineState::Up(session.clone()));
                    // The keeper is gone only with the runtime.
                    let _ = events.send(Event::Up(session.clone()));
                    session.given_up().await;
                    states.send_replace(EtcdLineState::Down(EtcdNotConnected::Ended.to_string().into()));
                    let _ = events.send(Event::Down);
                    lived = started.elapsed();
                    break;
                }
                Err(error) => {
                    let member = &place.address.members[at];
                    crate::logged!(debug, member, %error, "a member of etcd does not serve");
                    states.send_replace(EtcdLineState::Down(error.to_string().into()));
                    at = (at + 1) % place.address.members.len();
                }
            }
        }
        tokio::time::sleep(pauses.after(lived)).await;
    }
}

/// Connects to a member, and sees that it serves, and that it is the store that was opened.
async fn begin(place: &Arc<EtcdPlace>, name: &str) -> Result<Arc<EtcdSession>, EtcdNotConnected> {
    let member = MemberClient::connect(&place.address, name).await?;
    let known = place.newest.known();
    let looked = layout::look(&member, &place.address).map_err(EtcdNotConnected::Said);
    let (found, version) = timeout(PROBE, looked).await.map_err(|_| EtcdNotConnected::Silent)??;
    if found.as_deref() != Some(place.identity.as_slice()) {
        return Err(EtcdNotConnected::Replaced);
    }
    if place.newest.begins_with(known, version) {
        let (before, after) = (known.0, version.0);
        crate::logged!(error, before, after, "etcd has lost commits: fencing tokens may be given out twice");
    }
    Ok(Arc::new(EtcdSession::of(member, place.clone(), version)))
}
