mod permitted;

use std::collections::BTreeMap;

use callsign_store::ids::{Epoch, Incarnation, Nonce, SessionNumber};

use super::*;
use crate::core::{
    host::{Client, Registrant, RequestNumber, Surroundings},
    log::{BatchBuilder, Op},
    message::Request,
    table::Row,
};

type Rows = BTreeMap<Name, Row>;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(name: &str) -> Arc<SessionId> {
    Arc::new(SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) })
}

/// The request of node b that asks for "x".
fn taker() -> Taker {
    Taker { session: session("b"), number: RequestNumber(3) }
}

const CLAIM: CallId = CallId(1);

/// A host of node a, whose actor 5 holds "x" under token 1 and gives it away.
struct Holder {
    host: Host,
    replica: Replica<Rows>,
    permitted: Permitted,
    now: Now,
}

impl Holder {
    fn new() -> Self {
        let mut replica = Replica::new(node("a"), Rows::new());
        replica.base_on_nothing();
        let now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };
        let permitted = Permitted::new(node("a"));
        let mut holder = Self { host: Host::new(), replica, permitted, now };
        holder.host.on_session_opened(SessionId::clone(&session("a")));
        let caller = Client::new(now.time, CLAIM, Duration::from_secs(5));
        let (kind, on_lapse, on_take, meta) = (Kind(7), OnLapse::Stop, OnTake::Give, None);
        let registrant = Registrant { actor: 5, kind, on_lapse, on_take, meta };
        holder.settle();
        holder.host.register(now, caller, "x".into(), registrant, &mut Vec::new());
        let [Request { number, .. }] = holder.flush()[..] else { panic!("it asks for the name") };
        let mut builder = BatchBuilder::default();
        builder.session(&session("a"));
        let (name, actor, kind) = ("x".into(), Some(5), Kind(7));
        builder.push(Op::Register { name, session: 0, request: number, actor, kind, meta: None });
        let (prev, at) = (holder.replica.end(), Position(1));
        let applied = holder.replica.apply(&builder.build(Epoch(1), Nonce(1), prev, at));
        holder.host.on_applied(&applied, &mut Vec::new());
        holder.decided(number, Verdict::Granted { token: at, revision: at });
        assert!(holder.host.claims().contains_key("x"));
        holder
    }

    fn settle(&mut self) -> Vec<Effect> {
        crate::core::host::tests::settled(&mut self.host, self.now, &self.replica)
    }

    fn decided(&mut self, number: RequestNumber, verdict: Verdict) -> Vec<Effect> {
        let at = self.replica.position();
        self.host.on_verdicts(Epoch(1), &session("a"), at, vec![(number, verdict)]);
        self.settle()
    }

    fn flush(&mut self) -> Vec<Request> {
        let leader = node("l");
        let around = Surroundings { leader: Some((Epoch(1), &leader)), is_synced: true, has_leader: true };
        let mut effects = Vec::new();
        self.host.flush(self.now.time, around, &mut effects);
        crate::core::host::tests::requests(effects).collect()
    }

    fn hears(&mut self, taking: Taking) -> Vec<Effect> {
        let mut effects = Vec::new();
        let (replica, permitted) = (&self.replica, &self.permitted);
        self.host.on_taking(self.now, &node("b"), taking, replica, permitted, &mut effects);
        effects
    }

    fn is_asked(&mut self) -> Vec<Effect> {
        let (taker, holder, name, token) = (taker(), session("a"), "x".into(), Position(1));
        self.hears(Taking::Ask { taker, holder, name, token, actor: 9, kind: Kind(7) })
    }

    /// It has consented, and the leader is asked under this number.
    fn deciding() -> (Self, RequestNumber) {
        let mut holder = Self::new();
        let asked = holder.is_asked();
        assert!(asked.contains(&Effect::Suspend { claim: CLAIM }), "{asked:?}");
        let (mut effects, name) = (Vec::new(), "x".into());
        let data = Ok(Bytes::from_static(b"data"));
        holder.host.on_given(holder.now, (name, 1), data, &holder.replica, &mut effects);
        let is_data = |effect: &Effect| {
            matches!(effect, Effect::Send { message: Message::Take(Taking::Data { consent: 1, .. }), .. })
        };
        assert!(effects.iter().any(is_data), "{effects:?}");
        assert_eq!(holder.hears(Taking::Received { taker: taker(), consent: 1 }), []);
        let sent = holder.flush();
        let [Request { number, wish: Wish::Transfer { .. }, .. }] = sent[..] else { panic!("{sent:?}") };
        (holder, number)
    }
}

