//! An elector that rests: others look after the registry.

use callsign_store::{Read, ids::Nonce, record::Record};

use super::*;
use crate::core::record::{Lock, LogEnd, MemberRow, QueueEntry, Term};

/// Members at rest, of which one rests. Says which.
fn one_rests(sim: &mut Sim) -> String {
    let leader = sim.leader().unwrap();
    let resting = ["d", "c"].into_iter().find(|name| *name != leader).unwrap().to_owned();
    sim.tell(&resting, Notice::Rests(true));
    sim.run_for(SECOND * 3);
    sim.host(&resting).looks.clear();
    resting
}

fn settled(seed: u64) -> Sim {
    Sim::settled(seed, &["a", "b", "c", "d"])
}

/// What an elector has read since: each time whether all of it.
fn looks(sim: &mut Sim, name: &str) -> Vec<bool> {
    let looks = std::mem::take(&mut sim.host(name).looks);
    // While nobody leads, the first entry of the queue is looked at.
    let is_many = |read: &Read| matches!(read, Read::Range { limit, .. } if *limit > 1);
    looks.iter().map(|reads| reads.iter().any(is_many)).collect()
}

/// These nodes die at once, and this one hears of it.
fn hears_of_deaths(sim: &mut Sim, name: &str, dead: &[&str]) {
    for other in dead {
        sim.tell(name, Notice::LinkDown { node: node(other) });
    }
}

/// How often a node said that the leader is silent, of what was taken off the queue.
fn votes(sim: &Sim, name: &str) -> usize {
    let is_vote = |entry: &QueueEntry| {
        entry.author.node == node(name) && matches!(entry.event, MembershipEvent::Down { .. })
    };
    sim.consumed.iter().filter(|(_, entry, _)| is_vote(entry)).count()
}

#[test]
fn who_rests_reads_a_fixed_number_of_records_and_all_of_them_once_a_minute() {
    let mut sim = settled(70);
    let resting = one_rests(&mut sim);
    let session = |name: &str| Read::Key(sim.keys.cluster().session(&node(name)));
    let (leader, sessions) = (sim.leader().unwrap(), ["a", "b", "c", "d"].map(session));
    sim.run_for(SECOND * 2);
    let last = sim.host(&resting).looks.last().unwrap().clone();
    let of: Vec<_> = sessions.iter().filter(|read| last.contains(read)).collect();
    assert_eq!(of, [&leader, &resting].map(|name| &sessions[usize::from(name.as_bytes()[0] - b'a')]));
    assert_eq!(last.len(), 13);
    sim.host(&resting).looks.clear();

    sim.run_for(SECOND * 120);
    let seen = looks(&mut sim, &resting);
    assert!((90..=120).contains(&seen.len()), "{}", seen.len());
    assert_eq!(seen.iter().filter(|all| **all).count(), 2);
    // The leader does not rest, and reads all of it each time.
    assert!(looks(&mut sim, &leader).into_iter().all(|all| all));
}

#[test]
fn who_rests_sees_without_a_watch_that_a_member_came_and_that_another_one_leads() {
    let mut sim = settled(71);
    sim.watches = false;
    let resting = one_rests(&mut sim);
    sim.start("e");
    let knows = |sim: &Sim| sim.view(&resting).is_some_and(|view| view.members.len() == 5);
    assert!(sim.run_until(SECOND * 5, knows));
    sim.settle(5);
    let (epoch, leader) = (sim.state().term.epoch, sim.leader().unwrap());
    sim.tell(&leader, Notice::Resign { epoch });
    let knows =
        |sim: &Sim| sim.view(&resting).is_some_and(|view| view.term.epoch > epoch && view.lock.is_none());
    assert!(sim.run_until(SECOND * 10, knows));
}

#[test]
fn who_rests_sees_what_became_of_its_own_row_and_where_the_log_ends() {
    let mut sim = settled(72);
    let resting = one_rests(&mut sim);
    let key = sim.keys.member(&node(&resting));
    let lags = MemberRow { synced: false, ..sim.state().members[&node(&resting)].clone() };
    sim.write(key, Some(lags.to_value()));
    // It is synced, and says so.
    let end = sim.view(&resting).unwrap().commit;
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().members[&node(&resting)].synced));
    let later = LogEnd { position: Position(99), ..end.unwrap_or_default() };
    sim.write(sim.keys.commit(), Some(later.to_value()));
    assert!(sim.run_until(SECOND * 3, |sim| sim.view(&resting).unwrap().commit == Some(later)));
}

