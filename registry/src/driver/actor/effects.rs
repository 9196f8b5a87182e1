//! What a member asks of its driver is done here.

use std::future::Future;

use callsign_elector::elector::{self, ElectorEvent};
use callsign_store::{CommitOutcome, OPERATION_TIMEOUT, ids::NodeName, logged, planted};
use callsign_transport::{Lane, LinkId, SendError};
use futures::FutureExt;
use ractor::ActorId;
use tracing::Instrument;

use super::Driver;
use crate::{
    core::{
        input::{Effect, Event, Input, OpId},
        message::Message,
        registry::RegistryEffect,
    },
    driver::{
        metrics::{Answered, OfCommit},
        receive, start, take,
    },
};

impl Driver {
    pub(super) fn perform(&mut self, effect: RegistryEffect) {
        match effect {
            RegistryEffect::Elector(elector::Effect::Emit(event)) => self.report_elector(&event),
            RegistryEffect::Elector(effect) => self.under_way.carry_out(effect),
            RegistryEffect::Member(effect) => self.perform_for_member(effect),
            RegistryEffect::ToNode(input) => (self.to_node)(input),
        }
    }

    fn perform_for_member(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, link, message } => self.send(to, link, &message),
            Effect::Read { id, reads } => {
                let (read, shared) = (self.store.read(reads), self.shared.clone());
                // Not awaited here: a slow store must not keep this member from hearing its links.
                self.supervisor.task("a read of a member", async move {
                    shared.push(Input::ReadDone { id, result: read.await });
                });
            }
            Effect::Commit { id, transaction } => {
                let operations = self.core.member().batch_operations();
                self.is_one_request = operations == Some(1);
                let metrics = self.metrics.commits(&transaction, &self.shared.keys.commit(), operations);
                let (commit, shared) = (self.store.commit(transaction), self.shared.clone());
                let commit = commit.instrument(self.commit_span());
                let mut done = Box::pin(commit_done(id, commit, metrics));
                // That of one request begins now: a task may wait behind all others of the runtime. A batch of many goes by a task: the
                // batches of a node's members then begin right after each other, and share a transaction of the store.
                let done_now = if self.is_one_request { (&mut done).now_or_never() } else { None };
                if let Some(done) = done_now {
                    shared.push(done);
                } else {
                    self.supervisor.task("a commit of a member", async move {
                        shared.push(done.await);
                    });
                }
            }
            Effect::Answer { call, answer } => {
                let answered = Answered::by(&answer);
                let took = self.shared.answer(call, answer);
                self.metrics.answered(answered, took);
            }
            Effect::Start { name, granted } => {
                start::begin(&self.supervisor, &self.shared, name, granted);
            }
            Effect::Given { watch, events } => self.shared.watches.give(watch, events),
            Effect::Watch { actor } => self.watch(actor),
            Effect::Unwatch { actor } => {
                if self.shared.watched.remove(actor).is_some() {
                    self.watches.unwatch(actor);
                }
            }
            Effect::Stop { actor } => {
                // One that was started for a name that is lost was never watched.
                let unwatched = || ractor::registry::where_is_pid(ActorId::Local(actor));
                if let Some(cell) = self.shared.watched.get(actor).or_else(unwatched) {
                    cell.stop(Some("callsign: its name is not its own any more".into()));
                }
            }
            Effect::Notify { actor: _, claims, notice } => self.shared.notify(&claims, notice),
            Effect::Flag { claim } => self.shared.flag(claim),
            Effect::Suspend { claim } => self.shared.suspend(claim),
            Effect::Unflag { claim } => self.shared.unflag(claim),
            Effect::Give { name, claim, consent, to } => {
                take::give(&self.supervisor, &self.shared, name, (claim, consent), to);
            }
            Effect::Offered(offered) => receive::begin(&self.supervisor, &self.shared, offered),
            Effect::Holds { claim } => self.shared.holding.holds(claim),
            Effect::Same { claim, again } => self.shared.same(claim, again),
            Effect::Forget { claim } => self.shared.forget(claim),
            // Another core of this node has it already.
            Effect::Tell(_) | Effect::Suspect { .. } | Effect::Observe(_) => {}
            Effect::Event(event) => self.report(&event),
        }
    }

    fn send(&mut self, to: NodeName, link: Option<u64>, message: &Message) {
        let by_name = || self.endpoint.link_to(to.as_str()).map(|(link, _)| link);
        let link = if planted!("sent-by-bare-name") { by_name() } else { link.map(LinkId) };
        let Some(link) = link else { return };
        let lane = if message.is_bulk() { Lane::Bulk } else { Lane::Control };
        let bytes = self.encoded(message);
        self.metrics.sent(message, bytes.len());
        match self.endpoint.post(link, lane, &self.channel, bytes) {
            Ok(()) => self.posted.push(link),
            // It went down; the input that says so is on its way, or among those that were just taken.
            Err(SendError::NotUp { .. }) => {}
            Err(error) => {
                logged!(debug, registry = self.shared.registry.as_str(), peer = %to, %error, "not sent");
                self.metrics.link("send_failed");
                self.shared.push(Input::SendFailed { to });
            }
        }
    }

    /// Has written what was sent. Links to nodes that wait for answers come first. The others are only told of what a batch
    /// changed.
    pub(super) fn flush_links(&mut self) {
        newest_first(&mut self.posted);
        let Some((first, others)) = self.posted.split_first() else { return };
        if self.is_one_request {
            self.endpoint.flush_first(*first, others);
        } else {
            // The runtime runs first what it woke last.
            for link in others.iter().chain([first]) {
                self.endpoint.flush(*link);
            }
        }
        self.posted.clear();
    }

    fn watch(&mut self, actor: u64) {
        if self.shared.watched.contains(actor) {
            return;
        }
        let ended = || self.shared.actor_ended(actor);
        let Some(cell) = ractor::registry::where_is_pid(ActorId::Local(actor)) else { return ended() };
        // Before it is watched: whoever is told of its end looks here.
        self.shared.watched.add(actor, cell.clone());
        if !self.watches.watch(&cell) {
            self.shared.watched.remove(actor);
            ended();
        }
    }

    fn report(&mut self, event: &Event) {
        self.metrics.event(event);
        let member = self.core.member();
        let (epoch, position) = (member.view().term.epoch.0, member.replica().position().0);
        let (registry, node) = (self.shared.registry.as_str(), &self.shared.status.load().node);
        match event {
            Event::Corrupt { reason } => {
                // It is read again and again, until somebody mends it.
                if let Some(times) = self.corrupt.count(reason) {
                    logged!(error, registry, %node, epoch, position, reason, times, "the log cannot be read");
                }
            }
            Event::ClaimLost { .. } | Event::BatchTooLarge { .. } => {
                logged!(warn, registry, %node, epoch, position, "{event}");
            }
            _ => logged!(info, registry, %node, epoch, position, "{event}"),
        }
    }

    fn report_elector(&self, event: &ElectorEvent) {
        self.metrics.elector(event);
        let member = self.core.member();
        let (epoch, position) = (member.view().term.epoch.0, member.replica().position().0);
        let (registry, node) = (self.shared.registry.as_str(), &self.shared.status.load().node);
        match event {
            ElectorEvent::View(_) | ElectorEvent::RunHandoff { .. } | ElectorEvent::Left => {}
            ElectorEvent::Missing { .. }
            | ElectorEvent::Corrupt { .. }
            | ElectorEvent::Undecodable { .. }
            | ElectorEvent::LockBroken { .. }
            | ElectorEvent::LockGivenUp { .. }
            | ElectorEvent::Unavailable { .. }
            | ElectorEvent::TooLarge(_) => logged!(warn, registry, %node, epoch, position, "{event}"),
            event => logged!(info, registry, %node, epoch, position, "{event}"),
        }
    }
}

