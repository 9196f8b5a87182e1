//! Planted in drivers: what release 0.1 did, and what only whole nodes under seeds can see.

use crate::mutants::Mutant;

const OUTSIDE: &str = "release 0.1 (found from outside)";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "refusal-takes-listeners",
        file: "registry/src/driver/actor/callers.rs",
        what: "Forgets the listeners of an actor when another name is refused to it.",
        hazard: OUTSIDE,
        scenario: "nodes",
        within: 2_000,
    },
    Mutant {
        name: "release-takes-listeners",
        file: "registry/src/driver/actor/callers.rs",
        what: "Forgets the listeners of an actor when it gives up another name.",
        hazard: OUTSIDE,
        scenario: "nodes",
        within: 2_000,
    },
    Mutant {
        name: "joined-while-lapsed",
        file: "registry/src/core/node.rs",
        what: "Tells a registry that is joined while the session is lapsed nothing of the session, then or later.",
        hazard: OUTSIDE,
        scenario: "nodes",
        within: 2_000,
    },
    Mutant {
        name: "half-a-node-goes-on",
        file: "store/src/driver/supervision.rs",
        what: "Lets a listener that panics end the member, and the rest of the node go on without it.",
        hazard: OUTSIDE,
        scenario: "nodes",
        within: 2_000,
    },
];
