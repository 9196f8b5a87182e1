//! What a node knows of one name, all together: for whoever wants to know why it is as it is.

use std::{fmt, time::Duration};

use callsign_store::ids::{NodeName, Position, SessionNumber};

use crate::{
    core::{
        entry::Entry,
        explained::{Explained, NameState, PastChange},
        input::{Answer, Call},
        name::{Name, check_name},
    },
    driver::registry::Registry,
    error::ExplainError,
    status::Status,
};

/// What a node knows of a name: see [`Registry::explain`]. Shown as text, it is a sentence that says how the name is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The name.
    pub name: Name,
    /// The holder, or why there is none.
    pub state: NameState,
    /// The session of the holder. `None`: nobody holds the name, or this node does not know.
    pub session: Option<HolderSession>,
    /// The last changes of the name that this node remembers, oldest first, at most 32: the ends of registrations; and also what was between,
    /// if somebody [watches](Registry::watch) on this node, or did within the last minute.
    pub changes: Vec<PastChange>,
    /// This node remembers what has ended behind this position. `None`: its replica is no complete prefix of the log.
    pub remembers_from: Option<Position>,
    /// Up to where this node had applied the log when it said so.
    pub position: Position,
    /// Whether this node's own session is trusted. If it is not, the name may have moved on.
    pub trusted: bool,
    /// What this node knows of the registry: who leads, which members there are, and to whom it is linked.
    pub status: Status,
}

/// The session of a node that holds a name, as another node sees it, or itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderSession {
    /// The node.
    pub node: NodeName,
    /// The number of the session.
    pub number: SessionNumber,
    /// Whether it is open, as far as this node has read. `None`: it has not read that.
    pub open: Option<bool>,
    /// Whether the node may count on it. `None`: it is another node's, and only that one knows.
    pub trusted: Option<bool>,
    /// How long ago it was renewed last, as this node has seen. `None`: it has not seen that.
    pub last_beat: Option<Duration>,
    /// For how long it may be silent before others may close it. `None`: this node has not read that.
    pub lease: Option<Duration>,
}

impl Registry {
    /// What this node knows of a name: who holds it and since when, the session of the holder, the last changes, and if nobody holds it, why.
    ///
    /// It asks nobody but this node's own member, and so it answers while the node lacks a leader, the store or its session. Cost: a look at
    /// all that the node remembers, some milliseconds at most. It is meant for people, not for each request of a program.
    ///
    /// A node remembers the last 4096 registrations that ended in its registry, from where on it follows the log without a gap. Of a name that
    /// it does not remember it says so ([`WhyFree::NotRemembered`](crate::WhyFree::NotRemembered)).
    ///
    /// ```no_run
    /// # use callsign::{NameState, Registry, WhyFree};
    /// # async fn run(registry: &Registry) -> Result<(), Box<dyn std::error::Error>> {
    /// let explained = registry.explain("pricing").await?;
    /// println!("{explained}"); // nobody holds pricing: its actor on berlin ended at position 412 (12 s ago)
    /// if let NameState::Free(WhyFree::Ended(last)) = &explained.state {
    ///     println!("{} at {}, {:?} ago", last.change.why, last.change.position, last.ago);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `BadName` if nobody can hold such a name; `Unanswered` if the member has not answered within
    /// [`request_timeout`](crate::Config::request_timeout); `Left` and `Failed` if it has ended.
    pub async fn explain(&self, name: &str) -> Result<Explanation, ExplainError> {
        check_name(name)?;
        let name: Name = name.into();
        let call = Call::Explain { name: name.clone() };
        let explained = match self.shared.call(call, self.shared.calls.timeout).await {
            Some(Answer::Explained(explained)) => *explained?,
            _ => return Err(self.shared.failure().cloned().map_or(ExplainError::Left, ExplainError::Failed)),
        };
        let Explained { state, is_open, changes, remembers_from, position } = explained;
        let session = state.entry().map(|entry| self.session_of(entry, is_open));
        let (trusted, status) = (self.shared.trust.check().is_ok(), self.status());
        Ok(Explanation { name, state, session, changes, remembers_from, position, trusted, status })
    }

