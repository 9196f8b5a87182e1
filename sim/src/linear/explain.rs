//! Makes a contradiction small enough to read.

use super::{
    Moved, Op, Registered, Seen, Unregistered, Updated, What,
    order::{OrderSearch, Ordered},
};

/// The calls that contradict each other, and how many others there were when it came out.
///
/// Every step forgets something a client was told, so what still has no order is as wrong as the whole.
pub(super) fn core(ops: &[Op], order: &mut OrderSearch, limit: usize) -> (Vec<Op>, usize) {
    let mut wrong = |ops: &[Op]| matches!(order.find(ops, limit), Ordered::No);

    let mut ends: Vec<u64> = ops.iter().filter_map(|op| op.ret).collect();
    ends.sort_unstable();
    ends.dedup();
    let end = ends.partition_point(|end| !wrong(&until(ops, *end)));
    let mut told = match ends.get(end) {
        Some(end) => until(ops, *end),
        None => ops.to_vec(),
    };
    let all = told.len();
    let mut kept: Vec<bool> = told.iter().map(|op| forget(op) != Some(*op)).collect();
    let mut by_call: Vec<usize> = (0..all).collect();
    by_call.sort_by_key(|index| told[*index].call);
    for index in by_call {
        if !kept[index] {
            continue;
        }
        let before = told[index];
        // Nothing is left of a read; a refusal says as little, and keeps the place.
        told[index] = forget(&before).unwrap_or(Op { what: What::Read { answer: Seen::Refused }, ..before });
        if wrong(&told) {
            kept[index] = false;
        } else {
            told[index] = before;
        }
    }
    let mut core: Vec<Op> = told.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(op, _)| *op).collect();
    core.sort_by_key(|op| op.call);
    let others = all - core.len();
    (core, others)
}

/// The history as it stood at a stamp.
fn until(ops: &[Op], end: u64) -> Vec<Op> {
    let known = |op: &Op| op.ret.is_some_and(|ret| ret <= end);
    ops.iter()
        .filter(|op| op.call <= end)
        .filter_map(|op| if known(op) { Some(*op) } else { forget(op) })
        .collect()
}

/// The call without its answer, if it may still have had an effect.
fn forget(op: &Op) -> Option<Op> {
    let what = match op.what {
        What::Register { by, answer: Registered::Granted { .. } | Registered::Unknown } => {
            What::Register { by, answer: Registered::Unknown }
        }
        What::Unregister { target, answer: Unregistered::Done | Unregistered::Unknown } => {
            What::Unregister { target, answer: Unregistered::Unknown }
        }
        What::Update { token, expected, answer: Updated::Done { .. } | Updated::Unknown } => {
            What::Update { token, expected, answer: Updated::Unknown }
        }
        What::Move { from, by, answer: Moved::Done { .. } | Moved::Unknown } => {
            What::Move { from, by, answer: Moved::Unknown }
        }
        What::Free { token } => return Some(Op { ret: None, what: What::Free { token }, ..*op }),
        What::Register { .. }
        | What::Unregister { .. }
        | What::Update { .. }
        | What::Move { .. }
        | What::Read { .. } => return None,
    };
    Some(Op { what, ..*op })
}
