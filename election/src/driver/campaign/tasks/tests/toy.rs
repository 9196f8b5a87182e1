//! A toy authority that several campaigns share, an oracle over it, and a role that keeps a journal.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use callsign_store::{
    clock::Clock,
    ids::{Ballot, ElectionName, Epoch, Incarnation, MemberId, Nonce},
};
use futures::{StreamExt, stream::BoxStream};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep},
};

use crate::{
    core::term::{AuthorityTime, Fence, Term},
    driver::campaign::{Campaign, CampaignEvent, CampaignSettings, CampaignStarted, Transition, Transitions},
    oracle::{
        Attempt, Context, Denial, Fault, Grant, Init, Oracle, Reaction, Refusal, Signal, Validity, Verdict,
    },
    role::{Abort, Lost, Role},
};

pub(super) const LEASE: Duration = Duration::from_secs(10);

pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What the authority has, and how it behaves.
#[derive(Default)]
pub(super) struct State {
    pub(super) ballot: u64,
    pub(super) holder: Option<(Term, Nonce)>,
    expires: Option<Instant>,
    /// Every call fails.
    pub(super) down: bool,
    /// No call is answered.
    pub(super) silent: bool,
    /// Each call panics.
    pub(super) panics: bool,
    pub(super) calls: usize,
    /// When who was granted a new term.
    pub(super) grants: Vec<(Instant, Term)>,
    /// When which term was given back.
    pub(super) abdications: Vec<(Instant, Term)>,
    /// Who wants to hear of changes.
    pub(super) watchers: Vec<mpsc::UnboundedSender<Signal>>,
}

#[derive(Clone, Default)]
pub(super) struct Authority(Arc<Mutex<State>>);

impl Authority {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn set(&self, silent: bool, down: bool) {
        let mut state = self.lock();
        (state.silent, state.down) = (silent, down);
    }

    /// Whoever holds the seat now.
    pub(super) fn holder(&self) -> Option<MemberId> {
        let state = self.lock();
        let term = state.holder.as_ref().map(|(term, _)| term.leader.clone());
        term.filter(|_| state.expires > Some(Instant::now()))
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.lock().watchers.retain(|watcher| watcher.send(signal).is_ok());
    }

    async fn call(&self) -> Result<(), Fault> {
        let (down, silent, panics) = {
            let mut state = self.lock();
            state.calls += 1;
            (state.down, state.silent, state.panics)
        };
        assert!(!panics, "as the test wants");
        if silent {
            std::future::pending::<()>().await;
        }
        if down {
            return Err(Fault::Transient { maybe_committed: false, cause: "down".to_owned() });
        }
        Ok(())
    }

    fn grant(&self, term: Term, nonce: Nonce) -> Verdict<Fence> {
        let mut state = self.lock();
        state.ballot += 1;
        state.expires = Some(Instant::now() + LEASE);
        let fence = Fence { epoch: term.epoch, ballot: Ballot(state.ballot) };
        state.holder = Some((term.clone(), nonce));
        Verdict::Granted(Grant { term, fence, validity: Validity::For(LEASE), refresh_in: Some(s(3)) })
    }
}

/// An oracle over it. What comes from outside is what it reacts with.
pub(super) struct Toy {
    pub(super) authority: Authority,
    pub(super) me: MemberId,
    pub(super) incarnation: Incarnation,
    /// Whether it listens to the authority.
    pub(super) listens: bool,
    /// What `init` answers.
    pub(super) init: Option<Result<Init, Fault>>,
}

impl Toy {
    pub(super) fn new(authority: &Authority) -> Self {
        Self {
            authority: authority.clone(),
            me: MemberId::new("nobody").unwrap(),
            incarnation: Incarnation(0),
            listens: true,
            init: None,
        }
    }

    fn denied(&self, why: Refusal) -> Verdict<Fence> {
        let leader = self.authority.lock().holder.as_ref().map(|(term, _)| term.clone());
        Verdict::Denied(Denial { why, leader, retry_in: None })
    }
}

impl Oracle for Toy {
    type Fence = Fence;
    type Info = Reaction<Fence>;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        (self.me, self.incarnation) = (context.member.clone(), context.incarnation);
        if let Some(answer) = self.init.clone() {
            return answer;
        }
        self.authority.call().await.map(|()| Init::Ready)
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<Fence>, Fault> {
        self.authority.call().await?;
        let now = Instant::now();
        let (is_vacant, is_mine) = {
            let state = self.authority.lock();
            let is_vacant = state.holder.is_none() || state.expires <= Some(now);
            (is_vacant, state.holder.as_ref().filter(|(_, nonce)| *nonce == attempt.nonce).cloned())
        };
        if let Some((term, nonce)) = is_mine {
            return Ok(self.authority.grant(term, nonce));
        }
        if !is_vacant {
            return Ok(self.denied(Refusal::Held));
        }
        let epoch = Epoch(self.authority.lock().ballot + 1);
        let term = Term {
            leader: self.me.clone(),
            incarnation: self.incarnation,
            epoch,
            elected_at: AuthorityTime(epoch.0),
        };
        self.authority.lock().grants.push((now, term.clone()));
        Ok(self.authority.grant(term, attempt.nonce))
    }

    async fn refresh(&mut self, attempt: Attempt, held: &Grant<Fence>) -> Result<Verdict<Fence>, Fault> {
        self.authority.call().await?;
        let holder = self.authority.lock().holder.clone();
        let is_mine = holder.is_some_and(|(term, _)| term == held.term);
        if !is_mine || self.authority.lock().expires <= Some(Instant::now()) {
            return Ok(self.denied(Refusal::TermOver));
        }
        Ok(self.authority.grant(held.term.clone(), attempt.nonce))
    }

