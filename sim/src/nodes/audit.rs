//! What nodes say of a registry, looked at again and again, and held against each other.
#![allow(clippy::disallowed_methods)] // time passes here

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    sync::Mutex,
    time::Duration,
};

use callsign::{LookupError, Registry};
use callsign_store::lock::lock;
use foldhash::quality::FixedState;
use tokio::time::sleep;

use super::{life::Life, world::NodesWorld};
use crate::histories::{Journal, clients::Site, event::Event};

/// Between two looks of an audit.
const AUDIT_INTERVAL: Duration = Duration::from_millis(80);
/// So many of them for each look at all that a replica says.
const LOOKS_BETWEEN_REPLICAS: u32 = 5;

/// What nodes have said of one registry.
#[derive(Debug, Default)]
pub struct NodesSaid {
    /// The life that led in each epoch.
    led: Mutex<BTreeMap<u64, String>>,
    /// What a replica says at each position, by a number that stands for it, and whose it was.
    states: Mutex<BTreeMap<u64, (u64, String)>>,
}

/// Looks at what the node says of itself, again and again.
pub async fn audit(world: &NodesWorld, said: &NodesSaid, life: &Life, site: &Site) {
    let (mut told, mut leads, mut replica) = (Tellings::default(), Leads::default(), ReplicaAudit::default());
    loop {
        for _ in 0..LOOKS_BETWEEN_REPLICAS {
            sleep(AUDIT_INTERVAL).await;
            told.look(world, life, site);
            leads.look(world, said, life, &site.registry);
        }
        replica.look(world, said, life, &site.registry);
    }
}

/// The holder of a name is told, or stopped, before a read says that the session has lapsed.
#[derive(Default)]
struct Tellings {
    may_be_lapsed: bool,
    late: BTreeSet<u64>,
}

impl Tellings {
    fn look(&mut self, world: &NodesWorld, life: &Life, site: &Site) {
        let is_lapsed = matches!(site.registry.lookup(""), Err(LookupError::Lapsed { .. }));
        let stands_still = life.stands_still();
        // What stands still says nothing, though its session may be lost meanwhile.
        let may_be_lapsed = is_lapsed || stands_still;
        if std::mem::replace(&mut self.may_be_lapsed, may_be_lapsed) != may_be_lapsed {
            site.journal.write(&Event::Lapsed { at: life.now() });
        }
        // A member that stands still tells nobody.
        if !is_lapsed || stands_still {
            self.late.clear();
            return;
        }
        let granted = lock(&site.granted).clone();
        let untold: BTreeMap<u64, String> =
            granted.iter().filter_map(|acting| Some((acting.number, acting.should_be_told()?))).collect();
        let holders = granted.len() as u64;
        world.counts.checked("holders of a lapsed node that have to be told or stopped", holders);
        // One that was to be stopped may take a moment.
        if let Some((actor, name)) = untold.iter().find(|(actor, _)| self.late.contains(*actor)) {
            let who = &life.who;
            world.breach(format!(
                "lapse: actor {actor} of {who} holds {name}, and was neither told nor stopped"
            ));
        }
        self.late = untold.into_keys().collect();
    }
}

/// P2: in an epoch one life of one node serves as the leader. What a node knows of epochs never goes back.
#[derive(Default)]
struct Leads {
    epoch: u64,
    led: Option<u64>,
}

impl Leads {
    fn look(&mut self, world: &NodesWorld, said: &NodesSaid, life: &Life, registry: &Registry) {
        let status = registry.status();
        let epoch = status.epoch.0;
        if epoch < self.epoch {
            world.breach(format!("P2: {} knew of epoch {}, and now of {epoch}", life.who, self.epoch));
        }
        self.epoch = epoch;
        if status.leads && self.led != Some(epoch) {
            self.led = Some(epoch);
            let first = lock(&said.led).entry(epoch).or_insert_with(|| life.who.clone()).clone();
            world.counts.checked("epochs with one leader", 1);
            if first != life.who {
                world.breach(format!("P2: {first} and {} both lead in epoch {epoch}", life.who));
            }
        }
    }
}

/// P2 and P5: every replica is a prefix of one log, so that at one position all say the same.
#[derive(Default)]
struct ReplicaAudit {
    position: u64,
}

impl ReplicaAudit {
    fn look(&mut self, world: &NodesWorld, said: &NodesSaid, life: &Life, registry: &Registry) {
        let position = registry.status().position.0;
        if position == self.position {
            return;
        }
        let Ok(names) = registry.names() else { return };
        self.position = position;
        // In whatever order.
        let ours = names.iter().fold(0, |sum: u64, name| {
            let token = registry.lookup(name).ok().flatten().map_or(0, |entry| entry.token().0);
            sum.wrapping_add(FixedState::with_seed(token).hash_one(&**name))
        });
        let mut first = lock(&said.states);
        let (theirs, who) = first.entry(position).or_insert_with(|| (ours, life.who.clone()));
        if *who == life.who {
            return;
        }
        world.counts.checked("positions at which replicas are alike", 1);
        if *theirs != ours {
            let who = who.clone();
            drop(first);
            world.breach(format!(
                "P5: at position {position} {} says something else than {who} did",
                life.who
            ));
        }
    }
}
