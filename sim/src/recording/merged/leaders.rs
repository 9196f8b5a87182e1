//! An epoch has one leader: the elected one, by whoever's reading of the term; nobody else commits or speaks in it.

use std::collections::{BTreeMap, BTreeSet};

use callsign_elector::record::Term;
use callsign_store::ids::{Epoch, Incarnation, NodeName};

use super::{Breach, log::Log};
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

type Leader = Option<(NodeName, Incarnation)>;

/// Who leads in which epoch.
#[derive(Clone, Debug, Default)]
pub struct Leaders {
    elected: BTreeMap<Epoch, (Leader, Place)>,
    sayers: BTreeMap<Epoch, BTreeSet<NodeName>>,
    speakers: BTreeMap<Epoch, (Process, Place)>,
    breaches: Vec<Breach>,
}

impl Leaders {
    /// A member was shown this term.
    pub fn term(&mut self, by: &NodeName, place: &Place, term: &Term) {
        let leader = term.leader.as_ref().map(|leader| (leader.node.clone(), leader.incarnation));
        self.sayers.entry(term.epoch).or_default().insert(by.clone());
        let (known, at) = self.elected.entry(term.epoch).or_insert_with(|| (leader.clone(), place.clone()));
        if *known != leader {
            self.breaches.push(Breach {
                rule: "an epoch has one leader",
                what: format!("epoch {}: {known:?} at {at}, {leader:?} at {place}", term.epoch),
            });
        }
    }

    /// A process spoke as the leader of an epoch: it sent batches, heartbeats or verdicts.
    pub fn speaks(&mut self, process: &Process, place: &Place, epoch: Epoch) {
        let known = self.speakers.entry(epoch).or_insert_with(|| (process.clone(), place.clone()));
        if known.0 != *process {
            self.breaches.push(Breach {
                rule: "an epoch has one leader",
                what: format!("epoch {epoch}: {} speaks at {}, {process} at {place}", known.0, known.1),
            });
        }
    }

    /// Checks it with the log.
    pub fn finish(mut self, log: &Log, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        let mut committers: BTreeMap<Epoch, (Process, Place)> = BTreeMap::new();
        for (epoch, proposed) in log.committers() {
            let committer = (proposed.by.clone(), proposed.place.clone());
            let known = committers.entry(epoch).or_insert_with(|| committer.clone());
            if known.0 != committer.0 {
                self.breaches.push(Breach {
                    rule: "an epoch has one committing leader",
                    what: format!(
                        "epoch {epoch}: {} at {}, {} at {}",
                        known.0, known.1, committer.0, committer.1
                    ),
                });
            }
        }
        counts.add(Count::Committers, committers.len() as u64);
        for (epoch, (process, place)) in committers.into_iter().chain(self.speakers) {
            // A view may never have been taken in this epoch; then nothing is known.
            let Some((leader, at)) = self.elected.get(&epoch) else { continue };
            if *leader != Some((process.node.clone(), process.incarnation)) {
                self.breaches.push(Breach {
                    rule: "only the elected leads",
                    what: format!("epoch {epoch}: {process} at {place}, elected is {leader:?} at {at}"),
                });
            }
        }
        counts.add(Count::Leaders, self.sayers.values().filter(|sayers| sayers.len() > 1).count() as u64);
        breaches.append(&mut self.breaches);
    }
}
