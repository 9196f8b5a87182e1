//! What is wrong with the place where a file is to be.

use std::path::Path;

use crate::driver::finding::{Finding, Verdict};

/// Less free space than this will not do for long: the log of a busy registry alone may take 64 MiB, twice.
const SPACE: u64 = 256 << 20;

/// What the kernel calls file systems, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    Local,
    Memory,
    /// Whatever a program makes of it.
    User,
    Network(&'static str),
}

impl FileSystem {
    /// By the magic numbers of `statfs(2)`.
    fn of(magic: u64) -> Self {
        match magic {
            0x6969 => Self::Network("NFS"),
            0x517b | 0xff53_4d42 | 0xfe53_4d42 => Self::Network("SMB"),
            0x0102_1997 => Self::Network("9P"),
            0x5346_414f | 0x6b41_4653 => Self::Network("AFS"),
            0x00c3_6400 => Self::Network("Ceph"),
            0x0bd0_0bd0 => Self::Network("Lustre"),
            0x7375_7245 => Self::Network("Coda"),
            0x0116_1970 | 0x7461_636f => Self::Network("of a cluster: GFS2 or OCFS2"),
            0x6573_5546 => Self::User,
            0x0102_1994 | 0x8584_58f6 => Self::Memory,
            _ => Self::Local,
        }
    }

    fn finding(self, directory: &Path) -> Finding {
        let directory = directory.display();
        match self {
            Self::Local => Finding::new("filesystem", Verdict::Ok, format!("{directory} is local")),
            Self::Memory => Finding::new(
                "filesystem",
                Verdict::Warning,
                format!("{directory} is in memory: gone when the machine restarts, fencing tokens with it"),
            )
            .advise("use a directory on a disk"),
            Self::User => Finding::new(
                "filesystem",
                Verdict::Warning,
                format!("{directory} is a FUSE file system: nobody knows whether its locks hold"),
            )
            .advise("use a local file system"),
            Self::Network(name) => Finding::new(
                "filesystem",
                Verdict::No,
                format!(
                    "{directory} is a network file system ({name}): its locks and shared memory do not hold"
                ),
            )
            .advise("use a local file system, or a store that is a server"),
        }
    }
}

/// Looks at what is behind `sqlite:`.
pub(crate) fn examine(rest: &str) -> Vec<Finding> {
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    let mut findings = Vec::new();
    let Ok(path) = std::path::absolute(path) else { return findings };
    // A link leads to where the files are.
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let Some(directory) = path.parent().filter(|directory| directory.is_dir()) else { return findings };
    let version = format!("SQLite {}, built in", rusqlite::version());
    findings.push(Finding::new("version", Verdict::Ok, version));
    findings.extend(place(directory));
    findings.extend(damage(&path));
    let synchronous = options.split('&').rfind(|option| option.starts_with("synchronous="));
    findings.push(if synchronous == Some("synchronous=normal") {
        Finding::new(
            "durability",
            Verdict::Warning,
            "commits are not synced to the disk: a power failure takes the last ones, fencing tokens go back",
        )
        .advise("leave out synchronous=normal if that must not be")
    } else {
        Finding::new(
            "durability",
            Verdict::Ok,
            "each commit is synced to the disk, as far as the disk tells the truth",
        )
    });
    findings
}

/// Looks at all of a file. What is no database, or cannot be read, is said by whoever opens it.
fn damage(path: &Path) -> Option<Finding> {
    let found = path.is_file().then(|| super::file::all_damage(path))?.ok()?;
    Some(match found {
        None => Finding::new("damage", Verdict::Ok, "the file holds together"),
        Some(damage) => Finding::new("damage", Verdict::No, format!("{}: {damage}", path.display()))
            .advise("end all nodes, remove the file with its -wal and -shm, and start them again"),
    })
}

