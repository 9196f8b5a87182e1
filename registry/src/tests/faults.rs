//! Histories in which something was given up, lost or late, and that once went wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use callsign_elector::{
    elector::View,
    lineage::{LineageId, LineageNumber},
    record::{LogEnd, MemberRow, PositionRecord, SessionRecord, Term},
};
use callsign_store::{
    CommitOutcome, Limits, Time, Transaction, Version,
    ids::{
        Beat, ClusterName, Epoch, Incarnation, NodeName, Nonce, Position, RegistryName, SessionId,
        SessionNumber, Token,
    },
    keys::{ClusterKeys, RegistryKeys},
    mvcc::Mvcc,
    record::Record,
};
use callsign_transport::Kind;

use crate::{
    Event,
    core::{
        catchup::{CatchUp, Sources},
        fence::Fence,
        handoff::{End, Handoff, Step, reset_conditions},
        host::{Caller, Host, Surroundings},
        input::{Answer, Call, CallId, Effect, Granted, Input, Notice, Now, OnLapse, Turn},
        leader::Leader,
        log::{Batch, CorruptBatch, Op},
        member::{Member, MemberConfig},
        message::{Message, Request, Verdict, Wish},
        name::Name,
        registry::Told,
        replica::{Replica, Staged},
        table::{RequestNumber, Row},
        tuning::Tuning,
    },
    error::{RegisterError, UnregisterError},
    tests::world::{Faults, World, name, other_than},
};

#[test]
fn a_leader_whose_own_commit_is_seen_by_its_consistent_read_goes_on_leading() {
    for seed in 0..40 {
        let mut world = World::settled(seed, &["a"]);
        let begun = world.nodes[&name("a")].events.len();
        world.faults = Faults { unknown_applied: 500, ..Faults::default() };
        let mut calls: Vec<CallId> = Vec::new();
        for i in 0..20 {
            calls.push(world.begin_register("a", &format!("n{i}"), 100 + i));
            let pause = world.draw(600);
            world.run_for(Duration::from_micros(pause));
            let read = Call::Consistent { name: "n0".into() };
            calls.push(world.call("a", read, Duration::from_secs(5)));
        }
        world.run_until("all are answered", Duration::from_secs(10), |w| {
            calls.iter().all(|call| w.answers.contains_key(call))
        });
        let events = &world.nodes[&name("a")].events[begun..];
        assert!(!events.iter().any(|e| matches!(e, Event::Deposed { .. })), "seed {seed}: {events:?}");
    }
}

#[test]
fn the_log_is_cut_while_batches_follow_one_another_without_a_pause() {
    let mut world = World::settled(1, &["a", "b", "c"]);
    for i in 0..1000 {
        world.register("a", &format!("n{}", i % 40), 1).unwrap();
        world.unregister("a", &format!("n{}", i % 40));
    }
    assert!(world.floor() > 500, "{}", world.floor());
}

#[test]
fn a_cut_of_the_log_that_lands_late_does_not_take_the_floor_back() {
    let mut world = World::settled(2, &["a", "b", "c"]);
    world.delay_cut = Some(Duration::from_secs(5));
    for round in 0..4 {
        for i in 0..300 {
            world.register("a", &format!("n{round}-{i}"), 1).unwrap();
        }
        world.run_for(Duration::from_secs(2));
    }
    assert!(world.delay_cut.is_none() && world.floor() > 900, "{}", world.floor());
    world.start("d");
    world.settle();
    assert_eq!(world.table("d"), world.table("a"));
}

#[test]
fn an_actor_that_gives_up_one_name_while_it_asks_for_another_stays_watched() {
    let mut world = World::settled(3, &["a", "b"]);
    world.register("a", "x", 5).unwrap();
    let call = world.begin_register("a", "y", 5);
    world.call("a", Call::Unregister { name: "x".into() }, Duration::from_secs(5));
    assert!(matches!(world.answer(call), Answer::Registered(Ok(_))));
    assert!(world.nodes[&name("a")].watched.contains(&5));
}

