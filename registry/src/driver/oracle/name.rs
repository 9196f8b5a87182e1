//! Whoever holds a name leads.

use std::sync::{Arc, Mutex};

use callsign_election::{
    Attempt, AuthorityTime, Context, Denial, Fault, Fence, Grant, Init, Oracle, Refusal, Signal, Term,
    Validity, Verdict,
};
use callsign_store::{
    ids::{Ballot, Epoch, MemberId},
    in_full,
    lock::lock,
};
use futures::stream::{self, BoxStream};
use ractor::{ActorRef, ActorStatus};

use crate::{
    core::{
        caller::OnOutage,
        entry::Entry,
        input::Notice,
        name::{BadName, Name, check_name},
    },
    driver::{
        registration::{NotHeld, Registration},
        registry::{RegisterOptions, Registry, WhenLapsed},
        seat::{Never, Seat},
    },
    error::{RegisterError, UnregisterError},
};

/// Whoever holds a name of the registry leads.
///
/// A claim registers a small actor of this node under the name; giving back unregisters it. The epoch is the position of
/// the registration in the registry's log, which never goes back. The ballot is the same: a refresh writes nothing, it
/// only looks whether the name is still held here, and says for how long this node's session is trusted.
///
/// The member of the election is the node: [`init`](Oracle::init) refuses another [`MemberId`] than the node's name. A second
/// campaign of the same node on the same name is told that its identity is taken. The name must not be one under
/// which something else is registered.
///
/// A node that dies without proof keeps the name for its lease (10 s). Costs two commits per term, and nothing while it
/// lasts beyond the session, which the registry keeps anyway.
pub struct RegistryOracle {
    registry: Registry,
    name: Name,
    seat: Option<Seat>,
    /// What is held, also for the signals.
    held: HeldTerm,
    /// Of a lapse nobody has to be told: the campaign's own clock ends trust before the session's does. That a name is lost before, because
    /// the node leaves or fails, is a signal. One for all claims: the registry keeps what it is given.
    ignores_notices: Arc<dyn Fn(Notice) + Send + Sync>,
}

/// The registration that is the term.
type HeldTerm = Arc<Mutex<Option<(Registration, Term)>>>;

/// Whether this will not be held again: another may hold the name.
fn is_over(registry: &Registry, registration: &Registration) -> bool {
    registration.check() == Err(NotHeld::Ended) || registry.shared.failure().is_some()
}

impl RegistryOracle {
    /// An oracle over a name of a registry that this node has joined.
    pub fn new(registry: &Registry, name: &str) -> Result<Self, BadName> {
        check_name(name)?;
        Ok(Self {
            registry: registry.clone(),
            name: name.into(),
            seat: None,
            held: HeldTerm::default(),
            ignores_notices: Arc::new(|_| ()),
        })
    }

    /// The actor that holds the name, or is to.
    async fn seat(&mut self) -> Result<ActorRef<Never>, Fault> {
        match &self.seat {
            // The same again, so that a registration whose outcome is unknown is found out about.
            Some(seat) if seat.actor().get_status() < ActorStatus::Draining => Ok(seat.actor().clone()),
            _ => {
                let seat = Seat::start(&self.registry.node.supervisor).await;
                let seat = seat.map_err(|error| transient(false, error))?;
                Ok(self.seat.insert(seat).actor().clone())
            }
        }
    }

    fn grant(&self, registration: &Registration, term: Term) -> Result<Verdict<Fence>, Fault> {
        let trusted = registration.trusted_for().map_err(|error| transient(true, error))?;
        Ok(Verdict::Granted(Grant {
            fence: Fence { epoch: term.epoch, ballot: Ballot(term.epoch.0) },
            term,
            validity: Validity::For(trusted),
            refresh_in: Some(self.registry.node.config.session.beat_every / 2),
        }))
    }

    fn forget(&mut self) {
        lock(&self.held).take();
        self.seat = None;
    }
}

impl Drop for RegistryOracle {
    fn drop(&mut self) {
        self.forget(); // whoever cannot give back does so by ending
    }
}

fn denial(why: Refusal, holder: Option<&Entry>) -> Verdict<Fence> {
    Verdict::Denied(Denial { why, leader: holder.and_then(term_of), retry_in: None })
}

