//! What a store makes of answers that etcd gives only on bad days, and of those that it does not give.

use h2::Reason;

use super::{
    super::wire::{Compare, WatchWish},
    scripted::{Say, Scripted},
    *,
};

/// A store over a server that says these things to commits.
async fn scripted(user: &'static str, script: Vec<Say>) -> (Scripted, EtcdStore) {
    let server = Scripted::start(script).await;
    let url = server.url(user);
    let store = tokio::task::spawn_blocking(move || EtcdStore::open(&url)).await.unwrap().unwrap();
    (server, store)
}

#[tokio::test]
async fn a_commit_whose_stream_is_reset_after_it_was_sent_is_unknown_and_is_not_sent_again() {
    for say in [
        || Say::Reset(Reason::INTERNAL_ERROR),
        || Say::Reset(Reason::CANCEL),
        || Say::Reset(Reason::REFUSED_STREAM),
        || Say::Reset(Reason::NO_ERROR),
        || Say::Gone,
        || Say::Nothing,
        || Say::Status(14, "etcdserver: request timed out"),
        || Say::Status(14, "etcdserver: leader changed"),
        // Said also of what was just applied.
        || Say::Status(8, "etcdserver: mvcc: database space exceeded"),
        || Say::Status(14, "words of something in between"),
        || Say::Status(0, ""),
    ] {
        let (server, store) = scripted("", vec![say(), Say::Committed(9)]).await;
        assert_eq!(store.commit(put("v")).await, CommitOutcome::Unknown);
        assert_eq!(server.sent(), 1);
        // The next one goes out again, over whatever connection.
        let next = timeout(TEST_DEADLINE, async {
            loop {
                match store.commit(put("v")).await {
                    outcome if is_unavailable(&outcome) => {}
                    outcome => return outcome,
                }
            }
        });
        assert_eq!(next.await.unwrap(), CommitOutcome::Committed(Version(9)));
        assert!(server.is_done());
    }
}

#[tokio::test]
async fn what_etcd_did_not_begin_is_sent_again_and_what_it_refuses_is_not() {
    let not_yet = || Say::Status(14, "etcdserver: no leader");
    let (server, store) = scripted("", vec![not_yet(), not_yet(), Say::Committed(9)]).await;
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Committed(Version(9)));
    assert_eq!(server.sent(), 3);
    let (server, store) = scripted("", vec![Say::Status(7, "etcdserver: permission denied")]).await;
    let refused = store.commit(put("v")).await;
    assert_eq!(refused, CommitOutcome::Unavailable("etcdserver: permission denied".to_owned()));
    assert_eq!(server.sent(), 1);
}

#[tokio::test]
async fn a_commit_says_how_far_the_store_has_come_and_where_the_next_append_goes() {
    let (server, store) = scripted("", vec![Say::Committed(7), Say::Committed(9)]).await;
    let place = b"test.place".to_vec();
    for (version, last) in [(7, None), (9, Some(1_u64.to_be_bytes()))] {
        let append = Transaction::new().append(b"q/".to_vec(), vec![]);
        assert_eq!(store.commit(append).await, CommitOutcome::Committed(Version(version)));
        let session = store.shared.line.session(Instant::now() + TEST_DEADLINE).await.unwrap();
        assert_eq!(session.place.newest.known(), Version(version));
        let (_, asked) = server.heard().pop().unwrap();
        let is_last = Compare::is(place.clone(), last.as_ref().map(<[u8; 8]>::as_slice));
        assert_eq!(asked.compare[1], is_last, "no round trip is lost to find that out");
    }
}

#[tokio::test]
async fn what_another_cluster_has_come_to_is_not_noted_of_this_one() {
    let (_server, store) = scripted("", vec![Say::Foreign(1000)]).await;
    let outcome = store.commit(put("v")).await;
    assert!(is_unavailable(&outcome), "{outcome:?}");
    let session = store.shared.line.session(Instant::now() + TEST_DEADLINE).await.unwrap();
    assert!(session.place.newest.known() < Version(1000), "the right one has not lost anything");
}

#[tokio::test]
async fn checks_alone_that_are_not_answered_have_no_outcome_that_is_unknown() {
    let (_server, store) = scripted("", vec![Say::Gone]).await;
    let outcome = store.commit(Transaction::new().check(b"k".to_vec(), None)).await;
    assert!(is_unavailable(&outcome), "{outcome:?}");
}

