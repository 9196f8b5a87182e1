//! The records of authors that are members of nothing.

use callsign_store::{keys::read_range, record::Record};

use super::*;
use crate::core::record::AuthorRecord;

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
