//! The table of names: what a replica holds.
//!
//! A core writes it through [`Table`], so that the same core runs over a plain map in a simulation and over the
//! map that everyone on the node reads.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    ops::{
        Bound::{Included, Unbounded},
        ControlFlow,
    },
    sync::Arc,
};

use callsign_store::ids::{Position, SessionId, deserialize_count};
use callsign_transport::Kind;

use crate::core::{entry::Entry, group::MembershipName, meta::Meta, name::Name};

/// A request's number among those of its session.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct RequestNumber(#[serde(deserialize_with = "deserialize_count")] pub u64);

/// Where a name stands in the list of the names of its session. It says nothing of who holds the name: rows are compared without it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot(pub(crate) u32);

impl PartialEq for Slot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Slot {}

impl Hash for Slot {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Who holds a name, as the log says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Where in the log the registration is: the name's fencing token.
    pub position: Position,
    /// The session it belongs to. Shared by all rows of the session.
    pub session: Arc<SessionId>,
    /// The request that changed it last: how a request asked again is recognised.
    pub request: RequestNumber,
    /// The actor, among those of its node. None (0) while it is started: see [`Row::actor`].
    pub actor: u64,
    /// What messages it takes.
    pub kind: Kind,
    /// What most rows do not have. They pay for a pointer only.
    pub more: Option<Arc<More>>,
    /// How its name is found among those of the session.
    pub slot: Slot,
}

/// Where a member stands among the others of its group: their order is the same on all nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Standing {
    pub position: Position,
    pub session: Arc<SessionId>,
    pub request: RequestNumber,
}

impl Standing {
    pub fn of(row: &Row) -> Self {
        Self { position: row.position, session: row.session.clone(), request: row.request }
    }
}

/// What a row has beyond its registration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct More {
    /// Where in the log the last change is, if that is not the registration.
    pub revision: Position,
    /// What the holder says of itself.
    pub meta: Option<Meta>,
    /// Its actor is being started: it has none yet.
    pub is_starting: bool,
}

impl More {
    /// That of a row which was registered and changed last at these positions. None, if there is nothing to keep.
    pub fn of(token: Position, revision: Position, meta: Option<Meta>) -> Option<Arc<Self>> {
        let is_starting = false;
        (revision != token || meta.is_some()).then(|| Arc::new(Self { revision, meta, is_starting }))
    }

    /// That of a row which may have no actor yet.
    pub fn of_actor(
        actor: Option<u64>,
        token: Position,
        revision: Position,
        meta: Option<Meta>,
    ) -> Option<Arc<Self>> {
        if actor.is_some() {
            return Self::of(token, revision, meta);
        }
        Some(Arc::new(Self { revision, meta, is_starting: true }))
    }
}

impl Row {
    /// The position of the last change.
    pub fn revision(&self) -> Position {
        self.more.as_ref().map_or(self.position, |more| more.revision)
    }

    /// What the holder says of itself.
    pub fn meta(&self) -> Option<&Meta> {
        self.more.as_ref()?.meta.as_ref()
    }

    /// Whether its actor is being started.
    pub fn is_starting(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.is_starting)
    }

    /// The actor that holds the name. None: it is being started.
    pub fn actor(&self) -> Option<u64> {
        (!self.is_starting()).then_some(self.actor)
    }

    /// Whether it is what this request came to.
    pub fn is_of(&self, session: &SessionId, request: RequestNumber) -> bool {
        self.request == request && *self.session == *session
    }

    /// The row as callers see it.
    #[inline]
    pub fn entry(&self) -> Entry {
        self.entry_with(self.meta().cloned().map(Box::new))
    }

    /// The same without metadata, as answers carry it.
    pub fn holder(&self) -> Entry {
        self.entry_with(None)
    }

    #[inline]
    fn entry_with(&self, meta: Option<Box<Meta>>) -> Entry {
        Entry {
            node: self.session.node.clone(),
            incarnation: self.session.incarnation,
            session: self.session.number,
            actor: self.actor(),
            kind: self.kind,
            token: self.position,
            revision: self.revision(),
            meta,
        }
    }
}

/// Names and who holds them. Nothing here takes longer for more names.
pub trait Table {
    /// The row of a name, also if it is hidden.
    fn row(&self, name: &str) -> Option<Row>;
    /// Sets the row of a name; returns the former one.
    fn put(&mut self, name: Name, row: Row) -> Option<Row>;
    /// Removes a name; returns its row.
    fn take(&mut self, name: &str) -> Option<Row>;
    /// Sets the slot of a name that there is.
    fn set_slot(&mut self, name: &str, slot: Slot);
    /// The `names` rows of a session below a position are gone, and will be removed one after the other. From now on nobody who
    /// reads this table beside its replica sees them.
    fn hide(&mut self, session: &SessionId, below: Position, names: usize);
    /// They are removed.
    fn unhide(&mut self, session: &SessionId);
    /// Shows the members of a group by the names of their rows, in any order, hidden ones too, until `see` says that it is enough.
    fn visit_group(&self, group: &str, see: &mut dyn FnMut(&Name, &Standing) -> ControlFlow<()>);
}

/// Only its replica reads it, which knows what is hidden.
impl Table for BTreeMap<Name, Row> {
    fn row(&self, name: &str) -> Option<Row> {
        self.get(name).cloned()
    }

    fn put(&mut self, name: Name, row: Row) -> Option<Row> {
        self.insert(name, row)
    }

    fn take(&mut self, name: &str) -> Option<Row> {
        self.remove(name)
    }

    fn set_slot(&mut self, name: &str, slot: Slot) {
        if let Some(row) = self.get_mut(name) {
            row.slot = slot;
        }
    }

    fn hide(&mut self, _session: &SessionId, _below: Position, _names: usize) {}

    fn unhide(&mut self, _session: &SessionId) {}

    fn visit_group(&self, group: &str, see: &mut dyn FnMut(&Name, &Standing) -> ControlFlow<()>) {
        let begins_so = self.range::<str, _>((Included(group), Unbounded));
        for (name, row) in begins_so.take_while(|(name, _)| name.starts_with(group)) {
            let is_of_group = MembershipName::of(name).is_some_and(|membership| membership.group == group);
            if is_of_group && see(name, &Standing::of(row)).is_break() {
                return;
            }
        }
    }
}