#[tokio::test]
async fn a_read_is_asked_again_unless_etcd_refuses_it() {
    let (server, store) = scripted("", vec![]).await;
    let read = async || {
        let read = timeout(TEST_DEADLINE, store.read(vec![read_key(b"k".to_vec())])).await.unwrap();
        read.map(|result| result.version).map_err(|error| error.to_string())
    };
    assert_eq!(read().await, Ok(Version(5)));
    let looks = server.looks();
    server.script_reads(vec![Say::Status(7, "etcdserver: permission denied")]);
    assert!(read().await.unwrap_err().contains("permission denied"));
    assert_eq!(server.looks(), looks + 1, "the connection is as good as before");
    server.script_reads(vec![Say::Status(14, "etcdserver: request timed out")]);
    assert_eq!(read().await, Ok(Version(5)));
}

#[tokio::test]
async fn a_cluster_that_is_just_starting_is_waited_for_and_one_that_is_not_there_is_named_with_the_reason() {
    let server = Scripted::start_after(2, vec![Say::Committed(9)]).await;
    let url = server.url("");
    let open = |url: String| tokio::task::spawn_blocking(move || EtcdStore::open(&url));
    let store = open(url).await.unwrap().unwrap();
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Committed(Version(9)));

    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("etcd://{}/test", nobody.local_addr().unwrap());
    drop(nobody);
    let refused = open(url).await.unwrap().map(drop).unwrap_err();
    assert!(refused.to_string().contains("onnection refused"), "{refused}");
}

#[tokio::test]
async fn a_server_that_closes_each_connection_is_not_stormed() {
    let (server, store) = scripted("", vec![Say::Committed(9), Say::Gone]).await;
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Committed(Version(9)));
    server.close_all();
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Unknown);
    let before = server.connections();
    // It waits for a connection for as long as it may.
    let outcome = store.commit(put("v")).await;
    assert!(is_unavailable(&outcome), "{outcome:?}");
    let connections = server.connections() - before;
    assert!((1..50).contains(&connections), "{connections}");
}

/// Waits until the server has been asked for so many watches, or to end so many.
async fn wished(server: &Scripted, count: usize, is_one: impl Fn(&WatchWish) -> bool) {
    let all = async {
        while server.wishes().iter().filter(|wish| is_one(wish)).count() < count {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_DEADLINE, all).await.unwrap();
}

#[tokio::test]
async fn watches_are_asked_for_again_when_their_stream_ends_and_when_the_connection_does() {
    let server = Scripted::start(vec![Say::Gone]).await;
    // The first stream ends, and its connection does not.
    server.script_watches(vec![Say::Status(14, "etcdserver: no leader")]);
    let url = server.url("");
    let store = tokio::task::spawn_blocking(move || EtcdStore::open(&url)).await.unwrap().unwrap();
    let mut watch = store.watch(b"k".to_vec(), Version(5));
    assert!(poll!(&mut watch).is_pending());
    let is_k = |wish: &WatchWish| matches!(wish, WatchWish::Create(create) if create.key == b"test/k");
    wished(&server, 1, is_k).await;
    let connections = server.connections();
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Unknown);
    wished(&server, 2, is_k).await;
    assert!(server.connections() > connections);
    // Nobody waits any more: after some looks etcd is told.
    drop(watch);
    wished(&server, 1, |wish| matches!(wish, WatchWish::Cancel(_))).await;
}

#[tokio::test]
async fn a_watch_whose_stream_is_silent_ends_by_a_look_and_looks_are_seldom() {
    const COMMITS: usize = 20;
    // In this store each key was changed at 1, and a look is of 5.
    let (server, store) = scripted("", (0..2 * COMMITS).map(|_| Say::Committed(9)).collect()).await;
    let [mut changed, mut same] =
        [(b"k", 0), (b"l", 5)].map(|(key, since)| store.watch(key.to_vec(), Version(since)));
    assert!(poll!(&mut changed).is_pending() && poll!(&mut same).is_pending());
    let looks = async || {
        let before = server.looks();
        for _ in 0..COMMITS {
            assert_eq!(store.commit(put("v")).await, CommitOutcome::Committed(Version(9)));
        }
        server.looks() - before
    };
    assert!(looks().await < COMMITS / 4, "before the first one is due");
    assert_eq!(timeout(TEST_DEADLINE, changed).await.unwrap(), Ok(()));
    assert!(looks().await < COMMITS / 4, "and after it");
    assert!(poll!(&mut same).is_pending());
}

