//! The suite of all oracles, over a pool whose replicas all have the same rows: as it is, and with a fence.

use std::{
    collections::{BTreeMap, BTreeSet},
    marker::PhantomData,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
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
type Rows = Arc<Mutex<BTreeMap<Who, Row>>>;

struct Pools<D> {
    rows: Rows,
    cut: Arc<Mutex<BTreeSet<Who>>>,
    /// For all peers, in milliseconds: how clocks that differ take turns is what `c13` shows.
    now: Arc<AtomicU64>,
    /// For the counter.
    store: MemoryStore,
    dress: PhantomData<D>,
}

/// One peer's replica. It fails while it is cut off.
struct Replica {
    who: Who,
    rows: Rows,
    cut: Arc<Mutex<BTreeSet<Who>>>,
}

impl Replica {
    fn reached(&self) -> Result<(), PoolFailed> {
        let is_cut = self.cut.lock().unwrap().contains(&self.who);
        if is_cut { Err(PoolFailed("cut off".to_owned())) } else { Ok(()) }
    }
}

impl Pool for Replica {
    async fn rows(&mut self) -> Result<Vec<Row>, PoolFailed> {
        self.reached()?;
        let rows = self.rows.lock().unwrap();
        let here = rows.iter().filter(|((election, _), _)| *election == self.who.0);
        Ok(here.map(|(_, row)| row.clone()).collect())
    }

    async fn upsert(&mut self, row: Row) -> Result<(), PoolFailed> {
        self.reached()?;
        self.rows.lock().unwrap().insert(self.who.clone(), row);
        Ok(())
    }
}

impl<D: Dress> Pools<D> {
    #[allow(clippy::unnecessary_wraps)] // as the others
    fn new() -> Option<Self> {
        let (rows, cut, store) = (Arc::default(), Arc::default(), MemoryStore::new());
        let now = Arc::new(AtomicU64::new(1_780_000_000_000));
        Some(Self { rows, cut, now, store, dress: PhantomData })
    }

    fn line(&self, (election, member): &Who) -> MemoryStore {
        self.store.connect(&format!("{election}/{member}"))
    }
}

impl<D: Dress> Authority for Pools<D> {
    type Oracle = D::Of<PoolOracle<Replica>>;

    fn start<'a>(
        &'a self,
        election: &'a ElectionName,
        member: &'a MemberId,
    ) -> BoxFuture<'a, Player<Self::Oracle>> {
        let who = (election.clone(), member.clone());
        let (line, now) = (self.line(&who), self.now.clone());
        let replica = Replica { who, rows: self.rows.clone(), cut: self.cut.clone() };
        let clock: WallClock = Arc::new(move || Duration::from_millis(now.load(Ordering::SeqCst)));
        let oracle = PoolOracle::new(replica, 1, PoolTiming::default(), clock).unwrap();
        std::future::ready(Player::new(D::dress(oracle, line), election, member)).boxed()
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.now.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    fn takeover(&self) -> Duration {
        // Who leads stops a skew before its row expires, others start a skew after it; and they look every `recheck`.
        let PoolTiming { max_skew, recheck, .. } = PoolTiming::default();
        max_skew * 2 + recheck
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

    fn withholds(&self) -> Vec<Withheld> {
        let mut withheld = without_a_fence::<D>();
        withheld.extend(
            [
                (
                    Promise::Exclusive,
                    "each peer ranks what its replica has; two that join at once see themselves first",
                ),
                (Promise::Record, "rows are heartbeats as well"),
            ]
            .map(|(promise, because)| Withheld { promise, because }),
        );
        withheld
    }
}

mod as_it_is {
    use super::*;
    election_rows!({ Pools::<Bare>::new() });
}

mod with_a_fence {
    use super::*;
    election_rows!({ Pools::<WithFence>::new() });
}
