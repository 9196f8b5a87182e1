//! What is known of a member from outside: where it is, whom it is linked to, who leads.

use std::sync::Arc;

use callsign_elector::{elector::View, record::MemberRow};
use callsign_store::ids::{Epoch, NodeName};
#[cfg(feature = "cores")]
use callsign_store::ids::{Position, SessionId};

use super::Member;
use crate::core::{leader::Leader, replica::Replica, table::Table};
#[cfg(feature = "cores")]
use crate::core::{name::Name, table::RequestNumber};

impl<T: Table> Member<T> {
    pub fn replica(&self) -> &Replica<T> {
        &self.replica
    }

    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The members that are linked, without this one. While neither the view nor a link changes, this is the same allocation.
    pub fn linked(&self) -> &Arc<[NodeName]> {
        &self.linked
    }

    pub fn me(&self) -> &NodeName {
        &self.config.me
    }

    #[cfg(feature = "cores")]
    pub fn is_linked(&self, node: &NodeName) -> bool {
        self.links.contains_key(node)
    }

    /// How many links are up.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// How many names this node's own actors hold.
    pub fn claims(&self) -> usize {
        self.host.claims().len()
    }

    /// The names that this node's own actors hold, each with its actor and its token.
    #[cfg(feature = "cores")]
    pub fn holds(&self) -> impl Iterator<Item = (&Name, u64, Position)> {
        // An actor that is yet to be started has no number.
        self.host.claims().iter().map(|(name, claim)| (name, claim.actor.unwrap_or(0), claim.position))
    }

    /// How many names they hold, and a digest of these and their tokens: whether they changed, at no cost.
    #[cfg(feature = "cores")]
    pub fn claims_mark(&self) -> (usize, u64) {
        (self.host.claims().len(), self.host.claims_digest())
    }

    /// Whether the name of a claim is on its way to another actor: the claim is flagged.
    #[cfg(feature = "cores")]
    pub fn is_suspended(&self, name: &Name) -> bool {
        self.host.is_suspended(name)
    }

    /// Whether a take of this number has the data that go with its name.
    #[cfg(feature = "cores")]
    pub fn has_data(&self, number: RequestNumber) -> bool {
        self.host.has_data(number)
    }

    /// How many names are on their way, from here or to here.
    #[cfg(feature = "cores")]
    pub fn moves(&self) -> usize {
        self.host.moves()
    }

    /// The session that they belong to.
    #[cfg(feature = "cores")]
    pub fn session(&self) -> Option<&SessionId> {
        self.host.session()
    }

    /// Whether it has read more of the log than it has applied.
    #[cfg(feature = "cores")]
    pub fn is_reading_log(&self) -> bool {
        self.catchup.is_busy()
    }

    /// How many snapshots it is sending to others.
    #[cfg(feature = "cores")]
    pub fn snapshots_under_way(&self) -> usize {
        self.walks.count()
    }

    /// Whether this member leads and its epoch is open.
    pub fn is_serving(&self) -> bool {
        self.leader.as_ref().is_some_and(Leader::is_open)
    }

    /// Whether this leader knows that the session is open, or that it is closed.
    #[cfg(feature = "cores")]
    pub fn leader_has_read(&self, session: &SessionId) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_read(session))
    }

    /// Whether it leads, and knows that a session is closed.
    #[cfg(feature = "cores")]
    pub fn leader_has_read_closed(&self, session: &SessionId) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_read_closed(session))
    }

    /// Whether it has read the session that a name is to go to.
    #[cfg(feature = "cores")]
    pub fn leader_has_read_taker(&self, session: &SessionId) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_read_taker(session))
    }

    /// Whether it leads, and a session's request has come to it before.
    #[cfg(feature = "cores")]
    pub fn leader_has_request(&self, session: &SessionId, number: RequestNumber) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.has_request(session, number))
    }

    /// Whether its row says that its replica holds the end of the log.
    pub fn is_synced(&self) -> bool {
        self.row().is_some_and(|row| row.synced) && self.replica.is_based()
    }

    /// Its row, if it is a member in its present session. A view may be older than the session: its row goes with the former one,
    /// and no row would say that names of the present one are held, so that a `Reset` might lose them.
    pub(super) fn row(&self) -> Option<&MemberRow> {
        let row = self.view.members.get(&self.config.me).filter(|row| Some(row.token) == self.view.me)?;
        (self.host.session() == Some(&row.session)).then_some(row)
    }

    /// The leader that can be asked, and its epoch: it has opened it, and it is linked or this member.
    pub fn leader(&self) -> Option<(Epoch, &NodeName)> {
        let (epoch, node) = self.following.as_ref()?;
        let is_current = *epoch >= self.view.term.epoch;
        let is_reachable = if *node == self.config.me {
            self.leader.as_ref().is_some_and(|leader| leader.is_open() && leader.epoch() == *epoch)
        } else {
            self.links.contains_key(node)
        };
        (is_current && is_reachable).then_some((*epoch, node))
    }
}
