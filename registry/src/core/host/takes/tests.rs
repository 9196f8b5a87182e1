mod disowned;
mod within;

use callsign_store::ids::{Epoch, Incarnation, Nonce, SessionNumber};

use super::*;
use crate::core::{
    host::{Notice, Registrant, Surroundings},
    log::{BatchBuilder, Op},
    permitted::Permitted,
    table::Row,
};

type Rows = BTreeMap<Name, Row>;

const WAIT: Duration = Duration::from_secs(5);

/// The sessions of a batch.
const NODES: [&str; 3] = ["a", "b", "c"];

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(name: &str) -> Arc<SessionId> {
    numbered(name, 1)
}

fn numbered(name: &str, number: u64) -> Arc<SessionId> {
    Arc::new(SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(number) })
}

/// A host of node a, whose actor 5 takes names by call 1, actor 6 by call 2, and so on.
struct Alone {
    host: Host,
    replica: Replica<Rows>,
    now: Now,
    is_synced: bool,
}

impl Alone {
    fn new() -> Self {
        let mut replica = Replica::new(node("a"), Rows::new());
        replica.base_on_nothing();
        let now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };
        let mut alone = Self { host: Host::new(), replica, now, is_synced: true };
        alone.host.on_session_opened(SessionId::clone(&session("a")));
        assert_eq!(alone.settle(), []);
        assert_eq!(alone.asked(), []);
        alone
    }

    /// Node b holds these names under token 1, and each is taken.
    fn taking(names: &[&str]) -> Self {
        let mut alone = Self::new();
        alone.apply(names.iter().map(|name| held(name, 1)).collect());
        for (call, name) in (1..).zip(names) {
            assert_eq!(alone.take(call, name, 1), [watch(call), asks(call, name, 1)]);
        }
        alone
    }

    fn settle(&mut self) -> Vec<Effect> {
        crate::core::host::tests::settled(&mut self.host, self.now, &self.replica)
    }

    fn take(&mut self, call: u64, name: &str, token: u64) -> Vec<Effect> {
        self.take_for(call, 4 + call, name, token)
    }

    fn take_for(&mut self, call: u64, actor: u64, name: &str, token: u64) -> Vec<Effect> {
        let caller = Client::new(self.now.time, CallId(call), WAIT);
        let (token, kind) = (Position(token), Kind(7));
        let wanted = Wanted { token, actor, kind, on_lapse: OnLapse::Suspend, on_take: OnTake::Give };
        let mut effects = Vec::new();
        self.host.take(self.now, caller, name.into(), wanted, &self.replica, &mut effects);
        effects
    }

    /// What the leader is asked.
    fn asked(&mut self) -> Vec<(String, Wish)> {
        let leader = node("l");
        let (leader, is_synced) = (Some((Epoch(1), &leader)), self.is_synced);
        let around = Surroundings { leader, is_synced, has_leader: true };
        let mut effects = Vec::new();
        self.host.flush(self.now.time, around, &mut effects);
        let sent = crate::core::host::tests::requests(effects);
        sent.map(|request| (request.name.to_string(), request.wish)).collect()
    }

    fn sync(&mut self, is_synced: bool) {
        self.is_synced = is_synced;
        assert_eq!(self.asked(), []);
    }

    /// The replica has it, and the host is not told.
    fn comes_to(&mut self, ops: Vec<Op>) -> Applied {
        let mut builder = BatchBuilder::default();
        for name in NODES {
            builder.session(&session(name));
        }
        builder.session(&numbered("a", 2));
        for op in ops {
            builder.push(op);
        }
        let (prev, at) = (self.replica.end(), self.replica.position().next());
        self.replica.apply(&builder.build(Epoch(1), Nonce(at.0), prev, at))
    }

    fn apply(&mut self, ops: Vec<Op>) -> Vec<Effect> {
        let applied = self.comes_to(ops);
        let mut effects = Vec::new();
        self.host.on_applied(&applied, &mut effects);
        effects.extend(self.settle());
        effects
    }

    fn hears(&mut self, from: &str, taking: Taking) -> Vec<Effect> {
        let mut effects = Vec::new();
        let permitted = Permitted::new(node("a"));
        self.host.on_taking(self.now, &node(from), taking, &self.replica, &permitted, &mut effects);
        effects
    }

    fn wake(&mut self, millis: u64) -> Vec<Effect> {
        self.now.time = self.now.time + Duration::from_millis(millis);
        let around = Surroundings { leader: None, is_synced: self.is_synced, has_leader: true };
        let mut effects = Vec::new();
        self.host.on_wake(self.now, 1024, around, &self.replica, &mut effects);
        effects
    }

    fn end_of_actor(&mut self, actor: u64) -> Vec<Effect> {
        self.host.on_actor_ended(actor);
        self.settle()
    }
}

