mod permitted;

use std::collections::BTreeMap;

use callsign_store::ids::{Incarnation, SessionNumber};

use super::*;
use crate::core::{
    host::{CallId, MetaChange, OnLapse, RequestNumber, Surroundings},
    message::Verdict,
    taking::Taker,
};

type Rows = BTreeMap<Name, Row>;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(name: &str) -> Arc<SessionId> {
    Arc::new(SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) })
}

/// A host of node a, which holds names and offers them.
struct Holder {
    host: Host,
    replica: Replica<Rows>,
    now: Now,
    targets: Vec<NodeName>,
    permitted: Permitted,
}

impl Holder {
    fn new(names: usize) -> Self {
        let mut replica = Replica::new(node("a"), Rows::new());
        replica.base_on_nothing();
        let now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };
        let (targets, permitted) = (vec![node("b"), node("c")], Permitted::new(node("a")));
        let mut holder = Self { host: Host::new(), replica, now, targets, permitted };
        holder.host.on_session_opened(SessionId::clone(&session("a")));
        holder.settle();
        (0..names).for_each(|nth| holder.holds(nth, Kind(7)));
        holder
    }

    fn holds(&mut self, nth: usize, kind: Kind) {
        let id = u64::try_from(nth).unwrap();
        let (position, on_lapse, on_take) = (Position(1), OnLapse::Stop, OnTake::Offer);
        let (id, actor) = (CallId(id), Some(id));
        let claim = Claim { id, actor, kind, position, revision: position, on_lapse, on_take };
        self.host.claim(name(nth), claim);
    }

    fn settle(&mut self) {
        while self.host.is_busy() {
            self.host.proceed(self.now, 2, &self.replica, &mut Vec::new());
        }
    }

    fn draining(names: usize) -> Self {
        let mut holder = Self::new(names);
        holder.host.begin_offers();
        holder
    }

    /// What is offered now: to whom, by which number, and which name.
    fn offers(&mut self) -> Vec<(String, u64, String)> {
        let offered = self.goes_on().into_iter().map(|effect| match effect {
            Effect::Send { to, message: Message::Take(Taking::Offer(of)), .. } => {
                assert_eq!((&*of.holder, of.token), (&*session("a"), Position(1)));
                (to.to_string(), of.number, of.name.to_string())
            }
            other => panic!("{other:?}"),
        });
        offered.collect()
    }

    fn declines(&mut self, from: &str, number: u64, why: Decline) {
        let taking = Taking::Declined { holder: session("a"), number, why };
        self.hears(from, taking);
    }

    fn hears(&mut self, from: &str, taking: Taking) -> Vec<Effect> {
        let mut effects = Vec::new();
        let (replica, permitted) = (&self.replica, &self.permitted);
        self.host.on_taking(self.now, &node(from), taking, replica, permitted, &mut effects);
        effects
    }

    fn waits(&mut self, time: Duration) {
        self.now.time = self.now.time + time;
    }
}

fn name(nth: usize) -> Name {
    format!("n{nth:03}").into()
}

fn offer(to: &str, number: u64, nth: usize) -> (String, u64, String) {
    (to.to_owned(), number, name(nth).to_string())
}

fn failed() -> Decline {
    Decline::Failed { reason: "no room".into() }
}

#[test]
fn so_many_are_offered_at_once_to_each_in_turn_and_another_when_one_has_gone() {
    let mut holder = Holder::draining(100);
    let first = holder.offers();
    assert_eq!(first.len(), OFFERED_AT_ONCE);
    assert!(holder.host.is_waiting(), "for their answers");
    assert_eq!(first[..3], [offer("b", 1, 0), offer("c", 2, 1), offer("b", 3, 2)]);
    assert_eq!(holder.offers(), [], "each once");
    for nth in [3, 40] {
        holder.host.end_claim(&name(nth), None, &mut Vec::new());
    }
    assert_eq!(holder.offers(), [offer("b", 65, 64), offer("c", 66, 65)]);
    holder.host.end_claim(&name(90), None, &mut Vec::new());
    for nth in 0..90 {
        holder.host.end_claim(&name(nth), None, &mut Vec::new());
    }
    let rest = holder.offers();
    assert_eq!(rest.len(), 9, "what has ended is not offered: {rest:?}");
    assert!(holder.host.is_offering());
    (91..100).for_each(|nth| _ = holder.host.end_claim(&name(nth), None, &mut Vec::new()));
    assert_eq!(holder.offers(), []);
    assert!(!holder.host.is_offering() && !holder.host.has_offers() && !holder.host.is_waiting());
}

