//! Single cores where something was given up, lost or late, and that once went wrong.

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

use crate::core::{
    catchup::{CatchUp, Sources},
    fence::Fence,
    handoff::{End, Handoff, Step, reset_conditions},
    host::OnTake,
    host::{Client, Host, Registrant, Surroundings},
    input::{CallId, Effect, Input, Notice, Now, OnLapse, Turn},
    leader::Leader,
    log::{Batch, CorruptBatch, Op},
    member::MemberConfig,
    message::{Message, Request, Verdict, Wish},
    name::Name,
    registry::RegistryCore,
    replica::{Replica, Staged},
    table::{RequestNumber, Row},
    tuning::Tuning,
    why::GivenUp,
};

fn keys() -> RegistryKeys {
    ClusterKeys::new(&ClusterName::new("test").unwrap()).registry(&RegistryName::new("r").unwrap())
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
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
        let me = name("a");
        let session = SessionId { node: me.clone(), incarnation: Incarnation(1), number: SessionNumber(1) };
        let mut host = Host::new();
        host.on_session_opened(session.clone());
        let replica = Replica::new(me, BTreeMap::new());
        host.proceed(Self::NOW, 8, &replica, &mut Vec::new());
        Self { host, replica, session: Arc::new(session) }
    }

    fn drop_all_claims(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.host.drop_all_claims(&mut effects);
        self.host.proceed(Self::NOW, 8, &self.replica, &mut effects);
        effects
    }

    /// What is sent to a leader of this epoch.
    fn flush(&mut self, epoch: u64) -> Vec<Message> {
        let leader = name("l");
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
        let caller = Client::new(Self::NOW.time, CallId(actor), Duration::from_secs(5));
        let registrant = Registrant {
            actor,
            kind: Kind(7),
            on_lapse: OnLapse::Suspend,
            on_take: OnTake::default(),
            meta: None,
        };
        self.host.register(Self::NOW, caller, what.into(), registrant, &mut Vec::new());
    }

    fn settle(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.host.settle(Self::NOW, &self.replica, &mut effects);
        effects
    }
}

fn requests(messages: &[Message]) -> Vec<Request> {
    let all = messages.iter().flat_map(|message| match message {
        Message::Requests { requests, .. } => requests.clone(),
        other => panic!("{other:?}"),
    });
    all.collect()
}

fn granted(token: Position) -> Verdict {
    Verdict::Granted { token, revision: token }
}

fn end(position: u64) -> LogEnd {
    LogEnd { position: Position(position), nonce: Nonce(position) }
}

#[test]
fn a_grant_of_a_log_that_was_given_up_is_asked_for_again_and_not_believed() {
    let mut alone = Alone::new();
    alone.register("x", 5);
    let asked = requests(&alone.flush(1));
    let granted = vec![(asked[0].number, granted(Position(7)))];
    alone.host.on_verdicts(Epoch(1), &alone.session.clone(), Position(7), granted.clone());
    assert!(alone.settle().is_empty(), "the replica is not there");
    alone.drop_all_claims();
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
    let granted = vec![(asked[0].number, granted(Position(7)))];
    alone.host.on_verdicts(Epoch(1), &alone.session.clone(), Position(7), granted);
    alone.replica.skip_to(end(7));
    assert_eq!(alone.settle().len(), 1);
    let effects = alone.drop_all_claims();
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
    let keys = keys();
    let mut replica = Replica::new(name("a"), BTreeMap::<Name, Row>::new());
    let mut catchup = CatchUp::new(7, 8);
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
    catchup.on_log(now, &mut replica, id, Some(&read), &keys, 1024).unwrap();
    now = now + Duration::from_secs(1);
    catchup.drive(Turn::new(now, &keys, &mut next_op, &mut effects), &replica, &sources);
    let asks = |e: &Effect| matches!(e, Effect::Send { to, message: Message::SnapshotWanted { .. }, .. } if *to == name("b"));
    assert!(effects.iter().any(asks), "{effects:?}");
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
    let (request, kind) = (RequestNumber(1), Kind(7));
    let register = Op::Register { name: "x".into(), session: 0, request, actor: Some(5), kind, meta: None };
    let batch = |position, op| Batch {
        epoch: Epoch(1),
        nonce: Nonce(position),
        position: Position(position),
        prev: LogEnd { position: Position(position - 1), nonce: Nonce(position - 1) },
        sessions: vec![alone.session.clone()],
        ops: vec![op],
    };
    let wrong = Op::Unregister { name: "x".into(), position: Position(9), why: GivenUp::Unregistered };
    let right = Op::Unregister { name: "x".into(), position: Position(10), why: GivenUp::Unregistered };
    let batches = [batch(10, register), batch(11, wrong), batch(12, right)];
    alone.replica.apply(&batches[0]);
    alone.replica.apply(&batches[1]);
    assert_eq!(alone.replica.count(), 1);
    alone.replica.apply(&batches[2]);
    assert_eq!(alone.replica.count(), 0);
}

