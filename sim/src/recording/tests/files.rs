//! Whole directories of recordings, made with real cores.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use callsign::cores::{Call, CallId, Effect, Input, MemberConfig, Now, Tuning};
use callsign_elector::{
    elector::{self, ElectorConfig, ElectorTiming, Notice},
    recording::{Core, Header, Recorder},
    session::{self, RequestId, SessionConfig, SessionTiming},
};
use callsign_store::{
    CommitOutcome, ReadResult, Time, Version,
    ids::{ClusterName, Incarnation, NodeName, RegistryName, SessionId, SessionNumber},
    keys::ClusterKeys,
};
use tempfile::TempDir;

use crate::recording::{
    CheckError, Count, ReplayError, Report, check,
    replay::{Replayed, ReplayedElector, ReplayedMember, ReplayedSession},
};

fn header(core: Core, node: &str) -> Header {
    Header {
        core,
        cluster: ClusterName::new("c").unwrap(),
        registry: (core != Core::Session).then(|| RegistryName::new("r").unwrap()),
        node: NodeName::new(node).unwrap(),
        incarnation: Incarnation(7),
    }
}

fn at(millis: u64) -> Time {
    Time(Duration::from_millis(millis))
}

/// Records a core that takes these inputs, and asks for what `change` makes of its effects.
fn record<R>(
    dir: &Path,
    header: &Header,
    config: &R::Config,
    inputs: Vec<(R::Now, R::Input)>,
    change: impl Fn(usize, &mut Vec<R::Effect>),
) -> PathBuf
where
    R: Replayed<Config: serde::Serialize, Now: serde::Serialize>,
    R::Input: serde::Serialize,
    R::Effect: serde::Serialize,
{
    let mut recorder = Recorder::begin(dir, header, config).unwrap();
    let mut core = R::fresh(config.clone()).unwrap();
    for (index, (now, input)) in inputs.into_iter().enumerate() {
        let mut effects = Vec::new();
        recorder.before(&now, &input);
        core.take(now, input, &mut effects);
        change(index, &mut effects);
        recorder.after(&effects);
        recorder.flush();
    }
    dir.join(header.file_name())
}

fn session_of(node: &str, dir: &Path, change: impl Fn(usize, &mut Vec<session::Effect>)) -> PathBuf {
    let header = header(Core::Session, node);
    let config = SessionConfig {
        cluster: header.cluster.clone(),
        node: header.node.clone(),
        incarnation: header.incarnation,
        timing: SessionTiming::default(),
        seed: 3,
    };
    let inputs = vec![
        (at(1), session::Input::Start),
        (at(2), session::Input::ReadDone { id: RequestId(1), result: Ok(ReadResult::default()) }),
        (
            at(3),
            session::Input::CommitDone { id: RequestId(2), outcome: CommitOutcome::Committed(Version(1)) },
        ),
        (at(4), session::Input::Wake),
    ];
    record::<ReplayedSession>(dir, &header, &config, inputs, change)
}

fn elector_of(node: &str, dir: &Path) -> PathBuf {
    let header = header(Core::Elector, node);
    let config = ElectorConfig {
        registry: RegistryName::new("r").unwrap(),
        cluster: header.cluster.clone(),
        node: header.node.clone(),
        address: "host:1".into(),
        admin: None,
        priority: 1,
        timing: ElectorTiming::default(),
        seed: 5,
        most_checks: None,
    };
    let inputs = vec![
        (at(1), elector::Input::Wake),
        (at(2), elector::Input::Notice(Notice::Session(Some(session_id(node))))),
        (at(3), elector::Input::ReadDone { id: elector::OpId(0), result: Ok(ReadResult::default()) }),
    ];
    record::<ReplayedElector>(dir, &header, &config, inputs, |_, _| ())
}

fn session_id(node: &str) -> SessionId {
    let node = NodeName::new(node).unwrap();
    SessionId { node, incarnation: Incarnation(7), number: SessionNumber(1) }
}

fn member_of(node: &str, dir: &Path, change: impl Fn(usize, &mut Vec<Effect>)) -> PathBuf {
    let header = header(Core::Member, node);
    let keys = ClusterKeys::new(&header.cluster).registry(&RegistryName::new("r").unwrap());
    let me = header.node.clone();
    let config =
        MemberConfig { me, incarnation: header.incarnation, keys, seed: 1, tuning: Tuning::default() };
    let now = |millis| Now { time: at(millis), trusted: Some(SessionNumber(1)) };
    let call = |id, call| Input::Call { id: CallId(id), call, wait: Duration::from_secs(1) };
    let inputs = vec![
        (now(10), Input::SessionOpened(session_id(node))),
        (now(11), call(1, Call::Unregister { name: "desk".into() })),
        (now(11), Input::Idle),
        (now(2000), call(2, Call::Leave)),
        (now(2000), Input::Idle),
    ];
    record::<ReplayedMember>(dir, &header, &config, inputs, change)
}

