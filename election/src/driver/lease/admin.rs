//! An election from outside: setting it up, looking at it, and the operations of candidates one by one.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::{
    Clock, SharedStore,
    ids::{ClusterName, ElectionName, Epoch, Incarnation, MemberId, Seniority, Tag},
    keys::{ClusterKeys, ElectionKeys},
    lock::lock,
};

use crate::{
    core::{
        config::ElectionConfig,
        lease::{
            error::ElectionError,
            memory::Memory,
            operation::{Operation, Outcome, refusal},
            watched::{LeaseStanding, Look, Watched},
        },
        state::{Candidate, Command, Disable, Effect, Seat, Who},
        term::{AuthorityTime, Fence, Term},
    },
    driver::lease::drive::operate,
};

/// How many silent candidates one transaction removes. Each is a check and a write, of which etcd takes 128.
const EVICT_AT_ONCE: usize = 100;

/// A candidate that counts as alive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Who.
    pub member: MemberId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its priority.
    pub priority: u32,
    /// When it registered, among the others.
    pub seniority: Seniority,
    /// What it has.
    pub tags: BTreeSet<Tag>,
    /// The store's version shortly before its last heartbeat.
    pub last_seen: AuthorityTime,
}

/// What an initialisation found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialised {
    /// What holds now.
    pub config: ElectionConfig,
    /// Whether it was there before, and differs from what was asked for.
    pub differs: bool,
}

/// The seat as it is written, whether or not its lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seated {
    /// Whose term it is.
    pub term: Term,
    /// The token of its last refresh.
    pub fence: Fence,
    /// How long it stands without a refresh.
    pub lease: Duration,
}

impl Seated {
    /// `None`: nobody has the seat.
    pub(super) fn of(seat: &Seat) -> Option<Self> {
        let (term, holder) = (seat.term()?, seat.holder.as_ref()?);
        Some(Self { term, fence: seat.fence(), lease: holder.lease })
    }
}

/// An election from outside. Clones are the same observer.
///
/// Whether a lease is over or a candidate silent is seen by comparing what was read, now and before. So a handle that has just
/// been made, or was not asked for longer than a lease, does not know whether whoever has the seat still lives, and says
/// so: [`ElectionError::NotKnownYet`]. Keep the handle. Candidates count as alive until they are known to be silent.
#[derive(Clone, Debug)]
pub struct Election {
    store: SharedStore,
    clock: Clock,
    keys: ElectionKeys,
    memory: Arc<Mutex<Memory>>,
    watched: Arc<Mutex<Watched>>,
}

impl Election {
    /// A handle to the election. Costs nothing, and asks nothing.
    pub fn new(store: SharedStore, cluster: &ClusterName, election: &ElectionName, clock: Clock) -> Self {
        let keys = ClusterKeys::new(cluster).election(election);
        Self { store, clock, keys, memory: Arc::default(), watched: Arc::default() }
    }

    /// Writes the configuration, if there is none. The first stands.
    pub async fn initialise(&self, config: &ElectionConfig) -> Result<Initialised, ElectionError> {
        let outcome = self.command(Command::Initialise(config.clone())).await?;
        let control = outcome.state.control.ok_or(ElectionError::NotInitialized)?;
        Ok(Initialised { differs: control.config != *config, config: control.config })
    }

    /// Replaces the configuration. A term that stands takes it over with its next refresh.
    pub async fn configure(&self, config: &ElectionConfig) -> Result<(), ElectionError> {
        self.command(Command::Configure(config.clone())).await.map(drop)
    }

    /// The configuration.
    pub async fn config(&self) -> Result<ElectionConfig, ElectionError> {
        let control = self.look(false).await?.0.state.control;
        control.map(|control| control.config).ok_or(ElectionError::NotInitialized)
    }

    /// Takes claims again.
    pub async fn enable(&self) -> Result<(), ElectionError> {
        self.command(Command::Enable).await.map(drop)
    }

    /// Takes no claims, registrations, heartbeats and refreshes any more.
    pub async fn disable(&self, how: Disable) -> Result<(), ElectionError> {
        self.command(Command::Disable(how)).await.map(drop)
    }

