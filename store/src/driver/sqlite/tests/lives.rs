//! How the files by which deaths are proven are looked after.

use super::*;
use crate::testing::log::Listening;

#[tokio::test]
async fn a_commit_looks_whether_the_lock_files_of_its_process_are_where_others_look_for_them() {
    let place = Place::new();
    let store = place.open();
    let _guard = store.guard_life(&node(), Incarnation(1)).unwrap().unwrap();
    std::fs::remove_file(place.beside("-lives").join("a.1.1")).unwrap();
    let log = Listening::to("callsign_store::driver::sqlite::life");
    for value in ["1", "2"] {
        let outcome = store.commit(put(value)).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }
    let said: Vec<_> = log.all().iter().map(|line| line["message"].clone()).collect();
    assert!(matches!(said.as_slice(), [line] if line.contains("was replaced or removed")), "{said:?}");
}
