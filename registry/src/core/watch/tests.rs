mod remembering;

use std::sync::Arc;

use callsign_elector::record::LogEnd;
use callsign_store::{
    ids::{Epoch, Incarnation, NodeName, Nonce, SessionId, SessionNumber},
    random::splitmix,
};
use callsign_transport::Kind;

use super::*;
use crate::core::{
    entry::Entry,
    log::{Batch, Op},
    message::Chunk,
    meta::Meta,
    name::Name,
    replica::Staged,
    table::{RequestNumber, Row},
    why::{GivenUp, Why},
};

type Rows = BTreeMap<Name, Row>;

const SMALL: fn() -> Tuning =
    || Tuning { watch_bytes: 3000, missed_bytes: 1500, watch_looks: 64, ..Tuning::default() };

/// A replica, and who watches it.
struct Node {
    replica: Replica<Rows>,
    watchers: Watchers,
    position: u64,
    now: Time,
}

fn session(number: u64) -> Arc<SessionId> {
    let node = NodeName::new(if number.is_multiple_of(2) { "a" } else { "b" }).unwrap();
    Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(number) })
}

fn zone(zone: &str) -> Meta {
    Meta::new(&BTreeMap::from([("zone", zone)])).unwrap()
}

fn register(name: &str, meta: Option<Meta>) -> Op {
    Op::Register {
        name: name.into(),
        session: 0,
        request: RequestNumber(1),
        actor: Some(5),
        kind: Kind(7),
        meta,
    }
}

fn update(name: &str, token: u64, meta: Option<Meta>) -> Op {
    Op::Update { name: name.into(), position: Position(token), request: RequestNumber(2), meta }
}

fn unregister(name: &str, token: u64) -> Op {
    Op::Unregister { name: name.into(), position: Position(token), why: GivenUp::ActorEnded }
}

impl Node {
    fn new(tuning: Tuning) -> Self {
        let mut replica = Replica::new(NodeName::new("l").unwrap(), Rows::new());
        replica.base_on_nothing();
        Self { replica, watchers: Watchers::new(tuning), position: 0, now: Time(Duration::from_secs(100)) }
    }

    fn open(&mut self, id: u64, select: Select, from: Option<u64>, room: usize) {
        self.watchers.open(&mut self.replica, (WatchId(id), select), from.map(Position), room);
    }

    /// Applies a batch of one session, and returns its position.
    fn apply_of(&mut self, number: u64, ops: Vec<Op>) -> u64 {
        let prev = self.replica.end();
        self.position += 1;
        let (epoch, nonce, position) = (Epoch(1), Nonce(self.position), Position(self.position));
        self.replica.apply(&Batch { epoch, nonce, position, prev, sessions: vec![session(number)], ops });
        self.position
    }

    fn apply(&mut self, ops: Vec<Op>) -> u64 {
        self.apply_of(2, ops)
    }

    /// What a watch is given in a step.
    fn given(&mut self, id: u64) -> Vec<Given> {
        let mut effects = Vec::new();
        self.watchers.proceed(self.now, &mut self.replica, &mut effects);
        let of = |effect| match effect {
            Effect::Given { watch, events } if watch == WatchId(id) => events,
            _ => Vec::new(),
        };
        effects.into_iter().flat_map(of).collect()
    }

    /// The same, as text.
    fn told(&mut self, id: u64) -> Vec<String> {
        self.given(id).iter().map(text).collect()
    }

    fn sweep(&mut self, names: usize) {
        self.replica.proceed(names);
    }
}

fn text(given: &Given) -> String {
    let text = match &given.event {
        WatchEvent::Present { name, entry } => format!("{name} {}", entry.revision().0),
        WatchEvent::Current { position } => format!("current {}", position.0),
        WatchEvent::Change(change) => {
            let revision = |entry: &Option<Entry>| {
                entry.as_ref().map_or("-".to_owned(), |entry| entry.revision().0.to_string())
            };
            let (was, now) = (revision(&change.was), revision(&change.now));
            format!("{} at {} {was} > {now} {}", change.name, change.position.0, change.why)
        }
        WatchEvent::Bookmark { position } => format!("bookmark {}", position.0),
        other => format!("{other:?}"),
    };
    given.passes.map_or(text.clone(), |passes| format!("{text} | {}", passes.0))
}

