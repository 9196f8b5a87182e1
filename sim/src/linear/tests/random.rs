//! Histories of a real object, as they were and with one answer changed.

use callsign_store::random::SplitMix64;

use super::{super::*, actor, brute};

struct Rng {
    draws: SplitMix64,
    loses_one_in: u64,
}

fn seeded(seed: u64) -> Rng {
    Rng { draws: SplitMix64::new(seed), loses_one_in: 5 }
}

impl Rng {
    fn next(&mut self) -> u64 {
        self.draws.draw()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Calls that take effect one after the other, each somewhere between its call and its return.
fn history(rng: &mut Rng, calls: u64, spread: u64) -> Vec<Op> {
    let (mut last, mut holder): (u64, Option<(Claimant, u64)>) = (0, None);
    // Positions of the log are counted by both: tokens and revisions.
    let mut revision = 0;
    let mut tokens = Vec::new();
    let mut ops = Vec::new();
    for at in (1..=calls).map(|n| n * 10 + spread) {
        let by = actor(rng.below(3));
        let lost = rng.one_in(rng.loses_one_in);
        let refused = rng.one_in(12);
        let call = at - rng.below(spread);
        let mut ret = Some(at + rng.below(spread));
        let what = match rng.below(15) {
            0..5 => {
                let answer = match holder {
                    _ if refused => Registered::Refused,
                    Some((holder, token)) if holder == by => Registered::Granted { token },
                    Some((_, token)) => Registered::Taken { token },
                    None => {
                        last += 1 + rng.below(2);
                        holder = Some((by, last));
                        revision = last;
                        tokens.push(last);
                        Registered::Granted { token: last }
                    }
                };
                What::Register { by, answer: if lost { Registered::Unknown } else { answer } }
            }
            5..7 => {
                let target = match holder {
                    Some((_, token)) if rng.one_in(2) => Target::Token(token),
                    _ => Target::By(by),
                };
                if !refused
                    && holder
                        .is_some_and(|(by, token)| [Target::Token(token), Target::By(by)].contains(&target))
                {
                    holder = None;
                }
                let answer = match (refused, lost) {
                    (true, _) => Unregistered::Refused,
                    (_, true) => Unregistered::Unknown,
                    _ => Unregistered::Done,
                };
                What::Unregister { target, answer }
            }
            7 if holder.is_some() => {
                let token = holder.take().map_or(0, |(_, token)| token);
                ret = ret.filter(|_| !lost);
                What::Free { token }
            }
            10..13 if !tokens.is_empty() => {
                let held = holder.map(|(_, token)| token);
                let any = tokens[usize::try_from(rng.below(tokens.len() as u64)).unwrap()];
                let token = held.filter(|_| !rng.one_in(6)).unwrap_or(any);
                let expected = match rng.below(3) {
                    0 => None,
                    1 => Some(revision),
                    _ => Some(1 + rng.below(last)),
                };
                let is_due = held == Some(token) && expected.is_none_or(|expected| expected == revision);
                let answer = match held {
                    _ if refused => Updated::Refused,
                    Some(_) if is_due => {
                        last += 1 + rng.below(2);
                        revision = last;
                        Updated::Done { revision }
                    }
                    Some(held) if held == token => Updated::Changed { revision },
                    _ => Updated::Refused,
                };
                What::Update { token, expected, answer: if lost { Updated::Unknown } else { answer } }
            }
            13 if !tokens.is_empty() => {
                let held = holder.map(|(_, token)| token);
                let any = tokens[usize::try_from(rng.below(tokens.len() as u64)).unwrap()];
                let from = held.filter(|_| !rng.one_in(4)).unwrap_or(any);
                let answer = if held == Some(from) && !refused {
                    last += 1 + rng.below(2);
                    (holder, revision) = (Some((by, last)), last);
                    tokens.push(last);
                    Moved::Done { token: last }
                } else {
                    Moved::Refused
                };
                What::Move { from, by, answer: if lost { Moved::Unknown } else { answer } }
            }
            _ => {
                let revision = Some(revision).filter(|_| rng.one_in(2));
                What::Read { answer: holder.map_or(Seen::Free, |(_, token)| Seen::Found { token, revision }) }
            }
        };
        // The answer that says nothing may come before the effect.
        if matches!(
            what,
            What::Register { answer: Registered::Unknown, .. }
                | What::Unregister { answer: Unregistered::Unknown, .. }
                | What::Update { answer: Updated::Unknown, .. }
                | What::Move { answer: Moved::Unknown, .. }
        ) {
            ret = if rng.one_in(2) { None } else { Some(call + rng.below(spread)) };
        }
        ops.push(Op { call, ret, what });
    }
    ops
}

/// Changes one answer, or its time.
fn mutate(rng: &mut Rng, ops: &mut [Op]) {
    let index = usize::try_from(rng.below(ops.len() as u64)).unwrap();
    let token = rng.below(6);
    let op = &mut ops[index];
    match &mut op.what {
        What::Register { answer, .. } => {
            *answer = match rng.below(4) {
                0 => Registered::Granted { token },
                1 => Registered::Taken { token },
                2 => Registered::Unknown,
                _ => Registered::Refused,
            }
        }
        What::Unregister { answer, .. } => {
            *answer = [Unregistered::Done, Unregistered::Unknown, Unregistered::Refused]
                [usize::try_from(rng.below(3)).unwrap()];
        }
        What::Update { token: of, expected, answer } => match rng.below(5) {
            0 => *of = token,
            1 => *expected = rng.one_in(2).then_some(token),
            2 => *answer = Updated::Done { revision: token },
            3 => *answer = Updated::Changed { revision: token },
            _ => *answer = [Updated::Unknown, Updated::Refused][usize::try_from(rng.below(2)).unwrap()],
        },
        What::Move { from, answer, .. } => match rng.below(3) {
            0 => *from = token,
            1 => *answer = Moved::Done { token },
            _ => *answer = [Moved::Unknown, Moved::Refused][usize::try_from(rng.below(2)).unwrap()],
        },
        What::Read { answer } => {
            let revision = rng.one_in(2).then(|| rng.below(6));
            *answer = if rng.one_in(3) { Seen::Free } else { Seen::Found { token, revision } };
        }
        What::Free { token: freed } => *freed = token,
    }
    if rng.one_in(3) {
        op.call = rng.below(60);
        op.ret = op.ret.map(|_| op.call + rng.below(20));
    }
}

fn accepted(checker: &mut Checker, ops: &[Op]) -> bool {
    match checker.check([("name", ops)]) {
        LinearVerdict::Linearizable(_) => true,
        LinearVerdict::NotLinearizable(offence) => {
            assert!(!offence.ops.is_empty());
            false
        }
        verdict @ LinearVerdict::GaveUp { .. } => panic!("{verdict:?}"),
    }
}

#[test]
fn what_a_real_object_answered_is_accepted() {
    let mut checker = Checker::default();
    for seed in 0..3_000 {
        let mut rng = seeded(seed);
        let (calls, spread) = (1 + rng.below(30), 1 + rng.below(60));
        let ops = history(&mut rng, calls, spread);
        assert!(accepted(&mut checker, &ops), "seed {seed}: {ops:#?}");
    }
}

#[test]
fn long_histories_are_accepted_too() {
    let mut checker = Checker::default();
    for seed in 0..20 {
        let mut rng = seeded(seed);
        rng.loses_one_in = 100;
        let ops = history(&mut rng, 1_000, 30);
        assert!(accepted(&mut checker, &ops), "seed {seed}");
    }
}

#[test]
fn agrees_with_all_orders_tried_out() {
    let mut checker = Checker::default();
    let (mut yes, mut no) = (0, 0);
    for seed in 0..40_000 {
        let mut rng = seeded(seed);
        let (calls, spread) = (2 + rng.below(5), 1 + rng.below(40));
        let mut ops = history(&mut rng, calls, spread);
        for _ in 0..=rng.below(2) {
            mutate(&mut rng, &mut ops);
        }
        let expected = brute::linearizable(&ops);
        assert_eq!(accepted(&mut checker, &ops), expected, "seed {seed}: {ops:#?}");
        *if expected { &mut yes } else { &mut no } += 1;
    }
    assert!(yes > 4_000 && no > 4_000, "{yes} yes, {no} no");
}

#[test]
fn most_changed_answers_are_refused_with_a_core_of_what_was_told() {
    let mut checker = Checker::default();
    let (mut changed, mut refused) = (0, 0);
    for seed in 0..4_000 {
        let mut rng = seeded(seed);
        let told = history(&mut rng, 12, 8);
        let mut ops = told.clone();
        let index = usize::try_from(rng.below(12)).unwrap();
        let What::Read { answer: Seen::Found { token, .. } } = &mut ops[index].what else { continue };
        *token += 1;
        changed += 1;
        let LinearVerdict::NotLinearizable(offence) = checker.check([("name", &ops[..])]) else { continue };
        refused += 1;
        assert!(offence.ops.iter().all(|op| ops.contains(op)), "seed {seed}: {offence}");
        assert!(offence.ops.len() + offence.others <= ops.len(), "seed {seed}: {offence}");
    }
    assert!(changed > 300 && refused * 10 > changed * 9, "{refused} of {changed}");
}

#[test]
fn a_token_from_nowhere_is_refused() {
    let mut checker = Checker::default();
    for seed in 0..2_000 {
        let mut rng = seeded(seed);
        let mut ops = history(&mut rng, 20, 30);
        // Each of these may have been granted it.
        ops.retain(|op| {
            let is_unknown = |what: &What| {
                matches!(
                    what,
                    What::Register { answer: Registered::Unknown, .. }
                        | What::Move { answer: Moved::Unknown, .. }
                )
            };
            !is_unknown(&op.what)
        });
        let from_nowhere = 1_000;
        let Some(read) =
            ops.iter_mut().find(|op| matches!(op.what, What::Read { answer: Seen::Found { .. } }))
        else {
            continue;
        };
        read.what = What::Read { answer: Seen::Found { token: from_nowhere, revision: None } };
        assert!(!accepted(&mut checker, &ops), "seed {seed}");
    }
}
