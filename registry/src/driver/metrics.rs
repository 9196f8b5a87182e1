//! What a registry counts on this node, through the [`metrics`] facade: nothing until the application installs a
//! recorder, and then whatever that makes of it.
//!
//! The driver counts, from the inputs and effects of the member; a core knows nothing of it. Labels are bounded: the
//! registries that this node has joined, and words of this crate. Never a registered name, nor a node.
//!
//! A gauge is of this process. Several nodes of one registry in one process, as in tests, write the same ones.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ::metrics::{
    Key as Name, Label, Level, Metadata, SharedString, Unit, counter, gauge, histogram, with_recorder,
};
use callsign_elector::elector::ElectorEvent;
use callsign_store::{
    CommitOutcome, Key, Transaction, Write,
    ids::Epoch,
    metrics::{Metric, commit_outcome},
};
use tokio::time::Instant;

use crate::{
    core::{
        input::Event,
        message::{BadMessage, Message},
    },
    status::Status,
};

pub(crate) use self::{answered::Answered, asked::AskedCounters};

/// What this crate counts itself.
const OWN_METRICS: &[Metric] = &[
    Metric::counter("callsign_registry_calls_total", &["registry", "call", "outcome"])
        .of("register, start, take, offer, update, unregister and consistent reads that this node's member answered, by outcome"),
    Metric::histogram("callsign_registry_call_seconds", &["registry", "call"], Unit::Seconds)
        .of("how long these calls waited for the member's answer, whatever it was"),
    Metric::histogram("callsign_registry_batch_operations", &["registry"], Unit::Count)
        .of("operations of each batch that this node sent to the store, as leader"),
    Metric::histogram("callsign_registry_batch_bytes", &["registry"], Unit::Bytes)
        .of("bytes of each batch that this node sent to the store, as leader"),
    Metric::histogram("callsign_registry_commit_seconds", &["registry", "what", "outcome"], Unit::Seconds)
        .of("how long commits of a leader took: batches, and cuts of the log"),
    Metric::gauge("callsign_registry_log_position", &["registry"]).of("what this node's replica has applied"),
    Metric::gauge("callsign_registry_names", &["registry"]).of("names in this node's replica"),
    Metric::gauge("callsign_registry_claims", &["registry"]).of("names that actors of this node hold"),
    Metric::gauge("callsign_registry_members", &["registry"]).of("members, as this node last read"),
    Metric::gauge("callsign_registry_links", &["registry"]).of("links to other nodes that are up"),
    Metric::gauge("callsign_registry_leader", &["registry"]).of("1 while this node leads, and serves"),
    Metric::gauge("callsign_registry_synced", &["registry"])
        .of("1 while the replica is known to be complete"),
    Metric::gauge("callsign_registry_epoch", &["registry"]).of("the epoch that this node last read"),
    Metric::histogram("callsign_registry_handoff_seconds", &["registry"], Unit::Seconds)
        .of("from being asked to take over to serving, on the node that did"),
    Metric::counter("callsign_registry_events_total", &["registry", "event"])
        .of("term, serving, deposed, draining, drained, synced, snapshot_installed, host_gone, \
             claim_lost, given_away, taken, batch_too_large, lock_broken, ..."),
    Metric::counter("callsign_registry_messages_total", &["registry", "direction", "kind"])
        .of("messages between members, by direction (sent, received) and kind"),
    Metric::counter("callsign_registry_message_bytes_total", &["registry", "direction"])
        .bytes()
        .of("their bytes, before they are encrypted"),
    Metric::counter("callsign_registry_messages_unread_total", &["registry", "why"])
        .of("messages that were dropped: of another version, not known to this one, or damaged"),
    Metric::counter("callsign_registry_link_events_total", &["registry", "event"])
        .of("links that came up or went down, and messages that could not be queued on one"),
    Metric::counter("callsign_store_requests_total", &["request"])
        .of("what this node asked of its store for its session and its registries: read, commit, watch"),
    Metric::counter("callsign_store_keys_total", &["request"])
        .of("keys and ranges that these reads asked for, and that these commits write"),
];

/// Everything that is counted: by registries, and by the sessions and elections below them.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    #[cfg(feature = "election")]
    let of_elections = callsign_election::metrics::METRICS;
    #[cfg(not(feature = "election"))]
    let of_elections = &[];
    OWN_METRICS.iter().chain(of_elections).chain(callsign_elector::metrics::METRICS)
}

/// Tells the recorder that is installed what everything means. Call it once, after installing one.
pub fn describe() {
    all().for_each(Metric::describe);
}

/// What happened how often since it was last told; so that a member that is busy tells once for each wake-up.
type Tally = BTreeMap<(Counted, &'static str, &'static str), Count>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Call,
    Message,
    Bytes,
    Event,
    Link,
}

impl Counted {
    /// The counter, and what its labels are called, besides the registry.
    fn names(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Call => ("callsign_registry_calls_total", &["call", "outcome"]),
            Self::Message => ("callsign_registry_messages_total", &["direction", "kind"]),
            Self::Bytes => ("callsign_registry_message_bytes_total", &["direction"]),
            Self::Event => ("callsign_registry_events_total", &["event"]),
            Self::Link => ("callsign_registry_link_events_total", &["event"]),
        }
    }
}

