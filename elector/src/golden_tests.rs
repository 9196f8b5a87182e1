//! What other versions write into the store, and read: `golden/`, and `docs/compatibility.md`.

use std::{fmt::Debug, time::Duration};

use callsign_golden::{Golden, seed, with_unknown_fields};

use crate::{
    election::{
        config::ElectionConfig,
        fenced,
        policy::{Key, Policy, Preempt, Replace},
        sink::{self, ByBallot, ByEpoch, Token as SinkToken},
        state::{Control, Count, Holder, Row, Seat},
        term::{AuthorityTime, Fence},
    },
    ids::{
        Ballot, Beat, ClusterName, ElectionName, Epoch, Incarnation, MemberId, NodeName, Nonce, Position,
        RegistryName, Seniority, Sequence, SessionId, SessionNumber, Tag, Token,
    },
    keys::ClusterKeys,
    lineage::{LineageId, LineageNumber},
    record::{
        Accusation, AuthorFloor, AuthorRecord, CorruptRecord, Evidence, Leader, Lineage, Lock, LogEnd,
        MemberRow, MembershipEvent, OpenMark, PositionRecord, QueueEntry, Record, SessionFloor,
        SessionRecord, Term,
    },
    recording::{Core, Header},
    settings::{Preset, Settings},
    store::Version,
};

/// A record and its name.
pub(crate) fn record<R: Record + PartialEq + Debug + 'static>(golden: &mut Golden, name: &str, record: R) {
    let read = |bytes: &[u8]| R::from_value(bytes).map_err(|error| error.to_string());
    // A later version's fields are passed over, in whichever part of the record.
    let written = record.to_value();
    if matches!(written[1], 0x80..=0x8f) {
        let next = with_unknown_fields(&written[1..]);
        assert!(!next.is_empty(), "{name} has no fields");
        for next in next {
            let next = [&written[..1], &next].concat();
            assert_eq!(R::from_value(&next).as_ref(), Ok(&record), "{name}, as a later version writes it");
        }
    } else {
        assert_eq!(std::mem::size_of::<R>(), 8, "{name} has no names of fields");
    }
    golden.sample(format!("record/{name}"), record, R::to_value, read);
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn session(name: &str) -> SessionId {
    SessionId { node: node(name), incarnation: Incarnation(u64::MAX - 1), number: SessionNumber(2) }
}

fn settings() -> Settings {
    let (lock_timeout, silence) = (Some(Duration::from_millis(3500)), Some(Duration::from_secs(2)));
    Settings { lock_timeout, silence, policy: Some(Preset::Ranked) }
}

fn events() -> Vec<(&'static str, MembershipEvent)> {
    let (token, epoch, position) = (Token(300), Epoch(7), Position(70_000));
    let down = |evidence| MembershipEvent::Down {
        member: node("a"),
        token,
        accuser_token: Token(301),
        epoch,
        evidence,
    };
    vec![
        ("Join", MembershipEvent::Join { address: "10.0.0.1:4321".into(), priority: 1, empty: true }),
        ("Down/Closed", down(Evidence::Closed)),
        ("Down/Silent", down(Evidence::Silent { heard: true })),
        ("Withdraw", MembershipEvent::Withdraw { token, epoch }),
        ("Leave", MembershipEvent::Leave { token }),
        ("Resign", MembershipEvent::Resign { token, epoch }),
        ("Drain", MembershipEvent::Drain { token }),
        ("Synced", MembershipEvent::Synced { token, epoch, position }),
        ("Configure", MembershipEvent::Configure { token, change: settings() }),
    ]
}

