//! What clients in a node's process do all the time.
//!
//! Names that are contested by all live for some seconds, so that the calls on one name stay few enough to be put in order;
//! names of a node's own are kept long, through failovers.
#![allow(clippy::disallowed_methods)] // clients wait

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use callsign::{Entry, RegisterError, RegisterOptions, Registry, UnregisterError, WhenLapsed};
use callsign_store::{lock::lock, random::splitmix};
use tokio::{sync::watch, time::sleep};

use super::{
    Journal, Positions,
    acting::{Acting, Holds},
    event::{Answer, Ask, At, Event, Shown},
};
use crate::rng::Rng;

mod groups;
mod locks;
mod moves;
mod offers;
mod pages;
mod starts;
mod takes;
mod updates;
mod watches;

/// How many names of its own a node keeps.
pub const KEPT: usize = 5;
/// How many names each contender of a node contests with those of the other nodes. Its neighbour in the process has others: a
/// node gives a name up by its name, whichever client asks.
const CONTESTED: u64 = 2;
/// How many contenders a node has.
pub const CONTENDERS: u64 = 2;
/// How long they are contested.
const CONTEST: Duration = Duration::from_secs(8);
/// How long a call waits for its verdict.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a name is kept: from this, up to three times as long.
const KEEP: Duration = Duration::from_secs(15);

/// How long a juggler holds a name, at most.
const HOLD: Duration = Duration::from_secs(6);
/// Before what failed is tried again.
const CALL_AGAIN: Duration = Duration::from_millis(300);

/// The node whose clients they are.
#[derive(Clone)]
pub struct Site {
    /// What they ask.
    pub registry: Registry,
    /// Where they write it down.
    pub journal: Arc<dyn Journal>,
    /// The name of the node.
    pub name: String,
    /// The names of all nodes.
    pub nodes: Vec<String>,
    /// Decides what they do.
    pub seed: u64,
    /// Between two calls of a client: from this, up to twice as long.
    pub pause: Duration,
    /// Between two acts of an actor.
    pub act_every: Duration,
    /// Every so many listeners of a thousand panic when they are told something.
    pub panics: u64,
    /// How far the watches of other nodes are.
    pub positions: Arc<dyn Positions>,
    /// All actors that were granted something.
    pub granted: Arc<Mutex<Vec<Acting>>>,
    /// Whether they go on.
    pub works: watch::Receiver<bool>,
}

/// Numbers calls and actors of the process.
#[derive(Debug, Default)]
pub struct Calls {
    asked: AtomicU64,
    actors: AtomicU64,
    watches: AtomicU64,
    said: AtomicU64,
}

impl Calls {
    fn next(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A name that is kept.
pub fn kept(node: &str, index: usize) -> String {
    format!("{node}.{index}")
}

/// The number of the present window.
fn window(now: At) -> u64 {
    now / u64::try_from(CONTEST.as_nanos()).unwrap_or(u64::MAX)
}

fn contested(window: u64, index: impl std::fmt::Display) -> String {
    format!("w{window}.{index}")
}

/// A client.
pub struct Client {
    site: Arc<Site>,
    calls: Arc<Calls>,
    rng: Rng,
}

/// A name that a client has asked for, and for which actor.
struct Wanted {
    acting: Acting,
    /// None while no verdict is known.
    token: Option<u64>,
    since: At,
    until: Duration,
}

impl Client {
    /// A client of this number, which decides what it does.
    pub fn new(site: &Arc<Site>, calls: &Arc<Calls>, number: u64) -> Self {
        let rng = Rng::new(site.seed.wrapping_mul(8) + number);
        Self { site: site.clone(), calls: calls.clone(), rng }
    }

    /// A client of what names can do beside being held. Its choices are its own: those of others are as they were without it.
    pub fn beside(site: &Arc<Site>, calls: &Arc<Calls>, number: u64) -> Self {
        let rng = Rng::new(splitmix(splitmix(site.seed) ^ number));
        Self { site: site.clone(), calls: calls.clone(), rng }
    }

    fn now(&self) -> At {
        self.site.journal.now()
    }

    /// How long ago something was.
    fn since(&self, at: At) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(at))
    }

    fn works(&self) -> bool {
        *self.site.works.borrow()
    }

    async fn pause(&mut self) {
        let pause = self.site.pause;
        sleep(pause + self.rng.duration(pause)).await;
    }

    fn asked(&self, ask: Ask, name: &str, actor: u64) -> u64 {
        let call = Calls::next(&self.calls.asked);
        self.site.journal.write(&Event::Asked { at: self.now(), call, actor, name: name.to_owned(), ask });
        call
    }

    fn told(&self, call: u64, answer: Answer) -> Answer {
        self.site.journal.write(&Event::Told { at: self.now(), call, answer: answer.clone() });
        answer
    }

    /// A number that nobody else says, in any process.
    fn says(&self) -> u64 {
        splitmix(splitmix(self.site.seed) ^ Calls::next(&self.calls.said))
    }

    /// An actor holds something from now on.
    fn begins(&self, acting: &Acting, holds: impl Into<Holds>) {
        acting.begin(holds);
        lock(&self.site.granted).push(acting.clone());
    }

