//! Proof that an incarnation ended: a lock that the kernel drops with the process.
//!
//! An incarnation holds an exclusive `flock` on a file of its own, `PATH-lives/<node>.<incarnation>`, before it opens
//! its session. The file says which file it is, by device and inode. Who gets a shared lock on a file that says so of
//! itself has proof that nobody holds the exclusive one: while the incarnation lives no other file has that inode. A file
//! that says so of another one is a copy, of which nobody ever held the lock: it proves nothing, nor does no file, which
//! may have been removed long after the death.
//!
//! An incarnation whose file was replaced or removed says so, once, and goes on: its death cannot be proven any more,
//! so its session ends by its lease.
//!
//! Never a classic POSIX lock: any close of the file anywhere in the process would drop it.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    contract::{LifeGuard, Proof},
    core::ids::{Incarnation, NodeName},
    driver::lock::lock,
};

/// How long the file of a dead incarnation is kept after its death was noticed. Shorter, and an observer that comes
/// late finds no proof and has to wait for the silence limit; longer, and more files lie about.
const KEEP_DEAD: Duration = Duration::from_secs(3600);

/// How long to wait for those who hold a lock only to look.
const LOOKERS_PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked whether the files of this process's own incarnations are where they were.
const LIVES_INTERVAL: Duration = Duration::from_secs(1);

/// What a file says that nobody has lived in for a while, behind which file it is.
const ENDED: &str = "ended\n";

/// No file says more.
const LONGEST_FILE: u64 = 100;

/// The lives beside one database.
#[derive(Clone, Debug)]
pub(super) struct Lives {
    directory: PathBuf,
    own: Arc<Mutex<OwnLives>>,
}

/// The incarnations of this process.
#[derive(Debug, Default)]
struct OwnLives {
    lives: Vec<Weak<Locked>>,
    looked: Option<Instant>,
}

/// The lock of a living incarnation. Dropped, the incarnation counts as dead, whoever still runs.
#[derive(Debug)]
struct LockedLife {
    _locked: Arc<Locked>,
}

#[derive(Debug)]
struct Locked {
    file: File,
    path: PathBuf,
}

impl LifeGuard for LockedLife {}