fn refused(why: TakeRefusal) -> Effect {
    let (taker, holder) = (taker(), session("a"));
    Effect::send(node("b"), Message::Take(Taking::Refused { taker, holder, why }))
}

#[test]
fn a_name_that_the_leader_says_stays_is_acted_on_again_and_its_taker_is_refused_for_good() {
    let not_permitted = TakeRefusal::NotPermitted { allowed: vec!["shop/".to_owned()] };
    let by_certificate = Some(vec!["shop/".to_owned()].into());
    for (allowed, why) in [(None, TakeRefusal::TakerGone), (by_certificate, not_permitted)] {
        let (mut holder, number) = Holder::deciding();
        let effects = holder.decided(number, Verdict::Kept { allowed });
        assert_eq!(effects, [Effect::Unflag { claim: CLAIM }, refused(why.clone())]);
        assert!(holder.host.claims().contains_key("x"));
        // Another taker may have it; this one hears the same again.
        assert_eq!(holder.is_asked(), [refused(why)]);
    }
}

#[test]
fn a_name_that_stays_is_acted_on_again_only_in_a_session_that_is_trusted() {
    let (mut holder, number) = Holder::deciding();
    let trusted = std::mem::take(&mut holder.now.trusted);
    assert_eq!(holder.decided(number, Verdict::Kept { allowed: None }), []);
    holder.now.trusted = trusted;
    assert_eq!(holder.settle(), [Effect::Unflag { claim: CLAIM }, refused(TakeRefusal::TakerGone)]);
}

#[test]
fn neither_time_nor_a_lost_link_nor_the_taker_takes_the_flag_back_once_the_leader_is_asked() {
    let (mut holder, _) = Holder::deciding();
    assert_eq!(holder.hears(Taking::Over { taker: taker() }), []);
    let mut effects = Vec::new();
    holder.host.on_peer_lost(holder.now, &node("b"), &holder.replica, &mut effects);
    holder.now.time = holder.now.time + 10 * GIVE_LIMIT;
    holder.host.wake_gives(holder.now, &holder.replica, &mut effects);
    assert_eq!(effects, []);
}

impl Holder {
    /// Actor 5 holds one more name, under token 1. The claim is this call.
    fn holds(&mut self, call: u64, name: &str, actor: Option<u64>, on_take: OnTake) {
        let (id, position, on_lapse) = (CallId(call), Position(1), OnLapse::Suspend);
        let claim =
            super::super::Claim { id, actor, kind: Kind(7), position, revision: position, on_lapse, on_take };
        self.host.claim(name.into(), claim);
    }

    /// Node b asks for a name for its actor 9.
    fn asks(&mut self, number: u64, name: &str, token: u64, kind: u64) -> Vec<Effect> {
        let (taker, holder) = (Taker { number: RequestNumber(number), ..taker() }, session("a"));
        let (name, token, kind) = (name.into(), Position(token), Kind(kind));
        self.hears(Taking::Ask { taker, holder, name, token, actor: 9, kind })
    }

    fn gives(&mut self, name: &str, consent: u64, data: Result<Bytes, String>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.host.on_given(self.now, (name.into(), consent), data, &self.replica, &mut effects);
        effects
    }

