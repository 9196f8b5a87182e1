//! A child that runs on exactly one of the nodes on which it was set up, and what callers need to reach it.
//!
//! ```no_run
//! # use callsign::{Config, NameRefOptions, Registry};
//! # use ractor::{Actor, ActorProcessingErr, ActorRef};
//! use callsign::{Singleton, election::{Fence, Leadership}};
//!
//! # #[callsign::message("shop.report/1")] enum Report { Write(String) }
//! struct Reports { leadership: Leadership<Fence> }
//! # impl Actor for Reports {
//! #     type Msg = Report; type State = (); type Arguments = ();
//! #     async fn pre_start(&self, _: ActorRef<Report>, (): ()) -> Result<(), ActorProcessingErr> { Ok(()) }
//! #     async fn handle(&self, _: ActorRef<Report>, _: Report, (): &mut ()) -> Result<(), ActorProcessingErr> {
//! #         let _fence = self.leadership.check()?; Ok(()) }
//! # }
//!
//! async fn run(registry: &Registry) -> Result<(), Box<dyn std::error::Error>> {
//!     let singleton = Singleton::builder(registry, "reports")               // the same on every node
//!         .leader(|lead| (Reports { leadership: lead.leadership }, ()))
//!         .start()
//!         .await?;
//!     let reports = singleton.name_ref(NameRefOptions::default())?;         // wherever it runs, or will
//!     reports.cast(Report::Write("monthly".into())).await?;
//!     singleton.stop().await?;                                              // another node takes over
//!     Ok(())
//! }
//! ```
//!
//! Who leads is decided by an oracle and a [`Campaign`]; nothing here has a say in it. The supervisor is a `ractor` actor
//! and the campaign's role: it starts the leader child when there is a grant, and ends it when the term is over.
//!
//! Promises:
//! - *one child*: on a node, the next child starts when the former is down, dying ones included: follower and leader child
//!   never meet, nor do the children of two terms;
//! - *in time*: a leader child is down, or was aborted, before another node can be granted the leadership by the end of the
//!   lease, and before this node gives it back;
//! - *its name*: the leader child is registered under the singleton's name as soon as that is free, and gives it up
//!   before it ends, when it ends cleanly.
//!
//! Does not promise that an aborted child has ended. It is killed and its task aborted, which takes effect at its next
//! await. **A child that blocks its thread cannot be ended from outside**: a loop without an await, a blocking call. Its
//! [`Leadership`] has lapsed before, so whatever it does after a `check` is refused, and a sink that compares the fence
//! refuses the rest. While it is there this node starts no other child and does not give the leadership back, so another node
//! leads when the lease has run out, and not before; with an oracle that knows no clock, not before it has ended. What a child
//! gave to `spawn_blocking`, or to tasks of its own, is not seen at all. Code that cannot live with that belongs into a process of its
//! own (`callsign run --singleton`).

mod builder;
mod child;
mod events;
mod hand_over;
mod registrar;
mod role;
mod said;
mod supervisor;

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use callsign_election::{
    Campaign, Leadership, LeaseOracle, Oracle,
    campaign::{CampaignStatus, End, StopError, Transitions},
};
use callsign_store::{ids::Epoch, in_full, logged};
use callsign_transport::RemoteMessage;
use futures::{FutureExt, future::BoxFuture};
use ractor::ActorCell;

pub use self::{
    builder::{SingletonBuilder, SingletonError, SingletonPlan},
    child::{Follow, Lead},
    events::{SingletonEvent, SingletonEvents},
    hand_over::MAX_HAND_OVER,
};
use crate::{
    core::name::BadName,
    driver::{
        name_ref::{NameRef, NameRefOptions},
        node::Ends,
        oracle::Monitored,
        registry::Registry,
    },
};
#[cfg(test)]
pub(crate) use hand_over::golden;

struct Inner<O: Oracle> {
    campaign: Campaign<Monitored<O>>,
    supervisor: ActorCell,
    events: events::Publisher,
    registry: Registry,
    /// Under which the leader child is registered.
    name_of_child: Option<String>,
    budget: Duration,
}

impl<O: Oracle> Inner<O> {
    async fn stop(&self) -> Result<(), StopError> {
        let stopped = self.campaign.stop().await;
        let patience = self.budget.saturating_mul(2);
        match self.supervisor.wait(Some(patience)).await {
            Ok(()) => stopped,
            Err(_) => Err(StopError::RoleStuck),
        }
    }
}

