//! What a store has of a cluster: rows, and bytes of files.

use std::{fs, path::Path};

use callsign_store::{Key, keys::read_range};

use crate::store_view::StoreView;

/// More rows than any run leaves.
const ALL: usize = 1_000_000;

/// How many rows there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowCounts {
    /// Records of sessions, open or closed.
    pub(super) sessions: usize,
    /// Sequence numbers of nodes, of each registry.
    pub(super) authors: usize,
    /// Rows of candidates, of the election of the singleton.
    pub(super) candidates: usize,
    /// Batches.
    pub(super) log: usize,
    /// All others.
    pub(super) others: usize,
}

impl RowCounts {
    pub(super) fn of(view: &StoreView, cluster: &str) -> Self {
        let begin = |end: &str| format!("callsign/{cluster}{end}").into_bytes();
        // '0' is what comes behind '/'.
        let all = view.entries(read_range(begin("/")..begin("0"), ALL));
        Self::among(all.iter().map(|(key, _)| key))
    }

    fn among<'a>(keys: impl Iterator<Item = &'a Key>) -> Self {
        let mut counts = Self::default();
        for key in keys {
            let key = String::from_utf8_lossy(key);
            let has = |part| key.contains(part);
            *if has("/session/") {
                &mut counts.sessions
            } else if has("/author/") {
                &mut counts.authors
            } else if has("/candidate/") {
                &mut counts.candidates
            } else if has("/log/") {
                &mut counts.log
            } else {
                &mut counts.others
            } += 1;
        }
        counts
    }
}

/// How many bytes the files of a store have whose URL this is; `None` if it is in no file.
pub(super) fn bytes(url: &str) -> Option<u64> {
    let path = Path::new(url.strip_prefix("sqlite:")?.split('?').next()?);
    let name = path.file_name()?.to_str()?;
    // Beside the database: its write-ahead log, shared memory, and what nodes tell each other by.
    let beside = fs::read_dir(path.parent()?).ok()?.flatten();
    let its = beside.filter(|file| file.file_name().to_str().is_some_and(|other| other.starts_with(name)));
    Some(
        its.filter_map(|file| file.metadata().ok())
            .filter(fs::Metadata::is_file)
            .map(|data| data.len())
            .sum(),
    )
}

/// How many files of processes that lived there are beside the store.
pub(super) fn lives(url: &str) -> usize {
    let path = url.strip_prefix("sqlite:").and_then(|path| path.split('?').next()).unwrap_or_default();
    fs::read_dir(format!("{path}-lives")).map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_apart_by_their_keys() {
        let keys = [
            "callsign/default/session/a",
            "callsign/default/session/b",
            "callsign/default/registry/default/author/a",
            "callsign/default/registry/churn/log/0000000000000001",
            "callsign/default/registry/churn/term",
            "callsign/default/open/a",
            "callsign/default/election/writer/candidate/a",
            "callsign/default/election/writer/seat",
        ];
        let keys: Vec<Key> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let expected = RowCounts { sessions: 2, authors: 1, candidates: 1, log: 1, others: 3 };
        assert_eq!(RowCounts::among(keys.iter()), expected);
    }

    #[test]
    fn a_file_has_its_bytes_and_those_of_what_is_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?mode=rwc", directory.path().join("store.db").display());
        assert_eq!(bytes(&url), Some(0));
        for (file, length) in [("store.db", 1000), ("store.db-wal", 100), ("other.db", 10)] {
            fs::write(directory.path().join(file), vec![0; length]).unwrap();
        }
        assert_eq!(lives(&url), 0);
        fs::create_dir(directory.path().join("store.db-lives")).unwrap();
        fs::write(directory.path().join("store.db-lives/a.1"), "file").unwrap();
        assert_eq!(bytes(&url), Some(1100));
        assert_eq!(lives(&url), 1);
        assert_eq!(bytes("postgres://localhost/x"), None);
        assert_eq!(lives("postgres://localhost/x"), 0);
    }
}
