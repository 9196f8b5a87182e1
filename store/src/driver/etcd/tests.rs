use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::poll;
use tokio::time::timeout;

use super::*;
use crate::{
    Piece, SharedStore, TooLarge,
    core::keys::read_key,
    driver::{
        conformance::{FIGHT, Faulty, Subject, run},
        memory::Fate,
    },
    testing::{TEST_DEADLINE, etcd::Cluster, log::Listening, writers::Writers},
};

mod answers;
mod proxy;
pub(super) mod scripted;

use proxy::{Cut, Proxy};

/// A cluster, or the end of the test where there is none.
macro_rules! cluster {
    () => {
        match Cluster::start() {
            Some(cluster) => cluster,
            None => return,
        }
    };
}

fn open(cluster: &Cluster) -> EtcdStore {
    EtcdStore::open(&cluster.url("test")).unwrap()
}

fn put(value: &str) -> Transaction {
    Transaction::new().put(b"k".to_vec(), value.as_bytes().to_vec())
}

/// What the key holds, as soon as the store says.
async fn value(store: &EtcdStore) -> Option<Vec<u8>> {
    let said = async {
        loop {
            if let Ok(read) = store.read(vec![read_key(b"k".to_vec())]).await {
                return read.value(0).cloned();
            }
        }
    };
    timeout(TEST_DEADLINE, said).await.unwrap()
}

/// Commits, as soon as the store takes commits again. It may have been done twice.
async fn at_last(store: &EtcdStore, transaction: Transaction) -> Version {
    let committed = async {
        loop {
            match store.commit(transaction.clone()).await {
                CommitOutcome::Committed(version) => return version,
                // Each waits for the store itself.
                CommitOutcome::Unavailable(_) | CommitOutcome::Unknown => {}
                outcome => panic!("{outcome:?}"),
            }
        }
    };
    timeout(TEST_DEADLINE, committed).await.unwrap()
}

/// Its answers get lost on the way.
struct FaultyNetwork {
    cluster: Arc<Cluster>,
    proxies: Mutex<Vec<Proxy>>,
}

impl Faulty for FaultyNetwork {
    fn connect(&self, fate: Fate) -> SharedStore {
        let proxy = Proxy::start(self.cluster.client(0));
        let store = EtcdStore::open(&proxy.url("test")).unwrap();
        let cut = match fate {
            Fate::Applied => Cut::AfterCommit,
            Fate::NotApplied => Cut::Lost,
            Fate::LandsLater => Cut::Late,
        };
        proxy.cut_at(cut, b"test/conformance/");
        self.proxies.lock().unwrap().push(proxy);
        Arc::new(store)
    }

    fn land(&self) {
        self.proxies.lock().unwrap().iter().for_each(Proxy::land);
    }
}

/// A subject whose connections are spread over so many openings of one cluster.
fn subject(openings: usize) -> Option<Subject> {
    let cluster = Arc::new(Cluster::start()?);
    let stores: Vec<_> = (0..openings).map(|_| open(&cluster)).collect();
    let count = AtomicUsize::new(0);
    let connect = move || {
        let turn = count.fetch_add(1, Ordering::SeqCst);
        Arc::new(stores[turn % stores.len()].clone()) as SharedStore
    };
    Some(Subject::new(connect).with_faults(FaultyNetwork { cluster, proxies: Mutex::default() }))
}