fn of_a_registry(golden: &mut Golden) {
    let id = LineageId { number: LineageNumber(3), nonce: Nonce(u64::MAX - 5) };
    record(golden, "lineage", Lineage { id, greatest_lease: Duration::from_millis(10_500) });
    for (name, open) in [("open", true), ("closed", false)] {
        let (number, beat) = (SessionNumber(2), Beat(40_000));
        let (incarnation, lease) = (Incarnation(u64::MAX - 1), Duration::from_millis(10_500));
        record(golden, &format!("session/{name}"), SessionRecord { incarnation, number, lease, beat, open });
    }
    let leader = Leader { node: node("a"), incarnation: Incarnation(u64::MAX - 1), token: Token(300) };
    for (name, leader) in [("led", Some(leader)), ("vacant", None)] {
        let (epoch, ballot, elected_at) = (Epoch(7), Ballot(9), Version(70_000));
        record(golden, &format!("term/{name}"), Term { leader, epoch, ballot, elected_at });
    }
    for (name, accuses) in
        [("quiet", None), ("drains", None), ("accuses", Some(Accusation { epoch: Epoch(7), heard: true }))]
    {
        let row = MemberRow {
            token: Token(300),
            session: session("a"),
            address: "10.0.0.1:4321".into(),
            priority: 1,
            synced: true,
            empty: false,
            accuses,
            draining: name == "drains",
        };
        record(golden, &format!("member/{name}"), row);
    }
    record(golden, "settings/ranked", settings());
    record(golden, "settings/sticky", Settings { policy: Some(Preset::Sticky), ..Settings::default() });
    golden.must_cover::<Preset>("record/settings");
    record(golden, "lock", Lock { epoch: Epoch(7), owner: node("a"), nonce: Nonce(u64::MAX) });
    record(golden, "author", AuthorRecord { sequence: Sequence(300) });
    record(golden, "end", LogEnd { position: Position(70_000), nonce: Nonce(u64::MAX) });
    record(golden, "floor/authors", AuthorFloor(Sequence(70_000)));
    record(golden, "floor/sessions", SessionFloor(SessionNumber(70_000)));
    record(golden, "open", OpenMark(SessionNumber(2)));
    record(golden, "position", PositionRecord(Position(70_000)));
    for (name, event) in events() {
        let entry = QueueEntry { author: session("b"), sequence: Sequence(301), event };
        record(golden, &format!("queue/{name}"), entry);
    }
    golden.must_cover::<MembershipEvent>("record/queue");
    golden.must_cover::<Evidence>("record/queue/Down");
}

fn control(name: &str, order: Vec<Key>, preempt: Preempt, replace: Replace) -> (String, Control) {
    let policy = Policy {
        order,
        preempt,
        replace,
        min_tenure: Duration::from_secs(1),
        zero_is_ineligible: true,
        requires: Some(Tag::new("ssd").unwrap()),
    };
    let config = ElectionConfig {
        policy,
        lease: Duration::from_secs(3),
        lock_delay: Duration::from_millis(500),
        candidate_timeout: Duration::from_secs(30),
    };
    let (request, reserved) = (Some(Epoch(7)), Ballot(1 << 40));
    let heir = (name == "heir").then_some(5);
    (format!("control/{name}"), Control { config, enabled: true, request, heir, reserved, revision: 4 })
}

fn of_an_election(golden: &mut Golden) {
    let (member, tags) = (MemberId::new("a").unwrap(), [Tag::new("ssd").unwrap()].into());
    let holder = Holder {
        member,
        incarnation: Incarnation(u64::MAX - 1),
        nonce: Nonce(5),
        priority: 1,
        seniority: Seniority(2),
        tags,
        lease: Duration::from_secs(3),
        lock_delay: Duration::from_millis(500),
        elected_at: AuthorityTime(70_000),
    };
    let row = Row {
        incarnation: holder.incarnation,
        priority: 1,
        seniority: Seniority(2),
        tags: holder.tags.clone(),
        timeout: Duration::from_secs(30),
        beat: Beat(4),
        seen: AuthorityTime(70_001),
    };
    for (name, holder, heir) in
        [("held", Some(holder), None), ("vacant", None, None), ("heir", None, Some(5))]
    {
        let (ballot, epoch, wait) = (Ballot(9), Epoch(7), Duration::from_secs(1));
        record(golden, &format!("seat/{name}"), Seat { ballot, epoch, holder, wait, heir });
    }
    record(golden, "candidate", row);
    record(golden, "count", Count(Seniority(300)));
    let grace = Duration::from_secs(2);
    for (name, control) in [
        control("Proposer", vec![Key::Proposer], Preempt::Never, Replace::Immediately),
        control("Priority", vec![Key::Priority], Preempt::HigherPriority, Replace::HandOver { grace }),
        control("Seniority", vec![Key::Seniority, Key::Id], Preempt::BetterRank, Replace::Immediately),
        control("Id", vec![Key::Id], Preempt::Never, Replace::Immediately),
        control("heir", vec![], Preempt::Never, Replace::Immediately),
        control("preempt/Never", vec![], Preempt::Never, Replace::Immediately),
        control("preempt/HigherPriority", vec![], Preempt::HigherPriority, Replace::Immediately),
        control("preempt/BetterRank", vec![], Preempt::BetterRank, Replace::Immediately),
        control("replace/Immediately", vec![], Preempt::Never, Replace::Immediately),
        control("replace/HandOver", vec![], Preempt::Never, Replace::HandOver { grace }),
    ] {
        record(golden, &name, control);
    }
    golden.must_cover::<Key>("record/control");
    golden.must_cover::<Preempt>("record/control/preempt");
    golden.must_cover::<Replace>("record/control/replace");
    fenced::golden(golden);
    sink::golden(golden);
}