#[test]
fn the_present_state_comes_first_and_then_each_change_with_its_reason() {
    let mut node = Node::new(Tuning::default());
    node.apply(vec![register("x", None)]);
    node.apply(vec![register("y", None)]);
    node.open(1, Select::all(), None, 100);
    assert_eq!(node.told(1), ["y 2", "x 1", "current 2 | 2"]);
    node.apply(vec![unregister("x", 1), register("z", None)]);
    node.apply(vec![update("y", 2, Some(zone("eu")))]);
    node.apply(vec![Op::Unregister { name: "y".into(), position: Position(2), why: GivenUp::Unregistered }]);
    let expected = [
        "x at 3 1 > - actor ended",
        "z at 3 - > 3 registered | 3",
        "y at 4 2 > 4 updated | 4",
        "y at 5 4 > - unregistered | 5",
    ];
    assert_eq!(node.told(1), expected);
    assert!(node.told(1).is_empty());
}

#[test]
fn a_change_is_given_if_it_is_asked_for_before_it_or_after() {
    let mut node = Node::new(Tuning::default());
    node.open(1, Select::prefix("s").meta_eq("zone", "eu").unwrap(), None, 100);
    node.open(2, Select::all().node("b"), None, 100);
    assert_eq!(node.told(1), ["current 0 | 0"]);
    node.apply(vec![register("s", None), register("t", Some(zone("eu")))]);
    node.apply(vec![update("s", 1, Some(zone("eu")))]);
    node.apply(vec![update("s", 1, Some(zone("us")))]);
    node.apply(vec![update("s", 1, Some(zone("de")))]);
    assert_eq!(node.told(1), ["s at 2 1 > 2 updated | 2", "s at 3 2 > 3 updated | 3"]);
    // Nothing concerns the other, and it is told only how far it is.
    node.now = node.now + BOOKMARKED;
    assert_eq!(node.told(2), ["bookmark 4 | 4"]);
    node.now = node.now + BOOKMARKED;
    assert!(node.told(2).is_empty(), "it knows");
}

const BOOKMARKED: Duration = Duration::from_secs(1);

#[test]
fn a_reader_continues_where_it_was_and_is_told_if_it_cannot() {
    let mut node = Node::new(Tuning::default());
    node.apply(vec![register("x", None)]);
    node.open(1, Select::all(), Some(1), 100);
    assert!(node.told(1).is_empty());
    node.apply(vec![register("y", None)]);
    assert_eq!(node.told(1), ["y at 2 - > 2 registered | 2"]);
    node.watchers.close(node.now, WatchId(1));
    node.apply(vec![register("z", None)]);
    // Nobody watches now, and it is remembered for a while.
    node.open(2, Select::all(), Some(2), 100);
    assert_eq!(node.told(2), ["z at 3 - > 3 registered | 3"]);
    // This was before anybody watched.
    node.open(3, Select::all(), Some(0), 100);
    assert_eq!(node.told(3), ["Reset", "z 3", "y 2", "x 1", "current 3 | 3"]);
    // Another node was further.
    node.open(4, Select::all(), Some(4), 100);
    assert!(node.told(4).is_empty());
    node.apply(vec![unregister("x", 1)]);
    node.apply(vec![unregister("y", 2)]);
    assert_eq!(node.told(4), ["y at 5 2 > - actor ended | 5"]);
}

#[test]
fn nothing_is_remembered_where_nobody_watches() {
    let mut node = Node::new(Tuning::default());
    node.apply(vec![register("x", None)]);
    assert!(!node.replica.memory().is_on());
    node.open(1, Select::all(), None, 100);
    node.watchers.close(node.now, WatchId(1));
    node.told(1);
    assert!(node.replica.memory().is_on());
    node.now = node.now + REMEMBERED_FOR;
    node.told(1);
    assert!(!node.replica.memory().is_on());
    node.open(2, Select::all(), Some(1), 100);
    node.apply(vec![register("y", None)]);
    assert_eq!(node.told(2), ["y at 2 - > 2 registered | 2"]);
}

#[test]
fn a_reader_gets_no_more_than_it_has_room_for_and_misses_nothing_that_is_remembered() {
    let mut node = Node::new(Tuning::default());
    node.open(1, Select::all(), None, 2);
    node.apply(vec![register("x", None), register("y", None), register("z", None)]);
    assert_eq!(node.told(1), ["z 1", "y 1"]);
    assert!(node.told(1).is_empty() && !node.watchers.owes());
    node.watchers.has_room(WatchId(1), 2);
    assert_eq!(node.told(1), ["x 1", "current 1 | 1"]);
    node.watchers.has_room(WatchId(1), 1);
    node.apply(vec![unregister("x", 1), unregister("y", 1)]);
    assert_eq!(node.told(1), ["x at 2 1 > - actor ended"]);
    node.watchers.has_room(WatchId(1), 9);
    assert_eq!(node.told(1), ["y at 2 1 > - actor ended | 2"]);
}

