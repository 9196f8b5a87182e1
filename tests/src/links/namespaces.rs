//! Links between nodes that have a network namespace each: real kernel TCP, and packets that are really lost.
//!
//! Every two namespaces are joined by a pair of virtual Ethernet devices of their own, so that each way is a device: the
//! sender's end of the pair. What becomes of its packets is that device's queueing discipline: `blackhole` loses them
//! without a word, as a cable does, `netem` delays and loses some. Addresses of the devices are fixed, so that a way which
//! is cut does not take the other one with it for want of an answer to ARP.
//!
//! A namespace is there as long as a shell in it, or a node. Nothing of it has a name on the machine, and nothing stays when
//! the run is killed.

use std::{
    fmt::{self, Write},
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Ends,
    carrier::{Carried, Carrier},
    lock,
    way::Way,
};

mod held;
#[cfg(test)]
mod tests;

use held::Held;

/// Where nodes listen.
const PORT: u16 = 7000;
/// What is needed of the machine, and what has it.
const PROGRAMS: [(&str, &str); 5] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ss", "iproute2"),
];

/// Why there can be no network namespaces.
#[derive(Debug)]
pub enum NoNamespaces {
    /// This process is not root's.
    NotRoot,
    /// A program is not installed.
    NoProgram {
        /// Which.
        program: &'static str,
        /// What it comes with.
        package: &'static str,
    },
    /// The machine does not let them be made.
    Refused(io::Error),
}

impl fmt::Display for NoNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRoot => write!(f, "only root can make network namespaces"),
            Self::NoProgram { program, package } => {
                write!(f, "network namespaces need the program {program:?}, of {package}")
            }
            Self::Refused(why) => write!(f, "network namespaces cannot be made here: {why}"),
        }
    }
}

impl std::error::Error for NoNamespaces {}

/// Namespaces, each joined to each.
#[derive(Debug)]
pub(super) struct Namespaces {
    nodes: Vec<Node>,
    lost: AtomicU64,
    why_no_delay: Option<String>,
    why_no_breaks: Option<String>,
}

#[derive(Debug)]
struct Node {
    name: String,
    /// The namespace, of the process with this number.
    pid: u32,
    held: Mutex<Held>,
}

impl Namespaces {
    /// One for each node.
    pub(super) fn new(names: &[String]) -> Result<Self, NoNamespaces> {
        if !rustix::process::geteuid().is_root() {
            return Err(NoNamespaces::NotRoot);
        }
        if let Some((program, package)) = PROGRAMS.into_iter().find(|(program, _)| !is_installed(program)) {
            return Err(NoNamespaces::NoProgram { program, package });
        }
        let node = |name: &String| {
            let held = Held::new()?;
            Ok(Node { name: name.clone(), pid: held.pid(), held: Mutex::new(held) })
        };
        let nodes = names.iter().map(node).collect::<io::Result<Vec<_>>>().map_err(NoNamespaces::Refused)?;
        join(&nodes).map_err(NoNamespaces::Refused)?;
        if let Some(node) = nodes.first() {
            node.try_discipline("blackhole").map_err(NoNamespaces::Refused)?;
        }
        let why_no_delay = nodes.first().and_then(|node| {
            let tried = node.try_discipline("netem delay 1ms");
            tried.err().map(|why| format!("the kernel has no netem ({})", one_line(&why.to_string())))
        });
        let why_no_breaks =
            (!can_break()).then(|| "the kernel ends no connections of others (ss -K)".to_owned());
        Ok(Self { nodes, lost: AtomicU64::new(0), why_no_delay, why_no_breaks })
    }

    fn index(&self, node: &str) -> usize {
        let index = self.nodes.iter().position(|known| known.name == node);
        index.unwrap_or_else(|| panic!("{node} was not named when the namespaces were made"))
    }

    /// Runs a script where a node is.
    fn run(&self, node: usize, script: &str) -> String {
        let output = self.nodes[node].run(script);
        output.unwrap_or_else(|why| {
            panic!("the network of {} cannot be changed: {script}: {why}", self.nodes[node].name)
        })
    }
}

impl Node {
    fn run(&self, script: &str) -> io::Result<String> {
        lock(&self.held).run(script)
    }

    /// Whether the kernel has a queueing discipline.
    fn try_discipline(&self, discipline: &str) -> io::Result<()> {
        let script = format!("tc qdisc replace dev lo root {discipline}\ntc qdisc del dev lo root");
        self.run(&script).map(drop)
    }

    /// The namespace, as a file.
    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.pid)
    }
}

impl Carrier for Namespaces {
    fn address(&self, node: &str) -> SocketAddr {
        (ip(self.index(node)), PORT).into()
    }

