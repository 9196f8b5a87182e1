//! What is set for all members: said once, taken over by every elector.

use callsign_store::record::Record;

use super::*;
use crate::core::settings::{Preset, Settings};

fn silence(seconds: u64) -> Settings {
    Settings { silence: Some(Duration::from_secs(seconds)), ..Settings::default() }
}

/// How many entries of this kind were taken off the queue.
fn taken(sim: &Sim) -> usize {
    let configures = |event: &MembershipEvent| matches!(event, MembershipEvent::Configure { .. });
    sim.consumed.iter().filter(|(_, entry, _)| configures(&entry.event)).count()
}

#[test]
fn what_one_asks_for_is_set_for_all() {
    let mut sim = Sim::settled(70, &["a", "b", "c"]);
    let before = sim.view("c").unwrap().settings;
    assert_eq!(
        (before.silence, before.policy, before.set),
        (sim.timing.silence, Preset::Sticky, Settings::default())
    );
    // A later version has set something that this one does not know.
    let mut later = silence(3).to_value();
    later[1] += 1;
    later.extend([rmp_serde::to_vec("later").unwrap(), rmp_serde::to_vec(&7).unwrap()].concat());
    sim.write(sim.keys.settings(), Some(later));
    let change = Settings { policy: Some(Preset::Ranked), ..silence(4) };
    sim.tell("b", Notice::Configure(change));
    let is_shown = |sim: &Sim| {
        ["a", "b", "c"].iter().all(|name| sim.view(name).is_some_and(|view| view.settings.set.has(&change)))
    };
    assert!(sim.run_until(SECOND * 5, is_shown));
    let in_force = sim.view("a").unwrap().settings;
    assert_eq!((in_force.silence, in_force.policy), (SECOND * 4, Preset::Ranked));
    assert_eq!(in_force.lock_timeout, sim.timing.lock, "what is not set is its own");
    let written = sim.raw(&sim.keys.settings()).unwrap();
    assert!(written.windows(5).any(|part| part == b"later"), "it is kept: {written:?}");
    assert_eq!(taken(&sim), 1);
}

#[test]
fn two_that_want_it_otherwise_say_it_once_each() {
    let mut sim = Sim::settled(71, &["a", "b"]);
    sim.tell("a", Notice::Configure(silence(3)));
    sim.tell("b", Notice::Configure(silence(4)));
    assert!(sim.run_until(SECOND * 5, |sim| taken(sim) == 2));
    let set = sim.state().settings;
    sim.run_for(SECOND * 20);
    assert_eq!((taken(&sim), sim.state().settings), (2, set));
}

#[test]
fn one_that_is_no_member_yet_says_it_when_it_is() {
    let mut sim = Sim::settled(72, &["a", "b"]);
    sim.start("d");
    sim.tell("d", Notice::Configure(silence(3)));
    sim.tell("d", Notice::Configure(Settings { policy: Some(Preset::Ranked), ..Settings::default() }));
    let both = Settings { policy: Some(Preset::Ranked), ..silence(3) };
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().settings == both));
    assert!(taken(&sim) <= 2);
}

#[test]
fn the_silence_that_is_set_counts_and_not_ones_own() {
    let mut sim = Sim::settled(73, &["a", "b", "c"]);
    let leader = sim.leader().unwrap();
    sim.tell("a", Notice::Configure(silence(10)));
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().settings == silence(10)));
    sim.run_for(SECOND * 2);
    sim.has_contact = false;
    sim.run_for(SECOND * 8);
    assert_eq!(sim.leader(), Some(leader.clone()), "it may be silent for so long");
    assert!(sim.run_until(SECOND * 5, |sim| sim.leader().is_some_and(|now| now != leader)));
}

#[test]
fn the_lock_timeout_that_is_set_counts_and_not_ones_own() {
    let mut sim = Sim::settled(74, &["a", "b", "c"]);
    let shorter = Settings { lock_timeout: Some(SECOND), ..Settings::default() };
    assert!(sim.timing.lock > SECOND * 2);
    sim.tell("a", Notice::Configure(shorter));
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().settings == shorter));
    let (old, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
    for name in ["a", "b", "c"].iter().filter(|name| **name != old) {
        sim.host(name).manner = Manner::Silent;
    }
    sim.tell(&old, Notice::Resign { epoch });
    assert!(sim.run_until(SECOND, |sim| sim.leader().is_some_and(|leader| leader != old)));
    let owner = sim.leader().unwrap();
    sim.start("d");
    sim.kill(&owner);
    let bound = SECOND + sim.timing.handoff + SECOND;
    assert!(bound < sim.timing.lock + sim.timing.handoff);
    assert!(sim.run_until(bound, |sim| sim.state().members.contains_key(&node("d"))));
}

#[test]
fn what_cannot_be_read_is_not_taken_for_the_default() {
    let mut sim = Sim::settled(75, &["a", "b"]);
    sim.write(sim.keys.settings(), Some(b"\x01garbage".to_vec()));
    sim.start("d");
    sim.run_for(SECOND * 10);
    let read = sim.store.read(&[callsign_store::Read::Key(sim.keys.member(&node("d")))], None).unwrap();
    assert_eq!(read.value(0), None, "nothing is decided");
    sim.write(sim.keys.settings(), None);
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().members.contains_key(&node("d"))));
}
