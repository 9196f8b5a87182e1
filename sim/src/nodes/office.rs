//! A singleton that the nodes take turns to lead. Before each act it asks whether it leads; what asks it for what it leaves panics
//! now and then.
#![allow(clippy::disallowed_methods)] // time passes here

use std::{sync::Arc, time::Duration};

use callsign::{
    RactorClusterMessage, Registry, Singleton,
    election::{Fence, Leadership, Timing},
    remote_message,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::sleep;

use super::{life::Life, world::NodesWorld};
use crate::{
    histories::{Journal, acting::PANIC, event::Event},
    rng::Rng,
};

/// Between two acts.
const ACT_EVERY: Duration = Duration::from_millis(200);
/// How long what it leaves is waited for.
const LEAVES_WITHIN: Duration = Duration::from_millis(300);
/// Before it is offered again.
const CAMPAIGN_AGAIN: Duration = Duration::from_millis(500);
/// After how long the leader is asked to resign, at most.
const TERM: Duration = Duration::from_secs(12);

#[derive(Debug, RactorClusterMessage)]
enum OfficeWork {
    Now,
}
remote_message!(OfficeWork, "callsign.nodes.work/1");

struct Works {
    life: Arc<Life>,
    leadership: Leadership<Fence>,
}

impl Actor for Works {
    type Msg = OfficeWork;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<OfficeWork>, (): ()) -> Result<(), ActorProcessingErr> {
        myself.send_interval(ACT_EVERY, || OfficeWork::Now);
        Ok(())
    }

    async fn handle(
        &self,
        me: ActorRef<OfficeWork>,
        OfficeWork::Now: OfficeWork,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if self.life.is_closed() {
            me.stop(None);
            return Ok(());
        }
        let from = self.life.now();
        if let Ok(fence) = self.leadership.check() {
            self.life.write(&Event::Led { from, to: self.life.now(), epoch: fence.epoch.0 });
        }
        Ok(())
    }
}

/// Takes part in the election, and gives the term back now and then.
pub async fn offer(world: &NodesWorld, life: &Arc<Life>, registry: &Registry, seed: u64) {
    let mut rng = Rng::new(seed);
    let timing = Timing::for_lease(world.plan.lease);
    loop {
        let (leads, leaves) = (life.clone(), life.clone());
        let (panics, later) = (rng.per_mille(500), rng.per_mille(500));
        let singleton = Singleton::builder(registry, "office")
            .leader(move |lead| (Works { life: leads.clone(), leadership: lead.leadership }, ()))
            .hand_over(LEAVES_WITHIN, move |_| {
                let leaves = leaves.clone();
                let panic = move || {
                    leaves.note("a hand-over function panics");
                    panic!("{PANIC}");
                };
                if panics && !later {
                    panic();
                }
                async move {
                    if panics {
                        panic();
                    }
                    Some(vec![7; 16])
                }
            })
            .registered_as(None)
            .timing(timing);
        match singleton.start().await {
            Ok(singleton) => {
                let term = Duration::from_secs(1) + rng.duration(TERM);
                tokio::select! {
                    biased;
                    ended = singleton.ended() => life.say(&format!("its singleton has ended: {ended:?}")),
                    () = sleep(term) => {
                        // Stopped, and offered anew: what it leaves is asked for.
                        let stopped = singleton.stop().await;
                        life.say(&format!("its singleton is stopped: {stopped:?}"));
                    }
                }
            }
            Err(error) => life.say(&format!("no singleton: {error}")),
        }
        sleep(CAMPAIGN_AGAIN).await;
    }
}
