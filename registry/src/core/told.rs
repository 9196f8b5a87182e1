//! What the cores of a node are told: each of them by another, or from outside.

use callsign_elector::{
    elector,
    session::{self, SessionEvent},
};
use callsign_store::planted;

use crate::core::input::Input;

/// What one core of a node is told, by another or from outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// To the session of the node.
    Session(session::Input),
    /// To the elector of the registry.
    Elector(elector::Input),
    /// To its member.
    Member(Input),
}

impl Told {
    /// What an event of the node's session is to the elector and the member of each registry of the node.
    pub fn of_session(event: SessionEvent) -> impl Iterator<Item = Self> {
        let (notice, input) = match event {
            SessionEvent::Opened { session } => {
                (Some(elector::Notice::Session(Some(session.clone()))), Some(Input::SessionOpened(session)))
            }
            SessionEvent::Lapsed { session } => {
                (Some(elector::Notice::Session(None)), Some(Input::SessionLapsed(session)))
            }
            SessionEvent::Resumed { session } if planted!("resumed-without-elector") => {
                (None, Some(Input::SessionResumed(session)))
            }
            SessionEvent::Resumed { session } => {
                (Some(elector::Notice::Session(Some(session.clone()))), Some(Input::SessionResumed(session)))
            }
            SessionEvent::Lost { .. } => (Some(elector::Notice::Session(None)), Some(Input::SessionLost)),
            SessionEvent::Lineage { lineage, since } => {
                (Some(elector::Notice::Lineage { lineage, since }), Some(Input::Lineage(lineage)))
            }
            SessionEvent::PeerClosed(_) => (Some(elector::Notice::Changed), None),
            _ => (None, None),
        };
        let notice = notice.map(|notice| Self::Elector(elector::Input::Notice(notice)));
        notice.into_iter().chain(input.map(Self::Member))
    }
}
