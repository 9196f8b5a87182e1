mod others;

use std::{collections::BTreeMap, sync::Arc};

use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, SessionId, SessionNumber};

use super::*;
use crate::core::{
    host::{Surroundings, starts::Running},
    log::{BatchBuilder, Op},
    message::{Request, Verdict},
    table::{RequestNumber, Row},
};

type Rows = BTreeMap<Name, Row>;

const LIMIT: Duration = Duration::from_secs(3);

fn session(node: &str) -> SessionId {
    let node = NodeName::new(node).unwrap();
    SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) }
}

/// A host of node a, and its replica.
struct Alone {
    host: Host,
    replica: Replica<Rows>,
    now: Now,
}

impl Alone {
    fn new() -> Self {
        let mut replica = Replica::new(NodeName::new("a").unwrap(), Rows::new());
        replica.base_on_nothing();
        let now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };
        let mut alone = Self { host: Host::new(), replica, now };
        alone.host.on_session_opened(session("a"));
        assert_eq!(alone.proceed(), []);
        alone
    }

    fn proceed(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while self.host.is_busy() {
            self.host.proceed(self.now, 2, &self.replica, &mut effects);
        }
        effects
    }

    fn start(&mut self, call: u64) -> Vec<Effect> {
        self.start_of(call, "x", OnLapse::Stop, None)
    }

    fn start_of(&mut self, call: u64, name: &str, on_lapse: OnLapse, meta: Option<Meta>) -> Vec<Effect> {
        let (wait, time, mut effects) = (Duration::from_secs(5), self.now.time, Vec::new());
        let (kind, until) = (Kind(7), time + Duration::from_secs(20));
        let starter = Starter { kind, on_lapse, on_take: OnTake::default(), meta, limit: LIMIT, wait, until };
        let caller = Client::new(time, CallId(call), wait);
        self.host.start(self.now, caller, name.into(), starter, &self.replica, &mut effects);
        effects
    }

    fn flush(&mut self) -> Vec<Request> {
        let leader = NodeName::new("l").unwrap();
        let around = Surroundings { leader: Some((Epoch(1), &leader)), is_synced: true, has_leader: true };
        let mut effects = Vec::new();
        self.host.flush(self.now.time, around, &mut effects);
        crate::core::host::tests::requests(effects).collect()
    }

    fn wake(&mut self, after: Duration) -> Vec<Effect> {
        self.now.time = self.now.time + after;
        let around = Surroundings { leader: None, is_synced: true, has_leader: true };
        let mut effects = Vec::new();
        self.host.on_wake(self.now, 1024, around, &self.replica, &mut effects);
        effects
    }

    fn apply(&mut self, node: &str, op: Op) -> Vec<Effect> {
        let mut builder = BatchBuilder::default();
        builder.session(&Arc::new(session(node)));
        builder.push(op);
        let (prev, at) = (self.replica.end(), self.replica.position().next());
        let applied = self.replica.apply(&builder.build(Epoch(1), Nonce(at.0), prev, at));
        let mut effects = Vec::new();
        self.host.on_applied(&applied, &mut effects);
        effects.extend(self.settle());
        effects
    }

    /// A name is taken at the next position, and its actor is being started.
    fn starting(&mut self, node: &str, request: u64) -> Vec<Effect> {
        self.starting_of("x", node, request)
    }

    fn starting_of(&mut self, name: &str, node: &str, request: u64) -> Vec<Effect> {
        let (session, request, kind, meta) = (0, RequestNumber(request), Kind(7), None);
        self.apply(node, Op::Register { name: name.into(), session, request, actor: None, kind, meta })
    }

    fn settle(&mut self) -> Vec<Effect> {
        let mut effects = self.proceed();
        self.host.settle(self.now, &self.replica, &mut effects);
        effects
    }

    fn decided(&mut self, number: RequestNumber, verdict: Verdict) -> Vec<Effect> {
        let at = self.replica.position();
        self.host.on_verdicts(Epoch(1), &session("a"), at, vec![(number, verdict)]);
        self.settle()
    }

    /// The start of call 1 runs, under token 1.
    fn running() -> Self {
        let mut alone = Self::new();
        assert_eq!(alone.start(1), []);
        let number = alone.flush()[0].number;
        alone.starting("a", number.0);
        let effects = alone.decided(number, granted(1, 1));
        let granted = Granted {
            token: Position(1),
            revision: Position(1),
            session: SessionNumber(1),
            claim: CallId(1),
        };
        assert_eq!(effects, [Effect::Start { name: "x".into(), granted }]);
        alone
    }

    fn ended(&mut self, yielded: Yielded) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.host.on_start_ended(self.now, "x".into(), CallId(1), yielded, &mut effects);
        effects
    }

    /// It has brought actor 5, which is to be bound.
    fn binding() -> (Self, RequestNumber) {
        let mut alone = Self::running();
        assert_eq!(alone.ended(brought(5)), [Effect::Watch { actor: 5 }]);
        let asked = alone.flush();
        let wish = Wish::Bind { position: Position(1), actor: 5, meta: None };
        assert_eq!((asked.len(), &asked[0].wish), (1, &wish));
        (alone, asked[0].number)
    }
}

