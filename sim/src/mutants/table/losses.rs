//! A store that goes back behind what it acknowledged.

use crate::mutants::{Mutant, table::mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("leader-wants-what-was-lost", "registry/src/core/catchup.rs")
        .does("Leads, and does not count itself synced before it has what others told it of a log that was lost.")
        .found("traces/led-after-a-loss", 1, "DESIGN 4 (a store that went back)"),
    mutant("leads-what-another-won", "registry/src/core/member/seat.rs")
        .does("Leads on in an epoch that another node has won in a store that went back.")
        .found("traces/epoch-won-by-another", 1, "found by the simulator"),
    mutant("synced-in-a-lost-log", "elector/src/core/elector/act.rs")
        .does("Says that a member is synced that has the end of a log which was lost. If it must not lead, nobody can.")
        .found("traces/synced-in-a-lost-log", 1, "found by the simulator"),
    mutant("base-on-nothing-not-told", "registry/src/core/catchup.rs")
        .does("Has a base again after a loss, and does not look at what waits for the start of another.")
        .found("traces/awaited-across-a-loss", 1, "DESIGN 10 (start); DESIGN 4 (a store that went back)"),
    mutant("lost-nonce-not-compared", "elector/src/core/past.rs")
        .does("Takes a log that grew back to the same position for the one that was lost.")
        .found("traces/log-grew-back", 1, "outside testing; DESIGN 4 (a store that went back)"),
    mutant("no-wait-at-the-join", "elector/src/core/elector/lineage.rs")
        .does("Joins a registry of another lineage at once, while somebody may trust what was lost.")
        .found("went-back", 1_000, "outside testing; DESIGN 4 (a store that went back)"),
    mutant("raises-a-day-late", "elector/src/core/session/lineage.rs")
        .does("Raises the lineage although this node was not trusted for so long that nobody trusts what it knew.")
        .found("went-back", 1_000, "outside testing; DESIGN 4 (a store that went back)"),
    mutant("counted-across-lineages", "elector/src/core/lineage.rs")
        .does("Goes on counting from what the store shows, in another lineage too.")
        .found("went-back", 1_000, "outside testing; DESIGN 4 (a store that went back)"),
    mutant("raised-while-leaving", "elector/src/core/session/lineage.rs")
        .does("Opens another session when a raise is answered, though the node leaves meanwhile.")
        .found("went-back", 4_000, "seed 1550 of `went-back`"),
    mutant("doubts-while-leaving", "elector/src/core/session/lineage.rs")
        .does("Reads the store again and again while it leaves, because of what it missed there before, and closes nothing.")
        .found("went-back", 4_000, "seed 98007574 of `went-back`"),
    mutant("epoch-of-the-lost-log", "registry/src/core/replica.rs")
        .does("Takes nothing of an epoch below that of the log that was lost, though nobody raised the lineage.")
        .found("went-back", 20_000, "seed 7778 of `went-back`"),
    mutant("versions-kept", "elector/src/core/session/observe.rs")
        .does("Takes what it saw of others in the lost store for newer than what the store shows.")
        .found("went-back", 20_000, "seed 7969 of `went-back`"),
    mutant("applied-not-told", "registry/src/core/member/lineage.rs")
        .does("Does not tell the elector what was applied, so that its loss is not noticed.")
        .found("went-back", 10_000, "outside testing; DESIGN 4 (a store that went back)"),
    mutant("reset-spares-later-rows", "registry/src/core/replica/applying.rs")
        .does("A reset that is read again, after a loss, spares the rows of what was applied after it.")
        .found("went-back", 10_000, "seed 551 of `went-back`"),
    mutant("watch-goes-on-in-a-lost-log", "registry/src/core/watch/memory.rs")
        .does("Takes a reader's place in the changes of a log that was lost for one in the next log.")
        .found("went-back", 10_000, "DESIGN 10 (watch)"),
];