#[test]
fn a_slow_reader_is_told_so_and_gets_the_last_state_of_what_it_missed() {
    let mut node = Node::new(SMALL());
    node.open(1, Select::all(), None, 1);
    assert_eq!(node.told(1), ["current 0 | 0"]);
    node.apply(vec![register("x", None), register("y", None), register("w", None)]);
    for _ in 0..4 {
        let at = node.position;
        let meta = zone(&at.to_string());
        node.apply(vec![update("x", 1, Some(meta))]);
    }
    node.apply(vec![unregister("y", 1)]);
    for name in ["p", "q"] {
        node.apply(vec![register(name, None)]);
        assert!(node.told(1).is_empty());
    }
    node.watchers.has_room(WatchId(1), 100);
    let told = node.told(1);
    assert_eq!(told[..2], ["Lagged", "w at 1 - > 1 unknown"]);
    let all = told.join(", ");
    assert!(all.contains("x at") && all.ends_with("q at 8 - > 8 registered | 8"), "{all}");
    // More than that: everything anew.
    let mut node = Node::new(SMALL());
    node.open(1, Select::all(), None, 1);
    node.told(1);
    for number in 0..20 {
        node.apply(vec![register(&format!("n{number}"), None)]);
        assert!(node.told(1).is_empty());
    }
    node.watchers.has_room(WatchId(1), 100);
    let mut told = node.told(1);
    while node.watchers.owes() {
        told.extend(node.told(1));
    }
    assert_eq!((told[0].as_str(), told.len()), ("Reset", 22));
    assert_eq!(told.last().unwrap(), "current 20 | 20");
}

#[test]
fn names_of_a_session_that_is_gone_come_before_anything_later() {
    let mut node = Node::new(Tuning::default());
    node.apply(vec![register("x", None), register("y", None), register("z", None)]);
    node.open(1, Select::all(), Some(1), 100);
    node.told(1);
    node.apply(vec![Op::HostGone { session: 0 }]);
    // Before it is swept somebody else has it.
    node.apply_of(3, vec![register("y", None)]);
    assert_eq!(node.told(1), ["y at 2 1 > - node gone"], "the other two are not swept");
    node.sweep(1);
    assert_eq!(node.told(1).len(), 1);
    node.sweep(5);
    let told = node.told(1);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].ends_with("at 2 1 > - node gone | 2"), "{told:?}");
    assert_eq!(told[1], "y at 3 - > 3 registered | 3");
}

#[test]
fn across_what_is_no_continuation_everything_is_given_anew() {
    let mut node = Node::new(Tuning::default());
    node.apply(vec![register("x", None)]);
    node.open(1, Select::all(), None, 100);
    assert_eq!(node.told(1).len(), 2);
    node.apply(vec![Op::Reset]);
    assert_eq!(node.told(1), ["Reset", "current 2 | 2"]);
    // A snapshot is put in place of it, in slices.
    let mut source = Node::new(Tuning::default());
    source.position = 6;
    source.replica.skip_to(LogEnd { position: Position(6), nonce: Nonce(6) });
    source.apply(vec![register("p", None), register("q", None)]);
    let mut chunk = Chunk::default();
    for name in ["p", "q"] {
        chunk.push(name.into(), source.replica.row(name));
    }
    let mut staged = Staged::default();
    staged.take(chunk).unwrap();
    assert!(node.replica.install(staged, Epoch(1), source.replica.end()));
    assert!(node.told(1).is_empty(), "it is no prefix of the log");
    while node.replica.is_installing() {
        node.sweep(1);
    }
    node.position = 7;
    assert_eq!(node.told(1), ["Reset", "p 7", "q 7", "current 7 | 7"]);
    // Another lineage.
    node.replica.forget();
    assert!(node.told(1).is_empty());
    node.position = 1 << 40;
    node.apply(vec![Op::Reset]);
    let position = node.position;
    assert_eq!(node.told(1), ["Reset".to_owned(), format!("current {position} | {position}")]);
}

