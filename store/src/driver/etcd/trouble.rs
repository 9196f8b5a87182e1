//! What an error means that came in place of an answer.

use tonic::{Code, ConnectError, Status};

/// What is known after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing was changed; the same again, perhaps at another member, may do better.
    Again,
    /// Nothing was changed, and it may do better with a new token.
    Token,
    /// Nothing was changed, and the same again would meet the same.
    Refused,
    /// Nobody knows what was done. So it is with every error that is not known here.
    Unknown,
}

/// What etcd says before it does anything, and of what each means.
///
/// "database space exceeded" is not here: etcd says it also of a transaction that it has just applied.
const BEFORE: &[(&str, Meaning)] = &[
    ("etcdserver: no leader", Meaning::Again),
    ("etcdserver: not leader", Meaning::Again),
    ("etcdserver: too many requests", Meaning::Again),
    ("etcdserver: rpc not supported for learner", Meaning::Again),
    ("etcdserver: invalid auth token", Meaning::Token),
    ("auth: revision in header is old", Meaning::Token),
    ("etcdserver: revision of auth store is old", Meaning::Token),
    ("etcdserver: user name is empty", Meaning::Refused),
    ("etcdserver: user name not found", Meaning::Refused),
    ("etcdserver: permission denied", Meaning::Refused),
    ("etcdserver: authentication failed, invalid user ID or password", Meaning::Refused),
    ("etcdserver: authentication is not enabled", Meaning::Refused),
    ("etcdserver: request is too large", Meaning::Refused),
    ("etcdserver: too many operations in txn request", Meaning::Refused),
    ("etcdserver: duplicate key given in txn request", Meaning::Refused),
    ("etcdserver: key is not provided", Meaning::Refused),
];

/// What an error means for a request that may have written.
pub(super) fn meaning(status: &Status) -> Meaning {
    if was_not_sent(status) {
        return Meaning::Again;
    }
    if !was_said_by_the_server(status) {
        return Meaning::Unknown;
    }
    BEFORE
        .iter()
        .find(|(said, _)| *said == status.message())
        .map_or(Meaning::Unknown, |(_, meaning)| *meaning)
}

/// Whether the request had no connection to go out on.
pub(super) fn was_not_sent(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether it is an answer. What the client says for the server, of a stream that was reset, say, has a cause.
pub(super) fn was_said_by_the_server(status: &Status) -> bool {
    std::error::Error::source(status).is_none()
}

/// Whether the revision that was asked for is forgotten.
pub(super) fn is_compacted(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("compacted")
}

/// Whether the members have no space left, and take nothing more.
pub(super) fn is_out_of_space(status: &Status) -> bool {
    status.message() == "etcdserver: mvcc: database space exceeded"
}

/// An error in words. The client's own are in their causes.
pub(super) fn in_words(status: &Status) -> String {
    let mut words = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(deeper) = cause {
        let said = deeper.to_string();
        if !words.ends_with(&said) {
            words = if words.is_empty() { said } else { format!("{words}: {said}") };
        }
        cause = deeper.source();
    }
    if words.is_empty() { status.code().to_string() } else { words }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn caused(by: impl std::error::Error + Send + Sync + 'static) -> Status {
        let mut status = Status::unavailable("etcdserver: no leader");
        status.set_source(Arc::new(by));
        status
    }

    #[test]
    fn only_what_etcd_says_before_it_does_anything_means_that_nothing_was_done() {
        for (code, said, expected) in [
            (Code::Unavailable, "etcdserver: no leader", Meaning::Again),
            (Code::ResourceExhausted, "etcdserver: too many requests", Meaning::Again),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Meaning::Token),
            (Code::Unknown, "auth: revision in header is old", Meaning::Token),
            (Code::PermissionDenied, "etcdserver: permission denied", Meaning::Refused),
            (Code::InvalidArgument, "etcdserver: request is too large", Meaning::Refused),
            // It may be applied, and this is said all the same.
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Meaning::Unknown),
            (Code::Unavailable, "etcdserver: request timed out", Meaning::Unknown),
            (Code::Unavailable, "etcdserver: leader changed", Meaning::Unknown),
            (Code::Unavailable, "etcdserver: server stopped", Meaning::Unknown),
            (Code::Unavailable, "", Meaning::Unknown),
            (Code::Unauthenticated, "a proxy's words", Meaning::Unknown),
            (Code::Ok, "", Meaning::Unknown),
        ] {
            assert_eq!(meaning(&Status::new(code, said)), expected, "{said}");
        }
    }

    #[test]
    fn a_revision_that_is_forgotten_is_told_from_one_that_is_not_there_yet() {
        let forgotten = "etcdserver: mvcc: required revision has been compacted";
        assert!(is_compacted(&Status::out_of_range(forgotten)));
        assert!(!is_compacted(&Status::unknown(forgotten)));
        assert!(!is_compacted(&Status::out_of_range(
            "etcdserver: mvcc: required revision is a future revision"
        )));
    }

    #[test]
    fn what_the_client_says_for_the_server_is_known_only_where_nothing_was_sent() {
        let reset = std::io::Error::other("the stream was reset");
        assert_eq!(meaning(&caused(reset)), Meaning::Unknown, "whatever its words");
        let connect = ConnectError(Box::new(std::io::Error::other("nobody is there")));
        assert_eq!(meaning(&caused(connect)), Meaning::Again);
        let words = in_words(&caused(std::io::Error::other("broken")));
        assert_eq!(words, "etcdserver: no leader: broken");
        assert_eq!(in_words(&Status::new(Code::Aborted, "")), Code::Aborted.to_string());
    }
}
