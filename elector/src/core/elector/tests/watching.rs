//! What is watched: one watch, until it ends.

use super::*;

/// Two members at rest, and the one that does not lead.
fn settled(seed: u64) -> (Sim, String) {
    let mut sim = Sim::settled(seed, &["a", "b"]);
    sim.run_for(SECOND * 3);
    let follower = if sim.leader().unwrap() == "a" { "b" } else { "a" };
    (sim, follower.to_owned())
}

/// Runs until an elector has looked, and nothing of that is under way.
fn after_a_look(sim: &mut Sim, name: &str) {
    sim.host(name).looks.clear();
    assert!(sim.run_until(SECOND * 2, |sim| !sim.hosts[&node(name)].looks.is_empty()));
    sim.run_for(SECOND / 50);
    sim.host(name).looks.clear();
    sim.host(name).begun.clear();
}

/// The keys that are watched at rest.
fn all(sim: &Sim) -> Vec<Key> {
    vec![sim.keys.queue(), sim.keys.term(), sim.keys.lock()]
}

#[test]
fn a_watch_is_kept_while_nothing_changes_and_for_a_minute_at_most() {
    let (mut sim, follower) = settled(120);
    for name in ["a", "b"] {
        after_a_look(&mut sim, name);
        let watched = Watched { since: sim.store.version(), begun: sim.now };
        sim.host(name).elector.watched = Some(watched);
    }
    sim.run_for(SECOND * 50);
    for name in ["a", "b"] {
        assert!(sim.host(name).looks.len() >= 30, "{name} has looked");
        assert!(sim.host(name).begun.is_empty(), "{name} watches on");
    }
    sim.run_for(SECOND * 20);
    let keys = all(&sim);
    assert_eq!(sim.host(&follower).begun, [keys]);
}

#[test]
fn each_of_several_changes_rings() {
    let timing = ElectorTiming { poll: SECOND * 3600, ..ElectorTiming::default() };
    let mut sim = Sim::with_timing(121, &["a", "b", "c"], timing);
    sim.settle(3);
    for _ in 0..3 {
        sim.run_for(SECOND);
        let (leader, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
        sim.tell(&leader, Notice::Resign { epoch });
        assert!(sim.run_until(SECOND, |sim| {
            sim.serving().is_some()
                && ["a", "b", "c"]
                    .iter()
                    .all(|name| sim.view(name).is_some_and(|view| view.term.epoch > epoch))
        }));
    }
}

#[test]
fn a_watch_that_failed_is_asked_for_again_at_the_next_poll_and_not_at_once() {
    let (mut sim, follower) = settled(122);
    after_a_look(&mut sim, &follower);
    sim.tell(&follower, Notice::WatchFailed);
    sim.run_for(SECOND / 20);
    assert!(sim.host(&follower).looks.is_empty() && sim.host(&follower).begun.is_empty());
    sim.run_for(SECOND * 3);
    let keys = all(&sim);
    assert!(sim.host(&follower).looks.len() >= 2);
    assert_eq!(sim.host(&follower).begun, [keys]);
}

#[test]
fn a_watch_that_was_lost_is_begun_anew_when_a_poll_finds_a_change() {
    let (mut sim, follower) = settled(123);
    after_a_look(&mut sim, &follower);
    // Nothing rings any more.
    sim.watches = false;
    sim.start("c");
    let knows = |sim: &Sim| sim.view(&follower).is_some_and(|view| view.members.len() == 3);
    assert!(sim.run_until(SECOND * 5, knows));
    assert!(!sim.host(&follower).begun.is_empty());
}

#[test]
fn a_watch_of_versions_that_a_store_has_lost_is_begun_anew() {
    let (mut sim, follower) = settled(124);
    after_a_look(&mut sim, &follower);
    // All that is lost are beats.
    let former = sim.store.clone();
    sim.run_for(SECOND * 20);
    sim.tell(&follower, Notice::Changed);
    sim.run_for(SECOND / 20);
    let watched = sim.host(&follower).elector.watched;
    assert!(watched.is_some_and(|watched| watched.since > former.version()));
    sim.store = former;
    sim.host(&follower).begun.clear();
    sim.run_for(SECOND * 3);
    let keys = all(&sim);
    assert_eq!(sim.host(&follower).begun, [keys]);
}

#[test]
fn in_another_lineage_nothing_is_watched_until_something_is_read() {
    let (mut sim, follower) = settled(125);
    after_a_look(&mut sim, &follower);
    let (now, lineage) = (sim.now, sim.view(&follower).unwrap().lineage);
    let elector = &mut sim.host(&follower).elector;
    assert!(elector.watched.is_some());
    elector.begin_lineage(lineage, now);
    assert_eq!(elector.watched, None);
}
