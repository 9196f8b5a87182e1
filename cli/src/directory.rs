//! Finds a node to ask by the store of its cluster: the row of each member says where it is administered.
//!
//! An address counts only if the very process that the row names answers there. A loopback address that a node of another machine gave
//! belongs to somebody else here.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use callsign::SharedStore;
use callsign_elector::record::MemberRow;
use callsign_store::{
    Read, ReadResult,
    examine::{Finding, Verdict},
    ids::{ClusterName, RegistryName},
    keys::{ClusterKeys, read_range},
    open_existing,
    record::Record,
};
use tokio::runtime::Runtime;

use crate::{client::Client, commands::demo::shared_store, node_url::NodeUrl, reply::exact, usage::Usage};

/// The registry that is meant where none is named.
const DEFAULT_REGISTRY: &str = "default";
/// The most rows of members that are read: more than a registry may have.
pub(crate) const MOST_ROWS: usize = 1000;
/// How long a store may take to come up. Its connections do that behind `open`.
const COMING_UP: Duration = Duration::from_secs(5);
/// Before it is asked again.
const OPEN_PAUSE: Duration = Duration::from_millis(100);

/// Which node is asked.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// The node's admin endpoint, as it printed it at its start: HOST:PORT, or http://HOST:PORT. Default: a member that --store
    /// names; without that, 127.0.0.1:7077.
    #[arg(long, env = "CALLSIGN_NODE")]
    node: Option<NodeUrl>,
    /// The store of the cluster. It is asked for a member of the registry, unless --node says which node is meant.
    #[arg(long, env = "CALLSIGN_STORE", hide_env_values = true, value_parser = shared_store)]
    store: Option<String>,
    /// The cluster that is meant in the store; never beside --node, which is of one cluster.
    #[arg(long, default_value = "default", conflicts_with = "node")]
    cluster: String,
}

impl Which {
    /// Whether it is said which node is meant.
    pub(crate) fn names_a_node(&self) -> bool {
        self.node.is_some()
    }

    /// The registry that is meant: of a node that the store names, `default` if none is given. `None`: the first one of the node.
    pub(crate) fn registry<'a>(&self, given: Option<&'a str>) -> Option<&'a str> {
        let is_found = self.node.is_none() && self.store.is_some();
        given.or_else(|| is_found.then_some(DEFAULT_REGISTRY))
    }

    /// A client of the node that is to be asked. `client` makes one for an address.
    pub(crate) fn find(
        &self,
        registry: Option<&str>,
        client: impl Fn(&NodeUrl) -> Result<Client>,
    ) -> Result<Client> {
        match (&self.node, &self.store) {
            (Some(node), _) => client(node),
            (None, None) => client(&NodeUrl::default()),
            (None, Some(store)) => {
                let registry = self.registry(registry).unwrap_or(DEFAULT_REGISTRY);
                let rows = members(store, &self.cluster, registry)?;
                if rows.is_empty() {
                    bail!("registry {registry} of cluster {} has no members in this store", self.cluster);
                }
                first_that_answers(&rows, registry, client)
            }
        }
    }
}

/// The members of a registry, those that serve first.
fn members(url: &str, cluster: &str, registry: &str) -> Result<Vec<MemberRow>> {
    let cluster = ClusterName::new(cluster).map_err(Usage::because)?;
    let registry = RegistryName::new(registry).map_err(Usage::because)?;
    let range = ClusterKeys::new(&cluster).registry(&registry).members();
    in_order(&Looks::at(url)?.read(&[read_range(range, MOST_ROWS)])?)
}

/// Reads a store that is there.
pub(crate) struct Looks {
    store: SharedStore,
    runtime: Runtime,
}