#[test]
fn an_actor_that_is_refused_one_name_and_gets_another_at_once_stays_watched() {
    let mut world = World::settled(6, &["a", "b"]);
    world.register("b", "x", 6).unwrap();
    let (refused, granted) = (world.begin_register("a", "x", 5), world.begin_register("a", "y", 5));
    assert!(matches!(world.answer(refused), Answer::Registered(Err(RegisterError::Taken { .. }))));
    assert!(matches!(world.answer(granted), Answer::Registered(Ok(_))));
    assert!(world.nodes[&name("a")].watched.contains(&5));
}

#[test]
fn an_unregister_whose_session_is_lost_does_not_say_that_the_name_is_free() {
    let mut world = World::settled(4, &["a", "b", "c"]);
    let (leader, _) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    world.register(host, "x", 5).unwrap();
    world.cut(host, leader.as_str());
    world.run_for(Duration::from_millis(5));
    let call = world.call(host, Call::Unregister { name: "x".into() }, Duration::from_secs(20));
    world.run_for(Duration::from_millis(5));
    world.lose_session(host);
    let answer = world.answer(call);
    assert!(matches!(answer, Answer::Unregistered(Err(UnregisterError::Pending { .. }))), "{answer:?}");
}

#[test]
fn a_register_that_ends_because_nothing_was_sent_is_not_sent_later() {
    let mut world = World::new(5);
    world.start("a");
    let register =
        |actor| Call::Register { name: "x".into(), actor, kind: Kind(7), on_lapse: OnLapse::Suspend };
    let call = world.call("a", register(5), Duration::from_micros(10));
    let later = world.call("a", register(6), Duration::from_secs(20));
    assert_eq!(world.answer(call), Answer::Registered(Err(RegisterError::NotSynced)));
    // Who waited behind it is not forgotten.
    let Answer::Registered(Ok(Granted { token, .. })) = world.answer(later) else { panic!() };
    world.run_for(Duration::from_secs(3));
    let row = world.row("a", "x").unwrap();
    assert_eq!((row.actor, row.position), (6, token));
}

/// A host by itself, with a session that is trusted.
struct Alone {
    host: Host,
    replica: Replica<BTreeMap<Name, Row>>,
    session: Arc<SessionId>,
}

impl Alone {
    const NOW: Now = Now { time: Time(Duration::from_secs(100)), trusted: Some(SessionNumber(1)) };

    fn new() -> Self {
        let me = NodeName::new("a").unwrap();
        let session = SessionId { node: me.clone(), incarnation: Incarnation(1), number: SessionNumber(1) };
        let mut host = Host::new();
        host.on_session_opened(session.clone());
        Self { host, replica: Replica::new(me, BTreeMap::new()), session: Arc::new(session) }
    }

    /// What is sent to a leader of this epoch.
    fn flush(&mut self, epoch: u64) -> Vec<Message> {
        let leader = NodeName::new("l").unwrap();
        let around =
            Surroundings { leader: Some((Epoch(epoch), &leader)), is_synced: true, has_leader: true };
        let mut effects = Vec::new();
        self.host.flush(Self::NOW.time, around, &mut effects);
        let sent = effects.into_iter().map(|effect| match effect {
            Effect::Send { message, .. } => message,
            other => panic!("{other:?}"),
        });
        sent.collect()
    }

    fn register(&mut self, what: &str, actor: u64) {
        let caller = Caller::new(Self::NOW.time, CallId(actor), Duration::from_secs(5));
        let (kind, on_lapse) = (Kind(7), OnLapse::Suspend);
        self.host.register(Self::NOW, caller, what.into(), actor, kind, on_lapse, &mut Vec::new());
    }

    fn settle(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.host.settle(Self::NOW, &self.replica, &mut effects);
        effects
    }
}

fn requests(messages: &[Message]) -> Vec<crate::core::message::Request> {
    let all = messages.iter().flat_map(|message| match message {
        Message::Requests { requests, .. } => requests.clone(),
        other => panic!("{other:?}"),
    });
    all.collect()
}

fn end(position: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(position) }
}

