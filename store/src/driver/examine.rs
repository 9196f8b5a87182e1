//! What is wrong with a store, in words: a look from outside, before anything is opened.
//!
//! [`examine`] changes nothing. What it cannot see from there (whether a commit goes through, how long it takes), whoever asks
//! finds out by opening the store; what [`open`](crate::open()) then says is a [`Finding`], too.

pub use super::finding::{Finding, Verdict};

/// Looks at the store that a URL names. Blocks for as long as it takes, at most some seconds.
///
/// A URL that names no store gives nothing: opening it says why.
pub fn examine(url: &str) -> Vec<Finding> {
    match url.split_once(':') {
        Some(("memory", _)) => vec![
            Finding::new("reach", Verdict::Warning, "a store in memory is of one process, and gone with it")
                .advise(
                    "for more than tests use sqlite:PATH, postgres://USER@HOST/DATABASE, etcd://HOST/PREFIX or fdb:CLUSTER_FILE",
                ),
        ],
        #[cfg(feature = "sqlite")]
        Some(("sqlite", rest)) => {
            let mut findings = super::sqlite::examine(rest);
            if let Some(path) = super::open::missing_file(url) {
                let said = format!("{} was not there: an empty database is made", path.display());
                findings.push(
                    Finding::new("reach", Verdict::Warning, said)
                        .advise("nothing is wrong before the first node; or was another path meant?"),
                );
            }
            findings
        }
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => super::postgres::examine(url),
        #[cfg(feature = "etcd")]
        Some(("etcd", _)) => super::etcd::examine(url),
        _ => Vec::new(),
    }
}
