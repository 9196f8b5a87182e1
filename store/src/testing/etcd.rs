//! Three private etcd servers on loopback, with data in a temporary directory; gone with their handle, or with this process.

use std::{
    io::Write,
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How many members there are.
pub const MEMBERS: usize = 3;
const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Starts a server, and sends it each signal whose name comes on its input; kills it as soon as that ends.
const SCRIPT: &str = r#""$0" "$@" & server=$!
while read -r how; do kill -"$how" "$server"; done
kill -KILL "$server"; wait "$server""#;

/// Servers that run, or are stopped for a while. Each listens at an address of its own in 127.0.0.0/8.
pub struct Cluster {
    directory: tempfile::TempDir,
    programs: Programs,
    addresses: Vec<Ipv4Addr>,
    /// Where others find each member, if not at its own address.
    peers: Vec<String>,
    members: Vec<Option<Child>>,
    /// Where each member has its data.
    data: Vec<PathBuf>,
    options: Vec<String>,
    scheme: &'static str,
}

#[derive(Clone)]
struct Programs {
    server: PathBuf,
    ctl: PathBuf,
}

impl Cluster {
    /// `None`, and a line that says so, where etcd is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(&[], |_, address| format!("{address}:{PEER_PORT}"))
    }

    /// The same with more options for each server, and with what stands before the peers' port of each (`host:port`), given its
    /// number and its address.
    pub fn start_with(options: &[&str], mut peer: impl FnMut(usize, Ipv4Addr) -> String) -> Option<Self> {
        let programs = programs()?;
        let directory = tempfile::Builder::new().prefix("callsign-etcd-").tempdir().unwrap();
        let addresses: Vec<_> = (0..MEMBERS).map(|_| own_address()).collect();
        let peers = addresses.iter().enumerate().map(|(nth, address)| peer(nth, *address)).collect();
        let options = options.iter().map(ToString::to_string).collect();
        let members = (0..MEMBERS).map(|_| None).collect();
        let data = places(directory.path());
        let mut cluster =
            Self { directory, programs, addresses, peers, members, data, options, scheme: "http" };
        cluster.start_all();
        Some(cluster)
    }

    /// The same, and who asks has to encrypt: with these files as certificate and key of the servers, and as the authority of
    /// clients, who need a certificate, too.
    pub fn encrypted(files: impl FnOnce(&Path, &[Ipv4Addr])) -> Option<Self> {
        let programs = programs()?;
        let directory = tempfile::Builder::new().prefix("callsign-etcd-").tempdir().unwrap();
        let addresses: Vec<_> = (0..MEMBERS).map(|_| own_address()).collect();
        files(directory.path(), &addresses);
        let peers = addresses.iter().map(|address| format!("{address}:{PEER_PORT}")).collect();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let options = vec![
            format!("--cert-file={}", path("server.pem")),
            format!("--key-file={}", path("server.key")),
            format!("--trusted-ca-file={}", path("ca.pem")),
            "--client-cert-auth".to_owned(),
        ];
        let members = (0..MEMBERS).map(|_| None).collect();
        let data = places(directory.path());
        let mut cluster =
            Self { directory, programs, addresses, peers, members, data, options, scheme: "https" };
        cluster.start_all();
        Some(cluster)
    }

    /// Starts those that do not run, and waits until the cluster has a leader.
    pub fn start_all(&mut self) {
        for member in 0..MEMBERS {
            if self.members[member].is_none() {
                self.resume(member);
            }
        }
        self.wait_until_it_serves();
    }

    /// Waits until a write goes through at each member.
    pub fn wait_until_it_serves(&self) {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let said = self.ctl(&["endpoint", "health"]);
            if said.is_ok() {
                return;
            }
            assert!(Instant::now() < deadline, "etcd did not start: {said:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts a member on its data; does not wait for it.
    pub fn resume(&mut self, member: usize) {
        self.resume_with(member, &[]);
    }

    /// The same, this time with more options.
    pub fn resume_with(&mut self, member: usize, more: &[&str]) {
        let all: Vec<_> =
            self.peers.iter().enumerate().map(|(nth, peer)| format!("m{nth}=http://{peer}")).collect();
        let client = format!("{}://{}:{CLIENT_PORT}", self.scheme, self.addresses[member]);
        let own = format!("http://{}:{PEER_PORT}", self.addresses[member]);
        let log = std::fs::File::options().create(true).append(true).open(self.log_file(member));
        let log = log.expect("the folder is the cluster's own, and takes a file");
        let child = Command::new("sh")
            .args(["-c", SCRIPT])
            .arg(&self.programs.server)
            .arg(format!("--name=m{member}"))
            .arg(format!("--data-dir={}", self.data(member).display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={own}"))
            .arg(format!("--initial-advertise-peer-urls=http://{}", self.peers[member]))
            .arg(format!("--initial-cluster={}", all.join(",")))
            .arg(format!("--initial-cluster-token={}", self.directory.path().display()))
            .args(["--logger=zap", "--log-level=warn"])
            .args(&self.options)
            .args(more)
            .current_dir(self.directory.path())
            // A terminal's Ctrl-C is for whoever started this process, who then ends its input.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.members[member] = Some(child);
    }

    /// Kills a member (SIGKILL): nothing is tidied up.
    pub fn kill(&mut self, member: usize) {
        let mut child = self.members[member].take().expect("it runs");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    pub fn runs(&self, member: usize) -> bool {
        self.members[member].is_some()
    }

    /// Sends a signal: `STOP`, `CONT`.
    pub fn signal(&mut self, member: usize, how: &str) {
        let child = self.members[member].as_mut().expect("it runs");
        writeln!(child.stdin.as_mut().expect("it has an input"), "{how}").unwrap();
    }

    /// Which member leads, if one says so.
    pub fn leader(&self) -> Option<usize> {
        (0..MEMBERS).filter(|member| self.runs(*member)).find(|member| {
            let said = self.ctl_at(*member, &["endpoint", "status", "--write-out=fields"]);
            said.is_ok_and(|said| {
                let field = |name: &str| {
                    let of = |line: &str| line.strip_prefix(name).map(str::to_owned);
                    said.lines().find_map(of)
                };
                let id = field("\"MemberID\" : ");
                id.is_some() && id == field("\"Leader\" : ")
            })
        })
    }

    /// The identifier of each member, as etcd prints it: in hexadecimal.
    pub fn identifiers(&self) -> Vec<String> {
        let said = self.ctl(&["member", "list"]).unwrap();
        let of = |member: usize| {
            let name = format!(" m{member},");
            let line = said.lines().find(|line| line.contains(&name)).expect("it is a member");
            line.split(',').next().unwrap_or_default().to_owned()
        };
        (0..MEMBERS).map(of).collect()
    }

    /// What `etcdctl` says, asked at all members.
    pub fn ctl(&self, words: &[&str]) -> Result<String, String> {
        let all: Vec<_> = (0..MEMBERS).map(|member| self.client(member)).collect();
        self.ask(&all.join(","), words)
    }

    /// What it says, asked at one member.
    pub fn ctl_at(&self, member: usize, words: &[&str]) -> Result<String, String> {
        self.ask(&self.client(member), words)
    }

    fn ask(&self, endpoints: &str, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.programs.ctl);
        command
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={endpoints}"))
            .args(["--dial-timeout=1s", "--command-timeout=3s"]);
        if self.scheme == "https" {
            let file = |name: &str| self.directory.path().join(name);
            command.arg("--cacert").arg(file("ca.pem")).arg("--cert").arg(file("server.pem"));
            command.arg("--key").arg(file("server.key"));
        }
        let said = command.args(words).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if said.status.success() {
            Ok(text(&said.stdout))
        } else {
            Err(text(&said.stdout) + &text(&said.stderr))
        }
    }

    /// `host:port` where clients find a member.
    pub fn client(&self, member: usize) -> String {
        format!("{}:{CLIENT_PORT}", self.addresses[member])
    }

    /// The URL of a store in it, below a prefix.
    pub fn url(&self, prefix: &str) -> String {
        let all: Vec<_> = (0..MEMBERS).map(|member| self.client(member)).collect();
        format!("etcd://{}/{prefix}", all.join(","))
    }

    /// The directory that holds all of it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The data of a member.
    pub fn data(&self, member: usize) -> &Path {
        &self.data[member]
    }

    /// Moves the data of a member, which must not run, to a directory that is empty or not there. What was in the old one is gone, so
    /// that no member can come back on it without what it has acknowledged since.
    pub fn move_data(&mut self, member: usize, to: &Path) {
        assert!(!self.runs(member), "m{member} runs");
        let from = std::mem::replace(&mut self.data[member], to.to_owned());
        let copied = Command::new("cp").arg("-aT").arg(&from).arg(to).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        std::fs::remove_dir_all(&from).unwrap();
    }

    /// What a member has logged.
    pub fn log(&self, member: usize) -> String {
        std::fs::read_to_string(self.log_file(member)).unwrap_or_default()
    }

    fn log_file(&self, member: usize) -> PathBuf {
        self.directory.path().join(format!("m{member}.log"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for mut child in self.members.iter_mut().filter_map(Option::take) {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// Where members have their data at first.
fn places(directory: &Path) -> Vec<PathBuf> {
    (0..MEMBERS).map(|member| directory.join(format!("m{member}"))).collect()
}

/// An address of loopback at which nobody listens. Ports of outgoing connections are not in its way: they are of 127.0.0.1.
fn own_address() -> Ipv4Addr {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let mixed = (u64::from(std::process::id()) << 32 | u64::from(now))
            .wrapping_add(count)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes();
        let address = Ipv4Addr::new(127, 1 + mixed[0] % 250, mixed[1], 1 + mixed[2] % 250);
        if [CLIENT_PORT, PEER_PORT].iter().all(|port| TcpListener::bind((address, *port)).is_ok()) {
            return address;
        }
    }
}

fn programs() -> Option<Programs> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    let places: Vec<_> = std::env::split_paths(&path).chain(usual).collect();
    let find = |name: &str| places.iter().map(|place| place.join(name)).find(|program| program.is_file());
    let Some((server, ctl)) = find("etcd").zip(find("etcdctl")) else {
        println!("skipped: no etcd and etcdctl in PATH");
        return None;
    };
    Some(Programs { server, ctl })
}
