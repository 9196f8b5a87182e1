//! Each check of the oracle can fire: what it forbids is done to a cluster that is at rest, behind the cores' backs.
//!
//! Commits are forged as transactions that were given up, and land. What no commit shows is forged in the processes.

mod certificates;
mod duties;
mod listed;
mod log;
mod offers;
mod referring;

use std::{sync::Arc, time::Duration};

use callsign::{
    TakeError,
    cores::{Answer, Batch, CallId, Effect, Message, Op, OpId, RequestNumber, Verdict},
};
use callsign_elector::record::{
    AuthorRecord, Evidence, Leader, Lock, MemberRow, MembershipEvent, QueueEntry,
};
use callsign_sim::{
    oracle::{Check, Outcome},
    world::{Action, CallerRegistration, CoreId, Fate, Frame, NodeId, Orphan, Parts, Running, Want, name_of},
};
use callsign_store::{
    Transaction,
    ids::{Beat, Nonce, Position, Sequence, SessionNumber, Token},
    record::Record,
};
use callsign_transport::Kind;

use crate::cluster::{Cluster, frames, store_ops};

/// Three nodes at rest: `host` holds name 0 and `leader` holds name 1.
struct Scene {
    cluster: Cluster,
    leader: NodeId,
    host: NodeId,
    other: NodeId,
}

impl Scene {
    fn new() -> Self {
        let (mut cluster, leader, host, other) = Cluster::of_three();
        cluster.register(host, 0);
        cluster.register(leader, 1);
        cluster.rest();
        assert_eq!((cluster.claimants(0), cluster.claimants(1)), (vec![host], vec![leader]));
        Self { cluster, leader, host, other }
    }

    /// Lands a transaction as if a core had asked for it.
    fn forge(&mut self, author: NodeId, core: CoreId, transaction: Transaction) {
        let author = (author, self.cluster.incarnation(author));
        self.cluster.world.orphans.push(Orphan { author, core, transaction: Arc::new(transaction) });
        let nth = u8::try_from(self.cluster.world.orphans.len() - 1).unwrap();
        let before = self.cluster.world.store.version();
        assert!(self.cluster.world.apply(&Action::Land { nth }));
        assert!(self.cluster.world.store.version() > before, "it landed");
    }

    /// A batch as the leader would write it next.
    fn batch(&self, ops: Vec<Op>) -> Batch {
        let sessions = vec![
            Arc::new(self.cluster.session_id(self.host)),
            Arc::new(self.cluster.session_id(self.leader)),
        ];
        let (epoch, prev) = (self.cluster.term().epoch, self.cluster.last());
        Batch { epoch, nonce: Nonce(1), position: prev.position.next(), prev, sessions, ops }
    }

    fn log(&mut self, author: NodeId, batch: &Batch) {
        let keys = self.cluster.world.setup.keys.clone();
        let transaction = Transaction::new()
            .put(keys.log(batch.position), batch.encode().to_vec())
            .put(keys.commit(), batch.end().to_value());
        self.forge(author, CoreId::Member, transaction);
    }

    /// Operations in a batch of the leader's.
    fn ops(&mut self, ops: Vec<Op>) {
        let batch = self.batch(ops);
        self.log(self.leader, &batch);
    }

    /// An entry of the queue; its key.
    fn say(&mut self, author: NodeId, event: MembershipEvent) -> Vec<u8> {
        let session = self.cluster.session_id(author);
        let keys = self.cluster.world.setup.keys.clone();
        let record = self.cluster.world.store.get(&keys.author(&session.node)).unwrap();
        let sequence = AuthorRecord::from_value(record).unwrap().sequence.next();
        let transaction =
            Transaction::new().put(keys.author(&session.node), AuthorRecord { sequence }.to_value());
        let entry = QueueEntry { author: session, sequence, event };
        self.forge(author, CoreId::Elector, transaction.append(keys.queue(), entry.to_value()));
        self.cluster.queue().pop().unwrap().0
    }

