//! The one actor of a node that others' endpoints talk to, over whichever session there is.
//!
//! Unnamed, so that no proxy of it can take a local name with it; found by its number, which its node says in the
//! handshake. It only takes casts, and takes each to its stream: it never waits. Without it no link gets anything, so it is watched as a part of the node.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use callsign_store::{Entropy, lock::lock};
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr};

use super::tunnel::{GateMessage, Tunnel};
use crate::{core::flow::Part, driver::tasks::Tasks};

type Tunnels = Arc<Mutex<BTreeMap<u128, Arc<Tunnel>>>>;

struct GateActor(Tasks);

impl Actor for GateActor {
    type Msg = GateMessage;
    type State = Tunnels;
    type Arguments = Tunnels;

    async fn pre_start(
        &self,
        _: ActorRef<GateMessage>,
        tunnels: Tunnels,
    ) -> Result<Tunnels, ActorProcessingErr> {
        Ok(tunnels)
    }

    async fn handle(
        &self,
        _: ActorRef<GateMessage>,
        GateMessage::Part(bytes): GateMessage,
        tunnels: &mut Tunnels,
    ) -> Result<(), ActorProcessingErr> {
        // Of a stream that has ended, or from somebody who guesses.
        let Some((stream, part)) = Part::get(bytes.into()) else { return Ok(()) };
        let tunnel = lock(tunnels).get(&stream).cloned();
        if let Some(tunnel) = tunnel {
            self.0.step(GATE, || tunnel.receive(part));
        }
        Ok(())
    }
}

/// What it is called among the parts of a node.
const GATE: &str = "the gate of links over a NodeServer";

/// A node's gate. Ends when dropped.
pub(super) struct Gate {
    actor: ActorRef<GateMessage>,
    may_end: Arc<AtomicBool>,
    tunnels: Tunnels,
    entropy: Entropy,
}

impl Gate {
    pub(super) async fn start(tasks: Tasks, entropy: Entropy) -> Result<Self, SpawnErr> {
        let (tunnels, may_end) = (Tunnels::default(), Arc::default());
        let (actor, running) = Actor::spawn(None, GateActor(tasks.clone()), tunnels.clone()).await?;
        tasks.watch("the life of the gate", running, Arc::clone(&may_end));
        Ok(Self { actor, may_end, tunnels, entropy })
    }

    pub(super) fn pid(&self) -> u64 {
        self.actor.get_id().pid()
    }

    /// A stream that takes what comes under a number that cannot be guessed.
    pub(super) fn tunnel(&self) -> Registered {
        let [high, low] = [(); 2].map(|()| u128::from(self.entropy.draw()));
        let (stream, tunnel) = ((high << 64) | low, Arc::new(Tunnel::default()));
        lock(&self.tunnels).insert(stream, tunnel.clone());
        Registered { stream, tunnel, tunnels: self.tunnels.clone() }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.may_end.store(true, SeqCst);
        self.actor.stop(None);
    }
}

/// A stream at the gate, until this is dropped.
pub(super) struct Registered {
    pub(super) stream: u128,
    pub(super) tunnel: Arc<Tunnel>,
    tunnels: Tunnels,
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.tunnels).remove(&self.stream);
        self.tunnel.break_off(None);
    }
}
