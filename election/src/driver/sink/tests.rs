use std::sync::Arc;

use bytes::Bytes;
use callsign_store::{
    ids::{Ballot, Epoch, Nonce},
    keys::read_key,
    memory::{Fate, Fault, MemoryStore},
    open,
};
use futures::future::join;

use super::*;
use crate::tests::stores::{Faulty, on_every_store, only_here};

on_every_store! {
    b1_b2_the_write_of_an_old_leader_that_stopped_before_its_commit_is_refused
    b2_a_seal_is_enough_and_keeps_the_value
    a7_b2_a_leader_of_two_terms_does_not_write_with_the_first
    b3_a_register_is_written_once_for_each_rank_and_never_behind_a_reader
    b3_a_value_larger_than_a_value_of_the_store_is_whole_at_every_version
    b4_what_belongs_to_another_domain_is_refused
    b5_a_refresh_fences_ones_own_older_ballot_and_no_epoch
    b8_a_token_of_a_stranger_is_judged_by_the_sink
    an_unknown_write_is_done_once
    an_unknown_write_that_others_came_over_stays_unknown
    an_unknown_write_of_a_register_is_done_once
    an_outage_is_told_from_a_refusal
}

fn key(name: &str) -> callsign_store::Key {
    only_here(&format!("app/{name}")).into_bytes()
}

fn fence(epoch: u64, ballot: u64) -> Fence {
    Fence { epoch: Epoch(epoch), ballot: Ballot(ballot) }
}

fn epoch(n: u64) -> Token<ByEpoch> {
    fence(n, n).into()
}

fn ballot(n: u64) -> Token<ByBallot> {
    fence(1, n).into()
}

fn cell<D: Domain>(store: &SharedStore) -> FencedCell<D> {
    FencedCell::new(store.clone(), key("cell"))
}

fn register(store: &SharedStore) -> RankedRegister<ByBallot> {
    RankedRegister::new(store.clone(), key("register"))
}

async fn bytes(store: &SharedStore) -> Option<Vec<u8>> {
    store.read(vec![read_key(key("cell"))]).await.unwrap().value(0).cloned()
}

async fn value<D: Domain>(cell: &FencedCell<D>) -> Option<Bytes> {
    cell.read().await.unwrap().unwrap().value
}

async fn b1_b2_the_write_of_an_old_leader_that_stopped_before_its_commit_is_refused(store: SharedStore) {
    let old = Faulty::over(&store);
    let (mine, theirs) = (cell(&old.shared()), cell(&store));
    mine.write(epoch(1), "first", Nonce(1)).await.unwrap();
    old.pause();
    let late = mine.write(epoch(1), "late", Nonce(2));
    let meanwhile = async {
        old.has_stopped().await;
        theirs.write(epoch(2), "new", Nonce(3)).await.unwrap();
        let after = bytes(&store).await;
        old.go_on();
        after
    };
    let (late, after) = join(late, meanwhile).await;
    assert_eq!(late, Err(SinkError::Fenced { by: epoch(2) }));
    assert_eq!(bytes(&store).await, after, "it changed nothing");
    assert_eq!(value(&theirs).await, Some("new".into()));
}

async fn b2_a_seal_is_enough_and_keeps_the_value(store: SharedStore) {
    let old = Faulty::over(&store);
    let (mine, theirs) = (cell(&old.shared()), cell(&store));
    mine.write(epoch(1), "kept", Nonce(1)).await.unwrap();
    old.pause();
    let late = mine.write(epoch(1), "late", Nonce(2));
    let meanwhile = async {
        old.has_stopped().await;
        theirs.seal(epoch(2)).await.unwrap();
        old.go_on();
    };
    assert_eq!(join(late, meanwhile).await.0, Err(SinkError::Fenced { by: epoch(2) }));
    let content = theirs.read().await.unwrap().unwrap();
    assert_eq!((content.greatest, content.value), (epoch(2), Some("kept".into())));
    let after = bytes(&store).await;
    theirs.seal(epoch(2)).await.unwrap();
    assert_eq!(bytes(&store).await, after, "done twice it is done");
    assert_eq!(theirs.seal(epoch(1)).await, Err(SinkError::Fenced { by: epoch(2) }));
    theirs.write(epoch(2), "new", Nonce(3)).await.unwrap();
}