fn held(name: &str, session: u32) -> Op {
    let (request, kind) = (RequestNumber(77), Kind(7));
    Op::Register { name: name.into(), session, request, actor: Some(3), kind, meta: None }
}

fn freed(name: &str, position: u64) -> Op {
    Op::Unregister { name: name.into(), position: Position(position), why: GivenUp::Unregistered }
}

/// It goes to an actor of one of the sessions, which asked for it by this number.
fn moved(name: &str, session: u32, request: u64) -> Op {
    let (position, request, kind) = (Position(1), RequestNumber(request), Kind(7));
    Op::Transfer { name: name.into(), position, session, request, actor: 5, kind }
}

fn taker(number: u64) -> Taker {
    Taker { session: session("a"), number: RequestNumber(number) }
}

fn says(to: &str, taking: Taking) -> Effect {
    Effect::send(node(to), Message::Take(taking))
}

fn asks(number: u64, name: &str, token: u64) -> Effect {
    let (taker, holder, actor) = (taker(number), session("b"), 4 + number);
    let (name, token, kind) = (name.into(), Position(token), Kind(7));
    says("b", Taking::Ask { taker, holder, name, token, actor, kind })
}

fn data(number: u64, consent: u64, data: &'static str) -> Taking {
    Taking::Data { taker: taker(number), holder: session("b"), consent, data: data.into() }
}

fn refuses(number: u64, why: TakeRefusal) -> Taking {
    Taking::Refused { taker: taker(number), holder: session("b"), why }
}

fn received(number: u64, consent: u64) -> Effect {
    says("b", Taking::Received { taker: taker(number), consent })
}

fn over(number: u64) -> Effect {
    says("b", Taking::Over { taker: taker(number) })
}

fn watch(call: u64) -> Effect {
    Effect::Watch { actor: 4 + call }
}

fn told(call: u64, answer: Result<TakenAs, TakeError>) -> Effect {
    Effect::Answer { call: CallId(call), answer: Answer::Taken(answer) }
}

fn comes(call: u64, data: &'static str) -> Effect {
    let (token, session, claim) = (Position(2), SessionNumber(1), CallId(call));
    let granted = Granted { token, revision: token, session, claim };
    told(call, Ok(TakenAs { granted, data: data.into() }))
}

fn event(name: &str) -> Effect {
    Effect::Event(Event::Taken { name: name.into(), token: Position(2) })
}

/// A call comes to nothing, and its actor is needed for nothing else.
fn ends(call: u64, error: impl Into<TakeError>) -> [Effect; 3] {
    let claim = CallId(call);
    [Effect::Unwatch { actor: 4 + call }, Effect::Forget { claim }, told(call, Err(error.into()))]
}

fn gone(name: &str) -> TakeError {
    TakeError::Gone { name: name.into(), token: Position(1) }
}

fn unknown(name: &str) -> TakeError {
    RegisterError::Unknown { name: name.into(), waited: WAIT }.into()
}

