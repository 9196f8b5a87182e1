//! What became of the registries of a node, as it saw it: who led, and who came and went. For the page, which is opened late.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use callsign_store::{
    Time,
    ids::{Epoch, NodeName},
    lock::lock,
};
use serde::Serialize;
use tokio::task::JoinHandle;

use super::Registries;
use crate::{Registry, Status};

/// How long a node waits after a look. What lasted for less is not seen.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How many changes of a registry are kept.
const KEPT_CHANGES: usize = 500;

/// Who led from a change on. Nobody: `node` is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Leads {
    node: Option<NodeName>,
    epoch: Epoch,
    /// How long nobody had served, in milliseconds, as this node saw it. `None`: nobody is known to have served before, or nobody does now.
    gap_ms: Option<u64>,
}

/// A change, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SaidChange {
    number: u64,
    /// In milliseconds since 1970, by the node's wall clock.
    at_ms: u64,
    said: String,
    /// If it is one of who leads.
    leader: Option<Leads>,
}

/// What was seen last.
#[derive(Debug, Default)]
struct Seen {
    leader: Option<(NodeName, Epoch)>,
    /// Since when nobody has served who had.
    vacant_since: Option<Time>,
    members: BTreeSet<NodeName>,
    linked: BTreeSet<NodeName>,
}

/// The last changes of a registry.
#[derive(Debug, Default)]
struct History {
    seen: Option<Seen>,
    kept: VecDeque<SaidChange>,
    count: u64,
    #[cfg(test)]
    looks: u32,
}

impl History {
    /// Compares what the node knows by now with what it knew at the last look.
    fn look(&mut self, now: Time, at_ms: u64, status: &Status) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let leader = status.leader.as_ref().filter(|leader| leader.serving);
        let leader = leader.map(|leader| (leader.node.clone(), leader.epoch));
        let members: BTreeSet<_> = status.members.iter().map(|member| member.node.clone()).collect();
        let linked = status.members.iter().filter(|member| member.linked && member.node != status.node);
        let linked: BTreeSet<_> = linked.map(|member| member.node.clone()).collect();
        let was = self.seen.take().unwrap_or_default();
        let mut vacant_since = was.vacant_since;
        if leader != was.leader {
            let gap = match (&leader, was.leader) {
                (Some(_), Some(_)) => Some(Duration::ZERO),
                (Some(_), None) => vacant_since.take().map(|since| now.since(since)),
                (None, _) => None,
            };
            let gap_ms = gap.map(|gap| u64::try_from(gap.as_millis()).unwrap_or(u64::MAX));
            let said = match (&leader, gap_ms) {
                (Some((node, epoch)), Some(0)) => format!("{node} leads, epoch {epoch}, at once"),
                (Some((node, epoch)), Some(gap)) => {
                    format!("{node} leads, epoch {epoch}, after {gap} ms without a leader")
                }
                (Some((node, epoch)), None) => format!("{node} leads, epoch {epoch}"),
                (None, _) => "Nobody leads".to_owned(),
            };
            if leader.is_none() {
                vacant_since = Some(now);
            }
            let (node, epoch) =
                leader.clone().map_or((None, status.epoch), |(node, epoch)| (Some(node), epoch));
            self.push(at_ms, said, Some(Leads { node, epoch, gap_ms }));
        }
        for (now, was, comes, goes) in [
            (&members, &was.members, "joined", "is a member no more"),
            (&linked, &was.linked, "is linked", "is not linked any more"),
        ] {
            now.difference(was).for_each(|node| self.push(at_ms, format!("{node} {comes}"), None));
            was.difference(now).for_each(|node| self.push(at_ms, format!("{node} {goes}"), None));
        }
        self.seen = Some(Seen { leader, vacant_since, members, linked });
    }

    fn push(&mut self, at_ms: u64, said: String, leader: Option<Leads>) {
        self.count += 1;
        self.kept.push_back(SaidChange { number: self.count, at_ms, said, leader });
        if self.kept.len() > KEPT_CHANGES {
            self.kept.pop_front();
        }
    }

    /// The changes behind a number, and the number of the last one.
    fn after(&self, number: u64) -> (Vec<SaidChange>, u64) {
        (self.kept.iter().filter(|change| change.number > number).cloned().collect(), self.count)
    }
}

/// The histories of all registries that an endpoint answers for. Nobody looks any more once it is dropped.
#[derive(Debug)]
pub(super) struct Histories(BTreeMap<String, LookedHistory>);

/// The history of a registry, and the task that looks.
#[derive(Debug)]
struct LookedHistory {
    history: Arc<Mutex<History>>,
    looking: JoinHandle<()>,
}

impl Drop for LookedHistory {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

impl Histories {
    /// Looks whenever something has changed.
    pub(super) fn keep(registries: &Registries) -> Self {
        let keep = |(name, registry): (&str, &Registry)| {
            let history = Arc::<Mutex<History>>::default();
            let looks = keep_one(registry.clone(), history.clone());
            let looking = registry.node.supervisor.task("the history of an admin endpoint", looks);
            (name.to_owned(), LookedHistory { history, looking })
        };
        Self(registries.iter().map(keep).collect())
    }

