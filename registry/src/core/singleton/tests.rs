//! The rules of the supervisor, without actors.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::Time;

use super::{
    ChildId,
    ChildKind::{self, Follower, Leader},
    Core, Effect, Happened, Input, Restarts,
};

const BUDGET: Duration = Duration::from_secs(2);

fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

struct Run {
    core: Core,
    effects: Vec<Effect>,
}

impl Run {
    fn new(at_most: u32, has_follower: bool) -> Self {
        let restarts = Restarts { at_most, within: Duration::from_secs(30) };
        Self { core: Core::new(restarts, BUDGET, has_follower), effects: Vec::new() }
    }

    fn step(&mut self, ms: u64, input: Input) -> Vec<Effect> {
        self.core.step(at(ms), input, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    /// A leader child that runs, since 0 ms.
    fn leading(&mut self) -> ChildId {
        let effects = self.step(0, Input::Lead);
        let [Effect::Start { id, kind: Leader, restart: 0 }] = effects[..] else { panic!("{effects:?}") };
        self.step(0, Input::Started { id });
        id
    }

    fn down(&mut self, ms: u64, id: ChildId) -> Vec<Effect> {
        self.step(ms, Input::Down { id, why: "x".into() })
    }
}

fn started(effects: &[Effect]) -> Option<(ChildId, ChildKind)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Start { id, kind, .. } => Some((*id, *kind)),
        _ => None,
    })
}

#[test]
fn j7_the_leader_child_starts_when_the_follower_child_is_down_and_not_before() {
    let mut run = Run::new(3, true);
    let (follower, kind) = started(&run.step(0, Input::Follow)).unwrap();
    assert_eq!(kind, Follower);
    run.step(0, Input::Started { id: follower });
    assert_eq!(run.step(10, Input::Follow), [], "a claim that failed keeps it");
    let effects = run.step(20, Input::Lead);
    assert_eq!(effects, [Effect::Stop { id: follower, budget: BUDGET }], "{effects:?}");
    assert_eq!(started(&run.step(30, Input::Wake)), None, "not before it is down");
    let (leader, kind) = started(&run.down(40, follower)).unwrap();
    assert_eq!(kind, Leader);
    let effects = run.step(50, Input::Started { id: leader });
    assert!(effects.contains(&Effect::Led(Ok(()))), "and then it leads: {effects:?}");
}

#[test]
fn j7_a_follower_child_that_does_not_stop_is_killed_at_the_end_of_the_budget() {
    let mut run = Run::new(3, true);
    let (follower, _) = started(&run.step(0, Input::Follow)).unwrap();
    run.step(0, Input::Started { id: follower });
    run.step(100, Input::Lead);
    assert_eq!(run.core.wakes_at(), Some(at(2100)));
    assert_eq!(run.step(2099, Input::Wake), []);
    let effects = run.step(2100, Input::Wake);
    assert_eq!(effects[0], Effect::Kill { id: follower });
    assert_eq!(started(&effects), None, "one that cannot be ended keeps the other from being started");
    assert_eq!(started(&run.down(2100, follower)).unwrap().1, Leader);
}

#[test]
fn j8_the_end_of_a_child_is_the_end_of_the_term_after_so_many_restarts_in_the_window() {
    for at_most in [0, 1, 3] {
        let mut run = Run::new(at_most, false);
        let mut id = run.leading();
        for n in 1..=at_most {
            let effects = run.down(u64::from(n) * 1000, id);
            assert!(effects.iter().any(|e| matches!(e, Effect::Start { restart, .. } if *restart == n)));
            id = started(&effects).unwrap().0;
            run.step(u64::from(n) * 1000, Input::Started { id });
        }
        let effects = run.down(20_000, id);
        assert_eq!(started(&effects), None);
        assert!(effects.contains(&Effect::GiveUp { why: "x".into() }), "{effects:?}");
        assert_eq!(run.step(20_001, Input::Rest { budget: BUDGET }), [Effect::Rested]);
        // The next term has all its restarts.
        let id = run.leading();
        assert_eq!(started(&run.down(20_002, id)).is_some(), at_most > 0);
    }
}

#[test]
fn j8_restarts_that_are_over_the_window_do_not_count() {
    let mut run = Run::new(1, false);
    let mut id = run.leading();
    for n in 1..100 {
        id = started(&run.down(n * 30_000, id)).expect("it is started again").0;
        run.step(n * 30_000, Input::Started { id });
    }
    id = started(&run.down(100 * 30_000, id)).unwrap().0;
    assert_eq!(started(&run.down(101 * 30_000 - 1, id)), None, "twice in the window");
}