#[test]
fn a_grant_of_a_log_that_was_given_up_is_asked_for_again_and_not_believed() {
    let mut alone = Alone::new();
    alone.register("x", 5);
    let asked = requests(&alone.flush(1));
    let granted = vec![(asked[0].number, Verdict::Granted { token: Position(7) })];
    alone.host.on_verdicts(Epoch(1), &alone.session.clone(), Position(7), granted.clone());
    assert!(alone.settle().is_empty(), "the replica is not there");
    alone.host.drop_all_claims(&mut Vec::new());
    alone.replica.skip_to(end(9));
    assert!(alone.settle().is_empty());
    assert!(alone.host.claims().is_empty());
    let again = requests(&alone.flush(2));
    assert_eq!(again.len(), 1);
    assert!(again[0].number > asked[0].number && again[0].wish == asked[0].wish);
}

#[test]
fn a_suspended_actor_is_told_of_a_lost_claim_while_it_is_still_listened_for() {
    let mut alone = Alone::new();
    alone.register("x", 5);
    let asked = requests(&alone.flush(1));
    let granted = vec![(asked[0].number, Verdict::Granted { token: Position(7) })];
    alone.host.on_verdicts(Epoch(1), &alone.session.clone(), Position(7), granted);
    alone.replica.skip_to(end(7));
    assert_eq!(alone.settle().len(), 1);
    let mut effects = Vec::new();
    alone.host.drop_all_claims(&mut effects);
    let claim = CallId(5);
    let order = [
        Effect::Flag { claim },
        Effect::Notify { actor: 5, claims: vec![claim], notice: Notice::Lost },
        Effect::Unwatch { actor: 5 },
        Effect::Forget { claim },
    ]
    .map(|wanted| effects.iter().position(|effect| *effect == wanted).expect("it is there"));
    assert!(order.is_sorted(), "{effects:?}");
}

#[test]
fn a_member_without_a_base_asks_whoever_is_linked_when_the_log_is_too_short_and_nobody_is_synced() {
    let cluster = ClusterName::new("test").unwrap();
    let keys = ClusterKeys::new(&cluster).registry(&RegistryName::new("r").unwrap());
    let mut replica = Replica::new(name("a"), BTreeMap::<Name, Row>::new());
    let mut catchup = CatchUp::new(7);
    let sources = Sources { is_taking_over: true, others: vec![name("b")], ..Sources::default() };
    let (mut now, mut next_op, mut effects) = (Time(Duration::from_secs(100)), 0, Vec::new());
    catchup.want(now, Position(900));
    catchup.drive(Turn::new(now, &keys, &mut next_op, &mut effects), &replica, &sources);
    let Some(Effect::Read { id, reads }) = effects.pop() else { panic!("it may begin at the beginning") };
    let mut store = Mvcc::new(Limits::FOUNDATIONDB, 1000);
    let cut = Transaction::new()
        .put(keys.floor(), PositionRecord(Position(600)).to_value())
        .put(keys.commit(), end(900).to_value());
    assert!(matches!(store.apply(&cut), CommitOutcome::Committed(_)));
    let read = store.read(&reads, None).unwrap();
    catchup.on_log(now, &mut replica, id, Some(&read), &keys).unwrap();
    now = now + Duration::from_secs(1);
    catchup.drive(Turn::new(now, &keys, &mut next_op, &mut effects), &replica, &sources);
    let asks = |e: &Effect| matches!(e, Effect::Send { to, message: Message::SnapshotWanted { .. }, .. } if *to == name("b"));
    assert!(effects.iter().any(asks), "{effects:?}");
}

/// Three nodes, a host that does not lead, and what is needed to speak for it.
fn with_host(seed: u64) -> (World, &'static str, NodeName, Epoch, Arc<SessionId>) {
    let world = World::settled(seed, &["a", "b", "c"]);
    let (leader, epoch) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    let session = Arc::new(world.nodes[&name(host)].session.clone().unwrap());
    (world, host, leader, epoch, session)
}

fn request(number: u64, what: &str, wish: Wish) -> Request {
    Request { number: RequestNumber(number), name: what.into(), wish }
}

