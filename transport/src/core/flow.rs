//! A stream of bytes, cut into messages between two actors: a pure value per direction pair.
//!
//! ```text
//!   +----------------+-----+--------+
//!   | stream, u128   | tag | body   |     one message; the stream is the receiver's
//!   +----------------+-----+--------+
//! ```
//!
//! A `NodeServer` takes whatever is cast, without a bound, so the bound is here: no more than [`FLOW_WINDOW`] bytes are under
//! way that the other side has not read. Its messages keep their order, so the stream needs no numbers.
//!
//! Takes as given: messages of one stream come in the order in which they were sent, or not at all from some point on.
//! Promises: what was received before the end is read before the end; a sender that exceeds its window breaks the
//! stream, and costs no memory.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The most bytes under way. Smaller: long distances carry less. Larger: more is ahead of a control message.
pub(crate) const FLOW_WINDOW: usize = 128 << 10;

/// The most bytes of one message.
pub(crate) const CHUNK: usize = 32 << 10;

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Bytes(Bytes),
    /// So many bytes were read.
    Read(u32),
    /// No bytes follow.
    Fin,
    /// `Fin` has arrived, and everything before it.
    FinSeen,
}

impl Part {
    pub(crate) fn put(&self, stream: u128) -> Vec<u8> {
        let body = if let Self::Bytes(bytes) = self { bytes.len() } else { 4 };
        let mut out = Vec::with_capacity(17 + body);
        out.put_u128(stream);
        match self {
            Self::Bytes(bytes) => {
                out.put_u8(0);
                out.put_slice(bytes);
            }
            Self::Read(count) => {
                out.put_u8(1);
                out.put_u32(*count);
            }
            Self::Fin => out.put_u8(2),
            Self::FinSeen => out.put_u8(3),
        }
        out
    }

    /// Which stream, and what of it: `None` for bytes that are no message.
    pub(crate) fn get(mut bytes: Bytes) -> Option<(u128, Self)> {
        let stream = bytes.try_get_u128().ok()?;
        let part = match bytes.try_get_u8().ok()? {
            0 => Self::Bytes(bytes.split_to(bytes.len())),
            1 => Self::Read(bytes.try_get_u32().ok()?),
            2 => Self::Fin,
            3 => Self::FinSeen,
            _ => return None,
        };
        bytes.is_empty().then_some((stream, part))
    }
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Bytes(Bytes),
    /// Nothing yet.
    Wait,
    /// The other side said that nothing follows.
    End,
    /// Nothing follows, and nobody said so; or because of what the other side must not send.
    Broken(Option<String>),
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Inbound {
    #[default]
    Open,
    /// `Fin` came. -> Ended, with `FinSeen`
    Finished,
    Ended,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Outbound {
    #[default]
    Open,
    /// `Fin` was sent. -> Seen
    Finished,
    Seen,
}

/// Both directions of one stream, seen from one end.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Received and not yet read.
    received: BytesMut,
    /// Read, and the other side has not been told.
    untold: usize,
    /// Sent, and the other side has not said that it read it.
    unread: usize,
    inbound: Inbound,
    outbound: Outbound,
    broken: bool,
    /// What the other side did wrong.
    wrong: Option<String>,
}

impl Flow {
    /// Takes what the other side sent. What it must not send breaks the stream.
    pub(crate) fn receive(&mut self, part: Part) {
        if let Err(wrong) = self.take(part) {
            self.break_off(Some(wrong.to_owned()));
        }
    }

    fn take(&mut self, part: Part) -> Result<(), &'static str> {
        match part {
            Part::Bytes(_) | Part::Fin if self.inbound != Inbound::Open => {
                return Err("a stream that goes on after its end");
            }
            Part::Bytes(bytes) => {
                if self.received.len() + self.untold + bytes.len() > FLOW_WINDOW {
                    return Err("more bytes than a window");
                }
                self.received.extend_from_slice(&bytes);
            }
            Part::Read(count) => {
                let left = self.unread.checked_sub(usize::try_from(count).unwrap_or(usize::MAX));
                self.unread = left.ok_or("more bytes of a stream read than were sent")?;
            }
            Part::Fin => self.inbound = Inbound::Finished,
            Part::FinSeen if self.outbound != Outbound::Open => self.outbound = Outbound::Seen,
            Part::FinSeen => return Err("the end of a stream seen before it was there"),
        }
        Ok(())
    }

    /// Takes at most `most` received bytes.
    pub(crate) fn read(&mut self, most: usize) -> Reading {
        if self.received.is_empty() {
            return match (self.inbound != Inbound::Open, self.broken) {
                (true, _) => Reading::End,
                (false, true) => Reading::Broken(self.wrong.clone()),
                (false, false) => Reading::Wait,
            };
        }
        let bytes = self.received.split_to(most.min(self.received.len())).freeze();
        self.untold += bytes.len();
        Reading::Bytes(bytes)
    }

