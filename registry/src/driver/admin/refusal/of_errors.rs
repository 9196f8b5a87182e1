//! The refusal that each error of a registry is.

use axum::http::StatusCode;
use callsign_store::in_full;

use super::{
    super::shown::{holder as holder_of, settings, whole_millis},
    HttpRefusal,
};
use crate::{
    ConfigureError, ConsistentError, ExplainError, LookupError, MetaError, NotLive, NotReady, OfferError,
    OutOfBounds, RegisterError, ResolveError, UnregisterError, UpdateError, WaitError, WhereisError,
};

impl From<MetaError> for HttpRefusal {
    fn from(error: MetaError) -> Self {
        Self::usage("bad_meta", in_full(&error).to_string())
    }
}

impl From<UpdateError> for HttpRefusal {
    fn from(error: UpdateError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            UpdateError::BadMeta(error) => error.into(),
            UpdateError::NotHeld { holder, .. } => {
                let holder = holder.as_ref().map(holder_of);
                Self::no(StatusCode::NOT_FOUND, "not_held_here", text).with("holder", holder)
            }
            UpdateError::Changed { expected, revision, .. } => {
                let refusal = Self::no(StatusCode::CONFLICT, "changed", text);
                refusal.with("expected", expected).with("revision", revision)
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
        }
    }
}

impl From<RegisterError> for HttpRefusal {
    fn from(error: RegisterError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            RegisterError::BadName(_) => Self::usage("bad_name", text),
            RegisterError::Taken { holder, .. } => {
                Self::no(StatusCode::CONFLICT, "taken", text).with("holder", holder_of(&holder))
            }
            RegisterError::NotPermitted { allowed, .. } => {
                Self::no(StatusCode::FORBIDDEN, "not_permitted", text).with("allowed", allowed)
            }
            RegisterError::OtherLimit { limit } => {
                Self::no(StatusCode::CONFLICT, "other_limit", text).with("limit", limit)
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
        }
    }
}

impl From<UnregisterError> for HttpRefusal {
    fn from(error: UnregisterError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            UnregisterError::BadName(_) => Self::usage("bad_name", text),
            UnregisterError::NotHeldHere { holder, .. } => {
                let holder = holder.as_ref().map(holder_of);
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
        }
    }
}

impl From<OfferError> for HttpRefusal {
    fn from(error: OfferError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            OfferError::BadName(_) => Self::usage("bad_name", text),
            OfferError::NotHeldHere { holder, .. } => {
                let holder = holder.as_ref().map(holder_of);
                Self::no(StatusCode::NOT_FOUND, "not_held_here", text).with("holder", holder)
            }
            OfferError::NotGiven { .. } => Self::no(StatusCode::CONFLICT, "not_given", text),
            OfferError::Busy { .. } => Self::no(StatusCode::CONFLICT, "busy", text),
            OfferError::NoSuchMember { .. } => Self::no(StatusCode::NOT_FOUND, "no_such_member", text),
            OfferError::NotReady { .. } => Self::no(StatusCode::CONFLICT, "member_not_ready", text),
            OfferError::Declined { why, .. } => {
                Self::no(StatusCode::CONFLICT, "declined", text).with("why", in_full(&why).to_string())
            }
            // It may still ask for the name.
            OfferError::Silent { .. } => Self::timed_out("silent", text),
            OfferError::Unknown { waited, .. } => {
                Self::timed_out("unknown", text).with("waited_ms", waited.as_millis())
            }
            OfferError::Lapsed => Self::unavailable("lapsed", text),
            OfferError::Left => Self::unavailable("left", text),
            OfferError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
        }
    }
}

impl From<ConfigureError> for HttpRefusal {
    fn from(error: ConfigureError) -> Self {
        let text = in_full(&error).to_string();
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
        }
    }
}

impl From<LookupError> for HttpRefusal {
    fn from(error: LookupError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            LookupError::BadName(_) => Self::usage("bad_name", text),
            LookupError::NotSynced => Self::unavailable("not_synced", text),
            LookupError::Lapsed { last_known } => {
                Self::unavailable("lapsed", text).with("last_known", last_known.as_ref().map(holder_of))
            }
            LookupError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
        }
    }
}

impl From<NotReady> for HttpRefusal {
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
        };
        Self::unavailable("not_ready", in_full(&error).to_string()).with("why", why)
    }
}

impl From<NotLive> for HttpRefusal {
    fn from(error: NotLive) -> Self {
        let why = match &error {
            NotLive::Failed(_) => "failed",
            NotLive::Unanswered { .. } => "unanswered",
        };
        Self::unavailable("not_live", in_full(&error).to_string()).with("why", why)
    }
}

impl From<WaitError> for HttpRefusal {
    fn from(error: WaitError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            WaitError::Behind { at, .. } => Self::timed_out("behind", text).with("at", at),
            WaitError::Left => Self::unavailable("left", text),
            WaitError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
        }
    }
}

impl From<ExplainError> for HttpRefusal {
    fn from(error: ExplainError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            ExplainError::BadName(_) => Self::usage("bad_name", text),
            ExplainError::Unanswered { .. } => Self::timed_out("unanswered", text),
            ExplainError::Left => Self::unavailable("left", text),
            ExplainError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
        }
    }
}

impl From<ConsistentError> for HttpRefusal {
    fn from(error: ConsistentError) -> Self {
        let text = in_full(&error).to_string();
        match error {
            ConsistentError::BadName(_) => Self::usage("bad_name", text),
            ConsistentError::StoreUnavailable { .. } => Self::unavailable("store_unavailable", text),
            ConsistentError::Behind { at, wanted, .. } => {
                Self::timed_out("behind", text).with("at", at).with("wanted", wanted)
            }
            ConsistentError::Unanswered { .. } => Self::timed_out("unanswered", text),
            ConsistentError::Left => Self::unavailable("left", text),
            ConsistentError::Failed(failure) => Self::unavailable("failed", text).with("failure", failure),
        }
    }
}

impl From<WhereisError> for HttpRefusal {
    fn from(error: WhereisError) -> Self {
        let text = in_full(&error).to_string();
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
                Self::unavailable(code, text).with("holder", holder_of(&entry))
            }
        }
    }
}
