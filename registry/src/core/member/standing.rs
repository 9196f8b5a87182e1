//! What a member says of its replica: that it is synced, or that it has none.

use callsign_store::{ids::SessionId, planted};

use super::{
    Behind, CallId, Effect, Event, HOPELESS_FOR, Leader, Member, Now, SYNCED_EVERY, Table, Tell, Time,
};
use crate::core::{explained::Explained, message::Wish, name::Name, table::RequestNumber};

impl<T: Table> Member<T> {
    /// How many operations the batch has that is on its way into the log. For counts.
    pub(crate) fn batch_operations(&self) -> Option<usize> {
        self.leader.as_ref().and_then(Leader::batch_operations)
    }

    /// What is known of a name here.
    pub fn explain(&self, name: &Name) -> Explained {
        let explained = self.replica.explain(name);
        let is_open = explained.state.entry().and_then(|entry| {
            let (sessions, session) = (&self.view.sessions, entry.session_id());
            let is_known = sessions.is_open(&session) || sessions.is_closed(&session);
            is_known.then(|| sessions.is_open(&session))
        });
        Explained { is_open, ..explained }
    }

    /// The requests that this batch decides, by the sessions that asked. For traces.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = (&SessionId, RequestNumber, &Wish)> {
        self.leader.iter().flat_map(Leader::deciding)
    }

    /// The call that waits for a request of this node, or for the name that it is to bring. For traces.
    pub(crate) fn call_of(&self, number: RequestNumber) -> Option<CallId> {
        self.host.call_of(number)
    }

    /// Whether those who watch had to wait in the last step: for what is gone to be swept, or for the replica to be a prefix of the log.
    #[cfg(feature = "cores")]
    pub fn watch_waits(&self) -> bool {
        self.watchers.waits()
    }

    /// Whether it has looked at some of its callers, and goes on with the others at once.
    #[cfg(feature = "cores")]
    pub fn looks_at_callers(&self) -> bool {
        self.host.is_looking()
    }

    /// Whether the replica has to go on with something.
    #[cfg(feature = "cores")]
    pub fn is_sweeping(&self) -> bool {
        self.replica.is_busy() || self.watchers.owes()
    }

    pub(super) fn say_synced(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let term = &self.view.term;
        let (epoch, is_at_end) = match self.leader() {
            // The leader's own entry of this epoch is applied, and nothing known is missing.
            Some((epoch, _)) => (epoch, self.replica.epoch() == epoch),
            // While nobody leads nothing is written: what the view saw is the end.
            None if term.leader.is_none() && self.view.commit.is_some() => {
                (term.epoch, self.view.commit.is_some_and(|end| self.replica.position() >= end.position))
            }
            None => return,
        };
        let is_complete = is_at_end && self.catchup.is_complete(&self.replica);
        let is_complete = is_complete || planted!("synced-before-end");
        let is_told = now.time < self.synced_told + SYNCED_EVERY && self.synced_told > Time::ZERO;
        if self.is_synced() || self.row().is_none() || !is_complete || is_told {
            return;
        }
        self.synced_told = now.time;
        let position = self.replica.position();
        effects.push(Effect::Event(Event::Synced { position }));
        effects.push(Effect::Tell(Tell::Synced(epoch, position)));
    }

    /// The log does not go back to where this replica is, nobody leads, and no synced member is left to give a
    /// base: what this replica lacks is lost. To let the registry go on, the member says that it has none either,
    /// and drops its claims, so that a `Reset` may be written.
    ///
    /// Also if it is the leader itself that has nothing to open its epoch with: somebody who has a base joined after it was
    /// elected to write a `Reset`. Nobody can depose it, as nobody is synced. By joining again it leaves the seat.
    pub(super) fn give_up_base(&mut self, now: Now, effects: &mut Vec<Effect>) {
        // While the lock is held, whoever wants to join waits for it: nothing is lost before it was given up.
        let cannot_open = self.is_elected() && self.handoff.is_some() && self.view.lock.is_none();
        let is_lost = self.catchup.is_too_far() || (cannot_open && !self.replica.is_based());
        let is_hopeless = (self.view.term.leader.is_none() || cannot_open)
            && self.view.me.is_some_and(|token| {
                let row = self.view.members.get(&self.config.me);
                row.is_some_and(|row| row.token == token && !row.synced && (!row.empty || cannot_open))
            })
            && self
                .view
                .members
                .values()
                .all(|row| !row.synced || self.view.sessions.is_closed(&row.session))
            && is_lost;
        if !is_hopeless {
            self.hopeless_since = None;
            return;
        }
        let since = *self.hopeless_since.get_or_insert(now.time);
        if now.time.since(since) < HOPELESS_FOR {
            return;
        }
        self.hopeless_since = None;
        self.replica.give_up_base();
        if !planted!("base-given-up-with-claims") {
            self.host.drop_all_claims(effects);
        }
        self.behind.push(Behind::Rejoin);
        self.proceed_host(now, effects);
    }
}