async fn a7_b2_a_leader_of_two_terms_does_not_write_with_the_first(store: SharedStore) {
    let paused = Faulty::over(&store);
    let (first, second) = (cell(&paused.shared()), cell(&store));
    paused.pause();
    let late = first.write(epoch(1), "of the first term", Nonce(1));
    let meanwhile = async {
        paused.has_stopped().await;
        // Somebody else led in epoch 2; the same member again in 3.
        second.write(epoch(3), "of the third", Nonce(2)).await.unwrap();
        paused.go_on();
    };
    assert_eq!(join(late, meanwhile).await.0, Err(SinkError::Fenced { by: epoch(3) }));
    assert_eq!(value(&second).await, Some("of the third".into()));
}

async fn b3_a_register_is_written_once_for_each_rank_and_never_behind_a_reader(store: SharedStore) {
    let register = register(&store);
    let fenced = |by| Err(SinkError::Fenced { by: ballot(by) });
    assert_eq!(register.value().await, Ok(None));
    assert_eq!(register.read(ballot(5)).await, Ok(None));
    assert_eq!(register.write(ballot(4), "four", Nonce(4)).await, fenced(5));
    assert_eq!(register.write(ballot(5), "five", Nonce(5)).await, Ok(()));
    assert_eq!(register.write(ballot(5), "again", Nonce(6)).await, fenced(5));
    assert_eq!(register.write(ballot(5), "five", Nonce(5)).await, Ok(()), "the same write");
    assert_eq!(register.value().await, Ok(Some("five".into())));
    // A value that is only looked at never fences: who has the next rank writes.
    for _ in 0..3 {
        register.value().await.unwrap();
    }
    assert_eq!(register.write(ballot(6), "six", Nonce(7)).await, Ok(()));
    assert_eq!(register.read(ballot(5)).await.map(|_| ()), fenced(6), "behind a write");
    assert_eq!(register.read(ballot(9)).await, Ok(Some("six".into())));
    assert_eq!(register.write(ballot(8), "eight", Nonce(8)).await, fenced(9));
    assert_eq!(register.read(ballot(8)).await.map(|_| ()), fenced(9));
    assert_eq!(register.read(ballot(9)).await, Ok(Some("six".into())), "done twice it is done");
    assert_eq!(register.write(ballot(9), "nine", Nonce(9)).await, Ok(()));
    assert_eq!(register.value().await, Ok(Some("nine".into())));
}

async fn b3_a_value_larger_than_a_value_of_the_store_is_whole_at_every_version(store: SharedStore) {
    let register = register(&store);
    let limits = store.limits();
    let large = |fill: u8, length| Bytes::from(vec![fill; length]);
    for (rank, length) in [(1, limits.value * 3 + 7), (2, 10), (3, 0), (4, limits.value), (5, 90_000)] {
        let fill = u8::try_from(rank).unwrap();
        register.write(ballot(rank), large(fill, length), Nonce(rank)).await.unwrap();
        assert_eq!(register.value().await, Ok(Some(large(fill, length))), "{length} bytes");
    }
    let refused = register.write(ballot(6), large(6, limits.transaction + 1), Nonce(6)).await;
    assert!(matches!(refused, Err(SinkError::TooLarge(_))), "{refused:?}");
    assert_eq!(register.value().await, Ok(Some(large(5, 90_000))));
    let refused = cell(&store).write(epoch(1), large(1, limits.value), Nonce(1)).await;
    assert!(matches!(refused, Err(SinkError::TooLarge(_))), "{refused:?}");
    // A piece that is gone is not a shorter value.
    let broken = callsign_store::Transaction::new().clear([key("register"), b"/00000000".to_vec()].concat());
    assert!(matches!(store.commit(broken).await, CommitOutcome::Committed(_)));
    assert!(matches!(register.value().await, Err(SinkError::Corrupt(_))));
    assert!(matches!(register.read(ballot(7)).await, Err(SinkError::Corrupt(_))));
}