    fn received(&mut self, consent: u64) -> Vec<Effect> {
        self.hears(Taking::Received { taker: taker(), consent })
    }

    fn wakes_after(&mut self, time: Duration) -> Vec<Effect> {
        self.now.time = self.now.time + time;
        let around = Surroundings { leader: None, is_synced: false, has_leader: true };
        let mut effects = Vec::new();
        self.host.on_wake(self.now, 1024, around, &self.replica, &mut effects);
        effects
    }

    /// It has consented.
    fn asked() -> Self {
        let mut holder = Self::new();
        assert_eq!(holder.is_asked(), consents(1));
        holder
    }

    /// The taker is told the data.
    fn handed() -> Self {
        let mut holder = Self::asked();
        assert_eq!(holder.gives("x", 1, Ok(data())), [hands()]);
        holder
    }

    /// Something else is called for x, and waits.
    fn with_a_call_that_waits(mut self) -> Self {
        let caller = Client::new(self.now.time, CallId(9), Duration::from_secs(5));
        let mut effects = Vec::new();
        self.host.unregister(caller, "x".into(), None, &self.replica, &mut effects);
        assert_eq!((effects, self.flush()), (vec![], vec![]));
        self
    }
}

fn data() -> Bytes {
    Bytes::from_static(b"data")
}

fn consents(consent: u64) -> [Effect; 2] {
    [
        Effect::Suspend { claim: CLAIM },
        Effect::Give { name: "x".into(), claim: CLAIM, consent, to: node("b") },
    ]
}

fn hands() -> Effect {
    let (taker, holder, data) = (taker(), session("a"), data());
    Effect::send(node("b"), Message::Take(Taking::Data { taker, holder, consent: 1, data }))
}

fn refuses(number: u64, why: TakeRefusal) -> Effect {
    let (taker, holder) = (Taker { number: RequestNumber(number), ..taker() }, session("a"));
    Effect::send(node("b"), Message::Take(Taking::Refused { taker, holder, why }))
}

fn stays(why: TakeRefusal) -> Vec<Effect> {
    vec![Effect::Unflag { claim: CLAIM }, refused(why)]
}

#[test]
fn a_taker_is_told_why_it_does_not_get_a_name_and_hears_the_same_again() {
    let mut holder = Holder::asked();
    holder.holds(2, "starting", None, OnTake::Give);
    holder.holds(3, "kept", Some(5), OnTake::Refuse);
    holder.holds(4, "given", Some(5), OnTake::Give);
    let cases = [
        ("x", 1, 7, TakeRefusal::Busy),
        ("starting", 1, 7, TakeRefusal::Starting),
        ("kept", 1, 7, TakeRefusal::NotGiven),
        ("given", 1, 8, TakeRefusal::OtherMessages),
        ("given", 2, 7, TakeRefusal::NotHeld),
        ("nobodys", 1, 7, TakeRefusal::NotHeld),
    ];
    for (number, (name, token, kind, why)) in (10..).zip(cases) {
        for _ in 0..2 {
            assert_eq!(holder.asks(number, name, token, kind), [refuses(number, why.clone())]);
        }
    }
    // By what is said there about another name, too: the request is over.
    assert_eq!(holder.asks(10, "given", 1, 7), [refuses(10, TakeRefusal::Busy)]);
    assert_eq!(holder.is_asked(), [], "its actor has not said yet what goes with it");
}

