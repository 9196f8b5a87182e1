//! A chat: rooms are groups, a room's topic is a name with metadata, and whoever wants to know of topics watches.
//!
//! `cargo run --example chat` runs two nodes in one process; in an application each is a process of its own, with the same store. It
//! ends by itself.

#![allow(clippy::disallowed_methods)] // it waits by the clock

use std::{error::Error, time::Duration};

use callsign::{
    Config, Entry, Group, Membership, Meta, RegisterOptions, Registry, Select, WatchEvent, open_store,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// What a user takes.
#[callsign::message("example.chat/1")]
enum Chat {
    /// A member says something: its name, and the text.
    Said(String, String),
}

/// A user, who shows what is said.
struct User(String);

impl Actor for User {
    type Msg = Chat;
    type State = UnboundedSender<String>;
    type Arguments = UnboundedSender<String>;

    async fn pre_start(
        &self,
        _: ActorRef<Chat>,
        screen: UnboundedSender<String>,
    ) -> Result<UnboundedSender<String>, ActorProcessingErr> {
        Ok(screen)
    }

    async fn handle(
        &self,
        _: ActorRef<Chat>,
        Chat::Said(who, what): Chat,
        screen: &mut UnboundedSender<String>,
    ) -> Result<(), ActorProcessingErr> {
        println!("  {}'s screen: <{who}> {what}", self.0);
        Ok(screen.send(what)?)
    }
}

/// A user enters a room: an actor joins the group, and says who it is.
async fn enter(
    node: &Registry,
    room: &Group<Chat>,
    name: &str,
) -> Result<(ActorRef<Chat>, Membership, UnboundedReceiver<String>), Box<dyn Error>> {
    let (screen, shown) = unbounded_channel();
    let (user, _) = Actor::spawn(None, User(name.to_owned()), screen).await?;
    let membership = room.join(&user, Some(Meta::new(name)?)).await?;
    println!("{name} enters {} on {}", room.name(), node.node());
    Ok((user, membership, shown))
}

/// The names of those in a room, in the order in which they came.
fn who(room: &Group<Chat>) -> Result<Vec<String>, Box<dyn Error>> {
    let name = |member: &Entry| Ok(member.meta::<String>()?.unwrap_or_default());
    room.members()?.iter().map(name).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = open_store("memory:")?;
    let berlin = Registry::join(Config::new("berlin", store.clone())).await?;
    berlin.ready(STEP_TIMEOUT).await?;
    let paris = Registry::join(Config::new("paris", store)).await?;
    paris.ready(STEP_TIMEOUT).await?;

    // Paris wants to know of all topics, from now on.
    let mut topics = paris.watch(Select::prefix("topic/"))?;

    let here: Group<Chat> = berlin.group("room/7");
    let there: Group<Chat> = paris.group("room/7");
    let (ann, anns_place, mut anns) = enter(&berlin, &here, "ann").await?;
    let (_bob, bobs_place, mut bobs) = enter(&paris, &there, "bob").await?;
    // Berlin has it a moment later.
    berlin.wait_for(bobs_place.token(), STEP_TIMEOUT).await?;
    println!("in the room, as berlin has it: {:?}", who(&here)?);

    // The actor that sets the topic holds its name, and says it there.
    let topic = RegisterOptions::default().meta(Meta::new("fish")?);
    berlin.register_with("topic/room/7", &ann, topic).await?;
    let heard = async {
        while let Some(event) = topics.next().await {
            if let WatchEvent::Change(change) = event
                && let Some(now) = &change.now
            {
                return Ok((change.name.clone(), now.meta::<String>()?));
            }
        }
        Err::<_, Box<dyn Error>>("the watch has ended".into())
    };
    let (name, topic) = tokio::time::timeout(STEP_TIMEOUT, heard).await??;
    println!("paris hears of {name}: {}", topic.unwrap_or_default());

    // It travels once to paris, however many are there.
    let sent = here.broadcast(Chat::Said("ann".into(), "what about fish?".into()))?;
    println!("on its way to {} members", sent.sent);
    for screen in [&mut anns, &mut bobs] {
        tokio::time::timeout(STEP_TIMEOUT, screen.recv()).await?.ok_or("the screen is off")?;
    }

    let left = here.leave(&anns_place).await?;
    paris.wait_for(left, STEP_TIMEOUT).await?;
    println!("in the room, as paris has it: {:?}", who(&there)?);
    berlin.leave().await?;
    paris.leave().await?;
    Ok(())
}

#[test]
fn it_comes_to_its_end() {
    main().unwrap();
}
