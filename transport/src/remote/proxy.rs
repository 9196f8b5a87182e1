//! Proxies: the one place that uses what ractor made for its own cluster library.
//!
//! `ActorRuntime::spawn_linked_remote` is public but documented as `ractor_cluster`'s. Its future pends only if
//! `pre_start` does, and ours does not, so one poll is enough: that is what lets `resolve` be synchronous.

use std::sync::Arc;

use futures::FutureExt;
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, ActorStatus, SpawnErr,
    SupervisionEvent, message::SerializedMessage,
};

use super::Kind;
use crate::net::connection::LinkHandle;

/// Proxies take serialised messages only.
#[derive(ractor_cluster_derive::RactorMessage)]
pub(super) struct Never;

/// Owns the proxies of a link: they end with it, and it does not mind when they end.
pub(super) struct LinkSupervisor;

impl Actor for LinkSupervisor {
    type Msg = Never;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Never>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Never>,
        _: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(()) // by default the first proxy to end would take all others with it
    }
}

/// Stands for one actor of another node.
struct Proxy {
    kind: Kind,
}

impl Actor for Proxy {
    type Msg = Never;
    type State = Arc<LinkHandle>;
    type Arguments = Arc<LinkHandle>;

    async fn pre_start(
        &self,
        _: ActorRef<Never>,
        link: Arc<LinkHandle>,
    ) -> Result<Arc<LinkHandle>, ActorProcessingErr> {
        Ok(link)
    }

    async fn handle_serialized(
        &self,
        myself: ActorRef<Never>,
        message: SerializedMessage,
        link: &mut Arc<LinkHandle>,
    ) -> Result<(), ActorProcessingErr> {
        link.forward_from(myself.get_id().pid(), self.kind, message);
        Ok(())
    }
}

/// Starts a proxy. Does not wait; called inside a runtime.
pub(super) fn spawn(
    id: ActorId,
    kind: Kind,
    link: Arc<LinkHandle>,
    supervisor: ActorCell,
) -> Result<ActorCell, SpawnErr> {
    // Unnamed: ractor removes the *local* name of the same spelling when a named proxy ends.
    ActorRuntime::<Proxy>::spawn_linked_remote(None, Proxy { kind }, id, link, supervisor)
        .now_or_never()
        .unwrap_or_else(|| Err(SpawnErr::StartupFailed("ractor waited where it never did before".into())))
        .map(|(proxy, _)| proxy.get_cell())
}

/// Whether a proxy still takes messages.
pub(super) fn is_alive(proxy: &ActorCell) -> bool {
    proxy.get_status() < ActorStatus::Draining
}