fn keys(golden: &mut Golden) {
    let cluster = ClusterKeys::new(&ClusterName::new("prod").unwrap());
    let registry = cluster.registry(&RegistryName::new("names").unwrap());
    let election = cluster.election(&ElectionName::new("reports").unwrap());
    let member = MemberId::new("a").unwrap();
    for (name, key) in [
        ("session", cluster.session(&node("a"))),
        ("session_floor", cluster.session_floor()),
        ("lineage", cluster.lineage()),
        ("open", cluster.open_mark(&node("a"))),
        ("queue", registry.queue()),
        ("author", registry.author(&node("a"))),
        ("author_floor", registry.author_floor()),
        ("member", registry.member(&node("a"))),
        ("term", registry.term()),
        ("lock", registry.lock()),
        ("commit", registry.commit()),
        ("floor", registry.floor()),
        ("log", registry.log(Position(70_000))),
        ("seat", election.seat()),
        ("fence", election.fence()),
        ("control", election.control()),
        ("count", election.count()),
        ("candidate", election.candidate(&member)),
    ] {
        golden.sample(format!("key/{name}"), (), |()| key.clone(), |_| Ok(()));
    }
}

fn of_the_store() -> Golden {
    let mut golden = Golden::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_VERSION"));
    of_a_registry(&mut golden);
    of_an_election(&mut golden);
    keys(&mut golden);
    let fence = Fence { epoch: Epoch(7), ballot: Ballot(9) };
    let (epoch, ballot) = (SinkToken::<ByEpoch>::from(fence), SinkToken::<ByBallot>::from(fence));
    golden.sample(
        "token/epoch",
        epoch,
        |token| token.to_bytes().to_vec(),
        |bytes| SinkToken::from_bytes(bytes).map_err(|error| error.to_string()),
    );
    golden.sample(
        "token/ballot",
        ballot,
        |token| token.to_bytes().to_vec(),
        |bytes| SinkToken::from_bytes(bytes).map_err(|error| error.to_string()),
    );
    let header = |core| Header {
        core,
        cluster: ClusterName::new("prod").unwrap(),
        registry: Some(RegistryName::new("names").unwrap()),
        node: node("a"),
        incarnation: Incarnation(7),
    };
    for (name, core) in [("Session", Core::Session), ("Elector", Core::Elector), ("Member", Core::Member)] {
        let read = |bytes: &[u8]| rmp_serde::from_slice(bytes).map_err(|error| error.to_string());
        let write = |header: &Header| rmp_serde::to_vec(header).unwrap();
        golden.sample(format!("recording/{name}"), header(core), write, read);
    }
    golden.must_cover::<Core>("recording");
    golden
}

#[test]
fn what_is_in_the_store_is_what_former_versions_read_and_wrote() {
    of_the_store().check();
}

#[test]
fn another_schema_is_an_error_that_names_it_and_nothing_is_concluded() {
    let golden = of_the_store();
    for (name, bytes) in golden.written().filter(|(name, _)| name.starts_with("record/")) {
        let later = [&[2], &bytes[1..]].concat();
        assert_eq!(Term::from_value(&later), Err(CorruptRecord::Schema { found: 2 }), "{name}");
    }
}

#[test]
fn an_event_of_the_future_is_an_entry_that_cannot_be_read_and_not_another_event() {
    let entry = QueueEntry {
        author: session("b"),
        sequence: Sequence(301),
        event: MembershipEvent::Leave { token: Token(1) },
    };
    let written = entry.to_value();
    let at = written.windows(5).position(|bytes| bytes == b"Leave").unwrap();
    let mut later = written.clone();
    later[at..at + 5].copy_from_slice(b"Leapt");
    let error = QueueEntry::from_value(&later).unwrap_err();
    assert!(matches!(&error, CorruptRecord::Malformed(why) if why.contains("Leapt")), "{error}");
}

#[test]
fn golden_lines_are_where_fuzzing_begins() {
    let places = [
        ("term", 0),
        ("lock", 1),
        ("position", 2),
        ("author", 4),
        ("member", 5),
        ("session", 8),
        ("queue", 11),
        ("seat", 12),
        ("control", 13),
        ("count", 14),
        ("candidate", 15),
        ("cell", 17),
        ("register", 18),
    ];
    let piece = |number: u8, bytes: &[u8]| {
        [&[number][..], &u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    };
    let golden = of_the_store();
    let mut whole = Vec::new();
    for (name, bytes) in golden.written() {
        let Some(kind) = name.strip_prefix("record/") else { continue };
        let Some((_, number)) = places.iter().find(|(kind_of, _)| kind.starts_with(kind_of)) else {
            continue;
        };
        seed("records", name, &piece(*number, bytes));
        if whole.len() < 900 {
            whole.extend(piece(*number, bytes));
        }
        if matches!(number, 5 | 8) {
            // The own one, too.
            whole.extend(piece(number + 1, bytes));
        }
    }
    seed("records", "whole", &whole);
}
