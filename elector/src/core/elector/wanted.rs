//! Whose sessions an elector reads: those that decide something, and no others.

use std::collections::BTreeSet;

use callsign_store::ids::NodeName;

use super::reading::Reading;

/// The nodes whose sessions are read. Whose they are is seen in what was read, so it is known from the reading before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    /// Those that the next read asks for.
    asked: BTreeSet<NodeName>,
    /// Those that the own member named.
    concerned: BTreeSet<NodeName>,
    /// Whether the last read showed nodes that it had not asked for.
    is_catching_up: bool,
}

impl Wanted {
    /// At first only the own node is known.
    pub(super) fn new(own: &NodeName) -> Self {
        Self { asked: BTreeSet::from([own.clone()]), concerned: BTreeSet::new(), is_catching_up: false }
    }

    pub(super) fn nodes(&self) -> &BTreeSet<NodeName> {
        &self.asked
    }

    /// From now on these are asked for: they are the ones of the last reading.
    pub(super) fn hold(&mut self, asked: &BTreeSet<NodeName>) {
        self.asked.clone_from(asked);
    }

    /// Takes the nodes that the own member names; says whether a read is needed for them.
    pub(super) fn name(&mut self, nodes: BTreeSet<NodeName>) -> bool {
        let is_new = !nodes.is_subset(&self.asked);
        self.concerned = nodes;
        is_new
    }

    /// The reading as far as the sessions that decide about it were read, too, and whether to read again; no reading if
    /// nothing can be decided by it.
    ///
    /// A member or an author that is new takes a second read. The second one is used as far as it goes: others may come
    /// with every read.
    pub(super) fn of(&mut self, own: &NodeName, mut reading: Reading) -> (Option<Reading>, bool) {
        let needed = std::iter::once(own).chain(reading.concerned()).chain(&self.concerned);
        let needed: BTreeSet<_> = needed.cloned().collect();
        let asked = std::mem::replace(&mut self.asked, needed);
        if self.asked.is_subset(&asked) {
            self.is_catching_up = false;
            return (Some(reading), false);
        }
        let is_again = std::mem::replace(&mut self.is_catching_up, true);
        if !is_again || reading.lacks_member() {
            return (None, true);
        }
        reading.cut_unknown();
        (Some(reading), true)
    }
}
