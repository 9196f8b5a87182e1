//! The queue: exactly once, in order, whoever consumes.

use callsign_store::{
    ids::{Beat, Incarnation, SessionNumber},
    record::Record,
};

use super::*;
use crate::core::{
    record::{QueueEntry, SessionRecord},
    state::{Dropped, MAX_MEMBERS},
};

fn open_session(sim: &mut Sim, name: &str) -> SessionId {
    let record = SessionRecord {
        incarnation: Incarnation(1),
        number: SessionNumber(1),
        lease: SECOND * 10,
        beat: Beat(1),
        open: true,
    };
    sim.write(sim.keys.cluster().session(&node(name)), Some(record.to_value()));
    SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) }
}

/// Joins of nodes that have no elector of their own.
fn append_join(sim: &mut Sim, author: &SessionId, sequence: u64) {
    let event = MembershipEvent::Join { address: "w:1".into(), admin: None, priority: 0, empty: true };
    sim.append(QueueEntry { author: author.clone(), sequence: Sequence(sequence), event }.to_value());
}

#[test]
fn f3_an_entry_about_nobody_is_taken_off_the_queue_and_told() {
    let mut sim = Sim::settled(20, &["a"]);
    let before = sim.state();
    let author = open_session(&mut sim, "w");
    let event = MembershipEvent::Leave { token: Token(1) };
    sim.append(QueueEntry { author, sequence: Sequence(1), event }.to_value());
    assert!(sim.run_until(SECOND, |sim| sim.reading().queue.is_empty()));
    assert_eq!(sim.state(), before);
    sim.run_for(SECOND);
    let is_told = |event: &ElectorEvent| {
        matches!(event, ElectorEvent::Dropped { reason: crate::core::state::Dropped::StaleAuthor, .. })
    };
    assert!(sim.events("a").iter().any(is_told));
}

#[test]
fn a_node_that_finds_no_room_enqueues_nothing_and_joins_when_there_is_room() {
    let mut sim = Sim::settled(22, &["a"]);
    // Members that have no elector of their own.
    let mut row = sim.state().members[&node("a")].clone();
    for number in 1..MAX_MEMBERS {
        row.session = open_session(&mut sim, &format!("m{number}"));
        sim.write(sim.keys.member(&row.session.node), Some(row.to_value()));
    }
    sim.start("z");
    sim.run_for(SECOND * 30);
    assert_eq!(sim.state().members.len(), MAX_MEMBERS);
    assert_eq!(sim.view("z").unwrap().members.len(), MAX_MEMBERS);
    assert_eq!(sim.raw(&sim.keys.author(&node("z"))), None, "it has enqueued nothing");

    sim.close_session("m9");
    let has_joined = |sim: &Sim| sim.state().members.contains_key(&node("z"));
    assert!(sim.run_until(SECOND * 30, has_joined));
    assert_eq!(sim.state().members.len(), MAX_MEMBERS);
}

#[test]
fn a_node_is_refused_where_an_entry_could_come_that_has_more_checks_than_a_transaction_may_have() {
    let mut sim = Sim::with_checks(26, 14);
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        sim.start(name);
    }
    sim.settle(names.len());
    sim.start("g");
    // It has seen room, say.
    let author = open_session(&mut sim, "w");
    append_join(&mut sim, &author, 1);
    sim.run_for(SECOND * 10);
    assert_eq!(sim.state().members.len(), names.len());
    assert!(sim.reading().queue.is_empty(), "it waits for nothing");
    let is_told = |event: &ElectorEvent| matches!(event, ElectorEvent::Dropped { reason: Dropped::Full, .. });
    assert!(sim.hosts.values().any(|host| host.events.iter().any(is_told)));
    assert_eq!(sim.raw(&sim.keys.author(&node("g"))), None, "it has enqueued nothing");

    // Another one leads, and there is room.
    let leader = sim.leader().unwrap();
    sim.kill(&leader);
    sim.close_session(&leader);
    let goes_on = |sim: &Sim| {
        let serves = sim.serving().is_some_and(|serving| serving != leader);
        serves && sim.state().members.contains_key(&node("g"))
    };
    assert!(sim.run_until(SECOND * 30, goes_on));
}