#[tokio::test]
async fn a_token_that_is_spent_is_renewed_and_the_commit_is_sent_with_the_new_one() {
    let spent = || Say::Status(16, "etcdserver: invalid auth token");
    let (server, store) = scripted("u:p@", vec![Say::Committed(8), spent(), Say::Committed(9)]).await;
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Committed(Version(8)));
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Committed(Version(9)));
    let heard: Vec<_> = server.heard().into_iter().map(|(token, _)| token).collect();
    assert!(heard.iter().all(Option::is_some), "{heard:?}");
    assert_eq!(heard[0], heard[1]);
    assert_ne!(heard[1], heard[2]);
}

#[tokio::test]
async fn each_request_is_to_be_refused_at_once_by_a_member_that_has_no_leader() {
    let (server, store) = scripted("u:p@", vec![Say::Committed(9)]).await;
    let mut watch = store.watch(b"k".to_vec(), Version(5));
    assert!(poll!(&mut watch).is_pending());
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Committed(Version(9)));
    assert!(store.read(vec![read_key(b"k".to_vec())]).await.is_ok());
    wished(&server, 1, |wish| matches!(wish, WatchWish::Create(_))).await;
    assert_eq!(server.content_with_none(), 0);
}

#[tokio::test]
async fn a_connection_is_left_that_does_not_answer_a_read_and_not_for_history_that_is_forgotten() {
    let (server, store) = scripted("", vec![]).await;
    let read = async |say: Say| {
        server.script_reads(vec![say]);
        let read = timeout(TEST_DEADLINE, store.read(vec![read_key(b"k".to_vec())])).await.unwrap();
        assert_eq!(read.map(|read| read.version), Ok(Version(5)), "it is asked again");
    };
    let session =
        async || store.shared.line.session(Instant::now() + TEST_DEADLINE).await.expect("it is connected");
    let first = session().await;
    read(Say::Status(11, "etcdserver: mvcc: required revision has been compacted")).await;
    let same = store.shared.line.session(Instant::now()).await;
    assert!(same.is_ok_and(|same| Arc::ptr_eq(&same, &first)), "nothing is wrong with it");
    for say in [Say::Status(14, "etcdserver: request timed out"), Say::Nothing] {
        let old = session().await;
        read(say).await;
        let is_left = async {
            while Arc::ptr_eq(&session().await, &old) {
                tokio::task::yield_now().await;
            }
        };
        timeout(TEST_DEADLINE, is_left).await.unwrap();
    }
}

#[tokio::test]
async fn a_cluster_that_elects_is_waited_for_when_it_is_opened_and_one_that_refuses_is_not() {
    let opened = async |say: Say| {
        let server = Scripted::start(vec![]).await;
        server.script_reads(vec![say]);
        let url = server.url("");
        tokio::task::spawn_blocking(move || EtcdStore::open(&url).map(drop)).await.unwrap()
    };
    opened(Say::Status(14, "etcdserver: no leader")).await.unwrap();
    let refused = opened(Say::Status(7, "etcdserver: permission denied")).await.unwrap_err();
    assert!(
        matches!(&refused, OpenError::Server { cause, .. } if cause.contains("permission denied")),
        "{refused}"
    );
}

#[tokio::test]
async fn a_commit_that_finds_no_member_is_told_what_the_last_one_said() {
    let (server, store) = scripted("", vec![Say::Gone]).await;
    store.shared.line.session(Instant::now() + TEST_DEADLINE).await.unwrap();
    let refusals = (0..1000).map(|_| Say::Status(7, "etcdserver: permission denied"));
    server.script_reads(refusals.collect());
    assert_eq!(store.commit(put("v")).await, CommitOutcome::Unknown);
    let told = async {
        loop {
            match store.commit(put("v")).await {
                CommitOutcome::Unavailable(why) if why.contains("permission denied") => return,
                // The connection has only just broken.
                outcome => assert!(!matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}"),
            }
        }
    };
    timeout(TEST_DEADLINE, told).await.unwrap();
}
