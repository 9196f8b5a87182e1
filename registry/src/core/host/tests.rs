use callsign_elector::record::LogEnd;
use callsign_store::ids::{Incarnation, Nonce, SessionNumber};

use super::*;
use crate::core::{
    log::{BatchBuilder, Op},
    message::Chunk,
    replica::Staged,
};

mod limits;
mod undecided;

type Rows = BTreeMap<Name, Row>;

const WAIT: Duration = Duration::from_secs(5);

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(number: u64) -> SessionId {
    SessionId { node: node("a"), incarnation: Incarnation(1), number: SessionNumber(number) }
}

/// A host of node a, which goes over two names at a time.
struct Alone {
    host: Host,
    replica: Replica<Rows>,
    now: Now,
    is_synced: bool,
    /// Whether somebody leads, and can be reached.
    leads: (bool, bool),
    wait: Duration,
}

impl Alone {
    fn new() -> Self {
        let mut replica = Replica::new(node("a"), Rows::new());
        replica.base_on_nothing();
        let now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };
        let host = Host::new();
        let mut alone = Self { host, replica, now, is_synced: true, leads: (true, true), wait: WAIT };
        alone.host.on_session_opened(session(1));
        assert_eq!(alone.settle(), []);
        alone
    }

    /// Actor 5 holds x under token 1, by call 1.
    fn holding() -> Self {
        let mut alone = Self::new();
        assert_eq!(alone.register(1, 5, "x"), [Effect::Watch { actor: 5 }]);
        let number = alone.asks_one();
        alone.held("x", number);
        assert_eq!(alone.decided(number, grant(1)), [registered(1, 1)]);
        alone
    }

    fn settle(&mut self) -> Vec<Effect> {
        settled(&mut self.host, self.now, &self.replica)
    }

    fn caller(&self, call: u64) -> Client {
        Client::new(self.now.time, CallId(call), self.wait)
    }

    fn register(&mut self, call: u64, actor: u64, name: &str) -> Vec<Effect> {
        self.register_with(call, actor, name, None)
    }

    fn register_with(&mut self, call: u64, actor: u64, name: &str, meta: Option<Meta>) -> Vec<Effect> {
        let (caller, mut effects) = (self.caller(call), Vec::new());
        let registrant = Registrant { meta, ..registrant(actor) };
        self.host.register(self.now, caller, name.into(), registrant, &mut effects);
        effects
    }

    fn start(&mut self, call: u64, name: &str, meta: Option<Meta>) -> Vec<Effect> {
        let (caller, mut effects, wait) = (self.caller(call), Vec::new(), self.wait);
        let (on_lapse, on_take, until) = (OnLapse::Stop, OnTake::Refuse, self.now.time + 2 * WAIT);
        let starter = Starter { kind: Kind(7), on_lapse, on_take, meta, limit: WAIT, wait, until };
        self.host.start(self.now, caller, name.into(), starter, &self.replica, &mut effects);
        effects
    }

    fn unregister(&mut self, call: u64, name: &str, token: Option<u64>) -> Vec<Effect> {
        let (caller, mut effects) = (self.caller(call), Vec::new());
        self.host.unregister(caller, name.into(), token.map(Position), &self.replica, &mut effects);
        effects
    }

    fn update(&mut self, call: u64, name: &str, token: u64) -> Vec<Effect> {
        self.update_at(call, name, token, None)
    }

    fn update_at(&mut self, call: u64, name: &str, token: u64, revision: Option<u64>) -> Vec<Effect> {
        let (caller, mut effects) = (self.caller(call), Vec::new());
        let change = MetaChange { token: Position(token), revision: revision.map(Position), meta: None };
        self.host.update(self.now, caller, name.into(), change, &self.replica, &mut effects);
        effects
    }

    fn take(&mut self, call: u64, name: &str, token: u64) -> Vec<Effect> {
        let (caller, mut effects, token) = (self.caller(call), Vec::new(), Position(token));
        let (on_lapse, on_take) = (OnLapse::Stop, OnTake::Give);
        let wanted = Wanted { token, actor: 50 + call, kind: Kind(7), on_lapse, on_take };
        self.host.take(self.now, caller, name.into(), wanted, &self.replica, &mut effects);
        effects
    }

    /// The messages to the leader.
    fn messages(&mut self) -> Vec<Vec<Request>> {
        let leader = node("l");
        let leader = self.leads.1.then_some((Epoch(1), &leader));
        let around = Surroundings { leader, is_synced: self.is_synced, has_leader: self.leads.0 };
        let mut effects = Vec::new();
        self.host.flush(self.now.time, around, &mut effects);
        let sent = effects.into_iter().map(|effect| match effect {
            Effect::Send { message: Message::Requests { requests, .. }, .. } => requests,
            other => panic!("{other:?}"),
        });
        sent.collect()
    }

    fn asks(&mut self) -> Vec<Request> {
        self.messages().concat()
    }

    fn asks_one(&mut self) -> RequestNumber {
        let [Request { number, .. }] = self.asks()[..] else { panic!("it asks for one") };
        number
    }

    fn wishes(&mut self) -> Vec<Wish> {
        self.asks().into_iter().map(|request| request.wish).collect()
    }

    fn wake(&mut self, millis: u64) -> Vec<Effect> {
        self.now.time = self.now.time + Duration::from_millis(millis);
        let around = Surroundings { leader: None, is_synced: self.is_synced, has_leader: self.leads.0 };
        let mut effects = Vec::new();
        self.host.on_wake(self.now, 1024, around, &self.replica, &mut effects);
        effects
    }

    fn apply(&mut self, op: Op) -> Vec<Effect> {
        let mut builder = BatchBuilder::default();
        builder.session(&Arc::new(session(1)));
        builder.session(&Arc::new(SessionId { node: node("b"), ..session(1) }));
        builder.push(op);
        let (prev, at) = (self.replica.end(), self.replica.position().next());
        let applied = self.replica.apply(&builder.build(Epoch(1), Nonce(at.0), prev, at));
        let mut effects = Vec::new();
        self.host.on_applied(&applied, &mut effects);
        effects.extend(self.settle());
        effects
    }

    fn held(&mut self, name: &str, request: RequestNumber) {
        let (kind, actor) = (Kind(7), Some(5));
        let op = Op::Register { name: name.into(), session: 0, request, actor, kind, meta: None };
        assert_eq!(self.apply(op), []);
    }

    fn decided(&mut self, number: RequestNumber, verdict: Verdict) -> Vec<Effect> {
        let at = self.replica.position();
        self.host.on_verdicts(Epoch(1), &session(1), at, vec![(number, verdict)]);
        self.settle()
    }
}

