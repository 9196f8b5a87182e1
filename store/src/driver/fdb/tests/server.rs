//! A private server in a temporary directory; gone with its handle, or with this process.

use std::{
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A server that runs, or is stopped for a while.
pub(crate) struct Server {
    directory: tempfile::TempDir,
    programs: Programs,
    /// Where it listens, and where it says that it does.
    ports: (u16, u16),
    process: Option<Child>,
}

struct Programs {
    server: PathBuf,
    cli: PathBuf,
}

/// Starts it, and kills it as its input says so, or ends.
const SCRIPT: &str = r#""$0" "$@" & server=$!; read -r _; kill -KILL "$server"; wait "$server""#;

impl Server {
    /// `None`, and a line that says so, where `FoundationDB`'s server is not installed.
    pub(crate) fn start() -> Option<Self> {
        let port = free_port();
        Self::start_behind(port, port)
    }

    /// One that says that it can be reached at another port than the one at which it listens.
    pub(crate) fn start_behind(port: u16, said: u16) -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: no fdbserver and fdbcli in PATH, /usr/sbin, /usr/bin, /usr/local");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("callsign-fdb-").tempdir().unwrap();
        std::fs::write(directory.path().join("fdb.cluster"), format!("test:test@127.0.0.1:{said}\n"))
            .unwrap();
        let mut server = Self { directory, programs, ports: (port, said), process: None };
        server.resume();
        let made = server.cli("configure new single ssd");
        assert!(made.contains("created"), "{made}");
        Some(server)
    }

    /// Starts it again on the same data. It serves some seconds later.
    pub(crate) fn resume(&mut self) {
        let (port, said) = self.ports;
        let process = Command::new("sh")
            .args(["-c", SCRIPT])
            .arg(&self.programs.server)
            .arg(format!("--public-address=127.0.0.1:{said}"))
            .arg(format!("--listen-address=127.0.0.1:{port}"))
            .arg("--cluster-file")
            .arg(self.cluster_file())
            .arg("--datadir")
            .arg(self.directory.path().join("data"))
            .arg("--logdir")
            .arg(self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        self.process = Some(process.unwrap());
    }

    /// Kills it.
    pub(crate) fn crash(&mut self) {
        let mut process = self.process.take().expect("it runs");
        // It ends as well if nobody reads this any more.
        let _ = writeln!(process.stdin.take().unwrap());
        process.wait().unwrap();
    }

    /// What `fdbcli` says to a command.
    pub(crate) fn cli(&self, command: &str) -> String {
        let said = Command::new(&self.programs.cli)
            .arg("-C")
            .arg(self.cluster_file())
            .args(["--timeout", "60", "--exec", command])
            .output()
            .unwrap();
        String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned()
    }

    pub(crate) fn cluster_file(&self) -> PathBuf {
        self.directory.path().join("fdb.cluster")
    }

    pub(crate) fn url(&self) -> String {
        format!("fdb:{}", self.cluster_file().display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.crash();
        }
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn programs() -> Option<Programs> {
    let path = std::env::var_os("PATH")?;
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from);
    let places: Vec<_> = std::env::split_paths(&path).chain(usual).collect();
    let find =
        |name: &str| places.iter().map(|place| place.join(name)).find(|program| Path::is_file(program));
    Some(Programs { server: find("fdbserver")?, cli: find("fdbcli")? })
}
