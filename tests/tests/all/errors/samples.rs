//! Errors as they are, beside what the page says of them.

use std::{error::Error, io, path::PathBuf, time::Duration};

use callsign::{
    AcquireError, BadTls, CallError, CastError, CertificateFault, ConfigureError, ConsistentError, Decline,
    Entry, ExplainError, JoinError, Kind, LeaveError, LookupError, NodeFailure, NodeName, NotLive, NotReady,
    NotSpawned, Obstacle, OfferError, OpenError, OpenSessionError, RegisterError, ResolveError,
    SessionFailure, SingletonError, StartError, TakeError, TakeRefusal, UnregisterError, UpdateError,
    WaitError, WatchError, WhereisError, in_full,
};
use callsign_election::{
    Fault, Refusal,
    campaign::{CampaignStartError, StopError, Trouble},
    lease::ElectionError,
    state::Refused,
};
use callsign_elector::session::{Obstacle as SessionObstacle, TimingError};
use callsign_store::record::CorruptRecord;
use ractor::SpawnErr;

use super::{BTreeSet, Said, all_errors, examples};

#[callsign::message("shop.pricing/1")]
enum Pricing {
    #[allow(dead_code)] // nobody is told anything here
    Reload,
}

#[callsign::message("shop.cart/1")]
enum Cart {
    #[allow(dead_code)] // nobody is told anything here
    Clear,
}

const WAITED: Duration = Duration::from_secs(5);