fn lost(name: &str) -> RegisterError {
    RegisterError::SessionLost { name: name.into() }
}

#[test]
fn a_name_is_asked_of_its_holder_and_comes_with_its_data() {
    let mut alone = Alone::taking(&["x"]);
    assert!(alone.host.is_waiting() && alone.host.is_registering());
    assert_eq!(alone.hears("b", data(1, 4, "data")), [received(1, 4)]);
    assert_eq!(alone.hears("b", data(1, 5, "more data")), [received(1, 5)], "the last one counts");
    assert_eq!(alone.host.takes.bytes(), 9);
    assert_eq!(alone.apply(vec![moved("x", 0, 1)]), [event("x"), comes(1, "more data")]);
    assert_eq!((alone.host.claims()["x"].actor, &alone.host.takes), (Some(5), &Takes::default()));
    assert!(!alone.host.is_waiting() && !alone.host.is_registering());
    assert_eq!(alone.hears("b", data(1, 5, "more data")), [over(1)], "it has the name already");
    assert_eq!(alone.hears("b", refuses(1, TakeRefusal::NotHeld)), []);
    // It asks for what it holds; another actor of this node has to ask its holder.
    let again = alone.take_for(2, 5, "x", 2);
    let (token, session, claim) = (Position(2), SessionNumber(1), CallId(1));
    let granted = Granted { token, revision: token, session, claim };
    let same = Effect::Same { claim: CallId(1), again: CallId(2) };
    assert_eq!(again, [same, told(2, Ok(TakenAs { granted, data: Bytes::new() }))]);
    let (taker, holder, name) = (taker(2), self::session("a"), "x".into());
    let asks = Taking::Ask { taker, holder, name, token: Position(2), actor: 6, kind: Kind(7) };
    assert_eq!(alone.take(2, "x", 2), [watch(2), says("a", asks)]);
    // Of an actor with a name it is known when it ends.
    assert_eq!(alone.take_for(3, 5, "y", 9), []);
    assert_eq!(alone.end_of_actor(5)[0], Effect::Flag { claim: CallId(1) });
}

#[test]
fn a_holder_is_asked_once_the_replica_is_there_and_has_all_names() {
    let mut alone = Alone::new();
    alone.apply(vec![held("x", 1)]);
    assert_eq!(alone.take(1, "x", 3), [watch(1)]);
    // The end of an earlier registration is not that of the one that is waited for.
    assert_eq!(alone.apply(vec![freed("x", 1)]), []);
    assert_eq!(alone.apply(vec![held("x", 1)]), [asks(1, "x", 3)]);

    let mut alone = Alone::new();
    alone.apply(vec![held("x", 1)]);
    alone.sync(false);
    assert_eq!(alone.take(1, "x", 1), [watch(1)]);
    assert_eq!(alone.settle(), []);
    alone.sync(true);
    assert_eq!(alone.settle(), [asks(1, "x", 1)]);

    let mut alone = Alone::new();
    alone.replica.give_up_base();
    assert_eq!(alone.take(1, "x", 0), [watch(1)]);
    assert_eq!(alone.settle(), [], "that it does not know the name says nothing");

    // In a session that has just begun nothing is known yet.
    let mut alone = Alone::new();
    alone.apply(vec![held("x", 1)]);
    alone.host.on_session_opened(SessionId::clone(&numbered("a", 2)));
    alone.settle();
    alone.now.trusted = Some(SessionNumber(2));
    assert_eq!((alone.take(1, "x", 1), alone.settle()), (vec![watch(1)], vec![]));
    alone.sync(true);
    assert_eq!(alone.settle().len(), 1);
}

