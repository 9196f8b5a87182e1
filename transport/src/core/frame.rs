//! What travels: frames of a length, a tag and a body in `MessagePack`.
//!
//! ```text
//!   +----------------+-----+---------------------------+
//!   | length, u32 BE | tag | MessagePack, by the tag   |      length counts tag and body
//!   +----------------+-----+---------------------------+
//! ```
//!
//! The length is checked against a limit before anything is kept for it: 4 KiB until the peer has proved that it
//! knows the secret, the endpoint's limit afterwards. Decoding borrows; nothing is copied but what is delivered.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes as Blob;

use crate::core::headers::{HeaderFault, Headers};

/// The longest frame before authentication, in bytes.
pub(crate) const HANDSHAKE_FRAME: usize = 4096;

/// The most bytes of one bulk message in one frame: a control message waits for at most one such piece.
pub(crate) const FRAME_PIECE: usize = 16 << 10;

/// The length of the length.
pub(crate) const PREFIX: usize = 4;

/// Why a link is being closed, told to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Farewell {
    /// The node leaves; all it had queued was sent before.
    Leaving,
    /// A newer incarnation of the receiver's node took its place.
    Evicted,
    /// A newer link to the receiver took its place.
    Replaced,
    /// The sender does not want to know the receiver any more.
    Forgotten,
    /// The receiver broke the protocol, or was thought dead.
    Broken,
}

/// Why a message to an actor was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NotDelivered {
    /// No such actor runs (any more).
    Gone,
    /// It was never exported.
    NotExported,
    /// It takes messages of another kind.
    WrongKind,
    /// It, or its mailbox, dropped the reply port: it ended, could not decode the call, or chose not to answer.
    NoAnswer,
}

impl fmt::Display for NotDelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "no such actor runs any more",
            Self::NotExported => "no such actor was exported",
            Self::WrongKind => "the actor takes messages of another kind",
            Self::NoAnswer => "the actor did not answer",
        })
    }
}

/// How an actor ended, or why nobody will say when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum How<'a> {
    /// It was stopped, for this reason, or of itself.
    Stopped(#[serde(borrow)] Option<&'a str>),
    /// It panicked, or a handler of it returned this error.
    Failed(&'a str),
    /// It cannot be reached: it had ended before, or is not for the asker.
    Not(NotDelivered),
    /// The asker holds as many references as it may.
    TooMany(u32),
}

impl fmt::Display for How<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(None) => f.write_str("it was stopped"),
            Self::Stopped(Some(reason)) => write!(f, "it was stopped: {reason:?}"),
            Self::Failed(reason) => write!(f, "it failed: {reason:?}"),
            Self::Not(why) => write!(f, "{why}"),
            Self::TooMany(most) => write!(f, "the asker holds {most} references, which is the most"),
        }
    }
}

