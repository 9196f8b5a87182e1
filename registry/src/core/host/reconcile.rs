//! Claims beside the log: what it freed is lost, and where the two differ for long one of them is given up.

use std::{
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use callsign_store::planted;

use super::{
    Applied, Claim, Effect, Event, GivenUp, Host, Name, Notice, Open, Position, Replica, SessionId, Table,
    Time, Wish, digest,
    duties::{Duty, Slice},
};

/// How long claims and the log may differ before it is looked into: what is on the way makes them differ.
const DIFFER_FOR: Duration = Duration::from_secs(1);

/// With more names of which something is under way, claims and log are not compared: each of these is looked at.
const MOST_UNDER_WAY: usize = 8192;

impl Host {
    /// Rows of this node that the log freed: a claim on one is lost.
    pub(crate) fn on_applied(&mut self, applied: &Applied, effects: &mut Vec<Effect>) {
        for name in &applied.starts {
            self.starts.has_ended(name);
        }
        if applied.is_of_many {
            self.many_changed();
        }
        self.on_given_away(applied, effects);
        self.on_taken(applied, effects);
        self.places.freed(&applied.freed_places);
        for (name, row) in &applied.own_freed {
            let is_ours = self.session.as_deref() == Some(&*row.session);
            if is_ours && self.claims.get(name).is_some_and(|claim| claim.position == row.position) {
                self.lose(name, effects);
            }
        }
        if applied.own_gone.iter().any(|gone| self.session.as_deref() == Some(gone)) {
            self.owes(Duty::End { is_of_log: true });
        }
    }

    fn lose(&mut self, name: &Name, effects: &mut Vec<Effect>) {
        let Some(claim) = self.claims.get(name) else { return };
        if planted!("claim-puts-row-back") {
            if !self.by_name.contains_key(name) {
                let wish = Wish::Register { actor: claim.actor, kind: claim.kind, meta: None };
                let (name, on_lapse) = (name.clone(), claim.on_lapse);
                let claim = Some(claim.id);
                self.ask(Open { name, on_lapse, claim, ..Open::of(wish) });
            }
            return;
        }
        self.end_claim(name, Some(Notice::Lost), effects);
        effects.push(Effect::Event(Event::ClaimLost { name: name.clone() }));
    }

    /// The log that had the claims is lost, and with it what it decided: that is asked again, as something new. All of it is done
    /// when there are no more duties.
    pub(crate) fn drop_all_claims(&mut self, effects: &mut Vec<Effect>) {
        if planted!("claim-puts-row-back") {
            for name in self.claims.keys().cloned().collect::<Vec<_>>() {
                self.lose(&name, effects);
            }
        } else {
            self.owes(Duty::End { is_of_log: true });
        }
        self.is_synced = false;
        self.owes(Duty::AskAgain);
    }

    /// Compares the claims with the log: first their digests, and, if these differ for a while, name by name.
    pub(super) fn compare<T: Table>(&mut self, now: Time, replica: &Replica<T>) {
        let Some(session) = self.session.clone() else { return };
        if self.is_busy() || self.by_name.len() > MOST_UNDER_WAY {
            return;
        }
        if self.is_as_logged(&session, replica) {
            self.differ_since = None;
            return;
        }
        let since = *self.differ_since.get_or_insert(now);
        if now.since(since) >= DIFFER_FOR {
            self.differ_since = None;
            self.owes(Duty::CompareRows { from: 0 });
        }
    }

    /// When to compare them again, if they differed the last time.
    pub(crate) fn compares_at(&self) -> Option<Time> {
        self.differ_since.filter(|_| self.session.is_some()).map(|since| since + DIFFER_FOR)
    }

    /// Whether claims and log say the same, but for names of which something is under way. Cost: those names.
    fn is_as_logged<T: Table>(&self, session: &SessionId, replica: &Replica<T>) -> bool {
        let held = replica.sessions().get(session);
        let mut log = held.map_or((0, 0), |held| (held.names.len(), held.digest));
        let mut claims = (self.claims.len(), self.claims_digest);
        if log == claims {
            return true;
        }
        let without = |all: &mut (usize, u64), name: &Name, position: Position| {
            *all = (all.0.wrapping_sub(1), all.1 ^ digest(name, position));
        };
        let taken = self.takes.names().filter(|name| !self.by_name.contains_key(*name));
        for name in self.by_name.keys().chain(taken) {
            if let Some(row) = replica.row(name).filter(|row| *row.session == *session) {
                without(&mut log, name, row.position);
            }
            if let Some(claim) = self.claims.get(name) {
                without(&mut claims, name, claim.position);
            }
        }
        log == claims
    }

    /// Gives up what the log says that this node holds and no claim is for, from a place in the list of its names on. A name that
    /// takes the place of one that goes meanwhile is found the next time. Returns the rest.
    pub(super) fn compare_rows<T: Table>(
        &mut self,
        from: usize,
        slice: &mut Slice,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) -> Duty {
        let held = self.session.as_ref().and_then(|session| replica.sessions().get(&**session));
        let mut at = from;
        while let Some(name) = held.and_then(|held| held.names.get(at)) {
            if slice.is_over() {
                return Duty::CompareRows { from: at };
            }
            slice.took(1);
            at += 1;
            let Some(row) = replica.row(name).filter(|_| !self.is_asked(name)) else { continue };
            if self.claims.get(name).is_none_or(|claim| claim.position != row.position)
                && !planted!("orphan-not-given-up")
            {
                effects.push(Effect::Event(Event::Orphan { name: name.clone() }));
                // A claim by another registration than that of the log is none.
                self.lose(name, effects);
                self.give_up(name.clone(), row.position, GivenUp::Unregistered, None);
            }
        }
        Duty::CompareClaims { behind: None }
    }

    /// Ends claims of which the log says nothing, behind a name. Returns the rest, if there is one.
    pub(super) fn compare_claims<T: Table>(
        &mut self,
        behind: Option<&Name>,
        slice: &mut Slice,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) -> Option<Duty> {
        let session = self.session.clone()?;
        let has_row = |name: &Name, claim: &Claim| {
            replica.row(name).is_some_and(|r| r.position == claim.position && *r.session == *session)
        };
        let begin = behind.map_or(Unbounded, Excluded);
        let part = self.claims.range::<Name, _>((begin, Unbounded)).take(slice.left());
        let (mut lost, mut last, mut count) = (Vec::new(), None, 0);
        for (name, claim) in part {
            (last, count) = (Some(name.clone()), count + 1);
            if !self.is_asked(name) && !has_row(name, claim) {
                lost.push(name.clone());
            }
        }
        let is_rest = count == slice.left();
        slice.took(count);
        for name in lost {
            self.lose(&name, effects);
        }
        is_rest.then_some(Duty::CompareClaims { behind: last })
    }
}