#[test]
fn a_node_that_is_silent_is_passed_over_and_asked_for_nothing_more() {
    let mut holder = Holder::draining(2);
    assert_eq!(holder.offers(), [offer("b", 1, 0), offer("c", 2, 1)]);
    holder.host.end_claim(&name(1), None, &mut Vec::new());
    holder.waits(Duration::from_millis(999));
    assert_eq!(holder.offers(), []);
    holder.waits(Duration::from_millis(1));
    assert_eq!(holder.offers(), [offer("c", 3, 0)]);
    holder.holds(2, Kind(7));
    assert_eq!(holder.offers(), [offer("c", 4, 2)], "not to b, which was silent");
    holder.waits(SILENT_AFTER);
    assert_eq!(holder.offers(), [], "nobody is left");
    assert!(!holder.host.is_offering());
    assert!(holder.host.claims().contains_key("n000"), "it stays");
}

#[test]
fn an_answer_counts_for_the_offer_that_it_answers() {
    let mut holder = Holder::draining(2);
    assert_eq!(holder.offers(), [offer("b", 1, 0), offer("c", 2, 1)]);
    let former = Arc::new(SessionId { number: SessionNumber(9), ..SessionId::clone(&session("a")) });
    holder.hears("b", Taking::Declined { holder: former, number: 1, why: failed() });
    assert_eq!(holder.offers(), [], "that was an offer of another session");
    holder.declines("b", 1, failed());
    holder.declines("b", 1, failed());
    assert_eq!(holder.offers(), [offer("c", 3, 0)]);
    // Late, again, of somebody else, and of another session.
    holder.declines("b", 1, failed());
    holder.declines("b", 3, failed());
    holder.declines("c", 77, failed());
    let other = SessionId { number: SessionNumber(2), ..SessionId::clone(&session("a")) };
    holder.hears("c", Taking::Declined { holder: Arc::new(other), number: 3, why: failed() });
    assert_eq!(holder.offers(), []);
    holder.declines("c", 3, failed());
    assert_eq!(holder.offers(), [], "nobody is left for it");
    assert!(holder.host.is_offering(), "the other one is out");
    holder.declines("c", 2, failed());
    assert_eq!(holder.offers(), [offer("b", 4, 1)], "that b did not want one name says nothing of others");
}

#[test]
fn a_node_without_a_receiver_is_not_asked_for_other_names_of_that_kind() {
    for (why, asks_again) in
        [(Decline::NoReceiver, false), (Decline::Draining, false), (Decline::NotReady, true)]
    {
        let mut holder = Holder::draining(1);
        assert_eq!(holder.offers(), [offer("b", 1, 0)]);
        holder.declines("b", 1, why);
        assert_eq!(holder.offers(), [offer("c", 2, 0)]);
        holder.host.offers.turn = 0;
        holder.holds(1, Kind(7));
        assert_eq!(holder.offers(), [offer(if asks_again { "b" } else { "c" }, 3, 1)]);
        holder.host.offers.turn = 0;
        holder.holds(2, Kind(8));
        assert_eq!(holder.offers(), [offer("b", 4, 2)], "another kind");
    }
}

