//! Why there is no connection.

use std::fmt;

use tokio_postgres::{Error, error::SqlState};

use super::{standbys, timeline::Timeline, trouble::in_words};

/// Why there is no connection.
#[derive(Debug)]
pub enum NotConnected {
    /// The server refused, or cannot be reached.
    Postgres(Error),
    /// It took too long.
    Silent,
    /// There was one, and it broke.
    Ended,
    /// The database at the address is not the one that was opened.
    Replaced,
    /// Another server was promoted since, and this one still takes writes.
    OldPrimary {
        /// The timeline of this one.
        timeline: Timeline,
        /// The greatest one that was seen.
        newest: Timeline,
    },
    /// It does not say which timeline it is on, so that it may be an old primary.
    NoTimeline,
    /// Of several hosts none can be used, for these reasons.
    NoPrimary(Vec<(String, Self)>),
    /// The wait for its standby was cancelled, so that nobody knows what the standby has.
    CutShort,
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(error) => f.write_str(&in_words(error)),
            Self::Ended => f.write_str("the connection broke"),
            Self::Silent => f.write_str("the server does not answer"),
            Self::Replaced => {
                f.write_str("the database is not the one that was opened: restart with the right one")
            }
            Self::OldPrimary { timeline, newest } => {
                write!(f, "it is an old primary: its timeline is {timeline}, and {newest} has been seen")
            }
            Self::NoTimeline => f.write_str("the server does not say on which timeline it is"),
            Self::CutShort => f.write_str(standbys::CUT_SHORT),
            Self::NoPrimary(hosts) => {
                let words: Vec<_> = hosts.iter().map(|(host, why)| format!("{host}: {why}")).collect();
                write!(f, "no host takes writes: {}", words.join("; "))
            }
        }
    }
}

impl From<Error> for NotConnected {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl NotConnected {
    /// Whether the server only needs a moment.
    pub(super) fn is_passing(&self) -> bool {
        let passing = [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS];
        match self {
            Self::Postgres(error) => error.code().is_some_and(|code| passing.contains(code)),
            Self::NoPrimary(hosts) => hosts.iter().any(|(_, why)| why.is_passing()),
            _ => false,
        }
    }
}
