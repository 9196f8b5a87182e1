//! Links that can be cut, slowed and broken, between processes of one machine.
//!
//! Two things can carry them: proxies on loopback ([`Links::default`]), which need no privilege, and network namespaces
//! ([`Links::in_namespaces`]), where real packets are lost. What is done to a link is the same for both.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use callsign_store::lock::lock;
use tokio::runtime::Runtime;

mod carrier;
mod dialler;
mod faults;
mod namespaces;
mod proxies;
mod pump;
mod store;
mod way;

pub use carrier::Carried;
pub use namespaces::NoNamespaces;
pub use store::StoreLinks;
pub use way::Way;

use carrier::Carrier;
use faults::Faults;
use namespaces::Namespaces;
use proxies::Proxies;

/// From whom, to whom.
pub type Ends = (String, String);

/// The links between the nodes of a cluster. Clones are the same links.
#[derive(Clone, Debug)]
pub struct Links {
    carrier: Arc<dyn Carrier>,
    faults: Arc<Mutex<BTreeMap<Ends, Faults>>>,
}

/// What passes bytes on.
fn runtime() -> Arc<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    Arc::new(runtime.expect("a runtime starts"))
}

/// Both ways between two nodes.
pub fn both_ways(a: &str, b: &str) -> [Ends; 2] {
    [(a.to_owned(), b.to_owned()), (b.to_owned(), a.to_owned())]
}

impl Default for Links {
    fn default() -> Self {
        Self::over(Proxies::default())
    }
}

impl Links {
    fn over(carrier: impl Carrier + 'static) -> Self {
        Self { carrier: Arc::new(carrier), faults: Arc::default() }
    }

    /// Between nodes of these names, each in a network namespace of its own. They are gone with the last clone, or with
    /// this process.
    pub fn in_namespaces(nodes: &[String]) -> Result<Self, NoNamespaces> {
        Namespaces::new(nodes).map(Self::over)
    }

    /// Where a node is to be reached: what it advertises. The same at each of its starts.
    pub fn address(&self, node: &str) -> SocketAddr {
        self.carrier.address(node)
    }

    /// Where a node has to listen; `None`: wherever it likes.
    pub fn listen(&self, node: &str) -> Option<SocketAddr> {
        self.carrier.listen(node)
    }

    /// What starts a program that stands for a node, where it is to be. The process becomes that program.
    pub fn command(&self, node: &str, program: &Path) -> Command {
        self.carrier.command(node, program)
    }

    /// A process of this node was started. Where it listens is not known yet.
    pub fn started(&self, node: &str, pid: u32) {
        self.carrier.started(node, pid);
    }

    /// It listens there.
    pub fn listens(&self, node: &str, at: SocketAddr) {
        self.carrier.listens(node, at);
    }

    /// Changes what is done to ways.
    fn change(&self, ways: &[Ends], change: impl Fn(&mut Faults)) {
        // Held until it is done, so that the last change is the one that stays.
        let mut faults = lock(&self.faults);
        let changed: Vec<_> = ways
            .iter()
            .filter_map(|ends| {
                let fault = faults.entry(ends.clone()).or_default();
                let before = fault.sum();
                change(fault);
                let after = fault.sum();
                (before != after).then(|| (ends.clone(), after))
            })
            .collect();
        if !changed.is_empty() {
            self.carrier.set(&changed);
        }
    }

    /// Does something to ways, beside what is done to them already.
    pub fn impose(&self, ways: &[Ends], how: &Way) {
        self.change(ways, |faults| faults.impose(how));
    }

    /// What was imposed so is over. What else is done to these ways goes on.
    pub fn lift(&self, ways: &[Ends], how: &Way) {
        self.change(ways, |faults| faults.lift(how));
    }

    /// Nothing that `from` sends reaches `to`; the other way stays as it is.
    pub fn cut_way(&self, from: &str, to: &str) {
        self.impose(&[(from.to_owned(), to.to_owned())], &Way::cut());
    }

    /// Cuts both ways between two nodes.
    pub fn cut(&self, a: &str, b: &str) {
        self.impose(&both_ways(a, b), &Way::cut());
    }

    /// Cuts a node off from every other one that was ever started.
    pub fn isolate(&self, node: &str) {
        let others = self.carrier.nodes().into_iter().filter(|other| other != node);
        let ways: Vec<_> = others.flat_map(|other| both_ways(node, &other)).collect();
        self.impose(&ways, &Way::cut());
    }

    /// Both ways between two nodes are as if nothing had been.
    pub fn heal(&self, a: &str, b: &str) {
        self.change(&both_ways(a, b), Faults::clear);
    }

    /// All ways are.
    pub fn heal_all(&self) {
        let ways: Vec<_> = lock(&self.faults).keys().cloned().collect();
        self.change(&ways, Faults::clear);
    }

    /// Breaks the connections between the two of each pair, who both learn it at once. They may dial again.
    pub fn break_connections(&self, between: &[Ends]) {
        self.carrier.break_connections(between);
    }

    /// Why nothing can be slow or lossy here.
    pub fn why_no_delay(&self) -> Option<String> {
        self.carrier.why_no_delay()
    }

    /// Why no connections can be broken here.
    pub fn why_no_breaks(&self) -> Option<String> {
        self.carrier.why_no_breaks()
    }

    /// What was carried so far.
    pub fn carried(&self) -> Carried {
        self.carrier.carried()
    }
}

#[cfg(test)]
mod tests;
