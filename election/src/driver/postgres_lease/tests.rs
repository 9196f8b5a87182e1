use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use callsign_store::testing::postgres::Server;
use futures::future::join_all;

use super::*;
use crate::core::term::Term;

mod bed;
mod campaign;
mod conformance;
mod faults;

use bed::{Member, TEST_DEADLINE, at_random, denied, election, expire, granted, rows, sql};

/// A server, or the end of the test where there is none.
macro_rules! server {
    () => {
        match Server::start() {
            Some(server) => server,
            None => return,
        }
    };
}
use server;

fn short(lease: Duration) -> PostgresLeaseOptions {
    PostgresLeaseOptions { lease, ..PostgresLeaseOptions::default() }
}

#[tokio::test]
async fn a11_wrong_durations_and_ids_are_refused_and_a_used_up_counter_is_an_error() {
    for lease in [Duration::ZERO, Duration::from_micros(999), MAX_LEASE + Duration::from_nanos(1)] {
        let refused = PostgresLease::new("postgres://h/d", short(lease)).unwrap_err();
        assert!(matches!(refused, WrongLease::Duration(said) if said == lease), "{refused}");
    }
    let refused = PostgresLease::new("postgres:nonsense", short(Duration::from_secs(1))).unwrap_err();
    assert!(matches!(refused, WrongLease::Url(_)), "{refused}");
    for name in [String::new(), "m".repeat(101)] {
        assert!(MemberId::new(&name).is_err() && ElectionName::new(&name).is_err());
    }

    let server = server!();
    let mut a = Member::on(&server, "a").await;
    let held = a.win().await;
    let used_up = "UPDATE callsign.lease_v1 SET ballot = 9223372036854775807";
    sql(&server).await.batch_execute(used_up).await.unwrap();
    let before = rows(&server).await;
    for asked in [a.0.claim(at_random()).await, a.0.refresh(at_random(), &held).await] {
        assert!(matches!(&asked, Err(Fault::Fatal(why)) if why.contains("no more ballots")), "{asked:?}");
    }
    assert_eq!(rows(&server).await, before, "nothing was written");
}

#[tokio::test]
async fn d1_d3_b1_j10_an_empty_and_a_held_seat() {
    let server = server!();
    let (mut a, mut b) = (Member::on(&server, "a").await, Member::on(&server, "b").await);
    let held = a.win().await;
    assert_eq!((held.term.leader.as_str(), held.term.epoch.0), ("a", held.fence.ballot.0));
    assert_eq!(held.fence.epoch, held.term.epoch, "a fence comes with every grant");
    let lease = PostgresLeaseOptions::default().lease;
    assert_eq!(held.refresh_in, Some(lease / 3));
    assert!(matches!(held.validity, Validity::For(left) if left <= lease && left > lease / 2));

    let before = rows(&server).await;
    let denial = b.lose().await;
    assert_eq!((denial.why, denial.leader), (Refusal::Held, Some(held.term.clone())));
    assert_eq!(rows(&server).await, before, "byte-identical");

    // A resigned seat is as good as a never-used one.
    assert!(a.resign(&held).await);
    let next = b.win().await;
    assert!(next.fence.epoch > held.fence.epoch);
}

#[tokio::test]
async fn h5_d2_of_fifty_that_come_at_once_to_an_empty_database_one_wins() {
    let server = server!();
    let url = server.url("postgres");
    // Ten whose connections all meet a database without the table; more would only wait for each other.
    let names: Vec<_> = (0..50).map(|n| format!("m{n}")).collect();
    let mut members =
        join_all(names[..10].iter().map(|name| Member::at(&url, name, short(TEST_DEADLINE)))).await;
    join_all(members.iter().map(async |member| {
        let (seat, ..) = member.0.taking_part().unwrap();
        bed::until_known(async || seat.raw().await).await
    }))
    .await;
    members
        .extend(join_all(names[10..].iter().map(|name| Member::at(&url, name, short(TEST_DEADLINE)))).await);
    let verdicts = join_all(members.iter_mut().map(|member| {
        let attempt = at_random();
        async move { bed::until_known(async || member.0.claim(attempt).await).await }
    }));
    let (mut won, mut lost) = (Vec::new(), Vec::new());
    for verdict in verdicts.await {
        match verdict {
            Verdict::Granted(grant) => won.push(grant.term),
            Verdict::Denied(denial) => lost.push(denial.leader),
        }
    }
    assert_eq!((won.len(), lost.len()), (1, 49));
    assert!(lost.iter().all(|leader| leader.as_ref() == won.first()), "every denial names the winner");
    let tables = "SELECT count(*), min(relpersistence::text) FROM pg_class WHERE relname = 'lease_v1'";
    let one = sql(&server).await.query_one(tables, &[]).await.unwrap();
    assert_eq!((one.get::<_, i64>(0), one.get::<_, &str>(1)), (1, "p"), "one table, and it is logged");
}