#[test]
fn an_unregister_frees_only_the_registration_that_it_quotes_and_only_for_its_own_session() {
    let (mut world, host, leader, epoch, session) = with_host(30);
    let token = world.register(host, "x", 5).unwrap();
    let other = other_than(&[&leader, &name(host)]);
    let others = Arc::new(world.nodes[&name(other)].session.clone().unwrap());
    let unregister = |position| request(900, "x", Wish::Unregister { position });
    for (from, session, position) in [(host, session, Position(token.0 - 1)), (other, others, token)] {
        let requests = vec![unregister(position)];
        let acknowledged = RequestNumber(900);
        world.deliver(from, &leader, Message::Requests { epoch, session, acknowledged, requests });
        world.run_for(Duration::from_millis(20));
        assert!(world.row(leader.as_str(), "x").is_some(), "asked by {from} for {position}");
    }
}

/// A batch with the nonce `nonce` behind another one. Positions alone would let it follow.
fn behind(prev: LogEnd, nonce: u64) -> Batch {
    let position = prev.position.next();
    let (nonce, ops) = (Nonce(nonce), vec![Op::Open]);
    Batch { epoch: Epoch(1), nonce, position, prev, sessions: Vec::new(), ops }
}

#[test]
fn a_batch_that_follows_another_one_at_the_same_position_is_of_another_log() {
    let mut replica = Replica::new(name("a"), BTreeMap::<Name, Row>::new());
    replica.base_on_nothing();
    let first = behind(LogEnd::default(), 1);
    let other = behind(LogEnd::default(), 2);
    replica.offer(Epoch(1), Position(1), &first.encode()).unwrap();
    // The other log's batch at this position, the one behind it, and one behind all that is here.
    let leaves_out = Batch { position: Position(3), ..behind(LogEnd::default(), 4) };
    for wrong in [other.clone(), behind(other.end(), 3), leaves_out] {
        let offered = replica.offer(Epoch(1), wrong.position, &wrong.encode());
        assert_eq!(offered, Err(CorruptBatch::Diverged { at: first.end() }));
        assert_eq!(replica.end(), first.end());
    }
    // What waited for the other one is not applied either.
    let (second, stray) = (behind(first.end(), 5), behind(behind(other.end(), 3).end(), 6));
    replica.offer(Epoch(1), stray.position, &stray.encode()).unwrap();
    replica.offer(Epoch(1), second.position, &second.encode()).unwrap();
    assert_eq!(replica.end(), second.end());
    // Nor is it behind a snapshot, which says with which batch it ends.
    let mut fresh = Replica::new(name("b"), BTreeMap::<Name, Row>::new());
    assert!(fresh.install(Staged::default(), Epoch(1), second.end()));
    fresh.proceed(1);
    let behind_the_other = behind(LogEnd { nonce: Nonce(6), ..second.end() }, 7);
    let offered = fresh.offer(Epoch(1), Position(3), &behind_the_other.encode());
    assert_eq!(offered, Err(CorruptBatch::Diverged { at: second.end() }));
    fresh.offer(Epoch(1), Position(3), &behind(second.end(), 7).encode()).unwrap();
    assert_eq!(fresh.position(), Position(3));
}

#[test]
fn a_replica_frees_only_the_registration_that_the_log_quotes() {
    let mut alone = Alone::new();
    let register =
        Op::Register { name: "x".into(), session: 0, request: RequestNumber(1), actor: 5, kind: Kind(7) };
    let batch = |position, op| Batch {
        epoch: Epoch(1),
        nonce: Nonce(position),
        position: Position(position),
        prev: LogEnd { position: Position(position - 1), nonce: Nonce(position - 1) },
        sessions: vec![alone.session.clone()],
        ops: vec![op],
    };
    let wrong = Op::Unregister { name: "x".into(), position: Position(9) };
    let right = Op::Unregister { name: "x".into(), position: Position(10) };
    let batches = [batch(10, register), batch(11, wrong), batch(12, right)];
    alone.replica.apply(&batches[0]);
    alone.replica.apply(&batches[1]);
    assert_eq!(alone.replica.count(), 1);
    alone.replica.apply(&batches[2]);
    assert_eq!(alone.replica.count(), 0);
}

