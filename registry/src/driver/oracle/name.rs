//! Whoever holds a name leads.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use callsign_election::{
    Attempt, AuthorityTime, Context, Denial, Fault, Fence, Grant, Init, Oracle, Refusal, Signal, Term,
    Validity, Verdict,
};
use callsign_store::ids::{Ballot, Epoch, MemberId};
use callsign_store::in_full;
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
        registration::Registration,
        registry::{RegisterOptions, Registry, WhenLapsed},
        seat::{Never, seat},
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
    seat: Option<ActorRef<Never>>,
    held: Option<(Registration, Term)>,
    /// The epoch that is held; 0: none. For the signals.
    epoch: Arc<AtomicU64>,
    /// The campaign's own clock ends trust before the session's does, so nobody has to be told. One for all claims: the
    /// registry keeps what it is given.
    ignores_notices: Arc<dyn Fn(Notice) + Send + Sync>,
}

impl RegistryOracle {
    /// An oracle over a name of a registry that this node has joined.
    pub fn new(registry: &Registry, name: &str) -> Result<Self, BadName> {
        check_name(name)?;
        Ok(Self {
            registry: registry.clone(),
            name: name.into(),
            seat: None,
            held: None,
            epoch: Arc::default(),
            ignores_notices: Arc::new(|_| ()),
        })
    }

    /// The actor that holds the name, or is to.
    async fn seat(&mut self) -> Result<ActorRef<Never>, Fault> {
        match &self.seat {
            // The same again, so that a registration whose outcome is unknown is found out about.
            Some(seat) if seat.get_status() < ActorStatus::Draining => Ok(seat.clone()),
            _ => {
                let seat = seat().await.map_err(|error| transient(false, error))?;
                Ok(self.seat.insert(seat).clone())
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
        self.held = None;
        self.epoch.store(0, Ordering::SeqCst);
        if let Some(seat) = self.seat.take() {
            seat.stop(Some("callsign: the seat is given up".into()));
        }
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
        let node = self.registry.node();
        if context.member.as_str() == node {
            return Ok(Init::Ready);
        }
        Err(Fault::Fatal(format!("the member is {}, and has to be the node, {node}", context.member)))
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
                self.epoch.store(token.0, Ordering::SeqCst);
                self.held = Some((registration.clone(), term.clone()));
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
        let ours = self.held.clone().filter(|(_, term)| *term == held.term);
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
        if self.held.as_ref().is_none_or(|(_, term)| *term != held.term) {
            return Ok(false);
        }
        match self.registry.unregister(&self.name).await {
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
        let state = (self.registry.clone(), self.name.clone(), self.epoch.clone(), None::<u64>);
        Box::pin(stream::unfold(state, |(registry, name, epoch, mut last)| async move {
            let signal = loop {
                let changed = registry.changed();
                let now = registry.lookup(&name).map(|entry| entry.map(|entry| entry.token.0));
                if let Ok(now) = now
                    && now != last
                {
                    let before = std::mem::replace(&mut last, now);
                    match before {
                        Some(was) if was == epoch.load(Ordering::SeqCst) => {
                            break Signal::Revoked { epoch: Epoch(was) };
                        }
                        _ if now.is_none() => break Signal::Wakeup,
                        _ => {}
                    }
                }
                changed.await;
            };
            Some((signal, (registry, name, epoch, last)))
        }))
    }
}
