//! What the command says on standard error, without ever waiting for whoever reads it.
//!
//! A terminal that was halted, or a pipe that nobody reads, would otherwise keep the node from refreshing its lease.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// How many pieces may wait. More are lost.
const ROOM: usize = 1000;

/// Says things. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Say {
    singleton: String,
    pieces: SyncSender<Vec<u8>>,
}

/// What was said is written as long as this is there, and shortly longer when it is dropped.
#[derive(Debug)]
pub(crate) struct Writing {
    done: Receiver<()>,
    pieces: Option<SyncSender<Vec<u8>>>,
}

impl Say {
    /// Starts to write, for this singleton.
    pub(crate) fn begin(singleton: &str) -> (Self, Writing) {
        let (pieces, waiting) = sync_channel::<Vec<u8>>(ROOM);
        let (ended, done) = sync_channel(1);
        std::thread::spawn(move || {
            for piece in waiting {
                // An empty piece is the last one.
                if piece.is_empty() || io::stderr().write_all(&piece).is_err() {
                    break;
                }
            }
            let _ = ended.try_send(());
        });
        let writing = Writing { done, pieces: Some(pieces.clone()) };
        (Self { singleton: singleton.to_owned(), pieces }, writing)
    }

    /// Says a line.
    pub(crate) fn line(&self, text: impl std::fmt::Display) {
        let line = format!("callsign run {}: {text}\n", self.singleton);
        let _ = self.pieces.try_send(line.into_bytes());
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(pieces) = self.pieces.take() {
            let _ = pieces.try_send(Vec::new());
        }
        // Whoever does not read has had a second.
        let waited = self.done.recv_timeout(Duration::from_secs(1));
        debug_assert!(!matches!(waited, Err(RecvTimeoutError::Disconnected)), "the writer panicked");
    }
}

impl Write for Say {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            let _ = self.pieces.try_send(bytes.to_vec());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Say {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
