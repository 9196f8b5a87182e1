//! What one read shows, and what of it cannot be read.

use callsign_store::{ids::Nonce, record::Record};

use super::*;
use crate::core::{
    lineage::{LineageId, LineageNumber},
    record::{AuthorFloor, AuthorRecord, Lineage},
};

/// What `a` reads, which asks for its own session and for that of `x`, and has used so many numbers.
fn read(sim: &Sim, used: u64) -> Reading {
    let asked = BTreeSet::from(["a", "x"].map(node));
    let result = sim.store.read(&reading::reads(&sim.keys, &node("a"), 64, &asked), None).unwrap();
    Reading::new(&sim.keys, 64, &asked, Sequence(used), None, result)
}

#[test]
fn the_next_number_of_an_author_is_above_all_that_may_have_been_used() {
    let mut sim = Sim::new(31, &[]);
    let (author, floor) = (sim.keys.author(&node("a")), sim.keys.author_floor());
    let next = |sim: &Sim, used: u64| read(sim, used).next_sequence.map(|next| next.0);
    assert_eq!([next(&sim, 0), next(&sim, 5)], [Some(1), Some(6)]);
    sim.write(floor, Some(AuthorFloor(Sequence(3)).to_value()));
    assert_eq!([next(&sim, 0), next(&sim, 5)], [Some(4), Some(6)]);
    sim.write(author, Some(AuthorRecord { sequence: Sequence(9) }.to_value()));
    assert_eq!([next(&sim, 0), next(&sim, 5)], [Some(10), Some(10)]);
    let id = LineageId { number: LineageNumber(1), nonce: Nonce(7) };
    let lineage = Lineage { id, greatest_lease: SECOND * 10 };
    sim.write(sim.keys.cluster().lineage(), Some(lineage.to_value()));
    assert_eq!(next(&sim, 0), Some(id.number.after(0)));
}

#[test]
fn what_cannot_be_read_and_is_only_ones_own_or_of_one_session_stops_no_decision() {
    let keys = Sim::new(32, &[]).keys;
    let (cluster, a) = (keys.cluster(), node("a"));
    for (key, enqueues) in [
        (keys.author(&a), false),
        (keys.author_floor(), false),
        (cluster.lineage(), false),
        (cluster.session_floor(), true),
        (cluster.session(&a), true),
    ] {
        let mut sim = Sim::new(32, &[]);
        sim.write(key.clone(), Some(vec![9]));
        let reading = read(&sim, 0);
        assert!(reading.state.is_some(), "{}", String::from_utf8_lossy(&key));
        assert_eq!(reading.next_sequence.is_some(), enqueues, "{}", String::from_utf8_lossy(&key));
        assert_eq!(reading.corrupt.iter().map(|(key, _)| key).collect::<Vec<_>>(), [&key]);
        assert_eq!(reading.sessions.has_read(&a), key != cluster.session(&a));
        assert!(reading.sessions.has_read(&node("x")));
    }
}

#[test]
fn a_row_of_nobody_is_an_error_and_nothing_is_decided() {
    let mut sim = Sim::new(33, &[]);
    assert!(read(&sim, 0).state.is_some());
    let key = [sim.keys.members().start, b"no/node".to_vec()].concat();
    sim.write(key.clone(), Some(b"?".to_vec()));
    let reading = read(&sim, 0);
    assert_eq!((reading.state, reading.corrupt), (None, vec![(key, "its key names no node".to_owned())]));
}

#[test]
fn so_many_rows_as_are_read_at_most_are_too_many_to_decide_by() {
    let sim = Sim::settled(34, &["a"]);
    let asked = BTreeSet::from([node("a")]);
    let all = sim.store.read(&reading::reads(&sim.keys, &node("a"), 64, &asked), None).unwrap();
    let row = sim.raw(&sim.keys.member(&node("a"))).unwrap();
    for (count, is_decided) in [(9_999, true), (10_000, false)] {
        let mut result = all.clone();
        let rows = (0..count).map(|nth| (sim.keys.member(&node(&format!("m{nth:05}"))), row.clone()));
        // The rows come behind the records that are read one by one.
        result.answers[10] = rows.collect();
        let reading = Reading::new(&sim.keys, 64, &asked, Sequence(0), None, result);
        assert_eq!(reading.state.is_some(), is_decided, "{count}");
    }
}