/// How often something happened that was not told yet, and how it is called for the recorder: names with labels are made once.
struct Count {
    name: Name,
    by: u64,
}

/// What the macros of `metrics` say of where they are used.
static HERE: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// What [`OfRegistry::status`] sets, in its order.
const GAUGES: [&str; 7] = [
    "callsign_registry_log_position",
    "callsign_registry_names",
    "callsign_registry_claims",
    "callsign_registry_members",
    "callsign_registry_leader",
    "callsign_registry_synced",
    "callsign_registry_epoch",
];

/// How long calls of a kind took, of those that were not told yet, and how that is called for the recorder.
struct Took {
    name: Name,
    seconds: Vec<f64>,
}

/// A member's.
pub(crate) struct OfRegistry {
    registry: SharedString,
    tally: Tally,
    took: BTreeMap<&'static str, Took>,
    gauges: [Name; GAUGES.len()],
    batch_bytes: Name,
    batch_operations: Name,
    /// The handoff that this node was asked for, and since when.
    handoff_since: Option<(Epoch, Instant)>,
}

/// Counts what is found beside the member, in the tasks of links.
pub(crate) struct OfLinks(SharedString);

/// A commit under way.
pub(crate) struct OfCommit {
    registry: SharedString,
    what: &'static str,
    begun: Instant,
}

impl OfRegistry {
    pub(crate) fn new(registry: &str) -> Self {
        let registry = SharedString::from(Arc::from(registry));
        let name = |name| Name::from_parts(name, vec![Label::new("registry", registry.clone())]);
        Self {
            tally: Tally::new(),
            took: BTreeMap::new(),
            gauges: GAUGES.map(name),
            batch_bytes: name("callsign_registry_batch_bytes"),
            batch_operations: name("callsign_registry_batch_operations"),
            registry,
            handoff_since: None,
        }
    }

    pub(crate) fn elector(&self, event: &ElectorEvent) {
        let name = match event {
            // Not an event: what was read.
            ElectorEvent::View(_) => return,
            ElectorEvent::RunHandoff { .. } => "run_handoff",
            ElectorEvent::Applied { .. } => "entry_applied",
            ElectorEvent::Dropped { .. } => "entry_dropped",
            ElectorEvent::Filled { .. } => "seat_filled",
            ElectorEvent::Undecodable { .. } => "entry_undecodable",
            ElectorEvent::Corrupt { .. } => "record_corrupt",
            ElectorEvent::LockBroken { .. } => "lock_broken",
            ElectorEvent::LockGivenUp { .. } => "lock_given_up",
            ElectorEvent::Left => "left",
            ElectorEvent::Unavailable { .. } => "store_unavailable",
            ElectorEvent::TooLarge(_) => "too_large",
            ElectorEvent::Missing { .. } => "missing",
        };
        counter!("callsign_registry_events_total", "registry" => self.registry.clone(), "event" => name)
            .increment(1);
    }

    pub(crate) fn of_links(&self) -> OfLinks {
        OfLinks(self.registry.clone())
    }

    fn count(&mut self, what: Counted, first: &'static str, second: &'static str, by: u64) {
        let count = self.tally.entry((what, first, second)).or_insert_with(|| {
            let (name, words) = what.names();
            let of =
                words.iter().zip([first, second]).map(|(word, value)| Label::from_static_parts(word, value));
            let registry = Label::new("registry", self.registry.clone());
            Count {
                name: Name::from_parts(name, [registry].into_iter().chain(of).collect::<Vec<_>>()),
                by: 0,
            }
        });
        count.by += by;
    }

    /// A call was answered. `took`: how long it had waited, if somebody still waits for the answer.
    pub(crate) fn answered(&mut self, call: Answered, took: Option<Duration>) {
        let Some((call, outcome)) = call.counted() else { return };
        self.count(Counted::Call, call, outcome, 1);
        let Some(took) = took else { return };
        let of_kind = self.took.entry(call).or_insert_with(|| {
            let labels =
                vec![Label::new("registry", self.registry.clone()), Label::from_static_parts("call", call)];
            Took { name: Name::from_parts("callsign_registry_call_seconds", labels), seconds: Vec::new() }
        });
        of_kind.seconds.push(took.as_secs_f64());
    }

    pub(crate) fn sent(&mut self, message: &Message, bytes: usize) {
        self.count(Counted::Message, "sent", message.kind(), 1);
        self.count(Counted::Bytes, "sent", "", bytes as u64);
    }

    pub(crate) fn received(&mut self, message: &Message) {
        self.count(Counted::Message, "received", message.kind(), 1);
    }

    /// Bytes came over links.
    pub(crate) fn received_bytes(&mut self, bytes: usize) {
        self.count(Counted::Bytes, "received", "", bytes as u64);
    }

    pub(crate) fn link(&mut self, event: &'static str) {
        self.count(Counted::Link, event, "", 1);
    }

