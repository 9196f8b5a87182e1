//! What an error of the server means.

use tokio_postgres::{Error, error::SqlState};

use crate::core::in_full::in_full;

/// What is known after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostgresMeaning {
    /// Nothing was changed; the same again may do better at once.
    Again,
    /// Nothing was changed, and the same again would meet the same.
    Refused,
    /// The connection broke: the server said nothing.
    Broken,
}

/// What an error means that was answered to a statement before the COMMIT: the transaction is over and undone.
pub(super) fn meaning(error: &Error) -> PostgresMeaning {
    match error.code() {
        None => PostgresMeaning::Broken,
        // Said by something between us and the server: it need not know.
        Some(code) if class(code) == "08" => PostgresMeaning::Broken,
        Some(code) if is_conflict(code) => PostgresMeaning::Again,
        // The server shuts down, crashed, starts up, or is a standby by now; its successor may do it.
        Some(code)
            if class(code) == "57" && *code != SqlState::QUERY_CANCELED
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                // Prepared on a table that somebody has altered: the next connection prepares anew.
                || *code == SqlState::FEATURE_NOT_SUPPORTED
                || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT =>
        {
            PostgresMeaning::Again
        }
        Some(_) => PostgresMeaning::Refused,
    }
}

/// What an error means that was answered to COMMIT itself. Only some say that it did not happen.
pub(super) fn meaning_at_commit(error: &Error) -> PostgresMeaning {
    match error.code() {
        Some(code) if is_conflict(code) => PostgresMeaning::Again,
        _ => PostgresMeaning::Broken,
    }
}

/// Whether an error ends the usefulness of a connection.
pub(super) fn spoils_connection(error: &Error) -> bool {
    error.code().is_none_or(|code| !is_conflict(code) && meaning(error) == PostgresMeaning::Again)
        || meaning(error) == PostgresMeaning::Broken
}

/// Whether what was refused while a store was opened may succeed later, though nobody changes anything: the connection broke, the server
/// goes, or others were first.
pub(super) fn may_pass(error: &Error) -> bool {
    // The client itself has other errors without a code: what it read is not what is ours.
    let Some(code) = error.code() else { return error.is_closed() };
    let passing = [SqlState::LOCK_NOT_AVAILABLE, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT];
    ["08", "57"].contains(&class(code)) || is_conflict(code) || passing.contains(code)
}

/// Serialization failure, deadlock: rolled back, to be tried again.
fn is_conflict(code: &SqlState) -> bool {
    [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED].contains(&code)
}

fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

/// What has to be changed before a connection can be made, with a server that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It asks for a password, and none was given.
    NoPassword,
    /// It offers no TLS, which was asked for.
    NoTls,
    /// Its certificate is not believed.
    BadCertificate,
}

/// What the client itself finds wrong with a server's answer. `None`: nothing of that kind.
pub(super) fn unfit(error: &Error) -> Option<Unfit> {
    // The client tells its kinds of errors in words only.
    let cause = std::error::Error::source(error)?;
    let io = cause.downcast_ref::<std::io::Error>();
    match cause.to_string().as_str() {
        "password missing" => Some(Unfit::NoPassword),
        "server does not support TLS" => Some(Unfit::NoTls),
        _ if io.is_some_and(is_of_a_certificate) => Some(Unfit::BadCertificate),
        _ => None,
    }
}

fn is_of_a_certificate(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<tokio_rustls::rustls::Error>());
    matches!(cause, Some(tokio_rustls::rustls::Error::InvalidCertificate(_)))
}

/// An error in words. The client's own are in their causes.
pub fn in_words(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} ({})", said.message(), said.code().code());
    }
    in_full(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::said::*, *};

    /// For each answer: what it means before the COMMIT and at it, and whether its connection is of no use any more.
    #[tokio::test]
    async fn what_is_known_after_an_error() {
        use PostgresMeaning::{Again, Broken, Refused};
        for (code, before, at_commit, spoils) in [
            // What lost against others is rolled back, whenever that is found.
            ("40001", Again, Again, false),
            ("40P01", Again, Again, false),
            // Whoever is in between says that the connection is lost; what the server did it does not know.
            ("08006", Broken, Broken, true),
            ("08003", Broken, Broken, true),
            ("08P01", Broken, Broken, true),
            // The server goes, or is another by now.
            ("57P01", Again, Broken, true),
            ("57P02", Again, Broken, true),
            ("57P03", Again, Broken, true),
            ("25006", Again, Broken, true),
            ("25P03", Again, Broken, true),
            ("0A000", Again, Broken, true),
            // It will not.
            ("57014", Refused, Broken, false),
            ("53100", Refused, Broken, false),
            ("42501", Refused, Broken, false),
            ("40003", Refused, Broken, false),
            ("55P03", Refused, Broken, false),
            ("XX000", Refused, Broken, false),
        ] {
            let error = said(code).await;
            let known = (meaning(&error), meaning_at_commit(&error), spoils_connection(&error));
            assert_eq!(known, (before, at_commit, spoils), "{code}");
        }
        let error = unsaid().await;
        let known = (meaning(&error), meaning_at_commit(&error), spoils_connection(&error));
        assert_eq!(known, (Broken, Broken, true));
    }

    #[tokio::test]
    async fn opening_is_worth_another_attempt_unless_somebody_has_to_change_something_first() {
        for code in ["08006", "57P01", "57P02", "57P03", "57014", "55P03", "25P03", "40P01"] {
            assert!(may_pass(&said(code).await), "{code}");
        }
        for code in ["42501", "42P07", "42703", "53100", "0A000", "XX000"] {
            assert!(!may_pass(&said(code).await), "{code}");
        }
        assert!(may_pass(&unsaid().await), "the connection broke");
    }
}
