//! The leader is heard again and again, and nearly always that is all.

use callsign_store::{Time, ids::Epoch};

use super::Elector;

impl Elector {
    /// Whether a message of the leader says no more than that it is still there. Then a whole step would come to that, too.
    ///
    /// The step before has worked out what there is to do, and found nothing. What was read is as it was, and shows nothing
    /// under way. Nothing comes by time alone before this elector is woken: the leader, who was heard before in this epoch,
    /// is not silent until then.
    pub(super) fn hears_nothing_new(&self, now: Time, epoch: Epoch) -> bool {
        let (Some((reading, state)), Some(wake_at)) = (self.readable(), self.wake_at) else { return false };
        let Some(leader) = &state.term.leader else { return false };
        let is_idle = self.doing.is_none() && !self.stale && self.turns.is_empty() && now < wake_at;
        is_idle
            && reading.is_quiet()
            && leader.node != self.config.node
            && self.silence.goes_on(now, epoch, &leader.node, wake_at)
    }
}
