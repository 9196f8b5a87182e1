//! What a child leaves for the one that comes after it, in a cell of the store.
//!
//! The store and not the links: the successor is not known when the data is left, and what is left before the seat is given
//! back is there for whoever takes it. A cell belongs to one singleton, and holds what its last term left, if anything: each
//! term empties it when it begins, so that nothing is handed over from a term before the last.

use std::sync::Arc;

use callsign_store::{
    CommitOutcome, Entropy, Key, Read, SharedStore, Transaction,
    ids::{ClusterName, ElectionName, Epoch, Nonce},
    record::Record,
};
use futures::future::BoxFuture;
use ractor::ActorRef;
use serde::{Deserialize, Serialize};

/// The most bytes that may be handed over: what every store takes as one value, less what is around it.
pub const MAX_HAND_OVER: usize = 64 * 1024;

/// How often a lost race is run again.
const RACE_TRIES: u32 = 5;

/// Asks a leader child for what it leaves to its successor.
pub(crate) type HandOver<M> = Arc<dyn Fn(ActorRef<M>) -> BoxFuture<'static, Option<Vec<u8>>> + Send + Sync>;

/// What is in the cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    /// The term that wrote last.
    epoch: Epoch,
    /// By whom, so that a write whose outcome is unknown is recognised.
    nonce: Nonce,
    #[serde(with = "serde_bytes")]
    data: Option<Vec<u8>>,
}
impl Record for Left {}

/// What others read of it.
#[cfg(test)]
pub(crate) fn golden(golden: &mut callsign_golden::Golden) {
    for (name, data) in [("hand-over/left", Some(b"data".to_vec())), ("hand-over/empty", None)] {
        let left = Left { epoch: Epoch(7), nonce: Nonce(5), data };
        let read = |bytes: &[u8]| Left::from_value(bytes).map_err(|error| error.to_string());
        for next in callsign_golden::with_unknown_fields(&left.to_value()[1..]) {
            assert_eq!(Left::from_value(&[&left.to_value()[..1], &next].concat()).as_ref(), Ok(&left));
        }
        golden.sample(format!("record/{name}"), left, Left::to_value, read);
    }
}

/// Why nothing was handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandOverError {
    #[error("{size} bytes are too many, {MAX_HAND_OVER} are the most")]
    TooLarge { size: usize },
    #[error("epoch {of} has begun since")]
    Superseded { of: Epoch },
    #[error("the store did not take it: {0}")]
    Store(String),
}

/// The cell.
#[derive(Clone)]
pub(crate) struct Cell {
    store: SharedStore,
    key: Key,
    entropy: Entropy,
}

impl Cell {
    pub(crate) fn new(
        store: SharedStore,
        cluster: &ClusterName,
        election: &ElectionName,
        entropy: Entropy,
    ) -> Self {
        let key = format!("callsign/{cluster}/singleton/{election}/hand-over").into_bytes();
        Self { store, key, entropy }
    }

    /// Leaves data, as the term of this epoch.
    pub(crate) async fn leave(&self, epoch: Epoch, data: Vec<u8>) -> Result<(), HandOverError> {
        if data.len() > MAX_HAND_OVER {
            return Err(HandOverError::TooLarge { size: data.len() });
        }
        self.write(epoch, Some(data)).await.map(drop)
    }

    /// Takes what the last term before this epoch left, and empties the cell.
    pub(crate) async fn take(&self, epoch: Epoch) -> Result<Option<(Epoch, Vec<u8>)>, HandOverError> {
        let found = self.write(epoch, None).await?;
        Ok(found.and_then(|left| left.data.filter(|_| left.epoch < epoch).map(|data| (left.epoch, data))))
    }

