//! Watches.

use super::*;
use crate::histories::event::{Saw, Shown};

fn held(token: u64) -> Shown {
    Shown { token, revision: token, starts: false, says: None }
}

fn change(position: u64, was: Option<Shown>, now: Option<Shown>, why: &str) -> Saw {
    Saw::Change { name: "n".to_owned(), position, was, now, why: why.to_owned() }
}

fn registered(position: u64) -> Saw {
    change(position, None, Some(held(position)), "registered")
}

fn unregistered(position: u64, token: u64) -> Saw {
    change(position, Some(held(token)), None, "unregistered")
}

fn present(token: u64) -> Saw {
    Saw::Present { name: "n".to_owned(), now: held(token) }
}

impl Forger {
    fn saw(self, watch: u64, saw: Saw, passed: impl Into<Option<u64>>) -> Self {
        self.event(Event::Watched { at: 50 * MS, watch, saw, passed: passed.into() })
    }

    fn open(self, watch: u64, from: impl Into<Option<u64>>) -> Self {
        self.saw(watch, Saw::Opened { prefix: String::new(), from: from.into() }, None)
    }

    /// A watch that begins with nothing, at position 1.
    fn watches(self) -> Self {
        self.open(1, None).saw(1, Saw::Current(1), 1)
    }
}

#[test]
fn a_watch_that_gives_everything_in_order_is_well() {
    let whole =
        a().watches().saw(1, registered(5), 5).saw(1, unregistered(7, 5), 7).saw(1, Saw::Bookmark(9), 9);
    let later = b().open(1, 5).saw(1, unregistered(7, 5), 7).saw(1, registered(10), 10);
    let anew = Forger::new("c", 300)
        .open(1, 3)
        .saw(1, Saw::Reset, None)
        .saw(1, present(5), None)
        .saw(1, Saw::Current(6), 6)
        .saw(1, unregistered(7, 5), 7);
    is_well([whole, later, anew]);
}

#[test]
fn a_watch_that_goes_back_or_does_not_follow_what_it_said_is_seen() {
    is_breach("watch", [a().watches().saw(1, registered(5), 5).saw(1, registered(5), None)]);
    is_breach("watch", [a().watches().saw(1, registered(5), 5).saw(1, Saw::Bookmark(4), 4)]);
    is_breach("watch", [a().watches().saw(1, registered(5), 5).saw(1, registered(7), 7)]);
    is_breach("watch", [a().watches().saw(1, unregistered(7, 5), 7)]);
    is_breach("watch", [a().open(1, None).saw(1, present(5), None).saw(1, present(4), None)]);
    // Also where it went on from its own position.
    let goes_on = |was| {
        let first = a().watches().saw(1, registered(5), 5).saw(1, Saw::Closed, None);
        first.open(2, 5).saw(2, unregistered(7, was), 7)
    };
    is_well([goes_on(5)]);
    is_breach("watch", [goes_on(4)]);
    // The other way is a reset.
    let reset = |saw: Saw| a().watches().saw(1, registered(5), 5).saw(1, Saw::Reset, None).saw(1, saw, None);
    is_well([reset(present(6))]);
    is_breach("watch", [reset(Saw::Current(6)).saw(1, unregistered(7, 5), 7)]);
}

#[test]
fn a_position_before_everything_was_given_is_seen() {
    is_breach("watch", [a().open(1, None).saw(1, present(5), 5)]);
    is_breach("watch", [a().watches().saw(1, Saw::Reset, 1).saw(1, present(5), 5)]);
}

#[test]
fn a_change_that_is_missing_is_seen() {
    let all = || a().watches().saw(1, registered(5), 5).saw(1, unregistered(7, 5), 7);
    is_breach("watch", [all(), b().watches().saw(1, Saw::Bookmark(6), 6)]);
    is_breach("watch", [all(), b().open(1, 5).saw(1, Saw::Bookmark(8), 8)]);
    // Not where it has not come yet, or was missed and said so.
    is_well([all(), b().watches().saw(1, Saw::Bookmark(4), 4)]);
    let lagged = change(7, None, None, "unknown");
    is_well([all(), b().watches().saw(1, Saw::Lagged, None).saw(1, lagged, 7)]);
    // Also if only the client was told of it.
    let granted = || a().register((10, 20), 1, Granted(5));
    is_well([granted(), b().watches().saw(1, registered(5), 5)]);
    is_breach("watch", [granted(), b().watches().saw(1, Saw::Bookmark(6), 6)]);
}

#[test]
fn watches_that_disagree_are_seen() {
    is_breach(
        "watch",
        [
            a().watches().saw(1, registered(5), 5),
            b().watches().saw(1, change(5, None, None, "unregistered"), 5),
        ],
    );
    let other = Some(Shown { says: Some(1), ..held(5) });
    is_breach(
        "watch",
        [
            a().watches().saw(1, registered(5), 5),
            b().watches().saw(1, change(5, None, other, "registered"), 5),
        ],
    );
    // One that began with another state.
    is_breach(
        "watch",
        [
            a().watches().saw(1, registered(5), 5),
            b().open(1, None).saw(1, present(4), None).saw(1, Saw::Current(5), 5),
        ],
    );
}

#[test]
fn a_change_is_what_its_reason_says_and_a_move_is_free_at_no_moment() {
    is_breach("watch", [a().watches().saw(1, change(5, None, Some(held(4)), "registered"), 5)]);
    let moves = |saw: Saw| {
        let takes = b().register((10, 20), 1, Granted(5)).event(Event::Gave {
            at: 25 * MS,
            actor: 1,
            name: "n".to_owned(),
            data: 7,
        });
        let takes = takes.call(
            (30, 40),
            2,
            "n",
            Ask::Take { from: 5 },
            Some(Answer::Moved { token: 8, data: Some(7) }),
        );
        [takes, a().watches().saw(1, registered(5), 5).saw(1, saw, 8)]
    };
    is_well(moves(change(8, Some(held(5)), Some(held(8)), "transferred")));
    is_breach("watch", moves(change(8, Some(held(5)), Some(held(8)), "registered")));
    let says_else = Shown { says: Some(1), ..held(8) };
    is_breach("watch", moves(change(8, Some(held(5)), Some(says_else), "transferred")));
    is_breach("watch", moves(change(8, Some(held(5)), Some(held(8)), "updated")));
}
