//! Several `callsign run`, or `callsign hold`, over one store, and the program that only one of them may run.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::{Signal, kill_process, kill_process_group};

use crate::{
    binary,
    process::{Stopped, as_pid, kill, wait_until_stopped},
    programs::Place,
    store::TestStore,
    store_view::StoreView,
    wait::{TEST_DEADLINE, eventually, wait_for},
    witness::{Line, Lines},
};

/// The command of nodes that hold a name, and the name.
const HOLD: [&str; 2] = ["hold", "program"];

/// Nodes that would run one program, over a store of their own.
#[derive(Debug)]
pub struct Singleton {
    /// The nodes, by name.
    pub runners: Vec<Runner>,
    /// What they are started with, besides name and store.
    pub options: Vec<OsString>,
    /// What they run.
    pub program: Vec<OsString>,
    /// The command of a node, and what there is one of.
    command: Vec<OsString>,
    binary: PathBuf,
    launches: usize,
    view: StoreView,
    place: TestStore,
    files: Place,
}

impl Singleton {
    /// A store, and nobody there yet. The program is a witness with these arguments.
    pub fn new(options: &[&str], witness: &[&str]) -> Self {
        let files = Place::new(None, "callsign-singleton-").expect("a temporary directory can be made");
        let place = TestStore::new(files.directory());
        let command = ["run", "--singleton", "program"];
        Self::over(place, files, binary::callsign(), command.as_slice(), options, witness)
    }

    /// As [`new`](Self::new), with nodes that hold the name `program`.
    pub fn of_a_name(options: &[&str], witness: &[&str]) -> Self {
        let mut holders = Self::new(options, witness);
        holders.command = HOLD.map(OsString::from).to_vec();
        holders
    }

    /// The same over a store that others use, too. The command is this one, and all files are in a directory that stays.
    pub fn beside(
        place: TestStore,
        directory: PathBuf,
        callsign: &Path,
        options: &[&str],
        witness: &[&str],
    ) -> Self {
        Self::over(place, Place::Asked(directory), callsign, &HOLD, options, witness)
    }

    fn over(
        place: TestStore,
        files: Place,
        callsign: &Path,
        command: &[&str],
        options: &[&str],
        witness: &[&str],
    ) -> Self {
        let mut program: Vec<OsString> = vec![callsign.into(), "witness".into(), "--file".into()];
        program.push(files.directory().join("witness").into());
        program.extend(witness.iter().map(OsString::from));
        let owned = |words: &[&str]| words.iter().map(OsString::from).collect();
        Self {
            runners: Vec::new(),
            options: owned(options),
            program,
            command: owned(command),
            binary: callsign.to_owned(),
            launches: 0,
            view: StoreView::open(&place),
            place,
            files,
        }
    }

    /// The store's URL, and the cluster in it.
    pub fn place(&self) -> (&str, &str) {
        (&self.place.url, &self.place.cluster)
    }

    /// With nodes of these names, of which one runs the program.
    pub fn start(options: &[&str], witness: &[&str], names: &[&str]) -> Self {
        let mut singleton = Self::new(options, witness);
        for name in names {
            singleton.launch(name);
        }
        singleton.wait_for_start(0);
        singleton
    }

    /// What nodes are started with from now on.
    pub fn set_options(&mut self, options: &[&str]) {
        self.options = options.iter().map(OsString::from).collect();
    }

    /// Starts a node, in place of one of that name, which is killed.
    pub fn launch(&mut self, name: &str) {
        let (command, store) = (Command::new(&self.binary), self.place.url.clone());
        self.launch_by(name, command, &store, &[]);
    }

    /// The same by something that becomes the command, with its own way to the store and more options.
    pub fn launch_by(&mut self, name: &str, mut command: Command, store: &str, more: &[String]) {
        self.runners.retain(|runner| runner.name != name);
        self.launches += 1;
        let log = self.files.directory().join(format!("{:02}-{name}.log", self.launches));
        let written = File::create(&log).expect("a directory of the test's can be written");
        // An option has the last word.
        if !self.options.iter().any(|option| option == "--store") {
            command.env("CALLSIGN_STORE", store);
        }
        command
            // However long commits take on a machine that has more to do.
            .args(&self.command)
            .args(["--lease-anyway", "--member", name])
            .args(["--cluster", &self.place.cluster])
            .args(&self.options)
            .args(more)
            .arg("--")
            .args(&self.program)
            .env("CALLSIGN_PARENT", std::process::id().to_string())
            // As a shell does it: what a terminal sends goes to all of the group.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(written.try_clone().expect("a file can be shared"))
            .stderr(written);
        let child = command.spawn().expect("the binary was found and can be run");
        self.runners.push(Runner { name: name.to_owned(), child, ended: None, log });
    }

