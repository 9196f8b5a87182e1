//! Lines of commands that go on, such as logs: whoever says one never waits, and nothing that becomes of it ends anything.
//!
//! A terminal that was halted, a pipe that nobody reads, a reader that is gone and a full disk cost lines, and nothing else.
//! How many were lost is counted, and said as soon as somebody listens again.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, ErrorKind, Write},
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, poll};
use tracing_subscriber::fmt::MakeWriter;

/// How many bytes may wait. More would be remembered longer by a process that has other uses for its memory.
const QUEUE_BYTES: usize = 256 << 10;

/// How long what waits may take to be written at the end, if nobody reads.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Where lines are said. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LossyLines(Arc<Shared>);

/// Writes what was said for as long as it is there, and shortly longer when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Writing(LossyLines);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl LossyLines {
    /// Starts to write to a stream, such as standard error. The stream's own lock is not taken.
    pub(crate) fn to(stream: impl AsFd) -> io::Result<(Self, Writing)> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        let lines = Self(Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() }));
        let waiting = lines.clone();
        std::thread::Builder::new().name("lines".to_owned()).spawn(move || waiting.write_to(&file))?;
        Ok((lines.clone(), Writing(lines)))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics under this lock.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says a line, or several. `text` ends with a newline.
    pub(crate) fn say(&self, text: &str) {
        self.push(text.as_bytes());
    }

    /// How many lines were lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.queue().lost
    }

    fn push(&self, bytes: &[u8]) {
        self.queue().push(bytes);
        self.0.changed.notify_all();
    }

    /// Writes until [`Writing`] is dropped and nothing waits.
    fn write_to(&self, mut file: &File) {
        let mut is_mid_line = false;
        while let Some(piece) = self.next() {
            let text = piece.text(is_mid_line);
            let (written, result) = write(&mut file, &text);
            if let Some(last) = text[..written].last() {
                is_mid_line = *last != b'\n';
            }
            if let Err(error) = result {
                self.queue().not_written(&piece, &error);
            }
        }
    }

    /// Waits for what is to be written next. `None`: nothing more is to come.
    fn next(&self) -> Option<Piece> {
        let mut queue = self.queue();
        loop {
            if let Some(piece) = queue.take() {
                return Some(piece);
            }
            if queue.is_over {
                queue.is_written = true;
                self.0.changed.notify_all();
                return None;
            }
            queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Writes all of it, also where somebody else has made the stream one that does not wait. How much was written, and whether
/// that is all.
fn write(file: &mut &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if let Err(error) = poll(&mut [PollFd::new(*file, PollFlags::OUT)], None) {
                    return (written, Err(error.into()));
                }
            }
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

impl Drop for Writing {
    fn drop(&mut self) {
        let (lines, deadline) = (&self.0, Instant::now() + LAST_LINES);
        let mut queue = lines.queue();
        queue.is_over = true;
        lines.0.changed.notify_all();
        while !queue.is_written {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = lines.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What was said at once: whole lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Piece {
    /// What was lost before it, that nobody was told of.
    lost: Lost,
    said: Vec<u8>,
}

/// Lines that were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lost {
    lines: u64,
    /// Why the last of them was. `None`: there was no room for it.
    error: Option<String>,
}

impl Piece {
    /// What is written, behind half a line or not.
    fn text(&self, is_mid_line: bool) -> Vec<u8> {
        let mut text = if is_mid_line { b"\n".to_vec() } else { Vec::new() };
        let Lost { lines, error } = &self.lost;
        if *lines > 0 {
            let why = error.as_deref().unwrap_or("nobody read fast enough");
            text.extend(format!("callsign: {lines} lines were lost here: {why}\n").bytes());
        }
        text.extend(&self.said);
        text
    }
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Piece>,
    /// Of what waits.
    bytes: usize,
    /// How many lines were lost, ever.
    lost: u64,
    /// What was lost of late, that nobody was told of.
    untold: Lost,
    /// Nothing more is to come.
    is_over: bool,
    /// All that came was written.
    is_written: bool,
}

fn count_lines(said: &[u8]) -> u64 {
    u64::try_from(said.split_inclusive(|byte| *byte == b'\n').count()).unwrap_or(u64::MAX)
}

impl Queue {
    fn push(&mut self, said: &[u8]) {
        if said.is_empty() {
            return;
        }
        if self.bytes + said.len() > QUEUE_BYTES {
            self.lost += count_lines(said);
            self.untold.lines += count_lines(said);
            self.untold.error = None;
            return;
        }
        self.bytes += said.len();
        // It is said where they are missing.
        self.waiting.push_back(Piece { lost: std::mem::take(&mut self.untold), said: said.to_vec() });
    }

    /// What is written next.
    fn take(&mut self) -> Option<Piece> {
        if let Some(piece) = self.waiting.pop_front() {
            self.bytes -= piece.said.len();
            return Some(piece);
        }
        // What could not be written is told with the next line: to try at once again would only fail again.
        let is_told_now = self.untold.lines > 0 && self.untold.error.is_none();
        is_told_now.then(|| Piece { lost: std::mem::take(&mut self.untold), said: Vec::new() })
    }

    fn not_written(&mut self, piece: &Piece, error: &io::Error) {
        let lines = count_lines(&piece.said);
        self.lost += lines;
        self.untold.lines += lines + piece.lost.lines;
        self.untold.error = Some(error.to_string());
    }
}

impl Write for LossyLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LossyLines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{PipeReader, PipeWriter, Read, pipe},
        sync::mpsc,
    };

    use super::*;

    fn said(queue: &mut Queue) -> String {
        let mut text = Vec::new();
        while let Some(piece) = queue.take() {
            text.extend(piece.text(false));
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_finds_no_room_is_counted_and_said_where_it_is_missing() {
        let mut queue = Queue::default();
        let long = [b"x".repeat(QUEUE_BYTES - 10), b"\n".to_vec()].concat();
        queue.push(&long);
        queue.push(b"too long to fit\n");
        queue.push(b"this, too\nand this\n");
        assert_eq!(queue.take().map(|piece| piece.said), Some(long));
        queue.push(b"next\n");
        assert_eq!(said(&mut queue), "callsign: 3 lines were lost here: nobody read fast enough\nnext\n");
        assert_eq!((queue.lost, queue.bytes), (3, 0));
    }

    #[test]
    fn what_was_lost_is_said_although_no_line_follows() {
        let mut queue = Queue::default();
        queue.push(&b"x".repeat(QUEUE_BYTES + 1));
        assert_eq!(said(&mut queue), "callsign: 1 lines were lost here: nobody read fast enough\n");
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn what_could_not_be_written_is_said_with_the_next_line_that_can_be_and_counted_once() {
        let mut queue = Queue::default();
        let full = io::Error::from(ErrorKind::StorageFull);
        for _ in 0..3 {
            queue.push(b"line\n");
            let piece = queue.take().unwrap();
            queue.not_written(&piece, &full);
            assert_eq!(queue.take(), None, "not tried again at once");
        }
        queue.push(b"next\n");
        assert_eq!(said(&mut queue), format!("callsign: 3 lines were lost here: {full}\nnext\n"));
        assert_eq!(queue.lost, 3);
    }

    #[test]
    fn what_just_fits_is_kept_and_what_is_nothing_does_not_wait() {
        let mut queue = Queue::default();
        queue.push(&b"x".repeat(QUEUE_BYTES - 2));
        queue.push(b"y\n");
        assert_eq!((queue.lost, queue.bytes), (0, QUEUE_BYTES));
        queue.push(b"");
        assert_eq!(queue.waiting.len(), 2);
        queue.push(b"\n");
        assert_eq!((queue.lost, queue.waiting.len()), (1, 2), "there is no room for another byte");
    }

    #[test]
    fn what_finds_no_room_is_said_at_once_although_what_was_before_it_could_not_be_written() {
        let mut queue = Queue::default();
        queue.push(b"line\n");
        let piece = queue.take().unwrap();
        queue.not_written(&piece, &io::Error::from(ErrorKind::StorageFull));
        queue.push(&b"x".repeat(QUEUE_BYTES + 1));
        assert_eq!(said(&mut queue), "callsign: 2 lines were lost here: nobody read fast enough\n");
    }

    #[test]
    fn all_is_written_once_the_last_piece_is() {
        let lines = LossyLines(Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new() }));
        lines.say("last\n");
        lines.queue().is_over = true;
        assert_eq!(lines.next().map(|piece| piece.said), Some(b"last\n".to_vec()));
        assert!(!lines.queue().is_written, "it is about to be");
        assert_eq!(lines.next(), None);
        assert!(lines.queue().is_written);
    }

    fn piped() -> (LossyLines, Writing, PipeReader) {
        let (read, write): (PipeReader, PipeWriter) = pipe().unwrap();
        let (lines, writing) = LossyLines::to(&write).unwrap();
        (lines, writing, read)
    }

    #[test]
    fn all_that_was_said_is_written_before_the_end() {
        let (lines, writing, mut read) = piped();
        for n in 0..100 {
            lines.say(&format!("line {n}\n"));
        }
        drop(writing);
        drop(lines);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().last(), Some("line 99"));
        assert_eq!(text.lines().count(), 100);
    }

    #[test]
    fn a_line_does_not_begin_within_another() {
        let (lines, writing, mut read) = piped();
        lines.say("half a line");
        lines.say("a line\n");
        lines.say("another\n");
        drop(writing);
        drop(lines);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "half a line\na line\nanother\n");
    }

    #[test]
    fn a_stream_that_was_made_one_that_does_not_wait_gets_all_of_it() {
        let (mut read, write) = pipe().unwrap();
        rustix::io::ioctl_fionbio(&write, true).unwrap();
        let (lines, writing) = LossyLines::to(&write).unwrap();
        drop(write);
        // More than a pipe holds, so the first part fills it.
        let said = "x".repeat(199_999) + "\n";
        lines.say(&said);
        let mut text = vec![0];
        read.read_exact(&mut text).unwrap();
        let reads = std::thread::spawn(move || read.read_to_end(&mut text).map(|_| text));
        drop(writing);
        drop(lines);
        let text = reads.join().unwrap().unwrap();
        assert_eq!((text.len(), text == said.as_bytes()), (said.len(), true));
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let (lines, writing, read) = piped();
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            // Several times what the pipe and the queue hold.
            for _ in 0..1000 {
                lines.say(&("x".repeat(9_999) + "\n"));
            }
            let lost = lines.lost();
            drop(writing);
            done.send(lost).unwrap();
        });
        let lost = is_done.recv_timeout(Duration::from_secs(60)).expect("it waits for the reader");
        assert!((500..1000).contains(&lost), "{lost}");
        drop(read);
    }

    #[test]
    fn a_reader_that_is_gone_costs_lines_and_ends_nothing() {
        let (lines, writing, read) = piped();
        drop(read);
        lines.say("a\n");
        lines.say("b\n");
        drop(writing);
        assert_eq!(lines.lost(), 2);
    }
}