#[test]
fn a_name_that_is_on_its_way_is_offered_to_nobody_else() {
    let mut holder = Holder::draining(1);
    assert_eq!(holder.offers(), [offer("b", 1, 0)]);
    let (taker, of) = (Taker { session: session("b"), number: RequestNumber(3) }, session("a"));
    let ask = Taking::Ask { taker, holder: of, name: name(0), token: Position(1), actor: 9, kind: Kind(7) };
    let asked = holder.hears("b", ask);
    assert!(matches!(asked[..], [Effect::Suspend { .. }, Effect::Give { .. }]), "{asked:?}");
    holder.declines("b", 1, failed());
    holder.waits(3 * SILENT_AFTER);
    assert_eq!(holder.offers(), []);
    assert!(holder.host.is_offering());
    let given = (name(0), 1);
    let said = Err("not now".to_owned());
    holder.host.on_given(holder.now, given, said, &holder.replica, &mut Vec::new());
    assert_eq!(holder.offers(), [offer("c", 2, 0)]);
}

#[test]
fn what_is_undecided_is_waited_for() {
    let mut holder = Holder::draining(1);
    let caller = Client::new(holder.now.time, CallId(9), WAIT);
    let change = MetaChange { token: Position(1), revision: None, meta: None };
    holder.host.update(holder.now, caller, name(0), change, &holder.replica, &mut Vec::new());
    assert_eq!(holder.offers(), []);
    assert!(holder.host.is_offering());
    let leader = node("l");
    let epoch = callsign_store::ids::Epoch(1);
    let around = Surroundings { leader: Some((epoch, &leader)), is_synced: true, has_leader: true };
    holder.host.flush(holder.now.time, around, &mut Vec::new());
    let verdicts = vec![(RequestNumber(1), Verdict::Updated { revision: Position(0) })];
    holder.host.on_verdicts(epoch, &session("a"), Position(0), verdicts);
    holder.host.settle(holder.now, &holder.replica, &mut Vec::new());
    assert_eq!(holder.offers(), [offer("b", 1, 0)]);
}

const WAIT: Duration = Duration::from_secs(5);

#[test]
fn while_nothing_is_trusted_nobody_is_asked_and_nobody_is_late() {
    let mut holder = Holder::draining(1);
    assert_eq!(holder.offers(), [offer("b", 1, 0)]);
    let trusted = holder.now.trusted.take();
    holder.holds(1, Kind(7));
    holder.waits(3 * SILENT_AFTER);
    assert_eq!(holder.offers(), []);
    holder.now.trusted = trusted;
    assert_eq!(holder.offers(), [offer("c", 2, 1)]);
}

#[test]
fn without_anybody_to_offer_to_there_is_nothing_to_wait_for_and_what_is_over_is_over() {
    for trusted in [None, Some(SessionNumber(1))] {
        let mut holder = Holder::draining(3000);
        holder.now.trusted = trusted;
        holder.targets.clear();
        assert_eq!(holder.offers(), []);
        assert!(!holder.host.is_offering());
    }
    // That somebody wants one name to go elsewhere changes nothing for the others.
    let mut holder = Holder::new(3);
    let caller = Client::new(holder.now.time, CallId(9), WAIT);
    holder.host.offer(caller, name(0), node("b"));
    let targets = std::mem::take(&mut holder.targets);
    holder.goes_on();
    (holder.targets, holder.host.offers.turn) = (targets, 0);
    holder.host.begin_offers();
    assert_eq!(holder.offers().len(), 3);

    // Each is found to be wanted by nobody, some at a time, and at once.
    let mut holder = Holder::draining(3000);
    holder.targets.pop();
    let first = holder.offers();
    for (to, number, _) in first {
        holder.declines(&to, number, Decline::NoReceiver);
    }
    let second = holder.offers();
    assert!(second.is_empty() && holder.host.wants_a_turn(), "{second:?}");
    while holder.host.wants_a_turn() {
        assert_eq!(holder.offers(), []);
    }
    assert!(!holder.host.is_offering());

    let mut holder = Holder::draining(100);
    assert_eq!(holder.offers().len(), OFFERED_AT_ONCE);
    holder.host.end_offers();
    assert!(!holder.host.is_offering());
    assert_eq!(holder.offers(), []);
}

