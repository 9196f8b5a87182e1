//! The role's task by itself: what it is told while the role is at work.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use callsign_store::ids::{Epoch, Incarnation, MemberId};
use tokio::{
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    task::JoinHandle,
};

use super::{
    super::playing::{Play, Playing},
    toy::*,
};
use crate::{
    core::{
        campaign::{Input, RunId},
        term::{AuthorityTime, Term},
    },
    oracle::{Grant, Validity},
    role::{Abort, Lost, Role},
};

/// Writes down what it is asked to do, and takes its time for some of it.
#[derive(Clone, Default)]
struct Slow {
    lines: Arc<Mutex<Vec<String>>>,
    /// What it does not end before it may.
    takes_long: Arc<Mutex<Vec<&'static str>>>,
    may_end: Arc<Notify>,
    /// It does not take up a term.
    refuses: Arc<AtomicBool>,
    /// It panics when it is stopped.
    panics: Arc<AtomicBool>,
    /// It ends by itself.
    ends: Arc<AtomicBool>,
}

impl Slow {
    async fn does(&self, what: &'static str, epoch: Option<u64>) {
        let line = epoch.map_or(what.to_owned(), |epoch| format!("{what} {epoch}"));
        self.lines.lock().unwrap().push(line);
        let takes_long = self.takes_long.lock().unwrap().contains(&what);
        if takes_long {
            self.may_end.notified().await;
        }
    }

    fn takes_long(&self, what: &[&'static str]) {
        *self.takes_long.lock().unwrap() = what.to_vec();
    }

    /// Waits until it has done just this since it was asked last.
    async fn has_done(&self, lines: &[&str]) {
        until(|| self.lines.lock().unwrap().len() >= lines.len()).await;
        assert_eq!(std::mem::take(&mut *self.lines.lock().unwrap()), lines);
    }
}

impl Role<()> for Slow {
    async fn activate(&mut self, grant: &Grant<()>) -> Result<(), Abort> {
        self.does("activate", Some(grant.term.epoch.0)).await;
        if self.refuses.load(SeqCst) { Err(refusal()) } else { Ok(()) }
    }

    async fn deactivate(&mut self, _: Lost, _: std::time::Duration) {
        self.does("deactivate", None).await;
        assert!(!self.panics.load(SeqCst), "as the test wants");
    }

    fn abort(&mut self) {
        self.lines.lock().unwrap().push("abort".into());
    }

    async fn aborted(&mut self) {
        self.does("aborted", None).await;
    }

    async fn follow(&mut self, leader: Option<&Term>) {
        self.does("follow", leader.map(|leader| leader.epoch.0)).await;
    }

