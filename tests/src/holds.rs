//! What a process of this machine has of it.

use std::fs;

/// What there is of a process at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Bytes of it that are in the machine's memory.
    pub resident: u64,
    /// How many of these are its own, and of no file.
    pub anonymous: u64,
    /// Files and sockets that it has open.
    pub files: u64,
    /// Threads.
    pub threads: u64,
}

impl Holds {
    /// What a process has now; `None` if there is none of this number, or it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        // Linux says these in KiB, whatever its pages are.
        let (resident, anonymous) = (number("VmRSS")? << 10, number("RssAnon")? << 10);
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64;
        Some(Self { resident, anonymous, files, threads: number("Threads")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_files_and_threads() {
        let before = Holds::of(std::process::id()).unwrap();
        assert!(before.anonymous > 0 && before.anonymous <= before.resident, "{before:?}");
        let much = vec![1_u8; 32 << 20];
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/proc/self/status").unwrap()).collect();
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || end.recv());
        let after = Holds::of(std::process::id()).unwrap();
        assert!(after.anonymous >= before.anonymous + (much.len() as u64 / 2), "{before:?}, {after:?}");
        assert!(after.resident >= after.anonymous, "{after:?}");
        // Other tests of the process open and close files of theirs.
        assert!(after.files + 25 > before.files + files.len() as u64, "{before:?}, {after:?}");
        assert!(after.threads >= 2, "{after:?}");
        drop(ends);
        thread.join().unwrap().unwrap_err();
    }

    #[test]
    fn what_is_not_there_has_nothing() {
        assert_eq!(Holds::of(u32::MAX), None);
    }
}