/// Has each link once, and the one that something was posted on last first: answers are posted behind what all members
/// are told.
fn newest_first(posted: &mut Vec<LinkId>) {
    posted.reverse();
    let mut kept = 0;
    for next in 0..posted.len() {
        if !posted[..kept].contains(&posted[next]) {
            posted[kept] = posted[next];
            kept += 1;
        }
    }
    posted.truncate(kept);
}

async fn commit_done(id: OpId, commit: impl Future<Output = CommitOutcome>, metrics: OfCommit) -> Input {
    let outcome = tokio::time::timeout(OPERATION_TIMEOUT, commit).await;
    let outcome = outcome.unwrap_or(CommitOutcome::Unknown);
    metrics.ended(&outcome);
    Input::CommitDone { id, outcome }
}

#[cfg(test)]
mod tests {
    use callsign_store::{Transaction, Version};

    use super::*;
    use crate::driver::metrics::OfRegistry;

    #[test]
    fn links_on_which_answers_were_posted_are_written_to_ahead_of_the_others() {
        // A batch to four members, and verdicts to two of them.
        let mut posted = [1, 2, 3, 4, 2, 4].map(LinkId).to_vec();
        newest_first(&mut posted);
        assert_eq!(posted, [4, 2, 3, 1].map(LinkId));
        let mut none = Vec::new();
        newest_first(&mut none);
        assert!(none.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_that_is_not_answered_may_have_been_done() {
        let metrics = || OfRegistry::new("x").commits(&Transaction::new(), &Vec::new(), None);
        let done = commit_done(OpId(1), std::future::pending(), metrics()).await;
        assert_eq!(done, Input::CommitDone { id: OpId(1), outcome: CommitOutcome::Unknown });
        for outcome in [CommitOutcome::Committed(Version(1)), CommitOutcome::Unavailable("x".into())] {
            let done = commit_done(OpId(2), std::future::ready(outcome.clone()), metrics()).await;
            assert_eq!(done, Input::CommitDone { id: OpId(2), outcome });
        }
    }
}