#[test]
fn f10_the_view_shows_a_lock_and_is_not_kept_waiting_by_a_full_queue() {
    let mut sim = Sim::settled(21, &["a", "b"]);
    // Somebody may yet hear that the handoff is done.
    sim.run_for(SECOND);
    let leader = sim.leader().unwrap();
    sim.host(&leader).manner = Manner::Silent;
    let epoch = sim.state().term.epoch;
    let lock =
        crate::core::record::Lock { epoch, owner: node(&leader), nonce: callsign_store::ids::Nonce(9) };
    sim.write(sim.keys.lock(), Some(lock.to_value()));
    let author = open_session(&mut sim, "w");
    for sequence in 1..=1000 {
        append_join(&mut sim, &author, sequence);
    }
    sim.start("r");
    let shown = sim.run_until(Duration::from_millis(30), |sim| {
        sim.view("r").is_some_and(|view| view.lock == Some(lock.clone()) && view.members.len() == 2)
    });
    assert!(shown, "a reader that just came sees who leads");
    assert!(sim.reading().queue.len() >= 1000 && sim.state().lock.is_some(), "while all of it waits");
}

#[test]
fn f1_a_long_queue_costs_one_turn_when_the_leaders_elector_does_not_consume() {
    let mut sim = Sim::settled(25, &["a", "b", "c"]);
    let leader = sim.leader().unwrap();
    sim.host(&leader).parked = Some(Vec::new());
    let author = open_session(&mut sim, "w");
    for sequence in 1..=300 {
        append_join(&mut sim, &author, sequence);
    }
    assert!(sim.run_until(SECOND * 3, |sim| sim.reading().queue.is_empty()), "not 300 turns");
}

#[test]
fn a10_what_cannot_be_understood_is_dropped_from_the_queue() {
    let mut sim = Sim::settled(22, &["a"]);
    sim.append(b"\xffnonsense".to_vec());
    sim.start("b");
    sim.settle(2);
    assert!(sim.reading().queue.is_empty());
    assert!(sim.events("a").iter().any(|event| matches!(event, ElectorEvent::Undecodable { .. })));
}

#[test]
fn a10_a_corrupt_term_is_no_vacant_seat() {
    for key in [|sim: &Sim| sim.keys.term(), |sim: &Sim| sim.keys.member(&node("a"))] {
        let mut sim = Sim::settled(23, &["a", "b"]);
        let key = key(&sim);
        sim.write(key.clone(), Some(vec![9, 9, 9]));
        sim.start("c");
        sim.run_for(SECOND * 30);
        assert_eq!(sim.raw(&key), Some(vec![9, 9, 9]), "nobody writes over it");
        assert!(sim.reading().state.is_none());
        assert_eq!(sim.terms.len(), 1);
        for name in ["a", "b"] {
            let told = |event: &&ElectorEvent| matches!(event, ElectorEvent::Corrupt { .. });
            assert_eq!(sim.events(name).iter().filter(told).count(), 1, "told once");
        }
    }
}

#[test]
fn an_author_repeats_nothing_that_still_waits() {
    let mut sim = Sim::settled(24, &["a", "b", "c"]);
    sim.run_for(SECOND);
    let leader = sim.leader().unwrap();
    let others: Vec<&str> = ["a", "b", "c"].into_iter().filter(|name| *name != leader).collect();
    // Nobody consumes: what is said piles up, once.
    let lock =
        crate::core::record::Lock { epoch: Epoch(1), owner: node("x"), nonce: callsign_store::ids::Nonce(9) };
    sim.write(sim.keys.lock(), Some(lock.to_value()));
    sim.kill(others[0]);
    sim.close_session(others[0]);
    sim.run_for(SECOND * 2);
    let waiting = sim.reading().queue.len();
    assert_eq!(waiting, 1, "one word about the closed session: {:?}", sim.reading().queue);
}
