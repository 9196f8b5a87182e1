//! Nodes that must not lead, by their certificates.

use super::*;

#[test]
fn a_node_that_must_not_lead_never_does_and_nobody_does_where_all_must_not() {
    for seed in 30..36 {
        let mut sim = Sim::new(seed, &[]);
        for name in ["a", "b"] {
            sim.start(name);
            sim.tell(name, Notice::MayLead(false));
        }
        sim.start("c");
        sim.settle(3);
        assert_eq!(sim.serving(), Some("c".to_owned()));
        assert_eq!(sim.state().members[&node("a")].priority, 0);
        // Also when the one that may is gone: the seat stays vacant.
        sim.kill("c");
        sim.close_session("c");
        assert!(sim.run_until(SECOND * 30, |sim| sim.state().members.len() == 2));
        sim.run_for(SECOND * 60);
        assert_eq!(sim.leader(), None);
        assert!(sim.terms.values().flatten().all(|leader| *leader == node("c")), "{:?}", sim.terms);
        sim.tell("b", Notice::MayLead(true));
        assert!(sim.run_until(SECOND * 30, |sim| sim.serving() == Some("b".to_owned())));
    }
}

#[test]
fn a_leader_that_must_not_lead_any_more_gives_up_the_seat() {
    let mut sim = Sim::settled(37, &["a", "b", "c"]);
    let leader = sim.leader().unwrap();
    sim.tell(&leader, Notice::MayLead(false));
    assert!(sim.run_until(SECOND * 5, |sim| sim.serving().is_some_and(|serving| serving != leader)));
    sim.settle(3);
    assert_eq!(sim.state().members[&node(&leader)].priority, 0);
    let (term, token) = (sim.state().term, sim.state().members[&node(&leader)].token);
    sim.tell(&leader, Notice::MayLead(false));
    sim.run_for(SECOND * 5);
    assert_eq!(sim.state().members[&node(&leader)].token, token, "it is told nothing new");
    assert_eq!(sim.state().term, term);
}

#[test]
fn nobody_elects_a_node_whose_certificate_says_that_it_must_not_lead() {
    let mut sim = Sim::settled(38, &["a", "b", "c"]);
    let leader = sim.leader().unwrap();
    let others: Vec<_> = ["a", "b", "c"].into_iter().filter(|name| *name != leader).collect();
    // Its row says that it may, and by itself it would take the seat.
    let barred = others[0];
    for name in [&leader, others[1]] {
        sim.tell(name, Notice::LinkUp { node: node(barred), may_lead: false });
    }
    sim.host(barred).parked = Some(Vec::new());
    let epoch = sim.state().term.epoch;
    sim.tell(&leader, Notice::Resign { epoch });
    assert!(sim.run_until(SECOND * 5, |sim| sim.serving().is_some() && sim.state().term.epoch > epoch));
    assert_eq!(sim.leader().as_deref(), Some(others[1]));
    sim.kill(others[1]);
    sim.close_session(others[1]);
    let is_over = |sim: &Sim| sim.serving().is_some_and(|serving| serving == leader);
    assert!(sim.run_until(SECOND * 30, is_over));
}

#[test]
fn what_is_known_of_a_node_is_forgotten_when_it_is_neither_linked_nor_a_member() {
    let mut sim = Sim::settled(39, &["a", "b", "c"]);
    let barred = |sim: &Sim| sim.hosts[&node("a")].elector.barred.all(&node("a"));
    for name in ["b", "x"] {
        sim.tell("a", Notice::LinkUp { node: node(name), may_lead: false });
    }
    sim.run_for(SECOND * 30);
    assert_eq!(barred(&sim), BTreeSet::from(["b", "x"].map(node)), "x may be about to join");
    for name in ["b", "x"] {
        sim.tell("a", Notice::LinkDown { node: node(name) });
    }
    sim.run_for(SECOND);
    assert_eq!(barred(&sim), BTreeSet::from([node("b")]), "b is a member");
    sim.kill("b");
    sim.close_session("b");
    assert!(sim.run_until(SECOND * 30, |sim| sim.state().members.len() == 2));
    assert!(sim.run_until(SECOND * 30, |sim| barred(sim).is_empty()));
}

#[test]
fn what_the_latest_certificates_say_counts() {
    let (me, mut barred) = (node("a"), Barred::default());
    assert!(!barred.own(true), "it may, until something else is said");
    for other in ["b", "c"] {
        barred.other(&node(other), false);
    }
    assert!(barred.own(false) && !barred.own(false), "that is news once");
    assert_eq!((barred.priority(7), barred.all(&me)), (0, BTreeSet::from(["a", "b", "c"].map(node))));
    barred.other(&node("b"), true);
    assert!(barred.own(true));
    assert_eq!((barred.priority(7), barred.all(&me)), (7, BTreeSet::from([node("c")])));
}
