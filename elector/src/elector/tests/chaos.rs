//! Everything at once; the harness checks every commit.

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn disturb(sim: &mut Sim, draws: &mut SplitMix64) {
    let name = NAMES[usize::try_from(draws.draw() % 4).unwrap()];
    let other = NAMES[usize::try_from(draws.draw() % 4).unwrap()];
    let epoch = sim.state().term.epoch;
    let manner = match draws.draw() % 4 {
        0 => Manner::Silent,
        1 => Manner::Fails,
        _ => Manner::Answers,
    };
    match draws.draw() % 9 {
        0 | 1 => sim.kill(name),
        2 | 3 => sim.start(name),
        4 if name != other => sim.cut(name, other),
        5 => sim.heal(),
        6 => sim.tell(name, Notice::Rejoin { empty: draws.draw().is_multiple_of(2) }),
        7 => sim.tell(name, Notice::Resign { epoch }),
        _ => sim.host(name).manner = manner,
    }
}

#[test]
fn p8_whatever_happened_the_cluster_serves_again_once_it_stops() {
    let (mut terms, mut locked, mut orphans) = (0, 0, 0);
    for seed in 0..30 {
        let mut sim = Sim::settled(seed, &NAMES);
        sim.unknown_one_in = Some(8);
        sim.watches = seed % 3 != 0;
        let mut draws = SplitMix64::for_node(seed, &node("chaos"));
        for _ in 0..60 {
            disturb(&mut sim, &mut draws);
            let pause = draws.below(SECOND * 2);
            sim.run_for(pause);
            locked += usize::from(sim.state().lock.is_some());
        }
        (terms, orphans) = (terms + sim.terms.len(), orphans + sim.orphans);
        sim.unknown_one_in = None;
        sim.heal();
        for name in NAMES {
            sim.host(name).manner = Manner::Answers;
            if !sim.host(name).alive {
                sim.start(name);
            }
        }
        sim.settle(NAMES.len());
        let epoch = sim.state().term.epoch;
        sim.run_for(SECOND * 30);
        assert_eq!(sim.state().term.epoch, epoch, "seed {seed}: and then it is quiet");
    }
    assert!(terms > 300 && locked > 100, "{terms} terms, {locked} times locked, {orphans} orphans");
}
