//! Watches, as users have them: a stream of what changes, and waiting for a name.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use callsign_store::{ids::Position, planted};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{
    core::{
        entry::Entry,
        input::Input,
        name::check_name,
        select::Select,
        watch::{Given, WatchEvent, WatchId},
    },
    driver::{actor::Shared, registry::Registry},
    error::{LookupError, UntilError, WatchError},
};

/// What changes in a registry, as a stream. See [`Registry::watch`]. Dropped, it ends.
///
/// It ends by itself (`None`) when the node leaves, or has failed.
pub struct Watch {
    id: WatchId,
    shared: Arc<Shared>,
    /// Bounded by the room that the member knows of.
    events: UnboundedReceiver<Given>,
    /// How many were taken since the member was told.
    taken: usize,
    position: Option<Position>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("id", &self.id)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// What changes of the names that are selected, in the order of the log, by this node's own replica.
    ///
    /// First comes the present state ([`WatchEvent::Present`]), then [`WatchEvent::Current`], and from then on each change. A change is
    /// given if it meets what is asked for before it, or after it. It is given before this node answers calls that wait for it. Nobody
    /// waits for a reader: one that is too slow for what the node remembers ([`Config::watch_memory`](crate::Config::watch_memory)) is told so, and gets of each name the
    /// last state.
    ///
    /// # Errors
    /// `Paged` if the select has [`after`](Select::after) or [`limit`](Select::limit), which mean nothing here; `Left` and `Failed` if the
    /// member has ended.
    pub fn watch(&self, select: Select) -> Result<Watch, WatchError> {
        self.open_watch(select, None)
    }

    /// The same from a position on: what is behind it, as [`Watch::position`] said it here or on another node. A node that is not there
    /// yet waits. One that does not remember so far says [`WatchEvent::Reset`], and then gives the present state. A node remembers while
    /// somebody watches there, and for a minute after.
    ///
    /// # Errors
    /// As those of [`watch`](Self::watch).
    pub fn watch_from(&self, select: Select, position: Position) -> Result<Watch, WatchError> {
        self.open_watch(select, Some(position))
    }

    fn open_watch(&self, select: Select, from: Option<Position>) -> Result<Watch, WatchError> {
        if select.is_paged() {
            return Err(WatchError::Paged);
        }
        let (id, events) = self.shared.watches.open();
        self.shared.push(Input::OpenWatch { id, select, from, room: self.shared.calls.watch_room });
        let watch = Watch { id, shared: self.shared.clone(), events, taken: 0, position: from };
        // After it is there: either this sees the end, or the end sees the watch.
        if let Some(failure) = self.shared.failure() {
            return Err(WatchError::Failed(failure.clone()));
        }
        if self.shared.has_ended() {
            return Err(WatchError::Left);
        }
        Ok(watch)
    }

    /// Waits until somebody holds a name, as far as this node's replica goes, and says who. At once if somebody does. A name whose
    /// actor is being started is not held yet.
    ///
    /// # Errors
    /// `TimedOut` after `wait`. See [`UntilError`].
    pub async fn until_held(&self, name: &str, wait: Duration) -> Result<Entry, UntilError> {
        let held = |now: Option<&Entry>| now.filter(|entry| !entry.is_starting()).cloned();
        self.until(name, wait, held).await
    }

    /// Waits until nobody holds a name, as far as this node's replica goes. At once if nobody does. It may be held again since.
    ///
    /// # Errors
    /// `TimedOut` after `wait`. See [`UntilError`].
    pub async fn until_gone(&self, name: &str, wait: Duration) -> Result<(), UntilError> {
        let gone = |now: Option<&Entry>| now.is_none().then_some(());
        self.until(name, wait, gone).await
    }

    /// Waits until a name is as it has to be, or was for a moment.
    async fn until<R>(
        &self,
        name: &str,
        wait: Duration,
        is_it: impl Fn(Option<&Entry>) -> Option<R>,
    ) -> Result<R, UntilError> {
        check_name(name).map_err(LookupError::BadName)?;
        let until = self.clock().now() + wait;
        if let Ok(now) = self.lookup(name)
            && let Some(found) = is_it(now.as_ref())
        {
            return Ok(found);
        }
        let mut watch = self.watch(Select::one(name))?;
        loop {
            // Before the look, so that nothing is missed that comes after it.
            let changed = self.changed();
            let lacks = match self.lookup(name) {
                Ok(now) => match is_it(now.as_ref()) {
                    Some(found) => return Ok(found),
                    None => None,
                },
                Err(failed @ LookupError::Failed(_)) => return Err(failed.into()),
                Err(lacks) => Some(lacks),
            };
            // Being synced is nothing that a watch says.
            let is_synced = !matches!(lacks, Some(LookupError::NotSynced));
            let event = tokio::select! {
                biased;
                event = watch.next() => event,
                () = changed, if !is_synced => continue,
                () = self.clock().sleep_until(until) => {
                    return Err(UntilError::TimedOut { name: name.to_owned(), waited: wait, lacks });
                }
            };
            let Some(event) = event else { return Err(self.ended().into()) };
            if let (WatchEvent::Change(change), None) = (event, lacks)
                && let Some(found) = is_it(change.now.as_ref())
            {
                return Ok(found);
            }
        }
    }

    /// Why a watch has ended by itself.
    fn ended(&self) -> WatchError {
        self.shared.failure().cloned().map_or(WatchError::Left, WatchError::Failed)
    }
}

impl Watch {
    /// The next event. `None`: the node has left, or has failed.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        StreamExt::next(self).await
    }

    /// Everything up to there was given by this stream. [`Registry::watch_from`] continues behind it, on any node. `None` before
    /// [`WatchEvent::Current`], if it did not begin at a position.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    fn took(&mut self, given: Given) -> WatchEvent {
        self.taken += 1;
        if self.taken >= self.shared.calls.watch_room / 2 {
            let events = std::mem::take(&mut self.taken);
            self.shared.push(Input::ReadWatch { id: self.id, events });
        }
        if given.event == WatchEvent::Reset && !planted!("position-outlives-a-reset") {
            self.position = None;
        }
        self.position = given.passes.or(self.position);
        given.event
    }
}

impl Stream for Watch {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let watch = self.get_mut();
        let given = ready!(watch.events.poll_recv(context));
        Poll::Ready(given.map(|given| watch.took(given)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.watches.close(self.id);
        self.shared.push(Input::CloseWatch { id: self.id });
    }
}
