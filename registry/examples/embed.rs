//! Two nodes, one name, one typed call across them.
//!
//! `cargo run --example embed` runs both nodes in one process; in an application each is a process of
//! its own, with the same store.

use std::time::Duration;

use callsign::{Config, Registry};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call_t};

/// What the pricing actor takes. `P` carries any serde type over a link.
#[callsign::message("example.pricing/1")]
enum Pricing {
    Set(String, u64),
    Ask(String, RpcReplyPort<Option<u64>>),
}

struct PricingActor;

impl Actor for PricingActor {
    type Msg = Pricing;
    type State = std::collections::BTreeMap<String, u64>;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Pricing>, (): ()) -> Result<Self::State, ActorProcessingErr> {
        Ok(Self::State::new())
    }

    async fn handle(
        &self,
        _: ActorRef<Pricing>,
        message: Pricing,
        prices: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Pricing::Set(what, price) => {
                prices.insert(what, price);
            }
            Pricing::Ask(what, reply) => {
                // The caller may have gone; that is its own affair.
                let _ = reply.send(prices.get(&what).copied());
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = format!("sqlite:{}", directory.path().join("cluster.db").display());
    let berlin = Registry::join(Config::new("berlin", store.as_str())).await?;
    let paris = Registry::join(Config::new("paris", store.as_str())).await?;
    for node in [&berlin, &paris] {
        node.ready(Duration::from_secs(10)).await?;
    }

    let (actor, _) = Actor::spawn(None, PricingActor, ()).await?;
    let registration = berlin.register("pricing", &actor).await?;
    println!("berlin holds {:?}, fencing token {}", registration.name(), registration.token());

    // Paris may lag by what is on the way; a position says for how far to wait.
    paris.wait_for(registration.token(), Duration::from_secs(5)).await?;
    let pricing: ActorRef<Pricing> = paris.whereis("pricing")?;
    pricing.cast(Pricing::Set("tea".into(), 240)).map_err(|_| "the link went down")?;
    let price = call_t!(pricing, Pricing::Ask, 5000, "tea".to_owned())?;
    println!("paris asked by name: tea costs {price:?}");
    assert_eq!(price, Some(240));

    // A second actor cannot have the name, from whichever node it asks.
    let (rival, _) = Actor::spawn(None, PricingActor, ()).await?;
    match paris.register("pricing", &rival).await {
        Ok(_) => return Err("a name has one holder".into()),
        Err(refused) => println!("paris, registering its own: {refused}"),
    }

    paris.leave().await?;
    berlin.leave().await?;
    Ok(())
}
