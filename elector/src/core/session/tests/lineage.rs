//! A store that went back behind what the node knows.

use callsign_store::{
    Write,
    ids::{Nonce, Position},
    keys::RegistryKeys,
};

use super::*;
use crate::core::{
    lineage::{LineageId, LineageNumber},
    record::{Lineage, LogEnd},
};

fn registry() -> RegistryKeys {
    keys().registry(&callsign_store::ids::RegistryName::new("r").unwrap())
}

fn end(position: u64, nonce: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(nonce) }
}

fn put_commit(rows: &mut Mvcc, end: LogEnd) {
    rows.apply(&Transaction::new().put(registry().commit(), end.to_value()));
}

fn lineage(rows: &Mvcc) -> Lineage {
    Lineage::from_value(rows.get(&keys().lineage()).unwrap()).unwrap()
}

/// The elector has read a log that ends before this batch.
fn missing(end: LogEnd) -> Input {
    Input::Missing { since: None, facts: vec![(registry().commit(), Fact::Commit(end))] }
}

/// The store is as it was at an earlier version.
fn put_back(rows: &mut Mvcc, earlier: &Mvcc) {
    *rows = earlier.clone();
}

fn first(counted: u64) -> u64 {
    (1 << 40) + counted
}

#[test]
fn the_first_opening_says_which_lineage_it_is_and_the_longest_lease_is_kept() {
    let mut rows = no_rows();
    let _host = Host::opened("a", 7, &mut rows);
    let written = lineage(&rows);
    assert_eq!((written.id.number, written.greatest_lease), (LineageNumber(0), Duration::from_millis(S)));
    let mut longer = Host::new("b", 8);
    let mut config = config("b", 8);
    config.timing = SessionTiming::for_lease(Duration::from_secs(20));
    longer.core = Session::new(config).unwrap();
    longer.feed(Input::Start);
    longer.run(&mut rows, 0);
    assert_eq!(lineage(&rows), Lineage { greatest_lease: Duration::from_secs(20), ..written });
}

#[test]
fn a_node_that_leaves_while_it_misses_something_closes_its_session_after_one_read() {
    let (mut rows, mut host) = with(opened);
    // A read has shown the loss, and whether it is one is being found out.
    put_commit(&mut rows, end(3, 30));
    host.now = ms(100);
    host.feed(missing(end(4, 40)));
    host.feed(Input::Leave);
    assert_eq!(host.requests.len(), 1);
    host.answer_next(&mut rows);
    assert!(matches!(host.requests.front(), Some(Effect::Commit { .. })), "{:?}", host.requests);
    host.answer_next(&mut rows);
    assert_eq!(stored(&rows, "a").map(|record| record.open), Some(false));
    assert_eq!(host.take_events().last(), Some(&SessionEvent::Left));
    assert!(host.requests.is_empty());
}

#[test]
fn a_beat_that_is_gone_is_noticed_and_the_lineage_raised_before_the_next_session() {
    let (mut rows, mut host) = with(opened);
    let earlier = rows.clone();
    host.run(&mut rows, 5_000);
    assert!(stored(&rows, "a").unwrap().beat > Beat(1));
    put_back(&mut rows, &earlier);
    host.run(&mut rows, 8_000);
    let id = lineage(&rows).id;
    assert_eq!(id.number, LineageNumber(1));
    let since = host.events.iter().find_map(|event| match event {
        SessionEvent::Lineage { since, .. } => Some(*since),
        _ => None,
    });
    assert_eq!(
        host.take_events(),
        [
            SessionEvent::Lapsed { session: super::id("a", 7, 1) },
            SessionEvent::StoreWentBack { shown: vec![keys().session(&node("a"))] },
            SessionEvent::Lost { session: super::id("a", 7, 1) },
            SessionEvent::Lineage { lineage: id, since: since.unwrap() },
            SessionEvent::Opened { session: super::id("a", 7, first(1)) },
        ]
    );
    assert_eq!(stored(&rows, "a").unwrap().number.0, first(1), "numbers are counted in the lineage");
}

#[test]
fn a_batch_that_is_gone_lapses_the_node_at_once() {
    let (mut rows, mut host) = with(opened);
    put_commit(&mut rows, end(9, 1));
    host.feed(missing(end(10, 2)));
    assert_eq!(host.until, None, "nothing is trusted while it is looked into");
    host.serve(&mut rows);
    assert_eq!(lineage(&rows).id.number, LineageNumber(1));
    assert!(host.until.is_some());
}

#[test]
fn a_batch_at_the_same_position_with_another_nonce_is_gone() {
    let (mut rows, mut host) = with(opened);
    put_commit(&mut rows, end(10, 3));
    host.feed(missing(end(10, 2)));
    host.serve(&mut rows);
    assert_eq!(lineage(&rows).id.number, LineageNumber(1));
}

