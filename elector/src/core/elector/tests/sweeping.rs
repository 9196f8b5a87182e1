//! The records of authors that are members of nothing.

use std::collections::VecDeque;

use callsign_store::{Read, StoreError, Transaction, Write, keys::read_range, mvcc::Mvcc, record::Record};

use super::*;
use crate::core::record::{AuthorFloor, AuthorRecord};

fn authors(sim: &Sim) -> usize {
    let reads = [read_range(sim.keys.authors(), 1000)];
    sim.store.read(&reads, None).unwrap().entries(0).len()
}

#[test]
fn more_authors_than_a_transaction_has_checks_for_are_swept_by_several_one_after_the_other() {
    // As etcd has them.
    let mut sim = Sim::with_checks(80, 126);
    sim.timing = ElectorTiming { sweep_after: SECOND * 8, ..ElectorTiming::default() };
    sim.start("a");
    for number in 1..=100 {
        let author = sim.keys.author(&node(&format!("w{number}")));
        sim.write(author, Some(AuthorRecord { sequence: Sequence(number) }.to_value()));
    }
    sim.settle(1);
    assert_eq!(authors(&sim), 101, "the member is one, too");
    assert!(sim.run_until(SECOND * 30, |sim| authors(sim) < 101));
    let all_gone = sim.run_until(SECOND * 5, |sim| authors(sim) == 1);
    assert!(all_gone, "{} are left", authors(&sim));
}

/// The elector of a leader that is alone, over a store that answers at once.
struct Alone {
    elector: Elector,
    store: Mvcc,
    now: Time,
    asked: VecDeque<Effect>,
}

impl Alone {
    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.elector.step(self.now, input, &mut effects);
        self.asked.extend(effects);
    }

    fn answer(&mut self, effect: Effect) {
        match effect {
            Effect::Read { id, reads } => {
                let result = Ok(self.store.read(&reads, None).unwrap());
                self.step(Input::ReadDone { id, result });
            }
            Effect::Commit { id, transaction } => {
                let outcome = self.store.apply(&transaction);
                self.step(Input::CommitDone { id, outcome });
            }
            _ => {}
        }
    }

    /// Runs until this is asked for, and takes it. All else is answered.
    fn until(&mut self, is_it: impl Fn(&Effect) -> bool) -> Effect {
        for _ in 0..10_000 {
            match self.asked.pop_front() {
                Some(effect) if is_it(&effect) => return effect,
                Some(effect) => self.answer(effect),
                None => {
                    self.now = self.now.max(self.elector.wake_at.expect("it is to be woken"));
                    self.step(Input::Wake);
                }
            }
        }
        panic!("it is never asked for");
    }

    /// Runs until a page of authors is asked for; says after how long.
    fn until_page(&mut self, keys: &RegistryKeys) -> (Duration, Effect) {
        let (begun, authors) = (self.now, keys.authors());
        let is_page = |effect: &Effect| {
            matches!(effect, Effect::Read { reads, .. }
                if matches!(&reads[..], [Read::Range { range, .. }] if authors.contains(&range.start)))
        };
        let page = self.until(is_page);
        (self.now.since(begun), page)
    }
}

#[test]
fn a_page_that_cannot_be_had_and_a_sweep_that_does_not_commit_are_asked_for_again_soon() {
    let timing = ElectorTiming { sweep_after: SECOND * 8, ..ElectorTiming::default() };
    let mut sim = Sim::with_timing(82, &["a"], timing);
    sim.settle(1);
    for (name, number) in [("w1", 3), ("w2", 7), ("w3", 5)] {
        sim.write(sim.keys.author(&node(name)), Some(AuthorRecord { sequence: Sequence(number) }.to_value()));
    }
    assert!(sim.run_until(SECOND, |sim| sim.hosts[&node("a")].elector.doing.is_none()));
    let (keys, store, now) = (sim.keys.clone(), sim.store.clone(), sim.now);
    let mut alone = Alone { elector: sim.host("a").elector.clone(), store, now, asked: VecDeque::new() };

    let (_, page) = alone.until_page(&keys);
    let Effect::Read { id, .. } = page else { panic!("{page:?}") };
    alone.step(Input::ReadDone { id, result: Err(StoreError::Unavailable("down".to_owned())) });
    let (after, page) = alone.until_page(&keys);
    assert_eq!(after, SECOND);
    alone.answer(page);
    let (after, page) = alone.until_page(&keys);
    assert_eq!(after, SECOND * 8, "the next walk");
    alone.answer(page);
    let clears = Write::Clear(keys.author(&node("w1")));
    let sweeps = |transaction: &Transaction| transaction.writes.contains(&clears);
    let is_sweep =
        |asked: &Effect| matches!(asked, Effect::Commit { transaction, .. } if sweeps(transaction));
    let sweep = alone.until(is_sweep);
    let Effect::Commit { id, transaction } = &sweep else { panic!("{sweep:?}") };
    let is_taken = |store: &mut Mvcc| matches!(store.apply(transaction), CommitOutcome::Committed(_));
    assert!(is_taken(&mut alone.store.clone()), "as it was read, it commits");
    let mut altered = alone.store.clone();
    altered.apply(&Transaction::new().put(keys.cluster().lineage(), b"another lineage".to_vec()));
    assert!(!is_taken(&mut altered), "nothing is swept in another lineage");
    alone.step(Input::CommitDone { id: *id, outcome: CommitOutcome::Conflict });
    let (after, page) = alone.until_page(&keys);
    assert_eq!(after, SECOND, "not by the next walk");
    alone.answer(page);
    let sweep = alone.until(is_sweep);
    alone.answer(sweep);
    let left = alone.store.read(&[read_range(keys.authors(), 10)], None).unwrap();
    assert_eq!(left.entries(0).iter().map(|(key, _)| key).collect::<Vec<_>>(), [&keys.author(&node("a"))]);
    let floor = alone.store.get(&keys.author_floor()).map(AuthorFloor::from_value);
    assert_eq!(floor, Some(Ok(AuthorFloor(Sequence(7)))));
}
