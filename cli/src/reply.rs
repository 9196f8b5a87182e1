//! What a node answers over HTTP when it does not say yes.
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
use callsign::{
    ConfigureError, ConsistentError, Entry, ExplainError, InForce, LookupError, MetaError, NotReady,
    OfferError, OutOfBounds, RegisterError, ResolveError, UnregisterError, UpdateError, WaitError,
    WhereisError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What the caller may conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// An answer of the registry: no.
    No,
    /// No answer: nobody knows, or nobody can be asked.
    Unknown,
    /// Nothing was asked: the question breaks the rules.
    Usage,
}

impl Verdict {
    /// The exit status of a command that was answered so.
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Self::No => 1,
            Self::Usage => 2,
            Self::Unknown => 3,
        }
    }
}

/// An answer other than yes.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) verdict: Verdict,
    message: String,
    facts: Map<String, Value>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, verdict: Verdict, message: String) -> Self {
        Self { status, code, verdict, message, facts: Map::new() }
    }

    pub(crate) fn no(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self::new(status, code, Verdict::No, message.into())
    }

    /// No answer: the service is not there for the moment.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, Verdict::Unknown, message.into())
    }

    /// No answer in time.
    pub(crate) fn timed_out(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, code, Verdict::Unknown, message.into())
    }

    pub(crate) fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, Verdict::Usage, message.into())
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", Verdict::Usage, message.into())
    }

    pub(crate) fn wrong_method() -> Self {
        let message = "this path is asked by another method, which the header Allow says";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", Verdict::Usage, message.to_owned())
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "this node's admin endpoint needs its token: --token-file, or Authorization: Bearer";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", Verdict::Usage, message.to_owned())
    }

    pub(crate) fn too_large(most: usize) -> Self {
        let message = format!("a body was cut off, or has more than {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", Verdict::Usage, message).with("most", most)
    }

    pub(crate) fn too_slow(limit: Duration) -> Self {
        let message = format!("a body that did not arrive within {limit:?}");
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", Verdict::Usage, message)
    }

    pub(crate) fn not_found(name: &str) -> Self {
        Self::no(StatusCode::NOT_FOUND, "not_found", format!("nobody holds {name:?}"))
    }

    pub(crate) fn not_held_here(name: &str) -> Self {
        Self::no(StatusCode::NOT_FOUND, "not_held_here", format!("no actor of this node holds {name:?}"))
    }

    /// Adds a fact.
    pub(crate) fn with(mut self, fact: &str, value: impl Serialize) -> Self {
        // A fact that JSON cannot hold is left out rather than the answer with it.
        self.facts.insert(fact.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }
}