#[test]
fn a_node_that_is_no_member_any_more_is_passed_over_at_once() {
    let mut holder = Holder::draining(1);
    assert_eq!(holder.offers(), [offer("b", 1, 0)]);
    holder.targets.remove(0);
    assert_eq!(holder.offers(), [offer("c", 2, 0)]);
}

#[test]
fn what_is_offered_here_is_taken_only_by_who_may_and_wants_to() {
    let offered =
        Offered { holder: session("z"), number: 5, name: name(0), token: Position(9), kind: Kind(7) };
    let of = offered.clone();
    let hears = |holder: &mut Holder, from| holder.hears(from, Taking::Offer(of.clone()));
    let declined = |why| {
        let taking = Taking::Declined { holder: session("z"), number: 5, why };
        vec![Effect::send(node("z"), Message::Take(taking))]
    };
    let mut holder = Holder::new(0);
    holder.host.receives(Kind(7), true);
    assert_eq!(hears(&mut holder, "z"), declined(Decline::NotReady), "it is not synced");
    let around = Surroundings { leader: None, is_synced: true, has_leader: true };
    holder.host.flush(holder.now.time, around, &mut Vec::new());
    assert_eq!(hears(&mut holder, "z"), [Effect::Offered(offered.clone())]);
    assert_eq!(hears(&mut holder, "y"), [], "of somebody who speaks for another");
    let trusted = holder.now.trusted.take();
    assert_eq!(hears(&mut holder, "z"), declined(Decline::NotReady));
    holder.now.trusted = trusted;
    holder.host.receives(Kind(7), false);
    assert_eq!(hears(&mut holder, "z"), declined(Decline::NoReceiver));
    holder.host.receives(Kind(8), true);
    assert_eq!(hears(&mut holder, "z"), declined(Decline::NoReceiver));
    holder.host.receives(Kind(7), true);
    holder.host.turn_away(Vec::new());
    assert_eq!(hears(&mut holder, "z"), declined(Decline::Draining), "also while it is busy");

    let mut effects = Vec::new();
    decline(&session("z"), 5, Decline::Failed { reason: "x".repeat(999) }, &mut effects);
    let Effect::Send { message: Message::Take(Taking::Declined { why, .. }), .. } = &effects[0] else {
        panic!("{effects:?}")
    };
    assert_eq!(*why, Decline::Failed { reason: "x".repeat(200) });
}

#[test]
fn nothing_is_kept_of_names_that_are_not_held_any_more() {
    let mut holder = Holder::new(3);
    assert_eq!(holder.host.offers.due.len(), 3);
    holder.host.end_claim(&name(0), None, &mut Vec::new());
    assert_eq!(holder.host.offers.due.len(), 2);
    holder.host.on_session_lost(holder.now.time);
    holder.settle();
    assert!(holder.host.claims().is_empty() && holder.host.offers.due.is_empty());
    // What gives its name only when it is asked is not offered.
    let mut holder = Holder::new(0);
    let position = Position(1);
    for (id, on_take) in [(1, OnTake::Give), (2, OnTake::Refuse)] {
        let (kind, on_lapse, id, actor) = (Kind(7), OnLapse::Stop, CallId(id), Some(id));
        let claim = Claim { id, actor, kind, position, revision: position, on_lapse, on_take };
        holder.host.claim(name(usize::try_from(id.0).unwrap()), claim);
    }
    holder.host.begin_offers();
    assert_eq!(holder.offers(), []);
    assert!(!holder.host.is_offering());
}

/// A holder of a name that a caller has offered to b.
fn called() -> Holder {
    let mut holder = Holder::new(1);
    let caller = Client::new(holder.now.time, CallId(9), WAIT);
    holder.host.offer(caller, name(0), node("b"));
    assert_eq!(holder.offers(), [offer("b", 1, 0)]);
    holder
}

