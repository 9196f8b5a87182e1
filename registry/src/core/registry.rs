//! What a [node](super::node) is in one registry: an elector and a member, and what they tell each other, the rest of the node and
//! the links.
//!
//! ```text
//! session --OfSession--> elector, member        elector --OfElector--> member, session
//! links   --OfLinks----> member                 member  --OfMember---> elector, session, itself
//! ```
//!
//! The queues are data: whoever steps the core says what is taken next. A driver takes what waits until nothing does; the
//! simulator takes it in orders of its own, late, and between other things.

use std::collections::VecDeque;

#[cfg(any(test, feature = "cores", feature = "fuzz"))]
use callsign_elector::elector::ElectorTiming;
use callsign_elector::{
    elector::{self, Elector, ElectorConfig, ElectorEvent, View},
    session::{self, Observed},
};
#[cfg(any(test, feature = "cores", feature = "fuzz"))]
use callsign_store::ids::ClusterName;
use callsign_store::ids::{NodeName, RegistryName};
use callsign_store::planted;
use serde::{Deserialize, Serialize};

pub use crate::core::told::Told;
use crate::core::{
    input::{Effect, Event, Input, Now},
    leaving::LeavingInput,
    member::{Member, MemberConfig},
    node::NodeInput,
    table::Table,
};

/// A queue between cores of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(clippy::enum_variant_names)] // so they are called in traces that are kept
pub enum Queue {
    /// From the session to the elector and the member.
    OfSession,
    /// From the elector to the member and the session.
    OfElector,
    /// From the member to the elector, the session and itself.
    OfMember,
    /// From the links to the member.
    OfLinks,
}

/// Room for so many effects of a member is kept from turn to turn.
const KEPT_ASKED: usize = 4096;

/// All queues, in the order in which a driver takes from them.
pub const QUEUES: [Queue; 4] = [Queue::OfLinks, Queue::OfSession, Queue::OfElector, Queue::OfMember];

/// What this core asks of whoever steps it, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegistryEffect {
    /// What the elector asked for. What it emits for another core of the node is queued already, and shown nevertheless.
    Elector(elector::Effect),
    /// What the member asked for. What it tells another core of the node is queued already, and shown nevertheless.
    Member(Effect),
    /// To be told to the node.
    ToNode(NodeInput),
}

/// What a node is in one registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistryCore<T> {
    registry: RegistryName,
    elector: Elector,
    member: Member<T>,
    /// What the member asked for since it was last told that no more inputs wait: carried out then.
    asked: Vec<Effect>,
    /// The member took inputs since it was last told that no more wait.
    is_dirty: bool,
    queues: [VecDeque<Told>; 4],
    /// The members and where they are, as was said last.
    members: Vec<(NodeName, String)>,
}

impl<T: Table> RegistryCore<T> {
    /// A registry that was just joined. The elector is to be woken at once.
    pub fn new(elector: ElectorConfig, member: MemberConfig, table: T) -> Self {
        Self {
            registry: elector.registry.clone(),
            elector: Elector::new(elector),
            member: Member::new(member, table),
            asked: Vec::new(),
            is_dirty: false,
            queues: Default::default(),
            members: Vec::new(),
        }
    }

    /// The member.
    pub fn member(&self) -> &Member<T> {
        &self.member
    }

    /// What the member has asked for, and what is carried out when it is told that no more inputs wait.
    pub fn asked(&self) -> &[Effect] {
        &self.asked
    }

    /// Has something wait in a queue.
    pub fn put(&mut self, queue: Queue, told: Told) {
        self.queues[queue as usize].push_back(told);
    }

    /// What is next in a queue.
    pub fn take(&mut self, queue: Queue) -> Option<Told> {
        self.queues[queue as usize].pop_front()
    }

    /// What is to be stepped next, when nothing comes from outside: what waits in a queue; then the member is told that
    /// nothing does.
    pub fn next_told(&mut self) -> Option<Told> {
        let waits = QUEUES.into_iter().find_map(|queue| self.take(queue));
        waits.or_else(|| self.is_dirty.then_some(Told::Member(Input::Idle)))
    }

    /// Steps the core that is meant.
    pub fn step(&mut self, now: Now, told: Told, effects: &mut Vec<RegistryEffect>) {
        match told {
            Told::Session(input) => {
                effects.push(RegistryEffect::ToNode(NodeInput::Tells(self.registry.clone(), input)));
            }
            Told::Elector(input) => {
                let mut asked = Vec::new();
                self.elector.step(now.time, input, &mut asked);
                for effect in asked {
                    if let elector::Effect::Emit(event) = &effect {
                        self.pass_on_from_elector(event);
                    }
                    let has_left = effect == elector::Effect::Emit(ElectorEvent::Left);
                    effects.push(RegistryEffect::Elector(effect));
                    if has_left {
                        let left = LeavingInput::Left(self.registry.clone());
                        effects.push(RegistryEffect::ToNode(NodeInput::Leaving(left)));
                    }
                }
            }
            Told::Member(input) => {
                if let Input::View(view) = &input {
                    self.tell_links(view, effects);
                }
                self.is_dirty = input != Input::Idle;
                self.member.step(now, input, &mut self.asked);
                if !self.is_dirty {
                    let mut asked = std::mem::take(&mut self.asked);
                    effects.reserve(asked.len());
                    for effect in asked.drain(..) {
                        self.pass_on_from_member(&effect);
                        effects.push(RegistryEffect::Member(effect));
                    }
                    // The next turn asks for about as much.
                    asked.shrink_to(KEPT_ASKED);
                    self.asked = asked;
                }
            }
        }
    }

