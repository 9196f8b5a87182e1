//! A node that does not observe all: others do.

use std::collections::BTreeSet;

use super::{observe::until_close, *};

/// Opened at 0, with the others' records as they are. It observes these alone.
fn observer_of(rows: &mut Mvcc, names: &[&str]) -> Host {
    let mut host = Host::new("o", 1);
    host.feed(Input::Observe(only(names)));
    host.feed(Input::Start);
    host.run(rows, 0);
    host.take_events();
    host
}

fn only(names: &[&str]) -> Observed {
    Observed::Only(names.iter().map(|name| node(name)).collect::<BTreeSet<_>>())
}

/// What the next observation asks for: whether for the marks of all, and for whose records.
fn asks(host: &mut Host, rows: &mut Mvcc) -> (bool, Vec<String>) {
    loop {
        if let Some(Effect::Read { reads, .. }) = host.requests.front()
            && let Some(Read::Range { range, .. }) = reads.get(1)
        {
            let names = ["a", "b", "c", "o"].into_iter().filter(|name| {
                let key = keys().session(&node(name));
                reads[3..].iter().any(|read| matches!(read, Read::Key(asked) if *asked == key))
            });
            return (!range.is_empty(), names.map(str::to_owned).collect());
        }
        host.serve_one(rows);
    }
}

#[test]
fn only_those_who_are_observed_are_read_and_closed() {
    let mut rows = no_rows();
    for name in ["a", "b", "c"] {
        put(&mut rows, name, &record(7, 1, 1));
    }
    let mut host = observer_of(&mut rows, &["b", "c"]);
    assert_eq!(asks(&mut host, &mut rows), (false, vec!["b".to_owned(), "c".to_owned()]));
    host.run(&mut rows, S + 1000);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    assert_eq!([stored(&rows, "b"), stored(&rows, "c")], [Some(closed(7, 1, 1)), Some(closed(7, 1, 1))]);
    assert_eq!(
        host.take_events(),
        [SessionEvent::PeerClosed(id("b", 7, 1)), SessionEvent::PeerClosed(id("c", 7, 1))]
    );
}

#[test]
fn whoever_begins_to_observe_all_counts_from_its_first_read() {
    let mut rows = no_rows();
    for name in ["a", "b"] {
        put(&mut rows, name, &record(7, 1, 1));
    }
    let mut host = observer_of(&mut rows, &[]);
    host.run(&mut rows, 2 * S);
    host.feed(Input::Observe(Observed::All));
    assert_eq!(asks(&mut host, &mut rows), (true, Vec::new()), "at once");
    assert_eq!(host.now, ms(2 * S));
    host.run(&mut rows, 3 * S - 1);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    host.run(&mut rows, 3 * S + 1000);
    assert_eq!([stored(&rows, "a"), stored(&rows, "b")], [Some(closed(7, 1, 1)), Some(closed(7, 1, 1))]);
}

#[test]
fn whoever_was_not_observed_for_a_while_is_counted_anew() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer_of(&mut rows, &["a"]);
    host.run(&mut rows, S / 2);
    host.feed(Input::Observe(only(&[])));
    host.run(&mut rows, S / 2 + 2000);
    host.feed(Input::Observe(only(&["a"])));
    host.run(&mut rows, S + 2000);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)));
    host.run(&mut rows, S + S / 2 + 3000);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
}

#[test]
fn what_is_read_for_others_than_those_who_are_observed_now_counts_for_nothing() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer_of(&mut rows, &["b"]);
    asks(&mut host, &mut rows);
    let (late, now) = (host.requests.pop_front().unwrap(), host.now);
    host.feed(Input::Observe(only(&["a"])));
    assert_eq!(asks(&mut host, &mut rows), (false, vec!["a".to_owned()]));
    assert_eq!(host.now, now, "what is under way is not waited for");
    host.serve(&mut rows);
    host.answer(&mut rows, late);
    assert_eq!(
        host.core.sight_of(host.now, &id("a", 7, 1)).map(|sight| sight.last_beat),
        Some(Some(Duration::ZERO))
    );
    // The same again changes nothing.
    let due = host.wake;
    host.feed(Input::Observe(only(&["a"])));
    assert_eq!((host.requests.len(), host.wake), (0, due));
}

#[test]
fn a_proof_of_death_is_used_also_by_a_node_that_observes_others_but_later() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer_of(&mut rows, &["b"]);
    host.run(&mut rows, 500);
    host.dead.push((node("a"), Incarnation(7)));
    host.feed(Input::Suspect { node: node("a"), incarnation: Incarnation(7) });
    host.serve(&mut rows);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)), "whoever observes it goes first");
    host.run(&mut rows, 500 + 1100);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
    // It is not observed from now on.
    assert_eq!(asks(&mut host, &mut rows), (false, vec!["b".to_owned()]));
}

#[test]
fn a_closing_that_is_not_known_to_be_done_is_looked_at_again() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer_of(&mut rows, &["b"]);
    let (node, incarnation) = (node("a"), Incarnation(7));
    host.feed(Input::Suspect { node: node.clone(), incarnation });
    host.feed(Input::Proof { node, incarnation, proof: Proof::Dead });
    let (id, _) = until_close(&mut host, &mut rows);
    host.unknown(id);
    assert_eq!(asks(&mut host, &mut rows), (false, vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn a_proof_of_death_that_comes_while_others_are_read_is_used_by_the_read_after_that() {
    let mut rows = no_rows();
    put(&mut rows, "a", &record(7, 1, 1));
    let mut host = observer_of(&mut rows, &["b"]);
    assert_eq!(asks(&mut host, &mut rows), (false, vec!["b".to_owned()]));
    let (node, incarnation) = (node("a"), Incarnation(7));
    host.feed(Input::Suspect { node: node.clone(), incarnation });
    host.feed(Input::Proof { node, incarnation, proof: Proof::Dead });
    host.proofs.clear(); // It is answered.
    host.answer_next(&mut rows);
    assert_eq!(asks(&mut host, &mut rows), (false, vec!["a".to_owned(), "b".to_owned()]));
    host.serve(&mut rows);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
}