/// The same, once b has asked for the name, has the data, and the leader is asked.
fn deciding() -> Holder {
    let mut holder = called();
    let (taker, of) = (Taker { session: session("b"), number: RequestNumber(3) }, session("a"));
    let (name, token, kind) = (name(0), Position(1), Kind(7));
    let ask = Taking::Ask { taker: taker.clone(), holder: of, name: name.clone(), token, actor: 9, kind };
    holder.hears("b", ask);
    let given = Ok(bytes::Bytes::from_static(b"data"));
    holder.host.on_given(holder.now, (name, 1), given, &holder.replica, &mut Vec::new());
    holder.hears("b", Taking::Received { taker, consent: 1 });
    holder
}

/// What the caller is told in the end.
fn told(mut holder: Holder) -> Result<Position, OfferError> {
    match holder.goes_on().pop() {
        Some(Effect::Answer { call: CallId(9), answer: Answer::Offered(result) }) => result,
        other => panic!("{other:?}"),
    }
}

/// What the caller is told when the claim has ended.
fn told_at_the_end(mut holder: Holder) -> Result<Position, OfferError> {
    holder.host.end_claim(&name(0), None, &mut Vec::new());
    told(holder)
}

#[test]
fn a_caller_is_told_where_the_log_says_that_its_name_has_gone() {
    let went = |from, to: &str| {
        let mut holder = called();
        holder.host.offers.has_moved(&name(0), Position(from), (&node(to), Position(7)));
        told_at_the_end(holder)
    };
    assert_eq!(went(1, "b"), Ok(Position(7)));
    let is_not_here = |told| matches!(told, Err(OfferError::NotHeldHere { .. }));
    assert!(is_not_here(went(1, "c")), "another one has taken it");
    assert!(is_not_here(went(2, "b")), "another registration has moved");
    assert!(is_not_here(told_at_the_end(called())), "it was given up");
}

#[test]
fn a_caller_is_not_told_that_a_name_stays_which_the_leader_was_asked_to_move() {
    assert!(matches!(told_at_the_end(deciding()), Err(OfferError::Unknown { .. })));
    for (mut holder, was_asked) in [(deciding(), true), (called(), false)] {
        holder.host.on_session_lost(holder.now.time);
        let next = SessionId { number: SessionNumber(2), ..SessionId::clone(&session("a")) };
        holder.host.on_session_opened(next);
        holder.now.trusted = Some(SessionNumber(2));
        holder.settle();
        let told = told(holder);
        assert_eq!(matches!(told, Err(OfferError::Unknown { .. })), was_asked, "{told:?}");
    }
}

#[test]
fn a_caller_is_told_what_the_leader_says_before_the_log_does() {
    let said = |verdict| {
        let mut holder = deciding();
        let leader = node("l");
        let epoch = callsign_store::ids::Epoch(1);
        let around = Surroundings { leader: Some((epoch, &leader)), is_synced: true, has_leader: true };
        holder.host.flush(holder.now.time, around, &mut Vec::new());
        let verdicts = vec![(RequestNumber(1), verdict)];
        holder.host.on_verdicts(epoch, &session("a"), Position(0), verdicts);
        holder.host.settle(holder.now, &holder.replica, &mut Vec::new());
        told(holder)
    };
    assert_eq!(said(Verdict::Transferred { token: Position(7) }), Ok(Position(7)));
    let gone = said(Verdict::Gone);
    assert!(matches!(gone, Err(OfferError::Unknown { .. })), "{gone:?}");
}

impl Holder {
    /// What this node says when a caller wants a name to go to a node, and when it is asked again later.
    fn called(&mut self, nth: usize, to: &str) -> Vec<Effect> {
        let caller = Client::new(self.now.time, CallId(9), WAIT);
        self.host.offer(caller, name(nth), node(to));
        assert!(self.host.has_offers());
        self.goes_on()
    }

    fn goes_on(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let (replica, permitted) = (&self.replica, &self.permitted);
        self.host.proceed_offers(self.now, &self.targets, permitted, replica, &mut effects);
        effects
    }