fn registrant(actor: u64) -> Registrant {
    let (kind, on_lapse, on_take) = (Kind(7), OnLapse::Stop, OnTake::Give);
    Registrant { actor, kind, on_lapse, on_take, meta: None }
}

fn grant(token: u64) -> Verdict {
    Verdict::Granted { token: Position(token), revision: Position(token) }
}

fn answer(call: u64, answer: Answer) -> Effect {
    Effect::Answer { call: CallId(call), answer }
}

fn registered(call: u64, token: u64) -> Effect {
    let (token, session, claim) = (Position(token), SessionNumber(1), CallId(call));
    answer(call, Answer::Registered(Ok(Granted { token, revision: token, session, claim })))
}

fn refused(call: u64, error: RegisterError) -> Effect {
    answer(call, Answer::Registered(Err(error)))
}

fn not_started(call: u64, error: RegisterError) -> Effect {
    answer(call, Answer::Started(Err(error.into())))
}

fn not_updated(call: u64, error: UpdateError) -> Effect {
    answer(call, Answer::Updated(Err(error)))
}

fn pending(call: u64, waited: Duration) -> Effect {
    answer(call, Answer::Unregistered(Err(UnregisterError::Pending { name: "x".into(), waited })))
}

fn unknown(waited: Duration) -> RegisterError {
    RegisterError::Unknown { name: "x".into(), waited }
}

fn forget(call: u64) -> Effect {
    Effect::Forget { claim: CallId(call) }
}

fn gives_up(position: u64, why: GivenUp) -> Wish {
    Wish::Unregister { position: Position(position), why }
}

/// Does all that is owed, two names at a time, and settles.
pub(super) fn settled<T: Table>(host: &mut Host, now: Now, replica: &Replica<T>) -> Vec<Effect> {
    let mut effects = Vec::new();
    while host.is_busy() {
        host.proceed(now, 2, replica, &mut effects);
    }
    host.settle(now, replica, &mut effects);
    effects
}

/// The requests in messages to the leader. There is nothing else.
pub(super) fn requests(effects: Vec<Effect>) -> impl Iterator<Item = Request> {
    effects.into_iter().flat_map(|effect| match effect {
        Effect::Send { message: Message::Requests { requests, .. }, .. } => requests,
        other => panic!("{other:?}"),
    })
}

#[test]
fn whoever_is_refused_is_told_why_and_its_actor_is_not_watched_for_it() {
    let holder = Alone::holding().replica.row("x").unwrap().entry();
    let (name, allowed) = (|| "x".to_owned(), || vec!["shop/".to_owned()]);
    for (verdict, error) in [
        (Verdict::Taken { holder: Box::new(holder.clone()) }, RegisterError::Taken { name: name(), holder }),
        (Verdict::OtherLimit { limit: 3 }, RegisterError::OtherLimit { limit: 3 }),
        (
            Verdict::NotPermitted { allowed: allowed().into() },
            RegisterError::NotPermitted { name: name(), allowed: allowed() },
        ),
        (Verdict::Released, unknown(Duration::from_secs(1))),
    ] {
        let mut alone = Alone::new();
        alone.register(1, 5, "x");
        let number = alone.asks_one();
        alone.wake(1000);
        let told = alone.decided(number, verdict);
        assert_eq!(told, [Effect::Unwatch { actor: 5 }, forget(1), refused(1, error)]);
        assert_eq!(alone.asks(), []);
    }
}