    /// A file of the test's.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.directory().join(name)
    }

    /// What the programs have written.
    pub fn lines(&self) -> Lines {
        Lines::read(&self.file("witness"))
    }

    /// Waits until programs have been started more than `before` times, and returns the last start.
    pub fn wait_for_start(&self, before: usize) -> Line {
        eventually("the program is started", TEST_DEADLINE, || {
            let lines = self.lines();
            let count = lines.starts().count();
            let last = lines.starts().last().filter(|_| count > before).cloned();
            last.ok_or_else(|| format!("{count} starts; {}", self.logs()))
        })
    }

    /// Waits until the program of this start acts no more: its process is gone.
    pub fn wait_for_end(&self, start: &Line) {
        eventually("the program is gone", TEST_DEADLINE, || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", start.pid)).unwrap_or_default();
            // PID (NAME) STATE: a dead one stays until its parent, which may be stopped, has asked for its status.
            let is_gone =
                stat.is_empty() || stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
            if is_gone { Ok(()) } else { Err(self.logs()) }
        });
    }

    /// How often the program was started.
    pub fn starts(&self) -> usize {
        self.lines().starts().count()
    }

    /// The node of this name.
    pub fn runner(&mut self, name: &str) -> &mut Runner {
        self.runners.iter_mut().find(|runner| runner.name == name).expect("a node that was started")
    }

    /// Stops a node (SIGSTOP) at a moment at which it is not writing to the store, where it would keep everybody from
    /// writing.
    pub fn stop_outside_a_commit(&mut self, name: &str) {
        eventually("the node is stopped outside a commit", TEST_DEADLINE, || {
            let runner =
                self.runners.iter().find(|runner| runner.name == name).expect("a node that was started");
            runner.stop();
            if !self.view.can_lock() || self.view.try_lock().is_some() {
                return Ok(());
            }
            runner.go_on();
            Err("it was writing".to_owned())
        });
    }

    /// Panics if two ever ran at once.
    pub fn check(&self) {
        let lines = self.lines();
        assert!(lines.starts().count() > 0, "nothing was started");
        if let Err(why) = lines.overlap() {
            panic!("{why}\n{}", self.logs());
        }
    }

    /// What the nodes have said.
    pub fn logs(&self) -> String {
        let logs: Vec<_> =
            self.runners.iter().map(|runner| format!("---- {}\n{}", runner.name, runner.log())).collect();
        logs.join("")
    }
}

impl Drop for Singleton {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// A `callsign run` or `callsign hold`. Killed when it is dropped.
#[derive(Debug)]
pub struct Runner {
    /// Its name.
    pub name: String,
    child: Child,
    ended: Option<ExitStatus>,
    log: PathBuf,
}

impl Runner {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it (SIGKILL) and waits until it is dead.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            self.ended = kill(&mut self.child);
        }
    }

    /// Stops it and its group (SIGSTOP), and waits until none of its threads runs.
    pub fn stop(&self) {
        kill_process_group(as_pid(self.pid()), Signal::STOP).expect("the process is there");
        wait_until_stopped(self.pid());
    }

    /// Lets it go on (SIGCONT).
    pub fn go_on(&self) {
        kill_process_group(as_pid(self.pid()), Signal::CONT).expect("the process is there");
    }

    /// Asks it to end in good order (SIGTERM).
    pub fn ask_to_end(&self) {
        signal(self.pid(), Signal::TERM);
    }

    /// Asks it to end in good order (SIGTERM), and waits until it has ended.
    pub fn terminate(&mut self) -> Stopped {
        self.ask_to_end();
        self.wait()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> Stopped {
        let child = &mut self.child;
        self.ended = wait_for(TEST_DEADLINE, || child.try_wait().expect("a child can be waited for"));
        Stopped { status: self.ended, log: self.log() }
    }

    /// How it has ended, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child can be waited for");
        }
        self.ended
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process that is there.
pub fn signal(pid: u32, signal: Signal) {
    kill_process(as_pid(pid), signal).expect("the process is there");
}

/// The parent of a program: its guard.
pub fn guard_of(program: &Line) -> u32 {
    parent_of(program.pid)
}

/// The parent of a process.
pub fn parent_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    // PID (NAME) STATE PARENT
    let parent =
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)).and_then(|pid| pid.parse().ok());
    parent.expect("a process has a parent")
}