    /// Node b asks for the first name, and this one consents.
    fn is_asked(&mut self) {
        let (taker, holder) = (Taker { session: session("b"), number: RequestNumber(3) }, session("a"));
        let (name, token, kind) = (name(0), Position(1), Kind(7));
        let asked = self.hears("b", Taking::Ask { taker, holder, name, token, actor: 9, kind });
        assert!(matches!(asked[..], [Effect::Suspend { .. }, Effect::Give { .. }]), "{asked:?}");
    }
}

fn answered(result: Result<Position, OfferError>) -> [Effect; 1] {
    [Effect::Answer { call: CallId(9), answer: Answer::Offered(result) }]
}

#[test]
fn a_caller_is_told_at_once_why_a_name_is_not_offered() {
    let mut holder = Holder::new(3);
    let position = Position(1);
    for (nth, actor, on_take) in [(3, None, OnTake::Give), (4, Some(4), OnTake::Refuse)] {
        let (id, kind, on_lapse) = (CallId(4), Kind(7), OnLapse::Stop);
        let claim = Claim { id, actor, kind, position, revision: position, on_lapse, on_take };
        holder.host.claim(name(nth), claim);
    }
    assert!(!holder.host.has_offers() && !holder.host.is_waiting(), "it does not drain");
    let text = |nth| name(nth).to_string();
    let busy = |nth| answered(Err(OfferError::Busy { name: text(nth) }));
    let not_held = OfferError::NotHeldHere { name: text(9), holder: None };
    assert_eq!(holder.called(9, "b"), answered(Err(not_held)));
    assert_eq!(holder.called(3, "b"), busy(3), "it is being started");
    assert_eq!(holder.called(4, "b"), answered(Err(OfferError::NotGiven { name: text(4) })));
    assert_eq!(holder.called(0, "a"), answered(Ok(position)), "it is there");
    let not_ready = OfferError::NotReady { name: text(0), node: node("z") };
    assert_eq!(holder.called(0, "z"), answered(Err(not_ready)));
    assert_eq!(holder.called(0, "b").len(), 1);
    assert_eq!(holder.called(0, "c"), busy(0), "it is out");
    let caller = Client::new(holder.now.time, CallId(8), WAIT);
    let change = MetaChange { token: position, revision: None, meta: None };
    holder.host.update(holder.now, caller, name(1), change, &holder.replica, &mut Vec::new());
    assert_eq!(holder.called(1, "b"), busy(1), "something is undecided");
    assert!(!holder.host.wants_a_turn());
    holder.host.on_actor_ended(99);
    assert!(holder.host.wants_a_turn());
    assert_eq!(holder.called(2, "b"), [], "it waits for its turn");
    let trusted = holder.now.trusted.take();
    assert_eq!(holder.goes_on(), []);
    holder.waits(WAIT);
    assert_eq!(holder.goes_on().len(), 2, "and no longer than it may");
    holder.settle();
    assert_eq!(holder.called(2, "b"), answered(Err(OfferError::Lapsed)));
    holder.now.trusted = trusted;
    assert!(!holder.host.has_offers());
}

#[test]
fn a_caller_is_told_what_the_node_did_or_that_nobody_knows() {
    let text = || name(0).to_string();
    let mut holder = called();
    holder.declines("b", 1, failed());
    let declined = OfferError::Declined { name: text(), node: node("b"), why: failed() };
    assert_eq!(holder.goes_on(), answered(Err(declined)));
    assert_eq!(holder.goes_on(), [], "once");
    let silent = || OfferError::Silent { name: text(), node: node("b"), waited: SILENT_AFTER };
    let mut holder = called();
    holder.waits(SILENT_AFTER);
    assert_eq!(holder.goes_on(), answered(Err(silent())));
    let mut holder = called();
    holder.targets.clear();
    assert_eq!(holder.goes_on(), answered(Err(silent())));
    // The name is on its way for longer than the caller waits.
    let mut holder = called();
    holder.is_asked();
    holder.waits(Duration::from_millis(4999));
    assert_eq!(holder.goes_on(), []);
    holder.waits(Duration::from_millis(1));
    let unknown = OfferError::Unknown { name: text(), waited: WAIT };
    assert_eq!(holder.goes_on(), answered(Err(unknown)));
    assert!(!holder.host.has_offers());
    // When the drain is over, a caller waits as before.
    let mut holder = called();
    holder.host.begin_offers();
    holder.host.end_offers();
    holder.waits(SILENT_AFTER);
    assert_eq!(holder.goes_on(), answered(Err(silent())));
}

