//! How processes tell each other of a commit: whoever committed writes one byte to `PATH-bell`, and everybody has
//! the kernel tell them when that file is written.

use std::{fs::File, io, path::Path};

use notify::{EventKind, RecursiveMode, Watcher, event::ModifyKind};

use super::{file::Identity, reader::Looks};

/// Rung after each commit.
#[derive(Debug)]
pub(super) struct Bell(Option<File>);

impl Bell {
    pub(super) fn open(path: &Path) -> Self {
        match File::options().create(true).truncate(false).write(true).open(path) {
            Ok(file) => Self(Some(file)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "other processes will not be told of commits at once");
                Self(None)
            }
        }
    }

    /// Tells everybody. Costs some microseconds and no disk access.
    pub(super) fn ring(&self) {
        if let Some(file) = &self.0 {
            // A ring that is lost costs others their slow poll, nothing else.
            let _ = write_first_byte(file);
        }
    }
}

/// Always the same byte at the same place: the file does not grow, and the kernel reports it nevertheless.
#[cfg(unix)]
fn write_first_byte(file: &File) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, b"!", 0)
}

#[cfg(not(unix))]
fn write_first_byte(mut file: &File) -> io::Result<usize> {
    use std::io::{Seek, Write};
    file.rewind()?;
    file.write(b"!")
}

/// Hears the bell until it is dropped.
pub(super) struct Ear {
    _watcher: Option<notify::RecommendedWatcher>,
}

impl Ear {
    /// Asks for a look at each ring. Where nothing can be heard, asks for slow looks instead, and says so once.
    pub(super) fn listen(path: &Path, looks: &Looks) -> Self {
        let at_ring = {
            let (path, looks) = (path.to_owned(), looks.clone());
            let heard = Identity::of(&path).ok();
            move |event: notify::Result<notify::Event>| match event.map(|event| event.kind) {
                Ok(EventKind::Remove(_)) => deaf(&path, &"it was removed", &looks),
                Ok(EventKind::Access(_)) => {}
                // We hold it open ourselves, so of its removal only the number of its names is told.
                Ok(EventKind::Modify(ModifyKind::Metadata(_))) if Identity::of(&path).ok() != heard => {
                    deaf(&path, &"it was removed or replaced", &looks);
                }
                // Also what is not understood: a needless look costs little.
                Ok(_) => looks.ask(),
                Err(error) => deaf(&path, &error, &looks),
            }
        };
        let watcher = notify::recommended_watcher(at_ring).and_then(|mut watcher| {
            watcher.watch(path, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        if let Err(error) = &watcher {
            deaf(path, error, looks);
        }
        Self { _watcher: watcher.ok() }
    }
}

fn deaf(path: &Path, why: &dyn std::fmt::Display, looks: &Looks) {
    if looks.go_deaf() {
        tracing::warn!(path = %path.display(), %why, "commits of other processes are noticed only by slow looks");
    }
}
