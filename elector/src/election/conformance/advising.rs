//! For tests of oracles that only advise: each as it is, and with a fence added.

use super::{Promise, Token, Withheld};
use crate::{
    election::{Oracle, fenced::Fenced},
    ids::ClusterName,
    store::{SharedStore, memory::MemoryStore},
};

/// As it is, or with a fence.
pub(in crate::election) trait Dress: Send + Sync + 'static {
    type Of<O: Oracle<Fence = ()>>: Oracle<Fence: Token>;
    const IS_FENCED: bool;

    /// `line` is the member's connection to the store.
    fn dress<O: Oracle<Fence = ()>>(inner: O, line: MemoryStore) -> Self::Of<O>;
}

pub(in crate::election) struct Bare;

impl Dress for Bare {
    type Of<O: Oracle<Fence = ()>> = O;
    const IS_FENCED: bool = false;

    fn dress<O: Oracle<Fence = ()>>(inner: O, _: MemoryStore) -> O {
        inner
    }
}

pub(in crate::election) struct WithFence;

impl Dress for WithFence {
    type Of<O: Oracle<Fence = ()>> = Fenced<O>;
    const IS_FENCED: bool = true;

    fn dress<O: Oracle<Fence = ()>>(inner: O, line: MemoryStore) -> Fenced<O> {
        let store: SharedStore = std::sync::Arc::new(line);
        Fenced::new(inner, store, &ClusterName::new("rows").unwrap())
    }
}

/// What is missing without a fence.
pub(in crate::election) fn without_a_fence<D: Dress>() -> Vec<Withheld> {
    let promises = if D::IS_FENCED { &[][..] } else { &[Promise::Fenced, Promise::BallotPerRefresh][..] };
    let because = "it only advises; with a fence added it is run, too";
    promises.iter().map(|&promise| Withheld { promise, because }).collect()
}
