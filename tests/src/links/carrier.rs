//! What carries links, and can cut them.

use std::{fmt, net::SocketAddr, path::Path, process::Command};

use super::{Ends, way::Way};

/// Carries the links between nodes. What is done to them is said for one way at a time.
pub(super) trait Carrier: fmt::Debug + Send + Sync {
    /// Where a node is to be reached. The same at each of its starts.
    fn address(&self, node: &str) -> SocketAddr;

    /// The nodes that have an address.
    fn nodes(&self) -> Vec<String>;

    /// Where a node has to listen; `None`: wherever it likes.
    fn listen(&self, _node: &str) -> Option<SocketAddr> {
        None
    }

    /// What starts a program that stands for a node. The process becomes that program: its id and parent stay.
    fn command(&self, _node: &str, program: &Path) -> Command {
        Command::new(program)
    }

    /// A process of this node was started. Where it listens is not known yet.
    fn started(&self, _node: &str, _pid: u32) {}

    /// It listens there.
    fn listens(&self, _node: &str, _at: SocketAddr) {}

    /// These ways are like this from now on.
    fn set(&self, ways: &[(Ends, Way)]);

    /// The connections between these nodes end, and both of each learn it at once.
    fn break_connections(&self, between: &[Ends]);

    /// Why nothing can be late or lost now and then.
    fn why_no_delay(&self) -> Option<String> {
        None
    }

    /// Why no connections can be broken.
    fn why_no_breaks(&self) -> Option<String> {
        None
    }

    /// What was carried so far.
    fn carried(&self) -> Carried;
}

/// What went over links so far, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// By proxies.
    Connections {
        /// How many were carried.
        made: u64,
        /// How many came from a process that is none of the nodes', or was gone before it could be told. They were closed.
        strangers: u64,
    },
    /// By the kernel.
    Packets {
        /// How many were lost on ways that were cut or lossy.
        lost: u64,
    },
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections { made, strangers } => {
                write!(f, "{made} connections carried, {strangers} of nobody known closed")
            }
            Self::Packets { lost } => {
                write!(f, "a network namespace for each node; {lost} packets lost in cuts")
            }
        }
    }
}
