//! The lease is given back only when nobody is left of the program.

use std::time::Duration;

use callsign_election::{Attempt, Context, Fault, Grant, Init, Oracle, Reaction, Signal, Verdict};
use futures::stream::BoxStream;

use crate::program::nobody_is_left;

/// An oracle whose seat stays taken while a process of the program is there: one that the kernel cannot kill now, say.
/// The end of the lease frees it then.
pub(crate) struct AfterTheProgram<O>(pub(crate) O);

impl<O: Oracle> Oracle for AfterTheProgram<O> {
    type Fence = O::Fence;
    type Info = O::Info;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.0.init(context).await
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<O::Fence>, Fault> {
        self.0.claim(attempt).await
    }

    async fn refresh(
        &mut self,
        attempt: Attempt,
        held: &Grant<O::Fence>,
    ) -> Result<Verdict<O::Fence>, Fault> {
        self.0.refresh(attempt, held).await
    }

    async fn abdicate(&mut self, held: &Grant<O::Fence>) -> Result<bool, Fault> {
        match nobody_is_left().await {
            Ok(()) => self.0.abdicate(held).await,
            Err(cause) => Err(Fault::Transient { maybe_committed: false, cause }),
        }
    }

    /// It takes the seat away as well, if it is written that this process has it.
    async fn leave(&mut self, held: Option<&Grant<O::Fence>>) -> Result<bool, Fault> {
        match nobody_is_left().await {
            Ok(()) => self.0.leave(held).await,
            Err(cause) => Err(Fault::Transient { maybe_committed: false, cause }),
        }
    }

    async fn tidy(&mut self) -> Result<Option<Duration>, Fault> {
        self.0.tidy().await
    }

    async fn rivals(&mut self) -> Result<bool, Fault> {
        self.0.rivals().await
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        self.0.signals()
    }

    async fn handle_info(&mut self, info: O::Info) -> Reaction<O::Fence> {
        self.0.handle_info(info).await
    }
}
