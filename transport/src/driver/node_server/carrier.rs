//! One connection under one session: sealed bytes outside, the session's own inside.

use std::sync::Arc;

use ractor_cluster::{BoxRead, BoxWrite, ClusterBidiStream};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    runtime::Handle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tunnel::Tunnel;
use crate::driver::{
    net::wire::{ReadError, WireRead, WireWrite},
    tasks::Tasks,
};

/// What a pipe between a session and its connection holds in each direction.
const PIPE: usize = 64 << 10;

/// The session's end of the pipe. The label is how its session is recognised.
pub(super) struct SessionStream {
    pipe: DuplexStream,
    label: String,
}

impl ClusterBidiStream for SessionStream {
    fn split(self: Box<Self>) -> (BoxRead, BoxWrite) {
        let (read, write) = tokio::io::split(self.pipe);
        (Box::new(read), Box::new(write))
    }

    fn peer_label(&self) -> Option<String> {
        Some(self.label.clone())
    }
}

/// Moves bytes between a connection and its session, until either ends or this is dropped. The session sees the end of its
/// stream; so does the tunnel.
pub(super) struct Pumps {
    /// Both ways are closed.
    pub(super) ended: CancellationToken,
    _end: DropGuard,
}

impl Pumps {
    pub(super) fn start(
        tasks: &Tasks,
        label: String,
        mut read: WireRead,
        mut write: WireWrite,
        tunnel: Arc<Tunnel>,
    ) -> (Self, SessionStream) {
        let ended = CancellationToken::new();
        let (inside, outside) = tokio::io::duplex(PIPE);
        let (mut from_session, mut to_session) = tokio::io::split(outside);
        let inbound = async move {
            loop {
                let bytes = read.take_all();
                if !bytes.is_empty() {
                    if to_session.write_all(&bytes).await.is_err() {
                        return None;
                    }
                    continue;
                }
                match read.fill().await {
                    Ok(true) => {}
                    Ok(false) | Err(ReadError::Broken(_)) => return None,
                    Err(ReadError::Violation(wrong)) => return Some(wrong),
                }
            }
        };
        let outbound = async move {
            let mut buffer = vec![0; PIPE];
            while let Ok(length @ 1..) = from_session.read(&mut buffer).await {
                if write.write(&buffer[..length]).await.is_err() {
                    return;
                }
            }
        };
        let end = ended.clone();
        tasks.start(&Handle::current(), "a connection under a NodeServer", async move {
            let wrong = tokio::select! {
                biased;
                wrong = inbound => wrong,
                () = outbound => None,
                () = end.cancelled() => None,
            };
            end.cancel();
            tunnel.break_off(wrong);
        });
        (Self { _end: ended.clone().drop_guard(), ended }, SessionStream { pipe: inside, label })
    }
}