#[test]
fn a_late_copy_of_a_register_does_not_bring_back_a_name_that_was_given_up() {
    let (mut world, host, leader, epoch, session) = with_host(31);
    world.register(host, "x", 5).unwrap();
    world.unregister(host, "x");
    let copy = request(1, "x", Wish::Register { actor: 5, kind: Kind(7) });
    // Before the host has acknowledged the answer, and after.
    for acknowledged in [1, 1, 3, 1] {
        let (session, requests) = (session.clone(), vec![copy.clone()]);
        let acknowledged = RequestNumber(acknowledged);
        world.deliver(host, &leader, Message::Requests { epoch, session, acknowledged, requests });
        world.run_for(Duration::from_millis(20));
        assert!(world.row(leader.as_str(), "x").is_none());
    }
}

#[test]
fn a_request_asked_twice_before_it_is_decided_is_decided_once() {
    let (mut world, host, leader, epoch, session) = with_host(32);
    let wish = Wish::Register { actor: 5, kind: Kind(7) };
    let (copies, acknowledged) =
        (vec![request(1, "x", wish.clone()), request(1, "x", wish)], RequestNumber(1));
    world.deliver(host, &leader, Message::Requests { epoch, session, acknowledged, requests: copies });
    let before = world.sent.get("verdicts").copied().unwrap_or(0);
    world.run_for(Duration::from_millis(20));
    assert_eq!(world.sent["verdicts"], before + 1);
}

#[test]
fn a_session_that_was_read_closed_is_not_served_any_more() {
    let (mut world, host, leader, epoch, session) = with_host(33);
    world.register(host, "x", 5).unwrap();
    world.close_session(&session);
    world.run_until("freed", Duration::from_secs(5), |w| w.row(leader.as_str(), "x").is_none());
    let (requests, acknowledged) =
        (vec![request(2, "y", Wish::Register { actor: 5, kind: Kind(7) })], RequestNumber(2));
    world.deliver(host, &leader, Message::Requests { epoch, session, acknowledged, requests });
    world.run_for(Duration::from_millis(200));
    assert!(world.row(leader.as_str(), "y").is_none());
}

#[test]
fn b6_an_answer_of_an_older_epoch_or_another_session_is_not_taken() {
    let mut alone = Alone::new();
    alone.register("x", 5);
    let asked = requests(&alone.flush(2));
    alone.replica.skip_to(end(9));
    let granted = vec![(asked[0].number, Verdict::Granted { token: Position(7) })];
    let session = alone.session.clone();
    let former = SessionId { number: SessionNumber(0), ..SessionId::clone(&session) };
    alone.host.on_verdicts(Epoch(1), &session, Position(7), granted.clone());
    alone.host.on_verdicts(Epoch(2), &former, Position(7), granted.clone());
    assert!(alone.settle().is_empty());
    alone.host.on_verdicts(Epoch(2), &session, Position(7), granted);
    assert_eq!(alone.settle().len(), 1);
}

#[test]
fn a_refused_request_that_arrives_again_is_refused_again_although_the_name_is_free_by_now() {
    let (mut world, host, leader, epoch, session) = with_host(34);
    world.register(leader.as_str(), "x", 9).unwrap();
    assert!(matches!(world.register(host, "x", 5), Err(RegisterError::Taken { .. })));
    world.unregister(leader.as_str(), "x");
    let requests = vec![request(1, "x", Wish::Register { actor: 5, kind: Kind(7) })];
    let acknowledged = RequestNumber(1);
    world.deliver(host, &leader, Message::Requests { epoch, session, acknowledged, requests });
    world.run_for(Duration::from_millis(20));
    assert!(world.row(leader.as_str(), "x").is_none());
}

fn two_terms() -> (RegistryKeys, Term, Term) {
    let keys =
        ClusterKeys::new(&ClusterName::new("test").unwrap()).registry(&RegistryName::new("r").unwrap());
    let later = |epoch| Term { epoch: Epoch(epoch), ..Term::vacant() };
    (keys, later(1), later(2))
}

