//! What a look at a store from outside has shown, in words.

use crate::{core::in_full::in_full, error::OpenError};

/// What one look has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: one word.
    pub check: &'static str,
    /// What may be concluded.
    pub verdict: Verdict,
    /// What was seen, in words.
    pub said: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// What may be concluded from a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All is well.
    Ok,
    /// It works, and whoever relies on it has to know something.
    Warning,
    /// It does not work.
    No,
    /// It could not be found out.
    Unknown,
    /// The URL makes no sense. Nothing was looked at.
    Usage,
}

impl Verdict {
    /// Whether it makes no sense to look further.
    pub fn is_final(self) -> bool {
        self > Self::Warning
    }
}

impl Finding {
    /// A finding without advice.
    pub fn new(check: &'static str, verdict: Verdict, said: impl Into<String>) -> Self {
        Self { check, verdict, said: said.into(), advice: None }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

impl From<&OpenError> for Finding {
    fn from(error: &OpenError) -> Self {
        let (check, verdict, advice) = match error {
            OpenError::UnknownScheme { .. }
            | OpenError::EmptyPath { .. }
            | OpenError::UnexpectedPath { .. }
            | OpenError::UnknownOption { .. }
            | OpenError::WrongPostgresUrl { .. }
            | OpenError::WrongEtcdUrl { .. } => ("url", Verdict::Usage, None),
            OpenError::NotInThisBuild { .. } => {
                ("url", Verdict::Usage, Some("build with that feature, or use another store"))
            }
            OpenError::Unreachable { .. } => (
                "reach",
                Verdict::Unknown,
                Some("see that the server runs, and that host and port are right"),
            ),
            OpenError::Server { .. } => (
                "permissions",
                Verdict::No,
                Some("let the role create a schema in the database, or make the schema for it"),
            ),
            OpenError::WrongSchema { .. } | OpenError::WrongLayout { .. } => {
                ("version", Verdict::No, Some("use the version of Callsign that made it, or another store"))
            }
            OpenError::FoundationDbClient { .. } => (
                "client",
                Verdict::No,
                Some(
                    "see that the cluster file is there, and that libfdb_c.so is of the API version of this build or later",
                ),
            ),
            OpenError::NoDirectory { .. } => {
                ("reach", Verdict::No, Some("make the directory: only the file is created"))
            }
            OpenError::NoFile { .. } => ("reach", Verdict::No, Some("see whether the path is right")),
            OpenError::ReadOnly { .. } => (
                "permissions",
                Verdict::No,
                Some("the file and its directory must be writable: files of the database lie beside it"),
            ),
            OpenError::NotADatabase { .. } | OpenError::NotOurs { .. } => {
                ("version", Verdict::No, Some("give a path of its own; what is there was not touched"))
            }
            OpenError::Corrupt { .. } => (
                "integrity",
                Verdict::No,
                Some("stop all nodes and move the file away: names live in memory only"),
            ),
            OpenError::Busy { .. } => (
                "reach",
                Verdict::Unknown,
                Some("see who writes to it for so long: `fuser PATH`; a stopped process?"),
            ),
            OpenError::NoWriteAheadLog { .. } => ("filesystem", Verdict::No, Some("use a local file system")),
            OpenError::Io { .. } | OpenError::Database { .. } => ("reach", Verdict::No, None),
        };
        let finding = Self::new(check, verdict, in_full(error).to_string());
        match advice {
            Some(advice) => finding.advise(advice),
            None => finding,
        }
    }
}

/// What a look finds that waits for others.
#[cfg(any(feature = "postgres", feature = "etcd"))]
pub(super) fn found(look: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(look),
        Err(error) => vec![Finding::new("reach", Verdict::Unknown, error.to_string())],
    }
}