#[test]
fn nobody_rests_while_an_entry_waits_a_lock_is_held_nobody_leads_or_something_cannot_be_read() {
    let sim = settled(73);
    assert!(sim.reading().is_quiet());
    let (key, lock) = (sim.keys.lock(), Lock { epoch: Epoch(1), owner: node("a"), nonce: Nonce(1) });
    let (term, settings) = (sim.keys.term(), sim.keys.settings());
    let vacant = Term { leader: None, ..sim.state().term };
    for (key, value) in [(key, lock.to_value()), (term, vacant.to_value()), (settings, b"?".to_vec())] {
        let mut sim = settled(73);
        sim.write(key.clone(), Some(value));
        assert!(!sim.reading().is_quiet(), "{}", String::from_utf8_lossy(&key));
    }

    // Without a session it only looks, and nobody else is left.
    let mut sim = settled(73);
    let resting = one_rests(&mut sim);
    sim.tell(&resting, Notice::Session(None));
    for name in ["a", "b", "c", "d"].into_iter().filter(|name| *name != resting) {
        sim.kill(name);
    }
    let author = sim.host(&resting).session.clone();
    let entry =
        QueueEntry { author, sequence: Sequence(99), event: MembershipEvent::Leave { token: Token(1) } };
    sim.append(entry.to_value());
    sim.run_for(SECOND);
    looks(&mut sim, &resting);
    sim.run_for(SECOND * 5);
    let seen = looks(&mut sim, &resting);
    assert!(seen.len() >= 4 && seen.iter().all(|all| *all), "{seen:?}");
}

#[test]
fn who_rests_no_more_reads_all_at_once_and_who_is_told_of_a_change_looks_at_once() {
    let mut sim = settled(74);
    let resting = one_rests(&mut sim);
    sim.tell(&resting, Notice::Changed);
    sim.run_for(SECOND / 100);
    assert_eq!(looks(&mut sim, &resting), [false]);
    sim.tell(&resting, Notice::Rests(true));
    sim.run_for(SECOND / 100);
    assert_eq!(looks(&mut sim, &resting), []);
    sim.tell(&resting, Notice::Rests(false));
    sim.run_for(SECOND / 100);
    assert_eq!(looks(&mut sim, &resting), [true]);
    sim.tell(&resting, Notice::Rests(false));
    sim.run_for(SECOND / 100);
    assert_eq!(looks(&mut sim, &resting), []);
}

#[test]
fn who_rests_and_has_something_to_do_reads_all_first() {
    let mut sim = settled(75);
    let resting = one_rests(&mut sim);
    sim.tell(&resting, Notice::Leave);
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().members.len() == 3));
    assert!(looks(&mut sim, &resting)[0]);
}

#[test]
fn who_rests_misses_the_leader_hears_of_the_next_one_and_is_told_the_members_without_reading_any() {
    let mut sim = settled(76);
    let (resting, leader) = (one_rests(&mut sim), sim.leader().unwrap());
    let others = ["a", "b", "c", "d"].into_iter().filter(|name| *name != resting && *name != leader);
    let others: Vec<_> = others.collect();
    let before = sim.view(others[0]).unwrap();
    assert!(before.is_quiet());
    looks(&mut sim, &resting);

    // It says so first, so that the vote which elects is that of another one.
    sim.kill(&leader);
    let author = sim.keys.author(&node(&resting));
    let said = sim.raw(&author);
    hears_of_deaths(&mut sim, &resting, &[&leader]);
    assert!(sim.run_until(SECOND / 10, |sim| sim.raw(&author) != said));
    for name in &others {
        hears_of_deaths(&mut sim, name, &[&leader]);
    }
    let hears = |sim: &Sim| sim.view(&resting).is_some_and(|view| view.term.epoch > before.term.epoch);
    assert!(sim.run_until(SECOND, hears));
    let heard_at = sim.view(&resting).unwrap().version;
    assert!(sim.run_until(SECOND, |sim| sim.view(&resting).is_some_and(|view| view.lock.is_none())));
    let view = sim.view(&resting).unwrap();
    assert!(!view.is_quiet() && view.queued.is_none(), "nobody has told it what became of the members");
    assert_eq!(view.raw(&sim.keys.queue()), before.raw(&sim.keys.queue()), "so no check of these passes");

    // The votes are in the rows. What the next leader says leads from the members of before to these.
    let is_over = |sim: &Sim| {
        let view = sim.view(others[0]).unwrap();
        view.is_quiet() && view.raw(&sim.keys.queue()) != before.raw(&sim.keys.queue())
    };
    assert!(sim.run_until(SECOND * 3 / 2, is_over));
    // What the former leader said tells nothing of what whoever took the seat has changed.
    let (from, to) = (before.raw(&sim.keys.queue()), sim.raw(&sim.keys.queue()));
    let former = ViewDelta { version: heard_at, from, to, rows: Vec::new() };
    sim.tell(&resting, Notice::Delta(former));
    sim.run_for(SECOND / 50);
    assert!(!sim.view(&resting).unwrap().is_quiet());
    let delta =
        ViewDelta::between(&sim.keys, &before, &sim.view(others[0]).unwrap(), &BTreeSet::new()).unwrap();
    assert!(!delta.rows.is_empty());
    sim.tell(&resting, Notice::Delta(delta));
    sim.run_for(SECOND / 50);
    let (ours, theirs) = (sim.view(&resting).unwrap(), sim.view(others[0]).unwrap());
    assert!(ours.is_quiet());
    assert_eq!(ours.members, theirs.members);
    let looked = looks(&mut sim, &resting);
    assert!(looked.len() > 2 && looked.iter().all(|all| !all), "{looked:?}");
    assert_eq!(votes(&sim, &resting), 1);
}

