//! What a member knows of its registry, looked at.

use std::sync::Arc;

use callsign_elector::{elector::View, record::MemberRow};
use callsign_store::ids::NodeName;

use super::{LeaderInfo, MemberInfo, Status};
use crate::core::{member::Member, table::Table};

impl Status {
    /// `rows` has the members as they were when a member was last looked at.
    pub(crate) fn of<T: Table>(member: &Member<T>, rows: &mut MemberRows) -> Self {
        let (view, me) = (member.view(), member.me());
        let serving = member.leader().map(|(_, node)| node);
        let elected = view.term.leader.as_ref().map(|leader| &leader.node);
        let leader = elected.map(|node| LeaderInfo {
            node: node.clone(),
            epoch: view.term.epoch,
            serving: serving == Some(node),
        });
        Self {
            node: me.clone(),
            epoch: view.term.epoch,
            leads: member.is_serving(),
            synced: member.is_synced(),
            draining: member.is_draining(),
            position: member.replica().position(),
            claims: member.claims(),
            settings: view.settings,
            members: rows.of(member),
            leader,
            failed: None,
        }
    }
}

/// The rows of a registry's members, kept until one of them changes: a busy member is looked at far more often.
#[derive(Debug, Default)]
pub(crate) struct MemberRows {
    made_of: Option<MadeOf>,
    rows: Arc<[MemberInfo]>,
}

/// What rows are made of.
#[derive(Debug)]
struct MadeOf {
    view: Arc<View>,
    linked: Arc<[NodeName]>,
    /// This number grows when what others say changes.
    said: u64,
    /// How far this member is behind.
    behind: u64,
}

impl MadeOf {
    fn of<T: Table>(member: &Member<T>) -> Self {
        Self {
            view: member.view().clone(),
            linked: member.linked().clone(),
            said: member.links_changes(),
            behind: lacks(member),
        }
    }

    /// Whether rows of this would be the same now. The same allocations have the same in them. It is asked after each step, so nothing is cloned.
    fn is_still_so<T: Table>(&self, member: &Member<T>) -> bool {
        Arc::ptr_eq(&self.view, member.view())
            && Arc::ptr_eq(&self.linked, member.linked())
            && self.said == member.links_changes()
            && self.behind == lacks(member)
    }
}

/// How many positions of the log a member lacks itself.
fn lacks<T: Table>(member: &Member<T>) -> u64 {
    member.behind_of(member.me()).unwrap_or_default()
}

impl MemberRows {
    fn of<T: Table>(&mut self, member: &Member<T>) -> Arc<[MemberInfo]> {
        if !self.made_of.as_ref().is_some_and(|before| before.is_still_so(member)) {
            let now = MadeOf::of(member);
            let (view, linked) = (&now.view, &now.linked);
            let elected = view.term.leader.as_ref().map(|leader| &leader.node);
            let row = |(node, row): (&NodeName, &MemberRow)| MemberInfo {
                node: node.clone(),
                address: row.address.clone(),
                admin: row.admin.clone(),
                synced: row.synced,
                session_open: view.sessions.is_open(&row.session),
                leads: elected == Some(node),
                draining: row.draining,
                may_lead: row.priority != 0,
                linked: node == member.me() || linked.contains(node),
                links_to: member.links_of(node).cloned(),
                behind: member.behind_of(node),
            };
            self.rows = view.members.iter().map(row).collect();
            self.made_of = Some(now);
        }
        self.rows.clone()
    }
}
