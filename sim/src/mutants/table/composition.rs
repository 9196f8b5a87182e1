//! Planted in the composition of a node: what one core says, and another does not hear.

use crate::mutants::{Mutant, table::mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("vacancy-kept-back", "registry/src/core/registry.rs")
        .does("Does not tell the member of a view in which nobody leads.")
        .found("draining", 1_000, "release 0.1 (what broke was in glue)"),
    mutant("loss-kept-back", "registry/src/core/registry.rs")
        .does("Does not tell the session that the store does not show what was committed.")
        .found("went-back", 1_000, "release 0.1 (what broke was in glue)"),
    mutant("nobody-is-confirmed", "registry/src/core/registry.rs")
        .does("Does not tell the links whose session is open.")
        .found("links", 20_000, "release 0.1 (what broke was in glue)"),
    mutant("resumed-without-elector", "registry/src/core/told.rs")
        .does("Tells the member that the session resumed, and not the elector.")
        .found("lapses", 1_000, "release 0.1 (what broke was in glue)"),
    mutant("session-closed-first", "registry/src/core/leaving.rs")
        .does("Closes the session of a node that leaves at once, before its registries have dropped their names.")
        .found("parting", 1_000, "DESIGN 3 (leaving in order)"),
    mutant("queue-not-awaited", "registry/src/core/leaving.rs")
        .does("Closes the session of a node that leaves before the queue says that its members have left.")
        .found("parting", 1_000, "DESIGN 3 (leaving in order)"),
    mutant("drains-not-awaited", "registry/src/core/leaving.rs")
        .does("Has the names of a node that leaves dropped before its registries have handed over.")
        .found("draining", 1_000, "DESIGN 3 (leaving in order)"),
    mutant("retry-lost", "registry/src/core/caller.rs")
        .does("Does not ask again for a client that waits for trust, when trust is back.")
        .found("callers", 1_000, "release 0.1 (the retry loop was in glue)"),
    mutant("trust-on-the-way-missed", "registry/src/core/caller.rs")
        .does("Lets a client wait for trust that came back while its refusal was on its way.")
        .found("callers", 5_000, "release 0.1 (the retry loop was in glue)"),
    mutant("granted-though-lapsed", "registry/src/core/caller.rs")
        .does("Tells a client of a grant whose session has lapsed on the way.")
        .found("callers", 1_000, "release 0.1 (granted but lapsed on the way)"),
    mutant("joiner-not-told", "registry/src/core/node.rs")
        .does("Does not tell a registry that is joined how the session is, only what becomes of it.")
        .found("joining", 1_000, "outside testing (a registry joined while the session is lapsed)"),
    mutant("lapse-not-passed-on", "registry/src/core/node.rs")
        .does("Does not tell the registries that the session lapsed, only what becomes of it.")
        .found("claims", 1_000, "DESIGN 3 (a session event not passed on)"),
    mutant("broken-session-not-closed", "registry/src/core/node.rs")
        .does("Tells the session that takes the place of a broken one to leave, and not what is open.")
        .found("failing", 1_000, "DESIGN 3 (no half node)"),
];
