use std::{collections::BTreeMap, time::Duration};

use callsign_transport::Kind;

use callsign_elector::record::LogEnd;
use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, Position, SessionNumber};

use super::{super::OnTake, *};
use crate::core::{
    host::{Client, MetaChange, Registrant, Surroundings, Verdict},
    input::CallId,
    log::{BatchBuilder, Op},
    message::{Message, Request},
    replica::Applied,
    table::Row,
};

mod ends;

fn granted() -> Verdict {
    Verdict::Granted { token: Position(7), revision: Position(7) }
}

type Rows = BTreeMap<Name, Row>;

/// A host that goes over two names at a time.
struct Alone {
    host: Host,
    replica: Replica<Rows>,
    trusted: Option<SessionNumber>,
    calls: u64,
}

fn session(number: u64) -> SessionId {
    let node = NodeName::new("a").unwrap();
    SessionId { node, incarnation: Incarnation(1), number: SessionNumber(number) }
}

impl Alone {
    fn new() -> Self {
        let replica = Replica::new(NodeName::new("a").unwrap(), Rows::new());
        let mut alone = Self { host: Host::new(), replica, trusted: None, calls: 0 };
        alone.host.on_session_opened(session(1));
        alone.trusted = Some(SessionNumber(1));
        assert_eq!(alone.slice(), []);
        alone
    }

    fn now(&self) -> Now {
        Now { time: Time(Duration::from_secs(100)), trusted: self.trusted }
    }

    fn slice(&mut self) -> Vec<Effect> {
        let (now, mut effects) = (self.now(), Vec::new());
        self.host.proceed(now, 2, &self.replica, &mut effects);
        effects
    }

    /// What is asked for, slice by slice, until nothing is owed.
    fn slices(&mut self) -> Vec<Vec<Effect>> {
        let mut slices = Vec::new();
        while self.host.is_busy() {
            slices.push(self.slice());
            assert!(slices.len() < 100, "it comes to an end");
        }
        slices
    }

    fn register(&mut self, name: &str, actor: u64, on_lapse: OnLapse) -> CallId {
        self.calls += 1;
        let call = CallId(self.calls);
        let caller = Client::new(self.now().time, call, Duration::from_secs(5));
        let now = self.now();
        let registrant =
            Registrant { actor, kind: Kind(1), on_lapse, on_take: OnTake::default(), meta: None };
        self.host.register(now, caller, name.into(), registrant, &mut Vec::new());
        call
    }

    /// What is asked of the leader of epoch 1.
    fn flush(&mut self) -> Vec<RequestNumber> {
        self.requests().into_iter().map(|request| request.number).collect()
    }

    fn requests(&mut self) -> Vec<Request> {
        let leader = NodeName::new("l").unwrap();
        let around = Surroundings { leader: Some((Epoch(1), &leader)), is_synced: true, has_leader: true };
        let mut effects = Vec::new();
        self.host.flush(self.now().time, around, &mut effects);
        let requests = effects.into_iter().flat_map(|effect| match effect {
            Effect::Send { message: Message::Requests { requests, .. }, .. } => requests,
            other => panic!("{other:?}"),
        });
        requests.collect()
    }

    /// These actors hold a name each, which is called as they are. The claims are the calls 1, 2, ...
    fn holding(names: &[(&str, u64)], on_lapse: OnLapse) -> Self {
        let all: Vec<_> = names.iter().map(|(name, actor)| (*name, *actor, on_lapse)).collect();
        Self::holding_each(&all)
    }

    fn holding_each(names: &[(&str, u64, OnLapse)]) -> Self {
        let mut alone = Self::new();
        for (name, actor, on_lapse) in names {
            alone.register(name, *actor, *on_lapse);
        }
        let granted = alone.flush().into_iter().map(|number| (number, granted()));
        let granted: Vec<_> = granted.collect();
        alone.host.on_verdicts(Epoch(1), &session(1), Position(7), granted);
        alone.settle();
        assert_eq!(alone.host.claims().len(), names.len());
        alone
    }

