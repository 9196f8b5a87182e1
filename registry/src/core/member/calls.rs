//! What clients call for.

use std::time::Duration;

use super::Member;
use crate::core::{
    host::{Client, Disowned, MetaChange, OnTake, Registrant, Starter, Wanted},
    input::{Answer, Call, CallId, Effect, Now},
    table::Table,
};

impl<T: Table> Member<T> {
    pub(super) fn on_call(
        &mut self,
        now: Now,
        id: CallId,
        call: Call,
        wait: Duration,
        effects: &mut Vec<Effect>,
    ) {
        if self.drain.is_closing() {
            // Its claims are gone, or will be, and why: no caller may be told that it never held a name.
            if matches!(
                call,
                Call::Register { .. } | Call::Join { .. } | Call::Start { .. } | Call::Take { .. }
            ) {
                effects.push(Effect::Forget { claim: id });
            }
            effects.push(Effect::Answer { call: id, answer: Answer::Left });
            return;
        }
        let caller = Client::new(now.time, id, wait);
        match call {
            Call::Register { name, actor, kind, on_lapse, on_take, meta } => {
                let registrant = Registrant { actor, kind, on_lapse, on_take, meta };
                self.host.register(now, caller, name, registrant, effects);
            }
            Call::Take { name, token, actor, kind, on_lapse, on_take } => {
                let wanted = Wanted { token, actor, kind, on_lapse, on_take };
                self.host.take(now, caller, name, wanted, &self.replica, effects);
            }
            Call::Offer { name, to } => self.offer(caller, id, name, to, effects),
            Call::Start { name, kind, on_lapse, on_take, meta, limit, patience } => {
                let until = now.time + patience;
                let starter = Starter { kind, on_lapse, on_take, meta, limit, wait, until };
                self.host.start(now, caller, name, starter, &self.replica, effects);
            }
            Call::Join { group, actor, kind, on_lapse, meta } => {
                // A membership is nobody else's.
                let on_take = OnTake::Refuse;
                let registrant = Registrant { actor, kind, on_lapse, on_take, meta };
                self.host.join(now, caller, group, registrant, effects);
            }
            Call::Unregister { name } => self.host.unregister(caller, name, None, &self.replica, effects),
            Call::Withdraw { name, token } => {
                self.host.unregister(caller, name, Some(token), &self.replica, effects);
            }
            Call::Disown { name, token, actor } => {
                self.host.disown(caller, name, Disowned { token, actor }, &self.replica, effects);
            }
            Call::Update { name, token, revision, meta } => {
                let change = MetaChange { token, revision, meta };
                self.host.update(now, caller, name, change, &self.replica, effects);
            }
            Call::Consistent { name } => self.reads.consistent(now.time, id, name, wait),
            Call::WaitFor { position } => self.reads.wait_for(now.time, id, position, wait),
            Call::Explain { name } => {
                let answer = Answer::Explained(Ok(Box::new(self.explain(&name))));
                effects.push(Effect::Answer { call: id, answer });
            }
            Call::Ready => self.ready.push((id, now.time + wait)),
            Call::Drain => self.begin_to_drain(now, id, wait, effects),
            Call::Leave => {
                let next = self.drain.close(id, now.time + wait);
                self.go_on_draining(now, next, effects);
            }
        }
    }

    pub(super) fn on_given_up(&mut self, call: CallId) {
        self.reads.forget(call);
        self.ready.retain(|(waits, _)| *waits != call);
    }
}
