//! What is answered over HTTP when it is not yes. Each error of a registry is one.
//!
//! `{"error": CODE, "verdict": "no" | "unknown" | "usage", "message": TEXT, ...facts}`. Codes are stable. The verdict says what the caller
//! may conclude: `no` is an answer of the registry; `unknown` is none, for whatever reason; `usage` means
//! that nothing was asked.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What whoever asked may conclude from a [`HttpRefusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpVerdict {
    /// An answer of the registry: no.
    No,
    /// No answer: nobody knows, or nobody can be asked.
    Unknown,
    /// Nothing was asked: the question breaks the rules.
    Usage,
}

impl HttpVerdict {
    /// The exit status with which the command `callsign` ends that was answered so.
    pub fn exit_status(self) -> u8 {
        match self {
            Self::No => 1,
            Self::Usage => 2,
            Self::Unknown => 3,
        }
    }
}

/// An answer other than yes, as JSON: `{"error": CODE, "verdict": "no" | "unknown" | "usage", "message": TEXT, ...facts}`.
///
/// Every error of a [`Registry`](crate::Registry) becomes one by `?`, so that routes of your own can answer as the routes of this module do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpRefusal {
    /// The status of HTTP.
    pub status: StatusCode,
    /// What happened, for programs. It stays the same from version to version.
    pub code: &'static str,
    /// What whoever asked may conclude.
    pub verdict: HttpVerdict,
    message: String,
    facts: Map<String, Value>,
}

impl HttpRefusal {
    fn new(status: StatusCode, code: &'static str, verdict: HttpVerdict, message: String) -> Self {
        Self { status, code, verdict, message, facts: Map::new() }
    }

    /// An answer of the registry: no.
    pub fn no(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self::new(status, code, HttpVerdict::No, message.into())
    }

    /// No answer: the service is not there for the moment.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, HttpVerdict::Unknown, message.into())
    }

    /// No answer in time.
    pub fn timed_out(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, code, HttpVerdict::Unknown, message.into())
    }

    /// Nothing was asked: the question breaks the rules.
    pub fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, HttpVerdict::Usage, message.into())
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", HttpVerdict::Usage, message.into())
    }

    pub(super) fn wrong_method() -> Self {
        let message = "this path is asked by another method, which the header Allow says";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            HttpVerdict::Usage,
            message.to_owned(),
        )
    }

    pub(super) fn unauthorized() -> Self {
        let message = "this node's admin endpoint needs its token: --token-file, or Authorization: Bearer";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", HttpVerdict::Usage, message.to_owned())
    }

    pub(super) fn too_large(most: usize) -> Self {
        let message = format!("a body was cut off, or has more than {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", HttpVerdict::Usage, message).with("most", most)
    }

    pub(super) fn too_slow(limit: Duration) -> Self {
        let message = format!("a body that did not arrive within {limit:?}");
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", HttpVerdict::Usage, message)
    }

    /// Nobody holds the name.
    pub fn not_found(name: &str) -> Self {
        Self::no(StatusCode::NOT_FOUND, "not_found", format!("nobody holds {name:?}"))
    }

    /// No actor of this node holds the name.
    pub fn not_held_here(name: &str) -> Self {
        Self::no(StatusCode::NOT_FOUND, "not_held_here", format!("no actor of this node holds {name:?}"))
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, fact: &str, value: impl Serialize) -> Self {
        // A fact that JSON cannot hold is left out rather than the answer with it.
        self.facts.insert(fact.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        let mut body = self.facts;
        body.insert("error".into(), self.code.into());
        body.insert("verdict".into(), json!(self.verdict));
        body.insert("message".into(), self.message.into());
        let mut response = (self.status, Json(Value::Object(body))).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

mod of_errors;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadName, Elsewhere, NodeName, RegisterError, WhereisError};

    #[test]
    fn no_and_dont_know_have_different_exit_statuses() {
        let no: HttpRefusal = WhereisError::NotFound { name: "x".into() }.into();
        let unknown: HttpRefusal =
            RegisterError::Unknown { name: "x".into(), waited: Duration::from_secs(5) }.into();
        let unavailable: HttpRefusal = RegisterError::NoLeader.into();
        let usage: HttpRefusal = RegisterError::BadName(BadName::Empty).into();
        let statuses = [no, unknown, unavailable, usage].map(|refusal| refusal.verdict.exit_status());
        assert_eq!(statuses, [1, 3, 3, 2]);
    }

    #[test]
    fn a_refusal_says_what_its_error_comes_from() {
        let failed: HttpRefusal = RegisterError::Failed(crate::NodeFailure::new("a part", "panicked")).into();
        assert_eq!(failed.message, "the node has failed: a part panicked");
    }

    #[test]
    fn whoever_has_to_ask_elsewhere_is_told_where_requests_are_answered_if_that_is_known() {
        let at = |name: &str, admin: Option<&str>| Elsewhere {
            node: NodeName::new(name).unwrap(),
            address: format!("{name}:1"),
            admin: admin.map(str::to_owned),
        };
        let ask = vec![at("b", Some("http://b:7077")), at("c", None)];
        let refusal: HttpRefusal = RegisterError::Draining { ask }.into();
        let expected = json!([
            {"node": "b", "address": "b:1", "admin": "http://b:7077"},
            {"node": "c", "address": "c:1", "admin": null},
        ]);
        assert_eq!(refusal.facts["ask"], expected);
        assert!(refusal.message.contains("ask b (http://b:7077), or c"), "{}", refusal.message);
    }
}
