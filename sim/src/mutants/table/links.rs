//! Links between nodes.

use crate::mutants::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "old-link-preferred",
        file: "transport/src/core/links.rs",
        what: "Refuses a new incarnation of a node while the link to the former one is up.",
        hazard: "roadmap; election 4.1 A1",
        scenario: "links",
        within: 1_000,
    },
    Mutant {
        name: "superseded-incarnation-returns",
        file: "transport/src/core/links.rs",
        what: "Lets an incarnation link up again that gave way to a newer one.",
        hazard: "election 4.1 Z (CURATOR-696)",
        scenario: "links",
        within: 1_000,
    },
    Mutant {
        name: "former-link-kept",
        file: "transport/src/core/links.rs",
        what: "Takes a new link to a node up without taking the former one down.",
        hazard: "ractor_cluster; style B6 (network)",
        scenario: "clocks",
        within: 1_000,
    },
];
