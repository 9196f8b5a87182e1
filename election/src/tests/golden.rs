//! What other versions write into the store, and read: `tests/golden/files/election`, and `docs/compatibility.md`.

use std::time::Duration;

use callsign_golden::Golden;
use callsign_store::{
    ids::{Ballot, Beat, Epoch, Incarnation, MemberId, Nonce, Seniority, Tag},
    record::{CorruptRecord, Record, SCHEMA},
};

use crate::{
    core::{
        config::ElectionConfig,
        policy::{Key, Policy, Preempt, Replace},
        state::{Control, Count, Holder, Row, Seat},
        term::{AuthorityTime, Fence},
    },
    driver::{
        fenced,
        sink::{self, ByBallot, ByEpoch, Token},
    },
};

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
        golden.record(
            &format!("seat/{name}"),
            Seat { ballot, epoch, holder, wait, heir },
            Record::to_value,
            Record::from_value,
        );
    }
    golden.record("candidate", row, Record::to_value, Record::from_value);
    golden.record("count", Count(Seniority(300)), Record::to_value, Record::from_value);
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
        golden.record(&name, control, Record::to_value, Record::from_value);
    }
    golden.must_cover::<Key>("record/control");
    golden.must_cover::<Preempt>("record/control/preempt");
    golden.must_cover::<Replace>("record/control/replace");
    fenced::golden(golden);
    sink::golden(golden);
}

fn all() -> Golden {
    let mut golden = Golden::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_PKG_VERSION"));
    of_an_election(&mut golden);
    let fence = Fence { epoch: Epoch(7), ballot: Ballot(9) };
    let (epoch, ballot) = (Token::<ByEpoch>::from(fence), Token::<ByBallot>::from(fence));
    golden.sample(
        "token/epoch",
        epoch,
        |token| token.to_bytes().to_vec(),
        |bytes| Token::from_bytes(bytes).map_err(|error| error.to_string()),
    );
    golden.sample(
        "token/ballot",
        ballot,
        |token| token.to_bytes().to_vec(),
        |bytes| Token::from_bytes(bytes).map_err(|error| error.to_string()),
    );
    golden
}

#[test]
fn what_is_in_the_store_is_what_former_versions_read_and_wrote() {
    all().check();
}

#[test]
fn another_schema_is_an_error_that_names_it_and_nothing_is_concluded() {
    all().must_name_other_schemas(SCHEMA + 1, Seat::from_value, &CorruptRecord::Schema { found: SCHEMA + 1 });
}

#[test]
fn golden_lines_are_where_fuzzing_begins() {
    let numbers = |name: &str| match name {
        _ if name.starts_with("seat") => vec![12],
        _ if name.starts_with("control") => vec![13],
        _ if name.starts_with("count") => vec![14],
        _ if name.starts_with("candidate") => vec![15],
        _ if name.starts_with("cell") => vec![17],
        _ if name.starts_with("register") => vec![18],
        _ => vec![],
    };
    callsign_golden::seed_pieces(&all(), "records", "whole-election", numbers);
}
