//! Which keys are watched, said to all processes, so that only a commit that changes such a key rings.
//!
//! A Bloom filter behind the first byte of `PATH-notify`: two marks for each key, each mark a byte of its own, so that nobody
//! who sets one takes back another. A mark stays: programs watch the same few keys all their lives. A key that nobody
//! watches, and whose marks others have set, costs a needless ring.

use std::{fs::File, io};

use crate::core::{
    hash::{FNV_BASIS, fnv1a},
    mvcc::stamp,
    transaction::{Version, Write},
};

/// How many marks there are. A commit reads all of them, which takes a microsecond; with 100 watched keys one other key in
/// 400 rings needlessly.
const MARKS: usize = 4096;
/// Where they begin: behind the byte that rings.
const FIRST: u64 = 1;

/// The two marks of a key.
fn places(key: &[u8]) -> [usize; 2] {
    let [a, b, c, d, ..] = fnv1a(FNV_BASIS, key).to_le_bytes();
    [[a, b], [c, d]].map(|bytes| usize::from(u16::from_le_bytes(bytes)) % MARKS)
}

/// Lengthens a new file, or one that somebody cut, to what holds all marks. Those that are there stay.
pub(super) fn make_room(file: &File) -> io::Result<()> {
    let size = FIRST + MARKS as u64;
    if file.metadata()?.len() < size { file.set_len(size) } else { Ok(()) }
}

/// Says that a key is watched. Do it before you read the key: a commit that the reading does not see then rings.
pub(super) fn mark(file: &File, key: &[u8]) -> io::Result<()> {
    for place in places(key).map(|place| FIRST + place as u64) {
        let mut found = [0];
        // Each write rings, also at those who wait for nothing.
        if read_at(file, &mut found, place)? == 0 || found == [0] {
            write_at(file, &[1], place)?;
        }
    }
    Ok(())
}

/// Whether anybody may watch what these writes changed at that version. True where that cannot be told.
pub(super) fn may_be_watched(file: &File, version: Version, writes: &[Write]) -> bool {
    let mut marks = [0; MARKS];
    if !matches!(read_at(file, &mut marks, FIRST), Ok(MARKS)) {
        return true;
    }
    let is_marked = |key: &[u8]| places(key).iter().all(|place| marks[*place] != 0);
    let mut appended = 0;
    writes.iter().any(|write| match write {
        Write::Put { key, .. } | Write::Clear(key) => is_marked(key),
        Write::ClearRange(_) => true,
        Write::Append { prefix, .. } => {
            let entry = [prefix.as_slice(), &stamp(version, appended)].concat();
            appended += 1;
            is_marked(prefix) || is_marked(&entry)
        }
    })
}

/// Rings: always the same byte at the same place. The file does not grow, and the kernel reports it nevertheless.
pub(super) fn ring(file: &File) -> io::Result<()> {
    write_at(file, b"!", 0)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

/// Each handle is used by one thread.
#[cfg(not(unix))]
fn read_at(mut file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(at))?;
    file.read(bytes)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transaction;

    fn marks() -> (tempfile::TempDir, File) {
        let place = tempfile::tempdir().unwrap();
        let options = File::options().create(true).truncate(false).read(true).write(true).clone();
        let file = options.open(place.path().join("notifier")).unwrap();
        make_room(&file).unwrap();
        (place, file)
    }

    fn rings(file: &File, transaction: &Transaction) -> bool {
        may_be_watched(file, Version(7), &transaction.writes)
    }

    #[test]
    fn only_what_changes_a_watched_key_rings() {
        let (_place, file) = marks();
        let new = Transaction::new;
        let entry = [b"queue/".as_slice(), &stamp(Version(7), 1)].concat();
        let appends = || new().append(b"queue/".to_vec(), vec![]).append(b"queue/".to_vec(), vec![]);
        for (watched, change) in [
            (b"put".to_vec(), new().put(b"put".to_vec(), vec![])),
            (b"cleared".to_vec(), new().put(b"other".to_vec(), vec![]).clear(b"cleared".to_vec())),
            (b"queue/".to_vec(), new().append(b"queue/".to_vec(), vec![])),
            (entry, appends()),
        ] {
            assert!(!rings(&file, &change), "{change:?}");
            let (_place, file) = marks();
            mark(&file, &watched).unwrap();
            assert!(rings(&file, &change), "{change:?}");
        }
        assert!(
            rings(&file, &new().clear_range(b"a".to_vec()..b"b".to_vec())),
            "what is in a range is not told"
        );
    }

    #[test]
    fn marks_stay_when_the_file_is_opened_again_and_a_file_that_was_cut_rings_always() {
        let (_place, file) = marks();
        mark(&file, b"k").unwrap();
        make_room(&file).unwrap();
        let put = |key: &[u8]| Transaction::new().put(key.to_vec(), vec![]);
        assert!(rings(&file, &put(b"k")));
        assert!(!rings(&file, &put(b"other")));
        file.set_len(100).unwrap();
        assert!(rings(&file, &put(b"other")));
        make_room(&file).unwrap();
        assert!(!rings(&file, &put(b"other")));
    }

    #[test]
    fn a_mark_that_is_there_is_not_written_again_for_that_would_ring() {
        let (_place, file) = marks();
        let at = places(b"k").map(|place| FIRST + place as u64);
        write_at(&file, &[7], at[0]).unwrap();
        mark(&file, b"k").unwrap();
        let found = at.map(|at| {
            let mut found = [0];
            read_at(&file, &mut found, at).unwrap();
            found[0]
        });
        assert_eq!(found, [7, 1]);
    }

    #[test]
    fn both_marks_of_a_key_are_needed() {
        let (_place, file) = marks();
        let [first, _] = places(b"k");
        write_at(&file, &[1], FIRST + first as u64).unwrap();
        assert!(!rings(&file, &Transaction::new().put(b"k".to_vec(), vec![])));
        mark(&file, b"k").unwrap();
        assert!(rings(&file, &Transaction::new().put(b"k".to_vec(), vec![])));
    }

    #[test]
    fn a_ring_is_written_beside_all_marks_and_does_not_lengthen_the_file() {
        let (_place, file) = marks();
        for _ in 0..2 {
            ring(&file).unwrap();
        }
        let mut bytes = vec![0xff; MARKS + 10];
        let length = read_at(&file, &mut bytes, 0).unwrap();
        assert_eq!((length, bytes[0]), (MARKS + 1, b'!'));
        assert!(bytes[1..length].iter().all(|mark| *mark == 0), "nothing is watched by it");
    }
}
