//! What the next batch is made of: one operation for each name, or the end of a session.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use callsign_store::{ids::Position, planted};

use super::{Decision, Flight, Leader, decide::decide};
use crate::core::{
    fence::Fence,
    group::MembershipName,
    input::Turn,
    log::{BatchBuilder, Op},
    message::Wish,
    name::Name,
    permitted::Permitted,
    replica::Replica,
    table::Table,
};

/// Room for so many decisions is made at once.
const MOST_AT_ONCE: usize = 1024;

/// So many requests are decided with one batch. More: a step is long. Fewer: refusals, which take no room in a batch, wait for each other.
const DECIDED_AT_ONCE: usize = 2048;

impl Leader {
    /// Begins what can begin. To be called when no more input waits, so that one batch takes all that came.
    pub(crate) fn proceed<T: Table>(
        &mut self,
        turn: &mut Turn<'_>,
        replica: &Replica<T>,
        permitted: &Permitted,
    ) {
        let now = turn.now;
        self.rests_until = self.rests_until.filter(|at| now < *at);
        if !self.is_open || !self.is_settled() || self.rests_until.is_some() {
            return;
        }
        // Names of a dead node wait for its one entry, and everybody else does not: the two take turns.
        let gone = self.closed.iter().find(|id| replica.sessions().contains_key(*id));
        let gone = gone.filter(|_| !planted!("host-gone-not-logged"));
        self.frees_after = self.frees_after.filter(|at| now < *at);
        let is_their_turn =
            if self.queue.is_empty() { self.frees_after.is_none() } else { !self.requests_first };
        if let Some(session) = gone.filter(|_| is_their_turn) {
            self.requests_first = true;
            let mut builder = BatchBuilder::default();
            let shared = replica.sessions().get(session).map(|held| held.id.clone());
            let index = builder.session(&shared.unwrap_or_else(|| Arc::new(session.clone())));
            builder.push(Op::HostGone { session: index });
            self.fly(turn, replica, builder, Vec::new(), Vec::new());
            return;
        }
        if self.queue.is_empty() {
            return;
        }
        self.requests_first = gone.is_none();
        let mut builder = BatchBuilder::default();
        let mut decisions = Vec::with_capacity(self.queue.len().min(MOST_AT_ONCE));
        let mut names: BTreeSet<Name> = BTreeSet::new();
        let mut places: BTreeSet<String> = BTreeSet::new();
        let mut later = VecDeque::new();
        let position = self.next_position(replica.position());
        while decisions.len() < DECIDED_AT_ONCE
            && let Some(pending) = self.queue.pop_front()
        {
            if builder.is_full(self.max_batch, pending.wish.weight(&pending.name)) {
                self.queue.push_front(pending);
                break;
            }
            // New places of one semaphore have positions of their own, so that those of its holders grow.
            let place = match &pending.wish {
                Wish::Register { .. } => MembershipName::of_place(&pending.name).map(|(group, _)| group),
                _ => None,
            };
            let is_second_place =
                place.is_some_and(|group| places.contains(group)) && !planted!("two-places-in-a-batch");
            let is_second = names.contains(&pending.name) && !planted!("two-operations-of-one-name");
            if is_second || is_second_place || self.is_of_the_dead(replica, &pending.name) {
                later.push_back(pending);
                continue;
            }
            let decided = decide(replica, permitted, &pending, position, &self.takers, &mut builder);
            let Some((op, verdict)) = decided else {
                // As if it had been lost on its way: its host asks again, and there is a link by then.
                if let Some(host) = self.hosts.get_mut(&*pending.session) {
                    host.waiting.remove(&pending.number);
                }
                continue;
            };
            if let Some(op) = op {
                names.insert(pending.name.clone());
                places.extend(place.map(str::to_owned));
                builder.push(op);
            }
            decisions.push(Decision { pending, verdict });
        }
        // What waits for a name of this batch comes before what came after it.
        while let Some(pending) = later.pop_back() {
            self.queue.push_front(pending);
        }
        if builder.is_empty() && decisions.is_empty() {
            // All of them wait for names of the dead.
            return self.proceed(turn, replica, permitted);
        }
        self.requests_first |= planted!("freeing-starves");
        if builder.is_empty() && planted!("rider-without-fence") {
            self.answer(replica.position(), decisions, turn.effects);
        } else if builder.is_empty() {
            let id = turn.read(Fence::reads(&self.keys));
            self.flight = Flight::Fence { id, since: now, riders: decisions };
        } else {
            self.fly(turn, replica, builder, decisions, Vec::new());
        }
    }

    pub(super) fn next_position(&self, last: Position) -> Position {
        Position(self.lineage.after(last.0))
    }

    /// Whether a closed session still has the name in the table: its one entry frees it.
    fn is_of_the_dead<T: Table>(&self, replica: &Replica<T>, name: &str) -> bool {
        !self.closed.is_empty()
            && !planted!("host-gone-not-logged")
            && replica.row(name).is_some_and(|row| self.closed.contains(&*row.session))
    }
}
