//! Gives the grants of any oracle a fence, from a counter in a store.
//!
//! ```text
//! inner: granted, a term not seen --> ballot + 1 is the epoch      inner: granted, the term that holds the number
//! inner: denied, or "don't know"  --> the same                      --> ballot + 1, the same epoch
//! ```
//!
//! Promises: fences grow with every grant, over all members and restarts; one inner term per epoch; a refresh is refused
//! once another term has a number. So at a sink that compares them nothing of a former leader lands.
//!
//! Does not promise that the inner oracle is right, and cannot make it exclusive: if that tells two members at one time that
//! they lead, both get a fence, one after the other. Each takes the other's away, work that no sink checks runs twice, and
//! they change places until it has made up its mind.
//!
//! Costs one read and one commit for each grant and each refresh, one read for each denial. Without the store there are no
//! grants: the inner oracle's seat stays taken meanwhile, by whoever it was given to.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::{
    CommitOutcome, SharedStore,
    ids::{Ballot, ClusterName, Epoch, Nonce, next_count},
    keys::ClusterKeys,
    lock::lock,
};
use futures::{StreamExt, stream::BoxStream};

use crate::{
    core::term::{Fence, Term},
    oracle::{Attempt, Context, Denial, Fault, Grant, Init, Oracle, Reaction, Refusal, Signal, Verdict},
};

mod counter;

#[cfg(test)]
pub(crate) use counter::golden;
use counter::{Counter, Numbered, seen, transient};

/// How often a number is drawn again while others draw, too.
const DRAW_TRIES: usize = 32;

/// An oracle whose grants carry a fence.
#[derive(Debug)]
pub struct Fenced<O: Oracle> {
    inner: O,
    counter: Counter,
    keys: ClusterKeys,
    /// The last grant of the inner oracle, with the term as it is here.
    held: Option<(Term, Grant<O::Fence>)>,
    /// Its epoch there and here, for signals.
    epochs: Arc<Mutex<Option<(Epoch, Epoch)>>>,
}

impl<O: Oracle> Fenced<O> {
    /// Adds a fence to the grants of `inner`. All members of the election must do so, with the same store and cluster.
    pub fn new(inner: O, store: SharedStore, cluster: &ClusterName) -> Self {
        let keys = ClusterKeys::new(cluster);
        Self { inner, counter: Counter { store, key: None }, keys, held: None, epochs: Arc::default() }
    }

    /// Numbers a grant of the inner oracle; `kept` is the epoch that it has to have, if it is a refresh.
    async fn number(
        &mut self,
        nonce: Nonce,
        inner: Grant<O::Fence>,
        kept: Option<Epoch>,
    ) -> Result<Verdict<Fence>, Fault> {
        for _ in 0..DRAW_TRIES {
            let (bytes, last) = self.counter.read().await?;
            let mine = last.as_ref().filter(|last| last.inner == inner.term);
            if kept.is_some() && kept != mine.map(|last| last.epoch) {
                // Another term has a number: whatever the inner oracle thinks, this one is behind the fence.
                return Ok(self.over(last.map(|last| seen(&last))));
            }
            // Drawn already, and the answer was lost.
            if let Some(last) = mine.filter(|last| last.nonce == nonce) {
                return Ok(self.granted(last, inner));
            }
            let drawn = next_count(last.as_ref().map_or(0, |last| last.ballot.0));
            let ballot =
                Ballot(drawn.ok_or_else(|| Fault::Fatal("this election has no more ballots".to_owned()))?);
            let epoch = mine.map_or(Epoch(ballot.0), |last| last.epoch);
            let next = Numbered { epoch, ballot, inner: inner.term.clone(), nonce };
            match self.counter.put(bytes, &next).await? {
                CommitOutcome::Committed(_) => return Ok(self.granted(&next, inner)),
                CommitOutcome::Conflict => {}
                // It checks what it replaces, so that it lands once or never: the next attempt reads which.
                CommitOutcome::Unknown => return Err(transient("the store does not know".to_owned())),
                CommitOutcome::Unavailable(why) => return Err(transient(why)),
                CommitOutcome::TooLarge(limit) => return Err(Fault::Fatal(limit.to_string())),
            }
        }
        Err(transient("too many draw numbers at once".to_owned()))
    }

