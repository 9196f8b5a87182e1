//! Frames over a connection, in the clear or sealed into records.
//!
//! ```text
//!   +-----------------+--------------------------+
//!   | length, u16 BE  | Noise ciphertext         |     the opened records, end to end, are the stream of frames
//!   +-----------------+--------------------------+
//! ```

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{noise::Sealed, stream::Connection};
use crate::core::frame::{self, FrameError, HANDSHAKE_FRAME, PREFIX};

/// Bytes that sealing adds.
const TAG: usize = 16;

/// The most plain bytes of a record: a Noise message has at most 65535 bytes.
const RECORD: usize = 65_535 - TAG;

/// How much is read at once from a peer that is known, and from one that is not.
const READ: usize = 64 << 10;

/// Why the next frame could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The peer sent what it must not.
    #[error("{0}")]
    Violation(String),
    /// The connection broke.
    #[error("{0}")]
    Broken(#[from] io::Error),
}

impl From<FrameError> for ReadError {
    fn from(error: FrameError) -> Self {
        Self::Violation(error.to_string())
    }
}

pub(crate) struct WireRead {
    read: Box<dyn AsyncRead + Send + Unpin>,
    /// As it came.
    raw: BytesMut,
    /// Opened; unused in the clear.
    plain: BytesMut,
    opener: Option<(Arc<Sealed>, u64)>,
    /// The peer has proved who it is, or nothing is asked for and it is local.
    trusted: bool,
    limit: usize,
    /// Bytes that came and are not taken off yet.
    received: u64,
}

pub(crate) struct WireWrite {
    write: Box<dyn AsyncWrite + Send + Unpin>,
    sealer: Option<(Arc<Sealed>, u64)>,
    sealed: Vec<u8>,
}

/// The two directions of a connection that was just made. `limit` bounds frames once the peer is trusted.
pub(crate) fn wire(connection: Connection, limit: usize) -> (WireRead, WireWrite) {
    let read = WireRead {
        read: connection.read,
        raw: BytesMut::new(),
        plain: BytesMut::new(),
        opener: None,
        trusted: false,
        limit,
        received: 0,
    };
    (read, WireWrite { write: connection.write, sealer: None, sealed: Vec::new() })
}

impl WireRead {
    /// Takes away what the bytes come from, to have it replaced. `None`: bytes that nobody has asked for came already.
    #[cfg(feature = "tls")]
    pub(crate) fn detach(&mut self) -> Option<Box<dyn AsyncRead + Send + Unpin>> {
        let nothing = Box::new(tokio::io::empty());
        self.raw.is_empty().then(|| std::mem::replace(&mut self.read, nothing))
    }

    /// From here on the bytes come from there.
    #[cfg(feature = "tls")]
    pub(crate) fn attach(&mut self, read: Box<dyn AsyncRead + Send + Unpin>) {
        self.read = read;
    }

    /// Everything that follows is sealed.
    #[cfg(feature = "noise")]
    pub(crate) fn open_with(&mut self, state: Arc<Sealed>) {
        self.opener = Some((state, 0));
    }

    /// The handshake is done: larger frames are allowed.
    pub(crate) fn trust(&mut self) {
        self.trusted = true;
    }

    /// Takes the next frame that was read, if there is a whole one. Does not wait.
    pub(crate) fn take(&mut self) -> Result<Option<Bytes>, FrameError> {
        let limit = if self.trusted { self.limit } else { HANDSHAKE_FRAME };
        frame::take(if self.opener.is_some() { &mut self.plain } else { &mut self.raw }, limit)
    }

    /// How many bytes came since this was asked last.
    pub(crate) fn received(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    /// Takes all bytes that were read and opened, for a connection that carries something else than frames from now on.
    #[cfg(feature = "node-server")]
    pub(crate) fn take_all(&mut self) -> BytesMut {
        if self.opener.is_some() { self.plain.split() } else { self.raw.split() }
    }

    /// Reads more. Returns whether there was any; `false` is the end. Nothing is lost when the future is dropped.
    pub(crate) async fn fill(&mut self) -> Result<bool, ReadError> {
        if self.open_records()? {
            return Ok(true); // records that came with the handshake's last frame
        }
        loop {
            self.raw.reserve(if self.trusted { READ } else { HANDSHAKE_FRAME });
            match self.read.read_buf(&mut self.raw).await {
                Ok(0) => return Ok(false),
                Ok(count) => self.received += count as u64,
                // What carries the bytes has rules of its own.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(ReadError::Violation(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
            if self.opener.is_none() || self.open_records()? {
                return Ok(true);
            }
        }
    }

    /// Opens the whole records that were read. Returns whether there was one.
    fn open_records(&mut self) -> Result<bool, ReadError> {
        let Some((state, nonce)) = &mut self.opener else { return Ok(false) };
        let mut opened = false;
        while let Some(length) = self.raw.first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            if !self.trusted && length > HANDSHAKE_FRAME + PREFIX + TAG {
                return Err(ReadError::Violation(format!(
                    "a record of {length} bytes before authentication"
                )));
            }
            if self.raw.len() < 2 + length {
                break;
            }
            let record = &self.raw[2..2 + length];
            let start = self.plain.len();
            self.plain.resize(start + length.saturating_sub(TAG), 0);
            state
                .read_message(*nonce, record, &mut self.plain[start..])
                .map_err(|_| ReadError::Violation("a record that was not sealed by the peer".into()))?;
            *nonce += 1;
            let _ = self.raw.split_to(2 + length);
            opened = true;
        }
        Ok(opened)
    }
}

impl WireWrite {
    /// Takes away what the bytes go to, to have it replaced.
    #[cfg(feature = "tls")]
    pub(crate) fn detach(&mut self) -> Box<dyn AsyncWrite + Send + Unpin> {
        std::mem::replace(&mut self.write, Box::new(tokio::io::sink()))
    }

    /// From here on the bytes go there.
    #[cfg(feature = "tls")]
    pub(crate) fn attach(&mut self, write: Box<dyn AsyncWrite + Send + Unpin>) {
        self.write = write;
    }

    /// Everything that follows is sealed.
    #[cfg(feature = "noise")]
    pub(crate) fn seal_with(&mut self, state: Arc<Sealed>) {
        self.sealer = Some((state, 0));
    }

    /// Writes frames. Must be awaited to its end: after half a write nothing else may be written.
    pub(crate) async fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        let Some((state, nonce)) = &mut self.sealer else {
            self.write.write_all(frames).await?;
            return self.write.flush().await; // TLS keeps what the socket did not take
        };
        self.sealed.clear();
        for record in frames.chunks(RECORD) {
            let length = record.len() + TAG;
            self.sealed.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
            let start = self.sealed.len();
            self.sealed.resize(start + length, 0);
            state.write_message(*nonce, record, &mut self.sealed[start..]).map_err(io::Error::other)?;
            *nonce += 1;
        }
        self.write.write_all(&self.sealed).await?;
        self.write.flush().await
    }

    /// Tells the peer that nothing follows.
    pub(crate) async fn shutdown(&mut self) {
        let _ = self.write.shutdown().await; // it may be broken already
    }
}
