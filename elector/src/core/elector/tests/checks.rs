//! Whatever a transaction was decided from, it is refused once that has changed.

use std::collections::BTreeSet;

use callsign_store::{Transaction, ids::Nonce, mvcc::Mvcc, record::Record};

use super::*;
use crate::core::{
    elector::plan,
    lineage::{LineageId, LineageNumber},
    past::Fact,
    policy::Opening,
    record::{Accusation, Evidence, Lineage, Lock, PositionRecord, QueueEntry},
    state::{Applied, Facts, Seat, most_members},
};

/// Commits to a copy of the store, as it is and with one record after the other altered.
fn refused_if_altered(sim: &Sim, transaction: &Transaction, relied: &[Key]) {
    let is_taken = |store: &mut Mvcc| matches!(store.apply(transaction), CommitOutcome::Committed(_));
    assert!(is_taken(&mut sim.store.clone()), "as it was read, it commits");
    for key in relied {
        let mut altered = sim.store.clone();
        altered.apply(&Transaction::new().put(key.clone(), b"altered".to_vec()));
        assert!(!is_taken(&mut altered), "{}", String::from_utf8_lossy(key));
    }
}

fn facts(sim: &Sim, proposer: &str) -> Facts {
    let reading = sim.reading();
    Facts {
        sessions: reading.sessions.clone(),
        commit: reading.commit.map(|end| end.position),
        floor: reading.floor,
        version: reading.version,
        lineage: LineageNumber::default(),
        proposer: sim.hosts[&node(proposer)].session.clone(),
        nonce: Nonce(5),
        unlinked: std::collections::BTreeSet::new(),
        barred: std::collections::BTreeSet::new(),
        most_checks: None,
    }
}

/// Appends an entry and says what it comes to, and by which transaction.
fn consumed(sim: &mut Sim, author: &str, event: MembershipEvent, proposer: &str) -> (Applied, Transaction) {
    let author = sim.hosts[&node(author)].session.clone();
    let entry = QueueEntry { author, sequence: Sequence(99), event };
    sim.append(entry.to_value());
    let (reading, state) = (sim.reading(), sim.state());
    let applied = state.apply(&entry, &facts(sim, proposer));
    let queued = reading.queue.last().unwrap();
    let transaction = plan::consume(&sim.keys, &reading, &state, queued, &applied);
    (applied, transaction)
}

fn session(sim: &Sim, name: &str) -> Key {
    sim.keys.cluster().session(&node(name))
}

#[test]
fn a_transaction_that_seats_an_accuser_checks_all_that_it_was_decided_from() {
    let mut sim = Sim::settled(50, &["a", "b", "c"]);
    let leader = sim.leader().unwrap();
    let accuser = if leader == "c" { "b" } else { "c" };
    sim.close_session(&leader);
    let members = sim.state().members;
    let down = MembershipEvent::Down {
        member: node(&leader),
        token: members[&node(&leader)].token,
        accuser_token: members[&node(accuser)].token,
        epoch: Epoch(1),
        evidence: Evidence::Closed,
    };
    let (applied, transaction) = consumed(&mut sim, accuser, down, accuser);
    assert_eq!(applied.seat, Seat::Elected { node: node(accuser), opening: None });
    let entry = sim.reading().queue[0].key.clone();
    let keys = &sim.keys;
    let mut relied = vec![entry, keys.term(), keys.lock(), keys.settings()];
    relied.extend([session(&sim, &leader), session(&sim, accuser)]);
    relied.extend(["a", "b", "c"].map(|name| keys.member(&node(name))));
    refused_if_altered(&sim, &transaction, &relied);
}

