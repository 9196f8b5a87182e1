//! An actor that says how it ended: `ractor` runs no `post_stop` after a panic.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::{Part, text, turns::InTurn};

pub(super) struct Watched<A> {
    pub(super) handler: A,
    pub(super) part: Part,
}

impl<A: Actor> Watched<A> {
    /// Says at once what ends the actor, before anything else can ask the node.
    async fn watch(
        &self,
        work: impl Future<Output = Result<(), ActorProcessingErr>>,
    ) -> Result<(), ActorProcessingErr> {
        #[allow(clippy::redundant_async_block)] // more is in it where tests may strike
        let work = async {
            #[cfg(any(test, feature = "faults"))]
            self.part.supervisor.strike(&self.part.name);
            work.await
        };
        let turns = self.part.supervisor.shared.turns.clone();
        let done = match turns {
            None => AssertUnwindSafe(work).catch_unwind().await,
            Some(turns) => InTurn::new(&self.part.name, turns, AssertUnwindSafe(work).catch_unwind()).await,
        };
        match done {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.part.fails(format!("failed: {error}"));
                Err(error)
            }
            Err(panic) => {
                self.part.fails(format!("panicked: {}", text(&*panic)));
                resume_unwind(panic)
            }
        }
    }
}

impl<A: Actor> Actor for Watched<A> {
    type Msg = A::Msg;
    type State = A::State;
    type Arguments = A::Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<A::Msg>,
        arguments: A::Arguments,
    ) -> Result<A::State, ActorProcessingErr> {
        self.handler.pre_start(myself, arguments).await
    }

    async fn post_start(
        &self,
        myself: ActorRef<A::Msg>,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        self.watch(self.handler.post_start(myself, state)).await
    }

    async fn handle(
        &self,
        myself: ActorRef<A::Msg>,
        message: A::Msg,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        self.watch(self.handler.handle(myself, message, state)).await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<A::Msg>,
        event: SupervisionEvent,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        self.watch(self.handler.handle_supervisor_evt(myself, event, state)).await
    }

    async fn post_stop(
        &self,
        myself: ActorRef<A::Msg>,
        state: &mut A::State,
    ) -> Result<(), ActorProcessingErr> {
        self.watch(self.handler.post_stop(myself, state)).await
    }
}