    async fn abdicate(&mut self, held: &Grant<Fence>) -> Result<bool, Fault> {
        self.authority.call().await?;
        let mut state = self.authority.lock();
        let is_mine = state.holder.as_ref().is_some_and(|(term, _)| *term == held.term);
        if is_mine {
            state.holder = None;
            state.abdications.push((Instant::now(), held.term.clone()));
            state.watchers.retain(|watcher| watcher.send(Signal::Wakeup).is_ok());
        }
        Ok(is_mine)
    }

    async fn rivals(&mut self) -> Result<bool, Fault> {
        self.authority.call().await?;
        Ok(self.authority.lock().watchers.len() > 1)
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        if !self.listens {
            return futures::stream::pending().boxed();
        }
        let (watcher, watched) = mpsc::unbounded_channel();
        self.authority.lock().watchers.push(watcher);
        futures::stream::unfold(watched, |mut watched| async {
            watched.recv().await.map(|signal| (signal, watched))
        })
        .boxed()
    }

    async fn handle_info(&mut self, info: Reaction<Fence>) -> Reaction<Fence> {
        info
    }
}

/// What a role does, and what it did.
#[derive(Default)]
pub(super) struct Book {
    pub(super) lines: Vec<(Instant, &'static str)>,
    pub(super) stop_takes: Duration,
    /// It never stops by itself.
    pub(super) ignores_stop: bool,
    /// How often `activate` fails before it does not.
    pub(super) fails: usize,
    /// `activate` never ends.
    pub(super) hangs: bool,
    pub(super) lost: Vec<Lost>,
}

#[derive(Clone, Default)]
pub(super) struct Journal {
    book: Arc<Mutex<Book>>,
    pub(super) ended: Arc<Notify>,
}

impl Journal {
    pub(super) fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    pub(super) fn write(&self, line: &'static str) {
        self.lock().lines.push((Instant::now(), line));
    }

    pub(super) fn lines(&self) -> Vec<&'static str> {
        self.lock().lines.iter().map(|(_, line)| *line).collect()
    }

    pub(super) fn at(&self, line: &str) -> Option<Instant> {
        self.lock().lines.iter().find(|(_, other)| *other == line).map(|(at, _)| *at)
    }
}

impl Role<Fence> for Journal {
    async fn activate(&mut self, _: &Grant<Fence>) -> Result<(), Abort> {
        self.write("activate");
        if self.lock().hangs {
            std::future::pending::<()>().await;
        }
        let mut book = self.lock();
        if book.fails > 0 {
            book.fails -= 1;
            return Err(Abort("as the test wants".to_owned()));
        }
        drop(book);
        self.write("active");
        Ok(())
    }

    async fn deactivate(&mut self, why: Lost, _: Duration) {
        self.write("stop");
        let (takes, ignores) = {
            let mut book = self.lock();
            book.lost.push(why);
            (book.stop_takes, book.ignores_stop)
        };
        if ignores {
            std::future::pending::<()>().await;
        }
        sleep(takes).await;
        self.write("stopped");
    }

    fn abort(&mut self) {
        self.write("abort");
    }

    async fn follow(&mut self, _: Option<&Term>) {
        self.write("follow");
    }

    async fn ended(&mut self) {
        self.ended.notified().await;
    }
}

/// A campaign, its role's journal, its transitions, its events.
pub(super) struct Member {
    pub(super) campaign: Campaign<Toy>,
    pub(super) journal: Journal,
    pub(super) transitions: Transitions<Fence>,
    pub(super) events: Arc<Mutex<Vec<CampaignEvent>>>,
}

pub(super) fn settings(name: &str) -> CampaignSettings {
    let mut settings = CampaignSettings::new(ElectionName::new("e").unwrap(), MemberId::new(name).unwrap());
    settings.seed = name.bytes().map(u64::from).sum();
    settings.clock = Clock::runtime();
    settings
}

pub(super) async fn member(authority: &Authority, name: &str) -> Member {
    member_with(Toy::new(authority), settings(name), Journal::default()).await
}

pub(super) async fn member_with(oracle: Toy, mut settings: CampaignSettings, journal: Journal) -> Member {
    let events = Arc::<Mutex<Vec<CampaignEvent>>>::default();
    let seen = Arc::clone(&events);
    settings.observer = Some(Arc::new(move |event| seen.lock().unwrap().push(event.clone())));
    let started = Campaign::start(oracle, journal.clone(), settings).await.unwrap();
    let CampaignStarted::Running(campaign) = started else { panic!("it declined") };
    let transitions = campaign.subscribe();
    Member { campaign, journal, transitions, events }
}

impl Member {
    /// The grant that it leads by next, within a minute.
    pub(super) async fn leads(&mut self) -> Grant<Fence> {
        let next = async {
            loop {
                if let Transition::Leading(grant) = self.transitions.next().await.unwrap() {
                    return grant;
                }
            }
        };
        tokio::time::timeout(s(60), next).await.expect("it leads within a minute")
    }

    /// Waits until it follows again, for a minute at most.
    pub(super) async fn follows(&mut self) {
        let next =
            async { while !matches!(self.transitions.next().await.unwrap(), Transition::Following(_)) {} };
        tokio::time::timeout(s(60), next).await.expect("it follows within a minute");
    }

    pub(super) fn events(&self) -> Vec<&'static str> {
        self.events.lock().unwrap().iter().map(|event| event.what.name()).collect()
    }
}

pub(super) async fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + s(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute");
        sleep(ms(1)).await;
    }
}
