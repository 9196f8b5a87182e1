//! A file system of its own in memory, so small that it can be filled. Only who may mount one has it.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// A small file system in memory. Gone when it is dropped.
#[derive(Debug)]
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// One of so many bytes; else why it cannot be mounted.
    pub fn mount(bytes: u64) -> Result<Self, String> {
        let no = |why: &dyn std::fmt::Display| format!("no tmpfs can be mounted: {why}");
        let directory = tempfile::tempdir().map_err(|error| no(&error))?;
        let mut mount = Command::new("mount");
        let size = format!("size={bytes},mode=755");
        let done = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
        match done {
            Ok(done) if done.status.success() => Ok(Self(directory)),
            Ok(done) => Err(no(&String::from_utf8_lossy(&done.stderr).trim())),
            Err(error) => Err(no(&error)),
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file until there is no room for another byte, and says where it is. Called again, it takes what room there
    /// is by then.
    ///
    /// # Panics
    /// If the file cannot be made.
    pub fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut filler = File::options().append(true).create(true).open(&path).expect("a file can be made");
        while filler.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status(); // it is gone with the machine at the latest
    }
}
