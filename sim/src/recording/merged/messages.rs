//! A message reaches the process that it was asked for, and no other one of the same name.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher},
};

use callsign::cores::{Effect, Input, Message};
use callsign_store::ids::{Incarnation, NodeName};
use foldhash::quality::FixedState;

use super::Breach;
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

/// By who asked, for whom, and a number that stands for the message: how often it was asked for, and how often it came.
type MessageCounts = BTreeMap<(Process, Process, u64), (u64, u64)>;

/// Messages between the members of a registry.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    counted: MessageCounts,
    /// Where each came last, and what it is.
    last: BTreeMap<(Process, Process, u64), (Place, &'static str)>,
}

/// The links of one process, as its member knows them.
#[derive(Clone, Debug)]
pub struct Ways {
    me: Process,
    links: BTreeMap<NodeName, Incarnation>,
    /// Where each link leads.
    ends: BTreeMap<u64, Process>,
}

impl Ways {
    /// Those of a process that begins.
    pub fn new(me: Process) -> Self {
        Self { me, links: BTreeMap::new(), ends: BTreeMap::new() }
    }

    /// The process that is linked under a name.
    pub fn linked(&self, node: &NodeName) -> Option<Process> {
        self.links.get(node).map(|incarnation| Process { node: node.clone(), incarnation: *incarnation })
    }

    /// Takes a step of its member.
    pub fn step(&mut self, place: &Place, input: &Input, effects: &[Effect], messages: &mut Messages) {
        match input {
            Input::LinkUp { node, incarnation, link, .. } => {
                self.links.insert(node.clone(), *incarnation);
                self.ends.insert(*link, Process { node: node.clone(), incarnation: *incarnation });
            }
            Input::LinkDown { node, incarnation } if self.links.get(node) == Some(incarnation) => {
                self.links.remove(node);
            }
            Input::Message { from, message } => {
                if let Some(from) = self.linked(from) {
                    messages.came(from, self.me.clone(), place, message);
                }
            }
            _ => {}
        }
        for effect in effects {
            if let Effect::Send { link: Some(link), message, .. } = effect
                && let Some(to) = self.ends.get(link)
            {
                messages.asked(self.me.clone(), to.clone(), message);
            }
        }
    }
}

impl Messages {
    /// A member asked for a message to this process.
    pub fn asked(&mut self, from: Process, to: Process, message: &Message) {
        self.counted.entry((from, to, sum(message))).or_default().0 += 1;
    }

    /// A member got it.
    pub fn came(&mut self, from: Process, to: Process, place: &Place, message: &Message) {
        let key = (from, to, sum(message));
        self.counted.entry(key.clone()).or_default().1 += 1;
        self.last.insert(key, (place.clone(), message.kind()));
    }

    /// Reports it. Of a process that was not recorded nobody knows what it asked for.
    pub fn finish(self, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        let has_asked = self.counted.iter().filter(|(_, (asked, _))| *asked > 0);
        let recorded: BTreeSet<Process> = has_asked.map(|((from, ..), _)| from.clone()).collect();
        for (key, (asked, came)) in self.counted {
            if !recorded.contains(&key.0) {
                continue;
            }
            counts.add(Count::Messages, came);
            let Some((place, kind)) = self.last.get(&key).filter(|_| came > asked) else { continue };
            let (from, to, _) = key;
            breaches.push(Breach {
                rule: "a message reaches the process that it was asked for",
                what: format!(
                    "{kind} of {from} came to {to} {came} times and was asked for {asked} times, at {place}"
                ),
            });
        }
    }
}

fn sum(message: &Message) -> u64 {
    let mut hash = FixedState::default().build_hasher();
    hash.write(&message.encode());
    hash.finish()
}
