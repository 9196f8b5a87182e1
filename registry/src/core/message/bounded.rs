//! Bounds to which a reader holds what a peer says: lists, before it keeps what is behind the bound, and texts of requests.

use std::{fmt, marker::PhantomData};

use callsign_elector::state::MAX_MEMBERS;
use callsign_store::ids::MAX_NAME;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use super::{MAX_REASON_BYTES, Request, Wish};
use crate::core::{group::MembershipName, name::MAX_NAME_BYTES, why::GivenUp};

/// What the name of a membership has at most beside the name of its group: how it begins, four NULs, the limit, the actor, the
/// session and the node.
const MEMBERSHIP_BYTES: usize = 2 + 4 + 10 + 20 + 20 + MAX_NAME;

impl Request {
    /// Whether its texts are as short as hosts make them. Longer ones may fit into no batch.
    pub(crate) fn is_bounded(&self) -> bool {
        let more = if MembershipName::of(&self.name).is_some() { MEMBERSHIP_BYTES } else { 0 };
        let reason = match &self.wish {
            Wish::Unregister { why: GivenUp::StartFailed { reason }, .. } => reason.len(),
            _ => 0,
        };
        self.name.len() <= MAX_NAME_BYTES + more && reason <= MAX_REASON_BYTES
    }
}

/// No more of them than a registry has members.
pub(super) fn members<'de, D: Deserializer<'de>, M: Deserialize<'de>>(from: D) -> Result<Vec<M>, D::Error> {
    from.deserialize_seq(MembersVisitor(PhantomData))
}

struct MembersVisitor<M>(PhantomData<M>);

impl<'de, M: Deserialize<'de>> Visitor<'de> for MembersVisitor<M> {
    type Value = Vec<M>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_MEMBERS} of them, one for each member")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(node) = from.next_element()? {
            if members.len() == MAX_MEMBERS {
                return Err(A::Error::invalid_length(MAX_MEMBERS + 1, &self));
            }
            members.push(node);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::{
        Version,
        ids::{Epoch, NodeName, Position},
    };

    use super::*;
    use crate::core::message::{BadMessage, ChangedRow, Message};

    #[test]
    fn no_more_links_or_rows_are_taken_than_a_registry_has_members() {
        let links = |count: usize| {
            let linked = (0..count).map(|nth| NodeName::new(format!("n{nth}")).unwrap()).collect();
            Message::Links { linked, position: Position(0) }
        };
        for count in [0, 1, MAX_MEMBERS] {
            assert_eq!(Message::decode(&links(count).encode()), Ok(links(count)), "{count}");
        }
        let refused = Message::decode(&links(MAX_MEMBERS + 1).encode());
        let Err(BadMessage::Malformed(why)) = refused else { panic!("{refused:?}") };
        assert!(
            why.contains("invalid length 257, expected at most 256 of them, one for each member"),
            "{why}"
        );
        let delta = |count: usize| {
            let node = |nth| NodeName::new(format!("n{nth}")).unwrap();
            let rows = (0..count).map(|nth| ChangedRow { node: node(nth), row: None, session: None });
            let (epoch, version) = (Epoch(1), Version(1));
            Message::ViewDelta { epoch, version, from: None, to: None, rows: rows.collect() }
        };
        assert_eq!(Message::decode(&delta(MAX_MEMBERS).encode()), Ok(delta(MAX_MEMBERS)));
        let refused = Message::decode(&delta(MAX_MEMBERS + 1).encode());
        assert!(matches!(refused, Err(BadMessage::Malformed(_))), "{refused:?}");
        // A peer that says how many come, and sends none, costs nothing.
        let bytes = links(1).encode();
        let at = bytes.len() - 5;
        assert_eq!(&bytes[at..], b"\x91\xa2n0\0");
        let endless = [&bytes[..at], b"\xdd\xff\xff\xff\xff"].concat();
        assert!(matches!(Message::decode(&endless), Err(BadMessage::Malformed(_))));
        let unnamed = [&bytes[..at], b"\x91\xa0\0"].concat();
        assert!(matches!(Message::decode(&unnamed), Err(BadMessage::Malformed(_))), "no node has this name");
    }
}
