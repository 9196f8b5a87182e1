//! A message of the leader that says nothing new, and those that do.

use super::*;

/// One of three members at rest that does not lead, when nothing is under way there; and the epoch.
fn follower(sim: &mut Sim) -> (String, Epoch) {
    sim.run_for(SECOND * 3);
    let leader = sim.leader().unwrap();
    let name = ["a", "b", "c"].into_iter().find(|name| *name != leader).unwrap().to_owned();
    let is_idle = |sim: &Sim| sim.hosts[&node(&name)].elector.doing.is_none();
    assert!(sim.run_until(SECOND, is_idle));
    (name, sim.state().term.epoch)
}

#[test]
fn a_message_that_says_nothing_new_comes_to_what_a_whole_step_comes_to() {
    for seed in 100..110 {
        let mut sim = Sim::settled(seed, &["a", "b", "c"]);
        let (name, epoch) = follower(&mut sim);
        let now = sim.now;
        let mut short = sim.host(&name).elector.clone();
        let mut long = short.clone();
        assert!(short.hears_nothing_new(now, epoch));

        let (mut asked, mut asked_by_all_of_it) = (Vec::new(), Vec::new());
        short.step(now, Input::Notice(Notice::LeaderContact { epoch }), &mut asked);
        long.silence.pass(now);
        long.on_notice(now, Notice::LeaderContact { epoch });
        long.proceed(now, Fresh::Nothing, &mut asked_by_all_of_it);
        assert_eq!((asked, asked_by_all_of_it), (Vec::new(), Vec::new()));
        assert!(short == long);
    }
}

#[test]
fn a_message_says_something_new_if_something_is_due_or_under_way_or_the_epoch_is_another_one() {
    let mut sim = Sim::settled(110, &["a", "b", "c"]);
    let (name, epoch) = follower(&mut sim);
    let (now, leader) = (sim.now, sim.leader().unwrap());
    let elector = sim.host(&name).elector.clone();
    assert!(elector.hears_nothing_new(now, epoch));
    assert!(!elector.hears_nothing_new(now, epoch.next()), "it has everything read");
    assert!(!elector.hears_nothing_new(elector.wake_at.unwrap(), epoch), "something is due");
    let changed = |change: &dyn Fn(&mut Elector)| {
        let mut elector = elector.clone();
        change(&mut elector);
        elector.hears_nothing_new(now, epoch)
    };
    assert!(!changed(&|elector| elector.stale = true));
    assert!(!changed(&|elector| elector.turns = vec![(Action::Join, now + SECOND)]));
    assert!(!changed(&|elector| elector.doing = Some((OpId(7), Doing::Glance))));
    assert!(!changed(&|elector| elector.silence.link(node(&leader), false)));
    let lock = crate::core::record::Lock { epoch, owner: node("x"), nonce: callsign_store::ids::Nonce(9) };
    let is_held = |elector: &mut Elector| {
        let reading = elector.reading.as_mut().unwrap();
        reading.state.as_mut().unwrap().lock = Some(lock.clone());
    };
    assert!(!changed(&is_held));
}

#[test]
fn a_member_that_accused_the_leader_takes_that_back_when_it_hears_it() {
    let mut sim = Sim::settled(111, &["a", "b", "c"]);
    let (name, epoch) = follower(&mut sim);
    let leader = sim.leader().unwrap();
    let other = ["a", "b", "c"].into_iter().find(|other| *other != leader && *other != name).unwrap();
    let accuses = |sim: &Sim| sim.state().members[&node(&name)].accuses.is_some();
    // Only the other one hears it.
    sim.has_contact = false;
    for _ in 0..10 {
        if !accuses(&sim) {
            sim.tell(other, Notice::LeaderContact { epoch });
            sim.run_for(SECOND / 2);
        }
    }
    assert!(accuses(&sim));
    sim.tell(&name, Notice::LeaderContact { epoch });
    assert!(sim.run_until(SECOND / 2, |sim| !accuses(sim)));
    assert_eq!(sim.state().term.epoch, epoch);
}
