use std::{fs, time::Duration};

use callsign_store::{
    CommitOutcome, Piece, ReadResult, Time, TooLarge, Version,
    ids::{Incarnation, NodeName},
};

use super::*;
use crate::session::{Effect, Input, RequestId, Session, SessionConfig, SessionTiming};

type SessionRecording = Recording<SessionConfig, Time, Input, Effect>;
type Step = Frame<Time, Input, Effect>;

fn config() -> SessionConfig {
    SessionConfig {
        cluster: ClusterName::new("c").unwrap(),
        node: NodeName::new("a").unwrap(),
        incarnation: Incarnation(7),
        timing: SessionTiming::default(),
        seed: 3,
    }
}

fn header() -> Header {
    let config = config();
    Header {
        core: Core::Session,
        cluster: config.cluster,
        registry: None,
        node: config.node,
        incarnation: config.incarnation,
    }
}

/// A session that opens, with inputs of every shape that has bytes in it.
fn inputs() -> Vec<(Time, Input)> {
    let at = |millis| Time(Duration::from_millis(millis));
    let too_large = TooLarge { what: Piece::Value, size: 2, limit: 1 };
    let found = ReadResult { version: Version(4), answers: vec![vec![(vec![0, 200], vec![])], vec![]] };
    vec![
        (at(1), Input::Start),
        (at(2), Input::ReadDone { id: RequestId(1), result: Ok(ReadResult::default()) }),
        (at(3), Input::CommitDone { id: RequestId(2), outcome: CommitOutcome::Committed(Version(1)) }),
        (at(4), Input::CommitDone { id: RequestId(9), outcome: CommitOutcome::TooLarge(too_large) }),
        (at(5), Input::ReadDone { id: RequestId(9), result: Ok(found) }),
        (at(6), Input::Leave),
    ]
}

fn record(dir: &Path, finish: bool) -> (PathBuf, Vec<Step>) {
    let mut recorder = Recorder::begin(dir, &header(), &config()).unwrap();
    let mut core = Session::new(config()).unwrap();
    let mut steps = Vec::new();
    for (now, input) in inputs() {
        let mut effects = Vec::new();
        recorder.before(&now, &input);
        core.step(now, input.clone(), &mut effects);
        recorder.after(&effects);
        recorder.flush();
        steps.push(Frame { now, input, effects });
    }
    if finish {
        recorder.finish();
    }
    (dir.join("a-7-session.rec"), steps)
}

fn read(path: &Path) -> Result<(Vec<Step>, Option<Ending>), RecordingError> {
    let mut recording = SessionRecording::open(path, Core::Session)?;
    assert_eq!((&recording.header, &recording.config), (&header(), &config()));
    let mut steps = Vec::new();
    while let Some(step) = recording.next_frame()? {
        assert_eq!(recording.ending(), None, "it goes on");
        steps.push(step);
    }
    let ending = recording.ending();
    assert_eq!((recording.next_frame()?, recording.ending()), (None, ending), "it stays at its end");
    Ok((steps, ending))
}

#[test]
fn a_recording_reads_back_as_it_was_and_says_how_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (path, steps) = record(&dir.path().join("made"), true);
    assert!(steps.iter().any(|step| matches!(step.effects.first(), Some(Effect::Commit { .. }))));
    assert_eq!(read_header(&path).unwrap(), header());
    assert_eq!(read(&path).unwrap(), (steps.clone(), Some(Ending::Finished)));
    let (cut, _) = record(dir.path(), false);
    assert_eq!(read(&cut).unwrap(), (steps, Some(Ending::Cut)));
    // An empty frame is all that an end is.
    let mut ended = fs::read(&cut).unwrap();
    ended.extend([0; 4]);
    assert_eq!(fs::read(&path).unwrap(), ended);
}

/// A step as of a member, with a snapshot.
fn step(recorder: &mut Recorder, bytes: usize) {
    recorder.before(&Time::ZERO, &vec![7_u8; bytes]);
    recorder.after::<Effect>(&[]);
    recorder.flush();
}

#[test]
fn a_snapshot_that_was_recorded_does_not_stay_in_memory_and_behind_the_end_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::begin(dir.path(), &header(), &config()).unwrap();
    let path = dir.path().join("a-7-session.rec");
    let length = || fs::metadata(&path).unwrap().len();
    let before = length();
    step(&mut recorder, 5 << 20);
    let with_snapshot = length();
    assert!(with_snapshot > before + (5 << 20));
    assert!(recorder.buffer.capacity() <= 1 << 20, "{}", recorder.buffer.capacity());
    recorder.finish();
    step(&mut recorder, 10);
    recorder.finish();
    assert_eq!(length(), with_snapshot + 4);
}