    fn session_of(&self, entry: &Entry, open: Option<bool>) -> HolderSession {
        let session = entry.session_id();
        let sight = self.node.sight_of(&session);
        HolderSession {
            open,
            trusted: sight.and_then(|sight| sight.trusted),
            last_beat: sight.and_then(|sight| sight.last_beat),
            lease: sight.map(|sight| sight.lease),
            node: session.node,
            number: session.number,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.of(&self.name).fmt(f)?;
        if !self.trusted {
            f.write_str("; the session of this node is not trusted, and the name may have moved on")?;
        } else if !self.status.synced && self.state != NameState::Unknown {
            f.write_str("; this node is not synced, and may lack the latest changes")?;
        }
        Ok(())
    }
}

impl fmt::Display for HolderSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} of {}", self.number, self.node)?;
        match (self.open, self.trusted) {
            (_, Some(true)) => f.write_str(" is this node's own, and trusted")?,
            (_, Some(false)) => f.write_str(" is this node's own, and not trusted")?,
            (Some(true), None) => f.write_str(" is open")?,
            (Some(false), None) => f.write_str(" is closed: the name is freed soon")?,
            (None, None) => f.write_str(" was not read by this node")?,
        }
        if let Some(beat) = self.last_beat {
            write!(f, "; it was renewed {:.1} s ago", beat.as_secs_f64())?;
        }
        if let Some(lease) = self.lease {
            write!(f, "; its lease is {lease:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::explained::WhyFree;

    fn said(state: NameState, trusted: bool, synced: bool) -> String {
        let status = Status { synced, ..Status::joining(&NodeName::new("a").unwrap()) };
        let explained = Explanation {
            name: "shop".into(),
            state,
            session: None,
            changes: Vec::new(),
            remembers_from: None,
            position: Position(9),
            trusted,
            status,
        };
        explained.to_string()
    }

    #[test]
    fn an_answer_that_may_be_old_says_so_and_why() {
        let free = || NameState::Free(WhyFree::NotRemembered { since: Position(9) });
        let lapsed = "; the session of this node is not trusted, and the name may have moved on";
        let behind = "; this node is not synced, and may lack the latest changes";
        let answer = said(free(), true, true);
        assert!(answer.starts_with("nobody holds shop: ") && !answer.contains(';'), "{answer}");
        assert_eq!(said(free(), true, false), format!("{answer}{behind}"));
        for synced in [true, false] {
            assert_eq!(said(free(), false, synced), format!("{answer}{lapsed}"));
        }
        // It has said so already.
        let unknown = said(NameState::Unknown, true, false);
        assert_eq!(unknown, "this node does not know who holds shop: its replica is not complete");
        assert_eq!(said(NameState::Unknown, false, false), format!("{unknown}{lapsed}"));
    }

    #[test]
    fn what_is_known_of_a_session_is_a_sentence() {
        let of = |open, trusted, last_beat, lease| {
            let (node, number) = (NodeName::new("b").unwrap(), SessionNumber(3));
            HolderSession { node, number, open, trusted, last_beat, lease }.to_string()
        };
        let millis = |millis| Some(Duration::from_millis(millis));
        for (open, trusted, is_so) in [
            (None, Some(true), "is this node's own, and trusted"),
            (Some(true), Some(false), "is this node's own, and not trusted"),
            (Some(true), None, "is open"),
            (Some(false), None, "is closed: the name is freed soon"),
            (None, None, "was not read by this node"),
        ] {
            assert_eq!(of(open, trusted, None, None), format!("session 3 of b {is_so}"));
        }
        assert_eq!(
            of(Some(true), None, millis(1300), millis(10_000)),
            "session 3 of b is open; it was renewed 1.3 s ago; its lease is 10s"
        );
    }
}