/// As on a disk that is full: the log line that said so of each commit, and the core that they took, were the symptom.
#[test]
fn a_leader_waits_between_commits_that_the_store_refuses() {
    for (kind, faults) in [
        ("unknown, lost", Faults { unknown_lost: 1000, ..Faults::default() }),
        ("unavailable", Faults { unavailable: 1000, ..Faults::default() }),
        ("conflict", Faults { conflict: 1000, ..Faults::default() }),
    ] {
        let mut world = World::settled(1, &["a"]);
        world.hit.clear();
        world.faults = faults;
        let call = world.begin_register("a", "x", 100);
        world.run_for(Duration::from_secs(21));
        assert!(world.answers.contains_key(&call), "its deadline is over");
        // The elector's and the session's commits are among them.
        let refused = world.hit.get(kind).copied().unwrap_or(0);
        assert!((20..150).contains(&refused), "{refused} commits in 21 s: {kind}");
        // And it is found soon that the store takes commits again.
        world.faults = Faults::default();
        let begun = world.now;
        let call = world.begin_register("a", "y", 101);
        world.run_until("it is granted", Duration::from_secs(5), |w| w.answers.contains_key(&call));
        assert!(world.now.since(begun) < Duration::from_secs(2), "{kind}");
    }
}

/// The fence of a term, as this version writes it.
fn fence(term: &Term, end: LogEnd) -> Fence {
    Fence { term: term.to_value(), commit: end.to_record(), lineage: None }
}

fn leader_of(keys: &RegistryKeys, term: &Term, fence: Fence) -> Leader {
    let tuning = Tuning { memory_bytes: 4 << 10, ..Tuning::default() };
    Leader::new(name("a"), keys.clone(), (LineageNumber::default(), term.epoch), fence, 1, tuning)
}

#[test]
fn an_opening_batch_of_a_term_that_is_over_is_not_committed() {
    let (keys, mine, later) = two_terms();
    let mut store = Mvcc::new(Limits::FOUNDATIONDB, 1000);
    for (term, is_mine) in [(&later, false), (&mine, true)] {
        let replica = Replica::new(name("a"), BTreeMap::<Name, Row>::new());
        let mut effects = Vec::new();
        let mut leader = leader_of(&keys, &mine, fence(&mine, LogEnd::default()));
        let mut next_op = 0;
        let turn = &mut Turn::new(Alone::NOW.time, &keys, &mut next_op, &mut effects);
        leader.open(turn, &replica, true, Vec::new());
        let Some(Effect::Commit { transaction, .. }) = effects.pop() else { panic!("{effects:?}") };
        let elected = Transaction::new().put(keys.term(), term.to_value());
        assert!(matches!(store.apply(&elected), CommitOutcome::Committed(_)));
        let is_committed = matches!(store.apply(&transaction), CommitOutcome::Committed(_));
        assert_eq!(is_committed, is_mine);
    }
}

#[test]
fn an_end_of_the_log_that_was_read_in_another_term_is_not_taken_for_the_end() {
    let (keys, mine, later) = two_terms();
    let mut store = Mvcc::new(Limits::FOUNDATIONDB, 1000);
    let (now, mut next_op, mut effects) = (Alone::NOW.time, 0, Vec::new());
    let mut handoff = Handoff::begin(now, mine.clone(), LineageId::default(), None, &mut effects);
    let end = End { fence: fence(&mine, LogEnd::default()), at: None };
    for (at, term, step) in [(0, &later, Step::Wait), (1, &mine, Step::CatchUp(end))] {
        let now = now + Duration::from_secs(at);
        let elected = Transaction::new().put(keys.term(), term.to_value());
        assert!(matches!(store.apply(&elected), CommitOutcome::Committed(_)));
        assert_eq!(handoff.proceed(Turn::new(now, &keys, &mut next_op, &mut effects)), Step::Wait);
        let Some(Effect::Read { id, reads }) = effects.pop() else { panic!("{effects:?}") };
        handoff.on_read(now, id, &Ok(store.read(&reads, None).unwrap()));
        assert_eq!(handoff.proceed(Turn::new(now, &keys, &mut next_op, &mut effects)), step);
    }
}

