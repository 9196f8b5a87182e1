//! What fuzzing drives: whatever is in the store, nothing panics, and what is said in each function holds.
//!
//! The functions are called by `tests/fuzz/`, and by a test with every file that fuzzing left in `tests/fuzz/corpus/`.
#![allow(missing_docs)] // it is hidden

use std::{sync::Arc, time::Duration};

use callsign_store::{
    CommitOutcome, Key, SharedStore, Time, Transaction, Value,
    fuzz::{STEPS, election, holding, pieces, read, reads_back},
    ids::{Incarnation, MemberId, Nonce, Tag},
    memory::MemoryStore,
    mvcc::Mvcc,
};
use futures::executor::block_on;

use crate::{
    core::{
        lease::{
            member::{Ask, Member},
            operation::{self, Operation, Step},
        },
        state::{Candidate, Command, Control, Count, Row, Seat},
    },
    driver::sink::{ByBallot, ByEpoch, FencedCell, RankedRegister},
};

fn candidate(name: &str) -> MemberId {
    MemberId::new(name).expect("a letter is a name")
}

/// A value, read as what has this number. The key that it is under; `None` if it is not of an election.
fn place(number: u8, value: &[u8]) -> Option<Key> {
    let election = election();
    Some(match number % 20 {
        12 => {
            reads_back::<Seat>(value);
            election.seat()
        }
        13 => {
            reads_back::<Control>(value);
            election.control()
        }
        14 => {
            reads_back::<Count>(value);
            election.count()
        }
        number @ 15..=16 => {
            reads_back::<Row>(value);
            election.candidate(&candidate(["a", "b"][usize::from(number - 15)]))
        }
        17 => b"cell".to_vec(),
        18 => b"register".to_vec(),
        _ => return None,
    })
}

/// What a store holds: pieces, by number. All cores that act on it are run.
pub fn records(bytes: &[u8]) {
    let placed = pieces(bytes).filter_map(|(number, value)| Some((place(number, value)?, value)));
    let store = holding(&placed.fold(Transaction::new(), |all, (key, value)| all.put(key, value.to_vec())));
    run_lease(store.clone());
    use_sinks(&store);
}

fn run_lease(mut store: Mvcc) {
    let tags = [Tag::new("t").expect("a letter is a name")].into();
    let me = Candidate { member: candidate("b"), incarnation: Incarnation(7), priority: 1, tags };
    let mut now = Time(Duration::from_secs(1));
    let mut member = Member::new(election(), me, true);
    for ask in [
        Ask::Prepare(None),
        Ask::Claim(Nonce(1)),
        Ask::Rivals,
        Ask::Claim(Nonce(2)),
        Ask::Cycle(Nonce(3)),
        Ask::Tidy,
        Ask::Leave(None),
    ] {
        let mut step = member.begin(now, ask);
        for _ in 0..STEPS {
            now = now + Duration::from_secs(3);
            let input = match step {
                Step::Read(reads) => operation::Input::Read(read(&store, &reads)),
                Step::Commit(transaction) => operation::Input::Commit(store.apply(&transaction)),
                Step::Done(_) => break,
            };
            step = member.step(now, input, &mut Vec::new());
        }
    }
    let mut memory = crate::driver::lease::Memory::default();
    let mut evict = Operation::new(&election(), vec![Command::Evict { most: 2 }]);
    let mut step = evict.begin(now, &mut memory);
    for _ in 0..STEPS {
        let input = match step {
            Step::Read(reads) => operation::Input::Read(read(&store, &reads)),
            Step::Commit(transaction) => operation::Input::Commit(store.apply(&transaction)),
            Step::Done(_) => break,
        };
        step = evict.step(now, &mut memory, input, &mut Vec::new());
    }
}

fn use_sinks(store: &Mvcc) {
    let memory: SharedStore = Arc::new(MemoryStore::new());
    let mut any = false;
    for key in [&b"cell"[..], b"register"] {
        let value: Option<Value> = store.get(key).map(<[u8]>::to_vec);
        if let Some(value) = value {
            any = true;
            let outcome = block_on(memory.commit(Transaction::new().put(key.to_vec(), value)));
            assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        }
    }
    if any {
        let _ = block_on(FencedCell::<ByEpoch>::new(memory.clone(), b"cell".to_vec()).read());
        let _ = block_on(RankedRegister::<ByBallot>::new(memory, b"register".to_vec()).value());
    }
}

#[cfg(test)]
mod tests {
    use callsign_golden::corpus;

    #[test]
    fn nothing_in_the_corpus_of_records_panics() {
        corpus("records", super::records);
    }
}
