//! Watches: they begin with the present state, or where another one was, on this node or elsewhere.

use std::time::Duration;

use callsign::{Select, Watch, WatchEvent};
use callsign_store::ids::Position;
use tokio::time::{sleep, timeout};

use super::{
    super::event::{Event, Saw},
    Calls, Client, shown,
};

/// How the names begin that a watch is for.
const PREFIXES: [&str; 5] = ["m", "m", "m", "w", ""];
/// How long a watch is read, at most.
const READS: Duration = Duration::from_secs(12);
/// How often it is seen whether to go on.
const LOOKS: Duration = Duration::from_millis(500);

/// A watch, and what was written of it.
struct WatchReader {
    watch: Watch,
    number: u64,
    passed: Option<Position>,
}

impl Client {
    /// Watches, and begins anew from time to time.
    pub async fn watch_names(mut self) {
        let mut last: Option<(&str, u64)> = None;
        while self.works() {
            let (prefix, from) = match self.rng.below(10) {
                0..4 => (PREFIXES[self.rng.index(PREFIXES.len())], None),
                4..8 => last.map_or((PREFIXES[0], None), |(prefix, position)| (prefix, Some(position))),
                _ => {
                    let node = &self.site.nodes[self.rng.index(self.site.nodes.len())];
                    (PREFIXES[self.rng.index(PREFIXES.len())], self.site.positions.heard(node))
                }
            };
            let Some(mut reader) = self.open(prefix, from) else {
                self.pause().await;
                continue;
            };
            let until = self.now() + u64::try_from(self.rng.duration(READS).as_nanos()).unwrap_or(0);
            let mut has_dozed = false;
            while self.works() && self.now() < until {
                match timeout(LOOKS, reader.watch.next()).await {
                    Ok(Some(event)) => {
                        self.saw(&mut reader, &event);
                        if reader.number.is_multiple_of(4) && !std::mem::replace(&mut has_dozed, true) {
                            // It does something else first, for most of its time.
                            sleep(Duration::from_nanos(until.saturating_sub(self.now()) / 4 * 3)).await;
                        }
                    }
                    // The node has left, or has failed.
                    Ok(None) => return,
                    Err(_) => {}
                }
            }
            if let Some(Position(position)) = reader.watch.position() {
                self.site.positions.tell(&self.site.name, position);
                last = Some((prefix, position));
            }
            self.write(&mut reader, Saw::Closed);
            // What comes meanwhile it gets later, if it goes on from here.
            drop(reader);
            self.pause().await;
            self.pause().await;
        }
    }

    /// Reads until it has everything that this node has now.
    pub(super) async fn catch_up(&self) {
        let Some(mut reader) = self.open("", None) else { return };
        let Position(all) = self.site.registry.status().position;
        while reader.watch.position().is_none_or(|Position(at)| at < all) {
            match reader.watch.next().await {
                Some(event) => self.saw(&mut reader, &event),
                None => return,
            }
        }
        self.write(&mut reader, Saw::Closed);
    }

    fn open(&self, prefix: &str, from: Option<u64>) -> Option<WatchReader> {
        let select = Select::prefix(prefix);
        let watch = match from {
            None => self.site.registry.watch(select),
            Some(from) => self.site.registry.watch_from(select, Position(from)),
        };
        let mut reader =
            WatchReader { watch: watch.ok()?, number: Calls::next(&self.calls.watches), passed: None };
        self.write(&mut reader, Saw::Opened { prefix: prefix.to_owned(), from });
        Some(reader)
    }

    fn saw(&self, reader: &mut WatchReader, event: &WatchEvent) {
        let saw = match event {
            WatchEvent::Present { name, entry } => Saw::Present { name: name.to_string(), now: shown(entry) },
            WatchEvent::Current { position } => Saw::Current(position.0),
            WatchEvent::Change(change) => Saw::Change {
                name: change.name.to_string(),
                position: change.position.0,
                was: change.was.as_ref().map(shown),
                now: change.now.as_ref().map(shown),
                why: change.why.as_str().to_owned(),
            },
            WatchEvent::Bookmark { position } => Saw::Bookmark(position.0),
            WatchEvent::Lagged => Saw::Lagged,
            WatchEvent::Reset => Saw::Reset,
            WatchEvent::Lapsed => Saw::Lapsed,
            WatchEvent::Resumed => Saw::Resumed,
            _ => return,
        };
        self.write(reader, saw);
    }

    /// Writes down an event, and up to where everything is given with it, if that is news.
    fn write(&self, reader: &mut WatchReader, saw: Saw) {
        if saw == Saw::Reset {
            // It has to say so anew.
            reader.passed = None;
        }
        let position = reader.watch.position();
        let passed = position.filter(|_| position != reader.passed).map(|position| position.0);
        reader.passed = position;
        self.site.journal.write(&Event::Watched { at: self.now(), watch: reader.number, saw, passed });
    }

    /// Waits until this node can be watched up to where it is, and says who is in all groups.
    pub async fn see_all(self) {
        self.catch_up().await;
        self.read_groups().await;
    }
}
