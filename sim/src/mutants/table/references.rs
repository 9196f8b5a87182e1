//! References to actors of other nodes.

use crate::mutants::{Mutant, table::mutant};

const DESIGN: &str = "design (a remote reference ends when its actor ends)";

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("unmonitored-for-all", "transport/src/core/ends.rs")
        .does(
            "Monitors an actor no more when one of several links over which its end is to be told goes down.",
        )
        .found("references", 1_000, DESIGN),
    mutant("asked-of-a-link-that-is-down", "transport/src/core/ends.rs")
        .does("Keeps what was asked over a link that is down.")
        .found("references", 1_000, DESIGN),
    mutant("watches-without-bound", "transport/src/core/ends.rs")
        .does("Has as many actors watched for a peer as it asks for.")
        .found("references", 1_000, DESIGN),
    mutant("one-peer-is-told", "transport/src/core/ends.rs")
        .does("Tells one peer of the end of an actor, and no other.")
        .found("references", 1_000, DESIGN),
    mutant("references-without-bound", "transport/src/core/held.rs")
        .does("Makes as many references as are asked for.")
        .found("references", 1_000, DESIGN),
    mutant("end-not-asked-for", "transport/src/core/held.rs")
        .does("Makes a reference, and does not ask to be told of the actor's end.")
        .found("references", 1_000, DESIGN),
    mutant("refusal-taken-for-an-end", "transport/src/core/held.rs")
        .does("Takes an actor whose node will not tell of its end for one that has ended.")
        .found("references", 1_000, DESIGN),
    mutant("end-not-remembered", "transport/src/core/held.rs")
        .does("Makes a reference again to an actor that is known to have ended.")
        .found("references", 1_000, DESIGN),
    mutant("link-down-unheard", "transport/src/core/ends.rs")
        .does("Goes on to tell of ends over a link that is down.")
        .found("links", 1_000, DESIGN),
    mutant("references-outlive-link", "transport/src/core/held.rs")
        .does("Keeps the references over a link that is down, which led to an incarnation that may be gone.")
        .found("links", 1_000, DESIGN),
    mutant("ends-again-with-its-link", "transport/src/core/held.rs")
        .does("Ends a reference with its actor, and once more with its link.")
        .found("standard", 1_000, DESIGN),
];

/// Of these, the ones that the world of whole clusters must find, too: the scenario, and within how many seeds.
pub const FOUND_TOO: &[(&str, &str, u64)] = &[
    ("one-peer-is-told", "standard", 3_000),
    ("end-not-asked-for", "standard", 1_000),
    ("end-not-remembered", "standard", 3_000),
    ("watches-without-bound", "bulk", 1_000),
];
