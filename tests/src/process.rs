//! One node as a child process.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{PipeReader, Write, pipe},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::{
    binary,
    client::Client,
    history::Life,
    holds::Holds,
    links::{Links, StoreLinks},
    wait::{eventually, wait_for},
};

/// How long a node may take from its start to its ready line, beyond the lease of a former self.
const STARTING: Duration = Duration::from_secs(30);

/// How many lines of a log are shown when a test has failed.
const LINES_SHOWN: usize = 80;

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// Another `callsign` than the one of this build.
    pub program: Option<PathBuf>,
    /// The lease of its session.
    pub lease: Duration,
    /// The cluster's secret, or none.
    pub secret: Option<String>,
    /// More arguments.
    pub arguments: Vec<OsString>,
    /// Links that can be cut; without, nodes reach each other directly.
    pub links: Option<Links>,
    /// Ways to the store that can be cut for one node; without, nodes reach it directly.
    pub store_links: Option<StoreLinks>,
    /// Where it logs to.
    pub log: Sink,
}

/// Where a process writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sink {
    /// A file of the test's.
    #[default]
    File,
    /// A pipe whose reader is gone.
    Gone,
    /// A pipe that nobody reads, and that is full.
    Unread,
    /// A disk without any room.
    FullDisk,
}

impl Sink {
    /// The way there; and what has to be kept for as long as it is to stay as it is.
    pub fn open(self, file: &Path) -> (Stdio, Option<PipeReader>) {
        let piped = || pipe().expect("a pipe can be made");
        match self {
            Self::File => (File::create(file).expect("a temporary directory can be written").into(), None),
            Self::Gone => (piped().1.into(), None),
            Self::Unread => {
                let (reader, writer) = piped();
                let mut fills = writer.try_clone().expect("a pipe can be shared");
                // Full from the start, and for as long as there is a reader.
                std::thread::spawn(move || fills.write_all(&vec![b'.'; 1 << 20]));
                (writer.into(), Some(reader))
            }
            Self::FullDisk => {
                let full = File::options().write(true).open("/dev/full").expect("Linux has it");
                (full.into(), None)
            }
        }
    }
}

impl StartOptions {
    /// A node with this lease, without a secret.
    pub fn lease(lease: Duration) -> Self {
        Self {
            program: None,
            lease,
            secret: None,
            arguments: Vec::new(),
            links: None,
            store_links: None,
            log: Sink::default(),
        }
    }

    /// With links that can be cut: [`Cluster::links`](crate::Cluster::links).
    #[must_use]
    pub fn linked(self) -> Self {
        Self { links: Some(Links::default()), ..self }
    }

    /// With ways to the store that can be cut: [`Cluster::store_links`](crate::Cluster::store_links). Over Postgres only.
    #[must_use]
    pub fn store_linked(self) -> Self {
        Self { store_links: Some(StoreLinks::default()), ..self }
    }
}

/// The line with which a node says that it can be asked.
#[derive(Clone, Debug, Deserialize)]
pub struct Ready {
    /// Its incarnation.
    #[serde(deserialize_with = "hexadecimal")]
    pub incarnation: u64,
    /// Its HTTP endpoint.
    pub admin: String,
    /// Where it listens for links, `127.0.0.1:PORT`.
    pub listen: String,
}

/// A number that is too great for JSON.
fn hexadecimal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    u64::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
}

/// A node that did not start, or has ended.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// How it ended; `None` if it had to be killed.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard error.
    pub log: String,
}

/// Where nodes record what they do, beside their logs.
pub(crate) fn recordings(logs: &Path) -> PathBuf {
    logs.join("recordings")
}

/// A node. Killed when it is dropped.
#[derive(Debug)]
pub struct NodeProcess {
    name: String,
    /// What it runs, if not the `callsign` of this build.
    pub program: Option<PathBuf>,
    child: Child,
    ended: Option<ExitStatus>,
    log: PathBuf,
    /// Of what it writes, if nobody is to read that.
    _unread: Option<PipeReader>,
    /// What it said when it was ready.
    pub ready: Ready,
    /// Asks it.
    pub client: Client,
    /// Its incarnation, in the history.
    pub life: Arc<Life>,
}

