//! A member alone: what it asks for when it is shown something, or told something.

mod changing;
mod deltas;
mod duty;
mod given_up;
mod lag;
mod leading;
mod links;
mod quiet;
mod speaking;
mod standing;

use std::collections::BTreeSet;

use callsign_elector::{
    lineage::LineageNumber,
    record::{Leader as Led, Lineage, MemberRow, SessionRecord},
    session::Observed,
    state::MAX_MEMBERS,
};
use callsign_store::{
    CommitOutcome, ReadResult, StoreError, Value,
    ids::{Ballot, Beat, ClusterName, Nonce, RegistryName, SessionId, SessionNumber, Token},
    keys::ClusterKeys,
    record::Record,
};
use callsign_transport::{Kind, Permits};

use super::*;
use crate::core::{
    host::OnTake,
    input::{Call, OnLapse, OpId},
    log::{Batch, Op},
    name::Name,
    table::{RequestNumber, Row},
};

const MILLIS: fn(u64) -> Duration = Duration::from_millis;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(name: &str) -> SessionId {
    SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) }
}

fn end(position: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(position) }
}

/// The member of node m. Nodes l and o are members, too; m has the token 3.
struct One {
    member: Member<BTreeMap<Name, Row>>,
    now: Now,
    view: View,
}

fn row(name: &str, token: u64) -> MemberRow {
    MemberRow {
        token: Token(token),
        session: session(name),
        address: format!("{name}:1"),
        admin: None,
        priority: 1,
        synced: true,
        empty: false,
        accuses: None,
        draining: false,
    }
}

fn record(open: bool) -> SessionRecord {
    let (incarnation, number, lease) = (Incarnation(1), SessionNumber(1), MILLIS(9000));
    SessionRecord { incarnation, number, lease, beat: Beat(1), open }
}

fn term(epoch: u64, leader: Option<&str>) -> Term {
    let token = |name: &str| Token(if name == "m" { 3 } else { 1 });
    let leader = leader.map(|name| Led { node: node(name), incarnation: Incarnation(1), token: token(name) });
    Term { leader, epoch: Epoch(epoch), ballot: Ballot(epoch), elected_at: Version(1) }
}

impl One {
    fn with(tuning: Tuning) -> Self {
        let cluster = ClusterKeys::new(&ClusterName::new("test").unwrap());
        let config = MemberConfig {
            me: node("m"),
            incarnation: Incarnation(1),
            keys: cluster.registry(&RegistryName::new("r").unwrap()),
            seed: 1,
            tuning,
        };
        let mut view = nothing_known();
        for (name, token) in [("l", 1), ("m", 3), ("o", 2)] {
            view.members.insert(node(name), row(name, token));
            view.sessions.insert(node(name), Some(record(true)));
        }
        view.me = Some(Token(3));
        view.queued = Some(BTreeSet::new());
        let now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };
        let mut one = Self { member: Member::new(config, BTreeMap::new()), now, view };
        one.step(Input::SessionOpened(session("m")));
        // What it has asked for until then is over.
        one.now.time = one.now.time + Duration::from_secs(2);
        one
    }

    /// It has a base, and was shown that nobody leads.
    fn new() -> Self {
        let mut one = Self::with(Tuning::default());
        one.member.replica.base_on_nothing();
        one.sees(1, None);
        one
    }

    /// It follows l, which leads epoch 5 and has opened it at position 1.
    fn following() -> Self {
        let mut one = Self::new();
        one.links("l", 1);
        one.sees(5, Some("l"));
        let opening = Batch { epoch: Epoch(5), ..batch(1, vec![Op::Open]) };
        one.hears("l", replicate(&opening));
        one.hears("l", heartbeat(5, 1));
        assert_eq!(one.member.leader(), Some((Epoch(5), &node("l"))));
        one
    }

    /// A step, and another one as nothing more waits.
    fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.member.step(self.now, input, &mut effects);
        self.member.step(self.now, Input::Idle, &mut effects);
        effects
    }

    fn sees(&mut self, epoch: u64, leader: Option<&str>) -> Vec<Effect> {
        self.view.term = term(epoch, leader);
        self.shown()
    }

    fn shown(&mut self) -> Vec<Effect> {
        self.step(Input::View(Arc::new(self.view.clone())))
    }

    /// Time passes, and it is woken.
    fn wakes_after(&mut self, millis: u64) -> Vec<Effect> {
        self.now.time = self.now.time + MILLIS(millis);
        self.step(Input::Wake)
    }

    fn links(&mut self, name: &str, link: u64) -> Vec<Effect> {
        let (node, incarnation, permits) = (node(name), Incarnation(link), Permits::default());
        self.step(Input::LinkUp { node, incarnation, link, permits })
    }

    fn unlinks(&mut self, name: &str, link: u64) -> Vec<Effect> {
        self.step(Input::LinkDown { node: node(name), incarnation: Incarnation(link) })
    }

    fn hears(&mut self, from: &str, message: Message) -> Vec<Effect> {
        self.step(Input::Message { from: node(from), message })
    }

    fn calls(&mut self, id: u64, call: Call, wait: u64) -> Vec<Effect> {
        self.step(Input::Call { id: CallId(id), call, wait: MILLIS(wait) })
    }

    /// A read ends with these values.
    fn reads(&mut self, id: OpId, values: &[Option<Value>]) -> Vec<Effect> {
        let answer = |value: &Option<Value>| value.iter().map(|value| (Vec::new(), value.clone())).collect();
        let answers = values.iter().map(answer).collect();
        self.step(Input::ReadDone { id, result: Ok(ReadResult { version: Version(9), answers }) })
    }

    fn registers(&mut self, call: u64, name: &str) -> Vec<Effect> {
        let (name, kind, on_lapse) = (name.into(), Kind(7), OnLapse::Suspend);
        let on_take = OnTake::default();
        let call_of = Call::Register { name, actor: 5, kind, on_lapse, on_take, meta: None };
        self.calls(call, call_of, 5000)
    }
}

