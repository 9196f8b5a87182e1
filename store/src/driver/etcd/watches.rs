//! Who waits for a change of a key.
//!
//! One stream has all watches of etcd's that a store needs, one for each key. They are kept while somebody comes for the
//! key again and again, so that the next wait needs no message. When a stream is lost, the next one resumes each watch
//! behind the last revision that is accounted for; what etcd has forgotten by then (compaction) ends the waits for that
//! key without cause, and whoever waited reads again.
//!
//! Below them is a net: a slow look at the keys that somebody waits for. It finds what a stream lost, and shows that the
//! member still serves. What it saw unchanged is accounted for, so that a quiet key does not fall behind compactions.
//! But a key that is absent looks the same after it came and went. So the first such look after each new stream ends
//! its waits without cause.
//!
//! A store may also have gone back when a connection to it begins: somebody restored it. What is known of later
//! revisions is forgotten then, and ends its waits without cause.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use futures::{StreamExt, channel::mpsc as wishes};
use tokio::sync::{mpsc, oneshot};

use super::{
    MOST_OPERATIONS, SLOW_LOOK,
    member::EtcdSession,
    read,
    space::Space,
    trouble::in_words,
    wire::{
        RangeRequest, Request, TxnRequest, WatchCancel, WatchCreate, WatchRequest, WatchResponse, WatchWish,
    },
};
use crate::{
    core::transaction::{Key, Version},
    error::StoreError,
};

/// Looks that find nobody waiting for a key before its watch is given up.
const IDLE_LOOKS: u32 = 2;
/// What etcd says of a put that happened, among what it says of removals.
const PUT: i32 = 0;

type Ended = oneshot::Sender<Result<(), StoreError>>;

/// What the keeper of the watches is told.
pub(super) enum Event {
    Watch(Key, Version, Ended),
    /// There is a connection.
    Up(Arc<EtcdSession>),
    /// There is none.
    Down,
    /// Something came on the stream of this number.
    Said(u64, WatchResponse),
    /// The stream of this number is over.
    Over(u64, String),
}

/// What is known of one key.
struct Entry {
    id: i64,
    /// All changes behind this revision are noticed.
    from: u64,
    /// All changes up to this one are accounted for: where a new stream begins.
    accounted: u64,
    /// The newest change.
    changed: u64,
    /// Whether the key was there, as far as is known. That it was absent is known until there is another stream.
    is_there: Option<bool>,
    waits: Vec<(u64, Ended)>,
    idle: u32,
}

impl Entry {
    fn create(&self, key: &[u8], space: &Space) -> WatchRequest {
        let create = WatchCreate {
            key: space.key(key),
            start_revision: (self.accounted + 1).cast_signed(),
            watch_id: self.id,
            fragment: true,
        };
        WatchRequest { wish: Some(WatchWish::Create(create)) }
    }

    /// The key changed at this revision.
    fn changed_at(&mut self, revision: u64) {
        self.changed = self.changed.max(revision);
        self.accounted = self.accounted.max(revision);
        let changed = self.changed;
        self.end_waits(|since| since < changed);
    }

    fn end_waits(&mut self, is_over: impl Fn(u64) -> bool) {
        let (over, on): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waits).into_iter().partition(|(since, _)| is_over(*since));
        self.waits = on;
        // Nobody waits any more where sending fails: nothing to tell.
        for (_, ended) in over {
            let _ = ended.send(Ok(()));
        }
    }
}

/// All keys that are watched. It decides, and sends nothing.
pub(super) struct Book {
    space: Space,
    entries: BTreeMap<Key, Entry>,
    keys: BTreeMap<i64, Key>,
    next: i64,
}

