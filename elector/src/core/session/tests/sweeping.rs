//! Sweeping away the records of sessions that are over.

use callsign_store::Write;

use super::*;

/// The sweeper of these histories: "o", opened at 0. It leads, and sweeps what was closed for 8 s.
fn sweeper(rows: &mut Mvcc, page: usize) -> Host {
    let mut host = Host::new("o", 1);
    let mut config = config("o", 1);
    (config.timing.sweep_after, config.timing.sweep_page) = (Duration::from_secs(8), page);
    host.core = Session::new(config).unwrap();
    host.feed(Input::Leads(true));
    host.feed(Input::Start);
    host.run(rows, 0);
    host.take_events();
    host
}

fn is_page(request: &Effect) -> bool {
    let sessions = keys().sessions();
    matches!(request, Effect::Read { reads, .. }
        if matches!(reads.get(1), Some(Read::Range { range, .. }) if sessions.contains(&range.start)))
}

/// Runs until a page is asked for, and takes that request. All others are answered.
fn until_page(host: &mut Host, rows: &mut Mvcc) -> (Time, RequestId, Vec<Read>) {
    for _ in 0..10_000 {
        if let Some(nth) = host.requests.iter().position(is_page)
            && let Some(Effect::Read { id, reads }) = host.requests.remove(nth)
        {
            return (host.now, id, reads);
        }
        host.serve_one(rows);
    }
    panic!("no page is asked for");
}

fn show(host: &mut Host, rows: &Mvcc, id: RequestId, reads: &[Read]) {
    host.feed(Input::ReadDone { id, result: Ok(rows.read(reads, None).unwrap()) });
}

/// Takes the commit that sweeps this node's record.
fn take_sweep(host: &mut Host, name: &str) -> (RequestId, Transaction) {
    let clears = Write::Clear(keys().session(&node(name)));
    let sweeps = |transaction: &Transaction| transaction.writes.contains(&clears);
    let is_sweep =
        |asked: &Effect| matches!(asked, Effect::Commit { transaction, .. } if sweeps(transaction));
    let nth = host.requests.iter().position(is_sweep).expect("a sweep");
    match host.requests.remove(nth) {
        Some(Effect::Commit { id, transaction }) => (id, transaction),
        other => panic!("{other:?} is no commit"),
    }
}

#[test]
fn what_was_closed_in_two_walks_an_age_apart_is_swept_by_a_leader_and_much_later_by_others() {
    for (leads, at) in [(true, 9_000), (false, 33_000)] {
        let mut rows = no_rows();
        put(&mut rows, "x", &closed(7, 5, 1));
        put(&mut rows, "y", &closed(8, 9, 1));
        put(&mut rows, "z", &closed(8, 2, 1));
        let mut host = sweeper(&mut rows, 100);
        host.feed(Input::Leads(leads));
        let are_left = |rows: &Mvcc| ["x", "y", "z"].map(|name| stored(rows, name).is_some());
        host.run(&mut rows, at - 1);
        assert_eq!(are_left(&rows), [true; 3]);
        host.run(&mut rows, at);
        assert_eq!(are_left(&rows), [false; 3]);
        let floor = SessionFloor::from_value(rows.get(&keys().session_floor()).unwrap());
        assert_eq!(floor, Ok(SessionFloor(SessionNumber(9))));
        assert!(stored(&rows, "o").is_some_and(|own| own.open));
    }
}

#[test]
fn a_page_that_cannot_be_had_is_asked_for_again_after_a_pause() {
    let mut rows = no_rows();
    put(&mut rows, "x", &closed(7, 5, 1));
    let mut host = sweeper(&mut rows, 100);
    let (at, id, _) = until_page(&mut host, &mut rows);
    assert_eq!(at, ms(1_000));
    host.feed(Input::ReadDone { id, result: Err(StoreError::Unavailable("down".to_owned())) });
    let (at, id, reads) = until_page(&mut host, &mut rows);
    assert_eq!(at, ms(2_000));
    // A floor that cannot be read is not raised.
    let mut unread = rows.clone();
    unread.apply(&Transaction::new().put(keys().session_floor(), vec![9]));
    show(&mut host, &unread, id, &reads);
    let (at, _, _) = until_page(&mut host, &mut rows);
    assert_eq!(at, ms(3_000));
    // This one is never answered, and is waited for as long as a lease.
    let (at, id, reads) = until_page(&mut host, &mut rows);
    assert_eq!(at, ms(3_000 + S + 1_000));
    show(&mut host, &rows, id, &reads);
    host.run(&mut rows, 3_000 + S + 1_000 + 8_000);
    assert_eq!(stored(&rows, "x"), None, "this walk was the first, and the next one follows");
}

#[test]
fn a_sweep_that_does_not_commit_is_tried_again_soon() {
    let mut rows = no_rows();
    put(&mut rows, "x", &closed(7, 5, 1));
    let mut host = sweeper(&mut rows, 100);
    host.run(&mut rows, 8_900);
    let (at, id, reads) = until_page(&mut host, &mut rows);
    assert_eq!(at, ms(9_000));
    show(&mut host, &rows, id, &reads);
    let (id, sweep) = take_sweep(&mut host, "x");
    let is_taken = |rows: &mut Mvcc| matches!(rows.apply(&sweep), CommitOutcome::Committed(_));
    assert!(is_taken(&mut rows.clone()), "as it was read, it commits");
    let mut altered = rows.clone();
    altered.apply(&Transaction::new().put(keys().lineage(), b"another lineage".to_vec()));
    assert!(!is_taken(&mut altered), "nothing is swept in another lineage");
    host.feed(Input::CommitDone { id, outcome: CommitOutcome::Conflict });
    let (at, id, reads) = until_page(&mut host, &mut rows);
    assert_eq!(at, ms(10_000), "not by the next walk");
    show(&mut host, &rows, id, &reads);
    host.serve(&mut rows);
    assert_eq!(stored(&rows, "x"), None);
}

#[test]
fn a_session_that_is_open_without_a_mark_is_found_by_a_walk_and_closed_when_it_is_silent() {
    let mut rows = no_rows();
    put_value(&mut rows, "a", record(7, 1, 1).to_value());
    let mut host = sweeper(&mut rows, 100);
    host.run(&mut rows, 1_000 + S);
    assert_eq!(stored(&rows, "a"), Some(record(7, 1, 1)), "the walk begins after a second");
    host.run(&mut rows, 1_000 + S + 1_500);
    assert_eq!(stored(&rows, "a"), Some(closed(7, 1, 1)));
    assert_eq!(host.take_events(), [SessionEvent::PeerClosed(id("a", 7, 1))]);
}

#[test]
fn as_many_records_are_swept_at_once_as_are_read_at_once_and_all_of_them_in_the_end() {
    for (page, most) in [(2, 2), (0, 1)] {
        let mut rows = no_rows();
        for name in ["p", "q", "r"] {
            put(&mut rows, name, &closed(7, 5, 1));
        }
        let mut host = sweeper(&mut rows, page);
        let (_, id, reads) = until_page(&mut host, &mut rows);
        assert!(matches!(&reads[1], Read::Range { limit, .. } if *limit == most), "{reads:?}");
        show(&mut host, &rows, id, &reads);
        host.run(&mut rows, 18_000);
        assert_eq!(["p", "q", "r"].map(|name| stored(&rows, name)), [None, None, None]);
    }
}