/// One frame of an established link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// "I live."
    Ping,
    /// The last frame of a link.
    Farewell(Farewell),
    /// So many bytes of bulk pieces were read.
    Read(u32),
    /// A whole message.
    Message { channel: &'a str, body: &'a [u8] },
    /// A part of a bulk message, `rest` bytes of which come after it.
    Piece { channel: &'a str, rest: u32, body: &'a [u8] },
    /// A message to an actor.
    Cast { to: u64, kind: u64, headers: Headers<'a>, variant: &'a str, args: &'a [u8] },
    /// One message to many actors, which `to` has as a list in `MessagePack`.
    CastAll { to: &'a [u8], kind: u64, headers: Headers<'a>, variant: &'a str, args: &'a [u8] },
    /// A message to an actor that is to be answered.
    Call {
        to: u64,
        kind: u64,
        tag: u64,
        timeout_ms: Option<u64>,
        headers: Headers<'a>,
        variant: &'a str,
        args: &'a [u8],
    },
    /// The answer to a call.
    Reply { tag: u64, body: &'a [u8] },
    /// The answer to a call that will not be answered.
    NoReply { tag: u64, why: NotDelivered },
    /// A cast that was not delivered, so that its reference can end.
    Undelivered { to: u64, kind: u64, why: NotDelivered },
    /// "Tell me when this actor ends." It is answered, by one of the next two.
    Watch { to: u64, kind: u64 },
    /// The actor lives, and its end will be told.
    Watching { to: u64, kind: u64 },
    /// The actor has ended, or its end will not be told.
    Ended { to: u64, kind: u64, how: How<'a> },
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of {length} bytes, {limit} are allowed")]
    TooLong { length: usize, limit: usize },
    #[error("an empty frame")]
    Empty,
    #[error("an unknown frame tag {0}")]
    UnknownTag(u8),
    #[error("a malformed frame with tag {0}")]
    Malformed(u8),
    #[error("a frame with tag {tag}: {why}")]
    Headers { tag: u8, why: HeaderFault },
}

/// Takes the next whole frame off the front of `input`, or `None` while it is not all there.
pub(crate) fn take(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(prefix) = input.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
    if length > limit {
        return Err(FrameError::TooLong { length, limit });
    }
    if length == 0 {
        return Err(FrameError::Empty);
    }
    if input.len() < PREFIX + length {
        return Ok(None);
    }
    let mut frame = input.split_to(PREFIX + length);
    let _ = frame.split_to(PREFIX);
    Ok(Some(frame.freeze()))
}

/// Appends a frame whose content `write` appends. Its length is not checked here.
pub(crate) fn put_with(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    write(out);
    let length = u32::try_from(out.len() - start - PREFIX).unwrap_or(u32::MAX);
    out[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
}

fn pack(out: &mut BytesMut, value: &impl Serialize) {
    rmp_serde::encode::write(&mut out.writer(), value)
        .expect("a buffer takes everything, and these types encode");
}

fn unpack<'a, T: Deserialize<'a>>(tag: u8, body: &'a [u8]) -> Result<T, FrameError> {
    rmp_serde::from_slice(body).map_err(|_| FrameError::Malformed(tag))
}

fn read_headers(tag: u8, packed: Option<&Blob>) -> Result<Headers<'_>, FrameError> {
    let Some(packed) = packed else { return Ok(Headers::NONE) };
    Headers::read(packed).map_err(|why| FrameError::Headers { tag, why })
}

impl<'a> Frame<'a> {
    /// Appends the frame with its length. The caller has checked that it is within the limit.
    pub(crate) fn put(&self, out: &mut BytesMut) {
        put_with(out, |out| {
            out.put_u8(self.tag());
            match *self {
                Self::Ping => {}
                Self::Farewell(why) => pack(out, &why),
                Self::Read(bytes) => pack(out, &bytes),
                Self::Message { channel, body } => pack(out, &(channel, Blob::new(body))),
                Self::Piece { channel, rest, body } => pack(out, &(channel, rest, Blob::new(body))),
                Self::Cast { to, kind, headers, variant, args } => {
                    pack(out, &(to, kind, headers.packed(), variant, Blob::new(args)));
                }
                Self::CastAll { to, kind, headers, variant, args } => {
                    pack(out, &(Blob::new(to), kind, headers.packed(), variant, Blob::new(args)));
                }
                Self::Call { to, kind, tag, timeout_ms, headers, variant, args } => {
                    pack(out, &(to, kind, tag, timeout_ms, headers.packed(), variant, Blob::new(args)));
                }
                Self::Reply { tag, body } => pack(out, &(tag, Blob::new(body))),
                Self::NoReply { tag, why } => pack(out, &(tag, why)),
                Self::Undelivered { to, kind, why } => pack(out, &(to, kind, why)),
                Self::Watch { to, kind } | Self::Watching { to, kind } => pack(out, &(to, kind)),
                Self::Ended { to, kind, how } => pack(out, &(to, kind, how)),
            }
        });
    }

    /// Reads the frame that `take` took.
    pub(crate) fn get(frame: &'a [u8]) -> Result<Self, FrameError> {
        let (&tag, body) = frame.split_first().ok_or(FrameError::Empty)?;
        let read = match tag {
            0 => Self::Ping,
            1 => Self::Farewell(unpack(tag, body)?),
            2 => Self::Read(unpack(tag, body)?),
            3 => {
                let (channel, body): (&str, &Blob) = unpack(tag, body)?;
                Self::Message { channel, body }
            }
            4 => {
                let (channel, rest, body): (&str, u32, &Blob) = unpack(tag, body)?;
                Self::Piece { channel, rest, body }
            }
            5 => {
                let (to, kind, headers, variant, args): (u64, u64, Option<&Blob>, &str, &Blob) =
                    unpack(tag, body)?;
                Self::Cast { to, kind, headers: read_headers(tag, headers)?, variant, args }
            }
            6 => {
                type Call<'a> = (u64, u64, u64, Option<u64>, Option<&'a Blob>, &'a str, &'a Blob);
                let (to, kind, call, timeout_ms, headers, variant, args): Call<'_> = unpack(tag, body)?;
                let headers = read_headers(tag, headers)?;
                Self::Call { to, kind, tag: call, timeout_ms, headers, variant, args }
            }
            7 => {
                let (call, body): (u64, &Blob) = unpack(tag, body)?;
                Self::Reply { tag: call, body }
            }
            8 => {
                let (call, why) = unpack(tag, body)?;
                Self::NoReply { tag: call, why }
            }
            9 => {
                let (to, kind, why) = unpack(tag, body)?;
                Self::Undelivered { to, kind, why }
            }
            10 => {
                let (to, kind) = unpack(tag, body)?;
                Self::Watch { to, kind }
            }
            11 => {
                let (to, kind) = unpack(tag, body)?;
                Self::Watching { to, kind }
            }
            12 => {
                let (to, kind, how) = unpack(tag, body)?;
                Self::Ended { to, kind, how }
            }
            13 => {
                let (to, kind, headers, variant, args): (&Blob, u64, Option<&Blob>, &str, &Blob) =
                    unpack(tag, body)?;
                Self::CastAll { to, kind, headers: read_headers(tag, headers)?, variant, args }
            }
            tag => return Err(FrameError::UnknownTag(tag)),
        };
        // The payload is the last thing in its frame: bytes after it are not ours.
        let ends = |payload: &[u8]| payload.as_ptr_range().end == frame.as_ptr_range().end;
        if read.payload().is_some_and(|payload| !payload.is_empty() && !ends(payload)) {
            return Err(FrameError::Malformed(tag));
        }
        Ok(read)
    }

    fn payload(&self) -> Option<&'a [u8]> {
        match self {
            Self::Message { body, .. } | Self::Piece { body, .. } | Self::Reply { body, .. } => Some(body),
            Self::Cast { args, .. } | Self::CastAll { args, .. } | Self::Call { args, .. } => Some(args),
            _ => None,
        }
    }

    fn tag(&self) -> u8 {
        match self {
            Self::Ping => 0,
            Self::Farewell(_) => 1,
            Self::Read(_) => 2,
            Self::Message { .. } => 3,
            Self::Piece { .. } => 4,
            Self::Cast { .. } => 5,
            Self::Call { .. } => 6,
            Self::Reply { .. } => 7,
            Self::NoReply { .. } => 8,
            Self::Undelivered { .. } => 9,
            Self::Watch { .. } => 10,
            Self::Watching { .. } => 11,
            Self::Ended { .. } => 12,
            Self::CastAll { .. } => 13,
        }
    }

    /// At least as many bytes as the frame takes, with its length.
    pub(crate) fn length(&self) -> usize {
        // The length, and the widest numbers and headers of these bodies, together take less than 64 bytes.
        const OVERHEAD: usize = 64;
        let text = match self {
            Self::Message { channel, .. } | Self::Piece { channel, .. } => channel.len(),
            Self::CastAll { to, headers, variant, .. } => {
                headers.packed().map_or(0, |packed| packed.len()) + variant.len() + to.len()
            }
            Self::Cast { headers, variant, .. } | Self::Call { headers, variant, .. } => {
                headers.packed().map_or(0, |packed| packed.len()) + variant.len()
            }
            Self::Ended { how: How::Stopped(Some(text)) | How::Failed(text), .. } => text.len(),
            _ => 0,
        };
        OVERHEAD + text + self.payload().map_or(0, <[u8]>::len)
    }
}