/// The batch at a position, of epoch 5, behind the one at the position before it. Its session is that of m.
fn batch(position: u64, ops: Vec<Op>) -> Batch {
    let prev = if position == 1 { LogEnd::default() } else { end(position - 1) };
    let (nonce, sessions) = (Nonce(position), vec![Arc::new(session("m"))]);
    Batch { epoch: Epoch(5), nonce, position: Position(position), prev, sessions, ops }
}

fn register(name: &str) -> Op {
    let (name, request, kind): (Name, _, _) = (name.into(), RequestNumber(90), Kind(7));
    Op::Register { name, session: 0, request, actor: Some(5), kind, meta: None }
}

fn replicate(batch: &Batch) -> Message {
    Message::Replicate { epoch: batch.epoch, position: batch.position, batch: batch.encode() }
}

fn heartbeat(epoch: u64, position: u64) -> Message {
    Message::Heartbeat { epoch: Epoch(epoch), end: end(position) }
}

/// What it tells its elector.
fn tells(effects: &[Effect]) -> Vec<Tell> {
    let tells = effects.iter().filter_map(|effect| match effect {
        Effect::Tell(tell) => Some(tell.clone()),
        _ => None,
    });
    tells.collect()
}

/// What it sends, to whom, and by which link.
fn sends(effects: &[Effect]) -> Vec<(String, u64, Message)> {
    let sends = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to, link, message } => Some((to.to_string(), link.unwrap_or(0), message.clone())),
        _ => None,
    });
    sends.collect()
}

