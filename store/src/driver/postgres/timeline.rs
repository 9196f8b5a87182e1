//! Which of several servers is the primary, and which one was: by the timeline.
//!
//! A standby is a copy of its primary, with the row that says which store it is. So an old primary that comes back has the same identity as
//! the server that was promoted in its place. The *timeline* tells them apart: a promotion counts it up.
//!
//! It is asked once, when a connection is made, and that is enough. A server takes its first write after its promotion, so a connection that
//! may write was made afterwards. A primary becomes a standby by a restart only, which ends its connections. What a connection cannot
//! notice is that *another* server was promoted: see [`successors`](super::successors).

use std::{collections::BTreeMap, fmt};

use tokio::sync::watch;

/// Asked of each server that takes writes, by any role: which file the log is written to, whose first eight digits are the timeline; the
/// identifier of the cluster; whether commits wait for standbys. `pg_control_checkpoint()` would say the timeline of before the promotion
/// until the first checkpoint after it.
pub(super) const ORIGIN: &str = "SELECT pg_walfile_name(pg_current_wal_lsn()), system_identifier,
    current_setting('synchronous_standby_names') <> '' FROM pg_control_system()";

/// A cluster of Postgres: a primary and its copies have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct System(pub(super) u64);

/// How often somebody was promoted on the way to a server's data. It only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timeline(pub(super) u32);

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a server's data come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) system: System,
    pub(super) timeline: Timeline,
    /// Whether a commit waits for a standby.
    pub(super) waits_for_standbys: bool,
}

impl Origin {
    /// Reads the answer to [`ORIGIN`]. `None`: it makes no sense.
    pub(super) fn read(file: &str, system: &str, waits: &str) -> Option<Self> {
        let timeline = u32::from_str_radix(file.get(..8)?, 16).ok()?;
        // It is unsigned, and SQL says it as if it were not.
        let system = system.parse::<i64>().ok()?.cast_unsigned();
        Some(Self {
            system: System(system),
            timeline: Timeline(timeline),
            waits_for_standbys: match waits {
                "t" => true,
                "f" => false,
                _ => return None,
            },
        })
    }
}

/// What a server is that takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The first one of its cluster.
    First,
    /// Promoted since another one was seen.
    Promoted,
}

/// The greatest timeline of each cluster that this process has seen a server take writes on. What is below is an old primary.
#[derive(Debug, Default)]
pub(super) struct Known(watch::Sender<BTreeMap<System, Timeline>>);

impl Known {
    /// Notes that such a server takes writes, and says whether that is news.
    pub(super) fn saw(&self, origin: &Origin) -> Option<News> {
        let mut news = None;
        self.0.send_if_modified(|known| {
            news = match known.get(&origin.system) {
                None => Some(News::First),
                Some(greatest) if *greatest < origin.timeline => Some(News::Promoted),
                Some(_) => None,
            };
            if news.is_some() {
                known.insert(origin.system, origin.timeline);
            }
            news.is_some()
        });
        news
    }

    /// The timeline that makes this one an old one, if there is such a one.
    pub(super) fn newer_than(&self, origin: &Origin) -> Option<Timeline> {
        newer_than(&self.0.borrow(), origin)
    }

    /// What can tell when a server becomes an old primary.
    pub(super) fn subscribe(&self) -> Succession {
        Succession(self.0.subscribe())
    }

    /// Whether anything was seen of this cluster: one that was restored elsewhere is another one.
    pub(super) fn knows(&self, system: System) -> bool {
        self.0.borrow().contains_key(&system)
    }
}

fn newer_than(known: &BTreeMap<System, Timeline>, origin: &Origin) -> Option<Timeline> {
    known.get(&origin.system).copied().filter(|greatest| *greatest > origin.timeline)
}

/// Tells when another server was promoted. Clones tell the same.
#[derive(Clone, Debug)]
pub(super) struct Succession(watch::Receiver<BTreeMap<System, Timeline>>);

impl Succession {
    /// Whether a greater timeline than this one is known.
    pub(super) fn has_passed(&self, origin: &Origin) -> bool {
        newer_than(&self.0.borrow(), origin).is_some()
    }

    /// Waits until a greater timeline than this one is known.
    pub(super) async fn passed(&self, origin: &Origin) {
        let mut known = self.0.clone();
        let passed = known.wait_for(|known| newer_than(known, origin).is_some()).await.is_ok();
        if !passed {
            // Nobody is left who could notice one.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn origin(system: u64, timeline: u32) -> Origin {
        Origin { system: System(system), timeline: Timeline(timeline), waits_for_standbys: false }
    }

    #[test]
    fn a_timeline_is_read_from_the_name_of_a_file() {
        let read = |file, system, waits| Origin::read(file, system, waits);
        assert_eq!(read("0000001A0000000000000003", "-2", "f"), Some(origin(u64::MAX - 1, 26)));
        assert_eq!(
            read("FFFFFFFF0000000000000003", "7", "t"),
            Some(Origin { waits_for_standbys: true, ..origin(7, u32::MAX) })
        );
        for (file, system, waits) in [("0000001", "1", "t"), ("0000001G00", "1", "t"), ("00000001", "", "t")]
        {
            assert_eq!(read(file, system, waits), None, "{file} {system} {waits}");
        }
        assert_eq!(read("00000001", "1", ""), None, "\"don't know\" is not \"no\"");
    }

    #[test]
    fn a_timeline_below_one_that_was_seen_is_an_old_one_whatever_is_seen_later() {
        let known = Known::default();
        assert!(!known.knows(System(1)));
        for (timeline, news) in [(1, News::First), (2, News::Promoted)] {
            assert_eq!(known.saw(&origin(1, timeline)), Some(news));
            assert_eq!(known.newer_than(&origin(1, timeline)), None);
        }
        assert_eq!(known.saw(&origin(1, 1)), None);
        assert_eq!(known.newer_than(&origin(1, 1)), Some(Timeline(2)));
        assert_eq!(known.newer_than(&origin(1, 3)), None);
        // Another cluster counts for itself, and does not make the first one forgotten.
        known.saw(&origin(2, 1));
        assert_eq!(known.newer_than(&origin(2, 1)), None);
        assert_eq!(known.newer_than(&origin(1, 1)), Some(Timeline(2)));
        assert!(known.knows(System(1)) && known.knows(System(2)) && !known.knows(System(3)));
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_a_promotion_also_if_it_came_before() {
        let known = Known::default();
        let succession = known.subscribe();
        known.saw(&origin(1, 1));
        known.saw(&origin(2, 9));
        let first = origin(1, 1);
        let mut waits = Box::pin(succession.passed(&first));
        assert!(futures::poll!(&mut waits).is_pending(), "another cluster has its own");
        known.saw(&origin(1, 2));
        assert!(waits.now_or_never().is_some());
        assert!(succession.passed(&origin(1, 1)).now_or_never().is_some());
        assert!(succession.passed(&origin(1, 2)).now_or_never().is_none());
    }
}
