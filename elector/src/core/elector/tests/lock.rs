//! The lock of a handoff: what waits for it, what passes it, and that it never stays.

use callsign_store::{Read, Transaction, Write, ids::Nonce, record::Record};

use super::*;
use crate::core::record::Lock;

/// Settled; then the seat changes hands, and the new leader's member behaves in the given manner.
fn handed_over(seed: u64, names: &[&str], manner: Manner) -> (Sim, String, Epoch) {
    let mut sim = Sim::settled(seed, names);
    sim.run_for(SECOND);
    let (old, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
    for name in names.iter().filter(|name| **name != old) {
        sim.host(name).manner = manner;
    }
    sim.tell(&old, Notice::Resign { epoch });
    assert!(sim.run_until(SECOND, |sim| sim.leader().is_some_and(|leader| leader != old)));
    let leader = sim.leader().unwrap();
    for name in names.iter().filter(|name| **name != leader) {
        sim.host(name).manner = Manner::Answers;
    }
    let epoch = sim.state().term.epoch;
    assert_eq!(sim.state().lock.map(|lock| (lock.epoch, lock.owner)), Some((epoch, node(&leader))));
    (sim, leader, epoch)
}

#[test]
fn g1_no_entry_is_applied_while_the_lock_is_held() {
    let (mut sim, _, _) = handed_over(30, &["a", "b", "c"], Manner::Silent);
    sim.start("d");
    let nonce = sim.state().lock.unwrap().nonce;
    while sim.state().lock.as_ref().is_some_and(|lock| lock.nonce == nonce) {
        sim.run_for(Duration::from_millis(50));
        if sim.state().lock.is_some() {
            assert!(!sim.state().members.contains_key(&node("d")));
        }
    }
    assert!(!sim.reading().queue.is_empty(), "the join was there all the time");
    assert!(sim.run_until(SECOND * 5, |sim| sim.state().members.contains_key(&node("d"))));
}

#[test]
fn g2_a_handoff_that_fails_ends_in_another_leader_and_no_lock() {
    let (mut sim, leader, _) = handed_over(31, &["a", "b", "c"], Manner::Fails);
    sim.start("d");
    sim.host("d").manner = Manner::Fails;
    assert!(sim.run_until(SECOND * 2, |sim| sim.serving().is_some_and(|serving| serving != leader)));
    assert!(sim.run_until(SECOND, |sim| sim.state().lock.is_none() && sim.reading().queue.is_empty()));
    assert!(sim.state().members.contains_key(&node("d")));
}

#[test]
fn g3_the_death_of_the_owner_costs_a_lock_timeout() {
    let (mut sim, leader, _) = handed_over(32, &["a", "b", "c"], Manner::Silent);
    sim.start("d");
    sim.kill(&leader);
    let bound = sim.timing.lock + sim.timing.handoff + SECOND;
    assert!(sim.run_until(bound, |sim| sim.state().members.contains_key(&node("d"))));
    let all = || sim.hosts.values().flat_map(|host| &host.events);
    assert!(all().any(|event| matches!(event, ElectorEvent::LockBroken { .. })));
}

#[test]
fn g3_who_takes_a_lock_asks_the_leader_again_and_clears_it_when_it_is_done() {
    let (mut sim, leader, epoch) = handed_over(44, &["a", "b", "c"], Manner::Silent);
    sim.run_for(SECOND);
    sim.host(&leader).manner = Manner::Answers;
    // The elector of the leader cannot write, so somebody else has to.
    sim.host(&leader).parked = Some(Vec::new());
    assert!(sim.run_until(sim.timing.lock + SECOND, |sim| sim.state().lock.is_none()));
    assert_eq!((sim.serving(), sim.state().term.epoch), (Some(leader.clone()), epoch));
    sim.run_for(Duration::from_millis(10));
    let ask = ElectorEvent::RunHandoff { leader: node(&leader), epoch };
    let others = || sim.hosts.iter().filter(|(name, _)| **name != node(&leader));
    assert!(others().any(|(_, host)| host.events.contains(&ask)));
    let given_up = ElectorEvent::LockGivenUp { epoch };
    assert!(!others().any(|(_, host)| host.events.contains(&given_up)));
}

#[test]
fn g3_a_slow_owner_never_clears_its_successors_lock() {
    let (mut sim, leader, epoch) = handed_over(33, &["a", "b", "c"], Manner::Silent);
    let first = sim.state().lock.unwrap();
    sim.run_for(Duration::from_millis(200));
    sim.host(&leader).parked = Some(Vec::new());
    sim.tell(&leader, Notice::HandoffDone { epoch });
    let cleared = |parked: &Option<Vec<Transaction>>, key: &Key| {
        parked.as_ref().is_some_and(|p| p.iter().any(|t| t.writes.contains(&Write::Clear(key.clone()))))
    };
    let key = sim.keys.lock();
    assert!(sim.run_until(SECOND, |sim| cleared(&sim.hosts[&node(&leader)].parked, &key)));
    let broken = sim.run_until(SECOND * 4, |sim| sim.state().lock.is_some_and(|lock| lock != first));
    assert!(broken, "somebody else took it");
    let successor = sim.state().lock;
    assert_eq!(sim.release(&leader), [false]);
    assert_eq!(sim.state().lock, successor);
}

#[test]
fn g3_an_entry_of_a_slow_consumer_is_applied_by_another_and_its_own_commit_refused() {
    let mut sim = Sim::settled(34, &["a", "b"]);
    let leader = sim.leader().unwrap();
    sim.host(&leader).parked = Some(Vec::new());
    sim.start("c");
    assert!(sim.run_until(SECOND * 3, |sim| sim.state().members.contains_key(&node("c"))));
    let refused = sim.release(&leader);
    assert_eq!(refused, [false]);
}

#[test]
fn g3_an_unreadable_lock_is_never_broken() {
    let mut sim = Sim::settled(35, &["a", "b"]);
    sim.write(sim.keys.lock(), Some(b"?".to_vec()));
    sim.start("c");
    sim.run_for(SECOND * 60);
    assert_eq!(sim.raw(&sim.keys.lock()), Some(b"?".to_vec()));
    assert!(sim.raw(&sim.keys.member(&node("c"))).is_none());
}

#[test]
fn g6_g7_the_lock_is_cleared_only_by_the_answer_that_the_handoff_is_done() {
    let (mut sim, leader, epoch) = handed_over(38, &["a", "b", "c"], Manner::Silent);
    sim.run_for(SECOND);
    assert!(sim.state().lock.is_some());
    let asks = |sim: &Sim| {
        let ask = ElectorEvent::RunHandoff { leader: node(&leader), epoch };
        sim.events(&leader).iter().filter(|event| **event == ask).count()
    };
    assert_eq!(asks(&sim), 1, "asked once, until the lock moves");
    sim.tell(&leader, Notice::HandoffDone { epoch });
    assert!(sim.run_until(SECOND, |sim| sim.state().lock.is_none()));
}

#[test]
fn g8_an_unreachable_new_leader_does_not_wedge_the_group() {
    let (mut sim, leader, _) = handed_over(39, &["a", "b", "c"], Manner::Silent);
    let bound = sim.timing.lock * 2 + sim.timing.silence * 2 + sim.timing.handoff + SECOND;
    assert!(sim.run_until(bound, |sim| sim.serving().is_some_and(|serving| serving != leader)));
    assert!(sim.run_until(SECOND, |sim| sim.state().lock.is_none()));
    assert_eq!(sim.state().members.len(), 3, "no new join was needed, and nobody was removed");
}

#[test]
fn g8_of_two_members_a_leader_whose_handoff_never_ends_gives_up_the_seat() {
    let (mut sim, leader, _) = handed_over(45, &["a", "b"], Manner::Silent);
    assert!(sim.run_until(SECOND * 30, |sim| sim.serving().is_some_and(|serving| serving != leader)));
    sim.run_for(SECOND * 60);
    assert!(sim.serving().is_some_and(|serving| serving != leader), "and does not get it back");
    assert_eq!(sim.changes(), 3);
}

#[test]
fn g11_an_answer_about_another_epoch_clears_nothing() {
    let (mut sim, leader, epoch) = handed_over(40, &["a", "b", "c"], Manner::Silent);
    sim.run_for(Duration::from_millis(500));
    let lock = sim.state().lock;
    for other in [Epoch(epoch.0 - 1), Epoch(epoch.0 + 1)] {
        sim.tell(&leader, Notice::HandoffDone { epoch: other });
        sim.tell(&leader, Notice::HandoffFailed { epoch: other });
    }
    sim.run_for(SECOND);
    assert_eq!(sim.state().lock, lock);
    assert_eq!(sim.state().term.epoch, epoch);
}

#[test]
fn what_vacates_the_seat_is_found_behind_a_queue_that_waits_for_the_lock() {
    let (mut sim, leader, epoch) = handed_over(41, &["a", "b", "c"], Manner::Silent);
    // So many that the leader's own join is not among the first that are read.
    for number in 0..200_u64 {
        let author = SessionId { node: node("w"), ..sim.hosts[&node(&leader)].session.clone() };
        let event = MembershipEvent::Leave { token: Token(1) };
        sim.append(crate::core::record::QueueEntry { author, sequence: Sequence(number), event }.to_value());
    }
    sim.kill(&leader);
    sim.start(&leader);
    assert!(sim.run_until(SECOND, |sim| sim.state().term.epoch > epoch), "well before the lock times out");
    let passed = sim.consumed.last().unwrap();
    assert!(passed.2, "it passed the lock");
    assert!(sim.run_until(SECOND * 5, |sim| sim.serving().is_some()));
}

#[test]
fn votes_pass_a_lock_and_complete_a_majority_under_it() {
    let mut sim = Sim::settled(42, &["a", "b", "c"]);
    sim.run_for(SECOND);
    let (leader, epoch) = (sim.leader().unwrap(), sim.state().term.epoch);
    // Somebody runs the handoff of this very epoch again, and meanwhile the leader is cut off.
    let lock = Lock { epoch, owner: node(&leader), nonce: Nonce(7) };
    sim.host(&leader).manner = Manner::Silent;
    sim.write(sim.keys.lock(), Some(lock.to_value()));
    sim.host(&leader).parked = Some(Vec::new());
    for other in ["a", "b", "c"].iter().filter(|other| **other != leader) {
        sim.cut(&leader, other);
    }
    let deposed = sim.run_until(SECOND * 2, |sim| sim.state().term.epoch > epoch);
    assert!(deposed, "{:?}", sim.state());
    assert!(sim.consumed.iter().any(|(_, _, locked)| *locked));
}

#[test]
fn a_lock_of_another_epoch_is_cleared_at_once() {
    let mut sim = Sim::settled(43, &["a", "b"]);
    let lock = Lock { epoch: Epoch(99), owner: node("x"), nonce: Nonce(7) };
    sim.write(sim.keys.lock(), Some(lock.to_value()));
    assert!(sim.run_until(Duration::from_millis(100), |sim| sim.state().lock.is_none()));
}

/// How many entries of the queue each host was ready to take in, read for read.
fn queue_limits(sim: &Sim) -> Vec<Vec<usize>> {
    let limit = |reads: &Vec<Read>| match reads.get(11) {
        Some(Read::Range { limit, .. }) => Some(*limit),
        _ => None,
    };
    sim.hosts.values().map(|host| host.looks.iter().filter_map(limit).collect()).collect()
}

#[test]
fn a_queue_of_which_much_was_read_under_a_lock_is_read_as_ever_after_it() {
    let (mut sim, leader, epoch) = handed_over(46, &["a", "b", "c"], Manner::Silent);
    for number in 0..200_u64 {
        let author = SessionId { node: node("w"), ..sim.hosts[&node(&leader)].session.clone() };
        let event = MembershipEvent::Leave { token: Token(1) };
        sim.append(crate::core::record::QueueEntry { author, sequence: Sequence(number), event }.to_value());
    }
    sim.run_for(SECOND);
    assert!(sim.state().lock.is_some() && sim.state().term.epoch == epoch);
    let limits = queue_limits(&sim);
    assert!(limits.iter().all(|limits| limits.last() > Some(&200)), "{limits:?}");
    sim.tell(&leader, Notice::HandoffDone { epoch });
    assert!(sim.run_until(SECOND * 10, |sim| sim.state().lock.is_none() && sim.reading().queue.is_empty()));
    sim.run_for(SECOND * 3);
    let last: Vec<_> = queue_limits(&sim).iter().map(|limits| limits.last().copied()).collect();
    assert_eq!(last, [Some(64); 3]);
}