#[test]
fn claims_are_compared_with_the_log_once_the_member_has_all_names() {
    for is_synced in [true, false] {
        let mut alone = Alone::new();
        alone.held("x", RequestNumber(7));
        alone.is_synced = is_synced;
        alone.wake(1000);
        alone.wake(1000);
        assert_eq!(alone.host.is_busy(), is_synced);
    }
}

#[test]
fn a_name_that_is_held_here_is_granted_again_to_the_same_actor_for_the_same_messages() {
    let mut alone = Alone::holding();
    let same = [Effect::Same { claim: CallId(1), again: CallId(2) }];
    let Effect::Answer { answer: granted, .. } = registered(1, 1) else { panic!("it is an answer") };
    let again = [&same[..], &[answer(2, granted)]].concat();
    assert_eq!(alone.register(2, 5, "x"), again);
    let is_taken = |effects: &[Effect]| match effects {
        [_, Effect::Answer { answer: Answer::Registered(Err(RegisterError::Taken { holder, .. })), .. }] => {
            (holder.actor, holder.kind, holder.token) == (Some(5), Kind(7), Position(1))
        }
        _ => false,
    };
    assert!(is_taken(&alone.register(3, 6, "x")));
    let (caller, mut effects) = (alone.caller(4), Vec::new());
    let registrant = Registrant { kind: Kind(8), ..registrant(5) };
    alone.host.register(alone.now, caller, "x".into(), registrant, &mut effects);
    assert!(is_taken(&effects), "{effects:?}");
    assert_eq!(alone.register(5, 5, "y"), [], "its actor is watched already");
    // Also by a node that leaves: it takes nothing new only.
    alone.host.turn_away(Vec::new());
    alone.settle();
    assert_eq!(alone.register(2, 5, "x"), again);
    let draining = || RegisterError::Draining { ask: vec![] };
    assert_eq!(alone.register(6, 5, "z"), [forget(6), refused(6, draining())]);
    assert_eq!(alone.start(7, "z", None), [forget(7), not_started(7, draining())]);
    alone.now.trusted = None;
    assert_eq!(alone.register(8, 5, "x"), [forget(8), refused(8, RegisterError::Lapsed)]);
    assert_eq!(alone.start(9, "x", None), [forget(9), not_started(9, RegisterError::Lapsed)]);
    assert_eq!(alone.update(10, "x", 1), [not_updated(10, UpdateError::Lapsed)]);
}

#[test]
fn who_gives_up_what_is_given_up_already_waits_for_the_same_verdict_unless_another_call_is_first() {
    let not_here = |effects: &[Effect], call| {
        let [Effect::Answer { call: CallId(told), answer: Answer::Unregistered(Err(error)) }] = effects
        else {
            return false;
        };
        *told == call && matches!(error, UnregisterError::NotHeldHere { .. })
    };
    for is_decided in [false, true] {
        let mut alone = Alone::holding();
        assert!(not_here(&alone.unregister(2, "y", None), 2));
        assert!(not_here(&alone.unregister(2, "x", Some(2)), 2), "another registration");
        alone.host.on_actor_ended(5);
        alone.settle();
        let number = alone.asks_one();
        let (at, verdicts) = (Position(2), vec![(number, Verdict::Released)]);
        if is_decided {
            alone.host.on_verdicts(Epoch(1), &session(1), at, verdicts.clone());
        }
        assert_eq!(alone.unregister(2, "x", None), []);
        assert_eq!(alone.unregister(3, "x", None), [], "it is another call");
        assert_eq!(alone.asks(), []);
        alone.host.on_verdicts(Epoch(1), &session(1), at, verdicts);
        assert_eq!(alone.settle(), [], "its replica is not there");
        let why = GivenUp::ActorEnded;
        let told = alone.apply(Op::Unregister { name: "x".into(), position: Position(1), why });
        assert_eq!(told[0], answer(2, Answer::Unregistered(Ok(at))));
        assert!(not_here(&told[1..], 3), "{told:?}");
    }
    let mut alone = Alone::holding();
    alone.host.on_actor_ended(5);
    alone.settle();
    let number = alone.asks_one();
    alone.register(2, 6, "x");
    assert_eq!(alone.unregister(3, "x", None), []);
    assert_eq!(alone.decided(number, Verdict::Released), [Effect::Watch { actor: 6 }]);
}

