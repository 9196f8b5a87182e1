//! The small actor that holds something for its owner, and takes no messages: a name of an election, or a place in a semaphore.

use callsign_transport::RactorClusterMessage;
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr};

/// What such an actor takes.
#[derive(RactorClusterMessage)]
pub(crate) enum Never {}
callsign_transport::remote_message!(Never, "callsign.seat/1");

struct Seat;

impl Actor for Seat {
    type Msg = Never;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Never>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Starts one.
pub(crate) async fn seat() -> Result<ActorRef<Never>, SpawnErr> {
    Ok(Actor::spawn(None, Seat, ()).await?.0)
}