#[tokio::test]
async fn a1_a2_two_processes_of_one_name_do_not_both_win_and_one_is_told() {
    let server = server!();
    let (mut first, mut second) = (Member::on(&server, "a").await, Member::on(&server, "a").await);
    let held = first.win().await;
    let denial = second.lose().await;
    assert_eq!((denial.why, denial.leader), (Refusal::DuplicateIdentity, Some(held.term.clone())));
    // Nor does it go on with the term of the other, by what it overheard.
    let denial = denied(second.refresh(&held).await);
    assert_eq!(denial.why, Refusal::TermOver);
    assert!(!second.resign(&held).await);
    granted(first.refresh(&held).await);
    // A restart waits, and begins anew.
    expire(&server).await;
    let next = second.win().await;
    assert!(next.term.epoch > held.term.epoch);
}

#[tokio::test]
async fn c1_who_claims_on_wins_as_soon_as_the_lease_of_a_silent_leader_ends() {
    let server = server!();
    let lease = Duration::from_millis(300);
    let url = server.url("postgres");
    let mut a = Member::at(&url, "a", short(lease)).await;
    let mut b = Member::at(&url, "b", short(lease)).await;
    let held = a.win().await;
    let next = async {
        loop {
            match b.claim().await {
                Verdict::Granted(grant) => return grant,
                Verdict::Denied(denial) => assert_eq!(denial.why, Refusal::Held),
            }
        }
    };
    let next = tokio::time::timeout(TEST_DEADLINE, next).await.unwrap();
    let after = Duration::from_micros(next.term.elected_at.0 - held.term.elected_at.0);
    assert!(after >= lease, "not before: {after:?}");
}

#[tokio::test]
async fn c2_a8_only_the_clock_of_the_database_counts() {
    let server = server!();
    let (early, late) = ("Etc/GMT%2B12", "Pacific/Kiritimati");
    // Clocks of members are not read at all; what they can have wrong is what they tell the server of their zone.
    let at = |zone| format!("{}?options=-c%20TimeZone%3D{zone}", server.url("postgres"));
    let mut a = Member::at(&at(early), "a", PostgresLeaseOptions::default()).await;
    let mut b = Member::at(&at(late), "b", PostgresLeaseOptions::default()).await;
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
    for _ in 0..2 {
        let before: i64 = sql(&server).await.query_one(now, &[]).await.unwrap().get(0);
        let held = a.win().await;
        let after: i64 = sql(&server).await.query_one(now, &[]).await.unwrap().get(0);
        let elected_at = i64::try_from(held.term.elected_at.0).unwrap();
        assert!((before..=after).contains(&elected_at), "{before} {elected_at} {after}");
        assert_eq!(b.lose().await.why, Refusal::Held);
        expire(&server).await;
        assert_eq!(denied(a.refresh(&held).await).why, Refusal::TermOver);
        std::mem::swap(&mut a, &mut b);
    }
}

