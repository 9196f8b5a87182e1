//! What a registry is asked for names: by this node's own replica, or as of a moment after the call began.

use std::time::Duration;

use callsign_store::ids::Position;
use callsign_transport::{Endpoint, RemoteMessage, trace::SPANS};
use dashmap::mapref::one::Ref;
use futures::FutureExt;
use ractor::ActorRef;
use tracing::{debug_span, field::Empty};

use crate::{
    core::{
        entry::Entry,
        input::{Answer, Call},
        name::{Name, check_name},
        select::Select,
        table::Row,
    },
    driver::{
        registry::Registry,
        shared::{Complete, TableReader},
        traces::in_span,
    },
    error::{ConsistentError, LookupError, WaitError, WhereisError},
};

/// A page of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The names, in the order of their bytes, and who holds them.
    pub names: Vec<(Name, Entry)>,
    /// There are more: [`Select::after`] this name.
    pub next: Option<Name>,
}

impl Registry {
    /// Who holds a name, by this node's own replica. A read of a map: no mailbox, no await, no I/O.
    ///
    /// `Ok(None)` is a "no": the replica is complete, and nobody held the name in the prefix of the log that it has.
    /// It may lag by what is on the way; [`lookup_consistent`](Self::lookup_consistent) does not. Once the
    /// session has lapsed, and the node's actors are stopped or told, the answer says so.
    pub fn lookup(&self, name: &str) -> Result<Option<Entry>, LookupError> {
        self.looked_up(name, |table| table.get(name))
    }

    /// As [`lookup`](Self::lookup), by a row that `look` finds.
    #[inline]
    fn looked_up<'a>(
        &'a self,
        name: &str,
        look: impl FnOnce(&'a TableReader) -> Option<Ref<'a, Name, Row>>,
    ) -> Result<Option<Entry>, LookupError> {
        // Before and after the row. There is none, too, while a table is being filled, or is given up for another one.
        let before = self.shared.table.complete();
        let row = look(&self.shared.table);
        // A lapsed node's member does not count as synced either: what it had is still worth telling.
        if self.shared.trust.has_lapsed() {
            return Err(self.lapsed(row.map(|row| row.holder())));
        }
        if before.is_none() || self.shared.table.complete() != before {
            return Err(LookupError::NotSynced);
        }
        // Made where the caller wants it: an entry that is moved on is waited for twice.
        match row {
            Some(row) => Ok(Some(row.entry())),
            None => check_name(name).map(|()| None).map_err(Into::into),
        }
    }

    /// The actor that holds a name, as a typed reference, by this node's own replica.
    ///
    /// For an actor of another node the reference goes over the link to it. It ends with its actor, as the actor did, so that
    /// ractor's `monitor`, `link` and `wait` work; and it ends with the link, also if the actor lives: then ask again by name.
    pub fn whereis<M: RemoteMessage>(&self, name: &str) -> Result<ActorRef<M>, WhereisError> {
        // As a rule there is a reference already, and nothing of the row has to be copied. The row first, as `lookup` does it.
        let known = self.shared.table.with(name, |row| self.resolved(row)).flatten();
        if let Some(known) = known.filter(|_| self.readable().is_ok()) {
            return Ok(known);
        }
        let entry = self.lookup(name)?;
        self.resolve(name, entry)
    }

    /// The actor of a row, if nothing has to be made or waited for to reach it.
    fn resolved<M: RemoteMessage>(&self, row: &Row) -> Option<ActorRef<M>> {
        let pid = row.actor().filter(|_| row.kind == M::kind())?;
        self.node.endpoint.resolved(row.session.node.as_str(), row.session.incarnation.0, pid)
    }

    fn resolve<M: RemoteMessage>(
        &self,
        name: &str,
        entry: Option<Entry>,
    ) -> Result<ActorRef<M>, WhereisError> {
        let entry = entry.ok_or_else(|| WhereisError::NotFound { name: name.to_owned() })?;
        let Some(address) = entry.address() else {
            let (name, node) = (name.to_owned(), entry.node.clone());
            return Err(WhereisError::Starting { name, node, token: entry.token });
        };
        let endpoint: &Endpoint = &self.node.endpoint;
        let resolved = endpoint.resolve::<M>(&address);
        resolved.map_err(|source| WhereisError::Unreachable {
            name: name.to_owned(),
            entry: Box::new(entry.without_meta()),
            source,
        })
    }

