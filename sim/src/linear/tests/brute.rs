//! The definition, tried out: all orders of all subsets, all tokens.

use super::super::*;

/// Whether some order explains all answers.
pub(super) fn linearizable(ops: &[Op]) -> bool {
    let tokens = ops.iter().filter_map(|op| token_of(&op.what)).max().map_or(0, |max| max + 2);
    extend(ops, &mut vec![false; ops.len()], State::default(), tokens)
}

fn extend(ops: &[Op], placed: &mut Vec<bool>, state: State, tokens: u64) -> bool {
    let waits = |index: usize, placed: &[bool]| !placed[index] && !optional(&ops[index]);
    if (0..ops.len()).all(|index| !waits(index, placed)) {
        return true;
    }
    for index in 0..ops.len() {
        let op = &ops[index];
        let early = |other: usize| ops[other].ret.is_some_and(|ret| ret < op.call);
        if placed[index] || (0..ops.len()).any(|other| waits(other, placed) && early(other)) {
            continue;
        }
        placed[index] = true;
        for state in outcomes(&op.what, state, tokens) {
            if extend(ops, placed, state, tokens) {
                return true;
            }
        }
        placed[index] = false;
    }
    false
}

/// The last token, who holds it, and the revision.
type State = (Option<u64>, Option<(Claimant, u64)>, u64);

/// What the object may do.
fn outcomes(what: &What, same: State, tokens: u64) -> Vec<State> {
    let (last, holder, at) = same;
    let if_so = |yes: bool, state: State| if yes { vec![state] } else { vec![] };
    let held = holder.map(|(_, token)| token);
    match *what {
        What::Register { by, answer: Registered::Granted { token } } => match holder {
            Some(holder) => if_so(holder == (by, token), same),
            None => if_so(last < Some(token), (Some(token), Some((by, token)), token)),
        },
        What::Register { by, answer: Registered::Taken { token } } => {
            if_so(holder.is_some_and(|holder| holder.0 != by && holder.1 == token), same)
        }
        What::Register { by, answer: Registered::Unknown } => match holder {
            Some(_) => vec![same],
            None => (0..tokens)
                .filter(|token| last < Some(*token))
                .map(|token| (Some(token), Some((by, token)), token))
                .collect(),
        },
        What::Unregister {
            target: Target::Token(token),
            answer: Unregistered::Done | Unregistered::Unknown,
        }
        | What::Free { token } => {
            if held == Some(token) {
                vec![(last, None, at)]
            } else {
                if_so(last >= Some(token), same)
            }
        }
        What::Unregister { target: Target::By(by), answer: Unregistered::Done | Unregistered::Unknown } => {
            if holder.is_some_and(|holder| holder.0 == by) {
                vec![(last, None, at)]
            } else {
                vec![same]
            }
        }
        What::Update { token, expected, answer: Updated::Done { revision } } => {
            let is_expected = expected.is_none_or(|expected| expected == at);
            if_so(held == Some(token) && is_expected && at < revision, (last, holder, revision))
        }
        What::Update { token, expected, answer: Updated::Unknown } => {
            let is_done = held == Some(token) && expected.is_none_or(|expected| expected == at);
            let revisions = (at + 1..tokens).filter(|_| is_done).map(|revision| (last, holder, revision));
            revisions.chain([same]).collect()
        }
        What::Update { token, answer: Updated::Changed { revision }, .. } => {
            if_so(held == Some(token) && at == revision, same)
        }
        What::Move { from, by, answer: Moved::Done { token } } => {
            if from == token {
                return if_so(holder == Some((by, token)), same);
            }
            if_so(held == Some(from) && from < token, (Some(token), Some((by, token)), token))
        }
        What::Move { from, by, answer: Moved::Unknown } => {
            let tokens = (from + 1..tokens).filter(|_| held == Some(from));
            tokens.map(|token| (Some(token), Some((by, token)), token)).chain([same]).collect()
        }
        What::Read { answer: Seen::Found { token, revision } } => {
            if_so(held == Some(token) && revision.is_none_or(|revision| revision == at), same)
        }
        What::Read { answer: Seen::Free } => if_so(holder.is_none(), same),
        What::Register { answer: Registered::Refused, .. }
        | What::Unregister { answer: Unregistered::Refused, .. }
        | What::Update { answer: Updated::Refused, .. }
        | What::Move { answer: Moved::Refused, .. }
        | What::Read { answer: Seen::Refused } => vec![same],
    }
}

fn optional(op: &Op) -> bool {
    match op.what {
        What::Register { answer, .. } => matches!(answer, Registered::Unknown | Registered::Refused),
        What::Unregister { answer, .. } => answer != Unregistered::Done,
        What::Update { answer, .. } => matches!(answer, Updated::Unknown | Updated::Refused),
        What::Move { answer, .. } => matches!(answer, Moved::Unknown | Moved::Refused),
        What::Read { answer } => answer == Seen::Refused,
        What::Free { .. } => op.ret.is_none(),
    }
}

fn token_of(what: &What) -> Option<u64> {
    match *what {
        What::Register { answer: Registered::Granted { token } | Registered::Taken { token }, .. }
        | What::Unregister { target: Target::Token(token), .. }
        | What::Free { token }
        | What::Move { answer: Moved::Done { token }, .. } => Some(token),
        What::Read { answer: Seen::Found { token, revision } } => Some(token.max(revision.unwrap_or(0))),
        What::Update { token, expected, answer } => {
            let told = match answer {
                Updated::Done { revision } | Updated::Changed { revision } => revision,
                _ => 0,
            };
            Some(token.max(expected.unwrap_or(0)).max(told))
        }
        What::Move { from, .. } => Some(from),
        _ => None,
    }
}
