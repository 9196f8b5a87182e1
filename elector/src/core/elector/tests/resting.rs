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
    let is_range = |read: &Read| matches!(read, Read::Range { .. });
    looks.iter().map(|reads| reads.iter().any(is_range)).collect()
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