impl Book {
    pub(super) fn new(space: Space) -> Self {
        Self { space, entries: BTreeMap::new(), keys: BTreeMap::new(), next: 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Somebody waits for a change behind a version. Gives what has to be asked for.
    pub(super) fn watch(&mut self, key: Key, since: Version, ended: Ended) -> Option<WatchRequest> {
        let since = since.0;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.idle = 0;
            entry.waits.push((since, ended));
            // What happened before this watch was made, nobody here knows.
            let (from, changed) = (entry.from, entry.changed);
            entry.end_waits(|since| since < changed || since < from);
            return None;
        }
        let id = self.next;
        self.next += 1;
        let entry = Entry {
            id,
            from: since,
            accounted: since,
            changed: 0,
            is_there: None,
            waits: vec![(since, ended)],
            idle: 0,
        };
        let wish = entry.create(&key, &self.space);
        self.keys.insert(id, key.clone());
        self.entries.insert(key, entry);
        Some(wish)
    }

    /// A connection begins with the store at this version. What is known, or waited for, of later ones is of a store
    /// that has gone back since: nobody would be told of changes before it has come as far again.
    pub(super) fn begins_at(&mut self, version: Version) {
        let is_later = |entry: &Entry| {
            entry.accounted > version.0 || entry.waits.iter().any(|(since, _)| *since > version.0)
        };
        let later: Vec<Key> =
            self.entries.iter().filter(|(_, entry)| is_later(entry)).map(|(key, _)| key.clone()).collect();
        for key in later {
            self.forget(&key);
        }
    }

    /// What a new stream has to be asked for: all of it, each key from where it is accounted for.
    pub(super) fn resume(&mut self) -> Vec<WatchRequest> {
        for entry in self.entries.values_mut() {
            // It may have come and gone while the last stream was broken, at a revision that a look has passed.
            entry.is_there = entry.is_there.filter(|is_there| *is_there);
        }
        self.entries.iter().map(|(key, entry)| entry.create(key, &self.space)).collect()
    }

    /// Something came on the stream. Says whether the stream is of no use.
    pub(super) fn heard(&mut self, said: &WatchResponse) -> Result<(), String> {
        let Some(key) = self.keys.get(&said.watch_id) else {
            // One without a number was refused before it was made: etcd does not say which, so all are made again.
            if said.canceled && said.watch_id < 0 {
                return Err(said.cancel_reason.clone());
            }
            return Ok(());
        };
        if said.canceled {
            // What happened meanwhile is forgotten, or somebody else is in trouble: whoever waits looks again.
            let key = key.clone();
            self.forget(&key);
            return Ok(());
        }
        let Some(entry) = self.entries.get_mut(key) else { return Ok(()) };
        for event in &said.events {
            let Some(kv) = &event.kv else { continue };
            entry.is_there = Some(event.kind == PUT);
            entry.changed_at(kv.mod_revision.unsigned_abs());
        }
        Ok(())
    }

    /// Ends all waits for a key, and its watch.
    fn forget(&mut self, key: &[u8]) -> Option<WatchRequest> {
        let mut entry = self.entries.remove(key)?;
        self.keys.remove(&entry.id);
        entry.end_waits(|_| true);
        let cancel = WatchCancel { watch_id: entry.id };
        Some(WatchRequest { wish: Some(WatchWish::Cancel(cancel)) })
    }

    /// The keys to look at, after those are given up that nobody waits for any more; and what has to be asked for.
    pub(super) fn due(&mut self) -> (Vec<Key>, Vec<WatchRequest>) {
        for entry in self.entries.values_mut() {
            entry.waits.retain(|(_, ended)| !ended.is_closed());
            entry.idle = if entry.waits.is_empty() { entry.idle + 1 } else { 0 };
        }
        let idle: Vec<Key> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.idle > IDLE_LOOKS)
            .map(|(key, _)| key.clone())
            .collect();
        let cancels = idle.iter().filter_map(|key| self.forget(key)).collect();
        (self.entries.keys().cloned().collect(), cancels)
    }

    /// A look at this revision found the key last changed at that one, or absent.
    pub(super) fn looked(&mut self, key: &[u8], at: u64, found: Option<u64>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match found {
            Some(modified) if modified > entry.accounted => entry.changed_at(modified),
            // It was removed, at some time up to now; or nobody knows whether it was there.
            None if entry.is_there != Some(false) => {
                let newest = at.max(entry.accounted);
                if entry.is_there == Some(true) {
                    entry.changed_at(newest);
                } else {
                    // Of what happened before, the next stream says nothing.
                    entry.from = entry.from.max(newest);
                    entry.end_waits(|since| since < newest);
                }
            }
            _ => {}
        }
        entry.is_there = Some(found.is_some());
        entry.accounted = entry.accounted.max(at);
    }
}

/// Looks after the watches.
pub(super) struct EtcdKeeper {
    book: Book,
    events: mpsc::UnboundedSender<Event>,
    stream: Option<Stream>,
    /// Counts streams: what is said on an older one is not listened to.
    number: u64,
    last_look: Instant,
}