    async fn spawn(&self) -> Option<Acting> {
        let number = Calls::next(&self.calls.actors);
        Acting::spawn(number, self.site.act_every, &self.site.journal).await.ok()
    }

    fn tells(&mut self, acting: &Acting) -> WhenLapsed {
        WhenLapsed::Tell(acting.listener(self.rng.per_mille(self.site.panics)))
    }

    async fn register(&self, name: &str, acting: &Acting, when_lapsed: WhenLapsed) -> Answer {
        let options = RegisterOptions::default().when_lapsed(when_lapsed).wait(VERDICT_TIMEOUT);
        let call = self.asked(Ask::Register, name, acting.number);
        let answer = match self.site.registry.register_with(name, &acting.actor, options).await {
            Ok(registration) => {
                let token = registration.token().0;
                self.begins(acting, registration);
                Answer::Granted(token)
            }
            Err(RegisterError::Taken { holder, .. }) => Answer::Taken(holder.token().0),
            Err(
                error @ (RegisterError::Unknown { .. }
                | RegisterError::SessionLost { .. }
                | RegisterError::ActorEnded),
            ) => Answer::Unknown(word(&error)),
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer)
    }

    async fn unregister(&self, name: &str, acting: &Acting) -> Answer {
        acting.pause();
        let call = self.asked(Ask::Unregister, name, acting.number);
        let answer = match self.site.registry.unregister(name).await {
            Ok(_) => Answer::Freed,
            Err(error @ (UnregisterError::Pending { .. } | UnregisterError::Left)) => {
                Answer::Unknown(word(&error))
            }
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer)
    }

    async fn read(&self, name: &str) -> Answer {
        let call = self.asked(Ask::Consistent, name, 0);
        let answer = match self.site.registry.lookup_consistent(name, VERDICT_TIMEOUT).await {
            Ok(Some(entry)) => Answer::Found(entry.token().0),
            Ok(None) => Answer::Free,
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer)
    }

    fn look_up(&self, name: &str) -> Answer {
        let call = self.asked(Ask::Local, name, 0);
        let answer = match self.site.registry.lookup(name) {
            Ok(Some(entry)) => Answer::Found(entry.token().0),
            Ok(None) => Answer::Free,
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer)
    }

    /// Asks for a name for a fresh actor, again as long as no verdict is known. None: it is another's, or was refused.
    async fn acquire(&mut self, name: &str, stops: bool, until: Duration) -> Option<Wanted> {
        let acting = self.spawn().await?;
        let mut wanted = Wanted { acting, token: None, since: self.now(), until };
        if self.ask_again(name, &mut wanted, stops).await { Some(wanted) } else { None }
    }

    /// Returns whether it is held, or may be.
    async fn ask_again(&mut self, name: &str, wanted: &mut Wanted, stops: bool) -> bool {
        let was_unknown = wanted.token.is_none() && self.since(wanted.since) > Duration::from_millis(1);
        let when_lapsed = if stops { WhenLapsed::Stop } else { self.tells(&wanted.acting) };
        match self.register(name, &wanted.acting, when_lapsed).await {
            Answer::Granted(token) => {
                wanted.token = Some(token);
                // After one's own register, one's own read sees it.
                self.look_up(name);
                true
            }
            // An actor that may hold it is told of no session, as long as nothing was granted: another one then.
            Answer::Unknown(why) if why != "SessionLost" && why != "ActorEnded" => true,
            Answer::Refused(_) if was_unknown => true,
            _ => {
                wanted.acting.end();
                false
            }
        }
    }

    /// Gives a name up, or the actor that may hold it.
    async fn release(&mut self, name: &str, wanted: Wanted) {
        // By its end, or in so many words.
        if wanted.token.is_some() && !self.rng.per_mille(250) {
            for _ in 0..3 {
                if !matches!(self.unregister(name, &wanted.acting).await, Answer::Refused(_)) {
                    break;
                }
                sleep(CALL_AGAIN).await;
            }
        }
        wanted.acting.end();
    }

    /// Whether what was wanted is over without having been given up.
    fn is_over(wanted: &Wanted) -> bool {
        wanted.acting.is_over()
    }

    /// Keeps names of the node's own; in the end all of them.
    pub async fn keep(mut self) {
        let names: Vec<_> = (0..KEPT).map(|index| kept(&self.site.name, index)).collect();
        let mut held: BTreeMap<String, Wanted> = BTreeMap::new();
        loop {
            for name in &names {
                if held.get(name).is_some_and(Self::is_over)
                    && let Some(over) = held.remove(name)
                {
                    over.acting.end();
                }
                let works = self.works();
                match held.remove(name) {
                    None => {
                        let keep = KEEP + self.rng.duration(KEEP * 2);
                        if let Some(wanted) = self.acquire(name, false, keep).await {
                            held.insert(name.clone(), wanted);
                        }
                    }
                    Some(mut wanted) if wanted.token.is_none() => {
                        if self.ask_again(name, &mut wanted, false).await {
                            held.insert(name.clone(), wanted);
                        }
                    }
                    // The first one is never given up: through it the node hears that its session is over.
                    Some(wanted) if works && *name != names[0] && self.since(wanted.since) > wanted.until => {
                        self.release(name, wanted).await;
                    }
                    Some(wanted) => {
                        held.insert(name.clone(), wanted);
                    }
                }
                // Once all is to come to rest, only what is not held yet is waited for.
                if self.works() {
                    self.pause().await;
                } else {
                    sleep(CALL_AGAIN).await;
                }
            }
            let is_held = |name| held.get(name).is_some_and(|wanted| wanted.token.is_some());
            if !self.works() && names.iter().all(is_held) {
                // They go on acting; nothing is asked for any more.
                return;
            }
        }
    }