#[test]
fn a_taker_is_heard_for_itself_in_this_session_while_that_is_trusted() {
    let mut holder = Holder::new();
    let (name, token, kind) = (|| "x".into(), Position(1), Kind(7));
    let other = Arc::new(SessionId { number: SessionNumber(2), ..SessionId::clone(&session("a")) });
    let of_other = Taking::Ask { taker: taker(), holder: other, name: name(), token, actor: 9, kind };
    assert_eq!(holder.hears(of_other), []);
    let taker = Taker { session: session("c"), number: RequestNumber(3) };
    let ask = Taking::Ask { taker: taker.clone(), holder: session("a"), name: name(), token, actor: 9, kind };
    assert_eq!(holder.hears(ask.clone()), [], "b speaks for c");
    let trusted = holder.now.trusted.take();
    assert_eq!(holder.is_asked(), []);
    holder.now.trusted = trusted;
    holder.host.on_actor_ended(99);
    assert_eq!(holder.is_asked(), [], "it has something else to do");
    holder.settle();
    // Node c asks for it. What b says of that changes nothing.
    let mut effects = Vec::new();
    let (replica, permitted) = (&holder.replica, &holder.permitted);
    holder.host.on_taking(holder.now, &node("c"), ask, replica, permitted, &mut effects);
    assert_eq!(effects[0], Effect::Suspend { claim: CLAIM });
    holder.gives("x", 1, Ok(data()));
    for said in [Taking::Received { taker: taker.clone(), consent: 1 }, Taking::Over { taker }] {
        assert_eq!((holder.hears(said), holder.flush()), (vec![], vec![]));
    }
    let mut effects = Vec::new();
    holder.host.on_peer_lost(holder.now, &node("b"), &holder.replica, &mut effects);
    assert_eq!(effects, []);
}

#[test]
fn the_leader_is_asked_once_the_taker_has_the_data_of_the_present_consent() {
    let mut holder = Holder::asked();
    assert_eq!((holder.received(1), holder.flush()), (vec![], vec![]), "it was told nothing yet");
    assert_eq!(holder.gives("x", 2, Ok(data())), [], "of another consent");
    assert_eq!(holder.gives("x", 1, Ok(data())), [hands()]);
    assert_eq!(holder.gives("x", 1, Err("late".into())), [], "it has said so");
    assert_eq!(holder.is_asked(), [hands()], "again");
    assert_eq!((holder.received(2), holder.flush()), (vec![], vec![]));
    let trusted = holder.now.trusted.take();
    assert_eq!((holder.received(1), holder.flush()), (vec![], vec![]));
    holder.now.trusted = trusted;
    assert_eq!((holder.received(1), holder.flush().len()), (vec![], 1));
    assert_eq!((holder.received(1), holder.flush()), (vec![], vec![]), "once");
    assert_eq!((holder.is_asked(), holder.host.gives.bytes), (vec![], 0));
    assert!(holder.host.is_waiting());
}

#[test]
fn a_name_stays_with_its_holder_that_gives_nothing_or_whose_taker_is_gone() {
    let too_slow = || TakeRefusal::TooSlow { limit: GIVE_LIMIT };
    let over = |holder: &mut Holder| holder.hears(Taking::Over { taker: taker() });
    let link_lost = |holder: &mut Holder| {
        let mut effects = Vec::new();
        holder.host.on_peer_lost(holder.now, &node("b"), &holder.replica, &mut effects);
        effects
    };
    for new in [Holder::asked, Holder::handed] {
        let mut holder = new();
        assert_eq!(over(&mut holder), stays(TakeRefusal::TakerGone));
        assert_eq!(over(&mut holder), []);
        let mut holder = new();
        assert_eq!(link_lost(&mut holder), stays(TakeRefusal::LinkLost));
        let mut holder = new();
        assert_eq!(holder.wakes_after(Duration::from_millis(9999)), []);
        assert_eq!(holder.wakes_after(Duration::from_millis(1)), stays(too_slow()));
        assert_eq!((holder.host.gives.count(), holder.host.gives.bytes), (0, 0));
        assert_eq!(holder.is_asked(), [refused(too_slow())]);
        // While claims may be about to end, it waits.
        let mut holder = new();
        holder.host.on_actor_ended(99);
        assert_eq!(link_lost(&mut holder), []);
        assert_eq!(holder.wakes_after(GIVE_LIMIT), []);
        holder.settle();
        assert_eq!(holder.wakes_after(Duration::ZERO), stays(too_slow()));
        // What waited for it is done.
        let told = over(&mut new().with_a_call_that_waits());
        assert_eq!(told[..2], stays(TakeRefusal::TakerGone));
        assert_eq!(told[2], Effect::Flag { claim: CLAIM });
    }
    let failed = |reason: &str| TakeRefusal::Failed { reason: reason.to_owned() };
    let mut holder = Holder::asked();
    assert_eq!(holder.gives("x", 1, Err("x".repeat(999))), stays(failed(&"x".repeat(200))));
    let mut holder = Holder::asked();
    holder.host.on_actor_ended(99);
    assert_eq!(holder.gives("x", 1, Err("not now".into())), []);
    holder.settle();
    assert_eq!(holder.wakes_after(Duration::ZERO), stays(failed("not now")));
    // As much as goes with a name, and one byte more.
    let bytes = |more| Ok(vec![0; MAX_HANDED_BYTES + more].into());
    let mut holder = Holder::asked();
    assert!(matches!(holder.gives("x", 1, bytes(0))[..], [Effect::Send { .. }]));
    let mut holder = Holder::asked();
    let too_large = TakeRefusal::TooLarge { bytes: MAX_HANDED_BYTES + 1 };
    assert_eq!(holder.gives("x", 1, bytes(1)), stays(too_large));
}

