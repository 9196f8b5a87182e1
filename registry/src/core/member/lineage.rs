//! A store that went back, as its member sees it: what it knows it tells its elector, and in another lineage it begins anew.

use std::time::Duration;

use callsign_elector::lineage::LineageNumber;
use callsign_store::planted;

use super::{
    Ahead, CatchUp, Effect, Epoch, LineageId, LogEnd, Member, Message, Now, SNAPSHOTS, Table, Tell, Time,
    Trim, nothing_known, splitmix,
};
use std::sync::Arc;

/// How often the elector is told what the replica has applied, at most, and that something does not follow it. Shorter: each
/// batch costs a message more. Longer: a store that went back is noticed later.
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// What the elector was told of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ToldOfLog {
    end: LogEnd,
    /// When it may be told again.
    again: Time,
    /// When it may be asked again to look.
    look_again: Time,
}

impl<T: Table> Member<T> {
    /// Whether the message is of a lineage before this one: it is about what was lost.
    pub(super) fn is_of_former_lineage(&self, message: &Message) -> bool {
        let lineage = self.lineage_number();
        let is_before = |epoch: Epoch| lineage.is_after(epoch.0);
        message.epoch().is_some_and(is_before)
    }

    /// Whether the registry was not opened in this lineage yet: what its log has is of no account.
    pub(super) fn is_behind_lineage(&self) -> bool {
        let commit = self.view.commit.unwrap_or_default().position;
        self.lineage_number().is_after(commit.0)
    }

    /// The lineage as the node said it, or as the elector has read it: until that has read again, only the node knows.
    fn lineage_number(&self) -> LineageNumber {
        self.view.lineage.number.max(self.lineage.unwrap_or_default().number)
    }

    /// Tells the elector what was applied last, if it was not told: it was committed.
    pub(super) fn say_applied(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.has_applied_more() && now >= self.told.again && !planted!("applied-not-told") {
            self.told = ToldOfLog { end: self.replica.end(), again: now + TOLD_EVERY, ..self.told };
            effects.push(Effect::Tell(Tell::Applied(self.replica.end())));
        }
    }

    fn has_applied_more(&self) -> bool {
        self.replica.is_based() && self.replica.end() != self.told.end
    }

    /// When the elector is to be told, if it is.
    pub(super) fn says_applied_at(&self) -> Option<Time> {
        self.has_applied_more().then_some(self.told.again)
    }

    /// Something does not follow what was applied: the elector is to look whether that is still there.
    pub(super) fn doubt(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if now < self.told.look_again || !self.replica.is_based() {
            return;
        }
        self.told =
            ToldOfLog { end: self.replica.end(), again: now + TOLD_EVERY, look_again: now + TOLD_EVERY };
        effects.push(Effect::Tell(Tell::Applied(self.replica.end())));
        effects.push(Effect::Tell(Tell::Refresh));
    }

    /// The node is in this lineage from now on, or begins anew in the same one.
    pub(super) fn begin_lineage(&mut self, now: Now, lineage: LineageId, effects: &mut Vec<Effect>) {
        self.depose(effects);
        self.handoff = None;
        self.replica.forget();
        for node in self.links.keys() {
            self.walks.drop_node(&mut self.replica, node);
        }
        self.config.seed = splitmix(self.config.seed);
        let seed = splitmix(self.config.seed ^ SNAPSHOTS);
        self.catchup = CatchUp::beginning(seed, self.config.tuning.snapshot_window, lineage.number);
        self.trim = Trim::new(self.config.tuning.cut_worth, self.config.tuning.max_lag);
        self.ahead = Ahead::default();
        self.to_run.clear();
        (self.following, self.contact_told, self.hopeless_since) = (None, None, None);
        self.synced_told = Time::ZERO;
        self.told = ToldOfLog::default();
        self.host.drop_all_claims(effects);
        self.lineage = Some(lineage);
        self.view = Arc::new(nothing_known());
        self.find_linked();
        self.redirect_requests();
        self.next_tick = now.time;
    }
}