/// Puts the pieces of bulk messages together again. Those of one message follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Assembly {
    open: Option<Open>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open {
    channel: String,
    rest: u32,
    body: Vec<u8>,
}

impl Assembly {
    /// Adds a piece; returns the message that it completes. An error is a peer that breaks the protocol.
    pub(crate) fn add(
        &mut self,
        channel: &str,
        rest: u32,
        body: &[u8],
        limit: usize,
    ) -> Result<Option<(String, Bytes)>, &'static str> {
        let length = u32::try_from(body.len()).map_err(|_| "a piece that is too long")?;
        let mut open = if let Some(open) = self.open.take() {
            let expected = open.rest;
            if open.channel != channel || rest.checked_add(length) != Some(expected) {
                return Err("a piece that does not follow the one before it");
            }
            open
        } else {
            let total = body.len().saturating_add(usize::try_from(rest).unwrap_or(usize::MAX));
            if total > limit {
                return Err("a message in pieces that is too long");
            }
            Open { channel: channel.to_owned(), rest, body: Vec::new() }
        };
        if length == 0 && rest > 0 {
            return Err("an empty piece");
        }
        open.rest = rest;
        open.body.extend_from_slice(body); // grows with what came, not with what was announced
        if rest > 0 {
            self.open = Some(open);
            return Ok(None);
        }
        Ok(Some((open.channel, open.body.into())))
    }
}

#[cfg(test)]
mod tests;
