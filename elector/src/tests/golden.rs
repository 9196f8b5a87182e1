//! What other versions write into the store, and read: `tests/golden/files/elector`, and `docs/compatibility.md`.

use std::time::Duration;

use callsign_golden::Golden;
use callsign_store::{
    Version,
    ids::{
        Ballot, Beat, ClusterName, Epoch, Incarnation, NodeName, Nonce, Position, RegistryName, Sequence,
        SessionId, SessionNumber, Token,
    },
    record::{CorruptRecord, Record, SCHEMA},
};

use crate::{
    core::{
        lineage::{LineageId, LineageNumber},
        record::{
            Accusation, AuthorFloor, AuthorRecord, Evidence, Leader, Lineage, Lock, LogEnd, MemberRow,
            MembershipEvent, OpenMark, PositionRecord, QueueEntry, SessionFloor, SessionRecord, Term,
        },
        settings::{Preset, Settings},
    },
    driver::recording::{Core, Header},
};

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
        (
            "Join",
            MembershipEvent::Join { address: "10.0.0.1:4321".into(), admin: None, priority: 1, empty: true },
        ),
        ("Down/Closed", down(Evidence::Closed)),
        ("Down/Silent", down(Evidence::Silent { had_contact: true })),
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
    golden.record(
        "lineage",
        Lineage { id, greatest_lease: Duration::from_millis(10_500) },
        Record::to_value,
        Record::from_value,
    );
    for (name, open) in [("open", true), ("closed", false)] {
        let (number, beat) = (SessionNumber(2), Beat(40_000));
        let (incarnation, lease) = (Incarnation(u64::MAX - 1), Duration::from_millis(10_500));
        golden.record(
            &format!("session/{name}"),
            SessionRecord { incarnation, number, lease, beat, open },
            Record::to_value,
            Record::from_value,
        );
    }
    let leader = Leader { node: node("a"), incarnation: Incarnation(u64::MAX - 1), token: Token(300) };
    for (name, leader) in [("led", Some(leader)), ("vacant", None)] {
        let (epoch, ballot, elected_at) = (Epoch(7), Ballot(9), Version(70_000));
        golden.record(
            &format!("term/{name}"),
            Term { leader, epoch, ballot, elected_at },
            Record::to_value,
            Record::from_value,
        );
    }
    for (name, accuses) in [
        ("quiet", None),
        ("drains", None),
        ("administered", None),
        ("accuses", Some(Accusation { epoch: Epoch(7), had_contact: true })),
    ] {
        let row = MemberRow {
            token: Token(300),
            session: session("a"),
            address: "10.0.0.1:4321".into(),
            admin: (name == "administered").then(|| "http://10.0.0.1:80".into()),
            priority: 1,
            synced: true,
            empty: false,
            accuses,
            draining: name == "drains",
        };
        golden.record(&format!("member/{name}"), row, Record::to_value, Record::from_value);
    }
    golden.record("settings/ranked", settings(), Record::to_value, Record::from_value);
    golden.record(
        "settings/sticky",
        Settings { policy: Some(Preset::Sticky), ..Settings::default() },
        Record::to_value,
        Record::from_value,
    );
    golden.must_cover::<Preset>("record/settings");
    golden.record(
        "lock",
        Lock { epoch: Epoch(7), owner: node("a"), nonce: Nonce(u64::MAX) },
        Record::to_value,
        Record::from_value,
    );
    golden.record("author", AuthorRecord { sequence: Sequence(300) }, Record::to_value, Record::from_value);
    golden.record(
        "end",
        LogEnd { position: Position(70_000), nonce: Nonce(u64::MAX) },
        Record::to_value,
        Record::from_value,
    );
    golden.record("floor/authors", AuthorFloor(Sequence(70_000)), Record::to_value, Record::from_value);
    golden.record(
        "floor/sessions",
        SessionFloor(SessionNumber(70_000)),
        Record::to_value,
        Record::from_value,
    );
    golden.record("open", OpenMark(SessionNumber(2)), Record::to_value, Record::from_value);
    golden.record("position", PositionRecord(Position(70_000)), Record::to_value, Record::from_value);
    for (name, event) in events() {
        let entry = QueueEntry { author: session("b"), sequence: Sequence(301), event };
        golden.record(&format!("queue/{name}"), entry, Record::to_value, Record::from_value);
    }
    golden.must_cover::<MembershipEvent>("record/queue");
    golden.must_cover::<Evidence>("record/queue/Down");
}

fn all() -> Golden {
    let mut golden = Golden::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_VERSION"));
    of_a_registry(&mut golden);
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
    all().check();
}

#[test]
fn another_schema_is_an_error_that_names_it_and_nothing_is_concluded() {
    all().must_name_other_schemas(SCHEMA + 1, Term::from_value, &CorruptRecord::Schema { found: SCHEMA + 1 });
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
    let numbers = |name: &str| match name {
        // The own one, too.
        _ if name.starts_with("member") => vec![5, 6],
        _ if name.starts_with("session") => vec![8, 9],
        _ if name.starts_with("term") => vec![0],
        _ if name.starts_with("lock") => vec![1],
        _ if name.starts_with("position") => vec![2],
        _ if name.starts_with("author") => vec![4],
        _ if name.starts_with("queue") => vec![11],
        _ => vec![],
    };
    callsign_golden::seed_pieces(&all(), "records", "whole", numbers);
}
