//! What is set for all members, and what it changes.

use super::*;
use crate::core::settings::{LONGEST_SETTING, OutOfBounds, Preset, Settings};

impl World {
    fn configure(&mut self, author: &str, change: Settings) -> QueueEntry {
        let token = self.token(author);
        self.entry(author, MembershipEvent::Configure { token, change })
    }

    fn configures(&mut self, author: &str, change: Settings) -> Applied {
        let entry = self.configure(author, change);
        self.apply(author, &entry)
    }
}

const SILENCE: Settings =
    Settings { lock_timeout: None, silence: Some(Duration::from_secs(4)), policy: None };
const RANKED: Settings = Settings { lock_timeout: None, silence: None, policy: Some(Preset::Ranked) };

#[test]
fn a_member_sets_for_all_and_what_it_does_not_name_stays() {
    let mut world = World::led(&["a", "b"]);
    let applied = world.configures("b", SILENCE);
    assert_eq!(applied.outcome, Ok(Change::Configured { by: node("b") }));
    assert_eq!((applied.seat, world.state.settings), (Seat::Kept, SILENCE));
    world.configures("a", RANKED);
    assert_eq!(world.state.settings, Settings { policy: RANKED.policy, ..SILENCE });
    assert_eq!(dropped(&world.configures("b", SILENCE)), Dropped::NothingNew);
    assert_eq!((world.leader(), world.epoch()), (Some("a"), 1), "a leader that lives stays");
}

#[test]
fn nobody_else_sets_anything_and_nothing_that_cannot_work_is_set() {
    let mut world = World::led(&["a", "b"]);
    world.open("stranger", 1);
    assert_eq!(dropped(&world.configures("stranger", SILENCE)), Dropped::StaleAuthor);
    let stale = world.configure("b", SILENCE);
    world.open("b", 2);
    let again = world.join("b");
    world.apply("b", &again);
    assert_eq!(dropped(&world.apply("b", &stale)), Dropped::StaleAuthor, "its former self said it");
    let long = Settings { silence: Some(LONGEST_SETTING * 2), ..SILENCE };
    let Dropped::OutOfBounds(OutOfBounds { value, .. }) = dropped(&world.configures("a", long)) else {
        panic!("it is applied")
    };
    assert_eq!(value, LONGEST_SETTING * 2);
    assert_eq!(world.state.settings, Settings::default());
}

#[test]
fn it_passes_the_lock() {
    let mut world = World::led(&["a", "b"]);
    let lock = Some(Lock { epoch: Epoch(1), owner: node("a"), nonce: Nonce(9) });
    world.state.lock.clone_from(&lock);
    let entry = world.configure("b", SILENCE);
    let applied = world.state.apply(&entry, &world.facts);
    assert!(applied.passes_lock());
    assert_eq!(applied.after.lock, lock, "and leaves it as it is");
    world.state = applied.after;
    let nothing = world.configure("b", SILENCE);
    assert!(!world.state.apply(&nothing, &world.facts).passes_lock(), "what does nothing waits for its turn");
}

#[test]
fn by_rank_the_seat_goes_to_the_greatest_priority_at_the_next_vacancy() {
    let mut world = World::led(&["a", "b", "c"]);
    world.state.members.get_mut(&node("c")).unwrap().priority = 9;
    world.configures("b", RANKED);
    assert_eq!(world.leader(), Some("a"));
    let resign = world.resign("a");
    let applied = world.apply("b", &resign);
    assert_eq!(applied.seat, Seat::Elected { node: node("c"), opening: None }, "though b committed it");
    assert!(applied.relied.contains(&Relied::Session(node("c"))));
}
