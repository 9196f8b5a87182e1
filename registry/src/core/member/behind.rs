//! What its host does for many actors, some names at a time, and what a member says only when all of that is done: others may give
//! the names away then.

use callsign_store::planted;

use super::{Answer, CallId, Effect, Member, Now, Table, Tell};

/// Said when the claims are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Behind {
    /// It has left, and this one is told.
    Leave(CallId),
    /// It joins again as one that has no base.
    Rejoin,
}

impl<T: Table> Member<T> {
    /// Has the host go on, and says what waits for its end.
    pub(super) fn proceed_host(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.host.proceed(now, self.config.tuning.own_names, &self.replica, effects);
        if self.host.is_busy() && !planted!("left-amid-its-claims") {
            return;
        }
        for behind in std::mem::take(&mut self.behind) {
            match behind {
                Behind::Leave(caller) => {
                    effects.push(Effect::Tell(Tell::Leave));
                    effects.push(Effect::Answer { call: caller, answer: Answer::Left });
                }
                Behind::Rejoin => effects.push(Effect::Tell(Tell::Rejoin { empty: true })),
            }
        }
    }
}

/// For whoever judges what is done.
#[cfg(feature = "cores")]
impl<T: Table> Member<T> {
    /// Whether actors are still to be told of what has happened, or claims to end.
    pub fn owes(&self) -> bool {
        self.host.is_busy()
    }
}