/// A stream to a member.
struct Stream {
    session: Arc<EtcdSession>,
    wishes: wishes::UnboundedSender<WatchRequest>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EtcdKeeper {
    pub(super) fn new(space: Space, events: mpsc::UnboundedSender<Event>) -> Self {
        Self { book: Book::new(space), events, stream: None, number: 0, last_look: Instant::now() }
    }

    /// Runs until the runtime ends.
    pub(super) async fn run(mut self, mut events: mpsc::UnboundedReceiver<Event>) {
        loop {
            let event = if self.book.is_empty() {
                events.recv().await
            } else {
                let due = self.last_look + SLOW_LOOK;
                let Ok(event) = tokio::time::timeout_at(due.into(), events.recv()).await else {
                    self.look().await;
                    continue;
                };
                event
            };
            match event {
                Some(event) => self.on_event(event),
                None => return,
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Watch(key, since, ended) => {
                if self.book.is_empty() {
                    self.last_look = Instant::now();
                }
                let wish = self.book.watch(key, since, ended);
                self.wish(wish);
            }
            Event::Up(session) => {
                self.book.begins_at(session.began_at);
                self.open(session);
                let all = self.book.resume();
                self.wish(all);
            }
            Event::Down => self.stream = None,
            Event::Said(number, said) if number == self.number => {
                if let Err(why) = self.book.heard(&said) {
                    self.lost(&why);
                }
            }
            Event::Over(number, why) if number == self.number => self.lost(&why),
            Event::Said(..) | Event::Over(..) => {}
        }
    }

    /// The connection is given up, so that the next one resumes the watches, perhaps at another member.
    fn lost(&mut self, why: &str) {
        if let Some(stream) = self.stream.take() {
            crate::logged!(debug, %why, member = stream.session.member.name, "the watches in etcd are resumed");
            stream.session.give_up();
        }
    }

    fn wish(&self, all: impl IntoIterator<Item = WatchRequest>) {
        let Some(stream) = &self.stream else { return };
        // Where the stream is over, all is asked for on the next one.
        for wish in all {
            let _ = stream.wishes.unbounded_send(wish);
        }
    }

    fn open(&mut self, session: Arc<EtcdSession>) {
        self.number += 1;
        let (number, events) = (self.number, self.events.clone());
        let (wishes, asked) = wishes::unbounded();
        let over = session.clone();
        let task = session.place.supervisor.task("what etcd says of watched keys", async move {
            let why = listen(&over, asked, |said| events.send(Event::Said(number, said)).is_ok()).await;
            // The keeper is gone only with the runtime.
            let _ = events.send(Event::Over(number, why));
        });
        self.stream = Some(Stream { session, wishes, task });
    }

    async fn look(&mut self) {
        let (keys, cancels) = self.book.due();
        self.wish(cancels);
        if let Some(session) = self.stream.as_ref().map(|stream| stream.session.clone()) {
            for part in keys.chunks(MOST_OPERATIONS) {
                // What could not be looked at is looked at next time.
                let Ok((at, found)) = look_at(&session, part).await else { break };
                for (key, found) in part.iter().zip(found) {
                    self.book.looked(key, at, found);
                }
            }
        }
        self.last_look = Instant::now();
    }
}

/// Passes on what comes on a stream. Says why it ended.
async fn listen(
    session: &EtcdSession,
    asked: wishes::UnboundedReceiver<WatchRequest>,
    pass_on: impl Fn(WatchResponse) -> bool,
) -> String {
    let mut stream = match session.member.watch(asked).await {
        Ok(stream) => stream,
        Err(status) => return in_words(&status),
    };
    while let Some(said) = stream.next().await {
        match said {
            Ok(said) => {
                if !pass_on(said) {
                    break;
                }
            }
            Err(status) => return in_words(&status),
        }
    }
    "the stream ended".to_owned()
}

/// When each key was last changed, and the revision at which that is so.
async fn look_at(session: &EtcdSession, keys: &[Key]) -> Result<(u64, Vec<Option<u64>>), String> {
    let space = &session.place.address.space;
    let only = |key: &Key| {
        Request::Range(RangeRequest { key: space.key(key), keys_only: true, ..RangeRequest::default() })
            .into()
    };
    let success = keys.iter().map(only).collect();
    let answer = read::ask(session, TxnRequest { success, ..TxnRequest::default() }).await?;
    let modified = |nth| answer.found(nth).first().map(|found| found.mod_revision.unsigned_abs());
    Ok((answer.revision().unsigned_abs(), (0..keys.len()).map(modified).collect()))
}

#[cfg(test)]
mod tests;
