//! What a caller was granted is in the log: at the position that is its token, for its session and its actor.

use callsign::{
    Name,
    cores::{Batch, Op},
};
use callsign_store::ids::{Position, SessionNumber};

use super::{Breach, log::Log};
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

/// One answer "registered".
#[derive(Clone, Debug)]
pub struct RecordedGrant {
    /// Whose actor has the name.
    pub process: Process,
    /// Where it was answered.
    pub place: Place,
    /// The session that it belongs to.
    pub session: SessionNumber,
    /// The name.
    pub name: Name,
    /// The actor.
    pub actor: u64,
    /// The token.
    pub token: Position,
}

impl RecordedGrant {
    fn is_in(&self, batch: &Batch) -> bool {
        let is_its = |session: u32| {
            batch.sessions.get(session as usize).is_some_and(|session| {
                session.node == self.process.node
                    && session.incarnation == self.process.incarnation
                    && session.number == self.session
            })
        };
        batch.ops.iter().any(|op| match op {
            Op::Register { name, session, actor, .. } => {
                // One that was bound later is in a batch after it.
                *name == self.name && actor.is_none_or(|actor| actor == self.actor) && is_its(*session)
            }
            Op::Transfer { name, session, actor, .. } => {
                *name == self.name && *actor == self.actor && is_its(*session)
            }
            _ => false,
        })
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Grants(Vec<RecordedGrant>);

impl Grants {
    /// A caller was granted a name.
    pub fn grant(&mut self, grant: RecordedGrant) {
        self.0.push(grant);
    }

    /// Looks each up in the log.
    pub fn finish(mut self, log: &Log, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        // Many are in one batch, which is decoded once.
        self.0.sort_by_key(|grant| grant.token);
        let (mut at, mut batches) = (Position(0), Vec::new());
        for grant in self.0 {
            if grant.token != at {
                (at, batches) = (grant.token, log.at(grant.token));
            }
            if batches.iter().any(|batch| grant.is_in(batch)) {
                counts.add(Count::Grants, 1);
            } else {
                breaches.push(Breach {
                    rule: "a grant is in the log",
                    what: format!("{grant:?}; the log has {batches:?}"),
                });
            }
        }
    }
}