#[test]
fn a_reader_is_told_that_the_session_lapsed_and_resumed_and_of_many_times_the_last() {
    let mut node = Node::new(Tuning::default());
    node.open(1, Select::all(), None, 100);
    node.told(1);
    node.watchers.lapsed();
    node.watchers.lapsed();
    assert_eq!(node.told(1), ["Lapsed"]);
    node.open(2, Select::all(), None, 100);
    assert_eq!(node.told(2), ["Lapsed", "current 0 | 0"]);
    for _ in 0..3 {
        node.watchers.resumed();
        node.watchers.lapsed();
    }
    assert_eq!(node.told(1), ["Resumed", "Lapsed"]);
    node.watchers.resumed();
    assert_eq!(node.told(1), ["Resumed"]);
}

#[test]
fn a_step_looks_at_so_many_changes_for_all_readers_and_those_that_wait_take_turns() {
    let mut node = Node::new(Tuning { watch_looks: 10, ..Tuning::default() });
    node.apply(["r", "s", "t", "u", "v"].map(|name| register(name, None)).to_vec());
    node.open(1, Select::all(), None, 100);
    // A name of the present state takes longer than a change.
    let mut sizes = Vec::new();
    while sizes.is_empty() || node.watchers.owes() {
        sizes.push(node.told(1).len());
    }
    assert_eq!(sizes, [2, 2, 2]);
    node.open(2, Select::all(), Some(1), 100);
    assert!(node.told(2).is_empty());
    node.apply((0..16).map(|number| register(&format!("n{number}"), None)).collect());
    let mut of_each = Vec::new();
    while of_each.is_empty() || node.watchers.owes() {
        of_each
            .push(step(&mut node).into_iter().map(|(id, events)| (id.0, events.len())).collect::<Vec<_>>());
    }
    // The first one is done then, and leaves two looks.
    assert_eq!(of_each, [vec![(1, 10)], vec![(1, 6), (2, 2)], vec![(2, 10)], vec![(2, 4)]]);
}

#[test]
fn what_a_reader_has_missed_is_kept_for_it_up_to_so_many_bytes() {
    let told = |missed_bytes: usize| {
        // Nothing is remembered for longer than a step.
        let mut node = Node::new(Tuning { watch_bytes: 0, missed_bytes, ..Tuning::default() });
        node.open(1, Select::all(), None, 1);
        assert_eq!(node.told(1), ["current 0 | 0"]);
        node.apply(vec![register("x", None)]);
        assert!(node.told(1).is_empty());
        node.watchers.has_room(WatchId(1), 100);
        node.told(1)
    };
    let (name, position, was, now, why) = ("x".into(), Position(1), None, None, Why::Unknown);
    let bytes = memory::weight(&Change { name, position, was, now, why });
    assert_eq!(told(bytes)[..2], ["Lagged", "x at 1 - > 1 unknown"]);
    assert_eq!(told(bytes - 1), ["Reset", "x 1", "current 1 | 1"]);
    // One that comes later cannot be given what nobody remembers.
    let mut node = Node::new(Tuning { watch_bytes: 0, ..Tuning::default() });
    node.open(1, Select::all(), None, 100);
    node.apply(vec![register("x", None)]);
    node.told(1);
    node.open(2, Select::all(), Some(0), 100);
    assert_eq!(node.told(2), ["Reset", "x 1", "current 1 | 1"]);
}

#[test]
fn a_name_that_is_started_and_one_that_moves_are_told_as_that() {
    let mut node = Node::new(Tuning::default());
    node.open(1, Select::all(), None, 100);
    node.told(1);
    let (name, request, kind): (Name, _, _) = ("x".into(), RequestNumber(1), Kind(7));
    let start = Op::Register { name: name.clone(), session: 0, request, actor: None, kind, meta: None };
    node.apply(vec![start]);
    let position = Position(1);
    node.apply(vec![Op::Bind { name: name.clone(), position, request, actor: 6, meta: None }]);
    node.apply_of(3, vec![Op::Transfer { name, position, session: 0, request, actor: 6, kind }]);
    let expected = ["x at 1 - > 1 starting | 1", "x at 2 1 > 2 bound | 2", "x at 3 2 > 3 transferred | 3"];
    assert_eq!(node.told(1), expected);
}

/// What a reader knows.
#[derive(Default)]
struct Reader {
    names: BTreeMap<Name, u64>,
    room: usize,
    is_current: bool,
    last: u64,
}