    /// The leader gives up the seat, and it is this row's. The entry is taken with it.
    fn seat(&mut self, row: &MemberRow) {
        let mut term = self.cluster.term();
        let token = self.cluster.row(self.leader).unwrap().token;
        let entry = self.say(self.leader, MembershipEvent::Resign { token, epoch: term.epoch });
        let keys = self.cluster.world.setup.keys.clone();
        let node = row.session.node.clone();
        (term.epoch, term.ballot) = (term.epoch.next(), term.ballot.next());
        let lock = Lock { epoch: term.epoch, owner: node.clone(), nonce: Nonce(5) };
        term.leader =
            Some(Leader { node: node.clone(), incarnation: row.session.incarnation, token: row.token });
        let transaction = Transaction::new()
            .clear(entry)
            .put(keys.member(&node), row.to_value())
            .put(keys.term(), term.to_value())
            .put(keys.lock(), lock.to_value());
        self.forge(self.leader, CoreId::Elector, transaction);
    }

    fn down(&self, node: NodeId, token: Token) -> MembershipEvent {
        MembershipEvent::Down {
            member: self.cluster.name(node),
            token,
            accuser_token: self.cluster.row(self.leader).unwrap().token,
            epoch: self.cluster.term().epoch,
            evidence: Evidence::Closed,
        }
    }

    /// A message that the leader never sent arrives at a node.
    fn deliver(&mut self, to: NodeId, message: Message) {
        let from = self.leader;
        let between = |conn: &callsign_sim::world::Conn| conn.end_of(from).zip(conn.end_of(to));
        let conn = self.cluster.world.conns.iter_mut().find(|conn| between(conn).is_some()).unwrap();
        let end = conn.end_of(to).unwrap();
        conn.edit().to[end].control.push_back(Frame::Message(Arc::new(message)));
        while !self.cluster.on_the_way(from, to).is_empty() {
            assert!(self.cluster.world.apply(&Action::Frame { from, to, nth: 0, bulk: false }));
        }
    }

    /// The verdict on what a node has asked and nobody has heard.
    fn decide(&mut self, node: NodeId, verdict: Verdict) {
        let asked = self.cluster.on_the_way(node, self.leader);
        let requests = asked.iter().find_map(|message| match message {
            Message::Requests { session, requests, .. } => Some((session.clone(), requests[0].number)),
            _ => None,
        });
        let (session, number) = requests.unwrap();
        let (epoch, position) = (self.cluster.term().epoch, self.cluster.end());
        self.deliver(node, Message::Verdicts { epoch, session, position, verdicts: vec![(number, verdict)] });
    }

    /// A call whose request is under way to the leader, and stays there.
    fn asks(&mut self, node: NodeId, want: Want) {
        self.cluster.hold(frames(node, self.leader));
        self.cluster.must(&Action::Call { node, want });
        let leader = self.leader;
        self.cluster.until("it asks", |c| c.requests(node, leader).is_some());
    }

    /// Gives a node the elector and the member of another, or its own of another time.
    fn transplant(&mut self, to: NodeId, of: &Parts) {
        let process = self.cluster.world.nodes[usize::from(to)].process.as_mut().unwrap().edit();
        process.parts.as_mut().unwrap().core = of.core.clone();
    }

    fn parts(&mut self, of: NodeId) -> &mut Parts {
        let process = self.cluster.world.nodes[usize::from(of)].process.as_mut().unwrap().edit();
        process.parts.as_mut().unwrap()
    }

    /// Has a member do what it has not asked for, with all else that it was about to do.
    fn does(&mut self, node: NodeId, effects: Vec<Effect>) {
        let parts = self.parts(node);
        for effect in &effects {
            if let Effect::Send { to, .. } = effect {
                parts.sends.push_back((to.clone(), parts.link_of.get(to).copied()));
            }
        }
        parts.core.forge(effects);
        assert!(self.cluster.world.apply(&Action::Idle { node }));
    }

    /// The batch of the leader that has this nonce, as its member would ask for it.
    fn flight(&self, nonce: u64, ops: Vec<Op>) -> Effect {
        let batch = Batch { nonce: Nonce(nonce), ..self.batch(ops) };
        let key = self.cluster.world.setup.keys.log(batch.position);
        Effect::Commit {
            id: OpId(1 << 60),
            transaction: Transaction::new().put(key, batch.encode().to_vec()),
        }
    }