    /// The changes of a registry behind a number, and the number of the last one.
    pub(super) fn after(&self, registry: &str, number: u64) -> (Vec<SaidChange>, u64) {
        self.0.get(registry).map_or_else(Default::default, |kept| lock(&kept.history).after(number))
    }
}

async fn keep_one(registry: Registry, history: Arc<Mutex<History>>) {
    let clock = registry.clock();
    loop {
        // Before it looks at anything, so that it misses no change: nobody looks while nothing changes.
        let changed = registry.changed();
        if registry.shared.has_ended() {
            return;
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        lock(&history).look(clock.now(), at_ms, &registry.status());
        changed.await;
        clock.sleep_until(clock.now() + LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::time::sleep;

    use super::*;
    use crate::{Clock, Config, MemoryNetwork, MemoryStore, Network, SharedStore, tests::driver::until};

    /// What node a knows. A leader that is written `c?` does not serve yet.
    fn status(leader: Option<(&str, u64)>, members: &[(&str, bool)]) -> Status {
        let leader = leader.map(|(node, epoch)| {
            json!({"node": node.trim_end_matches('?'), "epoch": epoch, "serving": !node.ends_with('?')})
        });
        let members: Vec<Value> = members
            .iter()
            .map(|(node, linked)| {
                json!({
                    "node": node, "address": "", "admin": null, "synced": true, "session_open": true, "leads": false,
                    "draining": false, "linked": linked,
                })
            })
            .collect();
        let settings = serde_json::to_value(crate::InForce::default()).unwrap();
        serde_json::from_value(json!({
            "node": "a", "epoch": 9, "leader": leader, "leads": false, "synced": true, "draining": false, "position": 1,
            "claims": 0, "settings": settings, "members": members,
        }))
        .unwrap()
    }

    fn said(history: &History, after: u64) -> Vec<String> {
        history.after(after).0.into_iter().map(|change| change.said).collect()
    }

    #[test]
    fn each_change_is_said_once_with_how_long_nobody_led() {
        let mut history = History::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let all = [("a", true), ("b", true), ("c", true)];
        history.look(at(0), 5, &status(Some(("b", 3)), &all));
        assert_eq!(
            said(&history, 0),
            ["b leads, epoch 3", "a joined", "b joined", "c joined", "b is linked", "c is linked"]
        );
        history.look(at(100), 6, &status(Some(("b", 3)), &all));
        assert_eq!(history.after(0).1, 6, "nothing has changed");
        let rest = [("a", true), ("b", false), ("c", true)];
        history.look(at(200), 7, &status(None, &rest));
        history.look(at(300), 8, &status(Some(("c?", 4)), &rest[..2]));
        assert_eq!(
            said(&history, 6),
            ["Nobody leads", "b is not linked any more", "c is a member no more", "c is not linked any more"]
        );
        history.look(at(450), 9, &status(Some(("c", 4)), &rest[..2]));
        let (changes, last) = history.after(10);
        let expected = json!([{
            "number": 11, "at_ms": 9, "said": "c leads, epoch 4, after 250 ms without a leader",
            "leader": {"node": "c", "epoch": 4, "gap_ms": 250},
        }]);
        assert_eq!((json!(changes), last), (expected, 11));
        let (nobody, _) = history.after(6);
        assert_eq!(json!(nobody[0].leader), json!({"node": null, "epoch": 9, "gap_ms": null}));
        // From one to the next between two looks. The gap before is no part of it.
        history.look(at(550), 10, &status(Some(("a", 5)), &rest[..2]));
        assert_eq!(said(&history, 11), ["a leads, epoch 5, at once"]);
    }

    #[test]
    fn only_the_last_changes_are_kept() {
        let mut history = History::default();
        for epoch in 1..=600 {
            history.look(Time::ZERO, epoch, &status(Some(("a", epoch)), &[]));
        }
        let (kept, last) = history.after(0);
        assert_eq!((kept.len(), kept[0].number, last), (KEPT_CHANGES, 101, 600));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_looks_while_nothing_changes_nor_once_nobody_asks_any_more() {
        let config = Config::new("a", Arc::new(MemoryStore::new()) as SharedStore)
            .listen(([127, 0, 0, 1], 7001).into())
            .network(Network::Memory(MemoryNetwork::new()))
            .clock(Clock::runtime());
        let registry = Registry::join(config).await.unwrap();
        registry.ready(Duration::from_secs(60)).await.unwrap();
        let histories = Histories::keep(&Registries::of(&registry));
        let LookedHistory { history, looking } = histories.0.values().next().unwrap();
        let (history, looking) = (history.clone(), looking.abort_handle());
        let minute = Duration::from_secs(60);
        sleep(minute).await;
        let looks = lock(&history).looks;
        assert!(looks > 0, "it has seen who leads");
        sleep(minute).await;
        assert_eq!(lock(&history).looks, looks);
        drop(histories);
        until("it is over", || looking.is_finished()).await;
    }
}
