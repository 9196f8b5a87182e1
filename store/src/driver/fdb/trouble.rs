//! What an error of the client library means.

use foundationdb::FdbError;

/// What is known after an error that came in place of the answer to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FdbMeaning {
    /// Nothing was changed, as somebody changed what is checked, or may have.
    Conflict,
    /// Nothing was changed; the same again may do better.
    Again,
    /// Nothing was changed, and the same again would meet the same.
    Refused,
    /// Nothing was changed: it was too large to be sent.
    TooLarge,
    /// Nothing is known.
    Unknown,
}

const NOT_COMMITTED: i32 = 1020;
const DATABASE_LOCKED: i32 = 1038;
const TRANSACTION_TIMED_OUT: i32 = 1031;
const CLUSTER_VERSION_CHANGED: i32 = 1039;
const TRANSACTION_TOO_OLD: i32 = 1007;

/// Refused by the resolvers, the proxies, or the client, before it could be done: `transaction_too_old`,
/// `future_version`, `process_behind`, the proxies' memory limits, throttling by the operator or the cluster.
const RETRYABLE: [i32; 8] = [TRANSACTION_TOO_OLD, 1009, 1037, 1042, 1051, 1078, 1213, 1223];
/// `transaction_too_large`, `key_too_large`, `value_too_large`.
const TOO_LARGE: [i32; 3] = [2101, 2102, 2103];
/// What the client says of a transaction that makes no sense, such as one with a key of the system's: not sent.
const SENSELESS: [i32; 3] = [2000, 2004, 2005];

/// `no_cluster_file_found`, `cluster_file_too_large`, `connection_string_invalid`.
const CLUSTER_FILE: [i32; 3] = [1515, 1516, 2104];

/// Everything that is not named is unknown: `commit_unknown_result`, `cluster_version_changed`,
/// `transaction_timed_out`, connections that broke, and what comes with a later library.
pub(super) fn of_commit(code: i32) -> FdbMeaning {
    match code {
        NOT_COMMITTED => FdbMeaning::Conflict,
        DATABASE_LOCKED => FdbMeaning::Refused,
        _ if RETRYABLE.contains(&code) => FdbMeaning::Again,
        _ if TOO_LARGE.contains(&code) => FdbMeaning::TooLarge,
        _ if SENSELESS.contains(&code) => FdbMeaning::Refused,
        _ => FdbMeaning::Unknown,
    }
}

/// Whether what failed before a commit was sent is worth another try.
pub(super) fn is_passing(error: FdbError) -> bool {
    error.code() != DATABASE_LOCKED && error.is_retryable()
}

/// Whether the cluster has forgotten the version that was read at.
pub(super) fn is_too_old(error: FdbError) -> bool {
    error.code() == TRANSACTION_TOO_OLD
}

/// Whether our own deadline passed before there was an answer.
pub(super) fn is_timeout(error: FdbError) -> bool {
    error.code() == TRANSACTION_TIMED_OUT
}

/// Whether there is no cluster file, or none that says where a cluster is.
pub(super) fn is_of_cluster_file(error: FdbError) -> bool {
    CLUSTER_FILE.contains(&error.code())
}

/// An error in words, and what to do where the words do not say.
pub(super) fn in_words(error: FdbError) -> String {
    let code = error.code();
    let said = match code {
        TRANSACTION_TIMED_OUT => "the cluster does not answer",
        DATABASE_LOCKED => "the database is locked by an operator (fdbcli: unlock)",
        CLUSTER_VERSION_CHANGED => "the cluster has another version than this process's client library",
        _ => error.message(),
    };
    format!("{said} ({code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_meaning() {
        for (code, meaning) in [
            (1020, FdbMeaning::Conflict),
            (1007, FdbMeaning::Again),
            (1009, FdbMeaning::Again),
            (1213, FdbMeaning::Again),
            (1038, FdbMeaning::Refused),
            (2004, FdbMeaning::Refused),
            (2101, FdbMeaning::TooLarge),
            (1021, FdbMeaning::Unknown),
            (1031, FdbMeaning::Unknown),
            (1039, FdbMeaning::Unknown),
            (1004, FdbMeaning::Unknown),
            (1025, FdbMeaning::Unknown),
            (1026, FdbMeaning::Unknown),
            (1101, FdbMeaning::Unknown),
            (4100, FdbMeaning::Unknown),
        ] {
            assert_eq!(of_commit(code), meaning, "{code}");
        }
    }

    /// The library's own list of what was not committed and is worth another try, held against ours.
    #[test]
    fn what_the_library_calls_perhaps_committed_is_unknown_and_what_it_calls_not_committed_is_known() {
        for code in 1..5000 {
            let (error, meaning) = (FdbError::from_code(code), of_commit(code));
            if error.is_maybe_committed() {
                assert_eq!(meaning, FdbMeaning::Unknown, "{code}");
            }
            // The last one is new in 7.3.
            if matches!(meaning, FdbMeaning::Again | FdbMeaning::Conflict) && code != 1223 {
                assert!(error.is_retryable_not_committed(), "{code}");
            }
        }
    }
}
