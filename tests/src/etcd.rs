//! Three private etcd servers, and what can be done to them. Between their peers' ports stand gates, so that one can be cut off.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use callsign_store::testing::etcd::{Cluster, MEMBERS};

use crate::{
    small_disk::SmallDisk,
    wait::{TEST_DEADLINE, eventually},
};

/// So small a quota is full whatever is stored.
const NO_ROOM: &str = "--quota-backend-bytes=1";
/// What a member may write on a small disk until that is filled, in bytes.
const SLACK: u64 = 4 << 20;
/// So often a member on a small disk wants to write a snapshot, so that it soon has to do more than to append to what it has.
const SNAPSHOTS: &str = "--snapshot-count=100";
/// What the head of a request may have until it says who sent it.
const HEAD: usize = 8192;

/// See the [module](self). Gone when it is dropped.
pub struct EtcdServers {
    cluster: Cluster,
    gates: Gates,
    /// As etcd has them in what peers send each other.
    identifiers: Vec<String>,
    small: Option<Small>,
}

/// A member on a small disk.
struct Small {
    member: usize,
    disk: SmallDisk,
    /// How much it had logged before.
    logged: usize,
}

impl EtcdServers {
    /// `None`, and a line that says so, where etcd is not installed.
    pub fn start() -> Option<Self> {
        let gates = Gates::default();
        let cluster =
            Cluster::start_with(&[], |member, address| gates.start(member, format!("{address}:2380")))?;
        let identifiers = cluster.identifiers();
        Some(Self { cluster, gates, identifiers, small: None })
    }

    /// The URL of a store in it.
    pub fn url(&self) -> String {
        self.cluster.url("test")
    }

    /// Which member leads, as soon as one does; the first one where none does.
    pub fn leader(&self) -> usize {
        crate::wait::wait_for(Duration::from_secs(5), || self.cluster.leader()).unwrap_or(0)
    }

    /// Kills a member (SIGKILL).
    pub fn kill(&mut self, member: usize) {
        if self.cluster.runs(member) {
            self.cluster.kill(member);
        }
    }

    /// Starts it again, on the same data; does not wait for it.
    pub fn resume(&mut self, member: usize) {
        if !self.cluster.runs(member) {
            self.cluster.resume(member);
        }
    }

    /// Stops it for a while (SIGSTOP), or lets it go on.
    pub fn pause(&mut self, member: usize, stops: bool) {
        if self.cluster.runs(member) {
            self.cluster.signal(member, if stops { "STOP" } else { "CONT" });
        }
    }

    /// Kills all.
    pub fn stop(&mut self) {
        (0..MEMBERS).for_each(|member| self.kill(member));
    }

    /// Starts all that do not run, and waits until a write goes through.
    pub fn resume_all(&mut self) {
        self.cluster.start_all();
    }

    /// Cuts a member off from its peers, not from its clients.
    pub fn cut_off(&self, member: usize) {
        self.gates.cut(member, &self.identifiers[member]);
    }

    /// It hears them again.
    pub fn join_again(&self) {
        self.gates.heal();
    }

    /// Forgets all history up to now, and gives the space back, at every member; says what etcd refused.
    pub fn compact(&self) -> Result<(), String> {
        let status = self.cluster.ctl_at(self.leader(), &["endpoint", "status", "--write-out=fields"])?;
        let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : "));
        let revision = revision.ok_or("the status has no revision")?;
        self.cluster.ctl(&["compaction", revision])?;
        for member in 0..MEMBERS {
            self.cluster.ctl_at(member, &["defrag"])?;
        }
        Ok(())
    }

    /// Starts a member again that has no room for anything: the first write that it meets raises the alarm for all.
    pub fn fill(&mut self, member: usize) {
        self.kill(member);
        self.cluster.resume_with(member, &[NO_ROOM]);
    }