    fn granted(&mut self, numbered: &Numbered, inner: Grant<O::Fence>) -> Verdict<Fence> {
        let (epoch, ballot) = (numbered.epoch, numbered.ballot);
        let (validity, refresh_in) = (inner.validity, inner.refresh_in);
        *lock(&self.epochs) = Some((inner.term.epoch, epoch));
        self.held = Some((seen(numbered), inner));
        Verdict::Granted(Grant { term: seen(numbered), fence: Fence { epoch, ballot }, validity, refresh_in })
    }

    fn over(&mut self, leader: Option<Term>) -> Verdict<Fence> {
        self.held = None;
        Verdict::Denied(Denial { why: Refusal::TermOver, leader, retry_in: None })
    }
}

impl<O: Oracle> Oracle for Fenced<O> {
    type Fence = Fence;
    type Info = O::Info;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.counter.key = Some(self.keys.election(&context.election).fence());
        self.inner.init(context).await
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<Fence>, Fault> {
        match self.inner.claim(attempt).await? {
            Verdict::Granted(inner) => self.number(attempt.nonce, inner, None).await,
            Verdict::Denied(denial) => Ok(self.counter.denied(denial).await),
        }
    }

    async fn refresh(&mut self, attempt: Attempt, held: &Grant<Fence>) -> Result<Verdict<Fence>, Fault> {
        let Some((_, before)) = self.held.clone().filter(|(term, _)| *term == held.term) else {
            let leader = self.counter.read().await?.1.map(|last| seen(&last));
            let why = Refusal::TermOver;
            return Ok(Verdict::Denied(Denial { why, leader, retry_in: None }));
        };
        match self.inner.refresh(attempt, &before).await? {
            Verdict::Granted(inner) => {
                let kept = (inner.term == before.term).then_some(held.term.epoch);
                self.number(attempt.nonce, inner, kept).await
            }
            Verdict::Denied(denial) => Ok(self.counter.denied(denial).await),
        }
    }

    async fn abdicate(&mut self, held: &Grant<Fence>) -> Result<bool, Fault> {
        match self.held.clone().filter(|(term, _)| *term == held.term) {
            Some((_, inner)) => self.inner.abdicate(&inner).await,
            None => Ok(false),
        }
    }

    async fn leave(&mut self, held: Option<&Grant<Fence>>) -> Result<bool, Fault> {
        let inner = self.held.clone().filter(|(term, _)| held.is_some_and(|held| *term == held.term));
        self.inner.leave(inner.as_ref().map(|(_, inner)| inner)).await
    }

    async fn tidy(&mut self) -> Result<Option<Duration>, Fault> {
        self.inner.tidy().await
    }

    async fn rivals(&mut self) -> Result<bool, Fault> {
        self.inner.rivals().await
    }

    /// Those of the inner oracle, with their epochs as they are here.
    fn signals(&mut self) -> BoxStream<'static, Signal> {
        let epochs = self.epochs.clone();
        let here = move |there| {
            let known = *lock(&epochs);
            known.filter(|(inner, _)| *inner == there).map(|(_, epoch)| epoch)
        };
        let translated = move |signal| {
            std::future::ready(match signal {
                Signal::Revoked { epoch } => here(epoch).map(|epoch| Signal::Revoked { epoch }),
                Signal::ResignRequested { epoch: Some(epoch) } => {
                    here(epoch).map(|epoch| Signal::ResignRequested { epoch: Some(epoch) })
                }
                other => Some(other),
            })
        };
        self.inner.signals().filter_map(translated).boxed()
    }

    async fn handle_info(&mut self, info: Self::Info) -> Reaction<Fence> {
        match self.inner.handle_info(info).await {
            Reaction::Ignore => Reaction::Ignore,
            // A number is drawn by an attempt, which can be made again.
            Reaction::Poll | Reaction::Verdict(Verdict::Granted(_)) => Reaction::Poll,
            Reaction::Verdict(Verdict::Denied(denial)) => {
                Reaction::Verdict(self.counter.denied(denial).await)
            }
        }
    }
}

#[cfg(test)]
mod tests;
