//! A node: the one composition of all that is decided in a process. Drivers, simulator, exhaustive search and the replay of
//! recordings step it, and nobody steps a session, an elector or a member by itself.
//!
//! It has parts of two kinds, each a value that one thread steps at a time:
//!
//! - [`NodeCore`], one for each node: the session, what all registries have in common, and how the node leaves.
//! - [`RegistryCore`](super::registry::RegistryCore), one for each registry: its elector and its member.
//!
//! ```text
//!                 NodeEffect::ToRegistry            a queue of the registry (OfSession)
//!   NodeCore   -------------------------------->   RegistryCore: x
//!     session  <--------------------------------   RegistryCore: y
//!     leaving     RegistryEffect::ToNode            ...
//! ```
//!
//! What parts tell each other is data, and waits until it is taken: for a registry in its [queues](super::registry::Queue), for the
//! session in the queue that [`NodeCore::take`] takes from. So different threads may step them, in orders that the simulator
//! chooses. Who tells whom what is decided here and in [`registry`](super::registry), and nowhere else.
//!
//! Promises: a registry hears everything that the session says from its joining on, and first how the session is then; the session
//! hears that the node leads while it leads some registry, and observes all others unless others look after each of its registries;
//! the node is linked to the members of all its registries, and to the incarnations of the last sessions that one of these knows; a node that leaves, or has failed, closes its session, and is gone when that
//! is confirmed; a registry knows what the node may do by its certificate before it joins, and hears of each change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use callsign_elector::{
    elector,
    session::{self, Observed, Session, SessionConfig, SessionEvent, TimingError},
};
use callsign_store::{
    Time,
    ids::{Incarnation, NodeName, RegistryName, SessionId, SessionNumber},
    planted,
};

use callsign_transport::Permits;

use super::{
    input::Input,
    leaving::{Leaving, LeavingEffect, LeavingInput, LeavingTimes},
    told::Told,
};

/// What can happen to a node, beside what happens in its registries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeInput {
    /// Something happens to its session: the store answers, a time has come, or it was [taken](NodeCore::take).
    Session(session::Input),
    /// What drove its session broke, and lost what was under way.
    SessionBroke,
    /// A registry has something to tell the session.
    Tells(RegistryName, session::Input),
    /// The members of a registry, and where they are.
    Members(RegistryName, Vec<(NodeName, String)>),
    /// Sessions of other nodes that a registry knows to be open. Another registry may know of later ones.
    Open(Vec<SessionId>),
    /// What it may do, by its certificate. Until this is said, everything.
    Permits(Permits),
    /// Something that matters to a node that leaves.
    Leaving(LeavingInput),
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeEffect {
    /// What the session asks for. What it says is passed on already, and shown nevertheless.
    Session(session::Effect),
    /// Something waits for the session: it is to be taken.
    SessionIsTold,
    /// Tell a registry.
    ToRegistry(RegistryName, Told),
    /// Tell the callers of a registry that wait for it: the session is trusted.
    Trusted(RegistryName),
    /// Be linked to these nodes, and to no others.
    Peers(BTreeMap<NodeName, String>),
    /// This is the last incarnation of a node. Links cannot tell which of two is the later one.
    Confirmed(NodeName, Incarnation),
    /// A step of leaving.
    Leaving(LeavingEffect),
}

/// What a node is beside its registries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeCore {
    session: Session,
    /// What waits for the session.
    told: VecDeque<session::Input>,
    /// What the session is told to be closed.
    closes: session::Input,
    leaving: Leaving,
    permits: Permits,
    joined: BTreeSet<RegistryName>,
    /// The registries that it leads.
    leads: BTreeSet<RegistryName>,
    /// The registries that others look after, and the leaders of these.
    rests_in: BTreeMap<RegistryName, BTreeSet<NodeName>>,
    /// The members of each registry, and where they are.
    members: BTreeMap<RegistryName, Vec<(NodeName, String)>>,
    /// The last session of each of them that some registry knew to be open.
    last_open: BTreeMap<NodeName, SessionNumber>,
}