    fn settle(&mut self) -> Vec<Effect> {
        self.replica.skip_to(callsign_elector::record::LogEnd {
            position: Position(7),
            nonce: callsign_store::ids::Nonce(7),
        });
        let (now, mut effects) = (self.now(), Vec::new());
        self.host.settle(now, &self.replica, &mut effects);
        effects
    }
}

fn notify(actor: u64, claims: &[u64], notice: Notice) -> Effect {
    Effect::Notify { actor, claims: claims.iter().copied().map(CallId).collect(), notice }
}

const THREE: [(&str, u64); 3] = [("x", 5), ("y", 6), ("z", 7)];

#[test]
fn actors_are_told_some_at_a_time_and_of_a_lapse_before_it_is_over() {
    let mut alone = Alone::holding(&THREE, OnLapse::Suspend);
    alone.trusted = None;
    alone.host.on_session_lapsed(session(1));
    assert_eq!(alone.slice(), [notify(5, &[1], Notice::Lapsed), notify(6, &[2], Notice::Lapsed)]);
    // Trust is back, and another name was granted on the way.
    alone.trusted = Some(SessionNumber(1));
    alone.host.on_session_resumed(session(1));
    let call = alone.register("w", 8, OnLapse::Stop);
    assert_eq!(alone.flush(), [], "it waits for its turn");
    let told = alone.slices().concat();
    let of = |actor, claim, notice| notify(actor, &[claim], notice);
    let resumed = [(5, 1), (6, 2), (7, 3)].map(|(actor, claim)| of(actor, claim, Notice::Resumed));
    assert_eq!(told[0], of(7, 3, Notice::Lapsed));
    assert_eq!(told[1..4], resumed);
    assert_eq!(told[4..], [Effect::Watch { actor: 8 }]);
    assert_eq!((call, alone.flush().len()), (CallId(4), 1));
}

#[test]
fn an_actor_is_told_of_all_its_names_at_once_unless_a_slice_has_fewer() {
    let mut alone = Alone::holding(&[("v", 4), ("x", 5), ("y", 5)], OnLapse::Suspend);
    alone.host.on_session_lapsed(session(1));
    assert_eq!(alone.slice(), [notify(4, &[1], Notice::Lapsed)], "the other's do not fit");
    assert_eq!(alone.slices().concat(), [notify(5, &[2, 3], Notice::Lapsed)]);
    let mut alone = Alone::holding(&[("x", 5), ("y", 5), ("z", 5)], OnLapse::Suspend);
    alone.host.on_session_lapsed(session(1));
    assert_eq!(alone.slice(), [notify(5, &[1, 2], Notice::Lapsed)]);
    assert_eq!(alone.slices().concat(), [notify(5, &[3], Notice::Lapsed)]);
}

