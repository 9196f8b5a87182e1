//! The processes that descend from this one: who they are, and how they are killed and reaped.

use std::{
    collections::BTreeSet,
    fs, io,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal,
        set_child_subreaper, wait,
    },
};

/// Makes this process the parent of whoever descends from it and loses its own.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// The parent of a process, now.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // PID (NAME) STATE PARENT: the name may have anything in it, but no newline.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// This process, and everybody who descends from it and is there now.
fn family() -> io::Result<BTreeSet<i32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        parents.extend(pid.and_then(|pid| Some((pid, parent(pid)?))));
    }
    let mut family = BTreeSet::from([getpid().as_raw_nonzero().get()]);
    loop {
        let before = family.len();
        for (pid, parent) in &parents {
            if family.contains(parent) {
                family.insert(*pid);
            }
        }
        if family.len() == before {
            return Ok(family);
        }
    }
}

/// Kills everybody who descends from this process and was there when it looked. Does not wait.
pub(crate) fn kill_descendants() -> io::Result<()> {
    let family = family()?;
    let own = getpid().as_raw_nonzero().get();
    for pid in family.iter().filter(|pid| **pid != own) {
        // Whose number it is may have changed since: held first, then asked again.
        let Some(held) = Pid::from_raw(*pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            continue;
        };
        if parent(*pid).is_some_and(|parent| family.contains(&parent)) {
            // One that has ended meanwhile needs no signal.
            let _ = pidfd_send_signal(held, Signal::KILL);
        }
    }
    Ok(())
}

/// A child that has ended.
pub(crate) enum Reaped {
    /// This one, in this way.
    Child(Pid, WaitStatus),
    /// None has ended that was not reaped.
    NoneEnded,
    /// There is no child at all, so nobody descends from this process.
    Childless,
}

/// Reaps one child that has ended, if there is one. Does not wait.
pub(crate) fn reap() -> io::Result<Reaped> {
    match wait(WaitOptions::NOHANG) {
        Ok(Some((pid, status))) => Ok(Reaped::Child(pid, status)),
        Ok(None) => Ok(Reaped::NoneEnded),
        Err(Errno::CHILD) => Ok(Reaped::Childless),
        Err(error) => Err(error.into()),
    }
}

/// Waits until nobody descends from this process, and kills whoever does after `patience`. Whether nobody does, at last,
/// within `dying` after that. Blocks.
pub(crate) fn own_no_orphans(patience: Duration, dying: Duration) -> io::Result<bool> {
    let began = Instant::now();
    loop {
        match reap()? {
            Reaped::Childless => return Ok(true),
            Reaped::Child(..) => continue,
            Reaped::NoneEnded if began.elapsed() >= patience + dying => return Ok(false),
            Reaped::NoneEnded if began.elapsed() >= patience => kill_descendants()?,
            Reaped::NoneEnded => {}
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
