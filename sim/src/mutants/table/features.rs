//! Planted in what names can do beyond being held.

use crate::mutants::{Mutant, table::mutant};

const HAZARD: &str = "DESIGN 10 (metadata)";
const WATCH: &str = "DESIGN 10 (watch)";

const EXPLAIN: &str = "docs/names.md (explain)";

const START: &str = "DESIGN 10 (start if absent)";

const PERMITS: &str = "DESIGN 6 (what a node may register)";

const GROUPS: &str = "DESIGN 10 (groups, locks and semaphores)";

pub(super) const MUTANTS: &[Mutant] = &[
    mutant("update-not-in-row", "registry/src/core/leader/decide.rs")
        .does("Does not recognise an update that is asked for again by the request in the row, and decides it anew.")
        .found("standard", 30_000, HAZARD),
    mutant("update-of-any-revision", "registry/src/core/leader/decide.rs")
        .does("Updates a row whatever its revision is.")
        .found("standard", 5_000, HAZARD),
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
    mutant("starts-taken-for-one", "registry/src/core/leader/decide.rs")
        .does("Takes two starts of a name for the same one, because neither has an actor.")
        .found("standard", 20_000, START),
    mutant("bind-not-in-row", "registry/src/core/leader/decide.rs")
        .does("Does not recognise a bind that is asked for again by the request in the row, and refuses it.")
        .found("standard", 20_000, START),
    mutant("snapshot-without-state", "registry/src/core/message.rs")
        .does("Leaves out of a snapshot that an actor is being started.")
        .found("bulk", 20_000, START),
    mutant("start-outlives-lapse", "registry/src/core/host/session.rs")
        .does("Lets a start go on whose session lapsed.")
        .found("standard", 20_000, START),
    mutant("lapsed-start-not-flagged", "registry/src/core/host/starts.rs")
        .does("Gives up the name of a start that is over, and its check goes on passing.")
        .found("standard", 20_000, START),
    mutant("late-start-not-stopped", "registry/src/core/host/starts.rs")
        .does("Does not stop an actor that was started for a name which is lost.")
        .found("standard", 20_000, START),
    mutant("starting-taken-for-held", "registry/src/core/host/starts.rs")
        .does("Tells who waits for a start that it is held, while it is being started.")
        .found("standard", 20_000, START),
    mutant("started-not-watched", "registry/src/core/host/starts.rs")
        .does("Binds an actor that nobody watches.")
        .found("standard", 20_000, START),
    mutant("start-awaited-for-ever", "registry/src/core/host/starts.rs")
        .does("Does not tell who waits for a start that it has ended.")
        .found("standard", 20_000, START),
    mutant("start-awaited-of-the-dead", "registry/src/core/host/starts.rs")
        .does("Does not tell who waits for a start that its node is gone.")
        .found("standard", 20_000, START),
    mutant("bound-while-lapsed", "registry/src/core/host/starts.rs")
        .does("Binds what a start brought while the session is not trusted.")
        .found("standard", 20_000, START),
    mutant("limit-not-checked", "registry/src/core/leader/decide.rs")
        .does("Gives a place in a semaphore under another limit than the one in force.")
        .found("standard", 5_000, GROUPS),
    mutant("limit-of-the-dead", "registry/src/core/rows/groups.rs")
        .does("Refuses a place for the limit of those whose session is gone.")
        .found("failing", 40_000, GROUPS),
    mutant("own-limit-refused", "registry/src/core/rows/groups.rs")
        .does("Refuses a place in a semaphore that has the limit which is asked for.")
        .found("standard", 1_000, GROUPS),
    mutant("two-places-in-a-batch", "registry/src/core/leader/batches.rs")
        .does("Gives two places of a semaphore one position, and so one token.")
        .found("standard", 5_000, GROUPS),
    mutant("everybody-holds", "registry/src/core/host/groups.rs")
        .does("Tells whoever has a place in a semaphore that it holds.")
        .found("standard", 1_000, GROUPS),
    mutant("freed-place-not-seen", "registry/src/core/replica/applying.rs")
        .does("Does not tell who is first now that somebody has left a semaphore.")
        .found("standard", 5_000, GROUPS),
    mutant("place-of-the-dead-not-seen", "registry/src/core/host/starts.rs")
        .does("Does not tell who is first now that the node of somebody in a semaphore is gone.")
        .found("standard", 5_000, GROUPS),
    mutant("any-membership-left", "registry/src/core/host/calls.rs")
        .does("Leaves a group by a token of another membership than the present one.")
        .found("standard", 20_000, GROUPS),
    mutant("snapshot-without-request", "registry/src/core/message.rs")
        .does("Leaves out of a snapshot which request a row is of, so that members of one batch have no order.")
        .found("bulk", 20_000, GROUPS),
    mutant("membership-outlives-its-actor", "registry/src/core/host/duties.rs")
        .does("Does not give up the memberships of an actor that has ended.")
        .found("standard", 1_000, GROUPS),
    Mutant {
        name: "watch-passes-what-is-swept",
        file: "registry/src/core/watch/memory.rs",
        what: "Gives the next position though names of a session that is gone are still to be swept.",
        hazard: WATCH,
        scenario: "standard",
        within: 1_000,
    },
    Mutant {
        name: "watch-misses-what-is-taken-again",
        file: "registry/src/core/rows.rs",
        what: "Gives no end of a registration whose session is gone, if somebody else has the name before it is swept.",
        hazard: WATCH,
        scenario: "standard",
        within: 5_000,
    },
    Mutant {
        name: "watch-goes-on-over-a-gap",
        file: "registry/src/core/watch/memory.rs",
        what: "Goes on as before behind a reset and behind a snapshot.",
        hazard: WATCH,
        scenario: "snapshots",
        within: 5_000,
    },
    Mutant {
        name: "watch-sees-only-what-it-is-now",
        file: "registry/src/core/watch/watcher.rs",
        what: "Gives a change only if it meets the filter after it.",
        hazard: WATCH,
        scenario: "standard",
        within: 200,
    },
    Mutant {
        name: "watch-lags-in-silence",
        file: "registry/src/core/watch/watcher.rs",
        what: "Does not say that a reader has missed something.",
        hazard: WATCH,
        scenario: "standard",
        within: 200,
    },
    Mutant {
        name: "watch-forgets-what-was-missed",
        file: "registry/src/core/watch/watcher.rs",
        what: "Does not keep what a slow reader has missed.",
        hazard: WATCH,
        scenario: "standard",
        within: 200,
    },
    Mutant {
        name: "watch-walks-ahead",
        file: "registry/src/core/watch/watcher.rs",
        what: "Gives the present state though older changes are still to be given.",
        hazard: WATCH,
        scenario: "standard",
        within: 1_000,
    },
    Mutant {
        name: "watch-passes-before-it-is-current",
        file: "registry/src/core/watch/watcher.rs",
        what: "Says that all was given up to a position, before the present state is complete.",
        hazard: WATCH,
        scenario: "standard",
        within: 1_000,
    },
    Mutant {
        name: "watch-after-the-answer",
        file: "registry/src/core/member/turns.rs",
        what: "Answers whoever waits for a change before it gives it to those who watch.",
        hazard: WATCH,
        scenario: "standard",
        within: 500,
    },
    mutant("explains-over-a-gap", "registry/src/core/replica/past.rs")
        .does("Remembers over a reset and over a snapshot what has ended, as if it had missed nothing.")
        .found("snapshots", 5_000, EXPLAIN),
    mutant("explains-nothing-swept", "registry/src/core/replica/past.rs")
        .does("Remembers no end of a registration whose session is gone.")
        .found("standard", 1_000, EXPLAIN),
    mutant("snapshot-taken-for-a-reset", "registry/src/core/replica/past.rs")
        .does("Says that nobody has ever held a name of which it does not remember anything.")
        .found("snapshots", 1_000, EXPLAIN),
    mutant("permits-once-a-batch", "registry/src/core/leader/decide.rs")
        .does("Looks for the first grant of a batch whether its session may hold the name, and for no other.")
        .found("permitted", 5_000, PERMITS),
    mutant("permits-of-the-leader", "registry/src/core/permitted.rs")
        .does("Goes by the leader's own certificate in place of that of the node that will hold the name.")
        .found("permitted", 5_000, PERMITS),
    mutant("permits-before-the-row", "registry/src/core/leader/decide.rs")
        .does("Refuses what was granted before, when it is asked again by a node that may not hold it any more.")
        .found("permitted", 50_000, PERMITS),
    mutant("memberships-not-checked", "registry/src/core/permitted.rs")
        .does("Lets everybody join each group, and have places in each semaphore.")
        .found("permitted", 5_000, PERMITS),
    mutant("first-permits-kept", "registry/src/core/permitted.rs")
        .does("Goes by the first certificate that a node has shown, whatever it shows later.")
        .found("permitted", 5_000, PERMITS),
    mutant("own-bar-ignored", "elector/src/core/elector/barred.rs")
        .does("Takes the seat, and says in its row that it may, though its certificate says that it must not lead.")
        .found("permitted", 5_000, PERMITS),
    mutant("bar-not-said-anew", "elector/src/core/elector.rs")
        .does("Does not join again when its certificate says from now on that it must not lead, so that it keeps the seat.")
        .found("permitted", 5_000, PERMITS),
];
