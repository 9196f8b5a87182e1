//! Proof that an incarnation ended: a lock that the kernel drops with the process.
//!
//! An incarnation holds an exclusive `flock` on a file of its own, `PATH-lives/<node>.<incarnation>`, before it opens
//! its session. Who gets a shared lock on that file has proof that nobody holds the exclusive one. No file proves
//! nothing: it may have been removed long after the death.
//!
//! Never a classic POSIX lock: any close of the file anywhere in the process would drop it.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    ids::{Incarnation, NodeName},
    store::{LifeGuard, Proof},
};

/// How long the file of a dead incarnation is kept after its death was noticed. Shorter, and an observer that comes
/// late finds no proof and has to wait for the silence limit; longer, and more files lie about.
const KEEP_DEAD: Duration = Duration::from_secs(3600);

/// How long to wait for those who hold a lock only to look.
const LOOKERS_PATIENCE: Duration = Duration::from_secs(1);

/// The lives beside one database.
#[derive(Clone, Debug)]
pub(super) struct Lives {
    directory: PathBuf,
}

/// The lock of a living incarnation. Dropped, the incarnation counts as dead, whoever still runs.
#[derive(Debug)]
struct Life {
    _locked: File,
}

impl LifeGuard for Life {}

impl Lives {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Locks the life of an incarnation; `None` where the file system has no locks.
    pub(super) fn guard(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> io::Result<Option<Box<dyn LifeGuard>>> {
        std::fs::create_dir_all(&self.directory)?;
        let path = self.path(node, incarnation);
        let deadline = Instant::now() + LOOKERS_PATIENCE;
        loop {
            let file = File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
            match file.try_lock() {
                // Between our open and our lock, a sweep may have removed the file: a lock on it would prove nothing.
                Ok(()) if is_at(&file, &path) => {
                    file.set_len(0)?;
                    return Ok(Some(Box::new(Life { _locked: file })));
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tries to prove that an incarnation ended. Opens one file, waits for nothing.
    pub(super) fn proof(&self, node: &NodeName, incarnation: Incarnation) -> Proof {
        let proven =
            File::open(self.path(node, incarnation)).is_ok_and(|file| file.try_lock_shared().is_ok());
        if proven { Proof::Dead } else { Proof::None }
    }

    /// Removes the files of those who have long been dead. A file that is locked is never touched.
    pub(super) fn sweep(&self) {
        // No directory: nobody ever lived here. What cannot be read or removed is left: it does no harm.
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let _ = sweep_one(&entry.path());
        }
    }

    fn path(&self, node: &NodeName, incarnation: Incarnation) -> PathBuf {
        self.directory.join(format!("{node}.{incarnation}"))
    }
}

/// Marks a file as that of a dead incarnation, and removes it when that was marked long ago.
fn sweep_one(path: &Path) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    let marked = file.metadata()?;
    if marked.len() == 0 {
        // The time of the death is not known; it is counted from here, which is the time of this write.
        return file.write_all(b"ended\n");
    }
    // A wall clock that jumps removes a file too early or too late: the proof is lost, or kept. Neither is unsafe.
    let age = SystemTime::now().duration_since(marked.modified()?).unwrap_or_default();
    if age > KEEP_DEAD { std::fs::remove_file(path) } else { Ok(()) }
}

/// Whether an open file is the one that its path leads to.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| a.dev() == b.dev() && a.ino() == b.ino();
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(open), Ok(there)) if same(&open, &there))
}

/// Elsewhere an open file cannot be removed.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}
