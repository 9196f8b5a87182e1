//! Lookups, against a bare map of the same names in the same process.

use std::{hint::black_box, sync::Arc};

use anyhow::{Context, Result, ensure};
use callsign::{Entry, Incarnation, Kind, Name, NodeName, Position, Registry, Select, SessionNumber};
use callsign_store::ids::SessionId;
use dashmap::DashMap;

use crate::{
    commands::bench::orders::{Lookups, Names},
    measure::{now_ns, quantile, rounded},
};

/// What a registry keeps for a name.
pub(super) struct Row {
    position: Position,
    session: Arc<SessionId>,
    #[expect(dead_code)] // for its size only
    request: u64,
    actor: u64,
    kind: Kind,
}

/// Of the same hasher as the registry's.
pub(super) type Bare = DashMap<Name, Row, foldhash::quality::RandomState>;

/// Measures in rounds, each of all kinds, so that all see the same machine.
pub(super) fn measure(
    registry: &Registry,
    local: &Names,
    remote: &Names,
    rounds: u32,
    each: u32,
) -> Result<Lookups> {
    let bare = bare(registry)?;
    let look_up = |name: &str| registry.lookup(name).ok().flatten();
    let get = |name: &str| bare.get(name).map(|row| Copied::of(&row));
    let [local, remote] = [local, remote].map(listed);
    ensure!(!local.is_empty() && !remote.is_empty(), "there are no names to look up");
    for name in local.iter().chain(&remote) {
        ensure!(look_up(name).map(|entry| Copied::from(&entry)) == get(name), "{name} is not as registered");
    }

    let mut random = 0x5eed;
    let mut samples = [const { Vec::new() }; 3];
    for round in 0..rounds {
        // Who comes second finds the names in the processor's caches: they take turns.
        for turn in [round % 2, (round + 1) % 2] {
            if turn == 0 {
                samples[0].push(time(&local, each, &mut random, look_up));
                samples[1].push(time(&remote, each, &mut random, look_up));
            } else {
                samples[2].push(time(&local, each, &mut random, get));
                samples[2].push(time(&remote, each, &mut random, get));
            }
        }
    }
    let [local, remote, bare] = samples.map(|mut samples| quantile(&mut samples, 0.5).map(rounded));
    let missing = "no rounds";
    Ok(Lookups {
        local: local.context(missing)?,
        remote: remote.context(missing)?,
        bare: bare.context(missing)?,
    })
}

/// Nanoseconds for each of so many pages of names of a prefix, from random ones on.
pub(super) fn pages(registry: &Registry, names: &Names, limit: usize, pages: u32) -> Result<u64> {
    let mut random = 0x5eed_u64;
    let start = now_ns();
    for _ in 0..pages {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = names.from + u32::try_from(random >> 32).unwrap_or(0) % names.len();
        let select = Select::prefix(&names.prefix).after(names.name(number)).limit(limit);
        black_box(registry.select(&select)?);
    }
    Ok((now_ns() - start) / u64::from(pages.max(1)))
}

pub(super) fn listed(names: &Names) -> Vec<Name> {
    (names.from..names.to).map(|number| names.name(number).into()).collect()
}

pub(super) fn bare(registry: &Registry) -> Result<Bare> {
    let map = Bare::default();
    // Shared by all rows of a session, as in the replica.
    let mut sessions: Vec<Arc<SessionId>> = Vec::new();
    for name in registry.names()? {
        let Some(entry) = registry.lookup(&name)? else { continue };
        let (node, incarnation, number) = (entry.node().clone(), entry.incarnation(), entry.session());
        let session = SessionId { node, incarnation, number };
        let known = sessions.iter().find(|known| ***known == session).cloned();
        let session = known.unwrap_or_else(|| {
            sessions.push(Arc::new(session));
            sessions[sessions.len() - 1].clone()
        });
        let (position, actor, kind) = (entry.token(), entry.actor().unwrap_or(0), entry.kind());
        let row = Row { position, session, request: 0, actor, kind };
        map.insert(name, row);
    }
    Ok(map)
}

/// What a lookup copies out of a row, as an entry has it.
#[derive(PartialEq)]
pub(super) struct Copied {
    node: NodeName,
    incarnation: Incarnation,
    session: SessionNumber,
    actor: u64,
    kind: Kind,
    token: Position,
}

impl Copied {
    pub(super) fn of(row: &Row) -> Self {
        Self {
            node: row.session.node.clone(),
            incarnation: row.session.incarnation,
            session: row.session.number,
            actor: row.actor,
            kind: row.kind,
            token: row.position,
        }
    }
}

impl From<&Entry> for Copied {
    fn from(entry: &Entry) -> Self {
        Self {
            node: entry.node().clone(),
            incarnation: entry.incarnation(),
            session: entry.session(),
            actor: entry.actor().unwrap_or(0),
            kind: entry.kind(),
            token: entry.token(),
        }
    }
}

/// Nanoseconds for each of so many lookups of random names.
pub(super) fn time<T>(names: &[Name], lookups: u32, random: &mut u64, look_up: impl Fn(&str) -> T) -> f64 {
    let start = now_ns();
    for _ in 0..lookups {
        // Lehmer's generator: a multiplication, next to what is measured.
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let index = (u128::from(*random) * names.len() as u128) >> 64;
        black_box(look_up(&names[usize::try_from(index).unwrap_or(0)]));
    }
    #[expect(clippy::cast_precision_loss)] // of a sample, not of a date
    let elapsed = (now_ns() - start) as f64;
    elapsed / f64::from(lookups)
}
