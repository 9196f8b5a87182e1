//! The suite of all oracles, over a system that is followed: as it is, and with a fence.

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::{Arc, Mutex},
};

use futures::{FutureExt, future::BoxFuture};

use super::*;
use crate::{
    election::conformance::{
        Authority, Player, Promise, Withheld,
        advising::{Bare, Dress, WithFence, without_a_fence},
    },
    election_rows,
    ids::ElectionName,
    store::memory::MemoryStore,
};

type Who = (ElectionName, MemberId);

/// Somebody else's elections: who leads which, and whom it does not answer.
struct Theirs<D> {
    leaders: Arc<Mutex<BTreeMap<ElectionName, MemberId>>>,
    cut: Arc<Mutex<BTreeSet<Who>>>,
    /// For the counter.
    store: MemoryStore,
    dress: PhantomData<D>,
}

/// What one member is told of one election.
struct Line {
    who: Who,
    leaders: Arc<Mutex<BTreeMap<ElectionName, MemberId>>>,
    cut: Arc<Mutex<BTreeSet<Who>>>,
}

impl Source for Line {
    async fn leader(&mut self) -> Result<Leads, Unclear> {
        if self.cut.lock().unwrap().contains(&self.who) {
            return Err(Unclear("cut off".to_owned()));
        }
        let (election, me) = &self.who;
        Ok(match self.leaders.lock().unwrap().get(election) {
            Some(leader) if leader == me => Leads::Here,
            Some(leader) => Leads::Elsewhere(Some(leader.clone())),
            None => Leads::Nobody,
        })
    }
}

impl<D: Dress> Theirs<D> {
    #[allow(clippy::unnecessary_wraps)] // as the others
    fn new() -> Option<Self> {
        let (leaders, cut, store) = (Arc::default(), Arc::default(), MemoryStore::new());
        Some(Self { leaders, cut, store, dress: PhantomData })
    }

    fn line(&self, (election, member): &Who) -> MemoryStore {
        self.store.connect(&format!("{election}/{member}"))
    }
}

impl<D: Dress> Authority for Theirs<D> {
    type Oracle = D::Of<FollowOracle<Line>>;

    fn start<'a>(
        &'a self,
        election: &'a ElectionName,
        member: &'a MemberId,
    ) -> BoxFuture<'a, Player<Self::Oracle>> {
        let who = (election.clone(), member.clone());
        let (line, leaders, cut) = (self.line(&who), self.leaders.clone(), self.cut.clone());
        let follows = FollowOracle::new(Line { who, leaders, cut }, Duration::from_secs(9));
        std::future::ready(Player::new(D::dress(follows, line), election, member)).boxed()
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(time).boxed()
    }

    fn takeover(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn cut<'a>(&'a self, election: &'a ElectionName, member: &'a MemberId) -> BoxFuture<'a, ()> {
        let who = (election.clone(), member.clone());
        self.line(&who).outage();
        self.cut.lock().unwrap().insert(who);
        std::future::ready(()).boxed()
    }

    fn heal<'a>(&'a self, election: &'a ElectionName, member: &'a MemberId) -> BoxFuture<'a, ()> {
        let who = (election.clone(), member.clone());
        self.line(&who).heal();
        self.cut.lock().unwrap().remove(&who);
        std::future::ready(()).boxed()
    }

    fn elect<'a>(&'a self, election: &'a ElectionName, member: &'a MemberId) -> BoxFuture<'a, ()> {
        self.leaders.lock().unwrap().insert(election.clone(), member.clone());
        std::future::ready(()).boxed()
    }

    fn withholds(&self) -> Vec<Withheld> {
        let mut withheld = without_a_fence::<D>();
        withheld.extend(
            [
                (Promise::Exclusive, "the system that is followed decides: see j12 for what that costs"),
                (Promise::FirstCome, "the system that is followed decides; a claim only asks it"),
                (Promise::Expires, "who still leads there leads here; the campaign ends its own trust"),
                (Promise::GivesBack, "there is nothing to give back: see j11"),
                (
                    Promise::Namesakes,
                    "who leads there is the process that is asked, whatever it is called here",
                ),
                (Promise::NamesTheHolder, "of a term elsewhere only the member is known"),
                (Promise::Record, "the system's records are its own"),
            ]
            .map(|(promise, because)| Withheld { promise, because }),
        );
        withheld
    }
}

mod as_it_is {
    use super::*;
    election_rows!((start_paused = true) { Theirs::<Bare>::new() });
}

mod with_a_fence {
    use super::*;
    election_rows!((start_paused = true) { Theirs::<WithFence>::new() });
}