#[test]
fn b6_an_answer_of_an_older_epoch_or_another_session_is_not_taken() {
    let mut alone = Alone::new();
    alone.register("x", 5);
    let asked = requests(&alone.flush(2));
    alone.replica.skip_to(end(9));
    let granted = vec![(asked[0].number, granted(Position(7)))];
    let session = alone.session.clone();
    let former = SessionId { number: SessionNumber(0), ..SessionId::clone(&session) };
    alone.host.on_verdicts(Epoch(1), &session, Position(7), granted.clone());
    alone.host.on_verdicts(Epoch(2), &former, Position(7), granted.clone());
    assert!(alone.settle().is_empty());
    alone.host.on_verdicts(Epoch(2), &session, Position(7), granted);
    assert_eq!(alone.settle().len(), 1);
}

fn two_terms() -> (RegistryKeys, Term, Term) {
    let later = |epoch| Term { epoch: Epoch(epoch), ..Term::vacant() };
    (keys(), later(1), later(2))
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
        admin: None,
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
    assert_eq!(reset_conditions(&view(true, false), &keys, false), None);
    assert!(reset_conditions(&view(true, true), &keys, false).is_some());
    let conditions = reset_conditions(&view(false, false), &keys, false).unwrap();

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

#[test]
fn an_answer_to_one_incarnation_is_never_for_the_next_although_both_come_in_one_wake_up() {
    let config = MemberConfig {
        me: name("a"),
        incarnation: Incarnation(1),
        keys: keys(),
        seed: 1,
        tuning: Tuning::default(),
    };
    let mut registry = RegistryCore::of_member(config, BTreeMap::<Name, Row>::new());
    let up = |incarnation, link| {
        let permits = callsign_transport::Permits::default();
        Input::LinkUp { node: name("b"), incarnation: Incarnation(incarnation), link, permits }
    };
    let asks = || Input::Message { from: name("b"), message: Message::SnapshotWanted { id: 1, below: 1 } };
    let mut effects = Vec::new();
    let down = Input::LinkDown { node: name("b"), incarnation: Incarnation(2) };
    for input in [up(2, 5), asks(), down, asks(), up(3, 6), asks(), Input::Idle] {
        registry.step_member(Alone::NOW, input, &mut effects);
    }
    let over = effects.iter().filter_map(|effect| match effect {
        Effect::Send { link, message: Message::SnapshotRefused { .. }, .. } => Some(*link),
        _ => None,
    });
    assert_eq!(over.collect::<Vec<_>>(), [Some(5), Some(6)], "who is not linked gets nothing");
}

#[test]
fn a_host_says_why_it_gives_a_name_up() {
    let mut alone = Alone::new();
    for (name, actor) in [("asked", 5), ("ended", 6)] {
        alone.register(name, actor);
    }
    let asked = requests(&alone.flush(1));
    let held = asked.iter().map(|request| (request.number, granted(Position(7)))).collect();
    alone.host.on_verdicts(Epoch(1), &alone.session.clone(), Position(7), held);
    alone.replica.skip_to(end(7));
    alone.settle();
    // The third one's actor ends before it is known whether it has the name.
    alone.register("late", 8);
    let late = requests(&alone.flush(1))[0].number;
    let caller = Client::new(Alone::NOW.time, CallId(9), Duration::from_secs(5));
    alone.host.unregister(caller, "asked".into(), None, &alone.replica, &mut Vec::new());
    for actor in [5, 6, 8] {
        alone.host.on_actor_ended(actor);
    }
    alone.host.proceed(Alone::NOW, 8, &alone.replica, &mut Vec::new());
    let held = vec![(late, granted(Position(7)))];
    alone.host.on_verdicts(Epoch(1), &alone.session.clone(), Position(7), held);
    alone.settle();
    let whys = requests(&alone.flush(1)).into_iter().map(|request| match request.wish {
        Wish::Unregister { why, .. } => (request.name.to_string(), why),
        other => panic!("{other:?}"),
    });
    let of = |name: &str, why| (name.to_owned(), why);
    let expected = [
        of("asked", GivenUp::Unregistered),
        of("ended", GivenUp::ActorEnded),
        of("late", GivenUp::ActorEnded),
    ];
    assert_eq!(whys.collect::<Vec<_>>(), expected);
}