#[test]
fn the_end_of_a_holder_is_told_to_its_taker_unless_the_leader_was_asked() {
    let end = [
        Effect::Flag { claim: CLAIM },
        refused(TakeRefusal::NotHeld),
        Effect::Unwatch { actor: 5 },
        Effect::Forget { claim: CLAIM },
    ];
    for mut holder in [Holder::asked(), Holder::handed()] {
        holder.host.on_actor_ended(5);
        assert_eq!(holder.settle(), end);
        assert_eq!(holder.host.gives.bytes, 0);
        assert_eq!(holder.is_asked(), [refused(TakeRefusal::NotHeld)]);
    }
    let ended = |verdict| {
        let (mut holder, number) = Holder::deciding();
        holder.host.on_actor_ended(5);
        assert_eq!(holder.settle(), [&end[..1], &end[2..]].concat());
        assert_eq!(holder.asks(4, "x", 1, 7), [], "what becomes of the name is not known yet");
        let told = holder.decided(number, verdict);
        (told, holder.flush().into_iter().map(|request| request.wish).collect::<Vec<_>>())
    };
    // It stays, and nobody is there to hold it.
    let given_up = Wish::Unregister { position: Position(1), why: GivenUp::ActorEnded };
    assert_eq!(
        ended(Verdict::Kept { allowed: None }),
        (vec![refused(TakeRefusal::TakerGone)], vec![given_up])
    );
    assert_eq!(ended(Verdict::Transferred { token: Position(1) }), (vec![], vec![]));
}

#[test]
fn a_name_that_has_gone_is_lost_here_whether_the_log_says_so_first_or_the_leader() {
    let end = [
        Effect::Flag { claim: CLAIM },
        Effect::Stop { actor: 5 },
        Effect::Unwatch { actor: 5 },
        Effect::Forget { claim: CLAIM },
    ];
    for by_log in [true, false] {
        let (mut holder, number) = Holder::deciding();
        let mut builder = BatchBuilder::default();
        builder.session(&session("b"));
        let (name, position, request) = ("x".into(), Position(1), RequestNumber(3));
        builder.push(Op::Transfer { name, position, session: 0, request, actor: 9, kind: Kind(7) });
        let (prev, at) = (holder.replica.end(), Position(2));
        let applied = holder.replica.apply(&builder.build(Epoch(1), Nonce(2), prev, at));
        let verdict = Verdict::Transferred { token: at };
        if by_log {
            let mut effects = Vec::new();
            holder.host.on_applied(&applied, &mut effects);
            let event = Effect::Event(Event::GivenAway { name: "x".into() });
            assert_eq!(effects, [&end[..], &[event]].concat());
            assert_eq!(holder.decided(number, verdict), []);
        } else {
            assert_eq!(holder.decided(number, verdict), end);
        }
        assert!(holder.host.claims().is_empty() && !holder.host.is_waiting());
        assert_eq!(holder.is_asked(), [], "it has the name already");
    }
    // A holder that only wants to be told hears what became of it.
    for (verdict, notice) in
        [(Verdict::Transferred { token: Position(2) }, Notice::Transferred), (Verdict::Gone, Notice::Lost)]
    {
        let mut holder = Holder::new();
        holder.holds(2, "y", Some(6), OnTake::Give);
        holder.asks(3, "y", 1, 7);
        holder.gives("y", 1, Ok(data()));
        holder.received(1);
        let number = holder.flush()[0].number;
        let told = holder.decided(number, verdict);
        assert_eq!(told[1], Effect::Notify { actor: 6, claims: vec![CallId(2)], notice });
    }
}