    /// Who holds a name at a moment after the call began: linearizable, on any member. Costs one read of the store,
    /// shared with others who ask at the same time.
    pub async fn lookup_consistent(
        &self,
        name: &str,
        wait: Duration,
    ) -> Result<Option<Entry>, ConsistentError> {
        check_name(name)?;
        let answered = self.shared.call(Call::Consistent { name: name.into() }, wait);
        let answered = answered.map(|answer| match answer {
            Some(Answer::Consistent(result)) => result.map(|(_, entry)| entry),
            _ => Err(self.shared.failure().cloned().map_or(ConsistentError::Left, ConsistentError::Failed)),
        });
        let registry = self.shared.registry.as_str();
        let span =
            debug_span!(target: SPANS, "lookup_consistent", registry, name, token = Empty, error = Empty);
        in_span(span, answered, |found| found.as_ref().map(Entry::token)).await
    }

    /// As [`whereis`](Self::whereis), by a [`lookup_consistent`](Self::lookup_consistent).
    pub async fn whereis_consistent<M: RemoteMessage>(
        &self,
        name: &str,
        wait: Duration,
    ) -> Result<ActorRef<M>, WhereisError> {
        let entry = self.lookup_consistent(name, wait).await?;
        self.resolve(name, entry)
    }

    /// Waits until this node's replica has applied the log up to `position`: a token of another node's registration,
    /// say. An error says how far it came.
    pub async fn wait_for(&self, position: Position, wait: Duration) -> Result<(), WaitError> {
        match self.shared.call(Call::WaitFor { position }, wait).await {
            Some(Answer::Reached(result)) => {
                result.map_err(|at| WaitError::Behind { at, wanted: position, waited: wait })
            }
            _ => Err(self.shared.failure().cloned().map_or(WaitError::Left, WaitError::Failed)),
        }
    }

    /// The names that are looked for, with their entries, by this node's own replica: a page of them, in the order of their bytes.
    ///
    /// Cost: a look at all names, and a copy of those that are given. Each entry is as it was at some moment of the call.
    ///
    /// # Errors
    /// As those of [`lookup`](Self::lookup).
    pub fn select(&self, select: &Select) -> Result<Page, LookupError> {
        let (names, has_more) = self.read(|table| table.select(select))?;
        let next = names.last().filter(|_| has_more).map(|(name, _)| name.clone());
        Ok(Page { names, next })
    }

    /// All names, in any order, by this node's own replica. Members of [groups](Self::group) are none. Cost: their number.
    pub fn names(&self) -> Result<Vec<Name>, LookupError> {
        self.read(TableReader::names)
    }

    /// How many names there are, by this node's own replica. Each member of a [group](Self::group) counts as one.
    pub fn count(&self) -> Result<usize, LookupError> {
        self.read(TableReader::count)
    }

    /// What a read is told while nothing is trusted: for now, or because the node has failed.
    fn lapsed(&self, last_known: Option<Entry>) -> LookupError {
        self.shared.failure().cloned().map_or(LookupError::Lapsed { last_known }, LookupError::Failed)
    }

    /// What the replica says, if it can be read, and still can afterwards: a node that lapsed meanwhile may have seen names go one after the
    /// other.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&TableReader) -> R) -> Result<R, LookupError> {
        let before = self.readable()?;
        let said = look(&self.shared.table);
        if self.readable()? == before { Ok(said) } else { Err(LookupError::NotSynced) }
    }

    fn readable(&self) -> Result<Complete, LookupError> {
        if self.shared.trust.has_lapsed() {
            return Err(self.lapsed(None));
        }
        self.shared.table.complete().ok_or(LookupError::NotSynced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::driver::Cluster;

    #[tokio::test(start_paused = true)]
    async fn nobody_is_told_no_by_a_replica_that_becomes_complete_only_after_the_look() {
        let node = Cluster::new().node("a").await;
        // Nothing else of this node runs, as nothing is awaited.
        let becomes = |states: &[bool]| {
            for is_synced in states {
                node.shared.set_synced(*is_synced);
            }
        };
        let found = |before: &[bool], after: &[bool]| {
            becomes(before);
            node.looked_up("x", |table| {
                let row = table.get("x");
                becomes(after);
                row
            })
        };
        assert_eq!(found(&[false], &[true]), Err(LookupError::NotSynced));
        assert_eq!(found(&[], &[]), Ok(None));
        assert_eq!(found(&[], &[false]), Err(LookupError::NotSynced));
        assert_eq!(found(&[true], &[false, true]), Err(LookupError::NotSynced), "it was not all the time");
        assert_eq!(node.read(|_| becomes(&[false, true])), Err(LookupError::NotSynced));
    }
}
