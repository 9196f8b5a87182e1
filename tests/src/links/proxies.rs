//! Links that are carried by proxies on loopback: without any privilege.
//!
//! Every node advertises an address of the test process, which passes bytes on to where the node listens. Which node
//! dials is found out from the kernel: whose process has the other end of the connection. So each pair of nodes has two
//! ways of its own, and nothing in the nodes knows of it.
//!
//! A connection is TCP, so what a network loses comes late instead: a way that is cut keeps its bytes, its connections'
//! ends too, and delivers them when it is healed, if both ends still wait. A dial over a cut way is accepted here, and then
//! hears nothing: the dialler gives up by its deadline, as it would without an answer to its SYN. What cannot be had so is
//! what is below TCP: reordered, doubled or forged packets.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::watch,
};

use super::{
    Ends,
    carrier::{Carried, Carrier},
    dialler, lock,
    pump::{self, Ways},
    runtime,
    way::{Now, Way},
};

/// How long a connection waits for a node that is being started to say where it listens.
const STARTING: Duration = Duration::from_secs(10);

/// Passes bytes on between nodes.
#[derive(Debug)]
pub(super) struct Proxies {
    runtime: Arc<Runtime>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: Mutex<BTreeMap<String, NodeProxy>>,
    /// By (from, to).
    ways: Mutex<BTreeMap<(String, String), watch::Sender<Now>>>,
    strangers: AtomicU64,
    connections: AtomicU64,
}

#[derive(Debug)]
struct NodeProxy {
    /// Where the others reach it.
    address: SocketAddr,
    /// Where it listens; none while it is being started.
    target: watch::Sender<Option<SocketAddr>>,
    pid: u32,
}

impl Default for Proxies {
    fn default() -> Self {
        Self { runtime: runtime(), state: Arc::default() }
    }
}

impl Carrier for Proxies {
    fn address(&self, node: &str) -> SocketAddr {
        if let Some(known) = lock(&self.state.nodes).get(node) {
            return known.address;
        }
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let target = watch::Sender::new(None);
        lock(&self.state.nodes).insert(node.to_owned(), NodeProxy { address, target, pid: 0 });
        self.runtime.spawn(accept(self.state.clone(), listener, node.to_owned()));
        address
    }

    fn nodes(&self) -> Vec<String> {
        lock(&self.state.nodes).keys().cloned().collect()
    }

    fn started(&self, node: &str, pid: u32) {
        if let Some(known) = lock(&self.state.nodes).get_mut(node) {
            known.pid = pid;
            known.target.send_replace(None);
        }
    }

    fn listens(&self, node: &str, at: SocketAddr) {
        if let Some(known) = lock(&self.state.nodes).get(node) {
            known.target.send_replace(Some(at));
        }
    }

    fn set(&self, ways: &[(Ends, Way)]) {
        for ((from, to), way) in ways {
            self.state.way(from, to).send_modify(|now| now.way = way.clone());
        }
    }

    fn break_connections(&self, between: &[Ends]) {
        for (a, b) in between {
            for (from, to) in [(a, b), (b, a)] {
                self.state.way(from, to).send_modify(|now| now.breaks += 1);
            }
        }
    }

    fn carried(&self) -> Carried {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Carried::Connections { made: count(&self.state.connections), strangers: count(&self.state.strangers) }
    }
}

impl State {
    fn way(&self, from: &str, to: &str) -> watch::Sender<Now> {
        lock(&self.ways).entry((from.to_owned(), to.to_owned())).or_default().clone()
    }

    /// Which node's process made a connection.
    fn dialler(&self, connection: &TcpStream) -> Option<String> {
        let (near, far) = (connection.local_addr().ok()?, connection.peer_addr().ok()?);
        let processes: Vec<_> = lock(&self.nodes)
            .iter()
            .map(|(name, node)| (name.clone(), node.pid))
            .filter(|(_, pid)| *pid != 0)
            .collect();
        let inode = dialler::inode_of(far, near)?;
        processes.into_iter().find(|(_, pid)| dialler::has(*pid, inode)).map(|(name, _)| name)
    }
}

/// Takes the connections that are meant for a node.
async fn accept(state: Arc<State>, listener: TcpListener, to: String) {
    loop {
        let Ok((connection, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await; // out of files, perhaps
            continue;
        };
        tokio::spawn(carry(state.clone(), connection, to.clone()));
    }
}

/// Carries one connection to a node, until it ends.
async fn carry(state: Arc<State>, dialled: TcpStream, to: String) -> io::Result<()> {
    let Some(from) = state.dialler(&dialled) else {
        state.strangers.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    };
    let number = state.connections.fetch_add(1, Ordering::Relaxed);
    let Some(mut target) = lock(&state.nodes).get(&to).map(|node| node.target.subscribe()) else {
        return Ok(());
    };
    let target = tokio::time::timeout(STARTING, target.wait_for(Option::is_some)).await;
    let Ok(Ok(Some(target))) = target.map(|found| found.map(|target| *target)) else { return Ok(()) };
    let ways = Ways::new(state.way(&from, &to), state.way(&to, &from));
    // A way that is cut lets no SYN through, and no answer to it.
    pump::until_open(&ways).await;
    if state.dialler(&dialled).is_none() {
        return Ok(()); // it has given up
    }
    // Nobody listens: closed, as it would be refused.
    let listening = TcpStream::connect(target).await?;
    for socket in [&dialled, &listening] {
        socket.set_nodelay(true)?;
    }
    pump::carry(dialled, listening, &ways, number).await;
    Ok(())
}