#[test]
fn what_an_actor_held_is_given_up_some_names_at_a_time_ahead_of_calls_and_asked_for_again_only_then() {
    let mut alone = Alone::holding(&[("w", 5), ("x", 5), ("y", 5), ("z", 6)], OnLapse::Suspend);
    // Of these it is not known yet whether they are its own.
    for name in ["t", "u", "v"] {
        alone.register(name, 5, OnLapse::Stop);
    }
    let undecided = alone.flush();
    alone.trusted = None;
    alone.host.on_session_lapsed(session(1));
    alone.host.on_actor_ended(5);
    let ends = |names: &[u64]| -> Vec<Effect> {
        let of =
            |claim: &u64| [Effect::Flag { claim: CallId(*claim) }, Effect::Forget { claim: CallId(*claim) }];
        names.iter().flat_map(of).collect()
    };
    assert_eq!(alone.slice(), ends(&[1, 2]), "ahead of the lapse");
    alone.trusted = Some(SessionNumber(1));
    alone.host.on_session_resumed(session(1));
    alone.register("y", 9, OnLapse::Stop);
    assert_eq!(alone.flush(), [], "nothing is asked before it is done");
    let told = alone.slices().concat();
    assert_eq!(told[..2], ends(&[3]));
    assert_eq!(told[2..], [notify(6, &[4], Notice::Lapsed), notify(6, &[4], Notice::Resumed)], "{told:?}");
    let of = |request: &Request| (request.name.to_string(), request.wish.clone());
    let freed =
        |name: &str| (name.to_owned(), Wish::Unregister { position: Position(7), why: GivenUp::ActorEnded });
    let asked: Vec<_> = alone.requests().iter().map(of).collect();
    assert_eq!(asked, [freed("w"), freed("x"), freed("y")], "the other actor waits for y");
    // What is granted to it now is given up, too.
    let verdicts = undecided.into_iter().map(|number| (number, granted())).collect();
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), verdicts);
    alone.settle();
    let asked: Vec<_> = alone.requests().iter().map(of).collect();
    assert_eq!(asked, [freed("t"), freed("u"), freed("v")]);
    assert_eq!(alone.host.claims().keys().map(|name| &**name).collect::<Vec<_>>(), ["z"]);
}

#[test]
fn a_step_sends_no_more_than_one_message_has_and_the_leader_is_not_asked_for_everything_at_once() {
    let mut alone = Alone::new();
    for name in 0..20_000 {
        alone.register(&format!("n{name}"), name, OnLapse::Stop);
    }
    let mut sent = Vec::new();
    for message in 1..=8 {
        sent.push(alone.flush());
        assert_eq!((sent[message - 1].len(), alone.host.has_more_to_send()), (2048, message < 8));
    }
    assert_eq!(alone.flush(), [], "first it has to answer");
    let verdicts = sent[0][..100].iter().map(|number| (*number, granted())).collect();
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), verdicts);
    assert_eq!((alone.flush().len(), alone.host.has_more_to_send()), (100, false));
    // What was asked of another leader is asked again.
    alone.host.on_epoch(&mut Vec::new());
    assert_eq!(alone.flush(), [&sent[0][100..], &sent[1][..100]].concat());
}

#[test]
fn nothing_is_left_of_a_session_when_the_next_one_begins() {
    let mut alone = Alone::holding(&THREE, OnLapse::Stop);
    let undecided = alone.register("u", 8, OnLapse::Stop);
    assert_eq!(alone.flush().len(), 1);
    alone.host.on_session_lost(alone.now().time);
    alone.host.on_session_opened(session(2));
    alone.trusted = Some(SessionNumber(2));
    // Of the new session, though the rest of the former one is still to be done.
    alone.register("x", 9, OnLapse::Stop);
    let slices = alone.slices();
    let ended = |actor, claim| (Effect::Flag { claim: CallId(claim) }, Effect::Stop { actor });
    let flags_first = |slice: &[Effect], (flag, stop): (Effect, Effect)| {
        let at = |wanted| slice.iter().position(|effect| *effect == wanted).expect("it is there");
        assert!(at(flag) < at(stop), "{slice:?}");
    };
    flags_first(&slices[0], ended(5, 1));
    flags_first(&slices[0], ended(6, 2));
    flags_first(&slices[1], ended(7, 3));
    let all = slices.concat();
    let answers: Vec<_> = all.iter().filter(|effect| matches!(effect, Effect::Answer { .. })).collect();
    let lost = Answer::Registered(Err(RegisterError::SessionLost { name: "u".to_owned() }));
    assert_eq!(answers, [&Effect::Answer { call: undecided, answer: lost }], "once");
    let at = |wanted| all.iter().position(|effect| *effect == wanted).expect("it is there");
    assert!(at(Effect::Watch { actor: 9 }) > at(Effect::Unwatch { actor: 8 }), "{all:?}");
    assert_eq!((alone.host.session(), alone.host.claims().len()), (Some(&session(2)), 0));
    assert_eq!(alone.flush().len(), 1, "the new one is asked for");
}

