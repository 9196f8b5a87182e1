//! The way from each node to the servers of a store, to cut for one node, or to one server.
//!
//! A node gets a URL of its own, of an address in the test process. There is no such thing for a file that processes share,
//! nor for `FoundationDB`, whose client learns the servers' real addresses from the coordinators.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    runtime::Runtime,
    sync::watch,
};
use tokio_postgres::config::Host;

use super::{
    faults::Faults,
    lock,
    pump::{self, Ways},
    runtime,
    way::{Now, Way},
};

/// The ways from nodes to their store. Clones are the same ways.
#[derive(Clone, Debug)]
pub struct StoreLinks {
    runtime: Arc<Runtime>,
    files: Arc<TempDir>,
    state: Arc<Mutex<StoreLinksState>>,
}

#[derive(Debug, Default)]
struct StoreLinksState {
    nodes: BTreeMap<String, Link>,
    /// The servers that are cut off from all nodes, by their places in the store's URL.
    cut: BTreeSet<usize>,
}

#[derive(Debug)]
struct Link {
    url: String,
    /// One for each server, by its place in the store's URL.
    ways: Vec<Both>,
    asks: Faults,
    answers: Faults,
}

impl Link {
    /// Has the ways be what is done to them.
    fn apply(&self, cut: &BTreeSet<usize>) {
        for (server, ways) in self.ways.iter().enumerate() {
            let is_cut = cut.contains(&server);
            let with = |faults: &Faults| {
                if is_cut { faults.sum().and(&Way::cut()) } else { faults.sum() }
            };
            ways.asks.send_modify(|now| now.way = with(&self.asks));
            ways.answers.send_modify(|now| now.way = with(&self.answers));
        }
    }
}

/// What a node asks, and what it is answered.
#[derive(Clone, Debug, Default)]
struct Both {
    asks: watch::Sender<Now>,
    answers: watch::Sender<Now>,
}

/// Where a server is.
#[derive(Clone, Debug)]
enum Server {
    Tcp(String),
    Unix(PathBuf),
}

impl Default for StoreLinks {
    fn default() -> Self {
        let files = tempfile::Builder::new().prefix("callsign-way-").tempdir();
        let files = files.expect("a temporary directory can be made");
        Self { runtime: runtime(), files: Arc::new(files), state: Arc::default() }
    }
}

impl StoreLinks {
    /// Whether the way to this store can be cut for one node.
    pub fn can_cut(store: &str) -> bool {
        servers_of(store).is_some()
    }

    /// Whether processes reach this store whatever network they are in: a file, or a socket that is one.
    pub fn is_local(store: &str) -> bool {
        let is_socket = |server: &Server| matches!(server, Server::Unix(_));
        store.starts_with("sqlite:") || servers_of(store).is_some_and(|servers| servers.iter().all(is_socket))
    }

    /// The URL with which a node reaches this store over a way of its own. The same at each call.
    pub fn url(&self, node: &str, store: &str) -> String {
        if let Some(link) = lock(&self.state).nodes.get(node) {
            return link.url.clone();
        }
        let servers = servers_of(store).expect("a store that has a way to be cut");
        let ways: Vec<_> = servers.iter().map(|_| Both::default()).collect();
        let listen = |(nth, server): (usize, Server)| self.listen(node, nth, server, ways[nth].clone());
        let mut ends: Vec<_> = servers.into_iter().enumerate().map(listen).collect();
        // Each node goes to another one first.
        let first = lock(&self.state).nodes.len() % ends.len();
        ends.rotate_left(first);
        let url = with_host(store, &ends.join(",")).expect("a URL with a host");
        let link = Link { url: url.clone(), ways, asks: Faults::default(), answers: Faults::default() };
        let mut state = lock(&self.state);
        link.apply(&state.cut);
        state.nodes.insert(node.to_owned(), link);
        url
    }

