//! The suite of all oracles, over a pool whose replicas all have the same rows: as it is, and with a fence.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use callsign_store::ids::{ElectionName, MemberId};

use super::*;
use crate::{
    driver::conformance::{
        Authority, Player, Promise, Withheld,
        advising::{Bare, Dress, ElectionMember, Line, Lines, WithFence, withheld},
    },
    election_rows,
};

type Rows = Arc<Mutex<BTreeMap<ElectionMember, PoolRow>>>;

struct Pools<D> {
    rows: Rows,
    lines: Lines<D>,
    /// For all peers, in milliseconds: how clocks that differ take turns is what `c13` shows.
    now: Arc<AtomicU64>,
}

/// One peer's replica. It fails while it is cut off.
struct Replica {
    rows: Rows,
    line: Line,
}

impl Replica {
    fn reached(&self) -> Result<(), PoolFailed> {
        if self.line.is_cut() { Err(PoolFailed("cut off".to_owned())) } else { Ok(()) }
    }
}

impl Pool for Replica {
    async fn rows(&mut self) -> Result<Vec<PoolRow>, PoolFailed> {
        self.reached()?;
        let rows = self.rows.lock().unwrap();
        let here = rows.iter().filter(|((election, _), _)| *election == self.line.who.0);
        Ok(here.map(|(_, row)| row.clone()).collect())
    }

    async fn upsert(&mut self, row: PoolRow) -> Result<(), PoolFailed> {
        self.reached()?;
        self.rows.lock().unwrap().insert(self.line.who.clone(), row);
        Ok(())
    }
}

impl<D: Dress> Pools<D> {
    #[allow(clippy::unnecessary_wraps)] // as the others
    fn new() -> Option<Self> {
        let now = Arc::new(AtomicU64::new(1_780_000_000_000));
        Some(Self { rows: Arc::default(), lines: Lines::new(), now })
    }
}

impl<D: Dress> Authority for Pools<D> {
    type Oracle = D::Of<PoolOracle<Replica>>;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<Self::Oracle> {
        let (rows, now) = (self.rows.clone(), self.now.clone());
        let clock: WallClock = Arc::new(move || Duration::from_millis(now.load(Ordering::SeqCst)));
        let peer = |line| PoolOracle::new(Replica { rows, line }, 1, PoolTiming::default(), clock).unwrap();
        self.lines.start(election, member, peer)
    }

    async fn pass(&self, time: Duration) {
        self.now.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    fn takeover(&self) -> Duration {
        // Who leads stops a skew before its row expires, others start a skew after it; and they look every `recheck`.
        let PoolTiming { max_skew, recheck, .. } = PoolTiming::default();
        max_skew * 2 + recheck
    }

    async fn cut(&self, election: &ElectionName, member: &MemberId) {
        self.lines.cut(election, member);
    }

    async fn heal(&self, election: &ElectionName, member: &MemberId) {
        self.lines.heal(election, member);
    }

    fn withholds(&self) -> Vec<Withheld> {
        withheld::<D>(&[
            (
                Promise::Exclusive,
                "each peer ranks what its replica has; two that join at once see themselves first",
            ),
            (Promise::Record, "rows are heartbeats as well"),
        ])
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
