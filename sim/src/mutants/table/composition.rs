//! Planted in the composition of a node: what one core says, and another does not hear.

use crate::mutants::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "vacancy-kept-back",
        file: "registry/src/core/registry.rs",
        what: "Does not tell the member of a view in which nobody leads.",
        hazard: "release 0.1 (what broke was in glue)",
        scenario: "draining",
        within: 1_000,
    },
    Mutant {
        name: "loss-kept-back",
        file: "registry/src/core/registry.rs",
        what: "Does not tell the session that the store does not show what was committed.",
        hazard: "release 0.1 (what broke was in glue)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "nobody-is-confirmed",
        file: "registry/src/core/registry.rs",
        what: "Does not tell the links whose session is open.",
        hazard: "release 0.1 (what broke was in glue)",
        scenario: "links",
        within: 5_000,
    },
    Mutant {
        name: "resumed-without-elector",
        file: "registry/src/core/registry.rs",
        what: "Tells the member that the session resumed, and not the elector.",
        hazard: "release 0.1 (what broke was in glue)",
        scenario: "lapses",
        within: 1_000,
    },
];
