//! A program that must not run twice, and says when it did: what `callsign demo --singleton` and the tests have run.
//!
//! Each one tries to lock `FILE.lock`, which the kernel frees with the process, and appends lines of JSON to `FILE`: when it
//! starts, acts and ends. Who cannot get the lock says `overlap`, and goes on.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use callsign_store::clock::Clock;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use signal_hook::{consts::SIGTERM, flag};

use crate::duration;

/// Arguments of the hidden `callsign witness`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to write.
    #[arg(long)]
    file: PathBuf,
    /// How often to act.
    #[arg(long, default_value = "5ms", value_parser = duration::parse)]
    every: Duration,
    /// Go on when asked to end.
    #[arg(long)]
    ignore_term: bool,
    /// End after this time.
    #[arg(long, value_parser = duration::parse)]
    exit_after: Option<Duration>,
    /// With this status.
    #[arg(long, default_value_t = 0)]
    status: u8,
}

/// What a witness did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Did {
    /// It began, alone.
    Start,
    /// It began, and another one was there.
    Overlap,
    /// It did its work.
    Act,
    /// It was asked to end.
    Asked,
    /// It ended by itself.
    End,
}

/// A line of a witness.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    /// When, in nanoseconds of the machine's boot-time clock.
    pub(crate) at: u64,
    /// Which process.
    pub(crate) pid: u32,
    /// For which node.
    pub(crate) member: String,
    /// In which epoch; under which token, if it holds a name.
    pub(crate) epoch: u64,
    /// What it did.
    pub(crate) did: Did,
}

struct Witness {
    file: File,
    clock: Clock,
    member: String,
    epoch: u64,
}

impl Witness {
    fn write(&mut self, did: Did) -> Result<()> {
        let line = Line {
            at: u64::try_from(self.clock.now().0.as_nanos())?,
            pid: std::process::id(),
            member: self.member.clone(),
            epoch: self.epoch,
            did,
        };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        // In one piece, at the end: lines of several processes do not mix.
        self.file.write_all(&bytes).context("cannot write")
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let asked = Arc::new(AtomicBool::new(false));
    flag::register(SIGTERM, Arc::clone(&asked))?;
    let told = |name| std::env::var(name).with_context(|| format!("{name} is not set"));
    // Of a singleton, or of a name.
    let token = told("CALLSIGN_EPOCH").or_else(|_| told("CALLSIGN_TOKEN"))?;
    let mut lock = args.file.clone().into_os_string();
    lock.push(".lock");
    let lock = OpenOptions::new().create(true).append(true).open(&lock)?;
    let mut witness = Witness {
        file: OpenOptions::new().create(true).append(true).open(&args.file)?,
        clock: Clock::boot(),
        member: told("CALLSIGN_MEMBER")?,
        epoch: token.parse().context("the token is no number")?,
    };
    let alone = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    witness.write(if alone { Did::Start } else { Did::Overlap })?;
    let began = witness.clock.now();
    while args.exit_after.is_none_or(|after| witness.clock.now().since(began) < after) {
        if asked.swap(false, SeqCst) {
            witness.write(Did::Asked)?;
            if !args.ignore_term {
                break;
            }
        }
        witness.write(Did::Act)?;
        std::thread::sleep(args.every);
    }
    witness.write(Did::End)?;
    Ok(ExitCode::from(args.status))
}
