//! What is done when nothing more waits, and when time has passed.

use callsign_store::{Time, ids::NodeName, planted};

use super::{FOLLOWER_LOOKS, LOOKS, MEMBER_TICK, Member};
use crate::core::{
    catchup::Sources,
    host::Surroundings,
    input::{Answer, Effect, Event, Now, Turn},
    table::Table,
};

impl<T: Table> Member<T> {
    pub(super) fn on_wake(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.their_links.forget_old(now.time);
        // Also without a new view: a leader whose opening failed is elected as before.
        self.begin_handoff(now, None, effects);
        if self.leader.as_ref().is_some_and(|leader| leader.is_to_beat(now.time)) {
            self.say_observers(&self.linked, effects);
        }
        if let Some(leader) = &mut self.leader {
            let mut turn = Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
            leader.on_wake(&mut turn, &self.replica, &self.linked);
            self.trim.on_wake(turn, &self.config.me, self.replica.position(), leader, &self.view);
        }
        let is_due = now.time >= self.next_tick;
        if is_due || self.host.is_looking() {
            if is_due {
                self.next_tick = now.time + MEMBER_TICK;
            }
            let (names, around) = (self.config.tuning.slice_names, self.surroundings());
            self.host.on_wake(now, names, around, &self.replica, effects);
        }
    }