#[test]
fn a_read_that_shows_it_after_all_ends_the_doubt_and_resets_nothing() {
    let (mut rows, mut host) = with(opened);
    put_commit(&mut rows, end(10, 2));
    host.feed(missing(end(10, 2)));
    assert_eq!(host.until, None);
    host.serve(&mut rows);
    let session = super::id("a", 7, 1);
    assert_eq!(
        host.take_events(),
        [SessionEvent::Lapsed { session: session.clone() }, SessionEvent::Resumed { session }]
    );
    assert_eq!(lineage(&rows).id.number, LineageNumber(0));
    host.run(&mut rows, 60_000);
    assert_eq!(host.take_events(), []);
}

#[test]
fn a_stale_read_alone_resets_nothing() {
    let (mut rows, mut host) = with(opened);
    put_commit(&mut rows, end(9, 1));
    let stale = rows.clone();
    put_commit(&mut rows, end(10, 2));
    host.feed(missing(end(10, 2)));
    // The read is answered by a replica that is behind: what it shows does not hold when the raise would be committed.
    let Some(Effect::Read { id, reads }) = host.requests.pop_front() else { panic!("no read") };
    host.feed(Input::ReadDone { id, result: Ok(stale.read(&reads, None).unwrap()) });
    host.run(&mut rows, 5_000);
    assert_eq!(lineage(&rows).id.number, LineageNumber(0));
    assert!(
        host.until.is_some()
            && !host.take_events().contains(&SessionEvent::Lost { session: super::id("a", 7, 1) })
    );
}

#[test]
fn a_greater_lineage_is_gone_along_with_and_not_raised() {
    let (mut rows, mut host) = with(opened);
    let raised = Lineage {
        id: LineageId { number: LineageNumber(3), nonce: Nonce(5) },
        greatest_lease: Duration::from_secs(30),
    };
    rows.apply(&Transaction::new().put(keys().lineage(), raised.to_value()));
    host.run(&mut rows, 3_000);
    assert_eq!(lineage(&rows), raised);
    let events = host.take_events();
    assert!(events.contains(&SessionEvent::Lost { session: super::id("a", 7, 1) }), "{events:?}");
    assert!(
        matches!(events.last(), Some(SessionEvent::Opened { session }) if session.number.0 == (3 << 40) + 1)
    );
    // Its old record was closed before.
    assert_eq!(host.core.current().len(), 2, "who comes later is told of the lineage, too");
}

#[test]
fn another_lineage_that_is_not_greater_is_a_second_loss() {
    let (mut rows, mut host) = with(opened);
    let of = |number, nonce| Lineage {
        id: LineageId { number: LineageNumber(number), nonce: Nonce(nonce) },
        greatest_lease: Duration::from_millis(S),
    };
    rows.apply(&Transaction::new().put(keys().lineage(), of(1, 5).to_value()));
    host.run(&mut rows, 3_000);
    rows.apply(&Transaction::new().put(keys().lineage(), of(1, 6).to_value()));
    host.run(&mut rows, 6_000);
    assert_eq!(lineage(&rows).id.number, LineageNumber(2));
}

#[test]
fn a_node_that_comes_a_day_late_begins_anew_and_raises_nothing() {
    let (mut rows, mut host) = with(opened);
    put_commit(&mut rows, end(9, 1));
    host.now = ms(24 * 3600 * 1000);
    host.feed(missing(end(10, 2)));
    host.serve(&mut rows);
    assert_eq!(lineage(&rows).id.number, LineageNumber(0));
    let events = host.take_events();
    assert!(events.contains(&SessionEvent::Lost { session: super::id("a", 7, 1) }), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, SessionEvent::Lineage { .. })), "{events:?}");
    assert!(
        matches!(events.last(), Some(SessionEvent::Opened { session }) if session.number.0 == 2),
        "{events:?}"
    );
}

#[test]
fn the_own_record_gone_and_nothing_else_raises_nothing() {
    let (mut rows, mut host) = with(opened);
    rows.apply(&Transaction::new().clear(keys().session(&node("a"))));
    host.run(&mut rows, 5_000);
    assert_eq!(lineage(&rows).id.number, LineageNumber(0));
    assert!(
        matches!(host.take_events().last(), Some(SessionEvent::Opened { session }) if session.number.0 == 2)
    );
}

#[test]
fn a_version_that_is_smaller_with_no_fact_gone_stops_nobody() {
    let (mut rows, mut host) = with(opened);
    let mut other = Host::opened("b", 8, &mut rows);
    host.run(&mut rows, 3_000);
    other.run(&mut rows, 3_000);
    // All that there is, in one commit.
    let everything = Read::Range { range: vec![]..vec![0xff], limit: 1000 };
    let everything = rows.read(&[everything], None).unwrap();
    let put = |all: Transaction, (key, value): &(Key, Value)| all.put(key.clone(), value.clone());
    rows = no_rows();
    rows.apply(&everything.entries(0).iter().fold(Transaction::new(), put));
    host.run(&mut rows, 30_000);
    assert!(host.until.is_some_and(|until| until > ms(30_000)), "it beats on");
    assert_eq!(
        host.take_events(),
        [SessionEvent::PeerClosed(super::id("b", 8, 1))],
        "and sees who is silent since"
    );
    assert_eq!(lineage(&rows).id.number, LineageNumber(0));
}

