//! What must hold of every state, and what must only grow from one to the next.

use std::collections::BTreeMap;

use callsign_store::ids::{Epoch, Incarnation, NodeName, Position, SessionNumber};

use callsign::Meta;

use super::{Check, Holder, Inner, Oracle, ProcessSeen};
use crate::world::{Action, CallerRegistration, NameId, NodeId, World, number_of};

/// A digest of a row; the digest of a table is the exclusive or of all of them.
pub(super) fn digest(name: NameId, holder: (Position, Position, u64), meta: Option<&Meta>) -> u64 {
    let (token, revision, actor) = holder;
    let said = meta
        .iter()
        .flat_map(|meta| meta.as_bytes())
        .fold(0_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mut z = (name << 56)
        ^ (name >> 8).wrapping_mul(0xd6e8_feb8_6659_fd93)
        ^ (token.0 << 24)
        ^ actor
        ^ 0x9e37_79b9_7f4a_7c15;
    z = z.wrapping_add(revision.0.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_add(said);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Inner {
    pub(super) fn check_states(&mut self, world: &World, action: &Action) {
        // What only time and the node itself can change needs no look after anything else.
        let touched = match action {
            Action::Frame { to: node, .. }
            | Action::Inbox { node, .. }
            | Action::Idle { node }
            | Action::Answered { node, .. }
            | Action::Watch { node }
            | Action::TakeAnswer { node }
            | Action::Wake { node, .. }
            | Action::Resume { node }
            | Action::Call { node, .. }
            | Action::Drain { node }
            | Action::Configure { node, .. }
            // A commit may be another's, and close a session.
            | Action::Store { node, .. }
            | Action::EndStart { node, .. }
            | Action::EndActor { node, .. } => Some(*node),
            Action::Tick { by } => {
                self.check_seat_of_the_dead(world, *by);
                self.check_deaths(world, *by);
                self.check_holders(world);
                return self.check_acts(world);
            }
            Action::Rate { .. } => {
                self.check_holders(world);
                return self.check_acts(world);
            }
            _ => None,
        };
        if let Some(node) = touched {
            self.check_node(world, node);
            self.check_draining(world, node);
        }
        self.check_holders(world);
        self.check_acts(world);
        if let Some(node) = touched {
            self.check_claims(world, node);
        }
    }

    /// P1, as those know it who act: a registration whose check passes is the one that the log has.
    fn check_acts(&mut self, world: &World) {
        if self.may_trust_the_closed {
            return;
        }
        self.check_places(world);
        let mut starts: BTreeMap<NameId, NodeId> = BTreeMap::new();
        for node in world.ids() {
            let Some(process) = world.process(node) else { continue };
            for name in process.starting(world.local(node)) {
                self.counts.add(Check::OneStart, 1);
                if let Some(other) = starts.insert(name, node) {
                    let what =
                        format!("n{name} is started on node {other} and on node {node}, and both may act");
                    self.fail(Check::OneStart, what);
                }
            }
            for acting in process.acting(world.local(node)) {
                self.counts.add(Check::ActHeld, 1);
                let holder = self.truth.get(&acting.name);
                if holder.is_none_or(|holder| holder.token != acting.token) {
                    let what = format!("node {node} acts by {acting:?}; the log has {holder:?}");
                    self.fail(Check::ActHeld, what);
                }
            }
        }
    }

    /// What may be acted on is claimed, and whoever holds a name is watched.
    fn check_claims(&mut self, world: &World, node: NodeId) {
        let Some(process) = world.process(node) else { return };
        // Until a wake-up ends, what it asked for is still to be carried out: flags as well.
        let Some(parts) = process.parts.as_ref().filter(|parts| parts.core.asked().is_empty()) else {
            return;
        };
        for acting in process.acting(world.local(node)) {
            self.counts.add(Check::ActClaimed, 1);
            let mut claims = parts.core.member().holds();
            if !claims.any(|(name, _, token)| (number_of(name), token) == (acting.name, acting.token)) {
                self.fail(
                    Check::ActClaimed,
                    format!("node {node} acts by {acting:?}, and claims it no more"),
                );
            }
        }
        for (name, actor, _) in parts.core.member().holds().filter(|(_, actor, _)| *actor != 0) {
            self.counts.add(Check::HolderWatched, 1);
            if !parts.watched.contains(&actor) && !parts.ended.contains(&actor) {
                let what =
                    format!("actor {actor} holds {name} on node {node}, and nobody hears when it ends");
                self.fail(Check::HolderWatched, what);
            }
        }
    }

    /// P1: of all nodes that trust their session, at most one claims a name, and the session is open.
    fn check_holders(&mut self, world: &World) {
        let mut holders: BTreeMap<NameId, NodeId> = BTreeMap::new();
        for node in world.ids() {
            let Some(process) = world.process(node) else { continue };
            let Some(number) = process.trusted(world.local(node)) else { continue };
            let name = &world.setup.names[usize::from(node)];
            let record = self.sessions.get(name);
            self.counts.add(Check::TrustIsOpen, 1);
            let is_open = record.is_some_and(|record| {
                record.open && record.number == number && record.incarnation == process.incarnation
            });
            if !is_open && !self.may_trust_the_closed {
                self.fail(Check::TrustIsOpen, format!("node {node} trusts session {number:?}: {record:?}"));
            }
            let Some(parts) = &process.parts else { continue };
            // A claim of a session that is over, of which the member has not heard, is not trusted.
            if parts.core.member().session().is_none_or(|session| session.number != number) {
                continue;
            }
            for (held, actor, token) in parts.core.member().holds() {
                // Nobody acts on one that is on its way to another actor.
                if parts.core.member().is_suspended(held) {
                    continue;
                }
                self.counts.add(Check::OneHolder, 1);
                if let Some(other) = holders.insert(number_of(held), node) {
                    self.fail(
                        Check::OneHolder,
                        format!("{held} is held by node {other} and by actor {actor} of node {node} with {token:?}"),
                    );
                }
            }
        }
    }

    /// What a node holds may be acted on there, unless the name is on its way to another actor.
    fn check_suspended(&mut self, world: &World, node: NodeId) {
        let Some(parts) = world.process(node).and_then(|process| process.parts.as_ref()) else { return };
        let member = parts.core.member();
        for (held, _, token) in member.holds() {
            let is_it =
                |acting: &&CallerRegistration| acting.name == number_of(held) && acting.token == token;
            let is_flagged = parts.suspended.values().flatten().any(|acting| is_it(&acting));
            if is_flagged && !member.is_suspended(held) {
                self.fail(Check::Kept, format!("{held} stays on node {node}, and nobody may act on it"));
            }
        }
    }

    /// P5: the replica is what the log says at its position, and only goes forward.
    fn check_node(&mut self, world: &World, node: NodeId) {
        let Some(process) = world.process(node) else { return };
        let Some(parts) = &process.parts else { return };
        let (replica, epoch) = (parts.core.member().replica(), parts.core.member().view().term.epoch);
        let (position, is_based) = (replica.position(), replica.is_based());
        self.losses.applied(process.incarnation, position);
        if self.pass_over_stale(node, process.incarnation) {
            return;
        }
        let seen = &self.seen[usize::from(node)];
        let is_same = seen.incarnation == Some(process.incarnation);
        let (was_at, was_based, was_in) = (seen.position, seen.is_based, seen.epoch);
        if is_same && (position, is_based, epoch) == (was_at, was_based, was_in) {
            return;
        }
        if is_same {
            self.counts.add(Check::EpochGrows, 1);
            if epoch < was_in {
                self.fail(Check::EpochGrows, format!("node {node} saw epoch {was_in:?}, then {epoch:?}"));
            }
            if was_based && is_based {
                self.counts.add(Check::ReplicaGrows, 1);
                if position < was_at {
                    self.fail(
                        Check::ReplicaGrows,
                        format!("node {node} went from {was_at:?} to {position:?}"),
                    );
                }
            }
        }
        let looked_up = if is_same { self.seen[usize::from(node)].looked_up } else { Position(0) };
        self.seen[usize::from(node)] =
            ProcessSeen { incarnation: Some(process.incarnation), position, is_based, epoch, looked_up };
        if !is_based {
            return;
        }
        self.counts.add(Check::ReplicaPrefix, 1);
        let Some(expected) = self.digests.at(position) else {
            let end = self.position;
            // On its way through what the log still has of a former lineage, or ahead by what was lost. It is looked at again.
            let reads_log = parts.core.member().is_reading_log() && position < end;
            if reads_log || self.losses.is_ahead_by_what_was_lost(position, end) {
                self.seen[usize::from(node)].is_based = false;
                return;
            }
            return self.fail(
                Check::ReplicaPrefix,
                format!(
                    "node {node}, {:?}, is at {position:?}, the log ends at {end:?}",
                    process.incarnation
                ),
            );
        };
        let (found, rows) = replica.rows().fold((0, 0_usize), |(sum, rows), (name, row)| {
            let actor = row.actor().unwrap_or(0);
            let one = digest(number_of(name), (row.position, row.revision(), actor), row.meta());
            (sum ^ one, rows + 1)
        });
        if found != expected {
            let names: Vec<_> = replica.rows().map(|(name, _)| name.clone()).collect();
            return self.fail(
                Check::ReplicaPrefix,
                format!("node {node} at {position:?} is not what the log says; it has {names:?}"),
            );
        }
        // These rows are those of the log at this position, as was just seen.
        self.counts.add(Check::CountTrue, 1);
        let counted = replica.count();
        if counted != rows {
            let what = format!("node {node} at {position:?} counts {counted} names, and the log has {rows}");
            self.fail(Check::CountTrue, what);
        }
    }
}

impl Oracle {
    /// When everything is healed and has come to rest.
    pub(crate) fn at_rest(&mut self, world: &World) {
        let Some(inner) = self.edit() else { return };
        inner.all_have_looked();
        inner.forget_certificates(world);
        for node in world.ids() {
            inner.check_node(world, node);
            inner.check_suspended(world, node);
        }
        inner.check_groups(world);
        inner.check_references_at_rest(world);
        inner.counts.add(Check::Quiescent, 1);
        inner.counts.add(Check::LockClears, 1);
        if world.store.get(&inner.keys.lock).is_some() {
            inner.fail(Check::LockClears, "the lock is still there".to_owned());
        }
        inner.counts.add(Check::NobodyWaits, 1);
        if let Some((call, asked)) = world.asked.iter().next() {
            inner.fail(Check::NobodyWaits, format!("call {call:?} is not answered: {asked:?}"));
        }
        for (name, grant) in &world.granted {
            let Some(process) = world.process(grant.node) else { continue };
            let is_its = process.incarnation == grant.incarnation
                && process.trusted(world.local(grant.node)) == Some(grant.session);
            // A reset that was in order, which is checked when it is written, means that every base is lost.
            if !is_its || grant.token < inner.reset_at || inner.has_moved(*name, grant.token) {
                continue;
            }
            inner.counts.add(Check::Kept, 1);
            for node in world.ids() {
                let Some(parts) = world.process(node).and_then(|process| process.parts.as_ref()) else {
                    continue;
                };
                let row = parts.core.member().replica().row(&crate::world::name_of_id(*name));
                let is_there = row.as_ref().is_some_and(|row| {
                    row.position == grant.token
                        && row.actor == grant.actor
                        && row.session.number == grant.session
                });
                if !is_there {
                    let row = format!("{row:?}");
                    inner
                        .fail(Check::Kept, format!("n{name}, granted as {grant:?}, is on node {node} {row}"));
                }
            }
        }
    }

    pub(crate) fn looked_up(
        &mut self,
        node: NodeId,
        incarnation: callsign_store::ids::Incarnation,
        name: NameId,
        position: Position,
        found: Option<Position>,
    ) {
        let Some(inner) = self.edit() else { return };
        inner.counts.add(Check::LocalMonotonic, 1);
        let expected = inner.held_at(name, position).map(|span| span.holder.token);
        if expected != found {
            inner.fail(
                Check::LocalMonotonic,
                format!("node {node} at {position:?} finds {found:?}, not {expected:?}"),
            );
        }
        let seen = &mut inner.seen[usize::from(node)];
        let was = if seen.incarnation == Some(incarnation) { seen.looked_up } else { Position(0) };
        seen.looked_up = position;
        if position < was {
            inner
                .fail(Check::LocalMonotonic, format!("node {node} read at {was:?} and then at {position:?}"));
        }
    }

    pub(crate) fn own_register_seen(&mut self, node: NodeId, name: NameId, token: Position, has_it: bool) {
        let Some(inner) = self.edit() else { return };
        inner.counts.add(Check::OwnRegister, 1);
        // It may have been freed since by an entry that the replica has applied as well.
        let at = inner.seen[usize::from(node)].position;
        let is_freed = |span: &super::Span| {
            span.name == name && span.holder.token == token && span.to.is_some_and(|to| to <= inner.position)
        };
        if !has_it && !inner.spans.iter().any(is_freed) {
            inner.fail(
                Check::OwnRegister,
                format!("node {node} at {at:?} has not n{name}, granted at {token:?}"),
            );
        }
    }

    pub(crate) fn member_event(&mut self, node: NodeId, event: &callsign::cores::Event) {
        match event {
            callsign::cores::Event::Serving { .. } => self.count(Check::Elected),
            callsign::cores::Event::Corrupt { reason } => {
                self.fail(Check::ReplicaPrefix, || format!("node {node} cannot read the log: {reason}"));
            }
            _ => {}
        }
    }

    pub(crate) fn elector_event(&mut self, node: NodeId, event: &callsign_elector::elector::ElectorEvent) {
        use callsign_elector::elector::ElectorEvent;
        match event {
            ElectorEvent::LockBroken { .. } => self.count(Check::LockBroken),
            ElectorEvent::Corrupt { .. } | ElectorEvent::Undecodable { .. } | ElectorEvent::TooLarge(_) => {
                self.fail(Check::QueueOrder, || format!("node {node}: {event:?}"));
            }
            _ => {}
        }
    }

    /// Whether nobody has a name, as the log says.
    pub(crate) fn is_free(&self, name: NameId) -> bool {
        self.inner().is_some_and(|inner| !inner.truth.contains_key(&name))
    }

    /// The node that has a name, as the log says.
    pub(crate) fn holder(&self, name: NameId) -> Option<&NodeName> {
        self.inner()?.truth.get(&name).map(|holder| &holder.session.node)
    }

    /// The end of the log.
    pub(crate) fn end(&self) -> Position {
        self.inner().map_or(Position(0), |inner| inner.position)
    }

    /// The first position that the log still has.
    pub(crate) fn floor(&self) -> Position {
        self.inner().map_or(Position(0), |inner| inner.floor)
    }

    /// The names of a session, as the log says: number, actor, token.
    pub(crate) fn rows_of(
        &self,
        node: &NodeName,
        (incarnation, number): (Incarnation, SessionNumber),
    ) -> Vec<(NameId, u64, Position)> {
        let Some(inner) = self.inner() else { return Vec::new() };
        let is_its = |holder: &Holder| {
            let session = &holder.session;
            session.node == *node && session.incarnation == incarnation && session.number == number
        };
        let rows = inner.truth.iter().filter(|(_, holder)| is_its(holder));
        rows.map(|(name, holder)| (*name, holder.known_actor(), holder.token)).collect()
    }

    /// A member says that it is synced.
    pub(crate) fn synced(&mut self, node: NodeId, epoch: Epoch, position: Position) {
        if let Some(inner) = self.edit() {
            inner.check_synced(node, epoch, position);
        }
    }

    /// A name of an actor that has ended.
    pub(crate) fn row_of_the_ended(&self) -> Option<String> {
        let inner = self.inner()?;
        let (name, holder) =
            inner.truth.iter().find(|(_, holder)| inner.ended.contains_key(&holder.actor))?;
        Some(format!("n{name} still belongs to an actor that has ended: {holder:?}"))
    }

    /// A name of a session that is closed.
    pub(crate) fn row_of_the_dead(&self) -> Option<String> {
        let inner = self.inner()?;
        let is_dead = |holder: &Holder| {
            let record = inner.sessions.get(&holder.session.node);
            record.is_none_or(|record| !record.is_open_as(&holder.session))
        };
        let (name, holder) = inner.truth.iter().find(|(_, holder)| is_dead(holder))?;
        Some(format!("n{name} still belongs to a closed session: {holder:?}"))
    }
}
