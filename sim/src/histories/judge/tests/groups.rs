//! Memberships.

use super::*;
use crate::histories::event::Seated;

/// A member, by its token and by what it says of itself.
fn seat((token, says): (u64, u64)) -> Seated {
    Seated { token, node: "a".to_owned(), says: Some(says) }
}

impl Forger {
    fn join(self, when: (At, At), actor: u64, says: u64, token: u64) -> Self {
        self.call(when, actor, &format!("g#{says}"), Ask::Join, Some(Granted(token)))
    }

    fn leave(self, when: (At, At), actor: u64, says: u64) -> Self {
        self.call(when, actor, &format!("g#{says}"), Ask::Leave, Some(Answer::Freed))
    }

    fn sees(self, at: At, members: &[(u64, u64)]) -> Self {
        let members = members.iter().copied().map(seat).collect();
        self.event(Event::Members { at: at * MS, group: "g".to_owned(), members })
    }

    fn member_acts(self, at: At, actor: u64, (token, says): (u64, u64)) -> Self {
        let (from, to, name) = (at * MS, at * MS + 1, format!("g#{says}"));
        self.event(Event::Acted { from, to, actor, name, token })
    }

    /// Is at rest, and sees that in the end.
    fn ends(self, members: &[(u64, u64)]) -> Self {
        self.event(Event::Quiet { at: 80 * MS }).sees(90, members).event(Event::Done { at: 95 * MS })
    }
}

#[test]
fn an_own_membership_that_is_not_seen_or_is_seen_after_it_was_left_is_a_breach() {
    is_well([a().join((10, 20), 1, 71, 5).sees(21, &[(5, 71)]).leave((30, 40), 1, 71).sees(41, &[])]);
    is_breach("P4", [a().join((10, 20), 1, 71, 5).sees(21, &[])]);
    is_breach("P4", [a().join((10, 20), 1, 71, 5).sees(21, &[(6, 71)])]);
    is_breach("P4", [a().join((10, 20), 1, 71, 5).leave((30, 40), 1, 71).sees(41, &[(5, 71)])]);
    // Of another one nobody knows how far it is.
    is_well([a().join((10, 20), 1, 71, 5), b().sees(21, &[]), b().sees(22, &[(5, 71)])]);
    is_breach("P4", [a().join((10, 20), 1, 71, 5), b().sees(22, &[(5, 72)])]);
    is_breach("P5", [a().join((10, 20), 1, 71, 5).join((10, 20), 2, 72, 6).sees(21, &[(6, 72), (5, 71)])]);
}

#[test]
fn in_the_end_all_have_the_members_that_live_and_no_others() {
    let stays = || a().join((10, 20), 1, 71, 5).member_acts(85, 1, (5, 71));
    is_well([stays().ends(&[(5, 71)]), b().ends(&[(5, 71)])]);
    is_breach("P3", [stays().ends(&[(5, 71)]), b().ends(&[])]);
    let dead = || Forger::new("c", 300).join((10, 20), 1, 72, 6).killed(30);
    is_well([stays().ends(&[(5, 71)]), b().ends(&[(5, 71)]), dead()]);
    let all = &[(5, 71), (6, 72)];
    is_breach("P8", [stays().ends(all), b().ends(all), dead()]);
    is_breach("P5", [stays().ends(&[(5, 71)]), b().ends(all), dead()]);
    // One whose actor has ended before all was quiet.
    let ended = Event::Ended { at: 40 * MS, actor: 1, by_client: true };
    is_breach("P8", [a().join((10, 20), 1, 71, 5).event(ended).ends(&[(5, 71)])]);
}
