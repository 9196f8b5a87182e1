//! Random histories of entries, with stale and invented ones among them.

use callsign_store::random::SplitMix64;

use super::*;

fn draw(random: &mut SplitMix64, below: usize) -> usize {
    usize::try_from(random.draw() % below as u64).unwrap()
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn random_entry(world: &mut World, random: &mut SplitMix64) -> QueueEntry {
    let author = NAMES[draw(random, 4)];
    let member = NAMES[draw(random, 4)];
    match draw(random, 9) {
        0 => world.join(author),
        1 => world.down(author, member, Evidence::Closed),
        2 => world.silent(author, member),
        3 => world.without_contact(author, member),
        4 => world.synced(author, draw(random, 9) as u64),
        5 => world.resign(author),
        6 => world.leave(author),
        7 => world.drain(author),
        _ => world.withdraw(author),
    }
}

#[test]
fn a4_epoch_and_ballot_never_go_back_and_each_epoch_has_one_leader() {
    let mut changes = 0_u64;
    let mut outcomes = BTreeSet::new();
    for first in 0..300_u64 {
        let mut random = SplitMix64::new(first);
        let mut world = World::new();
        if draw(&mut random, 2) == 0 {
            world.facts.commit = None;
        }
        let mut numbers = [1_u64; 4];
        for name in NAMES {
            world.open(name, 1);
        }
        let mut leaders: BTreeMap<Epoch, Option<Leader>> = BTreeMap::new();
        let mut old = Vec::new();
        for _ in 0..120 {
            let who = draw(&mut random, 4);
            match draw(&mut random, 12) {
                0 => world.close(NAMES[who]),
                1 => {
                    numbers[who] += 1;
                    world.open(NAMES[who], numbers[who]);
                }
                _ => {}
            }
            let mut entry = random_entry(&mut world, &mut random);
            if draw(&mut random, 4) == 0 && !old.is_empty() {
                entry = QueueEntry::clone(&old[draw(&mut random, old.len())]);
            }
            old.push(entry.clone());

            let before = world.state.clone();
            let proposer = NAMES[draw(&mut random, 4)];
            let applied = world.apply(proposer, &entry);
            let after = &applied.after;
            assert_eq!(applied, before.apply(&entry, &world.facts), "the same input, the same output");

            let step = after.term.epoch.0 - before.term.epoch.0;
            assert!(step <= 1, "seed {first}");
            assert_eq!(after.term.ballot.0 - before.term.ballot.0, step);
            assert_eq!(step == 1, after.term != before.term, "the term is touched by a new epoch only");
            assert_eq!(applied.seat == Seat::Kept, step == 0);
            if applied.outcome.is_err() {
                assert_eq!(*after, before, "a dropped entry changes nothing");
            }
            if let Some(leader) = &after.term.leader {
                let row = after.members.get(&leader.node).expect("the leader is a member");
                assert_eq!(row.token, leader.token, "by the join that was elected");
            }
            if step == 1 {
                let had = leaders.insert(after.term.epoch, after.term.leader.clone());
                assert_eq!(had, None, "one leader per epoch");
                assert_eq!(after.lock.is_some(), after.term.leader.is_some());
                changes += 1;
            }
            outcomes.insert(format!("{:?}", applied.outcome).split([' ', '{']).next().unwrap().to_owned());
        }
    }
    // The histories reached what they are about.
    assert!(changes > 1000, "{changes} changes of leader");
    for what in ["Accused", "Synced", "Removed", "Resigned", "Left", "Withdrawn", "Drains"] {
        assert!(outcomes.contains(&format!("Ok({what}")), "{what} in {outcomes:?}");
    }
    for what in ["StaleToken", "StaleEpoch", "StaleAuthor", "NotClosed", "NotLeader", "BehindFloor"] {
        assert!(outcomes.contains(&format!("Err({what})")), "{what} in {outcomes:?}");
    }
}