impl<O: Oracle> Ends for Inner<O> {
    fn end(self: Arc<Self>) -> BoxFuture<'static, ()> {
        async move {
            if let Err(error) = self.stop().await {
                logged!(warn, error = %in_full(&error), "a singleton of a node that leaves");
            }
        }
        .boxed()
    }
}

/// A singleton, and this node's part in it. Cheap to clone; when the last clone is dropped it stops, but nobody waits for
/// that.
pub struct Singleton<O: Oracle, M> {
    inner: Arc<Inner<O>>,
    _messages: PhantomData<fn(M)>,
}

impl<O: Oracle, M> Clone for Singleton<O, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), _messages: PhantomData }
    }
}

impl<O: Oracle, M> fmt::Debug for Singleton<O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Singleton").field("phase", &self.status().phase).finish_non_exhaustive()
    }
}

impl Singleton<LeaseOracle, ()> {
    /// A singleton of this name, on every node that sets it up in the same way: 1 to 100 of `A-Z a-z 0-9 . _ -`.
    ///
    /// It is the name of the election, and, unless set otherwise, that under which the leader child is registered. An election is of the
    /// whole cluster: in two registries, two singletons need two names. By default the leadership is a lease of 10 s in the registry's own store, for whoever comes first, as long as it refreshes.
    pub fn builder(registry: &Registry, name: &str) -> SingletonBuilder<LeaseOracle> {
        SingletonBuilder::new(registry, name)
    }
}

impl<O: Oracle, M> Singleton<O, M> {
    #[cfg(test)]
    pub(crate) fn campaign(&self) -> &Campaign<Monitored<O>> {
        &self.inner.campaign
    }

    /// What tells whether this node has the leadership. The leader child has it, too.
    pub fn leadership(&self) -> Leadership<O::Fence> {
        self.inner.campaign.leadership()
    }

    /// The state, then every change between leading and following, in order.
    pub fn transitions(&self) -> Transitions<O::Fence> {
        self.inner.campaign.subscribe()
    }

    /// Every event on this node from now on, in order: of the election, of the children, of the monitor.
    pub fn subscribe(&self) -> SingletonEvents {
        self.inner.events.subscribe()
    }

    /// A look at the election. Does not wait for anything.
    pub fn status(&self) -> CampaignStatus<O::Fence> {
        self.inner.campaign.status()
    }

    /// Has this node give up the leadership, if it has it: in this epoch, or whichever. Returns at once. The leader child ends
    /// cleanly, and another node leads if there is one.
    pub fn request_resign(&self, epoch: Option<Epoch>) {
        self.inner.campaign.request_resign(epoch);
    }

    /// Hands something to the oracle. Whether it was taken.
    pub fn info(&self, info: O::Info) -> bool {
        self.inner.campaign.info(info)
    }

    /// The supervisor: children are linked to it. Whoever stops it stops the singleton on this node.
    pub fn supervisor(&self) -> ActorCell {
        self.inner.supervisor.clone()
    }

    /// Ends this node's part: the leader child ends cleanly, the leadership is given back, the follower child ends. A node that
    /// [drains](crate::Registry::drain) does it by itself.
    ///
    /// Takes at most four times the stop budget, which only a child takes that blocks its thread, or twice the stop budget and the
    /// tries to give the leadership back. May be called again.
    pub async fn stop(&self) -> Result<(), StopError> {
        self.inner.stop().await
    }

    /// Waits until the campaign has ended, by [`stop`](Self::stop) or, with `OnLoss::Stop`, by a loss. The supervisor ends
    /// right after it, with the reason normal.
    pub async fn ended(&self) -> Result<End, StopError> {
        self.inner.campaign.ended().await
    }
}

impl<O: Oracle, M: RemoteMessage> Singleton<O, M> {
    /// A reference to the leader child, wherever it runs: messages wait while nobody does. Fails if it is registered
    /// under no name.
    pub fn name_ref(&self, options: NameRefOptions) -> Result<NameRef<M>, BadName> {
        let name = self.inner.name_of_child.as_deref().unwrap_or_default();
        self.inner.registry.name_ref(name, options)
    }
}