#[cfg(target_os = "linux")]
fn place(directory: &Path) -> Vec<Finding> {
    let stat = match rustix::fs::statfs(directory) {
        Ok(stat) => stat,
        Err(error) => {
            let said = format!("{}: {error}", directory.display());
            return vec![Finding::new("filesystem", Verdict::Unknown, said)];
        }
    };
    let magic = u64::try_from(stat.f_type).unwrap_or(0);
    let free = stat.f_bavail.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0));
    let mut findings = vec![FileSystem::of(magic).finding(directory)];
    findings.push(space(directory, free));
    findings
}

/// Elsewhere nobody is asked: opening the file shows whether it has locks and shared memory.
#[cfg(not(target_os = "linux"))]
fn place(_: &Path) -> Vec<Finding> {
    Vec::new()
}

fn space(directory: &Path, free: u64) -> Finding {
    let said = format!("{} MiB are free in {}", free >> 20, directory.display());
    if free >= SPACE {
        return Finding::new("space", Verdict::Ok, said);
    }
    Finding::new("space", Verdict::Warning, said)
        .advise("make room: on a full disk no name can be registered")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_share_is_refused_and_a_local_disk_is_not() {
        let here = Path::new("/somewhere");
        for (magic, verdict) in [
            (0xef53, Verdict::Ok),
            (0x5846_5342, Verdict::Ok),
            (0x6969, Verdict::No),
            (0xfe53_4d42, Verdict::No),
            (0x6573_5546, Verdict::Warning),
            (0x0102_1994, Verdict::Warning),
        ] {
            let finding = FileSystem::of(magic).finding(here);
            assert_eq!(finding.verdict, verdict, "{magic:x}: {}", finding.said);
            assert_eq!(finding.advice.is_some(), verdict != Verdict::Ok);
        }
    }

    #[test]
    fn a_disk_that_is_nearly_full_is_told() {
        assert_eq!(space(Path::new("/x"), SPACE).verdict, Verdict::Ok);
        assert_eq!(space(Path::new("/x"), SPACE - 1).verdict, Verdict::Warning);
    }

    #[test]
    fn what_a_power_failure_may_take_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let verdict = |options: &str| {
            let rest = format!("{}{options}", directory.path().join("x.db").display());
            let findings = examine(&rest);
            findings.into_iter().find(|finding| finding.check == "durability").map(|finding| finding.verdict)
        };
        assert_eq!(verdict(""), Some(Verdict::Ok));
        assert_eq!(verdict("?synchronous=normal"), Some(Verdict::Warning));
        assert_eq!(
            verdict("?synchronous=full&synchronous=normal"),
            Some(Verdict::Warning),
            "the last one counts"
        );
        assert_eq!(verdict("?synchronous=normal&synchronous=full"), Some(Verdict::Ok));
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing was created");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_look_at_a_file_says_where_it_is_and_whether_it_holds_together() {
        use super::super::{DatabaseFile, SqliteOptions};
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.db");
        let looked = |options: &str| -> Vec<_> {
            let findings = examine(&format!("{}{options}", file.display()));
            findings.into_iter().map(|finding| (finding.check, finding.verdict)).collect()
        };
        let checks = |found: &[(&'static str, Verdict)]| found.iter().map(|one| one.0).collect::<Vec<_>>();
        let before = looked("");
        assert_eq!(checks(&before), ["version", "filesystem", "space", "durability"], "it is not there yet");
        drop(DatabaseFile::open(&file, SqliteOptions::default()).unwrap());
        let found = looked("?synchronous=normal&");
        assert_eq!(checks(&found), ["version", "filesystem", "space", "damage", "durability"]);
        assert_eq!(found[3..], [("damage", Verdict::Ok), ("durability", Verdict::Warning)]);
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[4096..].fill(0x5a);
        std::fs::write(&file, bytes).unwrap();
        assert!(!looked("").contains(&("damage", Verdict::Ok)));
        assert_eq!(examine("/nowhere/at/all/x.db"), []);
    }
}
