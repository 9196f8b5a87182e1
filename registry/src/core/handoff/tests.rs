use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use callsign_elector::{
    lineage::LineageNumber,
    record::{Lineage, MemberRow, SessionRecord},
};
use callsign_store::{
    Version,
    ids::{Beat, ClusterName, Incarnation, Nonce, Position, RegistryName, SessionId, SessionNumber, Token},
    keys::ClusterKeys,
};

use super::*;
use crate::core::member::nothing_known;

const MILLIS: fn(u64) -> Duration = Duration::from_millis;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn keys() -> RegistryKeys {
    ClusterKeys::new(&ClusterName::new("test").unwrap()).registry(&RegistryName::new("r").unwrap())
}

/// A member that was elected.
struct Elected {
    handoff: Handoff,
    keys: RegistryKeys,
    now: Time,
    next_op: u64,
}

impl Elected {
    fn after(old: Option<&str>) -> Self {
        let (now, mut effects) = (Time(Duration::from_secs(100)), Vec::new());
        let term = Term { epoch: Epoch(5), ..Term::vacant() };
        let handoff = Handoff::begin(now, term, LineageId::default(), old.map(node), &mut effects);
        let asks = |old| Effect::send(node(old), Message::TransferSnapshot { epoch: Epoch(5) });
        assert_eq!(effects, old.map(asks).into_iter().collect::<Vec<_>>());
        Self { handoff, keys: keys(), now, next_op: 0 }
    }

    /// The read that it begins after so long.
    fn reads_after(&mut self, millis: u64) -> Option<OpId> {
        self.now = self.now + MILLIS(millis);
        let mut effects = Vec::new();
        let step = self.handoff.proceed(Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects));
        assert_eq!(step, Step::Wait);
        effects.pop().map(|effect| match effect {
            Effect::Read { id, .. } => id,
            other => panic!("{other:?}"),
        })
    }

    /// The read shows these, and the end that it takes for the log's.
    fn shows(&mut self, id: OpId, values: [Option<Vec<u8>>; 3]) -> Option<End> {
        let answers = values.map(|value| value.into_iter().map(|value| (Vec::new(), value)).collect());
        let result = ReadResult { version: Version(1), answers: answers.into() };
        self.handoff.on_read(self.now, id, &Ok(result));
        let mut effects = Vec::new();
        match self.handoff.proceed(Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects)) {
            Step::CatchUp(end) => Some(end),
            Step::Wait => None,
        }
    }

    fn wakes_in(&self) -> Option<Duration> {
        self.handoff.wakes_at().map(|at| at.since(self.now))
    }
}

fn term(epoch: u64) -> Vec<u8> {
    Term { epoch: Epoch(epoch), ..Term::vacant() }.to_value()
}

#[test]
fn the_old_leader_is_waited_for_until_it_has_stepped_down_or_cannot() {
    let mut elected = Elected::after(Some("b"));
    assert_eq!((elected.reads_after(0), elected.wakes_in()), (None, Some(TRANSFER)));
    // What somebody else says, or of another epoch, is of no account.
    elected.handoff.on_transferred(elected.now, &node("c"), Epoch(5));
    elected.handoff.on_transferred(elected.now, &node("b"), Epoch(4));
    elected.handoff.on_link_down(elected.now, &node("c"));
    assert_eq!(elected.reads_after(999), None);
    let mut others = [elected.handoff.clone(), elected.handoff.clone()];
    assert!(elected.reads_after(1).is_some(), "it hangs");
    others[0].on_transferred(elected.now, &node("b"), Epoch(5));
    others[1].on_link_down(elected.now, &node("b"));
    for handoff in others {
        let mut elected = Elected { handoff, keys: keys(), ..elected };
        assert!(elected.reads_after(0).is_some());
    }
    let mut elected = Elected::after(None);
    let id = elected.reads_after(0);
    assert!(id.is_some() && elected.reads_after(0).is_none());
    // By now it does not matter what becomes of others.
    elected.handoff.on_link_down(elected.now, &node("b"));
    elected.handoff.on_transferred(elected.now, &node("b"), Epoch(5));
    assert_eq!(elected.reads_after(0), None);
}

