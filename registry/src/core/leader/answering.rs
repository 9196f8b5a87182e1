//! What hosts are told of their requests.

use std::{collections::BTreeMap, sync::Arc};

use callsign_store::ids::{Position, SessionId};

use super::{Decision, Effect, Leader, MESSAGE_BYTES, Message, Pending, RequestNumber, Verdict};

impl Leader {
    pub(super) fn answer(&mut self, position: Position, decisions: Vec<Decision>, effects: &mut Vec<Effect>) {
        let mut by_host: BTreeMap<Arc<SessionId>, Vec<(RequestNumber, Verdict)>> = BTreeMap::new();
        for Decision { pending: Pending { session, number, .. }, verdict } in decisions {
            let Some(host) = self.hosts.get_mut(&*session) else { continue };
            host.waiting.remove(&number);
            host.decided.insert(number, (position, verdict.clone()));
            match by_host.get_mut(&session) {
                Some(verdicts) => verdicts.push((number, verdict)),
                None => {
                    by_host.insert(session, vec![(number, verdict)]);
                }
            }
        }
        for (session, verdicts) in by_host {
            self.send_verdicts(&session, position, &verdicts, effects);
        }
    }

    /// In as many messages as they fill.
    pub(super) fn send_verdicts(
        &self,
        session: &Arc<SessionId>,
        position: Position,
        verdicts: &[(RequestNumber, Verdict)],
        effects: &mut Vec<Effect>,
    ) {
        let mut rest = verdicts;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, verdict): &&(RequestNumber, Verdict)| {
                bytes += verdict.weight();
                bytes <= MESSAGE_BYTES
            };
            let (verdicts, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = others;
            let (epoch, session, verdicts) = (self.epoch, session.clone(), verdicts.to_vec());
            let to = session.node.clone();
            effects.push(Effect::send(to, Message::Verdicts { epoch, session, position, verdicts }));
        }
    }
}
