//! Links between nodes.

use crate::mutants::{Mutant, table::mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("old-link-preferred", "transport/src/core/links.rs")
        .does("Refuses a new incarnation of a node while the link to the former one is up.")
        .found("links", 1_000, "roadmap; election 4.1 A1"),
    mutant("superseded-incarnation-returns", "transport/src/core/links.rs")
        .does("Lets an incarnation link up again that gave way to a newer one.")
        .found("links", 1_000, "election 4.1 Z (CURATOR-696)"),
    mutant("former-link-kept", "transport/src/core/links.rs")
        .does("Takes a new link to a node up without taking the former one down.")
        .found("clocks", 1_000, "ractor_cluster; style B6 (network)"),
];