#[tokio::test]
async fn a3_d5_d6_j10_what_belongs_to_an_earlier_term_changes_nothing() {
    let server = server!();
    let (mut a, mut b) = (Member::on(&server, "a").await, Member::on(&server, "b").await);
    let first = a.win().await;
    assert!(a.resign(&first).await);
    assert!(!a.resign(&first).await, "there is nothing to give");
    // Also when the clock reads the same.
    let second = a.win().await;
    assert_ne!(Term { elected_at: first.term.elected_at, ..second.term.clone() }, first.term);
    let before = rows(&server).await;
    assert_eq!(denied(a.refresh(&first).await).why, Refusal::TermOver);
    assert!(!a.resign(&first).await);
    // And what belongs to somebody else.
    assert_eq!(denied(b.refresh(&second).await).why, Refusal::TermOver);
    assert!(!b.resign(&second).await);
    assert_eq!(rows(&server).await, before);
    assert!(a.resign(&second).await);
}

#[tokio::test]
async fn d11_what_is_valid_and_what_is_there() {
    let server = server!();
    let seat = PostgresSeat::connect(&server.url("postgres"), election("seat")).unwrap();
    assert_eq!((seat.leader().await, seat.raw().await), (Ok(None), Ok(None)));
    let mut a = Member::on(&server, "a").await;
    let held = a.win().await;
    assert_eq!(seat.leader().await, Ok(Some(held.term.clone())));
    assert_eq!(seat.is_leader(&held.term).await, Ok(true));
    expire(&server).await;
    assert_eq!(seat.leader().await, Ok(None));
    assert_eq!(seat.is_leader(&held.term).await, Ok(false));
    let raw = seat.raw().await.unwrap().unwrap();
    assert_eq!(
        raw,
        SeatRow { term: Some(held.term.clone()), ballot: held.fence.ballot, left: Duration::ZERO }
    );
    // Who has never looked before knows it, too: the database's clock says it, and nobody has to watch.
    let fresh = PostgresSeat::connect(&server.url("postgres"), election("seat")).unwrap();
    assert_eq!((fresh.leader().await, fresh.is_leader(&held.term).await), (Ok(None), Ok(false)));
    assert_eq!(fresh.raw().await, Ok(Some(raw)));
}

#[tokio::test]
async fn h4_i1_i4_d13_news_reach_the_others_of_the_same_election_and_nobody_else() {
    let server = server!();
    let url = server.url("postgres");
    let mut a = Member::on(&server, "a").await;
    let mut b = Member::on(&server, "b").await;
    let mut other = Member::of("other", &url, "a", PostgresLeaseOptions::default()).await;
    let here = a.win().await;
    let there = other.win().await;
    assert_eq!(here.term.leader, there.term.leader, "both lead, each its own");
    b.lose().await;
    let (mut to_a, mut to_b, mut to_other) = (a.0.signals(), b.0.signals(), other.0.signals());
    assert!(a.resign(&here).await);
    let next = async |signals: &mut BoxStream<'static, Signal>| {
        tokio::time::timeout(TEST_DEADLINE, signals.next()).await.unwrap()
    };
    assert_eq!(next(&mut to_b).await, Some(Signal::Wakeup), "a resignation wakes the others");
    let here = b.win().await;
    let seat = PostgresSeat::connect(&url, election("seat")).unwrap();
    let epoch = here.term.epoch;
    assert_eq!(seat.request_resign(Some(Epoch(epoch.0 - 1))).await, Ok(None), "it is over");
    for which in [None, Some(epoch)] {
        assert_eq!(seat.request_resign(which).await, Ok(Some(epoch)));
        // The first that comes: its own resignation did not.
        assert_eq!(next(&mut to_a).await, Some(Signal::ResignRequested { epoch: Some(epoch) }));
        assert_eq!(next(&mut to_b).await, Some(Signal::ResignRequested { epoch: Some(epoch) }));
    }
    let elsewhere = PostgresSeat::connect(&url, election("other")).unwrap();
    let epoch = there.term.epoch;
    assert_eq!(elsewhere.request_resign(Some(epoch)).await, Ok(Some(epoch)));
    assert_eq!(next(&mut to_other).await, Some(Signal::ResignRequested { epoch: Some(epoch) }));
    granted(other.refresh(&there).await);
}

