use super::*;
use callsign_store::ids::Nonce;

fn end(position: u64, nonce: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(nonce) }
}

fn logged(position: u64, name: NameId) -> Logged {
    let node = NodeName::new("a").unwrap();
    let now = Some((Position(position), node));
    Logged { position: Position(position), name, was: None, now, why: Why::Registered }
}

/// Of two batches the second was lost, and another one is in its place.
fn went_back() -> Watched {
    let mut watched = Watched::default();
    watched.add(logged(1, 0));
    watched.ends(end(1, 1));
    let before = watched.clone();
    watched.add(logged(2, 1));
    watched.ends(end(2, 2));
    watched.roll_back(&before);
    watched.add(logged(2, 2));
    watched.ends(end(2, 3));
    watched
}

/// Passes a position on to a reader that has the first change.
fn pass(log: &ChangeLog, to: u64) -> Result<(), String> {
    let mut reader = Judged::new(Filter::All, Some(Position(1)));
    let position = Position(to);
    let given = Given { event: WatchEvent::Bookmark { position }, passes: Some(position) };
    reader.take((log, position), &given, &BTreeMap::new())
}

#[test]
fn a_reader_is_judged_by_the_log_that_its_node_follows() {
    let mut watched = went_back();
    for _ in 0..2 {
        for (nonce, skipped) in [(2, "name: 1"), (3, "name: 2")] {
            let log = watched.followed(end(2, nonce));
            let what = pass(log, 2).unwrap_err();
            assert!(what.contains("was not given") && what.contains(skipped), "{what}");
        }
        // What both have in common is the same in both.
        assert_eq!(pass(watched.followed(end(1, 1)), 1), Ok(()));
        // The same holds when the present one is lost, too.
        watched.clear();
    }
    // One that has nothing yet follows the present log.
    assert_eq!(watched.followed(LogEnd::default()).number, watched.present.number);
}
