//! The node's session: what becomes of those who hold names, and of those who wait, when it lapses and when it is lost. All of it is
//! a [duty](super::duties).

use callsign_store::planted;

use super::{Arc, Host, SessionId, Time, duties::Duty};

impl Host {
    pub(crate) fn on_session_opened(&mut self, session: SessionId) {
        self.is_synced = false;
        self.owes(Duty::Opened(session));
    }

    pub(crate) fn on_session_lapsed(&mut self, session: SessionId) {
        if !planted!("start-outlives-lapse") {
            self.owes(Duty::EndStarts);
        }
        self.owes(Duty::Lapsed(session));
    }

    pub(crate) fn on_session_resumed(&mut self, session: SessionId) {
        if planted!("rest-of-a-lapse-forgotten") {
            self.forget_duties();
        }
        self.owes(Duty::Resumed(session));
    }

    pub(crate) fn on_session_lost(&mut self, now: Time) {
        self.owes(Duty::End { is_of_log: false });
        self.owes(Duty::Refuse { at: now });
    }

    /// The registry was joined while the session was lapsed: nobody has told it of the session before.
    pub(super) fn adopt(&mut self, session: SessionId) {
        if self.session.is_none() && !planted!("lapsed-session-not-adopted") {
            self.session = Some(Arc::new(session));
        }
    }
}
