//! The order of turns: a member has its own before others, and a batch goes first to the node that waits for it.

use std::sync::{Arc, Mutex};

use callsign_store::{CommitOutcome, SharedStore, Store, Transaction, Write, memory::MemoryStore};
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};

use crate::{
    Config, Registry,
    tests::driver::{Cluster, counter, until},
};

/// Notes in which task each commit of names begins.
#[derive(Debug)]
struct Begun {
    store: MemoryStore,
    tasks: Arc<Mutex<Vec<tokio::task::Id>>>,
}

impl Store for Begun {
    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let is_of_names =
            |write: &Write| matches!(write, Write::Put { key, .. } if key.ends_with(b"/commit"));
        let noted = transaction.writes.iter().any(is_of_names).then(|| self.tasks.clone());
        let commit = self.store.commit(transaction);
        async move {
            if let Some(tasks) = noted {
                tasks.lock().unwrap().push(tokio::task::id());
            }
            commit.await
        }
        .boxed()
    }

    callsign_store::forward_to_store! { store: read watch nature }
}

/// A task would wait behind all others of a busy runtime before it begins.
#[tokio::test]
async fn the_commit_of_one_request_begins_in_the_turn_of_the_member_and_that_of_many_in_a_task() {
    let (cluster, tasks) = (Cluster::new(), Arc::<Mutex<Vec<_>>>::default());
    let store: SharedStore = Arc::new(Begun { store: cluster.store.connect("a"), tasks: tasks.clone() });
    let node = Registry::join(Config { store: store.into(), ..cluster.config("a") }).await.unwrap();
    node.register("w", &counter().await).await.unwrap();
    tasks.lock().unwrap().clear();
    for name in ["x", "y", "z"] {
        node.register(name, &counter().await).await.unwrap();
    }
    let of_one = std::mem::take(&mut *tasks.lock().unwrap());
    assert_eq!(of_one, [of_one[0]; 3]);

    let actor = counter().await;
    let names: Vec<_> = (0..50).map(|n| format!("n{n}")).collect();
    let all = join_all(names.iter().map(|name| node.register(name, &actor))).await;
    assert!(all.iter().all(Result::is_ok));
    assert!(tasks.lock().unwrap().iter().any(|task| *task != of_one[0]));
}

#[tokio::test]
async fn the_node_that_waits_for_an_answer_is_written_to_before_the_others() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let leader = nodes[0].status().leader.unwrap().node;
    let others: Vec<_> = nodes.iter().filter(|node| node.node() != leader.as_str()).cloned().collect();
    for round in 0..3 {
        for (who, other) in [(0, 1), (1, 0)] {
            let (who, other, name) = (others[who].clone(), others[other].clone(), format!("{round}/{who}"));
            // In a task, which has its turn as soon as it is answered.
            let asks = tokio::spawn(async move {
                who.register(&name, &counter().await).await.unwrap();
                assert_eq!(other.lookup(&name), Ok(None), "{name}: the other one heard of it first");
                until("it hears of it", || other.lookup(&name).is_ok_and(|entry| entry.is_some())).await;
            });
            asks.await.unwrap();
        }
    }
}