    #[track_caller]
    fn fires(&self, check: Check) {
        let violation = self.cluster.world.oracle.violation();
        assert_eq!(violation.map(|violation| violation.check), Some(check.name()), "{violation:?}");
    }
}

/// A name for an actor of the leader's, which need not ask by a message.
fn register(name: u8, request: u64) -> Op {
    register_for(77, name, request)
}

fn register_for(actor: u64, name: u8, request: u64) -> Op {
    Op::Register {
        name: name_of(name),
        session: 1,
        request: RequestNumber(request),
        actor: Some(actor),
        kind: Kind(7),
        meta: None,
    }
}

/// What is allowed fires nothing, so that it is not the forging itself that does.
#[test]
fn trap_8_nothing_fires_without_cause() {
    let mut scene = Scene::new();
    scene.ops(vec![Op::Open, register(9, 900)]);
    let key = scene.say(scene.leader, scene.down(scene.host, Token(0)));
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().clear(key));
    for _ in 0..200 {
        scene.cluster.step();
    }
    assert_eq!(scene.cluster.world.oracle.violation(), None);
}

#[test]
fn trap_8_checks_of_membership_fire() {
    // The term of an epoch, written again.
    let mut scene = Scene::new();
    let keys = scene.cluster.world.setup.keys.clone();
    let term = scene.cluster.term();
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().put(keys.term(), term.to_value()));
    scene.fires(Check::EpochGrows);

    // A member by a token that it had before.
    let mut scene = Scene::new();
    let mut row = scene.cluster.row(scene.host).unwrap();
    row.token = Token(row.token.0 - 1);
    let key = keys.member(&row.session.node);
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().put(key, row.to_value()));
    scene.fires(Check::JoinToken);

    // A member is removed by an accusation of a former join, or though its session is open: by an entry that comes
    // alone, and by one that is taken together with another.
    for (is_former, is_alone, check) in [
        (true, true, Check::StaleEntry),
        (false, true, Check::StaleEntry),
        (true, false, Check::StaleDown),
        (false, false, Check::DownIsClosed),
    ] {
        let mut scene = Scene::new();
        let row = scene.cluster.row(scene.host).unwrap();
        let token = Token(row.token.0 - u64::from(is_former));
        let entry = scene.say(scene.leader, scene.down(scene.host, token));
        let mut gone = Transaction::new().clear(entry).clear(keys.member(&row.session.node));
        if !is_alone {
            gone = gone.clear(scene.say(scene.leader, scene.down(scene.other, Token(0))));
        }
        scene.forge(scene.leader, CoreId::Elector, gone);
        scene.fires(check);
    }

    // A number that an author has used.
    let mut scene = Scene::new();
    let author = scene.cluster.session_id(scene.leader);
    let event = scene.down(scene.host, Token(0));
    let entry = QueueEntry { author, sequence: Sequence(1), event };
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().append(keys.queue(), entry.to_value()));
    scene.fires(Check::AuthorOrder);

    // The second entry before the first.
    let mut scene = Scene::new();
    scene.say(scene.leader, scene.down(scene.host, Token(0)));
    let second = scene.say(scene.leader, scene.down(scene.other, Token(0)));
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().clear(second));
    scene.fires(Check::QueueOrder);

    // An entry twice.
    let mut scene = Scene::new();
    let entry = scene.say(scene.leader, scene.down(scene.host, Token(0)));
    let value = scene.cluster.world.store.get(&entry).unwrap().to_vec();
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().clear(entry.clone()));
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().put(entry.clone(), value));
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().clear(entry));
    scene.fires(Check::QueueOrder);
}

