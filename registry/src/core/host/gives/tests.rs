use std::collections::BTreeMap;

use callsign_store::ids::{Epoch, Incarnation, Nonce, SessionNumber};

use super::*;
use crate::core::{
    host::{Caller, Registrant, RequestNumber, Surroundings},
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
    now: Now,
}

impl Holder {
    fn new() -> Self {
        let mut replica = Replica::new(node("a"), Rows::new());
        replica.base_on_nothing();
        let now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };
        let mut holder = Self { host: Host::new(), replica, now };
        holder.host.on_session_opened(SessionId::clone(&session("a")));
        let caller = Caller::new(now.time, CLAIM, Duration::from_secs(5));
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
        let mut effects = Vec::new();
        while self.host.is_busy() {
            self.host.proceed(self.now, 2, &self.replica, &mut effects);
        }
        self.host.settle(self.now, &self.replica, &mut effects);
        effects
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
        let sent = effects.into_iter().flat_map(|effect| match effect {
            Effect::Send { message: Message::Requests { requests, .. }, .. } => requests,
            other => panic!("{other:?}"),
        });
        sent.collect()
    }

    fn hears(&mut self, taking: Taking) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.host.on_taking(self.now, &node("b"), taking, &self.replica, &mut effects);
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
