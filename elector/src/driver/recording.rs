//! What a core was told and what it asked for, step by step, in a file.
//!
//! A core is deterministic: a fresh one with the same configuration, fed the same inputs at the same times, must ask
//! for the same effects. So a recording shows that the core which ran is the core that is checked, and what the nodes
//! of a cluster recorded can be compared with each other.
//!
//! ```text
//! magic   frame: header   frame: step   frame: step   ...   empty frame: the end
//!         |-- length, big-endian u32 --|-- MessagePack --|
//! ```
//!
//! Promises: recording never fails the node, and never waits for a disk, only for the page cache. What a step asked for
//! is in the file before it is carried out, so that whatever reaches another node is recorded, also by a process that is
//! killed. Does not promise an end: without one the recording is cut, and of a last frame that is torn nothing counts.
//!
//! A recording holds every name, address and position that passed, but no secret. It grows without a bound.

use std::{
    fmt,
    fs::File,
    io::{self, BufReader, Read, Write},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use callsign_store::ids::{ClusterName, Incarnation, NodeName, RegistryName};
use callsign_store::logged;
use rmp_serde::config::BytesMode;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What a recording begins with.
const MAGIC: &[u8; 8] = b"callsign";

/// The schema that this version writes, and the only one that it reads. Moves with every change of a core's types.
const SCHEMA: u16 = 1;

/// The longest frame. A core's step that takes more ends its recording; a reader does not believe more.
pub const MAX_FRAME: usize = 256 << 20;

/// Which core was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Core {
    /// A node's session.
    Session,
    /// One member's elector.
    Elector,
    /// One member of a registry.
    Member,
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "a session",
            Self::Elector => "an elector",
            Self::Member => "a member",
        })
    }
}

/// Whose recording it is. The core's configuration follows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Header {
    /// Which core.
    pub core: Core,
    /// The cluster.
    pub cluster: ClusterName,
    /// The registry, if the core belongs to one.
    pub registry: Option<RegistryName>,
    /// The node.
    pub node: NodeName,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl Header {
    /// The name of its file: `NODE-INCARNATION-session.rec`, or with `elector-REGISTRY` or `member-REGISTRY`.
    pub fn file_name(&self) -> String {
        let core = match self.core {
            Core::Session => "session",
            Core::Elector => "elector",
            Core::Member => "member",
        };
        let registry = self.registry.as_ref().map(|registry| format!("-{registry}")).unwrap_or_default();
        format!("{}-{}-{core}{registry}.rec", self.node, self.incarnation)
    }
}

/// Writes a recording. A driver has one, or none.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    /// `None` after the first failure.
    file: Option<File>,
    /// What is to be written next. Reused.
    buffer: Vec<u8>,
    /// Where the frame of the step under way begins in it.
    frame: usize,
}

impl Recorder {
    /// Begins a recording in a directory, which is made if it is not there. If that fails there is a warning, and no
    /// recording.
    pub fn begin<C: Serialize>(dir: &Path, header: &Header, config: &C) -> Option<Self> {
        let path = dir.join(header.file_name());
        let file = std::fs::create_dir_all(dir).and_then(|()| File::create(&path));
        match file {
            Ok(file) => {
                let mut recorder =
                    Self { path, file: Some(file), buffer: MAGIC.to_vec(), frame: MAGIC.len() };
                recorder.open_frame();
                recorder.put(&(SCHEMA, header, config));
                recorder.close_frame();
                recorder.flush();
                Some(recorder)
            }
            Err(error) => {
                logged!(warn, path = %path.display(), %error, "not recorded");
                None
            }
        }
    }

    /// Notes what a core is about to be told, and when.
    pub fn before<N: Serialize, I: Serialize>(&mut self, now: &N, input: &I) {
        if self.file.is_some() {
            self.open_frame();
            // An array of three: the effects follow.
            self.buffer.push(0x93);
            self.put(now);
            self.put(input);
        }
    }

    /// Notes what it asked for.
    pub fn after<E: Serialize>(&mut self, effects: &[E]) {
        if self.file.is_some() {
            self.put(&effects);
            self.close_frame();
        }
    }

    /// Writes what was noted, with one write. To be called before the effects are carried out.
    pub fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        let written = file.write_all(&self.buffer);
        self.buffer.clear();
        // A snapshot that once passed does not stay in memory.
        self.buffer.shrink_to(1 << 20);
        if let Err(error) = written {
            self.give_up(&error);
        }
    }

    /// Ends the recording: the core takes no more inputs.
    pub fn finish(&mut self) {
        if self.file.is_some() {
            self.buffer.extend([0; 4]);
            self.flush();
            self.file = None;
        }
    }

    fn open_frame(&mut self) {
        self.frame = self.buffer.len();
        self.buffer.extend([0; 4]);
    }

    fn close_frame(&mut self) {
        let begin = self.frame + 4;
        let length = self.buffer.len().saturating_sub(begin);
        match u32::try_from(length) {
            Ok(prefix) if length <= MAX_FRAME && self.file.is_some() => {
                self.buffer[self.frame..begin].copy_from_slice(&prefix.to_be_bytes());
            }
            _ => self.give_up(&io::Error::other(format!("a step of {length} bytes"))),
        }
    }

    fn put<T: Serialize + ?Sized>(&mut self, value: &T) {
        // Keys and values of a store are vectors of bytes; as bytes they take half as much.
        let mut serializer =
            rmp_serde::Serializer::new(&mut self.buffer).with_bytes(BytesMode::ForceIterables);
        if let Err(error) = value.serialize(&mut serializer) {
            self.give_up(&io::Error::other(error));
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        if self.file.take().is_some() {
            logged!(warn, path = %self.path.display(), %error, "the recording ends here");
        }
        self.buffer = Vec::new();
    }
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is no recording, or ends before its header does.
    #[error("{path} is no recording")]
    NoRecording {
        /// The file.
        path: PathBuf,
    },
    /// The recording was written by another version.
    #[error("{path} has schema {found}, this version reads {SCHEMA}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema that it names.
        found: u16,
    },
    /// The recording is of another core than asked for.
    #[error("{path} is a recording of {found}")]
    Core {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: Core,
    },
    /// A frame is longer than [`MAX_FRAME`].
    #[error("frame {frame} of {path} has {length} bytes, {MAX_FRAME} is the most")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Which frame; 0 is the header.
        frame: u64,
        /// Its length.
        length: usize,
    },
    /// A whole frame does not hold what it should.
    #[error("frame {frame} of {path} cannot be read: {reason}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which frame; 0 is the header.
        frame: u64,
        /// Why.
        reason: String,
    },
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// In good order.
    Finished,
    /// Behind a whole step: the process was killed, still runs, or could not write any more.
    Cut,
    /// Within a step, of which nothing counts.
    Torn,
}

