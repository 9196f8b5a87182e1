mod commits;
mod memory;
mod requests;

use callsign_elector::{
    elector::View,
    record::{SessionRecord, Term},
};
use callsign_store::{
    Piece, TooLarge, Write,
    ids::{Beat, ClusterName, Incarnation, RegistryName, SessionNumber},
    keys::ClusterKeys,
};
use callsign_transport::{Kind, Permits};

use super::*;
use crate::core::{input::Tell, member::nothing_known, message::Request, permitted::Permitted, table::Row};

const MILLIS: fn(u64) -> Duration = Duration::from_millis;

/// A moment less.
fn just_before(time: Duration) -> Duration {
    time.saturating_sub(MILLIS(1))
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(name: &str) -> Arc<SessionId> {
    Arc::new(SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) })
}

fn record(number: u64, open: bool) -> SessionRecord {
    let (incarnation, number) = (Incarnation(1), SessionNumber(number));
    SessionRecord { incarnation, number, lease: MILLIS(9000), beat: Beat(1), open }
}

/// A leader on node l of epoch 5, its replica, and what its elector has read.
struct Led {
    leader: Leader,
    replica: Replica<BTreeMap<Name, Row>>,
    view: View,
    permitted: Permitted,
    keys: RegistryKeys,
    now: Time,
    next_op: u64,
    members: Vec<NodeName>,
}

impl Led {
    /// It has not opened its epoch yet.
    fn elected(tuning: Tuning) -> Self {
        let cluster = ClusterKeys::new(&ClusterName::new("test").unwrap());
        let keys = cluster.registry(&RegistryName::new("r").unwrap());
        let term = Term { epoch: Epoch(5), ..Term::vacant() };
        let fence = Fence { term: term.to_value(), commit: None, lineage: None };
        let at = (LineageNumber::default(), term.epoch);
        let leader = Leader::new(node("l"), keys.clone(), at, fence, 1, tuning);
        let mut replica = Replica::new(node("l"), BTreeMap::new());
        replica.base_on_nothing();
        let mut led = Self {
            leader,
            replica,
            view: View { term, ..nothing_known() },
            permitted: Permitted::new(node("l")),
            keys,
            now: Time(Duration::from_secs(100)),
            next_op: 0,
            members: Vec::new(),
        };
        for name in ["a", "b", "c"] {
            led.permitted.linked(&node(name), Permits::default());
            led.view.sessions.insert(node(name), Some(record(1, true)));
        }
        led
    }

    fn open_with(tuning: Tuning) -> Self {
        let mut led = Self::elected(tuning);
        let opening = led.opens(false, Vec::new());
        let (outcome, _) = led.committed(&opening);
        assert!(outcome.opened && led.leader.is_open());
        assert_eq!(led.wakes_after(MILLIS(0)), [], "nobody is there to be told");
        led
    }

    fn open() -> Self {
        Self::open_with(Tuning::default())
    }

