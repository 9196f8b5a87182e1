//! The leader and the members that it names look after a registry; the others rest.

use super::{super::duty::RESTS_FOR, *};

/// Whose sessions it wants to be observed.
fn observes(effects: &[Effect]) -> Vec<Observed> {
    let observed = effects.iter().filter_map(|effect| match effect {
        Effect::Observe(observed) => Some(observed.clone()),
        _ => None,
    });
    observed.collect()
}

fn only(name: &str) -> Observed {
    Observed::Only(BTreeSet::from([node(name)]))
}

fn names(observers: &[&str]) -> Message {
    let observers = observers.iter().map(|name| node(name)).collect();
    Message::Observers { epoch: Epoch(5), observers }
}

/// It follows l, which names others.
fn resting() -> One {
    let mut one = One::following();
    assert_eq!(observes(&one.hears("l", names(&["o", "p"]))), [only("l")]);
    assert_eq!(one.member.duty.wakes_at(), Some(one.now.time + RESTS_FOR));
    one
}

#[test]
fn a_member_rests_while_it_hears_a_leader_that_names_others() {
    let mut one = One::new();
    one.links("l", 1);
    assert_eq!(observes(&one.sees(5, Some("l"))), []);
    // Of another epoch it says nothing.
    let other = Message::Observers { epoch: Epoch(4), observers: Vec::new() };
    assert_eq!(observes(&one.hears("l", other)), []);
    assert_eq!(observes(&one.hears("l", names(&["o"]))), [only("l")]);
    assert_eq!(observes(&one.hears("l", names(&["o", "m"]))), [Observed::All]);
    assert_eq!(one.member.duty.wakes_at(), None);
    assert_eq!(observes(&one.hears("l", names(&[]))), [only("l")]);
    assert_eq!(observes(&one.hears("l", names(&[]))), [], "nothing new");
}

#[test]
fn a_member_that_does_not_hear_the_leader_rests_no_more() {
    let mut one = resting();
    one.now.time = one.now.time + RESTS_FOR / 2;
    one.hears("l", names(&["o"]));
    assert_eq!(observes(&one.wakes_after(1999)), []);
    assert!(one.member.wakes_at(one.now.time) <= one.now.time + MILLIS(1));
    assert_eq!(observes(&one.wakes_after(1)), [Observed::All]);
    assert_eq!(observes(&one.wakes_after(5000)), []);
    assert_eq!(observes(&one.hears("l", names(&["o"]))), [only("l")]);
}

#[test]
fn a_member_looks_after_a_registry_that_nobody_leads_that_it_leads_itself_or_that_it_is_no_synced_member_of()
{
    let mut one = resting();
    assert_eq!(observes(&one.sees(6, None)), [Observed::All]);
    let mut one = resting();
    assert_eq!(observes(&one.sees(6, Some("m"))), [Observed::All]);
    let mut one = resting();
    one.view.me = None;
    assert_eq!(observes(&one.shown()), [Observed::All]);
    let mut one = resting();
    one.view.members.get_mut(&node("m")).unwrap().synced = false;
    assert_eq!(observes(&one.shown()), [Observed::All]);
    // Of another leader the session is observed from now on.
    let mut one = resting();
    assert_eq!(observes(&one.sees(6, Some("o"))), [only("o")]);
}

#[test]
fn a_leader_names_members_that_are_linked_synced_and_stay_those_with_the_highest_priority_first() {
    let mut one = One::with(Tuning { observers: 2, ..Tuning::default() });
    for (name, link) in [("a", 1), ("b", 2), ("c", 3), ("l", 4), ("o", 5)] {
        one.view.members.insert(node(name), row(name, link));
        one.links(name, link);
    }
    let named = |one: &mut One| {
        one.shown();
        one.member.observers()
    };
    assert_eq!(named(&mut one), [node("a"), node("b")], "m is the one that names them");
    one.view.members.get_mut(&node("o")).unwrap().priority = 2;
    assert_eq!(named(&mut one), [node("o"), node("a")]);
    one.view.members.get_mut(&node("o")).unwrap().draining = true;
    one.view.members.get_mut(&node("a")).unwrap().synced = false;
    assert_eq!(named(&mut one), [node("b"), node("c")]);
    one.unlinks("b", 2);
    assert_eq!(named(&mut one), [node("c"), node("l")]);
    one.member.config.tuning.observers = 0;
    assert_eq!(named(&mut one), []);
}

#[test]
fn a_leader_says_with_each_heartbeat_and_to_whoever_is_linked_who_observes_if_not_all_do() {
    let mut one = One::leading_with(Tuning { observers: 1, ..Tuning::default() });
    one.links("l", 1);
    let named = |effects: &[Effect]| {
        let named = sends(effects).into_iter().filter_map(|(to, _, message)| match message {
            Message::Observers { observers, .. } => Some((to, observers)),
            _ => None,
        });
        named.collect::<Vec<_>>()
    };
    assert_eq!(named(&one.links("o", 2)), [("o".to_owned(), vec![node("l")])]);
    let both = ["l", "o"].map(|to| (to.to_owned(), vec![node("l")]));
    assert_eq!(named(&one.wakes_after(1000)), both);
    // Where all observe nothing is said of it.
    one.member.config.tuning.observers = 2;
    assert_eq!(named(&one.wakes_after(1000)), []);
}

#[test]
fn nobody_names_observers_before_it_has_opened_its_epoch_or_without_leading() {
    let one = resting();
    let mut effects = Vec::new();
    one.member.say_observers(&[node("o")], &mut effects);
    assert_eq!(effects, []);
}