#[test]
fn trap_8_checks_of_sessions_fire() {
    // A beat that goes back.
    let mut scene = Scene::new();
    let id = scene.cluster.session_id(scene.host);
    let key = scene.cluster.world.setup.keys.cluster().session(&id.node);
    let mut record = scene.cluster.session(scene.host).unwrap();
    record.beat = Beat(0);
    scene.forge(scene.host, CoreId::Session, Transaction::new().put(key.clone(), record.to_value()));
    scene.fires(Check::SessionRecord);

    // A session that was closed is open again.
    let mut scene = Scene::new();
    scene.cluster.hold(store_ops(scene.host, CoreId::Session));
    let host = scene.host;
    scene.cluster.until("it is closed", |c| !c.session(host).unwrap().open);
    let mut record = scene.cluster.session(scene.host).unwrap();
    (record.open, record.beat) = (true, record.beat.next());
    scene.forge(scene.host, CoreId::Session, Transaction::new().put(key.clone(), record.to_value()));
    scene.fires(Check::SessionRecord);

    // It is closed while its node trusts it.
    let mut scene = Scene::new();
    let mut record = scene.cluster.session(scene.host).unwrap();
    record.open = false;
    scene.forge(scene.leader, CoreId::Session, Transaction::new().put(key, record.to_value()));
    scene.fires(Check::TrustIsOpen);

    // A node trusts a session that there is not.
    let mut scene = Scene::new();
    let process = scene.cluster.world.nodes[usize::from(scene.host)].process.as_mut().unwrap().edit();
    process.trust = Some((SessionNumber(9), process.trust.unwrap().1));
    assert!(scene.cluster.world.apply(&Action::Tick { by: Duration::from_millis(1) }));
    scene.fires(Check::TrustIsOpen);

    // An actor that nobody watches is to be told.
    let mut scene = Scene::new();
    let process = scene.cluster.world.nodes[usize::from(scene.host)].process.as_mut().unwrap().edit();
    process.parts.as_mut().unwrap().watched.clear();
    assert!(scene.cluster.world.apply(&Action::Leave { node: scene.host }));
    scene.cluster.until_fired();
    scene.fires(Check::LapseTold);
}

#[test]
fn trap_8_checks_of_replicas_and_claims_fire() {
    // What another holds is held here, too.
    let mut scene = Scene::new();
    let parts = scene.cluster.world.process(scene.host).unwrap().parts.clone().unwrap();
    scene.transplant(scene.other, &parts);
    assert!(scene.cluster.world.apply(&Action::Tick { by: Duration::from_millis(1) }));
    scene.fires(Check::OneHolder);

    // A batch that was never committed, in the place of the next one and in the place of one that was.
    for is_early in [true, false] {
        let mut scene = Scene::new();
        let batch = scene.batch(vec![register(9, 900)]);
        if !is_early {
            scene.cluster.hold(frames(scene.leader, scene.other));
            scene.ops(vec![register(8, 800)]);
        }
        let (epoch, position) = (batch.epoch, batch.position);
        scene.deliver(scene.other, Message::Replicate { epoch, position, batch: batch.encode() });
        scene.fires(Check::ReplicaPrefix);
    }

    // A replica that goes back, and a reader that saw it.
    for reads in [false, true] {
        let mut scene = Scene::new();
        let parts = scene.cluster.world.process(scene.other).unwrap().parts.clone().unwrap();
        scene.cluster.register(scene.host, 2);
        scene.cluster.rest();
        let look = Action::Call { node: scene.other, want: Want::Lookup { name: 2 } };
        scene.cluster.must(&look);
        scene.transplant(scene.other, &parts);
        let want = if reads { Want::Lookup { name: 2 } } else { Want::Consistent { name: 2 } };
        assert!(scene.cluster.world.apply(&Action::Call { node: scene.other, want }));
        scene.fires(if reads { Check::LocalMonotonic } else { Check::ReplicaGrows });
    }
}