#[test]
fn a_place_holds_once_it_stands_first_and_nothing_is_kept_of_places_that_are_given_up() {
    let mut alone = Alone::new();
    let lock = GroupId::semaphore("gpu", 1);
    let place = |actor| lock.member(&session(1), actor);
    let grants = |alone: &mut Alone, call: u64| {
        let (caller, mut effects) = (alone.caller(call), Vec::new());
        alone.host.join(alone.now, caller, lock.clone(), registrant(call), &mut effects);
        assert_eq!(effects, [Effect::Watch { actor: call }]);
        let number = alone.asks_one();
        alone.held(&place(call), number);
        alone.decided(number, grant(call))
    };
    let holds = |call| Effect::Holds { claim: CallId(call) };
    assert_eq!(grants(&mut alone, 1), [registered(1, 1), holds(1)]);
    assert_eq!(grants(&mut alone, 2), [registered(2, 2)]);
    assert_eq!(grants(&mut alone, 3), [registered(3, 3)]);
    // The second one stops waiting, and the first one gives its place up.
    alone.host.on_actor_ended(2);
    alone.settle();
    let freed = |call| {
        let (name, position) = (place(call), Position(call));
        Op::Unregister { name, position, why: GivenUp::ActorEnded }
    };
    assert_eq!(alone.apply(freed(2)), []);
    alone.host.on_actor_ended(1);
    alone.settle();
    assert_eq!(alone.apply(freed(1)), [holds(3)]);
    assert_eq!(alone.host.places, Places::default());
    // So it does when all that stood before it are gone with their node.
    let mut alone = Alone::new();
    let (theirs, request, actor) = (SessionId { node: node("b"), ..session(1) }, RequestNumber(7), Some(9));
    let (name, kind) = (lock.member(&theirs, 9), Kind(7));
    alone.apply(Op::Register { name, session: 1, request, actor, kind, meta: None });
    let told = grants(&mut alone, 2);
    assert_eq!(told, [registered(2, 2)]);
    assert_eq!(alone.apply(Op::HostGone { session: 1 }), [holds(2)]);
    // It waits for its turn, and a session that is not there has no members.
    let caller = alone.caller(4);
    alone.host.on_session_lost(alone.now.time);
    let mut effects = Vec::new();
    alone.host.join(alone.now, caller, lock.clone(), registrant(4), &mut effects);
    assert_eq!(effects, []);
    let told = alone.settle();
    assert_eq!(told[told.len() - 2..], [forget(4), refused(4, RegisterError::Lapsed)]);
}

#[test]
fn a_node_that_leaves_says_whom_to_ask_as_it_knows_last() {
    let ask = |name: &str| vec![Elsewhere { node: node(name), address: format!("{name}:1"), admin: None }];
    let mut alone = Alone::new();
    alone.host.ask_elsewhere(ask("b"));
    assert_eq!(alone.register(1, 5, "x"), [Effect::Watch { actor: 5 }], "it does not leave");
    alone.host.turn_away(ask("b"));
    alone.host.ask_elsewhere(ask("c"));
    let draining = RegisterError::Draining { ask: ask("c") };
    assert_eq!(alone.settle()[0], refused(1, draining.clone()));
    assert_eq!(alone.register(2, 5, "x"), [forget(2), refused(2, draining)]);
}

#[test]
fn a_host_knows_the_session_of_which_it_hears_late() {
    for has_lapsed in [true, false] {
        let mut host = Host::new();
        if has_lapsed {
            host.on_session_lapsed(session(1));
        } else {
            host.on_session_resumed(session(1));
        }
        let replica = Replica::new(node("a"), Rows::new());
        let (now, mut effects) = (Now { time: Time::ZERO, trusted: None }, Vec::new());
        host.proceed(now, 9, &replica, &mut effects);
        assert_eq!((host.session(), effects), (Some(&session(1)), vec![]));
    }
}

#[test]
fn what_the_log_frees_of_a_former_registration_or_session_is_nothing_to_a_claim() {
    let mut alone = Alone::holding();
    let row = alone.replica.row("x").unwrap();
    let of_other_token = Row { position: Position(7), ..row.clone() };
    let of_other_session = Row { session: Arc::new(session(2)), ..row.clone() };
    let freed = |alone: &mut Alone, row: Row| {
        let applied = Applied { own_freed: vec![("x".into(), row)], ..Applied::default() };
        let mut effects = Vec::new();
        alone.host.on_applied(&applied, &mut effects);
        effects
    };
    for other in [of_other_token, of_other_session] {
        assert_eq!(freed(&mut alone, other), []);
    }
    assert_eq!(freed(&mut alone, row)[0], Effect::Flag { claim: CallId(1) });
    assert!(alone.host.claims().is_empty());
}
