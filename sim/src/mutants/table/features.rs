//! Planted in what names can do beyond being held.

use crate::mutants::{Mutant, table::mutant};

const HAZARD: &str = "DESIGN 10 (metadata)";

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("update-not-in-row", "registry/src/core/leader/decide.rs")
        .does("Does not recognise an update that is asked for again by the request in the row, and decides it anew.")
        .found("standard", 5_000, HAZARD),
    mutant("update-of-any-revision", "registry/src/core/leader/decide.rs")
        .does("Updates a row whatever its revision is.")
        .found("standard", 5_000, HAZARD),
    mutant("orphan-of-an-update-kept", "registry/src/core/host/verdicts.rs")
        .does("Does not give up the name of an actor that ended while its update was undecided.")
        .found("standard", 20_000, HAZARD),
    mutant("snapshot-without-metadata", "registry/src/core/message.rs")
        .does("Leaves the metadata out of a snapshot.")
        .found("bulk", 5_000, HAZARD),
    Mutant {
        name: "revision-of-the-snapshot-lost",
        file: "registry/src/core/message.rs",
        what: "Leaves the position of the last change out of a snapshot.",
        hazard: HAZARD,
        scenario: "bulk",
        within: 5_000,
    },
];
