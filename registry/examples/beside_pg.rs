//! How long a message takes to all members of a large group: by `ractor::pg` over a `NodeServer`, and by a group of the registry over the
//! same sessions, in turns.
//!
//!     cargo run --release -p callsign --features node-server --example beside_pg [MEMBERS [ROUNDS]]
//!
//! Three nodes, a process each. What is printed is the median, from the call to the last mailbox.
#![allow(clippy::disallowed_methods)] // it waits for real nodes

use std::{
    net::Ipv4Addr,
    process::Stdio,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use callsign::{
    Config, Group, RactorClusterMessage, Registry, Secret,
    ractor_cluster::{NodeServer, node::NodeConnectionMode},
    remote_message,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, pg};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin},
    process::{Child, ChildStdin, ChildStdout, Command},
};

const GROUP: &str = "measured";
const NODES: usize = 3;

/// What the members of this process have heard, and when the last of them did, in nanoseconds since 1970.
static HEARD: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

type Failure = Box<dyn std::error::Error>;

#[derive(RactorClusterMessage)]
enum Message {
    Text(Vec<u8>),
}
remote_message!(Message, "example.beside-pg/1");

struct Member;

impl Actor for Member {
    type Msg = Message;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        Message::Text(_): Message,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        LAST.fetch_max(now(), SeqCst);
        HEARD.fetch_add(1, SeqCst);
        Ok(())
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Joins, with so many members in both kinds of groups.
async fn node(name: String, store: &str, members: usize) -> Result<(Registry, Group<Message>), Failure> {
    let mode = Some(NodeConnectionMode::Isolated);
    let server = NodeServer::new(0, "the cookie".into(), name.clone(), format!("{name}.example"), None, mode)
        .with_listen_addr(Ipv4Addr::LOCALHOST.into());
    let (server, _) = Actor::spawn(None, server, ()).await?;
    let secret = Secret::new("a secret of three processes")?;
    let registry = Registry::join(Config::new(name, store).secret(secret).node_server(server)).await?;
    registry.ready(Duration::from_secs(20)).await?;
    let group = registry.group::<Message>(GROUP);
    let mut actors = Vec::new();
    for _ in 0..members {
        actors.push(Actor::spawn(None, Member, ()).await?.0);
    }
    let joins = actors.iter().map(|actor| group.join(actor, None));
    for joined in futures::future::join_all(joins).await {
        joined?;
    }
    pg::join(GROUP.into(), actors.iter().map(ActorRef::get_cell).collect());
    Ok((registry, group))
}

/// Waits for as many messages as each line says, and says when the last one came.
async fn other(name: String, store: &str, members: usize) -> Result<(), Failure> {
    let (registry, _group) = node(name, store, members).await?;
    println!("ready");
    let mut lines: Lines<BufReader<Stdin>> = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        heard(line.parse()?).await?;
        println!("{}", LAST.load(SeqCst));
    }
    registry.leave().await?;
    Ok(())
}

async fn heard(count: usize) -> Result<(), Failure> {
    until("a message", || HEARD.load(SeqCst) >= count).await
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Failure> {
    for _ in 0..60_000 {
        if is_so() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(format!("never came: {what}").into())
}

struct Other {
    _process: Child,
    asks: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Other {
    async fn start(name: &str, store: &str, members: usize) -> Result<Self, Failure> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["node", name, store, &members.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let asks = process.stdin.take().ok_or("no standard input")?;
        let mut says = BufReader::new(process.stdout.take().ok_or("no standard output")?).lines();
        says.next_line().await?.ok_or("it did not start")?;
        Ok(Self { _process: process, asks, says })
    }

    async fn last(&mut self, count: usize) -> Result<u64, Failure> {
        self.asks.write_all(format!("{count}\n").as_bytes()).await?;
        Ok(self.says.next_line().await?.ok_or("it ended")?.parse()?)
    }
}

async fn measure(store: &str, members: usize, rounds: usize) -> Result<(), Failure> {
    let (registry, group) = node("n0".into(), store, members).await?;
    let mut others = Vec::new();
    for nth in 1..NODES {
        others.push(Other::start(&format!("n{nth}"), store, members).await?);
    }
    let all = members * NODES;
    let in_pg = || pg::get_members(&GROUP.to_owned());
    until("all members", || group.count() == Ok(all) && in_pg().len() == all).await?;
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..2 * rounds {
        let text = || Message::Text(vec![7; 32]);
        let begin = now();
        if round % 2 == 0 {
            for member in in_pg() {
                ActorRef::<Message>::from(member).cast(text())?;
            }
        } else {
            group.broadcast(text())?;
        }
        let count = (round + 1) * members;
        heard(count).await?;
        let mut last = LAST.load(SeqCst);
        for other in &mut others {
            last = last.max(other.last(count).await?);
        }
        took[round % 2].push(Duration::from_nanos(last.saturating_sub(begin)));
    }
    for (took, how) in
        took.iter_mut().zip(["ractor::pg over a NodeServer", "a group, over the same sessions"])
    {
        took.sort();
        println!("32 bytes to {all} members, by {how}: p50 {:.1?}", took[took.len() / 2]);
    }
    registry.leave().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, name, store, members] = &arguments[..]
        && what == "node"
    {
        return other(name.clone(), store, members.parse()?).await;
    }
    let number = |nth: usize, default| arguments.get(nth).map_or(Ok(default), |given| given.parse());
    let (members, rounds) = (number(0, 10_000)? / NODES, number(1, 20)?);
    let directory = tempfile::tempdir()?;
    measure(&format!("sqlite:{}", directory.path().join("cluster.db").display()), members, rounds).await
}