    /// Where the node's end of the way is, as the host of a URL.
    fn listen(&self, node: &str, nth: usize, server: Server, ways: Both) -> String {
        let _entered = self.runtime.enter();
        if let Server::Unix(_) = server {
            let directory = self.files.path().join(format!("{node}-{nth}"));
            fs::create_dir_all(&directory).expect("a temporary directory can be written");
            let socket = directory.join(".s.PGSQL.5432");
            let listener = UnixListener::bind(&socket).expect("a socket can be made");
            // As the server's own: who may connect is for the server to say.
            let anybody = fs::Permissions::from_mode(0o777);
            fs::set_permissions(&socket, anybody).expect("what was made can be changed");
            self.runtime.spawn(async move {
                while let Ok((node, _)) = listener.accept().await {
                    tokio::spawn(carry(node, server.clone(), ways.clone()));
                }
            });
            return escaped(&directory);
        }
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        self.runtime.spawn(async move {
            while let Ok((node, _)) = listener.accept().await {
                tokio::spawn(carry(node, server.clone(), ways.clone()));
            }
        });
        address.to_string()
    }

    /// Changes what is done to what a node asks, and to what it is answered.
    fn change(&self, node: &str, change: impl FnOnce(&mut Faults, &mut Faults)) {
        let state = &mut *lock(&self.state);
        if let Some(link) = state.nodes.get_mut(node) {
            change(&mut link.asks, &mut link.answers);
            link.apply(&state.cut);
        }
    }

    /// No node reaches this server, by its place in the store's URL, or each does again.
    pub fn cut_server(&self, server: usize, is_cut: bool) {
        let state = &mut *lock(&self.state);
        if is_cut {
            state.cut.insert(server);
        } else {
            state.cut.remove(&server);
        }
        state.nodes.values().for_each(|link| link.apply(&state.cut));
    }

    /// The node cannot reach the store, and its connections say nothing.
    pub fn cut(&self, node: &str) {
        self.change(node, |asks, answers| {
            asks.impose(&Way::cut());
            answers.impose(&Way::cut());
        });
    }

    /// One [`cut`](Self::cut) is over.
    pub fn end_cut(&self, node: &str) {
        self.change(node, |asks, answers| {
            asks.lift(&Way::cut());
            answers.lift(&Way::cut());
        });
    }

    /// What the node asks for is done, and it does not learn so.
    pub fn cut_answers(&self, node: &str) {
        self.change(node, |_, answers| answers.impose(&Way::cut()));
    }

    /// One [`cut_answers`](Self::cut_answers) is over.
    pub fn end_cut_answers(&self, node: &str) {
        self.change(node, |_, answers| answers.lift(&Way::cut()));
    }

    /// As if nothing had been.
    pub fn heal(&self, node: &str) {
        self.change(node, |asks, answers| {
            asks.clear();
            answers.clear();
        });
    }
}

async fn carry(
    node: impl tokio::io::AsyncRead + tokio::io::AsyncWrite,
    server: Server,
    ways: Both,
) -> std::io::Result<()> {
    let ways = Ways::new(ways.asks, ways.answers);
    pump::until_open(&ways).await;
    match server {
        Server::Tcp(address) => pump::carry(node, TcpStream::connect(address).await?, &ways, 0).await,
        Server::Unix(socket) => pump::carry(node, UnixStream::connect(socket).await?, &ways, 0).await,
    }
    Ok(())
}

/// The servers that a URL names.
fn servers_of(store: &str) -> Option<Vec<Server>> {
    if let Some(rest) = store.strip_prefix("etcd://") {
        let authority = rest.split(['/', '?']).next()?;
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        return Some(hosts.split(',').map(|host| Server::Tcp(host.to_owned())).collect());
    }
    let config: tokio_postgres::Config = store.starts_with("postgres").then(|| store.parse().ok())??;
    let server = |(nth, host): (usize, &Host)| {
        let ports = config.get_ports();
        let port = ports.get(nth).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => Server::Tcp(format!("{host}:{port}")),
            Host::Unix(directory) => Server::Unix(directory.join(format!(".s.PGSQL.{port}"))),
        }
    };
    Some(config.get_hosts().iter().enumerate().map(server).collect::<Vec<_>>()).filter(|all| !all.is_empty())
}

/// A path as the host of a URL.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace('/', "%2F")
}

/// The same URL, of another host and port.
fn with_host(url: &str, host: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let user = authority.rsplit_once('@').map_or(String::new(), |(user, _)| format!("{user}@"));
    Some(format!("{scheme}://{user}{host}{rest}"))
}

#[cfg(test)]
mod tests;
