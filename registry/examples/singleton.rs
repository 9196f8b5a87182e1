//! One child in the whole cluster, and callers that do not notice when it moves.
//!
//! `cargo run --example singleton` runs three nodes in one process; in an application each is a process of its
//! own, with the same store. It ends by itself.

#![allow(clippy::disallowed_methods)] // it waits by the clock

use std::time::Duration;

use callsign::{
    Config, Lead, NameRef, NameRefOptions, RactorMessage, Registry, Singleton, SingletonPlan,
    election::{Fence, Leadership, LeaseOracle, campaign::Phase},
    open_store,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

/// What the one who hands out ticket numbers takes.
#[callsign::message("example.tickets/1")]
enum Tickets {
    /// The next number, and from where.
    Next(RpcReplyPort<(u64, String)>),
    /// What the successor has to know.
    HandOver(RpcReplyPort<Vec<u8>>),
    Crash,
}

/// Hands out numbers, where the leader is.
struct Office {
    node: String,
    leadership: Leadership<Fence>,
}

impl Actor for Office {
    type Msg = Tickets;
    /// The last number; none once it was handed over, because the successor goes on from it.
    type State = Option<u64>;
    type Arguments = Option<Vec<u8>>;

    async fn pre_start(
        &self,
        _: ActorRef<Tickets>,
        handed_over: Option<Vec<u8>>,
    ) -> Result<Option<u64>, ActorProcessingErr> {
        let last = handed_over.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)));
        println!("{}: leads, goes on from {}", self.node, last.map_or("the start".into(), |n| n.to_string()));
        Ok(Some(last.unwrap_or(0)))
    }

    async fn handle(
        &self,
        _: ActorRef<Tickets>,
        message: Tickets,
        state: &mut Option<u64>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Tickets::Next(reply) => {
                // Before each act. Whatever is written outside carries this fence, so that the sink can refuse an older one.
                let _fence = self.leadership.check()?;
                // Handed over: the reply is dropped, and the caller learns that nobody answers it.
                let Some(last) = state else { return Ok(()) };
                *last += 1;
                let _ = reply.send((*last, self.node.clone())); // the caller may have gone
            }
            Tickets::HandOver(reply) => {
                if let Some(last) = state.take() {
                    let _ = reply.send(last.to_be_bytes().to_vec());
                }
            }
            Tickets::Crash => return Err("crashed, as asked".into()),
        }
        Ok(())
    }
}

#[derive(RactorMessage)]
struct Nothing;

/// What the other nodes run meanwhile.
struct Standby;

impl Actor for Standby {
    type Msg = Nothing;
    type State = String;
    type Arguments = String;

    async fn pre_start(&self, _: ActorRef<Nothing>, node: String) -> Result<String, ActorProcessingErr> {
        println!("{node}: stands by");
        Ok(node)
    }
}

fn tickets(registry: &Registry) -> SingletonPlan<LeaseOracle, Tickets> {
    let (node, standby) = (registry.node().to_owned(), registry.node().to_owned());
    Singleton::builder(registry, "tickets")
        .leader(move |lead: Lead<Fence>| {
            (Office { node: node.clone(), leadership: lead.leadership }, lead.handed_over)
        })
        .follower(move |_| (Standby, standby.clone()))
        .hand_over(Duration::from_millis(500), |office: ActorRef<Tickets>| async move {
            let answer = office.call(Tickets::HandOver, Some(Duration::from_millis(500))).await.ok()?;
            answer.success_or(()).ok()
        })
}

async fn draw(office: &NameRef<Tickets>, times: u64) -> Result<(u64, String), Box<dyn std::error::Error>> {
    let mut last = (0, String::new());
    for _ in 0..times {
        last = office.call(Tickets::Next, Duration::from_secs(20)).await?;
    }
    println!("drew {times}, the last one is {} from {}", last.0, last.1);
    Ok(last)
}

/// Draws one number after the child has moved or crashed. Until this node has heard of that, its calls go to the child that
/// is no more. They end with an error and are not repeated: the caller knows whether it may ask again.
async fn draw_anew(office: &NameRef<Tickets>) -> Result<(u64, String), Box<dyn std::error::Error>> {
    let begun = std::time::Instant::now();
    loop {
        match draw(office, 1).await {
            Ok(drawn) => return Ok(drawn),
            Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(error) => println!("drew nothing: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = open_store("memory:")?;
    let (mut nodes, mut singletons) = (Vec::new(), Vec::new());
    for name in ["berlin", "paris", "rome"] {
        let node = Registry::join(Config::new(name, store.clone())).await?;
        node.ready(Duration::from_secs(10)).await?;
        singletons.push(tickets(&node).start().await?);
        nodes.push(node);
    }
    // By name, from a node that need not be the one.
    let office = nodes[2].name_ref::<Tickets>("tickets", NameRefOptions::default())?;
    let (last, first) = draw(&office, 3).await?;
    assert_eq!(last, 3);

    println!("--- {first} stops its part: its child hands over to the next");
    let n = nodes.iter().position(|node| node.node() == first).ok_or("a node of ours")?;
    singletons[n].stop().await?;
    let (last, second) = draw_anew(&office).await?;
    assert!(last == 4 && second != first, "{last} from {second}");
    let (last, _) = draw(&office, 2).await?;
    assert_eq!(last, 6);

    println!("--- its child crashes: it is started again in place, and what it knew is gone");
    office.cast(Tickets::Crash).await.map_err(|error| error.to_string())?;
    let (last, third) = draw_anew(&office).await?;
    assert!(last == 1 && third == second, "{last} from {third}");

    let leading = singletons.iter().filter(|singleton| singleton.status().phase == Phase::Leading).count();
    assert_eq!(leading, 1);
    for singleton in &singletons {
        singleton.stop().await?;
    }
    for node in nodes {
        node.leave().await?;
    }
    println!("--- done");
    Ok(())
}