impl NodeProcess {
    /// Starts a node over the store at `store`, and waits for its ready line. Its output goes to files named after it
    /// and `launch` in `logs`, its recordings beside them.
    ///
    /// The kernel kills it when the calling thread ends.
    pub fn start(
        name: &str,
        store: &str,
        options: &StartOptions,
        logs: &Path,
        launch: usize,
    ) -> Result<Self, Stopped> {
        let (out, log) =
            (logs.join(format!("{launch:02}-{name}.out")), logs.join(format!("{launch:02}-{name}.log")));
        // What nobody reads is to be much.
        let level = if options.log == Sink::File { "info" } else { "trace" };
        let level = std::env::var("CALLSIGN_TEST_LOG").unwrap_or_else(|_| level.into());
        let (logged, unread) = options.log.open(&log);
        let store = options.store_links.as_ref().map_or(store.to_owned(), |links| links.url(name, store));
        let mut command = Command::new(options.program.as_deref().unwrap_or_else(|| binary::callsign()));
        command
            .args(["node", "--print-json", "--name", name, "--store", &store, "--log", &level])
            // No node comes to listen where another one has.
            .args(["--admin", "127.0.0.1:0"])
            // However long commits take on a machine that has more to do.
            .args(["--lease-anyway", "--lease", &format!("{}ms", options.lease.as_millis())])
            .arg("--record")
            .arg(recordings(logs))
            .args(&options.arguments)
            .env("CALLSIGN_PARENT", std::process::id().to_string())
            .env_remove("CALLSIGN_SECRET")
            .stdin(Stdio::null())
            .stdout(Sink::File.open(&out).0)
            .stderr(logged);
        if let Some(secret) = &options.secret {
            command.env("CALLSIGN_SECRET", secret);
        }
        if let Some(links) = &options.links {
            command.args(["--advertise", &links.address(name).to_string()]);
        }
        let mut child = command.spawn().expect("the binary was found and can be run");
        if let Some(links) = &options.links {
            links.started(name, child.id());
        }
        let mut ended = None;
        let line = wait_for(STARTING + options.lease * 2, || {
            ended = child.try_wait().expect("a child can be waited for");
            let line = fs::read_to_string(&out).ok().filter(|text| text.ends_with('\n'));
            (line.is_some() || ended.is_some()).then_some(line)
        });
        let Some(Some(line)) = line else {
            if ended.is_none() {
                kill(&mut child);
            }
            return Err(Stopped { status: ended, log: fs::read_to_string(&log).unwrap_or_default() });
        };
        let ready: Ready = serde_json::from_str(&line).expect("the ready line is JSON");
        if let Some(links) = &options.links {
            links.listens(name, ready.listen.parse().expect("the ready line has an address"));
        }
        let client = Client::new(&ready.admin);
        let life = Arc::new(Life::new(name, ready.incarnation, client.clone()));
        let (name, program) = (name.to_owned(), options.program.clone());
        Ok(Self { name, program, child, ended, log, _unread: unread, ready, client, life })
    }

    /// The time that it has spent on processors so far, user and system. To a hundredth of a second.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it is there");
        // PID (NAME) STATE and, counted from there, user and system ticks as the 12th and 13th.
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks = rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number"));
        // Linux tells user space hundredths, whatever it counts itself.
        Duration::from_millis(10 * ticks.sum::<u64>())
    }

    /// The memory that it has in use, in bytes: what of it is in the machine's.
    pub fn memory(&self) -> u64 {
        Holds::of(self.child.id()).expect("it is there").resident
    }

    /// Tells it to read its keys again (SIGHUP).
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        assert!(self.ended.is_none(), "{} has ended", self.name);
        kill_process(as_pid(self.child.id()), signal)
            .expect("a child that was not waited for can be signalled");
    }

    /// Kills it (SIGKILL) and waits until it is dead. Its life ends at the moment before.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            self.life.end();
            self.ended = kill(&mut self.child);
        }
    }

    /// Stops it (SIGSTOP), and waits until none of its threads runs.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        wait_until_stopped(self.child.id());
    }

    /// Lets it go on (SIGCONT).
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to leave in good order (SIGTERM), and waits until it has ended.
    pub fn terminate(&mut self) -> Stopped {
        self.life.end();
        self.signal(Signal::TERM);
        self.wait(Duration::from_secs(20))
    }

    /// Asks it to leave in good order (SIGTERM). Nothing is expected of it from here on.
    pub fn ask_to_end(&self) {
        self.life.end();
        self.signal(Signal::TERM);
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self, wait: Duration) -> Stopped {
        let child = &mut self.child;
        self.ended = wait_for(wait, || child.try_wait().expect("a child can be waited for"));
        Stopped { status: self.ended, log: self.log() }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child can be waited for");
        }
        self.ended.is_none()
    }

    /// What it has written to standard error so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The id of a process that was started, for signals.
pub(crate) fn as_pid(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id")
}

/// Waits until none of a process's threads runs.
pub(crate) fn wait_until_stopped(pid: u32) {
    eventually("every thread is stopped", Duration::from_secs(10), || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| e.to_string())?;
        for task in tasks.flatten() {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // PID (NAME) STATE
            let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).chars().next();
            if state != Some('T') {
                return Err(stat);
            }
        }
        Ok(())
    });
}

/// Kills a child, and waits until it is dead.
pub(crate) fn kill(child: &mut Child) -> Option<ExitStatus> {
    // It may have ended by itself, which is as good.
    let _ = child.kill();
    child.wait().ok()
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
            eprintln!("---- the end of {}\n{tail}", self.log.display());
        }
    }
}
