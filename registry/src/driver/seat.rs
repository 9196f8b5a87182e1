//! The small actor that holds something for its owner, and takes no messages: a name of an election, or a place in a semaphore.

use callsign_store::{planted, supervision::Supervisor};
use callsign_transport::RactorClusterMessage;
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr};

/// What such an actor takes.
#[derive(RactorClusterMessage)]
pub(crate) enum Never {}
callsign_transport::remote_message!(Never, "callsign.seat/1");

struct SeatActor;

impl Actor for SeatActor {
    type Msg = Never;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Never>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// The owner of such an actor, which ends with this. Its member hears of the end, and gives up what the actor has or is still granted.
pub(crate) struct Seat(ActorRef<Never>);

impl Seat {
    /// Starts one, in the runtime of the node. That of the caller may rest while this is dropped, and the end of the actor would be
    /// heard by nobody.
    pub(crate) async fn start(parts: &Supervisor) -> Result<Self, SpawnErr> {
        // Nor is one left behind if the caller stops waiting.
        let started = parts.at_home(async { Ok(Self(Actor::spawn(None, SeatActor, ()).await?.0)) }).await;
        started.unwrap_or_else(|| Err(SpawnErr::StartupFailed("the node's runtime has ended".into())))
    }

    /// The actor.
    pub(crate) fn actor(&self) -> &ActorRef<Never> {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !planted!("place-outlives-its-guard") {
            self.0.stop(Some("callsign: what it holds is given up".into()));
        }
    }
}

/// Starts such an actor that nobody owns.
#[cfg(test)]
pub(crate) async fn seat() -> Result<ActorRef<Never>, SpawnErr> {
    Ok(Actor::spawn(None, SeatActor, ()).await?.0)
}
