//! One incarnation of a node, from outside: when its parts may run, and what its clients write down.
#![allow(clippy::disallowed_methods)] // the runtime's clock is the time of the run

use std::{
    fmt::{self, Write as _},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use callsign::{Registry, Turn, Turns};
use callsign_store::{lock::lock, random::splitmix};
use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until},
};

use super::{counts::NodeCounts, trace::RunTrace};
use crate::{
    histories::{
        Journal,
        event::{At, Event},
    },
    rng::Rng,
};

/// What a part that stood still needs to catch up.
const MOMENT: Duration = Duration::from_millis(50);

/// One incarnation of a node.
pub struct Life {
    /// The node, and which of its lives.
    pub who: String,
    /// The node.
    pub node: String,
    begin: Instant,
    trace: RunTrace,
    counts: NodeCounts,
    /// Closed when it dies.
    death: Arc<Semaphore>,
    killed: AtomicU64,
    /// At which poll of its parts it dies.
    polls_left: AtomicU64,
    rng: Mutex<Rng>,
    paused: Mutex<Option<Instant>>,
    /// How likely a part waits before it is polled, in a thousand, and how many polls at most.
    starves: Mutex<(u64, u64)>,
    dozes: Mutex<Option<(Instant, SomeParts)>>,
    /// Until when some part stands still.
    still: Mutex<Instant>,
    leaves: AtomicBool,
    leaving: Notify,
    events: Mutex<Vec<Event>>,
    /// What its clients ask, once it has joined.
    pub registry: OnceLock<Registry>,
    /// The registry that it has joined beside.
    pub beside: OnceLock<Registry>,
}

/// Some of the parts of a node.
#[derive(Clone, Copy, Debug)]
pub enum SomeParts {
    /// A half, by their names; this decides which.
    Half(u64),
    /// Its members of registries.
    Members,
}

impl SomeParts {
    /// Whether a part is one of them.
    fn have(self, part: &str) -> bool {
        match self {
            Self::Half(draw) => {
                part.bytes().fold(draw, |sum, byte| splitmix(sum ^ u64::from(byte))).is_multiple_of(2)
            }
            Self::Members => part.starts_with("the member of"),
        }
    }
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
        trace: &RunTrace,
        counts: &NodeCounts,
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
            dozes: Mutex::default(),
            still: Mutex::new(begin),
            leaves: AtomicBool::new(false),
            leaving: Notify::new(),
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

    /// Some of its parts stand still for so long.
    pub fn doze(&self, time: Duration, parts: SomeParts) {
        *lock(&self.dozes) = Some((Instant::now() + time, parts));
    }

    /// Whether some of its parts stand still, or did a moment ago.
    pub fn stands_still(&self) -> bool {
        *lock(&self.still) + MOMENT > Instant::now()
    }

    /// Has a part stand still until then, also if all is healed before.
    fn still(&self, until: Instant) -> Turn {
        let mut still = lock(&self.still);
        *still = until.max(*still);
        Turn::Waits(sleep_until(until).boxed())
    }

    /// Nothing is done to it any more.
    pub fn heal(&self) {
        self.starve(0, 0);
        *lock(&self.dozes) = None;
        *lock(&self.paused) = None;
        self.polls_left.store(u64::MAX, SeqCst);
    }

    /// It leaves, in good order: nothing else is done to it.
    pub fn leave(&self) {
        self.leaves.store(true, SeqCst);
        self.leaving.notify_one();
    }

    /// Waits until it is to leave. For one who waits.
    pub async fn leaves(&self) {
        if !self.is_leaving() {
            self.leaving.notified().await;
        }
    }

    /// Whether it leaves.
    pub fn is_leaving(&self) -> bool {
        self.leaves.load(SeqCst)
    }

    /// When it was killed.
    pub fn killed(&self) -> Option<At> {
        Some(self.killed.load(SeqCst)).filter(|at| *at > 0)
    }

    /// Whether something like this was written down.
    pub fn has_written(&self, what: impl Fn(&Event) -> bool) -> bool {
        // From the end: who asks waits for something new.
        lock(&self.events).iter().rev().any(what)
    }

    /// Writes an event into the trace, behind these words. Returns it as it is kept, but for what a dead process would have written:
    /// nobody reads that.
    pub fn written(&self, words: &str, event: &Event) -> Option<Event> {
        if self.is_dead() {
            return None;
        }
        let event = match event {
            Event::Started { at, node, incarnation } => {
                let incarnation = self.trace.name(*incarnation);
                Event::Started { at: *at, node: node.clone(), incarnation }
            }
            other => other.clone(),
        };
        let line = |line: &mut String| line.write_str(words).and_then(|()| said(&event, line));
        self.trace.write(self.begin.elapsed(), &self.who, line);
        Some(event)
    }

    /// What was written down, once.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.events))
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
    fn turn(&self, part: &str) -> Turn {
        if self.polls_left.load(SeqCst) != u64::MAX && self.polls_left.fetch_sub(1, SeqCst) == 0 {
            self.counts.met("a node dies at an await");
            self.die();
            return Turn::Dies;
        }
        let paused = lock(&self.paused).filter(|until| *until > Instant::now());
        if let Some(until) = paused {
            self.counts.met("a part of a paused node waits");
            return self.still(until);
        }
        let dozes = lock(&self.dozes).filter(|(until, parts)| *until > Instant::now() && parts.have(part));
        if let Some((until, _)) = dozes {
            self.counts.met("a part stands still while others go on");
            return self.still(until);
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
        lock(&self.events).extend(self.written("", event));
    }
}

/// Says an event in a line.
fn said(event: &Event, line: &mut String) -> fmt::Result {
    match event {
        Event::Started { incarnation, .. } => write!(line, "has joined, incarnation {incarnation}"),
        Event::Asked { call, actor, name, ask, .. } => {
            write!(line, "asks {call}: {ask:?} {name} for {actor}")
        }
        Event::Told { call, answer, .. } => write!(line, "is told {call}: {answer:?}"),
        Event::Acted { actor, name, token, .. } => write!(line, "acts: {actor} as {name} under {token}"),
        Event::Ended { actor, .. } => write!(line, "ends actor {actor}"),
        Event::Noticed { actor, told, .. } => write!(line, "tells actor {actor}: {told:?}"),
        Event::Begun { actor, name, token, .. } => {
            write!(line, "starts actor {actor} for {name} under {token}")
        }
        Event::Gave { actor, name, data, .. } => {
            write!(line, "asks actor {actor} for {name}: it says {data}")
        }
        Event::Watched { watch, saw, passed, .. } => {
            write!(line, "sees {watch}: {saw}")?;
            passed.map_or(Ok(()), |passed| write!(line, ", all up to {passed}"))
        }
        Event::Members { group, members, .. } => write!(line, "reads {group}: {members:?}"),
        Event::Paged { page, .. } => write!(line, "reads a page: {page:?}"),
        Event::Lapsed { .. } => line.write_str("may be lapsed, from now on or until now"),
        Event::Leaving { .. } => line.write_str("leaves"),
        Event::Quiet { .. } => line.write_str("is quiet"),
        Event::Done { .. } => line.write_str("has read all"),
        Event::Led { epoch, .. } => write!(line, "leads the singleton in epoch {epoch}"),
        Event::Seen { .. } => Ok(()),
    }
}
