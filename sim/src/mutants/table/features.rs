//! Planted in what names can do beyond being held.

use crate::mutants::Mutant;

const HAZARD: &str = "DESIGN 10 (metadata)";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "update-not-in-row",
        file: "registry/src/core/leader/decide.rs",
        what: "Does not recognise an update that is asked for again by the request in the row, and decides it anew.",
        hazard: HAZARD,
        scenario: "standard",
        within: 5_000,
    },
    Mutant {
        name: "update-of-any-revision",
        file: "registry/src/core/leader/decide.rs",
        what: "Updates a row whatever its revision is.",
        hazard: HAZARD,
        scenario: "standard",
        within: 5_000,
    },
    Mutant {
        name: "orphan-of-an-update-kept",
        file: "registry/src/core/host/verdicts.rs",
        what: "Does not give up the name of an actor that ended while its update was undecided.",
        hazard: HAZARD,
        scenario: "standard",
        within: 20_000,
    },
    Mutant {
        name: "snapshot-without-metadata",
        file: "registry/src/core/message.rs",
        what: "Leaves the metadata out of a snapshot.",
        hazard: HAZARD,
        scenario: "bulk",
        within: 5_000,
    },
    Mutant {
        name: "revision-of-the-snapshot-lost",
        file: "registry/src/core/message.rs",
        what: "Leaves the position of the last change out of a snapshot.",
        hazard: HAZARD,
        scenario: "bulk",
        within: 5_000,
    },
];