/// One step of a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame<N, I, E> {
    /// When.
    pub now: N,
    /// What it was told.
    pub input: I,
    /// What it asked for.
    pub effects: Vec<E>,
}

/// Length-delimited pieces of a file.
#[derive(Debug)]
struct Frames {
    path: PathBuf,
    file: BufReader<File>,
    next: u64,
    ending: Option<Ending>,
}

impl Frames {
    fn open(path: &Path) -> Result<Self, RecordingError> {
        let fail = |error| RecordingError::Io { path: path.to_owned(), error };
        let mut file = BufReader::new(File::open(path).map_err(fail)?);
        let mut magic = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(fail)?;
        if magic != MAGIC {
            return Err(RecordingError::NoRecording { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), file, next: 0, ending: None })
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, RecordingError> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let mut end = |ending| {
            self.ending = Some(ending);
            Ok(None)
        };
        let fail = |error| RecordingError::Io { path: self.path.clone(), error };
        let mut prefix = Vec::new();
        (&mut self.file).take(4).read_to_end(&mut prefix).map_err(fail)?;
        let length = match <[u8; 4]>::try_from(&prefix[..]) {
            Ok(prefix) => u32::from_be_bytes(prefix) as usize,
            Err(_) if prefix.is_empty() => return end(Ending::Cut),
            Err(_) => return end(Ending::Torn),
        };
        if length == 0 {
            return end(Ending::Finished);
        }
        let frame = self.next;
        if length > MAX_FRAME {
            return Err(RecordingError::TooLong { path: self.path.clone(), frame, length });
        }
        // Not reserved at once: what a torn file announces need not come.
        let mut body = Vec::new();
        let read = (&mut self.file).take(length as u64).read_to_end(&mut body).map_err(fail)?;
        if read < length {
            return end(Ending::Torn);
        }
        self.next += 1;
        Ok(Some(body))
    }

    fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, RecordingError> {
        rmp_serde::from_slice(body).map_err(|error| RecordingError::Corrupt {
            path: self.path.clone(),
            frame: self.next - 1,
            reason: error.to_string(),
        })
    }
}

/// Says whose recording a file is.
pub fn read_header(path: &Path) -> Result<Header, RecordingError> {
    let mut frames = Frames::open(path)?;
    let Some(body) = frames.next()? else {
        return Err(RecordingError::NoRecording { path: path.to_owned() });
    };
    header(&frames, &body)
}

fn header(frames: &Frames, body: &[u8]) -> Result<Header, RecordingError> {
    // The schema says how to read the rest, so it is read alone first.
    let mut reader = rmp_serde::Deserializer::new(body.get(1..).unwrap_or_default());
    let found = u16::deserialize(&mut reader)
        .map_err(|_| RecordingError::NoRecording { path: frames.path.clone() })?;
    if found != SCHEMA {
        return Err(RecordingError::Schema { path: frames.path.clone(), found });
    }
    let (_, header, _): (u16, Header, serde::de::IgnoredAny) = frames.decode(body)?;
    Ok(header)
}

/// Reads a recording of a core with configuration `C`, step by step.
#[derive(Debug)]
pub struct Recording<C, N, I, E> {
    /// Whose it is.
    pub header: Header,
    /// What the core was made with.
    pub config: C,
    frames: Frames,
    step: PhantomData<(N, I, E)>,
}

impl<C, N, I, E> Recording<C, N, I, E>
where
    C: DeserializeOwned,
    N: DeserializeOwned,
    I: DeserializeOwned,
    E: DeserializeOwned,
{
    /// Opens the recording of a core of the given kind.
    pub fn open(path: &Path, core: Core) -> Result<Self, RecordingError> {
        let mut frames = Frames::open(path)?;
        let Some(body) = frames.next()? else {
            return Err(RecordingError::NoRecording { path: path.to_owned() });
        };
        let header = header(&frames, &body)?;
        if header.core != core {
            return Err(RecordingError::Core { path: path.to_owned(), found: header.core });
        }
        let (_, _, config): (u16, serde::de::IgnoredAny, C) = frames.decode(&body)?;
        Ok(Self { header, config, frames, step: PhantomData })
    }

    /// The next step. `None` at the end, of which [`ending`](Self::ending) says more.
    pub fn next_frame(&mut self) -> Result<Option<Frame<N, I, E>>, RecordingError> {
        match self.frames.next()? {
            Some(body) => self.frames.decode(&body).map(Some),
            None => Ok(None),
        }
    }

    /// How the recording ended. `None` while steps follow.
    pub fn ending(&self) -> Option<Ending> {
        self.frames.ending
    }
}

#[cfg(test)]
mod tests;
