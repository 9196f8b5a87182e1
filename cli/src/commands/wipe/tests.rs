use std::sync::Arc;

use callsign_elector::record::{LogEnd, MemberRow, OpenMark, SessionRecord, Term};
use callsign_store::{
    Key, Store,
    ids::{Epoch, Nonce, Position, SessionId, SessionNumber, Token},
    keys::{read_key, read_range},
    memory::{Fate, Fault, MemoryStore},
    record::Record,
};
use clap::{Args as _, FromArgMatches as _};

use super::*;

const LEASE: Duration = Duration::from_secs(1);

fn args(more: &[&'static str]) -> Args {
    let command = Args::augment_args(clap::Command::new("wipe"));
    let words = ["wipe", "--store", "sqlite:/nowhere/x.db", "--registry", "r"];
    let words = words.into_iter().chain(more.iter().copied());
    Args::from_arg_matches(&command.get_matches_from(words)).unwrap()
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// A registry with three batches in its log and one member, `a`.
struct Bed {
    memory: MemoryStore,
    keys: RegistryKeys,
}

impl Bed {
    /// The session of its member is open, or not.
    async fn new(open: bool) -> Self {
        let cluster = ClusterKeys::new(&ClusterName::new("default").unwrap());
        let keys = cluster.registry(&RegistryName::new("r").unwrap());
        let (incarnation, number) = (Incarnation(7), SessionNumber(1));
        let session = SessionRecord { incarnation, number, lease: LEASE, beat: Beat(5), open };
        let row = MemberRow {
            token: Token(4),
            session: SessionId { node: node("a"), incarnation, number },
            address: "127.0.0.1:1".to_owned(),
            admin: None,
            priority: 1,
            synced: true,
            empty: false,
            accuses: None,
            draining: false,
        };
        let mut all = Transaction::new()
            .put(keys.term(), Term { epoch: Epoch(9), ..Term::vacant() }.to_value())
            .put(keys.commit(), LogEnd { position: Position(3), nonce: Nonce(5) }.to_value())
            .put(keys.member(&node("a")), row.to_value())
            .put(cluster.session(&node("a")), session.to_value());
        if open {
            all = all.put(cluster.open_mark(&node("a")), OpenMark(number).to_value());
        }
        for position in 1..=3 {
            all = all.put(keys.log(Position(position)), b"batch".to_vec());
        }
        let bed = Self { memory: MemoryStore::new(), keys };
        bed.commit(all).await;
        bed
    }

    async fn commit(&self, transaction: Transaction) {
        let outcome = self.memory.commit(transaction).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }

    /// Over a connection of its own, "wipe". What it refuses: its verdict, code and message.
    async fn wipe(&self, more: &[&'static str]) -> Result<Value, (Verdict, &'static str, String)> {
        let (store, keys): (SharedStore, _) = (Arc::new(self.memory.connect("wipe")), self.keys.clone());
        let (cluster, args) = (ClusterName::new("default").unwrap(), args(more));
        let wiped = Wipe { store, keys, cluster, args: &args }.run().await;
        wiped.map_err(|refused| (refused.verdict, refused.code, refused.message))
    }

    /// How many keys the registry has.
    async fn left(&self) -> usize {
        self.memory.read(vec![read_range(self.keys.all(), 100)]).await.unwrap().entries(0).len()
    }

    async fn session(&self, name: &str) -> SessionRecord {
        let key: Key = self.keys.cluster().session(&node(name));
        let read = self.memory.read(vec![read_key(key)]).await.unwrap();
        SessionRecord::from_value(read.value(0).unwrap()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_is_tried_again_after_a_pause_and_not_for_ever() {
    let faults = [Fault::Conflict, Fault::Unavailable, Fault::Unknown(Fate::NotApplied)];
    let failing = async |count: u32| {
        let bed = Bed::new(false).await;
        let connection = bed.memory.connect("wipe");
        for (_, fault) in (0..count).zip(faults.into_iter().cycle()) {
            connection.inject(fault);
        }
        bed
    };
    let (bed, began) = (failing(COMMIT_ATTEMPTS - 1).await, tokio::time::Instant::now());
    let done = bed.wipe(&[]).await.unwrap();
    assert!(began.elapsed() >= SESSION_INTERVAL * (COMMIT_ATTEMPTS - 1), "{:?}", began.elapsed());
    for (field, expected) in [("members", 1), ("queued", 0), ("logged", 3), ("epoch", 10), ("position", 3)] {
        assert_eq!(done[field], expected, "{field}: {done}");
    }
    assert_eq!((&done["closed"], &done["forgotten"]), (&json!([]), &json!(false)), "{done}");
    assert_eq!(bed.left().await, 3, "the term, the end of the log and its floor stay");

    let bed = failing(COMMIT_ATTEMPTS).await;
    let before = bed.left().await;
    let (verdict, code, message) = bed.wipe(&[]).await.unwrap_err();
    assert_eq!((verdict, code), (Verdict::Unknown, "unknown"), "{message}");
    assert!(message.starts_with("not all was removed: "), "{message}");
    assert!(message.ends_with("ask again: what was done is not done twice"), "{message}");
    assert_eq!(bed.left().await, before);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_removed_only_by_the_option_that_says_so() {
    let corrupt = || b"\x07no record".to_vec();
    for (is_counter, says, refused_by, done_by) in [
        (true, "--forget-tokens removes it", "--force", "--forget-tokens"),
        (false, "--force takes it for dead", "--forget-tokens", "--force"),
    ] {
        let bed = Bed::new(false).await;
        let key = if is_counter { bed.keys.term() } else { bed.keys.member(&node("a")) };
        bed.commit(Transaction::new().put(key, corrupt())).await;
        let before = bed.left().await;
        for more in [None, Some(refused_by)] {
            let (verdict, code, message) = bed.wipe(more.as_slice()).await.unwrap_err();
            assert_eq!((verdict, code), (Verdict::No, "corrupt"), "{more:?}: {message}");
            assert!(message.contains(says), "{more:?}: {message}");
            assert_eq!(bed.left().await, before, "{more:?}");
        }
        let done = bed.wipe(&[done_by]).await.unwrap();
        assert_eq!(done["forgotten"], is_counter, "{done}");
        assert_eq!(bed.left().await == 0, is_counter, "{done}");
    }
}

#[tokio::test]
async fn a_member_that_is_silent_for_longer_than_is_waited_keeps_its_registry() {
    let bed = Bed::new(true).await;
    let before = bed.left().await;
    let (verdict, code, message) = bed.wipe(&["--wait", "1ms"]).await.unwrap_err();
    assert_eq!((verdict, code), (Verdict::No, "in_use"), "{message}");
    assert!(message.contains("a is silent, and not known to be dead"), "{message}");
    assert_eq!(bed.left().await, before);
    assert!(bed.session("a").await.open);
    assert!(!bed.session(OBSERVER).await.open, "who looked has left");
}

#[tokio::test]
async fn a_member_that_is_silent_for_its_lease_is_taken_for_dead() {
    let bed = Bed::new(true).await;
    let done = bed.wipe(&[]).await.unwrap();
    assert_eq!((&done["members"], &done["closed"]), (&json!(1), &json!([])), "{done}");
    assert!(!bed.session("a").await.open);
    assert!(!bed.session(OBSERVER).await.open, "who looked has left");
    assert_eq!(bed.left().await, 3);
}

#[test]
fn what_is_said_of_nodes_and_of_counts_agrees_in_number() {
    let said = |names: &[&str], verb, what| {
        let nodes: Vec<_> = names.iter().map(|name| node(name)).collect();
        in_use(&nodes, verb, what).message
    };
    for (names, says) in [
        (&["a"][..], "nothing was removed: a is alive"),
        (&["a", "b"], "nothing was removed: a and b are alive"),
        (&["a", "b", "c"], "nothing was removed: a, b and c are alive"),
    ] {
        assert_eq!(said(names, ["is", "are"], "alive"), says);
    }
    assert_eq!(said(&["a"], ["has", "have"], "come"), "nothing was removed: a has come");
    for (members, logged, says) in [
        (1, 1, "r is removed: 1 member, 1 position of its log; nothing is left of it\n"),
        (2, 0, "r is removed: 2 members, 0 positions of its log; nothing is left of it\n"),
    ] {
        let result = json!({"members": members, "logged": logged});
        assert_eq!(in_words(&args(&["--forget-tokens"]), &result), says);
    }
}

#[test]
fn what_a_file_of_options_adds_is_refused_as_what_is_typed() {
    let command = Args::augment_args(clap::Command::new("wipe"));
    let command = command.mut_arg("forget_tokens", |argument| argument.default_values(["true"]));
    let words = ["wipe", "--store", "sqlite:/nowhere/x.db", "--registry", "r", "--force"];
    let args = Args::from_arg_matches(&command.get_matches_from(words)).unwrap();
    let Err(refused) = wipe(&args) else { panic!("it was wiped") };
    assert_eq!((refused.verdict, refused.code), (Verdict::Usage, "usage"));
}
