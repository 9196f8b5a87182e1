//! What clients were told, as a history of concurrent calls on each name: P4, without a look at the log for the answers.
//!
//! The log is asked only which registrations were there and why they ended by themselves: a session that was closed, an
//! actor that ended. From that moment on, or ever after, the name may be free.

use std::collections::BTreeMap;

use callsign_store::ids::Position;

use super::{Check, Oracle, Outcome, Told};
use crate::{
    linear::{
        Checker, Claimant, LinearVerdict, Moved, Op, Registered, Seen, Target, Unregistered, Updated, What,
    },
    world::{NameId, Want, is_member},
};

fn claimant(actor: u64) -> Claimant {
    // Actors are numbered over the whole world, so that the session adds nothing.
    Claimant { session: 0, actor }
}

/// A start takes the name, and binds its actor to it later.
fn ops_of(told: &Told) -> Vec<Op> {
    let first = op_of(told);
    match told.answer.as_ref().map(|(_, outcome, _)| outcome) {
        Some(Outcome::Started { token, revision }) => {
            let answer = Updated::Done { revision: revision.0 };
            let what = What::Update { token: token.0, expected: Some(token.0), answer };
            vec![first, Op { what, ..first }]
        }
        _ => vec![first],
    }
}

fn op_of(told: &Told) -> Op {
    let answer = told.answer.as_ref().map(|(_, outcome, _)| outcome);
    let what = match &told.want {
        Want::Register { .. }
        | Want::RegisterAgain { .. }
        | Want::RegisterBeside { .. }
        | Want::RegisterPatiently { .. } => What::Register {
            by: claimant(told.actor),
            answer: match answer {
                Some(Outcome::Granted { token }) => Registered::Granted { token: token.0 },
                Some(Outcome::Taken { token }) => Registered::Taken { token: token.0 },
                Some(Outcome::Refused) => Registered::Refused,
                _ => Registered::Unknown,
            },
        },
        Want::Start { .. } => match answer {
            // Held, and not only being started.
            Some(Outcome::Theirs { token, revision }) => {
                What::Read { answer: Seen::Found { token: token.0, revision: Some(revision.0) } }
            }
            Some(Outcome::Started { token, .. }) => {
                What::Register { by: claimant(told.actor), answer: Registered::Granted { token: token.0 } }
            }
            // It had the name for a while, maybe: the log knows under which token.
            Some(Outcome::Failed) => What::Register { by: claimant(told.actor), answer: Registered::Refused },
            _ => What::Register { by: claimant(told.actor), answer: Registered::Unknown },
        },
        Want::Take { .. } => What::Move {
            from: told.target.0,
            by: claimant(told.actor),
            answer: match answer {
                Some(Outcome::Moved { token }) => Moved::Done { token: token.0 },
                Some(Outcome::Refused | Outcome::Gone) => Moved::Refused,
                _ => Moved::Unknown,
            },
        },
        Want::Unregister { .. } => What::Unregister {
            target: Target::Token(told.target.0),
            answer: match answer {
                Some(Outcome::Freed { .. }) => Unregistered::Done,
                Some(Outcome::Refused) => Unregistered::Refused,
                _ => Unregistered::Unknown,
            },
        },
        Want::Update { .. } => What::Update {
            token: told.target.0,
            expected: told.expected.map(|revision| revision.0),
            answer: match answer {
                Some(Outcome::Updated { revision }) => Updated::Done { revision: revision.0 },
                Some(Outcome::Changed { revision }) => Updated::Changed { revision: revision.0 },
                Some(Outcome::Refused) => Updated::Refused,
                _ => Updated::Unknown,
            },
        },
        // At some moment the name was held where it was said to have gone.
        Want::Offer { .. } => What::Read {
            answer: match answer {
                Some(Outcome::Offered { token }) => Seen::Found { token: token.0, revision: None },
                _ => Seen::Refused,
            },
        },
        Want::Consistent { .. } | Want::Lookup { .. } => What::Read {
            answer: match answer {
                Some(Outcome::Read { held: Some((token, revision)), .. }) => {
                    Seen::Found { token: token.0, revision: Some(revision.0) }
                }
                Some(Outcome::Read { held: None, .. }) => Seen::Free,
                _ => Seen::Refused,
            },
        },
        // They are not put in order.
        Want::Join { .. } | Want::Acquire { .. } | Want::Withdraw { .. } => {
            What::Read { answer: Seen::Refused }
        }
    };
    Op { call: told.asked, ret: told.answer.as_ref().map(|(step, ..)| *step), what }
}

