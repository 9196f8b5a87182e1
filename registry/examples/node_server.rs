//! An application with a `NodeServer` of its own: its remote actors and groups and the registry's names share one session
//! for each pair of nodes.
//!
//! `cargo run -p callsign --features node-server --example node_server` starts the other node as a process of its own.
#![allow(clippy::disallowed_methods)] // it waits for real nodes

use std::{net::Ipv4Addr, process::Stdio, time::Duration};

use callsign::{
    Config, P, RactorClusterMessage, Registry, Secret,
    ractor_cluster::{NodeServer, node::NodeConnectionMode},
    remote_message,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call_t, pg};
use tokio::io::{AsyncBufReadExt, BufReader};

/// A group of the application, which `ractor_cluster` replicates.
const GROUP: &str = "greeters";

#[derive(RactorClusterMessage)]
enum Greeting {
    #[rpc]
    Hello(P<String>, RpcReplyPort<P<String>>),
}
remote_message!(Greeting, "example.greeting/1");

struct Greeter(&'static str);

impl Actor for Greeter {
    type Msg = Greeting;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Greeting>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Greeting>,
        Greeting::Hello(P(whom), reply): Greeting,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        // The caller may have gone; that is its own affair.
        let _ = reply.send(P(format!("hello {whom}, from {}", self.0)));
        Ok(())
    }
}

type Failure = Box<dyn std::error::Error>;

/// A node: its `NodeServer`, and the registry over its sessions.
async fn node(name: &'static str, store: &str) -> Result<Registry, Failure> {
    // Isolated, because transitive mode dials by itself; its own listener on loopback, because it cannot be switched off.
    let mode = Some(NodeConnectionMode::Isolated);
    let server = NodeServer::new(0, "the cookie".into(), name.into(), format!("{name}.example"), None, mode)
        .with_listen_addr(Ipv4Addr::LOCALHOST.into());
    let (server, _) = Actor::spawn(None, server, ()).await?;
    // The registry's endpoint listens and dials for both. The secret seals the sessions; the cookie stays what it is.
    let config =
        Config::new(name, store).secret(Secret::new("an example, and no secret")?).node_server(server);
    let registry = Registry::join(config).await?;
    registry.ready(Duration::from_secs(20)).await?;
    Ok(registry)
}

/// Paris: a greeter with a name, a member of the group, until its standard input ends.
async fn paris(store: &str) -> Result<(), Failure> {
    let registry = node("paris", store).await?;
    // Without a name of ractor's: `ractor_cluster` would take names with it when a session is lost.
    let (greeter, _) = Actor::spawn(None, Greeter("paris"), ()).await?;
    pg::join(GROUP.into(), vec![greeter.get_cell()]);
    registry.register("greeter", &greeter).await?;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {}
    registry.leave().await?;
    Ok(())
}

async fn berlin(store: &str) -> Result<(), Failure> {
    let registry = node("berlin", store).await?;
    let mut other = tokio::process::Command::new(std::env::current_exe()?)
        .args(["paris", store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let told = other.stdout.take().ok_or("no standard output")?;
    BufReader::new(told).lines().next_line().await?.ok_or("paris did not start")?;

    let entry = registry.lookup_consistent("greeter", Duration::from_secs(5)).await?.ok_or("no greeter")?;
    let greeter = until("a link to paris", || registry.whereis::<Greeting>("greeter").ok()).await?;
    let P(answer) = call_t!(greeter, Greeting::Hello, 5000, P("berlin".to_owned()))?;
    println!("by name (held on {}): {answer}", entry.node().as_str());

    let group = || pg::get_members(&GROUP.to_owned()).into_iter().find(|member| !member.get_id().is_local());
    let member: ActorRef<Greeting> = until("the group's member", group).await?.into();
    let P(answer) = call_t!(member, Greeting::Hello, 5000, P("berlin".to_owned()))?;
    println!("by group, over the same session: {answer}");

    drop(other.stdin.take());
    other.wait().await?;
    until("paris' name is free", || (registry.lookup("greeter") == Ok(None)).then_some(())).await?;
    println!("paris left, its name is free");
    registry.leave().await?;
    Ok(())
}

async fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> Result<T, Failure> {
    for _ in 0..2000 {
        if let Some(found) = found() {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(format!("never came: {what}").into())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    if let (Some("paris"), Some(store)) = (arguments.next().as_deref(), arguments.next()) {
        return paris(&store).await;
    }
    let directory = tempfile::tempdir()?;
    berlin(&format!("sqlite:{}", directory.path().join("cluster.db").display())).await
}
