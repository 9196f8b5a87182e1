//! The mix that all other scenarios begin with.

use std::collections::BTreeSet;

use super::Drag;
use super::{Faults, Profile, StoreFaults, Work};
use crate::rng::Rng;

/// A mix of everything: each kind of fault is there or not, and more or less often.
pub(super) fn standard(rng: &mut Rng) -> Profile {
    let mut some = |most: u64| if rng.below(3) == 0 { 0 } else { rng.below(most) + 1 };
    let faults = Faults {
        crash: some(8),
        start: some(10) + 4,
        pause: some(8),
        cut: some(8),
        block: some(8),
        isolate: some(3),
        outage: some(4),
        land: some(8) + 1,
        rate: some(2),
        ..Faults::default()
    };
    let store = StoreFaults {
        late: some(150),
        conflict: some(40),
        unknown_done: some(40),
        unknown_lost: some(40),
        unknown_later: some(40),
        unavailable: some(30),
        ..StoreFaults::default()
    };
    let work = Work {
        register: 10 + some(20),
        again: some(3),
        unregister: some(10),
        consistent: some(6),
        lookup: some(6),
        end: some(4),
        resign: some(2),
        leave: some(1),
        update: 5,
        start: 6,
        join: 3,
        acquire: 4,
        withdraw: 4,
        take: 6,
        ..Work::default()
    };
    Profile {
        nodes: 3,
        names: 1 + u8::try_from(rng.below(4)).unwrap_or(0),
        steps: 200,
        from_nothing: false,
        eager: rng.below(3) > 0,
        proof: rng.below(2) == 0,
        lane: if rng.below(8) == 0 { 4 } else { 64 },
        call: 30 + rng.below(150),
        fault: rng.below(60),
        tick: 5 + rng.below(60),
        work,
        faults,
        store,
        ppm: if rng.below(2) == 0 { 0 } else { 490 },
        budget: 1 + u32::try_from(rng.below(8)).unwrap_or(0),
        jump: if rng.below(4) == 0 { 3000 } else { 100 },
        long: 1,
        aim: 0,
        hold: 0,
        hold_sessions: false,
        hold_donors: 0,
        lag: 64 << 20,
        mourn: false,
        newer: BTreeSet::new(),
        sweep: 3000,
        drag: Drag::Nothing,
        most_ops: usize::MAX,
        permits: Vec::new(),
        own_names: 64,
        observers: 3,
        tells: true,
        offers: false,
    }
}
