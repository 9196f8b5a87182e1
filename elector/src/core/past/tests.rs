use callsign_store::{
    ids::{ClusterName, NodeName, Nonce, RegistryName},
    keys::ClusterKeys,
};

use super::*;

fn keys() -> RegistryKeys {
    let cluster = ClusterKeys::new(&ClusterName::new("c").unwrap());
    cluster.registry(&RegistryName::new("r").unwrap())
}

fn author() -> Key {
    keys().author(&NodeName::new("a").unwrap())
}

fn end(position: u64, nonce: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(nonce) }
}

fn led(epoch: u64, ballot: u64) -> Fact {
    Fact::Term { epoch: Epoch(epoch), ballot: Ballot(ballot) }
}

fn term(epoch: u64, ballot: u64) -> Value {
    Term { epoch: Epoch(epoch), ballot: Ballot(ballot), ..Term::vacant() }.to_value()
}

fn sequence(number: u64) -> Value {
    AuthorRecord { sequence: Sequence(number) }.to_value()
}

#[test]
fn a_fact_is_gone_where_its_key_shows_less() {
    let (led, batch, said) = (led(5, 7), Fact::Commit(end(9, 3)), Fact::Author(Sequence(4)));
    let other = Fact::Contradicts(vec![1, 2]);
    let unreadable = || Some(vec![9]);
    for (fact, value, is_gone) in [
        (&led, Some(term(5, 7)), false),
        (&led, Some(term(6, 8)), false),
        (&led, Some(term(4, 7)), true),
        (&led, Some(term(5, 6)), true),
        (&led, None, true),
        (&led, unreadable(), false),
        (&batch, Some(end(9, 3).to_value()), false),
        (&batch, Some(end(10, 1).to_value()), false),
        (&batch, Some(end(9, 4).to_value()), true),
        (&batch, Some(end(8, 3).to_value()), true),
        (&batch, None, true),
        (&batch, unreadable(), false),
        (&said, Some(sequence(4)), false),
        (&said, Some(sequence(5)), false),
        (&said, Some(sequence(3)), true),
        // It may have been swept away.
        (&said, None, false),
        (&said, unreadable(), false),
        (&other, Some(vec![1, 2]), true),
        (&other, Some(vec![1]), false),
        (&other, None, false),
    ] {
        assert_eq!(fact.is_gone(value.as_ref()), is_gone, "{fact:?} {value:?}");
    }
}

#[test]
fn what_says_less_than_what_is_known_changes_nothing() {
    let (keys, author) = (keys(), author());
    let mut past = Past::default();
    let note_all = |past: &mut Past, facts: [(Fact, LogEnd, u64); 3]| {
        for (led, end, number) in facts {
            past.note(keys.term(), led);
            past.note(keys.commit(), Fact::Commit(end));
            past.note(author.clone(), Fact::Author(Sequence(number)));
        }
    };
    note_all(&mut past, [(led(5, 7), end(9, 3), 4), (led(4, 9), end(9, 4), 3), (led(5, 6), end(8, 1), 1)]);
    let known =
        |past: &Past| [keys.term(), keys.commit(), author.clone()].map(|key| past.facts[&key].clone());
    assert_eq!(known(&past), [led(5, 9), Fact::Commit(end(9, 3)), Fact::Author(Sequence(4))]);
    assert_eq!((past.sequence(&author), past.sequence(&keys.term())), (Some(Sequence(4)), None));
    let gone = past.gone(|key| (*key == keys.term()).then(|| term(5, 9)));
    assert_eq!(gone, [(keys.commit(), Fact::Commit(end(9, 3)))], "the author may have been swept away");

    // What another one knows is taken as far as it says more.
    let mut other = Past::default();
    note_all(&mut other, [(led(6, 8), end(10, 1), 5), (led(6, 8), end(10, 1), 5), (led(1, 1), end(1, 1), 1)]);
    past.merge(other);
    assert_eq!(known(&past), [led(6, 9), Fact::Commit(end(10, 1)), Fact::Author(Sequence(5))]);
}

#[test]
fn what_was_counted_before_the_lineage_is_of_no_account() {
    let keys = keys();
    let lineage = LineageNumber(1);
    let first = lineage.after(0);
    for (number, known) in [(7, 0), (first - 2, 0), (first, 3)] {
        let mut past = Past::of(lineage);
        past.note(keys.term(), led(number, number));
        past.note(keys.commit(), Fact::Commit(end(number, 1)));
        past.note(author(), Fact::Author(Sequence(number)));
        assert_eq!(past.facts.len(), known, "{number}");
    }
    let mut past = Past::of(lineage);
    past.note(keys.floor(), Fact::Contradicts(vec![1]));
    assert_eq!(past.facts.len(), 1, "that is no number");
}

#[test]
fn of_what_is_committed_the_term_the_end_of_the_log_and_the_own_number_are_known() {
    let (keys, author) = (keys(), author());
    let transaction = Transaction::new()
        .put(keys.term(), term(5, 7))
        .put(keys.commit(), end(9, 3).to_value())
        .put(author.clone(), sequence(4))
        .put(keys.author(&NodeName::new("b").unwrap()), sequence(8))
        .put(keys.floor(), vec![1])
        .clear(keys.lock());
    let mut past = Past::default();
    past.note_committed(&keys, &author, &transaction);
    let all = [
        (keys.term(), led(5, 7)),
        (keys.commit(), Fact::Commit(end(9, 3))),
        (author.clone(), Fact::Author(Sequence(4))),
    ];
    assert_eq!(past.facts, BTreeMap::from(all));
    // What cannot be read says nothing, nor does a log without a batch.
    let mut past = Past::default();
    for key in [keys.term(), keys.commit(), author.clone()] {
        past.note_value(&keys, &author, &key, &vec![9]);
    }
    past.note_value(&keys, &author, &keys.commit(), &LogEnd::default().to_value());
    assert_eq!(past, Past::default());
}
