//! A store that goes back behind what it acknowledged.

use crate::mutants::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "lost-nonce-not-compared",
        file: "elector/src/past.rs",
        what: "Takes a log that grew back to the same position for the one that was lost.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "no-wait-at-the-join",
        file: "elector/src/elector/lineage.rs",
        what: "Joins a registry of another lineage at once, while somebody may trust what was lost.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "raises-a-day-late",
        file: "elector/src/session/lineage.rs",
        what: "Raises the lineage although this node was not trusted for so long that nobody trusts what it knew.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "raised-without-what-showed-it",
        file: "elector/src/session/lineage.rs",
        what: "Raises the lineage without checking that what showed the loss is still so.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "counted-across-lineages",
        file: "elector/src/lineage.rs",
        what: "Goes on counting from what the store shows, in another lineage too.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "message-of-any-lineage",
        file: "registry/src/member/lineage.rs",
        what: "Takes what is said of an epoch of a former lineage.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "applied-not-told",
        file: "registry/src/member/lineage.rs",
        what: "Does not tell the elector what was applied, so that its loss is not noticed.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "base-on-what-is-left",
        file: "registry/src/replica.rs",
        what: "Begins anew with the rows of the lost log in its table.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
];