impl IntoResponse for Refusal {
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

/// A number that may be greater than 2^53, as JSON can carry it: parsers that make a `double` of every number round it.
pub(crate) fn exact(number: u64) -> String {
    format!("{number:016x}")
}

/// What holds for the elections of a registry.
pub(crate) fn settings(in_force: &InForce) -> Value {
    let InForce { lock_timeout, silence, policy, set, .. } = in_force;
    let is_set = [
        ("lock_timeout_ms", set.lock_timeout.is_some()),
        ("silence_ms", set.silence.is_some()),
        ("policy", set.policy.is_some()),
    ];
    let names: Vec<_> = is_set.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
    json!({
        "lock_timeout_ms": whole_millis(*lock_timeout),
        "silence_ms": whole_millis(*silence),
        "policy": policy,
        "set": names,
    })
}

/// A time as JSON carries it.
pub(crate) fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Who holds a name.
pub(crate) fn holder(entry: &Entry) -> Value {
    let mut value = json!(entry);
    value["incarnation"] = exact(entry.incarnation().0).into();
    value["kind"] = exact(entry.kind().0).into();
    // As JSON, if it can be that. Whatever else it is, is of no use to who reads JSON.
    value["meta"] = entry.meta().ok().flatten().unwrap_or(Value::Null);
    value
}

impl From<MetaError> for Refusal {
    fn from(error: MetaError) -> Self {
        Self::usage("bad_meta", error.to_string())
    }
}

impl From<UpdateError> for Refusal {
    fn from(error: UpdateError) -> Self {
        let text = error.to_string();
        match error {
            UpdateError::BadMeta(error) => error.into(),
            UpdateError::NotHeld { holder, .. } => {
                let holder = holder.as_ref().map(self::holder);
                Self::no(StatusCode::NOT_FOUND, "not_held_here", text).with("holder", holder)
            }
            UpdateError::Changed { revision, .. } => {
                Self::no(StatusCode::CONFLICT, "changed", text).with("revision", revision)
            }
            UpdateError::NotSynced => Self::unavailable("not_synced", text),
            UpdateError::NoLeader => Self::unavailable("no_leader", text),
            UpdateError::Lapsed => Self::unavailable("lapsed", text),
            UpdateError::StoreUnavailable { .. } => Self::unavailable("store_unavailable", text),
            UpdateError::SessionLost { .. } => Self::unavailable("session_lost", text),
            UpdateError::Unknown { .. } => Self::timed_out("unknown", text),
            UpdateError::Overloaded { .. } => Self::unavailable("overloaded", text),
            UpdateError::Left => Self::unavailable("left", text),
            UpdateError::Failed(_) => Self::unavailable("failed", text),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<RegisterError> for Refusal {
    fn from(error: RegisterError) -> Self {
        let text = error.to_string();
        match error {
            RegisterError::BadName(_) => Self::usage("bad_name", text),
            RegisterError::Taken { holder, .. } => {
                Self::no(StatusCode::CONFLICT, "taken", text).with("holder", self::holder(&holder))
            }
            RegisterError::NotPermitted { allowed, .. } => {
                Self::no(StatusCode::FORBIDDEN, "not_permitted", text).with("allowed", allowed)
            }
            RegisterError::NotLocal { node } => Self::usage("not_local", text).with("runs_on", node),
            RegisterError::ActorEnded => Self::no(StatusCode::GONE, "actor_ended", text),
            RegisterError::NotSynced => Self::unavailable("not_synced", text),
            RegisterError::NoLeader => Self::unavailable("no_leader", text),
            RegisterError::Lapsed => Self::unavailable("lapsed", text),
            RegisterError::StoreUnavailable { lasting } => {
                Self::unavailable("store_unavailable", text).with("lasting_ms", lasting.as_millis())
            }
            RegisterError::SessionLost { .. } => Self::unavailable("session_lost", text),
            RegisterError::Unknown { waited, .. } => {
                Self::timed_out("unknown", text).with("waited_ms", waited.as_millis())
            }
            RegisterError::Overloaded { pending } => {
                Self::unavailable("overloaded", text).with("pending", pending)
            }
            RegisterError::Draining { ask } => Self::unavailable("draining", text).with("ask", ask),
            RegisterError::Left => Self::unavailable("left", text),
            RegisterError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<UnregisterError> for Refusal {
    fn from(error: UnregisterError) -> Self {
        let text = error.to_string();
        match error {
            UnregisterError::BadName(_) => Self::usage("bad_name", text),
            UnregisterError::NotHeldHere { holder, .. } => {
                let holder = holder.as_ref().map(self::holder);
                Self::no(StatusCode::NOT_FOUND, "not_held_here", text).with("holder", holder)
            }
            UnregisterError::Pending { waited, .. } => {
                Self::timed_out("pending", text).with("waited_ms", waited.as_millis())
            }
            UnregisterError::StoreUnavailable { lasting } => {
                Self::unavailable("store_unavailable", text).with("lasting_ms", lasting.as_millis())
            }
            UnregisterError::Left => Self::unavailable("left", text),
            UnregisterError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<OfferError> for Refusal {
    fn from(error: OfferError) -> Self {
        let text = error.to_string();
        match error {
            OfferError::BadName(_) => Self::usage("bad_name", text),
            OfferError::NotHeldHere { holder, .. } => {
                let holder = holder.as_ref().map(self::holder);
                Self::no(StatusCode::NOT_FOUND, "not_held_here", text).with("holder", holder)
            }
            OfferError::NotGiven { .. } => Self::no(StatusCode::CONFLICT, "not_given", text),
            OfferError::Busy { .. } => Self::no(StatusCode::CONFLICT, "busy", text),
            OfferError::NoSuchMember { .. } => Self::no(StatusCode::NOT_FOUND, "no_such_member", text),
            OfferError::NotReady { .. } => Self::no(StatusCode::CONFLICT, "member_not_ready", text),
            OfferError::Declined { why, .. } => {
                Self::no(StatusCode::CONFLICT, "declined", text).with("why", why.to_string())
            }
            // It may still ask for the name.
            OfferError::Silent { .. } => Self::timed_out("silent", text),
            OfferError::Unknown { waited, .. } => {
                Self::timed_out("unknown", text).with("waited_ms", waited.as_millis())
            }
            OfferError::Lapsed => Self::unavailable("lapsed", text),
            OfferError::Left => Self::unavailable("left", text),
            OfferError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<ConfigureError> for Refusal {
    fn from(error: ConfigureError) -> Self {
        let text = error.to_string();
        match error {
            ConfigureError::OutOfBounds(OutOfBounds { value, .. }) => Self::usage("out_of_bounds", text)
                .with("value_ms", whole_millis(value))
                .with("least_ms", whole_millis(OutOfBounds::LEAST))
                .with("most_ms", whole_millis(OutOfBounds::MOST)),
            ConfigureError::Unknown { waited, in_force } => Self::timed_out("unknown", text)
                .with("waited_ms", waited.as_millis())
                .with("settings", settings(&in_force)),
            ConfigureError::Left => Self::unavailable("left", text),
            ConfigureError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<LookupError> for Refusal {
    fn from(error: LookupError) -> Self {
        let text = error.to_string();
        match error {
            LookupError::BadName(_) => Self::usage("bad_name", text),
            LookupError::NotSynced => Self::unavailable("not_synced", text),
            LookupError::Lapsed { last_known } => {
                Self::unavailable("lapsed", text).with("last_known", last_known.as_ref().map(holder))
            }
            LookupError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<NotReady> for Refusal {
    fn from(error: NotReady) -> Self {
        let why = match &error {
            NotReady::Failed(_) => "failed",
            NotReady::Left => "left",
            NotReady::Draining => "draining",
            NotReady::NotTrusted { .. } => "lapsed",
            NotReady::Full { .. } => "full",
            NotReady::NotSynced { .. } => "not_synced",
            NotReady::NobodyMayLead { .. } => "nobody_may_lead",
            NotReady::NoLeader { .. } => "no_leader",
            NotReady::Unanswered { .. } => "unanswered",
            _ => "other",
        };
        Self::unavailable("not_ready", error.to_string()).with("why", why)
    }
}

impl From<WaitError> for Refusal {
    fn from(error: WaitError) -> Self {
        let text = error.to_string();
        match error {
            WaitError::Behind { at, .. } => Self::timed_out("behind", text).with("at", at),
            WaitError::Left => Self::unavailable("left", text),
            WaitError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<ExplainError> for Refusal {
    fn from(error: ExplainError) -> Self {
        let text = error.to_string();
        match error {
            ExplainError::BadName(_) => Self::usage("bad_name", text),
            ExplainError::Unanswered { .. } => Self::timed_out("unanswered", text),
            ExplainError::Left => Self::unavailable("left", text),
            ExplainError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<ConsistentError> for Refusal {
    fn from(error: ConsistentError) -> Self {
        let text = error.to_string();
        match error {
            ConsistentError::BadName(_) => Self::usage("bad_name", text),
            ConsistentError::StoreUnavailable { .. } => Self::unavailable("store_unavailable", text),
            ConsistentError::Behind { at, wanted, .. } => {
                Self::timed_out("behind", text).with("at", at).with("wanted", wanted)
            }
            ConsistentError::Unanswered { .. } => Self::timed_out("unanswered", text),
            ConsistentError::Left => Self::unavailable("left", text),
            ConsistentError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
            _ => Self::unavailable("other", text),
        }
    }
}

impl From<WhereisError> for Refusal {
    fn from(error: WhereisError) -> Self {
        let text = error.to_string();
        match error {
            WhereisError::NotFound { name } => Self::not_found(&name),
            WhereisError::Lookup(error) => error.into(),
            WhereisError::Consistent(error) => error.into(),
            WhereisError::Starting { node, token, .. } => {
                Self::unavailable("starting", text).with("node", node).with("token", token)
            }
            WhereisError::Unreachable { entry, source, .. } => {
                let code = match source {
                    ResolveError::WrongType { .. } => "wrong_type",
                    ResolveError::Gone => "actor_ended",
                    _ => "unreachable",
                };
                Self::unavailable(code, text).with("holder", holder(&entry))
            }
            _ => Self::unavailable("other", text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_and_dont_know_have_different_exit_statuses() {
        let no: Refusal = WhereisError::NotFound { name: "x".into() }.into();
        let unknown: Refusal =
            RegisterError::Unknown { name: "x".into(), waited: Duration::from_secs(5) }.into();
        let unavailable: Refusal = RegisterError::NoLeader.into();
        let usage: Refusal = RegisterError::BadName(callsign::BadName::Empty).into();
        let statuses = [no, unknown, unavailable, usage].map(|refusal| refusal.verdict.exit_status());
        assert_eq!(statuses, [1, 3, 3, 2]);
    }
}
