//! What is done when time has passed: what did not answer is tried again, and members hear where the log ends.

use callsign_store::{Time, ids::NodeName, planted};

use super::{Flight, FlightStage, HEARTBEAT, Leader, UNANSWERED_AFTER};
use crate::core::{
    fence::Fence,
    input::{Effect, Turn},
    message::Message,
    replica::Replica,
    table::Table,
};

impl Leader {
    /// A member was linked while the epoch is open: it is told so.
    pub(crate) fn welcome<T: Table>(
        &self,
        replica: &Replica<T>,
        member: &NodeName,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_open {
            effects.push(self.heartbeat(replica, member));
        }
    }

    /// Tells a member where the log ends.
    fn heartbeat<T: Table>(&self, replica: &Replica<T>, member: &NodeName) -> Effect {
        Effect::send(member.clone(), Message::Heartbeat { epoch: self.epoch, end: replica.end() })
    }

    /// Whether members are to hear of it now.
    pub(crate) fn is_to_beat(&self, now: Time) -> bool {
        self.is_open && now >= self.next_heartbeat
    }

    /// Time has passed: what did not answer is tried again, and idle members are told where the log ends.
    pub(crate) fn on_wake<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &Replica<T>,
        members: &[NodeName],
    ) {
        let now = turn.now;
        let is_over = |since: Time| now >= since + UNANSWERED_AFTER;
        match &mut self.flight {
            Flight::Batch(flight) => match flight.stage {
                FlightStage::Committing { since, .. }
                    if is_over(since) && !planted!("commit-waited-for-ever") =>
                {
                    self.seen = None;
                    self.commit(turn);
                }
                FlightStage::Settling { since, .. }
                    if is_over(since) && !planted!("settling-waited-for-ever") =>
                {
                    self.commit(turn);
                }
                FlightStage::Pausing { until } if now >= until => {
                    self.commit(turn);
                }
                _ => {}
            },
            Flight::Fence { id, since, .. } if is_over(*since) && !planted!("fence-waited-for-ever") => {
                *id = turn.read(Fence::reads(&self.keys));
                *since = now;
            }
            Flight::Fence { .. } | Flight::None => {}
        }
        if self.is_to_beat(now) {
            self.next_heartbeat = now + HEARTBEAT;
            for member in members {
                turn.effects.push(self.heartbeat(replica, member));
            }
        }
    }

    /// When to be woken at the latest.
    pub(crate) fn wakes_at(&self) -> Option<Time> {
        let flight = match &self.flight {
            Flight::None => None,
            Flight::Fence { since, .. } => Some(*since + UNANSWERED_AFTER),
            Flight::Batch(flight) => Some(match flight.stage {
                FlightStage::Committing { since, .. } | FlightStage::Settling { since, .. } => {
                    since + UNANSWERED_AFTER
                }
                FlightStage::Pausing { until } => until,
            }),
        };
        let heartbeat = self.is_open.then_some(self.next_heartbeat);
        // What is in flight goes first, and ends in a step of its own.
        let may_free = self.is_settled() && !self.closed.is_empty();
        let frees = self.frees_after.filter(|_| may_free || planted!("freeing-wakes-in-vain"));
        flight.into_iter().chain(heartbeat).chain(frees).chain(self.rests_until).min()
    }
}