#[test]
fn the_end_of_the_log_is_read_until_it_is_read_under_the_own_term() {
    let end = LogEnd { position: Position(9), nonce: Nonce(8) };
    let lineage = |number| {
        let id = LineageId { number: LineageNumber(number), nonce: Nonce(number) };
        Some(Lineage { id, ..Lineage::default() }.to_value())
    };
    for shown in [
        [Some(term(4)), Some(end.to_value()), None],
        [None, Some(end.to_value()), None],
        [Some(term(5)), Some(vec![0xff]), None],
        [Some(term(5)), Some(end.to_value()), lineage(1)],
        [Some(term(5)), Some(end.to_value()), Some(vec![0xff])],
    ] {
        let mut elected = Elected::after(None);
        let id = elected.reads_after(0).unwrap();
        assert_eq!(elected.shows(id, shown.clone()), None, "{shown:?}");
        assert_eq!((elected.wakes_in(), elected.reads_after(49)), (Some(READ_RETRY), None));
        assert!(elected.reads_after(1).is_some());
    }
    let mut elected = Elected::after(None);
    let first = elected.reads_after(0).unwrap();
    elected.handoff.on_read(elected.now, first, &Err(StoreError::Unavailable("gone".into())));
    assert_eq!(elected.reads_after(49), None);
    let second = elected.reads_after(1).unwrap();
    assert_eq!(elected.wakes_in(), Some(READ_TIMEOUT));
    assert_eq!(elected.reads_after(999), None);
    let third = elected.reads_after(1).unwrap();
    let shown = [Some(term(5)), Some(end.to_value()), lineage(0)];
    assert_eq!(elected.shows(second, shown.clone()), None, "it is late");
    let found = elected.shows(third, shown).unwrap();
    let fence = Fence { term: term(5), commit: Some(end.to_value()), lineage: lineage(0) };
    assert_eq!(found, End { fence, at: Some(end) });
    assert_eq!(elected.wakes_in(), None);
    // It is not that of the log that the replica has.
    elected.handoff.read_again(elected.now);
    assert_eq!((elected.wakes_in(), elected.reads_after(49)), (Some(READ_RETRY), None));
    let id = elected.reads_after(1).unwrap();
    assert_eq!(elected.shows(id, [Some(term(5)), None, None]).unwrap().at, None, "it was never opened");
}

fn row(name: &str, empty: bool) -> MemberRow {
    let session = SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) };
    MemberRow {
        token: Token(1),
        session,
        address: String::new(),
        admin: None,
        priority: 1,
        synced: false,
        empty,
        accuses: None,
        draining: false,
    }
}

#[test]
fn a_reset_is_written_only_where_nobody_may_hold_a_name_and_nobody_comes_meanwhile() {
    let keys = keys();
    let record = |open| {
        let (incarnation, number, lease) = (Incarnation(1), SessionNumber(1), MILLIS(9000));
        SessionRecord { incarnation, number, lease, beat: Beat(1), open }
    };
    let mut view = nothing_known();
    view.members = BTreeMap::from([(node("a"), row("a", true)), (node("b"), row("b", false))]);
    view.queued = Some(BTreeSet::from([node("a"), node("c")]));
    let session = |name: &str| keys.cluster().session(&node(name));
    let read = [keys.member(&node("a")), keys.member(&node("b")), session("b"), keys.queue()];
    let raw = read.iter().enumerate().map(|(at, key)| (key.clone(), vec![u8::try_from(at).unwrap()]));
    view.raw = Arc::new(raw.collect());
    view.sessions.insert(node("b"), Some(record(true)));
    assert_eq!(reset_conditions(&view, &keys, false), None, "one that lives may have names");
    view.sessions.insert(node("b"), Some(record(false)));
    let as_read = |key: &Vec<u8>| (key.clone(), view.raw(key));
    let expected = [
        as_read(&keys.member(&node("a"))),
        as_read(&session("b")),
        as_read(&keys.member(&node("b"))),
        // It waits to become one.
        (keys.member(&node("c")), None),
        as_read(&keys.queue()),
    ];
    assert_eq!(reset_conditions(&view, &keys, false), Some(expected.to_vec()));
    assert!(expected.iter().filter(|(_, value)| value.is_none()).count() == 1);
    let fewer = [&expected[..1], &expected[2..]].concat();
    assert_eq!(reset_conditions(&view, &keys, true), Some(fewer), "checks are counted");
    view.queued = None;
    assert_eq!(reset_conditions(&view, &keys, false), None, "more wait than were read");
}