    /// Writes, unless a later term has. Answers with what was there.
    async fn write(&self, epoch: Epoch, data: Option<Vec<u8>>) -> Result<Option<Left>, HandOverError> {
        let mine = Left { epoch, nonce: Nonce(self.entropy.draw()), data };
        let mut unknown: Option<Option<Left>> = None;
        let failed = |why: &dyn std::fmt::Display| HandOverError::Store(why.to_string());
        for _ in 0..RACE_TRIES {
            let read = self.store.read(vec![Read::Key(self.key.clone())]).await.map_err(|e| failed(&e))?;
            let value = read.value(0).cloned();
            let found = match value.as_deref().map(Left::from_value).transpose() {
                // What cannot be read is not handed over, and not overwritten either.
                Err(error) => return Err(failed(&error)),
                Ok(found) => found,
            };
            match &found {
                // The commit whose outcome was unknown.
                Some(left) if left.nonce == mine.nonce => return Ok(unknown.flatten()),
                Some(left) if left.epoch > epoch => {
                    return Err(HandOverError::Superseded { of: left.epoch });
                }
                _ => {}
            }
            let transaction =
                Transaction::new().check(self.key.clone(), value).put(self.key.clone(), mine.to_value());
            match self.store.commit(transaction).await {
                CommitOutcome::Committed(_) => return Ok(found),
                CommitOutcome::Conflict => {}
                CommitOutcome::Unknown => unknown = Some(found),
                other => return Err(failed(&other)),
            }
        }
        Err(failed(&"no outcome"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use callsign_store::memory::{Fate, Fault, MemoryStore};

    use super::*;

    fn cell(store: &MemoryStore, name: &str) -> Cell {
        let cluster = ClusterName::new("c").unwrap();
        Cell::new(
            Arc::new(store.connect("a")),
            &cluster,
            &ElectionName::new(name).unwrap(),
            Entropy::system(),
        )
    }

    #[tokio::test]
    async fn what_a_term_left_is_taken_once_and_only_by_the_next_one() {
        let store = MemoryStore::new();
        let cell_of_x = cell(&store, "x");
        assert_eq!(cell_of_x.take(Epoch(1)).await, Ok(None));
        cell_of_x.leave(Epoch(1), b"one".to_vec()).await.unwrap();
        assert_eq!(cell(&store, "y").take(Epoch(9)).await, Ok(None), "another singleton's");
        assert_eq!(cell_of_x.take(Epoch(4)).await, Ok(Some((Epoch(1), b"one".to_vec()))));
        assert_eq!(cell_of_x.take(Epoch(4)).await, Ok(None), "taken once");
        // The term of epoch 4 crashes and leaves nothing: what 1 left is not handed to 6.
        assert_eq!(cell_of_x.take(Epoch(6)).await, Ok(None));
        // And a late one cannot leave any more.
        let late = cell_of_x.leave(Epoch(4), b"late".to_vec()).await;
        assert_eq!(late, Err(HandOverError::Superseded { of: Epoch(6) }));
        assert_eq!(cell_of_x.take(Epoch(7)).await, Ok(None));
        // Nobody takes what it left itself; what was there when an outcome was not known has been taken.
        cell_of_x.leave(Epoch(7), b"seven".to_vec()).await.unwrap();
        assert_eq!(cell_of_x.take(Epoch(7)).await, Ok(None));
        store.connect("a").inject(Fault::Unknown(Fate::Applied));
        cell_of_x.leave(Epoch(7), b"again".to_vec()).await.unwrap();
        store.connect("a").inject(Fault::Unknown(Fate::Applied));
        assert_eq!(cell_of_x.take(Epoch(8)).await, Ok(Some((Epoch(7), b"again".to_vec()))));
        assert_eq!(cell_of_x.take(Epoch(9)).await, Ok(None));
    }

    #[tokio::test]
    async fn too_much_is_refused_and_the_most_is_not() {
        let cell = cell(&MemoryStore::new(), "x");
        let size = MAX_HAND_OVER + 1;
        assert_eq!(cell.leave(Epoch(1), vec![0; size]).await, Err(HandOverError::TooLarge { size }));
        cell.leave(Epoch(1), vec![7; MAX_HAND_OVER]).await.unwrap();
        assert_eq!(cell.take(Epoch(2)).await.unwrap().unwrap().1.len(), MAX_HAND_OVER);
    }
}
