//! Pages of names.

use super::*;
use crate::histories::event::{Listed, Page, Shown};

fn listed(name: &str, token: u64, says: Option<u64>) -> Listed {
    Listed { name: name.to_owned(), now: Shown { token, revision: token, starts: false, says } }
}

impl Forger {
    /// A page of at most two names that begin with `n`.
    fn reads(self, at: At, after: Option<&str>, names: Vec<Listed>, next: Option<&str>) -> Self {
        let [after, next] = [after, next].map(|name| name.map(ToOwned::to_owned));
        let page = Page { prefix: "n".to_owned(), after, limit: 2, names, next };
        self.event(Event::Paged { from: at * MS, to: at * MS + 1, page })
    }

    /// The only page.
    fn finds(self, at: At, names: &[(&str, u64)]) -> Self {
        self.reads(at, None, names.iter().map(|(name, token)| listed(name, *token, None)).collect(), None)
    }

    /// Is at rest, and finds that in the end.
    fn ends_with(self, names: &[(&str, u64)]) -> Self {
        let quiet = self.event(Event::Quiet { at: 80 * MS });
        quiet.finds(90, names).event(Event::Done { at: 95 * MS })
    }
}

#[test]
fn a_page_has_names_as_they_were_asked_for_in_their_order_each_once() {
    let page = |names: &[&str]| names.iter().map(|name| listed(name, 5, None)).collect::<Vec<_>>();
    is_well([a().reads(10, None, page(&["n", "nn"]), Some("nn")).reads(20, Some("nn"), page(&["no"]), None)]);
    // As many as were asked for, and all of them.
    is_well([a().reads(10, None, page(&["n", "nn"]), None)]);
    for (after, names, next) in [
        (None, page(&["nn", "n"]), None),
        (None, page(&["n", "n"]), None),
        (None, page(&["m"]), None),
        (Some("nn"), page(&["nn"]), None),
        (None, page(&["n", "nn", "no"]), None),
        (None, page(&["n"]), Some("n")),
        (None, page(&["n", "nn"]), Some("no")),
    ] {
        is_breach("select", [a().reads(10, after, names, next)]);
    }
}

#[test]
fn an_own_name_that_is_not_on_its_page_is_seen() {
    let holds = || a().register((10, 20), 1, Granted(5));
    is_well([holds().finds(30, &[("n", 5)])]);
    is_breach("P4", [holds().finds(30, &[])]);
    is_breach("P4", [holds().finds(30, &[("n", 3)])]);
    // Not before that was said, nor when it may be over, nor on another page.
    is_well([holds().finds(15, &[])]);
    let ends = Event::Ended { at: 25 * MS, actor: 1, by_client: true };
    is_well([holds().event(ends).finds(30, &[])]);
    is_well([holds().reads(30, Some("n"), Vec::new(), None)]);
    // Of another one nobody knows how far it is.
    is_well([holds(), b().finds(30, &[])]);
    // A membership is no name.
    is_well([a().call((10, 20), 1, "n#7", Ask::Join, Some(Granted(5))).finds(30, &[])]);
}

#[test]
fn an_own_name_that_is_on_a_page_after_it_was_given_up_is_seen() {
    let gone = || a().register((10, 20), 1, Granted(5)).unregister((30, 40), 1);
    is_well([gone().finds(35, &[("n", 5)]).finds(50, &[])]);
    is_breach("P4", [gone().finds(50, &[("n", 5)])]);
    is_breach("P4", [gone().finds(50, &[("n", 3)])]);
    is_well([gone().finds(60, &[("n", 9)]), b().register((50, 55), 1, Granted(9))]);
}

#[test]
fn a_page_behind_a_read_or_another_page_is_seen() {
    is_breach("P5", [a().local((10, 11), Found(5)).finds(20, &[("n", 3)])]);
    is_breach("P5", [a().finds(10, &[("n", 5)]).local((20, 21), Found(3))]);
    is_breach("P5", [a().finds(10, &[("n", 5)]).finds(20, &[("n", 3)])]);
    is_well([a().finds(10, &[("n", 3)]).local((20, 21), Found(5)).finds(30, &[("n", 5)])]);
}

#[test]
fn in_the_end_all_find_what_is_kept() {
    let stays = || a().register((10, 20), 1, Granted(5)).act(85, 1, 5);
    is_well([stays().ends_with(&[("n", 5)]), b().ends_with(&[("n", 5)])]);
    is_breach("P3", [stays().ends_with(&[("n", 5)]), b().ends_with(&[])]);
    // Not of a process that is gone.
    let dead = || a().register((10, 20), 1, Granted(5)).act(25, 1, 5).killed(30);
    is_well([dead(), b().ends_with(&[])]);
}

#[test]
fn pages_that_differ_in_what_is_said_at_a_revision_are_seen() {
    let says = |says| vec![listed("n", 5, Some(says))];
    let first = || a().reads(10, None, says(1), None);
    is_well([first(), b().reads(20, None, says(1), None)]);
    is_breach("P4", [first(), b().reads(20, None, says(2), None)]);
}
