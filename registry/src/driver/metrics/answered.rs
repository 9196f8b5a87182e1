//! The words for the calls of a member, and for what came of them.

use crate::{
    core::input::{Answer, StartedAs},
    error::{
        ConsistentError, NotStarted, OfferError, RegisterError, TakeError, UnregisterError, UpdateError,
    },
};

/// Which call an answer is of, and what came of it. `None`: it is not counted.
#[derive(Clone, Copy)]
pub(crate) struct Answered(Option<(&'static str, &'static str)>);

impl Answered {
    /// The words for the call, and for its outcome.
    pub(super) fn counted(&self) -> Option<(&'static str, &'static str)> {
        self.0
    }

    pub(crate) fn by(answer: &Answer) -> Self {
        Self(match answer {
            Answer::Registered(Ok(_)) => Some(("register", "granted")),
            Answer::Registered(Err(error)) => Some(("register", refusal(error))),
            Answer::Started(Ok(StartedAs::Ours(_))) => Some(("start", "ours")),
            Answer::Started(Ok(StartedAs::Theirs(_))) => Some(("start", "theirs")),
            Answer::Started(Err(error)) => Some(("start", not_started(error))),
            Answer::Taken(Ok(_)) => Some(("take", "taken")),
            Answer::Taken(Err(error)) => Some(("take", not_taken(error))),
            Answer::Offered(Ok(_)) => Some(("offer", "moved")),
            Answer::Offered(Err(error)) => Some(("offer", not_moved(error))),
            Answer::Unregistered(Ok(_)) => Some(("unregister", "freed")),
            Answer::Unregistered(Err(error)) => Some(("unregister", not_freed(error))),
            Answer::Updated(Ok(_)) => Some(("update", "updated")),
            Answer::Updated(Err(error)) => Some(("update", not_updated(error))),
            Answer::Consistent(Ok((_, Some(_)))) => Some(("lookup_consistent", "found")),
            Answer::Consistent(Ok((_, None))) => Some(("lookup_consistent", "not_found")),
            Answer::Consistent(Err(error)) => Some(("lookup_consistent", not_read(error))),
            Answer::Reached(_)
            | Answer::Explained(_)
            | Answer::Ready(_)
            | Answer::Drained(_)
            | Answer::Left => None,
        })
    }
}

fn refusal(error: &RegisterError) -> &'static str {
    match error {
        RegisterError::BadName(_) => "bad_name",
        RegisterError::Taken { .. } => "taken",
        RegisterError::ActorEnded => "actor_ended",
        RegisterError::NotLocal { .. } => "not_local",
        RegisterError::NotSynced => "not_synced",
        RegisterError::NoLeader => "no_leader",
        RegisterError::Lapsed => "lapsed",
        RegisterError::StoreUnavailable { .. } => "store_unavailable",
        RegisterError::SessionLost { .. } => "session_lost",
        RegisterError::Unknown { .. } => "unknown",
        RegisterError::Overloaded { .. } => "overloaded",
        RegisterError::Draining { .. } => "draining",
        RegisterError::Left => "left",
        RegisterError::OtherLimit { .. } => "other_limit",
        RegisterError::NotPermitted { .. } => "not_permitted",
        RegisterError::Failed(_) => "failed",
    }
}

fn not_started(error: &NotStarted) -> &'static str {
    match error {
        NotStarted::Register(error) => refusal(error),
        NotStarted::StillStarting { .. } => "still_starting",
        NotStarted::Failed { .. } => "start_failed",
        NotStarted::Panicked { .. } => "panicked",
        NotStarted::Ended => "actor_ended",
        NotStarted::NotLocal { .. } => "not_local",
        NotStarted::OtherMessages => "other_messages",
        NotStarted::TooSlow { .. } => "too_slow",
        NotStarted::Lost => "lost",
        NotStarted::Abandoned => "abandoned",
    }
}

fn not_freed(error: &UnregisterError) -> &'static str {
    match error {
        UnregisterError::BadName(_) => "bad_name",
        UnregisterError::NotHeldHere { .. } => "not_held_here",
        UnregisterError::Pending { .. } => "unknown",
        UnregisterError::StoreUnavailable { .. } => "store_unavailable",
        UnregisterError::Left => "left",
        UnregisterError::Failed(_) => "failed",
    }
}

fn not_updated(error: &UpdateError) -> &'static str {
    match error {
        UpdateError::BadMeta(_) => "bad_meta",
        UpdateError::NotHeld { .. } => "not_held_here",
        UpdateError::Changed { .. } => "changed",
        UpdateError::NotSynced => "not_synced",
        UpdateError::NoLeader => "no_leader",
        UpdateError::Lapsed => "lapsed",
        UpdateError::StoreUnavailable { .. } => "store_unavailable",
        UpdateError::SessionLost { .. } => "session_lost",
        UpdateError::Unknown { .. } => "unknown",
        UpdateError::Overloaded { .. } => "overloaded",
        UpdateError::Left => "left",
        UpdateError::Failed(_) => "failed",
    }
}

fn not_taken(error: &TakeError) -> &'static str {
    match error {
        TakeError::Register(error) => refusal(error),
        TakeError::Refused { .. } => "refused",
        TakeError::Gone { .. } => "gone",
        TakeError::Behind { .. } => "behind",
    }
}

fn not_moved(error: &OfferError) -> &'static str {
    match error {
        OfferError::BadName(_) => "bad_name",
        OfferError::NotHeldHere { .. } => "not_held_here",
        OfferError::NotGiven { .. } => "not_given",
        OfferError::Busy { .. } => "busy",
        OfferError::NoSuchMember { .. } => "no_such_member",
        OfferError::NotReady { .. } => "not_ready",
        OfferError::Declined { .. } => "declined",
        OfferError::Silent { .. } => "silent",
        OfferError::Lapsed => "lapsed",
        OfferError::Unknown { .. } => "unknown",
        OfferError::Left => "left",
        OfferError::Failed(_) => "failed",
    }
}

fn not_read(error: &ConsistentError) -> &'static str {
    match error {
        ConsistentError::BadName(_) => "bad_name",
        ConsistentError::StoreUnavailable { .. } => "store_unavailable",
        ConsistentError::Behind { .. } => "behind",
        ConsistentError::Unanswered { .. } => "unanswered",
        ConsistentError::Left => "left",
        ConsistentError::Failed(_) => "failed",
    }
}
