//! What waits to be written on one link: two lanes with limits, and the order in which they are emptied.
//!
//! Control frames are kept as the bytes that go out, so that a thousand small ones leave in one write. Bulk messages
//! are kept as they are and cut into pieces when their turn comes: only when no control frame waits, and only so far
//! ahead of the peer's reading as the window allows, because what the network already holds cannot be overtaken.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::{
    core::{
        frame::{FRAME_PIECE, Farewell, Frame},
        peer::{Lane, LinkId},
    },
    error::SendError,
    tuning::LinkLimits,
};

/// Bytes that the link itself may have to say beyond the limit of the control lane.
const ROOM_OF_LINK: usize = 64 << 10;

/// The most control bytes that are written at once.
pub const BATCH: usize = 256 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BulkMessage {
    channel: String,
    body: Bytes,
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OutboxState {
    Open,
    /// Nothing more is queued; then this is said.
    Closing(Farewell),
    /// The last frame was taken, or nobody reads any more.
    Closed,
}

/// What `Outbox::next` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write this, then ask again.
    Write,
    /// Nothing may be written at present.
    Wait,
    /// Everything was written: close.
    Close,
}

/// The two lanes of one link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox {
    link: LinkId,
    limits: LinkLimits,
    state: OutboxState,
    control: BytesMut,
    /// `control` begins inside a frame.
    torn: bool,
    bulk: VecDeque<BulkMessage>,
    /// Bytes in `bulk`, whole messages counted until their last piece is taken.
    bulk_queued: usize,
    /// Bulk bytes sent and not yet read by the peer.
    unread: usize,
    /// What the link itself had to say found no room.
    overrun: bool,
}

impl Outbox {
    pub fn new(link: LinkId, limits: LinkLimits) -> Self {
        Self {
            link,
            limits,
            state: OutboxState::Open,
            control: BytesMut::new(),
            torn: false,
            bulk: VecDeque::new(),
            bulk_queued: 0,
            unread: 0,
            overrun: false,
        }
    }

    /// Queues a message of a channel.
    pub fn send(&mut self, lane: Lane, channel: &str, body: Bytes) -> Result<(), SendError> {
        let frame = Frame::Message { channel, body: &body };
        if lane == Lane::Control {
            return self.send_frame(&frame);
        }
        let length = self.check(&frame)?;
        if self.bulk_queued + length > self.limits.bulk_queue {
            return Err(SendError::QueueFull { queued: self.bulk_queued, limit: self.limits.bulk_queue });
        }
        self.bulk_queued += body.len();
        self.bulk.push_back(BulkMessage { channel: channel.to_owned(), body, sent: 0 });
        Ok(())
    }

    /// Queues a frame in the control lane.
    pub fn send_frame(&mut self, frame: &Frame<'_>) -> Result<(), SendError> {
        let length = self.check(frame)?;
        if self.control.len() + length > self.limits.control_queue {
            return Err(SendError::QueueFull {
                queued: self.control.len(),
                limit: self.limits.control_queue,
            });
        }
        frame.put(&mut self.control);
        Ok(())
    }

    /// Queues what the link itself has to say (pings, counts of bytes read, calls that will not be answered), full or not. A
    /// peer that brings about so much of it and reads nothing has the link overrun.
    pub fn send_own(&mut self, frame: &Frame<'_>) {
        if self.state != OutboxState::Open {
            return;
        }
        if self.control.len() < self.limits.control_queue.saturating_add(ROOM_OF_LINK) {
            frame.put(&mut self.control);
        } else {
            self.overrun = true;
        }
    }

    /// How many frames of at most so many bytes there is room for in one write: what can wait elsewhere goes no further ahead.
    pub fn room_for(&self, bytes: usize) -> usize {
        if self.state != OutboxState::Open {
            return 0;
        }
        let free = self.limits.control_queue.min(BATCH).saturating_sub(self.control.len());
        // If nothing waits, one finds room whatever the limit is.
        (free / bytes).max(usize::from(self.control.is_empty()))
    }

    /// Whether the peer asks for more than it reads.
    pub fn is_overrun(&self) -> bool {
        self.overrun
    }

    /// The peer has read so many more bulk bytes. An error is a peer that breaks the protocol.
    pub fn on_read(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.unread = self.unread.checked_sub(bytes).ok_or("more bytes read than were sent")?;
        Ok(())
    }

    /// Says goodbye after what is queued.
    pub fn close_after_all(&mut self, farewell: Farewell) {
        if self.state == OutboxState::Open {
            self.state = OutboxState::Closing(farewell);
        }
    }

    /// Drops what can be dropped, and says goodbye.
    pub fn close_with(&mut self, farewell: Farewell) {
        if self.state == OutboxState::Closed {
            return;
        }
        // The rest of a frame must go out before another can; closing has a deadline for a peer that does not read.
        if !self.torn {
            self.control.clear();
        }
        self.bulk.clear();
        self.bulk_queued = 0;
        self.state = OutboxState::Closing(farewell);
    }

    /// Takes nothing any more.
    pub fn close(&mut self) {
        self.state = OutboxState::Closed;
        self.control = BytesMut::new();
        self.bulk = VecDeque::new();
        self.bulk_queued = 0;
    }

    /// Moves the next bytes to be written into the empty `batch`.
    pub fn next(&mut self, batch: &mut BytesMut) -> Next {
        debug_assert!(batch.is_empty());
        if self.state == OutboxState::Closed {
            return Next::Close;
        }
        if self.control.len() <= BATCH {
            std::mem::swap(&mut self.control, batch);
            self.torn = false;
        } else {
            self.torn = true;
            batch.extend_from_slice(&self.control.split_to(BATCH));
            return Next::Write;
        }
        self.take_piece(batch);
        if let (OutboxState::Closing(farewell), true) = (self.state, self.bulk.is_empty()) {
            Frame::Farewell(farewell).put(batch);
            self.close();
        }
        if batch.is_empty() { Next::Wait } else { Next::Write }
    }

    /// Bytes that wait in the two lanes.
    pub fn queued(&self) -> (usize, usize) {
        (self.control.len(), self.bulk_queued)
    }

    fn check(&self, frame: &Frame<'_>) -> Result<usize, SendError> {
        if self.state != OutboxState::Open {
            return Err(SendError::NotUp { link: self.link });
        }
        let (length, limit) = (frame.length(), self.limits.frame);
        if length > limit { Err(SendError::TooLarge { length, limit }) } else { Ok(length) }
    }

    fn take_piece(&mut self, batch: &mut BytesMut) {
        let Some(message) = self.bulk.front_mut() else { return };
        let whole = message.body.len();
        let end = whole.min(message.sent + FRAME_PIECE);
        let length = end - message.sent;
        if self.unread > 0 && self.unread + length > self.limits.bulk_window {
            return;
        }
        let rest = u32::try_from(whole - end).unwrap_or(u32::MAX);
        let body = &message.body[message.sent..end];
        Frame::Piece { channel: &message.channel, rest, body }.put(batch);
        message.sent = end;
        self.unread += length;
        if end == whole {
            self.bulk_queued -= whole;
            self.bulk.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
