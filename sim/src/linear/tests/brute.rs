//! The definition, tried out: all orders of all subsets, all tokens.

use super::super::*;

/// Whether some order explains all answers.
pub(super) fn linearizable(ops: &[Op]) -> bool {
    let tokens = ops.iter().filter_map(|op| token_of(&op.what)).max().map_or(0, |max| max + 2);
    extend(ops, &mut vec![false; ops.len()], None, None, tokens)
}

fn extend(
    ops: &[Op],
    placed: &mut Vec<bool>,
    last: Option<u64>,
    holder: Option<(Claimant, u64)>,
    tokens: u64,
) -> bool {
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
        for (last, holder) in outcomes(&op.what, last, holder, tokens) {
            if extend(ops, placed, last, holder, tokens) {
                return true;
            }
        }
        placed[index] = false;
    }
    false
}

type State = (Option<u64>, Option<(Claimant, u64)>);

/// What the object may do.
fn outcomes(what: &What, last: Option<u64>, holder: Option<(Claimant, u64)>, tokens: u64) -> Vec<State> {
    let same = (last, holder);
    let if_so = |yes: bool, state: State| if yes { vec![state] } else { vec![] };
    let held = holder.map(|(_, token)| token);
    match *what {
        What::Register { by, answer: Registered::Granted { token } } => match holder {
            Some(holder) => if_so(holder == (by, token), same),
            None => if_so(last < Some(token), (Some(token), Some((by, token)))),
        },
        What::Register { by, answer: Registered::Taken { token } } => {
            if_so(holder.is_some_and(|holder| holder.0 != by && holder.1 == token), same)
        }
        What::Register { by, answer: Registered::Unknown } => match holder {
            Some(_) => vec![same],
            None => (0..tokens)
                .filter(|token| last < Some(*token))
                .map(|token| (Some(token), Some((by, token))))
                .collect(),
        },
        What::Unregister {
            target: Target::Token(token),
            answer: Unregistered::Done | Unregistered::Unknown,
        }
        | What::Free { token } => {
            if held == Some(token) {
                vec![(last, None)]
            } else {
                if_so(last >= Some(token), same)
            }
        }
        What::Unregister { target: Target::By(by), answer: Unregistered::Done | Unregistered::Unknown } => {
            if holder.is_some_and(|holder| holder.0 == by) {
                vec![(last, None)]
            } else {
                vec![same]
            }
        }
        What::Read { answer: Seen::Found { token } } => if_so(held == Some(token), same),
        What::Read { answer: Seen::Free } => if_so(holder.is_none(), same),
        What::Register { answer: Registered::Refused, .. }
        | What::Unregister { answer: Unregistered::Refused, .. }
        | What::Read { answer: Seen::Refused } => vec![same],
    }
}

fn optional(op: &Op) -> bool {
    match op.what {
        What::Register { answer, .. } => matches!(answer, Registered::Unknown | Registered::Refused),
        What::Unregister { answer, .. } => answer != Unregistered::Done,
        What::Read { answer } => answer == Seen::Refused,
        What::Free { .. } => op.ret.is_none(),
    }
}

fn token_of(what: &What) -> Option<u64> {
    match *what {
        What::Register { answer: Registered::Granted { token } | Registered::Taken { token }, .. }
        | What::Unregister { target: Target::Token(token), .. }
        | What::Read { answer: Seen::Found { token } }
        | What::Free { token } => Some(token),
        _ => None,
    }
}