fn brought(actor: u64) -> Yielded {
    Yielded::Actor { actor, kind: Some(Kind(7)) }
}

fn granted(token: u64, revision: u64) -> Verdict {
    Verdict::Granted { token: Position(token), revision: Position(revision) }
}

fn end(error: NotStarted) -> [Effect; 3] {
    let (call, answer) = (CallId(1), Answer::Started(Err(error)));
    [Effect::Flag { claim: call }, Effect::Forget { claim: call }, Effect::Answer { call, answer }]
}

fn gives_up(alone: &mut Alone, why: &GivenUp) {
    let asked: Vec<_> = alone.flush().into_iter().map(|request| request.wish).collect();
    assert_eq!(asked, [Wish::Unregister { position: Position(1), why: why.clone() }]);
}

fn failed(reason: &str) -> GivenUp {
    GivenUp::StartFailed { reason: reason.into() }
}

#[test]
fn what_was_started_is_bound_under_its_token_and_a_second_caller_gets_it() {
    let mut alone = Alone::running();
    assert_eq!(alone.start(2), [], "it waits for the first");
    assert_eq!(alone.ended(brought(5)), [Effect::Watch { actor: 5 }]);
    let number = alone.flush()[0].number;
    let bind = Op::Bind { name: "x".into(), position: Position(1), request: number, actor: 5, meta: None };
    let told = alone.apply("a", bind);
    let [Effect::Forget { claim: CallId(2) }, Effect::Answer { call: CallId(2), answer }] = &told[..] else {
        panic!("{told:?}")
    };
    let Answer::Started(Ok(StartedAs::Theirs(entry))) = answer else { panic!("{answer:?}") };
    assert_eq!((entry.token, entry.revision, entry.actor), (Position(1), Position(2), Some(5)));
    let told = alone.decided(number, granted(1, 2));
    let [Effect::Answer { answer: Answer::Started(Ok(StartedAs::Ours(ours))), .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((ours.token, ours.revision, ours.claim), (Position(1), Position(2), CallId(1)));
    // It is a claim as any other.
    alone.host.on_actor_ended(5);
    assert_eq!(alone.proceed()[0], Effect::Flag { claim: CallId(1) });
    gives_up(&mut alone, &GivenUp::ActorEnded);
}

#[test]
fn an_actor_that_ends_before_it_is_bound_is_unregistered_once_that_is_decided() {
    for verdict in [granted(1, 2), Verdict::NotHeld { holder: None }] {
        let (mut alone, number) = Alone::binding();
        alone.host.on_actor_ended(5);
        assert_eq!(alone.proceed(), [Effect::Flag { claim: CallId(1) }, Effect::Forget { claim: CallId(1) }]);
        assert_eq!(alone.flush(), [], "first it has to be decided");
        let is_granted = verdict.is_grant();
        let told = alone.decided(number, verdict);
        let answer = Answer::Started(Err(NotStarted::Ended));
        assert_eq!(told, [Effect::Answer { call: CallId(1), answer }]);
        if is_granted {
            gives_up(&mut alone, &GivenUp::ActorEnded);
        }
    }
}

#[test]
fn what_the_log_does_not_have_is_not_bound_and_its_actor_is_stopped() {
    let (mut alone, number) = Alone::binding();
    let told = alone.decided(number, Verdict::NotHeld { holder: None });
    assert_eq!(told[..2], [Effect::Flag { claim: CallId(1) }, Effect::Stop { actor: 5 }]);
    let answer = Answer::Started(Err(NotStarted::Lost));
    assert_eq!(told.last(), Some(&Effect::Answer { call: CallId(1), answer }));
    assert!(alone.host.claims().is_empty());
    assert_eq!((alone.flush(), alone.host.is_waiting()), (vec![], false));
    // The log says so before the leader does.
    let (mut alone, number) = Alone::binding();
    let why = GivenUp::Unregistered;
    let told = alone.apply("a", Op::Unregister { name: "x".into(), position: Position(1), why });
    assert_eq!(told[..2], [Effect::Flag { claim: CallId(1) }, Effect::Stop { actor: 5 }]);
    let answer = Effect::Answer { call: CallId(1), answer: Answer::Started(Err(NotStarted::Lost)) };
    let told = alone.decided(number, Verdict::NotHeld { holder: None });
    assert_eq!(told, [Effect::Unwatch { actor: 5 }, answer], "it is watched until it is not asked for");
    assert_eq!(alone.flush(), []);
}

#[test]
fn a_start_that_may_not_go_on_is_flagged_first_and_what_it_still_brings_is_stopped() {
    // It was too slow, and nobody has looked at the time since.
    let slow = NotStarted::TooSlow { limit: LIMIT };
    let mut alone = Alone::running();
    alone.now.time = alone.now.time + LIMIT;
    let told = alone.ended(brought(5));
    assert_eq!((&told[..3], &told[3..]), (&end(slow.clone())[..], &[Effect::Stop { actor: 5 }][..]));
    gives_up(&mut alone, &failed("the start took longer than 3s"));
    assert_eq!(alone.ended(brought(6)), [Effect::Stop { actor: 6 }]);
    // Somebody has.
    let mut alone = Alone::running();
    assert_eq!(alone.wake(LIMIT), end(slow));
    gives_up(&mut alone, &failed("the start took longer than 3s"));
    assert_eq!(alone.ended(brought(5)), [Effect::Stop { actor: 5 }]);
    // The session lapsed, and nobody has said so.
    let mut alone = Alone::running();
    alone.now.trusted = None;
    assert_eq!(alone.ended(brought(5))[..3], end(NotStarted::Lost));
    // Somebody has. It resumes later.
    let mut alone = Alone::running();
    alone.host.on_session_lapsed(session("a"));
    assert_eq!(alone.proceed(), end(NotStarted::Lost));
    alone.host.on_session_resumed(session("a"));
    assert_eq!(alone.proceed(), []);
    assert_eq!(alone.ended(brought(5)), [Effect::Stop { actor: 5 }]);
    gives_up(&mut alone, &failed("the name was lost while its actor was being started"));
    // The session is lost: its end frees the name.
    let mut alone = Alone::running();
    alone.host.on_session_lost(alone.now.time);
    let lost = RegisterError::SessionLost { name: "x".into() };
    assert_eq!(alone.proceed(), end(lost.into()));
    assert_eq!(alone.ended(brought(5)), [Effect::Stop { actor: 5 }]);
    assert!(alone.host.claims().is_empty() && !alone.host.is_waiting());
    // The log frees it.
    let mut alone = Alone::running();
    let why = GivenUp::Unregistered;
    let told = alone.apply("a", Op::Unregister { name: "x".into(), position: Position(1), why });
    assert_eq!(told[..3], end(NotStarted::Lost));
    assert_eq!(alone.ended(brought(5)), [Effect::Stop { actor: 5 }]);
}

#[test]
fn what_comes_of_a_start_that_fails_is_in_the_log_too() {
    let reason = "ö".repeat(200);
    let cases = [
        (Yielded::Ended, NotStarted::Ended, None),
        (Yielded::Foreign { node: None }, NotStarted::NotLocal { node: None }, None),
        (Yielded::Actor { actor: 5, kind: Some(Kind(8)) }, NotStarted::OtherMessages, Some(5)),
        (Yielded::Actor { actor: 5, kind: None }, NotStarted::OtherMessages, Some(5)),
        (Yielded::Failed { reason: "no room".into() }, NotStarted::Failed { reason: "no room".into() }, None),
        (Yielded::Panicked { reason }, NotStarted::Panicked { reason: "ö".repeat(100) }, None),
        (Yielded::Abandoned, NotStarted::Abandoned, None),
    ];
    for (yielded, error, stopped) in cases {
        let mut alone = Alone::running();
        let told = alone.ended(yielded);
        let stops: Vec<_> = stopped.map(|actor| Effect::Stop { actor }).into_iter().collect();
        assert_eq!((&told[..3], &told[3..]), (&end(error.clone())[..], &stops[..]));
        gives_up(&mut alone, &failed(&clip(error.reason())));
    }
}

#[test]
fn a_caller_that_is_refused_waits_until_the_row_that_was_in_its_way_is_held_or_gone() {
    let waits = |alone: &mut Alone| {
        alone.starting("b", 1);
        alone.start(1);
        let number = alone.flush()[0].number;
        let holder = alone.replica.row("x").unwrap().holder();
        assert_eq!(alone.decided(number, Verdict::Taken { holder: Box::new(holder) }), [], "it waits");
    };
    let bind = |position| {
        let (request, meta) = (RequestNumber(2), None);
        Op::Bind { name: "x".into(), position: Position(position), request, actor: 9, meta }
    };
    let mut alone = Alone::new();
    waits(&mut alone);
    let told = alone.apply("b", bind(1));
    assert!(matches!(
        &told[..],
        [_, Effect::Answer { answer: Answer::Started(Ok(StartedAs::Theirs(_))), .. }]
    ));

    // Freed by its host; by the end of the session, with all of its names; and taken by another meanwhile.
    let why = failed("on purpose");
    let free = Op::Unregister { name: "x".into(), position: Position(1), why };
    for op in [free, Op::HostGone { session: 0 }] {
        let mut alone = Alone::new();
        waits(&mut alone);
        assert_eq!(alone.apply("b", op), []);
        let again = alone.flush();
        assert_eq!((again.len(), again[0].wish.starts()), (1, true), "it asks again");
        alone.starting("c", 1);
        let holder = alone.replica.row("x").unwrap().holder();
        assert_eq!(alone.decided(again[0].number, Verdict::Taken { holder: Box::new(holder) }), []);
        let told = alone.apply("c", bind(3));
        assert!(matches!(&told[..], [_, Effect::Answer { answer: Answer::Started(Ok(_)), .. }]), "{told:?}");
    }
    // Another table does not say that the name is free before it is whole.
    let mut alone = Alone::new();
    waits(&mut alone);
    alone.replica.give_up_base();
    alone.host.many_changed();
    assert_eq!((alone.settle(), alone.flush()), (vec![], vec![]));
    // It does not wait for ever.
    let told = alone.wake(Duration::from_secs(20));
    let waited = Duration::from_secs(20);
    let error = NotStarted::StillStarting { name: "x".into(), token: Position(1), waited };
    assert_eq!(told[..], end(error)[1..]);
    assert!(!alone.host.is_waiting());
}

#[test]
fn many_who_wait_for_one_start_are_looked_at_in_parts_and_each_of_them_once() {
    let mut alone = Alone::new();
    alone.starting("b", 1);
    let (time, wait, kind, meta) = (alone.now.time, Duration::from_secs(5), Kind(7), Meta::new(&7).ok());
    for call in 0..1200 {
        let (on_lapse, on_take, meta) = (OnLapse::Stop, OnTake::default(), meta.clone());
        let starter = Starter { kind, on_lapse, on_take, meta, limit: LIMIT, wait, until: time + 4 * wait };
        let (caller, token) = (Client::new(time, CallId(call), wait), Position(1));
        alone.host.starts.await_start("x".into(), Awaiting { caller, token, starter });
    }
    // They go on waiting.
    alone.host.many_changed();
    let mut looks = 0;
    while looks == 0 || alone.host.has_more_to_send() {
        assert_eq!(alone.settle(), []);
        looks += 1;
        assert_eq!((alone.host.starts.count(), alone.host.starts.bytes()), (1200, 1200));
        assert!(looks < 9, "it comes to an end");
    }
    assert_eq!(looks, 3);
    // Now it is held.
    let (name, position, request) = ("x".into(), Position(1), RequestNumber(2));
    let mut told = vec![alone.apply("b", Op::Bind { name, position, request, actor: 9, meta: None })];
    while alone.host.has_more_to_send() {
        told.push(alone.settle());
    }
    let call = |effect: &Effect| match effect {
        Effect::Answer { call, answer: Answer::Started(Ok(_)) } => Some(call.0),
        _ => None,
    };
    let told: Vec<Vec<u64>> = told.iter().map(|part| part.iter().filter_map(call).collect()).collect();
    assert!(told.iter().all(|part| part.len() < 1000), "{told:?}");
    assert_eq!(told.concat(), (0..1200).collect::<Vec<u64>>());
    assert_eq!(alone.host.starts, Starts::default());
}

#[test]
fn nobody_starts_what_nobody_waits_for_and_what_was_started_is_bound_all_the_same() {
    let mut alone = Alone::new();
    alone.start(1);
    let number = alone.flush()[0].number;
    let told = alone.wake(Duration::from_secs(5));
    let unknown = RegisterError::Unknown { name: "x".into(), waited: Duration::from_secs(5) };
    assert_eq!(told, end(unknown.clone().into())[2..]);
    alone.starting("a", number.0);
    assert_eq!(alone.decided(number, granted(1, 1)), [Effect::Forget { claim: CallId(1) }]);
    gives_up(&mut alone, &failed("nobody waited for the start any more"));
    // It was not sent when its caller went.
    let mut alone = Alone::running();
    alone.ended(brought(5));
    assert_eq!(alone.wake(Duration::from_secs(5)), end(unknown.into())[2..]);
    let asked = alone.flush();
    assert!(matches!(asked[..], [Request { wish: Wish::Bind { .. }, .. }]), "{asked:?}");
    assert_eq!(alone.decided(asked[0].number, granted(1, 2)), []);
    assert_eq!(alone.host.claims()["x"].revision, Position(2));
}

#[test]
fn what_is_being_started_here_is_taken_and_cannot_be_given_up_or_changed() {
    let mut alone = Alone::running();
    let caller = |call| Client::new(alone.now.time, CallId(call), Duration::from_secs(5));
    let (second, third) = (caller(2), caller(3));
    let mut effects = Vec::new();
    alone.host.unregister(second, "x".into(), None, &alone.replica, &mut effects);
    let change = crate::core::host::MetaChange { token: Position(1), revision: None, meta: None };
    alone.host.update(alone.now, third, "x".into(), change, &alone.replica, &mut effects);
    let no = |effect: &Effect| {
        matches!(
            effect,
            Effect::Answer { answer: Answer::Unregistered(Err(_)) | Answer::Updated(Err(_)), .. }
        )
    };
    assert!(effects.len() == 2 && effects.iter().all(no), "{effects:?}");
    assert_eq!(alone.flush(), []);
    assert!(matches!(alone.host.starts.running.get("x"), Some(Running { claim: CallId(1), .. })));
}

/// Starts of x, y and z run, by the calls 1 to 3.
fn running_three() -> Alone {
    let mut alone = Alone::new();
    for (call, name) in (1..).zip(["x", "y", "z"]) {
        assert_eq!(alone.start_of(call, name, OnLapse::Stop, Some(Meta::new(&7).unwrap())), []);
        let number = alone.flush()[0].number;
        alone.starting_of(name, "a", number.0);
        assert_eq!(alone.decided(number, granted(call, call)).len(), 1);
    }
    assert_eq!((alone.host.starts.count(), alone.host.starts.bytes()), (3, 3));
    alone
}

#[test]
fn all_starts_end_some_at_a_time_with_the_trust_the_session_or_the_log() {
    let ended = |told: &[Effect]| {
        let is_flag = |effect: &&Effect| matches!(effect, Effect::Flag { .. });
        let is_refusal =
            |effect: &&Effect| matches!(effect, Effect::Answer { answer: Answer::Started(Err(_)), .. });
        (told.iter().filter(is_flag).count(), told.iter().filter(is_refusal).count())
    };
    for (ends, given_up) in [("trust", 3), ("session", 0), ("log", 0)] {
        let mut alone = running_three();
        match ends {
            "trust" => alone.host.on_session_lapsed(session("a")),
            "session" => alone.host.on_session_lost(alone.now.time),
            _ => alone.host.drop_all_claims(&mut Vec::new()),
        }
        let mut effects = Vec::new();
        alone.host.proceed(alone.now, 2, &alone.replica, &mut effects);
        assert_eq!(ended(&effects), (2, 2), "{ends}");
        effects.extend(alone.proceed());
        assert_eq!(ended(&effects), (3, 3), "{ends}");
        assert_eq!((alone.flush().len(), &alone.host.starts), (given_up, &Starts::default()));
        assert_eq!(alone.host.claims_digest, 0);
    }
}

#[test]
fn all_who_wait_for_the_starts_of_a_node_look_again_when_it_is_gone() {
    let mut alone = Alone::new();
    for (call, name) in (1..).zip(["x", "y", "z"]) {
        alone.starting_of(name, "b", call);
        alone.start_of(call, name, OnLapse::Stop, Some(Meta::new(&7).unwrap()));
        let number = alone.flush()[0].number;
        let holder = alone.replica.row(name).unwrap().holder();
        assert_eq!(alone.decided(number, Verdict::Taken { holder: Box::new(holder) }), []);
    }
    assert_eq!((alone.host.starts.count(), alone.host.starts.bytes()), (3, 3));
    assert!(alone.host.is_waiting());
    assert_eq!(alone.apply("b", Op::HostGone { session: 0 }), []);
    assert_eq!((alone.flush().len(), &alone.host.starts), (3, &Starts::default()));
    alone.host.many_changed();
    assert!(!alone.host.is_busy(), "nobody waits for anything that may have changed");

    // A start of this node goes on, whatever another table says, and though nothing is trusted for a moment.
    let mut alone = Alone::running();
    assert_eq!(alone.start(2), []);
    let mut builder = BatchBuilder::default();
    let why = GivenUp::Unregistered;
    builder.push(Op::Unregister { name: "x".into(), position: Position(1), why });
    let batch = builder.build(Epoch(1), Nonce(2), alone.replica.end(), Position(2));
    alone.replica.apply(&batch);
    alone.host.many_changed();
    alone.now.trusted = None;
    assert_eq!((alone.settle(), alone.flush()), (vec![], vec![]));

    // One that has waited for long enough is forgotten.
    let mut alone = Alone::new();
    alone.starting("b", 1);
    alone.start_of(1, "x", OnLapse::Stop, Some(Meta::new(&7).unwrap()));
    let number = alone.flush()[0].number;
    let holder = alone.replica.row("x").unwrap().holder();
    alone.decided(number, Verdict::Taken { holder: Box::new(holder) });
    assert_eq!(alone.wake(Duration::from_millis(19_999)), []);
    assert_eq!(alone.wake(Duration::from_millis(1)).len(), 2);
    assert_eq!(alone.host.starts, Starts::default());
}

#[test]
fn whoever_starts_what_is_held_is_told_who_holds_it_and_what_that_says_of_itself() {
    let meta = || Some(Meta::new("eu").unwrap());
    let theirs = |told: &[Effect], call| {
        let [Effect::Forget { claim }, Effect::Answer { call: answered, answer }] = told else {
            panic!("{told:?}")
        };
        assert_eq!((*claim, *answered), (CallId(call), CallId(call)));
        let Answer::Started(Ok(StartedAs::Theirs(entry))) = answer else { panic!("{answer:?}") };
        (entry.token, entry.actor, entry.raw_meta().cloned())
    };
    // By this node.
    let (mut alone, number) = Alone::binding();
    let bind = Op::Bind { name: "x".into(), position: Position(1), request: number, actor: 5, meta: meta() };
    alone.apply("a", bind);
    alone.decided(number, granted(1, 2));
    assert_eq!(theirs(&alone.start(2), 2), (Position(1), Some(5), meta()));
    // By another one: what the leader says, or more, if the replica has that registration.
    let op = |request, meta| {
        let (session, request, kind) = (0, RequestNumber(request), Kind(7));
        Op::Register { name: "x".into(), session, request, actor: Some(9), kind, meta }
    };
    for is_another in [false, true] {
        let mut alone = Alone::new();
        alone.apply("b", op(1, meta()));
        alone.start(1);
        let number = alone.flush()[0].number;
        let mut holder = alone.replica.row("x").unwrap().holder();
        if is_another {
            holder.token = Position(7);
        }
        let told = alone.decided(number, Verdict::Taken { holder: Box::new(holder) });
        let (token, meta) = if is_another { (Position(7), None) } else { (Position(1), meta()) };
        assert_eq!(theirs(&told, 1), (token, Some(9), meta));
    }
}

#[test]
fn a_start_waits_for_its_turn_and_what_another_one_brings_is_stopped() {
    let mut alone = Alone::new();
    alone.host.on_actor_ended(99);
    assert_eq!((alone.start(1), alone.flush()), (vec![], vec![]));
    assert_eq!((alone.proceed(), alone.flush().len()), (vec![], 1));
    let mut alone = Alone::new();
    alone.host.on_session_lost(alone.now.time);
    assert_eq!(alone.start(1), []);
    assert_eq!(alone.proceed(), end(RegisterError::Lapsed.into())[1..], "that session is over");

    let mut alone = Alone::running();
    let mut effects = Vec::new();
    alone.host.on_start_ended(alone.now, "x".into(), CallId(9), brought(5), &mut effects);
    assert_eq!(effects, [Effect::Stop { actor: 5 }]);
    assert!(alone.host.is_waiting());
    // An actor that holds a name already is watched.
    alone.apply("b", Op::Open);
    let claim = Claim {
        id: CallId(2),
        actor: Some(6),
        kind: Kind(7),
        position: Position(2),
        revision: Position(2),
        on_lapse: OnLapse::Stop,
        on_take: OnTake::Refuse,
    };
    alone.host.claim("y".into(), claim);
    assert_eq!(alone.ended(brought(6)), []);
    assert_eq!(alone.flush().len(), 1);
}

#[test]
fn an_actor_that_is_bound_while_its_node_leaves_is_told_that() {
    let mut alone = Alone::new();
    alone.start_of(1, "x", OnLapse::Suspend, None);
    let number = alone.flush()[0].number;
    alone.starting("a", number.0);
    alone.decided(number, granted(1, 1));
    alone.ended(brought(5));
    let number = alone.flush()[0].number;
    alone.host.turn_away(Vec::new());
    let claims = || vec![CallId(1)];
    let draining = || Effect::Notify { actor: 5, claims: claims(), notice: Notice::Draining };
    alone.proceed();
    let told = alone.decided(number, granted(1, 2));
    assert_eq!(told[0], draining());
}