#[tokio::test]
async fn etcd_opened_once_conforms() {
    if let Some(subject) = subject(1) {
        run(&subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn etcd_opened_ten_times_conforms_also_in_a_long_fight() {
    if let Some(subject) = subject(10) {
        run(&subject.fighting_for(FIGHT)).await;
    }
}

fn is_unavailable(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Unavailable(_))
}

#[tokio::test]
async fn what_never_had_a_connection_to_go_out_on_was_not_done() {
    let cluster = cluster!();
    let proxy = Proxy::start(cluster.client(0));
    let store = EtcdStore::open(&proxy.url("test")).unwrap();
    at_last(&store, put("first")).await;
    drop(cluster);
    proxy.break_all();
    let told = async {
        loop {
            match store.commit(put("second")).await {
                CommitOutcome::Unavailable(why) => return why,
                // The first one may have gone out as the connection broke.
                CommitOutcome::Unknown => {}
                outcome => panic!("{outcome:?}"),
            }
        }
    };
    timeout(TEST_DEADLINE, told).await.unwrap();
    assert!(store.read(vec![]).await.is_err());
}

#[tokio::test]
async fn a_commit_that_is_not_answered_is_unknown_and_the_connection_is_given_up() {
    let cluster = cluster!();
    let proxy = Proxy::start(cluster.client(0));
    let store = EtcdStore::open(&proxy.url("test")).unwrap();
    proxy.cut_at(Cut::Unanswered, b"unanswered");
    proxy.count(b"unanswered");
    assert_eq!(store.commit(put("unanswered")).await, CommitOutcome::Unknown);
    assert_eq!(value(&store).await, Some(b"unanswered".to_vec()));
    assert_eq!(proxy.seen(), 1, "the client sends nothing twice");
}

/// The store logs on its own thread, which no listener of a test hears: so the commits are made on this one.
#[tokio::test]
async fn a_commit_of_unknown_outcome_is_logged_with_its_reason_and_so_is_the_end_of_a_row() {
    let cluster = cluster!();
    let proxy = Proxy::start(cluster.client(0));
    let store = EtcdStore::open(&proxy.url("test")).unwrap();
    let log = Listening::to("callsign_store::driver::failures");
    let commit = |value| {
        let store = store.clone();
        async move { commit::commit(&store.shared, &put(value), Instant::now() + TEST_DEADLINE).await }
    };
    for value in ["first", "second"] {
        proxy.cut_at(Cut::AfterCommit, value.as_bytes());
        assert_eq!(commit(value).await, CommitOutcome::Unknown);
    }
    let outcome = commit("third").await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    let lines = log.all();
    let said =
        |line: &BTreeMap<String, String>| ["level", "message", "failed"].map(|field| line[field].clone());
    assert_eq!(
        lines.iter().map(said).collect::<Vec<_>>(),
        [
            ["WARN", "the outcome of a commit is unknown", "1"],
            ["WARN", "the outcome of a commit is unknown", "2"],
            ["INFO", "commits succeed again", "2"],
        ]
    );
    assert!(lines[..2].iter().all(|line| !line["error"].is_empty()), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_are_told_the_truth_while_members_die_and_come_back() {
    let mut cluster = cluster!();
    let stores: Vec<_> = (0..4).map(|_| open(&cluster)).collect();
    let writers = Writers::start(stores.into_iter(), b"v");
    for _ in 0..2 {
        let leader = loop {
            if let Some(leader) = cluster.leader() {
                break leader;
            }
        };
        cluster.kill(leader);
        let store = open(&cluster);
        at_last(&store, put("without one")).await;
        cluster.start_all();
    }
    writers.judge(&open(&cluster)).await;
}

#[tokio::test]
async fn a_member_that_is_stopped_is_left_for_another() {
    let mut cluster = cluster!();
    let store = open(&cluster);
    at_last(&store, put("before")).await;
    // The URL's first one, which is used until it fails.
    cluster.signal(0, "STOP");
    at_last(&store, put("meanwhile")).await;
    assert_eq!(value(&store).await, Some(b"meanwhile".to_vec()));
    cluster.signal(0, "CONT");
}

#[tokio::test]
async fn without_a_majority_nothing_is_promised_and_with_one_again_everything() {
    let mut cluster = cluster!();
    let store = open(&cluster);
    at_last(&store, put("before")).await;
    cluster.kill(1);
    cluster.kill(2);
    let outcome = timeout(TEST_DEADLINE, store.commit(put("alone"))).await.unwrap();
    assert!(is_unavailable(&outcome) || outcome == CommitOutcome::Unknown, "{outcome:?}");
    assert!(store.read(vec![read_key(b"k".to_vec())]).await.is_err(), "what one member knows may be old");
    cluster.start_all();
    at_last(&store, put("after")).await;
    assert_eq!(value(&store).await, Some(b"after".to_vec()));
}

#[tokio::test]
async fn a_watch_is_resumed_at_another_member_and_misses_nothing() {
    let mut cluster = cluster!();
    let (watcher, witness) = (open(&cluster), EtcdStore::open(&format!("etcd://{}/test", cluster.client(1))));
    let witness = witness.unwrap();
    let since = at_last(&watcher, put("before")).await;
    let mut watch = watcher.watch(b"k".to_vec(), since);
    assert!(poll!(&mut watch).is_pending());
    // The one that it goes through dies, and the key changes before another has taken the watch over.
    cluster.kill(0);
    at_last(&witness, put("after")).await;
    assert_eq!(timeout(TEST_DEADLINE, watch).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_watch_of_what_was_compacted_ends_and_the_next_one_waits() {
    let cluster = cluster!();
    let store = open(&cluster);
    let old = at_last(&store, put("0")).await;
    let mut newest = old;
    for n in 1..5 {
        newest = at_last(&store, Transaction::new().put(b"other".to_vec(), vec![n])).await;
    }
    cluster.ctl(&["compaction", &newest.0.to_string()]).unwrap();
    assert_eq!(timeout(TEST_DEADLINE, store.watch(b"k".to_vec(), old)).await.unwrap(), Ok(()));
    assert_eq!(value(&store).await, Some(b"0".to_vec()));
    let mut watch = store.watch(b"k".to_vec(), newest);
    assert!(poll!(&mut watch).is_pending());
    at_last(&store, put("1")).await;
    assert_eq!(timeout(TEST_DEADLINE, watch).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn more_reads_than_one_transaction_takes_are_of_one_revision() {
    let cluster = cluster!();
    let store = open(&cluster);
    let key = |n: usize| format!("many/{n}").into_bytes();
    for part in [0..100, 100..200, 200..300] {
        at_last(&store, part.fold(Transaction::new(), |all, n| all.put(key(n), b"v".to_vec()))).await;
    }
    let reads: Vec<_> = (0..300).map(|n| read_key(key(n))).collect();
    let read = store.read(reads).await.unwrap();
    assert_eq!(read.answers.len(), 300);
    assert!((0..300).all(|n| read.entries(n) == [(key(n), b"v".to_vec())]));
}

#[tokio::test]
async fn a_transaction_of_too_many_operations_is_refused_and_as_many_as_etcd_takes_are_taken() {
    let cluster = cluster!();
    let store = open(&cluster);
    let puts = |count: usize| {
        (0..count).fold(Transaction::new(), |all, n| all.put(n.to_string().into_bytes(), vec![]))
    };
    at_last(&store, puts(128)).await;
    // One of them is the counter.
    at_last(&store, puts(125).append(b"q".to_vec(), vec![])).await;
    let checks =
        (0..127).fold(Transaction::new(), |all, n| all.check(format!("absent {n}").into_bytes(), None));
    at_last(&store, checks).await;
    let refused = store.commit(puts(129)).await;
    let too_many = TooLarge { what: Piece::Operations, size: 129, limit: 128 };
    assert_eq!(refused, CommitOutcome::TooLarge(too_many));
}

#[tokio::test]
async fn places_only_grow_also_after_everything_was_removed() {
    let cluster = cluster!();
    let (store, other) = (open(&cluster), open(&cluster));
    let queue = b"q/".to_vec();
    let append = || Transaction::new().append(b"q/".to_vec(), b"e".to_vec());
    let last = async |store: &EtcdStore| {
        store.read(vec![read_key(b"q/".to_vec())]).await.unwrap().value(0).cloned().unwrap()
    };
    at_last(&store, append()).await;
    at_last(&other, append()).await;
    let before = last(&store).await;
    let everything = Transaction::new().clear_range(b"a".to_vec()..b"z".to_vec());
    at_last(&store, everything).await;
    at_last(&other, append()).await;
    assert!(last(&store).await > before);
    let entries = store.read(vec![Read::Range { range: crate::appended(&queue), limit: 9 }]).await.unwrap();
    assert_eq!(entries.entries(0).len(), 1);
}

#[tokio::test]
async fn a_store_that_is_laid_out_differently_and_one_that_was_replaced_are_refused() {
    let cluster = cluster!();
    let store = open(&cluster);
    at_last(&store, put("v")).await;
    cluster.ctl(&["put", "test.layout", "1 another"]).unwrap();
    let refused = store.commit(put("w")).await;
    assert!(
        matches!(&refused, CommitOutcome::Unavailable(why) if why.contains("not the one that was opened")),
        "{refused:?}"
    );
    let refused = store.read(vec![read_key(b"k".to_vec())]).await.unwrap_err().to_string();
    assert!(refused.contains("not the one that was opened"), "{refused}");
    cluster.ctl(&["put", "test.layout", "7 00"]).unwrap();
    let newer = EtcdStore::open(&cluster.url("test")).map(drop).unwrap_err();
    assert!(matches!(newer, OpenError::WrongSchema { found: 7, expected: 1, .. }), "{newer}");
    // Another prefix is another store.
    assert_eq!(value(&EtcdStore::open(&cluster.url("other")).unwrap()).await, None);
}

/// Makes users, and asks everybody for a token from now on.
fn ask_for_tokens(cluster: &Cluster) {
    for words in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "shop"],
        &["role", "grant-permission", "--prefix=true", "shop", "readwrite", "test"],
        &["user", "add", "seller:pass word"],
        &["user", "grant-role", "seller", "shop"],
        &["auth", "enable"],
    ] {
        cluster.ctl(words).unwrap();
    }
}

#[tokio::test]
async fn tokens_that_run_out_are_renewed_for_commits_reads_and_watches() {
    let Some(cluster) = Cluster::start() else { return };
    ask_for_tokens(&cluster);
    let url = |user: &str| cluster.url("test").replace("etcd://", &format!("etcd://{user}@"));
    let store = EtcdStore::open(&url("seller:pass%20word")).unwrap();
    let since = at_last(&store, put("before")).await;
    let mut watch = store.watch(b"k".to_vec(), since);
    assert!(poll!(&mut watch).is_pending());
    // The servers forget all tokens, as they do each token that was not used for some minutes.
    cluster.ctl(&["--user=root:secret", "auth", "disable"]).unwrap();
    cluster.ctl(&["auth", "enable"]).unwrap();
    assert!(matches!(store.commit(put("after")).await, CommitOutcome::Committed(_)));
    assert_eq!(timeout(TEST_DEADLINE, watch).await.unwrap(), Ok(()));
    // Who may not is told so, and that it is for good.
    for (user, said) in [
        ("seller:wrong", "authentication failed, invalid user ID or password"),
        ("nobody:wrong", "authentication failed, invalid user ID or password"),
    ] {
        let refused = EtcdStore::open(&url(user)).map(drop).unwrap_err();
        assert!(
            matches!(&refused, OpenError::Server { cause, .. } if cause.contains(said)),
            "{user}: {refused}"
        );
        assert!(!refused.to_string().contains("wrong"), "{refused}");
    }
    let elsewhere = url("seller:pass%20word").replace("/test", "/elsewhere");
    let refused = EtcdStore::open(&elsewhere).map(drop).unwrap_err();
    assert!(matches!(&refused, OpenError::Server { cause, .. } if cause.contains("permission denied")));
    let refused = EtcdStore::open(&cluster.url("test")).map(drop).unwrap_err();
    assert!(matches!(&refused, OpenError::Server { cause, .. } if cause.contains("user name is empty")));
}

/// Certificates of one authority, for servers and for clients, and another authority.
fn certificates(directory: &std::path::Path, addresses: &[std::net::Ipv4Addr]) {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    let authority = || {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (ours, other) = (authority(), authority());
    write("ca.pem", ours.pem());
    write("other.pem", other.pem());
    let mut names: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    names.push("127.0.0.1".to_owned());
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names.clone()).unwrap().signed_by(&key, &ours).unwrap();
        write(&format!("{name}.pem"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

#[tokio::test]
async fn connections_are_encrypted_and_both_sides_show_who_they_are() {
    let Some(cluster) = Cluster::encrypted(certificates) else { return };
    let file = |name: &str| cluster.directory().join(name).display().to_string();
    let url = |ca: &str, own: &str| {
        let url = format!("{}?ca={}", cluster.url("test"), file(ca));
        if own.is_empty() { url } else { format!("{url}&cert={}&key={}", file(own), file("client.key")) }
    };
    let store = EtcdStore::open(&url("ca.pem", "client.pem")).unwrap();
    let since = at_last(&store, put("v")).await;
    assert_eq!(value(&store).await, Some(b"v".to_vec()));
    let mut watch = store.watch(b"k".to_vec(), since);
    assert!(poll!(&mut watch).is_pending());
    at_last(&store, put("w")).await;
    assert_eq!(timeout(TEST_DEADLINE, watch).await.unwrap(), Ok(()));
    assert!(!store.describe().contains("client.key"), "{}", store.describe());
    for wrong in [url("other.pem", "client.pem"), url("ca.pem", ""), cluster.url("test")] {
        let refused = EtcdStore::open(&wrong).map(drop).unwrap_err();
        assert!(matches!(refused, OpenError::Unreachable { .. }), "{wrong}: {refused}");
    }
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address_and_without_the_password() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = EtcdStore::open(&format!("etcd://u:secret@{nobody}/p")).map(drop).unwrap_err();
    let said = refused.to_string();
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{said}");
    assert!(said.contains(&nobody.to_string()) && !said.contains("secret"), "{said}");
}

#[test]
fn a_look_at_a_cluster_says_what_is_wrong_with_it() {
    use crate::driver::examine::{Verdict, examine as look_at};
    let Some(mut cluster) =
        Cluster::start_with(&["--quota-backend-bytes=1000000"], |_, address| format!("{address}:2380"))
    else {
        return;
    };
    let url = cluster.url("test");
    let bad = |url: &str| -> Vec<_> {
        let findings = look_at(url);
        println!("{findings:#?}");
        findings
            .into_iter()
            .filter(|finding| finding.verdict != Verdict::Ok)
            .map(|finding| (finding.check, finding.verdict, finding.said))
            .collect()
    };
    assert_eq!(bad(&url), []);
    for (check, expected) in [
        ("reach", ", not encrypted"),
        ("space", "the quota of 1 MiB"),
        ("compaction", "there is little history so far"),
    ] {
        let said = look_at(&url).into_iter().find(|finding| finding.check == check).unwrap().said;
        assert!(said.contains(expected), "{said}");
    }

    cluster.kill(2);
    // If it led, the others answer everything once they have a leader.
    let deadline = std::time::Instant::now() + TEST_DEADLINE;
    let mut found = bad(&url);
    while found.len() != 1 && std::time::Instant::now() < deadline {
        found = bad(&url);
    }
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].1), ("reach", Verdict::Warning));
    cluster.start_all();

    // Until it is full: what etcd says of the commit that fills it is no answer.
    let store = open(&cluster);
    let outcome = (0..100_u32).map(|n| {
        let put = Transaction::new().put(n.to_be_bytes().to_vec(), vec![7; 90_000]);
        futures::executor::block_on(store.commit(put))
    });
    let refused = outcome.into_iter().find(|outcome| !matches!(outcome, CommitOutcome::Committed(_)));
    assert_eq!(refused, Some(CommitOutcome::Unknown));
    let found = bad(&url);
    assert_eq!((found[0].0, found[0].1), ("space", Verdict::No), "{found:?}");
    assert!(found[0].2.contains("NOSPACE"), "{found:?}");

    let nobody = bad("etcd://127.0.0.1:1/test");
    assert_eq!((nobody.len(), nobody[0].0, nobody[0].1), (1, "reach", Verdict::Unknown), "{nobody:?}");
    let senseless = bad("etcd:///test");
    assert_eq!((senseless[0].0, senseless[0].1), ("url", Verdict::Usage), "{senseless:?}");
}
