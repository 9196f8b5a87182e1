//! The page of limits says what the code does.

use callsign_elector::{session::timing::MAX_LEASE, state::MAX_MEMBERS};

use crate::{
    LinkLimits, MAX_HAND_OVER, MAX_HANDED_BYTES, MAX_META_BYTES, MAX_NAME_BYTES,
    core::{
        explained::MAX_TOLD, host::UNANSWERED, log::MAX_BATCH_BYTES, message::MESSAGE_BYTES,
        replica::MAX_ENDED, traced::MOST_TRACED, tuning::Tuning,
    },
    driver::{actor::LISTENERS, traces::MOST_ASKED},
};

/// What the table of limits says is the most.
fn most(of: &str) -> String {
    let page = include_str!("../../../docs/limits.md");
    let rows = page.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let mut found = rows.filter(|cells| cells.get(1) == Some(&of));
    let (row, other) = (found.next().unwrap_or_else(|| panic!("no row for {of}")), found.next());
    assert_eq!(other, None, "two rows for {of}");
    row[2].to_owned()
}

#[test]
fn the_page_of_limits_says_what_the_code_does() {
    let (kib, mib) =
        (|bytes: usize| format!("{} KiB", bytes >> 10), |bytes: usize| format!("{} MiB", bytes >> 20));
    let (tuning, links) = (Tuning::default(), LinkLimits::DEFAULT);
    for (of, says) in [
        ("a name", format!("{MAX_NAME_BYTES} bytes")),
        (
            "a name of a node, cluster, registry or election",
            format!("{} characters", callsign_store::ids::MAX_NAME),
        ),
        ("functions that are told of what becomes of a registration", LISTENERS.to_string()),
        ("metadata of a name", format!("{MAX_META_BYTES} bytes")),
        ("members of a registry", MAX_MEMBERS.to_string()),
        ("one entry of the log", format!("{MAX_BATCH_BYTES} bytes")),
        ("what is sent to a member in one message", kib(MESSAGE_BYTES)),
        ("data that go with a name that moves", mib(MAX_HANDED_BYTES)),
        ("data that a singleton leaves for its successor", kib(MAX_HAND_OVER)),
        (
            "what a registry remembers for watches",
            format!("{} (`Config::watch_memory`)", mib(tuning.watch_bytes)),
        ),
        ("ended registrations that a registry remembers", MAX_ENDED.to_string()),
        ("changes of a name that are told", MAX_TOLD.to_string()),
        ("requests of a message, or of a commit, whose traces go on", MOST_TRACED.to_string()),
        ("requests of other nodes whose traces a leader remembers", MOST_ASKED.to_string()),
        ("a lease", format!("{} h", MAX_LEASE.as_secs() / 3600)),
        ("a message to an actor", format!("{} (`LinkLimits::frame`)", mib(links.frame))),
        ("links of a node", format!("{} (`LinkLimits::links`)", links.links)),
        (
            "calls of a peer that are not answered",
            format!("{} (`LinkLimits::open_calls`)", mib(links.open_calls)),
        ),
        (
            "references to actors of a peer, and actors of whose end it is to be told",
            format!("{} each (`LinkLimits::references`)", links.references),
        ),
        ("messages that wait for a reader of links", format!("{} (`LinkLimits::inbox`)", mib(links.inbox))),
        (
            "bytes a second from a peer",
            format!("{} (`LinkLimits::received_per_second`)", mib(links.received_per_second)),
        ),
        // A leader keeps twice as many as an honest host has without an answer.
        ("requests of a session that wait for the leader", (2 * UNANSWERED).to_string()),
        (
            "strangers in their handshakes",
            format!("{} (`LinkLimits::unauthenticated`)", links.unauthenticated),
        ),
        (
            "the same of one source",
            format!("{} (`LinkLimits::unauthenticated_per_address`)", links.unauthenticated_per_address),
        ),
        (
            "handshakes a second of strangers, and of familiar sources",
            format!("{} each (`LinkLimits::handshakes_per_second`)", links.handshakes_per_second),
        ),
    ] {
        assert_eq!(most(of), says, "{of}");
    }
}