    async fn ended(&mut self) {
        self.does("works", None).await;
        if !self.ends.load(SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

fn refusal() -> Abort {
    Abort("as the test wants".to_owned())
}

/// A role's task, what it is told, and what it says.
struct Played {
    role: Slow,
    plays: UnboundedSender<Play<()>>,
    inputs: UnboundedReceiver<Input<()>>,
    task: JoinHandle<()>,
}

impl Played {
    fn new() -> Self {
        let role = Slow::default();
        let (inputs_in, inputs) = unbounded_channel();
        let (plays, played) = unbounded_channel();
        let task = tokio::spawn(Playing::new(role.clone(), inputs_in).run(played));
        Self { role, plays, inputs, task }
    }

    fn tell(&self, plays: impl IntoIterator<Item = Play<()>>) {
        for play in plays {
            self.plays.send(play).unwrap();
        }
    }

    async fn says(&mut self, input: Input<()>) {
        let said = tokio::time::timeout(s(60), self.inputs.recv()).await.expect("it says something");
        assert_eq!(said, Some(input));
    }

    /// The loop ends, and the role's task with it: what the role did then.
    async fn ends(mut self, lines: &[&str]) {
        drop(self.plays);
        tokio::time::timeout(s(60), self.task).await.expect("it ends").unwrap();
        assert_eq!(*self.role.lines.lock().unwrap(), lines);
        assert_eq!(self.inputs.recv().await, None, "it has nothing more to say");
    }
}

fn term(epoch: u64) -> Term {
    let leader = MemberId::new("a").unwrap();
    Term { leader, incarnation: Incarnation(1), epoch: Epoch(epoch), elected_at: AuthorityTime(0) }
}

/// The run has the number of its term.
fn activate(epoch: u64) -> Play<()> {
    let grant = Grant { term: term(epoch), fence: (), validity: Validity::UntilRevoked, refresh_in: None };
    Play::Activate { run: RunId(epoch), grant }
}

fn deactivate(epoch: u64) -> Play<()> {
    Play::Deactivate { run: RunId(epoch), why: Lost::Denied, budget: s(1) }
}

fn abort(epoch: u64) -> Play<()> {
    Play::Abort { run: RunId(epoch) }
}

fn follow(epoch: u64) -> Play<()> {
    Play::Follow { leader: Some(term(epoch)) }
}

fn activated(epoch: u64) -> Input<()> {
    Input::Activated { run: RunId(epoch), answer: Ok(()) }
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_role_is_busy_waits_in_its_order_and_only_the_last_leader_is_told() {
    let mut played = Played::new();
    played.role.takes_long(&["follow"]);
    played.tell([follow(1)]);
    played.role.has_done(&["follow 1"]).await;
    played.tell([follow(2), activate(3), follow(4), follow(5)]);
    played.role.takes_long(&[]);
    played.role.may_end.notify_one();
    played.role.has_done(&["activate 3", "follow 5", "works"]).await;
    played.says(activated(3)).await;
    played.ends(&["abort"]).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_of_a_term_whose_end_waits_behind_it() {
    let mut played = Played::new();
    // It never gets anywhere with anything but its end.
    played.role.takes_long(&["activate", "follow"]);
    played.tell([activate(1)]);
    played.role.has_done(&["activate 1"]).await;
    played.tell([follow(2), deactivate(1)]);
    played.role.has_done(&["deactivate"]).await;
    played.says(Input::Stopped { run: RunId(1) }).await;

    played.role.takes_long(&["deactivate", "follow"]);
    played.tell([activate(3)]);
    played.role.has_done(&["activate 3", "works"]).await;
    played.says(activated(3)).await;
    played.tell([deactivate(3)]);
    played.role.has_done(&["deactivate"]).await;
    played.tell([follow(4), abort(3)]);
    played.role.has_done(&["abort", "aborted"]).await;
    played.says(Input::Aborted { run: RunId(3) }).await;

    // Its end comes while it is told who leads.
    played.tell([follow(5)]);
    played.role.has_done(&["follow 5"]).await;
    played.tell([activate(6), deactivate(6)]);
    played.role.takes_long(&[]);
    played.role.has_done(&["deactivate"]).await;
    played.says(Input::Stopped { run: RunId(6) }).await;
    played.ends(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_role_that_was_stopped_or_aborted_is_not_asked_any_more_whether_it_has_ended() {
    let mut played = Played::new();
    for (end, did) in [(deactivate(1), vec!["deactivate"]), (abort(1), vec!["abort", "aborted"])] {
        played.tell([activate(1)]);
        played.role.has_done(&["activate 1", "works"]).await;
        played.says(activated(1)).await;
        played.tell([end]);
        played.role.has_done(&did).await;
        let said = tokio::time::timeout(s(60), played.inputs.recv()).await.expect("it says that it ended");
        assert!(matches!(said, Some(Input::Stopped { .. } | Input::Aborted { .. })), "{said:?}");
        played.tell([follow(2)]);
        played.role.has_done(&["follow 2"]).await;
    }
    played.ends(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_said_while_an_aborted_role_ends_does_not_make_its_end_unheard() {
    let mut played = Played::new();
    played.role.takes_long(&["aborted"]);
    played.tell([activate(1)]);
    played.says(activated(1)).await;
    played.role.has_done(&["activate 1", "works"]).await;
    played.tell([abort(1)]);
    played.role.has_done(&["abort", "aborted"]).await;
    played.tell([follow(2)]);
    played.role.may_end.notify_one();
    played.says(Input::Aborted { run: RunId(1) }).await;
    played.role.has_done(&["follow 2"]).await;
    played.ends(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_role_is_aborted_with_its_campaign_if_it_is_at_work_and_only_then() {
    Played::new().ends(&[]).await;
    let at_work = Played::new();
    at_work.role.takes_long(&["activate"]);
    at_work.tell([activate(1)]);
    at_work.role.has_done(&["activate 1"]).await;
    at_work.ends(&["abort"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_role_that_did_not_take_up_its_term_is_not_asked_whether_it_has_ended() {
    let mut played = Played::new();
    played.role.refuses.store(true, SeqCst);
    played.tell([activate(1)]);
    played.says(Input::Activated { run: RunId(1), answer: Err(refusal()) }).await;
    played.tell([follow(2)]);
    played.role.has_done(&["activate 1", "follow 2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_role_that_has_ended_by_itself_says_so_once() {
    let mut played = Played::new();
    played.role.ends.store(true, SeqCst);
    played.tell([activate(1)]);
    played.says(activated(1)).await;
    played.says(Input::Exited { run: RunId(1), reason: "it ended".to_owned() }).await;
    played.tell([deactivate(1)]);
    played.says(Input::Stopped { run: RunId(1) }).await;
    played.role.has_done(&["activate 1", "works", "deactivate"]).await;
    played.ends(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_role_that_panics_when_it_is_stopped_is_aborted_before_it_counts_as_stopped() {
    let mut played = Played::new();
    played.role.panics.store(true, SeqCst);
    played.tell([activate(1)]);
    played.says(activated(1)).await;
    played.tell([deactivate(1)]);
    played.says(Input::Stopped { run: RunId(1) }).await;
    let lines = std::mem::take(&mut *played.role.lines.lock().unwrap());
    assert_eq!(lines, ["activate 1", "works", "deactivate", "abort"]);
    played.ends(&[]).await;
}
