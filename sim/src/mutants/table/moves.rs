//! Planted in how a name goes from one actor to another.

use crate::mutants::{Mutant, table::mutant};

const TRANSFER: &str = "DESIGN 10 (transfer)";

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("consent-without-flag", "registry/src/core/host/gives.rs")
        .does("Consents to give a name away, and lets its actor act on it meanwhile.")
        .found("standard", 2_000, TRANSFER),
    mutant("flag-taken-back-by-time", "registry/src/core/host/gives.rs")
        .does("Takes the flag back when the leader was asked and has not answered for long.")
        .found("standard", 20_000, TRANSFER),
    mutant("flag-taken-back-by-new-leader", "registry/src/core/host/gives.rs")
        .does("Takes the flag back when another leader begins, as if that had nothing undecided.")
        .found("leaders", 20_000, TRANSFER),
    mutant("leader-asked-before-the-taker-has-it", "registry/src/core/host/gives.rs")
        .does("Asks the leader before the taker has said that it has the data.")
        .found("standard", 2_000, TRANSFER),
    mutant("kept-and-still-flagged", "registry/src/core/host/gives.rs")
        .does("Does not take the flag back when the leader says that the name stays.")
        .found("permitted", 5_000, TRANSFER),
    mutant("transfer-to-the-closed", "registry/src/core/leader/takers.rs")
        .does("Gives a name to a session that was read closed.")
        .found("lapses", 50_000, TRANSFER),
    mutant("closed-taker-kept", "registry/src/core/leader/takers.rs")
        .does("Does not see that a session which was open to takers has been closed.")
        .found("lapses", 50_000, TRANSFER),
    mutant("take-ignores-permits", "registry/src/core/host/gives.rs, registry/src/core/leader/takers.rs")
        .does("Gives a name to a node whose certificate does not let it hold that.")
        .found("permitted", 5_000, TRANSFER),
    mutant("unread-taker-not-read", "registry/src/core/leader/requests.rs")
        .does("Waits for the session of a taker to be read, and does not have it read.")
        .found("parting", 2_000, TRANSFER),
    mutant("transfer-frees-the-name", "registry/src/core/replica/applying.rs")
        .does("Frees the name when it goes to another actor.")
        .found("standard", 2_000, TRANSFER),
    mutant("transfer-drops-metadata", "registry/src/core/replica/applying.rs")
        .does("Loses the metadata of a name that goes to another actor.")
        .found("standard", 20_000, TRANSFER),
    mutant("take-waits-for-ever", "registry/src/core/host/takes.rs")
        .does("Does not tell who takes a name that its registration is over.")
        .found("standard", 20_000, TRANSFER),
    mutant("end-of-what-is-taken-missed", "registry/src/core/host/takes.rs")
        .does("Does not see in the log that what is to be taken has ended.")
        .found("standard", 20_000, TRANSFER),
    mutant("taken-from-the-dead-missed", "registry/src/core/host/starts.rs")
        .does("Does not look at what is to be taken when the names of a session are gone.")
        .found("standard", 20_000, TRANSFER),
    mutant("takes-without-a-base", "registry/src/core/host/verdicts.rs")
        .does("Lets a member take names that is not synced.")
        .found("parting", 20_000, TRANSFER),
    mutant("data-of-a-taker-not-kept", "registry/src/core/host/takes.rs")
        .does("Says that it has the data that go with a name, and has not kept them.")
        .found("standard", 2_000, TRANSFER),
    mutant("drained-before-names-moved", "registry/src/core/member/leaving.rs")
        .does("Says that it has drained while names that it has offered are yet to be asked for.")
        .found("moving", 2_000, TRANSFER),
    mutant("offer-told-of-any-move", "registry/src/core/host/offers.rs")
        .does("Says that a name went to the node that it was offered to, though another one has taken it.")
        .found("moving", 2_000, TRANSFER),
    mutant("found-there-taken-for-moved", "registry/src/core/host/offers.rs")
        .does("Says that a name moved because the node that it was offered to has it, which registered it when it was free.")
        .found("moving", 20_000, TRANSFER),
    mutant("unknown-move-taken-for-none", "registry/src/core/host/offers.rs")
        .does("Says that a name did not move, though the leader was asked to give it away and has not been heard.")
        .found("moving", 5_000, TRANSFER),
    mutant("speaks-after-it-left", "registry/src/core/member.rs")
        .does("Takes its session up again after it left, and says of names what it does not know any more.")
        .found("traces/refused-by-who-has-left", 1, TRANSFER),
];
