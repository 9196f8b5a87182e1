//! What both sides of a link must have alike: each says what it has, and one that has something else is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What carries the frames of a link, once both sides know each other. Both must say the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Carrier {
    /// The connection itself.
    #[default]
    Connection,
    /// A session of `ractor_cluster` over it.
    NodeServer,
}

impl Carrier {
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for it
    pub(crate) fn is_connection(&self) -> bool {
        *self == Self::Connection
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "a link of its own",
            Self::NodeServer => "the sessions of a NodeServer",
        })
    }
}

/// Whether links are authenticated and encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Security {
    /// Neither: loopback only.
    Plain,
    /// A cluster secret.
    Secured,
    /// Certificates.
    Certified,
    /// Certificates, and a cluster secret.
    Both,
}

impl Security {
    /// Whether a cluster secret is asked for.
    pub fn has_secret(self) -> bool {
        matches!(self, Self::Secured | Self::Both)
    }

    /// Whether certificates are asked for.
    pub fn has_certificates(self) -> bool {
        matches!(self, Self::Certified | Self::Both)
    }
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "neither secret nor certificates",
            Self::Secured => "a secret",
            Self::Certified => "certificates",
            Self::Both => "certificates and a secret",
        })
    }
}
