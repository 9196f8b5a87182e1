//! What was found wrong with how a command was called: it ends with status 2, and did nothing.

use crate::reply::Verdict;

/// Why a command makes no sense as it was called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

impl Usage {
    /// Takes any reason for one of wrong usage.
    pub(crate) fn because(why: impl std::fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// The exit status of a command that ended with this error.
pub(crate) fn exit_status(error: &anyhow::Error) -> u8 {
    let is_usage = error.chain().any(<dyn std::error::Error + 'static>::is::<Usage>);
    if is_usage { Verdict::Usage.exit_status() } else { Verdict::No.exit_status() }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn wrong_usage_is_told_from_failure_whatever_was_said_around_it() {
        assert_eq!(exit_status(&anyhow!("the disk is full")), 1);
        let wrong = Err::<(), _>(Usage::because("no such store")).context("--store").unwrap_err();
        assert_eq!(exit_status(&wrong), 2);
    }
}
