//! The supervisor, as what leading means.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_election::{Abort, Grant, Lost, Role, Term};
use callsign_store::{Clock, ids::Epoch, lock::lock};
use callsign_transport::RemoteMessage;
use ractor::ActorRef;
use tokio::sync::{oneshot, watch};

use super::{
    child::ChildHandle,
    events::{Publisher, SingletonEvent},
    hand_over::Cell,
    supervisor::Command,
};

/// Says to the supervisor what the campaign says to it.
pub(super) struct Supervised<F, M: RemoteMessage>
where
    F: Clone + Send + Sync + 'static,
{
    pub(super) supervisor: ActorRef<Command<F, M>>,
    pub(super) child_handle: Arc<Mutex<Option<ChildHandle>>>,
    pub(super) given_up: watch::Receiver<()>,
    /// Where hand-over data is, and how long it may take to get it. `None`: there is none.
    pub(super) takes: Option<(Cell, Duration)>,
    /// What was left for this term: kept while the term is being taken up again.
    pub(super) taken: Option<(Epoch, Option<Vec<u8>>)>,
    pub(super) events: Publisher,
    pub(super) clock: Clock,
}

const ENDED: &str = "the supervisor has ended";

impl<F, M: RemoteMessage> Supervised<F, M>
where
    F: Clone + Send + Sync + 'static,
{
    async fn take(&mut self, epoch: Epoch) -> Option<Vec<u8>> {
        let (cell, limit) = self.takes.clone()?;
        if let Some((of, data)) = &self.taken
            && *of == epoch
        {
            return data.clone();
        }
        let taken = tokio::select! {
            biased;
            taken = cell.take(epoch) => taken.map_err(|error| error.to_string()),
            () = self.clock.sleep_until(self.clock.now() + limit) => Err("no answer in time".into()),
        };
        let data = match taken {
            Ok(Some((from, data))) => {
                self.events.tell(&SingletonEvent::TookOver { bytes: data.len(), from });
                Some(data)
            }
            Ok(None) => None,
            Err(why) => {
                self.events.tell(&SingletonEvent::NotHandedOver { why });
                None
            }
        };
        self.taken = Some((epoch, data.clone()));
        data
    }
}

impl<F, M: RemoteMessage> Role<F> for Supervised<F, M>
where
    F: Clone + Send + Sync + 'static,
{
    async fn activate(&mut self, grant: &Grant<F>) -> Result<(), Abort> {
        let handed_over = self.take(grant.term.epoch).await;
        self.given_up.mark_unchanged();
        let (done, answer) = oneshot::channel();
        let lead = Command::Lead { grant: grant.clone(), handed_over, done };
        self.supervisor.cast(lead).map_err(|_| Abort(ENDED.into()))?;
        match answer.await {
            Ok(result) => result.map_err(Abort),
            Err(_) => Err(Abort(ENDED.into())),
        }
    }

    async fn deactivate(&mut self, why: Lost, budget: Duration) {
        let (done, answer) = oneshot::channel();
        if self.supervisor.cast(Command::Rest { why, budget, done }).is_ok() {
            let _ = answer.await; // a supervisor that has ended has no children
        }
    }

    fn abort(&mut self) {
        // Past the supervisor: whatever keeps it, the child ends now.
        if let Some(child_handle) = &*lock(&self.child_handle) {
            child_handle.cut();
        }
        let _ = self.supervisor.cast(Command::Abort);
    }

    async fn aborted(&mut self) {
        let (done, answer) = oneshot::channel();
        if self.supervisor.cast(Command::Aborted { done }).is_ok() {
            let _ = answer.await;
        }
    }

    async fn follow(&mut self, leader: Option<&Term>) {
        let _ = self.supervisor.cast(Command::Follow { leader: leader.cloned() });
    }

    async fn ended(&mut self) {
        let _ = self.given_up.changed().await; // an error: the supervisor has ended
    }
}

impl<F, M: RemoteMessage> Drop for Supervised<F, M>
where
    F: Clone + Send + Sync + 'static,
{
    fn drop(&mut self) {
        let _ = self.supervisor.cast(Command::End);
    }
}
