//! The counter that fences come from: a record in a store.

use callsign_store::{
    CommitOutcome, Key, SharedStore, Transaction,
    ids::{Ballot, Epoch, Nonce},
    keys::read_key,
    record::Record,
};
use serde::{Deserialize, Serialize};

use crate::{
    core::term::{Fence, Term},
    oracle::{Denial, Fault, Verdict},
};

/// The counter, and which term of the inner oracle has the last number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Numbered {
    pub(super) epoch: Epoch,
    pub(super) ballot: Ballot,
    pub(super) inner: Term,
    pub(super) nonce: Nonce,
}
impl Record for Numbered {}

/// What others read of it.
#[cfg(test)]
pub(crate) fn golden(golden: &mut callsign_golden::Golden) {
    let inner = Term {
        leader: callsign_store::ids::MemberId::new("a").unwrap(),
        incarnation: callsign_store::ids::Incarnation(u64::MAX - 1),
        epoch: Epoch(7),
        elected_at: crate::core::term::AuthorityTime(70_000),
    };
    let numbered = Numbered { epoch: Epoch(8), ballot: Ballot(9), inner, nonce: Nonce(5) };
    golden.record("fenced", numbered, Record::to_value, Record::from_value);
}

/// Where the numbers come from.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) store: SharedStore,
    /// Known when the oracle is initialised.
    pub(super) key: Option<Key>,
}

impl Counter {
    fn key(&self) -> Result<Key, Fault> {
        self.key.clone().ok_or_else(|| Fault::Fatal("it was not initialised".to_owned()))
    }

    pub(super) async fn read(&self) -> Result<(Option<Vec<u8>>, Option<Numbered>), Fault> {
        let read = self.store.read(vec![read_key(self.key()?)]).await;
        let read = read.map_err(|error| transient(error.to_string()))?;
        let bytes = read.value(0).cloned();
        // A counter that cannot be read is not 0.
        let numbered = bytes.as_deref().map(Numbered::from_value).transpose();
        Ok((bytes, numbered.map_err(|error| Fault::Fatal(error.to_string()))?))
    }

    /// Replaces what was read, or not.
    pub(super) async fn put(&self, bytes: Option<Vec<u8>>, next: &Numbered) -> Result<CommitOutcome, Fault> {
        let draw = Transaction::new().check(self.key()?, bytes).put(self.key()?, next.to_value());
        Ok(self.store.commit(draw).await)
    }

    /// A denial of the inner oracle, with the leader's epoch as it is here.
    pub(super) async fn denied(&self, denial: Denial) -> Verdict<Fence> {
        let last = match &denial.leader {
            // Nobody can be named without the store; the denial stands.
            Some(_) => self.read().await.ok().and_then(|(_, last)| last),
            None => None,
        };
        let leader = last.filter(|last| Some(&last.inner) == denial.leader.as_ref());
        Verdict::Denied(Denial { leader: leader.map(|last| seen(&last)), ..denial })
    }
}

/// The inner oracle may have done its part: the same attempt is made again.
pub(super) fn transient(cause: String) -> Fault {
    Fault::Transient { maybe_committed: true, cause }
}

/// The term as it is here.
pub(super) fn seen(numbered: &Numbered) -> Term {
    Term { epoch: numbered.epoch, ..numbered.inner.clone() }
}