#[test]
fn who_rests_reads_everything_and_acts_if_nobody_goes_on_after_the_leader() {
    let mut sim = settled(77);
    let (epoch, leader) = (sim.state().term.epoch, sim.leader().unwrap());
    let mut others = ["a", "b", "c", "d"].into_iter().filter(|name| *name != leader);
    let dead = others.next().unwrap();
    let resting: Vec<_> = others.collect();
    for name in &resting {
        sim.tell(name, Notice::Rests(true));
    }
    sim.run_for(SECOND * 3);
    for name in &resting {
        looks(&mut sim, name);
    }
    for name in [leader.as_str(), dead] {
        sim.kill(name);
    }
    for name in &resting {
        hears_of_deaths(&mut sim, name, &[&leader, dead]);
    }
    let is_led = |sim: &Sim| sim.serving().is_some() && sim.state().term.epoch > epoch;
    assert!(sim.run_until(SECOND, is_led));
    for name in &resting {
        assert!(!looks(&mut sim, name)[0], "{name} misses the leader by what a glance shows");
    }
    // None of them says it again while it does not know what came of it.
    sim.run_for(SECOND);
    for name in &resting {
        assert!(votes(&sim, name) <= 1, "{name}");
    }
}

#[test]
fn who_rests_is_told_by_the_next_leader_within_two_polls_or_reads_everything() {
    let mut sim = settled(78);
    let (resting, leader) = (one_rests(&mut sim), sim.leader().unwrap());
    let (epoch, poll) = (sim.state().term.epoch, sim.timing.poll);
    sim.tell(&leader, Notice::Resign { epoch });
    let hears = |sim: &Sim| sim.view(&resting).is_some_and(|view| view.term.epoch > epoch);
    assert!(sim.run_until(SECOND / 2, hears));
    assert!(!looks(&mut sim, &resting).contains(&true));
    sim.run_for(poll * 2 + SECOND / 10);
    assert!(looks(&mut sim, &resting).contains(&true));
    assert!(sim.view(&resting).unwrap().is_quiet());
}

#[test]
fn one_that_misses_the_leader_says_at_once_that_it_drains_though_it_knows_not_what_waits() {
    for is_known in [false, true] {
        let mut sim = settled(79);
        let (resting, leader) = (one_rests(&mut sim), sim.leader().unwrap());
        sim.kill(&leader);
        let author = sim.keys.author(&node(&resting));
        let said = sim.raw(&author);
        hears_of_deaths(&mut sim, &resting, &[&leader]);
        // Either it has seen that its vote waits, or the commit of the vote is under way.
        let has_voted = |sim: &Sim| sim.raw(&author) != said;
        assert!(sim.run_until(SECOND / 10, has_voted));
        let voted = sim.raw(&author);
        let knows_less = |sim: &Sim| sim.view(&resting).is_some_and(|view| view.queued.is_none());
        assert!(!is_known || sim.run_until(SECOND / 10, knows_less));
        sim.tell(&resting, Notice::Drain);
        assert!(sim.run_until(SECOND / 10, |sim| sim.raw(&author) != voted), "{is_known}");
    }
}
