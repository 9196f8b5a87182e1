//! Every position of the log has one batch, whoever committed, sent, received or read it; and a batch is never of an
//! earlier epoch than one before it.

use std::collections::BTreeMap;

use bytes::Bytes;
use callsign::cores::Batch;
use callsign_store::ids::{Epoch, NodeName, Position};

use super::Breach;
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

/// The batch at one position, as it was first seen.
#[derive(Clone, Debug)]
struct SeenBatch {
    bytes: Bytes,
    place: Place,
    by: NodeName,
    is_shared: bool,
}

/// A batch that somebody asked to be committed.
#[derive(Clone, Debug)]
pub struct Proposed {
    /// The batch.
    pub bytes: Bytes,
    /// Who asked.
    pub by: Process,
    /// Where.
    pub place: Place,
}

/// The log, put together.
#[derive(Clone, Debug, Default)]
pub struct Log {
    seen: BTreeMap<Position, SeenBatch>,
    proposed: BTreeMap<Position, Vec<Proposed>>,
    breaches: Vec<Breach>,
}

impl Log {
    /// Somebody asks for a batch to be committed. It may never be.
    pub fn propose(&mut self, by: &Process, place: &Place, position: Position, bytes: Bytes) {
        let proposed = self.proposed.entry(position).or_default();
        if !proposed.iter().any(|known| known.by == *by && known.bytes == bytes) {
            proposed.push(Proposed { bytes, by: by.clone(), place: place.clone() });
        }
    }

    /// Somebody takes a batch for committed.
    pub fn see(&mut self, by: &NodeName, place: &Place, position: Position, bytes: &Bytes) {
        let Some(seen) = self.seen.get_mut(&position) else {
            let first =
                SeenBatch { bytes: bytes.clone(), place: place.clone(), by: by.clone(), is_shared: false };
            self.seen.insert(position, first);
            return;
        };
        seen.is_shared |= seen.by != *by;
        if seen.bytes != *bytes {
            let (one, other) = (Batch::decode(&seen.bytes), Batch::decode(bytes));
            self.breaches.push(Breach {
                rule: "a position has one batch",
                what: format!("{position}: {one:?} at {}, {other:?} at {place}", seen.place),
            });
        }
    }

    /// The batch at a position. Of one that nobody is known to have taken for committed (its leader was killed, and who
    /// learned of it has it in a snapshot), those that were asked for.
    pub fn at(&self, position: Position) -> Vec<Batch> {
        let proposed = || self.proposed.get(&position).into_iter().flatten().map(|one| &one.bytes).collect();
        let bytes: Vec<&Bytes> = self.seen.get(&position).map_or_else(proposed, |seen| vec![&seen.bytes]);
        bytes.into_iter().filter_map(|bytes| Batch::decode(bytes).ok()).collect()
    }

    /// The batch that somebody took for committed.
    pub fn seen_at(&self, position: Position) -> Option<Batch> {
        Batch::decode(&self.seen.get(&position)?.bytes).ok()
    }

    /// Who committed the batch of each position, where that is recorded.
    pub fn committers(&self) -> impl Iterator<Item = (Epoch, &Proposed)> {
        self.seen.iter().filter_map(|(position, seen)| {
            // The nonce in a batch makes it its author's.
            let by = self.proposed.get(position)?.iter().find(|one| one.bytes == seen.bytes)?;
            Some((Batch::decode(&seen.bytes).ok()?.epoch, by))
        })
    }

    /// Checks what was seen.
    pub fn finish(mut self, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        let mut former: Option<(Position, Epoch)> = None;
        for (position, seen) in &self.seen {
            counts.add(Count::Batches, 1);
            counts.add(Count::Shared, u64::from(seen.is_shared));
            let batch = match Batch::decode(&seen.bytes) {
                Ok(batch) if batch.position == *position => batch,
                other => {
                    self.breaches.push(Breach {
                        rule: "a batch says where it is",
                        what: format!("{position} has {other:?} at {}", seen.place),
                    });
                    continue;
                }
            };
            if let Some((at, epoch)) = former.filter(|(_, epoch)| *epoch > batch.epoch) {
                self.breaches.push(Breach {
                    rule: "epochs never go down in the log",
                    what: format!("{at} is of epoch {epoch}, {position} of {} ({})", batch.epoch, seen.place),
                });
            }
            former = Some((*position, batch.epoch));
        }
        breaches.append(&mut self.breaches);
    }
}