impl Looks {
    pub(crate) fn at(url: &str) -> Result<Self> {
        let store = open_existing(url).map_err(|error| {
            let Finding { verdict, said, .. } = (&error).into();
            if verdict == Verdict::Usage { Usage(said).into() } else { anyhow!(said) }
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { store, runtime })
    }

    /// All at one version.
    pub(crate) fn read(&self, reads: &[Read]) -> Result<ReadResult> {
        let read = self.runtime.block_on(once_up(|| self.store.read(reads.to_vec())));
        read.context("the store cannot be read")
    }
}

/// A row that cannot be understood is left out if there are others to ask.
fn in_order(read: &ReadResult) -> Result<Vec<MemberRow>> {
    let decoded = read.entries(0).iter().map(|(_, value)| MemberRow::from_value(value));
    let (decoded, corrupt): (Vec<_>, Vec<_>) = decoded.partition(Result::is_ok);
    let mut rows: Vec<_> = decoded.into_iter().flatten().collect();
    if let (true, Some(Err(error))) = (rows.is_empty(), corrupt.into_iter().next()) {
        return Err(error).context("the rows of the members cannot be understood");
    }
    rows.sort_by_key(|row| (row.draining, !row.synced, row.session.node.clone()));
    Ok(rows)
}

fn first_that_answers(
    rows: &[MemberRow],
    registry: &str,
    client: impl Fn(&NodeUrl) -> Result<Client>,
) -> Result<Client> {
    let mut obstacles = Vec::new();
    for row in rows {
        match of_row(row, registry, &client) {
            Ok(client) => return Ok(client),
            Err(error) => obstacles.push(format!("{}: {error:#}", row.session.node)),
        }
    }
    bail!("no member of registry {registry} can be asked: {}", obstacles.join("; "))
}

fn of_row(row: &MemberRow, registry: &str, client: impl Fn(&NodeUrl) -> Result<Client>) -> Result<Client> {
    let admin = row.admin.as_deref().context("it does not say where it is administered")?;
    let client = client(&admin.parse().map_err(|why| anyhow!("{admin}: {why}"))?)?;
    let status = client.get("/status", &[("registry", registry)])?.ok()?;
    if status["incarnation"] != exact(row.session.incarnation.0) {
        bail!("{admin} is another node here, or another start of it");
    }
    Ok(client)
}

/// Asks until there is an answer, for as long as a store may come up. The last error.
pub(crate) async fn once_up<T, E, F: Future<Output = Result<T, E>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, E> {
    let until = tokio::time::Instant::now() + COMING_UP;
    loop {
        let answer = ask().await;
        if answer.is_ok() || tokio::time::Instant::now() >= until {
            return answer;
        }
        tokio::time::sleep(OPEN_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::{SocketAddr, TcpListener},
        path::Path,
    };

    use callsign_elector::member_rows::write_member;
    use callsign_store::{
        CommitOutcome, Transaction,
        ids::{Incarnation, NodeName, SessionId, SessionNumber, Token},
    };

    use super::*;

    /// Answers whatever is asked as a node of this incarnation does, or as no node does.
    fn endpoint(incarnation: Option<u64>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let head = BufReader::new(&stream).lines().map_while(Result::ok);
                assert!(head.take_while(|line| !line.is_empty()).count() > 0, "it asks");
                let (status, body) = match incarnation {
                    Some(incarnation) => (200, format!(r#"{{"incarnation":"{}"}}"#, exact(incarnation))),
                    None => (401, r#"{"error":"unauthorized","message":"show a token"}"#.to_owned()),
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                // The client may have closed the connection.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    fn row(node: &str, incarnation: u64, admin: Option<SocketAddr>) -> MemberRow {
        let node = NodeName::new(node).unwrap();
        MemberRow {
            token: Token(1),
            session: SessionId { node, incarnation: Incarnation(incarnation), number: SessionNumber(1) },
            address: "127.0.0.1:1".into(),
            admin: admin.map(|admin| format!("http://{admin}")),
            priority: 1,
            synced: true,
            empty: false,
            accuses: None,
            draining: false,
        }
    }

    /// A store with these members of a registry.
    fn store_of(directory: &Path, registry: &str, rows: &[MemberRow]) -> String {
        let url = format!("sqlite:{}", directory.join("x.db").display());
        let store = callsign::open_store(&url).unwrap();
        let cluster = ClusterName::new("default").unwrap();
        let keys = ClusterKeys::new(&cluster).registry(&RegistryName::new(registry).unwrap());
        let write = rows.iter().fold(Transaction::new(), |transaction, row| {
            write_member(transaction, &keys, &row.session.node, Some(row))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(store.commit(write));
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        url
    }

    fn find(which: &Which, registry: Option<&str>) -> Result<String> {
        let address = std::cell::RefCell::new(String::new());
        which.find(registry, |node| {
            address.replace(node.to_string());
            Ok(Client::new(node, Duration::from_secs(5)))
        })?;
        Ok(address.into_inner())
    }

    fn which(node: Option<&str>, store: Option<&str>) -> Which {
        let node = node.map(|node| node.parse().unwrap());
        Which { node, store: store.map(Into::into), cluster: "default".into() }
    }

    #[test]
    fn the_very_process_that_a_row_names_is_asked_and_who_serves_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let (of_another, of_c, of_d) = (endpoint(Some(9)), endpoint(Some(3)), endpoint(Some(4)));
        let draining = MemberRow { draining: true, ..row("a", 4, Some(of_d)) };
        let behind = MemberRow { synced: false, ..row("aa", 4, Some(of_d)) };
        let rows = [
            draining,
            behind,
            row("b", 2, Some(of_another)),
            row("c", 3, Some(of_c)),
            row("d", 4, Some(of_d)),
        ];
        let url = store_of(directory.path(), "default", &rows);
        let found = find(&which(None, Some(&url)), None).unwrap();
        assert_eq!(found, format!("http://{of_c}"), "b is another node here");
        let named = which(Some("127.0.0.1:1"), Some(&url));
        assert_eq!(
            find(&named, None).unwrap(),
            "http://127.0.0.1:1",
            "who is named is asked, and nobody else"
        );
        assert_eq!(
            which(None, Some(&url)).registry(None),
            Some("default"),
            "a member of that was looked for"
        );
        assert_eq!(which(None, Some(&url)).registry(Some("r")), Some("r"));
        assert_eq!(named.registry(None), None, "it is the node's first one");
        assert_eq!(which(None, None).registry(None), None);
        let neither = find(&which(None, None), Some("r")).unwrap();
        assert_eq!(neither, "http://127.0.0.1:7077");
    }

    #[test]
    fn why_no_member_can_be_asked_is_said_of_each() {
        let directory = tempfile::tempdir().unwrap();
        let (of_another, closed) = (endpoint(Some(9)), endpoint(None));
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let rows = [
            row("a", 1, None),
            row("b", 2, Some(of_another)),
            row("c", 3, Some(closed)),
            row("d", 4, Some(nobody)),
        ];
        let url = store_of(directory.path(), "r", &rows);
        let said = find(&which(None, Some(&url)), Some("r")).unwrap_err().to_string();
        for part in [
            "no member of registry r can be asked: a: it does not say where it is administered; b: "
                .to_owned(),
            format!("b: http://{of_another} is another node here, or another start of it; c: "),
            "c: show a token; d: ".to_owned(),
        ] {
            assert!(said.contains(&part), "{said}");
        }
        let none = find(&which(None, Some(&url)), None).unwrap_err();
        assert_eq!(none.to_string(), "registry default of cluster default has no members in this store");
        assert!(!none.is::<Usage>());
    }

    #[test]
    fn rows_that_cannot_be_understood_are_not_taken_for_none() {
        let corrupt = || (b"k".to_vec(), b"\x07no record".to_vec());
        let good = |node| (b"k".to_vec(), row(node, 1, None).to_value());
        let read = |rows: Vec<_>| in_order(&ReadResult { answers: vec![rows], ..ReadResult::default() });
        assert_eq!(read(vec![]).unwrap(), []);
        assert_eq!(read(vec![corrupt(), good("a")]).unwrap().len(), 1);
        let error = format!("{:#}", read(vec![corrupt()]).unwrap_err());
        assert!(error.starts_with("the rows of the members cannot be understood: "), "{error}");
    }

    #[test]
    fn a_store_that_makes_no_sense_is_wrong_usage_and_one_that_is_not_there_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        assert!(find(&which(None, Some("mysql:there")), None).unwrap_err().is::<Usage>());
        assert!(find(&which(None, Some("mysql:there")), Some("a/b")).unwrap_err().is::<Usage>());
        let missing = directory.path().join("none.db");
        let error = find(&which(None, Some(&format!("sqlite:{}", missing.display()))), None).unwrap_err();
        assert!(!error.is::<Usage>(), "{error:#}");
        assert!(!missing.exists());
    }

    #[test]
    fn a_node_is_named_by_its_address_and_not_by_its_store() {
        for (node, is_named) in [(None, false), (Some("127.0.0.1:1"), true)] {
            for store in [None, Some("sqlite:/x.db")] {
                assert_eq!(which(node, store).names_a_node(), is_named, "{node:?} {store:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_comes_up_is_asked_again_but_not_for_ever() {
        let began = tokio::time::Instant::now();
        let mut asked = 0;
        let comes_up = once_up(|| {
            asked += 1;
            let answer = if asked < 3 { Err("not yet") } else { Ok(asked) };
            async move { answer }
        });
        assert_eq!(comes_up.await, Ok(3), "and then not again");
        assert!(began.elapsed() >= 2 * OPEN_PAUSE);

        let (began, mut asked) = (tokio::time::Instant::now(), 0);
        let never = once_up(|| {
            asked += 1;
            let answer = Err::<(), _>(asked);
            async move { answer }
        });
        let last = never.await.unwrap_err();
        assert_eq!(last, asked, "the last error is what is said");
        assert!(asked > 2 && began.elapsed() >= COMING_UP, "{asked}");
    }
}
