//! Who leads, over several electors.

use callsign_store::{Transaction, Write, ids::Nonce, record::Record};

use super::*;
use crate::core::record::{Lock, PositionRecord};

#[test]
fn d1_a_vacant_seat_is_granted_at_once() {
    let mut sim = Sim::new(1, &["a"]);
    assert!(sim.run_until(Duration::from_millis(200), |sim| sim.serving().is_some()));
    sim.settle(1);
    sim.tell("a", Notice::Resign { epoch: Epoch(1) });
    assert!(sim.run_until(Duration::from_millis(200), |sim| sim.serving().is_some() && sim.changes() == 2));
}

#[test]
fn a7_no_aba_a_batch_of_an_earlier_term_of_the_same_member_is_refused() {
    let mut sim = Sim::settled(4, &["a", "b"]);
    let leader = sim.leader().unwrap();
    let in_flight = sim.batch();
    for _ in 0..2 {
        let (leads, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
        sim.tell(&leads, Notice::Resign { epoch });
        assert!(sim.run_until(SECOND * 5, |sim| sim.state().term.epoch > epoch && sim.serving().is_some()));
    }
    assert_eq!(sim.leader(), Some(leader), "it leads again, in a later epoch");
    // All else that the batch checks is as it was: only the term can refuse it.
    let mut in_flight = in_flight;
    in_flight.checks.retain(|check| check.key == sim.keys.term());
    assert!(!sim.commit(&in_flight));
}

#[test]
fn f7_f9_an_isolated_follower_deposes_nobody_for_ten_minutes() {
    let mut sim = Sim::settled(7, &["a", "b", "c"]);
    sim.run_for(SECOND);
    let (leader, term) = (sim.leader().unwrap(), sim.state().term);
    let isolated = ["a", "b", "c"].into_iter().find(|name| *name != leader).unwrap();
    for other in ["a", "b", "c"].iter().filter(|other| **other != isolated) {
        sim.cut(isolated, other);
    }
    assert!(sim.run_until(SECOND, |sim| {
        sim.state().members[&node(isolated)].accuses.is_some_and(|accusation| accusation.had_contact)
    }));
    for _ in 0..600 {
        sim.run_for(SECOND);
        assert_eq!(sim.state().members.len(), 3);
    }
    assert_eq!(sim.state().term, term);
    assert_eq!(sim.serving(), Some(leader));

    sim.heal();
    assert!(
        sim.run_until(SECOND * 2, |sim| sim.state().members[&node(isolated)].accuses.is_none()),
        "it takes the accusation back"
    );
}

#[test]
fn f9_an_isolated_leader_is_replaced_once_in_ten_minutes() {
    for names in [&["a", "b", "c"][..], &["a", "b"][..]] {
        let mut sim = Sim::settled(8, names);
        sim.run_for(SECOND);
        let leader = sim.leader().unwrap();
        for other in names.iter().filter(|other| **other != leader) {
            sim.cut(&leader, other);
        }
        assert!(sim.run_until(SECOND * 2, |sim| sim.serving().is_some_and(|serving| serving != leader)));
        sim.run_for(SECOND * 600);
        assert_eq!(sim.changes(), 2, "{:?}", sim.terms);
        assert_eq!(sim.state().members.len(), names.len(), "nobody is expelled");
    }
}

#[test]
fn f11_a_change_of_leader_wakes_whoever_watches() {
    let timing = ElectorTiming { poll: SECOND * 3600, ..ElectorTiming::default() };
    let mut sim = Sim::with_timing(11, &["a", "b", "c"], timing);
    sim.settle(3);
    let (leader, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
    sim.tell(&leader, Notice::Resign { epoch });
    assert!(sim.run_until(SECOND, |sim| {
        sim.serving().is_some()
            && ["a", "b", "c"].iter().all(|name| sim.view(name).is_some_and(|view| view.term.epoch > epoch))
    }));
}

#[test]
fn f11_without_any_watch_the_poll_finds_it() {
    // Nobody hears the new leader either, and nobody misses the old one: nothing but the poll is left to find the change.
    let timing = ElectorTiming { silence: SECOND * 3600, ..ElectorTiming::default() };
    let mut sim = Sim::with_timing(12, &["a", "b", "c"], timing);
    sim.watches = false;
    sim.settle(3);
    sim.has_contact = false;
    let (leader, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
    sim.tell(&leader, Notice::Resign { epoch });
    assert!(sim.run_until(SECOND * 5, |sim| {
        ["a", "b", "c"].iter().all(|name| sim.view(name).is_some_and(|view| view.term.epoch > epoch))
    }));
}

#[test]
fn a_leader_that_leaves_is_succeeded_and_told_that_it_left() {
    let mut sim = Sim::settled(14, &["a", "b"]);
    let leader = sim.leader().unwrap();
    sim.tell(&leader, Notice::Leave);
    assert!(sim.run_until(SECOND, |sim| sim.events(&leader).contains(&ElectorEvent::Left)));
    assert!(sim.run_until(SECOND, |sim| sim.serving().is_some_and(|serving| serving != leader)));
    assert_eq!(sim.state().members.len(), 1);
    sim.run_for(SECOND * 5);
    assert_eq!(sim.state().members.len(), 1, "it does not come back by itself");
    sim.tell(&leader, Notice::Rejoin { empty: true });
    sim.settle(2);
}

/// Nothing rings when its entry is taken off the queue, and its turn comes after those of all others.
#[test]
fn an_elector_that_waits_for_its_own_entry_learns_soon_that_it_was_taken_off_the_queue() {
    let names: Vec<_> = (10..26).map(|number| format!("n{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut sim = Sim::settled(19, &names);
    let last = if sim.leader().unwrap() == "n25" { "n24" } else { "n25" };
    sim.run_for(SECOND * 3);
    sim.tell(last, Notice::Leave);
    let left = |sim: &Sim| sim.events(last).contains(&ElectorEvent::Left);
    assert!(sim.run_until(sim.timing.turn * 8, left));
    assert!(sim.run_until(SECOND, |sim| sim.state().members.len() == names.len() - 1));
}

#[test]
fn an_elector_whose_session_lapsed_has_not_left() {
    let mut sim = Sim::settled(18, &["a", "b"]);
    let follower = if sim.leader().unwrap() == "a" { "b" } else { "a" };
    let session = sim.hosts[&node(follower)].session.clone();
    sim.tell(follower, Notice::Session(None));
    sim.tell(follower, Notice::Leave);
    sim.run_for(SECOND * 3);
    assert!(!sim.events(follower).contains(&ElectorEvent::Left));
    sim.tell(follower, Notice::Session(Some(session)));
    assert!(sim.run_until(SECOND, |sim| sim.events(follower).contains(&ElectorEvent::Left)));
    assert_eq!(sim.state().members.len(), 1);
}

#[test]
fn a_session_that_only_lapsed_goes_on_as_the_same_member() {
    let mut sim = Sim::settled(17, &["a", "b"]);
    let (leader, state) = (sim.leader().unwrap(), sim.state());
    let session = sim.hosts[&node(&leader)].session.clone();
    sim.tell(&leader, Notice::Session(None));
    sim.run_for(SECOND / 10);
    assert_eq!(sim.view(&leader).and_then(|view| view.me), None);
    sim.tell(&leader, Notice::Session(Some(session)));
    sim.run_for(SECOND * 2);
    assert_eq!(sim.state(), state);
    assert_eq!(sim.view(&leader).and_then(|view| view.me), Some(state.members[&node(&leader)].token));
}

#[test]
fn e15_who_lost_the_seat_leaves_it_to_the_others_first() {
    for seed in 60..70 {
        let mut sim = Sim::settled(seed, &["a", "b"]);
        let deposed = sim.leader().unwrap();
        let mut term = sim.state().term;
        (term.leader, term.epoch) = (None, Epoch(2));
        sim.write(sim.keys.term(), Some(term.to_value()));
        sim.terms.insert(Epoch(2), None);
        assert!(sim.run_until(SECOND, |sim| sim.leader().is_some()));
        assert_ne!(sim.leader(), Some(deposed));
    }
}

#[test]
fn a1_the_row_of_a_former_join_is_not_ones_own() {
    let mut sim = Sim::settled(19, &["a", "b"]);
    let follower = if sim.leader().unwrap() == "a" { "b" } else { "a" };
    let lock = Lock { epoch: Epoch(1), owner: node("x"), nonce: Nonce(7) };
    sim.write(sim.keys.lock(), Some(lock.to_value()));
    sim.tell(follower, Notice::Rejoin { empty: true });
    sim.run_for(SECOND);
    assert!(!sim.reading().queue.is_empty(), "the new join waits for the lock");
    assert_eq!(sim.view(follower).and_then(|view| view.me), None);
    assert!(sim.run_until(SECOND * 9, |sim| sim.view(follower).and_then(|view| view.me).is_some()));
}

/// Lets an elector read, and says what it commits then.
fn commits(sim: &Sim, elector: &mut Elector, input: Input) -> Option<(OpId, Transaction)> {
    let mut effects = Vec::new();
    elector.step(sim.now, input, &mut effects);
    let Some(Effect::Read { id, reads }) = effects.pop() else { panic!("{effects:?}") };
    let result = Ok(sim.store.read(&reads, None).unwrap());
    elector.step(sim.now, Input::ReadDone { id, result }, &mut effects);
    effects.into_iter().find_map(|effect| match effect {
        Effect::Commit { id, transaction } => Some((id, transaction)),
        _ => None,
    })
}

/// An elector that has not been told anything, and that its node has an open session.
fn new_elector(sim: &mut Sim) -> (Elector, Input) {
    let host = sim.host("a");
    (host.elector.clone(), Input::Notice(Notice::Session(Some(host.session.clone()))))
}

#[test]
fn a_join_of_unknown_outcome_is_repeated_only_if_it_was_not_appended() {
    for landed in [true, false] {
        let mut sim = Sim::new(21, &["a"]);
        let (mut elector, told) = new_elector(&mut sim);
        let (id, join) = commits(&sim, &mut elector, told).unwrap();
        if landed {
            assert!(sim.commit(&join));
        }
        let unknown = Input::CommitDone { id, outcome: CommitOutcome::Unknown };
        let next = commits(&sim, &mut elector, unknown).map_or_else(Vec::new, |(_, next)| next.writes);
        if landed {
            assert!(!next.iter().any(|write| matches!(write, Write::Append { .. })));
        } else {
            assert_eq!(next, join.writes, "under the same number, so that one of the two lands");
        }
    }
}

#[test]
fn an_elector_does_nothing_in_a_session_that_the_store_does_not_show_open() {
    let mut sim = Sim::new(20, &["a"]);
    let (mut elector, told) = new_elector(&mut sim);
    assert!(commits(&sim, &mut elector.clone(), told.clone()).is_some(), "it joins");
    sim.close_session("a");
    assert_eq!(commits(&sim, &mut elector, told), None);
}

#[test]
fn an_elector_without_a_session_only_looks() {
    let mut sim = Sim::settled(16, &["a", "b"]);
    for name in ["a", "b"] {
        sim.tell(name, Notice::Session(None));
    }
    sim.run_for(SECOND);
    let (leader, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
    sim.tell(&leader, Notice::Resign { epoch });
    sim.append(b"not an entry".to_vec());
    sim.run_for(SECOND * 5);
    assert_eq!(sim.reading().queue.len(), 1);
    assert_eq!(sim.state().term.epoch, epoch);
    sim.write(sim.keys.floor(), Some(PositionRecord(Position(1)).to_value()));
    assert!(sim.run_until(SECOND * 3, |sim| sim.view("a").is_some_and(|view| view.floor == Position(1))));
}

#[test]
fn a_member_that_holds_the_end_of_a_log_of_which_all_was_cut_says_that_it_is_synced() {
    let mut sim = Sim::settled(61, &["a", "b"]);
    let follower = if sim.leader().unwrap() == "a" { "b" } else { "a" };
    let (end, key) = (sim.reading().commit.unwrap().position, sim.keys.member(&node(follower)));
    sim.write(sim.keys.floor(), Some(PositionRecord(end.next()).to_value()));
    let mut row = sim.state().members[&node(follower)].clone();
    row.synced = false;
    sim.write(key, Some(row.to_value()));
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().members[&node(follower)].synced));
}
