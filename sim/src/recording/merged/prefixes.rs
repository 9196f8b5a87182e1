//! What a replica holds is what the log says up to its position: no more, no less.
//!
//! Looked at where a recording ends and where a snapshot was taken in. The log is applied here once more, by other code
//! than the replica's.

use std::collections::BTreeMap;

use callsign::{
    Name,
    cores::{Batch, More, Op, Row, Slot},
};
use callsign_store::ids::Position;

use super::{Breach, log::Log};
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

/// The table of a replica.
type ReplicaRows = BTreeMap<Name, Row>;

/// Replicas, as they were at some positions.
#[derive(Clone, Debug, Default)]
pub struct Prefixes(Vec<(Position, Process, Place, ReplicaRows)>);

impl Prefixes {
    /// A replica held this.
    pub fn held(&mut self, process: &Process, place: &Place, position: Position, rows: ReplicaRows) {
        self.0.push((position, process.clone(), place.clone(), rows));
    }

    /// Compares each with the log. Behind a position of which nobody has recorded the batch nothing is compared.
    pub fn finish(mut self, log: &Log, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        self.0.sort_by_key(|(position, ..)| *position);
        let (mut at, mut said) = (Position(0), ReplicaRows::new());
        for (position, process, place, rows) in self.0 {
            while at < position {
                let Some(batch) = log.seen_at(at.next()) else { return };
                at = at.next();
                apply(&mut said, &batch);
            }
            counts.add(Count::Prefixes, 1);
            if said != rows {
                let only = |these: &ReplicaRows, those: &ReplicaRows| {
                    let only = these.iter().filter(|(name, row)| those.get(*name) != Some(*row));
                    format!("{:?}", only.take(10).collect::<Vec<_>>())
                };
                breaches.push(Breach {
                    rule: "a replica is a prefix of the log",
                    what: format!(
                        "{process} at {position} ({place}) alone has {}, the log {}",
                        only(&rows, &said),
                        only(&said, &rows)
                    ),
                });
            }
        }
    }
}

fn apply(rows: &mut ReplicaRows, batch: &Batch) {
    let session = |index: &u32| batch.sessions[*index as usize].clone();
    for op in &batch.ops {
        match op {
            Op::Register { name, session: index, request, actor, kind, meta } => {
                let (session, request, actor, kind) = (session(index), *request, *actor, *kind);
                let slot = Slot::default();
                let (position, more) =
                    (batch.position, More::of_actor(actor, batch.position, batch.position, meta.clone()));
                let actor = actor.unwrap_or(0);
                let row = Row { position, session, request, actor, kind, more, slot };
                rows.insert(name.clone(), row);
            }
            Op::Bind { name, position, request, actor, meta } => {
                if let Some(row) = rows.get_mut(name).filter(|row| row.position == *position) {
                    (row.request, row.actor) = (*request, *actor);
                    row.more = More::of(*position, batch.position, meta.clone());
                }
            }
            Op::Transfer { name, position, session: index, request, actor, kind } => {
                if let Some(row) = rows.get_mut(name).filter(|row| row.position == *position) {
                    (row.position, row.session) = (batch.position, session(index));
                    (row.request, row.actor, row.kind) = (*request, *actor, *kind);
                    row.more = More::of(batch.position, batch.position, row.meta().cloned());
                }
            }
            Op::Update { name, position, request, meta } => {
                if let Some(row) = rows.get_mut(name).filter(|row| row.position == *position) {
                    row.request = *request;
                    row.more = More::of(*position, batch.position, meta.clone());
                }
            }
            Op::Unregister { name, position, .. } => {
                if rows.get(name).is_some_and(|row| row.position == *position) {
                    rows.remove(name);
                }
            }
            Op::HostGone { session: index } => {
                let gone = session(index);
                rows.retain(|_, row| row.session != gone);
            }
            Op::Open => {}
            Op::Reset => rows.clear(),
        }
    }
}