fn events(effects: &[Effect]) -> Vec<Event> {
    let events = effects.iter().filter_map(|effect| match effect {
        Effect::Event(event) => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

fn answers(effects: &[Effect]) -> Vec<(u64, Answer)> {
    let answers = effects.iter().filter_map(|effect| match effect {
        Effect::Answer { call, answer } => Some((call.0, answer.clone())),
        _ => None,
    });
    answers.collect()
}

/// The one read among these effects.
fn read(effects: &[Effect]) -> OpId {
    let reads = effects.iter().filter_map(|effect| match effect {
        Effect::Read { id, .. } => Some(*id),
        _ => None,
    });
    let reads: Vec<_> = reads.collect();
    assert_eq!(reads.len(), 1, "{effects:?}");
    reads[0]
}

/// The one commit among these effects.
fn commit(effects: &[Effect]) -> (OpId, callsign_store::Transaction) {
    let commits = effects.iter().filter_map(|effect| match effect {
        Effect::Commit { id, transaction } => Some((*id, transaction.clone())),
        _ => None,
    });
    let mut commits: Vec<_> = commits.collect();
    assert_eq!(commits.len(), 1, "{effects:?}");
    commits.remove(0)
}

fn progress(epoch: u64, position: u64) -> Message {
    Message::Progress { epoch: Epoch(epoch), position: Position(position) }
}

#[test]
fn whoever_the_store_names_is_followed_and_nobody_else_is() {
    let mut one = One::new();
    assert_eq!(events(&one.sees(5, Some("l"))), [Event::Term { epoch: Epoch(5), leader: Some(node("l")) }]);
    assert_eq!(one.hears("l", heartbeat(5, 0)), [], "it is not linked");
    let up = Tell::LinkUp { node: node("l"), may_lead: true };
    assert_eq!(tells(&one.links("l", 1)), [up]);
    one.links("o", 2);
    assert_eq!(one.member.leader(), None, "nobody knows that it has opened its epoch");
    for (from, epoch) in [("o", 5), ("l", 4), ("o", 4)] {
        let effects = one.hears(from, heartbeat(epoch, 0));
        assert_eq!((tells(&effects), sends(&effects)), (vec![], vec![]), "{from} of {epoch}");
    }
    let contact = Tell::LeaderContact(Epoch(5));
    let nothing = Message::Heartbeat { epoch: Epoch(5), end: LogEnd::default() };
    let effects = one.hears("l", nothing.clone());
    assert_eq!(tells(&effects), std::slice::from_ref(&contact));
    assert_eq!(sends(&effects), [("l".to_owned(), 1, progress(5, 0))]);
    // That it was heard is told from time to time.
    one.now.time = one.now.time + MILLIS(249);
    let effects = one.hears("l", nothing.clone());
    assert_eq!((tells(&effects), sends(&effects)), (vec![], vec![]));
    one.now.time = one.now.time + MILLIS(1);
    assert_eq!(tells(&one.hears("l", nothing.clone())), [contact]);
    // The same view says nothing new.
    assert_eq!(events(&one.shown()), []);
    assert_eq!(one.member.leader(), Some((Epoch(5), &node("l"))));
    assert_eq!(one.member.linked[..], [node("l"), node("o")]);
    // Its link is down, and it comes again.
    let effects = one.unlinks("l", 2);
    assert_eq!((effects, one.member.links()), (vec![], 2), "of another incarnation");
    let effects = one.unlinks("l", 1);
    assert_eq!(tells(&effects), [Tell::LinkDown(node("l"))]);
    assert!(effects.contains(&Effect::Suspect { node: node("l"), incarnation: Incarnation(1) }));
    assert_eq!((one.member.leader(), one.member.linked.len()), (None, 1));
    assert_eq!(one.unlinks("l", 1), []);
    one.links("l", 3);
    assert_eq!(one.member.leader(), Some((Epoch(5), &node("l"))), "it is the one that was heard");
    // The term is another one, and o is no member any more.
    one.view.members.remove(&node("o"));
    one.sees(6, None);
    assert_eq!((one.member.leader(), &one.member.linked[..]), (None, &[node("l")][..]));
}

#[test]
fn what_a_peer_says_of_a_later_epoch_counts_when_the_store_shows_it() {
    let mut one = One::following();
    one.links("o", 2);
    assert_eq!(one.hears("o", heartbeat(6, 1)), [Effect::Tell(Tell::Refresh)]);
    assert_eq!(one.hears("o", heartbeat(6, 1)), [], "it is being read");
    one.now.time = one.now.time + MILLIS(249);
    assert_eq!(one.hears("o", heartbeat(7, 1)), []);
    one.now.time = one.now.time + MILLIS(1);
    assert_eq!(one.hears("o", heartbeat(6, 1)), [Effect::Tell(Tell::Refresh)]);
    assert_eq!(one.hears("o", heartbeat(6, 1)), []);
    assert_eq!(one.hears("l", heartbeat(8, 1)), [Effect::Tell(Tell::Refresh)], "each peer counts for itself");
    let effects = one.sees(6, Some("o"));
    assert_eq!(tells(&effects), [Tell::LeaderContact(Epoch(6))]);
    assert_eq!(one.member.leader(), Some((Epoch(6), &node("o"))));
    // What is of a later one waits on, and is no news.
    assert_eq!(one.hears("o", heartbeat(9, 1)), []);
    one.sees(7, Some("o"));
    assert_eq!(one.member.leader(), Some((Epoch(7), &node("o"))));
    one.sees(9, Some("o"));
    assert_eq!(one.member.leader(), Some((Epoch(9), &node("o"))));
    // When all of it has counted, the next one is read at once.
    assert_eq!(one.hears("o", heartbeat(10, 1)), [Effect::Tell(Tell::Refresh)]);
    // A peer that is linked anew says it anew.
    one.unlinks("o", 2);
    one.links("o", 3);
    one.sees(10, Some("o"));
    assert_eq!(one.member.leader(), None);
    assert_eq!(one.hears("o", heartbeat(11, 1)), [Effect::Tell(Tell::Refresh)]);
}

#[test]
fn of_what_a_peer_says_early_so_much_is_kept() {
    let mut ahead = Ahead::default();
    let now = Time(Duration::from_secs(100));
    for position in 0..70 {
        assert_eq!(ahead.keep(now, &node("o"), heartbeat(6, position)), position == 0);
    }
    assert_eq!(ahead.take(Epoch(5)), []);
    let taken = ahead.take(Epoch(6));
    assert_eq!((taken.len(), &taken[0]), (64, &(node("o"), heartbeat(6, 0))));
    assert_eq!(taken[63], (node("o"), heartbeat(6, 63)));
    assert_eq!(ahead, Ahead::default());
}

#[test]
fn what_is_for_a_node_that_is_not_linked_goes_nowhere_and_all_else_goes_by_its_link() {
    let mut one = One::new();
    one.links("l", 7);
    one.links("o", 8);
    let send = |to: &str, epoch| Effect::send(node(to), heartbeat(epoch, 1));
    let said = Effect::Tell(Tell::Refresh);
    let mut effects =
        vec![send("x", 1), send("l", 2), send("x", 3), send("x", 4), said, send("o", 5), send("l", 6)];
    one.member.bind(1, &mut effects);
    let left: Vec<_> = sends(&effects).into_iter().map(|(to, link, _)| (to, link)).collect();
    let by = |to: &str, link| (to.to_owned(), link);
    assert_eq!(left, [by("x", 0), by("l", 7), by("o", 8), by("l", 7)]);
    assert_eq!(effects.len(), 5);
}

#[test]
fn what_a_member_says_to_itself_does_not_travel_and_comes_in_order() {
    let mut one = One::new();
    one.sees(5, Some("m"));
    let own = |message| Effect::send(node("m"), message);
    let done = |epoch| Message::HandoffDone { epoch: Epoch(epoch) };
    let beat = |epoch| Message::Heartbeat { epoch: Epoch(epoch), end: LogEnd::default() };
    let mut effects = vec![own(done(9)), own(done(5)), Effect::send(node("l"), done(2)), own(beat(5))];
    // What it answers itself does not travel either.
    effects.push(own(Message::SnapshotWanted { id: 1, below: 1 }));
    one.member.take_own(one.now, 1, &mut effects);
    let told = [Tell::HandoffDone(Epoch(5)), Tell::LeaderContact(Epoch(5))].map(Effect::Tell);
    let rest = [own(done(9)), Effect::send(node("l"), done(2))];
    assert_eq!(effects, [&rest[..], &told[..]].concat());
}

#[test]
fn ready_is_said_when_it_is_so_or_time_is_over() {
    let ready = |is_ready| Answer::Ready(is_ready);
    let mut one = One::following();
    assert_eq!(answers(&one.calls(1, Call::Ready, 1000)), [(1, ready(true))]);
    assert_eq!(one.wakes_after(100), [], "once");
    for missing in 0..3 {
        let mut one = One::following();
        match missing {
            0 => one.now.trusted = None,
            1 => _ = one.unlinks("l", 1),
            _ => {
                one.view.members.get_mut(&node("m")).unwrap().synced = false;
                one.shown();
            }
        }
        assert_eq!(answers(&one.calls(1, Call::Ready, 1000)), []);
        assert_eq!(one.member.wakes_at(one.now.time), one.now.time + MEMBER_TICK);
        assert_eq!(answers(&one.wakes_after(999)), []);
        assert_eq!(answers(&one.wakes_after(1)), [(1, ready(false))], "{missing}");
    }
    // A member that drains is not ready for anything.
    let mut one = One::following();
    one.now.trusted = None;
    one.calls(1, Call::Ready, 1000);
    assert!(answers(&one.calls(2, Call::Drain, 1000)).contains(&(1, ready(false))));
    one.now.trusted = Some(SessionNumber(1));
    assert!(answers(&one.calls(3, Call::Ready, 1000)).contains(&(3, ready(false))));
}

#[test]
fn it_is_synced_by_a_row_of_its_present_session_and_with_a_base() {
    let mut one = One::following();
    assert!(one.member.is_synced());
    let own = |one: &mut One| one.view.members.get_mut(&node("m")).unwrap().clone();
    for wrong in [
        MemberRow { synced: false, ..own(&mut one) },
        MemberRow { token: Token(4), ..own(&mut one) },
        MemberRow { session: SessionId { number: SessionNumber(2), ..session("m") }, ..own(&mut one) },
    ] {
        let mut other = One::following();
        other.view.members.insert(node("m"), wrong);
        other.shown();
        assert!(!other.member.is_synced());
    }
    one.member.replica.give_up_base();
    assert!(!one.member.is_synced());
}