#[test]
fn a_node_whose_hand_over_has_failed_has_as_much_time_as_before_to_say_more() {
    let mut holder = Holder::draining(1);
    assert_eq!(holder.offers(), [offer("b", 1, 0)]);
    holder.is_asked();
    holder.waits(3 * SILENT_AFTER);
    assert_eq!(holder.offers(), []);
    let (given, said) = ((name(0), 1), Err("not now".to_owned()));
    holder.host.on_given(holder.now, given, said, &holder.replica, &mut Vec::new());
    assert_eq!(holder.offers(), []);
    holder.waits(SILENT_AFTER);
    assert_eq!(holder.offers(), [offer("c", 2, 0)]);
}

#[test]
fn nothing_is_left_to_be_done_at_once_when_the_drain_is_over() {
    let mut holder = Holder::draining(3000);
    holder.targets.pop();
    for (to, number, _) in holder.offers() {
        holder.declines(&to, number, Decline::NoReceiver);
    }
    holder.offers();
    assert!(holder.host.wants_a_turn());
    holder.host.end_offers();
    assert!(!holder.host.wants_a_turn() && !holder.host.is_waiting());
    // Nor is anybody else asked for what was offered.
    let mut holder = Holder::draining(1);
    assert_eq!(holder.offers(), [offer("b", 1, 0)]);
    holder.host.end_offers();
    holder.waits(SILENT_AFTER);
    assert_eq!(holder.offers(), []);
}

#[test]
fn nothing_is_left_to_be_done_at_once_when_a_look_has_taken_the_last_or_the_rest_has_ended() {
    for (looks, has_ended) in [(1, false), (2, true)] {
        let names = OFFERED_AT_ONCE + looks * LOOKED_AT_ONCE;
        let mut holder = Holder::draining(names);
        holder.targets.pop();
        for (to, number, _) in holder.offers() {
            holder.declines(&to, number, Decline::NoReceiver);
        }
        assert_eq!(holder.offers(), []);
        for nth in (0..names).filter(|_| has_ended) {
            holder.host.end_claim(&name(nth), None, &mut Vec::new());
        }
        assert!(!holder.host.has_offers() && !holder.host.wants_a_turn(), "of {looks}");
    }
}

#[test]
fn a_drain_waits_for_its_own_offers_also_while_a_caller_has_one_out() {
    let mut holder = Holder::new(1);
    let (id, actor, position) = (CallId(4), Some(4), Position(1));
    let (kind, on_lapse, on_take) = (Kind(7), OnLapse::Stop, OnTake::Give);
    let claim = Claim { id, actor, kind, position, revision: position, on_lapse, on_take };
    holder.host.claim(name(1), claim);
    let caller = Client::new(holder.now.time, CallId(9), WAIT);
    holder.host.offer(caller, name(1), node("b"));
    assert_eq!(holder.offers(), [offer("b", 1, 1)]);
    assert!(!holder.host.is_offering(), "it does not drain");
    holder.host.begin_offers();
    assert_eq!(holder.offers(), [offer("b", 2, 0)]);
    assert!(holder.host.is_offering());
    holder.host.end_claim(&name(0), None, &mut Vec::new());
    assert_eq!(holder.offers(), []);
    assert!(!holder.host.is_offering() && holder.host.has_offers(), "only the caller waits");
}