#[test]
fn f5_f12_an_entry_that_changes_no_leader_writes_no_term_and_survives_a_leaders_batch() {
    let mut sim = Sim::settled(51, &["a", "b"]);
    let event = MembershipEvent::Join { address: "b:2".into(), admin: None, priority: 1, empty: false };
    let follower = if sim.leader().unwrap() == "a" { "b" } else { "a" };
    let (applied, transaction) = consumed(&mut sim, follower, event, "a");
    assert_eq!(applied.seat, Seat::Kept);
    refused_if_altered(&sim, &transaction, &[session(&sim, follower)]);
    let term = sim.keys.term();
    let writes_term = |write: &callsign_store::Write| matches!(write, callsign_store::Write::Put { key, .. } if *key == term);
    assert!(!transaction.writes.iter().any(writes_term));

    let batch = sim.batch();
    assert!(sim.commit(&transaction));
    assert!(sim.commit(&batch));
}

#[test]
fn a_full_registry_has_room_for_the_entry_with_the_most_checks_and_for_no_more() {
    let mut sim = Sim::settled(58, &["a", "b", "c", "d"]);
    let (leader, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
    let others: Vec<_> = ["a", "b", "c", "d"].into_iter().filter(|name| *name != leader).collect();
    let [successor, accuser, dead] = others[..] else { panic!("{others:?}") };
    // Their votes depose the leader, as the first of them could lead. The other one will, because it is the author.
    for name in [successor, accuser] {
        let mut row = sim.state().members[&node(name)].clone();
        row.accuses = Some(Accusation { epoch, had_contact: true });
        sim.write(sim.keys.member(&node(name)), Some(row.to_value()));
    }
    sim.close_session(dead);
    let members = sim.state().members;
    let down = MembershipEvent::Down {
        member: node(dead),
        token: members[&node(dead)].token,
        accuser_token: members[&node(accuser)].token,
        epoch,
        evidence: Evidence::Closed,
    };
    let (applied, transaction) = consumed(&mut sim, accuser, down, accuser);
    assert_eq!(applied.seat, Seat::Elected { node: node(accuser), opening: None });
    assert_eq!(most_members(Some(transaction.checks.len())), members.len());
}

#[test]
fn synced_checks_the_floor() {
    let mut sim = Sim::settled(52, &["a", "b"]);
    let row = sim.keys.member(&node("b"));
    let mut unsynced = sim.state().members[&node("b")].clone();
    unsynced.synced = false;
    sim.write(row, Some(unsynced.to_value()));
    let event = MembershipEvent::Synced { token: unsynced.token, epoch: Epoch(1), position: Position(1) };
    let (applied, transaction) = consumed(&mut sim, "b", event, "a");
    assert!(applied.outcome.is_ok());
    refused_if_altered(&sim, &transaction, &[sim.keys.floor(), sim.keys.member(&node("b"))]);
}

#[test]
fn a_new_member_is_not_written_over_one_that_came_in_between() {
    let mut sim = Sim::settled(53, &["a"]);
    sim.start("b");
    let event = MembershipEvent::Join { address: "b:2".into(), admin: None, priority: 1, empty: false };
    let (applied, transaction) = consumed(&mut sim, "b", event, "a");
    assert!(applied.outcome.is_ok());
    refused_if_altered(&sim, &transaction, &[sim.keys.member(&node("b"))]);
}

#[test]
fn who_fills_the_seat_checks_term_lock_rows_and_its_own_session() {
    let mut sim = Sim::settled(54, &["a", "b"]);
    let mut term = sim.state().term;
    (term.leader, term.epoch) = (None, Epoch(2));
    sim.write(sim.keys.term(), Some(term.to_value()));
    let (reading, state) = (sim.reading(), sim.state());
    let applied = state.fill(&facts(&sim, "b")).unwrap();
    assert_eq!(applied.seat, Seat::Elected { node: node("b"), opening: None });
    let transaction = plan::fill(&sim.keys, &reading, &state, &applied);
    let keys = &sim.keys;
    let relied = [keys.term(), keys.lock(), keys.settings(), keys.member(&node("b")), session(&sim, "b")];
    refused_if_altered(&sim, &transaction, &relied);
}

#[test]
fn who_fills_the_seat_without_a_base_also_checks_that_nobody_came_who_may_have_one() {
    for opened in [false, true] {
        let mut sim = Sim::settled(55, &["a", "b"]);
        let mut term = sim.state().term;
        (term.leader, term.epoch) = (None, Epoch(2));
        sim.write(sim.keys.term(), Some(term.to_value()));
        for (name, empty) in [("a", false), ("b", true)] {
            let mut row = sim.state().members[&node(name)].clone();
            (row.synced, row.empty) = (false, empty);
            sim.write(sim.keys.member(&node(name)), Some(row.to_value()));
        }
        sim.close_session("a");
        if !opened {
            sim.write(sim.keys.commit(), None);
        }
        let (reading, state) = (sim.reading(), sim.state());
        let applied = state.fill(&facts(&sim, "b")).unwrap();
        let opening = Some(if opened { Opening::Reset } else { Opening::First });
        assert_eq!(applied.seat, Seat::Elected { node: node("b"), opening });
        let transaction = plan::fill(&sim.keys, &reading, &state, &applied);
        let keys = &sim.keys;
        let mut relied = vec![keys.queue(), keys.commit(), keys.member(&node("a")), session(&sim, "b")];
        relied.extend(opened.then(|| session(&sim, "a")));
        refused_if_altered(&sim, &transaction, &relied);
    }
}

#[test]
fn an_entry_left_unknown_lands_behind_no_later_one_and_no_later_session() {
    let mut sim = Sim::settled(56, &["a", "b"]);
    let author = sim.hosts[&node("a")].session.clone();
    let asked = BTreeSet::from([author.node.clone()]);
    let read = sim.store.read(&reading::reads(&sim.keys, &author.node, 64, &asked), None).unwrap();
    let reading = Reading::new(&sim.keys, 64, &asked, Sequence(0), None, read);
    let event = MembershipEvent::Leave { token: Token(1) };
    let (entry, unknown) = plan::enqueue(&sim.keys, &reading, &author, event.clone()).unwrap();
    assert_eq!(entry.sequence, reading.author.unwrap().next());
    refused_if_altered(&sim, &unknown, &[sim.keys.author(&author.node), session(&sim, "a")]);
    let (_, repeated) = plan::enqueue(&sim.keys, &reading, &author, event).unwrap();
    assert!(sim.commit(&repeated));
    assert!(!sim.commit(&unknown), "one of the two");
}

#[test]
fn a_log_that_was_cut_above_its_end_is_missed() {
    let mut sim = Sim::settled(57, &["a", "b"]);
    let (key, end) = (sim.keys.floor(), sim.reading().commit.unwrap().position);
    let at = |ahead: u64| Some(PositionRecord(Position(end.0 + ahead)).to_value());
    sim.write(key.clone(), at(1));
    assert_eq!(sim.reading().cut_of_a_lost_log(&sim.keys), None, "all of it was cut");
    sim.write(key.clone(), at(2));
    let fact = Fact::Contradicts(at(2).unwrap());
    assert_eq!(sim.reading().cut_of_a_lost_log(&sim.keys), Some((key.clone(), fact.clone())));
    let (reading, now) = (sim.reading(), sim.now);
    let mut effects = Vec::new();
    assert!(!sim.host("a").elector.is_our_store(now, &reading, &mut effects), "nothing is done by it");
    let said = effects.iter().any(|effect| {
        matches!(effect, Effect::Emit(ElectorEvent::Missing { facts, .. }) if *facts == [(key.clone(), fact.clone())])
    });
    assert!(said, "the session is told: {effects:?}");
    sim.write(sim.keys.commit(), Some(b"nobody can read this".to_vec()));
    assert_eq!(sim.reading().cut_of_a_lost_log(&sim.keys), None, "nothing is known of the end");
}

#[test]
fn a_position_that_was_counted_before_the_lineage_of_the_store_counts_no_more() {
    let mut reading = Sim::settled(24, &["a"]).reading();
    assert!(!reading.is_of_former_lineage(Position(6)));
    let number = LineageNumber(1);
    reading.lineage =
        reading.lineage.map(|lineage| Lineage { id: LineageId { number, ..lineage.id }, ..lineage });
    assert!(reading.is_of_former_lineage(Position(6)));
    assert!(!reading.is_of_former_lineage(Position(number.after(0))));
    reading.lineage = None;
    assert!(reading.is_of_former_lineage(Position(number.after(0))), "nobody knows");
}

#[test]
fn what_a_member_of_a_former_lineage_misses_is_not_looked_for() {
    let mut sim = Sim::new(23, &["a"]);
    let mut elector = sim.host("a").elector.clone();
    let (now, since, key) = (sim.now, sim.now, sim.keys.commit());
    let lineage = LineageId { number: LineageNumber(1), nonce: Nonce(7) };
    elector.step(now, Input::Notice(Notice::Lineage { lineage, since }), &mut Vec::new());
    let mut missed = |number| {
        let lineage = LineageNumber(number);
        let mut effects = Vec::new();
        let said = Notice::Contradicted { lineage, key: key.clone(), value: b"another batch".to_vec() };
        elector.step(now, Input::Notice(said), &mut effects);
        effects.into_iter().find_map(|effect| match effect {
            Effect::Emit(ElectorEvent::Missing { since, facts }) => Some((since, facts.len())),
            _ => None,
        })
    };
    assert_eq!(missed(0), None);
    assert_eq!(missed(1), Some((Some(since), 1)), "and the session is told in which lineage it was known");
}

#[test]
fn whatever_an_elector_commits_is_refused_in_another_lineage_and_where_what_it_clears_is_another() {
    let mut sim = Sim::settled(59, &["a", "b"]);
    let (keys, lineage) = (sim.keys.clone(), sim.keys.cluster().lineage());
    let of_lineage = std::slice::from_ref(&lineage);
    let mut vacant = sim.state();
    vacant.term.leader = None;
    let fills = plan::fill(&keys, &sim.reading(), &sim.state(), &vacant.fill(&facts(&sim, "b")).unwrap());
    refused_if_altered(&sim, &fills, of_lineage);
    let event = MembershipEvent::Join { address: "b:2".into(), admin: None, priority: 1, empty: false };
    let (_, consumes) = consumed(&mut sim, "b", event, "a");
    refused_if_altered(&sim, &consumes, of_lineage);

    sim.append(b"nobody can read this".to_vec());
    let lock = Lock { epoch: Epoch(1), owner: node("a"), nonce: Nonce(7) };
    sim.write(keys.lock(), Some(lock.to_value()));
    let (reading, session_of_b) = (sim.reading(), sim.hosts[&node("b")].session.clone());
    let garbage = reading.queue.last().unwrap();
    assert!(garbage.entry.is_err());
    let discards = plan::discard(&keys, &reading, garbage);
    refused_if_altered(&sim, &discards, &[garbage.key.clone(), lineage.clone()]);
    let of_the_lock = [keys.lock(), keys.term(), lineage.clone()];
    refused_if_altered(&sim, &plan::clear_lock(&keys, &reading), &of_the_lock);
    let takes = plan::take_lock(&keys, &reading, &session_of_b, &lock, Nonce(8));
    refused_if_altered(&sim, &takes, &of_the_lock);
    assert!(sim.commit(&takes));
    assert_eq!(sim.state().lock, Some(Lock { owner: node("b"), nonce: Nonce(8), ..lock }));
}

#[test]
fn the_first_entry_of_an_author_checks_that_nothing_of_it_was_swept_meanwhile() {
    let mut sim = Sim::settled(60, &["a"]);
    sim.start("z");
    let author = sim.hosts[&node("z")].session.clone();
    let asked = BTreeSet::from([author.node.clone()]);
    let read = sim.store.read(&reading::reads(&sim.keys, &author.node, 64, &asked), None).unwrap();
    let reading = Reading::new(&sim.keys, 64, &asked, Sequence(0), None, read);
    let event = MembershipEvent::Leave { token: Token(1) };
    let (_, first) = plan::enqueue(&sim.keys, &reading, &author, event).unwrap();
    let keys = &sim.keys;
    let relied =
        [keys.author(&author.node), keys.author_floor(), session(&sim, "z"), keys.cluster().lineage()];
    refused_if_altered(&sim, &first, &relied);
}
