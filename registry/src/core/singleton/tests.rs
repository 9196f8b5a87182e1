//! The rules of the supervisor, without actors.

use std::{collections::BTreeSet, time::Duration};

use callsign_store::Time;

use super::{
    ChildId,
    ChildKind::{self, Follower, Leader},
    Core, Effect, Input, Restarts,
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