    /// Registers a candidate, behind all that are there. The same incarnation keeps its place.
    ///
    /// `DuplicateIdentity` while another incarnation of it has the seat and is not known to be gone.
    pub async fn register(&self, candidate: &Candidate) -> Result<Seniority, ElectionError> {
        let outcome = self.command(Command::Join(candidate.clone())).await?;
        let joined = outcome.effects.iter().flatten().find_map(|effect| match effect {
            Effect::Joined { seniority } => Some(*seniority),
            _ => None,
        });
        joined.ok_or(ElectionError::NotFound)
    }

    /// Says that the candidate lives, and gives it another priority if asked to. Its seniority stays.
    ///
    /// `NotFound` if it is not registered, `DuplicateIdentity` if another incarnation of it is.
    pub async fn heartbeat(
        &self,
        member: &MemberId,
        incarnation: Incarnation,
        priority: Option<u32>,
    ) -> Result<(), ElectionError> {
        self.command(Command::Beat { who: who(member, incarnation), priority }).await.map(drop)
    }

    /// Removes the candidate, and ends its term if it leads, in one transaction. Whether it was there.
    pub async fn unregister(
        &self,
        member: &MemberId,
        incarnation: Incarnation,
    ) -> Result<bool, ElectionError> {
        self.remove(Command::Leave(who(member, incarnation))).await
    }

    /// Says that an incarnation is known to be dead: removes it, and ends its term if it leads. Whether it was there. What
    /// is said of another incarnation than the registered one, or of nobody, changes nothing.
    pub async fn down(&self, member: &MemberId, incarnation: Incarnation) -> Result<bool, ElectionError> {
        self.remove(Command::Down(who(member, incarnation))).await
    }

    /// The candidates that are not known to be silent for longer than they may, the most senior first. Reads only, all of
    /// them.
    pub async fn list(&self) -> Result<Vec<Listed>, ElectionError> {
        let (outcome, _) = self.look(true).await?;
        let Outcome { state, evidence, .. } = *outcome;
        state.control.as_ref().ok_or(ElectionError::NotInitialized)?;
        let alive = state
            .candidates
            .into_iter()
            .filter(|(member, row)| evidence.silent.get(member).is_none_or(|age| *age < row.timeout));
        let mut alive: Vec<_> = alive
            .map(|(member, row)| Listed {
                member,
                incarnation: row.incarnation,
                priority: row.priority,
                seniority: row.seniority,
                tags: row.tags,
                last_seen: row.seen,
            })
            .collect();
        alive.sort_by(|a, b| a.seniority.cmp(&b.seniority).then_with(|| a.member.cmp(&b.member)));
        Ok(alive)
    }

    /// Removes the candidates that are known to be silent for longer than they may, but not a holder that refreshes. How
    /// many. One that is heard at the same moment stays. Reads all of them.
    ///
    /// `Unknown`: nobody knows how many; asked again, it counts those that are left.
    pub async fn evict(&self) -> Result<usize, ElectionError> {
        let mut total = 0;
        loop {
            let outcome = self.command(Command::Evict { most: EVICT_AT_ONCE }).await?;
            let evicted =
                outcome.effects.iter().flatten().filter(|e| matches!(e, Effect::Evicted(_))).count();
            total += evicted;
            if evicted < EVICT_AT_ONCE {
                return Ok(total);
            }
        }
    }

    /// Who leads: whose term was granted or refreshed less than its lease ago. `None` if nobody has the seat, or the
    /// lease is over.
    ///
    /// `NotKnownYet` if somebody has it, and this handle cannot tell yet which it is.
    pub async fn leader(&self) -> Result<Option<Term>, ElectionError> {
        let Some((seat, standing)) = self.seat().await? else { return Ok(None) };
        Ok(if stands(&seat, standing)? { seat.term() } else { None })
    }

    /// What the seat says, whether or not its lease is over.
    pub async fn leader_raw(&self) -> Result<Option<Seated>, ElectionError> {
        let state = self.look(false).await?.0.state;
        state.control.as_ref().ok_or(ElectionError::NotInitialized)?;
        Ok(state.seat.as_ref().and_then(Seated::of))
    }