#[test]
fn while_claims_end_nothing_is_granted_and_what_a_lost_log_decided_is_asked_again() {
    let mut alone = Alone::holding(&THREE, OnLapse::Suspend);
    alone.register("w", 8, OnLapse::Stop);
    let first = alone.flush();
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), vec![(first[0], granted())]);
    alone.host.drop_all_claims(&mut Vec::new());
    assert_eq!(alone.settle(), []);
    let told = alone.slices().concat();
    let lost = |effect: &&Effect| matches!(effect, Effect::Event(Event::ClaimLost { .. }));
    assert_eq!(told.iter().filter(lost).count(), 3);
    assert_eq!(alone.settle(), [], "it was decided in a log that is no more");
    let again = alone.flush();
    assert!(again[0] > first[0]);
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), vec![(again[0], granted())]);
    alone.settle();
    assert!(alone.host.claims().contains_key("w") && !alone.host.is_registering());
}

#[test]
fn all_claims_end_when_the_log_says_that_the_session_is_gone() {
    for (own_gone, left) in [(vec![session(1)], 0), (vec![session(9)], 3), (vec![session(9), session(1)], 0)]
    {
        let mut alone = Alone::holding(&THREE, OnLapse::Suspend);
        let applied = Applied { own_gone, ..Applied::default() };
        alone.host.on_applied(&applied, &mut Vec::new());
        alone.slices();
        assert_eq!(alone.host.claims().len(), left);
    }
}

#[test]
fn whoever_waits_when_the_node_is_about_to_leave_is_refused_once() {
    let mut alone = Alone::holding(&THREE, OnLapse::Suspend);
    for (name, actor) in [("q", 11), ("r", 12), ("q", 13), ("r", 14), ("s", 15)] {
        alone.register(name, actor, OnLapse::Stop);
    }
    alone.host.turn_away(Vec::new());
    assert_eq!(alone.slice().len(), 2, "the actors are told first");
    assert_eq!(alone.flush(), [], "and nothing is sent before the rest is refused");
    let slices = alone.slices();
    let answers = |slice: &Vec<Effect>| slice.iter().filter(|it| matches!(it, Effect::Answer { .. })).count();
    assert!(slices.iter().all(|slice| answers(slice) <= 2), "{slices:?}");
    let mut refused: Vec<u64> = slices
        .concat()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Answer { call, answer: Answer::Registered(Err(RegisterError::Draining { .. })) } => {
                Some(call.0)
            }
            _ => None,
        })
        .collect();
    refused.sort_unstable();
    assert_eq!(refused, [4, 5, 6, 7, 8]);
    assert!(!alone.host.is_waiting() && !alone.host.is_registering());
}

/// Claims on x and y. The log has x, y at another position, and w, of which the host knows nothing; n is being asked for all the time.
fn differing() -> Alone {
    let mut alone = Alone::new();
    for (name, actor) in [("x", 5), ("y", 6), ("z", 7)] {
        alone.register(name, actor, OnLapse::Suspend);
    }
    let granted = alone.flush().into_iter().map(|number| (number, granted())).collect::<Vec<_>>();
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), granted);
    alone.logs(7, &["x", "w", "n"]);
    alone.logs(8, &["y"]);
    alone.register("n", 9, OnLapse::Suspend);
    alone.flush();
    let (now, mut effects) = (alone.now(), Vec::new());
    alone.host.settle(now, &alone.replica, &mut effects);
    assert_eq!(alone.host.claims().len(), 3);
    alone
}

