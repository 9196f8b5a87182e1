//! Forged histories: what breaks a promise is seen, and what only looks like it is not.

use super::*;

mod groups;
mod locks;
mod moves;
mod pages;
mod watches;

const MS: At = 1_000_000;

/// Writes the history of one process. Moments are milliseconds.
struct Forger {
    events: Vec<Event>,
    node: &'static str,
    calls: u64,
    killed: Option<At>,
}

impl Forger {
    fn new(node: &'static str, incarnation: u64) -> Self {
        let events = vec![Event::Started { at: 1, node: node.to_owned(), incarnation }];
        Self { events, node, calls: 0, killed: None }
    }

    fn call(
        mut self,
        (from, to): (At, At),
        actor: u64,
        name: &str,
        ask: Ask,
        answer: Option<Answer>,
    ) -> Self {
        self.calls += 1;
        let (at, call, name) = (from * MS, self.calls, name.to_owned());
        self.events.push(Event::Asked { at, call, actor, name, ask });
        self.events.extend(answer.map(|answer| Event::Told { at: to * MS, call, answer }));
        self
    }

    fn register(self, when: (At, At), actor: u64, answer: Answer) -> Self {
        self.call(when, actor, "n", Ask::Register, Some(answer))
    }

    fn unregister(self, when: (At, At), actor: u64) -> Self {
        self.call(when, actor, "n", Ask::Unregister, Some(Answer::Freed))
    }

    fn read(self, when: (At, At), answer: Answer) -> Self {
        self.call(when, 0, "n", Ask::Consistent, Some(answer))
    }

    fn local(self, when: (At, At), answer: Answer) -> Self {
        self.call(when, 0, "n", Ask::Local, Some(answer))
    }

    fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    fn act(self, at: At, actor: u64, token: u64) -> Self {
        let (from, to) = (at * MS, at * MS + 1);
        self.event(Event::Acted { from, to, actor, name: "n".to_owned(), token })
    }

    fn led(self, at: At, epoch: u64) -> Self {
        self.event(Event::Led { from: at * MS, to: at * MS + 1, epoch })
    }

    fn killed(mut self, at: At) -> Self {
        self.killed = Some(at * MS);
        self
    }

    fn done(self) -> ProcessHistory {
        ProcessHistory::new(self.node, self.killed, self.events)
    }
}

fn breaches(processes: impl IntoIterator<Item = Forger>) -> Vec<String> {
    let processes: Vec<_> = processes.into_iter().map(Forger::done).collect();
    let verdict = judge(&processes);
    assert!(verdict.not_ordered.is_empty());
    verdict.breaches
}

#[track_caller]
fn is_breach(of: &str, processes: impl IntoIterator<Item = Forger>) {
    let found = breaches(processes);
    assert!(found.iter().any(|breach| breach.starts_with(of)), "no breach of {of}: {found:?}");
}

#[track_caller]
fn is_well(processes: impl IntoIterator<Item = Forger>) {
    let found = breaches(processes);
    assert!(found.is_empty(), "{found:?}");
}

fn a() -> Forger {
    Forger::new("a", 100)
}

fn b() -> Forger {
    Forger::new("b", 200)
}

use Answer::{Found, Free, Granted, Taken};

#[test]
fn a_history_without_a_breach_has_none() {
    let first = a()
        .register((10, 20), 1, Granted(5))
        .local((21, 22), Found(5))
        .act(30, 1, 5)
        .act(40, 1, 5)
        .unregister((50, 60), 1);
    let second = b().register((25, 35), 1, Taken(5)).register((55, 70), 2, Granted(9)).act(80, 2, 9);
    is_well([first, second]);
}

#[test]
fn two_holders_at_once_are_seen() {
    let stays = a().register((10, 20), 1, Granted(5)).act(30, 1, 5).act(90, 1, 5);
    is_breach("P1", [stays, b().register((40, 50), 1, Granted(9)).act(60, 1, 9)]);
    // Also if the second one never acts, or is only seen by somebody else.
    let stays = a().register((10, 20), 1, Granted(5)).act(90, 1, 5);
    is_breach("P1", [stays, b().read((40, 50), Found(9))]);
}

