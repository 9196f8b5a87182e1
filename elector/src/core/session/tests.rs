//! Histories of one or two nodes. Times are milliseconds of one clock; S is 10 s, a session is trusted for 9490 ms.

use std::{collections::VecDeque, time::Duration};

use callsign_store::{
    Key, Value,
    ids::{Beat, ClusterName},
    mvcc::Mvcc,
    record::Record,
};

use super::*;
use crate::{
    core::record::{OpenMark, SessionFloor, SessionRecord},
    session::SessionTiming,
    tests::store::no_rows,
};

mod leave;
mod lineage;
mod observe;
mod observed;
mod own;
mod suspecting;
mod sweeping;

const S: u64 = 10_000;
const TRUST_WINDOW: u64 = 9_490;

fn ms(millis: u64) -> Time {
    Time(Duration::from_millis(millis))
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn keys() -> ClusterKeys {
    ClusterKeys::new(&ClusterName::new("c").unwrap())
}

fn config(name: &str, incarnation: u64) -> SessionConfig {
    SessionConfig {
        cluster: ClusterName::new("c").unwrap(),
        node: node(name),
        incarnation: Incarnation(incarnation),
        timing: SessionTiming::default(),
        seed: incarnation,
    }
}

fn id(name: &str, incarnation: u64, number: u64) -> SessionId {
    SessionId { node: node(name), incarnation: Incarnation(incarnation), number: SessionNumber(number) }
}

fn record(incarnation: u64, number: u64, beat: u64) -> SessionRecord {
    SessionRecord {
        incarnation: Incarnation(incarnation),
        number: SessionNumber(number),
        lease: Duration::from_millis(S),
        beat: Beat(beat),
        open: true,
    }
}

fn closed(incarnation: u64, number: u64, beat: u64) -> SessionRecord {
    SessionRecord { open: false, ..record(incarnation, number, beat) }
}

/// What a node's key holds.
fn stored(rows: &Mvcc, name: &str) -> Option<SessionRecord> {
    rows.get(&keys().session(&node(name))).map(|v| SessionRecord::from_value(v).unwrap())
}

fn put(rows: &mut Mvcc, name: &str, record: &SessionRecord) {
    put_value(rows, name, record.to_value());
    let mark = keys().open_mark(&node(name));
    let transaction = if record.open {
        Transaction::new().put(mark, OpenMark(record.number).to_value())
    } else {
        Transaction::new().clear(mark)
    };
    rows.apply(&transaction);
}

/// Takes a closed record away, and raises the floor.
fn sweep(rows: &mut Mvcc, name: &str, floor: u64) {
    let floor = SessionFloor(SessionNumber(floor)).to_value();
    rows.apply(&Transaction::new().clear(keys().session(&node(name))).put(keys().session_floor(), floor));
}

fn put_value(rows: &mut Mvcc, name: &str, value: Value) {
    rows.apply(&Transaction::new().put(keys().session(&node(name)), value));
}

/// A store without rows, and a host over it.
fn with(host: fn(&mut Mvcc) -> Host) -> (Mvcc, Host) {
    let mut rows = no_rows();
    let host = host(&mut rows);
    (rows, host)
}

/// The host of most histories: "a" in incarnation 7, opened at 0.
fn opened(rows: &mut Mvcc) -> Host {
    Host::opened("a", 7, rows)
}

/// A core, its clock, and what it asked for and was not given yet.
struct Host {
    core: Session,
    now: Time,
    wake: Option<Time>,
    requests: VecDeque<Effect>,
    proofs: Vec<(NodeName, Incarnation)>,
    dead: Vec<(NodeName, Incarnation)>,
    events: Vec<SessionEvent>,
    /// As the trust handle has it.
    until: Option<Time>,
}

impl Host {
    fn new(name: &str, incarnation: u64) -> Self {
        Self {
            core: Session::new(config(name, incarnation)).unwrap(),
            now: Time::ZERO,
            wake: None,
            requests: VecDeque::new(),
            proofs: Vec::new(),
            dead: Vec::new(),
            events: Vec::new(),
            until: None,
        }
    }

    /// A host whose session was opened at 0, with beat 1, and that has looked at the others.
    fn opened(name: &str, incarnation: u64, rows: &mut Mvcc) -> Self {
        let mut host = Self::new(name, incarnation);
        host.feed(Input::Start);
        host.run(rows, 0);
        let number = stored(rows, name).unwrap().number;
        assert_eq!(host.take_events(), [SessionEvent::Opened { session: id(name, incarnation, number.0) }]);
        host
    }

    fn feed(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.core.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Read { .. } | Effect::Commit { .. } => self.requests.push_back(effect),
                Effect::Prove { node, incarnation } => self.proofs.push((node, incarnation)),
                Effect::Trust { until, .. } => self.until = Some(until),
                Effect::Lapse => self.until = None,
                Effect::Emit(event) => self.events.push(event),
                Effect::WakeAt(at) => self.wake = Some(at),
            }
        }
    }

    /// Lets time pass, and wakes the core at the end only.
    fn sleep_to(&mut self, at: u64) {
        self.now = ms(at);
        self.feed(Input::Wake);
    }

    /// Lets time pass, waking the core whenever it asked for it, until it asks the store for something.
    fn until_request(&mut self, limit: u64) {
        while self.requests.is_empty() {
            let at = self.wake.filter(|at| *at <= ms(limit)).expect("no request in time");
            self.now = self.now.max(at);
            self.feed(Input::Wake);
        }
    }

    /// The same, until it commits something. Reads are answered.
    fn until_commit(&mut self, rows: &mut Mvcc, limit: u64) {
        while !matches!(self.requests.front(), Some(Effect::Commit { .. })) {
            assert!(self.now <= ms(limit), "no commit in time");
            self.serve_one(rows);
        }
    }

    /// Lets time pass, waking the core whenever it asked for it, with a store that answers at once.
    fn run(&mut self, rows: &mut Mvcc, to: u64) {
        loop {
            self.serve(rows);
            match self.wake.filter(|at| *at <= ms(to)) {
                Some(at) => {
                    self.now = self.now.max(at);
                    self.wake = None;
                    self.feed(Input::Wake);
                }
                None => break,
            }
        }
        self.now = ms(to);
    }

    /// Answers all requests and questions.
    fn serve(&mut self, rows: &mut Mvcc) {
        loop {
            if let Some((node, incarnation)) = self.proofs.pop() {
                let is_dead = self.dead.contains(&(node.clone(), incarnation));
                let proof = if is_dead { Proof::Dead } else { Proof::None };
                self.feed(Input::Proof { node, incarnation, proof });
            } else if let Some(request) = self.requests.pop_front() {
                self.answer(rows, request);
            } else {
                return;
            }
        }
    }

    /// Answers the oldest request.
    fn answer_next(&mut self, rows: &mut Mvcc) {
        let request = self.requests.pop_front().expect("a request");
        self.answer(rows, request);
    }

    /// Answers the oldest request, or wakes the core when it asked for it.
    fn serve_one(&mut self, rows: &mut Mvcc) {
        if let Some(request) = self.requests.pop_front() {
            self.answer(rows, request);
        } else {
            self.now = self.wake.expect("nothing to do").max(self.now);
            self.feed(Input::Wake);
        }
    }

    fn answer(&mut self, rows: &mut Mvcc, request: Effect) {
        match request {
            Effect::Read { id, reads } => {
                let result = Ok(rows.read(&reads, None).unwrap());
                self.feed(Input::ReadDone { id, result });
            }
            Effect::Commit { id, transaction } => {
                let outcome = rows.apply(&transaction);
                self.feed(Input::CommitDone { id, outcome });
            }
            other => panic!("{other:?} is no request"),
        }
    }

    /// The only request, which must be a commit.
    fn take_commit(&mut self) -> (RequestId, Transaction) {
        match self.requests.pop_front() {
            Some(Effect::Commit { id, transaction }) => (id, transaction),
            other => panic!("{other:?} is no commit"),
        }
    }

    /// Answers a commit as unknown.
    fn unknown(&mut self, id: RequestId) {
        self.feed(Input::CommitDone { id, outcome: CommitOutcome::Unknown });
    }

    fn take_events(&mut self) -> Vec<SessionEvent> {
        std::mem::take(&mut self.events)
    }
}

/// Whether the commit writes the node's key so.
fn writes(transaction: &Transaction, name: &str, record: &SessionRecord) -> bool {
    let put = Transaction::new().put(keys().session(&node(name)), record.to_value());
    transaction.writes.first() == put.writes.first()
}

/// Whether the commit depends on the node's key being so, on the lineage, and, where there is no record, on no floor; and on
/// nothing else.
fn checks(transaction: &Transaction, name: &str, record: Option<&SessionRecord>) -> bool {
    let mut check = Transaction::new().check(keys().session(&node(name)), record.map(Record::to_value));
    if record.is_none() {
        check = check.check(keys().session_floor(), None);
    }
    let (lineage, rest): (Vec<_>, Vec<_>) =
        transaction.checks.iter().cloned().partition(|check| check.key == keys().lineage());
    lineage.len() == 1 && rest == check.checks
}