impl Alone {
    /// The log has these names of this session at this position.
    fn logs(&mut self, position: u64, names: &[&str]) {
        let at = |position| LogEnd { position: Position(position), nonce: Nonce(position) };
        if !self.replica.is_based() {
            self.replica.base_on_nothing();
            self.replica.skip_to(at(position - 1));
        }
        let mut builder = BatchBuilder::default();
        let index = builder.session(&Arc::new(session(1)));
        for name in names {
            let (name, request, kind) = ((*name).into(), RequestNumber(1), Kind(1));
            builder.push(Op::Register { name, session: index, request, actor: Some(5), kind, meta: None });
        }
        let batch = builder.build(Epoch(1), Nonce(position), at(position - 1), Position(position));
        self.replica.apply(&batch);
    }

    fn compare_at(&mut self, millis: u64) {
        self.host.compare(Time(Duration::from_millis(millis)), &self.replica);
    }
}

#[test]
fn claims_are_compared_with_the_log_some_at_a_time_also_while_something_is_under_way() {
    let mut alone = differing();
    alone.compare_at(100_000);
    alone.compare_at(100_999);
    assert!(!alone.host.is_busy(), "they may differ for a while");
    alone.compare_at(101_000);
    let slices = alone.slices();
    // Five rows and claims each, two at a time.
    assert!(slices.len() >= 3, "{slices:?}");
    let said: Vec<_> = slices
        .concat()
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Event(Event::Orphan { name }) => Some(format!("{name} is an orphan")),
            Effect::Event(Event::ClaimLost { name }) => Some(format!("{name} is lost")),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["w is an orphan", "y is an orphan", "y is lost", "z is lost"]);
    assert_eq!(alone.flush().len(), 2, "n is left alone, though its row is there and no claim is for it");
    // What is given up is under way, and so is n.
    alone.compare_at(102_000);
    alone.compare_at(104_000);
    assert!(!alone.host.is_busy());
}

#[test]
fn nothing_is_compared_while_duties_are_done() {
    let mut alone = differing();
    alone.compare_at(100_000);
    alone.host.on_session_lapsed(session(1));
    alone.compare_at(101_000);
    let told = alone.slices().concat();
    assert!(told.iter().all(|effect| matches!(effect, Effect::Notify { .. })), "{told:?}");
    alone.compare_at(101_001);
    assert!(alone.host.is_busy(), "they differed meanwhile");
}

#[test]
fn who_has_waited_too_long_is_told_once_some_at_a_time_at_each_stage() {
    let mut alone = Alone::new();
    for (name, actor) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("a", 5), ("b", 6), ("c", 7)] {
        alone.register(name, actor, OnLapse::Stop);
    }
    let sent = alone.flush();
    assert_eq!(sent.len(), 4, "the others wait for these");
    // One is decided. The replica does not have it yet.
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), vec![(sent[3], granted())]);
    let around = Surroundings { leader: None, is_synced: true, has_leader: true };
    let (mut told, mut wakes) = (Vec::new(), 0);
    let late = Now { time: alone.now().time + Duration::from_secs(5), ..alone.now() };
    while wakes == 0 || alone.host.wants_a_turn() {
        let mut effects = Vec::new();
        alone.host.on_wake(late, 2, around, &alone.replica, &mut effects);
        let is_told = |effect: &Effect| match effect {
            Effect::Answer { call, answer: Answer::Registered(Err(RegisterError::Unknown { .. })) } => {
                Some(call.0)
            }
            _ => None,
        };
        let now: Vec<_> = effects.iter().filter_map(is_told).collect();
        assert!(now.len() <= 2, "two at a time: {effects:?}");
        told.extend(now);
        wakes += 1;
        assert!(wakes < 10, "it comes to an end");
    }
    assert_eq!((told, wakes), (vec![1, 2, 3, 4, 5, 6, 7], 4));
    // All that was sent is sent again, because nobody has answered.
    assert_eq!(alone.flush(), sent[..3]);
    let mut effects = Vec::new();
    alone.host.on_wake(late, 2, around, &alone.replica, &mut effects);
    assert_eq!(effects, [], "nobody is told again");
}