type Sample = (&'static str, Box<dyn Error>);

/// An error that has a source, of each public enum that has such errors.
fn samples() -> Vec<Sample> {
    let failure = || NodeFailure::new("the elector", "has panicked");
    let berlin = || NodeName::new("berlin").unwrap();
    let name = || "pricing".to_owned();
    let denied = || io::Error::from_raw_os_error(13);
    let spawn = || SpawnErr::StartupFailed("out of memory".into());
    let not_linked = || ResolveError::NotLinked { node: "berlin".into() };
    let wrong_type = || {
        let (expected, found) = (Kind::of_messages::<Pricing>(), Some(Kind::of_messages::<Cart>()));
        ResolveError::WrongType { expected, found }
    };
    let entry: Entry = serde_json::from_value(serde_json::json!({
        "node": "berlin", "incarnation": 1, "session": 1, "actor": 1, "kind": 1, "token": 1, "revision": 1,
    }))
    .unwrap();
    let unsaid = || Fault::Transient { maybe_committed: false, cause: "no answer came in time".into() };
    let no_answer = || OpenSessionError::StoreUnavailable(SessionObstacle::NoAnswer);
    let unconfirmed = || SessionFailure::LeaveUnconfirmed { obstacle: SessionObstacle::NoAnswer };
    let lease = Duration::from_millis(1);
    vec![
        ("RegisterError::Failed", Box::new(RegisterError::Failed(failure()))),
        ("UpdateError::Failed", Box::new(UpdateError::Failed(failure()))),
        ("UnregisterError::Failed", Box::new(UnregisterError::Failed(failure()))),
        ("LookupError::Failed", Box::new(LookupError::Failed(failure()))),
        ("ConsistentError::Failed", Box::new(ConsistentError::Failed(failure()))),
        ("WaitError::Failed", Box::new(WaitError::Failed(failure()))),
        ("ExplainError::Failed", Box::new(ExplainError::Failed(failure()))),
        ("WatchError::Failed", Box::new(WatchError::Failed(failure()))),
        ("ConfigureError::Failed", Box::new(ConfigureError::Failed(failure()))),
        ("NotLive::Failed", Box::new(NotLive::Failed(failure()))),
        ("NotReady::Failed", Box::new(NotReady::Failed(failure()))),
        ("JoinError::Failed", Box::new(JoinError::Failed(failure()))),
        ("LeaveError::Failed", Box::new(LeaveError::Failed(failure()))),
        ("OfferError::Failed", Box::new(OfferError::Failed(failure()))),
        ("SingletonError::Failed", Box::new(SingletonError::Failed(failure()))),
        (
            "WhereisError::Unreachable",
            Box::new(WhereisError::Unreachable {
                name: name(),
                entry: Box::new(entry),
                source: not_linked(),
            }),
        ),
        ("TakeError::Refused", Box::new(TakeError::Refused { name: name(), why: TakeRefusal::NotGiven })),
        (
            "OfferError::Declined",
            Box::new(OfferError::Declined { name: name(), node: berlin(), why: Decline::NotReady }),
        ),
        ("AcquireError::NotStarted", Box::new(AcquireError::NotStarted(NotSpawned::from(spawn())))),
        (
            "CastError::TooLate",
            Box::new(CastError::TooLate { message: (), waited: WAITED, last: Obstacle::Queued }),
        ),
        ("CastError::WrongType", Box::new(CastError::WrongType { message: (), source: wrong_type() })),
        (
            "CallError::NotSent",
            Box::new(CallError::NotSent(CastError::TooLate {
                message: (),
                waited: WAITED,
                last: Obstacle::Ending,
            })),
        ),
        ("ResolveError::WrongType", Box::new(wrong_type())),
        ("ResolveError::Proxy", Box::new(ResolveError::Proxy(spawn()))),
        ("JoinError::StoreUnavailable", Box::new(JoinError::StoreUnavailable(no_answer()))),
        ("JoinError::Timing", Box::new(JoinError::Timing(TimingError::LeaseTooShort { lease }))),
        ("JoinError::Corrupt", Box::new(JoinError::Corrupt(CorruptRecord::Empty))),
        ("LeaveError::StoreUnavailable", Box::new(LeaveError::StoreUnavailable(unconfirmed()))),
        ("OpenSessionError::StoreUnavailable", Box::new(no_answer())),
        ("OpenSessionError::Corrupt", Box::new(OpenSessionError::Corrupt(CorruptRecord::Empty))),
        ("SessionFailure::LeaveUnconfirmed", Box::new(unconfirmed())),
        ("SessionFailure::Corrupt", Box::new(SessionFailure::Corrupt(CorruptRecord::Empty))),
        (
            "StartError::Listen",
            Box::new(StartError::Listen {
                listen: "10.0.0.7:7100".parse().unwrap(),
                source: io::Error::from_raw_os_error(98),
            }),
        ),
        ("StartError::Watcher", Box::new(StartError::Watcher(spawn()))),
        (
            "BadTls::Unreadable",
            Box::new(BadTls::Unreadable {
                path: PathBuf::from("/etc/callsign/key.pem"),
                source: io::Error::from_raw_os_error(2),
            }),
        ),
        ("BadTls::NotGood", Box::new(BadTls::NotGood(CertificateFault::Other("it is of version 1".into())))),
        ("OpenError::Io", Box::new(OpenError::Io { path: PathBuf::from("/var/lib/x.db"), source: denied() })),
        ("CampaignStartError::Oracle", Box::new(CampaignStartError::Oracle(unsaid()))),
        ("StopError::NotReleased", Box::new(StopError::NotReleased(unsaid()))),
        ("Trouble::Refused", Box::new(Trouble::Refused(Refusal::Disabled))),
        ("ElectionError::Refused", Box::new(ElectionError::Refused(Refused::Held))),
        (
            "ElectionError::Corrupt",
            Box::new(ElectionError::Corrupt { what: "seat", why: CorruptRecord::Empty }),
        ),
    ]
}

#[test]
fn an_example_of_an_error_with_a_source_is_what_is_printed() {
    let examples = examples();
    for (name, error) in samples() {
        let said = in_full(&*error).to_string();
        assert!(examples[name].contains(&said), "{name}: {said:?} is not in {:?}", examples[name]);
    }
}

#[test]
fn every_error_keeps_its_source_and_does_not_repeat_it() {
    for (name, error) in samples() {
        // Its text names the types, which are no errors.
        if name == "ResolveError::WrongType" {
            continue;
        }
        let mut above: &dyn Error = &*error;
        assert!(above.source().is_some(), "{name} has no source");
        let mut chain = vec![above.to_string()];
        while let Some(source) = above.source() {
            let (text, said) = (source.to_string(), above.to_string());
            // What ractor says of a panic is ractor's.
            assert!(!said.contains(&text) || said.starts_with("Actor panicked"), "{name}: {said} has {text}");
            chain.push(text);
            above = source;
        }
        let said = in_full(&*error).to_string();
        for text in chain {
            assert!(said.contains(&text), "{name}: {said} lacks {text}");
        }
    }
}

#[test]
fn there_is_a_sample_of_every_enum_that_has_errors_with_a_source() {
    let enum_of = |name: &str| name.split("::").next().unwrap().to_owned();
    let sampled: BTreeSet<_> = samples().iter().map(|(name, _)| enum_of(name)).collect();
    let has_source = |(name, said): (String, Said)| said.has_source.then(|| enum_of(&name));
    let all: BTreeSet<_> =
        all_errors().into_iter().flat_map(|(_, found)| found).filter_map(has_source).collect();
    let missing: Vec<_> = all.difference(&sampled).collect();
    assert!(all.len() > 20 && missing.is_empty(), "{missing:?}");
}

#[test]
fn an_error_says_no_number_of_a_kind() {
    let (expected, unheard) = (Kind::of_messages::<Pricing>(), Kind::of("shop.unheard/1"));
    let unknown = ResolveError::WrongType { expected, found: Some(unheard) };
    let said = "the actor takes messages of a kind that this program does not know, not of shop.pricing/1";
    assert_eq!(unknown.to_string(), said);
    let other = ResolveError::WrongType { expected, found: None };
    assert_eq!(other.to_string(), "the actor takes other messages than those of shop.pricing/1");
    // Nor does the page.
    let numbers = |text: &String| {
        text.split(|c: char| !c.is_ascii_hexdigit())
            .any(|word| word.len() == 16 && word.contains(|c: char| c.is_ascii_alphabetic()))
    };
    let found: Vec<_> = examples().into_values().flatten().filter(numbers).collect();
    assert!(found.is_empty(), "{found:?}");
}