    fn opens(&mut self, resets: bool, conditions: Conditions) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut turn = Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects);
        self.leader.open(&mut turn, &self.replica, resets, conditions);
        effects
    }

    /// It does what it can do.
    fn proceeds(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut turn = Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects);
        self.leader.proceed(&mut turn, &self.replica, &self.permitted);
        effects
    }

    /// Time passes, and it is woken.
    fn wakes_after(&mut self, time: Duration) -> Vec<Effect> {
        self.now = self.now + time;
        let mut effects = Vec::new();
        let mut turn = Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects);
        self.leader.on_wake(&mut turn, &self.replica, &self.members);
        effects
    }

    /// The commit among these effects ends.
    fn ends(&mut self, asked: &[Effect], outcome: &CommitOutcome) -> (Outcome, Vec<Effect>) {
        let (id, _) = commit(asked);
        let mut effects = Vec::new();
        let mut turn = Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects);
        let outcome = self.leader.on_commit(&mut turn, &mut self.replica, id, outcome, &self.members);
        (outcome, effects)
    }

    fn committed(&mut self, asked: &[Effect]) -> (Outcome, Vec<Effect>) {
        self.ends(asked, &CommitOutcome::Committed(Version(7)))
    }

    /// A read ends with these values, and says version 8.
    fn reads(&mut self, id: OpId, values: Option<&[Option<Value>]>) -> (Outcome, Vec<Effect>) {
        let answer = |value: &Option<Value>| value.iter().map(|value| (Vec::new(), value.clone())).collect();
        let result = match values {
            Some(values) => {
                Ok(ReadResult { version: Version(8), answers: values.iter().map(answer).collect() })
            }
            None => Err(StoreError::Unavailable("gone".into())),
        };
        let mut effects = Vec::new();
        let mut turn = Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects);
        let outcome = self.leader.on_read(&mut turn, &mut self.replica, id, &result, &self.members);
        (outcome, effects)
    }

    /// What the store has, as this leader knows it.
    fn fence(&self) -> Vec<Option<Value>> {
        let end = self.replica.end();
        vec![Some(self.view.term.to_value()), end.to_record(), None]
    }

    fn wishes(&mut self, of: &str, acknowledged: u64, wishes: Vec<(u64, &str, Wish)>) -> Vec<Effect> {
        let requests = wishes.into_iter().map(|(number, name, wish)| Request {
            number: RequestNumber(number),
            name: name.into(),
            wish,
        });
        let mut effects = Vec::new();
        let (requests, acknowledged) = (requests.collect(), RequestNumber(acknowledged));
        let Self { leader, replica, view, .. } = self;
        leader.on_requests(replica, session(of), acknowledged, requests, view, &mut effects);
        effects
    }

    /// A node asks for names, each by a request of that number.
    fn asks(&mut self, of: &str, names: &[(u64, &str)]) -> Vec<Effect> {
        self.wishes(of, 0, names.iter().map(|(number, name)| (*number, *name, register())).collect())
    }

    fn sees(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.leader.on_view(&self.view, &self.replica, &mut effects);
        effects
    }

    /// The elector reads that the session of a node is closed.
    fn sees_closed(&mut self, name: &str) -> Vec<Effect> {
        self.view.sessions.insert(node(name), Some(record(1, false)));
        self.sees()
    }
}

fn register() -> Wish {
    Wish::Register { actor: Some(3), kind: Kind(7), meta: None }
}

/// The one commit among these effects.
fn commit(effects: &[Effect]) -> (OpId, &Transaction) {
    let mut commits = effects.iter().filter_map(|effect| match effect {
        Effect::Commit { id, transaction } => Some((*id, transaction)),
        _ => None,
    });
    let commit = commits.next().unwrap_or_else(|| panic!("no commit in {effects:?}"));
    assert_eq!(commits.next(), None);
    commit
}

/// The batch that it writes.
fn batch(effects: &[Effect]) -> Batch {
    let [Write::Put { value, .. }, Write::Put { .. }] = &commit(effects).1.writes[..] else {
        panic!("{effects:?}")
    };
    Batch::decode(value).unwrap()
}

/// The names that it registers, or, in brackets, the node whose names it frees.
fn names(effects: &[Effect]) -> Vec<String> {
    let batch = batch(effects);
    let name = |op: &Op| match op {
        Op::Register { name, .. } | Op::Transfer { name, .. } => name.to_string(),
        Op::HostGone { session } => format!("({})", batch.sessions[*session as usize].node),
        other => panic!("{other:?}"),
    };
    batch.ops.iter().map(name).collect()
}

/// The one read among these effects, and how many keys it reads.
fn read(effects: &[Effect]) -> (OpId, usize) {
    let [Effect::Read { id, reads }] = effects else { panic!("no read in {effects:?}") };
    (*id, reads.len())
}

/// The versions by which it checks its fence.
fn seen_at(effects: &[Effect]) -> Vec<Option<Version>> {
    commit(effects).1.checks.iter().map(|check| check.seen_at).collect()
}

fn verdicts(effects: &[Effect]) -> Vec<(String, Vec<u64>)> {
    let verdicts = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to, message: Message::Verdicts { verdicts, .. }, .. } => {
            Some((to.to_string(), verdicts.iter().map(|(number, _)| number.0).collect()))
        }
        _ => None,
    });
    verdicts.collect()
}

const UNAVAILABLE: fn() -> CommitOutcome = || CommitOutcome::Unavailable("full".into());

const TOO_LARGE: CommitOutcome = CommitOutcome::TooLarge(TooLarge { what: Piece::Value, size: 9, limit: 8 });
