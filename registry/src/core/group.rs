//! Groups: keys with many members, as rows of the same table.
//!
//! A membership is a row under a name that no user can register, because it begins with a NUL character. The name says the group, its
//! limit, the actor and the session; so two members are never under one name, joining twice is the same row, and whatever
//! holds for names holds for memberships: requests, verdicts, claims, ends of actors and sessions, snapshots and digests.
//!
//! ```text
//!  NUL g NAME NUL NUL ACTOR NUL SESSION NUL NODE              a member of a group
//!  NUL s NAME NUL LIMIT NUL ACTOR NUL SESSION NUL NODE        a place in a semaphore, or in a lock: LIMIT of them hold
//! ```
//!
//! The limit is that of the first row, because the leader refuses a row of another one while the group has rows. A batch has one
//! new place of a semaphore at most: so each place has a position of its own, and the tokens of those who hold it one after the
//! other grow.

use std::fmt::Write as _;

use callsign_store::ids::SessionId;
use serde::{Deserialize, Serialize};

use crate::core::name::{Name, RESERVED};

/// How the names of places in semaphores begin.
const PLACE: &str = "\0s";

/// Which group, and how many of its members hold something by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId {
    /// How the names of all its rows begin.
    key: Name,
    /// The first so many members, in order, hold what the group is for. None: it is no semaphore.
    limit: Option<u32>,
}

impl GroupId {
    /// A group of any number of members.
    pub fn group(name: &str) -> Self {
        Self { key: format!("{RESERVED}g{name}").into(), limit: None }
    }

    /// A semaphore that so many may hold.
    pub fn semaphore(name: &str, limit: u32) -> Self {
        Self { key: format!("{PLACE}{name}").into(), limit: Some(limit) }
    }

    pub fn is_semaphore(&self) -> bool {
        self.limit.is_some()
    }

    /// How the names of its rows begin. Of whatever limit the group is.
    pub fn key(&self) -> &Name {
        &self.key
    }

    /// The name of the row of an actor of a session.
    pub fn member(&self, session: &SessionId, actor: u64) -> Name {
        let SessionId { node, number, .. } = session;
        // Room for the three numbers, too: it never grows.
        let mut name = String::with_capacity(self.key.len() + node.as_str().len() + 64);
        name.push_str(&self.key);
        name.push(RESERVED);
        if let Some(limit) = self.limit {
            name.push_str(&limit.to_string());
        }
        // Writing to a string does not fail.
        let _ = write!(name, "\0{actor}\0{}\0", number.0);
        name.push_str(node.as_str());
        name.into()
    }
}

/// What the name of a membership says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipName<'a> {
    /// The [key](GroupId::key) of the group.
    pub group: &'a str,
    pub limit: Option<u32>,
}

impl<'a> MembershipName<'a> {
    /// The name of the group, as users say it.
    pub fn name(self) -> &'a str {
        self.group.get(2..).unwrap_or_default()
    }

    /// None: it is a name that users register.
    #[inline]
    pub fn of(name: &'a str) -> Option<Self> {
        if name.starts_with(RESERVED) { Self::parse(name) } else { None }
    }

    fn parse(name: &'a str) -> Option<Self> {
        // The name of the group is the only part that may have a NUL in it.
        let (mut before, mut last) = (name, "");
        for _part in ["node", "session", "actor", "limit"] {
            // The parts are short: to look at each byte is faster than what searches long strings.
            let at = before.bytes().rposition(|byte| byte == 0)?;
            (before, last) = (before.get(..at)?, before.get(at + 1..)?);
        }
        let limit = if last.is_empty() { None } else { Some(last.parse().ok()?) };
        Some(Self { group: before, limit })
    }

    /// The same, of a place in a semaphore.
    #[inline]
    pub fn of_place(name: &'a str) -> Option<(&'a str, u32)> {
        if !name.starts_with(PLACE) {
            return None;
        }
        let Self { group, limit } = Self::parse(name)?;
        limit.map(|limit| (group, limit))
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::{Incarnation, NodeName, SessionNumber};

    use super::*;
    use crate::core::name::{BadName, check_name};

    #[test]
    fn the_name_of_a_membership_says_its_group_and_nobody_registers_it() {
        let node = NodeName::new("berlin").unwrap();
        let session = SessionId { node, incarnation: Incarnation(1), number: SessionNumber(7) };
        for (group, limit) in [
            (GroupId::group("room/7"), None),
            (GroupId::group("a\0b"), None),
            (GroupId::semaphore("gpu", 4), Some(4)),
            (GroupId::semaphore("gpu\x001", 4), Some(4)),
        ] {
            let name = group.member(&session, 5);
            assert_eq!(MembershipName::of(&name), Some(MembershipName { group: group.key(), limit }));
            assert_eq!(group.key()[2..], *MembershipName::of(&name).unwrap().name());
            assert_eq!(check_name(&name), Err(BadName::Reserved));
            assert_ne!(name, group.member(&session, 6));
        }
        assert_ne!(GroupId::group("x").key(), GroupId::semaphore("x", 1).key());
        assert_eq!(GroupId::semaphore("x", 1).key(), GroupId::semaphore("x", 2).key());
        for other in ["", "x", "g", "\0", "\0gx\0a\0b\0berlin", "\0sx\0many\0a\0b\0berlin"] {
            assert_eq!(MembershipName::of(other), None, "{other:?}");
        }
    }
}