async fn b4_what_belongs_to_another_domain_is_refused(store: SharedStore) {
    // By other programs, in bytes; for this one it does not compile, see the module.
    let from_outside = ballot(99).to_bytes();
    assert_eq!(Token::<ByEpoch>::from_bytes(&from_outside), Err(ForeignToken::OtherDomain(b'b')));
    assert_eq!(Token::<ByBallot>::from_bytes(&from_outside), Ok(ballot(99)));
    for (length, bytes) in [(0, &[][..]), (8, &from_outside[..8]), (10, &[b'e'; 10][..])] {
        assert_eq!(Token::<ByEpoch>::from_bytes(bytes), Err(ForeignToken::Length(length)));
    }
    // And what is stored in one is not taken for the other, nor for a register.
    cell(&store).write(epoch(1), "mine", Nonce(1)).await.unwrap();
    let before = bytes(&store).await;
    let theirs = cell::<ByBallot>(&store);
    let refused = theirs.write(ballot(99), "theirs", Nonce(2)).await;
    assert_eq!(refused, Err(SinkError::OtherDomain { found: "a cell in epoch mode".to_owned() }));
    assert!(matches!(theirs.read().await, Err(SinkError::OtherDomain { .. })));
    let register = RankedRegister::<ByEpoch>::new(store.clone(), key("cell"));
    assert!(matches!(register.read(epoch(99)).await, Err(SinkError::OtherDomain { .. })));
    assert_eq!(bytes(&store).await, before);
    // What nobody can read is not "nothing".
    let garbage = callsign_store::Transaction::new().put(key("cell"), b"\x01garbage".to_vec());
    assert!(matches!(store.commit(garbage).await, CommitOutcome::Committed(_)));
    let refused = cell(&store).write(epoch(2), "over it", Nonce(3)).await;
    assert!(matches!(refused, Err(SinkError::Corrupt(_))), "{refused:?}");
}

async fn b5_a_refresh_fences_ones_own_older_ballot_and_no_epoch(store: SharedStore) {
    let (won, refreshed) = (fence(7, 7), fence(7, 8));
    let by_ballot = cell::<ByBallot>(&store);
    by_ballot.write(won.into(), "1", Nonce(1)).await.unwrap();
    by_ballot.write(refreshed.into(), "2", Nonce(2)).await.unwrap();
    let late = by_ballot.write(won.into(), "3", Nonce(3)).await;
    assert_eq!(late, Err(SinkError::Fenced { by: ballot(8) }));
    let by_epoch = FencedCell::<ByEpoch>::new(store.clone(), key("other"));
    by_epoch.write(refreshed.into(), "1", Nonce(1)).await.unwrap();
    by_epoch.write(won.into(), "2", Nonce(2)).await.unwrap();
    assert_eq!(value(&by_epoch).await, Some("2".into()));
}

async fn b8_a_token_of_a_stranger_is_judged_by_the_sink(store: SharedStore) {
    let cell = cell::<ByEpoch>(&store);
    cell.seal(fence(5, 9).into()).await.unwrap();
    let greatest = cell.read().await.unwrap().unwrap().greatest;
    let judged = |bytes: [u8; 9]| Token::<ByEpoch>::from_bytes(&bytes).map(|token| token.cmp(&greatest));
    assert_eq!(judged(epoch(4).to_bytes()), Ok(std::cmp::Ordering::Less));
    assert_eq!(judged(epoch(5).to_bytes()), Ok(std::cmp::Ordering::Equal));
    let refused = cell.write(Token::from_bytes(&epoch(4).to_bytes()).unwrap(), "late", Nonce(1)).await;
    assert_eq!(refused, Err(SinkError::Fenced { by: epoch(5) }));
}