#[test]
fn j16_a_child_that_ignores_stop_is_killed_when_the_time_to_be_gentle_is_over() {
    let mut run = Run::new(3, false);
    let id = run.leading();
    assert_eq!(run.step(100, Input::Rest { budget: BUDGET }), [Effect::Stop { id, budget: BUDGET }]);
    let effects = run.step(1500, Input::Abort);
    assert!(effects.contains(&Effect::Kill { id }), "{effects:?}");
    let effects = run.down(1500, id);
    assert!(effects.contains(&Effect::Rested), "{effects:?}");
}

#[test]
fn a_child_that_does_not_start_is_an_answer_and_the_campaign_counts() {
    let mut run = Run::new(3, true);
    for _ in 0..5 {
        let (id, _) = started(&run.step(0, Input::Lead)).unwrap();
        let effects = run.down(0, id);
        assert!(effects.contains(&Effect::Led(Err("x".into()))), "{effects:?}");
        assert_eq!(started(&effects), None);
    }
}

/// Every order of a few inputs and of what children do: at most one child is there, and who rests has none.
#[test]
fn at_most_one_child_is_there_whatever_comes_in_which_order() {
    for seed in 0..20_000_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut run = Run::new(1, true);
        let (mut there, mut kinds) = (BTreeSet::<ChildId>::new(), Vec::<ChildKind>::new());
        let mut resting = false;
        for n in 0..40_u64 {
            let id = there.first().copied().unwrap_or(draw(4));
            let input = match draw(9) {
                0 => Input::Lead,
                1 => Input::Follow,
                2 => Input::Rest { budget: BUDGET },
                3 => Input::Abort,
                4 => Input::Wake,
                5 => Input::Unreachable { id, why: "x".into() },
                6 | 7 => Input::Started { id },
                _ => Input::Down { id, why: "x".into() },
            };
            if let Input::Down { id, .. } = &input {
                there.remove(id);
            }
            match &input {
                Input::Rest { .. } | Input::Abort => resting = true,
                Input::Lead | Input::Follow => resting = false,
                _ => {}
            }
            for effect in run.step(n * 700, input) {
                match effect {
                    Effect::Start { id, kind, .. } => {
                        assert!(!resting, "seed {seed}: started while nothing is wanted");
                        there.insert(id);
                        kinds.push(kind);
                        assert_eq!(there.len(), 1, "seed {seed}: {kinds:?}");
                    }
                    Effect::Rested if kinds.last() == Some(&Leader) => {
                        assert!(there.is_empty(), "seed {seed}: rested with a leader child");
                    }
                    Effect::Kill { id } | Effect::Stop { id, .. } => {
                        assert!(there.contains(&id), "seed {seed}: of a child that is not there");
                    }
                    _ => {}
                }
            }
        }
        // And at the end nothing is left.
        let mut effects = run.step(100_000, Input::End { budget: BUDGET });
        if let Some(id) = there.first().copied() {
            effects = run.down(100_000, id);
        }
        assert!(effects.contains(&Effect::Over), "seed {seed}: {effects:?}");
    }
}

#[test]
fn each_step_of_a_child_is_told_and_whoever_waits_for_a_term_is_answered_once() {
    let mut run = Run::new(1, false);
    let kind = Leader;
    let why = || "x".to_owned();
    let starts = |id, restart| Effect::Start { id, kind, restart };
    let runs = |restart| Effect::Tell(Happened::Started { kind, restart });
    let exited = || Effect::Tell(Happened::Exited { kind, why: why() });
    let not_started = || Effect::Tell(Happened::NotStarted { kind, why: why() });
    let given_up = || [Effect::Tell(Happened::GivenUp { kind, why: why() }), Effect::GiveUp { why: why() }];
    assert_eq!(run.step(0, Input::Follow), [], "there is no other child");
    assert_eq!(run.step(0, Input::Lead), [starts(1, 0)]);
    let of_another = [
        Input::Started { id: 2 },
        Input::Down { id: 2, why: why() },
        Input::Unreachable { id: 2, why: why() },
        Input::Unreachable { id: 1, why: why() },
    ];
    for input in of_another {
        assert_eq!(run.step(0, input.clone()), [], "{input:?}: of another child, or too early");
    }
    assert_eq!(run.step(0, Input::Started { id: 1 }), [runs(0), Effect::Led(Ok(()))]);
    assert_eq!(run.step(0, Input::Started { id: 1 }), [], "again");
    assert_eq!(run.step(10, Input::Lead), [Effect::Led(Ok(()))], "it runs already");
    assert_eq!(run.down(1000, 1), [exited(), starts(2, 1)]);
    // One that is started again and does not start has used a restart up.
    let end = given_up();
    assert_eq!(run.down(2000, 2), [&[not_started()][..], &end].concat());
    assert_eq!(run.step(2000, Input::Lead), [], "it has given up");
    assert_eq!(run.step(2000, Input::Rest { budget: BUDGET }), [Effect::Rested]);
    assert_eq!(run.step(3000, Input::Lead), [starts(3, 0)]);
    assert_eq!(run.down(3000, 3), [not_started(), Effect::Led(Err(why()))]);
    assert_eq!(run.step(3000, Input::Lead), [starts(4, 0)]);
    run.step(3000, Input::Started { id: 4 });
    assert_eq!(run.step(3001, Input::Unreachable { id: 4, why: why() }), end);
    assert_eq!(run.step(3002, Input::Unreachable { id: 5, why: why() }), []);
}