#[test]
fn a_step_that_cannot_be_written_ends_the_recording_in_front_of_it() {
    struct Unwritable;
    impl Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("as the test wants"))
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, steps) = record(dir.path(), false);
    let mut recorder = Recorder::begin(dir.path(), &header(), &config()).unwrap();
    for Frame { now, input, effects } in &steps {
        recorder.before(now, input);
        recorder.after(effects);
    }
    recorder.flush();
    recorder.before(&Time::ZERO, &Unwritable);
    recorder.after::<Effect>(&[]);
    recorder.flush();
    let (now, input) = (&steps[0].now, &steps[0].input);
    recorder.before(now, input);
    recorder.after::<Effect>(&[]);
    recorder.flush();
    recorder.finish();
    assert_eq!(read(&path).unwrap(), (steps, Some(Ending::Cut)));
}

#[test]
fn wherever_a_file_is_cut_every_whole_step_before_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (path, steps) = record(dir.path(), false);
    let bytes = fs::read(&path).unwrap();
    let mut counts = Vec::new();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        match read(&path) {
            Ok((found, ending)) => {
                assert_eq!(found, steps[..found.len()]);
                assert!(ending == Some(Ending::Torn) || ending == Some(Ending::Cut), "{ending:?}");
                counts.push(found.len());
            }
            Err(RecordingError::NoRecording { .. }) => assert!(counts.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(counts.is_sorted());
    counts.dedup();
    assert_eq!(counts, (0..steps.len()).collect::<Vec<_>>());
}

#[test]
fn what_is_no_recording_of_this_core_and_schema_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = record(dir.path(), true);
    let found = SessionRecording::open(&path, Core::Member);
    assert!(matches!(found, Err(RecordingError::Core { found: Core::Session, .. })));

    let bytes = fs::read(&path).unwrap();
    let change = |at: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        fs::write(&path, bytes).unwrap();
        read(&path)
    };
    assert!(matches!(change(0, b"C"), Err(RecordingError::NoRecording { .. })));
    // Magic, length, an array of three, the schema.
    assert!(matches!(change(13, &[9]), Err(RecordingError::Schema { found: 9, .. })));
    let announced = [0xff; 4];
    let first_step = 12 + usize::from(bytes[11]);
    let too_long = change(first_step, &announced);
    assert!(matches!(too_long, Err(RecordingError::TooLong { frame: 1, .. })), "{too_long:?}");
    let corrupt = change(first_step + 4, &[0x91]);
    assert!(matches!(corrupt, Err(RecordingError::Corrupt { frame: 1, .. })), "{corrupt:?}");
}

#[test]
fn a_recorder_that_cannot_write_ends_the_recording_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let no_directory = dir.path().join("file");
    fs::write(&no_directory, "").unwrap();
    assert!(Recorder::begin(&no_directory, &header(), &config()).is_none());

    let mut recorder = Recorder::begin(dir.path(), &header(), &config()).unwrap();
    // A file that takes no bytes: it is open for reading only.
    recorder.file = Some(File::open(&no_directory).unwrap());
    for _ in 0..3 {
        step(&mut recorder, 10);
        assert!(recorder.file.is_none());
        assert_eq!(recorder.buffer.capacity(), 0, "it keeps nothing either");
    }
    recorder.finish();
    assert!(recorder.file.is_none());
}

#[test]
fn the_longest_frame_is_written_and_believed_and_a_longer_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    for (length, is_taken) in [(MAX_FRAME, true), (MAX_FRAME + 1, false)] {
        let mut recorder = Recorder::begin(dir.path(), &header(), &config()).unwrap();
        // Nothing of it is touched or written, but for its length.
        (recorder.buffer, recorder.frame) = (vec![0; 4 + length], 0);
        recorder.close_frame();
        assert_eq!(recorder.file.is_some(), is_taken);

        let (path, _) = record(dir.path(), false);
        let mut recorded = fs::read(&path).unwrap();
        recorded.extend(u32::try_from(length).unwrap().to_be_bytes());
        fs::write(&path, recorded).unwrap();
        match read(&path) {
            Ok((_, ending)) => assert!(is_taken && ending == Some(Ending::Torn), "{ending:?}"),
            Err(error) => assert!(!is_taken && matches!(error, RecordingError::TooLong { .. }), "{error}"),
        }
    }
}