    /// This node is asked to take over, or another one, which serves then in its place. Asked again, it is still the
    /// same handoff.
    pub(crate) fn handoff_begins(&mut self, epoch: Epoch) {
        if self.handoff_since.is_none_or(|(known, _)| known != epoch) {
            self.handoff_since = Some((epoch, Instant::now()));
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        let name = match event {
            Event::Term { .. } => "term",
            Event::Serving { .. } => "serving",
            Event::Deposed { .. } => "deposed",
            Event::Synced { .. } => "synced",
            Event::Draining => "draining",
            Event::Drained { .. } => "drained",
            Event::SnapshotInstalled { .. } => "snapshot_installed",
            Event::HostGone { .. } => "host_gone",
            Event::ClaimLost { .. } => "claim_lost",
            Event::Orphan { .. } => "orphan",
            Event::GivenAway { .. } => "given_away",
            Event::Taken { .. } => "taken",
            Event::BatchTooLarge { .. } => "batch_too_large",
            Event::Corrupt { .. } => "corrupt",
        };
        self.count(Counted::Event, name, "", 1);
        if let Event::Serving { epoch, .. } = event
            && let Some((_, since)) = self.handoff_since.take_if(|(known, _)| known == epoch)
        {
            histogram!("callsign_registry_handoff_seconds", "registry" => self.registry.clone())
                .record(since.elapsed());
        }
    }

    /// A commit begins. `end` is the key of the log's end, which every batch moves.
    pub(crate) fn commits(
        &self,
        transaction: &Transaction,
        end: &Key,
        operations: Option<usize>,
    ) -> OfCommit {
        let mut what = "cut";
        for write in &transaction.writes {
            if matches!(write, Write::Put { key, .. } if key == end) {
                what = "batch";
            }
        }
        if what == "batch" {
            // The batch itself is the largest of what is written.
            let bytes = transaction.writes.iter().filter_map(|write| match write {
                Write::Put { value, .. } => Some(value.len()),
                _ => None,
            });
            #[allow(clippy::cast_precision_loss)] // far below 2^52
            let measure = |number: usize| number as f64;
            let record = |name, value| with_recorder(|to| to.register_histogram(name, &HERE).record(value));
            record(&self.batch_bytes, measure(bytes.max().unwrap_or_default()));
            if let Some(operations) = operations {
                record(&self.batch_operations, measure(operations));
            }
        }
        OfCommit { registry: self.registry.clone(), what, begun: Instant::now() }
    }

    /// What the node knows is another than before.
    pub(crate) fn status(&self, status: &Status, names: usize) {
        #[allow(clippy::cast_precision_loss)] // above 2^53 it is shown rounded
        let number = |number: u64| number as f64;
        let values: [f64; GAUGES.len()] = [
            number(status.position.0),
            number(names as u64),
            number(status.claims as u64),
            number(status.members.len() as u64),
            f64::from(u8::from(status.leads)),
            f64::from(u8::from(status.synced)),
            number(status.epoch.0),
        ];
        with_recorder(|to| {
            for (name, value) in self.gauges.iter().zip(values) {
                to.register_gauge(name, &HERE).set(value);
            }
        });
    }

    pub(crate) fn links(&self, links: usize) {
        #[allow(clippy::cast_precision_loss)] // a cluster has few nodes
        gauge!("callsign_registry_links", "registry" => self.registry.clone()).set(links as f64);
    }

    /// Tells what was tallied.
    pub(crate) fn tell(&mut self) {
        with_recorder(|to| {
            for count in self.tally.values_mut().filter(|count| count.by > 0) {
                to.register_counter(&count.name, &HERE).increment(std::mem::take(&mut count.by));
            }
            for took in self.took.values_mut().filter(|took| !took.seconds.is_empty()) {
                let histogram = to.register_histogram(&took.name, &HERE);
                took.seconds.drain(..).for_each(|seconds| histogram.record(seconds));
            }
        });
    }

    /// The member has ended.
    pub(crate) fn ended(&mut self) {
        self.tell();
        for name in ["callsign_registry_leader", "callsign_registry_synced", "callsign_registry_links"] {
            gauge!(name, "registry" => self.registry.clone()).set(0.0);
        }
    }
}

impl OfLinks {
    /// A message could not be read, and was dropped.
    pub(crate) fn unread(&self, why: &BadMessage) {
        let why = match why {
            BadMessage::Version { .. } => "version",
            BadMessage::Unknown(_) => "unknown",
            BadMessage::Malformed(_) => "malformed",
        };
        counter!("callsign_registry_messages_unread_total", "registry" => self.0.clone(), "why" => why)
            .increment(1);
    }
}

impl OfCommit {
    pub(crate) fn ended(self, outcome: &CommitOutcome) {
        let took: Duration = self.begun.elapsed();
        histogram!("callsign_registry_commit_seconds",
            "registry" => self.registry, "what" => self.what, "outcome" => commit_outcome(outcome))
        .record(took);
    }
}

mod answered;
mod asked;
#[cfg(test)]
mod tests;