#[test]
fn who_waits_for_a_token_that_does_not_come_is_told_how_far_the_replica_is() {
    let mut alone = Alone::new();
    alone.apply(vec![held("x", 1)]);
    assert_eq!(alone.take(1, "x", 3), [watch(1)]);
    assert_eq!(alone.take(2, "x", 1), [], "it waits for the first");
    assert_eq!(alone.wake(4999), []);
    let (name, at, wanted, waited) = ("x".to_owned(), Position(1), Position(3), WAIT);
    let behind = TakeError::Behind { name, at, wanted, waited };
    let second = [Effect::Forget { claim: CallId(2) }, told(2, Err(unknown("x")))];
    assert_eq!(alone.wake(1), [&second[..], &ends(1, behind)].concat());
    assert_eq!(alone.host.takes, Takes::default());
    assert!(!alone.host.is_waiting());

    // The replica comes there at that moment: then something is asked, and nobody knows what becomes of it.
    let mut alone = Alone::new();
    alone.take(1, "x", 1);
    alone.comes_to(vec![held("x", 1)]);
    assert_eq!(alone.wake(5000), [asks(1, "x", 1), told(1, Err(unknown("x")))]);
}

#[test]
fn a_registration_that_is_not_there_is_not_waited_for() {
    let mut alone = Alone::new();
    alone.apply(vec![held("y", 1)]);
    alone.apply(vec![held("x", 1)]);
    for name in ["x", "y"] {
        let token = if name == "x" { 1 } else { 2 };
        assert_eq!(alone.take(1, name, token), [watch(1)]);
        let error = TakeError::Gone { name: name.into(), token: Position(token) };
        assert_eq!(alone.settle(), ends(1, error));
    }
    assert_eq!(alone.host.takes, Takes::default());
}

#[test]
fn a_refusal_counts_if_it_is_the_holders_and_the_next_one_is_asked_for_then() {
    let mut alone = Alone::taking(&["x"]);
    assert_eq!(alone.take(2, "x", 1), [], "one at a time");
    let why = || TakeRefusal::NotGiven;
    assert_eq!(alone.hears("c", refuses(1, why())), []);
    let (holder, number) = (numbered("b", 2), RequestNumber(1));
    assert_eq!(alone.hears("b", Taking::Refused { taker: taker(1), holder, why: why() }), []);
    let taker = Taker { session: numbered("a", 2), number };
    assert_eq!(alone.hears("b", Taking::Refused { taker, holder: session("b"), why: why() }), []);
    let refused = TakeError::Refused { name: "x".into(), why: why() };
    let next = [watch(2), asks(2, "x", 1)];
    assert_eq!(alone.hears("b", refuses(1, why())), [&ends(1, refused)[..], &next].concat());
    assert_eq!(alone.hears("b", data(1, 4, "data")), [over(1)], "that one is over");
}

#[test]
fn data_are_taken_of_the_holder_in_a_session_that_is_trusted_by_a_member_with_all_names() {
    let mut alone = Alone::taking(&["x"]);
    assert_eq!(alone.hears("c", data(1, 4, "data")), []);
    let forged = |session, holder| Taking::Data {
        taker: Taker { session, number: RequestNumber(1) },
        holder,
        consent: 4,
        data: "data".into(),
    };
    assert_eq!(alone.hears("b", forged(session("a"), numbered("b", 2))), []);
    assert_eq!(alone.hears("b", forged(numbered("a", 2), session("b"))), []);
    let trusted = alone.now.trusted.take();
    assert_eq!(alone.hears("b", data(1, 4, "data")), []);
    alone.now.trusted = trusted;
    alone.sync(false);
    assert_eq!(alone.hears("b", data(1, 4, "data")), []);
    assert_eq!(alone.host.takes.bytes(), 0);
    alone.sync(true);
    alone.settle();
    assert_eq!(alone.hears("b", data(1, 4, "data")), [received(1, 4)]);
}