impl Oracle {
    /// Looks at the whole history.
    pub(crate) fn check_history(&mut self) {
        let Some(inner) = self.edit() else { return };
        if inner.losses.is_history_torn() {
            return;
        }
        let mut names: BTreeMap<NameId, Vec<Op>> = BTreeMap::new();
        let known = |name: NameId, token: Position| {
            inner.spans.iter().any(|span| span.name == name && span.holder.token == token)
        };
        // What is said of a membership, one actor says of itself: nothing is concurrent there.
        for told in inner.told.iter().filter(|told| !told.want.is_of_groups()) {
            // What it was to end was not yet there when it was asked: the log knows which it was.
            let is_vague = matches!(told.want, Want::Unregister { .. }) && !known(told.name, told.target);
            // What had no effect and told nothing needs no place in an order.
            let is_mute = match (&told.want, told.answer.as_ref().map(|(_, outcome, _)| outcome)) {
                (_, Some(Outcome::Refused | Outcome::Failed | Outcome::Gone))
                | (Want::Consistent { .. } | Want::Offer { .. }, None)
                | (Want::Offer { .. }, Some(Outcome::Unknown)) => true,
                // Of a registration that was taken back by a `Reset` before anybody heard of it, say.
                (Want::Update { .. }, _) if !known(told.name, told.target) => true,
                (want, None | Some(Outcome::Unknown)) if want.registers() => {
                    let is_its =
                        |span: &super::Span| span.name == told.name && span.holder.actor == told.actor;
                    !inner.spans.iter().any(is_its)
                }
                _ => false,
            };
            if !is_vague && !is_mute {
                names.entry(told.name).or_default().extend(ops_of(told));
            }
        }
        for span in inner.spans.iter().filter(|span| !is_member(span.name)) {
            let session = inner.closed.get(&*span.holder.session).copied();
            let left = inner.left.get(&span.holder.session.incarnation).copied();
            let ended = inner.ended.get(&span.holder.actor).copied();
            // Given up at the wish of a client, that call says when. If nobody knew then what was to be given up, the log does.
            let is_asked = |told: &&Told| {
                matches!(told.want, Want::Unregister { .. })
                    && told.name == span.name
                    && told.target == span.holder.token
                    && !matches!(told.answer, Some((_, Outcome::Refused, _)))
            };
            let given_up = span.given_up.filter(|_| !inner.told.iter().any(|told| is_asked(&told)));
            if let Some(call) = session.into_iter().chain(left).chain(ended).chain(given_up).min() {
                let what = What::Free { token: span.holder.token.0 };
                names.entry(span.name).or_default().push(Op { call, ret: None, what });
            }
        }
        // What nobody was told of is in the log only.
        for (name, token, revision) in &inner.binds {
            let is_it = |told: &Told| {
                let outcome = told.answer.as_ref().map(|(_, outcome, _)| outcome);
                told.name == *name
                    && outcome == Some(&Outcome::Started { token: *token, revision: *revision })
            };
            if known(*name, *token) && !inner.told.iter().any(is_it) {
                // Only this revision: another one is another's.
                let what = What::Update {
                    token: token.0,
                    expected: Some(token.0),
                    answer: Updated::Done { revision: revision.0 },
                };
                names.entry(*name).or_default().push(Op { call: 0, ret: None, what });
            }
        }
        let registers = |ops: &[Op]| ops.iter().filter(|op| matches!(op.what, What::Register { .. })).count();
        // A register that was asked before this history begins is in the log only. One that a `Reset` undid, with all that was
        // decided, is asked again by its host, and may be granted a second time.
        for (at, span) in inner.spans.iter().enumerate().filter(|(_, span)| !is_member(span.name)) {
            let is_its = |actor: u64, name: NameId| actor == span.holder.actor && name == span.name;
            let is_before = |told: &&Told| is_its(told.actor, told.name) && told.began < span.holder.token;
            let asked = inner.told.iter().filter(is_before).count();
            let before = inner.spans[..at].iter().filter(|span| is_its(span.holder.actor, span.name));
            let (before, last) = (before.clone().count(), before.map(|span| span.holder.token).max());
            // Any of them: another may have followed.
            let is_undone =
                |reset: &Position| last.is_none_or(|last| last < *reset) && *reset < span.holder.token;
            if asked == 0 || (before >= asked && inner.resets.iter().any(is_undone)) {
                let by = claimant(span.holder.actor);
                let what = match inner.moved_from(span.name, span.holder.token) {
                    Some(from) => What::Move { from: from.0, by, answer: Moved::Unknown },
                    None => What::Register { by, answer: Registered::Unknown },
                };
                names.entry(span.name).or_default().push(Op { call: 0, ret: None, what });
            }
        }
        let checked = names.values().map(|ops| registers(ops) as u64).sum();
        inner.counts.add(Check::Linearizable, checked);
        let verdict = Checker::with_limit(100_000)
            .check(names.iter().map(|(name, ops)| (crate::world::name_of_id(*name), ops.as_slice())));
        match verdict {
            LinearVerdict::Linearizable(_) => {}
            LinearVerdict::NotLinearizable(offence) => inner.fail(Check::Linearizable, offence.to_string()),
            // More than 128 calls at once on one name: nobody can say, and the report does.
            LinearVerdict::GaveUp { .. } => inner.counts.add(Check::HistoryTooLong, 1),
        }
    }
}