    fn surroundings(&self) -> Surroundings<'static> {
        // The leader's name is only needed to send; see `on_idle`.
        Surroundings {
            leader: None,
            is_synced: self.is_synced(),
            has_leader: self.view.term.leader.is_some(),
        }
    }

    /// Nothing more waits: what was collected is sent, the next batch is begun, and who waited is answered.
    pub(super) fn on_idle(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.proceed_host(now, effects);
        self.proceed(now, effects);
        if !planted!("watch-after-the-answer") {
            self.watchers.proceed(now.time, &mut self.replica, effects);
        }
        if let Some((to, message)) = self.walks.proceed(&mut self.replica) {
            effects.push(Effect::send(to, message));
        }
        self.say_duty(now.time, effects);
        if self.drain.has_left() {
            return;
        }
        // Not when it is woken: where messages keep coming that may be never.
        self.walks.forget_abandoned(now.time, &mut self.replica);
        self.drive_handoff(now, effects);
        let end = self.replica.is_based().then(|| self.replica.end());
        self.reads.proceed(Turn::new(now.time, &self.config.keys, &mut self.next_op, effects), end);
        // Before anything is sent: what waited for a verdict that has come is asked for with the rest.
        self.settle_host(now, effects);
        let begin = effects.len();
        let leader = self.leader().map(|(epoch, node)| (epoch, node.clone()));
        let around = Surroundings {
            leader: leader.as_ref().map(|(epoch, node)| (*epoch, node)),
            ..self.surroundings()
        };
        self.host.flush(now.time, around, effects);
        // What the host just asked this very member is in the same batch.
        self.take_own(now, begin, effects);
        if let Some(leader) = &mut self.leader {
            leader.proceed(
                &mut Turn::new(now.time, &self.config.keys, &mut self.next_op, effects),
                &self.replica,
                &self.permitted,
            );
        }
        // A leader's own commit brings it to its end. Whoever took that from the log before the commit has answered
        // would take it for a successor's.
        if self.leader.is_none() && !self.is_behind_lineage() && self.catchup.lacks(&self.replica) {
            let sources = self.sources();
            let turn = Turn::new(now.time, &self.config.keys, &mut self.next_op, effects);
            self.catchup.drive(turn, &self.replica, &sources);
        }
        self.say_applied(now.time, effects);
        self.say_synced(now, effects);
        self.give_up_base(now, effects);
        self.settle_host(now, effects);
        if !self.watchers.owes() {
            self.reads.settle(now.time, &self.replica, effects);
        }
        if planted!("watch-after-the-answer") {
            self.watchers.proceed(now.time, &mut self.replica, effects);
        }
        let drains = self.drain.has_begun();
        // Trusted by the same rule as a registration: `ready` must not say yes where `register` says "lapsed".
        let is_trusted = self.host.is_trusted(now);
        let is_ready = self.is_synced() && self.leader().is_some() && is_trusted && !drains;
        self.ready.retain(|(call, deadline)| {
            let is_over = now.time >= *deadline || drains;
            if is_ready || is_over {
                effects.push(Effect::Answer { call: *call, answer: Answer::Ready(is_ready) });
            }
            !is_ready && !is_over
        });
        self.proceed_offers(now, effects);
        self.drive_drain(now, effects);
    }

    /// Calls that wait for a position are answered after readers of watches were given what changed there.
    fn settle_host(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !self.watchers.owes() {
            self.host.settle(now, &self.replica, effects);
        }
    }

    /// Goes on with what is done a few names at a time.
    pub(super) fn proceed(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let names = self.config.tuning.slice_names;
        if self.catchup.is_busy() && !self.replica.is_busy() {
            let applied = self.catchup.proceed(now.time, &mut self.replica, names);
            self.take_log(now, applied, effects);
            return;
        }
        let proceeded = self.replica.proceed(names);
        if let Some(position) = proceeded.installed {
            let names = self.replica.count();
            effects.push(Effect::Event(Event::SnapshotInstalled { position, names }));
            self.host.many_changed();
        }
        self.on_applied(&proceeded.applied, effects);
    }

    pub(super) fn sources(&self) -> Sources {
        let leader = self.leader().filter(|(_, node)| **node != self.config.me).map(|(_, node)| node.clone());
        let is_synced = |node: &&NodeName| {
            self.view.members.get(*node).is_some_and(|row| row.synced) && leader.as_ref() != Some(*node)
        };
        let synced = self.linked.iter().filter(is_synced).cloned().collect();
        let epoch = self.following.as_ref().map(|(epoch, _)| *epoch).unwrap_or_default();
        let others = self.linked.to_vec();
        Sources { leader, is_taking_over: self.handoff.is_some(), synced, others, epoch }
    }

    /// When to look at what only time changes. A member that hears the leader has little to look at, but heartbeats do not put that
    /// off.
    fn looks_at(&self, now: Time) -> Time {
        let hears = self.leader().is_some_and(|(_, leader)| *leader != self.config.me);
        let has_looked = self.next_tick > Time::ZERO;
        let at = if hears && has_looked { self.next_tick + FOLLOWER_LOOKS } else { now + LOOKS };
        let compares = self.host.compares_at().filter(|_| self.is_synced()).map(|at| at.max(self.next_tick));
        let sooner = self.their_links.forgets_at().into_iter().chain(compares);
        sooner.fold(at, Time::min).max(now)
    }

    /// When to be woken at the latest.
    pub fn wakes_at(&self, now: Time) -> Time {
        let mut at = self.looks_at(now);
        if let Some(leader) = &self.leader {
            let cuts = self.trim.wakes_at(self.replica.position(), self.view.floor);
            at = at.min(cuts.map_or(at, |cuts| cuts.max(now))).min(leader.wakes_at().unwrap_or(at));
        }
        at = at.min(self.duty.wakes_at().unwrap_or(at));
        if let Some(handoff) = &self.handoff {
            at = at.min(handoff.wakes_at().unwrap_or(at));
        }
        let sends_on = self.host.has_more_to_send() && !self.drain.has_left();
        if self.replica.is_busy()
            || self.catchup.is_busy()
            || self.walks.is_busy(&self.replica)
            || self.host.wants_a_turn()
            || sends_on
            || self.watchers.owes()
        {
            return now;
        }
        let is_waiting = self.host.is_waiting()
            || self.reads.is_waiting()
            || self.says_applied_at().is_some()
            || !self.ready.is_empty()
            || self.drain.is_waiting()
            || !self.catchup.is_complete(&self.replica)
            || (!self.is_synced() && self.view.me.is_some());
        if is_waiting { at.min(now + MEMBER_TICK) } else { at }
    }
}