#[test]
fn a_taker_that_ends_gets_nothing_and_its_holder_is_told_unless_it_may_be_too_late() {
    let ended = || RegisterError::ActorEnded;
    let mut alone = Alone::taking(&["x"]);
    assert_eq!(alone.take(2, "x", 1), []);
    assert_eq!(alone.end_of_actor(5), []);
    assert_eq!(alone.hears("b", data(1, 4, "data")), [over(1)]);
    let next = [watch(2), asks(2, "x", 1)];
    assert_eq!(alone.wake(1), [&[over(1)][..], &ends(1, ended()), &next].concat());

    let mut alone = Alone::taking(&["x"]);
    alone.end_of_actor(5);
    assert_eq!(alone.hears("b", refuses(1, TakeRefusal::NotGiven)), ends(1, ended()));

    // Its time is over as well.
    let mut alone = Alone::taking(&["x"]);
    alone.end_of_actor(5);
    assert_eq!(alone.wake(5000), [&[over(1)][..], &ends(1, ended())].concat());

    // It has said that it has the data: so the leader may be asked.
    let late = || {
        let mut alone = Alone::taking(&["x"]);
        alone.hears("b", data(1, 4, "data"));
        assert_eq!(alone.end_of_actor(5), []);
        assert_eq!(alone.wake(1), []);
        assert_eq!(alone.hears("b", data(1, 4, "data")), [received(1, 4)]);
        alone
    };
    let mut alone = late();
    let forget = Effect::Forget { claim: CallId(1) };
    assert_eq!(alone.apply(vec![moved("x", 0, 1)]), [event("x"), forget, told(1, Err(ended().into()))]);
    let position = Position(2);
    let given_up = Wish::Unregister { position, why: GivenUp::ActorEnded };
    assert_eq!(alone.asked(), [("x".to_owned(), given_up)]);
    assert!(alone.host.claims().is_empty());
    let mut alone = late();
    assert_eq!(alone.apply(vec![freed("x", 1)]), ends(1, ended()));
}

#[test]
fn a_registration_that_ends_otherwise_is_said_to_be_gone() {
    for op in [freed("x", 1), moved("x", 2, 1)] {
        let mut alone = Alone::taking(&["x"]);
        assert_eq!(alone.apply(vec![op]), ends(1, gone("x")));
        assert_eq!(alone.asked(), []);
    }
    // It came here by a request that nobody knows of any more: it is given up, unless something of it is undecided.
    let given_up = Wish::Unregister { position: Position(2), why: GivenUp::Unregistered };
    let mut alone = Alone::taking(&["x"]);
    assert_eq!(alone.apply(vec![moved("x", 0, 9)]), ends(1, gone("x")));
    assert_eq!(alone.asked(), [("x".to_owned(), given_up)]);
    let mut alone = Alone::new();
    alone.apply(vec![held("x", 1)]);
    let caller = Client::new(alone.now.time, CallId(1), WAIT);
    let (on_lapse, on_take) = (OnLapse::Stop, OnTake::Give);
    let registrant = Registrant { actor: 5, kind: Kind(7), on_lapse, on_take, meta: None };
    alone.host.register(alone.now, caller, "x".into(), registrant, &mut Vec::new());
    assert_eq!(alone.apply(vec![moved("x", 0, 9)]), []);
    assert!(matches!(alone.asked()[..], [(_, Wish::Register { .. })]));
    // Nor is what came to another session of this node.
    let mut alone = Alone::new();
    alone.apply(vec![held("x", 1)]);
    assert_eq!(alone.apply(vec![moved("x", 3, 9)]), []);
    assert_eq!(alone.asked(), []);
}

#[test]
fn what_comes_before_the_member_has_all_names_is_looked_at_when_it_has() {
    let mut alone = Alone::taking(&["x", "y", "z"]);
    alone.sync(false);
    assert_eq!(alone.apply(vec![moved("x", 0, 1), moved("y", 0, 2), moved("z", 0, 3)]), []);
    alone.sync(true);
    assert_eq!(alone.settle(), [comes(1, ""), comes(2, ""), comes(3, "")]);
    assert_eq!(alone.host.claims().len(), 3);
}