async fn an_unknown_write_is_done_once(store: SharedStore) {
    for (n, fate) in (1..).zip([Fate::Applied, Fate::NotApplied, Fate::LandsLater]) {
        let faulty = Faulty::over(&store);
        let cell = cell::<ByEpoch>(&faulty.shared());
        faulty.lose(fate);
        cell.write(epoch(1), format!("{n}"), Nonce(n)).await.unwrap();
        let after = bytes(&store).await;
        faulty.land().await;
        assert_eq!(bytes(&store).await, after, "{fate:?}: what lands late finds itself done");
        // The caller was cancelled, say, and calls again.
        cell.write(epoch(1), format!("{n}"), Nonce(n)).await.unwrap();
        assert_eq!(bytes(&store).await, after, "{fate:?}");
        assert_eq!(value(&cell).await, Some(format!("{n}").into()));
    }
}

async fn an_unknown_write_that_others_came_over_stays_unknown(store: SharedStore) {
    let faulty = Faulty::over(&store);
    let (mine, theirs) = (cell::<ByEpoch>(&faulty.shared()), cell::<ByEpoch>(&store));
    for (n, fate) in [(10, Fate::Applied), (20, Fate::NotApplied)] {
        // Its answer is lost, and before it looks others write twice.
        faulty.lose(fate);
        faulty.pause();
        let late = mine.write(epoch(n), "mine", Nonce(n));
        let meanwhile = async {
            faulty.has_stopped().await;
            theirs.write(epoch(n + 1), "one", Nonce(n + 1)).await.unwrap();
            theirs.write(epoch(n + 2), "two", Nonce(n + 2)).await.unwrap();
            faulty.go_on();
        };
        assert_eq!(join(late, meanwhile).await.0, Err(SinkError::Unknown), "{fate:?}");
        assert_eq!(value(&theirs).await, Some("two".into()));
    }
    // One change only, and not mine: mine was not there, and never will be. That is certain.
    faulty.lose(Fate::NotApplied);
    faulty.pause();
    let late = mine.write(epoch(30), "mine", Nonce(30));
    let meanwhile = async {
        faulty.has_stopped().await;
        theirs.write(epoch(31), "one", Nonce(31)).await.unwrap();
        faulty.go_on();
    };
    assert_eq!(join(late, meanwhile).await.0, Err(SinkError::Fenced { by: epoch(31) }));
}

async fn an_unknown_write_of_a_register_is_done_once(store: SharedStore) {
    let faulty = Faulty::over(&store);
    let register = register(&faulty.shared());
    for (n, fate) in (1..).zip([Fate::Applied, Fate::NotApplied, Fate::LandsLater]) {
        faulty.lose(fate);
        assert_eq!(register.read(ballot(n)).await.map(drop), Ok(()), "{fate:?}");
        faulty.lose(fate);
        register.write(ballot(n), format!("{n}"), Nonce(n)).await.unwrap();
        faulty.land().await;
        let refused = register.write(ballot(n), "again", Nonce(99)).await;
        assert_eq!(refused, Err(SinkError::Fenced { by: ballot(n) }), "{fate:?}: it was done, and once");
        assert_eq!(register.value().await, Ok(Some(format!("{n}").into())));
    }
}

async fn an_outage_is_told_from_a_refusal(store: SharedStore) {
    let faulty = Faulty::over(&store);
    let cell = cell::<ByEpoch>(&faulty.shared());
    faulty.set_down(true);
    let refused = cell.write(epoch(1), "1", Nonce(1)).await;
    assert!(matches!(refused, Err(SinkError::Unavailable(_))), "{refused:?}");
    assert!(matches!(register(&faulty.shared()).value().await, Err(SinkError::Unavailable(_))));
    faulty.set_down(false);
    // Unknown, and nobody left to ask: it stays unknown.
    faulty.lose(Fate::LandsLater);
    faulty.pause();
    let asked = cell.write(epoch(1), "1", Nonce(1));
    let cut = async {
        faulty.has_stopped().await;
        faulty.set_down(true);
        faulty.go_on();
    };
    assert_eq!(join(asked, cut).await.0, Err(SinkError::Unknown));
    faulty.set_down(false);
    faulty.land().await;
    cell.write(epoch(1), "1", Nonce(1)).await.unwrap();
    assert_eq!(value(&cell).await, Some("1".into()));
}

