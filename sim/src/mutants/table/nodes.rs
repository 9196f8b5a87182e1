//! Planted in drivers: what release 0.1 did, and what only whole nodes under seeds can see.

use crate::mutants::{Mutant, table::mutant};

const OUTSIDE: &str = "release 0.1 (found from outside)";

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("refusal-takes-listeners", "registry/src/driver/actor/callers.rs")
        .does("Forgets the listeners of an actor when another name is refused to it.")
        .found("nodes", 2_000, OUTSIDE),
    mutant("release-takes-listeners", "registry/src/driver/actor/callers.rs")
        .does("Forgets the listeners of an actor when it gives up another name.")
        .found("nodes", 2_000, OUTSIDE),
    mutant("joined-while-lapsed", "registry/src/core/node.rs")
        .does("Tells a registry that is joined while the session is lapsed nothing of the session, then or later.")
        .found("nodes", 2_000, OUTSIDE),
    mutant("sent-by-bare-name", "registry/src/driver/actor/effects.rs")
        .does("Sends what the member asked for to whoever has the node's name by now.")
        .found("nodes", 2_000, "DESIGN 3 (each for the link and incarnation for which it was asked); seed 280"),
    mutant("half-a-node-goes-on", "store/src/driver/supervision.rs")
        .does("Lets a listener that panics end the member, and the rest of the node go on without it.")
        .found("nodes", 2_000, OUTSIDE),
];