#[tokio::test]
async fn i1_a_request_to_resign_that_comes_late_is_not_about_the_next_leader() {
    let server = server!();
    let mut a = Member::on(&server, "a").await;
    let mut b = Member::on(&server, "b").await;
    let seat = PostgresSeat::connect(&server.url("postgres"), election("seat")).unwrap();
    assert_eq!(seat.request_resign(None).await, Ok(None), "nobody leads yet");
    let first = a.win().await;
    b.lose().await;
    // From now on: that it listens, which is a wake-up, too, was said before it lost.
    let mut to_b = b.0.signals();
    assert_eq!(seat.request_resign(None).await, Ok(Some(first.term.epoch)));
    assert!(a.resign(&first).await);
    assert_eq!(seat.request_resign(None).await, Ok(None), "nobody leads now");
    let second = b.win().await;
    // It reads only now what was said before it led.
    let late = tokio::time::timeout(TEST_DEADLINE, to_b.next()).await.unwrap();
    assert_eq!(late, Some(Signal::ResignRequested { epoch: Some(first.term.epoch) }));
    assert_ne!(first.term.epoch, second.term.epoch);
    expire(&server).await;
    assert_eq!(seat.request_resign(None).await, Ok(None), "its lease is over");
}

#[tokio::test]
async fn j4_options_may_name_another_election_and_priority_0_never_leads() {
    let server = server!();
    let url = server.url("postgres");
    let options = PostgresLeaseOptions { election: Some(election("theirs")), ..Default::default() };
    let held = Member::at(&url, "a", options).await.win().await;
    let theirs = PostgresSeat::connect(&url, election("theirs")).unwrap();
    assert_eq!(theirs.leader().await, Ok(Some(held.term)));
    let options = PostgresLeaseOptions { priority: 0, ..Default::default() };
    let denial = Member::at(&url, "b", options).await.lose().await;
    assert_eq!((denial.why, denial.leader), (Refusal::Ineligible, None));
}

/// Many members over one row, leases that end while they are used, stale refreshes and resignations of all kinds.
#[tokio::test]
async fn a4_a6_d2_a_crowd_never_gets_a_ballot_or_an_epoch_twice() {
    let server = server!();
    let url = server.url("postgres");
    // How often the seat changes hands is luck: all go on until it has often enough.
    let epochs = Mutex::new(BTreeSet::new());
    let has_changed = || epochs.lock().unwrap().len() > 8;
    let (epochs, has_changed) = (&epochs, &has_changed);
    let crowd = (0..8).map(|n| {
        let url = url.clone();
        async move {
            // Two share each name.
            let mut me = Member::at(&url, &format!("m{}", n / 2), short(Duration::from_millis(20))).await;
            let mut all: Vec<Grant<Fence>> = Vec::new();
            let mut turns = 0;
            while turns < 150 || !has_changed() {
                turns += 1;
                let before = all.len();
                let verdict = match (rand::random_range(0..10), all.last().cloned()) {
                    (0, Some(held)) => {
                        bed::until_known(async || me.0.abdicate(&held).await).await;
                        continue;
                    }
                    (1..=4, Some(_)) => {
                        let held = all[rand::random_range(0..before)].clone();
                        bed::until_known(async || me.0.refresh(at_random(), &held).await).await
                    }
                    _ => bed::until_known(async || me.0.claim(at_random()).await).await,
                };
                if let Verdict::Granted(grant) = verdict {
                    epochs.lock().unwrap().insert(grant.term.epoch);
                    all.push(grant);
                }
            }
            all
        }
    });
    let all: Vec<_> = join_all(crowd).await.into_iter().flatten().collect();
    let ballots: BTreeSet<_> = all.iter().map(|grant| grant.fence.ballot).collect();
    assert_eq!(ballots.len(), all.len(), "no ballot twice");
    let mut terms = BTreeMap::new();
    for grant in &all {
        let before = terms.insert(grant.term.epoch, grant.term.clone());
        assert!(before.is_none_or(|before| before == grant.term), "one term per epoch");
    }
    let times: Vec<_> = terms.values().map(|term| term.elected_at).collect();
    assert!(times.is_sorted(), "later epochs were won later");
    let refreshes = all.len() - terms.len();
    println!("{} terms, {refreshes} refreshes", terms.len());
    assert!(terms.len() > 8 && refreshes > 0, "something happened");
}
