use callsign_store::ids::{Incarnation, Seniority};

use super::*;

fn id(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

fn candidate(name: &str, priority: u32, seniority: u64) -> Standing {
    Standing {
        member: id(name),
        incarnation: Incarnation(1),
        priority,
        seniority: Seniority(seniority),
        qualified: true,
    }
}

fn decide(policy: &Policy, live: &[Standing], holder: Option<&str>, proposer: Option<&str>) -> Decision {
    policy.decide(live, holder.map(id).as_ref(), proposer.map(id).as_ref())
}

fn elect(name: &str) -> Decision {
    Decision::Elect(id(name))
}

#[test]
fn e14_e15_sticky_keeps_its_holder_and_a_vacant_seat_goes_to_whoever_asks_else_to_the_smallest_id() {
    let (policy, live) =
        (Policy::sticky(), [candidate("a", 1, 3), candidate("b", 9, 1), candidate("z", 1, 2)]);
    for asks in [Some("a"), Some("b"), Some("z"), None] {
        assert_eq!(decide(&policy, &live, Some("z"), asks), Decision::Keep);
    }
    assert_eq!(decide(&policy, &live, None, Some("b")), elect("b"));
    assert_eq!(decide(&policy, &live, Some("gone"), Some("not-a-member")), elect("a"));
    assert_eq!(decide(&policy, &[], Some("z"), None), Decision::Vacate);
}

#[test]
fn e11_e12_only_a_higher_priority_preempts_and_only_when_it_asks() {
    let (policy, live) = (Policy::preempting(), [candidate("lo", 1, 1), candidate("hi", 9, 2)]);
    assert_eq!(decide(&policy, &live, Some("lo"), Some("hi")), elect("hi"));
    assert_eq!(decide(&policy, &live, Some("hi"), Some("lo")), Decision::Keep);
    let equal = [candidate("x", 5, 1), candidate("y", 5, 2)];
    assert_eq!(decide(&policy, &equal, Some("x"), Some("y")), Decision::Keep);
    assert_eq!(decide(&policy, &equal, Some("y"), Some("x")), Decision::Keep);
    assert_eq!(decide(&policy, &live, None, Some("lo")), elect("lo"), "a vacant seat is whoever's asks");
}

#[test]
fn e8_e9_ranked_prefers_priority_then_seniority_then_id_and_never_priority_0() {
    let policy = Policy::ranked();
    let live = [
        candidate("b", 5, 10),
        candidate("a", 5, 10),
        candidate("old", 5, 1),
        candidate("top", 10, 99),
        candidate("out", 0, 0),
    ];
    assert_eq!(decide(&policy, &live, None, Some("b")), elect("top"), "whoever asks");
    assert_eq!(decide(&policy, &live[..3], None, None), elect("old"));
    assert_eq!(decide(&policy, &live[..2], None, None), elect("a"));
    assert_eq!(decide(&policy, &live[4..], None, None), Decision::Vacate);
    assert_eq!(decide(&policy, &live, Some("old"), None), elect("top"));
    assert_eq!(decide(&policy, &live, Some("top"), Some("old")), Decision::Keep);
    assert_eq!(
        decide(&policy, &live, Some("out"), None),
        elect("top"),
        "a holder that opted out is not kept"
    );
}

#[test]
fn e18_whoever_is_not_qualified_is_never_elected_nor_kept() {
    let mut live = [candidate("a", 9, 1), candidate("b", 1, 2)];
    live[0].qualified = false;
    for policy in [Policy::sticky(), Policy::preempting(), Policy::ranked()] {
        assert_eq!(decide(&policy, &live, None, Some("a")), elect("b"));
        assert_eq!(decide(&policy, &live, Some("a"), Some("a")), elect("b"));
        assert_eq!(decide(&policy, &live[..1], None, Some("a")), Decision::Vacate);
    }
}

/// Random numbers that are the same every time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[test]
fn e8_the_decision_is_total_and_does_not_depend_on_the_order_of_its_input() {
    let keys = [Key::Proposer, Key::Priority, Key::Seniority, Key::Id];
    let (mut elected, mut kept, mut vacant) = (0, 0, 0);
    for seed in 0..3_000 {
        let mut draw = Draw(seed);
        let policy = Policy {
            order: (0..draw.below(5)).map(|_| keys[usize::try_from(draw.below(4)).unwrap()]).collect(),
            preempt: [Preempt::Never, Preempt::HigherPriority, Preempt::BetterRank]
                [usize::try_from(draw.below(3)).unwrap()],
            zero_is_ineligible: draw.below(2) == 0,
            ..Policy::sticky()
        };
        let mut live: Vec<_> = (0..draw.below(6))
            .map(|n| {
                // Few values, so that many are equal.
                let (priority, seniority) = (u32::try_from(draw.below(3)).unwrap(), draw.below(3));
                let qualified = draw.below(5) > 0;
                Standing { qualified, ..candidate(&format!("m{n}"), priority, seniority) }
            })
            .collect();
        let mut somebody = || Some(format!("m{}", draw.below(7))).filter(|_| draw.below(4) > 0);
        let (holder, proposer) = (somebody(), somebody());
        let decided = decide(&policy, &live, holder.as_deref(), proposer.as_deref());
        match &decided {
            Decision::Elect(member) => {
                elected += 1;
                let one = live.iter().find(|c| c.member == *member).expect("it is one of them");
                assert!(policy.is_eligible(one));
            }
            Decision::Keep => {
                kept += 1;
                let one = live.iter().find(|c| Some(c.member.as_str()) == holder.as_deref()).unwrap();
                assert!(policy.is_eligible(one));
            }
            Decision::Vacate => {
                vacant += 1;
                assert!(!live.iter().any(|c| policy.is_eligible(c)));
            }
        }
        for _ in 0..10 {
            for i in (1..live.len()).rev() {
                live.swap(i, usize::try_from(draw.below(i as u64 + 1)).unwrap());
            }
            let again = decide(&policy, &live, holder.as_deref(), proposer.as_deref());
            assert_eq!(again, decided, "seed {seed}: {policy:?} {live:?}");
        }
        // The order is total: no two are equal, and it is transitive, or sorting would depend on the input.
        let asks = proposer.as_deref().map(id);
        let sort = |mut all: Vec<Standing>| {
            all.sort_by(|a, b| policy.compare(a, b, asks.as_ref()));
            all
        };
        let sorted = sort(live.clone());
        live.reverse();
        assert_eq!(sort(live.clone()), sorted);
        assert!(sorted.windows(2).all(|w| policy.compare(&w[0], &w[1], asks.as_ref()) == Ordering::Less));
    }
    assert!(elected > 300 && kept > 300 && vacant > 300, "{elected} {kept} {vacant}");
}

#[test]
fn whoever_does_not_prefer_the_one_that_asks_has_to_know_all_candidates() {
    let by_priority = Policy { order: vec![Key::Priority, Key::Proposer], ..Policy::sticky() };
    let by_rank = Policy { preempt: Preempt::BetterRank, ..Policy::sticky() };
    let by_id_alone = Policy { order: Vec::new(), ..Policy::sticky() };
    for policy in [by_priority, by_rank, by_id_alone, Policy::ranked()] {
        assert!(policy.needs_all(), "{policy:?}");
    }
    for policy in [Policy::sticky(), Policy::preempting()] {
        assert!(!policy.needs_all(), "{policy:?}");
    }
}

#[test]
fn e9_priority_0_means_never_me_where_it_is_not_only_the_lowest() {
    let live = [candidate("a", 0, 1)];
    assert_eq!(decide(&Policy::preempting(), &live, None, Some("a")), elect("a"));
    for policy in [Policy::sticky(), Policy::ranked()] {
        assert_eq!(decide(&policy, &live, None, Some("a")), Decision::Vacate);
    }
}
