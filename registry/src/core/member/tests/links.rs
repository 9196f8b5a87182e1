//! What a member says of its own links, and what it knows of those of the others.

use super::*;

fn names(names: &[&str]) -> Vec<NodeName> {
    names.iter().map(|name| node(name)).collect()
}

fn links(linked: &[&str]) -> Message {
    links_at(linked, 0)
}

pub(super) fn links_at(linked: &[&str], position: u64) -> Message {
    Message::Links { linked: names(linked), position: Position(position) }
}

impl One {
    /// Linked to l and o.
    pub(super) fn linked() -> Self {
        let mut one = Self::new();
        one.links("l", 1);
        one.links("o", 2);
        one
    }

    /// Somebody looks: whom it asks.
    pub(super) fn looks(&mut self) -> Vec<(String, u64, Message)> {
        let effects = self.step(Input::AskForLinks);
        assert_eq!(effects.len(), sends(&effects).len(), "it asks, and does nothing else: {effects:?}");
        sends(&effects)
    }

    fn known(&self, of: &str) -> Option<Vec<NodeName>> {
        self.member.links_of(&node(of)).map(|linked| linked.to_vec())
    }
}

fn asked(of: &[(&str, u64)]) -> Vec<(String, u64, Message)> {
    of.iter().map(|(name, link)| ((*name).to_owned(), *link, Message::LinksWanted)).collect()
}

#[test]
fn a_member_says_which_members_it_has_links_to_and_no_others() {
    let mut one = One::new();
    let says = |one: &mut One, to: &str, link, linked: &[&str]| {
        let effects = one.hears(to, Message::LinksWanted);
        assert_eq!(effects, [Effect::Send { to: node(to), link: Some(link), message: links(linked) }]);
    };
    one.links("l", 1);
    says(&mut one, "l", 1, &["l"]);
    one.links("o", 2);
    // No member.
    one.links("x", 3);
    says(&mut one, "l", 1, &["l", "o"]);
    says(&mut one, "o", 2, &["l", "o"]);
    one.unlinks("o", 2);
    says(&mut one, "l", 1, &["l"]);
    assert_eq!(one.hears("o", Message::LinksWanted), [], "there is no way to it");
    one.view.members.remove(&node("l"));
    one.shown();
    says(&mut one, "l", 1, &[]);
}

#[test]
fn others_are_asked_when_somebody_looks_and_once_a_second_at_most() {
    let mut one = One::linked();
    for _ in 0..20 {
        let effects = one.wakes_after(1000);
        assert!(sends(&effects).is_empty(), "nobody looks: {effects:?}");
    }
    assert_eq!(one.looks(), asked(&[("l", 1), ("o", 2)]));
    assert_eq!(one.looks(), []);
    one.now.time = one.now.time + MILLIS(999);
    assert_eq!(one.looks(), []);
    one.now.time = one.now.time + MILLIS(1);
    assert_eq!(one.looks(), asked(&[("l", 1), ("o", 2)]));
    assert!(sends(&one.wakes_after(5000)).is_empty());
    // Only whoever is a member and linked.
    one.links("x", 3);
    one.unlinks("o", 2);
    assert_eq!(one.looks(), asked(&[("l", 1)]));
}

#[test]
fn no_links_and_not_known_are_two_things() {
    let mut one = One::linked();
    assert_eq!(one.known("m"), Some(names(&["l", "o"])), "its own it knows");
    assert_eq!((one.known("l"), one.known("o")), (None, None));
    one.looks();
    assert_eq!((one.known("l"), one.known("o")), (None, None), "they have not answered");
    assert_eq!(one.hears("l", links(&["o", "m", "m"])), []);
    assert_eq!(one.hears("o", links(&[])), []);
    assert_eq!(one.known("l"), Some(names(&["m", "o"])), "in their order, each of them once");
    assert_eq!(one.known("o"), Some(Vec::new()));
    assert_eq!(one.known("nobody"), None);
    one.unlinks("l", 1);
    one.unlinks("o", 2);
    assert_eq!(one.known("m"), Some(Vec::new()));
}

#[test]
fn each_question_has_one_answer_and_the_last_one_counts() {
    let mut one = One::linked();
    assert_eq!(one.hears("l", links(&["m", "o"])), []);
    assert_eq!(one.known("l"), None, "nobody asked");
    one.looks();
    one.hears("l", links(&["m"]));
    let changes = one.member.links_changes();
    one.hears("l", links(&["m", "o"]));
    assert_eq!(one.known("l"), Some(names(&["m"])), "it was answered before");
    one.now.time = one.now.time + MILLIS(1000);
    one.looks();
    assert_eq!(one.known("l"), Some(names(&["m"])), "as long as there is no other answer");
    one.hears("l", links(&["m"]));
    assert_eq!(one.member.links_changes(), changes, "that is no news");
    one.now.time = one.now.time + MILLIS(1000);
    one.looks();
    one.hears("l", links(&["m", "o"]));
    assert_eq!(one.known("l"), Some(names(&["m", "o"])));
    assert_eq!(one.member.links_changes(), changes + 1);
}