#[test]
fn what_is_missed_of_the_lineage_before_is_missed_no_more() {
    let (mut rows, mut host) = with(opened);
    put_commit(&mut rows, end(9, 1));
    host.feed(missing(end(10, 2)));
    host.run(&mut rows, 3_000);
    assert!(host.until.is_some() && lineage(&rows).id.number == LineageNumber(1));
    host.take_events();
    // An elector that was not told of the raise yet.
    host.feed(missing(end(10, 2)));
    assert!(host.until.is_some(), "it is trusted on");
    host.run(&mut rows, 6_000);
    assert_eq!((lineage(&rows).id.number, host.take_events()), (LineageNumber(1), Vec::new()));
    // What is missed of this one counts.
    let since = host.core.current().into_iter().find_map(|event| match event {
        SessionEvent::Lineage { since, .. } => Some(since),
        _ => None,
    });
    let facts = vec![(registry().commit(), Fact::Commit(end(first(2), 3)))];
    host.feed(Input::Missing { since, facts });
    host.run(&mut rows, 9_000);
    assert_eq!(lineage(&rows).id.number, LineageNumber(2));
}

#[test]
fn a_raise_that_was_not_answered_is_found() {
    let (mut rows, mut host) = with(opened);
    put_commit(&mut rows, end(9, 1));
    host.feed(missing(end(10, 2)));
    host.until_commit(&mut rows, 1_000);
    let (id, raise) = host.take_commit();
    assert!(
        raise.checks.iter().any(|check| check.key == registry().commit()),
        "what shows the loss is checked"
    );
    rows.apply(&raise);
    host.unknown(id);
    host.run(&mut rows, 1_000);
    assert_eq!(lineage(&rows).id.number, LineageNumber(1), "and not raised twice");
    assert!(host.until.is_some());
}

#[test]
fn nothing_is_doubted_twice_and_only_so_much_at_once() {
    let of = |position| (registry().log(Position(position)), Fact::Commit(end(position, 1)));
    for (facts, doubted) in
        [(vec![of(1), of(1)], 1), ((1..=16).map(of).collect(), 16), ((1..=20).map(of).collect(), 16)]
    {
        let mut host = with(opened).1;
        host.feed(Input::Missing { since: None, facts });
        let Some(Effect::Read { reads, .. }) = host.requests.pop_front() else { panic!("it looks") };
        // The own record, the floor and the lineage come first.
        assert_eq!(reads.len(), 3 + doubted);
    }
}

#[test]
fn a_loss_is_said_to_the_others_only_while_one_of_them_may_trust_what_is_lost() {
    for (at, number) in [(5_000 + S - 1, 1), (5_000 + S, 0)] {
        let (mut rows, mut host) = with(opened);
        put_commit(&mut rows, end(9, 1));
        host.now = ms(5_000);
        host.feed(missing(end(10, 2)));
        assert_eq!(host.until, None);
        // The store does not answer until then.
        host.requests.clear();
        host.sleep_to(at);
        host.serve(&mut rows);
        assert_eq!(lineage(&rows).id.number, LineageNumber(number), "at {at}");
        assert!(host.until.is_some());
    }
}

#[test]
fn a_node_with_a_shorter_lease_keeps_the_longest_one_when_it_opens_and_when_it_raises_the_lineage() {
    let mut rows = no_rows();
    let mut longer = Host::new("b", 8);
    let mut config = config("b", 8);
    config.timing = SessionTiming::for_lease(Duration::from_secs(20));
    longer.core = Session::new(config).unwrap();
    longer.feed(Input::Start);
    longer.run(&mut rows, 0);
    let mut host = Host::opened("a", 7, &mut rows);
    assert_eq!(lineage(&rows).greatest_lease, Duration::from_secs(20));
    put_commit(&mut rows, end(9, 1));
    host.feed(missing(end(10, 2)));
    host.serve(&mut rows);
    let raised = lineage(&rows);
    assert_eq!((raised.id.number, raised.greatest_lease), (LineageNumber(1), Duration::from_secs(20)));
}

#[test]
fn an_opening_with_a_lease_that_is_not_longer_leaves_the_lineage_as_it_is() {
    let mut rows = no_rows();
    let _first = Host::opened("a", 7, &mut rows);
    let mut host = Host::new("b", 8);
    host.feed(Input::Start);
    host.answer_next(&mut rows);
    let (_, opening) = host.take_commit();
    let lineage = keys().lineage();
    let writes = |write: &Write| matches!(write, Write::Put { key, .. } if *key == lineage);
    assert!(!opening.writes.iter().any(writes));
    assert!(opening.checks.iter().any(|check| check.key == lineage));
}