    /// Starts a member again on a disk of its own, and fills that as soon as the member serves: it cannot write another byte. Else says
    /// why there is no such disk.
    pub fn fill_disk(&mut self, member: usize) -> Result<(), String> {
        self.kill(member);
        let disk = match SmallDisk::mount(size_of(self.cluster.data(member)) + SLACK) {
            Ok(disk) => disk,
            Err(why) => {
                self.resume(member);
                return Err(why);
            }
        };
        let logged = self.cluster.log(member).len();
        self.cluster.move_data(member, &disk.path().join("data"));
        self.cluster.resume_with(member, &[SNAPSHOTS]);
        eventually("the member serves on its small disk", TEST_DEADLINE, || {
            self.cluster.ctl_at(member, &["endpoint", "health"])
        });
        disk.fill();
        self.small = Some(Small { member, disk, logged });
        Ok(())
    }

    /// Whether the member whose disk is full has ended, for that reason.
    pub fn has_ended_for_want_of_room(&self) -> bool {
        self.small.as_ref().is_some_and(|Small { member, logged, .. }| {
            let log = self.cluster.log(*member);
            let said = log.get(*logged..).unwrap_or_default();
            said.contains("no space left on device")
                && TcpStream::connect(self.cluster.client(*member)).is_err()
        })
    }

    /// The member whose disk is full gets a greater one, with all that it has written, and starts there.
    pub fn empty_disk(&mut self) {
        let Some(Small { member, disk, .. }) = self.small.take() else { return };
        self.kill(member);
        let roomy = self.cluster.directory().join(format!("m{member}"));
        self.cluster.move_data(member, &roomy);
        self.resume(member);
        drop(disk);
    }

    /// Which alarms are raised, as `etcdctl` says it.
    pub fn alarms(&self) -> String {
        self.cluster.ctl(&["alarm", "list"]).unwrap_or_default()
    }

    /// It has room again, and the alarm is taken back.
    pub fn empty(&mut self, member: usize) {
        self.kill(member);
        self.resume(member);
        eventually("the alarm is taken back", TEST_DEADLINE, || {
            self.cluster.ctl(&["alarm", "disarm"])?;
            match self.alarms() {
                none if none.trim().is_empty() => Ok(()),
                some => Err(some),
            }
        });
    }
}

impl std::fmt::Debug for EtcdServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EtcdServers").field(&self.url()).finish()
    }
}

/// How many bytes the files below a directory have.
fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        // A file that is gone has none.
        Err(_) => 0,
    });
    sizes.sum()
}

/// What stands before the peers' port of each member. Clones are the same gates.
#[derive(Clone, Default)]
struct Gates(Arc<Mutex<GatesState>>);

#[derive(Default)]
struct GatesState {
    /// Who is cut off: its number, and what it calls itself.
    cut: Option<(usize, String)>,
    next: u64,
    open: BTreeMap<u64, Passage>,
}

/// One connection: who opened it, if it has said so, and to whom.
struct Passage {
    from: Option<String>,
    to: usize,
    ends: [TcpStream; 2],
}

impl GatesState {
    fn lets_through(&self, from: Option<&str>, to: usize) -> bool {
        self.cut.as_ref().is_none_or(|(member, name)| {
            // Who does not say who it is may be the one.
            to != *member && from.is_some_and(|from| from != name)
        })
    }
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, GatesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says where it listens. Its threads end with the connections, the first one with the process.
    fn start(&self, member: usize, server: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address").to_string();
        let gates = self.clone();
        std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                let (gates, server) = (gates.clone(), server.clone());
                // Fails when either end is gone.
                std::thread::spawn(move || gates.pass(peer, member, &server).is_ok());
            }
        });
        address
    }

    fn pass(&self, mut peer: TcpStream, to: usize, server: &str) -> io::Result<()> {
        peer.set_nodelay(true)?;
        let (head, from) = head_of(&mut peer)?;
        let mut server = TcpStream::connect(server)?;
        server.set_nodelay(true)?;
        let number = {
            let mut state = self.lock();
            if !state.lets_through(from.as_deref(), to) {
                return Ok(());
            }
            state.next += 1;
            let ends = [peer.try_clone()?, server.try_clone()?];
            let number = state.next;
            state.open.insert(number, Passage { from, to, ends });
            number
        };
        server.write_all(&head)?;
        let (mut from_server, mut to_peer) = (server.try_clone()?, peer.try_clone()?);
        let back = std::thread::spawn(move || {
            let _ = io::copy(&mut from_server, &mut to_peer);
            let _ = to_peer.shutdown(Shutdown::Both);
        });
        let _ = io::copy(&mut peer, &mut server);
        let _ = server.shutdown(Shutdown::Both);
        let _ = back.join();
        self.lock().open.remove(&number);
        Ok(())
    }

    fn cut(&self, member: usize, name: &str) {
        let mut state = self.lock();
        state.cut = Some((member, name.to_owned()));
        let (shut, open): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut state.open)
            .into_iter()
            .partition(|(_, passage)| !state.lets_through(passage.from.as_deref(), passage.to));
        state.open = open;
        for passage in shut.values() {
            passage.ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
        }
    }

    fn heal(&self) {
        self.lock().cut = None;
    }
}