#[test]
fn each_name_is_looked_at_when_many_have_changed() {
    let all_gone = || ["x", "y", "z"].iter().zip(1..).flat_map(|(name, call)| ends(call, gone(name)));
    let all_gone: Vec<_> = all_gone().collect();
    let mut alone = Alone::taking(&["x", "y", "z"]);
    assert_eq!(alone.apply(vec![Op::HostGone { session: 1 }]), all_gone);
    let mut alone = Alone::taking(&["x", "y", "z"]);
    alone.sync(false);
    assert_eq!(alone.apply(vec![Op::HostGone { session: 1 }]), []);
    alone.sync(true);
    assert_eq!(alone.settle(), all_gone);

    let looks = |alone: &mut Alone| {
        alone.host.many_changed();
        alone.settle()
    };
    // One of them is held as before, and one is yet to come.
    let mut alone = Alone::taking(&["x"]);
    assert_eq!(alone.take(2, "y", 9), [watch(2)]);
    assert_eq!(looks(&mut alone), []);
    alone.comes_to(vec![moved("x", 2, 9)]);
    assert_eq!(looks(&mut alone), ends(1, gone("x")), "another one has it");
    // A table that is not whole says nothing.
    let mut alone = Alone::taking(&["x"]);
    alone.replica.give_up_base();
    alone.host.many_changed();
    assert_eq!(alone.settle(), []);
}

#[test]
fn a_holder_that_is_silent_is_asked_again_also_when_nobody_waits_any_more() {
    let mut alone = Alone::taking(&["x"]);
    assert_eq!(alone.wake(499), []);
    assert_eq!(alone.wake(1), [asks(1, "x", 1)]);
    let trusted = alone.now.trusted.take();
    assert_eq!(alone.wake(500), [], "it could do nothing with the data");
    alone.now.trusted = trusted;
    alone.sync(false);
    assert_eq!(alone.wake(0), []);
    alone.sync(true);
    assert!(alone.host.is_busy());
    assert_eq!(alone.wake(0), [], "first what is owed is done");
    assert_eq!(alone.settle(), []);
    assert_eq!(alone.wake(0), [asks(1, "x", 1)]);
    assert_eq!(alone.wake(3999), [asks(1, "x", 1)]);
    assert_eq!(alone.wake(1), [told(1, Err(unknown("x")))]);
    assert_eq!(alone.wake(1), [], "once");
    assert_eq!(alone.wake(498), [asks(1, "x", 1)]);
    alone.hears("b", data(1, 4, "data"));
    assert_eq!(alone.apply(vec![moved("x", 0, 1)]), [event("x")]);
    assert!(alone.host.claims().contains_key("x"));
}

#[test]
fn all_who_take_are_told_once_that_their_session_is_lost() {
    let mut alone = Alone::taking(&["x", "y", "z"]);
    assert_eq!(alone.take(4, "x", 1), []);
    alone.now.trusted = None;
    assert_eq!(
        alone.apply(vec![moved("z", 0, 3)]),
        [event("z")],
        "it is granted when the session is trusted"
    );
    alone.host.on_session_lost(alone.now.time);
    let waits = [Effect::Forget { claim: CallId(4) }, told(4, Err(lost("x").into()))];
    let all = [&ends(3, lost("z"))[..], &ends(1, lost("x")), &ends(2, lost("y")), &waits].concat();
    assert_eq!(alone.settle(), all);
    assert_eq!(alone.host.takes, Takes::default());
    assert!(!alone.host.is_waiting() && !alone.host.is_registering());
}