#[test]
fn a_reset_is_not_written_while_a_session_that_may_hold_names_lives() {
    let (keys, mine, _) = two_terms();
    let session = SessionId { node: name("b"), incarnation: Incarnation(1), number: SessionNumber(1) };
    let record = |open| SessionRecord {
        incarnation: session.incarnation,
        number: session.number,
        lease: Duration::from_secs(10),
        beat: Beat(1),
        open,
    };
    let row = |empty| MemberRow {
        token: Token(1),
        session: session.clone(),
        address: "b:1".into(),
        priority: 1,
        synced: false,
        empty,
        accuses: None,
        draining: false,
    };
    let view = |open, empty| View {
        lineage: LineageId::default(),
        version: Version(1),
        term: mine.clone(),
        lock: None,
        members: BTreeMap::from([(name("b"), row(empty))]),
        settings: callsign_elector::settings::InForce::default(),
        sessions: [(name("b"), record(open))].into_iter().collect(),
        commit: Some(end(9)),
        floor: Position(5),
        me: None,
        raw: Arc::new(BTreeMap::from([
            (keys.member(&name("b")), row(empty).to_value()),
            (keys.cluster().session(&name("b")), record(open).to_value()),
        ])),
        queued: Some(BTreeSet::new()),
    };
    assert_eq!(reset_conditions(&view(true, false), &keys), None);
    assert!(reset_conditions(&view(true, true), &keys).is_some());
    let conditions = reset_conditions(&view(false, false), &keys).unwrap();

    // And what was looked at is looked at again by the batch itself.
    let (open, full) = (record(true).to_value(), row(false).to_value());
    let (session_key, row_key) = (keys.cluster().session(&name("b")), keys.member(&name("b")));
    for (session, row, is_right) in [
        (open, full.clone(), false),
        (record(false).to_value(), row(true).to_value(), false),
        (record(false).to_value(), full, true),
    ] {
        let mut replica = Replica::new(name("a"), BTreeMap::<Name, Row>::new());
        replica.skip_to(end(9));
        let mut store = Mvcc::new(Limits::FOUNDATIONDB, 1000);
        let state = Transaction::new()
            .put(keys.term(), mine.to_value())
            .put(keys.commit(), end(9).to_value())
            .put(session_key.clone(), session)
            .put(row_key.clone(), row);
        assert!(matches!(store.apply(&state), CommitOutcome::Committed(_)));
        let mut effects = Vec::new();
        let mut leader = leader_of(&keys, &mine, fence(&mine, end(9)));
        let mut next_op = 0;
        let turn = &mut Turn::new(Alone::NOW.time, &keys, &mut next_op, &mut effects);
        leader.open(turn, &replica, true, conditions.clone());
        let Some(Effect::Commit { transaction, .. }) = effects.pop() else { panic!("{effects:?}") };
        assert_eq!(matches!(store.apply(&transaction), CommitOutcome::Committed(_)), is_right);
    }
}

/// A snapshot that another node began to take from the leader, and that it asks nothing more of.
fn with_abandoned_snapshot(names: u64) -> (World, &'static str, NodeName) {
    let mut world = World::settled(61, &["a", "b", "c"]);
    let (leader, _) = world.leader().unwrap();
    let receiver = other_than(&[&leader]);
    for number in 0..names {
        world.register(receiver, &format!("n{number}"), number).unwrap();
    }
    world.deliver(receiver, &leader, Message::SnapshotWanted { id: 99 });
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.nodes[&leader].member().replica().touched.len(), 1, "it is being sent");
    (world, receiver, leader)
}

#[test]
fn a_donor_forgets_a_snapshot_that_its_receiver_has_given_up_although_nobody_begins_another() {
    let (mut world, receiver, leader) = with_abandoned_snapshot(40);
    for number in 0..10 {
        world.register(receiver, &format!("later{number}"), 1000 + number).unwrap();
    }
    world.run_for(Duration::from_secs(5));
    let member = world.nodes[&leader].member();
    assert!(member.replica().touched.is_empty(), "{:?}", member.replica().touched);
    assert_eq!(member.snapshots_under_way(), 0);
}

#[test]
fn what_a_donor_remembers_of_a_table_that_changes_is_bounded_and_the_receiver_begins_again() {
    // More than the sixteen chunks of eight names of which it remembers the changes anyway.
    let (mut world, receiver, leader) = with_abandoned_snapshot(40);
    for number in 0..200 {
        world.begin_register(receiver, &format!("later{number}"), 1000 + number);
    }
    world.run_until("all are granted", Duration::from_secs(1), |w| w.table(leader.as_str()).len() == 240);
    assert!(world.nodes[&leader].member().replica().touched.is_empty(), "it is too much to remember");
    let refused = world.sent.get("snapshot_refused").copied().unwrap_or_default();
    world.deliver(receiver, &leader, Message::SnapshotNext { id: 99, index: 1 });
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.sent.get("snapshot_refused").copied(), Some(refused + 1));
    assert_eq!(world.nodes[&leader].member().snapshots_under_way(), 0);
}