#[test]
fn no_more_names_and_bytes_are_on_their_way_than_may_be() {
    let overloaded = |number| [refuses(number, TakeRefusal::Overloaded)];
    let full = |names: u64, bytes: usize| {
        let mut holder = Holder::new();
        let data = Bytes::from(vec![0; bytes]);
        for number in 10..10 + names {
            let name = format!("n{number}");
            holder.holds(number, &name, Some(5), OnTake::Give);
            assert_eq!(holder.asks(number, &name, 1, 7).len(), 2, "{number}");
            holder.gives(&name, number - 9, Ok(data.clone()));
        }
        holder
    };
    assert_eq!(full(1024, 0).asks(9, "x", 1, 7), overloaded(9));
    assert_eq!(full(1023, 0).asks(9, "x", 1, 7).len(), 2);
    assert_eq!(full(64, MAX_HANDED_BYTES).asks(9, "x", 1, 7), overloaded(9));
    assert_eq!(full(64, MAX_HANDED_BYTES - 1).asks(9, "x", 1, 7).len(), 2);
}

#[test]
fn the_last_refusals_are_remembered_and_the_oldest_is_forgotten() {
    let mut holder = Holder::asked();
    let most = u64::try_from(MOST_REFUSALS).unwrap();
    for number in 10..10 + most {
        assert_eq!(holder.asks(number, "x", 1, 7), [refuses(number, TakeRefusal::Busy)]);
    }
    // The name is free again, and its taker is refused as well: that is one too many.
    holder.hears(Taking::Over { taker: taker() });
    for number in [11, 9 + most] {
        assert_eq!(holder.asks(number, "x", 1, 7), [refuses(number, TakeRefusal::Busy)]);
    }
    assert_eq!(holder.asks(10, "x", 1, 7), consents(2));
}

/// Within one node, whose actor 9 takes x from actor 5: up to where the log says that it has it.
fn taken_by_actor_of_same_node() -> (Holder, RequestNumber) {
    let mut holder = Holder::new();
    let caller = Client::new(holder.now.time, CallId(2), Duration::from_secs(5));
    let (token, on_lapse, on_take) = (Position(1), OnLapse::Stop, OnTake::Give);
    let wanted = crate::core::host::Wanted { token, actor: 9, kind: Kind(7), on_lapse, on_take };
    let mut effects = Vec::new();
    holder.host.take(holder.now, caller, "x".into(), wanted, &holder.replica, &mut effects);
    assert_eq!(effects.remove(0), Effect::Watch { actor: 9 });
    // What each side says comes to the other.
    while let Some(effect) = effects.pop() {
        let said = match effect {
            Effect::Send { to, message: Message::Take(taking), .. } if to == node("a") => taking,
            Effect::Give { consent, .. } => {
                effects.extend(holder.gives("x", consent, Ok(data())));
                continue;
            }
            Effect::Suspend { claim: CLAIM } => continue,
            other => panic!("{other:?}"),
        };
        let (replica, permitted) = (&holder.replica, &holder.permitted);
        holder.host.on_taking(holder.now, &node("a"), said, replica, permitted, &mut effects);
    }
    let sent = holder.flush();
    let [Request { number, wish: Wish::Transfer { number: request, .. }, .. }] = sent[..] else {
        panic!("{sent:?}")
    };
    let mut builder = BatchBuilder::default();
    builder.session(&session("a"));
    let (name, position, kind) = ("x".into(), Position(1), Kind(7));
    builder.push(Op::Transfer { name, position, session: 0, request, actor: 9, kind });
    let (prev, at) = (holder.replica.end(), Position(2));
    let applied = holder.replica.apply(&builder.build(Epoch(1), Nonce(2), prev, at));
    holder.host.on_applied(&applied, &mut Vec::new());
    holder.settle();
    assert_eq!(holder.host.claims()["x"].actor, Some(9));
    (holder, number)
}