    /// Asks for the names that the contenders of this number on all nodes ask for, and gives them up soon.
    pub async fn contend(mut self, number: u64) {
        let first = number * CONTESTED;
        let mut held: BTreeMap<String, Wanted> = BTreeMap::new();
        while self.works() {
            let now = window(self.now());
            let is_past = |name: &String| !name.starts_with(&contested(now, ""));
            while let Some(name) = held.keys().find(|name| is_past(name)).cloned() {
                if let Some(wanted) = held.remove(&name) {
                    self.release(&name, wanted).await;
                }
            }
            let name = contested(now, first + self.rng.below(CONTESTED));
            match held.remove(&name) {
                Some(wanted) if Self::is_over(&wanted) => wanted.acting.end(),
                Some(mut wanted) if wanted.token.is_none() => {
                    if self.ask_again(&name, &mut wanted, false).await {
                        held.insert(name, wanted);
                    }
                }
                Some(wanted) if self.rng.per_mille(600) => self.release(&name, wanted).await,
                Some(wanted) => {
                    held.insert(name, wanted);
                }
                None => {
                    let stops = self.rng.per_mille(300);
                    if let Some(wanted) = self.acquire(&name, stops, CONTEST).await {
                        held.insert(name, wanted);
                    }
                }
            }
            self.pause().await;
        }
        for (name, wanted) in held {
            self.release(&name, wanted).await;
        }
    }

    /// Has one actor ask for two names at once, of which it gets one, and then give that one up while it asks for a third.
    pub async fn juggle(mut self) {
        let me = self.site.name.clone();
        let others: Vec<_> = self.site.nodes.iter().filter(|node| **node != me).cloned().collect();
        let mut round = 0;
        while self.works() && !others.is_empty() {
            round += 1;
            let Some(first) = self.spawn().await else { return };
            let [second, third] = [(); 2].map(|()| first.also(Calls::next(&self.calls.actors)));
            let theirs = kept(&others[self.rng.index(others.len())], self.rng.index(KEPT));
            let [own, next] = ["x", "y"].map(|which| format!("{me}{which}{round}"));
            let tells = self.tells(&first);
            let (not_ours, ours) = futures::join!(
                self.register(&theirs, &first, tells.clone()),
                self.register(&own, &second, tells)
            );
            if matches!(not_ours, Answer::Granted(_)) {
                self.unregister(&theirs, &first).await;
            }
            self.hold().await;
            if matches!(ours, Answer::Granted(_)) {
                let tells = self.tells(&first);
                let (_, ours) =
                    futures::join!(self.unregister(&own, &second), self.register(&next, &third, tells));
                self.hold().await;
                if matches!(ours, Answer::Granted(_)) {
                    self.unregister(&next, &third).await;
                }
            }
            for acting in [first, second, third] {
                acting.end();
            }
            self.pause().await;
        }
    }

    /// Holds what it has for some seconds.
    async fn hold(&mut self) {
        let until = self.now() + u64::try_from(self.rng.duration(HOLD).as_nanos()).unwrap_or(0);
        while self.works() && self.now() < until {
            sleep(CALL_AGAIN).await;
        }
    }

    /// Asks who holds names, here and now, and walks over pages of names.
    pub async fn ask_around(mut self) {
        let nodes = self.site.nodes.clone();
        let mut walk = self.walk();
        while self.works() {
            self.turn_page(&mut walk);
            let name = if self.rng.per_mille(500) {
                contested(window(self.now()), self.rng.below(CONTENDERS * CONTESTED))
            } else {
                kept(&nodes[self.rng.index(nodes.len())], self.rng.index(KEPT))
            };
            self.look_up(&name);
            self.read(&name).await;
            self.pause().await;
        }
    }

    /// Reads everything that is to be kept, of all nodes, until it is answered.
    pub async fn read_all(self) {
        for node in &self.site.nodes {
            for index in 0..KEPT {
                let name = kept(node, index);
                while let Answer::Refused(_) = self.read(&name).await {
                    sleep(CALL_AGAIN).await;
                }
                self.look_up(&name);
            }
        }
        self.read_pages().await;
    }
}

/// How a name is held.
fn shown(entry: &Entry) -> Shown {
    let says = entry.meta().ok().flatten();
    Shown { token: entry.token().0, revision: entry.revision().0, starts: entry.is_starting(), says }
}

/// The variant of an error.
fn word(error: &impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