/// The term of whoever holds the name.
fn term_of(holder: &Entry) -> Option<Term> {
    Some(Term {
        leader: MemberId::new(holder.node.as_str()).ok()?,
        incarnation: holder.incarnation,
        epoch: Epoch(holder.token.0),
        elected_at: AuthorityTime(holder.token.0),
    })
}

fn transient(maybe_committed: bool, cause: impl std::error::Error + 'static) -> Fault {
    Fault::Transient { maybe_committed, cause: in_full(&cause).to_string() }
}

impl Oracle for RegistryOracle {
    type Fence = Fence;
    type Info = ();

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        super::init(&self.registry, context)
    }

    async fn claim(&mut self, _attempt: Attempt) -> Result<Verdict<Fence>, Fault> {
        let seat = self.seat().await?;
        let options = RegisterOptions {
            when_lapsed: WhenLapsed::Tell(self.ignores_notices.clone()),
            on_outage: Some(OnOutage::Fail),
            ..RegisterOptions::default()
        };
        match self.registry.register_with(&self.name, &seat, options).await {
            Ok(registration) => {
                let token = registration.token();
                let term = Term {
                    leader: MemberId::new(self.registry.node())
                        .map_err(|error| Fault::Fatal(in_full(&error).to_string()))?,
                    incarnation: self.registry.node.incarnation,
                    epoch: Epoch(token.0),
                    elected_at: AuthorityTime(token.0),
                };
                *lock(&self.held) = Some((registration.clone(), term.clone()));
                self.grant(&registration, term)
            }
            Err(RegisterError::Taken { holder, .. }) => {
                let here = holder.node.as_str() == self.registry.node()
                    && holder.incarnation == self.registry.node.incarnation;
                let alive = |actor| ractor::registry::where_is_pid(ractor::ActorId::Local(actor));
                let lives = holder.actor.and_then(alive).is_some();
                // An actor of one's own that has ended is being unregistered.
                let why = if here && lives { Refusal::DuplicateIdentity } else { Refusal::Held };
                Ok(denial(why, Some(&holder)))
            }
            Err(RegisterError::NotPermitted { .. }) => Ok(denial(Refusal::Ineligible, None)),
            Err(error @ RegisterError::BadName(_)) => Err(Fault::Fatal(in_full(&error).to_string())),
            Err(error @ (RegisterError::Unknown { .. } | RegisterError::SessionLost { .. })) => {
                Err(transient(true, error))
            }
            Err(error) => Err(transient(false, error)),
        }
    }

    async fn refresh(&mut self, _attempt: Attempt, held: &Grant<Fence>) -> Result<Verdict<Fence>, Fault> {
        let ours = lock(&self.held).clone().filter(|(_, term)| *term == held.term);
        // No replica has to say so, and that of a node that has left says nothing any more.
        if ours.as_ref().is_some_and(|(registration, _)| is_over(&self.registry, registration)) {
            return Ok(denial(Refusal::TermOver, None));
        }
        // The replica had the registration when it was granted: what it does not show any more is over.
        let found = self.registry.lookup(&self.name).map_err(|error| transient(false, error))?;
        match (ours, found) {
            (Some((registration, term)), Some(entry)) if entry.token == registration.token() => {
                self.grant(&registration, term)
            }
            (_, found) => Ok(denial(Refusal::TermOver, found.as_ref())),
        }
    }

    async fn abdicate(&mut self, held: &Grant<Fence>) -> Result<bool, Fault> {
        let ours = lock(&self.held).clone().filter(|(_, term)| *term == held.term);
        // This registration: the name may be that of another campaign of this node by now.
        let Some((registration, _)) = ours else { return Ok(false) };
        match registration.withdraw(self.name.clone()).await {
            Ok(_) => {
                self.forget();
                Ok(true)
            }
            Err(UnregisterError::NotHeldHere { .. } | UnregisterError::Left) => {
                self.forget();
                Ok(false)
            }
            Err(error @ UnregisterError::Pending { .. }) => Err(transient(true, error)),
            Err(error) => Err(transient(false, error)),
        }
    }

    async fn rivals(&mut self) -> Result<bool, Fault> {
        // Every other member of the registry may take part, too.
        Ok(self.registry.members().len() > 1)
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        let state = (self.registry.clone(), self.name.clone(), self.held.clone(), None::<Epoch>, None::<u64>);
        Box::pin(stream::unfold(state, |(registry, name, held, mut told, mut last)| async move {
            let signal = loop {
                let changed = registry.changed();
                let present = lock(&held).clone();
                if let Some((registration, term)) = &present
                    && told != Some(term.epoch)
                    && is_over(&registry, registration)
                {
                    // It is said once. The term stays noted: it may be one that is being given back.
                    told = Some(term.epoch);
                    break Signal::Revoked { epoch: term.epoch };
                }
                let epoch = present.as_ref().map(|(_, term)| term.epoch.0);
                let now = registry.lookup(&name).map(|entry| entry.map(|entry| entry.token.0));
                if let Ok(now) = now
                    && now != last
                {
                    let before = std::mem::replace(&mut last, now);
                    match before {
                        Some(was) if Some(was) == epoch => {
                            break Signal::Revoked { epoch: Epoch(was) };
                        }
                        _ if now.is_none() => break Signal::Wakeup,
                        _ => {}
                    }
                }
                changed.await;
            };
            Some((signal, (registry, name, held, told, last)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use callsign_store::ids::Nonce;
    use futures::{FutureExt, StreamExt};

    use super::*;
    use crate::tests::driver::{Cluster, counter};

    fn attempt(n: u64) -> Attempt {
        Attempt { nonce: Nonce(n) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_over_as_soon_as_its_node_leaves_and_that_is_told_once() {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let mut oracle = RegistryOracle::new(&node, "seat").unwrap();
        let mut signals = oracle.signals();
        assert_eq!(signals.next().now_or_never(), None);
        let Ok(Verdict::Granted(grant)) = oracle.claim(attempt(1)).await else { panic!("it is free") };
        assert_eq!(signals.next().now_or_never(), None, "it holds the name");
        node.leave().await.unwrap();
        // No look at the name can say so: the node does not know any more who holds it.
        assert!(node.lookup("seat").is_err());
        let told = signals.next().now_or_never().flatten();
        assert_eq!(told, Some(Signal::Revoked { epoch: grant.term.epoch }));
        assert_eq!(signals.next().now_or_never(), None, "it is told once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refresh_on_a_node_that_has_left_is_denied_and_not_left_open() {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let mut oracle = RegistryOracle::new(&node, "seat").unwrap();
        let Ok(Verdict::Granted(grant)) = oracle.claim(attempt(1)).await else { panic!("it is free") };
        node.leave().await.unwrap();
        let answer = oracle.refresh(attempt(2), &grant).await;
        assert!(matches!(answer, Ok(Verdict::Denied(Denial { why: Refusal::TermOver, .. }))), "{answer:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_could_not_be_given_back_in_time_is_given_back_by_the_next_attempt() {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let mut oracle = RegistryOracle::new(&node, "seat").unwrap();
        let mut signals = oracle.signals();
        let Ok(Verdict::Granted(grant)) = oracle.claim(attempt(1)).await else { panic!("it is free") };
        assert_eq!(signals.next().now_or_never(), None);
        cluster.store.outage_for_all();
        let first = tokio::time::timeout(Duration::from_secs(1), oracle.abdicate(&grant)).await;
        assert!(first.is_err(), "the store does not answer");
        // The name is held no more from the moment at which it is given back.
        assert!(matches!(signals.next().now_or_never(), Some(Some(Signal::Revoked { .. }))));
        cluster.store.heal_all();
        // The first attempt may have freed it meanwhile. It is free when the next one has an answer.
        assert!(oracle.abdicate(&grant).await.is_ok());
        assert_eq!(node.lookup("seat"), Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_back_is_the_term_and_not_what_another_actor_holds_by_now() {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let mut oracle = RegistryOracle::new(&node, "seat").unwrap();
        let Ok(Verdict::Granted(grant)) = oracle.claim(attempt(1)).await else { panic!("it is free") };
        // Somebody frees it by its name, and it goes to another actor of this node.
        node.unregister("seat").await.unwrap();
        let other = counter().await;
        let registration = node.register("seat", &other).await.unwrap();
        assert_eq!(oracle.abdicate(&grant).await, Ok(false));
        assert_eq!(registration.check(), Ok(()));
    }
}