    fn nodes(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    fn listen(&self, node: &str) -> Option<SocketAddr> {
        Some(self.address(node))
    }

    fn command(&self, node: &str, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        // It becomes the program, in the same process.
        command.arg(format!("--net={}", self.nodes[self.index(node)].file())).arg("--").arg(program);
        command
    }

    fn set(&self, ways: &[(Ends, Way)]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let mut script = String::new();
            for ((_, to), way) in ways.iter().filter(|((from, _), _)| *from == node.name) {
                let device = device(self.index(to));
                // What it has lost is counted before it goes.
                let _ = writeln!(
                    script,
                    "tc -s qdisc show dev {device}\ntc qdisc replace dev {device} root {}",
                    discipline(way)
                );
            }
            if !script.is_empty() {
                self.lost.fetch_add(dropped(&self.run(index, &script)), Ordering::Relaxed);
            }
        }
    }

    /// From both sides: what one of them sends of it may be lost.
    fn break_connections(&self, between: &[Ends]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let peers = between.iter().filter_map(|(a, b)| match () {
                () if *a == node.name => Some(b),
                () if *b == node.name => Some(a),
                () => None,
            });
            let peers: Vec<_> = peers.map(|peer| format!("dst {}", ip(self.index(peer)))).collect();
            if !peers.is_empty() {
                self.run(index, &format!("ss --tcp --kill {}", peers.join(" or ")));
            }
        }
    }

    fn why_no_delay(&self) -> Option<String> {
        self.why_no_delay.clone()
    }

    fn why_no_breaks(&self) -> Option<String> {
        self.why_no_breaks.clone()
    }

    fn carried(&self) -> Carried {
        let now = (0..self.nodes.len()).map(|node| dropped(&self.run(node, "tc -s qdisc show"))).sum::<u64>();
        Carried::Packets { lost: self.lost.load(Ordering::Relaxed) + now }
    }
}

/// Joins each to each.
fn join(nodes: &[Node]) -> io::Result<()> {
    for (a, node) in nodes.iter().enumerate() {
        let pairs = nodes.iter().enumerate().skip(a + 1).map(|(b, other)| {
            format!(
                "link add {} address {} type veth peer name {} address {} netns {}\n",
                device(b),
                hardware(a, b),
                device(a),
                hardware(b, a),
                other.pid
            )
        });
        node.run(&ip_batch(&pairs.collect::<String>()))?;
    }
    for (a, node) in nodes.iter().enumerate() {
        // What nobody asked for is not to be counted as lost.
        node.run(
            "for all in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $all || true; done 2>/dev/null",
        )?;
        let mut script = format!("address add {}/32 dev lo\n", ip(a));
        for b in (0..nodes.len()).filter(|b| *b != a) {
            let (device, peer) = (device(b), ip(b));
            let _ = write!(
                script,
                "link set {device} up\n\
                 neighbour add {peer} lladdr {} dev {device} nud permanent\n\
                 route add {peer}/32 dev {device} src {}\n",
                hardware(b, a),
                ip(a)
            );
        }
        node.run(&ip_batch(&script))?;
    }
    Ok(())
}

fn ip_batch(commands: &str) -> String {
    format!("ip -batch - <<'END'\n{commands}END")
}

/// Where a node is to be reached.
fn ip(node: usize) -> Ipv4Addr {
    let last = u8::try_from(node + 1).expect("there are fewer nodes");
    Ipv4Addr::new(10, 77, 0, last)
}

/// The device over which a node is reached, wherever that is.
fn device(to: usize) -> String {
    format!("to-{to}")
}

/// The address of the device over which one node reaches another.
fn hardware(from: usize, to: usize) -> String {
    format!("02:00:00:00:{from:02x}:{to:02x}")
}

/// The queueing discipline that makes a way like this.
fn discipline(way: &Way) -> String {
    if !way.is_open {
        return "blackhole".to_owned();
    }
    if (way.delay, way.lost_per_mille) == (Duration::ZERO, 0) {
        return "noqueue".to_owned();
    }
    let mut netem = "netem limit 100000".to_owned();
    if way.delay > Duration::ZERO {
        let _ = write!(netem, " delay {}us {}us", way.delay.as_micros(), way.jitter.as_micros());
    }
    if way.lost_per_mille > 0 {
        let _ = write!(netem, " loss {}.{}%", way.lost_per_mille / 10, way.lost_per_mille % 10);
    }
    netem
}

/// How many packets disciplines have dropped, of what `tc -s` says: `... (dropped 9, overlimits ...`.
fn dropped(said: &str) -> u64 {
    let counts =
        said.split("(dropped ").skip(1).filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok());
    counts.sum()
}

/// Whether connections of others can be ended: tried at one of this process with itself.
fn can_break() -> bool {
    let tried = || -> io::Result<bool> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut dialled = TcpStream::connect(listener.local_addr()?)?;
        let port = listener.local_addr()?.port();
        Command::new("ss")
            .args(["--tcp", "--kill", "dst", "127.0.0.1", "dport", "=", &format!(":{port}")])
            .stdin(Stdio::null())
            .output()?;
        dialled.set_nonblocking(true)?;
        let ended = dialled.read(&mut [0]);
        Ok(ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionAborted))
    };
    tried().unwrap_or(false)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