    fn pass_on_from_elector(&mut self, event: &ElectorEvent) {
        let told = match event {
            ElectorEvent::View(view) if planted!("vacancy-kept-back") && view.term.leader.is_none() => return,
            ElectorEvent::View(view) => Told::Member(Input::View(view.clone())),
            ElectorEvent::RunHandoff { leader, epoch } => {
                Told::Member(Input::RunHandoff { leader: leader.clone(), epoch: *epoch })
            }
            ElectorEvent::Missing { .. } if planted!("loss-kept-back") => return,
            ElectorEvent::Missing { since, facts } => {
                Told::Session(session::Input::Missing { since: *since, facts: facts.clone() })
            }
            _ => return,
        };
        self.put(Queue::OfElector, told);
    }

    fn pass_on_from_member(&mut self, effect: &Effect) {
        let told = match effect {
            Effect::Tell(tell) => Told::Elector(elector::Input::Notice(tell.clone().into())),
            Effect::Suspect { node, incarnation } => {
                Told::Session(session::Input::Suspect { node: node.clone(), incarnation: *incarnation })
            }
            Effect::Observe(observed) => {
                let rests = elector::Notice::Rests(*observed != Observed::All);
                self.put(Queue::OfMember, Told::Elector(elector::Input::Notice(rests)));
                Told::Session(session::Input::Observe(observed.clone()))
            }
            // Whoever leads looks after silent sessions first.
            Effect::Event(Event::Serving { .. }) => Told::Session(session::Input::Leads(true)),
            Effect::Event(Event::Deposed { .. }) => Told::Session(session::Input::Leads(false)),
            _ => return,
        };
        self.put(Queue::OfMember, told);
    }

    fn tell_links(&mut self, view: &View, effects: &mut Vec<RegistryEffect>) {
        let me = self.member.me();
        let others = view.members.iter().filter(|(node, _)| *node != me).map(|(_, row)| &row.session);
        let open: Vec<_> = others.filter(|session| view.sessions.is_open(session)).cloned().collect();
        if !open.is_empty() && !planted!("nobody-is-confirmed") {
            effects.push(RegistryEffect::ToNode(NodeInput::Open(open)));
        }
        let members: Vec<_> =
            view.members.iter().map(|(node, row)| (node.clone(), row.address.clone())).collect();
        if members != self.members {
            self.members.clone_from(&members);
            effects.push(RegistryEffect::ToNode(NodeInput::Members(self.registry.clone(), members)));
        }
    }
}

/// For whoever takes things in orders of its own, and judges what is done.
#[cfg(feature = "cores")]
impl<T: Table> RegistryCore<T> {
    /// Whether the member is to be told that no more inputs wait.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// As if the member had asked for this: for tests of whoever judges what it does.
    pub fn forge(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.asked.extend(effects);
        self.is_dirty = true;
    }

    /// What waits in a queue.
    pub fn queue(&self, queue: Queue) -> &VecDeque<Told> {
        &self.queues[queue as usize]
    }
}

/// For whoever has a member alone: a test, a replay of what it was told, a measurement.
#[cfg(any(test, feature = "cores", feature = "fuzz"))]
impl<T: Table> RegistryCore<T> {
    /// A registry whose elector is told nothing.
    pub fn of_member(member: MemberConfig, table: T) -> Self {
        let elector = ElectorConfig {
            registry: RegistryName::new("alone").expect("it is a name"),
            cluster: ClusterName::new("alone").expect("it is a name"),
            node: member.me.clone(),
            address: String::new(),
            admin: None,
            priority: 1,
            timing: ElectorTiming::default(),
            seed: member.seed,
            most_checks: None,
        };
        Self::new(elector, member, table)
    }

    /// Steps the member, and adds what it asks for in this step. What it tells the other parts is told to nobody.
    pub fn step_member(&mut self, now: Now, input: Input, asked: &mut Vec<Effect>) {
        let (known, is_last) = (self.asked.len(), input == Input::Idle);
        let mut effects = Vec::new();
        self.step(now, Told::Member(input), &mut effects);
        self.queues = Default::default();
        if !is_last {
            return asked.extend_from_slice(&self.asked[known..]);
        }
        let carried = effects.into_iter().filter_map(|effect| match effect {
            RegistryEffect::Member(effect) => Some(effect),
            _ => None,
        });
        asked.extend(carried.skip(known));
    }
}