#[test]
fn an_answer_is_forgotten_with_the_link_over_which_it_came() {
    let mut one = One::linked();
    one.looks();
    one.hears("l", links(&["m"]));
    one.hears("o", links(&["m"]));
    let changes = one.member.links_changes();
    one.unlinks("l", 7);
    assert_eq!(one.known("l"), Some(names(&["m"])), "the end of another incarnation's link");
    one.unlinks("l", 1);
    assert_eq!((one.known("l"), one.known("o")), (None, Some(names(&["m"]))));
    assert_eq!(one.member.links_changes(), changes + 1);
    // Also if the same process is linked again.
    one.links("l", 1);
    assert_eq!(one.known("l"), None);
}

#[test]
fn the_end_of_a_former_incarnations_link_does_not_end_that_of_the_next_one() {
    let mut one = One::linked();
    one.links("l", 9);
    assert_eq!(one.unlinks("l", 1), [], "that link was another one");
    assert_eq!(one.known("m"), Some(names(&["l", "o"])));
    assert_eq!(tells(&one.unlinks("l", 9)), [Tell::LinkDown(node("l"))]);
    assert_eq!(one.known("m"), Some(names(&["o"])));
}

#[test]
fn what_a_former_incarnation_was_asked_the_next_one_does_not_answer() {
    let mut one = One::linked();
    one.looks();
    one.unlinks("l", 1);
    assert_eq!(one.hears("l", links(&["m", "o"])), []);
    assert_eq!(one.known("l"), None, "it has no link");
    one.links("l", 9);
    assert_eq!(one.hears("l", links(&["m", "o"])), []);
    assert_eq!(one.known("l"), None, "this one was not asked");
    one.now.time = one.now.time + MILLIS(1000);
    assert_eq!(one.looks(), asked(&[("l", 9), ("o", 2)]));
    one.hears("l", links(&["m"]));
    assert_eq!(one.known("l"), Some(names(&["m"])));
}

#[test]
fn an_answer_of_whoever_is_a_member_no_more_is_forgotten() {
    let mut one = One::linked();
    one.looks();
    one.hears("l", links(&["m"]));
    one.hears("o", links(&["m"]));
    one.shown();
    assert_eq!(one.known("l"), Some(names(&["m"])), "it is a member as before");
    let former = one.view.members.remove(&node("l")).unwrap();
    one.shown();
    assert_eq!((one.known("l"), one.known("o")), (None, Some(names(&["m"]))));
    one.view.members.insert(node("l"), former);
    one.shown();
    assert_eq!(one.known("l"), None);
}

#[test]
fn what_a_node_may_do_is_forgotten_when_its_row_goes_after_its_link() {
    let mut one = One::linked();
    let may = |one: &One| ["l", "o"].map(|name| one.member.permitted.check(&session(name), "shop").is_ok());
    one.unlinks("l", 1);
    one.shown();
    assert_eq!(may(&one), [true; 2], "it is a member as before");
    for name in ["l", "o"] {
        one.view.members.remove(&node(name));
    }
    one.shown();
    assert_eq!(may(&one), [false, true], "the other one is linked");
}

#[test]
fn an_answer_is_forgotten_with_its_age() {
    let mut one = One::linked();
    one.looks();
    one.hears("l", links(&["m"]));
    one.now.time = one.now.time + MILLIS(1000);
    one.looks();
    one.hears("o", links(&["m"]));
    one.wakes_after(3999);
    assert_eq!((one.known("l"), one.known("o")), (Some(names(&["m"])), Some(names(&["m"]))));
    let changes = one.member.links_changes();
    one.wakes_after(1);
    assert_eq!((one.known("l"), one.known("o")), (None, Some(names(&["m"]))), "it did not answer again");
    assert_eq!(one.member.links_changes(), changes + 1);
    one.wakes_after(1000);
    assert_eq!((one.known("l"), one.known("o")), (None, None));
    assert!(one.member.wakes_at(one.now.time) <= one.now.time + MILLIS(1000), "it is woken to forget");
}

#[test]
fn whoever_has_left_asks_nobody() {
    let mut one = One::linked();
    one.calls(1, Call::Leave, 1000);
    one.wakes_after(2000);
    assert!(one.member.drain.has_left());
    assert_eq!(one.looks(), []);
}

#[test]
fn the_status_has_what_is_said_and_is_made_anew_when_that_changes() {
    let mut one = One::linked();
    let mut rows = crate::status::of_member::MemberRows::default();
    let mut shown = |one: &One| crate::Status::of(&one.member, &mut rows).members;
    let before = shown(&one);
    let of = |shown: &[crate::MemberInfo]| -> Vec<_> {
        shown.iter().map(|row| row.links_to.as_deref().map(<[NodeName]>::to_vec)).collect()
    };
    assert_eq!(of(&before), [None, Some(names(&["l", "o"])), None]);
    one.looks();
    assert!(Arc::ptr_eq(&before, &shown(&one)), "nobody has answered");
    one.hears("l", links(&["m", "o"]));
    one.hears("o", links(&[]));
    let after = shown(&one);
    assert_eq!(of(&after), [Some(names(&["m", "o"])), Some(names(&["l", "o"])), Some(Vec::new())]);
    one.now.time = one.now.time + MILLIS(1000);
    one.looks();
    one.hears("l", links(&["m", "o"]));
    assert!(Arc::ptr_eq(&after, &shown(&one)), "it said the same");
    one.unlinks("l", 1);
    assert_eq!(of(&shown(&one)), [None, Some(names(&["o"])), Some(Vec::new())]);
}
