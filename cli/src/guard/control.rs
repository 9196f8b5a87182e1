//! What node and guard say to each other: lines of JSON over a socket, which is the guard's standard input.

use std::time::Duration;

use callsign_store::time::Time;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What a node says. Times are nanoseconds of the machine's boot-time clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The program may run until then.
    TrustedUntil(u64),
    /// It is to end, and is killed at that time.
    StopKillAt(u64),
    /// It is to get this signal.
    HandOn(i32),
}

/// A time as it is said. Beyond some five hundred years after the boot, that.
pub(crate) fn nanos(at: Time) -> u64 {
    u64::try_from(at.0.as_nanos()).unwrap_or(u64::MAX)
}

/// A time that was said.
pub(crate) fn time(nanos: u64) -> Time {
    Time(Duration::from_nanos(nanos))
}

/// One line.
pub(crate) fn line(word: &impl Serialize) -> Vec<u8> {
    // Enums of numbers always can be written.
    let mut line = serde_json::to_vec(word).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Bytes that came, up to the end of a line.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Takes what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole line. `Some(Err)`: it makes no sense.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Option<serde_json::Result<T>> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.0.drain(..=end).collect();
        Some(serde_json::from_slice(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_in_whatever_pieces_they_come() {
        let words = [Word::TrustedUntil(1_234_567_890_123), Word::StopKillAt(7), Word::HandOn(1)];
        let bytes: Vec<u8> = words.iter().flat_map(line).collect();
        let (mut lines, mut read) = (LineBuffer::default(), Vec::new());
        for byte in bytes {
            lines.push(&[byte]);
            read.extend(lines.next::<Word>().map(Result::unwrap));
        }
        assert_eq!(read, words);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_said_to() {
        let mut lines = LineBuffer::default();
        lines.push(b"trust me\n");
        assert!(lines.next::<Word>().unwrap().is_err());
        assert!(lines.next::<Word>().is_none());
    }

    #[test]
    fn times_survive_being_said() {
        let at = Time(Duration::new(86_400, 123_456_789));
        assert_eq!(time(nanos(at)), at);
    }
}
