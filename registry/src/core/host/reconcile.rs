//! Claims beside the log: what it freed is lost, and where the two differ for long one of them is given up.

use std::time::Duration;

use callsign_store::planted;

use super::{
    Applied, Claim, Effect, Event, GivenUp, Host, Name, Notice, Open, Replica, Table, Time, Wish,
    duties::Duty,
};

/// How long claims and the log may differ before it is looked into: what is on the way makes them differ.
const DIFFER_FOR: Duration = Duration::from_secs(1);

impl Host {
    /// Rows of this node that the log freed: a claim on one is lost.
    pub(crate) fn on_applied(&mut self, applied: &Applied, effects: &mut Vec<Effect>) {
        for name in &applied.starts {
            self.starts.has_ended(name);
        }
        if applied.is_of_many {
            self.many_changed();
        }
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
                let id = Some(claim.id);
                self.ask(Open {
                    name,
                    wish,
                    on_lapse,
                    claim: id,
                    caller: None,
                    starter: None,
                    sent: None,
                    is_orphan: false,
                });
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
        self.owes(Duty::AskAgain);
    }

    /// Compares the claims with the log: first their digests, and, if these differ for a while, name by name.
    pub(super) fn compare<T: Table>(&mut self, now: Time, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let Some(session) = self.session.clone() else { return };
        let held = replica.sessions().get(&*session);
        let log = held.map_or((0, 0), |held| (held.names.len(), held.digest));
        let is_quiet = !self.is_asking();
        if !is_quiet || log == (self.claims.len(), self.claims_digest) {
            self.differ_since = None;
            return;
        }
        let since = *self.differ_since.get_or_insert(now);
        if now.since(since) < DIFFER_FOR {
            return;
        }
        self.differ_since = None;
        for name in held.iter().flat_map(|held| held.names.iter()) {
            let Some(row) = replica.row(name) else { continue };
            if self.claims.get(name).is_none_or(|claim| claim.position != row.position)
                && !planted!("orphan-not-given-up")
            {
                effects.push(Effect::Event(Event::Orphan { name: name.clone() }));
                self.give_up(name.clone(), row.position, GivenUp::Unregistered, None);
            }
        }
        let has_row = |name: &Name, claim: &Claim| {
            replica.row(name).is_some_and(|r| r.position == claim.position && *r.session == *session)
        };
        let lost: Vec<Name> = self
            .claims
            .iter()
            .filter(|(name, claim)| !has_row(name, claim))
            .map(|(n, _)| n.clone())
            .collect();
        for name in lost {
            self.lose(&name, effects);
        }
    }
}
