//! For tests of oracles that only advise: each as it is, and with a fence added.

use std::{
    collections::BTreeSet,
    marker::PhantomData,
    sync::{Arc, Mutex},
};

use callsign_store::{
    SharedStore,
    ids::{ClusterName, ElectionName, MemberId},
    memory::MemoryStore,
};

use super::{Player, Promise, TestedFence, Withheld};
use crate::{Oracle, driver::fenced::Fenced};

/// As it is, or with a fence.
pub(crate) trait Dress: Send + Sync + 'static {
    type Of<O: Oracle<Fence = ()>>: Oracle<Fence: TestedFence>;
    const IS_FENCED: bool;

    /// `line` is the member's connection to the store.
    fn dress<O: Oracle<Fence = ()>>(inner: O, line: MemoryStore) -> Self::Of<O>;
}

pub(crate) struct Bare;

impl Dress for Bare {
    type Of<O: Oracle<Fence = ()>> = O;
    const IS_FENCED: bool = false;

    fn dress<O: Oracle<Fence = ()>>(inner: O, _: MemoryStore) -> O {
        inner
    }
}

pub(crate) struct WithFence;

impl Dress for WithFence {
    type Of<O: Oracle<Fence = ()>> = Fenced<O>;
    const IS_FENCED: bool = true;

    fn dress<O: Oracle<Fence = ()>>(inner: O, line: MemoryStore) -> Fenced<O> {
        let store: SharedStore = std::sync::Arc::new(line);
        Fenced::new(inner, store, &ClusterName::new("rows").unwrap())
    }
}

/// Of which election, and who.
pub(crate) type ElectionMember = (ElectionName, MemberId);

/// The members' connections to what advises them, and to a store for the counter.
pub(crate) struct Lines<D> {
    cut: Arc<Mutex<BTreeSet<ElectionMember>>>,
    store: MemoryStore,
    dress: PhantomData<D>,
}

/// One member's, to what advises it.
pub(crate) struct Line {
    pub(crate) who: ElectionMember,
    cut: Arc<Mutex<BTreeSet<ElectionMember>>>,
}

impl Line {
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.lock().unwrap().contains(&self.who)
    }
}

impl<D: Dress> Lines<D> {
    pub(crate) fn new() -> Self {
        Self { cut: Arc::default(), store: MemoryStore::new(), dress: PhantomData }
    }

    fn to_store(&self, (election, member): &ElectionMember) -> MemoryStore {
        self.store.connect(&format!("{election}/{member}"))
    }

    /// Starts a member with an oracle that has this line.
    pub(crate) fn start<O: Oracle<Fence = ()>>(
        &self,
        election: &ElectionName,
        member: &MemberId,
        oracle: impl FnOnce(Line) -> O,
    ) -> Player<D::Of<O>> {
        let who = (election.clone(), member.clone());
        let store = self.to_store(&who);
        let oracle = D::dress(oracle(Line { who, cut: self.cut.clone() }), store);
        Player::new(oracle, election, member)
    }

    pub(crate) fn cut(&self, election: &ElectionName, member: &MemberId) {
        let who = (election.clone(), member.clone());
        self.to_store(&who).outage();
        self.cut.lock().unwrap().insert(who);
    }

    pub(crate) fn heal(&self, election: &ElectionName, member: &MemberId) {
        let who = (election.clone(), member.clone());
        self.to_store(&who).heal();
        self.cut.lock().unwrap().remove(&who);
    }
}

/// What an oracle does not promise, and why; and what is missing without a fence.
pub(crate) fn withheld<D: Dress>(own: &[(Promise, &'static str)]) -> Vec<Withheld> {
    let fence = if D::IS_FENCED { &[][..] } else { &[Promise::Fenced, Promise::BallotPerRefresh][..] };
    let because = "it only advises; with a fence added it is run, too";
    let missing = fence.iter().map(|&promise| (promise, because));
    missing.chain(own.iter().copied()).map(|(promise, because)| Withheld { promise, because }).collect()
}