impl Lives {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, own: Arc::default() }
    }

    /// Looks, at most once a second, whether the files of this process's incarnations are still where others look for
    /// them, and says of each that is not. Gives the files that were found to be gone.
    pub(super) fn look_after(&self) -> Vec<PathBuf> {
        // Nothing that could panic happens under this lock.
        let mut own = lock(&self.own);
        if own.looked.is_some_and(|looked| looked.elapsed() < LIVES_INTERVAL) {
            return Vec::new();
        }
        own.looked = Some(Instant::now());
        let mut gone = Vec::new();
        own.lives.retain(|life| {
            let Some(life) = life.upgrade() else { return false };
            let is_there = is_at(&life.file, &life.path);
            if !is_there {
                gone.push(life.path.clone());
            }
            is_there
        });
        for path in &gone {
            crate::logged!(
                warn,
                file = %path.display(),
                "the lock file of this node was replaced or removed: its death cannot be proven any more, so if it dies, \
                 its names are freed only after its lease"
            );
        }
        gone
    }

    /// Locks the life of an incarnation; `None` where the file system has no locks.
    pub(super) fn guard(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> io::Result<Option<Box<dyn LifeGuard>>> {
        self.guard_with_pauses(node, incarnation, || std::thread::sleep(Duration::from_millis(1)))
    }

    /// The same. `pause` is called between two attempts.
    fn guard_with_pauses(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
        mut pause: impl FnMut(),
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
                    (&file).write_all(identity(&file)?.as_bytes())?;
                    let life = Arc::new(Locked { file, path });
                    let mut own = lock(&self.own);
                    own.lives.push(Arc::downgrade(&life));
                    return Ok(Some(Box::new(LockedLife { _locked: life })));
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => pause(),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tries to prove that an incarnation ended. Opens one file, waits for nothing.
    pub(super) fn proof(&self, node: &NodeName, incarnation: Incarnation) -> Proof {
        let proven = File::open(self.path(node, incarnation))
            .is_ok_and(|file| file.try_lock_shared().is_ok() && says_what_it_is(&file));
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
    let mut said = String::new();
    Read::by_ref(&mut file).take(LONGEST_FILE).read_to_string(&mut said)?;
    if !said.ends_with(ENDED) {
        // The time of the death is not known; it is counted from here, which is the time of this write.
        return file.write_all(ENDED.as_bytes());
    }
    // A wall clock that jumps removes a file too early or too late: the proof is lost, or kept. Neither is unsafe.
    let age = SystemTime::now().duration_since(marked.modified()?).unwrap_or_default();
    if age > KEEP_DEAD { std::fs::remove_file(path) } else { Ok(()) }
}

/// Whether a file is the one that was locked by an incarnation, and not a copy of it. To be asked with the lock held.
fn says_what_it_is(mut file: &File) -> bool {
    let mut said = String::new();
    let read = Read::by_ref(&mut file).take(LONGEST_FILE).read_to_string(&mut said);
    // A file that somebody is about to lock for the first time says nothing yet.
    read.is_ok() && identity(file).is_ok_and(|identity| said.starts_with(&identity))
}

/// Which file it is: no other has the same while this one is open anywhere.
#[cfg(unix)]
fn identity(file: &File) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata()?;
    Ok(format!("file {}:{}\n", found.dev(), found.ino()))
}

/// Elsewhere a file that is open cannot be replaced.
#[cfg(not(unix))]
fn identity(_file: &File) -> io::Result<String> {
    Ok("file\n".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_waits_for_those_who_only_look_and_is_refused_while_it_is_lived_elsewhere() {
        let place = tempfile::tempdir().unwrap();
        let lives = Lives::new(place.path().join("lives"));
        let (node, incarnation) = (NodeName::new("a").unwrap(), Incarnation(1));
        let guard = lives.guard(&node, incarnation).unwrap().unwrap();
        let refused = lives.guard(&node, incarnation).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(guard);
        let looker = File::open(lives.path(&node, incarnation)).unwrap();
        looker.try_lock_shared().unwrap();
        // It looks until the first attempt has failed, however slow the machine is.
        let (mut looker, mut pauses) = (Some(looker), 0);
        let guard = lives.guard_with_pauses(&node, incarnation, || {
            drop(looker.take());
            pauses += 1;
        });
        assert_eq!((guard.unwrap().is_some(), pauses), (true, 1));
    }

    #[test]
    fn lock_files_are_looked_after_once_a_second_and_lives_that_have_ended_are_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let (lives, node) = (Lives::new(place.path().join("lives")), NodeName::new("a").unwrap());
        let looks_after = |looked: Option<Instant>| {
            lock(&lives.own).looked = looked;
            lives.look_after()
        };
        let ended = lives.guard(&node, Incarnation(1)).unwrap();
        let _living = lives.guard(&node, Incarnation(2)).unwrap();
        drop(ended);
        assert!(lives.look_after().is_empty());
        let own = lock(&lives.own);
        assert!(own.looked.is_some() && own.lives.len() == 1, "{own:?}");
        drop(own);
        let path = lives.path(&node, Incarnation(2));
        std::fs::remove_file(&path).unwrap();
        assert!(looks_after(Some(Instant::now() + 60 * LIVES_INTERVAL)).is_empty(), "it was just looked");
        assert_eq!(looks_after(None), [path]);
        assert!(looks_after(None).is_empty(), "once is enough");
    }

    #[test]
    fn the_death_of_who_has_lived_again_counts_from_when_that_one_was_noticed() {
        let place = tempfile::tempdir().unwrap();
        let (lives, node) = (Lives::new(place.path().join("lives")), NodeName::new("a").unwrap());
        let path = lives.path(&node, Incarnation(1));
        let lives_and_dies = || drop(lives.guard(&node, Incarnation(1)).unwrap().unwrap());
        let ages = || {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        };
        lives_and_dies();
        lives.sweep();
        lives_and_dies();
        ages();
        lives.sweep();
        assert_eq!(lives.proof(&node, Incarnation(1)), Proof::Dead, "its end was only just noticed");
        ages();
        lives.sweep();
        assert!(!path.exists());
    }
}
