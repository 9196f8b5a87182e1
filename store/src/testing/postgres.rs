//! A private Postgres server in a temporary directory, with no disk syncs; gone with its handle, or with this process.

mod pair;

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

pub use pair::Pair;
use rustix::process::{Pid, Signal, kill_process};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// A server that runs, or is stopped for a while.
pub struct Server {
    directory: tempfile::TempDir,
    programs: PathBuf,
    user: Option<ServerUser>,
    process: Option<Child>,
    /// Where it listens for encrypted connections.
    tls_port: Option<u16>,
}

/// Whom to run as: the server refuses to run as root.
#[derive(Clone, Copy)]
struct ServerUser {
    uid: u32,
    gid: u32,
}

/// Starts it, and ends it as the line says that comes on its input; at once if that ends.
const SCRIPT: &str = r#""$0" "$@" & server=$!; read -r how; kill "-${how:-QUIT}" "$server"; wait "$server""#;

impl Server {
    /// `None`, and a line that says so, where Postgres is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// The same, with these lines in its configuration from the beginning.
    pub fn start_with(settings: &str) -> Option<Self> {
        Self::start_in(&std::env::temp_dir(), settings)
    }

    /// The same, with all that it has in a directory below this one.
    pub fn start_in(parent: &Path, settings: &str) -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: no initdb and postgres in /usr/lib/postgresql/*/bin or PATH");
            return None;
        };
        let mut server = Self::in_a_place_of_its_own(programs, parent);
        let template = server.template();
        if !server.data().exists() {
            server.copy(&template.to_string_lossy(), "data");
        }
        if !settings.is_empty() {
            server.write("data/postgresql.auto.conf", settings);
        }
        server.resume();
        Some(server)
    }

    /// The data of a server that was never started, made once for all tests of this machine: a copy of it takes a tenth of the time.
    fn template(&self) -> PathBuf {
        let owner = self.user.map_or(rustix::process::geteuid().as_raw(), |user| user.uid);
        let version = self.programs.to_string_lossy().replace('/', "-");
        let template = std::env::temp_dir().join(format!("callsign-pg-template-{owner}{version}"));
        if !template.join("PG_VERSION").is_file() {
            let made = self
                .command(&self.programs.join("initdb"))
                .args(["--auth=trust", "--username=postgres", "--no-sync", "--no-locale", "--encoding=UTF8"])
                .arg("--wal-segsize=1")
                .arg(self.data())
                .output()
                .unwrap();
            assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
            // Where another test was faster, its template stays: a directory takes the place of an empty one only.
            let _ = std::fs::rename(self.data(), &template);
        }
        template
    }

    /// No server yet.
    fn in_a_place_of_its_own(programs: PathBuf, parent: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("callsign-pg-").tempdir_in(parent).unwrap();
        let user = rustix::process::geteuid().is_root().then(unprivileged);
        if let Some(ServerUser { uid, gid }) = user {
            chown(directory.path(), Some(uid), Some(gid)).unwrap();
        }
        Self { directory, programs, user, process: None, tls_port: None }
    }

    /// Another server that follows this one: a hot standby that streams, and that no commit waits for.
    #[allow(dead_code)] // tests of whole clusters do
    #[must_use]
    pub fn standby(&self) -> Self {
        let mut standby = Self::in_a_place_of_its_own(self.programs.clone(), &std::env::temp_dir());
        let copied = standby
            .command(&standby.programs.join("pg_basebackup"))
            .args(["--username=postgres", "--write-recovery-conf", "--wal-method=stream"])
            .args(["--checkpoint=fast", "--no-sync"])
            .arg("--host")
            .arg(self.directory.path())
            .arg("--pgdata")
            .arg(standby.data())
            .output()
            .unwrap();
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        standby.resume();
        standby
    }

    /// What it answers to one statement, as text.
    #[allow(dead_code)] // tests of whole clusters do
    pub fn ask(&self, statement: &str) -> String {
        let asked = self
            .command(&self.programs.join("psql"))
            .args(["--no-psqlrc", "--no-align", "--tuples-only", "--username=postgres", "--host"])
            .arg(self.directory.path())
            .args(["--command", statement])
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        assert!(asked.status.success(), "{statement}: {}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8(asked.stdout).unwrap().trim().to_owned()
    }

    /// Whoever connects to where another server listened gets to this one.
    #[allow(dead_code)] // tests of whole clusters do
    pub fn take_over_from(&self, other: &Self) {
        std::fs::remove_file(other.socket()).unwrap();
        std::os::unix::fs::symlink(self.socket(), other.socket()).unwrap();
    }

    /// Whether somebody listens. One that has ended by itself does not.
    pub fn listens(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
    }

    /// Starts it again on the same data.
    pub fn resume(&mut self) {
        let mut process = self
            .command(Path::new("sh"))
            .args(["-c", SCRIPT])
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.directory.path())
            .args(self.listening())
            .args(["-c", "fsync=off", "-c", "max_connections=200"])
            .args([
                "-c",
                "shared_buffers=16MB",
                "-c",
                "autovacuum_naptime=1",
                "-c",
                "log_min_messages=warning",
            ])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = process.stderr.take().unwrap();
        self.process = Some(process);
        let (ready, is_ready) = mpsc::channel();
        std::thread::spawn(move || listen(stderr, &ready));
        is_ready.recv_timeout(START_DEADLINE).expect("the server did not start");
    }

    fn listening(&self) -> Vec<String> {
        match self.tls_port {
            None => vec!["-clisten_addresses=".to_owned()],
            Some(port) => vec![
                "-clisten_addresses=localhost".to_owned(),
                format!("-cport={port}"),
                "-cssl=on".to_owned(),
            ],
        }
    }

    /// Makes a certificate for "localhost", and starts again with it; `None` where there is no `openssl`. Says where it
    /// listens, and where the certificate is.
    pub fn encrypt(&mut self) -> Option<(u16, PathBuf)> {
        let (certificate, key) = (self.data().join("server.crt"), self.data().join("server.key"));
        let made = self
            .command(Path::new("openssl"))
            .args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(key)
            .arg("-out")
            .arg(&certificate)
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: no openssl that makes a certificate");
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        self.stop();
        self.tls_port = Some(free.port());
        self.resume();
        Some((free.port(), certificate))
    }

    /// Ends it in good order: transactions are rolled back, connections closed.
    pub fn stop(&mut self) {
        self.end("INT");
    }

    /// Ends it as a crash would.
    pub fn crash(&mut self) {
        self.end("QUIT");
    }

    /// Kills it (SIGKILL): nothing is tidied up.
    #[allow(dead_code)] // tests of whole clusters do
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Whether it was started, and not ended since.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Kills it with all of its processes, at once, if it runs: as a machine does that loses its power.
    pub fn destroy(&mut self) {
        if !self.runs() {
            return;
        }
        // It starts no other ones, and does not tell anybody goodbye.
        self.pause();
        let (postmaster, processes) = self.processes();
        for process in processes.into_iter().filter(|process| *process != postmaster) {
            send(process, Signal::KILL);
        }
        self.end("KILL");
    }

    /// Stops all of its processes for a while (SIGSTOP): its connections stay, and say nothing.
    pub fn pause(&self) {
        // Those that were started before the first one stood still.
        let (postmaster, _) = self.processes();
        send(postmaster, Signal::STOP);
        self.processes().1.into_iter().for_each(|process| send(process, Signal::STOP));
    }

    /// Lets them go on.
    pub fn go_on(&self) {
        self.processes().1.into_iter().for_each(|process| send(process, Signal::CONT));
    }

    /// The first process of the server, and all of them.
    fn processes(&self) -> (Pid, Vec<Pid>) {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let first = file.lines().next().and_then(|line| line.trim().parse().ok()).and_then(Pid::from_raw);
        let first = first.expect("it runs");
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // Behind the name, which may have anything in it: the state and the parent.
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok();
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            (pid == first || parent.and_then(Pid::from_raw) == Some(first)).then_some(pid)
        });
        (first, all.collect())
    }

    /// Takes back what it has and this one has not, and has it follow that one. It must not run.
    pub fn rewind(&self, primary: &Self) {
        let source = format!("host={} user=postgres dbname=postgres", primary.directory.path().display());
        let rewound = self
            .command(&self.programs.join("pg_rewind"))
            .args(["--write-recovery-conf", "--no-sync", "--source-server", &source, "--target-pgdata"])
            .arg(self.data())
            .output()
            .unwrap();
        assert!(rewound.status.success(), "pg_rewind: {}", String::from_utf8_lossy(&rewound.stderr));
    }

    fn end(&mut self, how: &str) {
        let mut process = self.process.take().expect("it runs");
        writeln!(process.stdin.take().unwrap(), "{how}").unwrap();
        process.wait().unwrap();
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(".s.PGSQL.5432")
    }

    /// The URL of a database of this server.
    pub fn url(&self, database: &str) -> String {
        self.url_as("postgres", database)
    }

    pub fn url_as(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@{}/{database}", self.host())
    }

    /// Where it listens, as the host of a URL.
    pub fn host(&self) -> String {
        self.directory.path().display().to_string().replace('/', "%2F")
    }

    /// Writes one of its files.
    #[allow(dead_code)] // for tests of the command
    pub fn write(&self, file: &str, text: &str) {
        let path = self.directory.path().join(file);
        std::fs::write(&path, text).unwrap();
        if let Some(ServerUser { uid, gid }) = self.user {
            chown(&path, Some(uid), Some(gid)).unwrap();
        }
    }

    /// Makes one directory a copy of another. The server must be stopped.
    #[allow(dead_code)] // tests of whole clusters do
    pub fn copy(&self, from: &str, to: &str) {
        let mut copy = self.command(Path::new("cp"));
        assert!(copy.args(["-a", from, to]).status().unwrap().success(), "{from} is not copied");
    }

    /// Puts one directory in the place of another, at once. The server must be stopped.
    #[allow(dead_code)] // tests of whole clusters do
    pub fn replace(&self, old: &str, new: &str) {
        let place = |name: &str| self.directory.path().join(name);
        std::fs::rename(place(old), place(&format!("{old}.before"))).unwrap();
        std::fs::rename(place(new), place(old)).unwrap();
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(ServerUser { uid, gid }) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.runs() {
            // One that is stopped would not end.
            self.go_on();
        }
        if let Some(mut process) = self.process.take() {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }
}

/// It may have ended.
fn send(process: Pid, signal: Signal) {
    let _ = kill_process(process, signal);
}

/// Says when it is ready; passes on what else it says, which is what went wrong.
fn listen(stderr: ChildStderr, ready: &mpsc::Sender<()>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if line.contains("ready to accept") {
            let _ = ready.send(());
        } else if line.contains("ERROR") || line.contains("PANIC") {
            println!("server: {line}");
        }
    }
}

fn programs() -> Option<PathBuf> {
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<_> = packaged.map(|version| version.path().join("bin")).collect();
    // The newest first.
    places.sort_by_key(|place| std::cmp::Reverse(place.clone()));
    places.extend(std::env::split_paths(&std::env::var_os("PATH")?));
    places.into_iter().find(|place| ["initdb", "postgres"].iter().all(|name| place.join(name).is_file()))
}

fn unprivileged() -> ServerUser {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(|id| id.parse().unwrap());
        Some(ServerUser { uid: ids.next()?, gid: ids.next()? })
    };
    find("postgres").or_else(|| find("nobody")).expect("there is a user who is not root")
}
