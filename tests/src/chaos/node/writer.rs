//! The singleton's leader: it asks whether it leads, works for a while, and writes to the sinks, in which time it may have been
//! stopped, and be late.

use std::{sync::Arc, time::Duration};

use callsign::{
    RactorClusterMessage,
    election::{Fence, Leadership},
    remote_message,
};
use callsign_election::sink::{ByEpoch, Token};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::Shared;
use crate::chaos::{
    event::Event,
    journal::now,
    sink::{MESSAGE, SEAL, WRITE},
};

/// Between the check and the write.
const WORK: Duration = Duration::from_millis(60);
/// Between a write and the next check.
const REST: Duration = Duration::from_millis(20);

#[derive(Debug, RactorClusterMessage)]
pub(super) enum Work {
    Now,
}
remote_message!(Work, "callsign.chaos.work/1");

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) leadership: Leadership<Fence>,
}

impl Writer {
    /// Tells both sinks, and waits until they have heard.
    async fn tell(&self, sink: &mut UnixStream, what: u8, fence: Fence) -> std::io::Result<()> {
        let mut message = [what; MESSAGE];
        message[1..].copy_from_slice(&Token::<ByEpoch>::from(fence).to_bytes());
        sink.write_all(&message).await?;
        // Who is refused is not told to stop here: it asks for itself before the next write.
        sink.read_u8().await.map(drop)
    }
}

impl Actor for Writer {
    type Msg = Work;
    type State = UnixStream;
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<Work>, (): ()) -> Result<UnixStream, ActorProcessingErr> {
        let mut sink = UnixStream::connect(&self.shared.args.sink).await?;
        let fence = self.leadership.check()?;
        self.tell(&mut sink, SEAL, fence).await?;
        myself.send_after(Duration::ZERO, || Work::Now);
        Ok(sink)
    }

    async fn handle(
        &self,
        myself: ActorRef<Work>,
        Work::Now: Work,
        sink: &mut UnixStream,
    ) -> Result<(), ActorProcessingErr> {
        let from = now();
        if let Ok(fence) = self.leadership.check() {
            let event = Event::Led { from, to: now(), epoch: fence.epoch.0 };
            self.shared.site.journal.write(&event);
            tokio::time::sleep(WORK).await;
            self.tell(sink, WRITE, fence).await?;
        }
        myself.send_after(REST, || Work::Now);
        Ok(())
    }
}