#[tokio::test]
async fn b2_no_sink_takes_a_token_below_its_greatest_whoever_comes_when() {
    let store = open("memory:").unwrap();
    let cell = cell::<ByEpoch>(&store);
    let mut greatest = 0;
    for n in 0..500 {
        let token = rand::random_range(0..50);
        let taken = cell.write(epoch(token), format!("{token}"), Nonce(n)).await;
        if token >= greatest {
            assert_eq!(taken, Ok(()));
            greatest = token;
        } else {
            assert_eq!(taken, Err(SinkError::Fenced { by: epoch(greatest) }));
        }
        assert_eq!(value(&cell).await, Some(format!("{greatest}").into()));
    }
}

#[tokio::test]
async fn a_sink_that_others_write_to_all_the_time_is_busy_unless_a_try_may_have_been_carried_out() {
    let line = MemoryStore::new();
    let store: SharedStore = Arc::new(line.clone());
    let cell = cell::<ByEpoch>(&store);
    let conflicts = |many: usize| {
        for _ in 0..many {
            line.inject(Fault::Conflict);
        }
    };
    conflicts(CHANGE_TRIES);
    let refused = cell.write(epoch(1), "1", Nonce(1)).await;
    assert!(matches!(refused, Err(SinkError::Unavailable(_))), "{refused:?}");
    assert_eq!(cell.read().await, Ok(None));
    conflicts(CHANGE_TRIES - 1);
    assert_eq!(cell.write(epoch(1), "1", Nonce(1)).await, Ok(()), "with the last try");
    line.inject(Fault::Unknown(Fate::LandsLater));
    conflicts(CHANGE_TRIES - 1);
    assert_eq!(cell.write(epoch(1), "2", Nonce(2)).await, Err(SinkError::Unknown));
}

#[tokio::test]
async fn an_outage_after_an_unknown_write_that_is_known_not_to_be_there_is_certain() {
    let data = MemoryStore::new();
    let line = data.connect("mine");
    let faulty = Faulty::over(&(Arc::new(line.clone()) as SharedStore));
    let (mine, theirs) =
        (cell::<ByEpoch>(&faulty.shared()), cell::<ByEpoch>(&(Arc::new(data) as SharedStore)));
    faulty.lose(Fate::NotApplied);
    faulty.pause();
    let late = mine.write(epoch(5), "mine", Nonce(1));
    let meanwhile = async {
        faulty.has_stopped().await;
        theirs.write(epoch(4), "theirs", Nonce(2)).await.unwrap();
        line.inject(Fault::Unavailable);
        faulty.go_on();
    };
    let refused = join(late, meanwhile).await.0;
    assert!(matches!(refused, Err(SinkError::Unavailable(_))), "{refused:?}");
    assert_eq!(value(&theirs).await, Some("theirs".into()));
}

#[tokio::test]
async fn an_unknown_write_of_a_register_stays_unknown_if_others_may_have_come_over_it() {
    let store = open("memory:").unwrap();
    let faulty = Faulty::over(&store);
    let (mine, theirs) = (register(&faulty.shared()), register(&store));
    let fenced = Err(SinkError::Fenced { by: ballot(21) });
    for (n, fate, expected) in [(10, Fate::Applied, Err(SinkError::Unknown)), (20, Fate::NotApplied, fenced)]
    {
        faulty.lose(fate);
        faulty.pause();
        let late = mine.write(ballot(n), "mine", Nonce(n));
        let meanwhile = async {
            faulty.has_stopped().await;
            theirs.write(ballot(n + 1), "theirs", Nonce(n + 1)).await.unwrap();
            faulty.go_on();
        };
        assert_eq!(join(late, meanwhile).await.0, expected, "{fate:?}");
    }
}