#[test]
fn an_answer_to_one_incarnation_is_never_for_the_next_although_both_come_in_one_wake_up() {
    let cluster = ClusterName::new("test").unwrap();
    let config = MemberConfig {
        me: name("a"),
        incarnation: Incarnation(1),
        keys: ClusterKeys::new(&cluster).registry(&RegistryName::new("r").unwrap()),
        seed: 1,
        tuning: Tuning::default(),
    };
    let mut member = Member::new(config, BTreeMap::<Name, Row>::new());
    let up =
        |incarnation, link| Input::LinkUp { node: name("b"), incarnation: Incarnation(incarnation), link };
    let asks = || Input::Message { from: name("b"), message: Message::SnapshotWanted { id: 1 } };
    let mut effects = Vec::new();
    let down = Input::LinkDown { node: name("b"), incarnation: Incarnation(2) };
    for input in [up(2, 5), asks(), down, asks(), up(3, 6), asks(), Input::Idle] {
        member.step(Alone::NOW, input, &mut effects);
    }
    let over = effects.iter().filter_map(|effect| match effect {
        Effect::Send { link, message: Message::SnapshotRefused { .. }, .. } => Some(*link),
        _ => None,
    });
    assert_eq!(over.collect::<Vec<_>>(), [Some(5), Some(6)], "who is not linked gets nothing");
}

#[test]
fn a_peer_that_lies_about_its_epoch_is_not_believed_and_whoever_leads_is_heard_as_before() {
    for seed in 40..44 {
        let (mut world, host, leader, epoch, _) = with_host(seed);
        let liar = other_than(&[&leader, &name(host)]);
        let end = LogEnd { position: Position(1 << 62), nonce: Nonce(1) };
        for to in [name(host), leader.clone()] {
            for epoch in [Epoch(1 << 62), epoch, Epoch(1)] {
                world.deliver(liar, &to, Message::Heartbeat { epoch, end });
            }
            world.deliver(liar, &to, Message::TransferSnapshot { epoch: Epoch(1 << 62) });
            world.deliver(liar, &to, Message::RunHandoff { epoch: Epoch(1 << 62) });
        }
        world.run_for(Duration::from_millis(5));
        for node in [host, leader.as_str()] {
            assert_eq!(
                world.nodes[&name(node)].member().leader(),
                Some((epoch, &leader)),
                "seed {seed}: {node}"
            );
        }
        let began = world.now;
        world.register(host, "x", 5).unwrap();
        assert!(world.now.since(began) < Duration::from_millis(20), "seed {seed}: nobody waits for the liar");
        // The next leader is heard as soon as its term is read.
        world.resign(leader.as_str(), epoch);
        world.run_until("the seat moves", Duration::from_secs(5), |w| w.term().epoch > epoch);
        world.settle();
        world.register(host, "y", 6).unwrap();
    }
}

#[test]
fn a_leader_that_is_heard_before_its_term_is_read_is_heard_when_it_is_and_the_term_is_read_at_once() {
    let (mut world, host, leader, epoch, _) = with_host(45);
    let looks = world.looks;
    let end = world.nodes[&name(host)].member().replica().end();
    let early = Message::Heartbeat { epoch: epoch.next(), end };
    for _ in 0..20 {
        world.deliver(leader.as_str(), &name(host), early.clone());
    }
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.looks, looks + 1, "once, although it is said often");
    assert_eq!(world.nodes[&name(host)].member().leader(), Some((epoch, &leader)));
    let mut view = world.nodes[&name(host)].member().view().clone();
    view.term.epoch = epoch.next();
    let node = world.nodes.get_mut(&name(host)).unwrap();
    node.core.step(Alone::NOW, Told::Member(Input::View(Arc::new(view))), &mut Vec::new());
    assert_eq!(node.member().leader(), Some((epoch.next(), &leader)), "what it said counts now");
}
