//! The planted defects: where they are, what somebody got wrong, and how soon the simulator must find out.

use std::sync::LazyLock;

use super::{Masked, Mutant};

mod composition;
mod duties;
mod elections;
mod features;
mod links;
mod losses;
mod members;
mod moves;
mod nodes;
mod references;
mod registry;

pub use self::references::FOUND_TOO;

/// All of them, by where they are.
pub static MUTANTS: LazyLock<Vec<Mutant>> = LazyLock::new(|| {
    [
        members::MUTANTS,
        duties::MUTANTS,
        registry::MUTANTS,
        losses::MUTANTS,
        links::MUTANTS,
        elections::MUTANTS,
        composition::MUTANTS,
        nodes::MUTANTS,
        features::MUTANTS,
        moves::MUTANTS,
        references::MUTANTS,
    ]
    .concat()
});

/// A defect, and the files that it is in, separated by `, `, from the root of the workspace.
const fn mutant(name: &'static str, file: &'static str) -> Mutant {
    Mutant { name, file, what: "", hazard: "", scenario: "", within: 0 }
}

impl Mutant {
    const fn does(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    /// The scenario or the pinned trace that finds it, within how many seeds, and where it comes from.
    const fn found(self, scenario: &'static str, within: u64, hazard: &'static str) -> Self {
        Self { hazard, scenario, within, ..self }
    }
}

/// Defects without effect, since something else stands in their way.
pub const MASKED: &[Masked] = &[
    Masked {
        name: "orphan-of-an-update-kept",
        file: "registry/src/core/host/verdicts.rs",
        what: "Does not give up the name of an actor that ended while its update was undecided.",
        by: "The comparison with the log: a name that the log gives to the node, and that no claim has, is given up some seconds later. A test \
             of `undecided` sees it.",
    },
    Masked {
        name: "orphan-of-a-take-kept",
        file: "registry/src/core/host/takes.rs",
        what: "Keeps a name that came to an actor which has ended.",
        by: "The comparison with the log, in the same way. A test of `takes` sees it.",
    },
    Masked {
        name: "orphan-of-a-transfer-kept",
        file: "registry/src/core/host/gives.rs",
        what: "Keeps a name that went to another actor of the same node, which ended before the verdict came.",
        by: "The comparison with the log, in the same way. A test of `gives` sees it.",
    },
    Masked {
        name: "orphan-of-a-start-kept",
        file: "registry/src/core/host/starts.rs",
        what: "Does not give up the name of an actor that ended while it was being bound.",
        by: "The comparison with the log, in the same way. A test of `starts` sees it.",
    },
    Masked {
        name: "gone-taken-for-kept",
        file: "registry/src/core/leader/takers.rs",
        what: "Says that a name stays where it is, though its registration is over.",
        by: "The log: a host hears a verdict once its replica is where it was decided, and there the entry that ended the registration has \
             ended the claim. No flag is left to be taken back. A test of `takers` sees it.",
    },
    Masked {
        name: "transfer-not-in-row",
        file: "registry/src/core/leader/takers.rs",
        what: "Does not recognise a transfer that is asked for again by the request in the row, and says that the registration is gone.",
        by: "The log, in the same way: the entry that moved the name has ended the claim of its former holder, and has told the new one. A \
             test of `takers` sees it.",
    },
    Masked {
        name: "former-link-down-taken",
        file: "registry/src/core/member/links.rs",
        what: "Takes the end of a link to a former incarnation for the end of the link to the present one.",
        by: "The core of links, which takes the former link down before it says that the next one is up, and the queue \
             that keeps this order. A test of `links` sees it.",
    },
    Masked {
        name: "silent-target-waited-for",
        file: "registry/src/core/host/offers.rs",
        what: "Waits for a node that does not answer an offer, and offers the name to no other.",
        by: "The time of the drain: it ends, and the name is freed as ever. A test of `offers`, and one of whole nodes, see it.",
    },
    Masked {
        name: "leader-not-observed",
        file: "registry/src/core/member/duty.rs",
        what: "Observes nobody while it rests, not even the leader.",
        by: "Silence: a leader that dies is not heard, so that it is accused and loses the seat. Its successor observes all, and closes its              session. That takes longer. A test of `duty` sees it.",
    },
    Masked {
        name: "rests-for-ever",
        file: "registry/src/core/member/duty.rs",
        what: "Rests on, whether or not it hears the leader.",
        by: "The leader's session, which all observe: when it is closed, nobody leads, and nobody rests; and the next leader observes all. A test              of `duty` sees it.",
    },
    Masked {
        name: "rests-while-something-waits",
        file: "elector/src/core/elector/resting.rs",
        what: "Looks at little also while an entry waits, a lock is held or nobody leads.",
        by: "The leader and its observers, which read everything; and what a member itself is about to do, which it does only by what it has              read anew. A test of `resting` sees it.",
    },
    Masked {
        name: "waits-for-a-delta-for-ever",
        file: "elector/src/core/elector/resting.rs",
        what: "Waits for ever to be told what came of a change.",
        by: "What is read once a minute, whatever was told. A test of `deltas` sees it.",
    },
    Masked {
        name: "glance-sees-no-change",
        file: "elector/src/core/elector/resting.rs",
        what: "Goes by what it read before, although a record has changed that says that more may have changed.",
        by: "Messages: a leader of an epoch that a member has not read has it read everything. Members that came it learns of within a minute.              A test of `resting` sees it.",
    },
    Masked {
        name: "any-decline-passes-over",
        file: "registry/src/core/host/offers.rs",
        what: "Takes what a node says of one offer for an answer to another one.",
        by: "The consent: a name that is offered to one node too many goes to whichever asks first, and the other is refused. A test of \
             `offers` sees it.",
    },
    Masked {
        name: "passed-over-on-its-way",
        file: "registry/src/core/host/offers.rs",
        what: "Offers a name to another node while it is on its way to the first one.",
        by: "The consent, in the same way: there is one at a time. A test of `offers` sees it.",
    },
    Masked {
        name: "update-of-any-token",
        file: "registry/src/core/leader/decide.rs",
        what: "Updates a row whoever holds the name by now.",
        by: "The one undecided request: a host asks nothing else of a name while an update is undecided, so that its own registration \
             ends behind it; and the requests of a session that was closed are dropped. A test of `decide` sees it.",
    },
    Masked {
        name: "failed-read-taken-for-empty",
        file: "registry/src/core/handoff.rs",
        what: "Takes a read of `commit` that failed for a registry that was never opened.",
        by: "The fence: the opening batch checks that `commit` is as it was read, and an absent `commit` conflicts with that of a registry that \
             was ever opened. The batch meets a conflict, and the handoff reads again.",
    },
    Masked {
        name: "accuser-check-off",
        file: "elector/src/core/state.rs",
        what: "Counts what a member says that has left, or joined again, since it said it.",
        by: "The epoch: an author's entries are applied in its own order, enqueueing checks that its session is open, and what is \
             applied out of turn, under a lock, ends the epoch of what it overtakes. So an author that is a member no more, or \
             anew, spoke in an epoch that is over.",
    },
    Masked {
        name: "reset-unconditional",
        file: "registry/src/core/member/seat.rs",
        what: "Writes a `Reset` without checking again that nobody has a base.",
        by: "The lock: until it is given up no row changes without a new term, which the batch checks. Who joins after that has no \
             names: it lost its row by leaving, which drops its claims first, or by the end of its session.",
    },
    Masked {
        name: "reset-without-the-absent",
        file: "registry/src/core/handoff.rs",
        what: "Writes a `Reset` without checking that nobody has become a member who was none in the view.",
        by: "As above: such a member has a base, and no names in it. One seed of 180 000 of the world `large` shows the base \
             (trace `reset-passes-a-joiner`).",
    },
    Masked {
        name: "anybody-configures",
        file: "elector/src/core/state.rs",
        what: "Sets what a node asked for that has left, or joined again, since.",
        by: "The order of the queue: enqueueing checks that the author's session is open, so what ends its membership comes behind, and \
             nothing passes an entry that sets something. A test of `state` sees it.",
    },
    Masked {
        name: "settings-not-checked",
        file: "elector/src/core/elector/plan.rs",
        what: "Commits what was decided by settings that have been changed since.",
        by: "The queue and the term: settings change only with an entry, which is taken in its turn, and what was decided of a vacant seat \
             checks the term, which changes when `ranked` is set and somebody is eligible. Tests of the elector see it.",
    },
];
