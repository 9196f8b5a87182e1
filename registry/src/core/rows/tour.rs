//! A walk over all names, a few at a time, while they change.

use std::collections::BTreeMap;

use callsign_store::ids::SessionId;

use super::{Held, Names};
use crate::core::name::Name;

/// Where a walk is that goes once over the names that were there when it began, session by session.
///
/// It goes from the end of each session's list to its beginning: a name that goes leaves its place to the last one, which was walked
/// over, unless it comes to stand before those that were. So it may come twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tour {
    /// The sessions that are still to be walked over, and how many names of the last one.
    sessions: Vec<SessionId>,
    left: Option<usize>,
}

impl Tour {
    pub(super) fn over(sessions: &BTreeMap<SessionId, Held>) -> Self {
        Self { sessions: sessions.keys().cloned().collect(), left: None }
    }

    /// Whether there is none left of those that were there.
    pub(crate) fn is_over(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The next name that was there when the walk began, or came since.
    pub(crate) fn next<'a>(&mut self, sessions: &'a BTreeMap<SessionId, Held>) -> Option<&'a Name> {
        loop {
            let names = sessions.get(self.sessions.last()?).map(|held| &held.names);
            let count = names.map_or(0, Names::len);
            let left = self.left.unwrap_or(count).min(count);
            self.left = left.checked_sub(1).filter(|left| *left > 0);
            if self.left.is_none() {
                self.sessions.pop();
            }
            if let Some(name) = names.and_then(|names| names.get(left.checked_sub(1)?)) {
                return Some(name);
            }
        }
    }
}
