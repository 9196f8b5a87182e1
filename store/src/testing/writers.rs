//! Writers that are told what became of each of their commits, while connections and servers die under them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{task::JoinHandle, time::timeout};

use super::TEST_DEADLINE;
use crate::{CommitOutcome, Key, Read, Store, Transaction};

pub(crate) struct Writers {
    done: Arc<AtomicBool>,
    all: Vec<JoinHandle<Vec<(Key, CommitOutcome)>>>,
}

impl Writers {
    /// Each writes this value under keys of its own, one after the other.
    pub(crate) fn start<S: Store>(stores: impl Iterator<Item = S>, value: &'static [u8]) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let write = |(writer, store): (usize, S)| {
            let done = done.clone();
            tokio::spawn(async move {
                let mut told = Vec::new();
                for n in 0_u32.. {
                    if done.load(Ordering::SeqCst) {
                        break;
                    }
                    let key = format!("log/{writer}/{n}").into_bytes();
                    let written =
                        Transaction::new().put(key.clone(), value.to_vec()).check(key.clone(), None);
                    told.push((key, store.commit(written).await));
                }
                told
            })
        };
        let all = stores.enumerate().map(write).collect();
        Self { done, all }
    }

    /// Ends them, and sees that what they were told is what happened.
    pub(crate) async fn judge(self, witness: &impl Store) {
        self.done.store(true, Ordering::SeqCst);
        let mut told = Vec::new();
        for writer in self.all {
            told.extend(writer.await.unwrap());
        }
        let range = b"log/".to_vec()..b"log0".to_vec();
        let there = async {
            loop {
                let read = Read::Range { range: range.clone(), limit: 1_000_000 };
                if let Ok(there) = witness.read(vec![read]).await {
                    return there;
                }
            }
        };
        let there = timeout(TEST_DEADLINE, there).await.unwrap();
        let there: BTreeMap<_, _> = there.entries(0).iter().cloned().collect();
        let mut kinds = BTreeMap::new();
        for (key, outcome) in &told {
            let (kind, is_right) = match outcome {
                CommitOutcome::Committed(_) => ("committed", there.contains_key(key)),
                CommitOutcome::Unknown => ("unknown", true),
                CommitOutcome::Unavailable(_) => ("unavailable", !there.contains_key(key)),
                CommitOutcome::Conflict | CommitOutcome::TooLarge(_) => ("wrong", false),
            };
            assert!(is_right, "{} was told {outcome:?}", String::from_utf8_lossy(key));
            *kinds.entry(kind).or_insert(0) += 1;
        }
        println!("told: {kinds:?}");
        assert!(kinds.contains_key("committed"));
    }
}
