//! What a link knows of one reference over it: the proxy, and what the peer said of its actor.

use std::sync::{Arc, OnceLock};

use ractor::ActorCell;
use tokio::sync::Notify;

use super::resolved::is_alive;
use crate::core::{ends::End, frame::NotDelivered};

/// A proxy, and what is known of its actor.
#[derive(Clone)]
pub(crate) struct Reference {
    pub(super) proxy: ActorCell,
    pub(super) news: Arc<News>,
}

/// What came of asking for an actor.
#[derive(Default)]
pub(super) struct News {
    /// It lives, or it does not.
    answer: OnceLock<Result<(), Gone>>,
    answered: Notify,
    /// What it failed with, for the end of its proxy.
    failed: OnceLock<String>,
}

/// Why a reference has ended.
#[derive(Clone, Debug)]
pub(super) enum Gone {
    /// The actor has.
    Actor(End),
    /// The link is down, for this reason. The actor may live.
    Link(Arc<str>),
}

impl Gone {
    /// As monitors of the proxy are told.
    fn reason(&self) -> Option<String> {
        let text = match self {
            Self::Actor(End::Stopped(reason)) => return reason.as_deref().map(str::to_owned),
            Self::Actor(End::Failed(text)) => return Some(text.to_string()),
            Self::Actor(End::Not(NotDelivered::Gone)) => "the actor has ended",
            Self::Actor(End::Not(NotDelivered::NotExported)) => "the actor is not for other nodes",
            Self::Actor(End::Not(NotDelivered::WrongKind)) => "the actor takes messages of another kind",
            Self::Actor(End::Not(NotDelivered::NoAnswer)) => "the actor takes no messages",
            Self::Actor(End::TooMany(_)) => "its node will not say when the actor ends: there are too many",
            Self::Link(why) => why,
        };
        Some(format!("callsign: {text}"))
    }
}

impl News {
    /// The actor lives.
    pub(super) fn lives(&self) {
        self.answer(Ok(()));
    }

    fn answer(&self, answer: Result<(), Gone>) {
        let _ = self.answer.set(answer); // the first one is what was asked for
        self.answered.notify_waiters();
    }

    /// What came of asking, as soon as it is known.
    pub(super) async fn answered(&self) -> Result<(), Gone> {
        loop {
            let answered = self.answered.notified(); // before the look, so that no answer is missed
            if let Some(answer) = self.answer.get() {
                return answer.clone();
            }
            answered.await;
        }
    }

    /// What the proxy's end is to say, if its actor failed.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }
}

impl Reference {
    /// Whether it still takes messages.
    pub(super) fn is_alive(&self) -> bool {
        is_alive(&self.proxy)
    }

    /// Ends the proxy as its actor ended. Does not wait: when it returns, sending fails.
    pub(super) fn end(&self, gone: Gone) {
        if let Gone::Actor(End::Failed(text)) = &gone {
            let _ = self.news.failed.set(text.to_string());
        }
        // In this order: of two things to do a proxy that drains would do the other.
        self.proxy.stop(gone.reason());
        let _ = self.proxy.drain();
        self.news.answer(Err(gone));
    }
}
