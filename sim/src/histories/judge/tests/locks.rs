//! Places in semaphores.

use super::*;

impl Forger {
    fn acquire(self, when: (At, At), actor: u64, limit: u32, answer: Answer) -> Self {
        let name = format!("s#{}{actor}", self.node);
        self.call(when, actor, &name, Ask::Acquire { limit }, Some(answer))
    }

    fn gives_back(self, when: (At, At), actor: u64) -> Self {
        let name = format!("s#{}{actor}", self.node);
        self.call(when, actor, &name, Ask::Leave, Some(Answer::Freed))
    }

    fn holder_acts(self, at: At, actor: u64, token: u64) -> Self {
        let (from, to, name) = (at * MS, at * MS + 1, format!("s#{}{actor}", self.node));
        self.event(Event::Acted { from, to, actor, name, token })
    }
}

fn c() -> Forger {
    Forger::new("c", 300)
}

#[test]
fn two_that_act_by_one_lock_are_seen() {
    let first = || a().acquire((10, 20), 1, 1, Granted(5)).holder_acts(30, 1, 5);
    let gone = || first().gives_back((40, 50), 1);
    // One after the other; the second one waited for the first.
    is_well([gone(), b().acquire((15, 45), 1, 1, Granted(7)).holder_acts(48, 1, 7)]);
    is_breach("P1", [first().holder_acts(60, 1, 5), b().acquire((15, 45), 1, 1, Granted(7))]);
    // It has acted before it was told that it may.
    let early = b().acquire((15, 45), 1, 1, Granted(7)).holder_acts(28, 1, 7);
    is_breach("P1", [gone(), early]);
    // The one whose session is closed has not acted since.
    let lost = first().event(Event::Noticed { at: 70 * MS, actor: 9, told: SessionTold::Lost });
    is_well([lost, b().acquire((15, 65), 1, 1, Granted(7)).holder_acts(68, 1, 7)]);
}

#[test]
fn the_later_of_two_holders_has_the_greater_token() {
    let first = || a().acquire((10, 20), 1, 1, Granted(9)).holder_acts(30, 1, 9).gives_back((40, 50), 1);
    is_well([first(), b().acquire((41, 60), 1, 1, Granted(11)).holder_acts(70, 1, 11)]);
    // Its place was before that of the first one, which it held all the same.
    is_breach("P1", [first(), b().acquire((11, 60), 1, 1, Granted(7)).holder_acts(70, 1, 7)]);
    is_breach("P7", [first(), b().acquire((41, 60), 1, 1, Granted(9)).holder_acts(70, 1, 9)]);
}

#[test]
fn no_more_act_by_a_semaphore_than_it_has_places() {
    let holds = |of: Forger, token| of.acquire((10, 20), 1, 2, Granted(token)).holder_acts(30, 1, token);
    let ends = |of: Forger, at| {
        of.gives_back((at, at + 5), 1).event(Event::Ended { at: (at + 5) * MS, actor: 1, by_client: true })
    };
    is_well([
        ends(holds(a(), 5), 40),
        ends(holds(b(), 6), 60),
        ends(c().acquire((12, 45), 1, 2, Granted(7)).holder_acts(55, 1, 7), 70),
    ]);
    is_breach(
        "P1",
        [
            holds(a(), 5).holder_acts(50, 1, 5),
            holds(b(), 6).holder_acts(50, 1, 6),
            c().acquire((12, 45), 1, 2, Granted(7)),
        ],
    );
    // The first one has gone by then, and the second one has not: it is one of two.
    is_well([
        ends(holds(a(), 5), 40),
        holds(b(), 6).holder_acts(50, 1, 6),
        c().acquire((12, 45), 1, 2, Granted(7)),
    ]);
}

#[test]
fn a_place_that_was_acknowledged_and_given_up_by_nobody_is_kept() {
    let holds = || a().acquire((10, 20), 1, 1, Granted(5)).holder_acts(30, 1, 5);
    let rests = |of: Forger| of.event(Event::Quiet { at: 80 * MS });
    let done = Event::Done { at: 95 * MS };
    is_well([rests(holds()).holder_acts(90, 1, 5).event(done.clone())]);
    is_breach("P3", [rests(holds()).event(done)]);
    // A client that waited in vain has given up, and nothing is known of a place.
    is_well([rests(a().acquire((10, 20), 1, 1, Answer::Unknown("TimedOut".to_owned())))]);
}