/// The first bytes of a connection, and who sent them, by etcd's own header.
fn head_of(peer: &mut TcpStream) -> io::Result<(Vec<u8>, Option<String>)> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while head.len() < HEAD && !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match peer.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend_from_slice(&part[..length]),
        }
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let from = text.lines().find_map(|line| Some(line.strip_prefix("x-server-from: ")?.trim().to_owned()));
    Ok((head, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_cut_off_serves_nobody_and_the_others_do_and_later_all() {
        let Some(mut servers) = EtcdServers::start() else { return };
        let cut = servers.leader();
        let other = (cut + 1) % MEMBERS;
        servers.cut_off(cut);
        let put = |servers: &EtcdServers, member: usize| servers.cluster.ctl_at(member, &["put", "k", "v"]);
        eventually("the others have a leader", TEST_DEADLINE, || put(&servers, other));
        assert!(put(&servers, cut).is_err(), "it is cut off");
        servers.join_again();
        eventually("it serves again", TEST_DEADLINE, || put(&servers, cut));

        servers.fill(other);
        eventually("the alarm is raised", TEST_DEADLINE, || {
            let _ = put(&servers, other);
            if servers.alarms().contains("NOSPACE") { Ok(()) } else { Err("none is".to_owned()) }
        });
        assert!(put(&servers, cut).is_err(), "one that is full is enough");
        servers.empty(other);
        eventually("it serves again", TEST_DEADLINE, || put(&servers, cut));
        servers.compact().unwrap();
    }

    #[test]
    fn a_member_whose_disk_is_full_ends_and_the_others_serve_and_it_comes_back_with_all_it_had() {
        let Some(mut servers) = EtcdServers::start() else { return };
        let full = servers.leader();
        let others = [(full + 1) % MEMBERS, (full + 2) % MEMBERS];
        if let Err(why) = servers.fill_disk(full) {
            return println!("skipped: {why}");
        }
        let older = servers.cluster.directory().join(format!("m{full}"));
        assert!(!older.exists(), "it could come back without what it acknowledges from now on");
        let value = "v".repeat(20_000);
        // Only what etcd said yes to has to be there.
        let (mut asked, mut acknowledged) = (0, Vec::new());
        eventually("the member has ended", TEST_DEADLINE, || {
            for member in others {
                asked += 1;
                let key = format!("k{asked}");
                servers.cluster.ctl_at(member, &["put", &key, &value])?;
                acknowledged.push(key);
            }
            if servers.has_ended_for_want_of_room() { Ok(()) } else { Err("it runs".to_owned()) }
        });
        eventually("the others serve", TEST_DEADLINE, || {
            servers.cluster.ctl_at(others[0], &["put", "last", "v"])
        });
        assert_eq!(servers.cluster.ctl_at(others[0], &["alarm", "list"]).unwrap().trim(), "", "no alarm");

        servers.empty_disk();
        assert!(!servers.has_ended_for_want_of_room());
        eventually("it serves again", TEST_DEADLINE, || servers.cluster.ctl_at(full, &["get", "last"]));
        // What it has itself, without asking the others.
        let own = servers.cluster.ctl_at(full, &["get", "", "--prefix", "--keys-only", "--consistency=s"]);
        let own = own.unwrap();
        acknowledged.retain(|key| !own.lines().any(|line| line == key));
        assert!(acknowledged.is_empty(), "it lacks {acknowledged:?}");
    }
}
