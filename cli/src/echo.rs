//! The actors that `callsign node` hosts: one says back what it is told, and counts how often.

use callsign::{RactorClusterMessage, remote_message};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr};

/// What an echo actor takes.
#[derive(Debug, RactorClusterMessage)]
pub(crate) enum Echo {
    /// Answers `node a says text`.
    #[rpc]
    Say(String, RpcReplyPort<String>),
    /// Answers how often it was asked to say something.
    #[rpc]
    Count(RpcReplyPort<u64>),
}
remote_message!(Echo, "callsign.echo/1");

/// Starts an echo actor on this node.
pub(crate) async fn spawn(node: &str) -> Result<ActorRef<Echo>, SpawnErr> {
    Ok(Actor::spawn(None, EchoActor, node.to_owned()).await?.0)
}

struct EchoActor;

struct State {
    node: String,
    said: u64,
}

impl Actor for EchoActor {
    type Msg = Echo;
    type State = State;
    type Arguments = String;

    async fn pre_start(&self, _myself: ActorRef<Echo>, node: String) -> Result<State, ActorProcessingErr> {
        Ok(State { node, said: 0 })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Echo>,
        message: Echo,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // A caller that does not wait any more does not mind.
        match message {
            Echo::Say(text, reply) => {
                state.said += 1;
                let _ = reply.send(format!("node {} says {text}", state.node));
            }
            Echo::Count(reply) => {
                let _ = reply.send(state.said);
            }
        }
        Ok(())
    }
}
