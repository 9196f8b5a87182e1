//! What a node is beside its registries: what they have in common, and how it leaves.
//!
//! ```text
//! session    --Session-->  node --ToRegistry--> each registry that has joined; its callers
//! registries --Tells-->    node --ToSession---> session
//!            --Members-->  node --Peers-------> links
//! application, registries, session --Leaving--> node --Leaving--> all of them, in order
//! ```
//!
//! Promises: a registry hears everything that the session says from its joining on, and first how the session is then; the session
//! hears that the node leads while it leads some registry; the node is linked to the members of all its registries.

use std::collections::{BTreeMap, BTreeSet};

use callsign_elector::session::{self, SessionEvent};
use callsign_store::{
    Time,
    ids::{NodeName, RegistryName},
    planted,
};

use super::{
    leaving::{Leaving, LeavingEffect, LeavingInput, LeavingTimes},
    registry::Told,
};

/// What can happen to a node, beside what happens in its registries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeInput {
    /// Its session says something.
    Session(SessionEvent),
    /// A registry has something to tell the session.
    Tells(RegistryName, session::Input),
    /// The members of a registry, and where they are.
    Members(RegistryName, Vec<(NodeName, String)>),
    /// Something that matters to a node that leaves.
    Leaving(LeavingInput),
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeEffect {
    /// Tell the session.
    ToSession(session::Input),
    /// Tell a registry.
    ToRegistry(RegistryName, Told),
    /// Tell the callers of a registry that wait for it: the session is trusted.
    Trusted(RegistryName),
    /// Be linked to these nodes, and to no others.
    Peers(BTreeMap<NodeName, String>),
    /// A step of leaving.
    Leaving(LeavingEffect),
}

/// What a node is beside its registries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeCore {
    me: NodeName,
    leaving: Leaving,
    joined: BTreeSet<RegistryName>,
    /// In which lineage the session is, as it said last.
    lineage: Option<SessionEvent>,
    /// How the session is, as it said last: open, or lapsed. `None`: there is none.
    session: Option<SessionEvent>,
    /// The registries that it leads.
    leads: BTreeSet<RegistryName>,
    /// The members of each registry, and where they are.
    members: BTreeMap<RegistryName, Vec<(NodeName, String)>>,
}

impl NodeCore {
    /// A node that has joined no registry.
    pub fn new(me: NodeName, times: LeavingTimes) -> Self {
        Self {
            me,
            leaving: Leaving::new(times),
            joined: BTreeSet::new(),
            lineage: None,
            session: None,
            leads: BTreeSet::new(),
            members: BTreeMap::new(),
        }
    }

    /// How it leaves.
    pub fn leaving(&self) -> &Leaving {
        &self.leaving
    }

    /// Adds a registry, which is told first how the session is. False: the node has begun to leave, so that nothing is joined any
    /// more.
    #[must_use]
    pub fn join(&mut self, registry: &RegistryName, effects: &mut Vec<NodeEffect>) -> bool {
        if !self.leaving.join(registry.clone()) {
            return false;
        }
        if planted!("joined-while-lapsed") && matches!(self.session, Some(SessionEvent::Lapsed { .. })) {
            return true;
        }
        self.joined.insert(registry.clone());
        for event in self.lineage.iter().chain(&self.session).filter(|_| !planted!("joiner-not-told")) {
            Self::pass_on(registry, event, effects);
        }
        true
    }

    /// Takes an input, and adds what is to be done.
    pub fn step(&mut self, now: Time, input: NodeInput, effects: &mut Vec<NodeEffect>) {
        match input {
            NodeInput::Session(event) => self.on_session(&event, effects),
            NodeInput::Tells(registry, input) => {
                let input = self.for_session(registry, input);
                effects.push(NodeEffect::ToSession(input));
            }
            NodeInput::Members(registry, members) => {
                self.members.insert(registry, members);
                effects.push(NodeEffect::Peers(self.peers()));
            }
            NodeInput::Leaving(input) => {
                let mut asked = Vec::new();
                self.leaving.step(now, input, &mut asked);
                effects.extend(asked.into_iter().map(NodeEffect::Leaving));
            }
        }
    }

    fn on_session(&mut self, event: &SessionEvent, effects: &mut Vec<NodeEffect>) {
        match event {
            SessionEvent::Lineage { .. } => self.lineage = Some(event.clone()),
            SessionEvent::Opened { .. } | SessionEvent::Lapsed { .. } => self.session = Some(event.clone()),
            SessionEvent::Resumed { session } => {
                self.session = Some(SessionEvent::Opened { session: session.clone() });
            }
            SessionEvent::Lost { .. } | SessionEvent::Left | SessionEvent::Failed(_) => self.session = None,
            _ => {}
        }
        for registry in &self.joined {
            Self::pass_on(registry, event, effects);
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

    fn for_session(&mut self, registry: RegistryName, input: session::Input) -> session::Input {
        let session::Input::Leads(leads) = input else { return input };
        if leads {
            self.leads.insert(registry);
        } else {
            self.leads.remove(&registry);
        }
        // The node leads while it leads some registry.
        session::Input::Leads(!self.leads.is_empty())
    }

    /// One that says two addresses is where the last registry, in the order of their names, has it.
    fn peers(&self) -> BTreeMap<NodeName, String> {
        let others = self.members.values().flatten().filter(|(node, _)| *node != self.me);
        others.cloned().collect()
    }
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