#[test]
fn trap_8_checks_of_acts_fire() {
    // Whoever acts has a registration: of another's token, of one that the log never had, of one that is given up.
    for (name, token, check) in [
        (1, None, Check::ActClaimed),
        (0, Some(Position(9999)), Check::ActHeld),
        (0, None, Check::FlaggedFirst),
    ] {
        let mut scene = Scene::new();
        let session = scene.cluster.session(scene.host).unwrap().number;
        let row = scene.cluster.holder(scene.host, name).unwrap();
        let acting = CallerRegistration {
            name: name.into(),
            holds: false,
            token: token.unwrap_or(row.position),
            session,
        };
        scene.parts(scene.host).acting.insert(CallId(9999), acting);
        scene.cluster.world.apply(&Action::Call { node: scene.host, want: Want::Unregister { name: 0 } });
        scene.fires(check);
    }
    // Two nodes start an actor for one name, and both may act.
    let mut scene = Scene::new();
    let row = scene.cluster.holder(scene.host, 0).unwrap();
    for (node, at) in [(scene.host, 0), (scene.other, 1)] {
        let session = scene.cluster.session(node).unwrap().number;
        let (claim, token, name) = (CallId(9000 + at), row.position, name_of(0));
        scene.parts(node).acting.insert(claim, CallerRegistration { name: 0, holds: false, token, session });
        let (not_before, until) = (Duration::MAX, Duration::MAX);
        scene.parts(node).starts.push(Running { claim, name, token, actor: 9000 + at, not_before, until });
    }
    scene.cluster.world.apply(&Action::Tick { by: Duration::from_micros(1) });
    scene.fires(Check::OneStart);

    let mut scene = Scene::new();
    scene.parts(scene.host).watched.clear();
    scene.cluster.world.apply(&Action::Call { node: scene.host, want: Want::Consistent { name: 1 } });
    scene.fires(Check::HolderWatched);
}

#[test]
fn trap_8_checks_of_answers_fire() {
    // A name is granted that is not in the log.
    let mut scene = Scene::new();
    scene.asks(scene.host, Want::Register { name: 5, stops: false });
    let token = scene.cluster.end();
    scene.decide(scene.host, Verdict::Granted { token, revision: token });
    scene.fires(Check::OwnRegister);

    // It is said to be free, and is not.
    let mut scene = Scene::new();
    scene.asks(scene.host, Want::Unregister { name: 0 });
    scene.decide(scene.host, Verdict::Released);
    scene.fires(Check::FreedTrue);

    // It is said to be updated, and is not.
    let mut scene = Scene::new();
    scene.asks(scene.host, Want::Update { name: 0, guarded: false });
    let revision = scene.cluster.end();
    scene.decide(scene.host, Verdict::Updated { revision });
    scene.fires(Check::UpdateTold);

    // It is said to be another's, and is nobody's.
    let mut scene = Scene::new();
    let holder = scene.cluster.holder(scene.host, 1).unwrap().holder();
    scene.asks(scene.host, Want::Start { name: 5, stops: false });
    scene.decide(scene.host, Verdict::Taken { holder: Box::new(holder) });
    scene.fires(Check::StartTold);

    // It is said to be gone, and is held.
    let mut scene = Scene::new();
    scene.cluster.hold(frames(scene.other, scene.leader));
    scene.cluster.must(&Action::Call { node: scene.other, want: Want::Take { name: 1, stops: false } });
    let call = *scene.cluster.world.asked.keys().next_back().unwrap();
    let gone = TakeError::Gone { name: "n1".to_owned(), token: Position(0) };
    scene.parts(scene.other).core.forge([Effect::Answer { call, answer: Answer::Taken(Err(gone)) }]);
    scene.cluster.until_fired();
    scene.fires(Check::MoveTold);

    // The store forgets where the log ends, and the replica has not heard.
    let mut scene = Scene::new();
    let (leader, other) = (scene.leader, scene.other);
    let keys = scene.cluster.world.setup.keys.clone();
    let end = scene.cluster.last();
    scene.cluster.hold(frames(leader, other));
    let call = scene.cluster.register(scene.host, 2);
    scene.cluster.until("a name", |c| c.granted(call).is_some());
    scene.cluster.must(&Action::Call { node: other, want: Want::Consistent { name: 2 } });
    scene.cluster.world.store.edit().apply(&Transaction::new().put(keys.commit(), end.to_value()));
    let ops = scene.cluster.world.process(other).unwrap().ops.iter();
    let nth = ops.map(|op| op.core).position(|core| core == CoreId::Member).unwrap();
    let nth = u8::try_from(nth).unwrap();
    assert!(scene.cluster.world.apply(&Action::Store { node: other, nth, fate: Fate::Done }));
    scene.fires(Check::ReadTrue);

    // An answer to a call that is over.
    let mut scene = Scene::new();
    let id = scene.cluster.world.told().len();
    scene.cluster.must(&Action::Call { node: scene.host, want: Want::Consistent { name: 1 } });
    scene.cluster.world.asked.clear();
    assert!(scene.cluster.world.told()[id].answer.is_none());
    scene.cluster.until_fired();
    scene.fires(Check::AnswerOnce);
}