impl NodeCore {
    /// A node that has joined no registry, and whose session waits for [`session::Input::Start`].
    ///
    /// # Errors
    /// If no session can be kept with these durations.
    pub fn new(session: SessionConfig, times: LeavingTimes) -> Result<Self, TimingError> {
        Ok(Self {
            session: Session::new(session)?,
            told: VecDeque::new(),
            closes: session::Input::Leave,
            leaving: Leaving::new(times),
            permits: Permits::default(),
            joined: BTreeSet::new(),
            leads: BTreeSet::new(),
            rests_in: BTreeMap::new(),
            members: BTreeMap::new(),
            last_open: BTreeMap::new(),
        })
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// How it leaves.
    pub fn leaving(&self) -> &Leaving {
        &self.leaving
    }

    /// What waits for the session: the first of it, for [`NodeInput::Session`].
    pub fn take(&mut self) -> Option<session::Input> {
        self.told.pop_front()
    }

    /// Adds a registry, which is told first how the session is. False: the node has begun to leave, so that nothing is joined any
    /// more.
    #[must_use]
    pub fn join(&mut self, registry: &RegistryName, effects: &mut Vec<NodeEffect>) -> bool {
        if !self.leaving.join(registry.clone()) {
            return false;
        }
        let current = self.session.current();
        let is_lapsed = matches!(current.last(), Some(SessionEvent::Lapsed { .. }));
        if is_lapsed && planted!("joined-while-lapsed") {
            return true;
        }
        self.joined.insert(registry.clone());
        if !self.rests_in.is_empty() {
            self.tell_session(session::Input::Observe(self.observed()), effects);
        }
        // Before it can say that it joins.
        if self.permits != Permits::default() {
            Self::tell_permits(registry, &self.permits, effects);
        }
        for event in current.iter().filter(|_| !planted!("joiner-not-told")) {
            Self::pass_on(registry, event, effects);
        }
        true
    }

    /// Takes an input, and adds what is to be done.
    pub fn step(&mut self, now: Time, input: NodeInput, effects: &mut Vec<NodeEffect>) {
        match input {
            NodeInput::Session(input) => self.step_session(now, input, effects),
            NodeInput::SessionBroke => {
                self.closes = self.session.start_over();
                if planted!("broken-session-not-closed") {
                    self.closes = session::Input::Leave;
                }
                self.told.clear();
                if self.leaving.is_closing() {
                    self.tell_session(self.closes.clone(), effects);
                }
            }
            NodeInput::Tells(registry, input) => {
                let input = self.for_session(registry, input);
                self.tell_session(input, effects);
            }
            NodeInput::Members(registry, members) => {
                self.members.insert(registry, members);
                let peers = self.peers();
                self.last_open.retain(|node, _| peers.contains_key(node));
                effects.push(NodeEffect::Peers(peers));
            }
            NodeInput::Open(sessions) => self.confirm(sessions, effects),
            NodeInput::Permits(permits) if permits != self.permits => {
                self.permits = permits;
                self.joined.iter().for_each(|registry| Self::tell_permits(registry, &self.permits, effects));
            }
            NodeInput::Permits(_) => {}
            NodeInput::Leaving(input) => self.step_leaving(now, input, effects),
        }
    }

    fn tell_permits(registry: &RegistryName, permits: &Permits, effects: &mut Vec<NodeEffect>) {
        let may_lead = elector::Notice::MayLead(permits.may_lead());
        let told =
            [Told::Elector(elector::Input::Notice(may_lead)), Told::Member(Input::Permits(permits.clone()))];
        effects.extend(told.map(|told| NodeEffect::ToRegistry(registry.clone(), told)));
    }

    fn step_session(&mut self, now: Time, input: session::Input, effects: &mut Vec<NodeEffect>) {
        let mut asked = Vec::new();
        self.session.step(now, input, &mut asked);
        for effect in asked {
            let said = match &effect {
                session::Effect::Emit(event) => Some(event.clone()),
                _ => None,
            };
            effects.push(NodeEffect::Session(effect));
            // A store that went back may count from a smaller number again.
            if matches!(said, Some(SessionEvent::Lineage { .. })) {
                self.last_open.clear();
            }
            if let Some(event) = said.filter(|event| !is_kept_back(event)) {
                self.joined.iter().for_each(|registry| Self::pass_on(registry, &event, effects));
            }
        }
        if self.session.is_over() {
            self.step_leaving(now, LeavingInput::Closed, effects);
        }
    }

    fn pass_on(registry: &RegistryName, event: &SessionEvent, effects: &mut Vec<NodeEffect>) {
        let is_trusted = matches!(event, SessionEvent::Opened { .. } | SessionEvent::Resumed { .. });
        let told = Told::of_session(event.clone()).map(|told| NodeEffect::ToRegistry(registry.clone(), told));
        effects.extend(told);
        // Behind what the registry is told: whoever asks again then is not refused for what was before.
        if is_trusted {
            effects.push(NodeEffect::Trusted(registry.clone()));
        }
    }

    fn tell_session(&mut self, input: session::Input, effects: &mut Vec<NodeEffect>) {
        self.told.push_back(input);
        effects.push(NodeEffect::SessionIsTold);
    }

    fn step_leaving(&mut self, now: Time, input: LeavingInput, effects: &mut Vec<NodeEffect>) {
        let mut asked = Vec::new();
        self.leaving.step(now, input, &mut asked);
        for effect in asked {
            let is_closing = effect == LeavingEffect::Close;
            effects.push(NodeEffect::Leaving(effect));
            if is_closing && self.session.is_over() {
                self.step_leaving(now, LeavingInput::Closed, effects);
            } else if is_closing {
                self.tell_session(self.closes.clone(), effects);
            }
        }
    }

    fn for_session(&mut self, registry: RegistryName, input: session::Input) -> session::Input {
        match input {
            session::Input::Leads(leads) => {
                if leads {
                    self.leads.insert(registry);
                } else {
                    self.leads.remove(&registry);
                }
                // The node leads while it leads some registry.
                session::Input::Leads(!self.leads.is_empty())
            }
            session::Input::Observe(observed) => {
                match observed {
                    Observed::All => _ = self.rests_in.remove(&registry),
                    Observed::Only(leaders) => _ = self.rests_in.insert(registry, leaders),
                }
                session::Input::Observe(self.observed())
            }
            input => input,
        }
    }

    /// Whose sessions it observes: those of all nodes, unless others look after each of its registries.
    fn observed(&self) -> Observed {
        let rests = self.joined.iter().all(|registry| self.rests_in.contains_key(registry));
        if rests {
            Observed::Only(self.rests_in.values().flatten().cloned().collect())
        } else {
            Observed::All
        }
    }

    /// The numbers of a node's sessions only grow: a registry that has not read for a while may know of a former one only.
    fn confirm(&mut self, sessions: Vec<SessionId>, effects: &mut Vec<NodeEffect>) {
        for SessionId { node, incarnation, number } in sessions {
            let last = self.last_open.entry(node.clone()).or_insert(number);
            if number >= *last {
                *last = number;
                effects.push(NodeEffect::Confirmed(node, incarnation));
            }
        }
    }

    /// One that says two addresses is where the last registry, in the order of their names, has it.
    fn peers(&self) -> BTreeMap<NodeName, String> {
        let others = self.members.values().flatten().filter(|(node, _)| node != self.session.node());
        others.cloned().collect()
    }
}

fn is_kept_back(event: &SessionEvent) -> bool {
    planted!("lapse-not-passed-on") && matches!(event, SessionEvent::Lapsed { .. })
}

/// For whoever judges what is done.
#[cfg(feature = "cores")]
impl NodeCore {
    /// As if the node had drained, and nothing had been waited for.
    pub fn has_drained_at_once(&mut self) {
        self.leaving.has_drained_at_once();
    }
}

#[cfg(test)]
mod tests;
