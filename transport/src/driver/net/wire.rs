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

use super::{sealed::Sealed, stream::Connection};
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
    #[error(transparent)]
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

    /// Reads once. Returns whether there was anything, be it only a part of a frame or of a record; `false` is the end. Nothing is
    /// lost when the future is dropped.
    pub(crate) async fn fill(&mut self) -> Result<bool, ReadError> {
        if self.open_records()? {
            return Ok(true); // records that came with the handshake's last frame
        }
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
        // A part of a record is a sign of life too: over a slow link a whole one may take longer than the silence limit.
        self.open_records()?;
        Ok(true)
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

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use callsign_store::Entropy;
    use futures::FutureExt;
    use tokio::io::DuplexStream;

    use super::*;
    use crate::driver::{net::noise::Noise, secret::Secret};

    type Wire = (WireRead, WireWrite);

    const LIMIT: usize = 1 << 20;

    fn over(pipe: DuplexStream) -> Wire {
        let (read, write) = tokio::io::split(pipe);
        let remote = "127.0.0.1:1".parse().unwrap();
        wire(Connection { read: Box::new(read), write: Box::new(write), remote }, LIMIT)
    }

    fn pair() -> (Wire, Wire) {
        let (here, there) = tokio::io::duplex(LIMIT);
        (over(here), over(there))
    }

    /// Has one side seal what it says, and the other not yet open it: that is what is returned.
    fn sealed_by(dialler: &mut Wire) -> impl FnOnce(&mut Wire) + use<> {
        let secrets = [Secret::new("a secret of the tests").unwrap()];
        let entropy = Entropy::system();
        let mut here = Noise::new(&secrets, true, &entropy);
        let mut there = Noise::new(&secrets, false, &entropy);
        here.begin(b"").unwrap();
        there.begin(b"").unwrap();
        there.read(&here.write().unwrap()).unwrap();
        here.read(&there.write().unwrap()).unwrap();
        here.seal(&mut dialler.0, &mut dialler.1).unwrap();
        let mut wire = pair().0;
        there.seal(&mut wire.0, &mut wire.1).unwrap();
        let opener = wire.0.opener.take().unwrap();
        |listener| listener.0.opener = Some(opener)
    }

    fn frame(length: usize) -> BytesMut {
        let mut out = BytesMut::new();
        frame::put_with(&mut out, |out| out.put_bytes(7, length));
        out
    }

    #[tokio::test]
    async fn what_came_with_the_last_word_of_a_handshake_is_not_waited_for() {
        let (mut dialler, mut listener) = pair();
        let open = sealed_by(&mut dialler);
        dialler.1.write(&frame(10)).await.unwrap();
        dialler.1.write(&frame(20)).await.unwrap();
        assert!(listener.0.fill().await.unwrap());
        open(&mut listener);
        assert!(listener.0.fill().now_or_never().expect("it waits for more").unwrap());
        for length in [10, 20] {
            assert_eq!(listener.0.take().unwrap().map(|frame| frame.len()), Some(length));
        }
        assert_eq!(listener.0.take().unwrap(), None);
        assert!(listener.0.fill().now_or_never().is_none(), "there is nothing more");
    }

    #[tokio::test]
    async fn each_piece_of_a_record_is_told_when_it_comes() {
        let (sealing, mut sealed) = tokio::io::duplex(LIMIT);
        let (mut way, arriving) = tokio::io::duplex(LIMIT);
        let (mut dialler, mut listener) = (over(sealing), over(arriving));
        sealed_by(&mut dialler)(&mut listener);
        dialler.1.write(&frame(1000)).await.unwrap();
        let mut record = vec![0; 2 + PREFIX + 1000 + TAG];
        sealed.read_exact(&mut record).await.unwrap();
        for piece in record.chunks(300) {
            assert_eq!(listener.0.take().unwrap(), None);
            way.write_all(piece).await.unwrap();
            assert!(listener.0.fill().now_or_never().expect("it waits for the whole record").unwrap());
            assert_eq!(listener.0.received(), piece.len() as u64);
        }
        assert_eq!(listener.0.take().unwrap().map(|frame| frame.len()), Some(1000));
    }

    #[tokio::test]
    async fn a_record_of_a_stranger_takes_a_frame_of_a_handshake_and_no_more() {
        let (mut dialler, mut listener) = pair();
        sealed_by(&mut dialler)(&mut listener);
        dialler.1.write(&frame(HANDSHAKE_FRAME)).await.unwrap();
        while listener.0.take().unwrap().is_none() {
            assert!(listener.0.fill().await.unwrap());
        }
        dialler.1.write(&frame(HANDSHAKE_FRAME + 1)).await.unwrap();
        let refused = loop {
            if let Err(why) = listener.0.fill().await {
                break why.to_string();
            }
        };
        assert_eq!(refused, "a record of 4117 bytes before authentication");
        // Of a peer it may be as long as Noise allows.
        let (mut dialler, mut listener) = pair();
        sealed_by(&mut dialler)(&mut listener);
        listener.0.trust();
        dialler.1.write(&frame(200_000)).await.unwrap();
        let taken = loop {
            match listener.0.take().unwrap() {
                Some(frame) => break frame,
                None => assert!(listener.0.fill().await.unwrap()),
            }
        };
        assert_eq!(taken.len(), 200_000);
    }

    #[tokio::test]
    async fn of_a_stranger_little_is_read_at_once_and_all_that_comes_is_counted() {
        let (mut dialler, mut listener) = pair();
        dialler.1.write(&vec![7; 300_000]).await.unwrap();
        assert!(listener.0.fill().await.unwrap());
        let strange = listener.0.received();
        assert!((1..=2 * HANDSHAKE_FRAME as u64).contains(&strange), "{strange}");
        assert_eq!(listener.0.received(), 0, "since it was asked last");
        listener.0.trust();
        assert!(listener.0.fill().await.unwrap());
        let known = listener.0.received();
        assert!(known >= READ as u64, "{known}");
        let mut all = strange + known;
        drop(dialler);
        while listener.0.fill().await.unwrap() {
            all += listener.0.received();
        }
        assert_eq!(all, 300_000);
    }
}
