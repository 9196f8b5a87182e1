//! Planted in drivers: what release 0.1 did, and what only whole nodes under seeds can see.

use crate::mutants::{Mutant, table::mutant};

const FEATURES: &str = "DESIGN 10, in drivers";
const OUTSIDE: &str = "release 0.1 (found from outside)";

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("refusal-takes-listeners", "registry/src/driver/actor/callers.rs")
        .does("Forgets the listeners of an actor when another name is refused to it.")
        .found("nodes", 2_000, OUTSIDE),
    mutant("release-takes-listeners", "registry/src/driver/actor/callers.rs")
        .does("Forgets the listeners of an actor when it gives up another name.")
        .found("nodes", 2_000, OUTSIDE),
    mutant("joined-while-lapsed", "registry/src/core/node.rs")
        .does("Tells a registry that is joined while the session is lapsed nothing of the session, then or later.")
        .found("nodes", 2_000, OUTSIDE),
    mutant("sent-by-bare-name", "registry/src/driver/actor/effects.rs")
        .does("Sends what the member asked for to whoever has the node's name by now.")
        .found("nodes", 2_000, "DESIGN 3 (each for the link and incarnation for which it was asked); seed 280"),
    mutant("half-a-node-goes-on", "store/src/driver/supervision.rs")
        .does("Lets a listener that panics end the member, and the rest of the node go on without it.")
        .found("nodes", 2_000, OUTSIDE),
    mutant("start-not-flagged", "registry/src/driver/actor/callers.rs")
        .does("Does not flag the claim of a start that is over, so that its check goes on passing.")
        .found("nodes", 2_000, FEATURES),
    mutant("moving-claim-not-flagged", "registry/src/driver/actor/callers.rs")
        .does("Does not flag the claim of a name that is on its way to another actor.")
        .found("nodes", 2_000, FEATURES),
    mutant("handed-over-data-lost", "registry/src/driver/take.rs")
        .does("Does not give whoever takes a name what its former holder handed over.")
        .found("nodes", 2_000, FEATURES),
    mutant("taker-is-told-nothing", "registry/src/driver/take.rs")
        .does("Forgets the listener of an actor that takes a name.")
        .found("nodes", 2_000, FEATURES),
    mutant("position-outlives-a-reset", "registry/src/driver/watch.rs")
        .does("Keeps the position of a watch across a reset, as if everything up to there had been given anew.")
        .found("nodes", 2_000, FEATURES),
    mutant("only-the-first-event-given", "registry/src/driver/actor/watching.rs")
        .does("Gives a reader only the first of the events that come together.")
        .found("nodes", 2_000, FEATURES),
    mutant("one-member-a-batch", "registry/src/driver/shared/groups.rs")
        .does("Lets readers see only one of the members that joined a group at the same position.")
        .found("nodes", 2_000, FEATURES),
    mutant("guard-of-who-waits", "registry/src/driver/semaphore.rs")
        .does("Takes a place in a semaphore for one that is held.")
        .found("nodes", 2_000, FEATURES),
    mutant("place-outlives-its-guard", "registry/src/driver/seat.rs")
        .does("Does not end the actor of a guard that is dropped, or of a caller that has stopped waiting.")
        .found("nodes", 2_000, FEATURES),
    mutant("receiver-is-handed-nothing", "registry/src/driver/receive.rs")
        .does("Does not give the receiver of a name what its former holder handed over.")
        .found("nodes", 2_000, FEATURES),
    mutant("of-no-use-and-kept", "registry/src/driver/receive.rs")
        .does("Keeps a name whose actor could not go on with what it was handed.")
        .found("nodes", 2_000, FEATURES),
];
