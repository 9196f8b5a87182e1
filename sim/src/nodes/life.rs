//! One incarnation of a node, from outside: when its parts may run, and what its clients write down.
#![allow(clippy::disallowed_methods)] // the runtime's clock is the time of the run

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use callsign::{Registry, Turn, Turns};
use callsign_elector::lock::lock;
use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use super::{counts::Counts, trace::Trace};
use crate::{
    histories::{
        Journal,
        event::{At, Event},
    },
    rng::Rng,
};

/// One incarnation of a node.
pub struct Life {
    /// The node, and which of its lives.
    pub who: String,
    /// The node.
    pub node: String,
    begin: Instant,
    trace: Trace,
    counts: Counts,
    /// Closed when it dies.
    death: Arc<Semaphore>,
    killed: AtomicU64,
    /// At which poll of its parts it dies.
    polls_left: AtomicU64,
    rng: Mutex<Rng>,
    paused: Mutex<Option<Instant>>,
    /// How likely a part waits before it is polled, in a thousand, and how many polls at most.
    starves: Mutex<(u64, u64)>,
    leaves: AtomicBool,
    events: Mutex<Vec<Event>>,
    /// What its clients ask, once it has joined.
    pub registry: OnceLock<Registry>,
    /// The registry that it has joined beside.
    pub beside: OnceLock<Registry>,
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Life({})", self.who)
    }
}

impl Life {
    /// The life of this number of a node.
    pub fn new(
        node: &str,
        number: u64,
        begin: Instant,
        seed: u64,
        trace: &Trace,
        counts: &Counts,
    ) -> Arc<Self> {
        Arc::new(Self {
            who: format!("{node}{number}"),
            node: node.to_owned(),
            begin,
            trace: trace.clone(),
            counts: counts.clone(),
            death: Arc::new(Semaphore::new(0)),
            killed: AtomicU64::new(0),
            polls_left: AtomicU64::new(u64::MAX),
            rng: Mutex::new(Rng::new(seed)),
            paused: Mutex::default(),
            starves: Mutex::default(),
            leaves: AtomicBool::new(false),
            events: Mutex::default(),
            registry: OnceLock::new(),
            beside: OnceLock::new(),
        })
    }

    /// Writes a line of the trace.
    pub fn say(&self, what: &str) {
        self.trace.line(self.begin.elapsed(), &self.who, what);
    }

    /// It dies: all that its tasks hold is dropped, and nothing of it runs any more.
    pub fn die(&self) {
        if !self.death.is_closed() {
            self.killed.store(self.now(), SeqCst);
            self.say("dies");
            self.death.close();
        }
    }

    /// It dies at this poll of any of its parts.
    pub fn die_after(&self, polls: u64) {
        self.polls_left.store(polls, SeqCst);
    }

    /// Nothing of it runs for so long.
    pub fn pause(&self, time: Duration) {
        *lock(&self.paused) = Some(Instant::now() + time);
    }

    /// Its parts wait before they run: so likely, in a thousand, and up to so many polls.
    pub fn starve(&self, per_mille: u64, polls: u64) {
        *lock(&self.starves) = (per_mille, polls);
    }

    /// Nothing is done to it any more.
    pub fn heal(&self) {
        self.starve(0, 0);
        *lock(&self.paused) = None;
        self.polls_left.store(u64::MAX, SeqCst);
    }

    /// It leaves, in good order: nothing else is done to it.
    pub fn leave(&self) {
        self.leaves.store(true, SeqCst);
    }

    /// Whether it leaves.
    pub fn is_leaving(&self) -> bool {
        self.leaves.load(SeqCst)
    }

    /// When it was killed.
    pub fn killed(&self) -> Option<At> {
        Some(self.killed.load(SeqCst)).filter(|at| *at > 0)
    }

    /// What was written down.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).clone()
    }
}

/// Not before so many polls.
fn polls(mut left: u64) -> BoxFuture<'static, ()> {
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .boxed()
}

impl Turns for Life {
    fn turn(&self, _: &str) -> Turn {
        if self.polls_left.load(SeqCst) != u64::MAX && self.polls_left.fetch_sub(1, SeqCst) == 0 {
            self.counts.met("a node dies at an await");
            self.die();
            return Turn::Dies;
        }
        let paused = lock(&self.paused).filter(|until| *until > Instant::now());
        if let Some(until) = paused {
            self.counts.met("a part of a paused node waits");
            return Turn::Waits(sleep_until(until).boxed());
        }
        let (per_mille, most) = *lock(&self.starves);
        if per_mille > 0 {
            let mut rng = lock(&self.rng);
            if rng.per_mille(per_mille) {
                self.counts.met("a part starves");
                return Turn::Waits(polls(1 + rng.below(most)));
            }
        }
        Turn::Runs
    }

    fn is_dead(&self) -> bool {
        self.death.is_closed()
    }

    fn death(&self) -> BoxFuture<'static, ()> {
        let death = self.death.clone();
        async move { drop(death.acquire().await) }.boxed()
    }
}

impl Journal for Life {
    fn now(&self) -> At {
        At::try_from(self.begin.elapsed().as_nanos()).unwrap_or(At::MAX)
    }

    fn note(&self, what: &'static str) {
        self.counts.met(what);
    }

    fn is_closed(&self) -> bool {
        self.is_dead()
    }

    fn write(&self, event: &Event) {
        // What a dead process would have written nobody reads.
        if self.is_dead() {
            return;
        }
        let event = match event {
            Event::Started { at, node, incarnation } => {
                let incarnation = self.trace.name(*incarnation);
                Event::Started { at: *at, node: node.clone(), incarnation }
            }
            other => other.clone(),
        };
        self.say(&said(&event));
        lock(&self.events).push(event);
    }
}

fn said(event: &Event) -> String {
    match event {
        Event::Started { incarnation, .. } => format!("has joined, incarnation {incarnation}"),
        Event::Asked { call, actor, name, ask, .. } => format!("asks {call}: {ask:?} {name} for {actor}"),
        Event::Told { call, answer, .. } => format!("is told {call}: {answer:?}"),
        Event::Acted { actor, name, token, .. } => format!("acts: {actor} as {name} under {token}"),
        Event::Ended { actor, .. } => format!("ends actor {actor}"),
        Event::Noticed { actor, told, .. } => format!("tells actor {actor}: {told:?}"),
        Event::Leaving { .. } => "leaves".to_owned(),
        Event::Quiet { .. } => "is quiet".to_owned(),
        Event::Done { .. } => "has read all".to_owned(),
        Event::Led { .. } | Event::Seen { .. } => String::new(),
    }
}