#[test]
fn a_child_that_is_to_end_is_told_to_until_it_is_down_or_killed_and_the_earliest_time_counts() {
    let mut run = Run::new(3, false);
    let id = run.leading();
    let (kind, took) = (Leader, Duration::from_secs(1));
    let rest = |seconds| Input::Rest { budget: Duration::from_secs(seconds) };
    assert_eq!(run.core.wakes_at(), None);
    assert_eq!(run.step(1000, rest(9)), [Effect::Stop { id, budget: Duration::from_secs(9) }]);
    assert_eq!(run.core.wakes_at(), Some(at(10_000)));
    assert_eq!(run.step(1000, rest(1)), []);
    assert_eq!(run.step(1000, rest(5)), []);
    assert_eq!(run.core.wakes_at(), Some(at(2000)));
    // It said late that it runs: it may have missed the first time.
    let again = Effect::Stop { id, budget: Duration::from_millis(500) };
    assert_eq!(run.step(1500, Input::Started { id }), [again]);
    assert_eq!(run.step(1999, Input::Wake), []);
    let killed = [Effect::Kill { id }, Effect::Tell(Happened::Aborted { kind, took })];
    assert_eq!(run.step(2000, Input::Wake), killed);
    assert_eq!((run.core.wakes_at(), run.step(2001, Input::Wake)), (None, vec![]), "once");
    assert_eq!(run.step(2001, Input::Started { id }), [Effect::Kill { id }]);
    let stopped = Effect::Tell(Happened::Stopped { kind, took: 2 * took });
    assert_eq!(run.down(3000, id), [stopped, Effect::Rested]);

    // At once, though nobody was gentle before.
    let mut run = Run::new(3, false);
    let id = run.leading();
    let aborted = Effect::Tell(Happened::Aborted { kind, took: Duration::ZERO });
    let all = [Effect::Stop { id, budget: Duration::ZERO }, Effect::Kill { id }, aborted];
    assert_eq!(run.step(1000, Input::Abort), all);
}

#[test]
fn a_follower_child_keeps_nobody_waiting_and_is_started_again_without_an_end_of_a_term() {
    let mut run = Run::new(1, true);
    let (kind, why) = (Follower, "x".to_owned());
    let starts = |id, restart| Effect::Start { id, kind, restart };
    let runs = |restart| Effect::Tell(Happened::Started { kind, restart });
    let not_started = Effect::Tell(Happened::NotStarted { kind, why: why.clone() });
    assert_eq!(run.step(0, Input::Follow), [starts(1, 0)]);
    assert_eq!(run.down(0, 1), [not_started, starts(2, 1)]);
    assert_eq!(run.step(0, Input::Started { id: 2 }), [runs(1)]);
    let stop = Effect::Stop { id: 2, budget: BUDGET };
    assert_eq!(run.step(0, Input::Rest { budget: BUDGET }), [Effect::Rested, stop]);
    let stopped = Effect::Tell(Happened::Stopped { kind, took: Duration::ZERO });
    assert_eq!(run.down(0, 2), [stopped]);
    assert_eq!(run.step(0, Input::Follow), [starts(3, 0)]);
    let exited = Effect::Tell(Happened::Exited { kind, why: why.clone() });
    run.step(0, Input::Started { id: 3 });
    assert_eq!(run.down(1, 3), [exited.clone(), starts(4, 1)]);
    run.step(1, Input::Started { id: 4 });
    let given_up = Effect::Tell(Happened::GivenUp { kind, why });
    assert_eq!(run.down(2, 4), [exited, given_up], "and no term is given up");
}

#[test]
fn nothing_is_started_once_the_supervisor_ends() {
    let mut run = Run::new(3, true);
    assert_eq!(run.step(0, Input::End { budget: BUDGET }), [Effect::Over]);
    assert_eq!(run.step(0, Input::Lead), [Effect::Over]);
    assert_eq!(run.step(0, Input::Follow), [Effect::Over]);
    let mut run = Run::new(3, true);
    let id = run.leading();
    assert_eq!(run.step(0, Input::End { budget: BUDGET }), [Effect::Stop { id, budget: BUDGET }]);
    assert_eq!(run.core.wakes_at(), Some(at(2000)));
    assert_eq!(run.step(0, Input::Lead), []);
    let stopped = Effect::Tell(Happened::Stopped { kind: Leader, took: Duration::ZERO });
    assert_eq!(run.down(0, id), [stopped, Effect::Over]);
}