#[test]
fn trap_8_checks_of_the_seat_and_its_lock_fire() {
    // The leader is no member.
    let mut scene = Scene::new();
    let keys = scene.cluster.world.setup.keys.clone();
    let row = keys.member(&scene.cluster.session_id(scene.leader).node);
    scene.forge(scene.other, CoreId::Elector, Transaction::new().clear(row));
    scene.fires(Check::LeaderIsMember);

    // Nobody accused it, and it has lost the seat.
    let mut scene = Scene::new();
    let mut term = scene.cluster.term();
    (term.epoch, term.leader) = (term.epoch.next(), None);
    scene.forge(scene.other, CoreId::Elector, Transaction::new().put(keys.term(), term.to_value()));
    scene.fires(Check::Silenced);

    // It gives up the seat to one that may have it; to one that is not synced; and to itself.
    let mut scene = Scene::new();
    scene.seat(&scene.cluster.row(scene.other).unwrap());
    assert_eq!(scene.cluster.world.oracle.violation(), None);
    // Under the lock of it, an entry is taken that is no vote.
    let entry = scene.say(scene.leader, scene.down(scene.host, Token(0)));
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().clear(entry));
    scene.fires(Check::LockHolds);

    let mut scene = Scene::new();
    let row = MemberRow { synced: false, ..scene.cluster.row(scene.other).unwrap() };
    scene.seat(&row);
    scene.fires(Check::Electable);

    let mut scene = Scene::new();
    scene.seat(&scene.cluster.row(scene.leader).unwrap());
    scene.fires(Check::SeatGivenUp);

    // A lock without an election, and one that is cleared before its handoff is done.
    let mut scene = Scene::new();
    let (epoch, owner) = (scene.cluster.term().epoch, scene.cluster.session_id(scene.host).node);
    let lock = Lock { epoch, owner, nonce: Nonce(5) };
    scene.forge(scene.leader, CoreId::Elector, Transaction::new().put(keys.lock(), lock.to_value()));
    scene.fires(Check::LockOwner);

    let mut scene = Scene::new();
    scene.seat(&scene.cluster.row(scene.other).unwrap());
    scene.forge(scene.other, CoreId::Elector, Transaction::new().clear(keys.lock()));
    scene.fires(Check::LockOwner);

    // A member says that it has nothing, and claims a name.
    let mut scene = Scene::new();
    let row = MemberRow { empty: true, ..scene.cluster.row(scene.host).unwrap() };
    let key = keys.member(&row.session.node);
    scene.forge(scene.host, CoreId::Elector, Transaction::new().put(key, row.to_value()));
    scene.fires(Check::EmptyHandsOff);
}

#[test]
fn trap_8_checks_of_draining_fire() {
    // One that is about to leave is elected, and others stay.
    let mut scene = Scene::new();
    let row = MemberRow { draining: true, ..scene.cluster.row(scene.other).unwrap() };
    scene.seat(&row);
    scene.fires(Check::DrainerElected);

    // A node that drains, and cannot say so yet, has lost a name.
    let mut scene = Scene::new();
    let host = scene.host;
    scene.cluster.hold(store_ops(host, CoreId::Elector));
    let lost = scene.cluster.world.granted[&0].clone();
    scene.cluster.world.granted.insert(9, lost);
    assert!(scene.cluster.world.apply(&Action::Drain { node: host }));
    scene.fires(Check::NamesLast);

    // A node that drains has forgotten that.
    let mut scene = Scene::new();
    let host = scene.host;
    let before = scene.cluster.world.process(host).unwrap().parts.clone().unwrap();
    scene.cluster.hold(store_ops(host, CoreId::Elector));
    scene.cluster.must(&Action::Drain { node: host });
    let refused = scene.cluster.register(host, 5);
    scene.cluster.until("it refuses", |c| c.outcome(refused).is_some());
    assert_eq!(scene.cluster.outcome(refused), Some(Outcome::Refused));
    scene.transplant(host, &before);
    scene.cluster.register(host, 6);
    scene.cluster.until_fired();
    scene.fires(Check::TurnedAway);
}
