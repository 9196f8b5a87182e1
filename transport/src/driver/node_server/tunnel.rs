//! A stream of bytes to another node's gate, as something to read from and to write to.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
    task::{Context, Poll},
};

use callsign_store::lock::lock;
use futures::task::AtomicWaker;
use ractor::ActorRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::core::flow::{Flow, Part, Reading};

/// What travels between gates.
#[derive(ractor_cluster_derive::RactorClusterMessage)]
pub(super) enum GateMessage {
    /// A [`Part`] of a stream.
    Part(Vec<u8>),
}

/// Where a stream's other end is.
struct Far {
    gate: ActorRef<GateMessage>,
    stream: u128,
}

/// One stream. Its gate brings what the other side sends; the two halves are for one task each.
#[derive(Default)]
pub(super) struct Tunnel {
    flow: Mutex<Flow>,
    far: OnceLock<Far>,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

impl Tunnel {
    /// The other end is known.
    pub(super) fn open(&self, gate: ActorRef<GateMessage>, stream: u128) {
        let _ = self.far.set(Far { gate, stream });
        self.answer();
    }

    pub(super) fn receive(&self, part: Part) {
        lock(&self.flow).receive(part);
        self.answer();
        self.wake();
    }

    /// What carried it is gone, or has to go: because of what the other side did wrong.
    pub(super) fn break_off(&self, wrong: Option<String>) {
        lock(&self.flow).break_off(wrong);
        self.wake();
    }

    fn wake(&self) {
        self.reader.wake();
        self.writer.wake();
    }

    fn answer(&self) {
        if self.far.get().is_none() {
            return; // kept until it is
        }
        let answer = lock(&self.flow).answer();
        if let Some(part) = answer {
            self.send(&part);
        }
    }

    fn send(&self, part: &Part) {
        let sent = self.far.get().map(|far| far.gate.cast(GateMessage::Part(part.put(far.stream))));
        if !matches!(sent, Some(Ok(()))) {
            self.break_off(None);
        }
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the session ended")
}

pub(super) struct ReadHalf(pub(super) Arc<Tunnel>);

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let tunnel = &self.0;
        tunnel.reader.register(cx.waker()); // before the look
        let reading = lock(&tunnel.flow).read(buf.remaining());
        match reading {
            Reading::Bytes(bytes) => {
                buf.put_slice(&bytes);
                tunnel.answer();
                Poll::Ready(Ok(()))
            }
            Reading::Wait => Poll::Pending,
            Reading::End => Poll::Ready(Ok(())),
            Reading::Broken(None) => Poll::Ready(Err(broken())),
            Reading::Broken(Some(why)) => Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why))),
        }
    }
}

pub(super) struct WriteHalf(pub(super) Arc<Tunnel>);

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let tunnel = &self.0;
        tunnel.writer.register(cx.waker());
        let mut flow = lock(&tunnel.flow);
        if flow.is_broken() {
            return Poll::Ready(Err(broken()));
        }
        let part = flow.send(bytes);
        drop(flow);
        match part {
            Some(part) => {
                let Part::Bytes(sent) = &part else { return Poll::Ready(Err(broken())) };
                tunnel.send(&part);
                Poll::Ready(Ok(sent.len()))
            }
            None if bytes.is_empty() => Poll::Ready(Ok(0)),
            None => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ready when the other side has everything: a session that ends drops what is under way.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tunnel = &self.0;
        tunnel.writer.register(cx.waker());
        let fin = lock(&tunnel.flow).finish();
        if let Some(fin) = fin {
            tunnel.send(&fin);
        }
        let flow = lock(&tunnel.flow);
        if flow.is_finished() || flow.is_broken() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}