    /// What to send because of what was received and read, if it is worth a message.
    pub(crate) fn answer(&mut self) -> Option<Part> {
        if self.inbound == Inbound::Finished {
            self.inbound = Inbound::Ended;
            return Some(Part::FinSeen);
        }
        if self.untold < FLOW_WINDOW / 4 {
            return None;
        }
        let told = std::mem::take(&mut self.untold);
        Some(Part::Read(u32::try_from(told).unwrap_or(u32::MAX))) // at most a window
    }

    /// Takes from `bytes` what may be sent now. `None`: nothing may, wait.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Option<Part> {
        let length = bytes.len().min(CHUNK).min(FLOW_WINDOW.saturating_sub(self.unread));
        if length == 0 || self.outbound != Outbound::Open {
            return None;
        }
        self.unread += length;
        Some(Part::Bytes(Bytes::copy_from_slice(&bytes[..length])))
    }

    /// Says that nothing follows, once.
    pub(crate) fn finish(&mut self) -> Option<Part> {
        if self.outbound != Outbound::Open {
            return None;
        }
        self.outbound = Outbound::Finished;
        Some(Part::Fin)
    }

    /// Whether everything that was sent has arrived, its end included.
    pub(crate) fn is_finished(&self) -> bool {
        self.outbound == Outbound::Seen
    }

    /// What carried the stream is gone, or has to go: because of what the other side did wrong.
    pub(crate) fn break_off(&mut self, wrong: Option<String>) {
        if !std::mem::replace(&mut self.broken, true) {
            self.wrong = wrong;
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves everything that `from` may send of `bytes` to `to`; returns how many went.
    fn pour(from: &mut Flow, to: &mut Flow, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while let Some(part) = from.send(&bytes[sent..]) {
            let Part::Bytes(chunk) = &part else { panic!("{part:?}") };
            sent += chunk.len();
            to.receive(part);
        }
        sent
    }

    #[test]
    fn parts_read_back_and_other_bytes_are_none() {
        for part in [Part::Bytes(Bytes::from_static(b"abc")), Part::Read(70_000), Part::Fin, Part::FinSeen] {
            assert_eq!(Part::get(part.put(7).into()), Some((7, part)));
        }
        for bad in
            [&[][..], &[0; 16], &[9; 17], &Part::Fin.put(7)[..16], &[Part::Fin.put(7), vec![0]].concat()]
        {
            assert_eq!(Part::get(Bytes::copy_from_slice(bad)), None, "{bad:?}");
        }
    }

    #[test]
    fn a_window_goes_out_and_the_next_when_it_was_read() {
        let (mut a, mut b) = (Flow::default(), Flow::default());
        let bytes = vec![3; 3 * FLOW_WINDOW];
        assert_eq!(pour(&mut a, &mut b, &bytes), FLOW_WINDOW);
        assert_eq!(pour(&mut a, &mut b, &bytes), 0);
        assert_eq!(b.answer(), None, "nothing was read");
        let mut read = 0;
        while let Reading::Bytes(bytes) = b.read(1000) {
            read += bytes.len();
            if let Some(part) = b.answer() {
                a.receive(part);
            }
        }
        assert_eq!(read, FLOW_WINDOW);
        assert!(pour(&mut a, &mut b, &bytes) > FLOW_WINDOW / 2);
        assert!(!a.is_broken() && !b.is_broken());
    }

    #[test]
    fn the_end_comes_after_the_bytes_and_the_sender_learns_that_it_came() {
        let (mut a, mut b) = (Flow::default(), Flow::default());
        assert_eq!(pour(&mut a, &mut b, b"last words"), 10);
        let fin = a.finish().unwrap();
        assert_eq!(a.finish(), None);
        assert_eq!(a.send(b"more"), None);
        b.receive(fin);
        a.receive(b.answer().unwrap());
        assert!(a.is_finished());
        b.break_off(None);
        assert_eq!(b.read(100), Reading::Bytes(Bytes::from_static(b"last words")));
        assert_eq!(b.read(100), Reading::End);
    }

    #[test]
    fn what_breaks_off_is_read_to_its_last_byte_and_is_no_end() {
        let (mut a, mut b) = (Flow::default(), Flow::default());
        pour(&mut a, &mut b, b"half");
        b.break_off(None);
        assert_eq!(b.read(100), Reading::Bytes(Bytes::from_static(b"half")));
        assert_eq!(b.read(100), Reading::Broken(None));
    }

    #[test]
    fn what_must_not_come_breaks_the_stream_and_is_not_kept() {
        let more = Part::Bytes(vec![0; FLOW_WINDOW + 1].into());
        for bad in [more, Part::Read(1), Part::FinSeen] {
            let mut flow = Flow::default();
            flow.receive(bad);
            assert!(flow.is_broken());
            assert!(matches!(flow.read(1), Reading::Broken(Some(_))));
        }
        let mut flow = Flow::default();
        flow.receive(Part::Fin);
        flow.receive(Part::Bytes(Bytes::from_static(b"late")));
        assert!(flow.is_broken());
        assert_eq!(flow.read(10), Reading::End);
    }
}
