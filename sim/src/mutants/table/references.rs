//! References to actors of other nodes.

use crate::mutants::Mutant;

const DESIGN: &str = "design (a remote reference ends when its actor ends)";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "unmonitored-for-all",
        file: "transport/src/core/ends.rs",
        what: "Monitors an actor no more when one of several links over which its end is to be told goes down.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
    Mutant {
        name: "asked-of-a-link-that-is-down",
        file: "transport/src/core/ends.rs",
        what: "Keeps what was asked over a link that is down.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
    Mutant {
        name: "watches-without-bound",
        file: "transport/src/core/ends.rs",
        what: "Has as many actors watched for a peer as it asks for.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
    Mutant {
        name: "one-peer-is-told",
        file: "transport/src/core/ends.rs",
        what: "Tells one peer of the end of an actor, and no other.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
    Mutant {
        name: "references-without-bound",
        file: "transport/src/core/held.rs",
        what: "Makes as many references as are asked for.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
    Mutant {
        name: "end-not-asked-for",
        file: "transport/src/core/held.rs",
        what: "Makes a reference, and does not ask to be told of the actor's end.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
    Mutant {
        name: "refusal-taken-for-an-end",
        file: "transport/src/core/held.rs",
        what: "Takes an actor whose node will not tell of its end for one that has ended.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
    Mutant {
        name: "end-not-remembered",
        file: "transport/src/core/held.rs",
        what: "Makes a reference again to an actor that is known to have ended.",
        hazard: DESIGN,
        scenario: "references",
        within: 1_000,
    },
];