/// A node that does not do much.
fn node(name: &str, dir: &Path) {
    session_of(name, dir, |_, _| ());
    elector_of(name, dir);
    member_of(name, dir, |_, _| ());
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn report(dir: &Path) -> Report {
    check(dir).unwrap()
}

#[test]
fn recordings_of_every_core_replay() {
    let dir = directory();
    node("a", dir.path());
    let report = report(dir.path());
    assert_eq!((report.recordings, report.nodes, report.endings), (3, 1, [0, 3, 0]));
    assert_eq!(report.counts.get(Count::Steps), 12);
    assert!(report.counts.get(Count::Effects) > 8, "{report}");
    assert_eq!((report.counts.get(Count::Trusts), report.counts.get(Count::Answers)), (1, 2));
}

#[test]
fn two_nodes_that_do_too_little_for_the_checks_to_mean_anything_are_refused() {
    let dir = directory();
    node("a", dir.path());
    node("b", dir.path());
    let Err(CheckError::NotExercised { missing, report }) = check(dir.path()) else { panic!("it passed") };
    assert!(missing.contains(&Count::Grants) && !missing.contains(&Count::Answers), "{missing:?}");
    assert_eq!(report.nodes, 2);
}

#[test]
fn an_effect_that_was_not_asked_for_is_noticed_with_its_frame() {
    let differs = |changed: PathBuf, dir: &Path| match check(dir) {
        Err(CheckError::Replay(error)) => match *error {
            ReplayError::Differs { path, frame, effect, recorded, replayed, .. } => {
                assert_eq!(path, changed);
                (frame, effect, recorded, replayed)
            }
            other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    };
    // One too many.
    let dir = directory();
    let path = session_of("a", dir.path(), |step, effects| {
        if step == 2 {
            effects.push(session::Effect::Lapse);
        }
    });
    let (frame, _, recorded, replayed) = differs(path, dir.path());
    assert_eq!((frame, recorded.as_str(), replayed.as_str()), (3, "Lapse", "nothing"));
    // One too few.
    let dir = directory();
    let path = session_of("a", dir.path(), |step, effects| {
        if step == 0 {
            effects.pop();
        }
    });
    let (frame, _, recorded, _) = differs(path, dir.path());
    assert_eq!((frame, recorded.as_str()), (1, "nothing"));
    // Another one.
    let dir = directory();
    let path = member_of("a", dir.path(), |_, effects| {
        for effect in effects {
            if let Effect::Answer { call, .. } = effect {
                *call = CallId(9);
            }
        }
    });
    let (frame, effect, recorded, replayed) = differs(path, dir.path());
    assert_eq!((frame, effect), (2, 0));
    assert!(recorded.contains("CallId(9)") && replayed.contains("CallId(1)"), "{recorded} {replayed}");
}

#[test]
fn a_byte_that_was_changed_is_noticed() {
    let dir = directory();
    let path = session_of("a", dir.path(), |_, _| ());
    let mut bytes = fs::read(&path).unwrap();
    // The end of the time at which it asks to be woken.
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(check(dir.path()), Err(CheckError::Replay(_))));
}

#[test]
fn a_torn_file_counts_as_far_as_it_goes_and_one_without_a_byte_not_at_all() {
    let dir = directory();
    node("a", dir.path());
    let path = dir.path().join(header(Core::Member, "a").file_name());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let found = report(dir.path());
    assert_eq!((found.recordings, found.endings), (3, [0, 2, 1]));
    assert_eq!(found.counts.get(Count::Steps), 11);
    fs::write(&path, "").unwrap();
    assert_eq!(report(dir.path()).recordings, 2);
}

#[test]
fn a_directory_without_recordings_is_no_good_run() {
    let dir = directory();
    assert!(matches!(check(dir.path()), Err(CheckError::Nothing { .. })));
    fs::write(dir.path().join("x.rec"), "?").unwrap();
    assert!(matches!(check(dir.path()), Err(CheckError::Recording(_))));
    assert!(matches!(check(&dir.path().join("none")), Err(CheckError::Io { .. })));
}
