//! Nothing goes back within one incarnation: not the position of a replica, not the version or the epoch of a view.

use std::collections::BTreeMap;

use callsign_store::{
    Version,
    ids::{Epoch, Position},
};

use super::Breach;
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

/// Where each process is.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    positions: BTreeMap<Process, Position>,
    views: BTreeMap<Process, (Version, Epoch)>,
    forward: usize,
    viewed: usize,
    breaches: Vec<Breach>,
}

impl Growth {
    /// A replica is at this position.
    pub fn position(&mut self, process: &Process, place: &Place, position: Position) {
        let former = self.positions.insert(process.clone(), position).unwrap_or_default();
        if position < former {
            self.breaches.push(Breach {
                rule: "a replica only goes forward",
                what: format!("{process} goes from {former} to {position} at {place}"),
            });
        }
        self.forward += usize::from(position > former);
    }

    /// A member was shown the registry at this version.
    pub fn view(&mut self, process: &Process, place: &Place, version: Version, epoch: Epoch) {
        let former = self.views.insert(process.clone(), (version, epoch));
        if let Some(former) = former.filter(|former| version < former.0 || epoch < former.1) {
            self.breaches.push(Breach {
                rule: "views only go forward",
                what: format!("{process} is shown {former:?}, then {:?} at {place}", (version, epoch)),
            });
        }
        self.viewed += 1;
    }

    /// Reports it.
    pub fn finish(mut self, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        counts.add(Count::Forward, self.forward as u64);
        counts.add(Count::Views, self.viewed as u64);
        breaches.append(&mut self.breaches);
    }
}
