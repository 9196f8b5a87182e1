//! Where in the log a member says it is, and how far behind it takes the others and itself to be.

use super::{links::links_at, *};

impl One {
    /// How far o, l and m are behind.
    fn lags(&self) -> [Option<u64>; 3] {
        ["o", "l", "m"].map(|name| self.member.behind_of(&node(name)))
    }

    /// Follows l, is linked to o, and has applied what is up to position 1.
    fn following_both() -> Self {
        let mut one = Self::following();
        one.links("o", 2);
        one
    }

    fn applies(&mut self, position: u64) {
        let batch = Batch { epoch: Epoch(5), ..batch(position, Vec::new()) };
        self.hears("l", replicate(&batch));
        assert_eq!(self.member.replica().position(), Position(position));
    }

    fn looks_a_second_later(&mut self) {
        self.now.time = self.now.time + MILLIS(1000);
        self.step(Input::AskForLinks);
    }
}

#[test]
fn a_member_says_what_its_replica_has_applied() {
    let mut one = One::following_both();
    let says = |one: &mut One, position| {
        let effects = one.hears("o", Message::LinksWanted);
        let message = links_at(&["l", "o"], position);
        assert_eq!(effects, [Effect::Send { to: node("o"), link: Some(2), message }]);
    };
    says(&mut one, 1);
    one.applies(2);
    says(&mut one, 2);
    // It has heard of more, and has not got it.
    one.hears("l", heartbeat(5, 9));
    says(&mut one, 2);
}

#[test]
fn a_lag_is_what_was_lacking_when_it_was_said() {
    let mut one = One::following_both();
    (2..=10).for_each(|position| one.applies(position));
    assert_eq!(one.lags(), [None, None, Some(0)], "nobody has said anything");
    one.looks();
    assert_eq!(one.lags(), [None, None, Some(0)]);
    one.hears("o", links_at(&["l", "m"], 7));
    one.hears("l", links_at(&["m", "o"], 10));
    assert_eq!(one.lags(), [Some(3), Some(0), Some(0)]);
    // The log grows. That says nothing of whoever is not heard.
    one.applies(11);
    one.applies(12);
    assert_eq!(one.lags(), [Some(3), Some(0), Some(0)]);
    one.looks_a_second_later();
    let changes = one.member.links_changes();
    one.hears("o", links_at(&["l", "m"], 12));
    assert_eq!(one.lags(), [Some(0), Some(0), Some(0)], "it has caught up, and its links are the same");
    assert_eq!(one.member.links_changes(), changes + 1);
    one.hears("l", links_at(&["m", "o"], 12));
    assert_eq!(one.member.links_changes(), changes + 1, "the leader is where it was: at the end");
}

#[test]
fn what_is_known_of_the_log_counts_wherever_it_is_known_from() {
    // From the leader.
    let mut one = One::following_both();
    one.hears("l", heartbeat(5, 9));
    assert_eq!(one.lags(), [None, None, Some(8)], "it lacks what it was told of");
    one.looks();
    one.hears("o", links_at(&["l", "m"], 4));
    assert_eq!(one.lags(), [Some(5), None, Some(8)]);
    // From another member that is further.
    one.hears("l", links_at(&["m", "o"], 20));
    assert_eq!(one.lags(), [Some(5), Some(0), Some(19)], "of o nothing new is known");
    one.looks_a_second_later();
    one.hears("o", links_at(&["l", "m"], 4));
    assert_eq!(one.lags(), [Some(16), Some(0), Some(19)]);
    // What nobody asked for says nothing.
    one.hears("o", links_at(&["l", "m"], 90));
    assert_eq!(one.lags(), [Some(16), Some(0), Some(19)]);
}

#[test]
fn a_lag_is_forgotten_with_the_link_and_with_its_age() {
    let mut one = One::following_both();
    one.looks();
    one.hears("o", links_at(&["l", "m"], 50));
    assert_eq!(one.lags(), [Some(0), None, Some(49)]);
    one.unlinks("o", 2);
    assert_eq!(one.lags(), [None, None, Some(0)], "whoever said it is not known");
    one.links("o", 2);
    one.looks_a_second_later();
    one.hears("o", links_at(&["l", "m"], 0));
    assert_eq!(one.lags(), [Some(1), None, Some(0)]);
    one.wakes_after(5000);
    assert_eq!(one.lags(), [None, None, Some(0)]);
}

#[test]
fn the_status_has_the_lags_and_is_made_anew_when_one_changes() {
    let mut one = One::following_both();
    let mut rows = crate::status::of_member::MemberRows::default();
    let mut shown = |one: &One| crate::Status::of(&one.member, &mut rows).members;
    // In the order l, m, o.
    let of = |shown: &[crate::MemberInfo]| -> Vec<_> { shown.iter().map(|row| row.behind).collect() };
    let before = shown(&one);
    assert_eq!(of(&before), [None, Some(0), None]);
    one.applies(2);
    assert!(Arc::ptr_eq(&before, &shown(&one)), "it is at the end as before");
    one.looks();
    one.hears("o", links_at(&["l", "m"], 1));
    assert_eq!(of(&shown(&one)), [None, Some(0), Some(1)]);
    one.hears("l", heartbeat(5, 4));
    assert_eq!(of(&shown(&one)), [None, Some(2), Some(1)]);
}