#[test]
fn an_act_of_a_process_that_was_killed_after_its_names_went_on_is_seen() {
    let late = a().register((10, 20), 1, Granted(5)).act(90, 1, 5).killed(95);
    is_breach("P1", [late, b().register((40, 50), 1, Granted(9))]);
    let early = a().register((10, 20), 1, Granted(5)).act(30, 1, 5).killed(35);
    is_well([early, b().register((40, 50), 1, Granted(9))]);
}

#[test]
fn a_session_may_be_over_before_its_process_is_killed_or_leaves_without_having_heard_of_it() {
    let mute = || a().register((10, 20), 1, Granted(5)).act(30, 1, 5);
    let next = || b().register((50, 60), 1, Granted(9));
    is_well([mute().killed(90), next()]);
    is_well([mute().event(Event::Leaving { at: 90 * MS }), next()]);
    is_breach("P4", [mute(), next()]);
    // Whatever it held, it was trusted when it acted.
    is_breach(
        "P4",
        [mute().call((10, 20), 2, "m", Ask::Register, Some(Granted(7))).act(70, 2, 7).killed(90), next()],
    );
}

#[test]
fn an_acknowledged_name_that_is_gone_is_seen() {
    is_breach("P4", [a().register((10, 20), 1, Granted(5)), b().read((30, 40), Free)]);
    // Not if it may have been given up by then, if its actor ended, or its session did.
    is_well([a().register((10, 20), 1, Granted(5)).unregister((35, 60), 1), b().read((30, 40), Free)]);
    let ends = Event::Ended { at: 25 * MS, actor: 1, by_client: true };
    is_well([a().register((10, 20), 1, Granted(5)).event(ends), b().read((30, 40), Free)]);
    let lost = Event::Noticed { at: 50 * MS, actor: 1, told: SessionTold::Lost };
    is_well([a().register((10, 20), 1, Granted(5)).event(lost.clone()), b().read((30, 40), Free)]);
    // But not before it was trusted last.
    let acts = a().register((10, 20), 1, Granted(5)).act(45, 1, 5).event(lost);
    is_breach("P4", [acts, b().read((30, 40), Free)]);
}

#[test]
fn what_was_kept_and_is_not_acted_under_in_the_end_is_seen() {
    let end = |forger: Forger| forger.event(Event::Quiet { at: 50 * MS }).event(Event::Done { at: 60 * MS });
    is_breach("P3", [end(a().register((10, 20), 1, Granted(5)).act(30, 1, 5))]);
    is_well([end(a().register((10, 20), 1, Granted(5)).act(30, 1, 5).act(55, 1, 5))]);
}

#[test]
fn a_refusal_for_a_holder_that_was_gone_is_seen() {
    let gone = a().register((10, 20), 1, Granted(5)).unregister((30, 40), 1);
    is_breach("P4", [gone, b().register((50, 60), 1, Taken(5))]);
}

#[test]
fn a_registration_of_unknown_outcome_may_have_taken_effect_or_not() {
    let unknown = |until| a().register((10, 20), 1, Answer::Unknown("Unknown".to_owned())).event(until);
    let ends = || Event::Ended { at: 70 * MS, actor: 1, by_client: true };
    is_well([unknown(ends()), b().register((30, 40), 1, Granted(9))]);
    is_well([unknown(ends()), b().register((30, 40), 1, Taken(7)).read((80, 90), Free)]);
    is_breach("P4", [unknown(ends()), b().register((30, 40), 1, Taken(7)).read((50, 60), Free)]);
}

/// Found over `FoundationDB`: the process was stopped before it heard of its grant, its session closed meanwhile, and asked again
/// for the same actor when it went on.
#[test]
fn a_grant_that_nobody_was_told_of_may_end_with_its_session_and_another_one_follow() {
    let stopped = |lost: bool| {
        let asks = a().register((10, 50), 1, Answer::Unknown("Unknown".to_owned()));
        let noticed = Event::Noticed { at: 52 * MS, actor: 9, told: SessionTold::Lost };
        let asks = if lost { asks.event(noticed) } else { asks };
        asks.register((60, 70), 1, Granted(8)).act(80, 1, 8)
    };
    let seen = || b().read((20, 25), Found(5)).read((30, 35), Free).read((75, 78), Found(8));
    is_well([stopped(true), seen()]);
    is_breach("P4", [stopped(false), seen()]);
    // What it was granted later has not ended.
    is_breach("P4", [stopped(true), seen().read((90, 95), Free)]);
}