#[test]
fn where_the_log_is_lost_that_decided_a_take_another_one_says_what_becomes_of_it() {
    for is_late in [false, true] {
        let mut alone = Alone::taking(&["x", "y"]);
        alone.hears("b", data(1, 4, "data"));
        let trusted = alone.now.trusted.take();
        assert_eq!(alone.apply(vec![moved("x", 0, 1)]), [event("x")]);
        if is_late {
            // They differ in what is on its way, and that is not looked into.
            assert_eq!(alone.wake(1), []);
            let both = [told(1, Err(unknown("x"))), told(2, Err(unknown("y")))];
            assert_eq!(alone.wake(4999), both);
            assert!(!alone.host.is_busy());
        }
        alone.host.drop_all_claims(&mut Vec::new());
        alone.now.trusted = trusted;
        assert_eq!(alone.settle(), []);
        assert_eq!(alone.hears("b", data(2, 5, "data")), [], "it does not have all names");
        alone.sync(true);
        let comes = comes(1, "data");
        assert_eq!(alone.settle(), if is_late { vec![] } else { vec![comes] }, "each is told once");
        assert!(alone.host.claims().contains_key("x"));
        assert_eq!(alone.asked(), [], "the leader hears of it by the holder only");
    }
}

#[test]
fn a_take_waits_for_its_turn_and_a_node_that_leaves_takes_nothing_new() {
    let mut alone = Alone::taking(&["x"]);
    alone.host.on_actor_ended(99);
    assert_eq!(alone.take(2, "y", 9), []);
    assert_eq!(alone.settle(), [watch(2)]);

    let mut alone = Alone::taking(&["x"]);
    assert_eq!(alone.take(2, "x", 1), []);
    let refused =
        |call, error: RegisterError| [Effect::Forget { claim: CallId(call) }, told(call, Err(error.into()))];
    alone.host.turn_away(Vec::new());
    assert_eq!(alone.settle(), refused(2, RegisterError::Draining { ask: vec![] }));
    assert_eq!(alone.take(3, "y", 1), refused(3, RegisterError::Draining { ask: vec![] }));
    // What was asked for before comes, and its actor is told as any other.
    let notice = Notice::Draining;
    let notified = Effect::Notify { actor: 5, claims: vec![CallId(1)], notice };
    assert_eq!(alone.apply(vec![moved("x", 0, 1)]), [event("x"), notified, comes(1, "")]);

    let mut alone = Alone::new();
    alone.now.trusted = None;
    assert_eq!(alone.take(1, "x", 1), refused(1, RegisterError::Lapsed));
}

#[test]
fn what_is_called_of_a_name_that_is_taken_waits_until_that_is_over() {
    let mut alone = Alone::taking(&["x"]);
    let caller = Client::new(alone.now.time, CallId(2), WAIT);
    let (on_lapse, on_take) = (OnLapse::Stop, OnTake::Give);
    let registrant = Registrant { actor: 6, kind: Kind(7), on_lapse, on_take, meta: None };
    let mut effects = Vec::new();
    alone.host.register(alone.now, caller, "x".into(), registrant, &mut effects);
    assert_eq!((effects, alone.asked()), (vec![], vec![]));
    let told = alone.hears("b", refuses(1, TakeRefusal::NotGiven));
    assert_eq!(told.last(), Some(&watch(2)));
    assert!(matches!(alone.asked()[..], [(_, Wish::Register { .. })]));
}

#[test]
fn who_was_told_that_nobody_knows_is_not_told_more_when_the_member_has_all_names() {
    let mut alone = Alone::new();
    alone.apply(vec![held("x", 1)]);
    alone.sync(false);
    assert_eq!(alone.take(1, "x", 1), [watch(1)]);
    // It is gone, and whoever waits cannot be told before something else is done.
    alone.host.on_actor_ended(99);
    let applied = alone.comes_to(vec![freed("x", 1)]);
    alone.host.on_applied(&applied, &mut Vec::new());
    assert_eq!(alone.wake(5000), [told(1, Err(unknown("x")))]);
    alone.sync(true);
    let mut effects = Vec::new();
    alone.host.settle(alone.now, &alone.replica, &mut effects);
    effects.extend(alone.settle());
    assert_eq!(effects, ends(1, gone("x"))[..2]);
}