    /// Whether this incarnation leads, as [`leader`](Self::leader) says. Nothing to write upon: a sink has to compare the
    /// fence.
    ///
    /// `NotKnownYet` if it has the seat, and this handle cannot tell yet whether its lease is over.
    pub async fn is_leader(
        &self,
        member: &MemberId,
        incarnation: Incarnation,
    ) -> Result<bool, ElectionError> {
        let seat = self.seat().await?;
        match seat.filter(|(seat, _)| seat.is_held_by(member, incarnation)) {
            Some((seat, standing)) => stands(&seat, standing),
            None => Ok(false),
        }
    }

    /// Whether the token is of the term that stands now, whoever shows it.
    ///
    /// `NotKnownYet` if it is of the term that is written, and this handle cannot tell yet whether its lease is over.
    pub async fn verify(&self, token: &Fence) -> Result<bool, ElectionError> {
        // A ballot that was never given out is forged.
        let is_of = |seat: &Seat| {
            seat.epoch == token.epoch && token.ballot.0 >= token.epoch.0 && token.ballot <= seat.ballot
        };
        match self.seat().await?.filter(|(seat, _)| is_of(seat)) {
            Some((seat, standing)) => stands(&seat, standing),
            None => Ok(false),
        }
    }

    /// Asks the leader of the epoch, or whoever leads, to resign. The epoch that was asked; `None` if nobody leads it.
    pub async fn request_resign(&self, epoch: Option<Epoch>) -> Result<Option<Epoch>, ElectionError> {
        let outcome = self.command(Command::RequestResign { epoch }).await?;
        Ok(outcome.effects.iter().flatten().find_map(|effect| match effect {
            Effect::Asked { epoch } => Some(*epoch),
            _ => None,
        }))
    }

    /// The seat, if somebody has it, and what is known of whoever does.
    async fn seat(&self) -> Result<Option<(Seat, LeaseStanding)>, ElectionError> {
        let (state, standing) =
            self.look(false).await.map(|(outcome, standing)| (outcome.state, standing))?;
        state.control.as_ref().ok_or(ElectionError::NotInitialized)?;
        Ok(state.seat.zip(standing))
    }

    async fn look(&self, all: bool) -> Result<(Box<Outcome>, Option<LeaseStanding>), ElectionError> {
        let started = self.clock.now();
        let outcome = self.operate(Operation::look(&self.keys, all)).await?;
        let standing = lock(&self.watched).sees(Look {
            started,
            ended: self.clock.now(),
            version: outcome.evidence.at,
            seat: outcome.state.seat.as_ref(),
            unchanged: outcome.evidence.seat.at_least,
        });
        Ok((outcome, standing))
    }

    async fn remove(&self, command: Command) -> Result<bool, ElectionError> {
        let outcome = self.command(command).await?;
        let left = outcome.effects.iter().flatten().any(|effect| *effect == Effect::Left);
        // What was there when it was first tried, and is not there now, it removed itself.
        Ok(left || outcome.uncertain)
    }

    async fn command(&self, command: Command) -> Result<Box<Outcome>, ElectionError> {
        let outcome = self.operate(Operation::new(&self.keys, vec![command])).await?;
        match outcome.effects.iter().find_map(|effects| refusal(effects)) {
            Some(refused) => Err(refused.clone().into()),
            None => Ok(outcome),
        }
    }

    async fn operate(&self, operation: Operation) -> Result<Box<Outcome>, ElectionError> {
        operate(&self.store, &self.clock, &self.keys, &self.memory, rand::random(), operation).await
    }
}

fn who(member: &MemberId, incarnation: Incarnation) -> Who {
    Who { member: member.clone(), incarnation }
}

/// Whether the term that is written stands.
fn stands(seat: &Seat, standing: LeaseStanding) -> Result<bool, ElectionError> {
    match standing {
        LeaseStanding::Stands => Ok(true),
        LeaseStanding::Over => Ok(false),
        LeaseStanding::NotKnown { again_within } => match seat.term() {
            Some(term) => Err(ElectionError::NotKnownYet { term, again_within }),
            None => Ok(false),
        },
    }
}
