//! Where in the recordings something is, and whose it is.

use std::{fmt, path::Path, sync::Arc};

use callsign_elector::recording::Header;
use callsign_store::ids::{Incarnation, NodeName};

/// A step of a recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file's name.
    pub file: Arc<str>,
    /// The number of the step's frame. 0 is the header.
    pub frame: u64,
}

impl Place {
    /// The header of a file.
    pub fn beginning(path: &Path) -> Self {
        Self { file: path.file_name().unwrap_or_default().to_string_lossy().into(), frame: 0 }
    }

    /// A step of the same file.
    #[must_use]
    pub fn at(&self, frame: u64) -> Self {
        Self { file: self.file.clone(), frame }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, frame {}", self.file, self.frame)
    }
}

/// A node as one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The node.
    pub node: NodeName,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl Process {
    /// Whose recording it is.
    pub fn of(header: &Header) -> Self {
        Self { node: header.node.clone(), incarnation: header.incarnation }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.node, self.incarnation)
    }
}