#[test]
fn within_one_node_a_name_goes_from_actor_to_actor_and_is_free_when_the_second_one_ends() {
    let verdict = || Verdict::Transferred { token: Position(2) };
    let (mut holder, number) = taken_by_actor_of_same_node();
    assert_eq!(holder.decided(number, verdict()), []);
    assert_eq!(holder.host.claims()["x"].actor, Some(9));
    assert!(!holder.host.is_waiting());

    let (mut holder, number) = taken_by_actor_of_same_node();
    holder.host.on_actor_ended(9);
    holder.settle();
    assert_eq!(holder.flush(), [], "first it has to be decided");
    holder.decided(number, verdict());
    let wishes: Vec<_> = holder.flush().into_iter().map(|request| request.wish).collect();
    assert_eq!(wishes, [Wish::Unregister { position: Position(2), why: GivenUp::ActorEnded }]);
}

#[test]
fn a_caller_that_offered_a_name_is_told_where_the_log_gave_it() {
    let mut holder = Holder::new();
    let caller = Client::new(holder.now.time, CallId(8), Duration::from_secs(5));
    holder.host.offer(caller, "x".into(), node("b"));
    let goes_on = |holder: &mut Holder| {
        let mut effects = Vec::new();
        let (replica, permitted) = (&holder.replica, &holder.permitted);
        holder.host.proceed_offers(holder.now, &[node("b")], permitted, replica, &mut effects);
        effects
    };
    assert_eq!(goes_on(&mut holder).len(), 1);
    let mut builder = BatchBuilder::default();
    builder.session(&session("b"));
    let (name, position, request) = ("x".into(), Position(1), RequestNumber(3));
    builder.push(Op::Transfer { name, position, session: 0, request, actor: 9, kind: Kind(7) });
    let (prev, at) = (holder.replica.end(), Position(2));
    let applied = holder.replica.apply(&builder.build(Epoch(1), Nonce(2), prev, at));
    holder.host.on_applied(&applied, &mut Vec::new());
    let answer = crate::core::input::Answer::Offered(Ok(at));
    assert_eq!(goes_on(&mut holder), [Effect::Answer { call: CallId(8), answer }]);
}

#[test]
fn that_a_name_went_to_another_actor_is_not_said_of_a_holder_that_has_ended_before() {
    let (mut holder, _) = Holder::deciding();
    holder.host.on_actor_ended(5);
    holder.settle();
    assert!(holder.host.claims().is_empty());
    let mut builder = BatchBuilder::default();
    builder.session(&session("b"));
    let (name, position, request) = ("x".into(), Position(1), RequestNumber(3));
    builder.push(Op::Transfer { name, position, session: 0, request, actor: 9, kind: Kind(7) });
    let (prev, at) = (holder.replica.end(), Position(2));
    let applied = holder.replica.apply(&builder.build(Epoch(1), Nonce(2), prev, at));
    let mut effects = Vec::new();
    holder.host.on_applied(&applied, &mut effects);
    assert_eq!(effects, []);
}