impl Reader {
    fn take(&mut self, given: &Given) {
        self.room -= 1;
        match &given.event {
            WatchEvent::Present { name, entry } => {
                let revision = entry.revision().0;
                let former = self.names.insert(name.clone(), revision);
                assert!(former.is_none_or(|former| former <= revision), "{name} goes back");
            }
            WatchEvent::Change(change) => {
                assert!(change.position.0 >= self.last || change.why == Why::Unknown, "positions only grow");
                let was = change.was.as_ref().map(|entry| entry.revision().0);
                if self.is_current {
                    assert_eq!(
                        self.names.get(&change.name).copied(),
                        was,
                        "{change:?} follows what it knows"
                    );
                }
                match &change.now {
                    Some(now) => self.names.insert(change.name.clone(), now.revision().0),
                    None => self.names.remove(&change.name),
                };
                self.last = change.position.0;
            }
            WatchEvent::Current { position } => (self.is_current, self.last) = (true, position.0),
            WatchEvent::Reset => *self = Self { room: self.room, ..Self::default() },
            WatchEvent::Lagged | WatchEvent::Lapsed | WatchEvent::Resumed => {}
            WatchEvent::Bookmark { position } => self.last = position.0,
        }
    }
}

#[test]
fn whatever_comes_in_which_order_the_last_state_of_each_name_arrives() {
    let (mut lags, mut resets) = (0, 0);
    for seed in 0..400 {
        let mut random = splitmix(seed);
        let mut below = |limit: u64| {
            random = splitmix(random);
            random % limit
        };
        let mut node = Node::new(SMALL());
        let mut readers: Vec<Reader> = (0..3).map(|_| Reader::default()).collect();
        for _ in 0..120 {
            match below(10) {
                0..=5 => {
                    let name = format!("n{}", below(12));
                    let op = match node.replica.row(&name) {
                        None => register(&name, None),
                        Some(row) if below(2) == 0 => update(&name, row.position.0, Some(zone("eu"))),
                        Some(row) => unregister(&name, row.position.0),
                    };
                    node.apply_of(2 + below(2), vec![op]);
                }
                6 if below(3) == 0 => _ = node.apply_of(2 + below(2), vec![Op::HostGone { session: 0 }]),
                6 if below(9) == 0 => _ = node.apply(vec![Op::Reset]),
                7 => node.sweep(1),
                _ => {
                    let id = below(3);
                    let reader = &mut readers[at(id)];
                    let room = at(below(4));
                    reader.room += room;
                    if node.watchers.all.contains_key(&WatchId(id)) {
                        node.watchers.has_room(WatchId(id), room);
                    } else {
                        let room = reader.room;
                        node.open(id, Select::all(), None, room);
                    }
                }
            }
            if below(2) == 0 {
                for (watch, events) in step(&mut node) {
                    let reader = &mut readers[at(watch.0)];
                    for given in &events {
                        lags += u64::from(given.event == WatchEvent::Lagged);
                        resets += u64::from(given.event == WatchEvent::Reset);
                        reader.take(given);
                    }
                }
            }
        }
        for (id, reader) in readers.iter_mut().enumerate() {
            node.watchers.has_room(WatchId(id as u64), 10_000);
            reader.room += 10_000;
        }
        loop {
            node.sweep(1);
            let given = step(&mut node);
            for (watch, events) in &given {
                for given in events {
                    readers[at(watch.0)].take(given);
                }
            }
            if given.is_empty() && !node.replica.is_busy() && !node.watchers.owes() {
                break;
            }
        }
        let rows: BTreeMap<Name, u64> =
            node.replica.rows().map(|(name, row)| (name.clone(), row.revision().0)).collect();
        for (id, reader) in readers.iter().enumerate() {
            if node.watchers.all.contains_key(&WatchId(id as u64)) {
                assert_eq!(reader.names, rows, "reader {id} of seed {seed}");
            }
        }
    }
    assert!(lags > 20 && resets > 20, "{lags} {resets}");
}

fn at(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

fn step(node: &mut Node) -> Vec<(WatchId, Vec<Given>)> {
    let mut effects = Vec::new();
    node.watchers.proceed(node.now, &mut node.replica, &mut effects);
    let given = effects.into_iter().map(|effect| match effect {
        Effect::Given { watch, events } => (watch, events),
        other => panic!("{other:?}"),
    });
    given.collect()
}