/// Found by whole nodes, seed 1178: all that the process had asked for was of unknown outcome, and nobody of it was told that its
/// session was lost.
#[test]
fn a_grant_that_nobody_was_told_of_may_end_after_its_process_has_lapsed() {
    let asks = || a().register((10, 50), 1, Answer::Unknown("Unknown".to_owned()));
    let seen = || b().register((20, 30), 2, Taken(5)).register((60, 70), 3, Granted(8)).act(80, 3, 8);
    is_well([asks().event(Event::Lapsed { at: 40 * MS }), seen()]);
    is_breach("P4", [asks(), seen()]);
    is_breach("P4", [asks().event(Event::Lapsed { at: 5 * MS }), seen()]);
}

/// Found by whole nodes, seed 1810695699: the session lapsed, its removal was not read for long, and the only actor that
/// could have been told of the loss was stopped when the node heard of the lapse.
#[test]
fn an_actor_that_the_registry_stops_may_have_lost_its_name_since_it_was_trusted_last() {
    let ends = |by_client| Event::Ended { at: 70 * MS, actor: 1, by_client };
    let held = || a().register((10, 20), 1, Granted(5)).act(30, 1, 5);
    let next = |from| b().register((from, from + 10), 1, Granted(9));
    is_well([held().event(ends(false)), next(40)]);
    is_breach("P4", [held().event(ends(true)), next(40)]);
    // Not before it was trusted last.
    is_breach("P4", [held().act(55, 1, 5).event(ends(false)), next(40)]);
    // What its client ends is not stopped by the registry, though it says twice that it ends.
    is_breach("P4", [held().event(ends(true)).event(ends(false)), next(40)]);
    // Nor is it known when a grant ended that the actor was not told of.
    let unknown = a().register((10, 20), 1, Answer::Unknown("Unknown".to_owned())).event(ends(false));
    is_well([unknown, b().register((25, 30), 2, Taken(5)).register((40, 50), 1, Granted(9)).act(80, 1, 9)]);
}

/// Found by whole nodes, seed 2980375954: the session lapsed and was closed, and the client gave the name up before the node read that.
#[test]
fn a_name_that_is_given_up_after_a_lapse_may_have_been_lost_since_it_was_trusted_last() {
    let held = || a().register((10, 20), 1, Granted(5)).act(30, 1, 5);
    let given_up = |forger: Forger| forger.call((70, 80), 1, "n", Ask::Unregister, None);
    let lapsed = |at: At| Event::Lapsed { at: at * MS };
    let next = |from| b().register((from, from + 5), 1, Granted(9));
    is_well([given_up(held().event(lapsed(35))), next(40)]);
    is_breach("P4", [given_up(held()), next(40)]);
    // It is trusted again: it has acted since.
    is_breach("P4", [given_up(held().event(lapsed(35)).act(55, 1, 5)), next(60)]);
    is_breach("P4", [given_up(a().register((10, 20), 1, Granted(5)).event(lapsed(15))), next(40)]);
}

#[test]
fn a_token_of_two_actors_is_seen() {
    let once = a().register((10, 20), 1, Granted(5)).unregister((30, 40), 1);
    is_breach("P7", [once, b().register((50, 60), 1, Granted(5))]);
}

#[test]
fn own_reads_that_do_not_see_the_own_registration_are_seen() {
    is_breach("P4", [a().register((10, 20), 1, Granted(5)).local((30, 31), Free)]);
    is_breach("P4", [a().register((10, 20), 1, Granted(5)).local((30, 31), Found(3))]);
}

#[test]
fn a_replica_that_goes_back_is_seen() {
    is_breach("P5", [a().local((10, 11), Found(5)).local((20, 21), Found(3))]);
    is_well([a().local((10, 11), Found(3)).local((20, 21), Found(5))]);
}

#[test]
fn two_leaders_of_the_singleton_are_seen() {
    is_breach("P1", [a().led(10, 1).led(50, 1), b().led(30, 2)]);
    is_breach("P2", [a().led(10, 1), b().led(30, 1)]);
    is_well([a().led(10, 1).led(20, 1), b().led(30, 2)]);
}
