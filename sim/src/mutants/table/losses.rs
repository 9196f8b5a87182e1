//! A store that goes back behind what it acknowledged.

use crate::mutants::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "lost-nonce-not-compared",
        file: "elector/src/core/past.rs",
        what: "Takes a log that grew back to the same position for the one that was lost.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "traces/log-grew-back",
        within: 1,
    },
    Mutant {
        name: "no-wait-at-the-join",
        file: "elector/src/core/elector/lineage.rs",
        what: "Joins a registry of another lineage at once, while somebody may trust what was lost.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "raises-a-day-late",
        file: "elector/src/core/session/lineage.rs",
        what: "Raises the lineage although this node was not trusted for so long that nobody trusts what it knew.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "counted-across-lineages",
        file: "elector/src/core/lineage.rs",
        what: "Goes on counting from what the store shows, in another lineage too.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 1_000,
    },
    Mutant {
        name: "raised-while-leaving",
        file: "elector/src/core/session/lineage.rs",
        what: "Opens another session when a raise is answered, though the node leaves meanwhile.",
        hazard: "seed 1550 of `went-back`",
        scenario: "went-back",
        within: 4_000,
    },
    Mutant {
        name: "epoch-of-the-lost-log",
        file: "registry/src/core/replica.rs",
        what: "Takes nothing of an epoch below that of the log that was lost, though nobody raised the lineage.",
        hazard: "seed 7778 of `went-back`",
        scenario: "went-back",
        within: 20_000,
    },
    Mutant {
        name: "versions-kept",
        file: "elector/src/core/session/observe.rs",
        what: "Takes what it saw of others in the lost store for newer than what the store shows.",
        hazard: "seed 7969 of `went-back`",
        scenario: "went-back",
        within: 20_000,
    },
    Mutant {
        name: "applied-not-told",
        file: "registry/src/core/member/lineage.rs",
        what: "Does not tell the elector what was applied, so that its loss is not noticed.",
        hazard: "outside testing; DESIGN 4 (a store that went back)",
        scenario: "went-back",
        within: 10_000,
    },
    Mutant {
        name: "reset-spares-later-rows",
        file: "registry/src/core/replica.rs",
        what: "A reset that is read again, after a loss, spares the rows of what was applied after it.",
        hazard: "seed 551 of `went-back`",
        scenario: "went-back",
        within: 10_000,
    },
];