#[test]
fn what_claims_and_log_differ_in_is_looked_into_when_they_have_differed_for_a_second_without_a_break() {
    let mut alone = Alone::new();
    for millis in [1000, 2000, 3000] {
        alone.compare_at(millis);
        assert!(!alone.host.is_busy(), "both are empty");
    }
    let as_held = alone.replica.clone();
    alone.logs(7, &["v"]);
    alone.compare_at(4000);
    let differs = std::mem::replace(&mut alone.replica, as_held);
    alone.compare_at(4500);
    alone.replica = differs;
    alone.compare_at(5200);
    assert!(!alone.host.is_busy(), "they were the same meanwhile");
    alone.compare_at(6200);
    assert_eq!(alone.slices().concat(), [Effect::Event(Event::Orphan { name: "v".into() })]);
    // The next difference has to last for as long.
    alone.logs(8, &["u"]);
    alone.compare_at(6300);
    assert!(!alone.host.is_busy());
    alone.compare_at(7300);
    assert_eq!(alone.slices().concat(), [Effect::Event(Event::Orphan { name: "u".into() })]);
}

#[test]
fn what_is_under_way_is_left_out_on_both_sides_unless_it_is_too_much_to_look_at() {
    let mut alone = Alone::holding(&[("x", 5)], OnLapse::Suspend);
    alone.logs(7, &["x", "n"]);
    alone.register("n", 9, OnLapse::Suspend);
    let caller = Client::new(alone.now().time, CallId(3), Duration::from_secs(5));
    let change = MetaChange { token: Position(7), revision: None, meta: None };
    alone.host.update(alone.now(), caller, "x".into(), change, &alone.replica, &mut Vec::new());
    alone.compare_at(1000);
    alone.compare_at(2000);
    assert!(!alone.host.is_busy());

    let mut alone = Alone::new();
    alone.logs(7, &["v"]);
    for nth in 0..8192 {
        alone.register(&format!("n{nth}"), nth, OnLapse::Stop);
    }
    alone.compare_at(1000);
    alone.compare_at(2000);
    assert!(alone.host.is_busy());
    alone.slices();
    alone.register("n", 9000, OnLapse::Stop);
    alone.logs(8, &["u"]);
    alone.compare_at(3000);
    alone.compare_at(4000);
    assert!(!alone.host.is_busy(), "nobody looks at so many");
}

#[test]
fn rows_and_claims_that_differ_are_looked_at_two_at_a_time_and_all_of_them() {
    let names = ["a", "b", "c", "d", "e"];
    let said = |slices: Vec<Vec<Effect>>| {
        let is_said = |effect: &&Effect| matches!(effect, Effect::Event(_));
        slices.iter().map(|slice| slice.iter().filter(is_said).count()).collect::<Vec<_>>()
    };
    let compared = |mut alone: Alone| {
        alone.compare_at(1000);
        alone.compare_at(2000);
        said(alone.slices())
    };
    let mut orphans = Alone::new();
    orphans.logs(7, &names);
    assert_eq!(compared(orphans), [2, 2, 1]);
    let lost = Alone::holding(&names.map(|name| (name, 5)), OnLapse::Stop);
    assert_eq!(compared(lost), [2, 2, 1]);
}

#[test]
fn what_a_lost_log_decided_is_asked_again_two_at_a_time() {
    let mut alone = Alone::new();
    for (name, actor) in THREE {
        alone.register(name, actor, OnLapse::Stop);
    }
    let verdicts = alone.flush().into_iter().map(|number| (number, granted())).collect();
    alone.host.on_verdicts(Epoch(1), &session(1), Position(7), verdicts);
    alone.host.drop_all_claims(&mut Vec::new());
    alone.slice();
    assert!(alone.host.is_busy());
    alone.slice();
    assert!(!alone.host.is_busy());
    assert_eq!(alone.flush().len(), 3);
}
